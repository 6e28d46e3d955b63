//! Random histories of a store with a single copy pass; the checkers report a changed answer in
//! one.

mod single_copy;

use proptest::prelude::*;
use single_copy::{Store, execute};
use solera_checker::{
    Answer, FinalRead, History, Level, Op, Operation, Origin, Status, Transaction, Violation,
    Witness, blackbox, check,
};

const SITES: usize = 3;

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
        few().prop_map(Op::SetNew),
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
        (0..3u64).prop_map(Op::Newest),
    ]
}

/// Plan of one transaction: session, site, and operations on numbered keys.
type Plan = (usize, usize, Vec<(u8, Op)>);

fn plans(op: impl Strategy<Value = Op>) -> impl Strategy<Value = Vec<Plan>> {
    let operations = prop::collection::vec((0..3u8, op), 1..5);
    prop::collection::vec((0..4usize, 0..SITES, operations), 1..40)
}

/// Runs the plans one after the other on one copy, regardless of their sites.
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
                Operation { key, op: op.clone(), answer, level: Level::Causal }
            })
            .collect();
        let writes = operations.iter().any(|operation| operation.op.is_update());
        let dot = writes.then_some((at as u64 + 1, Origin::Site(*site)));
        let witness = Some(Witness { snapshot: snapshot.clone(), strong: 0, dot });
        if let Some((time, _)) = dot {
            snapshot[*site] = time;
        }
        let (session, site, status) = (*session, *site, Status::Committed);
        let (interval, lost) = (None, false);
        history.transactions.push(Transaction {
            session,
            site,
            status,
            operations,
            witness,
            interval,
            lost,
        });
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

/// Returns another answer of the same shape, if there is one.
fn other(answer: &Answer) -> Answer {
    match answer {
        Answer::Ok => Answer::Error,
        Answer::Error => Answer::Ok,
        Answer::Int(number) => Answer::Int(number + 1),
        Answer::Values(values) if values.is_empty() => Answer::Values(vec![None]),
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

/// Returns plans with unique elements and values, which the black box can judge.
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

    /// In one session every transaction causally precedes the next, so nothing may be missing.
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
        // If a transaction added several elements, another one of them may still be present.
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
        text in r#"solera-history 1\nsites 2\n(conflict [kl] [kl*]\n)?(t 0@[01]( [0-4]\.\.[5-9])? (committed|unknown) \[[0-9] [0-9]( ![0-9])?\]( [0-9]@([01]|strong))?( \| (|~|!|!!|k!|l!)[ab] (GET|SET [xy5]|SETNX z|INCRBY 1|SADD x|SREM x|HINCRBY f 1|DEL|HGETALL|SMEMBERS) = (\?|ok|1|0|error|\(nil\)|\{x\}|\{\}|<>)){0,3}\n){0,6}.{0,9}"#,
    ) {
        if let Ok(history) = text.parse::<History>() {
            check(&history);
        }
    }
}
