//! Tests of the replica, one input at a time.
//!
//! They are one program, because each program would compile the generic code again.

mod complete;
mod demand;
mod early_delivery;
mod growing;
mod guards;
mod held;
mod joining;
mod paper;
mod recovery;
mod scan;
mod stability;
