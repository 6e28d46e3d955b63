//! Programs of transactions, as the compiler of the language makes them: plain data without I/O,
//! clock or randomness.
//!
//! A program (`ir`) is checked before it runs (`verify`), whoever made it. The interpreter (`run`)
//! executes a phase with the values of `value`, within limits, and stops where it needs an answer
//! of a store: so any host can run it, and all of them come to the same result. `codec` writes
//! values for clients and stores; `operation` and `objects` are what can be done with the objects
//! of stores, and `keys` which operations on the keys of Solera that is.

pub mod builtin;
pub mod codec;
pub mod ir;
pub mod keys;
pub mod nesting;
pub mod objects;
pub mod operation;
pub mod operator;
pub mod run;
pub mod span;
pub mod types;
pub mod value;
pub mod verify;
