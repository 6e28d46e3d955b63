//! The MixT language: transactions over data of several consistency levels, checked and split.
//!
//! The parser turns a source text into a tree (`syntax`). The checker lowers the tree to flattened
//! bodies (`check`, `flat`), whose flows are checked (`flow`). Splitting them into phases (`split`)
//! yields a program that `solera-program` runs. `compile` runs all stages, and `explain` explains
//! the result.

pub mod check;
pub mod codes;
pub mod compile;
pub mod diagnostic;
pub mod explain;
pub mod flat;
pub mod flow;
pub mod nearest;
pub mod render;
pub mod risk;
pub mod split;
pub mod syntax;
