//! Operations of sites that have left.
//!
//! A site takes no more operations from a generation of a site that has ended. It reports to the
//! others how much of the streams of that generation it has, and requests the rest from them. When
//! all report the same, with the same list of sites, none can receive more: the generation is
//! *closed*, for ever. An operation whose causal context is not among what the sites have can then
//! never be executed, and all sites drop it. A site that joins takes part in this, because it may
//! have operations that no member has.

use std::collections::{BTreeMap, BTreeSet};

use solera_consensus::CastId;
use solera_machine::RequestId;
use solera_time::{Monotonic, SiteId};

use super::Replica;
use crate::command::Response;
use crate::config::Rule;
use crate::ids::{OperationId, StreamId, stream_of};
use crate::message::{Event, Message};
use crate::object::Procedures;
use crate::past::Past;
use crate::rare;
use crate::record::{Closed, Record};
use crate::request::Request;

/// Closed generations of sites, and reports about those that are not closed yet.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// Last report of each site with the present list of sites.
    reports: BTreeMap<SiteId, Report>,
    /// Number of closed generations of each site.
    closed: BTreeMap<SiteId, u64>,
    /// Operations of closed generations that can never be executed.
    lost: BTreeSet<OperationId>,
}

/// A report of a site about the streams of generations that have ended.
#[derive(Debug)]
pub(super) struct Report {
    /// Stages of all sites in its list of sites.
    pub(super) stages: Vec<u64>,
    /// The streams of the last ended generation of each site, with their last events.
    pub(super) heads: Vec<(StreamId, u64)>,
}

impl Departures {
    /// Returns whether an operation is known to be lost.
    pub(super) fn has_lost(&self, id: OperationId) -> bool {
        self.lost.contains(&id)
    }

    /// Returns whether the generation of a stream is closed.
    fn is_closed(&self, stream: StreamId) -> bool {
        self.closed.get(&stream.site).is_some_and(|closed| stream.generation() < *closed)
    }

    /// Returns the closed generations and the lost operations, for a checkpoint.
    pub(crate) fn closed(&self) -> Closed {
        let generations = self.closed.iter().map(|(site, closed)| (*site, *closed)).collect();
        Closed { generations, lost: self.lost.iter().copied().collect() }
    }
}

impl<P: Procedures> Replica<P> {
    /// Forgets reports with another list of sites.
    pub(super) fn forget_departures(&mut self) {
        self.departures.reports.clear();
    }

    /// Returns whether all generations that have ended are closed here.
    pub(crate) fn has_closed_departures(&self) -> bool {
        let closed = |site| self.departures.closed.get(&site).copied().unwrap_or(0);
        self.sites.ended().all(|(site, ended)| closed(site) >= ended)
    }

    /// Returns whether the site has to learn whether others have the same of ended generations.
    pub(super) fn compares_departures(&self) -> bool {
        self.is_filled && !self.has_closed_departures()
    }

    /// Returns what the site has of the last ended generation of each site.
    fn report_of_departures(&self) -> Report {
        let ended: BTreeMap<SiteId, u64> = self.sites.ended().collect();
        let is_last = |stream: StreamId| {
            ended.get(&stream.site).is_some_and(|ended| stream.generation() + 1 == *ended)
        };
        let heads = self.streams.heads().filter(|(stream, _)| is_last(*stream)).collect();
        Report { stages: self.sites.stages(), heads }
    }

    fn send_departures(&mut self, to: SiteId, answer: bool) {
        let Report { stages, heads } = self.report_of_departures();
        self.send(to, Message::Left { stages, heads, answer });
    }

    /// Reports to the others what this site has of generations that are not closed.
    pub(super) fn report_departures(&mut self) {
        self.compare_departures();
        if self.compares_departures() {
            for site in self.sites.others() {
                self.send_departures(site, false);
            }
        }
    }

    pub(super) fn on_left(&mut self, now: Monotonic, from: SiteId, report: Report, answer: bool) {
        for (stream, head) in &report.heads {
            self.streams.note_reported(from, *stream, *head);
            if *head > self.streams.head(*stream) {
                self.request(now, from, *stream);
            }
        }
        if !answer {
            self.send_departures(from, true);
        }
        self.departures.reports.insert(from, report);
        self.compare_departures();
    }

    /// Closes the generations that have ended, if all sites have the same of them.
    fn compare_departures(&mut self) {
        if !self.compares_departures() {
            return;
        }
        let own = self.report_of_departures();
        let has_same = |site: SiteId| {
            let report = self.departures.reports.get(&site);
            report.is_some_and(|it| it.stages == own.stages && it.heads == own.heads)
        };
        let agree = self.sites.others().into_iter().all(has_same);
        if !agree && self.config.has(Rule::AgreeOnDepartures) {
            return;
        }
        self.rare(rare::CLOSED);
        self.departures.closed = self.sites.ended().filter(|(_, ended)| *ended > 0).collect();
        self.streams.close(|stream| self.departures.is_closed(stream));
        let lost = self.find_lost();
        lost.iter().for_each(|id| self.trace(Event::Lost(*id)));
        if !lost.is_empty() {
            self.rare(rare::LOST);
        }
        self.departures.lost.extend(lost);
        let closed = self.departures.closed();
        self.record(&Record::Closed(closed));
        self.drop_lost();
        self.answer_lost_waits();
        self.remove_done();
        // Casts of lost operations count as delivered now.
        self.advanced = true;
    }

    /// Takes over what a record or part contains.
    pub(crate) fn restore_closed(&mut self, closed: Closed) {
        self.departures.closed.extend(closed.generations);
        self.departures.lost.extend(closed.lost);
        self.drop_lost();
    }

    /// Returns the operations that wait for operations that no site has.
    fn find_lost(&self) -> BTreeSet<OperationId> {
        let mut lost = self.departures.lost.clone();
        loop {
            let waiting = self.waiting.values().flatten();
            let waiting = waiting.filter(|request| !lost.contains(&request.id));
            let found = waiting.filter(|request| self.needs_lost(request, &lost));
            let found: Vec<OperationId> = found.map(|request| request.id).collect();
            if found.is_empty() {
                return lost.difference(&self.departures.lost).copied().collect();
            }
            lost.extend(found);
        }
    }

    /// Returns whether an operation of a site that has left needs one that is lost. An operation of
    /// a member cannot: the member has what its operations need.
    fn needs_lost(&self, request: &Request<P::Operation>, lost: &BTreeSet<OperationId>) -> bool {
        let context = &request.context;
        let is_beyond = |(stream, last): (StreamId, u64)| {
            self.departures.is_closed(stream) && last > self.streams.head(stream)
        };
        self.departures.is_closed(request.id.stream())
            && (context.heads().any(is_beyond) || lost.iter().any(|id| context.contains(*id)))
    }

    /// Drops the lost operations that wait for their contexts.
    fn drop_lost(&mut self) {
        let lost = &self.departures.lost;
        let mut dropped = Vec::new();
        for waiting in self.waiting.values_mut() {
            dropped.extend(waiting.extract_if(.., |request| lost.contains(&request.id)));
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        for request in dropped {
            if let Some(cast) = request.cast() {
                self.undecided.remove(&cast);
            }
            self.frontier.finish(request.id);
        }
    }

    /// Returns whether no site has an operation, or can ever execute it.
    pub(super) fn is_lost(&self, id: OperationId) -> bool {
        let is_beyond = || id.event > self.streams.head(id.stream());
        self.departures.has_lost(id) || self.departures.is_closed(id.stream()) && is_beyond()
    }

    /// Returns whether a cast belongs to an operation that is lost, if its operation is not here.
    /// A lost cast may have a slot, in which all sites deliver nothing.
    pub(super) fn is_lost_cast(&self, cast: CastId) -> bool {
        self.departures.is_closed(stream_of(cast))
    }

    /// Answers a request that waits for an operation, if the operation is lost.
    pub(super) fn answer_if_lost(&mut self, request: RequestId, id: OperationId) -> bool {
        let is_lost = self.is_lost(id);
        if is_lost {
            self.rare(rare::WAITED_FOR_LOST);
            self.reply(request, Response::Lost { id }, true);
        }
        is_lost
    }

    /// Returns an operation of a past that is lost.
    pub(super) fn lost_of(&self, past: &Past) -> Option<OperationId> {
        past.lasts().find(|id| self.is_lost(*id))
    }

    fn answer_lost_waits(&mut self) {
        for (request, id) in self.waits.awaited(|past| self.lost_of(past)) {
            if self.is_lost(id) {
                self.waits.cancel(request);
                self.answer_if_lost(request, id);
            }
        }
    }
}
