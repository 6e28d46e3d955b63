//! Builds and runs programs that are made of instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::ir::{
    Code, Function, Instr, Operation, OperationParam, Phase, Program, Store, Struct, Transaction,
    VERSION,
};
use solera_program::run::{Failure, FailureKind, Finished, Limits, Names, Run, Step, Tapes};
use solera_program::span::Span;
use solera_program::types::{Object, StoreId, StructId, Type};
use solera_program::value::{Handle, Value};
use solera_program::verify::verify;

pub(crate) const DIRECTORY: StoreId = StoreId(0);
pub(crate) const MAIL: StoreId = StoreId(1);
pub(crate) const LOGS: StoreId = StoreId(2);
/// `struct User { name: string, age: int }`
pub(crate) const USER: StructId = StructId(0);

pub(crate) fn text(text: &str) -> Value {
    Value::string(text)
}

pub(crate) fn ints(values: impl IntoIterator<Item = i64>) -> Value {
    Value::list(values.into_iter().map(Value::Int))
}

pub(crate) fn set(values: impl IntoIterator<Item = i64>) -> Value {
    Value::Set(Arc::new(values.into_iter().map(Value::Int).collect::<BTreeSet<_>>()))
}

pub(crate) fn map(entries: impl IntoIterator<Item = (i64, i64)>) -> Value {
    let entries = entries.into_iter().map(|(k, v)| (Value::Int(k), Value::Int(v)));
    Value::Map(Arc::new(entries.collect::<BTreeMap<_, _>>()))
}

pub(crate) fn handle(store: &str, key: &str) -> Value {
    Value::Handle(Handle { store: store.into(), key: key.into() })
}

pub(crate) fn handle_type(object: Object, store: StoreId) -> Type {
    Type::Handle(Arc::new(object), store)
}

/// Creates code in which the span of each instruction is its index.
pub(crate) fn code(registers: u32, constants: Vec<Value>, instructions: Vec<Instr>) -> Code {
    let spans = (0..instructions.len()).map(|at| Span::new(at, at + 1)).collect();
    Code { instructions, spans, constants, registers }
}

pub(crate) fn phase(store: Option<StoreId>, takes: &[u32], gives: &[u32], code: Code) -> Phase {
    Phase {
        store,
        endorsing: false,
        mutates: true,
        witnesses: false,
        takes: takes.to_vec(),
        gives: gives.to_vec(),
        code,
    }
}

pub(crate) fn program(params: Vec<Type>, result: Type, phases: Vec<Phase>) -> Program {
    let store = |name: &str, level, operations| Store {
        name: name.into(),
        level: format!("{level:?}").to_lowercase().into(),
        accepts: vec![level],
        atomic: true,
        operations,
    };
    let find = Operation {
        name: "find".into(),
        params: vec![
            OperationParam {
                name: "in".into(),
                ty: Type::Set(Type::Int.into()),
                dereferenced: true,
            },
            OperationParam { name: "what".into(), ty: Type::Int, dereferenced: false },
        ],
        result: Type::Bool,
        mutates: true,
    };
    Program {
        version: VERSION,
        stores: vec![
            store("directory", solera_levels::Level::Linearizable, vec![]),
            store("mail", solera_levels::Level::Causal, vec![find]),
            store("logs", solera_levels::Level::Eventual, vec![]),
        ],
        structs: vec![Struct {
            name: "User".into(),
            fields: vec![("name".into(), Type::String), ("age".into(), Type::Int)],
        }],
        objects: vec![
            Object::Counter,
            Object::Register(Type::Int),
            Object::Set(Type::String),
            Object::Log(Type::Int),
            Object::RemoteList(handle_type(Object::Set(Type::String), MAIL)),
            Object::Struct(USER),
        ],
        functions: vec![],
        transactions: vec![Transaction {
            name: "tested".into(),
            params: params
                .into_iter()
                .enumerate()
                .map(|(index, ty)| (format!("p{index}").into(), ty))
                .collect(),
            result,
            phases,
            tapes: 8,
            result_phase: 0,
        }],
    }
}

/// Creates a function with this number of arguments.
pub(crate) fn function(name: &str, params: u32, code: Code) -> Function {
    Function { name: name.into(), code, params }
}

pub(crate) fn limits(fuel: u64) -> Limits {
    Limits { fuel, ..Limits::default() }
}

pub(crate) fn prepare(program: Program, number: usize, args: Vec<Value>, tapes: Tapes) -> Run {
    verify(&program).unwrap();
    let names = Names { prefix: "tx7".into() };
    Run::new(program.into(), 0, number, args, tapes, names, Limits::default()).unwrap()
}

pub(crate) fn finished(step: Step) -> Finished {
    match step {
        Step::Finished(finished) => finished,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn failed(step: Step) -> Failure {
    match step {
        Step::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

/// Runs instructions over constants, which are in the first registers, and returns the final value
/// of register 10.
pub(crate) fn eval(
    constants: Vec<Value>,
    ty: Type,
    body: Vec<Instr>,
) -> Result<Value, FailureKind> {
    eval_within(constants, ty, body, Limits::default()).map(|(value, _)| value)
}

/// Runs instructions like [`eval`], with limits; also returns the fuel used.
pub(crate) fn eval_within(
    constants: Vec<Value>,
    ty: Type,
    body: Vec<Instr>,
    limits: Limits,
) -> Result<(Value, u64), FailureKind> {
    // Jump targets in the body are relative to its beginning.
    let shift = constants.len() as u32;
    let mut instructions: Vec<Instr> = (0..shift).map(|index| Instr::Const(index, index)).collect();
    instructions.extend(body.into_iter().map(|instr| match instr {
        Instr::Jump(to) => Instr::Jump(to + shift),
        Instr::JumpUnless(condition, to) => Instr::JumpUnless(condition, to + shift),
        other => other,
    }));
    instructions.push(Instr::Result(10));
    let program =
        program(vec![], ty, vec![phase(None, &[], &[], code(11, constants, instructions))]);
    verify(&program).unwrap();
    let names = Names { prefix: "tx7".into() };
    let run = Run::new(program.into(), 0, 0, vec![], Tapes::new(), names, limits);
    match run.unwrap().start() {
        Step::Finished(finished) => Ok((finished.result.unwrap(), finished.fuel)),
        Step::Failed(failure) => Err(failure.kind),
        other => panic!("{other:?}"),
    }
}
