//! Committed transactions that not all participants have confirmed.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::TransactionId;
use crate::shard::Stamp;

/// The transactions, and the stamps of their writes at this home.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    stamps: BTreeMap<TransactionId, Stamp>,
    by_stamp: BTreeSet<(Stamp, TransactionId)>,
}

impl Unconfirmed {
    pub(super) fn insert(&mut self, tid: TransactionId, stamp: Stamp) {
        self.remove(tid);
        self.stamps.insert(tid, stamp);
        self.by_stamp.insert((stamp, tid));
    }

    pub(super) fn remove(&mut self, tid: TransactionId) {
        if let Some(stamp) = self.stamps.remove(&tid) {
            self.by_stamp.remove(&(stamp, tid));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Returns the least stamp.
    pub(super) fn least(&self) -> Option<Stamp> {
        self.by_stamp.first().map(|(stamp, _)| *stamp)
    }

    /// Returns the transactions.
    pub(super) fn all(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.stamps.keys().copied()
    }
}
