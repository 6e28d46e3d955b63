//! The MixT language: transactions over data of several consistency levels, checked and split.
//!
//! A source text becomes a tree (`syntax`), the tree a flattened body (`check`, `flat`), whose flows are checked
//! (`flow`) and which is split into phases (`split`): plain data (`ir`) that the interpreter runs (`run`) with the
//! values of `value`. `compile` does all of it, and `explain` tells how it came about.

pub mod builtin;
pub mod check;
pub mod codec;
pub mod codes;
pub mod compile;
pub mod diagnostic;
pub mod explain;
pub mod flat;
pub mod flow;
pub mod ir;
pub mod nesting;
pub mod objects;
pub mod operation;
pub mod render;
pub mod run;
pub mod span;
pub mod split;
pub mod syntax;
pub mod types;
pub mod value;
pub mod verify;
