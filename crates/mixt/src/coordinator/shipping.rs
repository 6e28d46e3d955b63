//! Has groups run next to their stores, by workers of their databases (MixT §7.2).

use std::sync::Arc;

use super::{Ask, Coordinator, Stage};
use crate::group::{GroupEnd, GroupRun, GroupStep};
use crate::record::State;
use crate::request::calls::StoreError;
use crate::request::shipment::{Shipment, Shipped, answers};
use crate::request::{Reply, Request};

/// How the answer of a worker reads.
enum Replayed {
    Ended(GroupEnd),
    /// It has stopped before it would have committed.
    Stopped,
    /// It is no answer to what was shipped.
    Misfit,
}

impl Coordinator {
    /// Whether a worker is to run the group that is next.
    pub(super) fn ships(&self) -> bool {
        let group = &self.job.plan.groups[self.state.next as usize];
        let known = group.database.as_ref().is_some_and(|name| self.workers.contains(name));
        // What was read is compared within the transaction that is about to commit.
        let doubtful = self.is_doubtful(self.state.next as usize);
        known && !(group.writes() && self.must_validate()) && !doubtful
    }

    pub(super) fn ship(&mut self, run: Box<GroupRun>) -> Option<Ask> {
        let database = run.group().database.clone().expect("a worker is a database's");
        let limits = &self.job.limits;
        // Then others may complete the transaction, or witnesses may be gone that it should find.
        let until_ms = match self.standing.since_ms() {
            Some(since) => since.saturating_add(limits.finish_ms),
            None => {
                let seen_until_ms = self.since_ms.saturating_add(limits.keep_ms / 2);
                self.now_ms.saturating_add(limits.finish_ms).min(seen_until_ms)
            }
        };
        let index = run.index();
        let recorded = self.job.plan.recorded && run.group().writes();
        // Its mark holds what later groups take.
        let groups = if recorded {
            &self.job.plan.groups[index..]
        } else {
            std::slice::from_ref(run.group())
        };
        let state =
            State { tapes: self.job.taken(groups, &self.state.tapes), ..self.state.clone() };
        let shipment = Shipment {
            // Two that go on with one transaction draw the same.
            number: self.draw() ^ self.now_ms.rotate_left(32),
            until_ms,
            database: Arc::clone(&database),
            sight: self.sight.clone(),
            record: self.job.record(state, self.turn_of_now()),
        };
        self.asked_ms = self.now_ms;
        self.stage = Stage::Shipped(run);
        Some(Ask::Store { database, request: Request::Execute(Box::new(shipment)) })
    }

    pub(super) fn shipped(
        &mut self,
        mut run: Box<GroupRun>,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let replayed = match reply {
            Some(Ok(Reply::Executed(shipped))) => self.replay(&mut run, shipped),
            Some(Err(StoreError::OutcomeUnknown(reason))) => {
                return self.ended(*run, GroupEnd::Unknown(reason));
            }
            // Nothing was begun.
            Some(Err(_)) => Replayed::Stopped,
            other => unreachable!("{other:?} is no answer to a shipment"),
        };
        if let Replayed::Ended(end) = replayed {
            return self.ended(*run, end);
        }
        // From here on the database is asked request by request.
        if let Some(database) = &run.group().database {
            self.workers.remove(database);
        }
        match replayed {
            Replayed::Misfit => {
                let reason = "its worker's answer does not fit what was asked".to_owned();
                self.ended(*run, GroupEnd::Unknown(reason))
            }
            _ => None,
        }
    }

    /// Goes through a group with the answers that its worker got. What is read, and what is
    /// decided, is as it was there.
    fn replay(&mut self, run: &mut GroupRun, shipped: Shipped) -> Replayed {
        let mut replies = shipped.replies.into_iter();
        let mut step = run.next(None);
        loop {
            step = match step {
                GroupStep::Ask(request) => match replies.next() {
                    Some(reply) if answers(&request, &reply) => run.next(Some(reply)),
                    Some(_) => return Replayed::Misfit,
                    None => return Replayed::Stopped,
                },
                GroupStep::Ended(end) => return Replayed::Ended(end),
                GroupStep::Ready => {
                    if self.sight.take_in(run, &mut self.state.worklist, self.now_ms) {
                        self.sight.commit(run, &self.state.worklist, self.turn_of_now())
                    } else {
                        run.give_up()
                    }
                }
            }
        }
    }
}
