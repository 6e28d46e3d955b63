//! Ids of casts, runs, and slots.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_election::Ballot;
use solera_time::SiteId;

/// Id of a cast: of one message of the broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CastId {
    /// The site that casts it.
    pub site: SiteId,
    /// Number of the site's run; no two runs of a site have the same number.
    pub run: u64,
    /// Number of the cast within the run: from 1, without gaps.
    pub number: u64,
}

/// Formats the id as `site.run.number`.
impl fmt::Display for CastId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.site.0, self.run, self.number)
    }
}

/// A run of a site: the casts between two starts of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The site.
    pub site: SiteId,
    /// Number of the run.
    pub number: u64,
}

impl Run {
    /// Returns the cast with this number.
    pub fn cast(self, number: u64) -> CastId {
        CastId { site: self.site, run: self.number, number }
    }
}

impl CastId {
    /// Returns the run of the cast.
    pub fn of(self) -> Run {
        Run { site: self.site, number: self.run }
    }
}

/// Position in the order: one instance of consensus. The first slot is 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Slot(pub u64);

impl Slot {
    /// Returns the next slot.
    pub fn next(self) -> Slot {
        Slot(self.0.saturating_add(1))
    }
}

/// Content of a slot: ids in the order of their delivery.
pub type Batch = Arc<[CastId]>;

/// A slot as a member has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The slot.
    pub slot: Slot,
    /// The term in which the member has accepted the batch; `None` if the batch is decided.
    pub accepted: Option<Ballot>,
    /// The batch.
    pub batch: Batch,
}
