//! State that the parts of a replica share.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use solera_data::Dot;
use solera_machine::{Address, Now, PartitionId, RarePath, Records, RequestId};
use solera_time::{HybridClock, Monotonic, Origin, SiteId, Vector};

use crate::command::Response;
use crate::config::Config;
use crate::dissemination::Dissemination;
use crate::failure_detector::FailureDetector;
use crate::message::{Cause, Event, Message, Output};
use crate::partition::Partition;
use crate::protocol::PROTOCOL;
use crate::record::Record;

/// The shared state of a worker: its partitions, its view of its own and of other sites, and its
/// outputs. Each part owns the state that it alone uses, and gets this to handle an input.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) config: Config,
    pub(crate) me: SiteId,
    pub(crate) clock: HybridClock,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) dissemination: Dissemination,
    pub(crate) detector: FailureDetector,
    /// Workers of other sites whose links are full.
    pub(crate) held_back: Vec<Address>,
    /// Number of messages that were dropped: see [`Status::ignored`](crate::Status::ignored).
    pub(crate) ignored: u64,
    pub(crate) outputs: VecDeque<Output>,
    /// Messages from this replica to itself.
    pub(crate) loopback: VecDeque<Message>,
    /// Time of the last activity that should be reported to other workers soon.
    pub(crate) last_activity: Monotonic,
}

/// Destination of the answer to an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplyTo {
    /// A client of this worker.
    Client(RequestId),
    /// A client of another worker of the site.
    Peer(Address, RequestId),
    /// No receiver.
    Nobody,
}

/// Time after an activity in which a replica keeps its fast tick.
pub(crate) const ACTIVE_FOR: Duration = Duration::from_millis(50);

impl Worker {
    /// Returns START_TX's snapshot (Alg. 1 l. 2–7).
    ///
    /// The remote entries are those of the paper. The local entry is the site's latest state rather
    /// than its uniform part, so that a client of a site sees at once the writes of another client
    /// there, even in another partition (`docs/decisions/0003-fresh-local-snapshots.md`). The clock
    /// advances to the entry, so no later transaction gets a timestamp within the snapshot.
    pub(crate) fn start_snapshot(&mut self, now: Now, past: &Vector) -> Vector {
        self.learn_uniform(past);
        self.clock.observe(past[self.me]);
        let mut snap_vec = self.dissemination.view.uniform_vec;
        snap_vec[self.me] = self.clock.read(now.physical);
        // UniStore Alg. 1 l. 7.
        snap_vec.strong = snap_vec.strong.max(past.strong);
        snap_vec
    }

    /// Adds the remote entries of a snapshot, which are uniform, to `uniformVec` (Alg. 1 l. 2–3,
    /// 19–20, 37–38).
    pub(crate) fn learn_uniform(&mut self, snap_vec: &Vector) {
        let uniform_vec = &mut self.dissemination.view.uniform_vec;
        let (local, strong) = (uniform_vec[self.me], uniform_vec.strong);
        uniform_vec.join(snap_vec);
        // Strong transactions that were decided may not have arrived here yet.
        (uniform_vec[self.me], uniform_vec.strong) = (local, strong);
    }

    /// Returns a new local timestamp above all entries of `snap_vec`, so that dots extend
    /// causality.
    pub(crate) fn new_dot(&mut self, now: Now, snap_vec: &Vector) -> Dot {
        self.clock.observe(snap_vec.max_entry());
        Dot::of(self.me, self.clock.tick(now.physical))
    }

    /// Raises the remote entries of `past` to those of a snapshot that was read.
    pub(crate) fn add_remote_entries(&self, past: &mut Vector, snap_vec: &Vector) {
        let local = past[self.me];
        past.join(snap_vec);
        past[self.me] = local;
    }

    /// Returns whether all partitions of this worker have their data.
    pub(crate) fn is_filled(&self) -> bool {
        self.partitions.iter().all(|partition| partition.filled)
    }

    pub(crate) fn partition_of(&self, key: &[u8]) -> PartitionId {
        PartitionId::of(key, self.config.topology.partitions)
    }

    /// Returns the index of a partition among those that this worker owns; `None` if it does not
    /// own it.
    pub(crate) fn index_of(&self, partition: PartitionId) -> Option<usize> {
        let workers = u16::from(self.config.topology.workers[self.me.index()]);
        let owned = partition.0 < self.config.topology.partitions
            && partition.0 % workers == u16::from(self.config.address.worker);
        owned.then_some(usize::from(partition.0 / workers))
    }

    pub(crate) fn owned(&mut self, partition: PartitionId) -> &mut Partition {
        let index = self.index_of(partition).expect("callers route by owner");
        &mut self.partitions[index]
    }

    pub(crate) fn send(&mut self, to: Address, message: Message) {
        if to == self.config.address {
            self.loopback.push_back(message);
        } else {
            self.outputs.push_back(Output::Send { to, message });
        }
    }

    pub(crate) fn reply(&mut self, request: RequestId, response: Response) {
        self.outputs.push_back(Output::Reply { request, response, last: true });
    }

    pub(crate) fn answer(&mut self, to: ReplyTo, response: Response) {
        match to {
            ReplyTo::Client(request) => self.reply(request, response),
            ReplyTo::Peer(peer, request) => {
                self.send(peer, Message::ExecuteReply { request, response });
            }
            ReplyTo::Nobody => {}
        }
    }

    /// Emits a record for the journal, if there is one.
    pub(crate) fn record(&mut self, record: impl FnOnce() -> Record) {
        if self.config.journal {
            push_record(&mut self.outputs, &record());
        }
    }

    /// Reports that a rare path was taken.
    pub(crate) fn reach(&mut self, path: RarePath) {
        self.trace(|| Event::Reached(path));
    }

    pub(crate) fn trace(&mut self, event: impl FnOnce() -> Event) {
        if self.config.trace {
            self.outputs.push_back(Output::Trace(event()));
        }
    }

    pub(crate) fn cause_of(&self, reply_to: ReplyTo) -> Option<Cause> {
        match reply_to {
            ReplyTo::Client(request) => Some(Cause::Request(self.config.address, request)),
            ReplyTo::Peer(peer, request) => Some(Cause::Request(peer, request)),
            ReplyTo::Nobody => None,
        }
    }

    /// Notes an activity that should be reported to other workers soon.
    pub(crate) fn note_activity(&mut self, now: Now) {
        self.last_activity = now.monotonic;
    }

    pub(crate) fn is_active(&self, now: Now) -> bool {
        now.monotonic.since(self.last_activity) < ACTIVE_FOR
    }

    /// Returns the other members; none while this site is not a member itself.
    pub(crate) fn other_members(&self) -> Vec<SiteId> {
        let members = &self.dissemination.members;
        let others = members.members().filter(|site| *site != self.me);
        if members.is_member(self.me) { others.collect() } else { Vec::new() }
    }

    pub(crate) fn is_origin(&self, origin: Origin) -> bool {
        match origin {
            Origin::Site(site) => site.index() < self.config.topology.sites(),
            Origin::Strong => true,
        }
    }
}

/// Appends a record to the last output if that holds records, so that many operations share one
/// output.
pub(crate) fn push_record(outputs: &mut VecDeque<Output>, record: &impl Serialize) {
    if let Some(Output::Records(records)) = outputs.back_mut() {
        return records.push_with(|bytes| PROTOCOL.append_record(record, bytes));
    }
    let mut records = Records::default();
    records.push_with(|bytes| PROTOCOL.append_record(record, bytes));
    outputs.push_back(Output::Records(records));
}
