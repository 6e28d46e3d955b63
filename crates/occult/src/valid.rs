//! Validation of what arrives from other processes, and of what was read from a disk.

use solera_data::{Effect, Key};
use solera_machine::{Address, OfProtocol, Protocol, Topology};
use solera_time::SiteId;

use crate::config::{Config, Shows};
use crate::message::{
    Batch, Body, ClientId, Commit, Copied, Copies, DecidedOf, Decision, DependencyCheck, Entry,
    Execute, Executed, Handover, Message, Prepare, Progress, StoredAt, Table, Takeover,
    TransactionId,
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

fn are_losses(losses: &[(u64, Stamp)]) -> bool {
    losses.iter().all(|(_, last)| is_stamp(*last))
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
                && are_losses(&takeover.losses)
                && self.are_decided(&takeover.decided)
                && takeover.decided.iter().all(|(_, shard, ..)| *shard == entry.shard)
                && takeover.copies.iter().all(|copied| {
                    self.is_copied(copied) && self.shard_of(&copied.key) == entry.shard
                })
        };
        self.is_mine(entry.shard)
            && is_stamp(entry.stamp)
            && entry.writes.iter().all(is_write)
            && entry.decided.iter().all(|(tid, commit)| {
                is_client(tid.client, &self.topology) && self.is_commit(commit)
            })
            && entry.takeover.iter().all(|takeover| is_takeover(takeover))
    }

    fn is_table(&self, table: &Table) -> bool {
        let sites = self.topology.sites();
        let is_last =
            |(shard, _, last): &(ShardId, u64, Stamp)| shard.0 < self.shards && is_stamp(*last);
        (1..=sites).contains(&usize::from(table.founders))
            && table.moves.iter().all(|next| next.is_within(self.shards, sites))
            && table.lasts.iter().all(is_last)
    }

    fn is_handover(&self, handover: &Handover) -> bool {
        self.is_mine(handover.shard)
            && is_stamp(handover.last)
            && are_losses(&handover.losses)
            && self.are_decided(&handover.decided)
            && handover.decided.iter().all(|(_, shard, ..)| *shard == handover.shard)
            && handover.copies.iter().all(|copied| {
                self.is_copied(copied) && self.shard_of(&copied.key) == handover.shard
            })
    }

    fn are_decided(&self, decided: &[DecidedOf]) -> bool {
        decided.iter().all(|(home, shard, tid, commit)| {
            self.topology.has(*home)
                && self.is_mine(*shard)
                && is_client(tid.client, &self.topology)
                && self.is_commit(commit)
        })
    }

    /// Returns whether a worker may decide transactions as the home of a shard.
    fn may_decide(&self, home: Address, shard: ShardId) -> bool {
        shard.0 < self.shards && self.topology.has(home) && self.owner(home.site, shard) == home
    }

    fn is_progress(&self, progress: &Progress) -> bool {
        let is_held = |(shard, stamp): &(ShardId, Stamp)| self.is_mine(*shard) && is_stamp(*stamp);
        is_stamp(progress.through)
            && progress.held.iter().all(is_held)
            && progress.held.is_sorted_by(|(before, _), (shard, _)| before < shard)
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

    fn are_copies(&self, copies: &Copies) -> bool {
        copies.position <= MAX_POSITION
            && copies.copies.iter().all(|copied| self.is_copied(copied))
            && copies.taken.iter().all(|it| self.is_mine(it.shard) && are_losses(&it.losses))
            && self.are_decided(&copies.decided)
    }

    fn is_check(&self, from: Address, check: &DependencyCheck) -> bool {
        let DependencyCheck { of: (shard, stamp), needs, .. } = check;
        let is_need = |(shard, stamp): &(ShardId, Stamp)| self.is_mine(*shard) && is_stamp(*stamp);
        self.shows == Shows::AfterDependencies
            && shard.0 < self.shards
            && self.owner(self.address.site, *shard) == from
            && is_stamp(*stamp)
            && needs.iter().all(is_need)
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
        let is_read =
            |(shard, shown, _): &(ShardId, Stamp, u64)| shard.0 < self.shards && is_stamp(*shown);
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

/// Returns the client whose worker alone sends this message; `None` if other workers may send it.
fn sender(body: &Body) -> Option<ClientId> {
    match body {
        Body::Prepare(Prepare { tid, .. })
        | Body::Execute(Execute { tid, .. })
        | Body::Commit(tid, ..)
        | Body::Abort(tid) => Some(tid.client),
        Body::Oldest(client, _) => Some(*client),
        _ => None,
    }
}

impl Message {
    /// Returns whether a correct worker with the same configuration can have sent the message to
    /// this worker.
    pub(crate) fn is_for(&self, from: Address, config: &Config) -> bool {
        let epoch = match &self.body {
            Body::Prepare(prepare) => prepare.epoch,
            _ => 0,
        };
        epoch <= self.epoch && self.body.is_for(from, config)
    }

    /// Returns the name of the contents, by which cost tables list steps.
    pub fn name(&self) -> &'static str {
        self.body.name()
    }
}

impl Body {
    /// Returns whether a correct worker with the same configuration can have sent the message to
    /// this worker.
    fn is_for(&self, from: Address, config: &Config) -> bool {
        if sender(self).is_some_and(|client| client.address != from) {
            return false;
        }
        match self {
            Body::Read(read) => config.holds(&read.key) && is_stamp(read.at_least),
            Body::ReadAnswer(answer) => {
                is_stamp(answer.shown) && config.is_timestamp(&answer.dependencies)
            }
            Body::Prepare(prepare) => {
                is_stamp(prepare.above)
                    && !prepare.writes.is_empty()
                    && config.are_writes(&prepare.writes)
                    && config.may_decide(prepare.decision_home, prepare.decision_shard)
            }
            Body::Prepared(_, stamp, overwritten) => {
                is_stamp(*stamp) && config.is_timestamp(overwritten)
            }
            Body::Commit(_, commit, participants) => {
                config.is_commit(commit)
                    && participants.iter().all(|worker| config.topology.has(*worker))
            }
            Body::Decided(_, decision) => config.is_decision(decision),
            Body::Execute(execute) => config.is_execute(execute),
            Body::Executed(.., executed) => config.is_executed(executed),
            Body::Batch(batch) => config.is_batch(batch),
            Body::Stored(stored) => {
                stored.position <= MAX_POSITION
                    && is_stamp(stored.through)
                    && is_stamp(stored.unread)
            }
            Body::CopyRequest(request) => config.holds(&request.after) && is_stamp(request.above),
            Body::Copies(copies) => config.are_copies(copies),
            Body::Passed(report, ..) => {
                let is_one = |it: &Passing| {
                    it.site.index() < config.topology.sites()
                        && is_stamp(it.shown)
                        && is_stamp(it.unread)
                };
                from.site == config.address.site && report.iter().all(is_one)
            }
            Body::Locked(..)
            | Body::Abort(_)
            | Body::Outcome(..)
            | Body::Applied(_)
            | Body::Query(_)
            | Body::Resolve(_)
            | Body::Oldest(..)
            | Body::Moved(_)
            | Body::TableRequest
            | Body::ClockRequest(_)
            | Body::Wanted => true,
            Body::Clock(_, stamp) => is_stamp(*stamp),
            Body::DependencyCheck(check) => config.is_check(from, check),
            Body::Askable(upto, tids) => {
                is_stamp(*upto) && tids.iter().all(|tid| is_client(tid.client, &config.topology))
            }
            Body::DependenciesShown(_, shard) => {
                config.shows == Shows::AfterDependencies
                    && from.site == config.address.site
                    && config.is_mine(*shard)
            }
            Body::Table(table) => config.is_table(table),
            Body::HandoverRequest(request) => config.is_mine(request.shard),
            Body::Handover(handover) => config.is_handover(handover),
            Body::ResolveMoved(_, shard) => config.is_mine(*shard),
        }
    }

    fn transaction(&self) -> Option<TransactionId> {
        match self {
            Body::Prepare(Prepare { tid, .. })
            | Body::Execute(Execute { tid, .. })
            | Body::Prepared(tid, ..)
            | Body::Locked(tid, _)
            | Body::Abort(tid)
            | Body::Commit(tid, ..)
            | Body::Outcome(tid, _)
            | Body::Decided(tid, _)
            | Body::Applied(tid)
            | Body::Query(tid)
            | Body::Resolve(tid)
            | Body::ResolveMoved(tid, _)
            | Body::Moved(tid)
            | Body::Executed(tid, ..) => Some(*tid),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Body::Read(_) => "occult Read",
            Body::ReadAnswer(_) => "occult ReadAnswer",
            Body::Prepare(_) => "occult Prepare",
            Body::Prepared(..) => "occult Prepared",
            Body::Locked(..) => "occult Locked",
            Body::Abort(_) => "occult Abort",
            Body::Commit(..) => "occult Commit",
            Body::Outcome(..) => "occult Outcome",
            Body::Decided(..) => "occult Decided",
            Body::Applied(_) => "occult Applied",
            Body::Query(_) => "occult Query",
            Body::Resolve(_) => "occult Resolve",
            Body::Execute(_) => "occult Execute",
            Body::Executed(..) => "occult Executed",
            Body::Oldest(..) => "occult Oldest",
            Body::Batch(_) => "occult Batch",
            Body::Stored(_) => "occult Stored",
            Body::Wanted => "occult Wanted",
            Body::CopyRequest(_) => "occult CopyRequest",
            Body::Copies(_) => "occult Copies",
            Body::Passed(..) => "occult Passed",
            Body::Moved(_) => "occult Moved",
            Body::Table(_) => "occult Table",
            Body::TableRequest => "occult TableRequest",
            Body::HandoverRequest(_) => "occult HandoverRequest",
            Body::Handover(_) => "occult Handover",
            Body::ResolveMoved(..) => "occult ResolveMoved",
            Body::ClockRequest(_) => "occult ClockRequest",
            Body::Clock(..) => "occult Clock",
            Body::DependencyCheck(_) => "occult DependencyCheck",
            Body::DependenciesShown(..) => "occult DependenciesShown",
            Body::Askable(..) => "occult Askable",
        }
    }
}

impl OfProtocol for Message {
    const PROTOCOL: Protocol = PROTOCOL;
    type Shape = Topology;

    fn weight(&self) -> u64 {
        let changes = match &self.body {
            Body::Prepare(prepare) => prepare.writes.len(),
            Body::Execute(execute) => execute.operations.len() + execute.writes.len(),
            Body::Batch(batch) => batch.entries.iter().map(|entry| entry.writes.len()).sum(),
            Body::Copies(copies) => copies.copies.len(),
            _ => 1,
        };
        changes.max(1) as u64
    }

    /// Checks the addresses. The receiver checks the rest, which depends on the number of shards
    /// (`is_for`).
    fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        let between_sites = match &self.body {
            Body::Batch(_)
            | Body::Stored(_)
            | Body::Wanted
            | Body::CopyRequest(_)
            | Body::HandoverRequest(_)
            | Body::Handover(_)
            | Body::ClockRequest(_)
            | Body::Clock(..)
            | Body::Askable(..)
            | Body::Copies(_) => from.site != to.site,
            Body::Passed(..) | Body::DependencyCheck(_) | Body::DependenciesShown(..) => {
                from.site == to.site
            }
            _ => true,
        };
        between_sites
            && from != to
            && topology.has(from)
            && topology.has(to)
            && self.body.transaction().is_none_or(|tid| is_client(tid.client, topology))
    }
}

impl Record {
    /// Returns whether a worker with this configuration can have written the record.
    pub(crate) fn is_within(&self, config: &Config) -> bool {
        match self {
            Record::Ceiling(stamp) => is_stamp(*stamp),
            Record::Prepared {
                writes,
                assigned,
                overwritten,
                decision_home,
                decision_shard,
                ..
            } => {
                config.are_writes(writes)
                    && is_stamp(*assigned)
                    && config.is_timestamp(overwritten)
                    && config.may_decide(*decision_home, *decision_shard)
            }
            Record::Ended(_, decision) => config.is_decision(decision),
            Record::Decided(_, decision, participants, shard) => {
                config.is_decision(decision)
                    && shard.is_none_or(|shard| config.is_mine(shard))
                    && participants.iter().all(|worker| config.topology.has(*worker))
            }
            Record::Executed { answer, writes, stamp, .. } => {
                config.is_executed(answer) && config.are_writes(writes) && is_stamp(*stamp)
            }
            Record::Batch(_, batch) => config.is_batch(batch),
            Record::Copies(_, copies) => config.are_copies(copies),
            Record::Table(table) => config.is_table(table),
            Record::Handover(handover) => config.is_handover(handover),
            Record::Took { shard, last, .. } => config.is_mine(*shard) && is_stamp(*last),
            Record::Taken(tid) => is_client(tid.client, &config.topology),
            Record::Applied(..) | Record::Started(_) | Record::HomeOf(_) => true,
        }
    }

    /// Returns a key whose shard in this configuration is another one than in the record.
    pub(crate) fn moved_key(&self, config: &Config) -> Option<&Key> {
        match self {
            Record::Batch(_, batch) => batch.entries.iter().find_map(|entry| {
                let takeovers = entry.takeover.iter().flat_map(|takeover| &takeover.copies);
                let mut keys = (entry.writes.iter().map(|(key, ..)| key))
                    .chain(takeovers.map(|copied| &copied.key));
                keys.find(|key| config.shard_of(key) != entry.shard)
            }),
            Record::Handover(Handover { shard, copies, .. }) => {
                let mut keys = copies.iter().map(|copied| &copied.key);
                keys.find(|key| config.shard_of(key) != *shard)
            }
            _ => None,
        }
    }
}

impl Part {
    /// Returns a key whose shard in this configuration is another one than in the part.
    pub(crate) fn moved_key(&self, config: &Config) -> Option<&Key> {
        let Part::Rest(rest) = self else { return None };
        let mut hidden = rest.hidden.iter();
        let hidden = hidden.find(|(shard, _, key, ..)| config.shard_of(key) != *shard);
        let in_records = || rest.records.iter().find_map(|record| record.moved_key(config));
        hidden.map(|(_, _, key, ..)| key).or_else(in_records)
    }

    /// Returns whether a worker with this configuration can have written the part.
    pub(crate) fn is_within(&self, config: &Config) -> bool {
        match self {
            Part::Values(values) => values.iter().all(|copied| config.is_copied(copied)),
            Part::Rest(rest) => {
                let Rest { ceiling, records, hidden, hidden_decisions, held, .. } = &**rest;
                let Rest { positions, table, taken, decided, .. } = &**rest;
                is_stamp(*ceiling)
                    && records.iter().all(|record| record.is_within(config))
                    && hidden.iter().all(|(shard, stamp, key, _, dependencies)| {
                        config.shard_of(key) == *shard
                            && config.is_mine(*shard)
                            && is_stamp(*stamp)
                            && config.is_timestamp(dependencies)
                    })
                    && hidden_decisions.iter().all(|(shard, stamp, (tid, commit))| {
                        config.is_mine(*shard)
                            && is_stamp(*stamp)
                            && is_client(tid.client, &config.topology)
                            && config.is_commit(commit)
                    })
                    && held.iter().all(|entry| config.is_entry(entry))
                    && table.iter().all(|table| config.is_table(table))
                    && taken.iter().all(|(shard, _)| config.is_mine(*shard))
                    && config.are_decided(decided)
                    && positions.iter().all(|(home, ..)| config.topology.has(*home))
            }
        }
    }
}
