//! The MixT language: transactions over data of several consistency levels, checked and split.
//!
//! A source text becomes a tree (`syntax`), the tree a flattened body (`check`, `flat`), whose
//! flows are checked (`flow`) and which is split into phases (`split`): a program as
//! `solera-program` runs it. `compile` does all of it, and `explain` tells how it came about.

pub mod check;
pub mod codes;
pub mod compile;
pub mod diagnostic;
pub mod explain;
pub mod flat;
pub mod flow;
pub mod render;
pub mod risk;
pub mod split;
pub mod syntax;
