//! The vote: whether a snapshot contains every conflicting transaction before it (UniStore §6.3).

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use solera_data::Key;
use solera_time::{Timestamp, Vector};

use crate::ids::TransactionId;
use crate::payload::{AbortCause, Access, GroupPayload, Kind};

/// The keys of a group's transactions on which later ones may conflict.
#[derive(Debug)]
pub(crate) struct Conflicts {
    /// Transactions that may commit.
    prepared: HashMap<Key, SmallVec<[Prepared; 1]>, FixedState>,
    /// Transactions that committed. Those of one kind on a key are merged: a snapshot that covers
    /// the merged vector contains each of them.
    committed: HashMap<Key, SmallVec<[Committed; 1]>, FixedState>,
    /// Covers the transactions that another leader has delivered, whose keys are not known here,
    /// and the conflicts that were pruned. A transaction whose snapshot does not cover the fence
    /// aborts.
    fence: Vector,
}

#[derive(Debug)]
struct Prepared {
    tid: TransactionId,
    kind: Kind,
    /// The transaction's commit vector if it commits with the strong timestamp that this group
    /// proposes.
    commit_vec: Vector,
}

#[derive(Debug)]
struct Committed {
    kind: Kind,
    /// Covers the commit vectors of all merged transactions.
    commit_vec: Vector,
}

impl Conflicts {
    pub(crate) fn new(sites: usize) -> Self {
        Conflicts {
            prepared: HashMap::with_hasher(FixedState::with_seed(0)),
            committed: HashMap::with_hasher(FixedState::with_seed(0)),
            fence: Vector::zero(sites),
        }
    }

    /// Returns the reason for which a transaction must abort, or `None` if nothing conflicts.
    pub(crate) fn against<W>(&self, payload: &GroupPayload<W>) -> Option<AbortCause> {
        if !payload.accesses.is_empty() && !payload.snap_vec.covers(&self.fence) {
            return Some(AbortCause { key: None, past: self.fence });
        }
        let mut cause: Option<AbortCause> = None;
        for access in &payload.accesses {
            for commit_vec in self.in_the_way(access, &payload.snap_vec) {
                match &mut cause {
                    Some(cause) => cause.past.join(commit_vec),
                    None => {
                        let key = Some(access.key.clone());
                        cause = Some(AbortCause { key, past: *commit_vec });
                    }
                }
            }
        }
        cause
    }

    /// Returns the commit vectors of the transactions that conflict with an access: all that may
    /// commit, and those that committed and are not in the snapshot.
    fn in_the_way<'a>(
        &'a self,
        access: &'a Access,
        snap_vec: &'a Vector,
    ) -> impl Iterator<Item = &'a Vector> {
        let kind = access.kind;
        let prepared = self.prepared.get(&access.key).into_iter().flatten();
        let committed = self.committed.get(&access.key).into_iter().flatten();
        let prepared = prepared
            .filter(move |other| kind.conflicts_with(other.kind))
            .map(|other| &other.commit_vec);
        let committed = committed
            .filter(move |other| kind.conflicts_with(other.kind))
            .map(|other| &other.commit_vec)
            .filter(|commit_vec| !snap_vec.covers(commit_vec));
        prepared.chain(committed)
    }

    /// Records that a transaction may commit, at the earliest at `ts`.
    pub(crate) fn prepare<W>(
        &mut self,
        tid: TransactionId,
        payload: &GroupPayload<W>,
        ts: Timestamp,
    ) {
        let commit_vec = payload.commit_vec(ts);
        for access in &payload.accesses {
            let prepared = Prepared { tid, kind: access.kind, commit_vec };
            self.prepared.entry_ref(&access.key).or_default().push(prepared);
        }
    }

    /// Removes a prepared transaction that was decided.
    pub(crate) fn release<W>(&mut self, tid: TransactionId, payload: &GroupPayload<W>) {
        for access in &payload.accesses {
            if let Some(prepared) = self.prepared.get_mut(&access.key) {
                prepared.retain(|prepared| prepared.tid != tid);
                if prepared.is_empty() {
                    self.prepared.remove(&access.key);
                }
            }
        }
    }

    /// Records that a transaction committed.
    pub(crate) fn commit<W>(&mut self, payload: &GroupPayload<W>, ts: Timestamp) {
        let commit_vec = payload.commit_vec(ts);
        for access in payload.accesses.iter().filter(|access| access.update) {
            let committed = self.committed.entry_ref(&access.key).or_default();
            let kind = access.kind;
            match committed.iter_mut().find(|other| other.kind == kind) {
                Some(other) => other.commit_vec.join(&commit_vec),
                None => committed.push(Committed { kind, commit_vec }),
            }
        }
    }

    /// Raises the fence for a transaction that another leader has delivered.
    pub(crate) fn raise_fence(&mut self, commit_vec: &Vector) {
        self.fence.join(commit_vec);
    }

    /// Forgets prepared transactions, because another leader votes.
    pub(crate) fn forget_prepared(&mut self) {
        self.prepared.clear();
    }

    /// Forgets conflicts that every later snapshot contains.
    pub(crate) fn prune(&mut self, floor: &Vector) {
        self.fence.join(floor);
        self.committed.retain(|_, committed| {
            committed.retain(|committed| !floor.covers(&committed.commit_vec));
            !committed.is_empty()
        });
    }

    /// Returns the number of keys held.
    pub(crate) fn keys(&self) -> usize {
        self.prepared.len() + self.committed.len()
    }
}
