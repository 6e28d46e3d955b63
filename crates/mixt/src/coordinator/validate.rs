//! Reads once more what was read before, and compares.

use super::{Ask, Coordinator, Stage};
use crate::group::{Done, GroupRun, Reply, Request};
use crate::outcome::Why;
use crate::store::{Begin, StoreError};

/// How far it has come.
#[derive(Debug)]
pub(super) struct Validation {
    /// What is ready to commit, with an open transaction; none at the end of what only reads.
    pending: Option<Box<GroupRun>>,
    /// Which of the groups that were read.
    group: usize,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    Begun,
    /// Which of its operations was asked.
    Call(usize),
    Committing,
    Aborting,
}

impl Validation {
    pub(super) fn new(pending: Option<Box<GroupRun>>) -> Validation {
        Validation { pending, group: 0, at: At::Start }
    }
}

impl Coordinator {
    pub(super) fn validate(
        &mut self,
        mut validation: Box<Validation>,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let Some(reads) = self.reads.get(validation.group) else {
            return match validation.pending.take() {
                Some(run) => self.commit(run),
                None => {
                    self.sight.suspicious = false;
                    self.reads.clear();
                    self.since_ms = self.now_ms;
                    None
                }
            };
        };
        let group = &self.job.plan.groups[reads.group];
        let Some(database) = group.database.clone().filter(|_| !reads.calls.is_empty()) else {
            validation.group += 1;
            self.stage = Stage::Validation(validation);
            return None;
        };
        let open = validation.pending.as_ref().and_then(|run| run.group().database.clone());
        let joined = open.as_ref() == Some(&database);
        let call = |index: usize| reads.calls.get(index).map(|done| done.call.clone());
        let (at, request) = match (validation.at, reply) {
            (At::Start, None) if joined => (At::Call(0), call(0)),
            (At::Start, None) => {
                let begin = Begin { strong: group.strong, read_only: true, ..Begin::default() };
                (At::Begun, Some(Request::Begin(begin)))
            }
            (At::Begun, Some(Ok(_))) => (At::Call(0), call(0)),
            (At::Call(index), Some(reply)) if reads.calls[index].same(&reply) => {
                match call(index + 1) {
                    Some(next) => (At::Call(index + 1), Some(next)),
                    None if joined => (At::Start, None),
                    None => (At::Committing, Some(Request::Commit(Vec::new()))),
                }
            }
            (At::Call(_), Some(reply)) if !joined && stays_open(&reply) => {
                (At::Aborting, Some(Request::Abort))
            }
            (At::Committing, Some(Ok(_))) => (At::Start, None),
            (at, Some(reply)) => {
                let gone = joined && !stays_open(&reply) && at != At::Aborting;
                return self.changed(*validation, gone, reply);
            }
            (at, None) => unreachable!("{at:?} waits for an answer"),
        };
        validation.group += usize::from(at == At::Start);
        validation.at = at;
        self.stage = Stage::Validation(validation);
        request.map(|request| Ask::Store { database, request })
    }

    /// What was read is not so any more, or cannot be read.
    fn changed(
        &mut self,
        validation: Validation,
        gone: bool,
        reply: Result<Reply, StoreError>,
    ) -> Option<Ask> {
        let why = match reply {
            Err(StoreError::Unavailable(reason) | StoreError::OutcomeUnknown(reason)) => {
                let group = self.reads[validation.group].group;
                let database = self.job.plan.groups[group].database.clone().unwrap_or_default();
                Why::Unavailable { database, reason }
            }
            _ => Why::Contention { attempts: self.failures + 1 },
        };
        match validation.pending {
            Some(mut run) if !gone => {
                self.restart = Some(why);
                let step = run.give_up();
                self.group_step(run, step)
            }
            _ => self.start_over(why),
        }
    }
}

/// Whether the transaction is still open after an operation that is answered so.
fn stays_open(reply: &Result<Reply, StoreError>) -> bool {
    use StoreError::{Missing, Refused, WrongData};
    matches!(reply, Ok(_) | Err(Missing | Refused(_) | WrongData { .. }))
}

impl Done {
    /// Whether it is answered as before, and no transaction has put a witness there since.
    fn same(&self, reply: &Result<Reply, StoreError>) -> bool {
        match reply {
            Ok(Reply::Answered(answer)) => {
                answer.value == self.value
                    && answer.seen.keys().all(|id| self.witnesses.contains(id))
            }
            Err(StoreError::Missing) => self.value.is_none(),
            _ => false,
        }
    }
}
