//! Transactions that a leader forgets: a quorum has stored them, all groups have finished with
//! them, and no coordinator will submit them again.

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
    /// Handles another leader's message that a quorum of its group has delivered a transaction.
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
            self.delivery_acks.entry(tid).or_default().groups.insert(of);
        } else if !answer {
            self.once_confirmed(kept, step, Unconfirmed::DeliveryAck(tid, of));
        }
    }

    /// Finishes the transactions that a quorum has stored, and forgets those for which no process
    /// will ask.
    pub(crate) fn forget_finished(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        let keepers = step.configuration.keepers(step.config.f);
        let stored = nth_greatest(self.reports.values().map(|report| report.delivered), keepers);
        let ask = step.now.monotonic.since(self.asked_oldest) >= step.config.timing.retry * 2;
        if ask {
            self.asked_oldest = step.now.monotonic;
        }
        let mut in_mind = BTreeSet::new();
        let mut due = Vec::new();
        let mut forgotten = Vec::new();
        for (tid, entry) in &mut kept.state.entries {
            // A quorum may store the transaction because a follower delivered it early. But this
            // leader has not delivered the transaction itself before it has reported as much as
            // complete. Until then, only the entry makes its successors propose times above the
            // timestamp.
            if let Phase::Committed(ts) = entry.phase
                && ts <= stored.min(self.complete)
            {
                entry.phase = Phase::Finished(Some(ts));
                entry.payload = None;
            }
            let Phase::Finished(outcome) = entry.phase else { continue };
            let others = || entry.participants.iter().filter(|group| **group != kept.group);
            let acks = self.delivery_acks.entry(*tid).or_default();
            let all = outcome.is_none() || others().all(|group| acks.groups.contains(group));
            let again = acks
                .sent
                .is_none_or(|sent| step.now.monotonic.since(sent) >= step.config.timing.retry);
            if outcome.is_some() && again && !(all && acks.sent.is_some()) {
                let first = acks.sent.is_none();
                acks.sent = Some(step.now.monotonic);
                due.extend(others().map(|group| (*tid, *group, first)));
            }
            let oldest = kept.state.oldest.get(&tid.coordinator);
            let asked = oldest.is_none_or(|oldest| *oldest <= tid.serial)
                && step.configuration.electors.members.contains(&tid.coordinator.site);
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
            self.delivery_acks.remove(tid);
        }
        kept.forget(step, &forgotten);
        for (tid, group, first) in due {
            match first {
                true => kept.acknowledge_delivery_here(step, tid, group),
                false => kept.acknowledge_delivery(step, tid, group, false),
            }
        }
    }

    /// Returns undecided transactions whose coordinator should have sent the outcome long ago.
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
            // After a restart, there may be many overdue transactions.
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
    /// Sends a delivery acknowledgement to all members of a group, because this worker may not know
    /// the leader. Only the leader handles it.
    pub(super) fn acknowledge_delivery(
        &self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        to: GroupId,
        answer: bool,
    ) {
        let of = self.group;
        for site in step.configuration.electors.members.clone() {
            step.send_member(to, site, Body::Finished { tid, of, answer });
        }
    }

    /// Sends a delivery acknowledgement only to the member at this site, because one site usually
    /// leads all groups.
    fn acknowledge_delivery_here(&self, step: &mut Step<'_, W>, tid: TransactionId, to: GroupId) {
        let (of, me) = (self.group, step.me());
        step.send_member(to, me, Body::Finished { tid, of, answer: false });
    }
}
