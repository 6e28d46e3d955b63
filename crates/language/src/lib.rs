//! The MixT language: transactions over data of several consistency levels, checked and split.
//!
//! A source text becomes a tree (`syntax`).

pub mod diagnostic;
pub mod render;
pub mod span;
pub mod syntax;
