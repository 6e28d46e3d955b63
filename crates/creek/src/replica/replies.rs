//! Responses to clients (Creek Alg. 1 l. 55–57, l. 65–74).

use std::sync::Arc;

use solera_machine::RequestId;

use super::Replica;
use crate::command::{Claim, Level, Response, Tentative};
use crate::config::Rule;
use crate::execution::Before;
use crate::ids::OperationId;
use crate::message::Output;
use crate::object::Procedures;
use crate::order::OrderPlace;
use crate::rare;
use crate::request::Request;

/// A client's operation that has not got its last response.
#[derive(Debug)]
pub(crate) struct Awaited<R> {
    request: RequestId,
    level: Level,
    track: bool,
    /// The last response that the client has got.
    sent: Option<Arc<R>>,
}

impl<R> Awaited<R> {
    pub(crate) fn new(request: RequestId, level: Level, track: bool) -> Awaited<R> {
        Awaited { request, level, track, sent: None }
    }
}

impl<P: Procedures> Replica<P> {
    pub(super) fn reply(
        &mut self,
        request: RequestId,
        response: Response<P::Response>,
        last: bool,
    ) {
        let response = self.stopped().map_or(response, Response::Diverged);
        self.out.push_back(Output::<P>::Reply { request, response, last });
    }

    pub(super) fn refuse(&mut self, request: RequestId) {
        self.reply(request, Response::Busy, true);
    }

    /// Forgets a request whose client wants no more responses. An operation that was broadcast
    /// stays.
    pub(crate) fn on_cancel(&mut self, request: RequestId) {
        if self.waits.cancel(request) {
            return;
        }
        if let Some(id) = self.invoked.get(&request).copied() {
            self.take_awaited(id);
            return;
        }
        if !self.execution.cancel_attempt(request) {
            self.delayed.retain(|invoked| invoked.client != request);
        }
    }

    /// Removes and returns what awaits the responses to an operation.
    fn take_awaited(&mut self, id: OperationId) -> Option<Awaited<P::Response>> {
        let awaited = self.awaited.remove(&id)?;
        self.invoked.remove(&awaited.request);
        if self.config.acyclic {
            // Nobody needs the tentative response any more.
            self.execution.cancel_attempt(awaited.request);
        }
        Some(awaited)
    }

    /// Returns what is executed before a place.
    pub(super) fn claim(&self, place: OrderPlace) -> Option<Claim> {
        self.config.trace.then(|| {
            let (committed, mut tentative) = self.execution.before(&self.order, place);
            tentative.drain(..committed);
            Claim { committed: self.order.finals() + committed as u64, tentative }
        })
    }

    /// Returns the operations in `before`, or all that are executed.
    fn claim_after(&self, before: Option<Before>) -> Option<Claim> {
        let then = |(committed, tentative)| Claim { committed, tentative };
        match before {
            Some(before) => self.config.trace.then(|| then(before)),
            None => self.claim(OrderPlace::End),
        }
    }

    /// Returns what is executed before an operation.
    pub(super) fn claim_of(&self, request: &Request<P::Operation>) -> Option<Claim> {
        let place = self.order.place(request).filter(|_| self.config.trace)?;
        self.claim(place)
    }

    /// Answers the client of an operation that was executed. `settled` states whether the state is
    /// that of a sequential execution.
    pub(super) fn answer(
        &mut self,
        request: &Request<P::Operation>,
        response: Option<Arc<P::Response>>,
        settled: bool,
    ) {
        let id = request.id;
        let is_committed = !self.order.is_tentative(request);
        if let Some(response) = &response {
            self.frontier.executed(id, response, !is_committed);
        }
        if !is_committed && settled {
            self.answer_followers(request);
        }
        let (Some(awaited), Some(response)) = (self.awaited.get_mut(&id), response) else { return };
        let is_first = awaited.sent.is_none();
        let is_weak = awaited.level == Level::Weak;
        let is_new = is_first || awaited.track && awaited.sent.as_ref() != Some(&response);
        // The execution of a committed strong operation is its last one. Its response is stable.
        if !is_new || is_committed && !is_weak {
            return;
        }
        awaited.sent = Some(Arc::clone(&response));
        let place = self.order.tentative_place(request);
        let cause = place.filter(|_| !is_first).and_then(|place| self.execution.cause(place));
        place.into_iter().for_each(|place| self.execution.note_seen(place));
        let (client, last) = (awaited.request, is_weak && !awaited.track);
        if last {
            self.take_awaited(id);
        }
        let response = Arc::unwrap_or_clone(response);
        let claim = self.claim_of(request);
        let tentative = Tentative { id: Some(id), response, claim, cause };
        if is_first {
            self.reply(client, Response::Tentative(tentative), last);
        } else {
            self.rare(rare::REVISED);
            self.reply(client, Response::Revised(tentative), last);
        }
    }

    /// Gives the client of a strong operation without a place the response that it would have after
    /// all executed operations, or after those in `before`.
    pub(super) fn foretell(
        &mut self,
        id: OperationId,
        response: Option<Arc<P::Response>>,
        before: Option<Before>,
    ) {
        let cast = self.streams.get(id).and_then(|request| request.cast());
        let Some(response) =
            response.filter(|_| cast.is_some_and(|it| self.undecided.contains_key(&it)))
        else {
            return;
        };
        self.frontier.executed(id, &response, true);
        let claim = self.claim_after(before);
        let Some(awaited) = self.awaited.get_mut(&id) else { return };
        awaited.sent = Some(Arc::clone(&response));
        let client = awaited.request;
        self.rare(rare::FORETOLD);
        let response = Arc::unwrap_or_clone(response);
        let tentative = Tentative { id: Some(id), response, claim, cause: None };
        self.reply(client, Response::Tentative(tentative), false);
    }

    /// Answers the client of an operation that is final.
    pub(super) fn answer_final(&mut self, id: OperationId, response: Option<Arc<P::Response>>) {
        let (Some(awaited), Some(response)) = (self.take_awaited(id), response) else { return };
        if awaited.level == Level::Strong && awaited.sent.is_none() {
            self.rare(rare::UNEXECUTED);
        }
        let position = self.order.finals();
        let response = Arc::unwrap_or_clone(response);
        self.reply(awaited.request, Response::Stable { id, position, response }, true);
    }

    /// Answers with the last tentative response. Used without `ValidPrefix` alone.
    pub(super) fn answer_early(&mut self, id: OperationId) {
        debug_assert!(!self.config.has(Rule::ValidPrefix), "the response may be wrong");
        let Some(response) = self.awaited.get(&id).and_then(|it| it.sent.clone()) else { return };
        let Some(awaited) = self.take_awaited(id) else { return };
        let position = self.order.finals() + self.order.committed().len() as u64;
        let response = Arc::unwrap_or_clone(response);
        self.reply(awaited.request, Response::Stable { id, position, response }, true);
    }

    /// Answers an operation that only reads, and was executed after all others, or after those in
    /// `before`.
    pub(super) fn answer_read(
        &mut self,
        client: RequestId,
        response: Arc<P::Response>,
        before: Option<Before>,
    ) {
        let response = Arc::unwrap_or_clone(response);
        let claim = self.claim_after(before);
        let tentative = Tentative { id: None, response, claim, cause: None };
        self.reply(client, Response::Tentative(tentative), true);
    }
}
