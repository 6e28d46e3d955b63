//! The versions of one key (`opLog[k]`, §5.1): a folded base and the updates after it.

use std::sync::Arc;

use smallvec::SmallVec;
use solera_data::{Context, Dot, Effect, State, View};
use solera_time::{SiteId, Timestamp, Vector};

use crate::message::Update;

/// One key's versions. A version is the fold of all effects whose commit vector a snapshot covers
/// (Alg. 1 l. 22–24); effects below every live and future snapshot are folded into the base.
#[derive(Debug, Default)]
pub(crate) struct OpLog {
    base: State,
    /// The greatest local timestamp that the base depends on.
    base_local: Timestamp,
    /// Updates that some snapshot may not contain, ordered by dot, which extends causality. The
    /// number is the index of this key's write in the update.
    pending: Vec<(Arc<Update>, u32)>,
}

impl OpLog {
    /// Appends a write (Alg. 1 l. 47, Alg. 2 l. 13). Updates of different origins arrive in any
    /// order; they are kept in the order of their dots.
    pub(crate) fn append(&mut self, update: Arc<Update>, write: u32) {
        let dot = update.dot;
        let at = self.pending.iter().rposition(|(other, _)| other.dot <= dot).map_or(0, |i| i + 1);
        self.pending.insert(at, (update, write));
    }

    /// Whether an effect may go straight to the base: nothing waits before it.
    pub(crate) fn is_folded(&self) -> bool {
        self.pending.is_empty()
    }

    /// Applies an effect that every live and future snapshot contains.
    pub(crate) fn fold_now(&mut self, effect: &Effect, context: Context<'_>) {
        self.base.apply(effect, context);
        self.base_local = self.base_local.max(context.dot.ts);
    }

    /// Folds the updates within `floor` into the base. `floor` is causally closed, so folding its
    /// updates before the others keeps the order causal.
    pub(crate) fn fold(&mut self, floor: &Vector, local: SiteId) {
        let (base, base_local) = (&mut self.base, &mut self.base_local);
        self.pending.retain(|(update, write)| {
            if !update.within(floor) {
                return true;
            }
            base.apply(&update.writes[*write as usize].effect, update.context());
            *base_local = (*base_local).max(update.commit_vec()[local]);
            false
        });
    }

    /// Merges what a causally stable effect no longer needs apart.
    pub(crate) fn settle(&mut self, effect: &Effect, dot: Dot) {
        self.base.settle(effect, dot);
    }

    /// Whether nothing is left of the key.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.base.is_empty()
    }

    /// The log of a key that was absent.
    pub(crate) fn after(absent: &OpLog) -> Self {
        OpLog { base_local: absent.base_local, ..OpLog::default() }
    }

    /// A log of nothing takes over what a forgotten key depended on: who finds the key absent may
    /// have observed its removal.
    pub(crate) fn inherit(&mut self, forgotten: &OpLog) {
        self.base_local = self.base_local.max(forgotten.base_local);
    }

    /// Approximate heap bytes, and the number of versions held.
    pub(crate) fn size(&self) -> (usize, usize) {
        (
            self.base.size() + self.pending.len() * size_of::<(Arc<Update>, u32)>(),
            1 + self.pending.len(),
        )
    }

    /// Runs `read` on the version at a snapshot, with the transaction's own effect on top. Also returns the
    /// greatest local timestamp that the version depends on.
    pub(crate) fn read<R>(
        &self,
        snap_vec: &Vector,
        own: Option<&Effect>,
        local: SiteId,
        read: impl FnOnce(&View<'_>) -> R,
    ) -> (R, Timestamp) {
        if self.pending.is_empty() {
            return (read(&View::new(&self.base).own(own)), self.base_local);
        }
        let mut dependency = self.base_local;
        let mut pending: SmallVec<[(&Effect, Context<'_>); 8]> = SmallVec::new();
        let mut unseen: SmallVec<[Dot; 4]> = SmallVec::new();
        for (update, write) in &self.pending {
            let dot = update.dot;
            if update.within(snap_vec) {
                dependency = dependency.max(update.commit_vec()[local]);
                pending.push((&update.writes[*write as usize].effect, update.context()));
            } else if dot.ts <= snap_vec[dot.site] {
                unseen.push(dot);
            }
        }
        (read(&View::with_pending(&self.base, &pending, &unseen).own(own)), dependency)
    }
}
