//! The last final operations, with their responses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use solera_machine::codec;

use crate::digest::Digest;
use crate::ids::OperationId;
use crate::request::Request;

/// A final operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Final<O, R> {
    /// Its position in the final order, from 1.
    pub position: u64,
    /// The operation.
    pub request: Arc<Request<O>>,
    /// Its response; `None` for an operation without effect.
    pub response: Option<Arc<R>>,
    /// Digest of all operations up to it.
    pub digest: Digest,
}

/// Most bytes of the encodings of the kept operations. A single operation may exceed it.
const MOST_BYTES: usize = 64 << 20;

/// The last final operations in order, at most a given number.
#[derive(Debug)]
pub(crate) struct Finals<O, R> {
    most: usize,
    kept: VecDeque<Final<O, R>>,
    /// Their positions.
    positions: BTreeMap<OperationId, u64>,
    /// Bytes of their encodings.
    bytes: usize,
}

impl<O: Serialize, R: Serialize> Finals<O, R> {
    pub(crate) fn new(most: usize) -> Finals<O, R> {
        Finals { most, kept: VecDeque::new(), positions: BTreeMap::new(), bytes: 0 }
    }

    /// Adds the next final operation.
    pub(crate) fn push(&mut self, next: Final<O, R>) {
        self.bytes += codec::encoded_bytes(&next);
        self.positions.insert(next.request.id, next.position);
        self.kept.push_back(next);
        while (self.kept.len() > self.most || self.bytes > MOST_BYTES && self.kept.len() > 1)
            && let Some(first) = self.kept.pop_front()
        {
            self.bytes -= codec::encoded_bytes(&first);
            self.positions.remove(&first.request.id);
        }
    }

    /// Returns the operation with an id, if it is kept.
    pub(crate) fn get(&self, id: OperationId) -> Option<&Final<O, R>> {
        self.from(*self.positions.get(&id)?).next()
    }

    /// Returns the position of the first operation that is kept; `None` if none is.
    pub(crate) fn first(&self) -> Option<u64> {
        self.kept.front().map(|first| first.position)
    }

    /// Returns the operations from a position on.
    pub(crate) fn from(&self, position: u64) -> impl Iterator<Item = &Final<O, R>> {
        let skipped = position.saturating_sub(self.first().unwrap_or(0));
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(self.kept.len());
        self.kept.range(skipped..)
    }

    /// Returns the digest of the operations up to a position, if its operation is kept.
    pub(crate) fn digest(&self, position: u64) -> Option<Digest> {
        self.from(position).next().filter(|it| it.position == position).map(|it| it.digest)
    }

    /// Returns the bytes of the encodings of the operations that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Final<O, R>> {
        self.kept.iter()
    }
}
