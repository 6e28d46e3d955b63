//! From a source text to a tree.

pub mod ast;
