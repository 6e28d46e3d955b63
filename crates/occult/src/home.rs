//! The homes of a worker's shards: stamps, locks, decisions, and the stream to the replicas.
//!
//! The commit protocol is described, and checked, in `docs/models/occult-commit`.

mod deciding;
mod executing;
mod reading;
mod recovering;
mod streaming;

use std::collections::{BTreeMap, BTreeSet};

use solera_data::{Effect, Key};
use solera_machine::{Address, Now};
use solera_time::{Monotonic, SiteId};

use self::reading::ParkedRead;
use self::streaming::Streams;
use crate::config::{Config, LockScope, Rule};
use crate::message::{
    Body, ClientId, Commit, DecidedCommit, Entry, Event, Executed, Prepare, TransactionId,
};
use crate::outbox::Outbox;
use crate::passed::Passed;
use crate::rare;
use crate::record::Record;
use crate::replica::Decisions;
use crate::shard::{Homes, STAMP_END, ShardId, Stamp};
use crate::store::Store;
use crate::timestamp::CausalTimestamp;

/// A prepared transaction at one participant.
#[derive(Clone, Debug)]
struct Prepared {
    writes: Vec<(Key, Effect)>,
    shards: BTreeSet<ShardId>,
    assigned: Stamp,
    overwritten: CausalTimestamp,
    decision_home: Address,
    decision_shard: ShardId,
    /// See [`Prepare::epoch`].
    epoch: u64,
    since: Monotonic,
    /// Time when the decision home was last asked to decide.
    asked: Option<Monotonic>,
}

/// Distance by which the durable bound of the clock is set ahead, in microseconds.
const CEILING_STEP: u64 = 1_000_000;

/// The decision home's record of a transaction that has ended, or the answer to a transaction of
/// one home.
#[derive(Clone, Debug)]
enum Ended {
    Aborted,
    Committed {
        commit: Box<Commit>,
        /// The shard whose home has decided; `None` if that home had prepared nothing.
        shard: Option<ShardId>,
        /// Participants that have not confirmed the commit.
        waiting: BTreeSet<Address>,
        /// Time when the commit was last sent to these participants.
        sent: Option<Monotonic>,
    },
    Executed(Executed),
    /// The decision shard was taken from this home by force since it has committed. The shard's
    /// present home knows whether the commit has survived.
    Taken,
}

/// The homes of one worker.
#[derive(Debug)]
pub(crate) struct Home {
    /// The greatest stamp that was assigned, reported or committed here.
    clock: Stamp,
    /// The durable bound of the clock: a restart continues above it.
    ceiling: Stamp,
    prepared: BTreeMap<TransactionId, Prepared>,
    locks: BTreeMap<Key, TransactionId>,
    /// Assigned stamps of prepared transactions, by shard.
    assigned: BTreeMap<ShardId, BTreeSet<(Stamp, TransactionId)>>,
    records: BTreeMap<TransactionId, Ended>,
    /// For each client, the smallest number of a transaction about which it may still send
    /// messages.
    oldest: BTreeMap<ClientId, u64>,
    parked: Vec<ParkedRead>,
    streams: Streams,
    /// Time of the last request of a client.
    used: Option<Monotonic>,
    /// Commits of several homes that this home has decided, and that are not shown yet, by the
    /// shard and stamp of their writes here.
    decided: BTreeMap<(ShardId, Stamp), Vec<DecidedCommit>>,
    /// Committed transactions that not all participants have confirmed.
    unconfirmed: BTreeSet<TransactionId>,
    /// Commits of several homes that this home has decided, and about which somebody may still ask:
    /// those with a record. By the shard whose home has decided.
    askable: BTreeMap<ShardId, BTreeSet<TransactionId>>,
    /// Whether replicas may keep decisions about which nobody asks any more, and when this home
    /// last reported those about which somebody may.
    reports_askable: bool,
    reported_askable: Option<Monotonic>,
}

/// The data that a home needs besides its own state.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) homes: &'a Homes,
    pub(crate) store: &'a mut Store,
    pub(crate) out: &'a mut Outbox,
    pub(crate) now: Now,
    /// The workers that have replicas of this worker's shards.
    pub(crate) targets: &'a [Address],
    /// The sites other than this one that store all data.
    pub(crate) others: &'a [SiteId],
    pub(crate) passed: &'a Passed,
    /// The decisions that came with the data of other homes.
    pub(crate) decisions: &'a Decisions,
}

impl Context<'_> {
    fn site(&self) -> SiteId {
        self.config.address.site
    }

    fn clock(&self) -> Stamp {
        Stamp(self.now.physical.0)
    }

    /// Returns the stamp that this site has confirmed for its own homes; see `StoredAt::unread`.
    fn unread(&self) -> Stamp {
        let workers = self.config.topology.workers[self.site().index()];
        self.passed.unread(self.site(), usize::from(workers))
    }

    /// Returns whether this worker is the home of a shard, and has all of its data.
    fn is_home(&self, shard: ShardId) -> bool {
        self.homes.home(shard) == self.site() && self.store.is_current(shard, self.homes)
    }

    /// Returns whether this worker is the home of all these keys.
    fn is_home_of<'k>(&self, mut keys: impl Iterator<Item = &'k Key>) -> bool {
        keys.all(|key| self.is_home(self.config.shard_of(key)))
    }

    /// Returns the merged timestamps of the versions that these writes overwrite.
    fn overwritten_by(&self, writes: &[(Key, Effect)]) -> CausalTimestamp {
        let mut overwritten = CausalTimestamp::new(self.config.scheme);
        for (key, _) in writes {
            let shard = self.config.shard_of(key);
            if let Some(dependencies) = self.store.dependencies(shard, key) {
                overwritten.merge(&dependencies, self.homes);
            }
        }
        overwritten
    }
}

impl Home {
    pub(crate) fn new(start: u64) -> Home {
        Home {
            clock: Stamp::ZERO,
            ceiling: Stamp::ZERO,
            prepared: BTreeMap::new(),
            locks: BTreeMap::new(),
            assigned: BTreeMap::new(),
            records: BTreeMap::new(),
            oldest: BTreeMap::new(),
            parked: Vec::new(),
            streams: Streams::new(start),
            used: None,
            decided: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            askable: BTreeMap::new(),
            reports_askable: true,
            reported_askable: None,
        }
    }

    /// Returns the number of prepared transactions, and the number of records of ended
    /// transactions.
    pub(crate) fn unfinished(&self) -> (usize, usize) {
        (self.prepared.len(), self.records.len())
    }

    /// Returns the greatest stamp that was assigned, reported or committed here.
    pub(crate) fn clock(&self) -> Stamp {
        self.clock
    }

    /// Returns whether no transaction here is undecided, and no write is hidden, in a shard that
    /// has another home now.
    pub(crate) fn is_drained(&self, store: &Store, shard: ShardId) -> bool {
        !self.assigned.contains_key(&shard) && !store.hides(shard)
    }

    /// Advances the clock to the wall clock, and at least to `at_least`, a stamp on which stored
    /// data depends. Makes the clock durable, as after a reported stamp.
    pub(crate) fn report(&mut self, context: &mut Context<'_>, at_least: Stamp) {
        self.advance(context, context.clock().max(at_least));
    }

    /// Takes over a shard. Writes of the former home with stamps above `last` are lost, if there
    /// are any.
    pub(crate) fn take_over(&mut self, context: &mut Context<'_>, last: Stamp, parts: Vec<Entry>) {
        self.advance(context, last);
        self.streams.push(parts);
        self.answer_parked(context);
    }

    /// Returns the durable bound of the clock.
    pub(crate) fn ceiling(&self) -> Stamp {
        self.ceiling
    }

    /// Returns whether something here depends on later ticks.
    pub(crate) fn waits(&self) -> bool {
        !self.prepared.is_empty() || !self.parked.is_empty() || !self.unconfirmed.is_empty()
    }

    /// Returns whether a stamp is so far ahead of the clock that no correct clock can have produced
    /// it.
    pub(crate) fn is_too_far_ahead(&self, context: &Context<'_>, stamp: Stamp) -> bool {
        let clock = self.clock.max(context.clock()).0;
        stamp.0 > clock.saturating_add(context.config.timing.max_ahead.as_micros() as u64)
    }

    /// Returns the least stamp that was assigned to an undecided transaction in the shard. If the
    /// transaction commits, its writes have this stamp or a greater one.
    fn first_undecided(&self, config: &Config, shard: ShardId) -> Option<Stamp> {
        let (assigned, _) = self.assigned.get(&shard)?.first()?;
        config.has(Rule::ShowInOrder).then_some(*assigned)
    }

    /// Returns the shardstamp: all writes of the shard up to it are shown, and no others will be
    /// added.
    pub(crate) fn shown(&self, config: &Config, shard: ShardId) -> Stamp {
        let first = self.first_undecided(config, shard);
        first.map_or(self.clock, |assigned| Stamp(assigned.0 - 1))
    }

    /// Assigns a stamp above all that were assigned, reported or committed here, above the client's
    /// greatest entry of this site, and above the clock (§5; List. 2 l. 1–8).
    fn assign(&mut self, context: &mut Context<'_>, above: Stamp) -> Stamp {
        self.advance(context, self.clock.max(context.clock()).max(above).next());
        self.clock
    }

    /// Moves the clock up to a stamp, and its durable bound with it.
    fn advance(&mut self, context: &mut Context<'_>, to: Stamp) {
        self.clock = self.clock.max(to);
        if self.clock > self.ceiling {
            self.ceiling = Stamp((self.clock.0 + CEILING_STEP).min(STAMP_END - 1));
            context.out.record(Record::Ceiling(self.ceiling));
        }
    }

    /// Prepares a transaction (List. 2 l. 14–24): locks all of its keys here or none, assigns a
    /// stamp, and returns the timestamps of the versions that it will overwrite.
    pub(crate) fn on_prepare(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        request: Prepare,
    ) {
        self.used = Some(context.now.monotonic);
        let tid = request.tid;
        self.on_oldest(tid.client, request.oldest);
        if !self.may_arrive(tid) {
            return;
        }
        if let Some(Ended::Taken) = self.records.get(&tid) {
            return context.out.send(from, Body::Moved(tid));
        }
        if let Some(record) = self.records.get(&tid) {
            let committed = matches!(record, Ended::Committed { .. });
            return context.out.send(from, Body::Outcome(tid, committed));
        }
        if !self.prepared.contains_key(&tid) {
            // The client aborts a transaction if one of its shards moves. Homes that ask about it
            // must not mistake an earlier tenure of the decision home for the present one.
            let has_moved = |shard| context.homes.moved_by(shard) > request.epoch;
            let mut shards = request.writes.iter().map(|(key, _)| context.config.shard_of(key));
            if shards.any(|shard| !context.is_home(shard) || has_moved(shard))
                || has_moved(request.decision_shard)
            {
                return context.out.send(from, Body::Moved(tid));
            }
            if let Some(key) = self.locked(context, tid, request.writes.iter().map(|(key, _)| key))
            {
                return context.out.send(from, Body::Locked(tid, key));
            }
            if self.is_too_far_ahead(context, request.above) {
                return context.out.send(from, Body::Outcome(tid, false));
            }
            self.prepare(context, request);
        }
        let prepared = &self.prepared[&tid];
        let body = Body::Prepared(tid, prepared.assigned, prepared.overwritten.clone());
        context.out.send(from, body);
    }

    /// Returns a key that another transaction has locked, or whose shard another transaction has
    /// locked.
    fn locked<'k>(
        &self,
        context: &Context<'_>,
        tid: TransactionId,
        mut keys: impl Iterator<Item = &'k Key>,
    ) -> Option<Key> {
        if !context.config.has(Rule::Locks) {
            return None;
        }
        let is_locked = |key: &&Key| match context.config.locks {
            LockScope::Keys => self.locks.get(*key).is_some_and(|holder| *holder != tid),
            LockScope::Shards => {
                let shard = context.config.shard_of(key);
                let mut holders = self.assigned.get(&shard).into_iter().flatten();
                holders.any(|(_, holder)| *holder != tid)
            }
        };
        keys.find(is_locked).cloned()
    }

    fn prepare(&mut self, context: &mut Context<'_>, request: Prepare) {
        let Prepare { tid, above, writes, decision_home, decision_shard, epoch, .. } = request;
        let assigned = self.assign(context, above);
        let overwritten = context.overwritten_by(&writes);
        context.out.record(Record::Prepared {
            tid,
            writes: writes.clone(),
            assigned,
            overwritten: overwritten.clone(),
            decision_home,
            decision_shard,
            epoch,
        });
        let decides = (decision_home, decision_shard, epoch);
        self.note_prepared(context, tid, (writes, assigned, overwritten), decides);
    }

    /// Adds a prepared transaction: its locks, and the bound that it imposes on shardstamps.
    fn note_prepared(
        &mut self,
        context: &Context<'_>,
        tid: TransactionId,
        (writes, assigned, overwritten): (Vec<(Key, Effect)>, Stamp, CausalTimestamp),
        (decision_home, decision_shard, epoch): (Address, ShardId, u64),
    ) {
        let since = context.now.monotonic;
        let asked = None;
        let prepared = Prepared {
            shards: context.config.shards_of(&writes),
            writes,
            assigned,
            overwritten,
            decision_home,
            decision_shard,
            epoch,
            since,
            asked,
        };
        self.hold(tid, prepared);
    }

    /// Locks the keys of a prepared transaction, and keeps the shardstamps of its shards below its
    /// stamp.
    fn hold(&mut self, tid: TransactionId, prepared: Prepared) {
        for shard in &prepared.shards {
            self.assigned.entry(*shard).or_default().insert((prepared.assigned, tid));
        }
        self.locks.extend(prepared.writes.iter().map(|(key, _)| (key.clone(), tid)));
        self.prepared.insert(tid, prepared);
    }

    /// Ends a prepare: releases its locks (List. 2 l. 31), and removes its stamps, which then delay
    /// no other writes.
    fn release(&mut self, tid: TransactionId) -> Option<Prepared> {
        let prepared = self.prepared.remove(&tid)?;
        for (key, _) in &prepared.writes {
            if self.locks.get(key) == Some(&tid) {
                self.locks.remove(key);
            }
        }
        for shard in &prepared.shards {
            if let Some(assigned) = self.assigned.get_mut(shard) {
                assigned.remove(&(prepared.assigned, tid));
                if assigned.is_empty() {
                    self.assigned.remove(shard);
                }
            }
        }
        Some(prepared)
    }

    /// Records the decision about a prepared transaction, and shows the writes that it has delayed
    /// (List. 2 l. 26–27, 29).
    fn settle(&mut self, context: &mut Context<'_>, tid: TransactionId, commit: Option<&Commit>) {
        let Some(prepared) = self.release(tid) else { return };
        // A PREPARE that arrived again after the commit was applied and forgotten has a stamp above
        // the commit stamp, because decisions advance the clock. The writes are here already.
        if let Some(commit) = commit
            && let Some(stamp) = commit.stamp_at(context.site())
        {
            if stamp >= prepared.assigned {
                self.advance(context, stamp);
                for (key, effect) in prepared.writes {
                    let shard = context.config.shard_of(&key);
                    context.store.hide(shard, stamp, (key, effect), &commit.timestamp);
                }
            } else {
                context.out.rare(rare::REPEATED_PREPARE);
            }
        }
        self.show(context, prepared.shards);
        self.answer_parked(context);
    }

    /// Shows the hidden writes of these shards that no undecided transaction can precede any more.
    fn show(&mut self, context: &mut Context<'_>, shards: impl IntoIterator<Item = ShardId>) {
        for shard in shards {
            let before = self.first_undecided(context.config, shard).unwrap_or(Stamp(u64::MAX));
            let mut entries = context.store.show(shard, before);
            for entry in &mut entries {
                entry.decided = self.decided.remove(&(shard, entry.stamp)).unwrap_or_default();
                self.reports_askable |= !entry.decided.is_empty();
            }
            if context.config.trace {
                entries.iter().for_each(|entry| context.out.trace(Event::Shown(entry.clone())));
            }
            self.streams.push(entries);
        }
    }
}
