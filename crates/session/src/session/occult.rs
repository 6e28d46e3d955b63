//! Commands on keys of spaces that Occult runs, transactions of level `pcpsi`, and the session's
//! past in these spaces.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use smallvec::smallvec;
use solera_commands::Command as Described;
use solera_config::{ClusterSpec, Timestamps};
use solera_data::{Key, Op, OpError, Outcome};
use solera_occult::{
    AbortCause, CausalTimestamp, Command, OnStale, ReadCounts, Response, Scheme, ShardId,
};
use solera_time::{Physical, SiteId, Timestamp};

use super::ClientSession;
use super::conflict::PATIENCE;
use super::mode::{Current, OccultTransaction};
use super::operations::{Dropped, Results, Stopped};
use super::queue::{Queue, Runner};
use crate::context::{Context, Unreachable};
use crate::plan::{self, KeyOp, Plan};

/// Pause before a transaction is tried again after a conflict, and its maximum.
const RETRY_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A session's state for keys that Occult holds.
#[derive(Debug)]
pub(crate) struct OccultSession {
    /// Causal past: everything that the session has seen and written.
    pub(crate) past: CausalTimestamp,
    /// Number of moves of homes that had been carried out when the last check found that the past
    /// depends on no lost write.
    pub(crate) epoch: u64,
    /// Behaviour of reads when the local replica is not recent enough.
    pub(crate) on_stale: OnStale,
    /// Number of reads, and counts of those whose replica was not recent enough.
    pub(crate) reads: u64,
    pub(crate) stale: u64,
    pub(crate) at_home: u64,
    /// The transaction of an update whose outcome is unknown. The session must learn the outcome
    /// before it goes on.
    pub(super) pending: Option<u64>,
    /// Whether the outcome of an update on which the session may depend cannot be learned any more.
    /// The session goes on only after RESET.
    pub(super) has_lost_outcome: bool,
    /// Keys that the present or last transaction has used, for errors.
    used: Vec<Key>,
    /// Watched keys, and the digest of each when it was watched.
    watched: Vec<(Key, Result<Outcome, OpError>)>,
    /// The snapshot from which the open transaction reads all keys; `None` if it has begun none.
    pub(super) snapshot: Option<u64>,
}

/// Reason why a transaction was not committed.
enum NotDone {
    /// Another transaction interfered; trying again may succeed.
    Conflict(String),
    /// The error reply.
    Failed(String),
}

/// Returns the scheme of the timestamps of a cluster.
pub fn scheme(spec: &ClusterSpec) -> Scheme {
    match spec.timestamps {
        Timestamps::Exact => Scheme::Exact,
        Timestamps::Structural(stamps) => Scheme::Structural(stamps),
        Timestamps::Temporal(stamps) => Scheme::Temporal(stamps),
        Timestamps::PerSite(stamps) => Scheme::PerSite(stamps),
    }
}

impl OccultSession {
    /// Creates the state of a session that has seen nothing.
    pub(crate) fn new(spec: &ClusterSpec) -> OccultSession {
        OccultSession::with(scheme(spec))
    }

    pub(super) fn with(scheme: Scheme) -> OccultSession {
        OccultSession {
            past: CausalTimestamp::new(scheme),
            epoch: 0,
            on_stale: OnStale::Home,
            reads: 0,
            stale: 0,
            at_home: 0,
            pending: None,
            has_lost_outcome: false,
            used: Vec::new(),
            watched: Vec::new(),
            snapshot: None,
        }
    }

    /// Returns whether keys are watched.
    pub(crate) fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Stops watching keys.
    pub(crate) fn unwatch(&mut self) {
        self.watched.clear();
    }

    fn count(&mut self, counts: ReadCounts) {
        self.stale += u64::from(counts.stale);
        self.at_home += u64::from(counts.at_home);
    }
}

impl<W: Context> ClientSession<W> {
    /// Reads a key of this worker and appends the reply, if the copy here is recent enough. Returns
    /// whether the copy was recent enough; otherwise has no effect.
    pub(crate) fn read_occult_at_once(
        &mut self,
        command: &'static Described,
        key: &[u8],
        op: &Op,
    ) -> bool {
        if op.is_update() || self.occult.pending.is_some() || self.occult.has_lost_outcome {
            return false;
        }
        let (now, past, epoch) = (self.now, &mut self.occult.past, self.occult.epoch);
        let read = self.worker.with_occult(|occult| {
            let is_valid = epoch == occult.homes().epoch();
            is_valid.then(|| occult.read_at_once(now, past, (&Key::from(key), op))).flatten()
        });
        let Some(result) = read.flatten() else { return false };
        self.worker.count_command(command.id);
        self.occult.reads += 1;
        self.last_command = command.name;
        if !plan::write_single(&mut self.out, &result) {
            self.worker.count_error();
        }
        true
    }

    /// Runs a command on keys that Occult holds.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn run_on_occult(&mut self, plan: &Plan<'_>) -> Result<Results, Stopped> {
        if let Some(transaction) = self.mode.occult() {
            let results = self.operate_on_occult(transaction, plan).await;
            return results.map_err(|dropped| {
                self.mode.give_up(dropped.error.clone());
                Stopped::Aborted(dropped)
            });
        }
        self.await_pending().await?;
        self.check_arrived(plan)?;
        match plan.ops.as_slice() {
            [single] => Ok(smallvec![self.execute_on_occult(single).await?]),
            _ => Ok(self.run_in_occult_transaction(plan).await?),
        }
    }

    /// Runs one operation as a transaction of its own.
    async fn execute_on_occult(
        &mut self,
        op: &KeyOp<'_>,
    ) -> Result<Result<Outcome, OpError>, String> {
        let command = Command::Execute {
            past: self.occult.past.clone(),
            key: Key::from(&*op.key),
            op: op.op.clone(),
            on_stale: self.occult.on_stale,
        };
        self.occult.reads += u64::from(!op.op.is_update());
        match self.call_occult(command).await? {
            Response::Committed { mut outcomes, past, counts } => {
                self.occult.past = past;
                self.occult.count(counts);
                // A home may have been taken by force since the read.
                if !op.op.is_update() {
                    self.check_lost()?;
                }
                outcomes.pop().map(Ok).ok_or_else(|| self.unanswered())
            }
            Response::Failed(error) => Ok(Err(error)),
            Response::Unknown(unknown) => {
                self.occult.note_unknown(unknown);
                Err(format!(
                    "UNKNOWN the home of {} did not answer in time; the command may have been done, and may still be",
                    self.key_in_space(&op.key)
                ))
            }
            other => Err(self.not_read(&op.key, other)),
        }
    }

    /// Runs a command on several keys as one transaction, and tries again after conflicts.
    async fn run_in_occult_transaction(&mut self, plan: &Plan<'_>) -> Result<Results, String> {
        let (began, mut pause) = (Instant::now(), RETRY_PAUSE);
        loop {
            let transaction = self.begin_on_occult().await?;
            self.mode.execute(Current::Occult(transaction));
            let results = self.operate_on_occult(transaction, plan).await;
            self.mode.finish();
            let results = results.map_err(|dropped| dropped.error)?;
            let writes = plan.ops.iter().any(|op| op.op.is_update());
            match self.try_commit_on_occult(transaction, writes).await {
                Ok(()) => return Ok(results),
                Err(NotDone::Conflict(_)) if began.elapsed() < PATIENCE => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(NotDone::Conflict(error) | NotDone::Failed(error)) => return Err(error),
            }
        }
    }

    async fn begin_on_occult(&mut self) -> Result<OccultTransaction, String> {
        self.occult.used.clear();
        let command =
            Command::Begin { past: self.occult.past.clone(), on_stale: self.occult.on_stale };
        match self.call_occult(command).await? {
            Response::Begun(transaction) => Ok(OccultTransaction(transaction)),
            _ => Err(self.unanswered()),
        }
    }

    /// SOLERA.BEGIN PCPSI: opens a transaction. The transaction validates the watched keys.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin_open_on_occult(&mut self) -> Result<(), String> {
        if !self.worker.spec().spaces.run_occult() {
            return Err("ERR there is no space of level pcpsi".to_owned());
        }
        self.await_pending().await?;
        let transaction = self.begin_on_occult().await?;
        let watched = std::mem::take(&mut self.occult.watched);
        if !watched.is_empty() {
            self.mode.execute(Current::Occult(transaction));
            let validated = self.validate_watched(transaction, &watched).await;
            self.mode.finish();
            if let Err(error) = validated {
                self.abort(Current::Occult(transaction));
                return Err(match error {
                    NotDone::Conflict(error) | NotDone::Failed(error) => error,
                });
            }
        }
        self.mode.open(Current::Occult(transaction), self.identity.user());
        Ok(())
    }

    /// Runs a command's operations in a transaction. Aborts the transaction if one of the
    /// operations cannot be done.
    async fn operate_on_occult(
        &mut self,
        transaction: OccultTransaction,
        plan: &Plan<'_>,
    ) -> Result<Results, Dropped> {
        let mut results = Results::with_capacity(plan.ops.len());
        for op in &plan.ops {
            match self.operate_once(transaction, op, false).await {
                Ok(result) => results.push(result),
                Err(error) => {
                    self.abort(Current::Occult(transaction));
                    return Err(Dropped { error, is_answered: true });
                }
            }
        }
        Ok(results)
    }

    async fn operate_once(
        &mut self,
        OccultTransaction(transaction): OccultTransaction,
        op: &KeyOp<'_>,
        validates: bool,
    ) -> Result<Result<Outcome, OpError>, String> {
        let (key, of) = (Key::from(&*op.key), op.op.clone());
        if self.occult.used.last() != Some(&key) {
            self.occult.used.push(key.clone());
        }
        let command = Command::Operate { transaction, key, op: of, validates };
        self.occult.reads += u64::from(!op.op.is_update());
        match self.call_occult(command).await? {
            Response::Done(result, counts) => {
                self.check_lost()?;
                self.occult.count(counts);
                Ok(result)
            }
            other => Err(self.not_read(&op.key, other)),
        }
    }

    /// Counts a read that was refused because its copy was stale, and returns the error reply for a
    /// response.
    fn not_read(&mut self, key: &[u8], response: Response) -> String {
        self.occult.stale += u64::from(response == Response::Stale);
        self.occult_error(key, response)
    }

    /// Commits a transaction that may have `writes`.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn commit_on_occult(
        &mut self,
        transaction: OccultTransaction,
        writes: bool,
    ) -> Result<(), String> {
        let committed = self.try_commit_on_occult(transaction, writes).await;
        committed.map_err(|not_done| match not_done {
            NotDone::Conflict(error) | NotDone::Failed(error) => error,
        })
    }

    async fn try_commit_on_occult(
        &mut self,
        transaction: OccultTransaction,
        writes: bool,
    ) -> Result<(), NotDone> {
        // The commands before the commit may have taken long, so check again.
        if writes && let Some(reason) = self.worker.takes_no_writes() {
            self.abort(Current::Occult(transaction));
            return Err(NotDone::Failed(reason));
        }
        let command = Command::Commit { transaction: transaction.0 };
        match self.call_occult(command).await.map_err(NotDone::Failed)? {
            Response::Committed { past, .. } => {
                self.occult.past = past;
                Ok(())
            }
            Response::Aborted(cause) => {
                let error = self.aborted(&cause);
                match cause {
                    AbortCause::TimedOut => Err(NotDone::Failed(error)),
                    _ => Err(NotDone::Conflict(error)),
                }
            }
            Response::Unknown(unknown) => {
                self.occult.note_unknown(unknown);
                Err(NotDone::Failed(format!(
                    "UNKNOWN a home did not answer in time; the transaction may have been committed, and may still \
                     be: SOLERA.OUTCOME {} returns it",
                    self.name_of(transaction)
                )))
            }
            Response::NoSuchTransaction => Err(NotDone::Failed(expired())),
            Response::Failed(error) => Err(NotDone::Failed(plan::error_reply(&error))),
            other => Err(NotDone::Failed(self.occult_error(b"", other))),
        }
    }

    /// Adds what another session of this server has seen to this session's past.
    pub(crate) fn absorb_occult(&mut self, seen: &(CausalTimestamp, u64)) {
        let own = &mut self.occult;
        self.worker.with_occult(|occult| own.absorb(occult, seen));
    }

    /// Drops a transaction after validation of its reads.
    ///
    /// # Errors
    /// The error reply, if the reads do not belong to one snapshot.
    pub(super) async fn certify_on_occult(
        &mut self,
        transaction: OccultTransaction,
    ) -> Result<(), String> {
        match self.call_occult(Command::Certify { transaction: transaction.0 }).await? {
            Response::Aborted(AbortCause::Given) => Ok(()),
            Response::Aborted(cause) => Err(self.aborted(&cause)),
            _ => Err(expired()),
        }
    }

    /// EXEC of commands on keys that Occult holds. Retries after conflicts if no key is watched,
    /// because the commands then do not depend on what the client has read.
    pub(super) async fn exec_on_occult(&mut self, queue: &Queue<W>) {
        let watched = std::mem::take(&mut self.occult.watched);
        let others = std::mem::take(&mut self.watched);
        if !others.is_empty() || queue.runner.is_some_and(|runner| runner != Runner::Occult) {
            let ours = match watched.first() {
                Some((key, _)) => format!("{} is watched and", self.key_in_space(key.as_bytes())),
                None => "keys used since MULTI are".to_owned(),
            };
            let other = match others.first() {
                Some(other) => {
                    format!("{}, also watched, is", self.key_in_space(other.key.as_bytes()))
                }
                None => "keys used since MULTI are".to_owned(),
            };
            return self.fail(format!(
                "ERR {ours} of level pcpsi, and {other} not: one transaction cannot span both"
            ));
        }
        if let Err(error) = self.await_pending().await {
            return self.fail(error);
        }
        let (began, mut pause) = (Instant::now(), RETRY_PAUSE);
        loop {
            match self.exec_on_occult_once(queue, &watched).await {
                Ok(replies) => return self.out.bytes.extend_from_slice(&replies),
                Err(NotDone::Failed(error)) => return self.fail(error),
                Err(NotDone::Conflict(_)) if !watched.is_empty() || began.elapsed() >= PATIENCE => {
                    return self.out.null_array();
                }
                Err(NotDone::Conflict(_)) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn exec_on_occult_once(
        &mut self,
        queue: &Queue<W>,
        watched: &[(Key, Result<Outcome, OpError>)],
    ) -> Result<Vec<u8>, NotDone> {
        let transaction = self.begin_on_occult().await.map_err(NotDone::Failed)?;
        self.mode.execute(Current::Occult(transaction));
        if let Err(not_done) = self.validate_watched(transaction, watched).await {
            self.mode.finish();
            self.abort(Current::Occult(transaction));
            return Err(not_done);
        }
        // This leaves the mode.
        let replies = self.run_queued(queue).await.map_err(NotDone::Failed)?;
        let writes = queue.writes || !watched.is_empty();
        self.try_commit_on_occult(transaction, writes).await?;
        Ok(replies)
    }

    /// Reads the watched keys again in a transaction, which commits only if these keys do not
    /// change.
    async fn validate_watched(
        &mut self,
        transaction: OccultTransaction,
        watched: &[(Key, Result<Outcome, OpError>)],
    ) -> Result<(), NotDone> {
        for (key, digest) in watched {
            let op = KeyOp::new(key.as_bytes(), Op::Digest);
            let now = self.operate_once(transaction, &op, true).await.map_err(NotDone::Failed)?;
            if now != *digest {
                return Err(NotDone::Conflict(conflict_on(key, "it has changed since WATCH")));
            }
        }
        Ok(())
    }

    /// WATCH of keys that Occult holds.
    ///
    /// # Errors
    /// The error reply.
    pub(super) async fn watch_on_occult<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), String> {
        self.await_pending().await?;
        let transaction = self.mode.occult();
        for key in keys {
            let op = KeyOp::new(key, Op::Digest);
            if let Some(transaction) = transaction {
                if let Err(error) = self.operate_once(transaction, &op, true).await {
                    self.give_up(error.clone());
                    return Err(error);
                }
                continue;
            }
            if self.occult.watched.iter().any(|(watched, _)| watched.as_bytes() == key) {
                continue;
            }
            let digest = self.execute_on_occult(&op).await?;
            self.occult.watched.push((Key::from(key), digest));
        }
        Ok(())
    }

    /// Waits until enough sites store what the session has seen and written.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn wait_for_occult(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        self.await_pending().await?;
        if self.occult.past.is_empty() {
            return Ok(());
        }
        let (began, sites) = (Instant::now(), self.worker.spec().f + 1);
        let left = || patience.map(|patience| patience.saturating_sub(began.elapsed()));
        for worker in self.worker.workers() {
            loop {
                let command = Command::Barrier { past: self.occult.past.clone(), sites };
                let asked = self.worker.ask_occult(worker, command);
                let response = match left() {
                    Some(left) => match tokio::time::timeout(left, asked).await {
                        Ok(response) => response,
                        Err(_) => return Err(too_few_sites()),
                    },
                    None => asked.await,
                };
                match response {
                    Some(Response::Stored(count)) if count >= sites => break,
                    // The protocol has a timeout of its own; repeat the request while time is left.
                    Some(Response::Stored(_)) => {}
                    Some(_) => return Err(self.unanswered()),
                    None => return Err(Unreachable(self.worker.node_name(worker)).to_string()),
                }
            }
        }
        Ok(())
    }

    /// Returns the sites of homes from which the session depends on writes that f + 1 sites are not
    /// known to store.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn homes_at_risk(&self) -> Result<BTreeSet<SiteId>, String> {
        let mut homes = BTreeSet::new();
        if self.occult.past.is_empty() {
            return Ok(homes);
        }
        for worker in self.worker.workers() {
            let (past, sites) = (self.occult.past.clone(), self.worker.spec().f + 1);
            match self.worker.ask_occult(worker, Command::Unstored { past, sites }).await {
                Some(Response::Unstored(lacking)) => homes.extend(lacking),
                Some(_) => return Err(self.unanswered()),
                None => return Err(Unreachable(self.worker.node_name(worker)).to_string()),
            }
        }
        Ok(homes)
    }

    /// Returns the time up to which every copy of every key that Occult holds shows all writes;
    /// `None` if Occult holds no keys.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn horizon_of_occult(&self) -> Result<Option<Timestamp>, String> {
        if !self.worker.spec().spaces.run_occult() {
            return Ok(None);
        }
        match self.call_occult(Command::Horizon).await? {
            Response::Shown(stamp) => Ok(Some(Timestamp::from_physical(Physical(stamp.0)))),
            _ => Err(self.unanswered()),
        }
    }

    /// Adds a token's past to the session's. The session waits only until this site has the moves
    /// of homes that the token has seen: each of the session's reads is checked.
    ///
    /// # Errors
    /// The error reply, if the past belongs to another configuration, or depends on lost writes.
    pub(crate) async fn attach_occult(
        &mut self,
        past: &CausalTimestamp,
        epoch: u64,
    ) -> Result<(), String> {
        let began = Instant::now();
        // A worker that was down may take its site for the home of shards that have moved.
        while self.worker.with_occult(|occult| occult.homes().epoch() < epoch) == Some(true) {
            if began.elapsed() >= PATIENCE {
                return Err("TRYAGAIN this site does not know yet of a move of homes that the token has seen".to_owned());
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        let session = &mut self.occult;
        let joined = self.worker.with_occult(|occult| session.join(occult, past, epoch));
        joined.unwrap_or_else(|| Err(of_other_spaces()))
    }

    /// Waits for the unknown outcome of an update. The session needs the outcome before it goes on.
    ///
    /// # Errors
    /// The error reply, if the outcome is still unknown, or cannot be learned any more.
    pub(crate) async fn await_pending(&mut self) -> Result<(), String> {
        self.check_lost()?;
        self.occult.check_outcome()?;
        let Some(transaction) = self.occult.pending else { return Ok(()) };
        let answer = self.call_occult(Command::Await { transaction }).await?;
        self.occult.take_outcome(answer)?;
        // The past of the update may depend on what was lost since.
        self.check_lost()
    }

    /// Checks that the data of keys has arrived at their homes after forced moves. Only after its
    /// arrival can the worker determine whether a session depends on lost writes.
    ///
    /// # Errors
    /// The error reply.
    fn check_arrived(&self, plan: &Plan<'_>) -> Result<(), String> {
        let is_on_its_way = |key: &[u8]| {
            let found = self
                .worker
                .with_occult(|occult| occult.homes().is_undecided(occult.config().shard_of(key)));
            found == Some(true)
        };
        let Some(key) = plan.keys().find(|key| is_on_its_way(key)) else { return Ok(()) };
        Err(format!(
            "TRYAGAIN the new home of {}, taken by force, does not have the data of all sites yet; nothing was done",
            self.key_in_space(key)
        ))
    }

    /// Checks that the session depends on nothing that was lost with a home.
    ///
    /// # Errors
    /// The error reply.
    fn check_lost(&mut self) -> Result<(), String> {
        let (session, is_open) = (&mut self.occult, self.mode.occult().is_some());
        let checked = self.worker.with_occult(|occult| session.check_lost(occult, is_open));
        checked.unwrap_or(Ok(()))
    }

    /// Stops waiting for the outcome of an update, because the session ends.
    pub(super) fn abandon_pending(&mut self) {
        if let Some(transaction) = self.occult.pending.take() {
            self.worker.send_occult(Command::Abort { transaction });
        }
    }

    async fn call_occult(&self, command: Command) -> Result<Response, String> {
        let response = self.worker.ask_occult(self.worker.address(), command).await;
        response.ok_or_else(|| self.unanswered())
    }

    fn occult_error(&self, key: &[u8], response: Response) -> String {
        let named = self.key_in_space(key);
        match response {
            Response::Aborted(cause) => self.aborted(&cause),
            Response::TimedOut => {
                format!("TRYAGAIN no copy of {named} answered in time; nothing was done")
            }
            Response::Stale => format!(
                "STALE the copy of {named} at this site lacks writes on which the session depends; SOLERA.STALE HOME \
                 lets reads go to the key's home"
            ),
            Response::Ahead(site) => format!(
                "BADTOKEN the session depends on writes whose stamps are too far ahead of the clock of site {}, the \
                 home of {named}: its token is forged, or a clock was wrong; RESET, and go on without the token",
                self.worker.site_name(site)
            ),
            Response::NoSuchTransaction => expired(),
            Response::Failed(error) => plan::error_reply(&error),
            _ => self.unanswered(),
        }
    }

    /// Formats the error reply of an abort. The reply names the key, if it is known.
    fn aborted(&self, cause: &AbortCause) -> String {
        let used_in = |shard: ShardId| {
            let is_there = |key: &&Key| {
                self.worker.with_occult(|occult| occult.config().shard_of(key.as_bytes()))
                    == Some(shard)
            };
            self.occult.used.iter().find(is_there)
        };
        let key = match cause {
            AbortCause::Locked(key) => Some(key),
            AbortCause::ReadSet(shard) | AbortCause::OverwriteSet(shard) => used_in(*shard),
            _ => None,
        };
        match key {
            Some(key) => conflict_on(key, &cause.to_string()),
            None => format!("ABORTED {cause}; nothing was changed"),
        }
    }
}

/// Formats the error reply of a conflict, in the form that clients expect.
fn conflict_on(key: &Key, cause: &str) -> String {
    let key = String::from_utf8_lossy(key.as_bytes());
    format!("ABORTED conflict on '{key}'; {cause}; nothing was changed")
}

pub(super) fn of_other_spaces() -> String {
    "BADTOKEN the token has seen keys of spaces of level pcpsi that this cluster does not have"
        .to_owned()
}

/// Returns the error reply to a session or a token that depends on lost writes.
pub(super) fn lost_reply() -> String {
    "LOST the session or its token depends on writes of a site whose homes were taken by force, and these writes may \
     be lost; RESET, and go on without the token"
        .to_owned()
}

fn too_few_sites() -> String {
    "TIMEOUT too few sites are known to store what the session has seen in spaces of level pcpsi; others may be cut \
     off, try again"
        .to_owned()
}

fn expired() -> String {
    "NOTX the transaction was idle for too long and is aborted".to_owned()
}
