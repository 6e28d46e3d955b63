//! What remains of the operations of sites that have left.
//!
//! Each site takes no more operations from a site that leaves, reports how much of its streams it
//! has, and requests the rest from the others. When all report the same, with the same list of
//! sites, none can receive more. An operation whose causal context is not among what they have can
//! then never be executed: all sites drop it. A site that joins takes part in this, because it may
//! have operations that no member has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
use crate::request::Request;

/// What the sites have of the streams of sites that have left.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// Last report of each site.
    reports: BTreeMap<SiteId, Report>,
    /// Whether all sites have the same of these streams, with the present list.
    agreed: bool,
    /// Operations of these streams that can never be executed.
    lost: BTreeSet<OperationId>,
}

/// Stages of a site's list of sites, and the last events of streams.
type Report = (Vec<u64>, Vec<(StreamId, u64)>);

impl Departures {
    /// Returns whether an operation is known to be lost.
    pub(super) fn has_lost(&self, id: OperationId) -> bool {
        self.lost.contains(&id)
    }
}

impl<P: Procedures> Replica<P> {
    /// Begins to compare streams anew, with another list of sites.
    pub(super) fn reopen_departures(&mut self) {
        self.departures.reports.clear();
        self.departures.agreed = false;
    }

    /// Returns whether this site has to learn whether all sites have the same of the streams of
    /// sites that have left.
    pub(super) fn compares_departures(&self) -> bool {
        !self.departures.agreed && self.sites.have_left() && self.is_filled
    }

    /// Returns whether all sites have the same operations of those that have left.
    pub(crate) fn has_agreed_on_departures(&self) -> bool {
        self.departures.agreed
    }

    /// Returns the streams of sites that have left, with their last events here.
    fn closed_heads(&self) -> Vec<(StreamId, u64)> {
        self.streams.heads().filter(|(stream, _)| self.sites.is_closed(*stream)).collect()
    }

    fn left(&self, answer: bool) -> Message<P::Operation> {
        Message::Left { stages: self.sites.stages(), heads: self.closed_heads(), answer }
    }

    /// Reports to the others what this site has of the streams of sites that have left.
    pub(super) fn report_departures(&mut self) {
        self.compare_departures();
        if !self.compares_departures() {
            return;
        }
        let report = self.left(false);
        for site in self.sites.others() {
            self.send(site, report.clone());
        }
    }

    pub(super) fn on_left(
        &mut self,
        now: Monotonic,
        from: SiteId,
        (stages, heads): Report,
        answer: bool,
    ) {
        for (stream, head) in &heads {
            self.streams.note_reported(from, *stream, *head);
            if *head > self.streams.head(*stream) {
                self.request(now, from, *stream);
            }
        }
        if !answer {
            let report = self.left(true);
            self.send(from, report);
        }
        self.departures.reports.insert(from, (stages, heads));
        self.compare_departures();
    }

    /// Notes that all sites have the same of the streams of those that have left, if they do.
    fn compare_departures(&mut self) {
        if !self.compares_departures() {
            return;
        }
        let (stages, heads) = (self.sites.stages(), self.closed_heads());
        let has_same = |site: SiteId| {
            let report = self.departures.reports.get(&site);
            report.is_some_and(|(theirs, of)| *theirs == stages && *of == heads)
        };
        let agreed = self.sites.others().into_iter().all(has_same);
        if !agreed && self.config.has(Rule::AgreeOnDepartures) {
            return;
        }
        self.departures.agreed = true;
        self.rare(rare::CLOSED);
        heads.iter().for_each(|(stream, _)| self.streams.close(*stream));
        self.drop_lost();
        self.answer_lost_waits();
        self.remove_done();
        // Casts of operations that no member has count as delivered now.
        self.advanced = true;
    }

    /// Drops the operations that wait for operations that no member has.
    fn drop_lost(&mut self) {
        loop {
            let waiting = self.waiting.values().flatten();
            let lost = waiting.filter(|it| self.needs_lost(it)).cloned().collect::<Vec<_>>();
            if lost.is_empty() {
                return;
            }
            lost.iter().for_each(|request| self.lose(request));
        }
    }

    /// Returns whether an operation of a site that has left needs one that is lost. An operation of
    /// a member cannot: the member has what its operations need.
    fn needs_lost(&self, request: &Request<P::Operation>) -> bool {
        let context = &request.context;
        let is_beyond = |(stream, last): (StreamId, u64)| {
            self.sites.is_closed(stream) && last > self.streams.head(stream)
        };
        self.sites.is_closed(request.id.stream())
            && (context.heads().any(is_beyond)
                || self.departures.lost.iter().any(|id| context.contains(*id)))
    }

    fn lose(&mut self, request: &Arc<Request<P::Operation>>) {
        let id = request.id;
        self.rare(rare::LOST);
        self.trace(Event::Lost(id));
        self.waiting.values_mut().for_each(|them| them.retain(|it| it.id != id));
        self.waiting.retain(|_, them| !them.is_empty());
        if let Some(cast) = request.cast() {
            self.undecided.remove(&cast);
        }
        self.frontier.finish(id);
        self.departures.lost.insert(id);
    }

    /// Returns whether no member has an operation, or can ever execute it.
    pub(super) fn is_lost(&self, id: OperationId) -> bool {
        self.departures.lost.contains(&id)
            || self.departures.agreed
                && self.sites.is_closed(id.stream())
                && id.event > self.streams.head(id.stream())
    }

    /// Returns whether a cast belongs to an operation that is lost. If it has a slot in spite of
    /// that, because too many sites have left at once, all members deliver nothing there.
    pub(super) fn is_lost_cast(&self, cast: CastId) -> bool {
        self.departures.agreed && self.sites.is_closed(stream_of(cast))
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
