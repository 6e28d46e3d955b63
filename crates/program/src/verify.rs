//! Verifies that the interpreter can run a program: programs may arrive over the network.
//!
//! The interpreter relies on verified properties: every index is in range, and every instruction
//! has the right number of operands and is allowed in its context. The kinds of values in registers
//! are not verified; the interpreter checks each.

mod code;

use crate::ir::{Program, Store, Transaction, VERSION};
use crate::nesting::MAX_NESTING;
use crate::types::{Object, StoreId, StructId, Type};

/// Maximum number of registers of a function or phase.
pub const MAX_REGISTERS: u32 = 1 << 16;

/// Error of a program that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the compiled program is invalid: {place}: {what}")]
pub struct Malformed {
    /// Part of the program with the error.
    pub place: String,
    /// Description of the error.
    pub what: String,
}

/// Verifies a program.
///
/// # Errors
/// Fails with the first error in the program.
pub fn verify(program: &Program) -> Result<(), Malformed> {
    if program.version != VERSION {
        let what = format!("{}, but this interpreter runs {VERSION}", program.version);
        return Err(Malformed { place: "its version".to_owned(), what });
    }
    for item in &program.structs {
        let fields = item.fields.iter().try_for_each(|(_, ty)| check_type(program, ty));
        at(|| format!("struct `{}`", item.name), fields)?;
    }
    for store in &program.stores {
        at(|| format!("store `{}`", store.name), check_store(program, store))?;
    }
    for (index, object) in program.objects.iter().enumerate() {
        at(|| format!("object {index}"), check_object(program, object, 0))?;
    }
    for function in &program.functions {
        let params = function.params as usize;
        code::check(program, &function.code, &code::Context::Function, params)
            .map_err(|what| Malformed { place: format!("function `{}`", function.name), what })?;
    }
    program.transactions.iter().try_for_each(|transaction| check_transaction(program, transaction))
}

fn at(place: impl FnOnce() -> String, found: Result<(), String>) -> Result<(), Malformed> {
    found.map_err(|what| Malformed { place: place(), what })
}

fn check_store(program: &Program, store: &Store) -> Result<(), String> {
    for operation in &store.operations {
        check_type(program, &operation.result)?;
        operation.params.iter().try_for_each(|param| check_type(program, &param.ty))?;
    }
    Ok(())
}

fn check_type(program: &Program, ty: &Type) -> Result<(), String> {
    check_type_at(program, ty, 0)
}

fn check_type_at(program: &Program, ty: &Type, level: u8) -> Result<(), String> {
    if level > MAX_NESTING {
        return Err(format!("a type is nested more than {MAX_NESTING} deep"));
    }
    let inner = |ty: &Type| check_type_at(program, ty, level + 1);
    match ty {
        Type::Unit | Type::Bool | Type::Int | Type::Float | Type::String | Type::Bytes => Ok(()),
        Type::Option(of) | Type::List(of) | Type::Set(of) => inner(of),
        Type::Map(key, value) => inner(key).and_then(|()| inner(value)),
        Type::Struct(id) => check_struct(program, *id),
        Type::Handle(object, store) => {
            check_store_id(program, *store)?;
            check_object(program, object, level + 1)
        }
        Type::Unknown => Err("a type is not known".to_owned()),
    }
}

fn check_object(program: &Program, object: &Object, level: u8) -> Result<(), String> {
    let inner = |ty: &Type| check_type_at(program, ty, level + 1);
    match object {
        Object::Counter => Ok(()),
        Object::Register(of)
        | Object::Set(of)
        | Object::List(of)
        | Object::Log(of)
        | Object::RemoteList(of) => inner(of),
        Object::Map(key, value) => inner(key).and_then(|()| inner(value)),
        Object::Struct(id) => check_struct(program, *id),
    }
}

fn check_struct(program: &Program, id: StructId) -> Result<(), String> {
    let found = program.structs.get(usize::from(id.0)).map(|_| ());
    found.ok_or_else(|| format!("there is no struct {}", id.0))
}

fn check_store_id(program: &Program, id: StoreId) -> Result<(), String> {
    let found = program.stores.get(usize::from(id.0)).map(|_| ());
    found.ok_or_else(|| format!("there is no store {}", id.0))
}

fn check_transaction(program: &Program, transaction: &Transaction) -> Result<(), Malformed> {
    let place = || format!("transaction `{}`", transaction.name);
    let mut types = transaction.params.iter().map(|(_, ty)| ty).chain([&transaction.result]);
    at(place, types.try_for_each(|ty| check_type(program, ty)))?;
    if transaction.result_phase as usize >= transaction.phases.len() {
        let what = format!("there is no phase {}", transaction.result_phase);
        return Err(Malformed { place: place(), what });
    }
    for number in 0..transaction.phases.len() {
        let phase = || format!("transaction `{}`, phase {number}", transaction.name);
        at(phase, check_phase(program, transaction, number))?;
    }
    Ok(())
}

fn check_phase(program: &Program, transaction: &Transaction, number: usize) -> Result<(), String> {
    let phase = &transaction.phases[number];
    if let Some(store) = phase.store {
        check_store_id(program, store)?;
    }
    if phase.endorsing && phase.mutates {
        return Err("it reads for an endorsement, so it must not write".to_owned());
    }
    for tapes in [&phase.takes, &phase.gives] {
        if !tapes.is_sorted_by(|a, b| a < b) {
            return Err("its tapes are not in ascending order".to_owned());
        }
        if tapes.last().is_some_and(|last| *last >= transaction.tapes) {
            return Err(format!("there are only {} tapes", transaction.tapes));
        }
    }
    let earlier = &transaction.phases[..number];
    let given = |tape: &u32| earlier.iter().any(|phase| phase.gives.binary_search(tape).is_ok());
    if let Some(tape) = phase.takes.iter().find(|tape| !given(tape)) {
        return Err(format!("no earlier phase gives tape {tape}"));
    }
    let yields = transaction.result_phase as usize == number;
    let context = code::Context::Phase { phase, yields };
    code::check(program, &phase.code, &context, transaction.params.len())
}
