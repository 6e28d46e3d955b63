//! Sends groups to workers, which run them next to their stores (MixT §7.2).

use std::sync::Arc;

use super::{Ask, Coordinator, Stage};
use crate::group::{GroupEnd, GroupRun, GroupStep};
use crate::record::State;
use crate::request::calls::StoreError;
use crate::request::remote_group::{RemoteGroup, RemoteReplies, answers};
use crate::request::{Reply, Request};

/// Result of replaying the answers of a worker.
enum Replayed {
    Ended(GroupEnd),
    /// The worker stopped before it would have committed.
    Stopped,
    /// The answers do not belong to this group.
    Misfit,
}

impl Coordinator {
    /// Returns whether a worker is to run the next group.
    pub(super) fn runs_remotely(&self) -> bool {
        let group = &self.job.plan.groups[self.state.next as usize];
        let known = group.database.as_ref().is_some_and(|name| self.workers.contains(name));
        // A worker does not validate the reads of earlier groups, so the coordinator runs a group
        // that must do so before it commits.
        let doubtful = self.is_doubtful(self.state.next as usize);
        known && !(group.writes() && self.must_validate()) && !doubtful
    }

    pub(super) fn send_to_worker(&mut self, run: Box<GroupRun>) -> Option<Ask> {
        let database = run.group().database.clone().expect("only databases have workers");
        let limits = &self.job.limits;
        // After this time others may complete the transaction, or witnesses that it should find may
        // be gone.
        let until_ms = match self.commit_status.since_ms() {
            Some(since) => since.saturating_add(limits.finish_ms),
            None => {
                let seen_until_ms = self.since_ms.saturating_add(limits.keep_ms / 2);
                self.now_ms.saturating_add(limits.finish_ms).min(seen_until_ms)
            }
        };
        let index = run.index();
        let recorded = self.job.plan.recorded && run.group().writes();
        // The mark of this group will contain the values that later groups take.
        let groups = if recorded {
            &self.job.plan.groups[index..]
        } else {
            std::slice::from_ref(run.group())
        };
        let state =
            State { tapes: self.job.taken(groups, &self.state.tapes), ..self.state.clone() };
        let remote_group = RemoteGroup {
            // Two coordinators of one transaction draw the same numbers.
            number: self.random.draw() ^ self.now_ms.rotate_left(32),
            until_ms,
            database: Arc::clone(&database),
            visibility: self.visibility.clone(),
            record: self.job.record(state, self.current_lease()),
        };
        self.asked_ms = self.now_ms;
        self.stage = Stage::Remote(run);
        Some(Ask::Store { database, request: Request::Execute(Box::new(remote_group)) })
    }

    pub(super) fn replay_remote(
        &mut self,
        mut run: Box<GroupRun>,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let replayed = match reply {
            Some(Ok(Reply::Executed(remote_replies))) => self.replay(&mut run, remote_replies),
            Some(Err(StoreError::OutcomeUnknown(reason))) => {
                return self.ended(*run, GroupEnd::Unknown(reason));
            }
            // Nothing was begun.
            Some(Err(_)) => Replayed::Stopped,
            other => unreachable!("{other:?} is no answer to a remote group"),
        };
        if let Replayed::Ended(end) = replayed {
            return self.ended(*run, end);
        }
        // From now on the coordinator sends single requests to the database.
        if let Some(database) = &run.group().database {
            self.workers.remove(database);
        }
        match replayed {
            Replayed::Misfit => {
                let reason = "its worker's answer does not match the request".to_owned();
                self.ended(*run, GroupEnd::Unknown(reason))
            }
            _ => None,
        }
    }

    /// Runs a group again with the answers that its worker got. It reads the same values and
    /// decides the same as there.
    fn replay(&mut self, run: &mut GroupRun, remote_replies: RemoteReplies) -> Replayed {
        let mut replies = remote_replies.replies.into_iter();
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
                    if self.visibility.observe(run, &mut self.state.worklist, self.now_ms) {
                        self.visibility.commit(run, &self.state.worklist, self.current_lease())
                    } else {
                        run.give_up()
                    }
                }
            }
        }
    }
}
