//! Tests of the runtime of mixed transactions.
//!
//! They are one program, because each program would compile the generic code again.

mod adversity;
mod any_bytes;
mod certify;
mod garbage;
mod memory;
mod recovery_lease;
mod remote;
mod rights;
mod transactions;
mod typed;
#[path = "../world/mod.rs"]
mod world;
