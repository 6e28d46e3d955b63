use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::Dot;
use crate::effect::Seen;

/// A sum of increments, each of which lives until a removal that observed it.
///
/// Increments that are causally stable are merged: every later removal has observed them all.
/// The others are kept apart, because a removal may have observed only some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counter {
    /// The sum of the settled increments, if there are any.
    settled: Option<i128>,
    /// The sum of `unsettled`.
    rest: i128,
    unsettled: VecDeque<(Dot, i64)>,
}

impl Counter {
    /// The sum, if any increment lives.
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

    /// Merges the increment of a causally stable transaction: usually one of the oldest, so the
    /// search is short. A transaction adds to a counter once.
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

    /// The same sum in one piece.
    pub(crate) fn summed(&self) -> Counter {
        Counter { settled: self.sum(), ..Counter::default() }
    }

    pub(crate) fn size(&self) -> usize {
        self.unsettled.len() * size_of::<(Dot, i64)>()
    }
}
