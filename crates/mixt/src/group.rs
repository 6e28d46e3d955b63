//! Runs one group of phases in one transaction of a database.

mod requests;
mod visibility;
mod witnessing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::run::{Failure, FailureKind, Names, Refusal, Run, Step};
use solera_program::types::StoreId;
use solera_program::value::Value;

use crate::job::Job;
use crate::location::{Fields, Location, Name};
use crate::plan::Group;
use crate::record::{Record, RecoveryLease, State, Worklist};
use crate::request::calls::{Answer, Begin, NameWrite, StoreError};
use crate::request::{Reply, Request};
use crate::versioned::{Unreadable, decode, encode};
use crate::witness::{self, TransactionId, WriteWitness};

/// Operation that a phase has executed, kept to repeat it.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) call: Request,
    /// Value that it returned; `None` if the object was missing.
    pub(crate) value: Option<Value>,
    /// Transactions that had witnesses there.
    pub(crate) witnesses: BTreeSet<u64>,
}

/// Write witness of another transaction.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) witness: WriteWitness,
    /// Location in which it was found.
    pub(crate) place: Location,
}

#[derive(Debug)]
pub(crate) struct GroupRun {
    job: Arc<Job>,
    index: usize,
    pub(crate) state: State,
    /// Whether no coordinator can have run the group before.
    fresh: bool,
    /// Whether the group looked for its mark and did not find it.
    absent: bool,
    /// Commit witnesses that must be visible.
    wanted: Vec<(Location, TransactionId)>,
    at: At,
    run: Option<Run>,
    phase: usize,
    asked: Option<Request>,
    /// Store of the operation in `asked`.
    asked_store: StoreId,
    /// Reads of earlier groups in the same database, to repeat before anything is written.
    checks: Vec<Done>,
    pub(crate) calls: Vec<Done>,
    pub(crate) found: Vec<Found>,
    /// Names of the write witnesses to write, by store.
    marking: BTreeMap<StoreId, BTreeSet<Name>>,
    /// Witnesses of other transactions that this transaction's witnesses may replace: they refer to
    /// no places besides those of this transaction's witnesses.
    replaced: BTreeSet<(Name, TransactionId)>,
}

#[derive(Debug)]
enum At {
    Begin,
    Begun,
    /// Index of the check that was requested.
    Checking(usize),
    Called,
    Ready,
    Committing,
    /// The program has failed, and the database certifies what it has read.
    Certifying(Failure),
    Ending(Box<GroupEnd>),
    Over,
}

pub(crate) enum GroupStep {
    Ask(Request),
    /// All phases have run; call [`GroupRun::commit`] or [`GroupRun::give_up`].
    Ready,
    Ended(GroupEnd),
}

/// Result of a group's run. Unless it has committed, no transaction is open any more.
#[derive(Debug)]
pub(crate) enum GroupEnd {
    Committed,
    /// The group was run before: the state after it and, for the first group that writes, the lease
    /// of the coordinator that ran it.
    Already(State, Option<RecoveryLease>),
    /// These commit witnesses are not visible yet.
    Blocked(Vec<(Location, TransactionId)>),
    Conflict,
    /// The reads of earlier groups have changed.
    Changed,
    Unavailable(String),
    Unknown(String),
    Failed(Failure),
    /// The program failed on reads that the database has not certified; with the reason for that.
    Uncertified(Failure, StoreError),
    Refused(String),
    /// A right is missing, or the database takes no writes.
    Denied(String),
    /// Solera's own data there is unreadable.
    Damaged(String),
    /// The coordinator gave the group up.
    GivenUp,
}

impl GroupRun {
    /// Creates the run of the next group. `fresh` is whether no coordinator can have run it before.
    pub(crate) fn new(job: Arc<Job>, state: State, fresh: bool) -> GroupRun {
        let index = state.next as usize;
        let wanted = if state.worklist.is_empty() {
            Vec::new()
        } else {
            let places = job.places(&job.plan.groups[index]);
            state.worklist.keys().filter(|(place, _)| places.contains(place)).cloned().collect()
        };
        GroupRun {
            phase: job.plan.groups[index].phases.start,
            job,
            index,
            state,
            fresh,
            absent: false,
            wanted,
            at: At::Begin,
            run: None,
            asked: None,
            asked_store: StoreId(0),
            checks: Vec::new(),
            calls: Vec::new(),
            found: Vec::new(),
            marking: BTreeMap::new(),
            replaced: BTreeSet::new(),
        }
    }

    /// Makes the group repeat the reads of earlier groups in its database. It repeats them in its
    /// own transaction and before it writes, so it compares them with the writes of others and not
    /// with its own.
    pub(crate) fn check(mut self, checks: Vec<Done>) -> GroupRun {
        self.checks = checks;
        self
    }

    /// Returns whether the group looked for its mark and did not find it.
    pub(crate) fn mark_is_absent(&self) -> bool {
        self.absent
    }

    /// Returns whether there are reads to repeat.
    pub(crate) fn checks(&self) -> bool {
        !self.checks.is_empty()
    }

    pub(crate) fn group(&self) -> &Group {
        &self.job.plan.groups[self.index]
    }

    /// Returns the current phase.
    pub(crate) fn phase(&self) -> usize {
        self.phase.min(self.group().phases.end - 1)
    }

    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Returns whether an earlier group has written.
    pub(crate) fn is_after_commit(&self) -> bool {
        self.job.plan.first_writer.is_some_and(|first| first < self.index)
    }

    pub(crate) fn wanted(&self) -> &[(Location, TransactionId)] {
        &self.wanted
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Continues with the answer to the last request.
    pub(crate) fn next(&mut self, reply: Option<Result<Reply, StoreError>>) -> GroupStep {
        match (std::mem::replace(&mut self.at, At::Over), reply) {
            (At::Begin, None) => self.begin(),
            (At::Begun, Some(Ok(Reply::Began(fields)))) => self.begun(&fields),
            (At::Checking(index), Some(reply)) => self.checked(index, &reply),
            (At::Called, Some(reply)) => self.called(reply),
            (At::Committing, Some(Ok(Reply::Committed))) => GroupStep::Ended(GroupEnd::Committed),
            (At::Ending(end), Some(_)) => GroupStep::Ended(*end),
            (At::Certifying(failure), Some(certified)) => GroupStep::Ended(match certified {
                Ok(_) => GroupEnd::Failed(failure),
                Err(StoreError::Conflict) => GroupEnd::Conflict,
                // There was nothing to write.
                Err(StoreError::OutcomeUnknown(reason)) => {
                    GroupEnd::Uncertified(failure, StoreError::Unavailable(reason))
                }
                Err(error) => GroupEnd::Uncertified(failure, error),
            }),
            (At::Begun | At::Committing, Some(Err(error))) => GroupStep::Ended(of_error(error)),
            (at, reply) => unreachable!("{reply:?} is no answer to the request ({at:?})"),
        }
    }

    fn begin(&mut self) -> GroupStep {
        let group = self.group();
        if group.database.is_none() {
            return self.start_phase();
        }
        let mark = self.job.mark(self.index).filter(|_| !self.fresh);
        let wanted = self.wanted.iter().map(|(place, id)| witness::commit(&place.space, *id));
        let names: Vec<_> = mark.into_iter().chain(wanted).collect();
        let begin = Begin {
            strong: group.strong,
            read_only: !group.writes(),
            // The names read at the beginning may end the transaction before the operation.
            once: group.reads_once && names.is_empty(),
            names,
        };
        self.at = At::Begun;
        GroupStep::Ask(Request::Begin(begin))
    }

    fn begun(&mut self, fields: &[Fields]) -> GroupStep {
        let mut fields = fields.iter();
        if !self.fresh && self.job.mark(self.index).is_some() {
            match fields.next().and_then(|mark| mark.get(&0)).map(|mark| self.state_of(mark)) {
                Some(Ok((state, lease))) => return self.end(GroupEnd::Already(state, lease)),
                Some(Err(error)) => return self.end(GroupEnd::Damaged(error.to_string())),
                None => self.absent = true,
            }
        }
        let missing = self.wanted.iter().zip(fields).filter(|(_, found)| found.is_empty());
        let missing: Vec<_> = missing.map(|(wanted, _)| wanted.clone()).collect();
        if missing.is_empty() { self.check_next(0) } else { self.end(GroupEnd::Blocked(missing)) }
    }

    fn check_next(&mut self, index: usize) -> GroupStep {
        let Some(check) = self.checks.get(index) else {
            return self.start_phase();
        };
        self.at = At::Checking(index);
        GroupStep::Ask(check.call.clone())
    }

    fn checked(&mut self, index: usize, reply: &Result<Reply, StoreError>) -> GroupStep {
        if self.checks[index].same(reply) {
            return self.check_next(index + 1);
        }
        match reply {
            Err(error) if !stays_open(error) => GroupStep::Ended(of_error(error.clone())),
            _ => self.end(GroupEnd::Changed),
        }
    }

    fn state_of(&self, mark: &[u8]) -> Result<(State, Option<RecoveryLease>), Unreadable> {
        if self.job.plan.first_writer == Some(self.index) {
            // Other coordinators may have continued since then, and written the record again.
            let Record { state, lease, .. } = Record::decode(mark)?;
            let known = self.index + 1..=self.job.plan.groups.len();
            Ok((state.at(known, "a recovery record")?, Some(lease)))
        } else {
            let state: State = decode(mark, "a done mark")?;
            Ok((state.at(self.index + 1..=self.index + 1, "a done mark")?, None))
        }
    }

    fn start_phase(&mut self) -> GroupStep {
        if self.phase == self.group().phases.end {
            self.at = At::Ready;
            return GroupStep::Ready;
        }
        let job = &self.job;
        let run = Run::new(
            Arc::clone(job.module.program()),
            job.transaction,
            self.phase,
            job.args.clone(),
            self.state.tapes.clone(),
            Names { prefix: job.id.to_string().into() },
            job.limits.phase,
        );
        match run {
            Ok(mut run) => {
                let step = run.start();
                self.run = Some(run);
                self.step(step)
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn step(&mut self, step: Step) -> GroupStep {
        let (store, request) = match step {
            Step::Remote(call) => (call.store, self.remote(call)),
            Step::Custom(call) => (call.store, self.custom(call)),
            Step::Failed(failure) => return self.fail(failure),
            Step::Finished(finished) => {
                self.state.tapes.extend(finished.tapes);
                if finished.result.is_some() {
                    self.state.result = finished.result;
                }
                self.phase += 1;
                return self.start_phase();
            }
        };
        self.asked = Some(request.clone());
        self.asked_store = store;
        self.at = At::Called;
        GroupStep::Ask(request)
    }

    fn called(&mut self, reply: Result<Reply, StoreError>) -> GroupStep {
        let call = self.asked.take().expect("an answer follows a call");
        let answer = match reply {
            Ok(Reply::Answered(answer)) => Ok(answer),
            Ok(other) => unreachable!("{other:?} is no answer to an operation"),
            Err(StoreError::Missing) => Err(Refusal::Missing),
            Err(error @ (StoreError::Refused(_) | StoreError::WrongData { .. })) => {
                Err(Refusal::Other(error.to_string()))
            }
            Err(error @ StoreError::Denied(_)) => return self.end(of_error(error)),
            Err(error) => return GroupStep::Ended(of_error(error)),
        };
        let (value, seen) = match answer {
            Ok(Answer { value: Some(value), seen }) => (Ok(value), seen),
            Ok(Answer { value: None, seen }) => (Err(Refusal::Missing), seen),
            Err(refusal) => (Err(refusal), Fields::new()),
        };
        if let Err(error) = self.witnesses(&call, &seen) {
            return self.end(GroupEnd::Damaged(error.to_string()));
        }
        let own = self.job.id.number();
        let witnesses = seen.into_keys().filter(|id| *id != own).collect();
        self.calls.push(Done { call, value: value.as_ref().ok().cloned(), witnesses });
        let step = self.run.as_mut().expect("a run made the call").resume(value);
        self.step(step)
    }

    /// Commits the group when it is [`GroupStep::Ready`]. The new state contains `worklist`, for
    /// which later groups must wait. Own witnesses replace those of the transactions that
    /// `replaces` accepts. `lease` is that of this coordinator, with the current time.
    pub(crate) fn commit(
        &mut self,
        worklist: Worklist,
        lease: RecoveryLease,
        replaces: impl Fn(TransactionId) -> bool,
    ) -> GroupStep {
        assert!(matches!(self.at, At::Ready), "a group runs before it commits");
        self.replaced.retain(|(_, id)| replaces(*id));
        self.state.next += 1;
        self.state.worklist = worklist;
        if self.group().database.is_none() {
            self.at = At::Over;
            return GroupStep::Ended(GroupEnd::Committed);
        }
        let mut writes = Vec::new();
        if !self.job.plan.witnessed.is_empty() {
            self.write_witnesses(&mut writes);
        }
        if let Some(name) = self.job.mark(self.index) {
            let later = &self.job.plan.groups[self.index + 1..];
            let tapes = self.job.taken(later, &self.state.tapes);
            let state = State { tapes, ..self.state.clone() };
            let value = if self.job.plan.first_writer == Some(self.index) {
                self.job.record(state, lease).encode()
            } else {
                encode(&state)
            };
            writes.push(NameWrite::Set { name, field: 0, value, new: self.group().atomic });
        }
        self.at = At::Committing;
        GroupStep::Ask(Request::Commit(writes))
    }

    /// Handles a failure of the program. What a validated transaction has read may be wrong until
    /// it is certified, and the failure may follow from that.
    fn fail(&mut self, failure: Failure) -> GroupStep {
        if !self.group().validated || self.calls.is_empty() {
            return self.end(GroupEnd::Failed(failure));
        }
        self.at = At::Certifying(failure);
        GroupStep::Ask(Request::Certify)
    }

    /// Returns whether the last request is an operation of a phase. Only such requests can be
    /// endless.
    pub(crate) fn asks_for_operation(&self) -> bool {
        matches!(self.at, At::Called)
    }

    /// Stops a run whose last request is an [operation](Self::asks_for_operation).
    pub(crate) fn stop(&mut self, kind: FailureKind) -> GroupStep {
        let run = self.run.as_ref().expect("a run requested the operation");
        let failure = run.stopped(kind);
        self.end(GroupEnd::Failed(failure))
    }

    /// Gives the group up when it is [`GroupStep::Ready`].
    pub(crate) fn give_up(&mut self) -> GroupStep {
        self.end(GroupEnd::GivenUp)
    }

    /// Ends the open transaction.
    fn end(&mut self, end: GroupEnd) -> GroupStep {
        if self.group().database.is_none() {
            self.at = At::Over;
            return GroupStep::Ended(end);
        }
        self.at = At::Ending(Box::new(end));
        GroupStep::Ask(Request::Abort)
    }
}

/// Returns whether the transaction is still open after an operation that fails with this error.
pub(crate) fn stays_open(error: &StoreError) -> bool {
    use StoreError::{Denied, Missing, Refused, WrongData};
    matches!(error, Denied(_) | Missing | Refused(_) | WrongData { .. })
}

impl Done {
    /// Returns whether the answer is the same as before, and no transaction has put a witness there
    /// since.
    pub(crate) fn same(&self, reply: &Result<Reply, StoreError>) -> bool {
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

fn of_error(error: StoreError) -> GroupEnd {
    match error {
        StoreError::Conflict => GroupEnd::Conflict,
        StoreError::Unavailable(reason) => GroupEnd::Unavailable(reason),
        StoreError::OutcomeUnknown(reason) => GroupEnd::Unknown(reason),
        StoreError::Denied(reason) => GroupEnd::Denied(reason),
        other => GroupEnd::Refused(other.to_string()),
    }
}
