//! The guard: reservations, which are volatile, and promises.

use std::collections::BTreeSet;

use solera_machine::{
    Guard, GuardAnswer, GuardQuestion, Guarded, PromiseId, Refusal, RequestId, Verdict,
};
use solera_time::{Monotonic, Vector};

use super::Reservations;
use crate::command::{Cannot, Claim, Response, TakeId};
use crate::config::Rule;
use crate::counter::WaitingTake;
use crate::numbers::Tokens;
use crate::outbox::Settled;
use crate::protocol::PROTOCOL;
use crate::rare;
use crate::record::{Held, Record};
use crate::waiter::Waiter;

/// Tokens that are taken for a transaction before its guard promises.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// The question, until it is answered.
    request: Option<RequestId>,
    guards: Guarded,
    /// The transaction's snapshot.
    snapshot: Vector,
    /// State of each guard, in their order.
    statuses: Vec<TokenStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenStatus {
    /// It needs no tokens, or names those that it has.
    Nothing,
    Waits,
    Taken(TakeId),
}

impl Reservation {
    fn is_complete(&self) -> bool {
        !self.statuses.contains(&TokenStatus::Waits)
    }
}

fn refusal(key: &[u8], reason: String) -> Refusal {
    Refusal { key: key.to_vec(), protocol: PROTOCOL.number, reason }.shortened()
}

fn unreadable(key: &[u8]) -> Refusal {
    refusal(key, "the claim cannot be read".to_owned())
}

fn not_here(key: &[u8]) -> Refusal {
    refusal(key, "another worker owns the key".to_owned())
}

impl Reservations {
    pub(super) fn on_guard(&mut self, now: Monotonic, request: RequestId, question: GuardQuestion) {
        match question {
            GuardQuestion::Reserve { id, guards, snapshot } => {
                self.reserve(now, request, id, (guards, snapshot));
            }
            GuardQuestion::Promise { id, guards } => {
                let promised = self.promise(now, id, &guards);
                self.answer(now, request, promised);
            }
            GuardQuestion::End { id, .. } => {
                self.release(now, id);
                self.end(now, id);
                self.step(now).1.reply(request, Response::Guard(GuardAnswer::Ended));
            }
        }
    }

    fn answer(&mut self, now: Monotonic, request: RequestId, judged: Result<(), Refusal>) {
        let verdict = match judged {
            Ok(()) => Verdict::Promised,
            Err(refusal) => Verdict::Refused(refusal),
        };
        self.step(now).1.reply(request, Response::Guard(GuardAnswer::Verdict(verdict)));
    }

    // Reservations.

    /// Takes the tokens that a transaction claims, or waits for them.
    fn reserve(
        &mut self,
        now: Monotonic,
        request: RequestId,
        id: PromiseId,
        (guards, snapshot): (Guarded, Vector),
    ) {
        if self.promises.contains_key(&id) {
            return self.answer(now, request, Ok(()));
        }
        if let Some(reservation) = self.reservations.get_mut(&id) {
            // The participant repeats its question.
            if !reservation.is_complete() {
                reservation.request = Some(request);
                return;
            }
            return self.answer(now, request, Ok(()));
        }
        let mut wanted = Vec::new();
        for guard in guards.iter() {
            match self.wanted(&guard.key, &guard.claim) {
                Ok(tokens) => wanted.push(tokens),
                Err(refusal) => return self.answer(now, request, Err(refusal)),
            }
        }
        let waits = |tokens: &Tokens| {
            if tokens.is_none() { TokenStatus::Nothing } else { TokenStatus::Waits }
        };
        let statuses: Vec<TokenStatus> = wanted.iter().map(waits).collect();
        let (request, kept) = (Some(request), guards.clone());
        let reservation = Reservation { request, guards: kept, snapshot, statuses };
        if reservation.is_complete() {
            self.reservations.insert(id, reservation);
            return self.complete(now, id);
        }
        self.reservations.insert(id, reservation);
        let (since, until) = (now, now.after(self.config.timing.patience));
        for (place, (guard, tokens)) in guards.iter().zip(wanted).enumerate() {
            if tokens.is_none() {
                continue;
            }
            let partition = self.config.partition_of(&guard.key);
            let (partitions, mut step) = self.step(now);
            if let Some(partition) = partitions.get_mut(&partition) {
                let waiter = Waiter::Reservation(id, place);
                partition.await_tokens(
                    &mut step,
                    &guard.key,
                    WaitingTake { waiter, tokens, since, until },
                );
            }
        }
    }

    /// Returns the tokens that a claim needs before the promise.
    fn wanted(&self, key: &[u8], claim: &[u8]) -> Result<Tokens, Refusal> {
        let claim = Claim::decode(claim).ok_or_else(|| unreadable(key))?;
        if !self.partitions.contains_key(&self.config.partition_of(key)) {
            return Err(not_here(key));
        }
        if self.config.bound(key).is_none() {
            return Err(refusal(key, Cannot::NoPolicy.to_string()));
        }
        Ok(match claim {
            Claim::Tokens(tokens) => tokens,
            Claim::Take(_) => Tokens::default(),
        })
    }

    /// Passes the tokens that reservations have got on to them, and ends those that get none.
    pub(super) fn settle(&mut self, now: Monotonic) {
        while let Some(Settled { id, place, key, outcome }) = self.out.settled.pop_front() {
            let reservation = self.reservations.get_mut(&id);
            let waits =
                reservation.filter(|it| it.statuses.get(place) == Some(&TokenStatus::Waits));
            match (waits, outcome) {
                (Some(reservation), Ok(take)) => {
                    reservation.statuses[place] = TokenStatus::Taken(take);
                    if reservation.is_complete() {
                        self.complete(now, id);
                    }
                }
                (Some(reservation), Err(cannot)) => {
                    let request = reservation.request.take();
                    self.release(now, id);
                    if let Some(request) = request {
                        self.answer(now, request, Err(refusal(&key, cannot.to_string())));
                    }
                }
                // The reservation has ended in this step.
                (None, Ok(take)) => self.give_back(now, &key, take),
                (None, Err(_)) => {}
            }
        }
    }

    /// Answers the question of a reservation that has everything. A transaction whose snapshot
    /// lacks what its rights depend on must begin again.
    fn complete(&mut self, now: Monotonic, id: PromiseId) {
        let Some(reservation) = self.reservations.get_mut(&id) else { return };
        let Some(request) = reservation.request.take() else { return };
        let (guards, mut past) = (reservation.guards.clone(), reservation.snapshot);
        for Guard { key, claim, .. } in guards.iter() {
            let Some(Claim::Tokens(tokens)) = Claim::decode(claim) else { continue };
            let Some(needed) = self.past_of(key, tokens) else { continue };
            if past.covers(&needed) {
                continue;
            }
            past.join(&needed);
            self.release(now, id);
            let mut step = self.step(now).1;
            step.rare(rare::LATER);
            let verdict = Verdict::Later { key: key.clone(), past };
            return step.reply(request, Response::Guard(GuardAnswer::Verdict(verdict)));
        }
        self.answer(now, request, Ok(()));
    }

    fn give_back(&mut self, now: Monotonic, key: &[u8], take: TakeId) {
        let partition = self.config.partition_of(key);
        let (partitions, mut step) = self.step(now);
        if let Some(partition) = partitions.get_mut(&partition) {
            partition.on_give_back(&mut step, &key.to_vec(), take);
        }
    }

    /// Ends a reservation, and gives back what it has.
    pub(super) fn release(&mut self, now: Monotonic, id: PromiseId) {
        let Some(reservation) = self.reservations.remove(&id) else { return };
        for (status, guard) in reservation.statuses.iter().zip(reservation.guards.iter()) {
            match status {
                TokenStatus::Nothing => {}
                TokenStatus::Taken(take) => {
                    self.step(now).1.rare(rare::RELEASED);
                    self.give_back(now, &guard.key, *take);
                }
                TokenStatus::Waits => {
                    let partition = self.config.partition_of(&guard.key);
                    if let Some(partition) = self.partitions.get_mut(&partition) {
                        let is_its =
                            |waiter| matches!(waiter, Waiter::Reservation(of, _) if of == id);
                        partition.stop_waiting(&guard.key, is_its);
                    }
                }
            }
        }
    }

    /// Ends the reservation whose question is cancelled.
    pub(super) fn cancel_reservation(&mut self, now: Monotonic, request: RequestId) {
        let mut all = self.reservations.iter();
        let found = all.find(|(_, reservation)| reservation.request == Some(request));
        if let Some(id) = found.map(|(id, _)| *id) {
            self.release(now, id);
        }
    }

    // Promises.

    /// Promises that a transaction may use its tokens (H6). A refused one has no reservation any
    /// more.
    fn promise(&mut self, now: Monotonic, id: PromiseId, guards: &Guarded) -> Result<(), Refusal> {
        if self.promises.contains_key(&id) {
            return Ok(());
        }
        let takes = match self.judge(now, id, guards) {
            Ok(takes) => takes,
            Err(refusal) => {
                self.out.counts.note_lapse();
                self.release(now, id);
                return Err(refusal);
            }
        };
        self.reservations.remove(&id);
        self.out.counts.updates += takes.len() as u64;
        let (partitions, mut step) = self.step(now);
        for (take, held) in &takes {
            if let Some(partition) = partitions.get_mut(&held.partition) {
                partition.promise(&mut step, *take, held);
            }
        }
        let held: Vec<Held> = takes.into_iter().map(|(_, held)| held).collect();
        if step.config.has(Rule::DurablePromises) {
            step.record(&Record::Promised(id, held.clone()));
        }
        self.promises.insert(id, held);
        Ok(())
    }

    /// Returns the tokens of a transaction, if its guards may all promise (H6).
    fn judge(
        &mut self,
        now: Monotonic,
        id: PromiseId,
        guards: &Guarded,
    ) -> Result<Vec<(TakeId, Held)>, Refusal> {
        let mut judged: Vec<(TakeId, Held)> = Vec::new();
        let mut takes: BTreeSet<TakeId> = BTreeSet::new();
        for (place, guard) in guards.iter().enumerate() {
            let claim = Claim::decode(&guard.claim).ok_or_else(|| unreadable(&guard.key))?;
            let take = match claim {
                Claim::Take(take) => take,
                Claim::Tokens(tokens) if tokens.is_none() => continue,
                Claim::Tokens(_) => {
                    let reservation = self.reservations.get(&id);
                    let reservation = reservation.filter(|it| it.guards == *guards);
                    match reservation.and_then(|it| it.statuses.get(place)) {
                        Some(TokenStatus::Taken(take)) => *take,
                        _ => {
                            let reason = "the transaction has no tokens: the process restarted";
                            return Err(refusal(&guard.key, reason.to_owned()));
                        }
                    }
                }
            };
            if !takes.insert(take) {
                let reason = "two guards claim the same tokens";
                return Err(refusal(&guard.key, reason.to_owned()));
            }
            let partition = self.config.partition_of(&guard.key);
            let (partitions, mut step) = self.step(now);
            let Some(partition) = partitions.get_mut(&partition) else {
                return Err(not_here(&guard.key));
            };
            let held = partition.judge(&mut step, &guard.key, take);
            judged.push((take, held.map_err(|why| refusal(&guard.key, why.reason().to_owned()))?));
        }
        Ok(judged)
    }

    fn end(&mut self, now: Monotonic, id: PromiseId) {
        let Some(held) = self.promises.remove(&id) else { return };
        let (partitions, mut step) = self.step(now);
        step.record(&Record::Ended(id));
        for held in held {
            if let Some(partition) = partitions.get_mut(&held.partition) {
                partition.end_promise(&mut step, &held);
            }
        }
    }
}
