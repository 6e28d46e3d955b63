//! The machine: dispatch of inputs, and timing.

mod barriers;
pub(crate) mod checkpoint;
mod complete;
mod coordinator;
mod demand;
mod hearing;
pub(crate) mod joining;
mod members;
mod participant;
mod replication;
mod scan;
mod single;
pub(crate) mod status;
pub(crate) mod strong;

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use solera_data::Dot;
use solera_machine::{Address, GuardAnswer, Machine, Now, PartitionId, RequestId};
use solera_membership::{Members, SiteStatus};
use solera_time::{HybridClock, Lane, Monotonic, Physical, Timestamp, Vector};

use self::barriers::Barriers;
use self::checkpoint::Checkpoint;
use self::complete::CompleteReads;
use self::coordinator::Coordinator;
use self::demand::Demand;
use self::joining::Joining;
use self::members::OtherProtocols;
use self::participant::Participant;
use self::status::Status;
use self::strong::Strong;
use crate::by_origin::ByOrigin;
use crate::command::{Command, Response};
use crate::config::{Config, Rule, StrongLimits};
use crate::dissemination::{Dissemination, NoChild};
use crate::failure_detector::FailureDetector;
use crate::heard::HeardOf;
use crate::keys::Held;
use crate::lacking::Lacking;
use crate::message::{Errand, Event, Input, Message, Output, SiteView, Subtree};
use crate::partition::Partition;
use crate::pasts::Pasts;
use crate::record::{Part, Promise};
use crate::transfer::Donor;
use crate::worker::{ACTIVE_FOR, ReplyTo, Worker};

/// The UniStore machine of one worker of a site.
///
/// Besides the interface of [`Machine`], it has [`Replica::execute`], a direct call for the hot
/// path of single operations. Both use the same code.
#[derive(Debug)]
pub struct Replica {
    pub(crate) worker: Worker,
    pub(crate) coordinator: Coordinator,
    pub(crate) participant: Participant,
    pub(crate) barriers: Barriers,
    pub(crate) complete: CompleteReads,
    pub(crate) strong: Strong,
    pub(crate) demand: Demand,
    pub(crate) donor: Donor,
    pub(crate) joining: Joining,
    /// Messages of other workers of a joining site that arrived before this worker learned that the
    /// site serves.
    early: Vec<(Address, Message)>,
    /// Covers the updates of this site's former generations that are not causally stable, and the
    /// strong transactions of the previous run that other sites may still commit.
    pub(crate) former_ceiling: Vector,
    /// Whether `former_ceiling` also covers the strong transactions of former generations that
    /// other sites may still commit.
    pub(crate) former_generations_covered: bool,
    /// Progress of the worker's other protocols, if there are any.
    pub(crate) others: Option<OtherProtocols>,
    /// Time when KNOWNVEC_GLOBAL was last sent.
    pub(crate) known_vec_sent: Monotonic,
    /// Time when unacknowledged forwarded ranges were last sent again.
    pub(crate) forwarded_again: Monotonic,
    /// Index of the owned partition whose updates are sent first, modulo the number of partitions.
    pub(crate) first_to_send: usize,
    /// Time of the last request for a gap, per owned partition and origin.
    pub(crate) gap_asked: Vec<ByOrigin<Option<Monotonic>>>,
    /// Times that workers of other sites have sent of their own histories.
    pub(crate) heard_of: HeardOf,
    /// Siblings that lack updates that they had stored before.
    pub(crate) lacking: Lacking,
    /// The last promise that was recorded, and the time of its record.
    pub(crate) promised: Promise,
    pub(crate) promised_at: Option<Monotonic>,
    last_tick: Option<Monotonic>,
    next_tick: Monotonic,
}

impl Replica {
    /// Creates a replica that stores nothing yet. `seed` only affects the placement of keys in hash
    /// tables.
    pub fn new(config: Config, seed: u64) -> Self {
        let me = config.address.site;
        let sites = config.topology.sites();
        let partitions: Vec<_> = config
            .topology
            .owned_by(config.address)
            .map(|id| {
                let mut partition = Partition::new(id, me, sites, seed);
                partition.filled = config.generation == 0;
                let reads = config.guarded_keys.is_some();
                partition.read = reads.then(|| Vector::zero(sites));
                partition
            })
            .collect();
        Replica {
            coordinator: Coordinator::new(config.address.worker, config.first_transaction),
            participant: Participant::new(sites),
            barriers: Barriers::default(),
            complete: CompleteReads::new(config.first_transaction),
            strong: Strong::new(&config),
            demand: Demand::new(sites),
            donor: Donor::default(),
            joining: Joining::new(Vector::zero(sites)),
            early: Vec::new(),
            former_ceiling: Vector::zero(sites),
            former_generations_covered: config.generation == 0,
            others: None,
            known_vec_sent: Monotonic(0),
            forwarded_again: Monotonic(0),
            first_to_send: 0,
            gap_asked: vec![ByOrigin::default(); partitions.len()],
            heard_of: HeardOf::default(),
            lacking: Lacking::default(),
            promised: Promise {
                floor: Vector::zero(sites),
                known_vec: Vector::zero(sites),
                uniform_vec: Vector::zero(sites),
                clock: Timestamp::ZERO,
                starts: 0,
            },
            promised_at: None,
            last_tick: None,
            next_tick: Monotonic(0),
            worker: Worker {
                me,
                clock: HybridClock::new(Lane(config.address.worker)),
                dissemination: Dissemination::new(&config),
                detector: FailureDetector::new(me, sites, config.timing.suspect_after),
                held_back: Vec::new(),
                ignored: 0,
                outputs: VecDeque::new(),
                loopback: VecDeque::new(),
                last_activity: Monotonic(0),
                partitions,
                config,
            },
        }
    }

    /// Begins a run of the replica at this time. Returns two times. The first is the greatest time
    /// that a former run may have sent to others, or `Timestamp::ZERO` if there was none. The
    /// second is a lower bound of all times that this run sends. A time between the two that others
    /// have received comes from a run that this replica has forgotten.
    pub fn begin_run(&mut self, physical: Physical) -> (Timestamp, Timestamp) {
        (self.worker.clock.last(), self.worker.clock.read(physical))
    }

    /// Returns the siblings at other sites that were found, since the last call, to lack updates
    /// that they had stored before. No site can send these updates again.
    pub fn take_lacking(&mut self) -> BTreeSet<Address> {
        self.lacking.take()
    }

    /// Returns the address of the worker that runs this replica.
    pub fn address(&self) -> Address {
        self.worker.config.address
    }

    /// Returns the number of keys of this worker that exist for a client without a past.
    pub fn count_keys(&mut self, now: Now) -> usize {
        let nothing = Vector::zero(self.worker.config.topology.sites());
        let snap_vec = self.worker.start_snapshot(now, &nothing);
        self.worker.partitions.iter().map(|partition| partition.keys_within(&snap_vec)).sum()
    }

    /// Sets the idle timeout and the largest age of open transactions.
    pub fn limit_transactions(&mut self, idle: Duration, age: Duration) {
        let timing = &mut self.worker.config.timing;
        (timing.idle_transaction_timeout, timing.max_transaction_age) = (idle, age);
    }

    /// Sets the limits of strong transactions.
    pub fn limit_strong(&mut self, limits: StrongLimits) {
        self.worker.config.strong_limits = limits;
    }

    /// Sets how far strong times of other sites may be ahead of this worker's clock.
    pub fn limit_times_ahead(&mut self, limit: Duration) {
        self.strong.service.limit_times_ahead(limit);
    }

    /// Returns the current size of this worker's data, and the largest since the last call, in
    /// constant time.
    pub fn take_held(&mut self) -> Held {
        self.worker.partitions.iter_mut().map(Partition::take_held).fold(Held::default(), Held::and)
    }

    /// Returns the replica's state for status reports and for the simulator's assertions.
    pub fn status(&self) -> Status<'_> {
        Status { replica: self }
    }

    /// Returns the worker of this site that owns `key`.
    pub fn owner_of(&self, key: &[u8]) -> Address {
        self.worker.config.topology.owner(self.worker.me, self.worker.partition_of(key))
    }

    /// Returns whether all outputs were taken.
    pub(crate) fn has_no_outputs(&self) -> bool {
        self.worker.outputs.is_empty()
    }

    fn trace_snapshot(&mut self, reply_to: ReplyTo, snap_vec: &Vector, eventual: bool) {
        if !self.worker.config.trace {
            return;
        }
        if let Some(cause) = self.worker.cause_of(reply_to) {
            self.worker.trace(|| Event::Snapshot { cause, snap_vec: *snap_vec, eventual });
        }
    }

    fn trace_commit(
        &mut self,
        reply_to: ReplyTo,
        dot: Dot,
        snap_vec: &Vector,
        partition: PartitionId,
        eventual: bool,
    ) {
        if !self.worker.config.trace {
            return;
        }
        let cause = self.worker.cause_of(reply_to);
        let (snap_vec, partitions) = (*snap_vec, vec![partition]);
        self.worker.trace(|| Event::Committed { cause, dot, snap_vec, partitions, eventual });
    }

    fn on_command(&mut self, now: Now, request: RequestId, command: Command) {
        match command {
            Command::Execute { past, level, key, op } => {
                let mut pasts = Pasts::causal(past);
                if let Some(outcome) = self.execute(now, request, &mut pasts, level, &key, &op) {
                    self.worker.reply(request, Response::Executed { outcome, pasts });
                }
            }
            Command::ExecuteStrong { past, key, op, kind } => {
                self.execute_strong(now, request, past, key, op, kind, false);
            }
            Command::ReadStrong { past, key, op, kind } => {
                self.execute_strong(now, request, past, key, op, kind, true);
            }
            Command::ReadComplete { past, key, op } => {
                self.read_complete(now, request, past, key, op);
            }
            Command::Begin { past, strong } => {
                let tx = self.begin(now, &past, strong);
                self.worker.reply(request, Response::Begun(tx));
            }
            Command::Operate { tx, level, key, op, kind } => {
                if let Some(response) = self.operate(now, request, tx, level, &key, &op, kind) {
                    self.worker.reply(request, response);
                }
            }
            Command::Commit { tx, claim } => self.commit(now, request, tx, claim),
            Command::Certify { tx, claim } => self.certify(now, request, tx, claim),
            Command::Name { tx } => self.name(now, request, tx),
            Command::Abort { tx } => self.abort(tx),
            Command::Barrier { pasts, timeout } => self.barrier(now, request, pasts, timeout),
            Command::Attach { pasts, timeout } => self.attach(now, request, pasts, timeout),
            Command::Outcome { tid } => self.find_outcome(now, request, tid),
            Command::Guard { tx, guards } => self.guard(now, request, tx, guards),
            Command::ExecuteGuarded(it) => self.execute_guarded(now, request, *it),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per message")]
    fn on_message(&mut self, now: Now, from: Address, message: Message) {
        if self.comes_early(&message) {
            self.early.push((from, message));
            return;
        }
        match message {
            Message::Execute { request, past, level, key, op } => {
                let to = ReplyTo::Peer(from, request);
                self.execute_for_peer(now, to, past, level, key, op);
            }
            Message::ExecuteReply { request, response } => {
                self.on_execute_reply(now, request, response);
            }
            Message::GetVersion { tx, request, snap_vec, level, key, op, own } => {
                self.on_get_version(now, from, tx, request, snap_vec, level, key, op, own);
            }
            Message::Version { tx, request, level, key, executed } => {
                self.on_version(now, tx, request, level, &key, executed);
            }
            Message::Prepare { tx, snap_vec, writes, eventual } => {
                self.on_prepare(now, from, tx, snap_vec, writes, eventual);
            }
            Message::PrepareAck { tx, ts } => self.on_prepare_ack(now, from, tx, ts),
            Message::Commit { tx, ts } => self.on_commit(now, from, tx, ts),
            Message::Abort { tx } => self.on_abort(now, from, tx),
            Message::Resolved { tx, until } => self.on_resolved(from, tx, &until),
            Message::Undecided { tx } => self.on_undecided(from, tx),
            Message::Up(subtree) => self.on_up(from, subtree),
            Message::Down(view, members) => self.on_down(now, view, &members),
            Message::Replicate(ranges) => self.on_replicate(now, from, ranges),
            Message::Gap { partition, origin, known } => {
                self.on_gap(now, from, (partition, origin, known));
            }
            Message::KnownVecGlobal { known_vecs, suspects, members, voted } => {
                self.on_known_vec_global(from.site, known_vecs, suspects, &members, voted);
            }
            Message::StableVec { stable_vec, floor, ceiling, members, settled } => {
                let before = self.worker.dissemination.view.uniform_vec;
                self.worker.dissemination.on_stable_vec(
                    from.site,
                    &stable_vec,
                    ceiling,
                    floor,
                    (members, settled),
                );
                self.demand.note_progress(&before, &self.worker.dissemination.view.uniform_vec);
            }
            Message::ForwardRanges(ranges) => self.on_forward_ranges(now, from, ranges),
            Message::AskOutcome { request, tid } => {
                let committed = self.outcome(tid);
                self.worker.send(from, Message::OutcomeIs { request, committed });
            }
            Message::OutcomeIs { request, committed } => {
                self.on_outcome(from, request, committed);
            }
            Message::Certification(message) => self.on_certification(now, from, *message),
            Message::Fetch(fetch) => self.donor.on_fetch(&mut self.worker, now, from, fetch),
            Message::Filling(filling) => self.on_filling(now, from, filling),
            Message::NotKept { partition, attempt } => {
                self.joining.on_not_kept(&mut self.worker, now, from, partition, attempt);
            }
            Message::Wanted { upto, clock, strong_clock, afar } => {
                self.on_wanted(now, from, &upto, clock, strong_clock, afar);
            }
            Message::PrepareGuarded(prepare) => self.on_prepare_guarded(now, from, *prepare),
            Message::GuardRefused { tx, refusal } => {
                self.on_guard_refused(now, from, tx, refusal);
            }
            Message::GuardLater(later) => self.on_guard_later(now, from, *later),
            Message::AskChanges { request, round, key, since } => {
                self.on_ask_changes(now, from, (request, round), key, since);
            }
            Message::Changes { request, round, later, members } => {
                self.on_changes(now, from.site, (request, round), later.as_ref(), &members);
            }
        }
    }

    /// Returns whether a message must wait until this worker serves, because its data is not
    /// complete yet. The workers of a joining site learn one after another that the site's data is
    /// complete. Clients of a worker that has learned it may need keys of a worker that has not.
    fn comes_early(&self, message: &Message) -> bool {
        let waits = !self.worker.dissemination.view.serving || !self.early.is_empty();
        waits
            && match message {
                Message::Execute { .. }
                | Message::GetVersion { .. }
                | Message::Prepare { .. }
                | Message::PrepareGuarded(_) => true,
                Message::Abort { tx } => self.early.iter().any(|(_, early)| match early {
                    Message::Prepare { tx: other, .. } => other == tx,
                    Message::PrepareGuarded(prepare) => prepare.tx == *tx,
                    _ => false,
                }),
                _ => false,
            }
    }

    fn take_early(&mut self, now: Now) {
        if self.worker.dissemination.view.serving {
            for (from, message) in std::mem::take(&mut self.early) {
                self.on_message(now, from, message);
            }
        }
    }

    fn drain_loopback(&mut self, now: Now) {
        while let Some(message) = self.worker.loopback.pop_front() {
            self.on_message(now, self.worker.config.address, message);
        }
    }

    /// Handles KNOWNVEC_LOCAL of a child. If the child reports progress for which a request waits,
    /// this worker reports at once, too.
    fn on_up(&mut self, from: Address, subtree: Subtree) {
        let known_vec = subtree.known_vec;
        match self.worker.dissemination.on_up(from, subtree) {
            Ok(None) => {}
            Ok(Some(before)) => self.demand.note_progress(&before.known_vec, &known_vec),
            Err(NoChild) => self.worker.ignored += 1,
        }
    }

    fn on_down(&mut self, now: Now, view: SiteView, members: &Members) {
        if !self.may_fold(&view) {
            self.worker.ignored += 1;
            return;
        }
        self.learn_members(now, members);
        let SiteView { stable_vec, uniform_vec, .. } = self.worker.dissemination.view;
        self.worker.dissemination.on_down(view);
        let view = &self.worker.dissemination.view;
        self.demand.note_progress(&stable_vec, &view.stable_vec);
        self.demand.note_progress(&uniform_vec, &view.uniform_vec);
        self.send_down();
    }

    /// Executes all periodic work.
    fn tick(&mut self, now: Now) {
        self.detect_pause(now);
        self.worker.detector.on_tick(now.monotonic);
        self.expire_transactions(now);
        self.ask_for_decisions(now);
        self.repeat_decisions(now);
        self.resend_outcomes();
        self.give_up_confirmations(now);
        self.joining.fill(&mut self.worker, now);
        self.donor.hand_over_more(&mut self.worker, now);
        self.ask_for_progress(now);
        self.complete_on_demand(now);
        self.advance_known_vec(now);
        self.keep_promises(now);
        self.broadcast_vecs(now);
        self.take_early(now);
        self.tick_strong(now);
        self.give_up_parked(now);
        self.propagate(now);
        self.collect();
        self.check_barriers(now);
        self.check_complete_reads(now);
        self.drain_loopback(now);
    }

    /// Returns the time until the next regular tick.
    fn tick_interval(&mut self, now: Now) -> Duration {
        let timing = &self.worker.config.timing;
        let waiting = !self.barriers.is_empty()
            || !self.complete.is_empty()
            || !self.participant.is_idle()
            || !self.worker.is_filled();
        let unserved = self.was_asked(now, ACTIVE_FOR)
            && self.demand.exceeds(&self.worker.dissemination.view.uniform_vec);
        if self.worker.is_active(now) || unserved || waiting {
            return timing.tick;
        }
        let active = now.monotonic.since(self.worker.last_activity) < timing.quiet_after
            || self.was_asked(now, timing.quiet_after);
        let members = &self.worker.dissemination.members;
        let changing = [SiteStatus::Leaving, SiteStatus::Joining]
            .iter()
            .any(|status| members.which(*status).next().is_some());
        let suspects = members.members().any(|site| self.worker.detector.suspects(site));
        let certifies = !self.strong.service.is_idle();
        if active || changing || suspects || certifies || !self.former_generations_covered {
            return timing.idle_tick;
        }
        let quiet_tick = timing.quiet_tick;
        self.demand.give_up();
        quiet_tick
    }

    /// Clears all suspicions if this host was stopped for a while, because the replica could not
    /// receive messages during that time.
    fn detect_pause(&mut self, now: Now) {
        let paused = self.last_tick.is_none_or(|last| {
            now.monotonic.since(last) >= self.worker.config.timing.suspect_after / 2
        });
        if paused {
            self.worker.detector.clear_suspicions(now.monotonic);
        }
        self.last_tick = Some(now.monotonic);
    }

    /// Returns the meet of `future` with the snapshots of all running transactions and transfers.
    pub(crate) fn floor(&self, future: Vector) -> Vector {
        let floor = self.complete.floor(self.strong.floor(self.coordinator.floor(future)));
        if self.worker.config.keeps(Rule::DonorHoldsSnapshot) {
            self.donor.floor(floor)
        } else {
            floor
        }
    }

    /// Returns whether the floor in a message of the tree is below every live snapshot here. The
    /// site's root has to ensure that.
    fn may_fold(&self, view: &SiteView) -> bool {
        let mut future = self.worker.dissemination.view.uniform_vec;
        future.join(&view.uniform_vec);
        let future = future.with(self.worker.me, self.worker.clock.last());
        self.floor(future).covers(&view.floor)
    }

    /// Folds updates that no snapshot needs separately any more, and forgets those that are
    /// causally stable.
    fn collect(&mut self) {
        let view = &self.worker.dissemination.view;
        let future = view.uniform_vec.with(self.worker.me, self.worker.clock.last());
        assert!(self.floor(future).covers(&view.floor), "a live snapshot is below what is folded");
        for partition in &mut self.worker.partitions {
            partition.collect(&view.floor, &view.settled_vec);
        }
    }
}

impl Machine for Replica {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Job = Infallible;
    type Question = Errand;
    type Answer = GuardAnswer;
    type Part = Part;
    type Checkpoint = Checkpoint;

    fn handle(&mut self, now: Now, input: Input) {
        self.begin_certification(now);
        match input {
            Input::Message { from, generation, message } => {
                if from.site != self.worker.me {
                    if !self.admits(now, from, generation, &message) {
                        self.worker.ignored += 1;
                        return;
                    }
                    self.worker.detector.heard(from.site, now.monotonic);
                }
                self.on_message(now, from, message);
            }
            Input::Client { request, command } => self.on_command(now, request, command),
            // Only these requests can be cancelled. All other commands are executed and answered
            // nevertheless, at the latest when their transaction times out.
            Input::Cancel { request } => {
                self.cancel_strong(request);
                self.participant.cancel(request);
                self.complete.cancel(request);
                self.cancel_guarded(now, request);
            }
            Input::Answered { ask, answer } => self.on_guard_answer(now, ask, answer),
        }
        self.drain_loopback(now);
    }

    /// Sends no updates and no heartbeats to these workers of other sites until the next call.
    /// Later it sends them what they have missed, without a request.
    fn hold_back(&mut self, full: Vec<Address>) {
        self.worker.held_back = full;
    }

    fn on_deadline(&mut self, now: Now) {
        self.begin_certification(now);
        if self.next_deadline().is_some_and(|deadline| now.monotonic >= deadline) {
            self.demand.on_tick(now.monotonic, self.worker.config.timing.tick);
            self.tick(now);
            self.next_tick = now.monotonic.after(self.tick_interval(now));
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.worker.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let soon = self.worker.last_activity.after(self.worker.config.timing.tick);
        let active = self.last_tick.is_none_or(|last| self.worker.last_activity > last);
        let regular = if active { self.next_tick.min(soon) } else { self.next_tick };
        let at_once = self.demand.deadline(self.worker.config.timing.tick);
        Some(at_once.map_or(regular, |at_once| at_once.min(regular)))
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        self.part_of(checkpoint, keys)
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        checkpoint.is_complete()
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        part.encode(bytes);
    }
}
