//! Random histories of a store with a single copy pass; a changed answer in one is caught.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use solera_checker::{
    Answer, FinalRead, History, Op, Operation, Status, Transaction, Violation, Witness, blackbox,
    check,
};

const SITES: usize = 3;

/// A value of the single copy, which knows nothing of dots, snapshots and merging.
#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Set(BTreeSet<String>),
    Hash(BTreeMap<String, String>),
}

type Store = BTreeMap<String, Value>;

fn int(count: usize) -> Answer {
    Answer::Int(count as i64)
}

fn number(text: Option<&String>) -> Option<i64> {
    text.map_or(Some(0), |text| text.parse().ok())
}

fn execute(store: &mut Store, key: &str, op: &Op) -> Answer {
    let answer = match op {
        Op::Set(value) => {
            store.insert(key.into(), Value::Text(value.clone()));
            Answer::Ok
        }
        Op::Delete => int(store.remove(key).iter().len()),
        Op::Exists => int(store.get(key).iter().len()),
        Op::Get | Op::Add(_) => on_text(store, key, op),
        Op::SetAdd(_) | Op::SetRemove(_) | Op::Members | Op::Contains(_) | Op::Len => {
            let empty = Value::Set(BTreeSet::new());
            match store.entry(key.into()).or_insert(empty) {
                Value::Set(set) => on_set(set, op),
                _ => Answer::Error,
            }
        }
        _ => match store.entry(key.into()).or_insert(Value::Hash(BTreeMap::new())) {
            Value::Hash(hash) => on_hash(hash, op),
            _ => Answer::Error,
        },
    };
    store.retain(|_, value| match value {
        Value::Text(_) => true,
        Value::Set(set) => !set.is_empty(),
        Value::Hash(hash) => !hash.is_empty(),
    });
    answer
}

fn on_text(store: &mut Store, key: &str, op: &Op) -> Answer {
    let text = match store.get(key) {
        None => None,
        Some(Value::Text(text)) => Some(text),
        Some(_) => return Answer::Error,
    };
    match op {
        Op::Add(by) => match number(text) {
            Some(number) => {
                store.insert(key.into(), Value::Text((number + by).to_string()));
                Answer::Int(number + by)
            }
            None => Answer::Error,
        },
        _ => Answer::Values(vec![text.cloned()]),
    }
}

fn on_set(set: &mut BTreeSet<String>, op: &Op) -> Answer {
    match op {
        Op::SetAdd(added) => int(added.iter().filter(|e| set.insert((*e).clone())).count()),
        Op::SetRemove(removed) => int(removed.iter().filter(|e| set.remove(*e)).count()),
        Op::Contains(element) => int(usize::from(set.contains(element))),
        Op::Len => int(set.len()),
        _ => Answer::Members(set.iter().cloned().collect()),
    }
}

fn on_hash(hash: &mut BTreeMap<String, String>, op: &Op) -> Answer {
    match op {
        Op::FieldSet(field, value) => {
            int(usize::from(hash.insert(field.clone(), value.clone()).is_none()))
        }
        Op::FieldAdd(field, by) => match number(hash.get(field)) {
            Some(number) => {
                hash.insert(field.clone(), (number + by).to_string());
                Answer::Int(number + by)
            }
            None => Answer::Error,
        },
        Op::FieldRemove(fields) => int(fields.iter().filter_map(|f| hash.remove(f)).count()),
        Op::Fields(fields) => Answer::Values(fields.iter().map(|f| hash.get(f).cloned()).collect()),
        _ => Answer::Pairs(hash.clone().into_iter().collect()),
    }
}

fn few() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["x", "y", "7", "", "two words"]).prop_map(str::to_owned)
}

fn some_few() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(few(), 1..3)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Get),
        few().prop_map(Op::Set),
        Just(Op::Delete),
        Just(Op::Exists),
        (-3..4i64).prop_map(Op::Add),
        some_few().prop_map(Op::SetAdd),
        some_few().prop_map(Op::SetRemove),
        Just(Op::Members),
        few().prop_map(Op::Contains),
        Just(Op::Len),
        (few(), few()).prop_map(|(field, value)| Op::FieldSet(field, value)),
        (few(), -3..4i64).prop_map(|(field, by)| Op::FieldAdd(field, by)),
        some_few().prop_map(Op::FieldRemove),
        some_few().prop_map(Op::Fields),
        Just(Op::Pairs),
    ]
}

/// What one transaction does: session, site, and operations on numbered keys.
type Plan = (usize, usize, Vec<(u8, Op)>);

fn plans(op: impl Strategy<Value = Op>) -> impl Strategy<Value = Vec<Plan>> {
    let operations = prop::collection::vec((0..3u8, op), 1..5);
    prop::collection::vec((0..4usize, 0..SITES, operations), 1..40)
}

/// Runs the plans one after the other, at whatever site, on one copy.
fn run(plans: &[Plan]) -> History {
    let mut store = Store::new();
    let mut snapshot = vec![0; SITES];
    let mut history = History { sites: SITES, ..History::default() };
    for (at, (session, site, plan)) in plans.iter().enumerate() {
        let operations: Vec<Operation> = plan
            .iter()
            .map(|(key, op)| {
                let key = format!("k{key}");
                let answer = Some(execute(&mut store, &key, op));
                Operation { key, op: op.clone(), answer, eventual: false }
            })
            .collect();
        let writes = operations.iter().any(|operation| operation.op.is_update());
        let dot = writes.then_some((at as u64 + 1, *site));
        let witness = Some(Witness { snapshot: snapshot.clone(), dot });
        if let Some((time, site)) = dot {
            snapshot[site] = time;
        }
        let (session, site, status) = (*session, *site, Status::Committed);
        let lost = false;
        history.transactions.push(Transaction { session, site, status, operations, witness, lost });
    }
    for key in (0..3).map(|key| format!("k{key}")) {
        let answers = [Op::Get, Op::Members, Op::Pairs].map(|op| execute(&mut store, &key, &op));
        for site in 0..SITES {
            let (key, answers) = (key.clone(), answers.clone());
            history.finals.push(FinalRead { site, key, answers });
        }
    }
    history
}

/// Another answer of the same shape where there is one.
fn other(answer: &Answer) -> Answer {
    match answer {
        Answer::Ok => Answer::Error,
        Answer::Error => Answer::Ok,
        Answer::Int(number) => Answer::Int(number + 1),
        Answer::Values(values) => Answer::Values(
            values.iter().map(|v| if v.is_some() { None } else { Some("z".to_owned()) }).collect(),
        ),
        Answer::Members(members) if members.is_empty() => Answer::Members(vec!["z".to_owned()]),
        Answer::Members(members) => Answer::Members(members[1..].to_vec()),
        Answer::Pairs(pairs) if pairs.is_empty() => {
            Answer::Pairs(vec![("z".to_owned(), "z".to_owned())])
        }
        Answer::Pairs(pairs) => Answer::Pairs(pairs[1..].to_vec()),
    }
}

fn without_places(mut history: History) -> History {
    history.transactions.iter_mut().for_each(|transaction| transaction.witness = None);
    history
}

/// Plans in which elements and values are unique, so that the black box can judge.
fn unique_plans() -> impl Strategy<Value = Vec<Plan>> {
    plans(prop::sample::select(vec![0, 1]).prop_map(|kind| match kind {
        0 => Op::SetAdd(Vec::new()),
        _ => Op::Members,
    }))
    .prop_map(|mut plans| {
        let mut next = 0;
        for (_, op) in plans.iter_mut().flat_map(|(_, _, operations)| operations) {
            if let Op::SetAdd(elements) = op {
                next += 1;
                elements.push(format!("e{next}"));
            }
        }
        plans
    })
}

proptest! {
    #[test]
    fn a_single_copy_passes(plans in plans(op())) {
        let history = run(&plans);
        prop_assert_eq!(check(&history), []);
        prop_assert_eq!(check(&without_places(history)), []);
    }

    #[test]
    fn a_changed_answer_is_caught(plans in plans(op()), pick in any::<prop::sample::Index>()) {
        let mut history = run(&plans);
        let index = pick.index(history.transactions.len());
        let operations = &mut history.transactions[index].operations;
        let at = pick.index(operations.len());
        let answer = operations[at].answer.as_ref().map(other);
        operations[at].answer = answer;
        let violations = check(&history);
        let caught = violations.iter().any(|violation| {
            matches!(violation, Violation::WrongAnswer { transaction, .. } if *transaction == index)
        });
        prop_assert!(caught, "{:?}", violations);
    }

    #[test]
    fn a_changed_final_answer_is_caught(plans in plans(op()), pick in any::<prop::sample::Index>()) {
        let mut history = run(&plans);
        let at = pick.index(history.finals.len());
        let answer = other(&history.finals[at].answers[1]);
        history.finals[at].answers[1] = answer;
        let violations = check(&history);
        let caught =
            |violation: &Violation| matches!(violation, Violation::Divergence { .. });
        prop_assert!(violations.iter().any(caught), "{:?}", violations);
    }

    /// In one session everything is causally before the next, so nothing may be missing.
    #[test]
    fn the_black_box_catches_a_missing_element(
        mut plans in unique_plans(),
        pick in any::<prop::sample::Index>(),
    ) {
        plans.iter_mut().for_each(|plan| plan.0 = 0);
        let mut history = without_places(run(&plans));
        prop_assert_eq!(blackbox::check(&history), []);
        let operations = history.transactions.iter_mut().flat_map(|t| &mut t.operations);
        let mut full: Vec<&mut Vec<String>> = operations
            .filter_map(|operation| match &mut operation.answer {
                Some(Answer::Members(members)) if !members.is_empty() => Some(members),
                _ => None,
            })
            .collect();
        prop_assume!(!full.is_empty());
        let at = pick.index(full.len());
        let element = pick.index(full[at].len());
        full[at].remove(element);
        let violations = blackbox::check(&history);
        // Of a transaction that added several, another of them may still be there.
        let caught = |violation: &Violation| {
            matches!(violation, Violation::StaleRead { .. } | Violation::FracturedRead { .. })
        };
        prop_assert!(violations.iter().any(caught), "{:?}", violations);
    }

    #[test]
    fn text_reads_back_as_it_was_written(plans in plans(op())) {
        let history = run(&plans);
        prop_assert_eq!(history.to_string().parse(), Ok(history));
    }

    #[test]
    fn no_text_makes_the_reader_or_the_judges_panic(
        text in r#"solera-history 1\nsites 2\n(t 0@[01] (committed|unknown) \[[0-9] [0-9]\]( [0-9]@[01])?( \| ~?[ab] (GET|SET [xy5]|INCRBY 1|SADD x|SREM x|HINCRBY f 1|DEL|HGETALL|SMEMBERS) = (\?|ok|1|0|error|\(nil\)|\{x\}|\{\}|<>)){0,3}\n){0,6}.{0,9}"#,
    ) {
        if let Ok(history) = text.parse::<History>() {
            check(&history);
        }
    }
}
