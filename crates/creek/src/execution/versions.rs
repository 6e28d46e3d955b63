//! Multiversion execution (Creek §4.4): an operation is executed again only if it would read
//! something else now than it has read.
//!
//! Each write of an operation that is not final creates a version of a register, at the place of
//! the operation in the order. An operation reads, of each register, the last version before its
//! place. It records what it has read. When a version appears, changes, disappears or moves, the
//! executor checks the operations at later places that have read the register: what each has read
//! is compared with what it would read now.
//!
//! Operations that are not short are executed by jobs, each on a snapshot, several at a time. The
//! result of a job counts if the operation would read now what the job has read. Otherwise the
//! operation is executed again. Results count in causal order.
//!
//! The state is *exact* while nothing must be executed again: it then equals that of a sequential
//! execution of the executed operations. An operation that a client of this site invokes weakly is
//! first executed after all others, and gets its place when that execution counts in an exact
//! state.

mod causes;
#[cfg(test)]
mod judge;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use solera_machine::{Job as _, JobId, RequestId, Without};

use self::causes::{Basis, Causes, Mark, Shift};
use super::attempts::Attempts;
use super::classes::Classes;
use super::job::{Done, Job, Source};
use super::store::{Held, Name, Registers, Store, Values, Version, is_same};
use super::{Executed, Invoked, Kind, Moved, Progress};
use crate::config::{Config, Replies, Rule};
use crate::ids::{OperationId, StreamId};
use crate::object::{Procedures, RegisterKey};
use crate::order::OrderPlace;
use crate::request::Request;

/// An operation with its former and its present place.
type Relocation<P> = (OrderPlace, OrderPlace, Arc<Request<<P as Procedures>::Operation>>);

/// The operations that are not final, with what they have read and written.
#[derive(Debug)]
pub(crate) struct Versions<P: Procedures> {
    store: Store<P::Value>,
    /// The operations that have read a register, by their places.
    readers: BTreeMap<Name, BTreeSet<OrderPlace>>,
    operations: BTreeMap<OrderPlace, Operation<P>>,
    /// Operations that must be executed, for the first time or again, and that no job executes:
    /// short ones, and others.
    stale: [BTreeSet<OrderPlace>; 2],
    /// Operations that have no place yet.
    attempts: Attempts<P>,
    /// Operations that must be executed, by class.
    classes: Classes,
    /// Operations that jobs execute.
    running: BTreeMap<JobId, Target>,
    /// Operations whose last executions do not count: they must be executed again, or a job
    /// executes them.
    invalid: BTreeSet<OrderPlace>,
    /// Operations that have not been executed.
    fresh: BTreeSet<OperationId>,
    /// Operations that were there before a restart and have not been executed since.
    restored: BTreeSet<OperationId>,
    /// The stream of this site.
    own: Option<StreamId>,
    /// Operations that were executed for the first time since the last [`Versions::take_newly`].
    newly: Vec<OperationId>,
    held: Results,
    /// Executed operations for which clients wait, and whose responses have not been reported.
    unreported: BTreeSet<OrderPlace>,
    /// Other executed operations whose responses have not been reported.
    ready: VecDeque<OrderPlace>,
    /// What is kept to find the causes of revised responses.
    causes: Causes,
    /// Number of jobs so far.
    jobs: u64,
    /// Number of executions so far, without those of operations that only read.
    pub(crate) executions: u64,
    /// Whether responses wait for an exact state.
    waits_until_exact: bool,
    /// Whether responses have claims.
    trace: bool,
    /// The rule that a test takes out.
    without: Without<Rule>,
}

/// An operation that a job executes.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// An operation that has this place.
    Place(OrderPlace),
    /// An operation that has no place yet.
    Attempt(u64),
}

/// Results that wait until the operations in the contexts of their own operations are executed.
#[derive(Debug, Default)]
struct Results {
    /// Places of the operations whose results wait.
    places: BTreeMap<OperationId, OrderPlace>,
    /// Operations whose results wait, by the operation for which they wait.
    waiting: BTreeMap<OperationId, Vec<OperationId>>,
}

#[derive(Debug)]
struct Operation<P: Procedures> {
    request: Arc<Request<P::Operation>>,
    kind: Kind,
    is_short: bool,
    classes: Vec<u64>,
    /// The last execution.
    executed: Option<Execution<P>>,
    /// The job that executes it.
    job: Option<JobId>,
    /// Result of an execution that waits for other operations.
    result: Option<Done<P>>,
    /// Its move to its committed place.
    shift: Option<Shift>,
    /// The execution whose response a client got last.
    basis: Option<Basis<P::Value>>,
}

/// An execution of an operation.
#[derive(Debug)]
struct Execution<P: Procedures> {
    response: Option<Arc<P::Response>>,
    /// Values that it has read, except those that it wrote itself.
    reads: Values<P::Value>,
    /// Registers that it has written.
    writes: BTreeMap<Name, Mark>,
    /// Whether it replaces another execution.
    again: bool,
}

impl<P: Procedures> Versions<P> {
    pub(crate) fn new(config: &Config) -> Versions<P> {
        Versions {
            store: Store::new(P::is_key),
            readers: BTreeMap::new(),
            operations: BTreeMap::new(),
            stale: Default::default(),
            attempts: Attempts::new(),
            classes: Classes::default(),
            waits_until_exact: config.replies == Replies::Exact,
            trace: config.trace,
            running: BTreeMap::new(),
            invalid: BTreeSet::new(),
            fresh: BTreeSet::new(),
            restored: BTreeSet::new(),
            own: None,
            newly: Vec::new(),
            held: Results::default(),
            unreported: BTreeSet::new(),
            ready: VecDeque::new(),
            causes: Causes::default(),
            jobs: 0,
            executions: 0,
            without: config.without,
        }
    }

    /// Returns the operations that see a version of a register at this place, or would if there was
    /// one.
    fn readers_of(
        &self,
        name: &Name,
        place: OrderPlace,
    ) -> impl Iterator<Item = OrderPlace> + use<'_, P> {
        let after = (Bound::Excluded(place), Bound::Unbounded);
        let readers = self.readers.get(name).map(|readers| readers.range(after));
        let is_read = readers.clone().is_some_and(|mut readers| readers.next().is_some());
        let next = if is_read { self.store.next_set(name, place) } else { None };
        let readers = readers.into_iter().flatten();
        // The operation that writes the next version reads this one.
        readers.copied().take_while(move |reader| next.is_none_or(|it| *reader <= it))
    }

    /// Adds an operation. Returns whether the operation after it was executed.
    pub(crate) fn insert(
        &mut self,
        procedures: &P,
        place: OrderPlace,
        request: Arc<Request<P::Operation>>,
        kind: Kind,
    ) -> bool {
        let is_short = request.operation.as_ref().is_none_or(|it| procedures.is_short(it));
        self.fresh.insert(request.id);
        self.stale[usize::from(!is_short)].insert(place);
        let classes = request.operation.as_ref().map(|it| procedures.classes(it));
        let classes = classes.unwrap_or_default();
        self.classes.add(&classes, place);
        let operation = Operation {
            request,
            kind,
            is_short,
            classes,
            executed: None,
            job: None,
            result: None,
            shift: None,
            basis: None,
        };
        self.operations.insert(place, operation);
        let mut after = self.operations.range((Bound::Excluded(place), Bound::Unbounded));
        after.next().is_some_and(|(_, operation)| operation.executed.is_some())
    }

    /// Reports the responses to an operation from now on when they are settled, including that of
    /// its last execution.
    pub(crate) fn watch(&mut self, place: OrderPlace) {
        let Some(operation) = self.operations.get_mut(&place) else { return };
        operation.kind = Kind::Awaited;
        if operation.executed.is_some() {
            self.unreported.insert(place);
        }
    }

    /// Takes an operation that gets no place before its execution counts.
    pub(crate) fn attempt(&mut self, procedures: &P, invoked: Invoked<P>) {
        let is_short = procedures.is_short(&invoked.operation);
        let classes = procedures.classes(&invoked.operation);
        let only_reads = invoked.foretells.is_some() || procedures.is_read_only(&invoked.operation);
        self.attempts.add(invoked, (is_short, only_reads), classes);
    }

    /// Returns whether an operation without a place has waited for many strong ones of this site.
    pub(crate) fn is_passed(&self) -> bool {
        self.attempts.is_passed()
    }

    /// Notes that a strong operation of this site gets its place.
    pub(crate) fn pass(&mut self) {
        self.attempts.pass();
    }

    /// Returns the number of operations without a place.
    pub(crate) fn attempts(&self) -> usize {
        self.attempts.len()
    }

    /// Forgets an operation that has no place. Returns whether there was one.
    pub(crate) fn cancel_attempt(&mut self, client: RequestId) -> bool {
        self.attempts.cancel(client)
    }

    /// Notes that a run begins. Operations that were there before are executed before any client is
    /// answered.
    pub(crate) fn start(&mut self, own: StreamId) {
        self.restored.clone_from(&self.fresh);
        self.own = Some(own);
    }

    /// Gives an attempted operation, which has its place now, the result of its execution.
    pub(crate) fn complete(&mut self, place: OrderPlace, done: Done<P>) {
        let Some(operation) = self.operations.get(&place) else { return };
        // If the clock has reached its greatest time, the place need not be the last one.
        if self.are_valid(place, &done.reads) {
            self.stale[usize::from(!operation.is_short)].remove(&place);
            self.install(place, done);
        }
    }

    /// Moves operations to other places, in this order. The new places are before those of all
    /// operations that do not move, and after those of committed ones. An operation that has no
    /// place yet gets one.
    pub(crate) fn relocate(&mut self, procedures: &P, moves: &[Relocation<P>]) -> Moved {
        let mut affected: BTreeSet<(OrderPlace, Name)> = BTreeSet::new();
        let mut moved = Moved::Nothing;
        for (from, to, request) in moves {
            let Some(mut operation) = self.operations.remove(from) else {
                self.insert(procedures, *to, Arc::clone(request), Kind::Other);
                continue;
            };
            // If nothing lies between the places, every operation still reads what it has read.
            let between = (Bound::Excluded(*to), Bound::Excluded(*from));
            let jumps = self.operations.range(between).next().is_some();
            operation.shift = Some(self.causes.shift(*from));
            self.relocate_entries(&operation, (*from, *to));
            if operation.executed.is_some() {
                moved =
                    if jumps || moved == Moved::Reordered { Moved::Reordered } else { Moved::Kept };
            }
            if let Some(executed) = &operation.executed {
                let affected = jumps.then_some(&mut affected);
                self.relocate_execution(executed, (*from, *to), affected);
            }
            self.operations.insert(*to, operation);
            // Readers that are listed by a former place are listed again by the present one.
            let former = affected.range((*from, Arc::from([].as_slice()))..);
            let former = former.take_while(|(reader, _)| reader == from);
            for (_, name) in former.cloned().collect::<Vec<_>>() {
                affected.remove(&(*from, Arc::clone(&name)));
                affected.insert((*to, name));
            }
        }
        // A parked operation is examined again only if it has moved itself: those for which it
        // waits may then no longer be before it.
        for (_, to, _) in moves {
            if self.classes.is_parked(*to) {
                self.enqueue(*to);
            }
        }
        if self.without.keeps(Rule::ValidateMoves) {
            affected.into_iter().for_each(|(reader, name)| self.check(reader, &name));
        }
        moved
    }

    /// Moves the entries of lists that contain places.
    fn relocate_entries(&mut self, operation: &Operation<P>, (from, to): (OrderPlace, OrderPlace)) {
        let [short, long] = &mut self.stale;
        for places in [short, long, &mut self.invalid, &mut self.unreported] {
            if places.remove(&from) {
                places.insert(to);
            }
        }
        for place in self.ready.iter_mut().filter(|place| **place == from) {
            *place = to;
        }
        self.classes.relocate(&operation.classes, from, to);
        if let Some(job) = operation.job {
            self.running.insert(job, Target::Place(to));
        }
        if let Some(place) = self.held.places.get_mut(&operation.request.id) {
            *place = to;
        }
    }

    /// Moves the versions and reads of an execution to another place. Adds to `affected` the
    /// operations that may read another value then, with the register.
    fn relocate_execution(
        &mut self,
        executed: &Execution<P>,
        (from, to): (OrderPlace, OrderPlace),
        mut affected: Option<&mut BTreeSet<(OrderPlace, Name)>>,
    ) {
        for name in executed.writes.keys() {
            if let Some(affected) = &mut affected {
                affected.extend(self.readers_of(name, from).map(|it| (it, Arc::clone(name))));
            }
            self.store.relocate(name, from, to);
            if let Some(affected) = &mut affected {
                affected.extend(self.readers_of(name, to).map(|it| (it, Arc::clone(name))));
            }
        }
        for name in executed.reads.keys() {
            let Some(readers) = self.readers.get_mut(name) else { continue };
            readers.remove(&from);
            readers.insert(to);
            if let Some(affected) = &mut affected {
                affected.insert((to, Arc::clone(name)));
            }
        }
    }

    /// Marks an operation as stale if it would read another value of a register now.
    fn check(&mut self, place: OrderPlace, name: &Name) {
        let executed = self.operations.get(&place).and_then(|it| it.executed.as_ref());
        let Some(had) = executed.and_then(|executed| executed.reads.get(name)) else { return };
        if !self.is_valid(place, name, had) {
            self.invalid.insert(place);
            self.classes.add(&self.operations[&place].classes, place);
            self.enqueue(place);
        }
    }

    /// Notes that an operation is executed, and enqueues those that have waited for it.
    fn close(&mut self, place: OrderPlace) {
        let Some(operation) = self.operations.get(&place) else { return };
        for place in self.classes.remove(&operation.classes, place) {
            self.enqueue(place);
        }
    }

    /// Returns whether an operation at a place would read this value of a register.
    fn is_valid(&self, place: OrderPlace, name: &Name, had: &Held<P::Value>) -> bool {
        let counts = had.is_some() || self.without.keeps(Rule::ValidateAbsence);
        !counts || is_same(had, &self.store.read(name, place))
    }

    fn are_valid(&self, place: OrderPlace, reads: &Values<P::Value>) -> bool {
        reads.iter().all(|(name, had)| self.is_valid(place, name, had))
    }

    /// Marks an operation as stale, unless a job executes it: the job's result is examined anyway.
    fn enqueue(&mut self, place: OrderPlace) {
        self.classes.unpark(place);
        let operation = &self.operations[&place];
        if operation.job.is_none() {
            self.stale[usize::from(!operation.is_short)].insert(place);
        }
    }

    /// Executes the next stale operation, or returns a job that executes it. There are at most
    /// `slots` jobs at a time. Without slots, all operations are executed here.
    pub(crate) fn step(&mut self, procedures: &Arc<P>, slots: usize, finals: u64) -> Progress<P> {
        while let Some(place) = self.next_stale(slots) {
            let operation = &self.operations[&place];
            self.stale[usize::from(!operation.is_short)].remove(&place);
            let executed = operation.executed.as_ref();
            if executed.is_some_and(|executed| self.are_valid(place, &executed.reads)) {
                // What it has read has changed, and changed back.
                self.invalid.remove(&place);
                self.close(place);
                return Progress::Working;
            }
            // The result of an earlier operation of a class may wait for this operation. This one
            // must not wait for that operation then.
            let is_lacked = self.held.waiting.contains_key(&operation.request.id);
            if slots > 0 && !is_lacked && self.classes.has_before(&operation.classes, place) {
                self.classes.park(place);
                continue;
            }
            let source = Source::Placed(Arc::clone(&operation.request));
            let is_here = operation.is_short || slots == 0;
            let job = Job::new(Arc::clone(procedures), source, self.store.snapshot(place));
            if is_here {
                let done = job.run();
                self.executions += 1;
                self.take_result(place, done);
                return Progress::Worked;
            }
            let id = self.begin(Target::Place(place));
            self.operations.entry(place).and_modify(|operation| operation.job = Some(id));
            return Progress::Begun(id, job);
        }
        self.step_attempts(procedures, slots, finals)
    }

    fn begin(&mut self, target: Target) -> JobId {
        self.jobs += 1;
        let id = JobId(self.jobs);
        self.running.insert(id, target);
        id
    }

    /// Executes, after all others, an operation that has no place, or returns one whose execution
    /// counts.
    fn step_attempts(&mut self, procedures: &Arc<P>, slots: usize, finals: u64) -> Progress<P> {
        let job = |store: &Store<P::Value>, operation| {
            let source = Source::Attempted(operation);
            Job::new(Arc::clone(procedures), source, store.snapshot(OrderPlace::End))
        };
        if let Some((number, done, before)) = self.attempts.take_read()
            && let Some(invoked) = self.attempts.remove(number)
        {
            return Progress::Attempted { invoked, done: Some(done), before: Some(before) };
        }
        if self.has_end()
            && let Some((number, operation, result)) = self.attempts.take_ready(slots)
        {
            let done = match result {
                Some(done) if self.may_place(number, &done) => done,
                Some(_) => {
                    self.attempts.retry(number);
                    return Progress::Working;
                }
                None => {
                    self.executions += u64::from(!self.attempts.only_reads(number));
                    job(&self.store, operation).run()
                }
            };
            let Some(invoked) = self.attempts.remove(number) else { return Progress::Working };
            return Progress::Attempted { invoked, done: Some(done), before: None };
        }
        if self.running.len() < slots
            && let Some((number, operation)) = self.attempts.take_waiting(&self.classes)
        {
            if self.attempts.only_reads(number) && self.is_exact_before(OrderPlace::End) {
                let ids = if self.trace { self.before(OrderPlace::End).1 } else { Vec::new() };
                self.attempts.expect(number, (finals, ids));
            }
            let job = job(&self.store, operation);
            return Progress::Begun(self.begin(Target::Attempt(number)), job);
        }
        Progress::Idle
    }

    /// Returns whether the execution of an operation without a place counts: it would read the same
    /// now, and no operation that probably changes that is under way.
    fn may_place(&self, number: u64, done: &Done<P>) -> bool {
        let conflicts = self.attempts.has_conflict(number, &self.classes);
        !conflicts && self.are_valid(OrderPlace::End, &done.reads)
    }

    /// Returns whether the state is exact, and contains the operations that are committed, those of
    /// this site, and those that were there before a restart. Then an operation can follow all that
    /// are executed.
    fn has_end(&self) -> bool {
        let own = self.own.and_then(|own| self.fresh.range(own.at(0)..=own.at(u64::MAX)).next());
        !self.waits_until_exact || own.is_none() && self.is_exact_before(OrderPlace::End)
    }

    /// Returns whether the state before a place is exact, and contains the operations that are
    /// committed, and those that were there before a restart.
    fn is_exact_before(&self, place: OrderPlace) -> bool {
        // A committed operation is final when it and all operations before it are executed.
        let first = self.operations.keys().next().filter(|first| **first < place);
        let is_final = !matches!(first, Some(OrderPlace::Committed(_)));
        let is_exact = self.invalid.first().is_none_or(|first| *first > place);
        let is_whole = is_final && is_exact && self.restored.is_empty();
        is_whole || !self.waits_until_exact || !self.without.keeps(Rule::AnswerExact)
    }

    /// Returns the operation that is executed next. Without slots, this is the first of all;
    /// otherwise it is the first short one, if there is one.
    fn next_stale(&self, slots: usize) -> Option<OrderPlace> {
        let [short, long] = self.stale.each_ref().map(|stale| stale.first().copied());
        match slots {
            0 => short.into_iter().chain(long).min(),
            _ => short.or(long.filter(|_| self.running.len() < slots)),
        }
    }

    /// Takes the result of a job.
    pub(crate) fn take_done(&mut self, job: JobId, done: Done<P>) {
        match self.running.remove(&job) {
            Some(Target::Place(place)) => {
                self.executions += 1;
                self.operations.entry(place).and_modify(|operation| operation.job = None);
                self.take_result(place, done);
            }
            Some(Target::Attempt(number)) => {
                self.executions += u64::from(!self.attempts.only_reads(number));
                self.attempts.take_done(number, done);
            }
            None => {}
        }
    }

    /// Takes the result of an execution, and the results that have waited for it.
    fn take_result(&mut self, place: OrderPlace, done: Done<P>) {
        let mut results = vec![(place, done)];
        while let Some((place, done)) = results.pop() {
            let operation = &self.operations[&place];
            let id = operation.request.id;
            if let Some(lacking) = self.lacking(operation) {
                self.held.places.insert(id, place);
                let is_it = |place: &OrderPlace| self.operations[place].request.id == lacking;
                let parked = self.classes.parked().find(is_it);
                if let Some(parked) = parked {
                    self.enqueue(parked);
                }
                self.held.waiting.entry(lacking).or_default().push(id);
                self.operations.entry(place).and_modify(|operation| operation.result = Some(done));
                continue;
            }
            if self.without.keeps(Rule::ValidateJobs) && !self.are_valid(place, &done.reads) {
                self.enqueue(place);
                continue;
            }
            self.install(place, done);
            for id in self.held.waiting.remove(&id).into_iter().flatten() {
                let Some(place) = self.held.places.remove(&id) else { continue };
                let operation = self.operations.get_mut(&place);
                results.extend(operation.and_then(|it| it.result.take()).map(|it| (place, it)));
            }
        }
    }

    /// Returns an operation for which the result of `operation` must wait: one that has not been
    /// executed, and that is in the context of `operation` or is an earlier one of its site.
    fn lacking(&self, operation: &Operation<P>) -> Option<OperationId> {
        let is_needed = self.waits_until_exact && self.without.keeps(Rule::ExecuteContext);
        if operation.executed.is_some() || !is_needed {
            return None;
        }
        let Request { id, context, .. } = &*operation.request;
        let first = OperationId { run: 0, event: 0, ..*id };
        let earlier = self.fresh.range(first..*id).next().copied();
        earlier.or_else(|| {
            context.heads().find_map(|(stream, head)| {
                let fresh = self.fresh.range(stream.at(0)..=stream.at(head));
                fresh.copied().find(|id| context.contains(*id))
            })
        })
    }

    /// Replaces the last execution of an operation.
    fn install(&mut self, place: OrderPlace, done: Done<P>) {
        let Done { response, reads, writes } = done;
        let Some(operation) = self.operations.get_mut(&place) else { return };
        let before = operation.executed.take();
        let again = before.is_some();
        let (had_read, had_written) =
            before.map_or_else(Default::default, |before| (before.reads, before.writes));
        if let Some(basis) = &mut operation.basis {
            basis.replace(&had_read);
        }
        match operation.kind {
            Kind::Other => self.ready.push_back(place),
            Kind::Awaited => drop(self.unreported.insert(place)),
        }
        if !again {
            let id = operation.request.id;
            self.fresh.remove(&id);
            self.restored.remove(&id);
            self.newly.push(id);
        }
        self.invalid.remove(&place);
        self.close(place);
        for name in had_read.keys().filter(|name| !reads.contains_key(*name)) {
            self.forget_reader(name, place);
        }
        for name in reads.keys() {
            self.readers.entry(Arc::clone(name)).or_default().insert(place);
        }
        let mark = |(name, version)| {
            (Arc::clone(name), Mark::new(had_written.get(name).copied(), version))
        };
        let marks: BTreeMap<Name, Mark> = writes.iter().map(mark).collect();
        let gone = had_written.keys().filter(|name| !marks.contains_key(*name));
        let gone: Vec<Name> = gone.cloned().collect();
        if let Some(operation) = self.operations.get_mut(&place) {
            operation.executed = Some(Execution { response, reads, writes: marks, again });
        }
        let changes = gone.into_iter().map(|name| (name, None));
        for (name, value) in changes.chain(writes.into_iter().map(|(name, it)| (name, Some(it)))) {
            self.change_version(place, &name, value, had_written.get(&name).copied());
        }
    }

    /// Sets or removes the version that an operation has written, and checks those that read it.
    /// `had` is the mark of the version before.
    fn change_version(
        &mut self,
        place: OrderPlace,
        name: &Name,
        value: Option<Version<P::Value>>,
        had: Option<Mark>,
    ) {
        let former = had.and_then(|mark| Some((self.store.version(name, place)?, mark)));
        if !self.store.change(name, place, value) {
            return;
        }
        self.note_change(place, name, former);
        if self.without.keeps(Rule::ValidateWrites) {
            let readers: Vec<OrderPlace> = self.readers_of(name, place).collect();
            readers.into_iter().for_each(|reader| self.check(reader, name));
        }
    }

    fn forget_reader(&mut self, name: &Name, place: OrderPlace) {
        let Some(readers) = self.readers.get_mut(name) else { return };
        readers.remove(&place);
        if readers.is_empty() {
            self.readers.remove(name);
        }
    }

    /// Returns whether an operation is executed, and the state before it exact.
    fn has_settled(&self, place: OrderPlace) -> bool {
        let is_executed = self.operations.get(&place).is_some_and(|it| it.executed.is_some());
        is_executed && self.is_exact_before(place)
    }

    /// Removes and returns the operations that were executed for the first time.
    pub(crate) fn take_newly(&mut self) -> Vec<OperationId> {
        std::mem::take(&mut self.newly)
    }

    /// Returns the next response that can be reported.
    pub(crate) fn report(&mut self) -> Option<Progress<P>> {
        if let Some(place) = self.ready.pop_front() {
            // It may be final by now.
            return Some(self.progress(place, false).unwrap_or(Progress::Working));
        }
        let place = *self.unreported.first()?;
        if !self.has_settled(place) {
            return None;
        }
        self.unreported.remove(&place);
        self.progress(place, true)
    }

    fn progress(&self, place: OrderPlace, settled: bool) -> Option<Progress<P>> {
        let operation = self.operations.get(&place)?;
        let Execution { response, again, .. } = operation.executed.as_ref()?;
        let (request, response) = (Arc::clone(&operation.request), response.clone());
        let settled = settled || self.has_settled(place);
        Some(Progress::Executed { request, response, again: *again, settled })
    }

    /// Returns whether nothing is stale, no job is running, and all responses are reported.
    pub(crate) fn is_idle(&self) -> bool {
        let is_reported = self.ready.is_empty() && self.unreported.is_empty();
        self.running.is_empty() && self.next_stale(0).is_none() && is_reported
    }

    /// Returns whether [`Versions::step`] can do something before a job is done.
    pub(crate) fn has_work(&self, slots: usize) -> bool {
        let has_ready = self.has_end() && self.attempts.has_ready(slots);
        let is_free = self.running.len() < slots;
        let has_waiting = is_free && self.attempts.next_waiting(&self.classes).is_some();
        let has_attempt = has_ready || has_waiting || self.attempts.has_read();
        self.next_stale(slots).is_some() || has_attempt
    }

    /// Returns the ids of the executed operations before a place, in order, and how many of them,
    /// from the first one on and without a gap, are committed.
    pub(crate) fn before(&self, place: OrderPlace) -> (usize, Vec<OperationId>) {
        let all = self.operations.range(..place);
        let is_committed = |(place, operation): &(&OrderPlace, &Operation<P>)| {
            matches!(place, OrderPlace::Committed(_)) && operation.executed.is_some()
        };
        let committed = all.clone().take_while(is_committed).count();
        let executed = all.filter(|(_, operation)| operation.executed.is_some());
        (committed, executed.map(|(_, operation)| operation.request.id).collect())
    }

    /// Makes the first operation final, and returns its request and response. Returns `None` if it
    /// is not committed, if it must be executed, or if its response has not been reported.
    pub(crate) fn take_first(&mut self) -> Option<Executed<P>> {
        let (place, operation) = self.operations.first_key_value()?;
        let place = *place;
        let is_valid = operation.executed.is_some() && !self.invalid.contains(&place);
        let is_reported = !self.unreported.contains(&place);
        if !matches!(place, OrderPlace::Committed(_)) || !is_valid || !is_reported {
            return None;
        }
        let operation = self.remove(place)?;
        self.note_final(place, &operation);
        let executed = operation.executed?;
        // Every other operation comes later, and reads the same from the base as from the version.
        executed.writes.keys().for_each(|name| self.store.make_final(name, place));
        Some((operation.request, executed.response))
    }

    /// Removes an operation. Its versions stay.
    fn remove(&mut self, place: OrderPlace) -> Option<Operation<P>> {
        let operation = self.operations.remove(&place)?;
        let [short, long] = &mut self.stale;
        for places in [short, long, &mut self.invalid, &mut self.unreported] {
            places.remove(&place);
        }
        for name in operation.executed.iter().flat_map(|executed| executed.reads.keys()) {
            self.forget_reader(name, place);
        }
        Some(operation)
    }

    /// Returns the registers after the final operations.
    pub(crate) fn registers(&self) -> Registers<P::Value> {
        self.store.finals()
    }

    /// Returns the number of keys after the final operations, and the bytes of all registers.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.store.size()
    }

    /// Sets a register of the state after the final operations. There must be no operations yet.
    pub(crate) fn restore(&mut self, key: RegisterKey, value: P::Value) {
        self.store.set(&Arc::from(key), Some(Arc::new(value)));
    }
}

#[cfg(test)]
mod tests {
    use solera_random::Random;
    use solera_time::{SiteId, Timestamp};

    use super::judge::{Finals, Judge, first_writes};
    use super::*;
    use crate::context::Context;
    use crate::object::Access;
    use crate::order::Order;

    /// Reads registers. Writes to other registers a number that depends on what was read, or
    /// removes these registers. Fails, without a write, if the sum of what was read is a multiple
    /// of five.
    #[derive(Debug)]
    pub(super) struct Mix;

    impl Procedures for Mix {
        type Operation = (Vec<u8>, Vec<u8>, u64);
        type Value = u64;
        type Response = Result<u64, u64>;

        fn execute(
            &self,
            (reads, writes, number): &Self::Operation,
            registers: &mut dyn Access<u64>,
        ) -> Self::Response {
            let read = |key: &u8| registers.read(&[*key]).unwrap_or(3);
            let sum = reads.iter().map(read).sum::<u64>();
            if !reads.is_empty() && sum % 5 == 0 {
                return Err(sum);
            }
            for key in writes {
                let value = (sum + number) % 7;
                match number % 4 {
                    0 => registers
                        .merge(&[*key], value, |before, change| before.unwrap_or(3) + change),
                    _ => registers.write(&[*key], (value > 0).then_some(value)),
                }
            }
            Ok(sum)
        }

        fn is_read_only(&self, (_, writes, _): &Self::Operation) -> bool {
            writes.is_empty()
        }

        fn is_key(register: &[u8]) -> bool {
            register != [0]
        }

        fn is_short(&self, (_, _, number): &Self::Operation) -> bool {
            number % 3 == 0
        }

        fn classes(&self, (_, writes, number): &Self::Operation) -> Vec<u64> {
            // Hints are incomplete, and some are wrong.
            let some = writes.iter().map(|key| u64::from(*key)).filter(|key| key % 3 > 0);
            some.chain((number % 7 == 0).then_some(1))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        }
    }

    fn config() -> Config {
        let topology = solera_machine::Topology { partitions: 1, workers: vec![1] };
        let address = solera_machine::Address { site: SiteId(0), worker: 0 };
        Config::new(address, Arc::new(topology))
    }

    type OneRequest = Arc<Request<<Mix as Procedures>::Operation>>;
    type Requests = Vec<OneRequest>;

    /// Executes operations in order. Returns their responses and the registers after them.
    fn run(base: &Base, order: &Requests) -> (Vec<Result<u64, u64>>, Base) {
        let mut registers = base.clone();
        let operations = order.iter().filter_map(|request| request.operation.as_ref());
        let responses = operations.map(|it| Mix.execute(it, &mut registers)).collect();
        (responses, registers)
    }

    type Base = BTreeMap<Vec<u8>, u64>;

    fn request(random: &mut Random, event: u64, keys: u64) -> OneRequest {
        let id = OperationId { site: SiteId(0), run: 1, event };
        let some = |random: &mut Random| -> Vec<u8> {
            (0..random.below(3)).map(|_| random.below(keys) as u8).collect()
        };
        let operation = (some(random), some(random), random.below(50));
        let timestamp = Timestamp(event + random.below(12));
        let operation = (random.below(9) > 0).then_some(operation);
        Arc::new(Request {
            id,
            timestamp,
            operation,
            context: Context::default(),
            cast: None,
            previous: None,
        })
    }

    /// Executes operations, and lets jobs end in any order. Compares settled responses with a
    /// sequential execution of what had been executed.
    fn execute(
        random: &mut Random,
        versions: &mut Versions<Mix>,
        (slots, mut steps): (usize, usize),
        jobs: &mut Vec<(JobId, Job<Mix>)>,
        (base, last): (&Base, &mut BTreeMap<OperationId, Result<u64, u64>>),
    ) {
        let procedures = Arc::new(Mix);
        while steps > 0 {
            steps -= 1;
            let report = versions.report();
            match report.unwrap_or_else(|| versions.step(&procedures, slots, 0)) {
                Progress::Begun(id, job) => jobs.push((id, job)),
                Progress::Executed { request, response, settled, .. } => {
                    let place = *versions
                        .operations
                        .iter()
                        .find(|(_, it)| it.request.id == request.id)
                        .unwrap()
                        .0;
                    let executed = versions.operations.range(..=place);
                    let executed = executed.filter(|(_, it)| it.executed.is_some());
                    let order = executed.map(|(_, it)| Arc::clone(&it.request)).collect();
                    let (responses, _) = run(base, &order);
                    if settled && request.operation.is_some() {
                        assert_eq!(response.as_deref(), responses.last());
                    }
                    last.extend(response.map(|response| (request.id, *response)));
                }
                Progress::Idle if jobs.is_empty() => return,
                Progress::Idle => {
                    let (id, job) = jobs.swap_remove(random.index(jobs.len()));
                    versions.take_done(id, job.run());
                }
                _ => {}
            }
        }
    }

    /// Compares the registers after the final operations, and the number of keys among them.
    fn compare_finals(versions: &Versions<Mix>, base: &Base) {
        let registers: Base = versions.registers().take(usize::MAX).into_iter().collect();
        assert_eq!(registers, *base);
        let keys = base.keys().filter(|name| Mix::is_key(name)).count();
        assert_eq!(versions.size().0, keys);
    }

    /// Changes an order at random, and compares the last responses with a sequential execution of
    /// the order that it has become. Returns the number of executions, and how many there would
    /// have been if every change repeated all operations after it.
    fn compare(seed: u64, judge: &mut Judge) -> (u64, u64) {
        let mut random = Random::new(seed);
        let (mut order, mut versions) = (Order::new(), Versions::<Mix>::new(&config()));
        let slots = [0, 1, 3, 8][random.index(4)];
        let mut jobs = Vec::new();
        let mut base = Base::new();
        let mut last: BTreeMap<OperationId, Result<u64, u64>> = BTreeMap::new();
        let mut literal = 0;
        let keys = 1 + random.below(12);
        let mut finals = Finals::new();
        judge.begin();
        for event in 1..60 {
            let tentative: Requests = order.tentative().cloned().collect();
            match random.below(10) {
                0 if !tentative.is_empty() => {
                    let request = &tentative[random.index(tentative.len())];
                    let context = random.draw();
                    let commit = order.commit(request, |id| context >> (id.event % 64) & 1 == 1);
                    literal += commit.changed.map_or(0, |_| tentative.len() as u64);
                    versions.relocate(&Mix, &commit.moved);
                }
                1 => {
                    while !order.committed().is_empty()
                        && let Some((place, writes)) = first_writes(&versions)
                        && let Some((request, response)) = versions.take_first()
                    {
                        assert_eq!(place, OrderPlace::Committed(order.finals() + 1));
                        finals.push((request.id, writes));
                        assert_eq!(order.make_final().map(|it| it.id), Some(request.id));
                        let (responses, after) = run(&base, &vec![Arc::clone(&request)]);
                        assert_eq!(response.as_deref(), responses.first(), "seed {seed}");
                        base = after;
                        last.remove(&request.id);
                    }
                    compare_finals(&versions, &base);
                }
                _ => {
                    let request = request(&mut random, event, keys);
                    let place = order.insert(Arc::clone(&request));
                    literal += 1 + order.tentative_after(&request).count() as u64;
                    let kind = if random.one_in(2) { Kind::Awaited } else { Kind::Other };
                    versions.insert(&Mix, place, request, kind);
                }
            }
            let rests = random.one_in(3);
            let steps = if rests { usize::MAX } else { random.index(12) };
            let known = (&base, &mut last);
            execute(&mut random, &mut versions, (slots, steps), &mut jobs, known);
            if rests {
                assert!(versions.running.is_empty() && versions.next_stale(0).is_none());
                let all = order.committed().iter().chain(order.tentative());
                let all: Requests = all.filter(|it| it.operation.is_some()).cloned().collect();
                let (responses, after) = run(&base, &all);
                let executed = versions.operations.values().filter_map(|it| it.executed.as_ref());
                let found: Vec<_> =
                    executed.filter_map(|it| it.response.as_deref().copied()).collect();
                assert_eq!(found, responses, "seed {seed}");
                for key in 0..keys as u8 {
                    let read = versions.store.read(&[key], OrderPlace::End).map(|value| *value);
                    assert_eq!(read, after.get(&[key][..]).copied(), "seed {seed}");
                }
                judge.look(&mut random, &mut versions, &finals);
            }
        }
        let written = versions.operations.values().filter_map(|it| it.executed.as_ref());
        let written: BTreeSet<&Name> = written.flat_map(|it| it.writes.keys()).collect();
        let kept = versions.store.unfinished();
        assert_eq!(kept, written.len(), "versions belong to operations that are not final");
        (versions.executions, literal)
    }

    #[test]
    fn the_last_responses_are_those_of_a_sequential_execution() {
        let (mut executions, mut literal) = (0, 0);
        let mut judge = Judge::default();
        for seed in 0..3_000 {
            let counts = compare(seed, &mut judge);
            executions += counts.0;
            literal += counts.1;
        }
        assert!(judge.revised > 5_000, "{} causes were judged", judge.revised);
        assert!(executions * 2 < literal, "{executions} executions instead of {literal}");
    }
}
