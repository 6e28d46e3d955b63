//! The search for an order of a single key agrees with trying all orders, and judges long
//! histories.

mod single_copy;

use proptest::prelude::*;
use single_copy::{Store, execute};
use solera_checker::linearizability::{STEPS, Verdict, verdicts};
use solera_checker::{Answer, History, Interval, Level, Op, Operation, Status, Transaction};

/// One operation on the only key, the time at which it was executed, if it was, and its interval.
#[derive(Clone, Debug)]
struct Called {
    op: Op,
    point: u64,
    invoked: u64,
    answered: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Known,
    UnknownDone,
    UnknownNotDone,
}

fn calls() -> impl Strategy<Value = Vec<Called>> {
    let name = prop::sample::select(vec!["e", "f"]).prop_map(str::to_owned);
    let elements = prop::collection::vec(name.clone(), 1..3);
    let op = prop_oneof![
        Just(Op::Get),
        Just(Op::Get),
        prop::sample::select(vec!["1", "2", "x"]).prop_map(|value| Op::Set(value.into())),
        Just(Op::SetNew("lock".into())),
        Just(Op::Delete),
        Just(Op::Add(1)),
        elements.clone().prop_map(Op::SetAdd),
        elements.prop_map(Op::SetRemove),
        Just(Op::Contains("e".into())),
        Just(Op::Members),
        Just(Op::Members),
        Just(Op::Len),
        name.clone().prop_map(|field| Op::FieldSet(field, "1".into())),
        name.clone().prop_map(|field| Op::FieldAdd(field, 1)),
        name.prop_map(|field| Op::FieldRemove(vec![field])),
        Just(Op::Pairs),
        Just(Op::Newest(1)),
        Just(Op::Fields(vec!["f".into()])),
    ];
    let outcome = prop_oneof![
        4 => Just(Outcome::Known),
        1 => Just(Outcome::UnknownDone),
        1 => Just(Outcome::UnknownNotDone),
    ];
    let shift = prop::sample::select(vec![0, 0, 0, 0, 8]);
    let called = (op, 10..50u64, 0..10u64, 0..10u64, shift, outcome).prop_map(
        |(op, point, before, after, shift, outcome)| Called {
            op,
            point,
            invoked: point - before + shift,
            answered: point + after + shift,
            outcome,
        },
    );
    prop::collection::vec(called, 1..7)
}

/// Returns the answers of the calls when they are executed at their times.
fn answered(calls: &[Called]) -> Vec<(Called, Option<Answer>)> {
    let mut store = Store::new();
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.point);
    let answer = |call: Called| {
        let done = call.outcome != Outcome::UnknownNotDone;
        let answer = done.then(|| execute(&mut store, "k", &call.op));
        let known = call.outcome == Outcome::Known;
        (call, answer.filter(|_| known))
    };
    calls.into_iter().map(answer).collect()
}

fn recorded(calls: &[(Called, Option<Answer>)]) -> History {
    let transaction = |(session, (call, answer)): (usize, &(Called, Option<Answer>))| {
        let (op, answer, level) = (call.op.clone(), answer.clone(), Level::Linearizable);
        let known = call.outcome == Outcome::Known;
        Transaction {
            session,
            site: 0,
            status: if known { Status::Committed } else { Status::Unknown },
            operations: vec![Operation { key: "k".into(), op, answer, level }],
            witness: None,
            interval: Some(Interval { invoked: call.invoked, answered: Some(call.answered) }),
            lost: false,
        }
    };
    let transactions = calls.iter().enumerate().map(transaction).collect();
    History { sites: 1, transactions, ..History::default() }
}

/// Returns whether some order of the remaining calls explains their answers.
fn has_order(store: &Store, left: &[&(Called, Option<Answer>)]) -> bool {
    let is_known = |call: &&&(Called, Option<Answer>)| call.0.outcome == Outcome::Known;
    if left.iter().filter(is_known).count() == 0 {
        return true;
    }
    (0..left.len()).any(|at| {
        let (call, answer) = left[at];
        let late = |other: &&(Called, Option<Answer>)| other.0.answered < call.invoked;
        if left.iter().filter(is_known).copied().any(|other| late(&other)) {
            return false;
        }
        let mut store = store.clone();
        let got = execute(&mut store, "k", &call.op);
        let mut rest = left.to_vec();
        rest.remove(at);
        answer.as_ref().is_none_or(|answer| *answer == got) && has_order(&store, &rest)
    })
}

/// A long history of one key: clients run one operation after the other, each of which is executed
/// at some time while the client waits. Some outcomes stay unknown, and the client continues as a
/// new session.
fn long(seed: u64, count: u64, clients: u64, some: impl Fn(u64, u64) -> Op) -> History {
    let mut state = seed;
    let mut below = |n: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut calls = Vec::new();
    for client in 0..clients {
        let mut now = client;
        for number in 0..count / clients {
            let (wait, point, after) = (1 + below(20), 1 + below(20), 1 + below(20));
            let outcome = match below(40) {
                0 => Outcome::UnknownDone,
                1 => Outcome::UnknownNotDone,
                _ => Outcome::Known,
            };
            let op = some(below(4), client * count + number);
            let invoked = now + wait;
            let answered = invoked + point + after;
            // Execution times differ, so there is one order.
            let point = (invoked + point) * clients + client;
            calls.push(Called { op, point, invoked, answered, outcome });
            now = answered;
        }
    }
    recorded(&answered(&calls))
}

fn register(kind: u64, number: u64) -> Op {
    match kind {
        0 => Op::Set(format!("v{number}")),
        1 => Op::SetNew(format!("n{number}")),
        _ => Op::Get,
    }
}

fn counter(kind: u64, _: u64) -> Op {
    if kind < 2 { Op::Add(1) } else { Op::Get }
}

fn set(kind: u64, number: u64) -> Op {
    match kind {
        0 => Op::SetAdd(vec![format!("e{number}")]),
        1 => Op::SetRemove(vec![format!("e{}", number - number % 3)]),
        2 => Op::Contains(format!("e{}", number / 2)),
        _ => Op::Members,
    }
}

fn verdict(history: &History) -> Verdict {
    verdicts(history, STEPS)["k"]
}

#[test]
fn long_histories_are_judged() {
    for (name, kind) in
        [("register", register as fn(u64, u64) -> Op), ("counter", counter), ("set", set)]
    {
        for seed in 0..3 {
            let mut history = long(seed, 3000, 8, kind);
            assert_eq!(verdict(&history), Verdict::Linearizable, "{name}, seed {seed}");
            let reads = |t: &&mut Transaction| {
                let Operation { op, answer, .. } = &t.operations[0];
                matches!(op, Op::Get | Op::Members) && answer.is_some()
            };
            let late = history.transactions.iter_mut().filter(reads).nth(500).unwrap();
            late.operations[0].answer = match &late.operations[0].answer {
                Some(Answer::Members(_)) => Some(Answer::Members(vec!["e1".into()])),
                _ => Some(Answer::Values(vec![Some("0".into())])),
            };
            let verdict = verdict(&history);
            assert!(matches!(verdict, Verdict::Violated(_)), "{name}, seed {seed}: {verdict:?}");
        }
    }
}

/// A weaker read has no place in the order, and does not hide a violation by the others. After a
/// weaker update, nothing is expected of the key.
#[test]
fn weaker_reads_are_left_out() {
    let call = |op: Op, invoked: u64| {
        let (answered, outcome) = (invoked + 1, Outcome::Known);
        Called { op, point: invoked, invoked, answered, outcome }
    };
    let calls = [call(Op::Set("1".into()), 10), call(Op::Get, 20), call(Op::Get, 30)];
    let good = recorded(&answered(&calls));
    let old = Some(Answer::Values(vec![None]));
    let read_old = |history: &History, of: usize, level: Level| {
        let mut history = history.clone();
        let read = &mut history.transactions[of].operations[0];
        (read.answer, read.level) = (old.clone(), level);
        history
    };
    let weak = read_old(&good, 2, Level::Causal);
    assert_eq!(verdict(&weak), Verdict::Linearizable);
    let bad = read_old(&weak, 1, Level::Linearizable);
    assert!(matches!(verdict(&bad), Verdict::Violated(_)));
    let mut unfit = bad;
    unfit.transactions[0].operations[0].level = Level::Causal;
    assert!(verdicts(&unfit, STEPS).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_search_agrees_with_trying_all_orders(calls in calls()) {
        let calls = answered(&calls);
        let all: Vec<_> = calls.iter().collect();
        let history = recorded(&calls);
        match verdicts(&history, STEPS).get("k") {
            Some(Verdict::Violated(_)) => prop_assert!(!has_order(&Store::new(), &all)),
            Some(Verdict::Undecided) => prop_assert!(false, "so few calls"),
            // Unknown reads alone show nothing.
            Some(Verdict::Linearizable) | None => prop_assert!(has_order(&Store::new(), &all)),
        }
    }
}
