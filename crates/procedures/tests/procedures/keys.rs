//! Operations on keys.

use crate::registers::Registers;
use solera_creek::Procedures;
use solera_data::{Key, Op, OpError, Outcome, Value};
use solera_procedures::{KeyValue, Procedure, Returned, SpaceProcedures};

fn key(name: &str) -> Key {
    Key::from(name)
}

fn value(text: &str) -> Value {
    Value::from(text)
}

fn execute(registers: &mut Registers, procedure: &Procedure) -> Returned {
    SpaceProcedures::default().execute(procedure, registers)
}

#[test]
fn operations_see_those_before_them() {
    let mut registers = Registers::default();
    let steps = vec![
        (key("n"), Op::IncrBy(5)),
        (key("n"), Op::IncrBy(-2)),
        (key("n"), Op::Get),
        (key("s"), Op::SetAdd(vec![value("a"), value("b")])),
        (key("s"), Op::SetRemove(vec![value("a")])),
        (key("s"), Op::SetMembers),
        (key("n"), Op::SetAdd(vec![value("a")])),
        (key("n"), Op::Set(value("x"))),
        (key("n"), Op::Get),
    ];
    let expected = vec![
        Ok(Outcome::Int(5)),
        Ok(Outcome::Int(3)),
        Ok(Outcome::Bulk(value("3"))),
        Ok(Outcome::Int(2)),
        Ok(Outcome::Int(1)),
        Ok(Outcome::Members(vec![value("b")])),
        Err(OpError::WrongType),
        Ok(Outcome::Ok),
        Ok(Outcome::Bulk(value("x"))),
    ];
    let returned = execute(&mut registers, &Procedure::of_steps(steps));
    assert_eq!(returned, Returned::Outcomes(expected));
    let delete = vec![(key("n"), Op::Delete), (key("s"), Op::Delete)];
    execute(&mut registers, &Procedure::of_steps(delete));
    assert!(registers.is_empty(), "removed keys take no memory");
}

#[test]
fn a_procedure_does_nothing_if_an_expected_key_has_changed() {
    let mut registers = Registers::default();
    execute(&mut registers, &Procedure::of_steps(vec![(key("a"), Op::IncrBy(1))]));
    let digest = |registers: &Registers, name: &str| {
        let value = registers.get(name.as_bytes()).cloned();
        (key(name), value.unwrap_or_default().read(&Op::Digest))
    };
    let expects = vec![digest(&registers, "a"), digest(&registers, "absent")];
    let steps = vec![(key("b"), Op::IncrBy(1))];
    let guarded = Procedure::Keys { expects, steps };
    let done = Returned::Outcomes(vec![Ok(Outcome::Int(1))]);
    assert_eq!(execute(&mut registers, &guarded), done);
    for name in ["a", "absent"] {
        let mut changed = registers.clone();
        execute(&mut changed, &Procedure::of_steps(vec![(key(name), Op::IncrBy(1))]));
        let before = changed.clone();
        assert_eq!(execute(&mut changed, &guarded), Returned::Changed, "{name}");
        assert_eq!(changed, before);
    }
}

#[test]
fn procedures_that_only_read_are_known() {
    let expects = vec![(key("a"), KeyValue::default().read(&Op::Digest))];
    let is_read_only = |expects: &[_], op: Option<Op>| {
        let steps = op.into_iter().map(|op| (key("a"), op)).collect();
        let procedure = Procedure::Keys { expects: expects.to_vec(), steps };
        SpaceProcedures::default().is_read_only(&procedure)
    };
    assert!(is_read_only(&[], Some(Op::Get)));
    assert!(is_read_only(&expects, None));
    assert!(!is_read_only(&expects, Some(Op::IncrBy(0))));
}
