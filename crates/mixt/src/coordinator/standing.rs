//! How far a transaction has come in taking effect, and whose turn it is to complete it.

/// The life of a transaction, from its first commit on. Each state says what may be known elsewhere
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing has committed.
    Untouched,
    /// A commit of the first group that writes may have taken effect, here or by who had the turn
    /// before.
    Doubtful,
    /// Something has committed, and its turn is to be taken before it goes on.
    Waiting {
        /// Since when it is this one's to complete.
        since_ms: u64,
    },
    /// Something has committed, and it has its turn.
    Holding {
        /// Since when.
        since_ms: u64,
        /// Whether a commit of a later group may have taken effect.
        doubtful: bool,
    },
    /// Others have completed it, who also remove what it leaves.
    Elsewhere,
}

impl Standing {
    /// Of one that is gone on with from a record.
    pub(super) fn taken_over(committed: bool, now_ms: u64) -> Standing {
        match committed {
            true => Standing::Waiting { since_ms: now_ms },
            false => Standing::Doubtful,
        }
    }

    /// Once something has committed: since when it is this one's to complete.
    pub(super) fn since_ms(self) -> Option<u64> {
        match self {
            Standing::Waiting { since_ms } | Standing::Holding { since_ms, .. } => Some(since_ms),
            Standing::Untouched | Standing::Doubtful | Standing::Elsewhere => None,
        }
    }

    /// Whether something has committed.
    pub(super) fn has_committed(self) -> bool {
        self.since_ms().is_some()
    }

    /// Whether a commit may have taken effect of which no answer came.
    pub(super) fn is_in_doubt(self) -> bool {
        matches!(self, Standing::Doubtful | Standing::Holding { doubtful: true, .. })
    }

    /// Whether its turn is to be taken before it goes on.
    pub(super) fn wants_turn(self) -> bool {
        matches!(self, Standing::Waiting { .. })
    }

    /// No answer came to a commit.
    pub(super) fn lose_answer(&mut self) {
        match self {
            Standing::Untouched => *self = Standing::Doubtful,
            Standing::Holding { doubtful, .. } => *doubtful = true,
            Standing::Doubtful | Standing::Waiting { .. } | Standing::Elsewhere => {}
        }
    }

    /// What became of the commit that was in doubt is known, and it was no first one.
    pub(super) fn settle(&mut self) {
        match self {
            Standing::Doubtful => *self = Standing::Untouched,
            Standing::Holding { doubtful, .. } => *doubtful = false,
            Standing::Untouched | Standing::Waiting { .. } | Standing::Elsewhere => {}
        }
    }

    /// A group that writes has committed, for which it asked then.
    pub(super) fn commit(&mut self, asked_ms: u64) {
        self.settle();
        if !self.has_committed() {
            self.hold(asked_ms);
        }
    }

    /// It has its turn.
    pub(super) fn hold(&mut self, since_ms: u64) {
        *self = Standing::Holding { since_ms, doubtful: false };
    }

    /// Something has committed, perhaps by others, and its turn is to be taken.
    pub(super) fn wait(&mut self, now_ms: u64) {
        *self = Standing::Waiting { since_ms: now_ms };
    }

    /// It waits for its turn no more, which nobody else can have.
    pub(super) fn need_no_turn(&mut self) {
        if let Standing::Waiting { since_ms } = *self {
            self.hold(since_ms);
        }
    }
}
