//! Recovery leases: one coordinator at a time may complete a transaction that has begun to take
//! effect (decision 0021).
//!
//! The first lease, number 0, belongs to the coordinator that began the transaction. A coordinator
//! that takes over writes the number of the next lease next to the record. Where the database
//! commits only one of two transactions that create the same value of a name, only one coordinator
//! acquires it.
//!
//! The holder requests commits within [`Limits::finish_ms`](crate::outcome::Limits::finish_ms), and
//! they take effect at most [`IN_DOUBT_MS`](crate::outcome::IN_DOUBT_MS) later. The next lease may
//! be acquired in three cases:
//! - The holder has recorded that it has stopped and has an answer to each of its requests, as most
//!   tickets do.
//! - The holder has stopped with a commit in doubt, and the new coordinator sees that this commit
//!   has taken effect.
//! - [`Limits::orphan_ms`](crate::outcome::Limits::orphan_ms) have passed, and the new coordinator
//!   sees all that was committed until then. A site that was cut off may have continued.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Ask, Coordinator, Stage};
use crate::location::{Fields, Name};
use crate::outcome::Why;
use crate::record::{Record, RecoveryLease};
use crate::request::calls::{Begin, Commits, NameWrite, StoreError};
use crate::request::{Reply, Request};
use crate::versioned::Unreadable;
use crate::witness;

/// Progress of the acquisition of a lease.
#[derive(Debug)]
pub(super) enum LeaseStep {
    Start,
    Reading,
    /// Aborts the open transaction, for the reason given.
    Aborting(NoLease),
    /// Asks whether these databases show what the earlier holders committed.
    CatchingUp {
        number: u32,
        rest: Vec<(Arc<str>, Commits)>,
    },
    Writing {
        since_ms: u64,
    },
    /// Reads whether the commit that was in doubt when the last holder stopped has taken effect.
    ReadingMark,
    /// Ends that read.
    ReadMark {
        settled: bool,
    },
}

/// Reason why the coordinator cannot acquire a lease now.
#[derive(Debug)]
pub(super) enum NoLease {
    /// Another coordinator holds it.
    Held,
    /// The coordinator must see these commits before it acquires lease `number`.
    Unseen {
        number: u32,
        commits: Vec<(Arc<str>, Commits)>,
    },
    /// Another coordinator has completed the transaction.
    Completed,
    Unreadable(String),
}

impl Coordinator {
    /// Acquires the lease that it wants.
    pub(super) fn acquire_lease(
        &mut self,
        step: LeaseStep,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let Some(place) = self.job.record_place() else {
            self.commit_status.skip_lease();
            return None;
        };
        let (database, name) = (place.database.clone(), witness::record(&place.space, self.job.id));
        let first = self.job.plan.first_writer.expect("a recorded transaction writes");
        let group = &self.job.plan.groups[first];
        let (step, request) = match (step, reply) {
            (LeaseStep::Start, _) => {
                let begin = Begin { strong: group.strong, names: vec![name], ..Begin::default() };
                (LeaseStep::Reading, Request::Begin(begin))
            }
            (LeaseStep::Reading, Some(Ok(Reply::Began(fields)))) => {
                let new = group.atomic;
                match self.next_lease(&fields.into_iter().next().unwrap_or_default()) {
                    Ok(lease) => {
                        self.lease_number = lease.number;
                        let (field, value) = (u64::from(lease.number), lease.encode());
                        let write = NameWrite::Set { name, field, value, new };
                        let since_ms = lease.since_ms;
                        (LeaseStep::Writing { since_ms }, Request::Commit(vec![write]))
                    }
                    Err(no_lease) => (LeaseStep::Aborting(no_lease), Request::Abort),
                }
            }
            (LeaseStep::Aborting(no_lease), Some(_)) => return self.without_lease(no_lease),
            (LeaseStep::CatchingUp { number, mut rest }, Some(Ok(Reply::Sees(true)))) => {
                rest.pop();
                return self.catch_up(number, rest);
            }
            (LeaseStep::CatchingUp { rest, .. }, Some(reply)) => {
                let reason = match reply {
                    Err(error) => error.to_string(),
                    Ok(_) => "commits of other sites are not yet visible here".to_owned(),
                };
                let (database, _) = rest.into_iter().next_back().expect("one is pending");
                return self.retry(Why::Unavailable { database, reason });
            }
            (LeaseStep::Writing { since_ms }, Some(Ok(Reply::Committed))) => {
                self.commit_status.hold_lease(since_ms);
                return None;
            }
            (LeaseStep::Writing { .. }, Some(Err(StoreError::Conflict))) => {
                return self.without_lease(NoLease::Held);
            }
            (LeaseStep::ReadingMark, Some(Ok(Reply::Began(fields)))) => {
                let settled = fields.iter().any(|mark| mark.contains_key(&0));
                let (database, _) = self.mark_in_doubt().expect("a read of the mark is pending");
                self.stage = Stage::Lease(LeaseStep::ReadMark { settled });
                return Some(Ask::Store { database, request: Request::Abort });
            }
            (LeaseStep::ReadMark { settled: true }, Some(_)) => {
                self.after_stopped = true;
                self.stage = Stage::Lease(LeaseStep::Start);
                return None;
            }
            // The coordinator must wait: it does not see the mark, and the commit may still take
            // effect.
            (LeaseStep::ReadMark { settled: false } | LeaseStep::ReadingMark, Some(_)) => {
                return self.retry(Why::Taken);
            }
            // If the lease was created although the request failed, no coordinator continues until
            // that lease expires.
            (_, Some(Err(error))) => {
                return self.retry(Why::Unavailable { database, reason: error.to_string() });
            }
            (step, reply) => {
                unreachable!("{reply:?} is no answer to the request ({step:?})")
            }
        };
        self.stage = Stage::Lease(step);
        Some(Ask::Store { database, request })
    }

    /// Returns the lease to acquire now, from the fields under the record's name.
    fn next_lease(&self, fields: &Fields) -> Result<RecoveryLease, NoLease> {
        let unreadable = |error: Unreadable| NoLease::Unreadable(error.to_string());
        let age_ms = |since_ms: u64| self.now_ms.saturating_sub(since_ms);
        let record = fields.get(&0).map(|bytes| Record::decode(bytes));
        let record = record.transpose().map_err(unreadable)?;
        let is_complete = match &record {
            Some(record) => record.complete,
            // A young record cannot have been removed: it has not arrived here yet.
            None => age_ms(self.asked_ms) >= self.job.limits.keep_ms,
        };
        if is_complete {
            return Err(NoLease::Completed);
        }
        // Another coordinator may have resumed the same ticket, and run the first group that
        // writes.
        let first = record.map(|record| record.lease);
        let taken = RecoveryLease::acquired(fields).map_err(unreadable)?;
        let before: Vec<_> = first.into_iter().chain(taken).collect();
        // The lease in the ticket may not be visible here yet.
        let known = (self.lease_number.saturating_sub(1), self.asked_ms);
        let seen = before.iter().map(|lease| (lease.number, lease.since_ms));
        let (last, since_ms) = seen.chain([known]).max().expect("the own lease is known");
        let is_over = self.after_stopped && last < self.lease_number;
        if !is_over && age_ms(since_ms) < self.job.limits.orphan_ms {
            return Err(NoLease::Held);
        }
        let number = last.saturating_add(1);
        if self.caught_up == Some(number) {
            return Ok(RecoveryLease { number, ..self.current_lease() });
        }
        Err(NoLease::Unseen { number, commits: self.of_others(&before) })
    }

    /// Returns the commits of earlier holders that this coordinator must see first, by database.
    /// They are in databases where commits merge: a coordinator that does not see a mark there
    /// would repeat the group.
    fn of_others(&self, leases: &[RecoveryLease]) -> Vec<(Arc<str>, Commits)> {
        let groups = &self.job.plan.groups[self.state.next as usize..];
        let merging = groups.iter().filter(|group| group.writes() && !group.validated);
        let databases: BTreeSet<_> = merging.filter_map(|group| group.database.as_ref()).collect();
        let commits = databases.into_iter().map(|database| {
            let commit_replicas =
                leases.iter().map(|lease| lease.commit_replicas.get(database).cloned()).collect();
            // Without the record, the holders are not known.
            let commit_replicas = if leases.is_empty() { None } else { commit_replicas };
            (Arc::clone(database), Commits { until_ms: self.now_ms, replicas: commit_replicas })
        });
        commits.collect()
    }

    /// Asks the remaining databases, and then acquires the lease.
    fn catch_up(&mut self, number: u32, rest: Vec<(Arc<str>, Commits)>) -> Option<Ask> {
        let Some((database, commits)) = rest.last().cloned() else {
            self.caught_up = Some(number);
            self.stage = Stage::Lease(LeaseStep::Start);
            return None;
        };
        self.stage = Stage::Lease(LeaseStep::CatchingUp { number, rest });
        Some(Ask::Store { database, request: Request::Sees(commits) })
    }

    /// Returns the database and the mark of the group whose commit was in doubt when the holder of
    /// the ticket stopped. A coordinator that sees the mark does not run the group again, so it
    /// need not wait for anything else. This holds only where one of two transactions that create
    /// the same lease fails: where commits merge, only time separates the coordinators that see the
    /// mark.
    fn mark_in_doubt(&self) -> Option<(Arc<str>, Name)> {
        let index = self.state.next as usize;
        let groups = &self.job.plan.groups;
        let first = &groups[self.job.plan.first_writer?];
        let group = groups.get(index).filter(|group| group.writes())?;
        if self.after_stopped || !(first.validated && first.atomic) {
            return None;
        }
        Some((group.database.clone()?, self.job.mark(index)?))
    }

    fn without_lease(&mut self, no_lease: NoLease) -> Option<Ask> {
        match no_lease {
            NoLease::Unseen { number, commits } => self.catch_up(number, commits),
            NoLease::Held if self.is_patient => match self.mark_in_doubt() {
                Some((database, mark)) => {
                    self.stage = Stage::Lease(LeaseStep::ReadingMark);
                    let begin = Begin { read_only: true, names: vec![mark], ..Begin::default() };
                    Some(Ask::Store { database, request: Request::Begin(begin) })
                }
                None => self.retry(Why::Taken),
            },
            NoLease::Held => self.stop(Why::Taken),
            NoLease::Completed => self.completed_by_others(),
            NoLease::Unreadable(reason) => {
                let database = self.job.record_place().map(|place| place.database.clone());
                self.stop(Why::Refused { database: database.unwrap_or_default(), reason })
            }
        }
    }
}
