//! Checks names and types, and lowers the syntax tree to the flattened language with an explicit
//! order of evaluation.

mod calls;
mod declarations;
mod exits;
mod expressions;
mod leaving;
mod lower;
mod operators;
mod places;
mod statements;

pub use declarations::{Declarations, StoreInfo, StructInfo};
pub use lower::lower;
use solera_program::span::Span;
use solera_program::types::Type;

use crate::flat::Body;

/// A module with resolved names and types. It is valid only if no errors were reported.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Levels, stores, structs and signatures.
    pub declarations: Declarations,
    /// The functions, in the order of their declaration.
    pub functions: Vec<Checkable>,
    /// The transactions, in the order of their declaration.
    pub transactions: Vec<Checkable>,
}

/// A checked function or transaction.
#[derive(Clone, Debug)]
pub struct Checkable {
    /// Its name.
    pub name: String,
    /// The names and types of its parameters.
    pub params: Vec<(String, Type)>,
    /// Type of its result.
    pub result: Type,
    /// Level that the type of its result states, if any.
    pub stated: Option<(solera_levels::Label, Span)>,
    /// Span from its keyword to the type of its result.
    pub head: Span,
    /// Flattened body.
    pub body: Body,
}
