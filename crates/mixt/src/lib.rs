//! Runs mixed transactions (MixT §4–§5): the phases that the compiler has split a transaction into, each over
//! its own store, so that together they are one transaction.
//!
//! A [`Coordinator`](coordinator::Coordinator) is one transaction as a state machine without I/O: it says what is to
//! be asked of which database, and goes on with the answer. [`drive::run`] asks real databases, which implement the
//! traits of [`store`]; [`memory`] is one of them, and [`conformance`] what their tests check. [`collect`] removes what transactions leave behind, and
//! [`recovery`] completes those whose coordinators died.
//!
//! Where a database has a [`worker`], a group of phases is shipped to it and costs one round trip.
//!
//! What is guaranteed, and what is not, is said at [`coordinator`].

pub mod binding;
pub mod collect;
pub mod conformance;
pub mod coordinator;
pub mod drive;
mod group;
mod job;
pub mod memory;
pub mod outcome;
pub mod plan;
pub mod record;
pub mod recovery;
pub mod shipment;
mod sight;
pub mod store;
mod witness;
pub mod worker;
