//! Causes of revised responses: the operations because of which an operation reads something else
//! than before.
//!
//! A cause is determined when a revised response leaves. The versions that the operation reads now
//! are compared with those that it read when the former response left. Changes of versions are
//! numbered, and each version has the number of its last change, so that most of the former ones
//! need not be kept. The others are kept for a while: versions that were replaced or removed, and
//! those of operations that are final.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use solera_machine::codec;

use super::{Operation, Versions};
use crate::execution::store::{Name, Values, Version, is_same};
use crate::ids::OperationId;
use crate::object::Procedures;
use crate::order::OrderPlace;

/// Most versions that are kept although they are not in the store.
const MOST_FORMER: usize = 1_000;

/// Last change of a version of a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// Number of the change.
    changed: u64,
    /// Whether the version sets the register, so that it hides earlier versions.
    sets: bool,
    /// Hash of the version, if an execution that replaces another one has written it.
    hash: Option<u64>,
}

/// The move of an operation to its committed place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shift {
    /// Number of the change.
    at: u64,
    from: OrderPlace,
}

/// The execution whose response a client got last.
#[derive(Debug)]
pub(super) struct Basis<V> {
    /// Number of changes before the response.
    changes: u64,
    /// Values that it has read; `None` if it is the last execution.
    reads: Option<Values<V>>,
}

/// A version of a register, with the operation that has written it.
#[derive(Clone, Copy, Debug)]
struct Written {
    place: OrderPlace,
    writer: OperationId,
    mark: Mark,
    shift: Option<Shift>,
}

/// A version that is not in the store any more.
#[derive(Debug)]
struct Former {
    name: Name,
    written: Written,
    /// Number of the change that has replaced or removed it; `None` if it is final.
    removed: Option<u64>,
}

/// Numbers of changes, and versions that are not in the store any more.
#[derive(Debug, Default)]
pub(super) struct Causes {
    /// Number of changes so far.
    changes: u64,
    /// The last versions that have left the store. Final ones are in their order.
    former: VecDeque<Former>,
}

impl<V: Clone> Basis<V> {
    /// Notes that another execution replaces the last one, which has read these values.
    pub(super) fn replace(&mut self, reads: &Values<V>) {
        if self.reads.is_none() {
            self.reads = Some(reads.clone());
        }
    }
}

impl Mark {
    /// Returns the mark of a version that an operation writes, until [`Versions::note_change`]
    /// notes that it differs from the one before.
    pub(super) fn new<V>(before: Option<Mark>, version: &Version<V>) -> Mark {
        let (changed, hash) = before.map_or((0, None), |mark| (mark.changed, mark.hash));
        Mark { changed, sets: matches!(version, Version::Set(_)), hash }
    }
}

impl Causes {
    /// Numbers a move.
    pub(super) fn shift(&mut self, from: OrderPlace) -> Shift {
        self.changes += 1;
        Shift { at: self.changes, from }
    }

    fn keep(&mut self, former: Former) {
        self.former.push_back(former);
        if self.former.len() > MOST_FORMER {
            self.former.pop_front();
        }
    }

    /// Returns the versions of a register that are final, from the last one on.
    fn finals(&self, name: &Name) -> impl Iterator<Item = Written> {
        let former = self.former.iter().rev();
        former.filter(move |it| it.removed.is_none() && it.name == *name).map(|it| it.written)
    }

    /// Returns the versions of a register that were there after the change `after`, and have been
    /// replaced or removed since.
    fn removed(&self, name: &Name, after: u64) -> impl Iterator<Item = Written> {
        let is_removed = move |it: &&Former| it.removed.is_some_and(|removed| removed > after);
        let former = self.former.iter().filter(move |it| it.name == *name).filter(is_removed);
        former.map(|it| it.written).filter(move |it| it.mark.changed <= after)
    }
}

impl Written {
    fn has_moved(&self, after: u64) -> bool {
        self.shift.is_some_and(|shift| shift.at > after)
    }

    /// Returns the place of the operation after a change.
    fn former_place(&self, after: u64) -> OrderPlace {
        let shift = self.shift.filter(|shift| shift.at > after);
        shift.map_or(self.place, |shift| shift.from)
    }

    /// Returns whether two versions of an operation are equal.
    fn is_same(&self, other: &Written) -> bool {
        let (a, b) = (self.mark, other.mark);
        a.changed == b.changed || a.hash.is_some() && a.hash == b.hash
    }
}

impl<P: Procedures> Versions<P> {
    /// Notes that a version that an operation has written has changed. `former` is the one before.
    pub(super) fn note_change(
        &mut self,
        place: OrderPlace,
        name: &Name,
        former: Option<(Version<P::Value>, Mark)>,
    ) {
        self.causes.changes += 1;
        let Some(operation) = self.operations.get_mut(&place) else { return };
        let (writer, shift) = (operation.request.id, operation.shift);
        let executed = operation.executed.as_mut();
        if let Some(executed) = executed
            && let Some(mark) = executed.writes.get_mut(name)
        {
            let version = self.store.version(name, place).filter(|_| executed.again);
            mark.changed = self.causes.changes;
            mark.hash = version.map(|version| hash(&version));
        }
        if let Some((version, mark)) = former {
            let mark = Mark { hash: Some(hash(&version)), ..mark };
            let written = Written { place, writer, mark, shift };
            let removed = Some(self.causes.changes);
            self.causes.keep(Former { name: Arc::clone(name), written, removed });
        }
    }

    /// Notes that an operation is final.
    pub(super) fn note_final(&mut self, place: OrderPlace, operation: &Operation<P>) {
        if self.operations.is_empty() {
            // No operation can be executed again.
            return self.causes.former.clear();
        }
        let (writer, shift) = (operation.request.id, operation.shift);
        for (name, mark) in operation.executed.iter().flat_map(|executed| &executed.writes) {
            let written = Written { place, writer, mark: *mark, shift };
            self.causes.keep(Former { name: Arc::clone(name), written, removed: None });
        }
    }

    /// Notes that a client gets the response of the last execution of an operation.
    pub(crate) fn note_seen(&mut self, place: OrderPlace) {
        let changes = self.causes.changes;
        if let Some(operation) = self.operations.get_mut(&place) {
            operation.basis = Some(Basis { changes, reads: None });
        }
    }

    /// Returns the operation because of which a tentative operation has read something else in its
    /// last execution than in the one whose response a client got last: of all registers with
    /// another value, the first one in the order.
    pub(crate) fn cause(&self, place: OrderPlace) -> Option<OperationId> {
        let operation = self.operations.get(&place)?;
        let (basis, executed) = (operation.basis.as_ref()?, operation.executed.as_ref()?);
        // The first read with another value is one of both executions.
        let differing = basis.reads.as_ref()?.iter().filter(|(name, had)| {
            executed.reads.get(*name).is_some_and(|value| !is_same(had, value))
        });
        let causes = differing.filter_map(|(name, _)| self.cause_of(name, place, basis.changes));
        causes.min().map(|(_, writer)| writer)
    }

    /// Returns the first operation whose version of a register `reader` reads now and did not read
    /// after the change `after`, or the other way round, and its place at that time. A version that
    /// the reader did not read because a later one has hidden it does not count.
    fn cause_of(
        &self,
        name: &Name,
        reader: OrderPlace,
        after: u64,
    ) -> Option<(OrderPlace, OperationId)> {
        let (now, former) = self.views(name, reader, after);
        let find = |versions: &[Written], writer| {
            versions.iter().find(|it: &&Written| it.writer == writer).copied()
        };
        let is_new = |it: &&Written| find(&former, it.writer).is_none_or(|had| !it.is_same(&had));
        let new: Vec<&Written> = now.iter().filter(is_new).collect();
        let start = now.last().filter(|it| it.mark.sets).map(|it| it.writer);
        let hides = new.last().is_some_and(|it| Some(it.writer) == start);
        let seen = former.iter().position(|it| it.mark.sets).map_or(former.len(), |last| last + 1);
        let seen = &former[..seen];
        let gone = seen.iter().filter(|it| !hides && find(&now, it.writer).is_none());
        let gone = gone.map(|it| (it.former_place(after), it.writer));
        let first = new.into_iter().map(|it| (it.place, it.writer)).chain(gone).min();
        // Without any of these, a version that had hidden others has moved before them.
        let shown = now.iter().filter(|it| find(seen, it.writer).is_none());
        first.or_else(|| shown.map(|it| (it.place, it.writer)).min())
    }

    /// Returns the versions that `reader` reads of a register, from the last one on. With them, the
    /// versions after the change `after` at places before it, in the same order, at least as far as
    /// they were read then or are read now.
    fn views(&self, name: &Name, reader: OrderPlace, after: u64) -> (Vec<Written>, Vec<Written>) {
        let (mut now, mut former) = (Vec::new(), Vec::new());
        let (mut hides, mut has_hidden) = (false, false);
        let mut last = reader;
        for version in self.written_before(name, reader) {
            if !hides {
                now.push(version);
            }
            hides |= version.mark.sets;
            let is_former = version.mark.changed <= after;
            if is_former {
                former.push(version);
            }
            has_hidden |= is_former && version.mark.sets && !version.has_moved(after);
            last = version.place;
            if hides && has_hidden {
                break;
            }
        }
        // Only committed operations have moved.
        let committed = self.written_before(name, last.min(OrderPlace::Committed(u64::MAX)));
        former.extend(
            committed
                .filter(|it| it.place < last && it.mark.changed <= after && it.has_moved(after)),
        );
        former.extend(self.causes.removed(name, after));
        former.retain(|it| it.former_place(after) < reader);
        former.sort_by_key(|it| std::cmp::Reverse(it.former_place(after)));
        (now, former)
    }

    /// Returns the versions of a register before a place, from the last one on.
    fn written_before(&self, name: &Name, place: OrderPlace) -> impl Iterator<Item = Written> {
        let present = self.store.places_before(name, place);
        let present = present.filter_map(|place| {
            let operation = self.operations.get(&place)?;
            let mark = *operation.executed.as_ref()?.writes.get(name)?;
            Some(Written { place, writer: operation.request.id, mark, shift: operation.shift })
        });
        present.chain(self.causes.finals(name))
    }
}

fn hash<V: Serialize>(version: &Version<V>) -> u64 {
    let mut bytes = Vec::new();
    let sets = match version {
        Version::Set(value) => {
            codec::append(&value.as_deref(), &mut bytes);
            true
        }
        Version::Merge(change, _) => {
            codec::append(&**change, &mut bytes);
            false
        }
    };
    let mut hasher = DefaultHasher::new();
    (sets, bytes).hash(&mut hasher);
    hasher.finish()
}
