//! `committedCausal`: the transactions of one origin that some site may still need (§5.3, §5.5).

use std::collections::VecDeque;
use std::sync::Arc;

use solera_time::{Timestamp, Vector};

use crate::message::Update;

/// Largest number of updates in one range; more follow with the next tick.
pub(crate) const RANGE_LIMIT: usize = 8192;
/// Approximate number of bytes of updates that one tick sends to one worker. It bounds the time for
/// which a backlog delays local clients, who wait while it is encoded.
pub(crate) const TICK_BYTES: usize = 1 << 20;

/// Committed updates of one origin to one partition, by local timestamp, from the first that is not
/// causally stable. Unlike the paper, updates stay after they were sent: a site that has missed
/// some can get them again, and forwarding needs no second copy.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    updates: VecDeque<Arc<Update>>,
    /// Number of `updates`, from the front, that are folded into their keys' bases.
    folded: usize,
    /// Greatest timestamp among the updates that were settled and forgotten.
    forgotten: Timestamp,
}

impl Committed {
    /// Adds an update. Local timestamps of concurrent local transactions may arrive out of order.
    ///
    /// # Panics
    /// If there already is an update with this timestamp.
    pub(crate) fn insert(&mut self, update: Arc<Update>) {
        let ts = update.dot.ts;
        let at = if self.updates.back().is_none_or(|last| last.dot.ts < ts) {
            self.updates.len()
        } else {
            let at = self.updates.partition_point(|other| other.dot.ts < ts);
            let next = self.updates.get(at);
            assert!(next.is_none_or(|next| next.dot.ts != ts), "{:?} is stored twice", update.dot);
            at
        };
        self.updates.insert(at, update);
        self.folded = self.folded.min(at);
    }

    /// Returns the first updates in `(after, upto]`, and whether these are all of them. Stops when
    /// `budget`, in bytes, is used up, and reduces the budget by the size of the updates.
    pub(crate) fn range(
        &self,
        after: Timestamp,
        upto: Timestamp,
        limit: usize,
        budget: &mut usize,
    ) -> (Vec<Arc<Update>>, bool) {
        let start = self.updates.partition_point(|update| update.dot.ts <= after);
        let mut taken = Vec::new();
        for update in self.updates.range(start..).take_while(|update| update.dot.ts <= upto) {
            if taken.len() >= limit || *budget == 0 {
                return (taken, false);
            }
            *budget = budget.saturating_sub(update.size());
            taken.push(update.clone());
        }
        (taken, true)
    }

    /// Removes and returns the causal updates after a time; none of them is folded.
    pub(crate) fn drop_causal_after(&mut self, cut: Timestamp) -> Vec<Arc<Update>> {
        let start = self.updates.partition_point(|update| update.dot.ts <= cut);
        let after = self.updates.split_off(start);
        let (kept, dropped) = after.into_iter().partition(|update| update.eventual);
        self.updates.extend::<Vec<_>>(kept);
        self.folded = self.folded.min(start);
        dropped
    }

    /// Returns the next update that is within `floor` and not yet folded, and marks it folded.
    pub(crate) fn next_to_fold(&mut self, floor: &Vector) -> Option<Arc<Update>> {
        let next = self.updates.get(self.folded).filter(|update| update.within(floor))?;
        self.folded += 1;
        Some(next.clone())
    }

    /// Removes and returns the first update if it is folded and causally stable, and therefore
    /// stored at every site.
    pub(crate) fn next_settled(&mut self, settled: &Vector) -> Option<Arc<Update>> {
        if self.folded == 0 || !self.updates.front()?.within(settled) {
            return None;
        }
        self.folded -= 1;
        let settled = self.updates.pop_front();
        let ts = settled.as_ref().map_or(Timestamp::ZERO, |update| update.dot.ts);
        self.forgotten = self.forgotten.max(ts);
        settled
    }

    /// Returns the time up to which updates are forgotten. A site must have the history up to here
    /// to get the rest from this one.
    pub(crate) fn forgotten(&self) -> Timestamp {
        self.forgotten
    }

    /// Restores the value of [`Self::forgotten`].
    pub(crate) fn restore_forgotten(&mut self, forgotten: Timestamp) {
        self.forgotten = forgotten;
    }

    /// Returns whether there is no update with this timestamp.
    pub(crate) fn lacks(&self, ts: Timestamp) -> bool {
        self.updates.back().is_none_or(|last| last.dot.ts < ts) || self.get(ts).is_none()
    }

    /// Returns the update with this timestamp.
    pub(crate) fn get(&self, ts: Timestamp) -> Option<&Arc<Update>> {
        let at = self.updates.binary_search_by_key(&ts, |update| update.dot.ts).ok()?;
        self.updates.get(at)
    }

    /// Returns the updates after a time.
    pub(crate) fn after(&self, ts: Timestamp) -> impl DoubleEndedIterator<Item = &Arc<Update>> {
        let start = self.updates.partition_point(|update| update.dot.ts <= ts);
        self.updates.range(start..)
    }

    /// Returns all updates that are held.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Update>> {
        self.updates.iter()
    }

    /// Returns the updates that are not folded yet.
    pub(crate) fn unfolded(&self) -> impl Iterator<Item = &Arc<Update>> {
        self.updates.range(self.folded..)
    }

    /// Returns the number of updates that are held.
    pub(crate) fn len(&self) -> usize {
        self.updates.len()
    }
}
