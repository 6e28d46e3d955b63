//! What modules of transactions may take, as far as the configuration says it.

use crate::placed::Placed;

/// The settings of `[modules]` that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleSpec {
    /// The size of a source, in bytes.
    pub source_bytes: Option<Placed<u64>>,
    /// How many threads run calls.
    pub threads: Option<Placed<u64>>,
    /// How many calls run at once.
    pub calls: Option<Placed<u64>>,
    /// How often what is left of transactions is looked for, in milliseconds.
    pub upkeep_ms: Option<Placed<u64>>,
    /// How many steps a phase may take.
    pub steps: Option<Placed<u64>>,
    /// How deep functions may call one another.
    pub depth: Option<Placed<u64>>,
    /// The size of a value, in bytes.
    pub value_bytes: Option<Placed<u64>>,
    /// The size of all values that a phase holds at a time, in bytes.
    pub held_bytes: Option<Placed<u64>>,
    /// The size of all that phases hand on, in bytes.
    pub handed_on_bytes: Option<Placed<u64>>,
    /// How long a transaction may take until something of it has committed, in milliseconds.
    pub run_ms: Option<Placed<u64>>,
    /// How often a transaction is tried of which nothing has committed.
    pub attempts: Option<Placed<u64>>,
    /// How long it is tried to complete a transaction of which something has committed, in
    /// milliseconds.
    pub finish_ms: Option<Placed<u64>>,
    /// From which age on others complete it, in milliseconds.
    pub orphan_ms: Option<Placed<u64>>,
    /// How long a transaction waits for another, in milliseconds.
    pub blocked_ms: Option<Placed<u64>>,
    /// How long what is left behind is kept, in milliseconds.
    pub keep_ms: Option<Placed<u64>>,
}
