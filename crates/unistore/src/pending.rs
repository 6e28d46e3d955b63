//! Updates of one key that are not part of a state yet.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use solera_data::{Context, Dot, Effect};
use solera_time::Vector;

use crate::message::Update;

/// An update, and the index of its write to the key.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    update: Arc<Update>,
    write: u32,
}

impl Waiting {
    pub(crate) fn new(update: Arc<Update>, write: u32) -> Self {
        Waiting { update, write }
    }

    pub(crate) fn update(&self) -> &Update {
        &self.update
    }

    pub(crate) fn effect(&self) -> (&Effect, Context<'_>) {
        (&self.update.writes[self.write as usize].effect, self.update.context())
    }
}

/// Updates of each origin by local timestamp, which is nearly always the order of arrival. A
/// snapshot's entry for an origin bounds the updates to visit. Later updates of a burst on one key
/// are not visited again for each snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// Indexed by [`Origin::index`](solera_time::Origin::index); empty while no update is pending.
    queues: Vec<VecDeque<Waiting>>,
    len: usize,
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the key belongs to an eventual space. In that case all its updates do.
    pub(crate) fn is_eventual(&self) -> bool {
        self.queues.iter().find_map(VecDeque::front).is_some_and(|first| first.update.eventual)
    }

    pub(crate) fn push(&mut self, new: Waiting) {
        let Dot { ts, origin } = new.update.dot;
        if self.queues.len() <= origin.index() {
            self.queues.resize_with(origin.index() + 1, VecDeque::new);
        }
        let queue = &mut self.queues[origin.index()];
        let in_order = queue.back().is_none_or(|last| last.update.dot.ts <= ts);
        let at =
            if in_order { queue.len() } else { queue.partition_point(|w| w.update.dot.ts <= ts) };
        queue.insert(at, new);
        self.len += 1;
    }

    /// Removes an update, if it is pending.
    pub(crate) fn remove(&mut self, dot: Dot) {
        let Some(queue) = self.queues.get_mut(dot.origin.index()) else { return };
        let before = queue.len();
        queue.retain(|waiting| waiting.update.dot != dot);
        self.len -= before - queue.len();
        if self.len == 0 {
            self.queues = Vec::new();
        }
    }

    /// Removes the updates within `vec` and returns them in the order of their dots, which extends
    /// causality.
    pub(crate) fn take_within(&mut self, vec: &Vector) -> SmallVec<[Waiting; 4]> {
        let mut taken = SmallVec::new();
        for queue in &mut self.queues {
            let mut not_within: SmallVec<[Waiting; 4]> = SmallVec::new();
            while let Some(waiting) = queue.pop_front() {
                let dot = waiting.update.dot;
                if dot.ts > vec[dot.origin] {
                    queue.push_front(waiting);
                    break;
                }
                let within = waiting.update.within(vec);
                if within { taken.push(waiting) } else { not_within.push(waiting) }
            }
            while let Some(waiting) = not_within.pop() {
                queue.push_front(waiting);
            }
        }
        self.len -= taken.len();
        if self.len == 0 {
            self.queues = Vec::new();
        }
        taken.sort_unstable_by_key(|waiting: &Waiting| waiting.update.dot);
        taken
    }

    /// Returns the updates within `vec` in the order of their dots, and the dots of those whose own
    /// entry `vec` covers but which are not within it.
    pub(crate) fn look(&self, vec: &Vector) -> (SmallVec<[&Waiting; 8]>, SmallVec<[Dot; 4]>) {
        let (mut within, mut unseen) = (SmallVec::new(), SmallVec::new());
        for queue in &self.queues {
            for waiting in queue {
                let dot = waiting.update.dot;
                if dot.ts > vec[dot.origin] {
                    break;
                }
                if waiting.update.within(vec) {
                    within.push(waiting);
                } else {
                    unseen.push(dot);
                }
            }
        }
        within.sort_unstable_by_key(|waiting: &&Waiting| waiting.update.dot);
        (within, unseen)
    }

    pub(crate) fn updates(&self) -> impl Iterator<Item = &Update> {
        self.queues.iter().flatten().map(|waiting| &*waiting.update)
    }

    pub(crate) fn dots(&self) -> impl Iterator<Item = Dot> {
        self.updates().map(|update| update.dot)
    }
}
