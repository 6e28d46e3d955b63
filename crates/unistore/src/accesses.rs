//! What an open strong transaction has accessed, for its claim.

use std::collections::BTreeMap;

use solera_certification::Kind;
use solera_data::Key;
use solera_machine::RequestId;

/// What a strong transaction has accessed so far.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    done: BTreeMap<(Key, u8, bool), Kind>,
    /// Of operations that have not been answered.
    outstanding: BTreeMap<RequestId, Kind>,
}

impl Accesses {
    /// An operation begins. What conflicts with nothing leaves no trace, so that only partitions
    /// whose order matters, or that are written to, take part in certification.
    pub(crate) fn begin(&mut self, request: RequestId, kind: Kind) {
        if !kind.is_free() {
            self.outstanding.insert(request, kind);
        }
    }

    /// It was executed (the read set of Alg. 1 l. 14, and what the writes conflict with).
    pub(crate) fn end(&mut self, request: RequestId, key: &Key, update: bool) {
        let Some(kind) = self.outstanding.remove(&request) else { return };
        self.done.insert((key.clone(), kind.number, update), kind);
    }

    /// Makes reads of all updates: each still conflicts with what it would have been ordered
    /// against, and nothing after it has to see it.
    pub(crate) fn drop_updates(&mut self) {
        let done = std::mem::take(&mut self.done);
        self.done =
            done.into_iter().map(|((key, number, _), kind)| ((key, number, false), kind)).collect();
    }

    /// Returns the keys that were accessed, with the type of their values and whether they were
    /// updated, and how.
    pub(crate) fn into_done(self) -> BTreeMap<(Key, u8, bool), Kind> {
        self.done
    }
}
