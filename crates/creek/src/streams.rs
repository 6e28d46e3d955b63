//! Reliable broadcast of operations (Creek §3.2) as numbered streams, one for each run of a site.
//!
//! A site sends each of its operations once to the others. Sites report how much of each stream
//! they have. A site that lacks operations requests them from any site that has them, so the
//! operations of a site that failed while it was sending reach all others.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use solera_machine::codec;
use solera_time::{Monotonic, SiteId};

use crate::ids::{OperationId, StreamId};
use crate::request::Request;

/// Streams as far as one site has them.
#[derive(Debug)]
pub(crate) struct Streams<O> {
    streams: BTreeMap<StreamId, Stream<O>>,
    /// How much of each stream the other sites have stored durably, as they reported it.
    reported: BTreeMap<SiteId, BTreeMap<StreamId, u64>>,
    /// Number of operations that the site keeps, and bytes of their encodings.
    size: (usize, usize),
}

#[derive(Debug)]
struct Stream<O> {
    /// Events up to this one were removed because no site needs them any more.
    removed: u64,
    /// Later events without a gap.
    kept: VecDeque<Arc<Request<O>>>,
    /// Events after a gap.
    early: BTreeMap<u64, Arc<Request<O>>>,
    /// Greatest event that a site is known to have.
    greatest: u64,
    /// When missing events were last requested.
    requested: Option<Monotonic>,
}

/// A part of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part<O> {
    pub(crate) requests: Vec<Arc<Request<O>>>,
    /// Whether the sender has later events.
    pub(crate) more: bool,
}

impl<O> Stream<O> {
    fn new() -> Stream<O> {
        Stream {
            removed: 0,
            kept: VecDeque::new(),
            early: BTreeMap::new(),
            greatest: 0,
            requested: None,
        }
    }

    fn head(&self) -> u64 {
        self.removed + self.kept.len() as u64
    }

    /// Adds the next operation. Returns it with those that have waited for it.
    fn push(&mut self, request: Arc<Request<O>>) -> Vec<Arc<Request<O>>> {
        let mut delivered = vec![Arc::clone(&request)];
        self.kept.push_back(request);
        while let Some(next) = self.early.remove(&(self.head() + 1)) {
            delivered.push(Arc::clone(&next));
            self.kept.push_back(next);
        }
        let head = self.head();
        self.early.retain(|event, _| *event > head);
        delivered
    }

    fn after(&self, event: u64) -> impl Iterator<Item = &Arc<Request<O>>> {
        let skipped = event.saturating_sub(self.removed);
        self.kept.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX))
    }
}

impl<O: Serialize> Streams<O> {
    pub(crate) fn new() -> Streams<O> {
        Streams { streams: BTreeMap::new(), reported: BTreeMap::new(), size: (0, 0) }
    }

    fn entry(&mut self, id: StreamId) -> &mut Stream<O> {
        self.streams.entry(id).or_insert_with(Stream::new)
    }

    /// Returns the last event up to which the site has a stream without a gap.
    pub(crate) fn head(&self, id: StreamId) -> u64 {
        self.streams.get(&id).map_or(0, Stream::head)
    }

    /// Returns an operation that the site still has.
    pub(crate) fn get(&self, id: OperationId) -> Option<&Arc<Request<O>>> {
        let stream = self.streams.get(&id.stream())?;
        let place = id.event.checked_sub(stream.removed + 1)?;
        stream.kept.get(usize::try_from(place).ok()?)
    }

    /// Returns whether a site is known to have stored an operation, and with it all earlier ones of
    /// the same site. Without a site, this one is meant.
    pub(crate) fn has(&self, site: Option<SiteId>, id: OperationId) -> bool {
        let reported = site.map(|site| self.reported.get(&site));
        let stored = |stream: &StreamId, own: &Stream<O>| match reported {
            None => own.head(),
            // What was removed is stored at every site.
            Some(heads) => heads
                .and_then(|it| it.get(stream))
                .map_or(own.removed, |head| own.removed.max(*head)),
        };
        let last = StreamId { site: id.site, run: u64::MAX };
        let mut runs = self.streams.range(id.stream()..=last);
        runs.any(|(stream, own)| match *stream == id.stream() {
            true => stored(stream, own) >= id.event,
            false => stored(stream, own) > 0,
        })
    }

    /// Returns whether the site knows of operations of a stream that it lacks.
    pub(crate) fn has_gap(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(|stream| stream.greatest > stream.head())
    }

    /// Adds an operation of any stream. Returns the operations that the site now has without a gap
    /// and has not returned before, in order: they are RB-delivered. Keeps at most `early`
    /// operations of each stream after a gap.
    pub(crate) fn receive(
        &mut self,
        request: Arc<Request<O>>,
        early: usize,
    ) -> Vec<Arc<Request<O>>> {
        let id = request.id.stream();
        let event = request.id.event;
        let follows = self.follows(&request);
        let stream = self.entry(id);
        stream.greatest = stream.greatest.max(event);
        if event <= stream.head() {
            return Vec::new();
        }
        if event > stream.head() + 1 || !follows {
            if stream.early.len() < early {
                stream.early.entry(event).or_insert(request);
            }
            return Vec::new();
        }
        let mut delivered = stream.push(request);
        // Later runs may have waited for this one.
        let mut last = id;
        while let Some(next) = self.next_run(last) {
            let first = self.streams.get(&next).and_then(|stream| stream.early.get(&1));
            let Some(first) = first.filter(|first| self.follows(first)).cloned() else { break };
            delivered.extend(self.entry(next).push(first));
            last = next;
        }
        self.size.0 += delivered.len();
        self.size.1 += delivered.iter().map(codec::encoded_bytes).sum::<usize>();
        delivered
    }

    /// Returns whether the site has the runs that must be delivered before an operation.
    fn follows(&self, request: &Request<O>) -> bool {
        let site = request.id.site;
        let has = |(run, events)| self.head(StreamId { site, run }) >= events;
        request.previous.is_none_or(has)
    }

    /// Returns the next run of a stream's site of which the site knows.
    fn next_run(&self, id: StreamId) -> Option<StreamId> {
        let after = (Bound::Excluded(id), Bound::Unbounded);
        let next = self.streams.range(after).next().map(|(next, _)| *next);
        next.filter(|next| next.site == id.site)
    }

    /// Returns the runs of a stream's site before it.
    pub(crate) fn earlier_runs(&self, id: StreamId) -> impl Iterator<Item = StreamId> + '_ {
        let first = StreamId { site: id.site, run: 0 };
        self.streams.range(first..id).map(|(earlier, _)| *earlier)
    }

    /// Returns the last run of a site of which this one has operations, and their number.
    pub(crate) fn last_run(&self, site: SiteId) -> Option<(u64, u64)> {
        let all = StreamId { site, run: 0 }..=StreamId { site, run: u64::MAX };
        let runs = self.streams.range(all).rev();
        let mut runs = runs.map(|(stream, it)| (stream.run, it.head()));
        runs.find(|(_, events)| *events > 0)
    }

    /// Returns the operations of a stream up to an event that the site still has.
    pub(crate) fn upto(&self, id: StreamId, event: u64) -> impl Iterator<Item = &Arc<Request<O>>> {
        let kept = self.streams.get(&id).into_iter().flat_map(|stream| &stream.kept);
        kept.take_while(move |request| request.id.event <= event)
    }

    /// Returns the number of operations that the site still has, and the bytes of their encodings.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.size
    }

    /// Returns all operations that the site still has.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Arc<Request<O>>> {
        self.streams.values().flat_map(|stream| &stream.kept)
    }

    /// Notes how much of a stream another site has stored durably.
    pub(crate) fn note_reported(&mut self, from: SiteId, id: StreamId, head: u64) {
        let reported = self.reported.entry(from).or_default().entry(id).or_default();
        *reported = head.max(*reported);
        let stream = self.entry(id);
        stream.greatest = stream.greatest.max(head);
    }

    /// Returns the event after which the site requests operations of a stream now; `None` if it has
    /// all that it knows of, or has requested them within `retry`.
    pub(crate) fn request(&mut self, now: Monotonic, id: StreamId, retry: Duration) -> Option<u64> {
        let stream = self.streams.get_mut(&id)?;
        let head = stream.head();
        let waits = stream.requested.is_some_and(|at| now < at.after(retry));
        if stream.greatest <= head || waits {
            return None;
        }
        stream.requested = Some(now);
        Some(head)
    }

    /// Lets the next request leave without a wait: the previous one was answered.
    pub(crate) fn answered(&mut self, id: StreamId) {
        self.entry(id).requested = None;
    }

    /// Returns operations of a stream after an event, at most `most` of them.
    pub(crate) fn part(&self, id: StreamId, after: u64, most: usize) -> Option<Part<O>> {
        let stream = self.streams.get(&id)?;
        // What was removed is stored at every site, so no correct site requests it.
        if after < stream.removed {
            return None;
        }
        let mut rest = stream.after(after);
        let requests: Vec<_> = rest.by_ref().take(most).cloned().collect();
        let more = rest.next().is_some();
        (!requests.is_empty()).then_some(Part { requests, more })
    }

    /// Returns the streams of which the site keeps operations, each with its last event.
    pub(crate) fn open(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let open = self.streams.iter().filter(|(_, stream)| !stream.kept.is_empty());
        open.map(|(id, stream)| (*id, stream.head()))
    }

    /// Removes operations that every site of `others` has and for which `is_done` returns true.
    /// Returns the number of removed operations.
    pub(crate) fn remove_done(
        &mut self,
        others: &[SiteId],
        is_done: impl Fn(&Request<O>) -> bool,
    ) -> usize {
        let reported = &self.reported;
        let mut removed = 0;
        for (id, stream) in &mut self.streams {
            let of = |site| reported.get(site).and_then(|heads| heads.get(id)).copied();
            let all = others.iter().map(|site| of(site).unwrap_or(0)).min().unwrap_or(u64::MAX);
            while stream.kept.front().is_some_and(|it| it.id.event <= all && is_done(it)) {
                let first = stream.kept.pop_front();
                self.size.1 -= first.map_or(0, |it| codec::encoded_bytes(&it));
                stream.removed += 1;
                removed += 1;
            }
        }
        self.size.0 -= removed;
        removed
    }

    /// Returns how many events of each stream were removed.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        self.streams.iter().map(|(id, stream)| (*id, stream.removed))
    }

    /// Returns the streams of which the site has operations, each with its last event.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let heads = self.streams.iter().map(|(id, stream)| (*id, stream.head()));
        heads.filter(|(_, head)| *head > 0)
    }

    /// Forgets what lies after gaps in closed streams: no site has what is missing.
    pub(crate) fn close(&mut self, is_closed: impl Fn(StreamId) -> bool) {
        for (_, stream) in self.streams.iter_mut().filter(|(id, _)| is_closed(**id)) {
            stream.early.clear();
            stream.greatest = stream.head();
        }
    }

    /// Forgets the reports of all sites but `others`.
    pub(crate) fn retain_reports(&mut self, others: &[SiteId]) {
        self.reported.retain(|site, _| others.contains(site));
    }

    /// Continues a stream after removed events.
    pub(crate) fn restore(&mut self, id: StreamId, removed: u64) {
        let stream = self.entry(id);
        stream.removed = removed;
        stream.greatest = removed;
    }
}

#[cfg(test)]
mod tests {
    use solera_random::Random;
    use solera_time::Timestamp;

    use super::*;
    use crate::context::Context;

    const STREAM: StreamId = StreamId { site: SiteId(0), run: 1 };

    fn request(event: u64) -> Arc<Request<()>> {
        let id = STREAM.at(event);
        Arc::new(Request {
            id,
            timestamp: Timestamp(event),
            operation: None,
            context: Context::default(),
            cast: None,
            previous: None,
        })
    }

    #[test]
    fn every_operation_is_delivered_once_and_in_order() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut streams = Streams::new();
            let mut delivered = 0;
            while delivered < 20 {
                for request in streams.receive(request(1 + random.below(20)), 4) {
                    delivered += 1;
                    assert_eq!(request.id.event, delivered);
                }
                assert_eq!(streams.head(STREAM), delivered);
                assert!(streams.streams[&STREAM].early.len() <= 4);
            }
        }
    }

    #[test]
    fn missing_operations_are_requested_again_after_a_pause() {
        let (mut streams, retry) = (Streams::<()>::new(), Duration::from_nanos(10));
        assert_eq!(streams.request(Monotonic(0), STREAM, retry), None);
        streams.receive(request(3), 4);
        assert_eq!(streams.request(Monotonic(0), STREAM, retry), Some(0));
        assert_eq!(streams.request(Monotonic(9), STREAM, retry), None);
        assert_eq!(streams.request(Monotonic(10), STREAM, retry), Some(0));
        streams.receive(request(1), 4);
        streams.answered(STREAM);
        assert_eq!(streams.request(Monotonic(11), STREAM, retry), Some(1));
        streams.receive(request(2), 4);
        assert_eq!(streams.request(Monotonic(90), STREAM, retry), None);
        streams.note_reported(SiteId(1), STREAM, 4);
        assert_eq!(streams.request(Monotonic(90), STREAM, retry), Some(3));
    }

    #[test]
    fn operations_are_kept_until_all_sites_have_them_and_they_are_done() {
        let mut streams = Streams::new();
        (1..=5).for_each(|event| drop(streams.receive(request(event), 0)));
        let others = [SiteId(1), SiteId(2)];
        streams.note_reported(SiteId(1), STREAM, 5);
        assert_eq!(streams.remove_done(&others, |_| true), 0);
        streams.note_reported(SiteId(2), STREAM, 3);
        assert_eq!(streams.remove_done(&others, |it| it.id.event != 3), 2);
        assert_eq!(streams.part(STREAM, 1, 9), None);
        let part = streams.part(STREAM, 2, 2).unwrap();
        assert_eq!(part.requests, [request(3), request(4)]);
        assert!(part.more);
        assert!(!streams.part(STREAM, 3, 2).unwrap().more);
        assert_eq!(streams.part(STREAM, 5, 2), None);
        assert!(streams.upto(STREAM, 4).eq(&[request(3), request(4)]));
        assert!(streams.open().eq([(STREAM, 5)]));
        assert_eq!(streams.receive(request(2), 9), []);
    }
}
