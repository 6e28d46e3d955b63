//! Judges recorded histories of transactions against transactional causal consistency.
//!
//! The checker shares no code with the protocol: it has its own plain types, its own model of the
//! replicated types, written from their declarative meaning, and its own notion of time.
//!
//! - [`witness`]: the protocol exhibits a causal order (a snapshot and a dot per transaction); the
//!   checker verifies that this order satisfies the definition (UniStore §3): session order,
//!   transitivity, and every answer.
//! - [`blackbox`]: without any witness, what reads of sets with unique elements imply.
//! - [`convergence`]: after healing, all sites hold the same, and nothing that must survive is missing.
//! - [`properties`]: UniStore's Properties 1–4 as running assertions.

pub mod blackbox;
pub mod convergence;
mod history;
mod model;
pub mod properties;
pub mod witness;

pub use history::{
    Answer, FinalRead, History, Op, Operation, Status, Transaction, Violation, Witness,
};

/// Judges a history in every way; the first violations found, or none.
pub fn check(history: &History) -> Vec<Violation> {
    let mut violations = witness::check(history);
    violations.extend(blackbox::check(history));
    violations.extend(convergence::check(history));
    violations
}
