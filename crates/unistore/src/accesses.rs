//! Accesses of an open strong transaction, which certification needs.

use std::collections::BTreeMap;

use solera_certification::Kind;
use solera_data::Key;
use solera_machine::RequestId;

/// Accesses of a strong transaction so far.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    done: BTreeMap<(Key, u8, bool), Kind>,
    /// Operations that have not been answered yet.
    outstanding: BTreeMap<RequestId, Kind>,
}

impl Accesses {
    /// Notes the start of an operation. An operation without conflicts is not noted, so that only
    /// partitions whose order matters, or that are written to, take part in certification.
    pub(crate) fn begin(&mut self, request: RequestId, kind: Kind) {
        if !kind.is_free() {
            self.outstanding.insert(request, kind);
        }
    }

    /// Notes the end of an operation. It adds to the read set (Alg. 1 l. 14), or to the writes with
    /// their conflicts.
    pub(crate) fn end(&mut self, request: RequestId, key: &Key, update: bool) {
        let Some(kind) = self.outstanding.remove(&request) else { return };
        self.done.insert((key.clone(), kind.number, update), kind);
    }

    /// Turns all updates into reads. Each still conflicts with the same operations, but later
    /// transactions need not observe it.
    pub(crate) fn drop_updates(&mut self) {
        let done = std::mem::take(&mut self.done);
        self.done =
            done.into_iter().map(|((key, number, _), kind)| ((key, number, false), kind)).collect();
    }

    /// Returns the kinds of the completed operations, by key, number of the kind, and whether the
    /// operation was an update.
    pub(crate) fn into_done(self) -> BTreeMap<(Key, u8, bool), Kind> {
        self.done
    }
}
