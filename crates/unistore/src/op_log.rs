//! Versions of one key (`opLog[k]`, §5.1): a folded base and the updates after it.

use std::sync::Arc;

use smallvec::SmallVec;
use solera_data::{Context, Dot, Effect, Key, State, View};
use solera_time::{SiteId, Timestamp, Vector};

use crate::message::Update;
use crate::pending::{Pending, Waiting};
use crate::record::SavedKey;

/// Least number of pending updates with which a key keeps a second state; see [`Shown`].
const SHOWN_FROM: usize = 4;

/// Versions of one key. A version is the fold of all effects whose commit vector a snapshot covers
/// (Alg. 1 l. 22–24); effects below every live and future snapshot are folded into the base.
#[derive(Debug, Default)]
pub(crate) struct OpLog {
    base: State,
    /// Greatest local timestamp that the base depends on.
    base_local: Timestamp,
    /// Updates that some snapshot may not contain.
    pending: Pending,
    shown: Option<Box<Shown>>,
}

/// The version in the last snapshot that was read, from which later versions are computed. An open
/// transaction may hold back the base for long, and the cost of a version must not grow with the
/// number of updates since then.
#[derive(Debug)]
struct Shown {
    state: State,
    /// Snapshots must cover this vector to be read from this state.
    upto: Vector,
    /// Greatest local timestamp that the state depends on.
    local: Timestamp,
    /// Pending updates that are not in the state.
    waiting: Pending,
}

impl Shown {
    /// Applies the updates within `vec`. All updates on which they depend are within `vec`, too:
    /// these were applied before, or precede them here.
    fn advance(&mut self, vec: &Vector, local: SiteId) {
        for waiting in self.waiting.take_within(vec) {
            let (effect, context) = waiting.effect();
            self.state.apply(effect, context);
            self.local = self.local.max(waiting.update().commit_vec()[local]);
        }
        self.upto.join(vec);
    }
}

impl OpLog {
    /// Appends a write (Alg. 1 l. 47, Alg. 2 l. 13). Updates of different origins arrive in any
    /// order.
    pub(crate) fn append(&mut self, update: Arc<Update>, write: u32) {
        let new = Waiting::new(update, write);
        if let Some(shown) = &mut self.shown {
            shown.waiting.push(new.clone());
        }
        self.pending.push(new);
    }

    /// Returns whether an effect can be applied to the base at once, because no update is pending.
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
        if self.pending.is_empty() {
            return;
        }
        if let Some(shown) = &mut self.shown {
            shown.advance(floor, local);
        }
        for waiting in self.pending.take_within(floor) {
            let (effect, context) = waiting.effect();
            self.base.apply(effect, context);
            self.base_local = self.base_local.max(waiting.update().commit_vec()[local]);
        }
        if self.pending.is_empty() {
            self.shown = None;
        }
    }

    /// Merges state that was kept apart only until the effect became causally stable.
    pub(crate) fn settle(&mut self, effect: &Effect, dot: Dot) {
        self.base.settle(effect, dot);
        if let Some(shown) = &mut self.shown {
            shown.state.settle(effect, dot);
        }
    }

    /// Returns the updates that are not in the base.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Update> {
        self.pending.updates()
    }

    /// Returns whether the log holds no state of the key.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.base.is_empty()
    }

    /// Creates the log of a key that was absent.
    pub(crate) fn after(absent: &OpLog) -> Self {
        OpLog { base_local: absent.base_local, ..OpLog::default() }
    }

    /// Makes this log of absent keys depend on everything on which a forgotten key depended: a
    /// client that finds the key absent may have observed its removal.
    pub(crate) fn inherit(&mut self, forgotten: &OpLog) {
        self.base_local = self.base_local.max(forgotten.base_local);
    }

    /// Drops an update that no snapshot of a causal read has shown.
    pub(crate) fn discard(&mut self, dot: Dot) {
        self.pending.remove(dot);
        if let Some(shown) = &mut self.shown {
            shown.waiting.remove(dot);
        }
        if self.pending.is_empty() {
            self.shown = None;
        }
    }

    /// Returns the version in a snapshot. Nothing beyond the snapshot may be folded.
    pub(crate) fn state_within(&self, snapshot: &Vector) -> State {
        let mut state = self.base.clone();
        let (within, _) = self.pending.look(snapshot);
        for waiting in within {
            let (effect, context) = waiting.effect();
            state.apply(effect, context);
        }
        state
    }

    /// Adds a part of the base that a donor has sent. Everything that it depends on is uniform, and
    /// older than this site's generation, so no client waits for it.
    pub(crate) fn begin_with(&mut self, part: State) {
        self.base.absorb(part);
    }

    /// Returns the versions as a checkpoint stores them.
    pub(crate) fn save(&self, key: Key) -> SavedKey {
        let pending = self.pending.dots().collect();
        SavedKey { key, base: self.base.clone(), base_local: self.base_local, pending }
    }

    /// Returns a log with a saved base, without pending updates.
    pub(crate) fn restore(base: State, base_local: Timestamp) -> Self {
        OpLog { base, base_local, ..OpLog::default() }
    }

    /// Returns the greatest local timestamp that the base depends on.
    pub(crate) fn base_local(&self) -> Timestamp {
        self.base_local
    }

    /// Returns the approximate size on the heap in bytes, in constant time.
    pub(crate) fn bytes(&self) -> usize {
        let shown = self.shown.as_ref().map_or(0, |shown| size_of::<Shown>() + shown.state.size());
        self.base.size() + shown + self.pending.len() * size_of::<Waiting>()
    }

    /// Returns the number of versions.
    pub(crate) fn versions(&self) -> usize {
        1 + self.pending.len()
    }

    /// Prepares for a read at `snap_vec`. Advances the shown version to it, or creates one if the
    /// number of pending updates is large compared to the cost of a copy of the base.
    ///
    /// A read at level eventual of a key of another space prepares nothing: its snapshot contains
    /// updates that may still be [discarded](Self::discard), and not all on which they depend.
    pub(crate) fn show(&mut self, snap_vec: &Vector, eventual: bool, local: SiteId) {
        if self.pending.len() < SHOWN_FROM || eventual && !self.pending.is_eventual() {
            return;
        }
        match &mut self.shown {
            Some(shown) if snap_vec.covers(&shown.upto) => shown.advance(snap_vec, local),
            Some(_) => {}
            None if self.pending.len() * 4 < self.base.weight() => {}
            None => {
                let mut shown = Shown {
                    state: self.base.clone(),
                    upto: Vector::zero(snap_vec.entries().len()),
                    local: self.base_local,
                    waiting: self.pending.clone(),
                };
                shown.advance(snap_vec, local);
                self.shown = Some(Box::new(shown));
            }
        }
    }

    /// Runs `read` on the version in a snapshot, with the transaction's own effect on top. Also
    /// returns the greatest local timestamp that the version depends on.
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
        let (base, mut dependency, updates) = match &self.shown {
            Some(shown) if snap_vec.covers(&shown.upto) => {
                (&shown.state, shown.local, &shown.waiting)
            }
            _ => (&self.base, self.base_local, &self.pending),
        };
        let (within, unseen) = updates.look(snap_vec);
        for waiting in &within {
            dependency = dependency.max(waiting.update().commit_vec()[local]);
        }
        let pending: SmallVec<[(&Effect, Context<'_>); 8]> =
            within.iter().map(|waiting| waiting.effect()).collect();
        (read(&View::with_pending(base, &pending, &unseen).own(own)), dependency)
    }
}

#[cfg(test)]
mod tests {
    use solera_data::{Op, Outcome, execute};
    use solera_time::Timestamp;

    use super::*;
    use crate::message::Write;

    const HERE: SiteId = SiteId(0);
    const OTHER: SiteId = SiteId(1);

    /// Returns increments of the other site, at the times 1 to 8.
    fn increments(eventual: bool) -> Vec<Arc<Update>> {
        let of = |ts: u64| {
            let (_, effect) = execute(&Op::IncrBy(1), &View::new(&State::default())).unwrap();
            let writes = vec![Write { key: Key::from("k"), effect: effect.unwrap() }];
            let snap_vec = Vector::zero(2).with(OTHER, Timestamp(ts - 1));
            Arc::new(Update { dot: Dot::of(OTHER, Timestamp(ts)), snap_vec, writes, eventual })
        };
        (1..=8).map(of).collect()
    }

    fn count(log: &OpLog, snap_vec: &Vector) -> Outcome {
        log.read(snap_vec, None, HERE, |view| execute(&Op::IncrBy(0), view).unwrap().0).0
    }

    /// An eventual read may show updates that are later discarded because they are lost with their
    /// site. Causal reads after it must not show them.
    #[test]
    fn an_eventual_read_leaves_nothing_for_causal_ones() {
        let updates = increments(false);
        let arrived = Vector::zero(2).with(OTHER, Timestamp(8));
        let mut log = OpLog::default();
        for update in &updates {
            log.append(update.clone(), 0);
        }
        log.show(&arrived, true, HERE);
        assert_eq!(count(&log, &arrived), Outcome::Int(8));
        for lost in &updates[5..] {
            log.discard(lost.dot);
        }
        log.show(&arrived, false, HERE);
        assert_eq!(count(&log, &arrived), Outcome::Int(5));
    }

    /// In an eventual space, too, the cost of reads does not grow with the number of pending
    /// updates.
    #[test]
    fn reads_of_eventual_spaces_are_prepared() {
        let mut log = OpLog::default();
        for update in increments(true) {
            log.append(update, 0);
        }
        log.show(&Vector::zero(2).with(OTHER, Timestamp(8)), true, HERE);
        assert!(log.shown.is_some());
    }
}
