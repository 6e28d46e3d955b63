use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::counter::Counter;
use crate::effect::Seen;
use crate::{CellChange, Dot, Value};

/// A register with a counter on top: a string key, or a field of a hash.
///
/// An assignment lives until a removal or assignment that has observed it. Assignments that live
/// together are concurrent. The one with the greatest dot is visible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    assigned: SmallVec<[(Dot, Value); 1]>,
    counter: Option<Box<Counter>>,
}

/// Visible value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shown {
    Nothing,
    /// Assigned bytes.
    Bytes(Value),
    /// Result of increments.
    Number(i64),
}

impl Cell {
    pub(crate) fn apply(&mut self, change: &CellChange, dot: Dot, seen: Seen<'_>) {
        if let Some(value) = &change.assign {
            self.remove_seen(seen);
            self.assigned.push((dot, value.clone()));
        }
        if let Some(by) = change.add {
            self.counter.get_or_insert_default().add(dot, by);
        }
    }

    pub(crate) fn remove_seen(&mut self, seen: Seen<'_>) {
        self.assigned.retain(|(dot, _)| !seen.contains(*dot));
        if let Some(counter) = &mut self.counter {
            counter.remove_seen(seen);
            if counter.is_empty() {
                self.counter = None;
            }
        }
    }

    pub(crate) fn settle(&mut self, dot: Dot) {
        if let Some(counter) = &mut self.counter {
            counter.settle(dot);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.assigned.is_empty() && self.counter.is_none()
    }

    pub(crate) fn show(&self) -> Shown {
        let assigned = match self.assigned.as_slice() {
            [] => None,
            [(_, value)] => Some(value),
            several => several.iter().max_by_key(|(dot, _)| *dot).map(|(_, value)| value),
        };
        let sum = self.counter.as_ref().and_then(|counter| counter.sum());
        match (assigned, sum) {
            (None, None) => Shown::Nothing,
            (None, Some(sum)) => Shown::Number(clamp(sum)),
            (Some(value), None) => Shown::Bytes(value.clone()),
            (Some(value), Some(sum)) => match integer(value) {
                Some(base) => Shown::Number(clamp(sum + i128::from(base))),
                None => Shown::Bytes(value.clone()),
            },
        }
    }

    pub(crate) fn weight(&self) -> usize {
        self.assigned.len() + self.counter.as_ref().map_or(0, |counter| counter.unsettled())
    }

    /// Returns a copy to which changes can be applied. If none of the changes removes values, the
    /// increments need not be kept separately.
    pub(crate) fn for_changes(&self, removes: bool) -> Cell {
        if removes {
            return self.clone();
        }
        let counter = self.counter.as_ref().map(|counter| Box::new(counter.summed()));
        Cell { assigned: self.assigned.clone(), counter }
    }

    /// Splits the cell into its values, each with its approximate size in bytes. The counter is the
    /// first.
    pub(crate) fn split(self) -> impl Iterator<Item = (usize, Cell)> {
        let counter = self.counter.map(|counter| {
            let size = size_of::<Counter>() + counter.size();
            (size, Cell { assigned: SmallVec::new(), counter: Some(counter) })
        });
        let values = self.assigned.into_iter().map(|(dot, value)| {
            let size = size_of::<(Dot, Value)>() + value.len();
            (size, Cell { assigned: SmallVec::from_iter([(dot, value)]), counter: None })
        });
        counter.into_iter().chain(values)
    }

    /// Adds another part of the same cell.
    pub(crate) fn absorb(&mut self, part: Cell) {
        self.assigned.extend(part.assigned);
        self.counter = self.counter.take().or(part.counter);
    }

    pub(crate) fn size(&self) -> usize {
        let values: usize = self.assigned.iter().map(|(_, value)| value.len() + 16).sum();
        values + self.counter.as_ref().map_or(0, |c| size_of::<Counter>() + c.size())
    }

    /// Applies a change of the reading transaction itself. Its removals have observed everything.
    pub(crate) fn apply_own(&mut self, removes: bool, change: &CellChange) {
        if removes || change.assign.is_some() {
            *self = Cell::default();
        }
        let dot = Dot::own();
        if let Some(value) = &change.assign {
            self.assigned.push((dot, value.clone()));
        }
        if let Some(by) = change.add {
            self.counter.get_or_insert_default().add(dot, by);
        }
    }
}

impl Shown {
    pub(crate) fn exists(&self) -> bool {
        *self != Shown::Nothing
    }

    pub(crate) fn into_value(self) -> Option<Value> {
        match self {
            Shown::Nothing => None,
            Shown::Bytes(value) => Some(value),
            Shown::Number(number) => Some(decimal(number)),
        }
    }

    /// Returns the visible number: 0 for an absent value, `None` for bytes that are not a number.
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Shown::Nothing => Some(0),
            Shown::Bytes(value) => integer(value),
            Shown::Number(number) => Some(*number),
        }
    }
}

fn clamp(sum: i128) -> i64 {
    sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

fn decimal(number: i64) -> Value {
    Value::from(number.to_string().as_str())
}

/// Reads a canonical decimal integer, as Redis does: no spaces, no plus sign, no leading zeros.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let canonical = match digits {
        [] => false,
        [b'0'] => digits.len() == bytes.len(),
        [first, ..] => *first != b'0' && digits.iter().all(u8::is_ascii_digit),
    };
    if !canonical || bytes.len() > 20 {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
