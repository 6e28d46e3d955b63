//! Progress of each origin's operations at this site: taken, delivered, committed, final.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_time::SiteId;

use crate::ids::{OperationId, StreamId};
use crate::past::Past;
use crate::request::Request;

/// The operations that are not final, by the site that invoked them.
///
/// A site takes the operations of each origin in order. So the first operation of an origin that
/// has not reached a stage ends the sequence of those that have reached it.
#[derive(Debug)]
pub(crate) struct Frontier<R> {
    /// The last operation of each site that was taken from its streams.
    taken: BTreeMap<SiteId, OperationId>,
    /// Operations that were taken and are not in the order, because their context is incomplete,
    /// each with the previous operation of its site.
    waiting: BTreeMap<OperationId, Option<OperationId>>,
    /// Weak operations that are not committed.
    weak: BTreeSet<OperationId>,
    /// Operations that are not final.
    open: BTreeMap<OperationId, Open<R>>,
}

/// Responses of the executions of an operation that is not final.
#[derive(Debug)]
pub(crate) struct Open<R> {
    /// Response of the first execution at a tentative place.
    pub(crate) first: Option<Arc<R>>,
    /// Response of the last execution.
    pub(crate) last: Option<Arc<R>>,
}

/// Returns the lowest id that an operation of a site can have.
fn first_of(site: SiteId) -> OperationId {
    OperationId { site, run: 0, event: 0 }
}

/// Returns the highest id that an operation of a site can have.
fn last_of(site: SiteId) -> OperationId {
    OperationId { site, run: u64::MAX, event: u64::MAX }
}

impl<R> Frontier<R> {
    pub(crate) fn new() -> Frontier<R> {
        Frontier {
            taken: BTreeMap::new(),
            waiting: BTreeMap::new(),
            weak: BTreeSet::new(),
            open: BTreeMap::new(),
        }
    }

    /// Notes that an operation and all earlier ones of its site were taken.
    pub(crate) fn take_all(&mut self, id: OperationId) {
        let taken = self.taken.entry(id.site).or_insert(id);
        *taken = id.max(*taken);
    }

    /// Notes that an operation was taken. It waits for its context.
    pub(crate) fn take<O>(&mut self, request: &Request<O>) {
        let id = request.id;
        let before = match id.event.checked_sub(1).filter(|event| *event > 0) {
            Some(event) => Some(id.stream().at(event)),
            None => {
                request.previous.map(|(run, events)| StreamId { run, ..id.stream() }.at(events))
            }
        };
        self.take_all(id);
        self.waiting.insert(id, before);
        self.open.insert(id, Open { first: None, last: None });
        if !request.is_strong() {
            self.weak.insert(id);
        }
    }

    /// Notes that an operation is in the order.
    pub(crate) fn place(&mut self, id: OperationId) {
        self.waiting.remove(&id);
    }

    /// Notes that an operation is committed.
    pub(crate) fn commit(&mut self, id: OperationId) {
        self.weak.remove(&id);
    }

    /// Notes that an operation is final. Returns the responses of its executions.
    pub(crate) fn finish(&mut self, id: OperationId) -> Option<Open<R>> {
        self.waiting.remove(&id);
        self.weak.remove(&id);
        self.open.remove(&id)
    }

    /// Returns an operation that is not final.
    pub(crate) fn open(&self, id: OperationId) -> Option<&Open<R>> {
        self.open.get(&id)
    }

    /// Notes the response of an execution.
    pub(crate) fn executed(&mut self, id: OperationId, response: &Arc<R>, is_tentative: bool) {
        let Some(open) = self.open.get_mut(&id) else { return };
        if open.first.is_none() && is_tentative {
            open.first = Some(Arc::clone(response));
        }
        open.last = Some(Arc::clone(response));
    }

    /// Returns the last operation of a site that was taken.
    pub(crate) fn taken(&self, site: SiteId) -> Option<OperationId> {
        self.taken.get(&site).copied()
    }

    /// Returns the last operation of a site up to which all are delivered: in the order, or final.
    pub(crate) fn delivered(&self, site: SiteId) -> Option<OperationId> {
        match self.waiting.range(first_of(site)..=last_of(site)).next() {
            Some((_, before)) => *before,
            None => self.taken(site),
        }
    }

    /// Returns the first operation of a site that was taken and is not final.
    pub(crate) fn first_open(&self, site: SiteId) -> Option<OperationId> {
        self.open.range(first_of(site)..=last_of(site)).next().map(|(id, _)| *id)
    }

    /// Returns whether a weak operation of a past is not committed.
    pub(crate) fn has_weak(&self, past: &Past) -> bool {
        past.lasts().any(|last| self.weak.range(first_of(last.site)..=last).next().is_some())
    }

    /// Returns the set of all operations that are delivered at this site.
    pub(crate) fn past(&self) -> Past {
        self.taken.keys().filter_map(|site| self.delivered(*site)).collect()
    }
}

#[cfg(test)]
mod tests {
    use solera_random::Random;
    use solera_time::Timestamp;

    use super::*;
    use crate::context::Context;

    const SITE: SiteId = SiteId(1);

    /// Returns operations of two runs of a site, in order.
    fn requests() -> Vec<Request<()>> {
        let ids = [(1, 1), (1, 2), (1, 3), (4, 1), (4, 2)];
        let request = |(run, event)| Request {
            id: OperationId { site: SITE, run, event },
            timestamp: Timestamp(event),
            operation: None,
            context: Context::default(),
            cast: (event == 2).then_some(1),
            previous: ((run, event) == (4, 1)).then_some((1, 3)),
        };
        ids.into_iter().map(request).collect()
    }

    #[test]
    fn frontiers_end_before_the_first_operation_that_lacks_something() {
        #[derive(Clone, Copy, PartialEq, PartialOrd)]
        enum Stage {
            New,
            Taken,
            Placed,
            Committed,
            Final,
        }
        use Stage::*;
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let requests = requests();
            let mut frontier = Frontier::<()>::new();
            let mut stages = [New; 5];
            while stages.iter().any(|stage| *stage < Final) {
                let at = random.index(5);
                let id = requests[at].id;
                let comes_next = stages[..at].iter().all(|stage| *stage > New);
                stages[at] = match stages[at] {
                    New if comes_next => {
                        frontier.take(&requests[at]);
                        Taken
                    }
                    Taken => {
                        frontier.place(id);
                        Placed
                    }
                    Placed => {
                        frontier.commit(id);
                        Committed
                    }
                    Committed => {
                        frontier.finish(id);
                        Final
                    }
                    other => other,
                };
                let upto = |stage| {
                    let count = stages.iter().take_while(|it| **it >= stage).count();
                    count.checked_sub(1).map(|last| requests[last].id)
                };
                assert_eq!(frontier.taken(SITE), upto(Taken));
                assert_eq!(frontier.delivered(SITE), upto(Placed));
                assert_eq!(frontier.past(), upto(Placed).into_iter().collect());
                let open = (0..5).find(|at| (Taken..Final).contains(&stages[*at]));
                assert_eq!(frontier.first_open(SITE), open.map(|at| requests[at].id));
                for (last, request) in requests.iter().enumerate() {
                    let is_weak = |at: &usize| {
                        !requests[*at].is_strong() && (Taken..Committed).contains(&stages[*at])
                    };
                    let expected = (0..=last).any(|at| is_weak(&at));
                    assert_eq!(frontier.has_weak(&Past::from_iter([request.id])), expected);
                }
                assert_eq!(frontier.delivered(SiteId(0)).or(frontier.first_open(SiteId(2))), None);
            }
        }
    }
}
