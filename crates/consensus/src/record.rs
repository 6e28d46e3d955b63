//! State that must survive a restart: records, and parts of checkpoints.

use serde::{Deserialize, Serialize};
use solera_election::Ballot;

use crate::ids::{Batch, CastId, Held, Run, Slot};

/// A durable step of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The member takes part in no term below this one.
    Promised(Ballot),
    /// The member has accepted a batch. Includes the promise of the term.
    Accepted {
        /// The term.
        ballot: Ballot,
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: Batch,
    },
    /// The member has delivered a slot.
    Delivered {
        /// The slot.
        slot: Slot,
        /// The batch that was decided; `None` if it is the one that the member has accepted.
        batch: Option<Batch>,
    },
    /// A quorum of the members of this configuration has delivered everything that was accepted in
    /// earlier configurations.
    Established(u64),
    /// The member has taken the snapshot of another member.
    Installed(Snapshot),
}

/// Summary of the slots that a member has delivered, for another member that lacks slots that are
/// forgotten, or that joins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The last slot that is delivered.
    pub delivered: Slot,
    /// Number of the last delivered cast of each run.
    pub runs: Vec<(Run, u64)>,
    /// The delivered slots that are not forgotten: further members may lack them.
    pub slots: Vec<(Slot, Batch)>,
}

/// A part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Slots that are not forgotten.
    Slots(Vec<Held>),
    /// The last part.
    Rest {
        /// The lowest term in which the member takes part.
        promised: Ballot,
        /// The last configuration that the member knows to be established.
        established: u64,
        /// The slots up to here are forgotten.
        forgotten: Slot,
        /// The last slot that is delivered.
        delivered: Slot,
        /// Number of the last delivered cast of each run.
        runs: Vec<(Run, u64)>,
    },
}

/// Progress of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoint {
    /// No part has been returned.
    #[default]
    Begins,
    /// The slots up to here have been returned.
    After(Slot),
    /// All parts have been returned.
    Complete,
}

/// A delivery that a record contains. The owner repeats it in its own state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The slot.
    pub slot: Slot,
    /// The ids, in the order of their delivery.
    pub ids: Vec<CastId>,
}

/// Reason why a record cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// The journal lacks records.
    #[error("slot {} was delivered after slot {}: records are missing", .found.0, .after.0)]
    Gap {
        /// The last slot that was delivered.
        after: Slot,
        /// The slot of the record.
        found: Slot,
    },
    /// The delivered batch is neither in the record nor among the acceptances.
    #[error("the journal contains no batch of the delivered slot {}", .0.0)]
    NoBatch(Slot),
}
