//! Every verified program runs without a panic.

use std::sync::Arc;

use proptest::prelude::*;
use solera_program::builtin::Builtin;
use solera_program::ir::{Instr, Program};
use solera_program::operation::ObjectOp;
use solera_program::operator::{BinaryOp, UnaryOp};
use solera_program::run::{Names, Refusal, Run, Step, Tapes};
use solera_program::types::Type;
use solera_program::value::Value;
use solera_program::verify::verify;

use crate::support::*;

/// Runs all phases, with answers that only partly fit, and returns the steps.
fn run(program: Program) -> Vec<String> {
    let program = Arc::new(program);
    let mut steps = Vec::new();
    let mut tapes = Tapes::new();
    let number = program.transactions.first().map_or(0, |transaction| transaction.phases.len());
    for phase in 0..number {
        let names = Names { prefix: "tx7".into() };
        let args = vec![handle("mail", "a"), ints([1, 2]), text("b")];
        let run = Run::new(program.clone(), 0, phase, args, tapes.clone(), names, limits(2000));
        let Ok(mut run) = run else {
            return steps;
        };
        let mut step = run.start();
        loop {
            steps.push(format!("{step:?}"));
            step = match step {
                Step::Remote(call) => run.resume(answer(&call.result)),
                Step::Custom(call) => run.resume(answer(&call.result)),
                Step::Finished(finished) => {
                    tapes.extend(finished.tapes);
                    break;
                }
                Step::Failed(_) => return steps,
            };
        }
    }
    steps
}

fn answer(ty: &Type) -> Result<Value, Refusal> {
    Ok(match ty {
        Type::Unit => Value::Unit,
        Type::Bool => Value::Bool(true),
        Type::Int => Value::Int(3),
        Type::String => text("c"),
        Type::Option(_) => Value::NONE,
        Type::Set(_) => Value::Set(Arc::default()),
        Type::List(_) => ints([]),
        Type::Struct(_) => return Err(Refusal::Missing),
        _ => handle("mail", "d"),
    })
}

fn constants() -> Vec<Value> {
    vec![
        Value::Unit,
        Value::Bool(true),
        Value::Int(0),
        Value::Int(i64::MIN),
        Value::Float(-0.5),
        text("äb"),
        Value::Bytes(b"\xff".as_slice().into()),
        Value::NONE,
        Value::some(Value::Int(2)),
        ints([1, 2, 3]),
        Value::list([text("a"), text("b")]),
        set([1, 2]),
        map([(1, 2)]),
        handle("mail", "k"),
        handle("logs", "k"),
    ]
}

const REGISTERS: u32 = 24;
const BUILTINS: [(Builtin, usize); 48] = {
    use Builtin as B;
    [
        (B::Some, 1),
        (B::IsSome, 1),
        (B::IsNone, 1),
        (B::OrElse, 2),
        (B::OrFail, 1),
        (B::Len, 1),
        (B::Index, 2),
        (B::Get, 2),
        (B::Contains, 2),
        (B::Elements, 1),
        (B::Push, 2),
        (B::SetAt, 3),
        (B::RemoveAt, 2),
        (B::Reversed, 1),
        (B::Sorted, 1),
        (B::Slice, 3),
        (B::Join, 2),
        (B::Insert, 2),
        (B::Remove, 2),
        (B::Union, 2),
        (B::Intersection, 2),
        (B::Difference, 2),
        (B::Put, 3),
        (B::RemoveKey, 2),
        (B::Values, 1),
        (B::StartsWith, 2),
        (B::EndsWith, 2),
        (B::Split, 2),
        (B::Upper, 1),
        (B::Lower, 1),
        (B::Trim, 1),
        (B::ToString, 1),
        (B::ParseInt, 1),
        (B::ParseFloat, 1),
        (B::ToBytes, 1),
        (B::ToText, 1),
        (B::ToInt, 1),
        (B::ToFloat, 1),
        (B::Min, 2),
        (B::Max, 2),
        (B::Abs, 1),
        (B::Floor, 1),
        (B::Sqrt, 1),
        (B::Push, 2),
        (B::Put, 3),
        (B::Insert, 2),
        (B::Index, 2),
        (B::Slice, 3),
    ]
};

fn instr(length: u32) -> impl Strategy<Value = Instr> {
    let reg = || 0..REGISTERS;
    let binary = prop::sample::select(vec![
        BinaryOp::Add,
        BinaryOp::Subtract,
        BinaryOp::Multiply,
        BinaryOp::Divide,
        BinaryOp::Remainder,
        BinaryOp::Equal,
        BinaryOp::Less,
    ]);
    let unary = prop::sample::select(vec![UnaryOp::Negate, UnaryOp::Not]);
    let remote = prop::sample::select(vec![
        (ObjectOp::Value, 0, 0),
        (ObjectOp::Increment, 0, 1),
        (ObjectOp::Load, 1, 0),
        (ObjectOp::Insert, 2, 1),
        (ObjectOp::At, 3, 1),
        (ObjectOp::Field(1), 4, 0),
        (ObjectOp::Create, 5, 2),
    ]);
    let of_builtin = (prop::sample::select(BUILTINS.to_vec()), reg(), [reg(), reg(), reg()]);
    prop_oneof![
        8 => of_builtin.prop_map(|((builtin, arity), dst, args)| {
            Instr::Builtin(builtin, dst, args[..arity].to_vec())
        }),
        2 => (reg(), 0..15_u32).prop_map(|(dst, index)| Instr::Const(dst, index)),
        2 => (reg(), reg()).prop_map(|(dst, src)| Instr::Move(dst, src)),
        3 => (binary, reg(), reg(), reg()).prop_map(|(op, d, a, b)| Instr::Binary(op, d, a, b)),
        1 => (unary, reg(), reg()).prop_map(|(op, dst, a)| Instr::Unary(op, dst, a)),
        1 => (reg(), reg(), reg()).prop_map(|(dst, a, b)| Instr::List(dst, vec![a, b])),
        1 => (reg(), reg(), reg()).prop_map(|(dst, a, b)| Instr::Set(dst, vec![a, b])),
        1 => (reg(), reg(), reg()).prop_map(|(dst, a, b)| Instr::Map(dst, vec![a, b])),
        1 => (reg(), reg(), reg()).prop_map(|(dst, a, b)| Instr::Struct(dst, USER, vec![a, b])),
        1 => (reg(), reg(), 0..3_u16).prop_map(|(dst, src, at)| Instr::Field(dst, src, at)),
        1 => (reg(), reg(), 0..3_u16, reg()).prop_map(|(d, s, at, v)| Instr::WithField(d, s, at, v)),
        1 => (reg(), reg()).prop_map(|(dst, a)| Instr::Call(dst, 0, vec![a])),
        1 => (0..length).prop_map(Instr::Jump),
        1 => (reg(), 0..length).prop_map(|(condition, to)| Instr::JumpUnless(condition, to)),
        1 => reg().prop_map(Instr::Result),
        1 => reg().prop_map(|dst| Instr::Fresh(dst, MAIL)),
        1 => (reg(), reg()).prop_map(|(dst, key)| Instr::Handle(dst, MAIL, key)),
        1 => reg().prop_map(|src| Instr::Record(0, src)),
        1 => (remote, reg(), reg(), [reg(), reg()]).prop_map(|((op, object, arity), dst, handle, args)| {
            Instr::Remote { dst, store: MAIL, op, object, handle, args: args[..arity].to_vec() }
        }),
        1 => (reg(), reg(), reg()).prop_map(|(dst, a, b)| {
            Instr::Custom { dst, store: MAIL, operation: 0, args: vec![a, b] }
        }),
    ]
}

fn random_program(body: Vec<Instr>) -> Program {
    let mut instructions: Vec<Instr> =
        (0..15).map(|index| Instr::Const(index + 3, index)).collect();
    let shift = instructions.len() as u32;
    instructions.extend(body.into_iter().map(|instr| match instr {
        Instr::Jump(to) => Instr::Jump(to + shift),
        Instr::JumpUnless(condition, to) => Instr::JumpUnless(condition, to + shift),
        other => other,
    }));
    let main = phase(Some(MAIL), &[], &[0], code(REGISTERS, constants(), instructions));
    let replay = code(4, vec![], vec![Instr::Advance(0, 3), Instr::Jump(0)]);
    let counter = handle_type(solera_program::types::Object::Counter, MAIL);
    let params = vec![counter, Type::List(Type::Int.into()), Type::String];
    let mut program = program(params, Type::Unit, vec![main, phase(None, &[0], &[], replay)]);
    let body = vec![Instr::Builtin(Builtin::Push, 0, vec![0, 0]), Instr::Return(0)];
    program.functions = vec![function("f", 1, code(2, vec![], body))];
    program
}

fn body() -> impl Strategy<Value = Vec<Instr>> {
    prop::collection::vec(instr(12), 12..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_instructions_run_without_a_panic_and_deterministically(body in body()) {
        let program = random_program(body);
        prop_assert_eq!(verify(&program), Ok(()));
        prop_assert_eq!(run(program.clone()), run(program));
    }

    #[test]
    fn programs_with_changed_bytes_are_rejected_or_run(
        body in body(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = postcard::to_stdvec(&random_program(body)).unwrap();
        for (place, byte) in changes {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(program) = postcard::from_bytes::<Program>(&bytes)
            && verify(&program).is_ok()
        {
            run(program);
        }
    }
}
