//! A leader's votes: one for each transaction, in the order of proposed times.

use solera_machine::Address;
use solera_time::{Monotonic, Timestamp};

use super::{DeferredPrepare, Leader, PrepareRequest, Unconfirmed};
use crate::claim::Claim;
use crate::config::Rule;
use crate::entry::{Entry, Phase};
use crate::ids::TransactionId;
use crate::kept::Kept;
use crate::message::Body;
use crate::payload::{GroupPayload, Outcome, Vote};
use crate::rare;
use crate::step::Step;

impl<W: Clone> Leader<W> {
    /// Votes on a transaction, once, and makes the group store the vote.
    pub(crate) fn on_prepare(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        request: PrepareRequest<W>,
    ) {
        let since =
            self.deferred.remove(&tid).map_or(step.now.monotonic, |deferred| deferred.since);
        self.consider(kept, step, tid, request, since);
    }

    /// Votes, repeats an earlier vote, or defers the request.
    fn consider(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        request: PrepareRequest<W>,
        since: Monotonic,
    ) {
        let coordinator = request.coordinator;
        if let Some(entry) = kept.state.entries.get(&tid) {
            step.counts.ignored += 1;
            match entry.phase {
                Phase::Undecided => {
                    let entry = entry.clone();
                    kept.have_kept(step, coordinator, tid, entry, None);
                }
                Phase::Committed(ts) | Phase::Finished(Some(ts)) => {
                    kept.send_decision(step, coordinator, tid, Outcome::Committed(ts));
                }
                Phase::Finished(None) => {
                    kept.send_decision(step, coordinator, tid, Outcome::Aborted(None));
                }
            }
            return;
        }
        if self.oldest_if_over(kept, step, tid).is_some() {
            // If no later leader has the transaction, all participants have finished with it,
            // whatever its outcome.
            self.once_confirmed(kept, step, Unconfirmed::Over(tid, coordinator));
            return;
        }
        if self.is_behind(kept, step) {
            // The leader does not know everything that the transaction must have seen. The
            // coordinator repeats the request.
            return;
        }
        if let Some(payload) = &request.payload
            && self.must_wait(kept, step, payload, request.claim, since)
        {
            if kept.stores(step, &payload.snap_vec) && since == step.now.monotonic {
                step.counts.waited += 1;
            }
            if since == step.now.monotonic {
                // The request has arrived before its reservation ended, and now waits for what this
                // site lacks.
                self.keep_reservation(step, request.claim);
            }
            self.deferred.insert(tid, DeferredPrepare { request, since, last: step.now.monotonic });
            return;
        }
        self.vote(kept, step, tid, request);
    }

    /// Returns whether the leader must defer its vote.
    fn must_wait(
        &self,
        kept: &Kept<W>,
        step: &Step<'_, W>,
        payload: &GroupPayload<W>,
        claim: Option<Claim>,
        since: Monotonic,
    ) -> bool {
        // A vote would delay all later transactions, and could not be acknowledged.
        !kept.stores(step, &payload.snap_vec)
            || self.waits_for_claim(kept, step, payload, claim, since)
    }

    /// Returns whether a transaction waits for one with an older claim. It does not wait if it must
    /// abort anyway, and it waits only for a limited time, because it may be prepared in other
    /// groups.
    fn waits_for_claim(
        &self,
        kept: &Kept<W>,
        step: &Step<'_, W>,
        payload: &GroupPayload<W>,
        claim: Option<Claim>,
        since: Monotonic,
    ) -> bool {
        self.reservations.goes_before(claim, payload)
            && step.now.monotonic.since(since) < step.config.timing.reservation
            && kept.conflicts.against(payload).is_none()
    }

    fn vote(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        request: PrepareRequest<W>,
    ) {
        let PrepareRequest { coordinator, payload, participants, until, claim } = request;
        let vote = match &payload {
            Some(payload) => match kept.conflicts.against(payload) {
                Some(cause) => {
                    if cause.key.is_none() {
                        step.reach(rare::BELOW_FENCE);
                    }
                    Vote::Abort(Some(cause))
                }
                None => Vote::Commit,
            },
            None if step.configuration.is_former(tid)
                && step.config.keeps(Rule::AdmitForgotten) =>
            {
                step.reach(rare::ADMITS_FORGOTTEN);
                Vote::Forgotten
            }
            None => Vote::Abort(None),
        };
        if let Some(payload) = &payload {
            // The clock must pass the snapshot, because replicated types compare the times of all
            // transactions.
            step.clock.observe(payload.snap_vec.max_entry());
        }
        let ts = step.clock.tick(step.now.physical);
        // After `until`, other processes may proceed without waiting for this transaction.
        let too_late = ts > until && step.config.keeps(Rule::InTime);
        let vote = if too_late && vote == Vote::Commit {
            step.reach(rare::TOO_LATE);
            Vote::Abort(None)
        } else {
            vote
        };
        if let (Some(claim), Some(payload)) = (claim, &payload) {
            self.reserve(step, tid, claim, payload, &vote);
        }
        if let (Vote::Commit, Some(payload)) = (&vote, &payload)
            && step.config.keeps(Rule::PreparedConflicts)
        {
            kept.conflicts.prepare(tid, payload, ts);
        }
        let payload = payload.filter(|_| vote == Vote::Commit);
        let phase = Phase::Undecided;
        let entry = Entry { payload, participants, vote, ts, phase, acknowledged: false };
        kept.state.entries.insert(tid, entry.clone());
        let mut after = None;
        self.asked.insert(tid, step.now.monotonic);
        if entry.holds_back() {
            after = self.nothing_since(step.config);
            self.open.insert((ts, tid));
        }
        kept.have_kept(step, coordinator, tid, entry, after);
    }

    /// Reserves keys for the retry of a transaction with a claim, in case it aborts again.
    fn reserve(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        claim: Claim,
        payload: &GroupPayload<W>,
        vote: &Vote,
    ) {
        if !step.config.keeps(Rule::AbortedFirst) {
            return;
        }
        let lacks = match vote {
            Vote::Abort(Some(cause)) => Some(cause.past),
            _ => None,
        };
        let until = step.now.monotonic.after(step.config.timing.reservation);
        if self.reservations.keep(claim, payload, lacks, until) {
            step.counts.reserved += 1;
            self.claims.insert(tid, claim);
        }
    }

    /// Extends the reservation of a claim.
    fn keep_reservation(&mut self, step: &mut Step<'_, W>, claim: Option<Claim>) {
        let until = step.now.monotonic.after(step.config.timing.reservation);
        if let Some(claim) = claim
            && self.reservations.extend(claim, until)
        {
            step.reach(rare::RESERVATION_WAITS);
        }
    }

    /// Votes on deferred requests that need not wait any longer. Drops those that their
    /// coordinators do not repeat.
    pub(super) fn take_deferred(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        let now = step.now.monotonic;
        self.reservations.expire(now);
        let patience = step.config.timing.retry * 4;
        for (tid, deferred) in std::mem::take(&mut self.deferred) {
            if now.since(deferred.last) >= patience {
                step.reach(rare::DROPS_DEFERRED);
                continue;
            }
            let DeferredPrepare { request, since, last } = deferred;
            let waits = request
                .payload
                .as_ref()
                .is_some_and(|payload| self.must_wait(kept, step, payload, request.claim, since));
            if waits {
                self.deferred.insert(tid, DeferredPrepare { request, since, last });
            } else {
                self.consider(kept, step, tid, request, since);
            }
        }
    }
}

impl<W: Clone> Kept<W> {
    /// Makes the members store a vote, and acknowledges the vote for this member.
    fn have_kept(
        &mut self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
        entry: Entry<W>,
        after: Option<Timestamp>,
    ) {
        self.acknowledge_when_stored(step, coordinator, tid);
        let ballot = self.state.accepted_in;
        let accept = Body::Accept { ballot, tid, entry, coordinator, after };
        step.send_others(self.group, accept);
    }

    fn send_decision(
        &self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
        outcome: Outcome,
    ) {
        let outcome = Some(outcome);
        step.send(coordinator, self.group, Body::Decision { tid, outcome, oldest: None });
    }
}
