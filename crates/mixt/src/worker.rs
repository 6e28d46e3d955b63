//! Runs groups of phases next to their stores, for coordinators elsewhere (MixT §7.2).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::binding::Modules;
use crate::executor::{Clock, Connections};
use crate::group::{GroupEnd, GroupRun, GroupStep};
use crate::job::{CannotResume, Job};
use crate::outcome::Limits;
use crate::record::RecoveryLease;
use crate::request::Request;
use crate::request::calls::{Begin, StoreError};
use crate::request::remote_group::{RemoteGroup, RemoteReplies};

/// Interval between two reads of the commit witnesses that a group waits for, in milliseconds.
const LOOK_AGAIN_MS: u64 = 5;

/// Runs remote groups, and records their numbers so that it runs none twice.
#[derive(Debug, Default)]
pub struct Worker {
    seen: Mutex<BTreeMap<u64, Seen>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Time after which the worker rejects the group as too old.
    until_ms: u64,
    running: bool,
}

/// A remote group that is running. It has ended when this value is dropped.
struct Running<'a> {
    worker: &'a Worker,
    number: u64,
}

impl Worker {
    /// Runs a remote group over these databases, under the worker's own limits. If the future is
    /// dropped, its connections close and the open transaction aborts.
    ///
    /// # Errors
    /// If nothing was begun.
    pub async fn execute(
        &self,
        remote_group: &RemoteGroup,
        (modules, limits): (&Modules, Limits),
        connections: &mut Connections,
        clock: &dyn Clock,
    ) -> Result<RemoteReplies, ExecuteError> {
        let job =
            Job::of(&remote_group.record, modules, limits).map_err(|unknown| {
                match modules.contains_key(&remote_group.record.module) {
                    true => ExecuteError::Malformed(unknown.id.to_string()),
                    false => ExecuteError::UnknownModule(unknown),
                }
            })?;
        let next = remote_group.record.state.next as usize;
        let database = job.plan.groups.get(next).and_then(|group| group.database.clone());
        let Some(database) = database else {
            return Err(ExecuteError::Malformed(job.id.to_string()));
        };
        connections
            .check_out_for(&job.users, &database)
            .await
            .map_err(ExecuteError::Store)?
            .check_in();
        let _running = self.begin(remote_group, clock.now_ms())?;
        let look_until_ms =
            remote_group.until_ms.min(clock.now_ms().saturating_add(limits.on_the_way_ms()));
        let run = Execution { job: Arc::new(job), remote_group, database, look_until_ms };
        Ok(run.run(connections, clock).await)
    }

    /// Returns whether a remote group has ended or will never begin. If so, all that it has
    /// committed is visible. `until_ms` is that of the group.
    pub fn settle(&self, number: u64, until_ms: u64, now_ms: u64) -> bool {
        let mut seen = self.seen(now_ms);
        // `begin` rejects the number if the group arrives later.
        !seen.entry(number).or_insert(Seen { until_ms, running: false }).running
    }

    fn begin(&self, remote_group: &RemoteGroup, now_ms: u64) -> Result<Running<'_>, ExecuteError> {
        if now_ms >= remote_group.until_ms {
            return Err(ExecuteError::Late);
        }
        let mut seen = self.seen(now_ms);
        if seen.contains_key(&remote_group.number) {
            return Err(ExecuteError::Duplicate);
        }
        seen.insert(remote_group.number, Seen { until_ms: remote_group.until_ms, running: true });
        Ok(Running { worker: self, number: remote_group.number })
    }

    /// Returns the groups that are not yet rejected as too old.
    fn seen(&self, now_ms: u64) -> MutexGuard<'_, BTreeMap<u64, Seen>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| seen.running || now_ms < seen.until_ms);
        seen
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut seen = self.worker.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.get_mut(&self.number) {
            seen.running = false;
        }
    }
}

/// One run of a remote group.
struct Execution<'a> {
    job: Arc<Job>,
    remote_group: &'a RemoteGroup,
    database: Arc<str>,
    /// Time until which it looks for commit witnesses.
    look_until_ms: u64,
}

impl Execution<'_> {
    async fn run(self, connections: &mut Connections, clock: &dyn Clock) -> RemoteReplies {
        loop {
            let mut remote_replies = RemoteReplies::default();
            match self.attempt(&mut remote_replies, connections, clock).await {
                Some(GroupEnd::Blocked(_)) if clock.now_ms() < self.look_until_ms => {
                    clock.sleep(LOOK_AGAIN_MS).await;
                }
                Some(GroupEnd::Unknown(_)) => {
                    self.wait_for_commit(connections, clock).await;
                    return remote_replies;
                }
                _ => return remote_replies,
            }
        }
    }

    /// Waits until a commit whose answer was lost has taken effect, or never will. The next remote
    /// group runs in another session, which cannot determine the outcome. The wait ends when other
    /// coordinators may take the transaction over.
    async fn wait_for_commit(&self, connections: &mut Connections, clock: &dyn Clock) {
        let begin = Request::Begin(Begin::default());
        let limits = &self.job.limits;
        let in_doubt_ms = limits.orphan_ms.saturating_sub(limits.finish_ms);
        let over_ms = self.remote_group.until_ms.saturating_add(in_doubt_ms);
        while connections.ask_for(&self.job.users, &self.database, &begin).await.is_err() {
            if clock.now_ms() >= over_ms {
                return;
            }
            clock.sleep(LOOK_AGAIN_MS).await;
        }
        self.abort(connections).await;
    }

    fn is_late(&self, clock: &dyn Clock) -> bool {
        clock.now_ms() >= self.remote_group.until_ms
    }

    async fn abort(&self, connections: &mut Connections) {
        // No transaction is open afterwards, whatever the answer.
        let _ = connections.ask_for(&self.job.users, &self.database, &Request::Abort).await;
    }

    /// Runs the group once. Returns `None` if it stopped before it would commit, because the
    /// coordinator has to decide.
    async fn attempt(
        &self,
        remote_replies: &mut RemoteReplies,
        connections: &mut Connections,
        clock: &dyn Clock,
    ) -> Option<GroupEnd> {
        let state = self.remote_group.record.state.clone();
        let (mut visibility, mut worklist) =
            (self.remote_group.visibility.clone(), state.worklist.clone());
        let mut run = GroupRun::new(Arc::clone(&self.job), state, false);
        let mut step = run.next(None);
        loop {
            step = match step {
                // An endless loop would request operations for ever. The coordinator decides
                // whether this is such a loop.
                GroupStep::Ask(_) if run.asks_for_operation() && self.is_late(clock) => {
                    self.abort(connections).await;
                    return None;
                }
                GroupStep::Ask(request) => {
                    let users = &self.job.users;
                    let reply = connections.ask_for(users, &self.database, &request).await;
                    remote_replies.replies.push(reply.clone());
                    run.next(Some(reply))
                }
                GroupStep::Ended(end) => return Some(end),
                GroupStep::Ready => {
                    let now_ms = clock.now_ms();
                    let whole = visibility.observe(&run, &mut worklist, now_ms);
                    let unsure = visibility.suspicious && !run.is_after_commit();
                    if !whole {
                        run.give_up()
                    } else if run.group().writes() && (unsure || self.is_late(clock)) {
                        self.abort(connections).await;
                        return None;
                    } else {
                        let lease = RecoveryLease {
                            since_ms: now_ms,
                            ..self.remote_group.record.lease.clone()
                        };
                        visibility.commit(&mut run, &worklist, lease)
                    }
                }
            }
        }
    }
}

/// Reason why a worker has not begun a remote group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The worker does not know the program.
    #[error("{0}")]
    UnknownModule(CannotResume),
    /// The group is not valid for its program; with the transaction's identifier.
    #[error("the phases of transaction {0} do not match its module")]
    Malformed(String),
    /// The group arrived too late.
    #[error("the phases arrived too late, or clocks differ")]
    Late,
    /// The group arrived before.
    #[error("the same phases arrived before")]
    Duplicate,
    /// Its database cannot be used.
    #[error("{0}")]
    Store(StoreError),
}

impl ExecuteError {
    /// Returns the error with which [`Connection::execute`](crate::store::Connection::execute)
    /// fails.
    pub fn into_store_error(self) -> StoreError {
        match self {
            // The answer to the earlier one is lost.
            ExecuteError::Duplicate => StoreError::OutcomeUnknown(self.to_string()),
            other => StoreError::Unavailable(other.to_string()),
        }
    }
}
