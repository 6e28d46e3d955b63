//! Requests that wait: for an operation to be final, or until all of a past is delivered or final.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use solera_consensus::CastId;
use solera_machine::{Now, RequestId};
use solera_time::SiteId;

use super::Replica;
use crate::command::{Response, Tentative};
use crate::config::Rule;
use crate::finals::Final;
use crate::ids::OperationId;
use crate::object::Procedures;
use crate::past::Past;
use crate::rare;
use crate::request::Request;

/// Requests by the operation for which they wait.
type Index = BTreeSet<(OperationId, RequestId)>;

/// Requests that wait.
#[derive(Debug)]
pub(crate) struct Waits<R> {
    requests: BTreeMap<RequestId, Wait<R>>,
    /// Requests that await or follow an operation.
    operations: Index,
    /// Requests that wait until everything of a site up to an operation is delivered.
    deliveries: Index,
    /// Requests that wait until everything of a site up to an operation is final.
    finals: Index,
    /// Requests that follow an operation and have not been compared with its last response.
    unchecked: BTreeSet<RequestId>,
    /// Barriers whose past is delivered, and which may need an operation without effect that
    /// commits the weak operations of this past.
    uncovered: BTreeSet<RequestId>,
    /// The last operation without effect that was invoked for barriers.
    helper: Option<CastId>,
    /// The last strong operation of this site, with the past that the site had delivered by then.
    /// The operation's context contains the weak operations of that past.
    cover: Option<(CastId, Past)>,
}

#[derive(Debug)]
enum Wait<R> {
    /// Awaits that an operation is final.
    Await(OperationId),
    /// Awaits another response than the one that the client has seen.
    Follow(OperationId, Option<R>),
    Past(Pending),
}

/// A past that is not delivered, or not final.
#[derive(Debug)]
struct Pending {
    past: Past,
    /// Whether all of it must be final.
    is_barrier: bool,
    /// Whether all of it is delivered.
    is_delivered: bool,
    /// The operation of the past for which the request waits now, as in the index.
    on: OperationId,
}

impl<R> Waits<R> {
    pub(crate) fn new() -> Waits<R> {
        Waits {
            requests: BTreeMap::new(),
            operations: Index::new(),
            deliveries: Index::new(),
            finals: Index::new(),
            unchecked: BTreeSet::new(),
            uncovered: BTreeSet::new(),
            helper: None,
            cover: None,
        }
    }

    /// Notes a strong operation of this site, and the past that the site has delivered by then.
    pub(super) fn note_cast(&mut self, cast: CastId, past: Past) {
        self.cover = Some((cast, past));
    }

    /// Returns the requests that wait, each with the operation that it awaits, or with the one that
    /// `of_past` returns for its past.
    pub(super) fn awaited(
        &self,
        of_past: impl Fn(&Past) -> Option<OperationId>,
    ) -> Vec<(RequestId, OperationId)> {
        let awaited = |wait: &Wait<R>| match wait {
            Wait::Await(id) | Wait::Follow(id, _) => Some(*id),
            Wait::Past(pending) => of_past(&pending.past),
        };
        let all = self.requests.iter();
        all.filter_map(|(request, wait)| Some((*request, awaited(wait)?))).collect()
    }

    /// Returns whether a request awaits or follows an operation.
    pub(super) fn has(&self, id: OperationId) -> bool {
        self.operations.range(entries(id)).next().is_some()
    }

    /// Forgets a request. Returns whether it waited.
    pub(super) fn cancel(&mut self, request: RequestId) -> bool {
        self.unchecked.remove(&request);
        self.uncovered.remove(&request);
        let (index, on) = match self.requests.remove(&request) {
            Some(Wait::Await(id) | Wait::Follow(id, _)) => (&mut self.operations, id),
            Some(Wait::Past(it)) if it.is_delivered => (&mut self.finals, it.on),
            Some(Wait::Past(it)) => (&mut self.deliveries, it.on),
            None => return false,
        };
        index.remove(&(on, request));
        true
    }
}

/// Returns all entries of an operation.
fn entries(id: OperationId) -> RangeInclusive<(OperationId, RequestId)> {
    (id, RequestId(0))..=(id, RequestId(u64::MAX))
}

/// Removes and returns the first request that waits for an operation of a site that `is_reached`.
fn pop(
    index: &mut Index,
    site: SiteId,
    is_reached: impl FnOnce(OperationId) -> bool,
) -> Option<RequestId> {
    let from = (OperationId { site, run: 0, event: 0 }, RequestId(0));
    let first = *index.range(from..).next().filter(|(id, _)| id.site == site && is_reached(*id))?;
    index.remove(&first);
    Some(first.1)
}

impl<P: Procedures> Replica<P> {
    /// Answers when an operation is final.
    pub(super) fn wait_for(&mut self, request: RequestId, id: OperationId) {
        if !self.answer_at_once(request, id) {
            self.waits.operations.insert((id, request));
            self.waits.requests.insert(request, Wait::Await(id));
        }
    }

    /// Answers when an operation has another response, or is final.
    pub(super) fn follow(
        &mut self,
        request: RequestId,
        id: OperationId,
        seen: Option<P::Response>,
    ) {
        if !self.answer_at_once(request, id) {
            self.waits.operations.insert((id, request));
            self.waits.requests.insert(request, Wait::Follow(id, seen));
            self.waits.unchecked.insert(request);
            let place = self.streams.get(id).and_then(|operation| self.order.place(operation));
            place.into_iter().for_each(|place| self.execution.watch(place));
        }
    }

    /// Answers when all of a past is delivered, or final if it is a barrier.
    pub(super) fn wait_for_past(&mut self, request: RequestId, past: Past, is_barrier: bool) {
        if let Some(id) = self.lost_of(&past) {
            self.answer_if_lost(request, id);
            return;
        }
        let on = OperationId { site: self.me(), run: 0, event: 0 };
        let pending = Pending { past, is_barrier, is_delivered: false, on };
        self.advance(request, pending);
    }

    /// Answers a request about an operation that is final or lost, or does not exist.
    fn answer_at_once(&mut self, request: RequestId, id: OperationId) -> bool {
        if self.answer_if_final(request, id) || self.answer_if_lost(request, id) {
            return true;
        }
        let is_unknown = self.is_unknown(id);
        if is_unknown {
            self.reply(request, Response::Unknown { id }, true);
        }
        is_unknown
    }

    /// Returns whether the site knows that no operation has an id: the site itself would have
    /// invoked it, or it would precede one that the site has. A site takes the operations of each
    /// origin in order.
    fn is_unknown(&self, id: OperationId) -> bool {
        let stream = id.stream();
        let is_own =
            id.site == self.me() && stream.generation() == u64::from(self.config.generation);
        let is_passed = || self.frontier.taken(id.site).is_some_and(|last| id < last);
        self.streams.head(stream) < id.event && (is_own || is_passed())
    }

    /// Answers a request for the stable response of an operation that is final.
    fn answer_if_final(&mut self, request: RequestId, id: OperationId) -> bool {
        let is_final = self.causal.contains(id) && self.frontier.open(id).is_none();
        if is_final {
            let kept = self.history.get(id).cloned();
            self.answer_stable(request, id, kept.as_ref());
        }
        is_final
    }

    fn answer_stable(
        &mut self,
        request: RequestId,
        id: OperationId,
        kept: Option<&Final<P::Operation, P::Response>>,
    ) {
        let response = kept.and_then(|it| it.response.as_ref().map(|found| (it.position, found)));
        let answer = match response {
            Some((position, response)) => {
                Response::Stable { id, position, response: P::Response::clone(response) }
            }
            None => Response::Forgotten { id },
        };
        self.reply(request, answer, true);
    }

    /// Answers the requests that await or follow an operation, which has become final.
    pub(super) fn answer_waits(&mut self, id: OperationId) {
        let waiting: Vec<_> = self.waits.operations.range(entries(id)).copied().collect();
        if waiting.is_empty() {
            return;
        }
        let kept = self.history.get(id).cloned();
        for (_, request) in waiting {
            self.waits.cancel(request);
            self.answer_stable(request, id, kept.as_ref());
        }
    }

    /// Answers the requests that follow a tentative operation, which was executed.
    pub(super) fn answer_followers(&mut self, operation: &Request<P::Operation>) {
        let waiting = self.waits.operations.range(entries(operation.id)).map(|(_, it)| *it);
        for request in waiting.collect::<Vec<_>>() {
            self.compare(request, Some(operation));
        }
    }

    /// Answers a request that follows an operation, if the last execution has returned something
    /// else than what the client has seen.
    fn compare(&mut self, request: RequestId, operation: Option<&Request<P::Operation>>) {
        let Some(Wait::Follow(id, seen)) = self.waits.requests.get(&request) else { return };
        let id = *id;
        let Some(last) = self.frontier.open(id).and_then(|open| open.last.clone()) else { return };
        if seen.as_ref() == Some(&*last) {
            return;
        }
        let kept = self.streams.get(id).cloned();
        let operation = operation.or(kept.as_deref());
        let is_hidden =
            |it: &Request<_>| self.hides(it.is_strong()) && self.order.place(it).is_none();
        if operation.is_some_and(is_hidden) {
            // It is not executed before it is committed.
            return;
        }
        let claim = operation.and_then(|operation| self.claim_of(operation));
        let place = operation.and_then(|operation| self.order.tentative_place(operation));
        let cause = place.and_then(|place| self.execution.cause(place));
        place.into_iter().for_each(|place| self.execution.note_seen(place));
        self.waits.cancel(request);
        self.rare(rare::FOLLOWED);
        let response = P::Response::clone(&last);
        let tentative = Tentative { id: Some(id), response, claim, cause };
        self.reply(request, Response::Revised(tentative), true);
    }

    /// Answers the requests whose wait is over. Returns whether an operation was invoked for
    /// barriers.
    pub(super) fn resume_waits(&mut self, now: Now) -> bool {
        if self.execution.is_idle(&self.order) {
            // Now the last response of each operation is its response in the present order.
            for request in std::mem::take(&mut self.waits.unchecked) {
                self.compare(request, None);
            }
        }
        for site in SiteId::all(self.config.topology.sites()) {
            if self.waits.deliveries.is_empty() && self.waits.finals.is_empty() {
                break;
            }
            let delivered = self.delivered(site);
            let is_delivered = |id| delivered.is_some_and(|last| id <= last);
            while let Some(request) = pop(&mut self.waits.deliveries, site, is_delivered) {
                self.advance_again(request);
            }
            let open = self.frontier.first_open(site);
            let is_final = |id| open.is_none_or(|first| id < first);
            while let Some(request) = pop(&mut self.waits.finals, site, is_final) {
                self.advance_again(request);
            }
        }
        self.cover_barriers(now)
    }

    /// Returns an id up to which all operations of a site are delivered. Undecided strong
    /// operations that no reply shows are not: elsewhere, they may be committed and shown.
    fn delivered(&self, site: SiteId) -> Option<OperationId> {
        let delivered = match self.config.has(Rule::AttachInOrder) {
            true => self.frontier.delivered(site),
            false => {
                self.streams.last_run(site).map(|(run, event)| OperationId { site, run, event })
            }
        };
        let first = self.first_hidden(site);
        let before = first.map(|first| OperationId { event: first.event - 1, ..first });
        delivered.map(|last| before.map_or(last, |before| last.min(before)))
    }

    /// Lets a request wait for the next operation of its past, or answers it.
    fn advance(&mut self, request: RequestId, mut pending: Pending) {
        let lacks = |id: &OperationId| self.delivered(id.site).is_none_or(|last| last < *id);
        let is_open =
            |id: &OperationId| self.frontier.first_open(id.site).is_some_and(|first| first <= *id);
        let Pending { past, is_barrier, is_delivered, .. } = &pending;
        let must_be_delivered = !is_barrier || self.config.has(Rule::BarrierDelivered);
        let lacked = past.lasts().find(lacks).filter(|_| must_be_delivered && !is_delivered);
        let next = lacked.or_else(|| past.lasts().filter(|_| *is_barrier).find(is_open));
        let Some(next) = next else { return self.reply(request, Response::Reached, true) };
        if lacked.is_some() {
            self.rare(rare::BEHIND);
        }
        if lacked.is_none() && !pending.is_delivered {
            pending.is_delivered = true;
            self.waits.uncovered.insert(request);
        }
        let waits = &mut self.waits;
        let index = if lacked.is_some() { &mut waits.deliveries } else { &mut waits.finals };
        index.insert((next, request));
        pending.on = next;
        waits.requests.insert(request, Wait::Past(pending));
    }

    /// Continues a request that was removed from its index.
    fn advance_again(&mut self, request: RequestId) {
        if let Some(Wait::Past(pending)) = self.waits.requests.remove(&request) {
            self.advance(request, pending);
        }
    }

    /// Invokes an operation without effect if barriers need one and none is under way. The weak
    /// operations of the barriers' pasts are committed with this operation. So any number of
    /// barriers costs one operation at a time. Returns whether an operation was invoked.
    fn cover_barriers(&mut self, now: Now) -> bool {
        let is_under_way = |cast: CastId| self.undecided.contains_key(&cast);
        if self.waits.uncovered.is_empty() || self.waits.helper.is_some_and(is_under_way) {
            return false;
        }
        let cover = self.waits.cover.take().filter(|(cast, _)| is_under_way(*cast));
        let covered = |past: &Past| cover.as_ref().is_some_and(|(_, cover)| cover.covers(past));
        let is_needed = |request| match self.waits.requests.get(&request) {
            Some(Wait::Past(it)) => self.frontier.has_weak(&it.past) && !covered(&it.past),
            _ => false,
        };
        let is_needed = self.waits.uncovered.iter().copied().any(is_needed);
        self.waits.uncovered.clear();
        self.waits.cover = cover;
        if is_needed {
            self.cast_operation(now, None, true);
            self.waits.helper = self.waits.cover.as_ref().map(|(cast, _)| *cast);
            self.rare(rare::BARRIER);
        }
        is_needed
    }
}
