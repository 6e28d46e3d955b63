//! Judges recorded histories of transactions by the level of each operation: convergence,
//! transactional causal consistency, PoR consistency, or linearizability.
//!
//! The checker shares no code with the protocol: it has its own plain types, its own model of the
//! replicated types, written from their specification, and its own notion of time.
//!
//! - [`witness`]: checks the causal order that the protocol reports, as a snapshot and a dot for
//!   each transaction. The order must satisfy the definition (UniStore §3): session order,
//!   transitivity, and every answer.
//! - [`strong`]: checks that conflicting strong transactions observe one another in the order of
//!   their timestamps, and that linearizable keys follow real time.
//! - [`blackbox`]: needs no witnesses; checks the causal order that reads of unique elements and
//!   values imply.
//! - [`linearizability`]: needs no witnesses; searches for an order of the operations on each
//!   single key.
//! - [`dependencies`]: needs no witnesses; finds cycles in the dependencies of strong transactions
//!   over several keys.
//! - [`interval`]: searches for an order of the updates of a counter and of reads that were
//!   answered with intervals, independently of the other checkers.
//! - [`convergence`]: checks that after healing all sites return the same data, and that no
//!   transaction that must survive is missing.
//! - [`properties`]: UniStore's Properties 1–7, checked during a run.
//! - [`pcpsi`]: checks histories of per-client parallel snapshot isolation, independently of the
//!   other checkers.
//! - [`primary`]: checks histories of the primary-copy protocol, independently of the other
//!   checkers.
//! - [`speculative`]: checks histories of speculative spaces, independently of the other checkers.
//! - [`text`]: reads and writes histories as text, one transaction per line, for files, tests and
//!   other checkers.
//!
//! ```
//! let history: solera_checker::History = "
//!     solera-history 1
//!     sites 2
//!     t 0@0 committed [0 0] 1@0 | cart SADD tea = 1
//!     t 1@1 committed [1 0] | cart SMEMBERS = {tea}
//!     t 1@1 committed [0 0] | cart SMEMBERS = {}
//! "
//! .parse()
//! .unwrap();
//! let violations = solera_checker::check(&history);
//! assert!(violations.iter().any(|violation| violation.to_string().starts_with("stale read")));
//! ```

pub mod blackbox;
pub mod convergence;
pub mod dependencies;
mod history;
pub mod interval;
pub mod linearizability;
mod model;
pub mod pcpsi;
pub mod primary;
pub mod properties;
mod sequential;
pub mod speculative;
pub mod strong;
pub mod text;
mod violation;
pub mod witness;

pub use history::{
    Answer, FinalRead, History, Interval, Level, Op, Operation, Origin, Status, Transaction,
    Witness,
};
pub use violation::{Before, Violation};

/// Judges a history with every checker. Returns all violations found, each once. A correct store,
/// which provides causal consistency and the levels of its strong operations, has none.
pub fn check(history: &History) -> Vec<Violation> {
    let mut violations = witness::check(history);
    let others = [
        strong::check(history),
        blackbox::check(history),
        linearizability::check(history),
        dependencies::check(history),
        convergence::check(history),
    ];
    for violation in others.into_iter().flatten() {
        // The checkers overlap, so that each checks the others.
        if !violations.contains(&violation) {
            violations.push(violation);
        }
    }
    violations
}
