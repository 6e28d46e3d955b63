use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

use solera_time::{Origin, Timestamp, Vector};

use crate::Value;

/// Maximum overhead of each part of an effect or operation, in addition to the bytes of its value.
pub(crate) const PIECE_BYTES: usize = 16;

/// Identifies an effect: the commit timestamp of its transaction and the history that it belongs
/// to.
///
/// Dots order effects totally, by timestamp and then by origin. The order extends causality,
/// because a hybrid clock has passed everything that its transaction observed. The order decides
/// between concurrent writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Dot {
    /// The local timestamp of the transaction, `commitVec[d]` in UniStore, or its strong timestamp.
    pub ts: Timestamp,
    /// The site that committed it, or the strong history.
    pub origin: Origin,
}

impl Dot {
    /// Returns the dot of a transaction of `origin` with this timestamp.
    pub fn of(origin: impl Into<Origin>, ts: Timestamp) -> Dot {
        Dot { ts, origin: origin.into() }
    }

    /// Returns the dot of the reading transaction's own writes, which follow everything that the
    /// transaction sees. No transaction commits at this time.
    pub(crate) fn own() -> Dot {
        Dot::of(Origin::Strong, Timestamp::MAX)
    }
}

/// Effects on one key that a transaction observed: those within its snapshot.
///
/// A snapshot contains the transactions whose commit vectors it covers. The dot alone does not
/// decide this: a transaction's dot may be within the snapshot's entries although the transaction
/// depends on another one outside the snapshot. The few such transactions on the key are listed
/// separately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    observed: &'a Vector,
    unseen: &'a [Dot],
}

impl Seen<'_> {
    pub(crate) fn contains(self, dot: Dot) -> bool {
        dot.ts <= self.observed[dot.origin] && !self.unseen.contains(&dot)
    }
}

/// Context of an effect: its dot, and the snapshot that its transaction executed on.
///
/// A removal removes exactly what its transaction observed. The context shows what that was, so the
/// removal needs no list of dots.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Dot of the transaction.
    pub dot: Dot,
    /// Snapshot that the transaction executed on; does not cover the transaction itself.
    pub observed: &'a Vector,
}

/// Effect of one transaction on one key, in canonical form: removals first, then writes. A
/// transaction's removals never touch its own earlier writes, because [`Effect::then`] drops those
/// when the removal is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Effects on the key that are not within the snapshot although the snapshot's entries reach
    /// their dots; see [`View::with_pending`](crate::View::with_pending). Nearly always empty, and
    /// for increments always.
    pub unseen: Vec<Dot>,
    /// Whether the effect removes everything that the transaction observed at this key (DEL, and
    /// SET before it writes).
    pub clear: bool,
    /// Change of the key's string: a register, with a counter on top.
    pub cell: CellChange,
    /// Change of the key's set.
    pub set: Option<Box<SetChange>>,
    /// Change of the key's hash.
    pub hash: Option<Box<HashChange>>,
}

/// A change of one register with a counter on top (a string key, or a field of a hash).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellChange {
    /// Value assigned to the register, after removing everything observed in the cell.
    pub assign: Option<Value>,
    /// Increment of the counter; `Some(0)` creates it.
    pub add: Option<i64>,
}

/// A change of an add-wins set. `removed` and `added` may share elements. The add of such an
/// element replaces the observed adds, and the element stays. Both lists are sorted and without
/// duplicates, so that a view finds an element without reading all of a large change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetChange {
    /// Elements whose observed adds are removed.
    pub removed: Vec<Value>,
    /// Elements that are added.
    pub added: Vec<Value>,
}

/// A change of a hash. For each field, it contains whether the observed values of the field are
/// removed, and the change of its cell after that. Sorted by field; each field occurs at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashChange {
    /// `(field, whether observed values are removed, change of the cell)`.
    pub fields: Vec<(Value, bool, CellChange)>,
}

impl Effect {
    /// Returns this effect followed by `later`, an effect of the same transaction. A later removal
    /// drops the transaction's own earlier writes, and keeps its removals.
    pub fn then(mut self, later: Effect) -> Effect {
        for dot in &later.unseen {
            if !self.unseen.contains(dot) {
                self.unseen.push(*dot);
            }
        }
        if later.clear {
            return Effect { unseen: self.unseen, ..later };
        }
        self.cell = self.cell.then(later.cell);
        if let Some(later) = later.set {
            let set = self.set.get_or_insert_default();
            set.append(*later);
        }
        if let Some(later) = later.hash {
            let hash = self.hash.get_or_insert_default();
            hash.append(*later);
        }
        self
    }

    /// Returns the approximate size of its content in bytes.
    pub fn size(&self) -> usize {
        let set = self.set.as_ref().map_or(0, |set| set.size());
        let hash = self.hash.as_ref().map_or(0, |hash| hash.size());
        PIECE_BYTES * (1 + self.unseen.len()) + self.cell.size() + set + hash
    }

    /// Returns the amount by which the effect increments the key's string, if it does nothing else.
    pub fn increment(&self) -> Option<i64> {
        let alone = !self.clear
            && self.unseen.is_empty()
            && self.cell.assign.is_none()
            && self.set.is_none()
            && self.hash.is_none();
        self.cell.add.filter(|_| alone)
    }

    /// Returns the change of the key's set, if the effect does nothing else.
    pub(crate) fn set_change(&self) -> Option<&SetChange> {
        let alone = !self.clear && self.cell.is_noop() && self.hash.is_none();
        self.set.as_deref().filter(|_| alone)
    }

    /// Returns whether the effect depends on what the transaction observed. Increments alone do
    /// not.
    pub(crate) fn observes(&self) -> bool {
        let fields = |hash: &HashChange| {
            hash.fields.iter().any(|(_, removes, change)| *removes || change.removes())
        };
        self.clear
            || self.cell.removes()
            || self.set.is_some()
            || self.hash.as_ref().is_some_and(|hash| fields(hash))
    }

    pub(crate) fn seen<'a>(&'a self, context: Context<'a>) -> Seen<'a> {
        Seen { observed: context.observed, unseen: &self.unseen }
    }
}

impl CellChange {
    /// Returns whether the change has no effect.
    pub fn is_noop(&self) -> bool {
        self.assign.is_none() && self.add.is_none()
    }

    /// Returns whether the change removes what was observed.
    pub(crate) fn removes(&self) -> bool {
        self.assign.is_some()
    }

    fn size(&self) -> usize {
        self.assign.as_ref().map_or(0, |value| value.len())
    }

    fn then(self, later: CellChange) -> CellChange {
        if later.assign.is_some() {
            return later;
        }
        let add = match (self.add, later.add) {
            // Never saturates: `execute` rejects an increment that would overflow the sum.
            (Some(earlier), Some(more)) => Some(earlier.saturating_add(more)),
            (earlier, more) => earlier.or(more),
        };
        CellChange { assign: self.assign, add }
    }
}

impl SetChange {
    fn append(&mut self, later: SetChange) {
        if !later.removed.is_empty() {
            self.added.retain(|element| !names(&later.removed, element));
        }
        merge(&mut self.removed, later.removed, Ord::cmp, |_, _| ());
        merge(&mut self.added, later.added, Ord::cmp, |_, _| ());
    }

    fn size(&self) -> usize {
        size_of_values(self.removed.iter().chain(&self.added))
    }

    /// Returns the maximum number of elements that the change affects.
    pub(crate) fn len(&self) -> usize {
        self.removed.len() + self.added.len()
    }

    pub(crate) fn removes(&self, element: &[u8]) -> bool {
        names(&self.removed, element)
    }

    pub(crate) fn adds(&self, element: &[u8]) -> bool {
        names(&self.added, element)
    }
}

impl HashChange {
    fn append(&mut self, later: HashChange) {
        merge(
            &mut self.fields,
            later.fields,
            |(a, ..), (b, ..)| a.cmp(b),
            |(_, removed, change), (_, removes, later)| {
                let (earlier, later) = (std::mem::take(change), std::mem::take(later));
                *change = if *removes { later } else { earlier.then(later) };
                *removed |= *removes;
            },
        );
    }

    fn size(&self) -> usize {
        let of_field = |(name, _, change): &(Value, bool, CellChange)| name.len() + change.size();
        self.fields.iter().map(|field| PIECE_BYTES + of_field(field)).sum()
    }

    /// Returns the change of a field: whether observed values are removed, and the change of its
    /// cell.
    pub(crate) fn of_field(&self, field: &[u8]) -> Option<(bool, &CellChange)> {
        let at = self.fields.binary_search_by(|(other, ..)| other.as_bytes().cmp(field)).ok()?;
        let (_, removes, change) = &self.fields[at];
        Some((*removes, change))
    }
}

/// Returns the approximate size of values with their overhead, in bytes.
pub(crate) fn size_of_values<'a>(values: impl IntoIterator<Item = &'a Value>) -> usize {
    values.into_iter().map(|value| PIECE_BYTES + value.len()).sum()
}

fn names(sorted: &[Value], element: &[u8]) -> bool {
    sorted.binary_search_by(|other| other.as_bytes().cmp(element)).is_ok()
}

/// Merges two sorted lists without duplicates. Joins equal items; the earlier one is the first
/// argument.
fn merge<T>(
    earlier: &mut Vec<T>,
    mut later: Vec<T>,
    order: impl Fn(&T, &T) -> Ordering,
    mut join: impl FnMut(&mut T, &mut T),
) {
    match later.as_mut_slice() {
        [] => {}
        // Most commands have one element. A long transaction of such commands should not sort each
        // time.
        [one] => match earlier.binary_search_by(|other| order(other, one)) {
            Ok(at) => join(&mut earlier[at], one),
            Err(at) => earlier.insert(at, later.remove(0)),
        },
        _ => {
            earlier.append(&mut later);
            earlier.sort_by(&order);
            earlier.dedup_by(|later, earlier| {
                let same = order(later, earlier).is_eq();
                if same {
                    join(earlier, later);
                }
                same
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_time::SiteId;

    use super::*;

    fn dot(ts: u64) -> Dot {
        Dot::of(SiteId(0), Timestamp(ts))
    }

    #[test]
    fn origins_order_dots_with_equal_times_and_strong_is_last() {
        let dots = [dot(1), dot(2), Dot::of(SiteId(6), Timestamp(2))];
        let strong = Dot::of(Origin::Strong, Timestamp(2));
        assert!(dots.into_iter().chain([strong, dot(3), Dot::own()]).is_sorted());
    }

    fn of_cell(assign: Option<&str>, add: Option<i64>) -> Effect {
        let cell = CellChange { assign: assign.map(Value::from), add };
        Effect { cell, ..Effect::default() }
    }

    fn of_set(removed: &[&str], added: &[&str]) -> Effect {
        let values = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect();
        let set = SetChange { removed: values(removed), added: values(added) };
        Effect { set: Some(Box::new(set)), ..Effect::default() }
    }

    #[test]
    fn what_any_part_did_not_see_the_transaction_did_not_see() {
        let of = |unseen: &[u64], clear| Effect {
            unseen: unseen.iter().map(|ts| dot(*ts)).collect(),
            clear,
            ..Effect::default()
        };
        for clear in [false, true] {
            assert_eq!(of(&[1, 2], false).then(of(&[2, 3], clear)), of(&[1, 2, 3], clear));
        }
    }

    #[test]
    fn an_assignment_replaces_what_was_assigned_and_added_before() {
        let earlier = of_cell(Some("1"), Some(2));
        assert_eq!(earlier.clone().then(of_cell(Some("5"), None)), of_cell(Some("5"), None));
        assert_eq!(earlier.then(of_cell(None, Some(3))), of_cell(Some("1"), Some(5)));
    }

    #[test]
    fn a_removal_drops_the_own_add_and_stays() {
        let removed = of_set(&[], &["a", "c"]).then(of_set(&["a", "b"], &[]));
        assert_eq!(removed, of_set(&["a", "b"], &["c"]));
        assert_eq!(removed.then(of_set(&[], &["b"])), of_set(&["a", "b"], &["b", "c"]));
    }
}
