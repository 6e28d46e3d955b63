//! What a follower delivers before its leader does: transactions of its own site of which it knows
//! that they committed, and that nothing can come before.
//!
//! A leader that proposes a time while nothing else is undecided or left to deliver says so, and
//! which transaction was the last. If the proposal becomes the strong timestamp, nothing is ever in
//! between: what this leader proposes later is above it, and so is what a successor proposes,
//! because a quorum keeps the proposal until the group has delivered it. That holds whoever leads
//! by then, so that ballots do not matter here. No ceiling is needed for it: that is for saying
//! that *nothing* happened up to some time, of which no entry is kept. And a leader finishes an
//! entry only within what it has shown as complete, so that its successors stay above it
//! afterwards, too.

use std::collections::BTreeMap;

use solera_time::Timestamp;

use crate::ids::TransactionId;

/// Proposals with nothing before them, by their times, that are not delivered here. Nothing but
/// speed depends on it; it is not kept through restarts.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    proposals: BTreeMap<Timestamp, Proposal>,
}

#[derive(Debug)]
struct Proposal {
    tid: TransactionId,
    /// The last transaction before it.
    after: Timestamp,
    /// Whether it is known to have committed at this very time.
    committed: bool,
}

impl Ahead {
    /// A leader has proposed `ts`, and nothing can come between `after` and that.
    pub(crate) fn propose(&mut self, ts: Timestamp, tid: TransactionId, after: Timestamp) {
        self.proposals.entry(ts).or_insert(Proposal { tid, after, committed: false });
    }

    /// A transaction committed with this strong timestamp. A group that had proposed an earlier
    /// time may have others before it, and still waits for its leader.
    pub(crate) fn commit(&mut self, tid: TransactionId, ts: Timestamp) {
        if let Some(proposal) = self.proposals.get_mut(&ts).filter(|proposal| proposal.tid == tid) {
            proposal.committed = true;
        }
    }

    /// The next to deliver where everything up to `delivered` is.
    pub(crate) fn next(&mut self, delivered: Timestamp) -> Option<(Timestamp, TransactionId)> {
        while self.proposals.first_key_value().is_some_and(|(ts, _)| *ts <= delivered) {
            self.proposals.pop_first();
        }
        let mut proposals = self.proposals.iter();
        let next = proposals.find(|(_, next)| next.committed && next.after <= delivered);
        next.map(|(ts, next)| (*ts, next.tid))
    }
}
