//! The stream of shown writes to the replicas.

use std::collections::{BTreeMap, VecDeque};

use solera_machine::Address;
use solera_time::Monotonic;

use super::{Context, Home};
use crate::message::{Batch, Body, Entry};
use crate::shard::Stamp;

/// Number of entries that are kept for replicas that have missed some. A replica that lacks more is
/// sent copies.
const KEPT: usize = 4_096;

/// The stream, and the part of it that was sent to each replica.
#[derive(Debug)]
pub(super) struct Streams {
    /// Start of this process. Positions of another start have no meaning in this one.
    start: u64,
    /// Number of entries before those in `entries`.
    first: u64,
    entries: VecDeque<Entry>,
    /// Number of entries that were sent to each replica, and the time of the last message to it.
    sent: BTreeMap<Address, (u64, Monotonic)>,
}

impl Streams {
    pub(super) fn new(start: u64) -> Streams {
        Streams { start, first: 0, entries: VecDeque::new(), sent: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, entries: Vec<Entry>) {
        self.entries.extend(entries);
        while self.entries.len() > KEPT {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

impl Home {
    /// Sends new entries to the replicas. From time to time, also sends how far all shards are
    /// shown, so that idle shards do not look stale.
    pub(crate) fn stream(&mut self, context: &mut Context<'_>) {
        let now = context.now.monotonic;
        let interval = context.config.timing.publish;
        for to in context.config.replicas() {
            let due = match self.streams.sent.get(&to) {
                Some((sent, at)) => {
                    (*sent < self.streams.end() || now.since(*at) >= interval).then_some(*sent)
                }
                None => Some(0),
            };
            if let Some(after) = due {
                self.send_batch(context, to, after);
            }
        }
    }

    /// Sends the entries after the first `after`.
    fn send_batch(&mut self, context: &mut Context<'_>, to: Address, after: u64) {
        self.advance(context, context.clock());
        let held = self.assigned.keys().filter_map(|shard| {
            let first = self.first_undecided(context, *shard)?;
            Some((*shard, Stamp(first.0 - 1)))
        });
        let held = held.collect();
        let streams = &mut self.streams;
        let after = after.max(streams.first);
        let entries = streams.entries.iter().skip((after - streams.first) as usize).cloned();
        let batch = Batch {
            start: streams.start,
            after,
            entries: entries.collect(),
            through: self.clock,
            held,
        };
        streams.sent.insert(to, (streams.end(), context.now.monotonic));
        context.out.send(to, Body::Batch(batch));
    }

    /// Handles the request of a replica that lacks entries: sends these, or copies of all versions
    /// above `shown`.
    pub(crate) fn on_ask(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        (start, position): (u64, u64),
        shown: Stamp,
    ) {
        let streams = &self.streams;
        let has = start == streams.start && (streams.first..=streams.end()).contains(&position);
        let mut after = position;
        if !has {
            after = streams.end();
            let copies = context.store.copies(shown);
            context.out.send(from, Body::Copies { start: streams.start, position: after, copies });
        }
        self.send_batch(context, from, after);
    }
}
