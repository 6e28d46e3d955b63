use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::Dot;
use crate::effect::Seen;

/// A sum of increments. Each of them lives until a removal that has observed it.
///
/// Causally stable increments are merged, because every later removal has observed all of them. The
/// others are kept separately, because a removal may have observed only some of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counter {
    /// Sum of the settled increments, if there are any.
    settled: Option<i128>,
    /// Sum of `unsettled`.
    rest: i128,
    unsettled: VecDeque<(Dot, i64)>,
}

impl Counter {
    /// Returns the sum, or `None` if no increment lives.
    pub(crate) fn sum(&self) -> Option<i128> {
        (!self.is_empty()).then(|| self.settled.unwrap_or(0) + self.rest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.settled.is_none() && self.unsettled.is_empty()
    }

    pub(crate) fn add(&mut self, dot: Dot, by: i64) {
        self.unsettled.push_back((dot, by));
        self.rest += i128::from(by);
    }

    pub(crate) fn remove_seen(&mut self, seen: Seen<'_>) {
        self.settled = None;
        let rest = &mut self.rest;
        self.unsettled.retain(|(dot, by)| {
            let removed = seen.contains(*dot);
            *rest -= if removed { i128::from(*by) } else { 0 };
            !removed
        });
    }

    /// Merges the increment of a causally stable transaction. It is usually one of the oldest, so
    /// the search is short. A transaction adds to a counter at most once.
    pub(crate) fn settle(&mut self, dot: Dot) {
        let Some(at) = self.unsettled.iter().position(|(other, _)| *other == dot) else { return };
        if let Some((_, by)) = self.unsettled.remove(at) {
            self.rest -= i128::from(by);
            self.settled = Some(self.settled.unwrap_or(0) + i128::from(by));
        }
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Returns a counter that has the same sum in a single increment.
    pub(crate) fn summed(&self) -> Counter {
        Counter { settled: self.sum(), ..Counter::default() }
    }

    pub(crate) fn size(&self) -> usize {
        self.unsettled.len() * size_of::<(Dot, i64)>()
    }
}
