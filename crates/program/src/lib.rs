//! Programs of transactions that the MixT compiler generates, and their interpreter, without I/O,
//! clocks or randomness.
//!
//! A program (`ir`) is verified before it runs (`verify`), whatever its origin. The interpreter
//! (`run`) executes a phase on the values of `value`, within limits. It pauses where it needs a
//! result of a store, so that any host can run it, and every host computes the same result. `codec`
//! encodes values for clients and stores. `operation` and `objects` define the operations on
//! objects of stores, and `keys` maps them to operations on Solera's keys.

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
