//! Status of a transaction's commits and of its recovery lease.

/// Status of a transaction's commits. Each state implies what other sites may know of the
/// transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitStatus {
    /// Nothing has committed.
    Uncommitted,
    /// A commit of the first group that writes may have taken effect, requested here or by the
    /// previous holder of the lease.
    InDoubt,
    /// Something has committed, and the coordinator must acquire the lease before it continues.
    AwaitingLease {
        /// Time since which this coordinator has to complete the transaction.
        since_ms: u64,
    },
    /// Something has committed, and the coordinator holds the lease.
    HoldingLease {
        /// Time of the acquisition.
        since_ms: u64,
        /// Whether a commit of a later group may have taken effect.
        doubtful: bool,
    },
    /// Another coordinator has completed the transaction and also removes its garbage.
    CompletedElsewhere,
}

impl CommitStatus {
    /// Returns the status of a transaction that was taken over from a record.
    pub(super) fn taken_over(committed: bool, now_ms: u64) -> CommitStatus {
        match committed {
            true => CommitStatus::AwaitingLease { since_ms: now_ms },
            false => CommitStatus::InDoubt,
        }
    }

    /// Returns the time since which this coordinator has to complete the transaction; `None` before
    /// the first commit.
    pub(super) fn since_ms(self) -> Option<u64> {
        match self {
            CommitStatus::AwaitingLease { since_ms }
            | CommitStatus::HoldingLease { since_ms, .. } => Some(since_ms),
            CommitStatus::Uncommitted
            | CommitStatus::InDoubt
            | CommitStatus::CompletedElsewhere => None,
        }
    }

    /// Returns whether something has committed.
    pub(super) fn has_committed(self) -> bool {
        self.since_ms().is_some()
    }

    /// Returns whether a commit whose answer was lost may have taken effect.
    pub(super) fn is_in_doubt(self) -> bool {
        matches!(self, CommitStatus::InDoubt | CommitStatus::HoldingLease { doubtful: true, .. })
    }

    /// Returns whether the coordinator must acquire the lease before it continues.
    pub(super) fn awaits_lease(self) -> bool {
        matches!(self, CommitStatus::AwaitingLease { .. })
    }

    /// Records that the answer to a commit was lost.
    pub(super) fn lose_answer(&mut self) {
        match self {
            CommitStatus::Uncommitted => *self = CommitStatus::InDoubt,
            CommitStatus::HoldingLease { doubtful, .. } => *doubtful = true,
            CommitStatus::InDoubt
            | CommitStatus::AwaitingLease { .. }
            | CommitStatus::CompletedElsewhere => {}
        }
    }

    /// Records that the outcome of a commit in doubt is known. If that commit was the first one, it
    /// did not take effect.
    pub(super) fn settle(&mut self) {
        match self {
            CommitStatus::InDoubt => *self = CommitStatus::Uncommitted,
            CommitStatus::HoldingLease { doubtful, .. } => *doubtful = false,
            CommitStatus::Uncommitted
            | CommitStatus::AwaitingLease { .. }
            | CommitStatus::CompletedElsewhere => {}
        }
    }

    /// Records that a group that writes has committed; `asked_ms` is the time of the request.
    pub(super) fn commit(&mut self, asked_ms: u64) {
        self.settle();
        if !self.has_committed() {
            self.hold_lease(asked_ms);
        }
    }

    /// Records that the coordinator holds the lease.
    pub(super) fn hold_lease(&mut self, since_ms: u64) {
        *self = CommitStatus::HoldingLease { since_ms, doubtful: false };
    }

    /// Records that something has committed, perhaps by another coordinator, so that the lease is
    /// needed.
    pub(super) fn await_lease(&mut self, now_ms: u64) {
        *self = CommitStatus::AwaitingLease { since_ms: now_ms };
    }

    /// Continues without a lease, where no other coordinator can hold one.
    pub(super) fn skip_lease(&mut self) {
        if let CommitStatus::AwaitingLease { since_ms } = *self {
            self.hold_lease(since_ms);
        }
    }
}
