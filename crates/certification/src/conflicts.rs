//! The vote: whether a snapshot holds every conflicting transaction before it (UniStore §6.3).

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use solera_data::Key;
use solera_time::{Timestamp, Vector};

use crate::ids::TransactionId;
use crate::share::{Access, Kind, Obstacle, Share};

/// The keys of a group's transactions that others may conflict with.
#[derive(Debug)]
pub(crate) struct Conflicts {
    /// Of transactions that may commit.
    prepared: HashMap<Key, SmallVec<[Prepared; 1]>, FixedState>,
    /// Of transactions that did. All of one kind on a key are one: who has seen them has seen each.
    committed: HashMap<Key, SmallVec<[Committed; 1]>, FixedState>,
    /// Covers everything that another leader has delivered, of which it is not known which keys it
    /// had, and what was forgotten: a snapshot below it is of a transaction that was left long ago.
    fence: Vector,
}

#[derive(Debug)]
struct Prepared {
    tid: TransactionId,
    kind: Kind,
    /// Its commit vector, if it commits with the strong timestamp that this group proposes.
    commit_vec: Vector,
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

    /// What is in the way of a transaction, if something is: then it must abort.
    pub(crate) fn against<W>(&self, share: &Share<W>) -> Option<Obstacle> {
        if !share.accesses.is_empty() && !share.snap_vec.covers(&self.fence) {
            return Some(Obstacle { key: None, past: self.fence });
        }
        let mut obstacle: Option<Obstacle> = None;
        for access in &share.accesses {
            for commit_vec in self.in_the_way(access, &share.snap_vec) {
                match &mut obstacle {
                    Some(obstacle) => obstacle.past.join(commit_vec),
                    None => {
                        let key = Some(access.key.clone());
                        obstacle = Some(Obstacle { key, past: *commit_vec });
                    }
                }
            }
        }
        obstacle
    }

    /// The commit vectors of what conflicts with an access: all that may commit, and what has
    /// committed and is not in the snapshot.
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

    /// A transaction may commit from now on, at the earliest at `ts`.
    pub(crate) fn prepare<W>(&mut self, tid: TransactionId, share: &Share<W>, ts: Timestamp) {
        let commit_vec = share.commit_vec(ts);
        for access in &share.accesses {
            let prepared = Prepared { tid, kind: access.kind, commit_vec };
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
