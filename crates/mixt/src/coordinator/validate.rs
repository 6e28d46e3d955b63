//! Repeats earlier reads and compares the answers.
//!
//! The group that is about to commit repeats the reads that its transaction can span, in this
//! transaction and before it writes. This module repeats the others: before the commit, while the
//! transaction is open, if they are in other databases. Otherwise the group's session would need a
//! second transaction. Endorsed reads are then repeated before the group begins, and a group that
//! makes reads doubtful is given up, so that the transaction starts over.

use std::sync::Arc;

use super::{Ask, Coordinator, Reads, Stage};
use crate::group::{Done, GroupRun, stays_open};
use crate::outcome::Why;
use crate::plan::Group;
use crate::request::calls::{Begin, StoreError};
use crate::request::{Reply, Request};

/// Progress of a validation.
#[derive(Debug)]
pub(super) struct Validation {
    /// Group that is ready to commit, with an open transaction; `None` before a group begins, and
    /// at the end of a transaction that only reads.
    pending: Option<Box<GroupRun>>,
    /// Index of the group in `reads` whose operations are repeated.
    group: usize,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    Begun,
    /// Index of the operation that was repeated.
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
    /// Returns the reads that the next group must repeat in its own transaction.
    pub(super) fn checks(&self) -> Vec<Done> {
        let groups = &self.job.plan.groups;
        let group = &groups[self.state.next as usize];
        if !group.writes() || !self.must_validate() {
            return Vec::new();
        }
        self.reads_within(group).cloned().collect()
    }

    /// Returns the reads that a group can repeat in its own transaction.
    pub(super) fn reads_within(&self, group: &Group) -> impl Iterator<Item = &Done> {
        let groups = &self.job.plan.groups;
        let within = move |reads: &&Reads| self.job.can_join(&groups[reads.group], group);
        self.reads.iter().filter(within).flat_map(|reads| &reads.calls)
    }

    /// Returns whether there are reads in the database of a group that the group cannot repeat,
    /// because its transaction cannot span them. While that transaction is open, the session can
    /// open no other one to repeat them.
    pub(super) fn has_reads_beside(&self, group: &Group) -> bool {
        let groups = &self.job.plan.groups;
        self.reads.iter().any(|reads| {
            let of = &groups[reads.group];
            !reads.calls.is_empty()
                && of.database == group.database
                && !self.job.can_join(of, group)
        })
    }

    /// Returns whether reads must be repeated before a group begins: they are endorsed, and the
    /// group has to commit after them, but cannot repeat them.
    pub(super) fn must_validate_before(&self, group: &Group) -> bool {
        let is_doubtful = self.visibility.suspicious || self.is_long();
        group.writes() && !is_doubtful && self.must_validate() && self.has_reads_beside(group)
    }

    pub(super) fn validate(
        &mut self,
        mut validation: Box<Validation>,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let Some(reads) = self.reads.get(validation.group) else {
            return match validation.pending.take() {
                Some(run) => self.commit(run),
                None if (self.state.next as usize) < self.job.plan.groups.len() => {
                    self.validated_before = true;
                    None
                }
                None => {
                    self.visibility.suspicious = false;
                    self.reads.clear();
                    self.since_ms = self.now_ms;
                    None
                }
            };
        };
        let group = &self.job.plan.groups[reads.group];
        let open = validation.pending.as_ref().and_then(|run| run.group().database.clone());
        let due = |database: &Arc<str>| !reads.calls.is_empty() && open.as_ref() != Some(database);
        let Some(database) = group.database.clone().filter(due) else {
            validation.group += 1;
            self.stage = Stage::Validation(validation);
            return None;
        };
        let call = |index: usize| reads.calls.get(index).map(|done| done.call.clone());
        let (at, request) = match (validation.at, reply) {
            (At::Start, None) => {
                let begin = Begin { strong: group.strong, read_only: true, ..Begin::default() };
                (At::Begun, Some(Request::Begin(begin)))
            }
            (At::Begun, Some(Ok(_))) => (At::Call(0), call(0)),
            (At::Call(index), Some(reply)) if reads.calls[index].same(&reply) => {
                match call(index + 1) {
                    Some(next) => (At::Call(index + 1), Some(next)),
                    None => (At::Committing, Some(Request::Commit(Vec::new()))),
                }
            }
            (At::Call(_), Some(reply)) if reply.as_ref().err().is_none_or(stays_open) => {
                (At::Aborting, Some(Request::Abort))
            }
            (At::Committing, Some(Ok(_))) => (At::Start, None),
            (_, Some(reply)) => return self.changed(*validation, reply),
            (at, None) => unreachable!("{at:?} waits for an answer"),
        };
        validation.group += usize::from(at == At::Start);
        validation.at = at;
        self.stage = Stage::Validation(validation);
        request.map(|request| Ask::Store { database, request })
    }

    /// Restarts or retries after a read that has changed or cannot be repeated.
    fn changed(&mut self, validation: Validation, reply: Result<Reply, StoreError>) -> Option<Ask> {
        let why = match reply {
            Err(StoreError::Unavailable(reason) | StoreError::OutcomeUnknown(reason)) => {
                let group = self.reads[validation.group].group;
                let database = self.job.plan.groups[group].database.clone().unwrap_or_default();
                Why::Unavailable { database, reason }
            }
            _ => Why::Contention { attempts: self.restarts + 1 },
        };
        match validation.pending {
            Some(mut run) => {
                self.restart = Some(why);
                let step = run.give_up();
                self.group_step(run, step)
            }
            None => self.start_over(why),
        }
    }
}
