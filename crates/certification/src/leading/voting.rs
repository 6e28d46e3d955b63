//! A leader's votes: once for each transaction, in the order in which times are proposed.

use solera_machine::Address;
use solera_time::{Monotonic, Timestamp};

use super::{Asked, Early, Leader, Unconfirmed};
use crate::claim::Claim;
use crate::config::Rule;
use crate::entry::{Entry, Phase};
use crate::ids::TransactionId;
use crate::kept::Kept;
use crate::message::Body;
use crate::rare;
use crate::share::{Outcome, Share, Vote};
use crate::step::Step;

impl<W: Clone> Leader<W> {
    /// Votes on a transaction, once, and has the group keep the vote.
    pub(crate) fn on_prepare(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        asked: Asked<W>,
    ) {
        let since = self.early.remove(&tid).map_or(step.now.monotonic, |early| early.since);
        self.consider(kept, step, tid, asked, since);
    }

    /// Votes, or repeats the vote, or waits until it can.
    fn consider(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        asked: Asked<W>,
        since: Monotonic,
    ) {
        let coordinator = asked.coordinator;
        if let Some(entry) = kept.state.entries.get(&tid) {
            step.counts.ignored += 1;
            match entry.phase {
                Phase::Undecided => {
                    let entry = entry.clone();
                    kept.have_kept(step, coordinator, tid, entry, None);
                }
                Phase::Committed(ts) | Phase::Finished(Some(ts)) => {
                    kept.tell_decision(step, coordinator, tid, Outcome::Committed(ts));
                }
                Phase::Finished(None) => {
                    kept.tell_decision(step, coordinator, tid, Outcome::Aborted(None));
                }
            }
            return;
        }
        if self.oldest_if_over(kept, step, tid).is_some() {
            // However it ended, everybody who took part is done with it, if no later leader has it.
            self.once_confirmed(kept, step, Unconfirmed::Over(tid, coordinator));
            return;
        }
        if self.is_behind(kept, step) {
            // It does not know everything that the transaction must have seen. It will be asked
            // again.
            return;
        }
        if let Some(share) = &asked.share
            && self.is_early(kept, step, share, asked.claim, since)
        {
            if kept.stores(step, &share.snap_vec) && since == step.now.monotonic {
                step.counts.waited += 1;
            }
            if since == step.now.monotonic {
                // It has come in time, and waits for what this site lacks.
                self.keep_reservation(step, asked.claim);
            }
            self.early.insert(tid, Early { asked, since, last: step.now.monotonic });
            return;
        }
        self.vote(kept, step, tid, asked);
    }

    /// Whether a vote has to wait.
    fn is_early(
        &self,
        kept: &Kept<W>,
        step: &Step<'_, W>,
        share: &Share<W>,
        claim: Option<Claim>,
        since: Monotonic,
    ) -> bool {
        // A vote would hold back whatever comes after it, and could not be acknowledged.
        !kept.stores(step, &share.snap_vec) || self.gives_way(kept, step, share, claim, since)
    }

    /// Whether a transaction waits for one that was aborted before. Not if it must abort anyway,
    /// and never for long: it may be prepared in other groups.
    fn gives_way(
        &self,
        kept: &Kept<W>,
        step: &Step<'_, W>,
        share: &Share<W>,
        claim: Option<Claim>,
        since: Monotonic,
    ) -> bool {
        self.reservations.goes_before(claim, share)
            && step.now.monotonic.since(since) < step.config.timing.reservation
            && kept.conflicts.against(share).is_none()
    }

    fn vote(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        asked: Asked<W>,
    ) {
        let Asked { coordinator, share, participants, until, claim } = asked;
        let vote = match &share {
            Some(share) => match kept.conflicts.against(share) {
                Some(obstacle) => {
                    if obstacle.key.is_none() {
                        step.reach(rare::BELOW_FENCE);
                    }
                    Vote::Abort(Some(obstacle))
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
        if let Some(share) = &share {
            // Replicated types compare the times of all transactions.
            step.clock.observe(share.snap_vec.max_entry());
        }
        let ts = step.clock.tick(step.now.physical);
        // Others may have gone on without waiting for it (`until`).
        let too_late = ts > until && step.config.keeps(Rule::InTime);
        let vote = if too_late && vote == Vote::Commit {
            step.reach(rare::TOO_LATE);
            Vote::Abort(None)
        } else {
            vote
        };
        if let (Some(claim), Some(share)) = (claim, &share) {
            self.reserve(step, tid, claim, share, &vote);
        }
        if let (Vote::Commit, Some(share)) = (&vote, &share)
            && step.config.keeps(Rule::PreparedConflicts)
        {
            kept.conflicts.prepare(tid, share, ts);
        }
        let share = share.filter(|_| vote == Vote::Commit);
        let phase = Phase::Undecided;
        let entry = Entry { share, participants, vote, ts, phase, told: false };
        kept.state.entries.insert(tid, entry.clone());
        let mut after = None;
        self.asked.insert(tid, step.now.monotonic);
        if entry.holds_back() {
            after = self.nothing_since(step.config);
            self.open.insert((ts, tid));
        }
        kept.have_kept(step, coordinator, tid, entry, after);
    }

    /// Keeps keys free for the next attempt of a transaction that was aborted before, should it
    /// abort again.
    fn reserve(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        claim: Claim,
        share: &Share<W>,
        vote: &Vote,
    ) {
        if !step.config.keeps(Rule::AbortedFirst) {
            return;
        }
        let lacks = match vote {
            Vote::Abort(Some(obstacle)) => Some(obstacle.past),
            _ => None,
        };
        let until = step.now.monotonic.after(step.config.timing.reservation);
        if self.reservations.keep(claim, share, lacks, until) {
            step.counts.reserved += 1;
            self.claims.insert(tid, claim);
        }
    }

    /// Keeps what is reserved for a claim until a while from now.
    fn keep_reservation(&mut self, step: &mut Step<'_, W>, claim: Option<Claim>) {
        let until = step.now.monotonic.after(step.config.timing.reservation);
        if let Some(claim) = claim
            && self.reservations.extend(claim, until)
        {
            step.reach(rare::RESERVATION_WAITS);
        }
    }

    /// Votes on what could not be voted on before, and forgets what nobody asks for any more.
    pub(super) fn take_early(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        let now = step.now.monotonic;
        self.reservations.expire(now);
        let patience = step.config.timing.retry * 4;
        for (tid, early) in std::mem::take(&mut self.early) {
            if now.since(early.last) >= patience {
                step.reach(rare::DROPS_EARLY);
                continue;
            }
            let Early { asked, since, last } = early;
            let waits = asked
                .share
                .as_ref()
                .is_some_and(|share| self.is_early(kept, step, share, asked.claim, since));
            if waits {
                self.early.insert(tid, Early { asked, since, last });
            } else {
                self.consider(kept, step, tid, asked, since);
            }
        }
    }
}

impl<W: Clone> Kept<W> {
    /// Has the members keep a vote, and tells that this one does.
    fn have_kept(
        &mut self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
        entry: Entry<W>,
        after: Option<Timestamp>,
    ) {
        self.tell_kept(step, coordinator, tid);
        let ballot = self.state.accepted_in;
        let accept = Body::Accept { ballot, tid, entry, coordinator, after };
        step.send_others(self.group, accept);
    }

    fn tell_decision(
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
