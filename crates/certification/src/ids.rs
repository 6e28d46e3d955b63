//! Names of groups, transactions and ballots.

use serde::{Deserialize, Serialize};
use solera_machine::Address;
use solera_time::SiteId;

/// A group that agrees on votes: the siblings of one partition, one member per site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(pub u16);

/// Numbers a coordinator's transactions through: later ones are greater, also after a restart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Serial {
    /// How often the coordinator had been started.
    pub run: u64,
    /// Counts within the run.
    pub sequence: u64,
}

/// Names a strong transaction in the whole cluster, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId {
    /// The worker that submitted it.
    pub coordinator: Address,
    /// Which of its transactions.
    pub serial: Serial,
}

/// A term of office of one leader of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Which members a quorum is taken of; see [`crate::Service::set_members`].
    pub configuration: u64,
    /// Counts the terms.
    pub round: u64,
    /// Whose term.
    pub leader: SiteId,
}
