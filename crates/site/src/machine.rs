//! The machine of one worker.

mod bounds;

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use solera_data::Measure;
use solera_machine::{Address, AskId, JobId, Machine, Now, Share, Topology, Wire};
use solera_membership::{Change, MemberError, Members, Participant};
use solera_occult::Occult;
use solera_primary::Primary;
use solera_procedures::SpaceProcedures;
use solera_reservations::{Bound, Claim, Reservations};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};
use solera_trial::Trial;
use solera_unistore::{Errand, GuardedKeys, Replica};

use self::bounds::Bounds;
use crate::composed::{Command, Event, Input, Job, JobResult, Message, Output, Part, Response};
use crate::internal::{self, Answered, Asker, Internal};
use crate::speculative::Speculative;

/// Configuration of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// Configuration of UniStore, which every worker runs.
    pub unistore: solera_unistore::Config,
    /// Configuration of `primary`, if the worker runs it.
    pub primary: Option<solera_primary::Config>,
    /// Configuration of `occult`, if the worker runs it.
    pub occult: Option<solera_occult::Config>,
    /// Prefixes of keys, the longest first, and whether `occult` runs their space. Empty: it runs
    /// all keys that it gets.
    pub occult_spaces: Arc<[(Vec<u8>, bool)]>,
    /// Configuration of `reservations`, if the worker runs it. UniStore's configuration then names
    /// the keys with error bounds.
    pub reservations: Option<solera_reservations::Config>,
    /// Configuration of `creek`, if the worker runs it.
    pub creek: Option<solera_creek::Config>,
    /// Configuration of `trial`, if the worker runs it.
    pub trial: Option<solera_trial::Config>,
}

/// The machine of one worker: one machine for each protocol.
///
/// UniStore comes first: its messages spread the list of sites, and the other protocols receive
/// each change of the list. Outputs leave in the order in which the protocols made them, so that
/// records are durable before the resulting outputs of another protocol leave.
#[derive(Debug)]
pub struct Site {
    unistore: Replica,
    primary: Option<Primary>,
    occult: Option<Occult>,
    bounds: Option<Bounds>,
    creek: Option<Speculative>,
    trial: Option<Trial>,
    /// The list of sites that was last passed to the other protocols.
    passed_on: Option<Members>,
    internal: Internal,
    /// Counts of messages of protocols that the worker does not run.
    not_run: NotRun,
    /// Outputs that the protocols had emitted when one of them last received an input.
    outputs: VecDeque<Output>,
}

/// Number of messages received of each protocol that the worker does not run.
#[derive(Debug, Default)]
struct NotRun {
    primary: u64,
    occult: u64,
    reservations: u64,
    creek: u64,
    trial: u64,
}

/// The machines of the protocols other than UniStore, as far as the worker runs them.
#[derive(Debug)]
pub(crate) struct Others {
    pub(crate) primary: Option<Primary>,
    pub(crate) occult: Option<Occult>,
    pub(crate) reservations: Option<Reservations>,
    pub(crate) creek: Option<Speculative>,
    pub(crate) trial: Option<Trial>,
}

/// The parts of a worker's configuration that concern questions of its protocols to one another.
#[derive(Debug)]
pub(crate) struct Host {
    first_question: u64,
    topology: Arc<Topology>,
    pub(crate) guarded: Option<GuardedKeys>,
}

impl Host {
    pub(crate) fn of(config: &solera_unistore::Config) -> Host {
        Host {
            first_question: config.first_transaction,
            topology: config.topology.clone(),
            guarded: config.guarded_keys.clone(),
        }
    }
}

/// Progress of a checkpoint of a [`Site`].
#[derive(Debug, Default)]
pub struct Checkpoint {
    unistore: solera_unistore::Checkpoint,
    primary: solera_primary::Checkpoint,
    occult: solera_occult::Checkpoint,
    reservations: solera_reservations::Checkpoint,
    creek: solera_creek::Checkpoint<SpaceProcedures>,
    trial: solera_trial::Checkpoint,
    complete: bool,
}

impl From<solera_unistore::Config> for Config {
    fn from(unistore: solera_unistore::Config) -> Config {
        let (primary, occult, reservations) = (None, None, None);
        let occult_spaces = Arc::new([]);
        let (creek, trial) = (None, None);
        Config { unistore, primary, occult, occult_spaces, reservations, creek, trial }
    }
}

impl Config {
    /// Makes the worker run `primary`, too.
    #[must_use]
    pub fn with_primary(mut self) -> Config {
        let unistore = &self.unistore;
        let usual = solera_primary::Config::new(unistore.address, unistore.topology.clone());
        self.primary = Some(solera_primary::Config {
            f: unistore.f,
            generation: unistore.generation,
            journal: unistore.journal,
            first_number: unistore.first_transaction,
            ..usual
        });
        self
    }

    /// Makes the worker run `occult`, too, with this number of shards and these [homes of
    /// keys](solera_occult::Config::home_of).
    #[must_use]
    pub fn with_occult(mut self, shards: u16, home_of: Arc<[(Vec<u8>, Option<SiteId>)]>) -> Config {
        let unistore = &self.unistore;
        let usual = solera_occult::Config::new(unistore.address, unistore.topology.clone(), shards);
        self.occult = Some(solera_occult::Config {
            founders: unistore.founders,
            home_of,
            generation: unistore.generation,
            journal: unistore.journal,
            // Zero is no incarnation.
            incarnation: unistore.first_transaction + 1,
            ..usual
        });
        self
    }

    /// Makes the worker run `reservations`, too, for keys with these prefixes, the longest first.
    /// Keys with a prefix that has no bound have none.
    #[must_use]
    pub fn with_reservations(
        mut self,
        bounds: Arc<[(Vec<u8>, Option<Bound>)]>,
        timing: solera_reservations::Timing,
    ) -> Config {
        let unistore = &mut self.unistore;
        let usual = solera_reservations::Config::new(unistore.address, unistore.topology.clone());
        self.reservations = Some(solera_reservations::Config {
            founders: unistore.founders,
            generation: unistore.generation,
            copies: unistore.f + 1,
            bounds: bounds.clone(),
            // Zero is no incarnation.
            incarnation: unistore.first_transaction + 1,
            journal: unistore.journal,
            timing,
            ..usual
        });
        unistore.guards.push(solera_reservations::PROTOCOL.number);
        unistore.guarded_keys = Some(GuardedKeys {
            protocol: solera_reservations::PROTOCOL.number,
            prefixes: bounds.iter().map(|(prefix, it)| (prefix.clone(), it.map(measure))).collect(),
            claim: |span| Claim::Tokens(bounds::tokens_of(span)).encode(),
            patience: timing.patience,
        });
        self
    }

    /// Makes the worker run `creek`, too, with the workers of the other sites that have the same
    /// number. At most `jobs` jobs at a time execute operations.
    #[must_use]
    pub fn with_creek(mut self, jobs: usize) -> Config {
        let unistore = &self.unistore;
        let usual = solera_creek::Config::new(unistore.address, unistore.topology.clone());
        self.creek = Some(solera_creek::Config {
            founders: unistore.founders,
            generation: unistore.generation,
            journal: unistore.journal,
            jobs,
            ..usual
        });
        self
    }

    /// Sets whether results in the speculative space show no strong operation before it is
    /// committed.
    pub fn with_acyclic(mut self, acyclic: bool) -> Config {
        if let Some(creek) = &mut self.creek {
            creek.acyclic = acyclic;
        }
        self
    }

    /// Sets the number of operations of the speculative space that may be tentative.
    pub fn with_max_tentative(mut self, most: usize) -> Config {
        if let Some(creek) = &mut self.creek {
            creek.limits.tentative = most;
        }
        self
    }

    /// Makes the worker run `trial`, too, which guards keys of UniStore and hands out `limit` units
    /// of each.
    #[must_use]
    pub fn with_trial(mut self, limit: u32) -> Config {
        let journal = self.unistore.journal;
        self.trial = Some(solera_trial::Config { limit, journal });
        self.unistore.guards.push(solera_trial::PROTOCOL.number);
        self
    }

    /// Returns the list of sites with which the worker's generation began.
    pub(crate) fn first_members(&self) -> Members {
        let Config { unistore: config, .. } = self;
        let (sites, me) = (config.topology.sites(), config.address.site);
        Members::at_start(sites, config.founders, me, config.generation)
    }
}

/// Returns the number that a bound is about.
fn measure(bound: Bound) -> Measure {
    match bound {
        Bound::Error(_) | Bound::Rights => Measure::Value,
        Bound::Size(_) => Measure::Size,
    }
}

impl Site {
    /// Creates the machine of a worker that stores nothing yet. `seed` only affects the placement
    /// of keys in hash tables.
    pub fn new(config: impl Into<Config>, seed: u64) -> Site {
        let config = config.into();
        let members = config.first_members();
        let primary = config.primary.map(|primary| Primary::new(primary, &members));
        let occult = config.occult.map(|occult| Occult::new(occult, &members));
        let trial = config.trial.map(Trial::new);
        let reservations = config.reservations.map(Reservations::new);
        let creek = config.creek.map(|creek| Speculative::new(creek, SpaceProcedures::default()));
        let others = Others { primary, occult, reservations, creek, trial };
        let of = Host::of(&config.unistore);
        Site::of(Replica::new(config.unistore, seed), others, of)
    }

    pub(crate) fn of(unistore: Replica, others: Others, host: Host) -> Site {
        let Others { primary, occult, reservations, creek, trial } = others;
        let Host { first_question, topology, guarded } = host;
        let bounds = reservations
            .zip(guarded)
            .map(|(machine, keys)| Bounds::new(machine, &unistore, keys, &topology));
        let mut site = Site {
            unistore,
            primary,
            occult,
            bounds,
            creek,
            trial,
            passed_on: None,
            internal: Internal::new(first_question),
            not_run: NotRun::default(),
            outputs: VecDeque::new(),
        };
        if let Some(bounds) = &mut site.bounds {
            // A new process records its start.
            let started = std::iter::from_fn(|| bounds.machine.poll_output());
            site.outputs.extend(started.filter_map(|output| output.widen().ok()));
        }
        if let Some(creek) = &mut site.creek {
            // Its first step needs the list. A new process records its run.
            let start = Now { monotonic: Monotonic(0), physical: Physical(0) };
            creek.set_members(start, site.unistore.members());
            collect(&mut site.outputs, creek);
        }
        site.note_participants();
        site
    }

    /// Returns the address of the worker.
    pub fn address(&self) -> Address {
        self.unistore.address()
    }

    /// Returns the machine of UniStore.
    pub fn unistore(&self) -> &Replica {
        &self.unistore
    }

    /// Returns the machine of UniStore for direct calls. To change the list of sites, call
    /// [`change_members`](Self::change_members) instead.
    pub fn unistore_mut(&mut self) -> &mut Replica {
        &mut self.unistore
    }

    /// Returns the machine of `primary`, if the worker runs it.
    pub fn primary(&self) -> Option<&Primary> {
        self.primary.as_ref()
    }

    /// Returns the machine of `primary` for direct calls, if the worker runs it.
    pub fn primary_mut(&mut self) -> Option<&mut Primary> {
        self.primary.as_mut()
    }

    /// Returns the number of messages of each of [`PROTOCOLS`](crate::PROTOCOLS) that were dropped
    /// since the start: those that no correct worker sends or that came too late, and all of a
    /// protocol that the worker does not run.
    pub fn ignored(&self) -> [u64; crate::PROTOCOLS.len()] {
        let of_primary = self.primary.as_ref().map_or(0, Primary::ignored);
        let of_occult = self.occult.as_ref().map_or(0, Occult::ignored);
        [
            self.unistore.status().ignored(),
            of_primary + self.not_run.primary,
            of_occult + self.not_run.occult,
            self.not_run.reservations,
            self.not_run.creek,
            self.not_run.trial,
        ]
    }

    /// Returns the machine of `occult`, if the worker runs it.
    pub fn occult(&self) -> Option<&Occult> {
        self.occult.as_ref()
    }

    /// Returns the machine of `occult` for direct calls, if the worker runs it.
    pub fn occult_mut(&mut self) -> Option<&mut Occult> {
        self.occult.as_mut()
    }

    /// Returns the machine of `creek`, if the worker runs it.
    pub fn creek(&self) -> Option<&Speculative> {
        self.creek.as_ref()
    }

    /// Returns the machine of `trial`, if the worker runs it.
    pub fn trial(&self) -> Option<&Trial> {
        self.trial.as_ref()
    }

    /// Returns the worker's view of the list of sites.
    pub fn members(&self) -> &Members {
        self.unistore.members()
    }

    /// Changes the status of a site.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub fn change_members(
        &mut self,
        now: Now,
        site: SiteId,
        change: Change,
    ) -> Result<(), MemberError> {
        let changed = self.unistore.change_members(now, site, change);
        self.pass_on_members(now);
        changed
    }

    /// Returns the greatest time that the worker has received or sent.
    pub fn clock(&self) -> Timestamp {
        self.unistore.status().clock()
    }

    /// Returns whether the worker has the data that it serves. At a joining site it has to receive
    /// the data first.
    pub fn serves(&self) -> bool {
        self.unistore.status().view().serving
    }

    /// See [`Replica::begin_run`].
    pub fn begin_run(&mut self, physical: Physical) -> (Timestamp, Timestamp) {
        self.unistore.begin_run(physical)
    }

    /// See [`Replica::take_lacking`].
    pub fn take_lacking(&mut self) -> BTreeSet<Address> {
        self.unistore.take_lacking()
    }

    /// Passes a changed list of sites to the other protocols.
    fn pass_on_members(&mut self, now: Now) {
        if !self.has_participants() || self.passed_on.as_ref() == Some(self.unistore.members()) {
            return;
        }
        collect_unistore(&mut self.outputs, &mut self.unistore, &mut self.internal);
        let members = &self.passed_on.insert(self.unistore.members().clone()).clone();
        if let Some(primary) = &mut self.primary {
            primary.set_members(now, members);
            collect(&mut self.outputs, primary);
        }
        if let Some(occult) = &mut self.occult {
            occult.set_members(now, members);
            self.settle_occult(now);
        }
        self.pass_on_to_bounds(now, members);
        if let Some(creek) = &mut self.creek {
            creek.set_members(now, members);
            collect(&mut self.outputs, creek);
        }
        if let Some(trial) = &mut self.trial {
            trial.set_members(now, members);
            self.settle_trial(now);
        }
        self.note_participants();
    }

    fn has_participants(&self) -> bool {
        self.bounds.is_some() || self.participants().next().is_some()
    }

    /// Returns the protocols other than UniStore that complete removals before UniStore does.
    /// `reservations` learns what remains of a site's updates only when the site is removed.
    fn participants(&self) -> impl Iterator<Item = &dyn Participant> {
        let primary = self.primary.iter().map(|it| it as &dyn Participant);
        let occult = self.occult.iter().map(|it| it as &dyn Participant);
        let creek = self.creek.iter().map(|it| it as &dyn Participant);
        let trial = self.trial.iter().map(|it| it as &dyn Participant);
        primary.chain(occult).chain(creek).chain(trial)
    }

    /// Reports to UniStore whether the other protocols have completed the change of the list of
    /// sites. If their list differs from UniStore's, [`pass_on_members`](Self::pass_on_members)
    /// follows before UniStore sends anything about the change.
    fn note_participants(&mut self) {
        if self.has_participants() {
            let bounds = self.bounds.iter().map(|it| &it.machine as &dyn Participant);
            let filled = self.participants().chain(bounds).all(Participant::is_filled);
            let is_known = self.passed_on.as_ref() == Some(self.unistore.members());
            let completed =
                is_known && self.participants().all(Participant::has_completed_removals);
            self.unistore.note_others(filled, completed);
        }
    }

    /// Applies `action` to `trial`, after collecting the earlier outputs of UniStore, which leave
    /// first.
    fn with_trial(&mut self, now: Now, action: impl FnOnce(&mut Trial)) {
        let Some(trial) = &mut self.trial else { return };
        collect_unistore(&mut self.outputs, &mut self.unistore, &mut self.internal);
        action(trial);
        self.settle_trial(now);
        self.note_participants();
    }

    /// Collects the outputs of `trial` and routes its questions and answers.
    fn settle_trial(&mut self, now: Now) {
        while let Some(output) = self.trial.as_mut().and_then(Trial::poll_output) {
            if let solera_machine::Output::Reply {
                request,
                response: solera_trial::Response::Guard(answer),
                ..
            } = output
            {
                self.internal.note_guard(request, answer);
                continue;
            }
            match output.widen() {
                Ok(output) => self.outputs.push_back(output),
                Err((ask, question)) => {
                    let command = internal::command_of(question);
                    self.ask_unistore(now, Asker::Trial(ask), command);
                }
            }
        }
    }

    /// Passes questions and answers to the protocols that they are for, until none are left.
    fn settle(&mut self, now: Now) {
        if self.trial.is_none() && self.occult.is_none() && self.bounds.is_none() {
            return;
        }
        loop {
            collect_unistore(&mut self.outputs, &mut self.unistore, &mut self.internal);
            if let Some((ask, errand)) = self.internal.take_errand() {
                self.ask_guard(now, ask, errand);
            } else if let Some(answered) = self.internal.take_answer() {
                self.answer(now, answered);
            } else {
                break;
            }
        }
    }

    /// Passes a question of UniStore to the protocol that it is for.
    fn ask_guard(&mut self, now: Now, ask: AskId, errand: Errand) {
        let Errand { protocol, question } = errand;
        let request = self.internal.ask(Asker::UniStore(ask));
        if protocol == solera_reservations::PROTOCOL.number {
            return self.ask_bounds(now, request, question);
        }
        // UniStore only asks protocols that its configuration names.
        assert_eq!(protocol, solera_trial::PROTOCOL.number, "no other protocol guards keys");
        let command = solera_trial::Command::Guard(question);
        self.with_trial(now, |trial| {
            trial.handle(now, solera_machine::Input::Client { request, command });
        });
    }

    /// Passes an answer to the protocol that has sent the question.
    fn answer(&mut self, now: Now, answered: Answered) {
        match answered {
            Answered::Trial(ask, response) => {
                let answer = internal::answer_of(response);
                self.with_trial(now, |trial| {
                    trial.handle(now, solera_machine::Input::Answered { ask, answer });
                });
            }
            Answered::Occult(ask, answer) => {
                self.with_occult(now, |occult| {
                    occult.handle(now, solera_machine::Input::Answered { ask, answer });
                });
            }
            Answered::Reservations(ask, answer) => {
                self.with_bounds(now, |it| {
                    it.handle(now, solera_machine::Input::Answered { ask, answer });
                });
            }
            Answered::FindMove(ask, number, next) => {
                let command = internal::find_move(number);
                self.ask_unistore(now, Asker::OtherMove(ask, next), command);
            }
            Answered::UniStore(ask, answer) => {
                self.unistore.handle(now, solera_machine::Input::Answered { ask, answer });
            }
        }
    }

    /// Applies `action` to `primary`, after collecting the earlier outputs of UniStore, which leave
    /// first.
    fn with_primary(&mut self, action: impl FnOnce(&mut Primary)) {
        let Some(primary) = &mut self.primary else { return };
        collect_unistore(&mut self.outputs, &mut self.unistore, &mut self.internal);
        action(primary);
        collect(&mut self.outputs, primary);
        self.note_participants();
    }

    /// Applies `action` to `creek`, as [`with_primary`](Self::with_primary) does.
    fn with_creek(&mut self, action: impl FnOnce(&mut Speculative)) {
        let Some(creek) = &mut self.creek else { return };
        collect_unistore(&mut self.outputs, &mut self.unistore, &mut self.internal);
        action(creek);
        collect(&mut self.outputs, creek);
        self.note_participants();
    }

    /// Returns the result of a job to its protocol.
    fn finish_job(&mut self, now: Now, job: JobId, result: JobResult) {
        use solera_machine::Input as Of;

        match result {
            JobResult::Creek(result) => {
                self.with_creek(|it| it.handle(now, Of::Done { job, result }));
            }
            JobResult::Trial(result) => {
                self.with_trial(now, |it| it.handle(now, Of::Done { job, result }));
            }
        }
    }

    /// Applies `action` to `occult`, as [`with_primary`](Self::with_primary) does.
    fn with_occult(&mut self, now: Now, action: impl FnOnce(&mut Occult)) {
        let Some(occult) = &mut self.occult else { return };
        collect_unistore(&mut self.outputs, &mut self.unistore, &mut self.internal);
        action(occult);
        self.settle_occult(now);
        self.note_participants();
    }

    /// Collects the outputs of `occult` and passes its questions to UniStore.
    fn settle_occult(&mut self, now: Now) {
        while let Some(output) = self.occult.as_mut().and_then(Occult::poll_output) {
            match output.widen() {
                Ok(output) => self.outputs.push_back(output),
                Err((ask, solera_occult::Question::Propose { number, next })) => {
                    let command = internal::propose(number, &next);
                    self.ask_unistore(now, Asker::Proposal(ask, number, next), command);
                }
            }
        }
    }

    fn ask_unistore(&mut self, now: Now, asker: Asker, command: solera_unistore::Command) {
        let request = self.internal.ask(asker);
        self.unistore.handle(now, solera_machine::Input::Client { request, command });
    }
}

/// Appends the outputs of UniStore to `outputs`, except answers to questions, which stay in the
/// worker.
fn collect_unistore(
    outputs: &mut VecDeque<Output>,
    unistore: &mut Replica,
    internal: &mut Internal,
) {
    while let Some(output) = unistore.poll_output() {
        outputs.extend(without_answers(output, internal));
    }
}

/// Queues an answer to a question for the protocol that has asked, and returns any other output.
#[inline]
fn without_answers(output: solera_unistore::Output, internal: &mut Internal) -> Option<Output> {
    match output {
        solera_machine::Output::Reply { request, response, .. } if internal.is_answer(request) => {
            internal.note(request, response);
            None
        }
        output => match output.widen() {
            Ok(output) => Some(output),
            Err((ask, errand)) => {
                internal.send(ask, errand);
                None
            }
        },
    }
}

/// Appends the outputs of a protocol that asks no questions to `outputs`.
fn collect<M>(outputs: &mut VecDeque<Output>, machine: &mut M)
where
    M: Machine<Question = Infallible>,
    Message: From<M::Message>,
    Response: From<M::Response>,
    Event: From<M::Event>,
    Job: From<M::Job>,
{
    while let Some(output) = machine.poll_output() {
        let Ok(output) = output.widen();
        outputs.push_back(output);
    }
}

impl Machine for Site {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Job = Job;
    type Question = Infallible;
    type Answer = Infallible;
    type Part = Part;
    type Checkpoint = Checkpoint;

    fn share(input: &Input) -> Share {
        use solera_machine::Input as Of;

        match input {
            Of::Message { message, .. } => message.share(),
            Of::Client { command, .. } => Share::usual(command.protocol()),
            Of::Done { result: JobResult::Creek(_), .. } => Share::usual(solera_creek::PROTOCOL),
            Of::Done { result: JobResult::Trial(_), .. } => Share::usual(solera_trial::PROTOCOL),
            Of::Cancel { .. } => Share::usual(solera_unistore::PROTOCOL),
            Of::Answered { answer, .. } => match *answer {},
        }
    }

    #[inline]
    fn handle(&mut self, now: Now, input: Input) {
        use solera_machine::Input as Of;

        match input {
            Input::Message { from, generation, message: Message::UniStore(message) } => {
                self.unistore.handle(now, Of::Message { from, generation, message });
                self.pass_on_members(now);
            }
            Input::Client { request, command: Command::UniStore(command) } => {
                self.unistore.handle(now, Of::Client { request, command });
            }
            // The sender's spaces differ from ours; links reject such a sender, but this message
            // came earlier.
            Input::Message { message: Message::Primary(_), .. } if self.primary.is_none() => {
                self.not_run.primary += 1;
            }
            Input::Message { message: Message::Occult(_), .. } if self.occult.is_none() => {
                self.not_run.occult += 1;
            }
            Input::Message { message: Message::Reservations(_), .. } if self.bounds.is_none() => {
                self.not_run.reservations += 1;
            }
            Input::Message { from, generation, message: Message::Creek(message) } => {
                self.not_run.creek += u64::from(self.creek.is_none());
                self.with_creek(|it| it.handle(now, Of::Message { from, generation, message }));
            }
            Input::Client { request, command: Command::Creek(command) } => {
                self.with_creek(|it| it.handle(now, Of::Client { request, command }));
            }
            Input::Message { from, generation, message: Message::Primary(message) } => {
                self.with_primary(|it| it.handle(now, Of::Message { from, generation, message }));
            }
            Input::Client { request, command: Command::Primary(command) } => {
                self.with_primary(|it| it.handle(now, Of::Client { request, command }));
            }
            Input::Message { from, generation, message: Message::Occult(message) } => {
                self.with_occult(now, |it| {
                    it.handle(now, Of::Message { from, generation, message })
                });
            }
            Input::Client { request, command: Command::Occult(command) } => {
                self.with_occult(now, |it| it.handle(now, Of::Client { request, command }));
            }
            Input::Message { from, generation, message: Message::Reservations(message) } => {
                self.with_bounds(now, |it| {
                    it.handle(now, Of::Message { from, generation, message })
                });
            }
            Input::Client { request, command: Command::Reservations(command) } => {
                self.with_bounds(now, |it| it.handle(now, Of::Client { request, command }));
            }
            Input::Message { from, generation, message: Message::Trial(message) } => {
                self.not_run.trial += u64::from(self.trial.is_none());
                self.with_trial(now, |it| {
                    it.handle(now, Of::Message { from, generation, message })
                });
            }
            Input::Client { request, command: Command::Trial(command) } => {
                self.with_trial(now, |it| it.handle(now, Of::Client { request, command }));
            }
            Input::Done { job, result } => self.finish_job(now, job, result),
            Input::Cancel { request } => {
                self.unistore.handle(now, Of::Cancel { request });
                self.with_primary(|it| it.handle(now, Of::Cancel { request }));
                self.with_occult(now, |it| it.handle(now, Of::Cancel { request }));
                self.with_bounds(now, |it| it.handle(now, Of::Cancel { request }));
                self.with_creek(|it| it.handle(now, Of::Cancel { request }));
                self.with_trial(now, |it| it.handle(now, Of::Cancel { request }));
            }
            Input::Answered { answer, .. } => match answer {},
        }
        self.settle(now);
    }

    /// Only UniStore holds messages back: `primary` has at most a window of updates in transit to a
    /// site, and a link that is full loses batches of `occult`, which replicas then request again.
    fn hold_back(&mut self, full: Vec<Address>) {
        self.unistore.hold_back(full);
    }

    fn on_deadline(&mut self, now: Now) {
        self.unistore.on_deadline(now);
        self.pass_on_members(now);
        self.with_primary(|primary| primary.on_deadline(now));
        self.with_occult(now, |occult| occult.on_deadline(now));
        let beat = self.bounds.as_ref().is_some_and(|it| it.machine.is_tick_due(now.monotonic));
        self.feed_bounds(now, beat);
        self.with_bounds(now, |it| it.on_deadline(now));
        self.with_creek(|it| it.on_deadline(now));
        self.settle(now);
    }

    #[inline]
    fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        while let Some(output) = self.unistore.poll_output() {
            if let Some(output) = without_answers(output, &mut self.internal) {
                return Some(output);
            }
        }
        if let Some(output) = self.primary.as_mut().and_then(Primary::poll_output) {
            let Ok(output) = output.widen();
            return Some(output);
        }
        // A direct call asks nothing.
        self.occult.as_mut()?.poll_output()?.widen().ok()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        if self.internal.is_busy() {
            // A direct call has caused the waiting questions or answers.
            return Some(Monotonic(0));
        }
        let primary = self.primary.as_ref().and_then(Primary::next_deadline);
        let occult = self.occult.as_ref().and_then(Occult::next_deadline);
        let bounds = self.bounds.as_ref().and_then(|it| it.machine.next_deadline());
        let creek = self.creek.as_ref().and_then(Speculative::next_deadline);
        let others = primary.into_iter().chain(occult).chain(bounds).chain(creek);
        self.unistore.next_deadline().into_iter().chain(others).min()
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        assert!(self.outputs.is_empty(), "records are written before a part with their effects");
        if !Replica::is_complete(&checkpoint.unistore) {
            if let Some(part) = self.unistore.next_part(&mut checkpoint.unistore, keys) {
                return Some(Part::UniStore(part));
            }
            if !Replica::is_complete(&checkpoint.unistore) {
                return None;
            }
        }
        let primary = self.primary.as_ref();
        let part = primary.and_then(|it| it.next_part(&mut checkpoint.primary, keys));
        if let Some(part) = part {
            return Some(Part::Primary(part));
        }
        let occult = self.occult.as_ref();
        let part = occult.and_then(|it| it.next_part(&mut checkpoint.occult, keys));
        if let Some(part) = part {
            return Some(Part::Occult(part));
        }
        let bounds = self.bounds.as_ref();
        let part = bounds.and_then(|it| it.machine.next_part(&mut checkpoint.reservations, keys));
        if let Some(part) = part {
            return Some(Part::Reservations(part));
        }
        let creek = self.creek.as_ref();
        let part = creek.and_then(|it| it.next_part(&mut checkpoint.creek, keys));
        if let Some(part) = part {
            return Some(Part::Creek(part));
        }
        let trial = self.trial.as_ref();
        let part = trial.and_then(|it| it.next_part(&mut checkpoint.trial, keys));
        checkpoint.complete = part.is_none();
        part.map(Part::Trial)
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        checkpoint.complete
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        match part {
            Part::UniStore(part) => Replica::encode_part(part, bytes),
            Part::Primary(part) => part.encode(bytes),
            Part::Occult(part) => part.encode(bytes),
            Part::Reservations(part) => part.encode(bytes),
            Part::Creek(part) => Speculative::encode_part(part, bytes),
            Part::Trial(part) => Trial::encode_part(part, bytes),
        }
    }
}
