//! The order of operations: committed ones, then tentative ones (Creek Alg. 1 l. 36–41, 48–54).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use solera_time::{SiteId, Timestamp};

use crate::ids::OperationId;
use crate::request::{Key, Request};

/// The committed operations that are not final yet, and the tentative operations.
///
/// An operation is *final* once it and all committed operations before it have been executed in
/// committed order. Final operations are represented by their number alone. Places in the order
/// are counted from the first operation that is not final.
#[derive(Debug)]
pub(crate) struct Order<O> {
    /// Number of final operations.
    finals: u64,
    /// Committed operations that are not final (the rest of `committed`, Alg. 1 l. 6).
    committed: VecDeque<Arc<Request<O>>>,
    /// Tentative operations by timestamp and id (Alg. 1 l. 6, l. 37–39).
    tentative: BTreeMap<Key, Arc<Request<O>>>,
    /// Number of weak operations among the tentative ones.
    weak: usize,
    /// Only site whose tentative operations are ordered by their timestamps: those of all other
    /// sites come before them, in the order of their ids. `None`, except in tests that take
    /// `Rule::OrderByTimestamp` out.
    pub(crate) favours: Option<SiteId>,
}

/// Place of an operation in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OrderPlace {
    /// A position in the committed order, from 1.
    Committed(u64),
    /// A place among the tentative operations.
    Tentative(Key),
    /// After all operations.
    End,
}

/// Changes that a commit has made to the order.
#[derive(Debug)]
pub(crate) struct Committed<O> {
    /// The operations that are committed now, in order, each with its tentative place and its
    /// committed one.
    pub(crate) moved: Vec<(OrderPlace, OrderPlace, Arc<Request<O>>)>,
    /// Number of operations before the first place whose operation has changed; `None` if the order
    /// is the same.
    pub(crate) changed: Option<usize>,
}

impl<O> Order<O> {
    pub(crate) fn new() -> Order<O> {
        let (committed, tentative) = (VecDeque::new(), BTreeMap::new());
        Order { finals: 0, committed, tentative, weak: 0, favours: None }
    }

    /// Returns the place of a request in the tentative order (Creek Alg. 1 l. 3).
    fn key(&self, request: &Request<O>) -> Key {
        match self.favours {
            Some(site) if site != request.id.site => (Timestamp::ZERO, request.id),
            _ => (request.timestamp, request.id),
        }
    }

    /// Sets the number of final operations, after a restart.
    pub(crate) fn restore(&mut self, finals: u64) {
        self.finals = finals;
    }

    /// Returns the number of final operations.
    pub(crate) fn finals(&self) -> u64 {
        self.finals
    }

    /// Returns the committed operations that are not final.
    pub(crate) fn committed(&self) -> &VecDeque<Arc<Request<O>>> {
        &self.committed
    }

    pub(crate) fn tentative(&self) -> impl DoubleEndedIterator<Item = &Arc<Request<O>>> {
        self.tentative.values()
    }

    pub(crate) fn tentative_len(&self) -> usize {
        self.tentative.len()
    }

    /// Returns the number of tentative weak operations.
    pub(crate) fn weak_len(&self) -> usize {
        self.weak
    }

    pub(crate) fn is_tentative(&self, request: &Request<O>) -> bool {
        self.tentative.contains_key(&self.key(request))
    }

    /// Returns the ids of the tentative operations that come after a request.
    pub(crate) fn tentative_after(
        &self,
        request: &Request<O>,
    ) -> impl Iterator<Item = OperationId> + use<'_, O> {
        let after = (Bound::Excluded(self.key(request)), Bound::Unbounded);
        self.tentative.range(after).map(|(_, request)| request.id)
    }

    /// Adds a tentative operation (Creek Alg. 1 l. 36–41). Returns its place.
    pub(crate) fn insert(&mut self, request: Arc<Request<O>>) -> OrderPlace {
        let key = self.key(&request);
        self.weak += usize::from(!request.is_strong());
        self.tentative.insert(key, request);
        OrderPlace::Tentative(key)
    }

    /// Returns whether a tentative operation precedes another one (Creek Alg. 1 l. 3).
    pub(crate) fn precedes(&self, first: &Request<O>, second: &Request<O>) -> bool {
        self.key(first) < self.key(second)
    }

    /// Returns the place of a request that is tentative.
    pub(crate) fn tentative_place(&self, request: &Request<O>) -> Option<OrderPlace> {
        self.is_tentative(request).then(|| OrderPlace::Tentative(self.key(request)))
    }

    /// Returns the place of a request that is tentative or committed, and not final.
    pub(crate) fn place(&self, request: &Request<O>) -> Option<OrderPlace> {
        if let Some(place) = self.tentative_place(request) {
            return Some(place);
        }
        let at = self.committed.iter().position(|it| it.id == request.id)?;
        Some(OrderPlace::Committed(self.finals + at as u64 + 1))
    }

    /// Returns, of the operations before a place that are not final, the number of committed ones
    /// and the ids of all.
    pub(crate) fn before(&self, place: OrderPlace) -> (usize, Vec<OperationId>) {
        let committed = match place {
            OrderPlace::Committed(place) => (place - self.finals) as usize - 1,
            OrderPlace::Tentative(_) | OrderPlace::End => self.committed.len(),
        };
        let is_before = |key: &Key| match place {
            OrderPlace::Committed(_) => false,
            OrderPlace::Tentative(place) => *key < place,
            OrderPlace::End => true,
        };
        let tentative = self.tentative.iter().take_while(|(key, _)| is_before(key));
        let tentative = tentative.map(|(_, request)| request.id);
        let ids = self.committed.iter().take(committed).map(|request| request.id);
        (committed, ids.chain(tentative).collect())
    }

    /// Commits a strong operation, and before it the tentative operations of its context for which
    /// `stabilises` returns true, in tentative order (Creek Alg. 1 l. 48–53).
    pub(crate) fn commit(
        &mut self,
        request: &Arc<Request<O>>,
        stabilises: impl Fn(OperationId) -> bool,
    ) -> Committed<O> {
        let key = self.key(request);
        // Operations of the context precede the operation (Alg. 1 l. 19), so the rest of the list
        // need not be searched. If a context is malformed, every site skips the same operations.
        let context = self.tentative.range(..key).filter(|(_, it)| stabilises(it.id));
        let mut keys: Vec<Key> = context.map(|(key, _)| *key).collect();
        keys.push(key);
        let kept = self.tentative.keys().zip(&keys).take_while(|(old, new)| old == new).count();
        let changed = (kept < keys.len()).then_some(self.committed.len() + kept);
        let mut moved = Vec::with_capacity(keys.len());
        for key in keys {
            let found = self.tentative.remove(&key);
            self.weak -= usize::from(found.as_ref().is_some_and(|it| !it.is_strong()));
            let found = found.unwrap_or_else(|| Arc::clone(request));
            let place = self.finals + self.committed.len() as u64 + 1;
            moved.push((
                OrderPlace::Tentative(key),
                OrderPlace::Committed(place),
                Arc::clone(&found),
            ));
            self.committed.push_back(found);
        }
        Committed { moved, changed }
    }

    /// Appends a committed operation as it was before a restart. Returns its place.
    pub(crate) fn push_committed(&mut self, request: Arc<Request<O>>) -> OrderPlace {
        self.committed.push_back(request);
        OrderPlace::Committed(self.finals + self.committed.len() as u64)
    }

    /// Returns the operation at place `at`, where `before` is the operation before it in the order.
    pub(crate) fn at(&self, at: usize, before: Option<&Request<O>>) -> Option<&Arc<Request<O>>> {
        if let Some(request) = self.committed.get(at) {
            return Some(request);
        }
        let start = match before.filter(|_| at > self.committed.len()) {
            Some(before) => Bound::Excluded(self.key(before)),
            None => Bound::Unbounded,
        };
        self.tentative.range((start, Bound::Unbounded)).next().map(|(_, request)| request)
    }

    /// Makes the first committed operation final. It must have been executed at this place.
    pub(crate) fn make_final(&mut self) -> Option<Arc<Request<O>>> {
        let request = self.committed.pop_front()?;
        self.finals += 1;
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use solera_random::Random;

    use super::*;
    use crate::context::Context;

    fn request(timestamp: u64, event: u64) -> Arc<Request<()>> {
        let id = OperationId { site: SiteId(0), run: 1, event };
        let timestamp = Timestamp(timestamp);
        Arc::new(Request {
            id,
            timestamp,
            operation: None,
            context: Context::default(),
            cast: None,
            previous: None,
        })
    }

    fn list(order: &Order<()>) -> Vec<u64> {
        order.committed.iter().chain(order.tentative.values()).map(|it| it.id.event).collect()
    }

    /// Returns the first place at which two lists differ; `None` if the second continues the first.
    fn first_difference(old: &[u64], new: &[u64]) -> Option<usize> {
        let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        (same < old.len()).then_some(same)
    }

    #[test]
    fn alg_1_l_36_to_54_orders_are_lists_and_report_the_first_change() {
        for seed in 0..1_000 {
            let mut random = Random::new(seed);
            let mut order = Order::new();
            let (mut committed, mut tentative) = (Vec::new(), Vec::<(u64, u64)>::new());
            for event in 1..40 {
                let before = list(&order);
                let changed = if random.chance(70) || tentative.is_empty() {
                    let timestamp = 1 + random.below(100);
                    tentative.push((timestamp, event));
                    tentative.sort_unstable();
                    order.insert(request(timestamp, event));
                    None
                } else {
                    let (timestamp, event) = tentative[random.index(tentative.len())];
                    let context = random.draw();
                    let is_in = |event: u64| context >> event & 1 == 1;
                    let stabilised = tentative.iter().filter(|it| **it < (timestamp, event));
                    committed.extend(stabilised.map(|(_, it)| *it).filter(|it| is_in(*it)));
                    committed.push(event);
                    tentative.retain(|(_, event)| !committed.contains(event));
                    order.commit(&request(timestamp, event), |id| is_in(id.event)).changed
                };
                let now = list(&order);
                let tentative = tentative.iter().map(|(_, event)| *event);
                assert!(now.iter().copied().eq(committed.iter().copied().chain(tentative)));
                if now.len() == before.len() {
                    assert_eq!(changed, first_difference(&before, &now), "{before:?} {now:?}");
                }
            }
            let requests: Vec<_> = order.committed.iter().chain(order.tentative.values()).collect();
            for at in 0..=requests.len() {
                let before = at.checked_sub(1).map(|at| &**requests[at]);
                assert_eq!(order.at(at, before), requests.get(at).copied());
            }
        }
    }
}
