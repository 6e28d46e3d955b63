//! Accepting proposals, and counting acceptances.

use solera_election::Ballot;
use solera_time::SiteId;

use crate::config::{Rule, Variant};
use crate::ids::{Batch, Slot};
use crate::message::{Message, Output};
use crate::rare;
use crate::record::Record;
use crate::state::State;
use crate::step::Step;

impl State {
    /// Handles a proposal of a leader whose term is not below the promised one.
    pub(crate) fn on_accept<B: Clone>(
        &mut self,
        step: &mut Step<'_, B>,
        ballot: Ballot,
        slot: Slot,
        batch: Batch,
    ) {
        if self.log.is_decided(slot) {
            if let Some(decided) = self.log.decision(slot) {
                step.reach(rare::ANSWERS_DECIDED);
                let slots = vec![(slot, decided.clone())];
                step.send(ballot.leader, Message::Decided { slots });
            }
            return;
        }
        let me = step.me();
        let Some(state) = self.log.slot(slot) else { return };
        if !state.propose(ballot, batch) {
            return;
        }
        // The leader has accepted its own proposal.
        state.vote(ballot, ballot.leader);
        if state.has_voted(ballot, me) {
            // The leader has not received the acceptance.
            step.send(ballot.leader, Message::Accepted { ballot, slot });
        } else if !self.accept(step, slot) {
            step.reach(rare::KEEPS_PROPOSAL);
            self.log.kept.insert(slot);
        }
        self.decide_voted(step, slot);
    }

    /// Accepts the known proposal of a slot if its predicates hold (Creek §4.2: `checkDep` is
    /// evaluated when consensus is solved), and sends the acceptance to all members.
    pub(crate) fn accept<B: Clone>(&mut self, step: &mut Step<'_, B>, slot: Slot) -> bool {
        let Some(state) = self.log.get(slot) else { return false };
        let Some((ballot, batch)) = state.proposed.clone() else { return false };
        if !step.holds(&batch) && step.keeps(Rule::PredicateAtAcceptance) {
            return false;
        }
        let me = step.me();
        let Some(state) = self.log.slot(slot) else { return false };
        state.accept(me);
        if step.keeps(Rule::RecordAcceptance) {
            step.record(Record::Accepted { ballot, slot, batch: batch.clone() });
        }
        self.election.promise(ballot);
        if ballot.leader != me && step.config.variant != Variant::Primary {
            step.send_others(Message::Accepted { ballot, slot });
        }
        if step.config.variant == Variant::Optimistic {
            step.outputs.push_back(Output::Accepted { slot, ids: batch.to_vec() });
        }
        true
    }

    /// Accepts the kept proposals whose predicates hold now.
    pub(crate) fn accept_kept<B: Clone>(&mut self, step: &mut Step<'_, B>) {
        let kept: Vec<Slot> = self.log.kept.iter().copied().collect();
        for slot in kept {
            let proposed = self.log.get(slot).and_then(|state| state.proposed.as_ref());
            let Some((ballot, _)) = proposed else { continue };
            let left = *ballot < self.election.ballot() && step.keeps(Rule::LeaveTerm);
            if left || State::is_former(step, *ballot) {
                // The promise of the later term does not contain this proposal.
                step.reach(rare::DROPS_KEPT);
                self.log.kept.remove(&slot);
            } else if self.accept(step, slot) {
                step.reach(rare::ACCEPTS_KEPT);
                self.log.kept.remove(&slot);
                self.decide_voted(step, slot);
            }
        }
    }

    /// Counts another member's acceptance.
    pub(crate) fn on_accepted<B>(
        &mut self,
        step: &mut Step<'_, B>,
        from: SiteId,
        ballot: Ballot,
        slot: Slot,
    ) {
        if self.log.is_decided(slot) || self.log.is_far(slot) {
            return;
        }
        if let Some(state) = self.log.slot(slot) {
            state.vote(ballot, from);
            self.decide_voted(step, slot);
        }
    }

    /// Decides a slot if a quorum has accepted the known proposal. The members of a later
    /// configuration do not form quorums of earlier ballots.
    pub(crate) fn decide_voted<B>(&mut self, step: &mut Step<'_, B>, slot: Slot) {
        let Some(state) = self.log.get(slot) else { return };
        let Some((ballot, batch, votes)) = state.voted(step.electors) else { return };
        let is_quorum = step.keeps(Rule::Quorum) && step.config.variant != Variant::Primary;
        let quorum = if is_quorum { step.electors.quorum() } else { 1 };
        let counts =
            ballot.configuration == step.electors.number || !step.keeps(Rule::FormerConfiguration);
        if votes >= quorum && counts {
            let batch = batch.clone();
            self.decide(step, slot, batch);
        }
    }

    /// Decides the slots for which a quorum of a new configuration has already accepted.
    pub(crate) fn decide_all_voted<B>(&mut self, step: &mut Step<'_, B>) {
        let slots: Vec<Slot> = self.log.after(self.log.decided).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.decide_voted(step, slot);
        }
    }
}
