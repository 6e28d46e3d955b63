//! The interpreter, by programs written as instructions.

mod builtins;
mod failures;
mod instructions;
mod phases;
mod random;
mod support;
mod verification;
