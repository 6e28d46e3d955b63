//! An operation that writes no part which another one reads does not change the other's reply.

use proptest::prelude::*;
use solera_data::{Context, Dot, Op, OpError, Outcome, Part, State, Value, View, execute};
use solera_time::{SiteId, Timestamp, Vector};

const HERE: SiteId = SiteId(0);

/// Returns the state after operations, each its own transaction, and the reply to the last one.
fn run(ops: &[Op]) -> (State, Option<Result<Outcome, OpError>>) {
    let mut state = State::new();
    let mut last = None;
    for (i, op) in ops.iter().enumerate() {
        let executed = execute(op, &View::new(&state));
        if let Ok((_, Some(effect))) = &executed {
            let dot = Dot::of(HERE, Timestamp(i as u64 + 1));
            let observed = Vector::zero(1).with(HERE, Timestamp(i as u64));
            state.apply(effect, Context { dot, observed: &observed });
            state.settle(effect, dot);
        }
        last = Some(executed.map(|(outcome, _)| outcome));
    }
    (state, last)
}

fn reply(ops: &[Op]) -> Result<Outcome, OpError> {
    run(ops).1.unwrap()
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![Just("a"), Just("b"), Just("7")].prop_map(Value::from)
}

fn values() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(value(), 1..3)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Get),
        value().prop_map(Op::Set),
        Just(Op::Delete),
        Just(Op::Exists),
        Just(Op::Type),
        (-2..3_i64).prop_map(Op::IncrBy),
        values().prop_map(Op::SetAdd),
        values().prop_map(Op::SetRemove),
        Just(Op::SetMembers),
        value().prop_map(Op::SetContains),
        Just(Op::SetLen),
        prop::collection::vec((value(), value()), 1..3).prop_map(Op::HashSet),
        value().prop_map(Op::HashGet),
        values().prop_map(Op::HashGetMany),
        Just(Op::HashGetAll),
        (1..4_u64).prop_map(Op::HashNewest),
        values().prop_map(Op::HashDelete),
        (value(), -2..3_i64).prop_map(|(field, by)| Op::HashIncrBy(field, by)),
        value().prop_map(Op::SetNew),
        Just(Op::Digest),
    ]
}

fn meet(written: &Op, read: &Op) -> bool {
    let reads = read.reads();
    written.writes().iter().any(|written| reads.iter().any(|read| written.meets(*read)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_write_to_parts_that_an_operation_does_not_read_leaves_its_reply(
        before in prop::collection::vec(op(), 0..5), written in op(), read in op()
    ) {
        if meet(&written, &read) {
            return Ok(());
        }
        let with: Vec<Op> = before.iter().chain([&written, &read]).cloned().collect();
        let without: Vec<Op> = before.iter().chain([&read]).cloned().collect();
        prop_assert_eq!(reply(&with), reply(&without));
    }

    #[test]
    fn reading_operations_change_nothing(before in prop::collection::vec(op(), 0..5), op in op()) {
        prop_assert_eq!(op.writes().is_empty(), !op.is_update());
        if op.writes().is_empty() {
            let with: Vec<Op> = before.iter().chain([&op]).cloned().collect();
            let digest = |ops: &[Op]| reply(&[ops, &[Op::Digest]].concat());
            prop_assert_eq!(digest(&with), digest(&before));
        }
    }
}

#[test]
fn parts_of_different_elements_do_not_meet() {
    let (a, b) = (Value::from("a"), Value::from("b"));
    assert!(Part::Element(&a).meets(Part::Element(&a)));
    assert!(!Part::Element(&a).meets(Part::Element(&b)));
    assert!(!Part::Field(&a).meets(Part::Size));
    assert!(Part::Field(&a).meets(Part::Element(&b)));
    assert!(Part::Whole.meets(Part::Absence));
    assert!(!meet(&Op::SetAdd(vec![a.clone()]), &Op::SetAdd(vec![b.clone()])));
    assert!(meet(&Op::SetAdd(vec![a.clone(), b.clone()]), &Op::SetContains(b)));
    assert!(meet(&Op::SetAdd(vec![a]), &Op::SetLen));
}

/// A string that a set hides is not part of what clients see, and must not stand for a member.
#[test]
fn a_hidden_value_is_not_taken_for_a_visible_one() {
    /// Returns the digest after operations that did not see one another.
    fn digest(ops: &[Op]) -> Outcome {
        let mut state = State::new();
        for (i, op) in ops.iter().enumerate() {
            let (_, effect) = execute(op, &View::new(&State::new())).unwrap();
            let (effect, dot) = (effect.unwrap(), Dot::of(SiteId(i as u8), Timestamp(1)));
            state.apply(&effect, Context { dot, observed: &Vector::zero(2) });
            state.settle(&effect, dot);
        }
        execute(&Op::Digest, &View::new(&state)).unwrap().0
    }
    let add = |members: &[&str]| Op::SetAdd(members.iter().map(|it| Value::from(*it)).collect());
    let visible = digest(&[add(&["a", "b"])]);
    let hidden = digest(&[Op::Set(Value::from("a")), add(&["b"])]);
    assert_ne!(visible, hidden);
    assert_eq!(hidden, digest(&[add(&["b"])]));
}
