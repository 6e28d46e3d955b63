//! Tests of the machine.
//!
//! They are one program, because each program would compile the generic code again.

mod cluster;
mod commands;
mod homes;
mod recovery;
mod validate;
