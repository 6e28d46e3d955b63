//! The vote: whether a snapshot holds every conflicting transaction before it (UniStore §6.3).

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use solera_data::Key;
use solera_time::{Timestamp, Vector};

use crate::ids::TransactionId;
use crate::share::{Access, Kind, Share};

/// The keys of a group's transactions that others may conflict with.
#[derive(Debug)]
pub(crate) struct Conflicts {
    /// Of transactions that may commit.
    prepared: HashMap<Key, SmallVec<[Prepared; 1]>, FixedState>,
    /// Of transactions that did. All of one kind on a key are one: who has seen them has seen each.
    committed: HashMap<Key, SmallVec<[Committed; 1]>, FixedState>,
    /// Covers everything that another leader has delivered, of which it is not known which keys it had,
    /// and what was forgotten: a snapshot below it is of a transaction that was left long ago.
    fence: Vector,
}

#[derive(Debug)]
struct Prepared {
    tid: TransactionId,
    kind: Kind,
}

#[derive(Debug)]
struct Committed {
    kind: Kind,
    /// Covers their commit vectors.
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

    /// Whether a transaction must abort, and the key that tells so; `None` for no key in particular.
    pub(crate) fn against<W>(&self, share: &Share<W>) -> Option<Option<Key>> {
        if !share.accesses.is_empty() && !share.snap_vec.covers(&self.fence) {
            return Some(None);
        }
        let conflicts = |access: &&Access| {
            let kind = access.kind;
            let prepared = self.prepared.get(&access.key).into_iter().flatten();
            let committed = self.committed.get(&access.key).into_iter().flatten();
            prepared.into_iter().any(|other| kind.conflicts_with(other.kind))
                || committed.into_iter().any(|other| {
                    kind.conflicts_with(other.kind) && !share.snap_vec.covers(&other.commit_vec)
                })
        };
        share.accesses.iter().find(conflicts).map(|access| Some(access.key.clone()))
    }

    /// A transaction may commit from now on.
    pub(crate) fn prepare<W>(&mut self, tid: TransactionId, share: &Share<W>) {
        for access in &share.accesses {
            let prepared = Prepared { tid, kind: access.kind };
            self.prepared.entry_ref(&access.key).or_default().push(prepared);
        }
    }

    /// A prepared transaction is decided.
    pub(crate) fn release<W>(&mut self, tid: TransactionId, share: &Share<W>) {
        for access in &share.accesses {
            if let Some(prepared) = self.prepared.get_mut(&access.key) {
                prepared.retain(|prepared| prepared.tid != tid);
                if prepared.is_empty() {
                    self.prepared.remove(&access.key);
                }
            }
        }
    }

    /// A transaction has committed.
    pub(crate) fn commit<W>(&mut self, share: &Share<W>, ts: Timestamp) {
        let commit_vec = share.commit_vec(ts);
        for access in share.accesses.iter().filter(|access| access.update) {
            let committed = self.committed.entry_ref(&access.key).or_default();
            let kind = access.kind;
            match committed.iter_mut().find(|other| other.kind == kind) {
                Some(other) => other.commit_vec.join(&commit_vec),
                None => committed.push(Committed { kind, commit_vec }),
            }
        }
    }

    /// Another leader has delivered a transaction.
    pub(crate) fn raise_fence(&mut self, commit_vec: &Vector) {
        self.fence.join(commit_vec);
    }

    /// Forgets the prepared: another leader votes.
    pub(crate) fn forget_prepared(&mut self) {
        self.prepared.clear();
    }

    /// Forgets what every later snapshot holds.
    pub(crate) fn prune(&mut self, floor: &Vector) {
        self.fence.join(floor);
        self.committed.retain(|_, committed| {
            committed.retain(|committed| !floor.covers(&committed.commit_vec));
            !committed.is_empty()
        });
    }

    /// How many keys are held.
    pub(crate) fn keys(&self) -> usize {
        self.prepared.len() + self.committed.len()
    }
}
