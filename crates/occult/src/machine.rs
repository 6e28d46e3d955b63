//! The machine of one worker: homes, replicas, and the transactions of its clients.

mod barriers;
mod checkpoint;
mod direct;
pub(crate) mod moving;
mod snapshots;
mod upkeep;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use solera_machine::{Address, Machine, Now, Records, RequestId};
use solera_membership::{Members, Participant, SiteStatus};
use solera_time::{Monotonic, SiteId};

use self::barriers::Waiting;
pub use self::checkpoint::Checkpoint;
use self::moving::Moving;
use self::upkeep::Upkeep;
use crate::command::{Command, Response};
use crate::config::{Config, Rule, Shows};
use crate::gateway::{self, Gateway};
use crate::home::{self, Home};
use crate::message::{Answer, Body, Entry, Event, Input, Message, Output, Question, Read};
use crate::outbox::{Out, Outbox};
use crate::passed::Passed;
use crate::rare;
use crate::record::{Part, Record};
use crate::replica::{self, Replica};
use crate::shard::{Homes, Move, ShardId};
use crate::store::Store;

/// The machine of one worker.
#[derive(Debug)]
pub struct Occult {
    pub(crate) config: Config,
    pub(crate) homes: Homes,
    pub(crate) members: Members,
    /// The workers of other sites that have replicas of this worker's shards.
    targets: Vec<Address>,
    /// The sites other than this one that store all data.
    others: Vec<SiteId>,
    pub(crate) store: Store,
    home: Home,
    pub(crate) replica: Replica,
    /// Entries of a checkpoint that follow its values, while it is restored.
    pub(crate) restored: Vec<Entry>,
    gateway: Gateway,
    pub(crate) passed: Passed,
    upkeep: Upkeep,
    moving: Moving,
    waiting: Vec<Waiting>,
    pub(crate) out: Outbox,
    outputs: VecDeque<Output>,
    next_tick: Option<Monotonic>,
    /// See [`Occult::ignored`].
    ignored: u64,
}

impl Occult {
    /// Creates the machine of a worker that stores nothing yet and knows these sites.
    pub fn new(config: Config, members: &Members) -> Occult {
        let mut worker = Occult::empty(config, members);
        worker.start();
        worker
    }

    /// Creates a machine whose process has not started.
    pub(crate) fn empty(config: Config, members: &Members) -> Occult {
        let config = config.with_generation_in_incarnation();
        let homes = config.first_homes();
        let mut worker = Occult {
            store: Store::new(config.scheme),
            home: Home::new(config.incarnation),
            replica: Replica::default(),
            restored: Vec::new(),
            gateway: Gateway::new(&config),
            members: members.clone(),
            targets: Vec::new(),
            others: Vec::new(),
            passed: Passed::default(),
            upkeep: Upkeep::default(),
            moving: Moving::new(config.generation == 0),
            waiting: Vec::new(),
            out: Outbox::default(),
            outputs: VecDeque::new(),
            next_tick: Some(Monotonic(0)),
            ignored: 0,
            config,
            homes,
        };
        worker.find_targets();
        worker
    }

    /// Continues as the process with this incarnation.
    pub(crate) fn restart_as(&mut self, incarnation: u64) {
        self.config.incarnation = incarnation;
        self.gateway = Gateway::new(&self.config);
        self.home.start_at(incarnation);
    }

    /// Records the start of the process.
    pub(crate) fn start(&mut self) {
        self.record(Record::Started(self.config.incarnation));
        if let Some(record) = self.config.home_of_record() {
            self.record(record);
        }
    }

    pub(crate) fn record(&mut self, record: Record) {
        if self.config.journal {
            let mut records = Records::default();
            records.push_with(|bytes| record.encode(bytes));
            self.outputs.push_back(Output::Records(records));
        }
    }

    /// Finds the replicas of this worker's shards at the present sites.
    pub(crate) fn find_targets(&mut self) {
        let me = self.config.address.site;
        self.others = self.members.members_and_joining().filter(|site| *site != me).collect();
        let siblings = self.others.iter().flat_map(|site| self.config.siblings(*site));
        self.targets = siblings.collect();
    }

    /// Forgets what homes keep for sites that have been removed.
    pub(crate) fn forget_gone(&mut self, now: Now) {
        for site in SiteId::all(self.members.sites()) {
            if self.members.status(site) == SiteStatus::Gone {
                self.home.stop_waiting_for(site);
                self.home.forget_clients_of(site);
                self.with_gateway(now, |it, context| it.on_gone(context, site));
            }
        }
    }

    /// Returns the homes at other sites of this worker's shards.
    pub(crate) fn homes_elsewhere(&self) -> impl Iterator<Item = Address> + '_ {
        let sites = self.homes.sites().filter(|site| *site != self.config.address.site);
        sites.flat_map(|site| self.config.siblings(site))
    }

    /// Returns the list of sites that the worker uses.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the homes of shards.
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the number of prepared transactions, of records of ended ones, and of writes that
    /// are committed but not shown yet.
    pub fn unfinished(&self) -> (usize, usize, usize) {
        let (prepared, records) = self.home.unfinished();
        (prepared, records, self.store.hidden())
    }

    /// Returns the number of writes that have arrived at replicas here and are not shown.
    pub fn held(&self) -> usize {
        self.replica.held()
    }

    /// Returns the number of open transactions of this worker's clients.
    pub fn open(&self) -> usize {
        self.gateway.open()
    }

    /// Returns the number of keys that have a value here.
    pub fn keys(&self) -> usize {
        self.store.keys()
    }

    /// Returns the approximate size of the data here in bytes, and the largest size since the last
    /// call.
    pub fn take_held(&mut self) -> (usize, usize) {
        self.store.take_held()
    }

    /// Returns the number of messages that were dropped since the start, because no correct worker
    /// sends them or they came too late.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Sends new entries to replicas, and handles this worker's messages to itself.
    fn finish(&mut self, now: Now) {
        let publish = self.publish_interval(now.monotonic);
        self.with_home(now, |home, context| home.stream(context, publish));
        loop {
            let mut own = Vec::new();
            while let Some(out) = self.out.pop() {
                match out {
                    Out::Record(record) => self.record(*record),
                    Out::Send(to, body) if to == self.config.address => own.push(body),
                    Out::Send(to, body) => {
                        let message = Message { epoch: self.homes.epoch(), body };
                        self.outputs.push_back(Output::Send { to, message });
                    }
                    Out::Reply(request, response) => {
                        self.outputs.push_back(Output::Reply { request, response, last: true });
                    }
                    Out::Trace(event) => self.outputs.push_back(Output::Trace(event)),
                }
            }
            if own.is_empty() {
                break;
            }
            for body in own {
                let message = Message { epoch: self.homes.epoch(), body };
                self.dispatch(now, self.config.address, message);
            }
            self.with_home(now, |home, context| home.stream(context, publish));
        }
        self.arm(now);
    }

    pub(crate) fn with_home(
        &mut self,
        now: Now,
        action: impl FnOnce(&mut Home, &mut home::Context<'_>),
    ) {
        let mut context = home::Context {
            config: &self.config,
            homes: &self.homes,
            store: &mut self.store,
            out: &mut self.out,
            now,
            targets: &self.targets,
            others: &self.others,
            passed: &self.passed,
            decisions: self.replica.decisions(),
        };
        action(&mut self.home, &mut context);
    }

    fn with_replica(
        &mut self,
        now: Now,
        action: impl FnOnce(&mut Replica, &mut replica::Context<'_>),
    ) {
        let mut context = replica::Context {
            config: &self.config,
            store: &mut self.store,
            out: &mut self.out,
            now: now.monotonic,
            passed: &self.passed,
            homes: &self.homes,
        };
        action(&mut self.replica, &mut context);
    }

    fn with_gateway(
        &mut self,
        now: Now,
        action: impl FnOnce(&mut Gateway, &mut gateway::Context<'_>),
    ) {
        let mut context = gateway::Context {
            config: &self.config,
            homes: &self.homes,
            out: &mut self.out,
            now,
            passed: &self.passed,
        };
        action(&mut self.gateway, &mut context);
    }

    #[expect(clippy::too_many_lines, reason = "one arm per message")]
    fn dispatch(&mut self, now: Now, from: Address, message: Message) {
        let Message { epoch, body } = message;
        match body {
            Body::Read(read) => self.on_read(now, from, read),
            Body::ReadAnswer(answer) => {
                self.with_gateway(now, |it, context| it.on_read_answer(context, answer, epoch));
            }
            Body::Prepare(prepare) => {
                self.with_home(now, |it, context| it.on_prepare(context, from, prepare));
            }
            Body::Prepared(tid, assigned, overwritten) => self.with_gateway(now, |it, context| {
                it.on_prepared(context, from, tid, (assigned, overwritten));
            }),
            Body::Locked(tid, key) => {
                self.with_gateway(now, |it, context| it.on_locked(context, from, tid, key));
            }
            Body::Abort(tid) => self.with_home(now, |it, context| it.on_abort(context, tid)),
            Body::Commit(tid, commit, participants) => self.with_home(now, |it, context| {
                it.on_commit(context, from, (tid, commit), participants);
            }),
            Body::Outcome(tid, committed) => {
                self.with_gateway(now, |it, context| it.on_outcome(context, tid, committed));
            }
            Body::Decided(tid, decision) => {
                self.with_home(now, |it, context| {
                    it.on_decided(context, (from, epoch), tid, &decision)
                });
                self.with_gateway(now, |it, context| it.on_decided(context, tid, &decision));
            }
            Body::Applied(tid) => {
                self.with_home(now, |it, context| it.on_applied(context, from, tid));
            }
            Body::Query(tid) => {
                self.with_home(now, |it, context| it.on_query(context, from, tid));
            }
            Body::Resolve(tid) => {
                self.with_home(now, |it, context| it.on_resolve(context, (from, epoch), tid));
            }
            Body::Execute(execute) => {
                self.with_home(now, |it, context| it.on_execute(context, from, execute));
            }
            Body::Executed(tid, attempt, executed) => {
                self.with_gateway(now, |it, context| {
                    it.on_executed(context, tid, (attempt, executed));
                });
            }
            Body::Oldest(client, oldest) => self.home.on_oldest(client, oldest),
            Body::Batch(batch) => {
                self.with_replica(now, |it, context| it.on_batch(context, from, batch));
            }
            Body::Stored(stored) => {
                self.with_home(now, |it, context| it.on_stored(context, from, stored, epoch));
            }
            Body::Wanted => self.with_home(now, |it, context| it.on_wanted(context, from)),
            Body::CopyRequest(request) => {
                self.with_home(now, |it, context| {
                    it.on_copy_request(context, from, request, epoch);
                });
            }
            Body::Copies(copies) => {
                self.with_replica(now, |it, context| it.on_copies(context, from, copies));
            }
            Body::Passed(report, active) => {
                self.on_passed(now, from, (report, epoch), active);
            }
            Body::Moved(tid) => self.with_gateway(now, |it, context| it.on_moved(context, tid)),
            Body::Table(table) => self.learn(now, *table),
            Body::TableRequest => {
                if self.moving.knows_table() {
                    let table = Box::new(self.table());
                    self.out.send(from, Body::Table(table));
                }
            }
            Body::HandoverRequest(request) => self.on_handover_request(now, from, request),
            Body::Handover(handover) => self.on_handover(now, from, handover),
            Body::ResolveMoved(tid, shard) => {
                self.with_home(now, |it, context| it.on_resolve_moved(context, from, (tid, shard)));
            }
            Body::ClockRequest(incarnation) => {
                self.out.send(from, Body::Clock(incarnation, self.home.clock()));
            }
            Body::Clock(incarnation, clock) => self.on_clock(from, incarnation, clock),
            Body::DependencyCheck(check) => {
                self.with_replica(now, |it, context| it.on_check(context, from, check));
            }
            Body::Askable(upto, tids) => {
                self.replica.forget_decisions(from, (upto, tids), &self.homes)
            }
            Body::DependenciesShown(number, shard) => self.with_replica(now, |it, context| {
                it.on_dependencies_shown(context, from, (number, shard));
            }),
        }
    }

    fn on_read(&mut self, now: Now, from: Address, read: Read) {
        let shard = self.config.shard_of(&read.key);
        let site = self.homes.home(shard);
        if site == self.config.address.site {
            return self.with_home(now, |it, context| it.on_read(context, from, read));
        }
        let home = self.config.owner(site, shard);
        self.with_replica(now, |it, context| it.on_read(context, (from, home), read));
    }

    fn on_command(&mut self, now: Now, request: RequestId, command: Command) {
        self.note_use(now.monotonic);
        match command {
            Command::Barrier { past, sites } => {
                let deadline = now.monotonic.after(self.config.timing.timeout);
                self.on_barrier(now, Waiting { request, past, sites, deadline });
            }
            Command::Move(next) => self.on_move(request, next),
            Command::Unstored { past, sites } => {
                let homes = self.unstored_homes(&past, sites);
                self.out.reply(request, Response::Unstored(homes));
            }
            Command::Moves => self.on_moves(request),
            Command::Outcome { incarnation, number } => {
                let fate = self.gateway.fate(incarnation, number);
                self.out.reply(request, Response::Outcome(fate));
            }
            Command::Snapshot(step) => {
                let answer = self.on_snapshot(now, step);
                self.out.reply(request, Response::Snapshot(answer));
            }
            Command::Slow { shard, delay_ms } => {
                let slowed = self.slow_down(now, shard, Duration::from_millis(delay_ms));
                self.out.reply(request, Response::Slowed(slowed));
            }
            Command::Horizon => {
                let shown = self.shown_everywhere();
                self.out.reply(request, Response::Shown(shown));
            }
            command => {
                self.with_gateway(now, |it, context| it.on_command(context, request, command));
            }
        }
    }

    /// Shows the writes of a shard here with a delay. Returns whether this worker has a replica of
    /// the shard.
    fn slow_down(&mut self, now: Now, shard: ShardId, delay: Duration) -> bool {
        if !self.config.is_mine(shard) {
            return false;
        }
        let site = self.homes.home(shard);
        let home = self.config.owner(site, shard);
        let is_replica = site != self.config.address.site;
        if is_replica || delay.is_zero() {
            self.with_replica(now, |it, context| it.slow_down(context, (home, shard), delay));
        }
        is_replica
    }

    fn on_move(&mut self, request: RequestId, next: Move) {
        let known = |site: &SiteId| self.members.is_member(*site);
        if !next.is_within(self.config.shards, self.config.topology.sites())
            || !next.to.iter().all(known)
        {
            let reason = "a shard does not exist, or a site is not a member".to_owned();
            return self.out.reply(request, Response::NotMoved(reason));
        }
        self.propose(Some(request), next);
    }

    /// Ends transactions and waits that have expired, repeats messages without an answer, and
    /// publishes progress.
    fn on_tick(&mut self, now: Now) {
        self.with_home(now, |home, context| home.on_tick(context));
        self.with_gateway(now, |it, context| it.on_tick(context));
        self.with_replica(now, |it, context| {
            it.show_held(context);
            if context.config.shows == Shows::AfterDependencies {
                it.check_again(context);
            }
            it.answer_parked(context, None);
        });
        self.keep_moving(now);
        self.request_clocks(now);
        self.keep_up(now);
        self.answer_waiting(now);
        self.store.snapshots.expire(now.monotonic);
    }
}

impl Machine for Occult {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Job = Infallible;
    type Question = Question;
    type Answer = Answer;
    type Part = Part;
    type Checkpoint = Checkpoint;

    fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Message { from, generation, message } => {
                if generation != self.members.generation(from.site)
                    || !message.is_for(from, &self.config)
                {
                    self.ignored += 1;
                    return;
                }
                let is_table = matches!(message.body, Body::Table(_) | Body::TableRequest);
                if !is_table && !self.moving.knows_table() {
                    // Its validity depends on the homes, which are only assumed so far.
                    return;
                }
                self.note_epoch(from, message.epoch);
                let is_ahead = message.epoch > self.homes.epoch();
                if is_ahead && !is_table && self.config.has(Rule::Epochs) {
                    // The sender repeats the message, or continues without an answer.
                    self.out.rare(rare::DROPPED_AHEAD);
                    self.out.send(from, Body::TableRequest);
                } else {
                    self.dispatch(now, from, message);
                }
            }
            Input::Client { request, command } => self.on_command(now, request, command),
            Input::Cancel { request } => {
                self.gateway.cancel(request);
                self.waiting.retain(|waiting| waiting.request != request);
            }
            Input::Answered { ask, answer } => self.on_answer(now, ask, answer),
        }
        self.finish(now);
    }

    fn on_deadline(&mut self, now: Now) {
        if self.next_tick.is_some_and(|tick| now.monotonic >= tick) {
            self.on_tick(now);
            self.finish(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        self.next_tick
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        assert!(self.outputs.is_empty(), "records are written before a part that knows of them");
        self.part_of(checkpoint, keys)
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        checkpoint.is_complete()
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        part.encode(bytes);
    }
}

impl Participant for Occult {
    /// Replaces the list of sites.
    fn set_members(&mut self, now: Now, members: &Members) {
        let before = std::mem::replace(&mut self.members, members.clone());
        if before == *members {
            return;
        }
        self.find_targets();
        let targets = std::mem::take(&mut self.targets);
        let is_same = |to: &Address| before.generation(to.site) == members.generation(to.site);
        self.home.retain_targets(|to| targets.contains(to) && is_same(to));
        self.targets = targets;
        self.forget_gone(now);
        self.passed.clear_reports();
        self.finish(now);
    }

    /// Returns whether no shard has its home at a site that has left or is leaving.
    fn has_completed_removals(&self) -> bool {
        let stays =
            |site| matches!(self.members.status(site), SiteStatus::Member | SiteStatus::Joining);
        self.homes.sites().all(stays)
    }

    fn is_filled(&self) -> bool {
        self.config.generation == 0 || self.replica.is_filled(self.homes_elsewhere())
    }
}
