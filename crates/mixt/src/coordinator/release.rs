//! Ends a transaction that can never be completed although it has begun to take effect. Other
//! transactions then do not wait for it, and its record gives the reason.
//!
//! The record is written last. Until then, every coordinator that recovers the transaction takes it
//! over, fails as this one did, and releases it again. Coordinators leave a record with a reason to
//! administrators, so they would not repeat writes that are still missing when the record is
//! written.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Ask, Coordinator, Stage};
use crate::job::Job;
use crate::outcome::{Outcome, Why};
use crate::record::Record;
use crate::request::calls::{Begin, NameWrite, StoreError};
use crate::request::{Reply, Request};
use crate::witness;

/// Progress of a release.
#[derive(Debug)]
pub(super) struct Release {
    why: Why,
    ticket: Box<Record>,
    /// Writes that are still to be made, by database.
    rest: VecDeque<(Arc<str>, Vec<NameWrite>)>,
    begun: bool,
}

impl Release {
    /// Creates the release of a transaction whose ticket would have been `record`.
    pub(super) fn new(job: &Job, record: Record, why: Why) -> Release {
        let ticket = Record { failed: Some(why.to_string()), ..record };
        let witnesses = ticket.witnessed.iter().map(|place| {
            let name = witness::commit(&place.space, job.id);
            (place, NameWrite::Set { name, field: 0, value: Arc::new([]), new: false })
        });
        let record = ticket.home.as_ref().map(|place| {
            let name = witness::record(&place.space, job.id);
            (place, NameWrite::Set { name, field: 0, value: ticket.encode(), new: false })
        });
        let writes = witnesses.chain(record);
        let rest =
            writes.map(|(place, write)| (Arc::clone(&place.database), vec![write])).collect();
        Release { why, ticket: Box::new(ticket), rest, begun: false }
    }
}

impl Coordinator {
    pub(super) fn release(
        &mut self,
        mut release: Box<Release>,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        match reply {
            Some(Ok(Reply::Committed)) => {
                release.rest.pop_front();
                release.begun = false;
                self.failures = 0;
            }
            Some(Ok(Reply::Began(_))) => release.begun = true,
            Some(Err(_)) if self.failures < self.job.limits.attempts => {
                release.begun = false;
                self.failures += 1;
                let ms = self.job.limits.backoff_last_ms;
                self.stage = Stage::Release(release);
                return Some(Ask::Wait { ms });
            }
            // A later recovery finds a record without the reason, fails, and releases again.
            Some(Err(_)) => release.rest.clear(),
            Some(Ok(_)) | None => {}
        }
        if self.is_late() {
            // Other coordinators may have taken the transaction over, and may have continued
            // further.
            release.rest.clear();
        }
        let Some((database, writes)) = release.rest.front() else {
            let committed = self.committed();
            let (ticket, why) = (Some(release.ticket), release.why);
            return self.over(Outcome::Incomplete { ticket, committed, why });
        };
        let request = if release.begun {
            Request::Commit(writes.clone())
        } else {
            Request::Begin(Begin::default())
        };
        let database = Arc::clone(database);
        self.stage = Stage::Release(release);
        Some(Ask::Store { database, request })
    }
}
