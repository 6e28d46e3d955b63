//! Judges histories by per-client parallel snapshot isolation.
mod graph;
mod history;
mod index;
mod judge;
mod orders;
mod reach;
mod violation;

pub use history::{History, Operation, Outcome, Read, Transaction, Version, Write};
pub use violation::{Dependency, Edge, Name, Violation};

/// Returns violations of a history.
pub fn check(history: &History) -> Vec<Violation> {
    let index = index::Index::new(history);
    let violations = judge::check(&index);
    [index.violations, violations].concat()
}
