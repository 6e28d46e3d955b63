//! Good histories with one thing changed.

use std::collections::{BTreeMap, BTreeSet};

use solera_checker::speculative::{
    History, OperationId, Outcome, Reply, ReplyKind, Strength, Value,
};

use crate::generated::{kinds, seeds};
use crate::random::Random;
use crate::space::simulate;

/// Changes one thing. Returns a description of it, or `None` if the history has no such thing.
type Mutation = fn(&mut History, &mut Random) -> Option<String>;

/// Mutations, each with the kinds of violations of which it causes one (any kind if there are
/// none), and the least share in percent in which it is found.
///
/// Those that are not found leave a possible history. A tentative operation may have arrived later,
/// or two may be in no other order. A read that was not broadcast may be missing. A report may be
/// shorter, or the only one of its length.
const MUTATIONS: &[(&str, Mutation, &[&str], usize)] = &[
    ("result changed", change_result, &["wrong result", "wrong stable result"], 100),
    ("results exchanged", exchange_results, &["wrong result", "wrong stable result"], 100),
    ("tentative exchanged", exchange_tentative, &[], 85),
    ("tentative dropped", drop_tentative, &[], 60),
    ("tentative added", add_tentative, &[], 85),
    ("tentative repeated", repeat_tentative, &["twice"], 100),
    ("fewer committed", fewer_committed, &[], 55),
    ("more committed", more_committed, &[], 85),
    ("final exchanged", exchange_final, &[], 80),
    ("final moved", move_final, &[], 95),
    ("final dropped", drop_final, &[], 90),
    ("final repeated", repeat_final, &["twice"], 100),
    ("operation dropped", drop_operation, &["never invoked"], 75),
    ("report exchanged", exchange_report, &["no prefix"], 100),
    ("report dropped", drop_report, &["no prefix", "behind", "digests differ"], 65),
    ("digest changed", change_digest, &["digests differ"], 60),
    ("strong exchanged", exchange_strong, &[], 100),
];

#[test]
fn changed_histories_are_found() {
    for reports in [true, false] {
        changed_histories_are_found_with(reports);
    }
}

fn changed_histories_are_found_with(reports: bool) {
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut causes: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    let verbose = std::env::var("MISSED").unwrap_or_default();
    for seed in seeds(0..20) {
        let mut good = simulate(seed, 500, None);
        if !reports {
            good.reports.clear();
        }
        for (place, (name, mutate, expected, _)) in MUTATIONS.iter().enumerate() {
            for round in 0..5 {
                let mut random = Random(seed * 1000 + place as u64 * 10 + round);
                let mut bad = good.clone();
                let Some(description) = mutate(&mut bad, &mut random) else { continue };
                if bad == good {
                    continue;
                }
                let kinds = kinds(&bad);
                let counts = found.entry(name).or_default();
                counts.1 += 1;
                if kinds.is_empty() && verbose == *name {
                    println!("missed, seed {seed}, reports {reports}: {description}");
                }
                counts.0 += usize::from(!kinds.is_empty());
                let is_expected =
                    expected.is_empty() || expected.iter().any(|it| kinds.contains(*it));
                assert!(kinds.is_empty() || is_expected, "{name}, seed {seed}: {kinds:?}");
                for kind in kinds {
                    *causes.entry(name).or_default().entry(kind).or_default() += 1;
                }
            }
        }
    }
    for (name, _, _, share) in MUTATIONS {
        let Some((found, all)) = found.get(name) else { continue };
        println!("{reports} {name}: {found} of {all}: {:?}", causes.get(name));
        assert!(found * 100 >= share * all, "{name}: {found} of {all}");
    }
}

#[test]
fn damaged_histories_are_judged_without_a_panic() {
    for seed in seeds(0..20) {
        let mut random = Random(seed);
        let mut history = simulate(seed, 300, None);
        for _ in 0..200 {
            let (_, mutate, _, _) = MUTATIONS[random.below(MUTATIONS.len())];
            mutate(&mut history, &mut random);
        }
        if let Some((_, reply)) = reply(&mut history, &mut random, |_| true) {
            (reply.order.committed, reply.at) = (usize::MAX, 0);
        }
        assert!(!kinds(&history).is_empty());
    }
}

/// Returns a random reply of those that satisfy a condition.
fn reply<'h>(
    history: &'h mut History,
    random: &mut Random,
    condition: impl Fn(&Reply) -> bool,
) -> Option<(String, &'h mut Reply)> {
    let replies = history.operations.iter_mut().flat_map(|operation| {
        let name = format!("{:?} at {}", operation.origin, operation.invoked);
        operation.replies.iter_mut().map(move |reply| (name.clone(), reply))
    });
    let mut replies: Vec<_> = replies.filter(|(_, reply)| condition(reply)).collect();
    let at = (!replies.is_empty()).then(|| random.below(replies.len()))?;
    Some(replies.swap_remove(at))
}

fn change_result(history: &mut History, random: &mut Random) -> Option<String> {
    let (name, reply) = reply(history, random, |_| true)?;
    reply.result = match &reply.result {
        Outcome::Value(Some(Value::Int(number))) => Outcome::Value(Some(Value::Int(number + 1))),
        Outcome::Value(Some(Value::List(list))) if !list.is_empty() => {
            Outcome::Value(Some(Value::List(list[1..].to_vec())))
        }
        _ => Outcome::Value(Some(Value::Int(77))),
    };
    Some(name)
}

fn exchange_results(history: &mut History, random: &mut Random) -> Option<String> {
    let (name, first) = reply(history, random, |_| true)?;
    let result = first.result.clone();
    let (_, second) = reply(history, random, |_| true)?;
    second.result = result;
    Some(name)
}

fn exchange_tentative(history: &mut History, random: &mut Random) -> Option<String> {
    let (name, reply) = reply(history, random, |reply| reply.order.tentative.len() > 1)?;
    let at = random.below(reply.order.tentative.len() - 1);
    reply.order.tentative.swap(at, at + 1);
    Some(format!("{name}: {:?}", &reply.order.tentative[at..at + 2]))
}

fn drop_tentative(history: &mut History, random: &mut Random) -> Option<String> {
    let (name, reply) = reply(history, random, |reply| !reply.order.tentative.is_empty())?;
    let at = random.below(reply.order.tentative.len());
    let id = reply.order.tentative.remove(at);
    Some(format!("{name}: {id}"))
}

fn add_tentative(history: &mut History, random: &mut Random) -> Option<String> {
    let ids: Vec<OperationId> = history.operations.iter().filter_map(|it| it.id()).collect();
    let id = ids[random.below(ids.len())];
    let (name, reply) = reply(history, random, |reply| !reply.order.tentative.contains(&id))?;
    reply.order.tentative.push(id);
    Some(format!("{name}: {id}"))
}

fn repeat_tentative(history: &mut History, random: &mut Random) -> Option<String> {
    let (name, reply) = reply(history, random, |reply| !reply.order.tentative.is_empty())?;
    let id = reply.order.tentative[random.below(reply.order.tentative.len())];
    let at = random.below(reply.order.tentative.len());
    reply.order.tentative.insert(at, id);
    Some(name)
}

fn fewer_committed(history: &mut History, random: &mut Random) -> Option<String> {
    let (name, reply) = reply(history, random, |reply| reply.order.committed > 0)?;
    reply.order.committed -= 1;
    Some(format!("{name}: {}", reply.order.committed))
}

fn more_committed(history: &mut History, random: &mut Random) -> Option<String> {
    let (name, reply) = reply(history, random, |_| true)?;
    reply.order.committed += 1;
    Some(format!("{name}: {}", reply.order.committed))
}

fn exchange_final(history: &mut History, random: &mut Random) -> Option<String> {
    let at = random.below(history.order.len().checked_sub(1).filter(|it| *it > 0)?);
    history.order.swap(at, at + 1);
    Some(format!("{:?}", &history.order[at..at + 2]))
}

fn move_final(history: &mut History, random: &mut Random) -> Option<String> {
    let count = Some(history.order.len()).filter(|it| *it > 1)?;
    let id = history.order.remove(random.below(count));
    let to = random.below(count - 1);
    history.order.insert(to, id);
    Some(format!("{id} to {to}"))
}

fn drop_final(history: &mut History, random: &mut Random) -> Option<String> {
    let at = random.below(Some(history.order.len()).filter(|it| *it > 0)?);
    Some(format!("{}", history.order.remove(at)))
}

fn repeat_final(history: &mut History, random: &mut Random) -> Option<String> {
    let count = Some(history.order.len()).filter(|it| *it > 0)?;
    let id = history.order[random.below(count)];
    history.order.insert(random.below(count), id);
    Some(format!("{id}"))
}

fn drop_operation(history: &mut History, random: &mut Random) -> Option<String> {
    let at = random.below(history.operations.len());
    Some(format!("{:?}", history.operations.remove(at).origin))
}

fn exchange_report(history: &mut History, random: &mut Random) -> Option<String> {
    let mut reports: Vec<_> =
        history.reports.iter_mut().filter(|it| it.operations.len() > 1).collect();
    let at = (!reports.is_empty()).then(|| random.below(reports.len()))?;
    let operations = &mut reports[at].operations;
    let at = random.below(operations.len() - 1);
    operations.swap(at, at + 1);
    Some(String::new())
}

fn drop_report(history: &mut History, random: &mut Random) -> Option<String> {
    let mut reports: Vec<_> =
        history.reports.iter_mut().filter(|it| !it.operations.is_empty()).collect();
    let at = (!reports.is_empty()).then(|| random.below(reports.len()))?;
    let operations = &mut reports[at].operations;
    operations.remove(random.below(operations.len()));
    Some(format!("{:?}", reports[at]))
}

fn change_digest(history: &mut History, random: &mut Random) -> Option<String> {
    let at = (!history.reports.is_empty()).then(|| random.below(history.reports.len()))?;
    history.reports[at].digest = Some(5);
    Some(format!("{:?}", history.reports[at]))
}

/// Exchanges two strong operations of the final order, of which one was answered before the other
/// was invoked.
fn exchange_strong(history: &mut History, random: &mut Random) -> Option<String> {
    let strong: BTreeSet<usize> = (0..history.operations.len())
        .filter(|at| history.operations[*at].strength == Strength::Strong)
        .collect();
    let at = *strong.iter().nth(random.below(strong.len()))?;
    let reply = history.operations[at].replies.iter().find(|it| it.kind == ReplyKind::Stable)?;
    let after = reply.at;
    let other = strong.iter().copied().find(|it| history.operations[*it].invoked > after)?;
    let (first, second) = (history.operations[at].id()?, history.operations[other].id()?);
    for id in &mut history.order {
        *id = if *id == first {
            second
        } else if *id == second {
            first
        } else {
            *id
        };
    }
    Some(format!("{first} {second}"))
}
