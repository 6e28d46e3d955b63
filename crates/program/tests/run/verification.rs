//! Verification finds faults of a program before it runs.

use solera_program::builtin::Builtin;
use solera_program::ir::{Instr, Program};
use solera_program::nesting::MAX_NESTING;
use solera_program::operation::ObjectOp;
use solera_program::operator::BinaryOp;
use solera_program::types::{StoreId, StructId, Type};
use solera_program::value::Value;
use solera_program::verify::verify;

use crate::support::*;

fn good() -> Program {
    let main = phase(Some(MAIL), &[], &[1, 2], code(2, vec![Value::Unit], vec![]));
    let mut program = program(vec![Type::Int], Type::Unit, vec![main]);
    program.functions = vec![function("f", 1, code(1, vec![], vec![]))];
    program
}

#[track_caller]
fn refused(change: impl FnOnce(&mut Program), expected: &str) {
    let mut program = good();
    assert_eq!(verify(&program), Ok(()));
    change(&mut program);
    let found = verify(&program).unwrap_err().to_string();
    assert!(found.contains(expected), "{found}");
}

/// Checks that an instruction in the phase is rejected.
#[track_caller]
fn instruction(instr: Instr, expected: &str) {
    refused(
        |program| {
            let mut body = vec![Instr::Move(0, 1)];
            body.push(instr);
            program.transactions[0].phases[0].code = code(2, vec![Value::Unit], body);
        },
        expected,
    );
}

#[test]
fn invalid_instructions_are_rejected() {
    instruction(Instr::Move(2, 0), "phase 0: instruction 1: there is no register 2 among 2");
    instruction(Instr::Move(0, 2), "no register 2");
    instruction(Instr::Const(0, 1), "no constant 1");
    instruction(Instr::Binary(BinaryOp::And, 0, 0, 0), "`&&` must be a jump");
    instruction(Instr::Binary(BinaryOp::Add, 0, 0, 9), "no register 9");
    instruction(Instr::Builtin(Builtin::Push, 0, vec![0]), "2 operands are needed, not 1");
    instruction(Instr::Builtin(Builtin::Len, 0, vec![3]), "no register 3");
    instruction(Instr::List(0, vec![3]), "no register 3");
    instruction(Instr::Map(0, vec![0]), "0 operands are needed, not 1");
    instruction(Instr::Struct(0, StructId(1), vec![]), "no struct 1");
    instruction(Instr::Struct(0, USER, vec![0]), "2 operands are needed");
    instruction(Instr::WithField(0, 0, 0, 3), "no register 3");
    instruction(Instr::Call(0, 1, vec![]), "no function 1");
    instruction(Instr::Call(0, 0, vec![]), "1 operands are needed");
    instruction(Instr::Jump(3), "no instruction 3");
    instruction(Instr::JumpUnless(0, 3), "no instruction 3");
    instruction(Instr::JumpUnless(2, 0), "no register 2");
    instruction(Instr::Return(0), "a phase does not return");
    instruction(Instr::Fresh(0, StoreId(3)), "no store 3");
    instruction(Instr::Handle(0, StoreId(3), 0), "no store 3");
    instruction(Instr::Handle(2, MAIL, 0), "no register 2");
    instruction(Instr::Handle(0, MAIL, 2), "no register 2");
    instruction(Instr::Record(0, 0), "tape 0 is not given");
    instruction(Instr::Advance(1, 0), "tape 1 is not taken");
    instruction(Instr::Abort(2), "no register 2");
    let remote =
        |op, object, args| Instr::Remote { dst: 0, store: MAIL, op, object, handle: 0, args };
    instruction(remote(ObjectOp::Value, 9, vec![]), "no object 9");
    instruction(remote(ObjectOp::Elements, 0, vec![]), "is no operation of Counter");
    instruction(remote(ObjectOp::Increment, 0, vec![]), "1 operands are needed");
    instruction(remote(ObjectOp::Field(2), 5, vec![]), "is no operation of Struct");
    let custom = |store, operation, args| Instr::Custom { dst: 0, store, operation, args };
    instruction(custom(LOGS, 0, vec![]), "another store");
    instruction(custom(MAIL, 1, vec![]), "no operation 1");
    instruction(custom(MAIL, 0, vec![0]), "2 operands are needed");
}

#[test]
fn effects_in_wrong_places_are_rejected() {
    let of_function = |program: &mut Program| {
        program.functions[0].code = code(1, vec![], vec![Instr::Fresh(0, MAIL)]);
    };
    refused(of_function, "function `f`: instruction 0: a function has no effects");
    let write = Instr::Remote {
        dst: 0,
        store: MAIL,
        op: ObjectOp::Delete,
        object: 0,
        handle: 0,
        args: vec![],
    };
    let writes = |program: &mut Program| {
        let phase = &mut program.transactions[0].phases[0];
        phase.code = code(2, vec![], vec![write.clone()]);
        phase.mutates = false;
    };
    refused(writes, "it writes, but the phase is declared as reading only");
    let elsewhere = |program: &mut Program| {
        let phase = &mut program.transactions[0].phases[0];
        phase.code = code(2, vec![], vec![write.clone()]);
        phase.store = Some(DIRECTORY);
    };
    refused(elsewhere, "an operation of another store than the phase's");
    refused(|program| program.transactions[0].phases[0].endorsing = true, "must not write");
    let result = |program: &mut Program| {
        let second = phase(None, &[], &[], code(1, vec![], vec![Instr::Result(0)]));
        program.transactions[0].phases.push(second);
    };
    refused(result, "phase 1: instruction 0: another phase yields the result");
}

#[test]
fn invalid_declarations_are_rejected() {
    refused(|program| program.version += 1, "its version");
    refused(|program| program.transactions[0].result_phase = 1, "there is no phase 1");
    refused(|program| program.transactions[0].phases.clear(), "there is no phase 0");
    refused(|program| program.transactions[0].result = Type::Unknown, "not known");
    refused(|program| program.transactions[0].phases[0].store = Some(StoreId(3)), "no store 3");
    refused(|program| program.transactions[0].phases[0].gives = vec![2, 1], "ascending");
    refused(|program| program.transactions[0].phases[0].gives = vec![8], "only 8 tapes");
    refused(|program| program.transactions[0].phases[0].takes = vec![0], "no earlier phase");
    refused(|program| program.transactions[0].phases[0].code.registers = 0, "1 parameters in 0");
    refused(|program| program.functions[0].code.registers = 1 << 20, "at most 65536 are allowed");
    refused(|program| program.functions[0].code.spans.push(Default::default()), "1 places for 0");
    refused(|program| program.structs[0].fields[0].1 = Type::Struct(StructId(1)), "no struct 1");
    let operation = |program: &mut Program| program.stores[1].operations[0].result = Type::Unknown;
    refused(operation, "store `mail`");
    let deep = |program: &mut Program| {
        let nested = (0..100).fold(Type::Int, |ty, _| Type::List(ty.into()));
        program.transactions[0].params[0].1 = nested;
    };
    refused(deep, "nested more than");
    let constant = |program: &mut Program| {
        let nested = (0..100).fold(Value::Unit, |value, _| Value::some(value));
        program.functions[0].code.constants.push(nested);
    };
    refused(constant, "nested more than");
}

#[test]
fn values_and_types_that_are_nested_too_deeply_are_not_read() {
    let nested = |depth: u8| (0..depth).fold(Value::Unit, |value, _| Value::some(value));
    let bytes = |depth| postcard::to_stdvec(&nested(depth)).unwrap();
    assert_eq!(postcard::from_bytes(&bytes(MAX_NESTING)), Ok(nested(MAX_NESTING)));
    assert!(postcard::from_bytes::<Value>(&bytes(MAX_NESTING + 1)).is_err());
    // The value is so deep that reading it recursively would overflow the stack.
    let some = &bytes(1)[..2];
    assert!(postcard::from_bytes::<Value>(&some.repeat(1 << 20)).is_err());
    let list = postcard::to_stdvec(&Type::List(Type::Int.into())).unwrap();
    assert!(postcard::from_bytes::<Type>(&list[..1].repeat(1 << 20)).is_err());
}
