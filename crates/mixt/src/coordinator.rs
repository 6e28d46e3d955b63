//! Runs a mixed transaction: what is asked of which database, and when. A state machine without
//! I/O.
//!
//! # How a transaction runs
//! Its phases run in the order of the program, joined into groups ([`crate::plan`]), each in one
//! transaction of its database. A group that aborts is run again alone, from the same inputs (MixT
//! §4.4); one that has committed never is. If more than one group writes, the first also writes a
//! recovery record, and each later one a mark that it is done, in its own transaction. If more than
//! one group writes atomic places, there are witnesses (§4.5): beside each object that is changed a
//! write witness, in each such place a commit witness, all in the transaction that changes the
//! objects. They cost no round trips: names are read when a transaction begins or along with an
//! operation, and written when it commits.
//!
//! # What is guaranteed
//! *All or nothing.* While nothing has committed, a transaction that fails has no effect, and one
//! that goes on for longer than [`Limits::run_ms`](crate::outcome::Limits::run_ms) fails.
//! Afterwards it is tried until [`Limits::finish_ms`](crate::outcome::Limits::finish_ms); then the
//! caller gets a ticket, and anybody who [recovers](crate::recovery) completes it. If its program
//! fails after a phase has committed, it can never be completed: that is reported, others are no
//! longer kept waiting for it, and its record stays until it is [given
//! up](crate::recovery::forget).
//!
//! *Once.* A group whose mark is there is not run again: its mark holds what it handed on. Where
//! the database lets only one of two transactions that create the same name commit, nobody can run
//! a group twice, whoever else runs it. Where it merges concurrent commits instead, coordinators
//! take turns (decision 0021): one stops before the next begins, which first sees what was
//! committed before. Only if the record is in such a place, too, is it left to the times of
//! [`Limits`] alone. A commit whose answer was lost is looked for by its mark. Of a transaction of
//! one writing group there is none, so that it is told that the outcome is not known.
//!
//! *Seen as a whole.* Who reads something that a transaction has written in several atomic places
//! sees all of it in the places that it reads later: it waits there for the commit witness. If it
//! finds a witness of a transaction that it may have missed in a place that it has read before, it
//! reads there again before it commits anything, and starts anew if that has changed. So a
//! transaction that only reads, or has read only what comes before its first write, sees no part of
//! another. The limit is the paper's: who has committed in a stronger store may then see, in a
//! weaker one, what another transaction wrote after it. Read witnesses (§6.2), which would prevent
//! that, are not kept.
//!
//! *Endorsed reads* are read once more just before the first group that writes commits. If they are
//! in the same database, it is that group's own transaction that reads them, and before it writes:
//! so they are of the snapshot from which it commits, and what it writes itself does not count.
//! What they endorsed was true then, as far as their stores can tell: in a weak store a change
//! elsewhere may not have arrived. Between that reading and the commit it may still change.
//!
//! *Stores that are not atomic* promise less: a group there that is run again may repeat what it
//! has done, so each operation is done at least once; and if the coordinator dies before the end of
//! a group that is the first to write, it is done in part and forgotten, as it would be without
//! Solera.

mod attempts;
mod ending;
mod permission;
mod release;
mod rescue;
mod shipping;
mod standing;
mod turns;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::run::FailureKind;
use solera_program::value::Value;

use self::permission::Permission;
use self::release::Release;
use self::rescue::Rescue;
use self::standing::Standing;
use self::turns::Taking;
use self::validate::Validation;
use crate::access::Users;
use crate::binding::{Module, Modules};
use crate::bound::Bindings;
use crate::group::{Done, GroupEnd, GroupRun, GroupStep};
pub use crate::job::CannotResume;
use crate::job::{Job, check_args};
use crate::outcome::{Limits, Outcome, Why};
use crate::plan::Plan;
use crate::record::{Record, State, Turn, Whence};
use crate::request::calls::StoreError;
pub use crate::request::{Reply, Request};
use crate::sight::Sight;
pub use crate::witness::TransactionId;

/// One transaction.
#[derive(Debug)]
pub struct Coordinator {
    job: Arc<Job>,
    /// To complete others that are in the way.
    modules: Arc<Modules>,
    state: State,
    stage: Stage,
    now_ms: u64,
    /// When it began here.
    began_ms: u64,
    /// When what it has read was read first.
    since_ms: u64,
    standing: Standing,
    /// Which turn it has, or wants.
    turn: u32,
    /// Whether nothing is under way any more that was asked for in the turn before.
    after_stopped: bool,
    /// Until when a commit of the first group that writes may take effect that was asked for before
    /// it was resumed. None where only one of several such commits could.
    doubtful_until_ms: Option<u64>,
    /// For which turn it sees what others did in theirs.
    caught_up: Option<u32>,
    /// Whether it waits for others that have the turn.
    is_patient: bool,
    /// When a commit was asked for last, here or by who had the turn before.
    asked_ms: u64,
    /// Since when it waits for commit witnesses.
    blocked_ms: Option<u64>,
    begun: u32,
    /// How often in a row it did not come further.
    failures: u32,
    /// How often in a row it has looked for commit witnesses in vain.
    polls: u32,
    /// Why, the last time.
    trouble: Option<Why>,
    /// How often it has begun anew, as what it had read was not so any more.
    restarts: u32,
    /// What it has seen of others.
    sight: Sight,
    /// At which replicas what it asks for commits.
    whence: Whence,
    /// The databases that tell users apart.
    guarded: BTreeSet<Arc<str>>,
    /// Whether it was asked whether its users may do what is known beforehand.
    permitted: bool,
    /// Why it is to be given up when it has its turn.
    giving_up: Option<String>,
    /// The databases that run groups next to them.
    workers: BTreeSet<Arc<str>>,
    /// What was read before the first group that writes.
    reads: Vec<Reads>,
    /// Whether somebody may have run the group before.
    fresh: bool,
    /// Why what was read is given up, while the open transaction is being aborted.
    restart: Option<Why>,
    /// How many transactions wait for this one to be completed on their behalf.
    depth: u8,
    helped: Vec<Record>,
    /// Tickets of those that it has tried to complete in vain.
    given_up: Vec<Record>,
    random: u64,
}

/// What a group has read.
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
    /// A worker runs it.
    Shipped(Box<GroupRun>),
    Validation(Box<Validation>),
    Rescue(Box<Rescue>),
    Taking(Taking),
    Helping(Box<Coordinator>),
    Release(Box<Release>),
    Over(Box<Outcome>),
}

/// What a coordinator wants.
#[derive(Clone, Debug)]
pub enum Next {
    /// Something is to be asked; the answer belongs to the next call of [`Coordinator::next`].
    Ask(Ask),
    /// It is over. [`Coordinator::leftovers`] says what is to be removed.
    Finished(Outcome),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A request to a database.
    Store {
        /// Its name.
        database: Arc<str>,
        /// The request.
        request: Request,
    },
    /// Some time is to pass. The answer is [`Reply::Done`].
    Wait {
        /// How long, in milliseconds.
        ms: u64,
    },
}

impl Coordinator {
    /// A transaction of a module, by its number.
    ///
    /// `id` is random. `modules` is what may be completed if it is in the way.
    ///
    /// # Errors
    /// If there is no such transaction, its stores are not bound, or the arguments do not have the
    /// parameters' types or are too large.
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
            // What a program cannot read it must not write.
            let fits = limits.check_argument(arg);
            fits.map_err(|why| refused(&format!("the argument `{name}`: {why}")))?;
        }
        let plan = Plan::new(found, &bindings);
        let (began_ms, users) = (now_ms, Users::new());
        let job = Job { module, transaction, args, id, bindings, plan, limits, began_ms, users };
        Ok(Coordinator::start(job, modules, State::default(), now_ms))
    }

    /// Goes on with a transaction from the ticket of one who has stopped. If others go on with it,
    /// it waits for them.
    ///
    /// # Errors
    /// If its module is not known here, or not the one it was begun with.
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

    /// Gives up a transaction that has begun to take effect, once it has its turn: nobody waits for
    /// it any more, and nobody completes it. What it has done stays. The users are those in whose
    /// names that is written.
    ///
    /// # Errors
    /// As of [`Coordinator::resume`].
    pub fn give_up(
        record: Record,
        modules: Arc<Modules>,
        limits: Limits,
        (now_ms, reason): (u64, &str),
    ) -> Result<Coordinator, CannotResume> {
        let mut resumed = Coordinator::resume(record, modules, limits, now_ms)?;
        resumed.giving_up = Some(reason.to_owned());
        // It asks its stores for nothing any more.
        resumed.permitted = true;
        Ok(resumed)
    }

    /// Goes on with a transaction after the turn that its record tells. If others go on with it, it
    /// stops.
    pub(crate) fn take_over(
        record: Record,
        modules: Arc<Modules>,
        limits: Limits,
        now_ms: u64,
    ) -> Result<Coordinator, CannotResume> {
        let job = Job::of(&record, &modules, limits)?;
        let (state, turn, stopped) = (record.state, record.turn, record.stopped);
        let committed = job.plan.first_writer.is_some_and(|first| state.next as usize > first);
        let mut resumed = Coordinator::start(job, modules, state, now_ms);
        resumed.fresh = false;
        resumed.standing = Standing::taken_over(committed, now_ms);
        resumed.turn = turn.number.saturating_add(1);
        resumed.after_stopped = stopped;
        resumed.asked_ms = turn.since_ms;
        let first = resumed.job.plan.first_writer.map(|first| &resumed.job.plan.groups[first]);
        // Where one of two commits fails that create the same record, it may be tried again at
        // once.
        if !committed && !stopped && first.is_some_and(|group| !(group.strong && group.atomic)) {
            resumed.doubtful_until_ms = Some(turn.since_ms.saturating_add(limits.orphan_ms));
        }
        Ok(resumed)
    }

    /// Workers of these databases may run groups of phases: their connections
    /// [execute](crate::store::Connection::execute).
    pub fn ship_to(&mut self, databases: impl IntoIterator<Item = Arc<str>>) {
        self.workers = databases.into_iter().collect();
    }

    /// Of these databases, all that it asks for commits at these replicas
    /// ([`whence`](crate::store::Database::whence)).
    pub fn commit_at(&mut self, whence: BTreeMap<Arc<str>, Arc<str>>) {
        self.whence = whence;
    }

    /// In whose names it asks databases: its own, if it is new, or else those of the one who has
    /// begun it. Those that are `guarded` tell users apart: what the users may do there is asked
    /// before anything has an effect.
    pub fn act_as(&mut self, users: Users, guarded: BTreeSet<Arc<str>>) {
        if self.fresh && self.begun == 0 {
            let job = Arc::get_mut(&mut self.job).expect("no group has begun");
            job.users = users;
        }
        self.guarded = guarded;
    }

    /// In whose names what it has asked for last is to be done.
    pub fn users(&self) -> &Users {
        match &self.stage {
            Stage::Helping(other) => other.users(),
            _ => &self.job.users,
        }
    }

    fn start(job: Job, modules: Arc<Modules>, state: State, now_ms: u64) -> Coordinator {
        Coordinator {
            random: job.id.number(),
            job: Arc::new(job),
            modules,
            state,
            stage: Stage::Start,
            now_ms,
            began_ms: now_ms,
            since_ms: now_ms,
            standing: Standing::Untouched,
            turn: 0,
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
            sight: Sight::default(),
            whence: Whence::new(),
            guarded: BTreeSet::new(),
            permitted: false,
            giving_up: None,
            workers: BTreeSet::new(),
            reads: Vec::new(),
            fresh: true,
            restart: None,
            depth: 0,
            helped: Vec::new(),
            given_up: Vec::new(),
        }
    }

    /// The transaction's name.
    pub fn id(&self) -> TransactionId {
        self.job.id
    }

    /// How its phases are grouped.
    pub fn plan(&self) -> &Plan {
        &self.job.plan
    }

    /// The phase that it has come to: of those that run next together the first. None when all are
    /// over.
    pub fn phase(&self) -> Option<usize> {
        let group = self.job.plan.groups.get(self.state.next as usize)?;
        Some(group.phases.start)
    }

    /// Goes on: the first time without an answer, then with the answer to what was asked last. Time
    /// is in milliseconds since 1970.
    ///
    /// # Panics
    /// If the answer is not one to what was asked.
    pub fn next(&mut self, now_ms: u64, answer: Option<Result<Reply, StoreError>>) -> Next {
        self.now_ms = now_ms;
        let mut answer = answer;
        loop {
            let turn = match std::mem::replace(&mut self.stage, Stage::Start) {
                // After a wait there is an answer that says nothing.
                Stage::Start => {
                    answer = None;
                    self.start_group()
                }
                Stage::Group(mut run) => {
                    if !self.standing.has_committed()
                        && matches!(answer, Some(Ok(Reply::Answered(_))))
                    {
                        // What takes its time from here on is not the database that was away.
                        self.trouble = None;
                    }
                    let step = run.next(answer.take());
                    self.group_step(run, step)
                }
                Stage::Permission(asked) => self.permission(asked, answer.take()),
                Stage::Shipped(run) => self.shipped(run, answer.take()),
                Stage::Validation(validation) => self.validate(validation, answer.take()),
                Stage::Taking(taking) => self.take_turn(taking, answer.take()),
                Stage::Rescue(rescue) => self.rescue(*rescue, answer.take()),
                Stage::Release(release) => self.release(release, answer.take()),
                Stage::Helping(mut other) => match other.next(now_ms, answer.take()) {
                    Next::Ask(ask) => {
                        self.stage = Stage::Helping(other);
                        Some(ask)
                    }
                    Next::Finished(outcome) => {
                        self.helped.extend(other.leftovers());
                        let is_done = matches!(outcome, Outcome::Done { .. });
                        if let Outcome::Incomplete { ticket: Some(ticket), .. } = outcome {
                            self.given_up.push(*ticket);
                        }
                        self.given_up.append(&mut other.given_up);
                        // What could not be completed now most likely cannot be at once, either.
                        if is_done { None } else { self.wait() }
                    }
                },
                Stage::Over(outcome) => {
                    self.stage = Stage::Over(outcome.clone());
                    return Next::Finished(*outcome);
                }
            };
            if let Some(ask) = turn {
                return Next::Ask(ask);
            }
        }
    }

    /// Once it is over: the tickets of transactions that it waited for, and has not been able to
    /// complete in their hosts' stead; for a [`Collector`](crate::collect::Collector), too.
    pub fn given_up(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.given_up)
    }

    /// Once it is over: the records of transactions that are complete, of which witnesses, marks
    /// and the record are to be removed by a [`Collector`](crate::collect::Collector).
    pub fn leftovers(&mut self) -> Vec<Record> {
        let mut records = std::mem::take(&mut self.helped);
        if let Stage::Over(outcome) = &self.stage
            && matches!(**outcome, Outcome::Done { .. })
            && self.job.plan.recorded
            && self.standing != Standing::Elsewhere
        {
            let state = State {
                next: self.state.next,
                noted: std::mem::take(&mut self.state.noted),
                ..State::default()
            };
            let record = self.job.record(state, self.turn_of_now());
            records.push(Record { complete: true, args: Vec::new(), ..record });
        }
        records
    }

    fn turn_of_now(&self) -> Turn {
        Turn { number: self.turn, since_ms: self.now_ms, whence: self.whence.clone() }
    }

    fn start_group(&mut self) -> Option<Ask> {
        if !self.permitted {
            self.permitted = true;
            let asked = Permission::new(self);
            return self.ask_permission(asked);
        }
        if self.standing.wants_turn() {
            self.stage = Stage::Taking(Taking::Start);
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
        let fresh =
            self.fresh && !self.standing.is_in_doubt() && self.job.plan.first_writer == Some(index);
        if self.begun == 0 || index == 0 {
            self.since_ms = self.now_ms;
        }
        self.begun += 1;
        let ships = self.ships();
        let (job, state) = (Arc::clone(&self.job), self.state.clone());
        // A shipment may come twice, so that its mark is looked for.
        let run = Box::new(GroupRun::new(job, state, fresh && !ships).check(self.checks()));
        if ships {
            return self.ship(run);
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
                let database = database.expect("only groups with a database ask");
                self.stage = Stage::Group(run);
                Some(Ask::Store { database, request })
            }
            GroupStep::Ready => self.ready(run),
            GroupStep::Ended(end) => self.ended(*run, end),
        }
    }

    /// All phases of a group have run.
    fn ready(&mut self, mut run: Box<GroupRun>) -> Option<Ask> {
        if !self.sight.take_in(&run, &mut self.state.worklist, self.now_ms) {
            let step = run.give_up();
            return self.group_step(run, step);
        }
        if run.group().writes() && self.must_validate() {
            let group = run.group();
            if !run.checks() && self.reads_in(group.database.as_ref()).next().is_some() {
                // That it is due has turned out only now. It has to be done before the group
                // writes.
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
            self.sight.commit(&mut run, &self.state.worklist, self.turn_of_now())
        };
        self.group_step(run, step)
    }

    /// Whether what was read has to be read again before something commits, or at the end.
    fn must_validate(&self) -> bool {
        let groups = &self.job.plan.groups;
        // Witnesses are kept for a time: who takes longer may have missed some.
        let long = self.now_ms.saturating_sub(self.since_ms) > self.job.limits.keep_ms / 2;
        let endorsed = || self.reads.iter().any(|reads| groups[reads.group].endorsing);
        !self.standing.has_committed() && (self.sight.suspicious || long || endorsed())
    }

    fn ended(&mut self, run: GroupRun, end: GroupEnd) -> Option<Ask> {
        if self.fresh && run.mark_is_absent() {
            // This session's commit of which the answer was lost would be seen.
            self.standing.settle();
        }
        let group = run.group();
        let (writes, database) = (group.writes(), group.database.clone().unwrap_or_default());
        match end {
            GroupEnd::Committed => {
                self.come_further();
                if writes {
                    self.standing.commit(self.asked_ms);
                } else if !self.standing.has_committed() {
                    self.reads.push(Reads { group: run.index(), calls: run.calls });
                }
                self.state = run.state;
                None
            }
            GroupEnd::Already(state, turn) => {
                self.come_further();
                self.state = state;
                match turn {
                    // Its own commit, of which the answer was lost.
                    Some(Turn { number: 0, since_ms, .. }) if self.turn == 0 => {
                        self.standing.hold(since_ms);
                    }
                    // Somebody else's, or one that cannot be told from somebody else's.
                    Some(Turn { number, .. }) => {
                        // So this was the commit that was under way when its holder stopped.
                        self.after_stopped |= number < self.turn;
                        self.standing.wait(self.now_ms);
                    }
                    None => self.standing.settle(),
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
                self.standing.lose_answer();
                self.retry(why)
            }
            GroupEnd::Failed(failure) => {
                let why = self.without_answer(&failure.kind);
                self.fail(why.unwrap_or(Why::Program(failure)))
            }
            GroupEnd::Uncertified(failure, error) => self.uncertified(failure, database, error),
            // People can change that. Until they have, the transaction waits for it.
            GroupEnd::Denied(reason) => {
                let why = Why::Denied { database, phase: Some(run.phase()), reason };
                if self.standing.has_committed() { self.retry(why) } else { self.stop(why) }
            }
            GroupEnd::Refused(reason) if self.standing.has_committed() => {
                self.retry(Why::Refused { database, reason })
            }
            GroupEnd::Refused(reason) | GroupEnd::Damaged(reason) => {
                self.stop(Why::Refused { database, reason })
            }
        }
    }

    /// What a phase that took too long has waited for, if that was a database which did not answer
    /// and not the program.
    fn without_answer(&mut self, kind: &FailureKind) -> Option<Why> {
        let away =
            |why: &Why| matches!(why, Why::Unavailable { .. }) || why.is_uncertified_for_now();
        let took_too_long = matches!(kind, FailureKind::Time { .. });
        self.trouble.take().filter(|why| took_too_long && away(why))
    }

    /// Whether it is too early to commit this group: somebody's commit of it may still take effect,
    /// besides this one.
    fn is_doubtful(&self, index: usize) -> bool {
        let first = self.job.plan.first_writer == Some(index);
        first && self.doubtful_until_ms.is_some_and(|until_ms| self.now_ms < until_ms)
    }
}
