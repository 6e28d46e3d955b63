//! The machine: a replica with the conditional atomic broadcast.

mod joining;
mod loading;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use solera_consensus::{CastId, Delivery, Member, Output as Agreed, Predicate};
use solera_machine::{Machine, Now, codec};
use solera_membership::{Members, Participant};
use solera_time::{Monotonic, SiteId};

pub use self::joining::Fetched;
use self::joining::{Donations, Joining};
pub(crate) use self::loading::Loading;
use crate::checkpoint::{Checkpoint, PartOf};
use crate::command::{Command, Response};
use crate::comparison::Divergence;
use crate::config::Config;
use crate::digest::Digest;
use crate::execution::{Job, Registers};
use crate::finals::Final;
use crate::ids::OperationId;
use crate::message::{Event, Message, Output};
use crate::object::Procedures;
use crate::past::Past;
use crate::record::Record;
use crate::replica::{Consensus, Replica};
use crate::request::Request;

/// Input of a machine.
type Input<P> = solera_machine::InputOf<Creek<P>>;

/// A final operation of a machine with `P` as operations.
type FinalOf<P> = Final<<P as Procedures>::Operation, <P as Procedures>::Response>;

/// The machine of one worker: one member of a space in which `P` are the operations.
pub struct Creek<P: Procedures> {
    pub(crate) replica: Replica<P>,
    pub(crate) consensus: Consensus<P>,
    /// Progress of a joining site.
    pub(crate) joining: Joining,
    /// Transfers to joining sites.
    pub(crate) donations: Donations<P>,
    /// Number of times that this machine has begun to send its data to a joining site.
    pub(crate) snapshots: u64,
}

/// Numbers of a machine, for checks and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of final operations: those that are committed, and executed in their place.
    pub finals: u64,
    /// Their digest.
    pub digest: Digest,
    /// Number of committed operations.
    pub committed: u64,
    /// Number of tentative operations.
    pub tentative: usize,
    /// Number of executions since the machine was started.
    pub executions: u64,
    /// Number of operations that were invoked since the machine was started, were executed before
    /// their place was final, and are final now.
    pub predicted: u64,
    /// Number of those whose first response was the stable one.
    pub accurate: u64,
    /// Number of registers that are keys of clients ([`Procedures::is_key`]).
    pub keys: usize,
    /// Estimate of the bytes of registers, and of the operations and responses that are kept.
    pub bytes: usize,
    /// Number of operations that the site keeps for others, or because they are not committed.
    pub kept: usize,
}

impl<P: Procedures> fmt::Debug for Creek<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Creek").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Answers the broadcast's questions about operations.
struct Bodies<'a, P: Procedures>(&'a Replica<P>);

impl<P: Procedures> Predicate<Arc<Request<P::Operation>>> for Bodies<'_, P> {
    fn holds(&self, id: CastId) -> bool {
        self.0.holds(id)
    }

    fn bodies(&self, ids: &[CastId]) -> Vec<Arc<Request<P::Operation>>> {
        self.0.bodies(ids)
    }

    fn bytes(&self, body: &Arc<Request<P::Operation>>) -> usize {
        codec::encoded_bytes(body)
    }
}

impl<P: Procedures> Creek<P> {
    /// Creates the machine of a worker that has nothing yet.
    pub fn new(config: Config, procedures: P) -> Creek<P> {
        let mut machine = Creek::empty(config, procedures);
        machine.replica.start();
        machine
    }

    /// Creates a machine without data that has not started.
    pub(crate) fn empty(config: Config, procedures: P) -> Creek<P> {
        let consensus = Creek::<P>::member(&config);
        let replica = Replica::new(config, procedures);
        let (joining, donations) = (Joining::default(), Donations::new());
        Creek { replica, consensus, joining, donations, snapshots: 0 }
    }

    /// Creates a member of the broadcast that has not begun.
    fn member(config: &Config) -> Consensus<P> {
        let founders = config.founders;
        let mut own = solera_consensus::Config::new(config.me(), founders, config.leader);
        own.timing = config.timing.consensus.clone();
        own.variant = config.scheme.variant();
        Member::new(own, Monotonic(0))
    }

    /// Returns numbers of the machine.
    pub fn status(&self) -> Status {
        let replica = &self.replica;
        let (kept, kept_bytes) = replica.streams.size();
        let (keys, register_bytes) = replica.execution.size();
        Status {
            finals: replica.order.finals(),
            digest: replica.digest,
            committed: replica.order.finals() + replica.order.committed().len() as u64,
            tentative: replica.order.tentative_len() + replica.hidden_len(),
            executions: replica.execution.executions(),
            predicted: replica.predicted.0,
            accurate: replica.predicted.1,
            kept,
            keys,
            bytes: kept_bytes + register_bytes + replica.history.bytes(),
        }
    }

    /// Returns the last final operations, each with the digest of all operations up to it.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = (OperationId, Digest)> + '_ {
        self.replica.history.iter().map(|it| (it.request.id, it.digest))
    }

    /// Returns what this site has delivered: the operations that are tentative or committed here.
    /// Read it after an input, with the replies to that input, to get what they may have shown.
    pub fn past(&self) -> Past {
        self.replica.frontier.past()
    }

    /// Returns the number of sites, this one included, that are known to have stored all
    /// operations of a past.
    pub fn sites_with(&self, past: &Past) -> usize {
        let streams = &self.replica.streams;
        let others = self.replica.sites.other_members().map(Some);
        let has = |site: &Option<SiteId>| past.lasts().all(|id| streams.has(*site, id));
        others.chain([None]).filter(has).count()
    }

    /// Returns the sites whose operations of a past are not all final here.
    pub fn unfinished_sites(&self, past: &Past) -> impl Iterator<Item = SiteId> {
        let frontier = &self.replica.frontier;
        let is_unfinished = |id: &OperationId| {
            frontier.delivered(id.site).is_none_or(|last| last < *id)
                || frontier.first_open(id.site).is_some_and(|first| first <= *id)
        };
        past.lasts().filter(is_unfinished).map(|id| id.site)
    }

    /// Returns the position of the first operation in [`log`](Creek::log), from 1. Without one, it
    /// is the position after the last final operation.
    pub fn log_start(&self) -> u64 {
        self.replica.history.first().unwrap_or(self.replica.order.finals() + 1)
    }

    /// Returns up to `count` final operations from a position on. Positions begin at 1; the site
    /// keeps the last [`Limits::history`](crate::Limits::history) ones.
    pub fn log(&self, from: u64, count: usize) -> impl Iterator<Item = &FinalOf<P>> {
        self.replica.history.from(from).take(count)
    }

    /// Returns a final operation, if the site keeps it.
    pub fn final_of(&self, id: OperationId) -> Option<&FinalOf<P>> {
        self.replica.history.get(id)
    }

    /// Returns the operations that are in the order and not final, in order, and then those that
    /// have no place before they are committed.
    pub fn unstable(&self) -> impl DoubleEndedIterator<Item = &Arc<Request<P::Operation>>> {
        let order = &self.replica.order;
        order.committed().iter().chain(order.tentative()).chain(self.replica.hidden())
    }

    /// Returns the registers after the final operations. Later operations do not change what was
    /// returned. The multiversion executor copies nothing.
    pub fn registers(&self) -> Registers<P::Value> {
        self.replica.execution.registers()
    }

    /// Returns the values of all registers after the final operations.
    pub fn final_registers(&self) -> Vec<(crate::RegisterKey, P::Value)> {
        self.registers().take(usize::MAX)
    }

    /// Returns the sites whose digests differ from this one's, if there are any.
    pub fn divergence(&self) -> Option<Divergence> {
        self.replica.divergence()
    }

    /// Returns the site that leads the conditional atomic broadcast, as far as this one knows.
    pub fn leader(&self) -> Option<SiteId> {
        self.consensus.leader()
    }

    /// Returns whether this member leads the conditional atomic broadcast.
    pub fn leads(&self) -> bool {
        self.consensus.leads()
    }

    /// Returns whether the first step of the machine begins the broadcast.
    fn is_about_to_begin(&self) -> bool {
        self.replica.is_filled && !self.consensus.has_begun()
    }

    /// Begins a step. In the first one, the machine begins to take part in the broadcast.
    fn begin_step(&mut self, now: Now) {
        if self.is_about_to_begin() {
            let config = &self.replica.config;
            let founds = config.generation == 0 && config.me().index() < config.founders;
            self.consensus.begin(now.monotonic, &Bodies(&self.replica), founds);
        }
        self.replica.begin_step();
    }

    /// Continues until neither the replica nor the broadcast has anything to do in this step.
    fn settle(&mut self, now: Now) {
        loop {
            self.replica.work(now);
            let learned = self.replica.take_learned();
            for cast in learned {
                self.consensus.learn(now.monotonic, &Bodies(&self.replica), cast);
            }
            if self.replica.take_advanced() {
                self.consensus.recheck(now.monotonic, &Bodies(&self.replica));
            }
            let Some(output) = self.consensus.poll_output() else { break };
            self.carry_out(now, output);
            while let Some(output) = self.consensus.poll_output() {
                self.carry_out(now, output);
            }
        }
        self.replica.set_timer(now.monotonic);
    }

    fn carry_out(&mut self, now: Now, output: Agreed<Arc<Request<P::Operation>>>) {
        let replica = &mut self.replica;
        match output {
            Agreed::Send { to, message } => replica.send(to, Message::Consensus(message)),
            Agreed::Record(record) => replica.record(&Record::Consensus(record)),
            Agreed::Deliver { ids, .. } => replica.deliver_casts(now.monotonic, &ids),
            Agreed::Accepted { slot, ids } => replica.deliver_optimistically(slot, &ids),
            Agreed::Bodies(requests) => replica.take_bodies(now.monotonic, requests),
            Agreed::Reached(path) => replica.rare(path),
            // A joining site takes over data that no member has forgotten by then.
            Agreed::Leader(_) | Agreed::Lacks { .. } => {}
        }
    }

    fn on_message(&mut self, now: Now, from: SiteId, message: Message<P::Operation>) {
        match message {
            Message::Admitted { stage } => self.on_admitted(now.monotonic, from, stage),
            Message::Piece(piece) => self.on_piece(now, from, piece),
            Message::Size { transfer, bytes } => self.joining.on_size(from, transfer, bytes),
            // A joining site has nothing to which other messages could apply.
            _ if !self.replica.is_filled => {}
            Message::Fetch { transfer, piece } => self.on_fetch(from, transfer, piece),
            Message::Consensus(message) => {
                let bodies = Bodies(&self.replica);
                self.consensus.on_message(now.monotonic, &bodies, from, message);
            }
            message => self.replica.on_message(now.monotonic, from, message),
        }
    }

    /// Repeats a delivery that a journal contains.
    pub(crate) fn redeliver(&mut self, delivery: &Delivery) {
        self.replica.deliver_casts(Monotonic(0), &delivery.ids);
        self.replica.execute_committed();
    }
}

impl<P: Procedures> Participant for Creek<P> {
    fn set_members(&mut self, now: Now, members: &Members) {
        self.replica.set_members(members);
        let sites = &self.replica.sites;
        let joining = sites.joining();
        self.donations.retain(|site, _| joining.iter().any(|(it, _)| it == site));
        self.consensus.set_learners(joining);
        let (number, members) = (sites.configuration(), sites.members());
        let bodies = Bodies(&self.replica);
        self.consensus.set_members(now.monotonic, &bodies, number, members);
        if self.consensus.has_begun() {
            self.replica.begin_step();
            self.settle(now);
        } else {
            // A joining site has its timer, and nothing else.
            self.replica.set_timer(now.monotonic);
        }
    }

    fn has_completed_removals(&self) -> bool {
        let sites = &self.replica.sites;
        !sites.are_leaving()
            || self.replica.has_closed_departures() && self.consensus.is_established()
    }

    /// Operations of former generations of the site may wait for operations that the donor lacked.
    /// The site invokes none before they are delivered: the operations of a site are delivered in
    /// their order, and a past relies on that.
    fn is_filled(&self) -> bool {
        let replica = &self.replica;
        let me = replica.config.me();
        let is_ready = replica.frontier.delivered(me) == replica.frontier.taken(me);
        replica.is_filled && (is_ready || replica.sites.is_member(me))
    }
}

impl<P: Procedures> Machine for Creek<P> {
    type Message = Message<P::Operation>;
    type Command = Command<P::Operation, P::Response>;
    type Response = Response<P::Response>;
    type Event = Event;
    type Job = Job<P>;
    type Question = Infallible;
    type Answer = Infallible;
    type Part = PartOf<P>;
    type Checkpoint = Checkpoint<P>;

    fn handle(&mut self, now: Now, input: Input<P>) {
        self.begin_step(now);
        match input {
            Input::<P>::Message { from, generation, message } => {
                if self.replica.sites.accepts(from.site, generation) {
                    self.on_message(now, from.site, message);
                }
            }
            Input::<P>::Client { request, command } => {
                if let Command::Lead { site } = command
                    && self.replica.is_filled
                {
                    let bodies = Bodies(&self.replica);
                    self.consensus.move_leader(now.monotonic, &bodies, site);
                }
                self.replica.on_command(now, request, command)
            }
            Input::<P>::Cancel { request } => self.replica.on_cancel(request),
            Input::<P>::Done { job, result } => self.replica.execution.take_done(job, result),
            Input::<P>::Answered { answer, .. } => match answer {},
        }
        self.settle(now);
    }

    fn on_deadline(&mut self, now: Now) {
        self.begin_step(now);
        self.consensus.on_deadline(now.monotonic, &Bodies(&self.replica));
        self.replica.on_deadline(now, self.consensus.leads());
        self.join(now.monotonic);
        self.settle(now);
    }

    fn poll_output(&mut self) -> Option<Output<P>> {
        self.replica.poll_output()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let first = self.is_about_to_begin().then_some(Monotonic(0));
        let own = self.replica.next_deadline().into_iter();
        own.chain(self.consensus.next_deadline()).chain(first).min()
    }

    fn next_part(&self, checkpoint: &mut Checkpoint<P>, keys: usize) -> Option<Self::Part> {
        assert!(
            !self.replica.has_outputs(),
            "outputs must be polled before a part of a checkpoint"
        );
        checkpoint.next(&self.replica, &self.consensus, keys)
    }

    fn is_complete(checkpoint: &Checkpoint<P>) -> bool {
        checkpoint.is_complete()
    }

    fn encode_part(part: &Self::Part, bytes: &mut Vec<u8>) {
        part.encode(bytes);
    }
}
