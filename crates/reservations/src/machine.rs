//! The machine of a worker: dispatch to partitions, the guard's promises, time, checkpoints.

mod checkpoint;
mod guard;
mod members;
mod spend;

use std::collections::BTreeMap;
use std::convert::Infallible;

use solera_machine::{Address, AskId, Machine, Now, PartitionId, PromiseId, RequestId};
use solera_membership::Members;
use solera_time::Monotonic;

pub use self::checkpoint::Checkpoint;
use self::checkpoint::next_part;
use self::guard::Reservation;
use crate::agreed::{Agreed, Key};
use crate::command::{Answer, Command, Response};
use crate::config::{Bound, Config, Rule};
use crate::counter::ReadKind;
use crate::counts::{Counts, Holdings};
use crate::message::{Body, Event, Input, Message, Output};
use crate::numbers::{Position, Version};
use crate::outbox::{Outbox, Step, Subject};
use crate::partition::Partition;
use crate::record::{Held, Part, Record};

/// The machine of one worker.
///
/// # Contract on time
/// The host reads the clock *after* it has received the input, and calls the machine with this
/// reading. Between the reading and the call, no other input changes the machine's state, except
/// inputs that the host had received before the reading as well. The host may sleep at any moment,
/// also between the reading and the call.
///
/// Answers then need no deadlines. An answer holds at the moment of the reading: the request had
/// arrived, the lease lasted, and the machine had the state from which it computes the answer. That
/// the answer leaves later makes no difference, because the moment lies between the beginning of
/// the request and its answer.
#[derive(Debug)]
pub struct Reservations {
    pub(crate) config: Config,
    pub(crate) partitions: BTreeMap<PartitionId, Partition>,
    pub(crate) promises: BTreeMap<PromiseId, Vec<Held>>,
    /// Tokens that transactions have taken before their promise. A restart forgets them.
    reservations: BTreeMap<PromiseId, Reservation>,
    pub(crate) members: Members,
    out: Outbox,
    next_tick: Option<Monotonic>,
    /// Whether a reader counts its lease anew at the first input. Used without `LeaseIsVolatile`
    /// alone.
    pub(crate) recovered: bool,
}

impl Reservations {
    /// Creates the machine of a worker that has nothing yet. All sites are readers.
    pub fn new(config: Config) -> Reservations {
        let mut worker = Reservations::empty(config);
        worker.note_members();
        worker.start();
        worker
    }

    /// Creates a machine whose process has not started.
    pub(crate) fn empty(config: Config) -> Reservations {
        let own = config.topology.owned_by(config.address);
        let partitions = own.map(|id| (id, Partition::new(id, &config))).collect();
        let (sites, me) = (config.sites(), config.me());
        Reservations {
            partitions,
            members: Members::at_start(sites, config.founders, me, config.generation),
            config,
            promises: BTreeMap::new(),
            reservations: BTreeMap::new(),
            out: Outbox::default(),
            next_tick: None,
            recovered: false,
        }
    }

    /// Starts the process.
    pub(crate) fn start(&mut self) {
        let incarnation = self.config.incarnation;
        let prefixes = self.config.prefixes();
        self.step(Monotonic(0)).1.record(&Record::Started { incarnation, prefixes });
    }

    /// Returns how much of all streams of a partition the machine has, by site.
    pub fn known(&self, partition: PartitionId) -> Option<&[Position]> {
        self.partitions.get(&partition).map(|partition| partition.known.as_slice())
    }

    /// Returns the version of the machine's copy of a partition's record.
    pub fn version(&self, partition: PartitionId) -> Option<Version> {
        self.partitions.get(&partition).map(|partition| partition.agreed.version)
    }

    /// Returns whether the machine has the state of a partition. A joining site has none until
    /// another one has sent it. The host then continues at [`known`](Self::known) and
    /// [`version`](Self::version); before, the machine ignores streams and versions.
    pub fn has_state(&self, partition: PartitionId) -> bool {
        self.partitions.get(&partition).is_some_and(|it| it.filling.is_filled())
    }

    /// Returns whether the host has said that its streams continue the state of a partition
    /// ([`Command::Continues`]). This is true of a partition that began without any data.
    pub fn continues(&self, partition: PartitionId) -> bool {
        self.partitions.get(&partition).is_some_and(|it| it.filling.continues())
    }

    /// Returns the sets with a bound of a partition.
    pub fn sets(&self, partition: PartitionId) -> impl Iterator<Item = &[u8]> {
        let keys = self.partitions.get(&partition).into_iter().flat_map(|it| it.counters.keys());
        let is_set = |key: &&Key| matches!(self.config.bound(key), Some(Bound::Size(_)));
        keys.filter(is_set).map(|key| &key[..])
    }

    /// Returns whether the site may answer intervals of a partition while its lease lasts (R3).
    pub fn is_ready(&self, partition: PartitionId) -> bool {
        let partition = self.partitions.get(&partition);
        partition.is_some_and(|partition| partition.is_ready(&self.config))
    }

    /// Returns the machine's copy of the record of a partition.
    pub fn agreed(&self, partition: PartitionId) -> Option<&Agreed> {
        self.partitions.get(&partition).map(|partition| &partition.agreed)
    }

    /// Returns the number of keys that the timer has looked after so far.
    pub fn visits(&self) -> u64 {
        self.partitions.values().map(|partition| partition.visits).sum()
    }

    /// Returns numbers of events since the process started, and what the site holds. The cost does
    /// not depend on the number of keys.
    pub fn counts(&self) -> Counts {
        let held = self.partitions.values().map(|partition| partition.holdings);
        Counts { held: held.fold(Holdings::default(), Holdings::plus), ..self.out.counts }
    }

    /// Returns what the site holds, by walking over all keys. Tests compare it with
    /// [`counts`](Self::counts).
    pub fn recounted_holdings(&self) -> Holdings {
        let all = self.partitions.values().map(|partition| partition.recounted(&self.config));
        all.fold(Holdings::default(), Holdings::plus)
    }

    /// Returns whether decrements of a key need rights. Increments of such a key reach the machine
    /// as [`Entry::Created`](crate::Entry::Created).
    pub fn has_rights(&self, key: &[u8]) -> bool {
        self.config.has_rights(key)
    }

    /// Returns whether a rule of the host is in force.
    pub fn keeps(&self, rule: Rule) -> bool {
        self.config.has(rule)
    }

    /// Returns whether the timer ticks at a reading of the clock. Other deadlines come earlier,
    /// when something cannot wait for the timer.
    pub fn is_tick_due(&self, now: Monotonic) -> bool {
        self.next_tick.is_none_or(|at| at <= now)
    }

    /// Returns the open promises.
    pub fn promises(&self) -> impl Iterator<Item = PromiseId> + '_ {
        self.promises.keys().copied()
    }

    fn step(&mut self, now: Monotonic) -> (&mut BTreeMap<PartitionId, Partition>, Step<'_>) {
        let step = Step { config: &self.config, now, out: &mut self.out };
        (&mut self.partitions, step)
    }

    fn on_command(&mut self, now: Monotonic, request: RequestId, command: Command) {
        if let Command::Guard(question) = command {
            return self.on_guard(now, request, question);
        }
        let id = match &command {
            Command::Stream { partition, .. }
            | Command::Changed { partition, .. }
            | Command::Unchanged { partition, .. }
            | Command::Remove { partition, .. }
            | Command::Continues { partition }
            | Command::Lacks { partition } => *partition,
            Command::Take { key, .. }
            | Command::GiveBack { key, .. }
            | Command::Holders { key, .. }
            | Command::Interval { key, .. } => self.config.partition_of(key),
            Command::Guard(_) => return,
        };
        let (partitions, mut step) = self.step(now);
        let Some(partition) = partitions.get_mut(&id) else { return };
        let step = &mut step;
        match command {
            Command::Stream { origin, after, entries, upto, .. } => {
                let position = partition.on_stream(step, origin, after, entries, upto);
                step.reply(request, Response::Position(position));
            }
            Command::Changed { previous, version, read, change, .. } => {
                let version = partition.on_changed(step, previous, version, (read, change));
                step.reply(request, Response::Version(version));
            }
            Command::Unchanged { upto, .. } => {
                let version = partition.on_unchanged(upto);
                step.reply(request, Response::Version(version));
            }
            Command::Remove { site, upto, .. } => {
                partition.remove(site, upto);
                step.reply(request, Response::Removing);
            }
            Command::Continues { .. } => {
                partition.continue_filled(step);
                step.reply(request, Response::Continues);
            }
            Command::Lacks { .. } => {
                partition.empty(step);
                step.reply(request, Response::Emptied);
            }
            Command::Take { key, amount, within } => {
                partition.on_take(step, request, (&key, amount), within);
            }
            Command::GiveBack { key, take } => {
                let given = partition.on_give_back(step, &key, take);
                step.reply(request, Response::GivenBack(given));
            }
            Command::Interval { key, within } => {
                partition.on_read(step, (request, ReadKind::Interval), &key, within);
            }
            Command::Holders { key, within } => {
                partition.on_read(step, (request, ReadKind::Holders), &key, within);
            }
            Command::Guard(_) => {}
        }
    }

    /// Drops messages of sites that leave, and of other generations: what they state holds for a
    /// process whose data is gone.
    fn on_message(&mut self, now: Monotonic, from: Address, generation: u32, message: Message) {
        if !self.listens_to(from.site, generation) {
            return;
        }
        let agreed = self.partitions.get(&message.partition).map(|it| &it.agreed);
        if matches!(message.body, Body::StateRequest { .. })
            && agreed.is_some_and(|agreed| !self.has_removed_former(from.site, agreed))
        {
            return;
        }
        let (partitions, mut step) = self.step(now);
        if let Some(partition) = partitions.get_mut(&message.partition) {
            partition.on_message(&mut step, from.site, message.body);
        }
    }

    fn on_answer(&mut self, now: Monotonic, ask: AskId, answer: &Answer) {
        let Some((partition, subject)) = self.out.close(ask) else { return };
        let (partitions, mut step) = self.step(now);
        let Some(partition) = partitions.get_mut(&partition) else { return };
        let version = match answer {
            Answer::Decided(version) => Some(*version),
            Answer::Unknown | Answer::Ended | Answer::NotGiven => None,
        };
        match &subject {
            Subject::Right | Subject::Exclusion => partition.right_answered(&subject, version),
            Subject::Key(key) => partition.key_answered(&mut step, key, version),
            Subject::End(key) => partition.end_answered(key),
            Subject::Gift(key, gift) if *answer == Answer::NotGiven => {
                partition.gift_refused(key, gift);
            }
            // The rights count as promised until the stream has the gift.
            Subject::Gift(..) => {}
        }
    }

    /// Does what cannot wait for the next tick of the timer.
    fn on_soon(&mut self, now: Monotonic) {
        for id in self.out.take_soon(now) {
            let (partitions, mut step) = self.step(now);
            if let Some(partition) = partitions.get_mut(&id) {
                partition.on_soon(&mut step);
            }
            self.settle(now);
        }
    }

    /// Begins the leases that recovered readers would have if a restart did not end them.
    fn begin(&mut self, now: Monotonic) {
        if std::mem::take(&mut self.recovered) && !self.config.has(Rule::LeaseIsVolatile) {
            let (partitions, step) = self.step(now);
            for partition in partitions.values_mut() {
                partition.count_lease_anew(&step);
            }
        }
    }
}

impl Machine for Reservations {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Job = Infallible;
    type Question = crate::command::Question;
    type Answer = Answer;
    type Part = Part;
    type Checkpoint = Checkpoint;

    fn handle(&mut self, now: Now, input: Input) {
        let now = now.monotonic;
        self.begin(now);
        match input {
            Input::Message { from, generation, message } => {
                self.on_message(now, from, generation, message);
            }
            Input::Client { request, command } => self.on_command(now, request, command),
            Input::Cancel { request } => {
                for partition in self.partitions.values_mut() {
                    partition.on_cancel(request);
                }
                self.cancel_reservation(now, request);
            }
            Input::Answered { ask, answer } => self.on_answer(now, ask, &answer),
            Input::Done { result, .. } => match result {},
        }
        self.settle(now);
        if std::mem::take(&mut self.out.woken) {
            self.next_tick = Some(now);
        }
    }

    fn on_deadline(&mut self, now: Now) {
        let now = now.monotonic;
        self.begin(now);
        self.on_soon(now);
        if !self.is_tick_due(now) {
            return;
        }
        let (partitions, mut step) = self.step(now);
        for partition in partitions.values_mut() {
            partition.on_tick(&mut step);
        }
        self.settle(now);
        self.out.woken = false;
        let timing = &self.config.timing;
        let awake = self.partitions.values().any(Partition::is_awake);
        let next = if awake { timing.tick } else { timing.report.max(timing.tick) };
        self.next_tick = Some(now.after(next));
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.out.pop()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let tick = self.next_tick.unwrap_or(Monotonic(0));
        Some(self.out.soon().map_or(tick, |soon| soon.min(tick)))
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        assert!(self.out.is_empty(), "outputs must be polled before a part of a checkpoint");
        next_part(self, checkpoint, keys)
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        checkpoint.is_complete()
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        part.encode(bytes);
    }
}
