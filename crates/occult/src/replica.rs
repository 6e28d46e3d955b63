//! Copies of shards whose homes are elsewhere. They apply the writes that each home has shown, in
//! the home's order and independently of other homes (§4.1).

use std::collections::BTreeMap;

use solera_machine::Address;
use solera_time::Monotonic;

use crate::config::{Config, Rule};
use crate::message::{Batch, Body, Copied, Read, ReadAnswer};
use crate::outbox::Outbox;
use crate::record::Record;
use crate::shard::{ShardId, Stamp};
use crate::store::Store;

/// The part of one home worker's stream that has arrived.
#[derive(Debug, Default)]
struct Stream {
    start: u64,
    position: u64,
    through: Stamp,
    held: BTreeMap<ShardId, Stamp>,
    /// Time when missing entries were last requested.
    asked: Option<Monotonic>,
}

impl Stream {
    /// Returns the shardstamp of a shard of this stream.
    fn shown(&self, shard: ShardId) -> Stamp {
        self.held.get(&shard).copied().unwrap_or(self.through)
    }

    /// Returns a stamp up to which all shards are shown.
    fn floor(&self) -> Stamp {
        self.held.values().copied().fold(self.through, Stamp::min)
    }

    /// Applies the entries of a batch that are new.
    fn apply(&mut self, store: &mut Store, batch: Batch) {
        let known = self.position.saturating_sub(batch.after) as usize;
        let end = batch.after + batch.entries.len() as u64;
        for entry in batch.entries.iter().skip(known) {
            store.apply(entry);
        }
        if end >= self.position {
            self.position = end;
            self.asked = None;
            self.through = batch.through.max(self.through);
            self.held = batch.held.into_iter().collect();
        }
    }
}

/// The replicas of one worker.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    streams: BTreeMap<Address, Stream>,
}

impl Replica {
    /// Reads a key at this replica. The client checks whether the version is recent enough.
    pub(crate) fn on_read(
        &self,
        config: &Config,
        store: &Store,
        out: &mut Outbox,
        (from, home): (Address, Address),
        read: &Read,
    ) {
        let shard = config.shard_of(&read.key);
        let shown = self.streams.get(&home).map_or(Stamp::ZERO, |stream| stream.shown(shard));
        let (result, dependencies) = store.read(&read.key, &read.op, read.own.as_ref());
        let answer = ReadAnswer { number: read.number, result, dependencies, shown };
        out.send(from, Body::ReadAnswer(answer));
    }

    /// Applies a part of a home's stream, or requests the missing part before it.
    pub(crate) fn on_batch(
        &mut self,
        (config, now): (&Config, Monotonic),
        store: &mut Store,
        out: &mut Outbox,
        from: Address,
        batch: Batch,
    ) {
        let stream = self.streams.entry(from).or_default();
        if stream.position == 0 && stream.through == Stamp::ZERO && batch.after == 0 {
            stream.start = batch.start;
        }
        let gap = batch.start != stream.start || batch.after > stream.position;
        if gap && config.has(Rule::InOrder) {
            if stream.asked.is_none_or(|asked| now.since(asked) >= config.timing.retry) {
                stream.asked = Some(now);
                out.send(from, Body::Ask(stream.start, stream.position, stream.floor()));
            }
            return;
        }
        if !batch.entries.is_empty() {
            out.record(Record::Batch(from, batch.clone()));
        }
        stream.apply(store, batch);
    }

    /// Applies a batch again, from the journal.
    pub(crate) fn recover_batch(&mut self, store: &mut Store, from: Address, batch: Batch) {
        let stream = self.streams.entry(from).or_default();
        stream.start = batch.start;
        stream.apply(store, batch);
    }

    /// Takes copies of the versions that this replica may lack. They may be newer than its
    /// shardstamps. A reader then finds that the version's own entry exceeds the shardstamp, and
    /// reads again.
    pub(crate) fn on_copies(
        &mut self,
        store: &mut Store,
        from: Address,
        (start, position): (u64, u64),
        copies: Vec<Copied>,
    ) {
        for copied in copies {
            store.copy(copied);
        }
        let stream = self.streams.entry(from).or_default();
        stream.start = start;
        stream.position = position;
    }
}
