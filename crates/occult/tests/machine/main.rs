//! Tests of the machines of servers and gateways.
//!
//! They are one program, because each program would compile the generic code again.

mod checkpoint;
mod decisions;
mod gateway;
mod gateways;
mod home;
mod moves;
mod net;
mod replicas;
mod timestamps;
