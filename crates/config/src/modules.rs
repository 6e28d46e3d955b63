//! Limits of transaction modules in the configuration.

use crate::placed::Placed;

/// Settings of `[modules]`; `None` where the executor's default applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleSpec {
    /// Size of a source, in bytes.
    pub source_bytes: Option<Placed<u64>>,
    /// Number of threads that run calls.
    pub threads: Option<Placed<u64>>,
    /// Number of calls that run at once.
    pub calls: Option<Placed<u64>>,
    /// Interval of the search for incomplete transactions, in milliseconds.
    pub upkeep_ms: Option<Placed<u64>>,
    /// Number of steps of a phase.
    pub steps: Option<Placed<u64>>,
    /// Depth of nested function calls.
    pub depth: Option<Placed<u64>>,
    /// Size of a value, in bytes.
    pub value_bytes: Option<Placed<u64>>,
    /// Total size of the values that a phase holds at a time, in bytes.
    pub held_bytes: Option<Placed<u64>>,
    /// Total size of the values that phases pass on, in bytes.
    pub handed_on_bytes: Option<Placed<u64>>,
    /// Time that a transaction may take before its first phase commits, in milliseconds.
    pub run_ms: Option<Placed<u64>>,
    /// Number of attempts of a transaction before its first phase commits.
    pub attempts: Option<Placed<u64>>,
    /// Time for completing a transaction after its first phase has committed, in milliseconds.
    pub finish_ms: Option<Placed<u64>>,
    /// Age from which other processes complete a transaction, in milliseconds.
    pub orphan_ms: Option<Placed<u64>>,
    /// Time that a transaction waits for another, in milliseconds.
    pub blocked_ms: Option<Placed<u64>>,
    /// Time for which garbage of transactions is kept, in milliseconds.
    pub keep_ms: Option<Placed<u64>>,
}
