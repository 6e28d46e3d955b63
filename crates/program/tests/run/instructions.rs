//! Tests each instruction.

use std::sync::Arc;

use solera_program::builtin::Builtin;
use solera_program::ir::Instr;
use solera_program::operator::{BinaryOp, UnaryOp};
use solera_program::run::{FailureKind, Limits};
use solera_program::types::Type;
use solera_program::value::Value;

use crate::support::*;

fn binary(op: BinaryOp, a: Value, b: Value) -> Result<Value, FailureKind> {
    let numeric = matches!(op, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply);
    let ty = match (&a, numeric || matches!(op, BinaryOp::Divide | BinaryOp::Remainder)) {
        (_, false) => Type::Bool,
        (Value::Int(_), _) => Type::Int,
        (Value::Float(_), _) => Type::Float,
        (Value::String(_), _) => Type::String,
        (Value::Bytes(_), _) => Type::Bytes,
        _ => Type::List(Type::Int.into()),
    };
    eval(vec![a, b], ty, vec![Instr::Binary(op, 10, 0, 1)])
}

#[test]
fn arithmetic_works_on_numbers_texts_bytes_and_lists() {
    let int = |op, a, b| binary(op, Value::Int(a), Value::Int(b)).unwrap();
    assert_eq!(int(BinaryOp::Add, 2, 3), Value::Int(5));
    assert_eq!(int(BinaryOp::Subtract, 2, 3), Value::Int(-1));
    assert_eq!(int(BinaryOp::Multiply, 2, 3), Value::Int(6));
    assert_eq!(int(BinaryOp::Divide, -7, 2), Value::Int(-3));
    assert_eq!(int(BinaryOp::Remainder, -7, 2), Value::Int(-1));
    let float = |op, a, b| binary(op, Value::Float(a), Value::Float(b)).unwrap();
    assert_eq!(float(BinaryOp::Divide, 1.0, 0.0), Value::Float(f64::INFINITY));
    assert_eq!(float(BinaryOp::Remainder, 7.5, 2.0), Value::Float(1.5));
    // Processors give this NaN a sign, which the order of values would reveal.
    assert_eq!(float(BinaryOp::Divide, 0.0, 0.0), Value::Float(f64::NAN));
    assert_eq!(binary(BinaryOp::Add, text("a"), text("b")), Ok(text("ab")));
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
    assert_eq!(binary(BinaryOp::Add, bytes(b"a"), bytes(b"b")), Ok(bytes(b"ab")));
    assert_eq!(binary(BinaryOp::Add, ints([1]), ints([2])), Ok(ints([1, 2])));
}

#[test]
fn values_of_each_kind_are_compared() {
    let table = [
        (BinaryOp::Equal, [false, true, false]),
        (BinaryOp::Unequal, [true, false, true]),
        (BinaryOp::Less, [true, false, false]),
        (BinaryOp::LessEqual, [true, true, false]),
        (BinaryOp::Greater, [false, false, true]),
        (BinaryOp::GreaterEqual, [false, true, true]),
    ];
    let ordered = [
        [Value::Int(1), Value::Int(2), Value::Int(3)],
        [Value::Float(1.0), Value::Float(2.0), Value::Float(3.0)],
        [text("a"), text("b"), text("c")],
        [b"a", b"b", b"c"].map(|bytes| Value::Bytes(bytes.as_slice().into())),
    ];
    for (op, expected) in table {
        for [low, middle, high] in &ordered {
            let found = [low, middle, high].map(|a| binary(op, a.clone(), middle.clone()).unwrap());
            assert_eq!(found, expected.map(Value::Bool), "{op:?} {middle:?}");
        }
    }
    assert_eq!(
        binary(BinaryOp::Less, Value::Bool(false), Value::Bool(true)),
        Ok(Value::Bool(true))
    );
    assert_eq!(binary(BinaryOp::Equal, ints([1]), ints([1])), Ok(Value::Bool(true)));
}

#[test]
fn floats_compare_by_ieee_754_but_by_total_order_within_values() {
    let nan = Value::Float(f64::NAN);
    let zeros = [0.0, -0.0].map(Value::Float);
    let equal = |a: &Value, b: &Value| binary(BinaryOp::Equal, a.clone(), b.clone()).unwrap();
    assert_eq!(equal(&nan, &nan), Value::Bool(false));
    assert_eq!(equal(&zeros[0], &zeros[1]), Value::Bool(true));
    let list = |value: &Value| Value::list([value.clone()]);
    assert_eq!(equal(&list(&nan), &list(&nan)), Value::Bool(true));
    assert_eq!(equal(&list(&zeros[0]), &list(&zeros[1])), Value::Bool(false));
}

#[test]
fn unary_operators_negate_values() {
    let unary = |op, value, ty| eval(vec![value], ty, vec![Instr::Unary(op, 10, 0)]);
    assert_eq!(unary(UnaryOp::Negate, Value::Int(4), Type::Int), Ok(Value::Int(-4)));
    assert_eq!(unary(UnaryOp::Negate, Value::Float(4.0), Type::Float), Ok(Value::Float(-4.0)));
    assert_eq!(unary(UnaryOp::Not, Value::Bool(true), Type::Bool), Ok(Value::Bool(false)));
    let overflow = unary(UnaryOp::Negate, Value::Int(i64::MIN), Type::Int);
    assert!(matches!(overflow, Err(FailureKind::Overflow(_))), "{overflow:?}");
}

#[test]
fn collections_are_made() {
    let values = || vec![Value::Int(2), Value::Int(1)];
    let list_of_int = Type::List(Type::Int.into());
    assert_eq!(eval(values(), list_of_int, vec![Instr::List(10, vec![0, 1])]), Ok(ints([2, 1])));
    let set_of_int = Type::Set(Type::Int.into());
    let made = eval(values(), set_of_int, vec![Instr::Set(10, vec![0, 1, 0])]);
    assert_eq!(made, Ok(set([1, 2])));
    let map_of_int = Type::Map(Type::Int.into(), Type::Int.into());
    let made = eval(values(), map_of_int, vec![Instr::Map(10, vec![0, 1, 1, 1, 0, 0])]);
    assert_eq!(made, Ok(map([(1, 1), (2, 2)])));
}

#[test]
fn structs_are_made_read_and_changed() {
    let constants = || vec![text("Ada"), Value::Int(36), Value::Int(37)];
    let user = |age| Value::Struct(Arc::new(vec![text("Ada"), Value::Int(age)]));
    let new = || Instr::Struct(5, USER, vec![0, 1]);
    let made = eval(constants(), Type::Struct(USER), vec![new(), Instr::Move(10, 5)]);
    assert_eq!(made, Ok(user(36)));
    let read = eval(constants(), Type::Int, vec![new(), Instr::Field(10, 5, 1)]);
    assert_eq!(read, Ok(Value::Int(36)));
    // The field is changed in place, or the changed struct goes to another register and the first
    // one keeps its value.
    let body = vec![new(), Instr::WithField(5, 5, 1, 2), Instr::Move(10, 5)];
    assert_eq!(eval(constants(), Type::Struct(USER), body), Ok(user(37)));
    let body = vec![new(), Instr::WithField(6, 5, 1, 2), Instr::Move(10, 5)];
    assert_eq!(eval(constants(), Type::Struct(USER), body), Ok(user(36)));
}

#[test]
fn a_change_in_place_does_not_change_copies() {
    let list = Type::List(Type::Int.into());
    // The copies are the constant, a copy by a move, and a copy within another value.
    let body = vec![
        Instr::Move(2, 0),
        Instr::List(3, vec![0]),
        Instr::Builtin(Builtin::Push, 0, vec![0, 1]),
        Instr::Builtin(Builtin::Push, 0, vec![0, 1]),
        Instr::Const(4, 0),
        Instr::List(10, vec![0, 2, 4]),
        Instr::Binary(BinaryOp::Add, 10, 10, 3),
    ];
    let found = eval(vec![ints([]), Value::Int(7)], Type::List(list.into()), body).unwrap();
    assert_eq!(found, Value::list([ints([7, 7]), ints([]), ints([]), ints([])]));
}

#[test]
fn an_operand_register_may_be_the_result_register() {
    let list = Type::List(Type::Int.into());
    let double = vec![Instr::Binary(BinaryOp::Add, 0, 0, 0), Instr::Move(10, 0)];
    assert_eq!(eval(vec![ints([1, 2])], list, double), Ok(ints([1, 2, 1, 2])));
    let nested = Type::List(Type::List(Type::Int.into()).into());
    let push = vec![Instr::Builtin(Builtin::Push, 0, vec![0, 0]), Instr::Move(10, 0)];
    // The list must be empty, or the result would have no type.
    assert_eq!(eval(vec![ints([])], nested, push), Ok(Value::list([ints([])])));
}

/// `while i < n { xs.push(i); i = i + 1; }`
fn pushes(count: i64) -> u64 {
    let constants = vec![Value::Int(0), Value::Int(1), Value::Int(count), ints([])];
    let body = vec![
        Instr::Binary(BinaryOp::Less, 4, 0, 2),
        Instr::JumpUnless(4, 5),
        Instr::Builtin(Builtin::Push, 3, vec![3, 0]),
        Instr::Binary(BinaryOp::Add, 0, 0, 1),
        Instr::Jump(0),
        Instr::Move(10, 3),
    ];
    let limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let (made, fuel) = eval_within(constants, Type::List(Type::Int.into()), body, limits).unwrap();
    assert_eq!(made, ints(0..count));
    fuel
}

#[test]
fn a_loop_that_pushes_takes_linear_work() {
    let (short, long) = (pushes(1000), pushes(10_000));
    assert!(long < 11 * short, "{short} for 1,000 and {long} for 10,000");
}

#[test]
fn functions_call_one_another() {
    // fn twice(x) { return x + x }; fn four_times(x) { return twice(twice(x)) }; fn nothing() {}
    let twice = code(2, vec![], vec![Instr::Binary(BinaryOp::Add, 1, 0, 0), Instr::Return(1)]);
    let four = code(
        2,
        vec![],
        vec![Instr::Call(1, 0, vec![0]), Instr::Call(0, 0, vec![1]), Instr::Return(0)],
    );
    let body = vec![
        Instr::Const(1, 0),
        Instr::Call(2, 1, vec![1]),
        Instr::Call(1, 2, vec![]),
        Instr::Result(2),
    ];
    let main = phase(None, &[], &[], code(3, vec![Value::Int(5)], body));
    let mut program = program(vec![], Type::Int, vec![main]);
    program.functions = vec![
        function("twice", 1, twice),
        function("four_times", 1, four),
        function("nothing", 0, code(0, vec![], vec![])),
    ];
    let done = finished(prepare(program, 0, vec![], Default::default()).start());
    assert_eq!(done.result, Some(Value::Int(20)));
    assert_eq!(done.fuel, 4 + 3 + 2 * 2);
}
