//! Finds the reason why another transaction does not become visible as a whole, and completes the
//! transaction if its coordinator is gone.

use super::{Ask, Coordinator, Stage};
use crate::location::{Fields, Location};
use crate::record::Record;
use crate::request::calls::{Begin, StoreError};
use crate::request::{Reply, Request};
use crate::witness::{self, TransactionId};

/// Maximum length of a chain of transactions, each of which completes the next one.
const MAX_DEPTH: u8 = 3;

/// Progress of a rescue.
#[derive(Debug)]
pub(super) struct Rescue {
    /// Location in which the transaction is to become visible, and its identifier.
    wanted: (Location, TransactionId),
    at: At,
}

#[derive(Debug)]
enum At {
    Start,
    Reading,
    /// The fields under its record's name are read; the transaction that read them aborts.
    Read(Fields),
}

impl Rescue {
    pub(super) fn new(wanted: (Location, TransactionId)) -> Rescue {
        Rescue { wanted, at: At::Start }
    }
}

impl Coordinator {
    pub(super) fn rescue(
        &mut self,
        mut rescue: Rescue,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let record = &self.state.worklist[&rescue.wanted].record;
        let database = record.database.clone();
        let request;
        (rescue.at, request) = match (rescue.at, reply) {
            (At::Start, _) => {
                let names = vec![witness::record(&record.space, rescue.wanted.1)];
                (At::Reading, Request::Begin(Begin { read_only: true, names, ..Begin::default() }))
            }
            (At::Reading, Some(Ok(Reply::Began(mut fields)))) => {
                (At::Read(fields.pop().unwrap_or_default()), Request::Abort)
            }
            (At::Read(fields), Some(_)) => match fields.get(&0) {
                Some(bytes) => return self.help(bytes),
                None => return self.released(&rescue.wanted),
            },
            // When the record cannot be read now, wait as before.
            _ => return self.wait(),
        };
        self.stage = Stage::Rescue(Box::new(rescue));
        Some(Ask::Store { database, request })
    }

    /// Continues when there is no record: it has not arrived yet, or the transaction is complete
    /// and its garbage is removed.
    fn released(&mut self, wanted: &(Location, TransactionId)) -> Option<Ask> {
        // If there were a record, it would have arrived by now: a commit reaches all replicas
        // within half of `Limits::keep_ms`.
        let found_ms = self.state.worklist[wanted].found_ms;
        if self.now_ms.saturating_sub(found_ms) < self.job.limits.keep_ms / 2 {
            return self.wait();
        }
        self.state.worklist.remove(wanted);
        self.visibility.cover(wanted.1, wanted.0.clone());
        None
    }

    fn help(&mut self, bytes: &[u8]) -> Option<Ask> {
        let record = Record::decode(bytes).ok();
        // A complete transaction is on its way to this replica, and a young one has a coordinator.
        let orphan_ms = self.job.limits.orphan_ms;
        let orphaned = |record: &Record| {
            let old = self.now_ms.saturating_sub(record.lease.since_ms) >= orphan_ms;
            !record.complete && record.failed.is_none() && old
        };
        let Some(mut record) = record.filter(orphaned).filter(|_| self.depth < MAX_DEPTH) else {
            return self.wait();
        };
        // The other transaction must not wait for this one, which waits for it.
        record.state.worklist.retain(|(_, id), _| *id != self.job.id);
        let modules = self.modules.clone();
        match Coordinator::take_over(record, modules, self.job.limits, self.now_ms) {
            Ok(mut other) => {
                other.depth = self.depth + 1;
                other.set_commit_replicas(self.commit_replicas.clone());
                other.guarded.clone_from(&self.guarded);
                self.stage = Stage::Helping(Box::new(other));
                None
            }
            Err(_) => self.wait(),
        }
    }
}
