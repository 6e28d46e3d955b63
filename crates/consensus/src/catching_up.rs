//! Decisions that a member lacks, because messages were lost or it was down.

use solera_election::Ballot;
use solera_time::SiteId;

use crate::config::Rule;
use crate::handing_over::slot_bytes;
use crate::ids::{Batch, Slot};
use crate::message::{Message, Output};
use crate::participant::{Participant, Role};
use crate::rare;
use crate::step::Step;

impl<B: Clone> Participant<B> {
    /// Handles a leader's status message.
    pub(crate) fn on_status(
        &mut self,
        step: &mut Step<'_, B>,
        ballot: Ballot,
        decided: Slot,
        everywhere: Slot,
        established: bool,
    ) {
        let state = &mut self.state;
        state.reported = state.reported.max(decided);
        if everywhere > state.log.delivered {
            // Reports of an earlier life of this member, whose data is lost.
            self.on_forgotten(step, ballot.leader, everywhere);
        }
        let state = &mut self.state;
        state.log.forget(everywhere);
        if established {
            state.establish(step, ballot.configuration);
        }
        let delivered = state.log.delivered;
        step.send(ballot.leader, Message::Report { ballot, delivered });
        self.ask_if_lacking(step);
    }

    /// Asks the leader for decisions if the acceptances have not arrived for a while.
    pub(crate) fn ask_if_lacking(&mut self, step: &mut Step<'_, B>) {
        let state = &mut self.state;
        let decided = state.log.decided;
        if decided >= state.reported || !step.keeps(Rule::AskForDecisions) {
            state.lacking = None;
            return;
        }
        match state.lacking {
            Some((after, since)) if after == decided => {
                if step.now.since(since) >= step.config.timing.status_interval {
                    state.lacking = Some((after, step.now));
                    self.ask_for_decisions(step);
                }
            }
            _ => state.lacking = Some((decided, step.now)),
        }
    }

    fn ask_for_decisions(&mut self, step: &mut Step<'_, B>) {
        let leader = self.state.election.begun().map(|ballot| ballot.leader);
        let Some(leader) = leader.filter(|leader| *leader != step.me()) else { return };
        step.reach(rare::ASKS);
        step.send(leader, Message::Ask { after: self.state.log.decided });
    }

    /// Sends decisions to a member that lacks them.
    pub(crate) fn on_ask(&mut self, step: &mut Step<'_, B>, from: SiteId, after: Slot) {
        let log = &self.state.log;
        if after < log.forgotten {
            return step.send(from, Message::Forgotten { upto: log.forgotten });
        }
        let mut bytes = 0;
        let mut slots = Vec::new();
        for (slot, state) in log.after(after).take_while(|(slot, _)| *slot <= log.decided) {
            let Some(batch) = &state.decided else { break };
            bytes += slot_bytes(batch.len());
            if bytes > step.config.part_bytes && !slots.is_empty() {
                break;
            }
            slots.push((slot, batch.clone()));
        }
        if !slots.is_empty() {
            step.send(from, Message::Decided { slots });
        }
    }

    /// Takes decisions from another member.
    pub(crate) fn on_decided(
        &mut self,
        step: &mut Step<'_, B>,
        from: SiteId,
        slots: Vec<(Slot, Batch)>,
    ) {
        let before = self.state.log.decided;
        for (slot, batch) in slots {
            if self.state.log.is_far(slot) {
                break;
            }
            self.state.decide(step, slot, batch);
        }
        let after = self.state.log.decided;
        if after > before && after < self.state.reported {
            step.send(from, Message::Ask { after });
        }
    }

    /// Reports to the owner that another member has forgotten slots that this one lacks.
    pub(crate) fn on_forgotten(&mut self, step: &mut Step<'_, B>, from: SiteId, upto: Slot) {
        if upto <= self.state.log.delivered {
            return;
        }
        step.reach(rare::LACKS_FORGOTTEN);
        self.state.forgotten_elsewhere = self.state.forgotten_elsewhere.max(upto);
        if matches!(self.role, Role::Candidate(_)) {
            self.role = Role::Follower;
            self.state.election.hear(step.now);
        }
        step.outputs.push_back(Output::Lacks { site: from, upto });
    }
}
