//! Counts of what happens to keys with bounds, for metrics.

use std::time::Duration;

use crate::agreed::Change;
use crate::command::Cannot;

/// Names of the reasons in [`Counts::refused`], in order.
pub const REFUSALS: [&str; 7] =
    ["no_tokens", "too_many", "at_floor", "no_right", "sold_out", "uncounted", "lapsed"];

/// Place of `lapsed` in [`REFUSALS`]: a guard refused tokens that the site had given up.
const LAPSED: usize = 6;

/// Names of the changes in [`Counts::changes`], in order.
pub const CHANGES: [&str; 11] = [
    "grant",
    "reclaim",
    "propose",
    "raise",
    "lower",
    "renew",
    "exclude",
    "admit",
    "remove",
    "return",
    "close_or_found",
];

/// Numbers of events since the process started, and what the site holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Updates of keys that have committed with tokens or rights, or may commit. A transaction
    /// counts once for each key.
    pub updates: u64,
    /// Waits for tokens or rights that ended with success.
    pub waits: u64,
    /// Sum of the durations of these waits.
    pub waited: Duration,
    /// Refused updates, in the order of [`REFUSALS`].
    pub refused: [u64; REFUSALS.len()],
    /// Changes of the record on which the sites agree, in the order of [`CHANGES`]. They are those
    /// of all sites.
    pub changes: [u64; CHANGES.len()],
    /// Epochs that the site has ended, to give up its tokens.
    pub ended: u64,
    /// Rights that the site has given to others.
    pub given: u64,
    /// Rights that the site has received from others.
    pub received: u64,
    /// Sums of what the site holds now.
    pub held: Holdings,
}

/// Sums of what a site holds of all keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Tokens for increments.
    pub increments: u128,
    /// Tokens for decrements.
    pub decrements: u128,
    /// Rights.
    pub rights: i128,
}

impl Holdings {
    pub(crate) fn plus(self, more: Holdings) -> Holdings {
        Holdings {
            increments: self.increments + more.increments,
            decrements: self.decrements + more.decrements,
            rights: self.rights + more.rights,
        }
    }
}

impl Counts {
    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Counts) {
        self.updates += other.updates;
        self.waits += other.waits;
        self.waited += other.waited;
        self.refused.iter_mut().zip(other.refused).for_each(|(sum, more)| *sum += more);
        self.changes.iter_mut().zip(other.changes).for_each(|(sum, more)| *sum += more);
        self.ended += other.ended;
        self.given = self.given.saturating_add(other.given);
        self.received = self.received.saturating_add(other.received);
        self.held = self.held.plus(other.held);
    }

    pub(crate) fn note_wait(&mut self, duration: Duration) {
        if !duration.is_zero() {
            self.waits += 1;
            self.waited += duration;
        }
    }

    pub(crate) fn note_refusal(&mut self, reason: &Cannot) {
        let place = match reason {
            Cannot::NoTokens => 0,
            Cannot::TooMany { .. } => 1,
            Cannot::AtFloor => 2,
            Cannot::NotReader { .. } | Cannot::Behind | Cannot::NoLease => 3,
            Cannot::SoldOut { .. } => 4,
            Cannot::Uncounted => 5,
            // No update that waits fails for such a reason.
            Cannot::NoPolicy | Cannot::Nothing | Cannot::TooWide { .. } | Cannot::OutOfRange => {
                return;
            }
        };
        self.refused[place] += 1;
    }

    pub(crate) fn note_lapse(&mut self) {
        self.refused[LAPSED] += 1;
    }

    pub(crate) fn note_change(&mut self, change: &Change) {
        let place = match change {
            Change::Grant { .. } => 0,
            Change::Reclaim { .. } => 1,
            Change::Propose { .. } => 2,
            Change::Raise { .. } => 3,
            Change::Lower { .. } => 4,
            Change::Renew { .. } => 5,
            Change::Exclude { .. } => 6,
            Change::Admit { .. } => 7,
            Change::Remove { .. } => 8,
            Change::Return { .. } => 9,
            Change::Close { .. } | Change::Found { .. } => 10,
        };
        self.changes[place] += 1;
    }
}
