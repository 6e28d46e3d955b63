//! Validation of what arrives from other processes, and of what was read from a disk.

use solera_data::{Effect, Key};
use solera_machine::{Address, OfProtocol, Protocol, Topology};
use solera_time::SiteId;

use crate::config::Config;
use crate::message::{
    Batch, ClientId, Commit, Copied, Decision, Entry, Execute, Executed, Handover, Message,
    Prepare, Progress, StoredAt, Table, Takeover, TransactionId,
};
use crate::passed::Passing;
use crate::protocol::PROTOCOL;
use crate::record::{Part, Record, Rest};
use crate::shard::{STAMP_END, ShardId, Stamp};
use crate::timestamp::CausalTimestamp;

/// Greatest position in a stream, so that counters cannot overflow.
const MAX_POSITION: u64 = 1 << 62;

fn is_stamp(stamp: Stamp) -> bool {
    stamp.0 < STAMP_END
}

fn are_stored(stored: &[StoredAt], topology: &Topology) -> bool {
    let is_one = |at: &StoredAt| {
        at.site.index() < topology.sites() && is_stamp(at.stored) && is_stamp(at.unread)
    };
    stored.iter().all(is_one)
}

fn are_stamps(stamps: &[(SiteId, Stamp)], topology: &Topology) -> bool {
    stamps.iter().all(|(site, stamp)| site.index() < topology.sites() && is_stamp(*stamp))
}

fn is_client(client: ClientId, topology: &Topology) -> bool {
    topology.has(client.address)
}

impl Config {
    fn holds(&self, key: &Key) -> bool {
        self.is_mine(self.shard_of(key))
    }

    fn are_writes(&self, writes: &[(Key, Effect)]) -> bool {
        let mut keys: Vec<&Key> = writes.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.is_sorted_by(|a, b| a < b) && keys.into_iter().all(|key| self.holds(key))
    }

    fn is_timestamp(&self, timestamp: &CausalTimestamp) -> bool {
        timestamp.is_within(self.shards) && timestamp.is_within_sites(self.topology.sites())
    }

    fn is_entry(&self, entry: &Entry) -> bool {
        let is_write = |(key, _, dependencies): &(Key, Effect, CausalTimestamp)| {
            self.shard_of(key) == entry.shard && self.is_timestamp(dependencies)
        };
        let is_takeover = |takeover: &Takeover| {
            entry.writes.is_empty()
                && takeover.from.index() < self.topology.sites()
                && is_stamp(takeover.last)
                && takeover.copies.iter().all(|copied| {
                    self.is_copied(copied) && self.shard_of(&copied.key) == entry.shard
                })
        };
        self.is_mine(entry.shard)
            && is_stamp(entry.stamp)
            && entry.writes.iter().all(is_write)
            && entry.decided.iter().all(|(_, commit)| self.is_commit(commit))
            && entry.takeover.iter().all(|takeover| is_takeover(takeover))
    }

    fn is_table(&self, table: &Table) -> bool {
        let sites = self.topology.sites();
        let is_last = |(shard, from, last): &(ShardId, SiteId, Stamp)| {
            shard.0 < self.shards && from.index() < sites && is_stamp(*last)
        };
        (1..=sites).contains(&usize::from(table.founders))
            && table.moves.iter().all(|next| next.is_within(self.shards, sites))
            && table.lasts.iter().all(is_last)
    }

    fn is_handover(&self, handover: &Handover) -> bool {
        self.is_mine(handover.shard)
            && is_stamp(handover.last)
            && handover.decided.iter().all(|(_, commit)| self.is_commit(commit))
            && handover.copies.iter().all(|copied| {
                self.is_copied(copied) && self.shard_of(&copied.key) == handover.shard
            })
    }

    fn is_progress(&self, progress: &Progress) -> bool {
        let is_held = |(shard, stamp): &(ShardId, Stamp)| self.is_mine(*shard) && is_stamp(*stamp);
        is_stamp(progress.through)
            && progress.held.iter().all(is_held)
            && are_stored(&progress.stored, &self.topology)
    }

    fn is_batch(&self, batch: &Batch) -> bool {
        batch.after <= batch.end
            && batch.end <= MAX_POSITION
            && batch.entries.len() as u64 <= batch.end - batch.after
            && batch.entries.iter().all(|entry| self.is_entry(entry))
            && batch.progress.iter().all(|progress| self.is_progress(progress))
    }

    fn is_copied(&self, copied: &Copied) -> bool {
        self.holds(&copied.key)
            && is_stamp(copied.stamp)
            && copied.stamp > Stamp::ZERO
            && self.is_timestamp(&copied.dependencies)
    }

    fn is_commit(&self, commit: &Commit) -> bool {
        self.is_timestamp(&commit.timestamp) && are_stamps(&commit.stamps, &self.topology)
    }

    fn is_decision(&self, decision: &Decision) -> bool {
        match decision {
            Decision::Commit(commit) => self.is_commit(commit),
            Decision::Abort => true,
        }
    }

    fn is_execute(&self, execute: &Execute) -> bool {
        let Execute { timestamp, reads, operations, writes, .. } = execute;
        let is_read = |(shard, stamp): &(ShardId, Stamp)| shard.0 < self.shards && is_stamp(*stamp);
        self.is_timestamp(timestamp)
            && reads.iter().all(is_read)
            && operations.iter().all(|(key, _)| self.holds(key))
            && self.are_writes(writes)
    }

    fn is_executed(&self, executed: &Executed) -> bool {
        match executed {
            Executed::Committed(_, timestamp) => self.is_timestamp(timestamp),
            Executed::Conflict(shard) => shard.0 < self.shards,
            Executed::Failed(..) | Executed::Locked(..) | Executed::Ahead | Executed::Moved => true,
        }
    }
}

/// Returns the client whose worker is the only one to send a message.
fn sender(message: &Message) -> Option<ClientId> {
    match message {
        Message::Prepare(Prepare { tid, .. })
        | Message::Execute(Execute { tid, .. })
        | Message::Commit(tid, ..)
        | Message::Abort(tid) => Some(tid.client),
        Message::Oldest(client, _) => Some(*client),
        _ => None,
    }
}

impl Message {
    /// Returns whether a correct worker with the same configuration can have sent the message to
    /// this worker.
    pub(crate) fn is_for(&self, from: Address, config: &Config) -> bool {
        if sender(self).is_some_and(|client| client.address != from) {
            return false;
        }
        match self {
            Message::Read(read) => config.holds(&read.key) && is_stamp(read.at_least),
            Message::ReadAnswer(answer) => {
                is_stamp(answer.shown) && config.is_timestamp(&answer.dependencies)
            }
            Message::Prepare(prepare) => {
                is_stamp(prepare.above)
                    && !prepare.writes.is_empty()
                    && config.are_writes(&prepare.writes)
                    && config.topology.has(prepare.decision_home)
            }
            Message::Prepared(_, stamp, overwritten) => {
                is_stamp(*stamp) && config.is_timestamp(overwritten)
            }
            Message::Commit(_, commit, participants) => {
                config.is_commit(commit)
                    && participants.iter().all(|worker| config.topology.has(*worker))
            }
            Message::Decided(_, decision) => config.is_decision(decision),
            Message::Execute(execute) => config.is_execute(execute),
            Message::Executed(_, executed) => config.is_executed(executed),
            Message::Batch(batch) => config.is_batch(batch),
            Message::Stored(stored) => {
                stored.position <= MAX_POSITION
                    && is_stamp(stored.through)
                    && is_stamp(stored.unread)
            }
            Message::CopyRequest(request) => {
                config.holds(&request.after) && is_stamp(request.above)
            }
            Message::Copies(copies) => {
                copies.position <= MAX_POSITION
                    && copies.copies.iter().all(|copied| config.is_copied(copied))
            }
            Message::Passed(report, ..) => {
                let is_one = |it: &Passing| {
                    it.site.index() < config.topology.sites()
                        && is_stamp(it.shown)
                        && is_stamp(it.unread)
                };
                from.site == config.address.site && report.iter().all(is_one)
            }
            Message::Locked(..)
            | Message::Abort(_)
            | Message::Outcome(..)
            | Message::Applied(_)
            | Message::Query(_)
            | Message::Resolve(_)
            | Message::Oldest(..)
            | Message::Moved(_)
            | Message::TableRequest
            | Message::Wanted => true,
            Message::Table(table) => config.is_table(table),
            Message::HandoverRequest(request) => config.is_mine(request.shard),
            Message::Handover(handover) => config.is_handover(handover),
            Message::ResolveLost(_, shard) => config.is_mine(*shard),
        }
    }

    fn transaction(&self) -> Option<TransactionId> {
        match self {
            Message::Prepare(Prepare { tid, .. })
            | Message::Execute(Execute { tid, .. })
            | Message::Prepared(tid, ..)
            | Message::Locked(tid, _)
            | Message::Abort(tid)
            | Message::Commit(tid, ..)
            | Message::Outcome(tid, _)
            | Message::Decided(tid, _)
            | Message::Applied(tid)
            | Message::Query(tid)
            | Message::Resolve(tid)
            | Message::ResolveLost(tid, _)
            | Message::Moved(tid)
            | Message::Executed(tid, _) => Some(*tid),
            _ => None,
        }
    }

    /// Returns the variant's name, by which cost tables list steps.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Read(_) => "occult Read",
            Message::ReadAnswer(_) => "occult ReadAnswer",
            Message::Prepare(_) => "occult Prepare",
            Message::Prepared(..) => "occult Prepared",
            Message::Locked(..) => "occult Locked",
            Message::Abort(_) => "occult Abort",
            Message::Commit(..) => "occult Commit",
            Message::Outcome(..) => "occult Outcome",
            Message::Decided(..) => "occult Decided",
            Message::Applied(_) => "occult Applied",
            Message::Query(_) => "occult Query",
            Message::Resolve(_) => "occult Resolve",
            Message::Execute(_) => "occult Execute",
            Message::Executed(..) => "occult Executed",
            Message::Oldest(..) => "occult Oldest",
            Message::Batch(_) => "occult Batch",
            Message::Stored(_) => "occult Stored",
            Message::Wanted => "occult Wanted",
            Message::CopyRequest(_) => "occult CopyRequest",
            Message::Copies(_) => "occult Copies",
            Message::Passed(..) => "occult Passed",
            Message::Moved(_) => "occult Moved",
            Message::Table(_) => "occult Table",
            Message::TableRequest => "occult TableRequest",
            Message::HandoverRequest(_) => "occult HandoverRequest",
            Message::Handover(_) => "occult Handover",
            Message::ResolveLost(..) => "occult ResolveLost",
        }
    }
}

impl OfProtocol for Message {
    const PROTOCOL: Protocol = PROTOCOL;
    type Shape = Topology;

    fn weight(&self) -> u64 {
        let changes = match self {
            Message::Prepare(prepare) => prepare.writes.len(),
            Message::Execute(execute) => execute.operations.len() + execute.writes.len(),
            Message::Batch(batch) => batch.entries.iter().map(|entry| entry.writes.len()).sum(),
            Message::Copies(copies) => copies.copies.len(),
            _ => 1,
        };
        changes.max(1) as u64
    }

    /// Checks the addresses. The receiver checks the rest, which depends on the number of shards
    /// (`is_for`).
    fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        let between_sites = match self {
            Message::Batch(_)
            | Message::Stored(_)
            | Message::Wanted
            | Message::CopyRequest(_)
            | Message::HandoverRequest(_)
            | Message::Handover(_)
            | Message::Copies(_) => from.site != to.site,
            Message::Passed(..) => from.site == to.site,
            _ => true,
        };
        between_sites
            && from != to
            && topology.has(from)
            && topology.has(to)
            && self.transaction().is_none_or(|tid| is_client(tid.client, topology))
    }
}

impl Record {
    /// Returns whether a worker with this configuration can have written the record.
    pub(crate) fn is_within(&self, config: &Config) -> bool {
        match self {
            Record::Ceiling(stamp) => is_stamp(*stamp),
            Record::Prepared { writes, assigned, overwritten, decision_home, .. } => {
                config.are_writes(writes)
                    && is_stamp(*assigned)
                    && config.is_timestamp(overwritten)
                    && config.topology.has(*decision_home)
            }
            Record::Ended(_, decision) => config.is_decision(decision),
            Record::Decided(_, decision, participants) => {
                config.is_decision(decision)
                    && participants.iter().all(|worker| config.topology.has(*worker))
            }
            Record::Executed { answer, writes, stamp, .. } => {
                config.is_executed(answer) && config.are_writes(writes) && is_stamp(*stamp)
            }
            Record::Batch(_, batch) => config.is_batch(batch),
            Record::Copies(_, copies) => {
                copies.copies.iter().all(|copied| config.is_copied(copied))
            }
            Record::Table(table) => config.is_table(table),
            Record::Handover(handover) => config.is_handover(handover),
            Record::Took { shard, last, .. } => config.is_mine(*shard) && is_stamp(*last),
            Record::Applied(..) | Record::Started(_) => true,
        }
    }
}

impl Part {
    /// Returns whether a worker with this configuration can have written the part.
    pub(crate) fn is_within(&self, config: &Config) -> bool {
        match self {
            Part::Values(values) => values.iter().all(|copied| config.is_copied(copied)),
            Part::Rest(rest) => {
                let Rest { ceiling, records, hidden, positions, table, taken, .. } = &**rest;
                is_stamp(*ceiling)
                    && records.iter().all(|record| record.is_within(config))
                    && hidden.iter().all(|(shard, stamp, key, _, dependencies)| {
                        config.shard_of(key) == *shard
                            && config.is_mine(*shard)
                            && is_stamp(*stamp)
                            && config.is_timestamp(dependencies)
                    })
                    && config.is_table(table)
                    && taken.iter().all(|(shard, _)| config.is_mine(*shard))
                    && positions.iter().all(|(home, ..)| config.topology.has(*home))
            }
        }
    }
}
