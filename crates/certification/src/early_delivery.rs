//! Delivers transactions at a follower before its leader does: transactions of the follower's own
//! site that are known to be committed and that no other transaction can precede.
//!
//! If no other transaction is undecided or waits for delivery when a leader proposes a time, the
//! leader's ACCEPT contains the time of the last transaction. If the proposal becomes the strong
//! timestamp, no transaction ever comes in between. Later proposals of this leader are greater.
//! Proposals of a successor are greater, too, because a quorum stores the proposal until the group
//! has delivered it. This holds for every later leader, so ballots do not matter here. No ceiling
//! is needed: a ceiling shows that *nothing* happened up to some time, while a proposal has an
//! entry. A leader finishes an entry only up to the time that it has reported as complete, so that
//! its successors stay above the entry afterwards, too.

use std::collections::BTreeMap;

use solera_time::Timestamp;

use crate::ids::TransactionId;

/// Undelivered proposals that nothing can precede, by time. Only latency depends on them; they do
/// not survive a restart.
#[derive(Debug, Default)]
pub(crate) struct EarlyDelivery {
    proposals: BTreeMap<Timestamp, Proposal>,
}

#[derive(Debug)]
struct Proposal {
    tid: TransactionId,
    /// Time of the last transaction before it.
    after: Timestamp,
    /// Whether it is known to have committed at the proposed time.
    committed: bool,
}

impl EarlyDelivery {
    /// Records that a leader has proposed `ts`, and that nothing can come between `after` and `ts`.
    pub(crate) fn propose(&mut self, ts: Timestamp, tid: TransactionId, after: Timestamp) {
        self.proposals.entry(ts).or_insert(Proposal { tid, after, committed: false });
    }

    /// Records that a transaction committed with this strong timestamp. If this group proposed an
    /// earlier time, other transactions may precede it, and the follower waits for its leader.
    pub(crate) fn commit(&mut self, tid: TransactionId, ts: Timestamp) {
        if let Some(proposal) = self.proposals.get_mut(&ts).filter(|proposal| proposal.tid == tid) {
            proposal.committed = true;
        }
    }

    /// Returns the next transaction to deliver when everything up to `delivered` has been
    /// delivered.
    pub(crate) fn next(&mut self, delivered: Timestamp) -> Option<(Timestamp, TransactionId)> {
        while self.proposals.first_key_value().is_some_and(|(ts, _)| *ts <= delivered) {
            self.proposals.pop_first();
        }
        let mut proposals = self.proposals.iter();
        let next = proposals.find(|(_, next)| next.committed && next.after <= delivered);
        next.map(|(ts, next)| (*ts, next.tid))
    }
}
