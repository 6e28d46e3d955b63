//! A follower's part: stores the votes of the leader, and delivers transactions that nothing can
//! precede.

use std::collections::BTreeMap;

use solera_machine::Address;
use solera_time::Timestamp;

use crate::early_delivery::EarlyDelivery;
use crate::entry::{Entry, Phase};
use crate::ids::TransactionId;
use crate::kept::Kept;
use crate::message::Output;
use crate::payload::Vote;
use crate::rare;
use crate::step::Step;

/// State of a follower, or of a member that stands for election.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// Transactions that the follower may deliver before its leader does.
    early: EarlyDelivery,
}

impl Follower {
    /// Stores a leader's vote and acknowledges it to the coordinator.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    pub(crate) fn on_accept<W: Clone>(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        entry: Entry<W>,
        coordinator: Address,
        after: Option<Timestamp>,
    ) {
        step.clock.observe(entry.ts);
        // Only the coordinator's site learns at once that the transaction has committed.
        if let Some(after) = after.filter(|_| coordinator.site == step.me()) {
            self.early.propose(entry.ts, tid, after);
        }
        let former = kept.state.entries.get(&tid);
        if former.is_some_and(|former| (&former.vote, former.ts) != (&entry.vote, entry.ts)) {
            if entry.vote == Vote::Forgotten {
                // The leader had finished with the transaction, and received another request before
                // this member learned that it is over. As long as the two have different votes, no
                // process learns that the transaction is over.
                step.reach(rare::GIVES_UP_FORMER_VOTE);
                kept.forget(step, &[tid]);
            } else {
                step.reach(rare::KEEPS_FORMER_VOTE);
            }
        }
        kept.state.entries.entry(tid).or_insert(Entry { acknowledged: false, ..entry });
        kept.acknowledge_when_stored(step, coordinator, tid);
    }

    /// Handles the decision of a coordinator at this site to commit.
    pub(crate) fn on_commit<W: Clone>(
        &mut self,
        kept: &mut Kept<W>,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        ts: Timestamp,
    ) {
        self.early.commit(tid, ts);
        self.deliver_ahead(kept, step);
    }

    /// Delivers transactions that nothing can precede, without waiting for the leader.
    pub(crate) fn deliver_ahead<W: Clone>(&mut self, kept: &mut Kept<W>, step: &mut Step<'_, W>) {
        while let Some((ts, tid)) = self.early.next(kept.state.delivered) {
            // Without the entry, the transaction is delivered only by the leader.
            let entry = kept.state.entries.get(&tid).filter(|entry| entry.ts == ts);
            let Some(payload) = entry.and_then(|entry| entry.payload.clone()) else { return };
            assert!(ts > kept.state.delivered, "a follower delivers in the order of timestamps");
            kept.stored(&payload.commit_vec(ts));
            step.outputs.push_back(Output::Deliver { group: kept.group, tid, ts, payload });
        }
    }
}

impl<W: Clone> Kept<W> {
    /// Forgets the transactions of a range that the leader has forgotten, and updates the phases of
    /// the others.
    pub(crate) fn take_phases(
        &mut self,
        step: &mut Step<'_, W>,
        upto: Timestamp,
        (after, last): (Option<TransactionId>, Option<TransactionId>),
        phases: Vec<(TransactionId, Phase)>,
    ) {
        let phases: BTreeMap<_, _> = phases.into_iter().collect();
        let is_reported =
            |tid| after.is_none_or(|after| tid > after) && last.is_none_or(|last| tid <= last);
        let entries = self.state.entries.iter();
        let forgotten = entries.filter(|(tid, entry)| {
            is_reported(**tid) && !phases.contains_key(tid) && entry.ts <= upto
        });
        let forgotten: Vec<TransactionId> = forgotten.map(|(tid, _)| *tid).collect();
        self.forget(step, &forgotten);
        for (tid, phase) in phases {
            if let Some(entry) = self.state.entries.get_mut(&tid) {
                entry.phase = entry.phase.max(phase);
                if matches!(phase, Phase::Finished(_)) {
                    entry.payload = None;
                }
            }
        }
    }
}
