//! Terms.

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

/// A term of one leader of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Number of the configuration whose members form quorums; see [`Electors`](crate::Electors).
    pub configuration: u64,
    /// Number of the term.
    pub round: u64,
    /// The leader of the term.
    pub leader: SiteId,
}
