//! Tests each function and method of values.

use solera_program::builtin::Builtin as B;
use solera_program::ir::Instr;
use solera_program::run::FailureKind;
use solera_program::types::Type;
use solera_program::value::Value;

use crate::support::*;

/// Returns the type of a test's result. Empty collections have integer elements.
fn type_of(value: &Value) -> Type {
    let of = |value: Option<&Value>| value.map_or(Type::Int, type_of).into();
    match value {
        Value::Unit => Type::Unit,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Float(_) => Type::Float,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        Value::Option(value) => Type::Option(of(value.as_deref())),
        Value::List(values) => Type::List(of(values.first())),
        Value::Set(values) => Type::Set(of(values.first())),
        Value::Map(_) => Type::Map(Type::Int.into(), Type::Int.into()),
        Value::Struct(_) => Type::Struct(USER),
        Value::Handle(_) => unreachable!("no builtin makes one"),
    }
}

fn call(builtin: B, args: Vec<Value>, ty: Type) -> Result<Value, FailureKind> {
    let registers = (0..args.len() as u32).collect();
    eval(args, ty, vec![Instr::Builtin(builtin, 10, registers)])
}

/// Calls a builtin twice: once with a separate result register, once with the receiver's register.
#[track_caller]
fn gives(builtin: B, args: impl IntoIterator<Item = Value>, expected: Value) {
    let args: Vec<Value> = args.into_iter().collect();
    let ty = type_of(&expected);
    assert_eq!(call(builtin, args.clone(), ty.clone()), Ok(expected.clone()), "{builtin:?}");
    let registers = (0..args.len() as u32).collect();
    let body = vec![Instr::Builtin(builtin, 0, registers), Instr::Move(10, 0)];
    assert_eq!(eval(args, ty, body), Ok(expected), "{builtin:?} in place");
}

#[track_caller]
fn fails(builtin: B, args: impl IntoIterator<Item = Value>, expected: FailureKind) {
    assert_eq!(call(builtin, args.into_iter().collect(), Type::Int), Err(expected));
}

fn int(number: i64) -> Value {
    Value::Int(number)
}

fn some(number: i64) -> Value {
    Value::some(Value::Int(number))
}

fn float(number: f64) -> Value {
    Value::Float(number)
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.into())
}

const YES: Value = Value::Bool(true);
const NO: Value = Value::Bool(false);

#[test]
fn options_are_tested_and_unwrapped() {
    gives(B::Some, [int(1)], some(1));
    gives(B::IsSome, [some(1)], YES);
    gives(B::IsSome, [Value::NONE], NO);
    gives(B::IsNone, [some(1)], NO);
    gives(B::IsNone, [Value::NONE], YES);
    gives(B::OrElse, [some(1), int(2)], int(1));
    gives(B::OrElse, [Value::NONE, int(2)], int(2));
    gives(B::OrFail, [some(1)], int(1));
    fails(B::OrFail, [Value::NONE], FailureKind::NothingThere);
}

#[test]
fn lengths_of_all_kinds_of_values_are_counted() {
    gives(B::Len, [ints([1, 2])], int(2));
    gives(B::Len, [set([1, 2])], int(2));
    gives(B::Len, [map([(1, 2)])], int(1));
    gives(B::Len, [text("äöü")], int(3));
    gives(B::Len, [bytes(b"abc")], int(3));
}

#[test]
fn elements_are_found() {
    gives(B::Index, [ints([7, 8]), int(1)], int(8));
    fails(B::Index, [ints([7]), int(1)], FailureKind::OutOfRange { index: 1, length: 1 });
    fails(B::Index, [ints([7]), int(-1)], FailureKind::OutOfRange { index: -1, length: 1 });
    gives(B::Index, [map([(7, 8)]), int(7)], int(8));
    fails(B::Index, [map([(7, 8)]), int(9)], FailureKind::MissingKey("9".into()));
    gives(B::Get, [ints([7]), int(0)], some(7));
    gives(B::Get, [ints([7]), int(1)], Value::NONE);
    gives(B::Get, [map([(7, 8)]), int(7)], some(8));
    gives(B::Get, [map([(7, 8)]), int(8)], Value::NONE);
    for holder in [ints([7]), set([7]), map([(7, 8)])] {
        gives(B::Contains, [holder.clone(), int(7)], YES);
        gives(B::Contains, [holder, int(8)], NO);
    }
    gives(B::Contains, [text("abc"), text("bc")], YES);
    gives(B::Contains, [text("abc"), text("cb")], NO);
    gives(B::Elements, [ints([2, 1])], ints([2, 1]));
    gives(B::Elements, [set([2, 1])], ints([1, 2]));
    gives(B::Elements, [map([(2, 0), (1, 0)])], ints([1, 2]));
    gives(B::Values, [map([(2, 8), (1, 9)])], ints([9, 8]));
}

#[test]
fn lists_are_changed_sliced_and_sorted() {
    gives(B::Push, [ints([1]), int(2)], ints([1, 2]));
    gives(B::SetAt, [ints([1, 2]), int(0), int(3)], ints([3, 2]));
    let beyond = FailureKind::OutOfRange { index: 2, length: 2 };
    fails(B::SetAt, [ints([1, 2]), int(2), int(3)], beyond.clone());
    gives(B::RemoveAt, [ints([1, 2]), int(0)], ints([2]));
    fails(B::RemoveAt, [ints([1, 2]), int(2)], beyond);
    gives(B::Reversed, [ints([1, 2, 3])], ints([3, 2, 1]));
    gives(B::Sorted, [ints([3, 1, 2])], ints([1, 2, 3]));
    gives(B::Slice, [ints([1, 2, 3]), int(1), int(2)], ints([2]));
    gives(B::Slice, [ints([1, 2, 3]), int(-5), int(9)], ints([1, 2, 3]));
    gives(B::Slice, [ints([1, 2, 3]), int(2), int(1)], ints([]));
    gives(B::Join, [Value::list([text("a"), text("b")]), text(", ")], text("a, b"));
    gives(B::Join, [ints([]), text(", ")], text(""));
}

#[test]
fn sets_and_maps_are_read_and_changed() {
    gives(B::Insert, [set([1]), int(2)], set([1, 2]));
    gives(B::Insert, [set([1]), int(1)], set([1]));
    gives(B::Remove, [set([1, 2]), int(1)], set([2]));
    gives(B::Remove, [set([2]), int(1)], set([2]));
    gives(B::Union, [set([1, 2]), set([2, 3])], set([1, 2, 3]));
    gives(B::Intersection, [set([1, 2]), set([2, 3])], set([2]));
    gives(B::Difference, [set([1, 2]), set([2, 3])], set([1]));
    gives(B::Put, [map([(1, 2)]), int(3), int(4)], map([(1, 2), (3, 4)]));
    gives(B::Put, [map([(1, 2)]), int(1), int(4)], map([(1, 4)]));
    gives(B::RemoveKey, [map([(1, 2)]), int(1)], map([]));
    gives(B::RemoveKey, [map([(1, 2)]), int(2)], map([(1, 2)]));
}

#[test]
fn texts_are_searched_split_and_converted() {
    gives(B::StartsWith, [text("abc"), text("ab")], YES);
    gives(B::StartsWith, [text("abc"), text("bc")], NO);
    gives(B::EndsWith, [text("abc"), text("bc")], YES);
    gives(B::EndsWith, [text("abc"), text("ab")], NO);
    gives(B::Split, [text("a,b"), text(",")], Value::list([text("a"), text("b")]));
    fails(B::Split, [text("a"), text("")], FailureKind::EmptySeparator);
    gives(B::Slice, [text("aäöz"), int(1), int(3)], text("äö"));
    gives(B::Slice, [text("aäöz"), int(2), int(99)], text("öz"));
    gives(B::Slice, [text("aäöz"), int(5), int(99)], text(""));
    gives(B::Slice, [bytes(b"abc"), int(1), int(99)], bytes(b"bc"));
    gives(B::Upper, [text("aä")], text("Aä"));
    gives(B::Lower, [text("AÄ")], text("aÄ"));
    gives(B::Trim, [text(" a ")], text("a"));
    gives(B::ParseInt, [text("-12")], some(-12));
    gives(B::ParseInt, [text("12a")], Value::NONE);
    gives(B::ParseFloat, [text("0.5")], Value::some(float(0.5)));
    gives(B::ParseFloat, [text("x")], Value::NONE);
    gives(B::ToBytes, [text("ä")], bytes("ä".as_bytes()));
    gives(B::ToText, [bytes("ä".as_bytes())], Value::some(text("ä")));
    gives(B::ToText, [bytes(b"\xff")], Value::NONE);
    gives(B::ToString, [int(-3)], text("-3"));
    gives(B::ToString, [float(1.0)], text("1.0"));
    gives(B::ToString, [YES], text("true"));
    gives(B::ToString, [text("a")], text("a"));
    gives(B::ToString, [handle("mail", "k")], text("k"));
}

#[test]
fn numbers_are_converted_and_rounded() {
    gives(B::ToInt, [float(-1.9)], int(-1));
    gives(B::ToInt, [float(-9_223_372_036_854_775_808.0)], int(i64::MIN));
    for beyond in [9_223_372_036_854_775_808.0, f64::NAN, f64::NEG_INFINITY] {
        fails(B::ToInt, [float(beyond)], FailureKind::Overflow(format!("{beyond:?}")));
    }
    gives(B::ToFloat, [int(3)], float(3.0));
    gives(B::Min, [int(1), int(2)], int(1));
    gives(B::Max, [int(1), int(2)], int(2));
    gives(B::Min, [float(0.0), float(-0.0)], float(-0.0));
    gives(B::Max, [float(-0.0), float(0.0)], float(0.0));
    gives(B::Min, [float(1.0), float(f64::NAN)], float(f64::NAN));
    gives(B::Abs, [int(-1)], int(1));
    gives(B::Abs, [float(-1.0)], float(1.0));
    fails(B::Abs, [int(i64::MIN)], FailureKind::Overflow(format!("abs({})", i64::MIN)));
    gives(B::Floor, [float(-1.5)], float(-2.0));
    gives(B::Sqrt, [float(9.0)], float(3.0));
    gives(B::Sqrt, [float(-1.0)], float(f64::NAN));
}
