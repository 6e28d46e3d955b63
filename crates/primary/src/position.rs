//! Positions in histories, and the positions that a session has seen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_machine::{Address, PartitionId, Topology, codec};

use crate::protocol::PROTOCOL;

/// A position in a partition's history.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position {
    /// Epoch of the update at this position.
    pub epoch: u64,
    /// Number of updates up to this position.
    pub index: u64,
}

/// The positions that a session has seen: for each partition and epoch, the greatest index at which
/// the session has read, or at which one of its updates was applied.
///
/// A later epoch does not replace an earlier one, because updates of the earlier one that the
/// session has seen may be lost.
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

    /// Returns the positions in the partitions of one worker.
    #[must_use]
    pub fn of_worker(&self, topology: &Topology, worker: Address) -> Past {
        let owned = |id: &PartitionId| topology.owner(worker.site, *id) == worker;
        let seen = self.0.iter().filter(|((id, _), _)| owned(id));
        Past(seen.map(|(place, index)| (*place, *index)).collect())
    }

    /// Returns whether the session has seen nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the positions of another past.
    pub fn join(&mut self, other: &Past) {
        for (id, position) in other.positions() {
            self.note(id, position);
        }
    }

    /// Appends the past in the encoding of tokens: protocol, version, positions.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&PROTOCOL.past_header());
        codec::append(self, bytes);
    }

    /// Decodes the bytes after the protocol and its version. Returns `None` if they are not a past
    /// of a cluster with this number of partitions.
    pub fn decode(bytes: &[u8], partitions: u16) -> Option<Past> {
        let (past, rest): (Past, _) = codec::take(bytes)?;
        let exists = |(id, _): (PartitionId, Position)| id.0 < partitions;
        (rest.is_empty() && past.positions().all(exists)).then_some(past)
    }
}
