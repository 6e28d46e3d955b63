//! A stand-in for reliable broadcast: streams of bodies with contexts, and the predicate.

use std::collections::BTreeMap;

use solera_consensus::{CastId, Predicate, Run};

/// An operation: an event of its run's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) run: Run,
    pub(crate) event: u64,
    /// Number among the casts of the run; `None` for an operation that is not cast.
    pub(crate) cast: Option<u64>,
    /// Last event of each stream that the origin had when it made the operation.
    pub(crate) context: BTreeMap<Run, u64>,
    /// Last cast of each run that was delivered at the origin.
    pub(crate) delivered: BTreeMap<Run, u64>,
}

impl Body {
    pub(crate) fn id(&self) -> Option<CastId> {
        self.cast.map(|number| self.run.cast(number))
    }
}

/// Bodies that a site has, and those that it has delivered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    bodies: BTreeMap<Run, Vec<Body>>,
    /// Bodies that arrived before earlier ones of their stream.
    early: BTreeMap<(Run, u64), Body>,
    casts: BTreeMap<CastId, u64>,
    /// Last delivered cast of each run.
    pub(crate) delivered: BTreeMap<Run, u64>,
    /// Last event of each stream that is in the context of a delivered cast.
    committed: BTreeMap<Run, u64>,
}

impl Streams {
    pub(crate) fn last(&self, run: Run) -> u64 {
        self.bodies.get(&run).map_or(0, |bodies| bodies.len() as u64)
    }

    /// Returns the last event of each stream.
    pub(crate) fn lasts(&self) -> BTreeMap<Run, u64> {
        self.bodies.keys().map(|run| (*run, self.last(*run))).collect()
    }

    /// Takes a body. Returns those that follow each other now.
    pub(crate) fn take(&mut self, body: Body) -> Vec<Body> {
        let run = body.run;
        if body.event <= self.last(run) {
            return Vec::new();
        }
        self.early.insert((run, body.event), body);
        let mut taken = Vec::new();
        while let Some(body) = self.early.remove(&(run, self.last(run) + 1)) {
            if let Some(id) = body.id() {
                self.casts.insert(id, body.event);
            }
            self.bodies.entry(run).or_default().push(body.clone());
            taken.push(body);
        }
        taken
    }

    pub(crate) fn body(&self, id: CastId) -> Option<&Body> {
        let event = self.casts.get(&id)?;
        self.bodies.get(&id.of())?.get(*event as usize - 1)
    }

    /// Returns bodies after these events.
    pub(crate) fn after(&self, lasts: &BTreeMap<Run, u64>, most: usize) -> Vec<Body> {
        let missing = self.bodies.iter().flat_map(|(run, bodies)| {
            let last = lasts.get(run).copied().unwrap_or(0) as usize;
            bodies.iter().skip(last)
        });
        missing.take(most).cloned().collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Body> {
        self.bodies.values().flatten()
    }

    /// Returns the last cast of each run whose body is here.
    pub(crate) fn last_casts(&self) -> BTreeMap<Run, u64> {
        self.casts.keys().map(|id| (id.of(), id.number)).collect()
    }

    pub(crate) fn deliver(&mut self, id: CastId) {
        self.delivered.insert(id.of(), id.number);
        let Some(body) = self.body(id).cloned() else { return };
        for (run, event) in body.context.into_iter().chain([(body.run, body.event)]) {
            let committed = self.committed.entry(run).or_default();
            *committed = event.max(*committed);
        }
    }

    pub(crate) fn delivers(&self, id: CastId) -> bool {
        self.body(id).is_some_and(|body| {
            let known = body.context.iter().all(|(run, event)| self.last(*run) >= *event);
            let last = |run| self.delivered.get(run).copied().unwrap_or(0);
            known && body.delivered.iter().all(|(run, number)| last(run) >= *number)
        })
    }

    /// Takes over what another site has.
    pub(crate) fn install(&mut self, other: &Streams) {
        self.delivered.clone_from(&other.delivered);
        for (run, event) in &other.committed {
            let committed = self.committed.entry(*run).or_default();
            *committed = (*event).max(*committed);
        }
    }
}

impl Predicate<Body> for Streams {
    fn holds(&self, id: CastId) -> bool {
        self.delivers(id)
    }

    fn bodies(&self, ids: &[CastId]) -> Vec<Body> {
        let mut upto: BTreeMap<Run, u64> = BTreeMap::new();
        for body in ids.iter().filter_map(|id| self.body(*id)) {
            let of = body.context.iter().map(|(run, event)| (*run, *event));
            for (run, event) in of.chain([(body.run, body.event)]) {
                let last = upto.entry(run).or_default();
                *last = event.max(*last);
            }
        }
        let bodies = upto.into_iter().flat_map(|(run, last)| {
            let committed = self.committed.get(&run).copied().unwrap_or(0) as usize;
            let bodies = self.bodies.get(&run).map_or(&[][..], Vec::as_slice);
            bodies.iter().take(last as usize).skip(committed)
        });
        bodies.cloned().collect()
    }

    fn bytes(&self, body: &Body) -> usize {
        40 + 16 * (body.context.len() + body.delivered.len())
    }
}
