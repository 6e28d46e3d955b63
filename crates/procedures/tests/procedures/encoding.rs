//! Encodings stay the same: procedures are parts of messages and records of `creek`, and values of
//! registers are parts of checkpoints.
//!
//! To change an encoding, raise the versions in `solera_creek::PROTOCOL`, and for programs
//! `solera_program::ir::VERSION`, or only add variants after the last ones. Accept the new files:
//! `REWRITE=1 cargo test -p solera-procedures encoding`.

#[path = "../../../machine/testing/golden.rs"]
mod golden;

use golden::judge;
use solera_data::{Key, Op, OpError, Outcome};
use solera_machine::codec;
use solera_procedures::{CallError, KeyValue, Module, Procedure, Returned, Shown, next_element};
use solera_program::ir::{
    Code, Function, Instr, Phase, Program, Store, Struct, Transaction, VERSION,
};
use solera_program::operation::ObjectOp;
use solera_program::run::{Failure, FailureKind, FailureScope};
use solera_program::span::Span;
use solera_program::types::{Object, StoreId, Type};
use solera_program::value::Value;

use crate::space::call;

fn take<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = codec::take(bytes)?;
    rest.is_empty().then_some(value)
}

#[test]
fn procedures_keep_their_encoding() {
    let steps = vec![(Key::from("a"), Op::IncrBy(-2)), (Key::from("s"), Op::SetMembers)];
    let expects = vec![
        (Key::from("a"), Ok(Outcome::Int(1 << 40))),
        (Key::from("b"), Err(OpError::WrongType)),
    ];
    let mut call = call("source", "order", &["pens", "3"]);
    call.digest = "ab12".into();
    call.limits.fuel = 7;
    let samples = [
        Procedure::Keys { expects, steps },
        Procedure::Install { digest: "ab12".into(), module: "module".into() },
        Procedure::Call(Box::new(call)),
    ];
    let place = |procedure: &Procedure| match procedure {
        Procedure::Keys { .. } => (0, "Keys"),
        Procedure::Install { .. } => (1, "Install"),
        Procedure::Call(_) => (2, "Call"),
    };
    judge(("procedures-1", 3), &samples, place, codec::append, take);
}

#[test]
fn results_keep_their_encoding() {
    let kind = FailureKind::Aborted("out of stock".to_owned());
    let place = FailureScope::Transaction("order".into());
    let failure = Box::new(Failure { kind, span: Span::new(300, 310), place });
    let samples = [
        Returned::Outcomes(vec![Ok(Outcome::Int(3)), Err(OpError::NotAnInteger)]),
        Returned::Changed,
        Returned::Installed,
        Returned::Result(Shown::List(vec![Shown::Float(0.5), Shown::Bytes("x".into())])),
        Returned::Failed(CallError::Program { failure, line: Some(20) }),
    ];
    let place = |returned: &Returned| match returned {
        Returned::Outcomes(_) => (0, "Outcomes"),
        Returned::Changed => (1, "Changed"),
        Returned::Installed => (2, "Installed"),
        Returned::Result(_) => (3, "Result"),
        Returned::Failed(_) => (4, "Failed"),
    };
    judge(("results-1", 5), &samples, place, codec::append, take);
}

#[test]
fn values_keep_their_encoding() {
    let value = |ops: &[Op]| {
        let mut value = KeyValue::default();
        ops.iter().for_each(|op| drop(value.execute(op).unwrap()));
        value
    };
    let samples = [
        value(&[Op::Set("x".into()), Op::Set("7".into()), Op::IncrBy(300)]),
        value(&[Op::SetAdd(vec!["b".into(), "a".into()])]),
        value(&[Op::HashSet(vec![(next_element(0), "one".into())])]),
    ];
    let place = |value: &KeyValue| match value.kind() {
        Some(solera_data::Type::String) => (0, "string"),
        Some(solera_data::Type::Set) => (1, "set"),
        Some(solera_data::Type::Hash) | None => (2, "list"),
    };
    judge(("values-1", 3), &samples, place, codec::append, take);
}

#[test]
fn modules_keep_their_encoding() {
    let code = |instructions: Vec<Instr>, constants: Vec<Value>| Code {
        spans: vec![Span::new(1, 2); instructions.len()],
        instructions,
        constants,
        registers: 3,
    };
    let op = ObjectOp::Increment;
    let add = Instr::Remote { dst: 2, store: StoreId(0), op, object: 0, handle: 0, args: vec![1] };
    let phase = Phase {
        store: Some(StoreId(0)),
        endorsing: false,
        mutates: true,
        witnesses: false,
        takes: vec![],
        gives: vec![],
        code: code(vec![Instr::Const(1, 0), add, Instr::Result(2)], vec![Value::Int(-1)]),
    };
    let program = Program {
        version: VERSION,
        stores: vec![Store {
            name: "shop".into(),
            level: "speculative".into(),
            accepts: vec![solera_levels::Level::Speculative],
            atomic: true,
            operations: vec![],
        }],
        structs: vec![Struct { name: "Order".into(), fields: vec![("n".into(), Type::Int)] }],
        objects: vec![Object::Counter],
        functions: vec![Function {
            name: "f".into(),
            code: code(vec![Instr::Return(0)], vec![]),
            params: 1,
        }],
        transactions: vec![Transaction {
            name: "take".into(),
            params: vec![("a".into(), Type::Handle(Object::Counter.into(), StoreId(0)))],
            result: Type::Unit,
            phases: vec![phase],
            tapes: 0,
            result_phase: 0,
        }],
    };
    let module = Module::new("source", program.into()).unwrap();
    let encode = |module: &Module, bytes: &mut Vec<u8>| bytes.extend(module.encode());
    let decode = |bytes: &[u8]| Module::decode(bytes).ok();
    judge((&format!("modules-{VERSION}"), 1), &[module], |_| (0, "module"), encode, decode);
}
