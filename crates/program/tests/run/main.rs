//! Tests the interpreter with programs that are written as instructions.

mod builtins;
mod failures;
mod instructions;
mod phases;
mod random;
mod support;
mod verification;
