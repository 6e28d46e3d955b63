//! Copies of shards whose homes are elsewhere. They apply the writes that each home has shown, in
//! the home's order and independently of other homes (§4.1).

mod decided;
mod dependencies;
mod held;
mod parked;
mod streams;

use std::collections::BTreeMap;
use std::time::Duration;

use solera_data::Key;
use solera_machine::Address;
use solera_time::{Monotonic, SiteId};

pub(crate) use self::decided::Decisions;
use self::dependencies::Checks;
use self::held::HeldShards;
use self::parked::{ParkedRead, ParkedReads};
use self::streams::Stream;
use crate::config::{Config, Rule, Shows, StaleReads};
use crate::message::{
    Batch, Body, Copies, CopyRequest, DecidedOf, Entry, Read, ReadAnswer, Stored, StoredAt,
    TransactionId,
};
use crate::outbox::Outbox;
use crate::passed::Passed;
use crate::rare;
use crate::record::Record;
use crate::shard::{Homes, ShardId, Stamp};
use crate::store::Store;

/// Interval at which a replica without new entries reports its progress to the home.
const REPORT: Duration = Duration::from_millis(50);

/// The replicas of one worker.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    streams: BTreeMap<Address, Stream>,
    parked: ParkedReads,
    held: HeldShards,
    checks: Checks,
    decided: Decisions,
}

/// The data that a replica needs besides its own state.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) store: &'a mut Store,
    pub(crate) out: &'a mut Outbox,
    pub(crate) now: Monotonic,
    pub(crate) passed: &'a Passed,
    pub(crate) homes: &'a Homes,
}

impl Context<'_> {
    /// Returns whether this worker has all data that a home has taken over from others.
    fn has_taken_all(&self, home: Address) -> bool {
        let home_of = |shard| self.config.owner(self.homes.home(shard), shard);
        self.store.missing().all(|shard| home_of(shard) != home)
    }

    /// Returns the stamp that this site has confirmed for a site's homes: no open transaction of
    /// this site's clients has read a copy below it.
    fn unread(&self, site: SiteId) -> Stamp {
        let workers = self.config.topology.workers[self.config.address.site.index()];
        self.passed.unread(site, usize::from(workers))
    }
}

impl Replica {
    /// Returns the shardstamp of a copy here: it shows all writes of the shard up to this stamp.
    pub(crate) fn shown(
        &self,
        home: Address,
        shard: ShardId,
        (store, homes): (&Store, &Homes),
    ) -> Stamp {
        match store.is_current(shard, homes) {
            true => self.shown_by(home, shard),
            // The data that the new home has taken over has not arrived here.
            false => Stamp::ZERO,
        }
    }

    /// Returns the shardstamp of a copy according to the home's stream alone, without regard to
    /// moves.
    pub(crate) fn shown_by(&self, home: Address, shard: ShardId) -> Stamp {
        let shown = self.streams.get(&home).map_or(Stamp::ZERO, |stream| stream.shown(shard));
        self.held.shown(home, shard).map_or(shown, |late| late.min(shown))
    }

    /// Returns a stamp up to which all shards of a home's stream are shown.
    pub(crate) fn floor(&self, home: Address) -> Stamp {
        let floor = self.streams.get(&home).map_or(Stamp::ZERO, Stream::floor);
        self.held.floor(home).map_or(floor, |late| late.min(floor))
    }

    /// Returns the position up to which a home's stream is applied.
    fn position(&self, home: Address) -> u64 {
        let position = self.streams.get(&home).map_or(0, |stream| stream.position);
        self.held.position(home).map_or(position, |late| late.min(position))
    }

    /// Returns what each site has stored and confirmed of a home's writes.
    pub(crate) fn stored(&self, home: Address) -> &[StoredAt] {
        self.streams.get(&home).map_or(&[], |stream| stream.stored())
    }

    /// Returns whether these homes' streams have filled the replica.
    pub(crate) fn is_filled(&self, mut homes: impl Iterator<Item = Address>) -> bool {
        homes.all(|home| self.streams.get(&home).is_some_and(|stream| stream.is_filled()))
    }

    /// Forgets what homes have reported about their shards, because they have other shards now.
    pub(crate) fn forget_progress(&mut self) {
        self.streams.values_mut().for_each(Stream::forget_stored);
    }

    /// Reads a key at this replica (List. 2 l. 10–12; Fig. 4 l. 15–17). If the copy is not as
    /// recent as the client requires, the read may wait here for the home's next batch. In any case
    /// the client checks the answer. Stamps are times, so their difference is about the time until
    /// the replica is recent enough. A read that would wait in vain is answered at once, and its
    /// client goes to the home.
    pub(crate) fn on_read(
        &mut self,
        context: &mut Context<'_>,
        (from, home): (Address, Address),
        read: Read,
    ) {
        let shard = context.config.shard_of(&read.key);
        let shown = self.shown(home, shard, (context.store, context.homes));
        let missing = read.at_least.0.saturating_sub(shown.0);
        if missing > 0
            && read.waits
            && let StaleReads::Wait(wait) = context.config.timing.stale
            && u128::from(missing) <= wait.as_micros()
        {
            let until = context.now.after(wait);
            self.want(context, home);
            return self.parked.push(shard, ParkedRead { from, read, until });
        }
        self.answer(context, (from, home), &read);
    }

    fn answer(&self, context: &mut Context<'_>, (from, home): (Address, Address), read: &Read) {
        let shard = context.config.shard_of(&read.key);
        let shown = self.shown(home, shard, (context.store, context.homes));
        let (result, dependencies) =
            context.store.read(shard, &read.key, &read.op, read.own.as_ref());
        let answer = ReadAnswer { number: read.number, result, dependencies, shown };
        context.out.send(from, Body::ReadAnswer(answer));
    }

    /// Requests that a home publishes its progress now.
    pub(crate) fn want(&mut self, context: &mut Context<'_>, home: Address) {
        let stream = self.streams.entry(home).or_default();
        let interval = context.config.timing.publish;
        if stream.wanted.is_none_or(|wanted| context.now.since(wanted) >= interval) {
            stream.wanted = Some(context.now);
            context.out.send(home, Body::Wanted);
        }
    }

    /// Answers waiting reads that have waited too long, or whose copies are recent enough. If
    /// `changed` names a home, only copies of its shards have changed.
    pub(crate) fn answer_parked(&mut self, context: &mut Context<'_>, changed: Option<Address>) {
        if self.parked.is_empty() {
            return;
        }
        let mut due = self.parked.take_expired(context.now);
        // A shard may have moved since a read began to wait.
        let home_of = |shard| context.config.owner(context.homes.home(shard), shard);
        for shard in self.parked.shards() {
            let home = home_of(shard);
            if changed.is_none_or(|changed| changed == home) {
                let shown = self.shown(home, shard, (context.store, context.homes));
                due.extend(self.parked.take_shown(shard, shown));
            }
        }
        for ParkedRead { from, read, .. } in due {
            let home = home_of(context.config.shard_of(&read.key));
            self.answer(context, (from, home), &read);
        }
    }

    /// Applies a part of a home's stream, or requests the missing part before it.
    pub(crate) fn on_batch(&mut self, context: &mut Context<'_>, from: Address, mut batch: Batch) {
        self.drop_outdated(context, from, &mut batch);
        if batch.epoch < context.homes.epoch() {
            // This progress does not apply to the shards that the home has now.
            batch.progress = None;
        }
        let in_order = context.config.has(Rule::InOrder);
        let stream = self.streams.entry(from).or_default();
        if stream.begins_with(&batch) {
            stream.start = batch.start;
        }
        let gap = batch.start != stream.start || batch.after > stream.position;
        if gap && in_order {
            if stream.may_ask(context.now, context.config.timing.retry) {
                self.report(context, from, true);
            }
            return;
        }
        if batch.end > stream.position && !batch.entries.is_empty() {
            context.out.record(Record::Batch(from, batch.clone()));
        }
        let has_entries = batch.end > stream.position;
        if has_entries {
            self.decided.add_all(from, &batch);
        }
        if batch.end >= stream.position {
            let home_of = |shard| context.config.owner(context.homes.home(shard), shard);
            self.held.take((from, context.now), &mut batch, home_of);
        }
        if context.config.shows == Shows::AfterDependencies {
            if !has_entries {
                batch.entries.clear();
            }
            self.hold(context, from, &mut batch);
        }
        let stream = self.streams.entry(from).or_default();
        stream.apply(context.store, batch);
        if has_entries || stream.reported.is_none_or(|at| context.now.since(at) >= REPORT) {
            self.report(context, from, false);
        }
        if context.config.shows == Shows::AfterDependencies {
            self.show_held(context);
        }
        self.answer_parked(context, Some(from));
    }

    /// Drops entries of shards whose home is another site, and entries that precede the home's last
    /// takeover of their shard. The takeover contains the writes of the latter.
    fn drop_outdated(&self, context: &Context<'_>, from: Address, batch: &mut Batch) {
        let homes = context.homes;
        let completes = |entry: &Entry| {
            let takeover = entry.takeover.as_ref().filter(|takeover| takeover.done);
            takeover.is_some_and(|takeover| takeover.number >= homes.moved_by(entry.shard))
        };
        let ends = batch.entries.iter().enumerate().filter(|(_, entry)| completes(entry));
        let ends: BTreeMap<ShardId, usize> = ends.map(|(at, entry)| (entry.shard, at)).collect();
        let mut places = 0..;
        batch.entries.retain(|entry| {
            let (place, shard) = (places.next(), entry.shard);
            let is_valid = match ends.get(&shard) {
                // A batch may arrive again when the replica already has the data of the takeover
                // that the batch contains.
                Some(end) => place > Some(*end),
                None => context.store.is_current(shard, homes) || self.held.takes_over(shard, from),
            };
            homes.home(shard) == from.site && (is_valid || entry.takeover.is_some())
        });
    }

    /// Returns the stamp up to which the replica has all versions of a home's shards.
    fn through(&self, context: &Context<'_>, home: Address) -> Stamp {
        if context.has_taken_all(home) { self.floor(home) } else { Stamp::ZERO }
    }

    /// Reports the progress in a home's stream to the home.
    fn report(&mut self, context: &mut Context<'_>, home: Address, asks: bool) {
        let (position, through) = (self.position(home), self.through(context, home));
        let stream = self.streams.entry(home).or_default();
        stream.reported = Some(context.now);
        let stored = Stored {
            start: stream.start,
            position,
            through,
            unread: context.unread(home.site),
            asks,
        };
        context.out.send(home, Body::Stored(stored));
    }

    /// Delays all later writes of this home to a shard by `delay`. Zero ends the delay.
    pub(crate) fn slow_down(
        &mut self,
        context: &mut Context<'_>,
        (home, shard): (Address, ShardId),
        delay: Duration,
    ) {
        match delay {
            Duration::ZERO => self.held.end(shard, context.store, context.homes),
            _ => self.held.delay(shard, delay, (home, self.shown_by(home, shard))),
        }
        self.answer_parked(context, None);
    }

    /// Returns whether something waits here: reads, or writes that are held back.
    pub(crate) fn waits(&self) -> bool {
        !self.parked.is_empty() || self.held.waits()
    }

    /// Returns the number of writes that have arrived and are held back.
    pub(crate) fn held(&self) -> usize {
        self.held.writes()
    }

    /// Applies a batch again, from the journal. It left no gap when it arrived.
    pub(crate) fn recover_batch(&mut self, store: &mut Store, from: Address, batch: Batch) {
        self.decided.add_all(from, &batch);
        let stream = self.streams.entry(from).or_default();
        if stream.start != batch.start {
            // A position is valid in the stream of one start only.
            (stream.start, stream.position) = (batch.start, batch.after);
        }
        stream.apply(store, batch);
    }

    /// Takes copies of the versions that this replica may lack, and requests the next ones. The
    /// copies may be newer than the replica's shardstamps. A reader then finds that the version's
    /// own entry exceeds the shardstamp, and reads again.
    pub(crate) fn on_copies(&mut self, context: &mut Context<'_>, from: Address, copies: Copies) {
        let stream = self.streams.entry(from).or_default();
        if !stream.expects(&copies) {
            return;
        }
        context.out.record(Record::Copies(from, copies.clone()));
        self.held.release(from);
        let known = (context.config, context.homes);
        let next = self.take_copies(known, context.store, from, copies);
        let above = self.through(context, from);
        match next {
            Some(after) => {
                self.streams.entry(from).or_default().note_asked(context.now);
                context.out.send(from, Body::CopyRequest(CopyRequest { after, above }));
            }
            None => {
                context.out.rare(rare::COPIES);
                self.report(context, from, true);
            }
        }
    }

    /// Takes a group of copies, except those of shards that have moved since the home made them.
    /// Returns the key after which the next group begins.
    pub(crate) fn take_copies(
        &mut self,
        (config, homes): (&Config, &Homes),
        store: &mut Store,
        from: Address,
        copies: Copies,
    ) -> Option<Key> {
        let last_key = copies.copies.last().map(|copied| copied.key.clone());
        let (is_last, position, start) = (copies.last, copies.position, copies.start);
        let is_valid = |shard: ShardId| {
            homes.home(shard) == from.site && copies.epoch >= homes.moved_by(shard)
        };
        for taken in copies.taken.iter().filter(|taken| is_valid(taken.shard)) {
            store.drop_lost(taken.shard, &taken.losses);
        }
        for copied in copies.copies {
            let shard = config.shard_of(&copied.key);
            if is_valid(shard) {
                store.copy(shard, copied);
            }
        }
        for decided in copies.decided.into_iter().filter(|(_, shard, ..)| is_valid(*shard)) {
            self.decided.add(decided);
        }
        let stream = self.streams.entry(from).or_default();
        if copies.after.is_none() {
            let taken = copies.taken.iter().map(|taken| (taken.shard, taken.number));
            stream.begin_filling((start, position), taken.collect());
        }
        let taken = stream.take_group(is_last, last_key.clone());
        for (shard, number) in taken.into_iter().filter(|(shard, _)| is_valid(*shard)) {
            store.note_taken(shard, number);
        }
        if is_last { None } else { last_key }
    }

    /// Returns the decisions that came with the data of homes.
    pub(crate) fn decisions(&self) -> &Decisions {
        &self.decided
    }

    /// Drops the decisions of a home with stamps up to this one, but those about which somebody may
    /// still ask.
    pub(crate) fn forget_decisions(
        &mut self,
        home: Address,
        (upto, askable): (Stamp, Vec<TransactionId>),
        homes: &Homes,
    ) {
        self.decided.retain(home, (upto, &askable.into_iter().collect()), homes);
    }

    /// Adds decisions that another copy has received.
    pub(crate) fn add_decided(&mut self, decided: impl IntoIterator<Item = DecidedOf>) {
        decided.into_iter().for_each(|decided| self.decided.add(decided));
    }

    /// Returns each stream's position, for a checkpoint. The entries that are held back precede it.
    pub(crate) fn positions(&self) -> Vec<(Address, u64, u64, bool)> {
        let position = |(home, stream): (&Address, &Stream)| {
            (*home, stream.start, stream.position, stream.is_filled())
        };
        self.streams.iter().map(position).collect()
    }

    /// Returns the entries that are held back, for a checkpoint.
    pub(crate) fn held_entries(&self, homes: &Homes) -> Vec<Entry> {
        self.held.entries(homes).cloned().collect()
    }

    /// Restores a stream's position from a checkpoint.
    pub(crate) fn restore(&mut self, (home, start, position, filled): (Address, u64, u64, bool)) {
        self.streams.insert(home, Stream::restored(start, position, filled));
    }
}
