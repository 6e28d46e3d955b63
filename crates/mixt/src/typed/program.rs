//! Programs that a macro checked when Rust was compiled.

use std::sync::Arc;

use solera_language::compile;
use solera_program::ir;

use solera_program::value::Value;

use super::{FromValue, Store, ToValue};

/// A program that a macro has turned into a module of Rust.
pub trait Program: 'static {
    /// Its source. `SOLERA.MODULE LOAD` accepts it, too, and gives it the same name in records.
    const SOURCE: &'static str;

    /// Returns the compiled program. The first call compiles.
    fn compiled() -> &'static Arc<ir::Program>;
}

/// The `N`th struct of a program, counted from 0, as a Rust type.
pub trait StructAt<const N: usize> {
    /// The struct.
    type Rust: ToValue + FromValue;
}

/// The `N`th store of a program, counted from 0, as a type.
pub trait StoreAt<const N: usize> {
    /// The store.
    type Store: Store;
}

/// Compiles a source that a macro has compiled before.
///
/// # Panics
/// If the source has errors, which the macro would have rejected.
pub fn compile(source: &str) -> Arc<ir::Program> {
    let program = compile::compile(source).program;
    Arc::new(program.expect("a source with errors stops the compilation of its crate"))
}

/// Creates the value of a struct from those of its fields.
pub fn structure(fields: Vec<Value>) -> Value {
    Value::Struct(Arc::new(fields))
}

/// Returns the values of a struct's fields.
pub fn fields(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Struct(fields) => Some(fields),
        _ => None,
    }
}
