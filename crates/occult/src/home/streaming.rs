//! The stream of shown writes to the replicas.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use solera_data::Key;
use solera_machine::Address;
use solera_time::{Monotonic, SiteId};

use super::{Context, Home};
use crate::message::{Batch, Body, Copies, CopyRequest, Entry, Progress, Stored, StoredAt, Taken};
use crate::shard::{ShardId, Stamp};

/// Number of entries that a home keeps for replicas that have missed some. A replica that lacks
/// older entries receives copies.
const KEPT: usize = 4_096;
/// Greatest number of entries in one batch.
const BATCH_ENTRIES: usize = 256;
/// Number of keys in a group of copies.
const COPY_KEYS: usize = 256;

/// The part of the stream that was sent to a replica, and the part that the replica has confirmed.
#[derive(Debug, Default)]
struct Sent {
    /// Position up to which entries were sent.
    position: u64,
    /// Time of the last message; `None` before the first one.
    at: Option<Monotonic>,
    /// Position and stamp that the replica has confirmed.
    confirmed: u64,
    stored: Stamp,
    /// See [`StoredAt::unread`].
    unread: Stamp,
    /// Whether the replica waits for progress.
    wanted: bool,
}

impl Sent {
    /// Returns whether the home has news for the replica. A home that clients have used since the
    /// last message publishes its progress: clients use other homes as well, and a session with
    /// their new stamps must not find this home's replicas stale. `used` is the time of the last
    /// use.
    fn has_news(&self, end: u64, used: Option<Monotonic>) -> bool {
        self.position < end || self.wanted || (self.at.is_some() && used > self.at)
    }
}

/// The stream, and the part of it that was sent to each replica.
#[derive(Debug)]
pub(super) struct Streams {
    /// Start of this process. A position is valid in the stream of one start only.
    start: u64,
    /// Position before the first of `entries`.
    first: u64,
    entries: VecDeque<Entry>,
    sent: BTreeMap<Address, Sent>,
}

impl Streams {
    pub(super) fn new(start: u64) -> Streams {
        Streams { start, first: 0, entries: VecDeque::new(), sent: BTreeMap::new() }
    }

    /// Begins the stream of a restarted process. No replica can have the first position of this
    /// stream, so each replica requests the entries that it lacks.
    pub(super) fn restart(&mut self) {
        self.first = 1;
        self.entries.clear();
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

    /// Returns the entries from a position on.
    fn after(&self, position: u64) -> impl Iterator<Item = &Entry> {
        self.entries.range((position.saturating_sub(self.first) as usize).min(self.entries.len())..)
    }

    /// Returns the stamps that each of these sites has stored and confirmed.
    fn stored_at(&self, sites: impl Iterator<Item = SiteId>) -> Vec<StoredAt> {
        let least = |site, of: fn(&Sent) -> Stamp| {
            let workers = self.sent.iter().filter(|(to, _)| to.site == site);
            workers.map(|(_, sent)| of(sent)).min().unwrap_or_default()
        };
        sites
            .map(|site| StoredAt {
                site,
                stored: least(site, |sent| sent.stored),
                unread: least(site, |sent| sent.unread),
            })
            .collect()
    }
}

impl Home {
    /// Sends new entries to the replicas (List. 2 l. 32–33; Fig. 4 l. 7–8). Periodically also sends
    /// the progress of all shards, so that idle shards do not look stale.
    pub(crate) fn stream(&mut self, context: &mut Context<'_>, publish: Duration) {
        self.report_askable(context);
        let now = context.now.monotonic;
        let flush = context.config.timing.flush;
        for at in 0..context.targets.len() {
            let to = context.targets[at];
            let end = self.streams.end();
            let used = self.used;
            let sent = self.streams.sent.entry(to).or_default();
            let since = sent.at.map(|at| now.since(at));
            let is_due = since.is_none_or(|since| {
                since >= publish || (since >= flush && sent.has_news(end, used))
            });
            if is_due {
                let position = sent.position;
                self.send_batches(context, to, position);
            }
        }
    }

    /// Returns when entries are to be sent next; `None` if there are none to send.
    pub(crate) fn next_flush(&self, targets: &[Address], flush: Duration) -> Option<Monotonic> {
        let end = self.streams.end();
        let waiting = targets.iter().filter_map(|to| self.streams.sent.get(to));
        let waiting = waiting.filter(|sent| sent.has_news(end, self.used));
        waiting.filter_map(|sent| Some(sent.at?.after(flush))).min()
    }

    /// Sends the entries after a position, and the progress.
    fn send_batches(&mut self, context: &mut Context<'_>, to: Address, after: u64) {
        self.advance(context, context.clock());
        let progress = self.progress(context, to);
        let epoch = context.homes.epoch();
        let streams = &mut self.streams;
        let mut after = after.max(streams.first);
        let mut entries = Vec::new();
        let mut batches = Vec::new();
        let mut end = after;
        for entry in streams.after(after) {
            end += 1;
            if context.config.owner(to.site, entry.shard) == to {
                entries.push(entry.clone());
            }
            if entries.len() >= BATCH_ENTRIES {
                let entries = std::mem::take(&mut entries);
                batches.push(Batch {
                    epoch,
                    start: streams.start,
                    after,
                    end,
                    entries,
                    progress: None,
                });
                after = end;
            }
        }
        let progress = Some(progress);
        batches.push(Batch { epoch, start: streams.start, after, end, entries, progress });
        let sent = streams.sent.entry(to).or_default();
        (sent.position, sent.at, sent.wanted) = (end, Some(context.now.monotonic), false);
        for batch in batches {
            context.out.send(to, Body::Batch(batch));
        }
    }

    fn progress(&self, context: &Context<'_>, to: Address) -> Progress {
        let held = self.assigned.keys().filter_map(|shard| {
            let first = self.first_undecided(context.config, *shard)?;
            let is_theirs = context.config.owner(to.site, *shard) == to;
            is_theirs.then_some((*shard, Stamp(first.0 - 1)))
        });
        Progress {
            through: self.clock,
            held: held.collect(),
            stored: self.stored(context.others, context.site(), context.unread()),
        }
    }

    /// Returns the stamps that each site has stored and confirmed. `unread` is the stamp that this
    /// site has confirmed ([`StoredAt::unread`]).
    pub(crate) fn stored(&self, others: &[SiteId], me: SiteId, unread: Stamp) -> Vec<StoredAt> {
        let mut all = self.streams.stored_at(others.iter().copied());
        all.push(StoredAt { site: me, stored: self.clock, unread });
        all
    }

    /// Returns the keys of shown writes that fewer than `sites` other sites are known to store, one
    /// group for each entry.
    pub(crate) fn unstored(&self, sites: usize) -> impl Iterator<Item = Vec<&Key>> {
        let mut confirmed: BTreeMap<SiteId, u64> = BTreeMap::new();
        for (to, sent) in &self.streams.sent {
            let least = confirmed.entry(to.site).or_insert(u64::MAX);
            *least = sent.confirmed.min(*least);
        }
        let mut confirmed: Vec<u64> = confirmed.into_values().collect();
        confirmed.sort_unstable_by_key(|position| std::cmp::Reverse(*position));
        let stored = match sites {
            0 => u64::MAX,
            sites => confirmed.get(sites - 1).copied().unwrap_or_default(),
        };
        let entries = self.streams.after(stored);
        entries.map(|entry| entry.writes.iter().map(|(key, ..)| key).collect())
    }

    /// Handles a replica's report of its progress. Sends the requested entries, or copies of the
    /// shards if it no longer has these entries.
    pub(crate) fn on_stored(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        report: Stored,
        epoch: u64,
    ) {
        let streams = &mut self.streams;
        let is_known = report.start == streams.start;
        if is_known && context.targets.contains(&from) {
            let sent = streams.sent.entry(from).or_default();
            sent.confirmed = report.position.max(sent.confirmed);
        }
        if is_known && epoch == context.homes.epoch() && context.targets.contains(&from) {
            let sent = streams.sent.entry(from).or_default();
            sent.stored = report.through.max(sent.stored);
            sent.unread = report.unread.max(sent.unread);
        }
        if !report.asks {
            return;
        }
        match is_known && (streams.first..=streams.end()).contains(&report.position) {
            true => self.send_batches(context, from, report.position),
            false => self.send_copies(context, from, None, (report.through, epoch)),
        }
    }

    /// Handles a replica's request for progress.
    pub(crate) fn on_wanted(&mut self, context: &mut Context<'_>, from: Address) {
        if context.targets.contains(&from) {
            self.streams.sent.entry(from).or_default().wanted = true;
        }
    }

    /// Handles a replica's request for the next group of copies.
    pub(crate) fn on_copy_request(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        request: CopyRequest,
        epoch: u64,
    ) {
        self.send_copies(context, from, Some(request.after), (request.above, epoch));
    }

    fn send_copies(
        &mut self,
        context: &mut Context<'_>,
        to: Address,
        after: Option<Key>,
        (above, asked_at): (Stamp, u64),
    ) {
        let epoch = context.homes.epoch();
        // The replica may lack older versions of shards that this home has taken over since.
        let above = if asked_at == epoch { above } else { Stamp::ZERO };
        let place = after.clone().map(|key| (context.config.shard_of(&key), key));
        let of = |shard| context.is_home(shard) && context.config.owner(to.site, shard) == to;
        let (copies, last) = context.store.copies(place.as_ref(), of, above, COPY_KEYS);
        let (start, position) = (self.streams.start, self.streams.end());
        let is_first = after.is_none();
        let taken = context.store.taken().filter(|(shard, _)| is_first && of(*shard));
        let taken = taken.map(|(shard, number)| {
            let losses = context.homes.losses(shard);
            Taken { shard, number, losses }
        });
        let taken = taken.collect();
        // The stream after `position` brings the decisions of later commits, but it may end before.
        let first = place.map_or(ShardId(0), |(shard, _)| shard);
        let end = copies.last().filter(|_| !last);
        let end = end.map_or(ShardId(u16::MAX), |copied| context.config.shard_of(&copied.key));
        let mut decided = context.decisions.within(first, end);
        decided.extend(self.askable_in(context.config, (first, end)));
        decided.retain(|(_, shard, ..)| of(*shard));
        let copies = Copies { start, position, after, copies, epoch, taken, decided, last };
        context.out.send(to, Body::Copies(copies));
    }

    /// Forgets what was sent to all replicas but these.
    pub(crate) fn retain_targets(&mut self, stays: impl Fn(&Address) -> bool) {
        self.streams.sent.retain(|to, _| stays(to));
    }

    /// Forgets what replicas have reported, because the home has other shards now.
    pub(crate) fn forget_reports(&mut self) {
        for sent in self.streams.sent.values_mut() {
            (sent.stored, sent.unread) = (Stamp::ZERO, Stamp::ZERO);
        }
    }

    /// Sets the start of the stream, before it is used.
    pub(crate) fn start_at(&mut self, start: u64) {
        self.streams = Streams::new(start);
    }
}
