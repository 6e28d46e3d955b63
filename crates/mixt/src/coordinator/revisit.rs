//! Before a ticket is gone on with: whether others have completed its transaction. When what that has left is removed,
//! its marks do not tell any more which groups have run.

use super::{Ask, Coordinator, Stage};
use crate::group::{Reply, Request};
use crate::outcome::Why;
use crate::record::Record;
use crate::store::{Begin, Fields, StoreError};
use crate::witness;

/// How far it has come.
#[derive(Debug)]
pub(super) enum Revisit {
    Start,
    Reading,
    /// What its record's name holds.
    Read(Fields),
}

impl Coordinator {
    pub(super) fn revisit(
        &mut self,
        at: Revisit,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let Some(place) = self.job.record_place() else {
            self.revisits = false;
            return None;
        };
        let database = place.database.clone();
        let (at, request) = match (at, reply) {
            (Revisit::Start, _) => {
                let names = vec![witness::record(&place.space, self.job.id)];
                let begin = Begin { read_only: true, names, ..Begin::default() };
                (Revisit::Reading, Request::Begin(begin))
            }
            (Revisit::Reading, Some(Ok(Reply::Began(mut fields)))) => {
                (Revisit::Read(fields.pop().unwrap_or_default()), Request::Abort)
            }
            (Revisit::Read(fields), Some(_)) => return self.revisited(&fields),
            (_, Some(Err(error))) => {
                return self.retry(Why::Unavailable { database, reason: error.to_string() });
            }
            (at, reply) => unreachable!("{reply:?} is no answer to what was asked ({at:?})"),
        };
        self.stage = Stage::Revisit(at);
        Some(Ask::Store { database, request })
    }

    fn revisited(&mut self, fields: &Fields) -> Option<Ask> {
        let complete = match fields.get(&0).map(|bytes| Record::decode(bytes)) {
            Some(Ok(record)) => record.complete,
            Some(Err(error)) => {
                let database = self.job.record_place().map(|place| place.database.clone());
                let database = database.unwrap_or_default();
                return self.stop(Why::Refused { database, reason: error.to_string() });
            }
            // A young one cannot have been removed: it has not come here yet.
            None => self.now_ms.saturating_sub(self.job.began_ms) >= self.job.limits.keep_ms,
        };
        self.revisits = false;
        if complete { self.completed_by_others() } else { None }
    }
}
