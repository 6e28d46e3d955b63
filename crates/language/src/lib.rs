//! The MixT language: transactions over data of several consistency levels, checked and split.
//!
//! A source text becomes a tree (`syntax`), and the tree a program of phases (`ir`), which the interpreter
//! runs (`run`) with the values of `value`.

pub mod builtin;
pub mod codec;
pub mod diagnostic;
pub mod ir;
pub mod nesting;
pub mod objects;
pub mod operation;
pub mod run;
pub mod span;
pub mod syntax;
pub mod types;
pub mod value;
pub mod verify;
