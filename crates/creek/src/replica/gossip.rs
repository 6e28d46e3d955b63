//! Exchange of streams between sites, and the timer.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::Now;
use solera_time::{Monotonic, SiteId};

use super::Replica;
use super::departures::Report;
use crate::config::Rule;
use crate::digest::Digest;
use crate::ids::StreamId;
use crate::message::Message;
use crate::object::Procedures;
use crate::rare;
use crate::request::Request;

impl<P: Procedures> Replica<P> {
    /// Handles a message about streams.
    pub(crate) fn on_message(
        &mut self,
        now: Monotonic,
        from: SiteId,
        message: Message<P::Operation>,
    ) {
        match message {
            Message::Operations { requests, more } => {
                self.on_operations(now, from, requests, more);
            }
            Message::Heads { heads, answer } => self.on_heads(now, from, &heads, answer),
            Message::Missing { stream, after } => self.on_missing(from, stream, after),
            Message::Left { stages, heads, answer } => {
                self.on_left(now, from, Report { stages, heads }, answer);
            }
            Message::Join { stage } => {
                if self.sites.joins(from, stage) {
                    self.send(from, Message::Admitted { stage });
                }
            }
            // The machine handles these.
            Message::Consensus(_)
            | Message::Admitted { .. }
            | Message::Fetch { .. }
            | Message::Size { .. }
            | Message::Piece(_) => {}
            Message::Digest { position, digest, answer } => {
                self.on_digest(from, position, digest, answer);
            }
        }
    }

    /// Creek Alg. 1 l. 26–31.
    fn on_operations(
        &mut self,
        now: Monotonic,
        from: SiteId,
        requests: Vec<Arc<Request<P::Operation>>>,
        more: bool,
    ) {
        let Some(stream) = requests.first().map(|request| request.id.stream()) else { return };
        let early = self.config.limits.early;
        let delivered: usize = requests.into_iter().map(|it| self.receive(now, it, early)).sum();
        let left_gap = delivered == 0 && self.streams.has_gap(stream);
        if more {
            self.streams.answered(stream);
        }
        if more || left_gap {
            self.request(now, from, stream);
        }
        if left_gap {
            self.rare(rare::GAP);
        }
    }

    /// Requests missing operations of a stream, if the site knows of any.
    pub(super) fn request(&mut self, now: Monotonic, from: SiteId, stream: StreamId) {
        let is_own = stream.site == self.me() && stream.run >= self.run;
        if is_own || !self.config.has(Rule::RequestGaps) {
            return;
        }
        if let Some(after) = self.streams.request(now, stream, self.config.timing.retry) {
            self.send(from, Message::Missing { stream, after });
        }
    }

    fn on_heads(&mut self, now: Monotonic, from: SiteId, heads: &[(StreamId, u64)], answer: bool) {
        for (stream, head) in heads {
            self.streams.note_reported(from, *stream, *head);
            if *head > self.streams.head(*stream) {
                self.request(now, from, *stream);
            }
        }
        if !answer {
            let heads = heads.iter().map(|(stream, _)| (*stream, self.streams.head(*stream)));
            let heads = heads.collect();
            self.send(from, Message::Heads { heads, answer: true });
        }
        self.remove_done();
    }

    /// Removes operations that every site has and that are committed here.
    pub(super) fn remove_done(&mut self) {
        let others = self.sites.others();
        let (causal, order, departures) = (&self.causal, &self.order, &self.departures);
        let is_done = |request: &Request<P::Operation>| {
            causal.contains(request.id) && !order.is_tentative(request)
                || departures.has_lost(request.id)
        };
        if self.streams.remove_done(&others, is_done) > 0 {
            self.rare(rare::REMOVED);
        }
    }

    fn on_missing(&mut self, from: SiteId, stream: StreamId, after: u64) {
        let relays = stream.site != self.me();
        if relays && !self.config.has(Rule::Relay) {
            return;
        }
        let Some(part) = self.streams.part(stream, after, self.config.limits.operations) else {
            return;
        };
        if relays {
            self.rare(rare::RELAYED);
        }
        self.send(from, Message::Operations { requests: part.requests, more: part.more });
    }

    /// Does what is due. `leads` states whether this site leads the conditional atomic broadcast.
    pub(crate) fn on_deadline(&mut self, now: Now, leads: bool) {
        if self.next_tick.is_none_or(|at| at > now.monotonic) {
            return;
        }
        self.next_tick = None;
        std::mem::take(&mut self.late).iter().for_each(|record| self.record(record));
        self.remove_done();
        self.report();
        self.report_digest();
        self.report_departures();
        self.settle(now, leads);
    }

    /// Reports what the site has of the streams of which it keeps operations. A site that lacks
    /// some of them requests them. Streams that do not fit one report have their turn in the next
    /// one.
    fn report(&mut self) {
        let limit = self.config.limits.streams;
        let after = self.reported;
        let later = self.streams.open().filter(|(stream, _)| Some(*stream) > after);
        let mut heads: Vec<_> = later.take(limit).collect();
        let rest = limit - heads.len();
        let earlier = self.streams.open().take_while(|(stream, _)| Some(*stream) <= after);
        heads.extend(earlier.take(rest));
        self.reported = heads.last().map(|(stream, _)| *stream);
        if heads.is_empty() {
            return;
        }
        for site in self.sites.others() {
            self.send(site, Message::Heads { heads: heads.clone(), answer: false });
        }
    }

    /// Reports the digest of the final operations, if there are more than at the last report.
    fn report_digest(&mut self) {
        let (position, digest) = (self.order.finals(), self.digest);
        if !self.comparison.is_due(position) {
            return;
        }
        self.comparison.note_reported(position);
        for site in self.sites.others() {
            self.send(site, Message::Digest { position, digest, answer: false });
        }
    }

    fn on_digest(&mut self, from: SiteId, position: u64, digest: Digest, answer: bool) {
        if position > self.order.finals() {
            return self.comparison.expect(from, position, digest);
        }
        // A site that is far behind compares a later position when it reaches it.
        let Some(own) = self.history.digest(position) else { return };
        self.comparison.compare(from, position, digest, own);
        if !answer {
            return self.send(from, Message::Digest { position, digest: own, answer: true });
        }
        if let Some(position) = self.comparison.probe(from)
            && let Some(digest) = self.history.digest(position)
        {
            self.send(from, Message::Digest { position, digest, answer: false });
        }
    }

    /// Commits tentative weak operations with an operation without effect, if no client does it
    /// (Creek §4.4): after a time, or when their list is half full.
    fn settle(&mut self, now: Now, leads: bool) {
        let settle = self.config.timing.settle;
        let is_long = self.order.tentative_len() >= self.config.limits.tentative / 2;
        let wait = match leads {
            true if is_long => Duration::ZERO,
            true => settle,
            false => settle * 2,
        };
        let is_due = self.order.weak_len() > 0 && now.monotonic >= self.quiet_since.after(wait);
        if !is_due || !self.config.has(Rule::Settle) {
            return;
        }
        let me = self.me();
        let has_undecided = self.undecided.values().any(|request| request.id.site == me);
        let is_own = |request: &Arc<Request<_>>| request.id.site == me && !request.is_strong();
        if !has_undecided && (leads || self.order.tentative().any(is_own)) {
            self.quiet_since = now.monotonic;
            self.cast_operation(now, None, true);
        }
    }

    /// Starts the timer if it is needed.
    pub(crate) fn set_timer(&mut self, now: Monotonic) {
        let is_needed = self.order.tentative_len() + self.hidden_len() > 0
            || self.streams.open().next().is_some()
            || self.comparison.is_due(self.order.finals())
            || self.compares_departures()
            || !self.is_filled;
        if self.next_tick.is_none() && is_needed {
            self.next_tick = Some(now.after(self.config.timing.tick));
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        if self.is_busy() { Some(Monotonic(0)) } else { self.next_tick }
    }
}
