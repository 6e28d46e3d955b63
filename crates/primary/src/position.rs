//! Places in histories, and those that a session has seen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_machine::{Address, PartitionId, Topology, codec};

use crate::protocol::PROTOCOL;

/// A place in a partition's history.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position {
    /// The epoch of the update there.
    pub epoch: u64,
    /// How many updates there are up to here.
    pub index: u64,
}

/// What a session has seen: of each partition and epoch, the last index that it read at or heard
/// applied.
///
/// A later epoch does not stand for an earlier one: what the session saw of that may be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past(BTreeMap<(PartitionId, u64), u64>);

impl Past {
    /// Adds a position that the session has seen.
    pub fn note(&mut self, partition: PartitionId, position: Position) {
        let index = self.0.entry((partition, position.epoch)).or_default();
        *index = (*index).max(position.index);
    }

    /// Returns the positions.
    pub fn positions(&self) -> impl Iterator<Item = (PartitionId, Position)> + '_ {
        self.0.iter().map(|((id, epoch), index)| (*id, Position { epoch: *epoch, index: *index }))
    }

    /// Returns what was seen of the partitions of one worker.
    #[must_use]
    pub fn of_worker(&self, topology: &Topology, worker: Address) -> Past {
        let owned = |id: &PartitionId| topology.owner(worker.site, *id) == worker;
        let seen = self.0.iter().filter(|((id, _), _)| owned(id));
        Past(seen.map(|(place, index)| (*place, *index)).collect())
    }

    /// Returns whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all that another past has seen.
    pub fn join(&mut self, other: &Past) {
        for (id, position) in other.positions() {
            self.note(id, position);
        }
    }

    /// Appends the past as tokens carry it: protocol, version, positions.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&PROTOCOL.past_header());
        codec::append(self, bytes);
    }

    /// Reads what comes after the protocol and its version; `None` if this is no past in a cluster
    /// of so many partitions.
    pub fn decode(bytes: &[u8], partitions: u16) -> Option<Past> {
        let (past, rest): (Past, _) = codec::take(bytes)?;
        let exists = |(id, _): (PartitionId, Position)| id.0 < partitions;
        (rest.is_empty() && past.positions().all(exists)).then_some(past)
    }
}
