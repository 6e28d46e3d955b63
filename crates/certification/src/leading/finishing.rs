//! What a leader forgets: transactions that a quorum has stored, that all groups are through with,
//! and that no coordinator will submit again.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Leader, PHASES, Unconfirmed, nth_greatest};
use crate::config::Rule;
use crate::entry::Phase;
use crate::ids::{GroupId, TransactionId};
use crate::kept::Kept;
use crate::message::Body;
use crate::step::Step;

impl<W: Clone> Leader<W> {
    /// The leader of another group says that a quorum of it has delivered a transaction.
    pub(crate) fn on_through(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        of: GroupId,
        answer: bool,
    ) {
        let known = kept.state.entries.contains_key(&tid);
        if known {
            self.through.entry(tid).or_default().groups.insert(of);
        } else if !answer {
            self.once_confirmed(kept, step, Unconfirmed::Through(tid, of));
        }
    }

    /// Finishes what a quorum has stored, and forgets what nobody will ask for.
    pub(crate) fn forget_finished(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        let keepers = step.configuration.keepers(step.config.f);
        let stored = nth_greatest(self.reports.values().map(|report| report.delivered), keepers);
        let ask = step.now.monotonic.since(self.asked_oldest) >= step.config.timing.retry * 2;
        if ask {
            self.asked_oldest = step.now.monotonic;
        }
        let mut in_mind = BTreeSet::new();
        let mut tell = Vec::new();
        let mut forgotten = Vec::new();
        for (tid, entry) in &mut kept.state.entries {
            // Others may store it that have it from who delivered it ahead. But until this leader
            // has shown as much as complete, it has not delivered it itself, and only the entry
            // keeps successors above it.
            if let Phase::Committed(ts) = entry.phase
                && ts <= stored.min(self.complete)
            {
                entry.phase = Phase::Finished(Some(ts));
                entry.share = None;
            }
            let Phase::Finished(outcome) = entry.phase else { continue };
            let others = || entry.participants.iter().filter(|group| **group != kept.group);
            let through = self.through.entry(*tid).or_default();
            let all = outcome.is_none() || others().all(|group| through.groups.contains(group));
            let again = through
                .told
                .is_none_or(|told| step.now.monotonic.since(told) >= step.config.timing.retry);
            if outcome.is_some() && again && !(all && through.told.is_some()) {
                let first = through.told.is_none();
                through.told = Some(step.now.monotonic);
                tell.extend(others().map(|group| (*tid, *group, first)));
            }
            let oldest = kept.state.oldest.get(&tid.coordinator);
            let asked = oldest.is_none_or(|oldest| *oldest <= tid.serial)
                && step.configuration.members.contains(&tid.coordinator.site);
            if (all && !asked) || !step.config.keeps(Rule::Remember) {
                forgotten.push(*tid);
            } else if ask && asked {
                in_mind.insert(tid.coordinator);
            }
        }
        for coordinator in in_mind {
            step.send(coordinator, kept.group, Body::AskOldest);
        }
        for tid in &forgotten {
            self.through.remove(tid);
        }
        kept.forget(step, &forgotten);
        for (tid, group, first) in tell {
            match first {
                true => kept.tell_through_here(step, tid, group),
                false => kept.tell_through(step, tid, group, false),
            }
        }
    }

    /// Undecided transactions whose coordinator should have told their outcome long since.
    pub(crate) fn overdue(
        &mut self,
        kept: &Kept<W>,
        step: &Step<'_, W>,
    ) -> Vec<(TransactionId, Arc<[GroupId]>)> {
        let (now, timing) = (step.now.monotonic, &step.config.timing);
        if self.overdue_at.is_some_and(|at| now.since(at) < timing.status_interval) {
            return Vec::new();
        }
        self.overdue_at = Some(now);
        let patience = timing.retry * 2;
        let mut overdue = Vec::new();
        for (tid, entry) in &kept.state.entries {
            let asked = self.asked.get(tid);
            // After a restart these may be many.
            if overdue.len() == PHASES {
                break;
            }
            if entry.phase == Phase::Undecided
                && asked.is_none_or(|asked| step.now.monotonic.since(*asked) >= patience)
            {
                self.asked.insert(*tid, step.now.monotonic);
                overdue.push((*tid, entry.participants.clone()));
            }
        }
        overdue
    }
}

impl<W: Clone> Kept<W> {
    /// To wherever the leader of the group is: only it listens.
    pub(super) fn tell_through(
        &self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        to: GroupId,
        answer: bool,
    ) {
        let of = self.group;
        for site in step.configuration.members.clone() {
            step.send_member(to, site, Body::Through { tid, of, answer });
        }
    }

    /// The same, to where the leader most likely is: groups are led from one site, as a rule.
    fn tell_through_here(&self, step: &mut Step<'_, W>, tid: TransactionId, to: GroupId) {
        let (of, me) = (self.group, step.me());
        step.send_member(to, me, Body::Through { tid, of, answer: false });
    }
}
