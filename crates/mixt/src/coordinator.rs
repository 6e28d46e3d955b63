//! Runs a mixed transaction as a state machine without I/O: decides which requests to send to which
//! database, and when.
//!
//! # How a transaction runs
//! The coordinator runs the phases in the order of the program. It joins them into groups
//! ([`crate::plan`]) and runs each group in one transaction of its database. When a group aborts,
//! the coordinator runs it again alone, from the same inputs (MixT §4.4). It never runs a committed
//! group again. If more than one group writes, the first also writes a recovery record, and each
//! later one writes a done mark, in its own transaction. If more than one group writes atomic
//! places, the groups also write witnesses (§4.5): a write witness beside each changed object and a
//! commit witness in each such place, in the transaction that changes the objects. Witnesses cost
//! no round trips: a transaction reads names when it begins or along with an operation, and writes
//! them when it commits.
//!
//! # What is guaranteed
//! *All or nothing.* While nothing has committed, a transaction that fails has no effect, and one
//! that runs longer than [`Limits::run_ms`](crate::outcome::Limits::run_ms) fails. After the first
//! commit the coordinator retries until [`Limits::finish_ms`](crate::outcome::Limits::finish_ms).
//! Then the caller gets a ticket, and any host that [recovers](crate::recovery) transactions
//! completes it. If the program fails after a phase has committed, the transaction can never be
//! completed. The coordinator reports that and stops other transactions from waiting for this one.
//! The record stays until it is [given up](crate::recovery::forget).
//!
//! *Once.* A coordinator does not run a group again whose done mark exists: the mark holds the
//! values that the group handed on. Where the database commits only one of two transactions that
//! create the same name, no group can run twice, even if several coordinators run it. Where the
//! database merges concurrent commits, coordinators hold a recovery lease one after another
//! (decision 0021): a holder stops before the next one begins, and the next holder first waits
//! until it sees all earlier commits. If the record itself is in such a place, only the times of
//! [`Limits`] separate the holders. When the answer to a commit is lost, the coordinator looks for
//! the mark of that commit. A transaction with one writing group has no mark, so it ends with an
//! unknown outcome.
//!
//! *Seen as a whole.* If a transaction reads an object of another transaction that wrote in several
//! atomic places, it sees all of these writes in the places that it reads later: it waits there for
//! the commit witness. The reader may have read one of the other places already, before the write
//! arrived there. It then reads that place again before it commits anything, and restarts if the
//! data has changed. So a transaction that only reads, or whose reads all precede its first write,
//! never sees part of another. The limit is the paper's: a transaction that has committed in a
//! stronger store may then see, in a weaker one, what another transaction wrote after it. Read
//! witnesses (§6.2), which would prevent that, are not implemented.
//!
//! *Endorsed reads* are repeated just before the first group that writes commits. If they are in
//! the same database, that group repeats them in its own transaction, before it writes. So they
//! belong to the snapshot from which the group commits, and its own writes do not affect them. If
//! the transaction of that group cannot span them, they are repeated just before it begins. The
//! endorsed values were current at that time in the replicas that were read: in a weak store, a
//! change at another replica may not have arrived yet. They may still change between that read and
//! the commit.
//!
//! *Stores that are not atomic* guarantee less. A group that runs there again may repeat its
//! operations, so each operation is executed at least once. If the coordinator dies before the end
//! of the first group that writes, the group stays partly executed and no host completes it, as
//! without Solera.

mod attempts;
mod commit_status;
mod ending;
mod lease;
mod permission;
mod release;
mod remote;
mod rescue;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::run::FailureKind;
use solera_program::value::Value;
use solera_random::Random;

use self::commit_status::CommitStatus;
use self::lease::LeaseStep;
use self::permission::Permission;
use self::release::Release;
use self::rescue::Rescue;
use self::validate::Validation;
use crate::access::Users;
use crate::binding::{Module, Modules};
use crate::bound::Bindings;
use crate::group::{Done, GroupEnd, GroupRun, GroupStep};
pub use crate::job::CannotResume;
use crate::job::{Job, check_args};
use crate::outcome::{Limits, Outcome, Why};
use crate::plan::Plan;
use crate::record::{CommitReplicas, Record, RecoveryLease, State};
use crate::request::calls::StoreError;
pub use crate::request::{Reply, Request};
use crate::visibility::Visibility;
pub use crate::witness::TransactionId;

/// Coordinator of one transaction.
#[derive(Debug)]
pub struct Coordinator {
    job: Arc<Job>,
    /// Modules of other transactions that it may have to complete.
    modules: Arc<Modules>,
    state: State,
    stage: Stage,
    now_ms: u64,
    /// Time at which this coordinator began.
    began_ms: u64,
    /// Time of the earliest read whose result is still in use.
    since_ms: u64,
    commit_status: CommitStatus,
    /// Number of the recovery lease that it holds or wants.
    lease_number: u32,
    /// Whether all requests of the previous lease's holder have ended.
    after_stopped: bool,
    /// Time until which a commit of the first group that writes, requested before the transaction
    /// was resumed, may still take effect. `None` where only one of several such commits can
    /// succeed.
    doubtful_until_ms: Option<u64>,
    /// Number of the lease for which it has seen what earlier holders committed.
    caught_up: Option<u32>,
    /// Whether it waits while another coordinator holds the lease.
    is_patient: bool,
    /// Time of the last commit request, by this coordinator or by the previous holder.
    asked_ms: u64,
    /// Time at which it began to wait for commit witnesses.
    blocked_ms: Option<u64>,
    begun: u32,
    /// Number of failed attempts in a row.
    failures: u32,
    /// Number of times in a row that it did not find the commit witnesses.
    polls: u32,
    /// Reason of the last failure.
    trouble: Option<Why>,
    /// Number of restarts because data that it had read had changed.
    restarts: u32,
    /// Writes of other transactions that it has seen.
    visibility: Visibility,
    /// Replicas at which its requests commit.
    commit_replicas: CommitReplicas,
    /// Databases that check the rights of each user.
    guarded: BTreeSet<Arc<str>>,
    /// Whether it has checked the rights of its users to the accesses that are known in advance.
    permitted: bool,
    /// Reason to give the transaction up once it holds the lease.
    giving_up: Option<String>,
    /// Databases whose workers run groups next to their data.
    workers: BTreeSet<Arc<str>>,
    /// Reads of the groups before the first group that writes.
    reads: Vec<Reads>,
    /// Whether no other coordinator can have run this transaction.
    fresh: bool,
    /// Reason to discard the reads and restart; set while the open transaction aborts.
    restart: Option<Why>,
    /// Whether the reads have been repeated, and the next group can begin.
    validated_before: bool,
    /// Length of the chain of transactions that led to this one: each was blocked by the next, and
    /// completes it.
    depth: u8,
    helped: Vec<Record>,
    /// Tickets of the transactions that it tried and failed to complete.
    given_up: Vec<Record>,
    random: Random,
}

/// Reading operations of a group, with their results.
#[derive(Debug)]
struct Reads {
    group: usize,
    calls: Vec<Done>,
}

#[derive(Debug)]
enum Stage {
    Start,
    Permission(Permission),
    Group(Box<GroupRun>),
    /// A worker runs the group.
    Remote(Box<GroupRun>),
    Validation(Box<Validation>),
    Rescue(Box<Rescue>),
    Lease(LeaseStep),
    Helping(Box<Coordinator>),
    Release(Box<Release>),
    Over(Box<Outcome>),
}

/// Next step that a coordinator requests from its host.
#[derive(Clone, Debug)]
pub enum Next {
    /// A request to execute; the host passes the answer to the next call of [`Coordinator::next`].
    Ask(Ask),
    /// The transaction has ended. [`Coordinator::garbage`] returns the garbage to remove.
    Finished(Outcome),
}

/// Request of a coordinator to its host.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A request to a database.
    Store {
        /// Name of the database.
        database: Arc<str>,
        /// The request.
        request: Request,
    },
    /// A pause. The answer is [`Reply::Done`].
    Wait {
        /// Duration, in milliseconds.
        ms: u64,
    },
}

impl Coordinator {
    /// Creates the coordinator of a new transaction: number `transaction` of a module.
    ///
    /// `id` is random. `modules` are those whose transactions this one may complete when they block
    /// it.
    ///
    /// # Errors
    /// If the module has no such transaction, its stores are not bound, or the arguments do not
    /// have the parameters' types or are too large.
    pub fn new(
        (module, transaction): (Module, usize),
        args: Vec<Value>,
        bindings: Bindings,
        id: TransactionId,
        (modules, limits): (Arc<Modules>, Limits),
        now_ms: u64,
    ) -> Result<Coordinator, Why> {
        let program = Arc::clone(module.program());
        let refused = |reason: &str| Why::Refused {
            database: Arc::clone(module.name()),
            reason: reason.to_owned(),
        };
        let Some(found) = program.transactions.get(transaction) else {
            return Err(refused("there is no such transaction"));
        };
        if bindings.len() != program.stores.len() {
            return Err(refused("its stores are not bound"));
        }
        check_args(&module, transaction, &args, id, limits).map_err(Why::Program)?;
        for ((name, _), arg) in found.params.iter().zip(&args) {
            // A program must not write what it cannot read.
            let fits = limits.check_argument(arg);
            fits.map_err(|why| refused(&format!("the argument `{name}`: {why}")))?;
        }
        let plan = Plan::new(found, &bindings);
        let (began_ms, users) = (now_ms, Users::new());
        let job = Job { module, transaction, args, id, bindings, plan, limits, began_ms, users };
        Ok(Coordinator::start(job, modules, State::default(), now_ms))
    }

    /// Resumes a transaction from the ticket of a coordinator that has stopped. If another
    /// coordinator is completing it, this one waits.
    ///
    /// # Errors
    /// If its module is not known here, or differs from the one with which the transaction began.
    pub fn resume(
        record: Record,
        modules: Arc<Modules>,
        limits: Limits,
        now_ms: u64,
    ) -> Result<Coordinator, CannotResume> {
        let mut resumed = Coordinator::take_over(record, modules, limits, now_ms)?;
        resumed.is_patient = true;
        Ok(resumed)
    }

    /// Creates a coordinator that gives up a transaction which has begun to take effect, as soon as
    /// the coordinator holds the lease. Afterwards other transactions do not wait for it, and
    /// recovery does not complete it. The effects of its committed phases remain. The coordinator
    /// records this in the names of the record's users.
    ///
    /// # Errors
    /// Those of [`Coordinator::resume`].
    pub fn give_up(
        record: Record,
        modules: Arc<Modules>,
        limits: Limits,
        (now_ms, reason): (u64, &str),
    ) -> Result<Coordinator, CannotResume> {
        let mut resumed = Coordinator::resume(record, modules, limits, now_ms)?;
        resumed.giving_up = Some(reason.to_owned());
        // A coordinator that gives up makes no further accesses, so no rights need to be checked.
        resumed.permitted = true;
        Ok(resumed)
    }

    /// Takes over a transaction with the lease after the one in its record. If another coordinator
    /// is completing it, this one stops.
    pub(crate) fn take_over(
        record: Record,
        modules: Arc<Modules>,
        limits: Limits,
        now_ms: u64,
    ) -> Result<Coordinator, CannotResume> {
        let job = Job::of(&record, &modules, limits)?;
        let (state, lease, stopped) = (record.state, record.lease, record.stopped);
        let committed = job.plan.first_writer.is_some_and(|first| state.next as usize > first);
        let mut resumed = Coordinator::start(job, modules, state, now_ms);
        resumed.fresh = false;
        resumed.commit_status = CommitStatus::taken_over(committed, now_ms);
        resumed.lease_number = lease.number.saturating_add(1);
        resumed.after_stopped = stopped;
        resumed.asked_ms = lease.since_ms;
        let first = resumed.job.plan.first_writer.map(|first| &resumed.job.plan.groups[first]);
        // Where one of two commits that create the same record fails, the coordinator may retry at
        // once.
        if !committed && !stopped && first.is_some_and(|group| !(group.validated && group.atomic)) {
            resumed.doubtful_until_ms = Some(lease.since_ms.saturating_add(limits.orphan_ms));
        }
        Ok(resumed)
    }

    /// Sends groups of phases to the workers of these databases, whose connections
    /// [execute](crate::store::Connection::execute) them.
    pub fn use_workers_of(&mut self, databases: impl IntoIterator<Item = Arc<str>>) {
        self.workers = databases.into_iter().collect();
    }

    /// Sets the replicas of these databases at which all requests commit
    /// ([`commit_replica`](crate::store::Database::commit_replica)).
    pub fn set_commit_replicas(&mut self, commit_replicas: BTreeMap<Arc<str>, Arc<str>>) {
        self.commit_replicas = commit_replicas;
    }

    /// Sets the users in whose names it asks databases. A resumed transaction keeps the users with
    /// which it began. The databases in `guarded` check the rights of each user: the coordinator
    /// checks them there before anything takes effect.
    pub fn act_as(&mut self, users: Users, guarded: BTreeSet<Arc<str>>) {
        if self.fresh && self.begun == 0 {
            let job = Arc::get_mut(&mut self.job).expect("no group has begun");
            job.users = users;
        }
        self.guarded = guarded;
    }

    /// Returns the users in whose names to execute the last request.
    pub fn users(&self) -> &Users {
        match &self.stage {
            Stage::Helping(other) => other.users(),
            _ => &self.job.users,
        }
    }

    fn start(job: Job, modules: Arc<Modules>, state: State, now_ms: u64) -> Coordinator {
        Coordinator {
            random: Random::new(job.id.number()),
            job: Arc::new(job),
            modules,
            state,
            stage: Stage::Start,
            now_ms,
            began_ms: now_ms,
            since_ms: now_ms,
            commit_status: CommitStatus::Uncommitted,
            lease_number: 0,
            after_stopped: false,
            doubtful_until_ms: None,
            caught_up: None,
            is_patient: false,
            asked_ms: now_ms,
            blocked_ms: None,
            begun: 0,
            failures: 0,
            polls: 0,
            trouble: None,
            restarts: 0,
            visibility: Visibility::default(),
            commit_replicas: CommitReplicas::new(),
            guarded: BTreeSet::new(),
            permitted: false,
            giving_up: None,
            workers: BTreeSet::new(),
            reads: Vec::new(),
            fresh: true,
            restart: None,
            validated_before: false,
            depth: 0,
            helped: Vec::new(),
            given_up: Vec::new(),
        }
    }

    /// Returns the transaction's identifier.
    pub fn id(&self) -> TransactionId {
        self.job.id
    }

    /// Returns the groups of its phases.
    pub fn plan(&self) -> &Plan {
        &self.job.plan
    }

    /// Returns the current phase: the first of the group that runs next. `None` when all have run.
    pub fn phase(&self) -> Option<usize> {
        let group = self.job.plan.groups.get(self.state.next as usize)?;
        Some(group.phases.start)
    }

    /// Returns the next step. The first call has no answer; each later one takes the answer to the
    /// last request. Time is in milliseconds since 1970.
    ///
    /// # Panics
    /// If the answer does not belong to the last request.
    pub fn next(&mut self, now_ms: u64, answer: Option<Result<Reply, StoreError>>) -> Next {
        self.now_ms = now_ms;
        let mut answer = answer;
        loop {
            let ask = match std::mem::replace(&mut self.stage, Stage::Start) {
                // The answer to a wait has no content.
                Stage::Start => {
                    answer = None;
                    self.start_group()
                }
                Stage::Group(mut run) => {
                    if !self.commit_status.has_committed()
                        && matches!(answer, Some(Ok(Reply::Answered(_))))
                    {
                        // The database answers again, so it does not explain a later timeout.
                        self.trouble = None;
                    }
                    let step = run.next(answer.take());
                    self.group_step(run, step)
                }
                Stage::Permission(asked) => self.permission(asked, answer.take()),
                Stage::Remote(run) => self.replay_remote(run, answer.take()),
                Stage::Validation(validation) => self.validate(validation, answer.take()),
                Stage::Lease(step) => self.acquire_lease(step, answer.take()),
                Stage::Rescue(rescue) => self.rescue(*rescue, answer.take()),
                Stage::Release(release) => self.release(release, answer.take()),
                Stage::Helping(mut other) => match other.next(now_ms, answer.take()) {
                    Next::Ask(ask) => {
                        self.stage = Stage::Helping(other);
                        Some(ask)
                    }
                    Next::Finished(outcome) => {
                        self.helped.extend(other.garbage());
                        let is_done = matches!(outcome, Outcome::Done { .. });
                        if let Outcome::Incomplete { ticket: Some(ticket), .. } = outcome {
                            self.given_up.push(*ticket);
                        }
                        self.given_up.append(&mut other.given_up);
                        // Another attempt without a pause would most likely fail as well.
                        if is_done { None } else { self.wait() }
                    }
                },
                Stage::Over(outcome) => {
                    self.stage = Stage::Over(outcome.clone());
                    return Next::Finished(*outcome);
                }
            };
            if let Some(ask) = ask {
                return Next::Ask(ask);
            }
        }
    }

    /// Returns, after the end, the tickets of other transactions that it waited for and failed to
    /// complete. [`Collector::give_up`](crate::collect::Collector::give_up) accepts them.
    pub fn given_up(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.given_up)
    }

    /// Returns, after the end, the records of complete transactions whose witnesses, marks and
    /// record a [`Collector`](crate::collect::Collector) must remove.
    pub fn garbage(&mut self) -> Vec<Record> {
        let mut records = std::mem::take(&mut self.helped);
        if let Stage::Over(outcome) = &self.stage
            && matches!(**outcome, Outcome::Done { .. })
            && self.job.plan.recorded
            && self.commit_status != CommitStatus::CompletedElsewhere
        {
            let state = State {
                next: self.state.next,
                noted: std::mem::take(&mut self.state.noted),
                ..State::default()
            };
            let record = self.job.record(state, self.current_lease());
            records.push(Record { complete: true, args: Vec::new(), ..record });
        }
        records
    }

    fn current_lease(&self) -> RecoveryLease {
        RecoveryLease {
            number: self.lease_number,
            since_ms: self.now_ms,
            commit_replicas: self.commit_replicas.clone(),
        }
    }

    fn start_group(&mut self) -> Option<Ask> {
        if !self.permitted {
            self.permitted = true;
            let asked = Permission::new(self);
            return self.ask_permission(asked);
        }
        if self.commit_status.awaits_lease() {
            self.stage = Stage::Lease(LeaseStep::Start);
            return None;
        }
        if let Some(reason) = self.giving_up.take() {
            return self.fail(Why::GivenUp { reason });
        }
        let index = self.state.next as usize;
        if index == self.job.plan.groups.len() {
            if self.must_validate() {
                self.stage = Stage::Validation(Box::new(Validation::new(None)));
            } else {
                let result = self.state.result.clone().unwrap_or(Value::Unit);
                self.done(result);
            }
            return None;
        }
        if self.is_late() && self.job.plan.groups[index..].iter().any(|group| group.writes()) {
            let why = self.trouble.take().unwrap_or(Why::Late);
            return self.stop(why);
        }
        let validated = std::mem::take(&mut self.validated_before);
        if !validated && self.must_validate_before(&self.job.plan.groups[index]) {
            self.stage = Stage::Validation(Box::new(Validation::new(None)));
            return None;
        }
        let fresh = self.fresh
            && !self.commit_status.is_in_doubt()
            && self.job.plan.first_writer == Some(index);
        if self.begun == 0 || index == 0 {
            self.since_ms = self.now_ms;
        }
        self.begun += 1;
        let remote = self.runs_remotely();
        let (job, state) = (Arc::clone(&self.job), self.state.clone());
        // A remote group may arrive twice, so the worker looks for its mark.
        let run = Box::new(GroupRun::new(job, state, fresh && !remote).check(self.checks()));
        if remote {
            return self.send_to_worker(run);
        }
        self.stage = Stage::Group(run);
        None
    }

    fn group_step(&mut self, mut run: Box<GroupRun>, step: GroupStep) -> Option<Ask> {
        match step {
            GroupStep::Ask(_) if run.asks_for_operation() && self.takes_too_long() => {
                let step = run.stop(FailureKind::Time { limit_ms: self.job.limits.run_ms });
                self.group_step(run, step)
            }
            GroupStep::Ask(request) => {
                let database = run.group().database.clone();
                let database = database.expect("only groups with a database send requests");
                self.stage = Stage::Group(run);
                Some(Ask::Store { database, request })
            }
            GroupStep::Ready => self.ready(run),
            GroupStep::Ended(end) => self.ended(*run, end),
        }
    }

    /// Continues after all phases of a group have run.
    fn ready(&mut self, mut run: Box<GroupRun>) -> Option<Ask> {
        if !self.visibility.observe(&run, &mut self.state.worklist, self.now_ms) {
            let step = run.give_up();
            return self.group_step(run, step);
        }
        if run.group().writes() && self.must_validate() {
            let group = run.group();
            let is_doubtful = self.visibility.suspicious || self.is_long();
            if is_doubtful && self.has_reads_beside(group) {
                self.restart = Some(Why::Contention { attempts: self.restarts + 1 });
                let step = run.give_up();
                return self.group_step(run, step);
            }
            if !run.checks() && self.reads_within(group).next().is_some() {
                // Only now is it known that the reads must be validated, and validation must
                // precede the writes of the group.
                let step = run.give_up();
                return self.group_step(run, step);
            }
            self.stage = Stage::Validation(Box::new(Validation::new(Some(run))));
            return None;
        }
        self.commit(run)
    }

    fn commit(&mut self, mut run: Box<GroupRun>) -> Option<Ask> {
        let late = self.is_late() && run.group().writes();
        let step = if late || self.is_doubtful(run.index()) {
            run.give_up()
        } else {
            self.asked_ms = self.now_ms;
            self.visibility.commit(&mut run, &self.state.worklist, self.current_lease())
        };
        self.group_step(run, step)
    }

    /// Returns whether the reads must be validated before something commits, or at the end.
    fn must_validate(&self) -> bool {
        let groups = &self.job.plan.groups;
        let endorsed = || self.reads.iter().any(|reads| groups[reads.group].endorsing);
        let doubtful = self.visibility.suspicious || self.is_long();
        !self.commit_status.has_committed() && (doubtful || endorsed())
    }

    /// Returns whether the transaction may have missed witnesses, which are kept for a limited
    /// time.
    fn is_long(&self) -> bool {
        self.now_ms.saturating_sub(self.since_ms) > self.job.limits.keep_ms / 2
    }

    fn ended(&mut self, run: GroupRun, end: GroupEnd) -> Option<Ask> {
        if self.fresh && run.mark_is_absent() {
            // The session sees its own commits, so a commit whose answer was lost did not take
            // effect.
            self.commit_status.settle();
        }
        let group = run.group();
        let (writes, database) = (group.writes(), group.database.clone().unwrap_or_default());
        match end {
            GroupEnd::Committed => {
                self.come_further();
                if writes {
                    self.commit_status.commit(self.asked_ms);
                } else if !self.commit_status.has_committed() {
                    self.reads.push(Reads { group: run.index(), calls: run.calls });
                }
                self.state = run.state;
                None
            }
            GroupEnd::Already(state, lease) => {
                self.come_further();
                self.state = state;
                match lease {
                    // This is the commit of this coordinator whose answer was lost.
                    Some(RecoveryLease { number: 0, since_ms, .. }) if self.lease_number == 0 => {
                        self.commit_status.hold_lease(since_ms);
                    }
                    // The commit is another coordinator's, or indistinguishable from one.
                    Some(RecoveryLease { number, .. }) => {
                        // The commit of an earlier holder was in progress when that holder stopped.
                        self.after_stopped |= number < self.lease_number;
                        self.commit_status.await_lease(self.now_ms);
                    }
                    None => self.commit_status.settle(),
                }
                None
            }
            GroupEnd::Blocked(missing) => self.blocked(missing),
            GroupEnd::GivenUp => match self.restart.take() {
                Some(why) => self.start_over(why),
                None if self.is_doubtful(self.state.next as usize) => self.retry(Why::Taken),
                None => None,
            },
            GroupEnd::Changed => self.start_over(Why::Contention { attempts: self.restarts + 1 }),
            GroupEnd::Conflict => self.retry(Why::Contention { attempts: self.failures + 1 }),
            GroupEnd::Unavailable(reason) => self.retry(Why::Unavailable { database, reason }),
            GroupEnd::Unknown(reason) if !writes => {
                self.retry(Why::Unavailable { database, reason })
            }
            GroupEnd::Unknown(reason) => {
                let why = Why::Unknown { database, reason };
                if !self.job.plan.recorded {
                    return self.over(Outcome::Incomplete { ticket: None, committed: vec![], why });
                }
                self.commit_status.lose_answer();
                self.retry(why)
            }
            GroupEnd::Failed(failure) => {
                let why = self.without_answer(&failure.kind);
                self.fail(why.unwrap_or(Why::Program(failure)))
            }
            GroupEnd::Uncertified(failure, error) => self.uncertified(failure, database, error),
            // An administrator can grant the right. Until then the transaction waits.
            GroupEnd::Denied(reason) => {
                let why = Why::Denied { database, phase: Some(run.phase()), reason };
                if self.commit_status.has_committed() { self.retry(why) } else { self.stop(why) }
            }
            GroupEnd::Refused(reason) if self.commit_status.has_committed() => {
                self.retry(Why::Refused { database, reason })
            }
            GroupEnd::Refused(reason) | GroupEnd::Damaged(reason) => {
                self.stop(Why::Refused { database, reason })
            }
        }
    }

    /// Returns why a phase took too long, if the cause was a database that did not answer.
    fn without_answer(&mut self, kind: &FailureKind) -> Option<Why> {
        let away =
            |why: &Why| matches!(why, Why::Unavailable { .. }) || why.is_uncertified_for_now();
        let took_too_long = matches!(kind, FailureKind::Time { .. });
        self.trouble.take().filter(|why| took_too_long && away(why))
    }

    /// Returns whether it is too early to commit this group, because an earlier commit of the same
    /// group may still take effect in addition to this one.
    fn is_doubtful(&self, index: usize) -> bool {
        let first = self.job.plan.first_writer == Some(index);
        first && self.doubtful_until_ms.is_some_and(|until_ms| self.now_ms < until_ms)
    }
}
