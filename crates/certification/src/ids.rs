//! Identifiers of groups and transactions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
pub use solera_election::Ballot;
use solera_machine::Address;
use solera_time::SiteId;

/// A group that agrees on votes: the siblings of one partition, one member per site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(pub u16);

/// Serial number of a coordinator's transaction. Later transactions have greater serials, also
/// after a restart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Serial {
    /// Number of times that the coordinator had been started before.
    pub run: u64,
    /// Number within the run.
    pub sequence: u64,
}

/// Identifier of a strong transaction, unique in the cluster for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId {
    /// The worker that submitted it.
    pub coordinator: Address,
    /// Serial number among the worker's transactions.
    pub serial: Serial,
}

/// Formats the identifier as `site.worker.run.sequence`, which `FromStr` parses.
impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { site, worker } = self.coordinator;
        let Serial { run, sequence } = self.serial;
        write!(f, "{}.{worker}.{run}.{sequence}", site.0)
    }
}

/// Error of parsing a transaction's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transaction is named by four numbers, as in 0.1.3.42")]
pub struct NoTransactionId;

fn number<T: FromStr>(text: &str) -> Result<T, NoTransactionId> {
    text.parse().map_err(|_| NoTransactionId)
}

impl FromStr for TransactionId {
    type Err = NoTransactionId;
    fn from_str(name: &str) -> Result<Self, NoTransactionId> {
        let mut parts = name.split('.');
        let mut part = || parts.next().ok_or(NoTransactionId);
        let coordinator = Address { site: SiteId(number(part()?)?), worker: number(part()?)? };
        let serial = Serial { run: number(part()?)?, sequence: number(part()?)? };
        match parts.next() {
            Some(_) => Err(NoTransactionId),
            None => Ok(TransactionId { coordinator, serial }),
        }
    }
}
