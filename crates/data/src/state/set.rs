use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::effect::Seen;
use crate::{Dot, SetChange, Value};

/// The living adds of one element. An add takes the place of those it observed: whoever observes it
/// has observed them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dots(SmallVec<[Dot; 1]>);

impl Dots {
    pub(crate) fn add(&mut self, dot: Dot, seen: Seen<'_>) {
        self.remove_seen(seen);
        self.0.push(dot);
    }

    pub(crate) fn remove_seen(&mut self, seen: Seen<'_>) {
        self.0.retain(|dot| !seen.contains(*dot));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A set in which an add wins over a concurrent removal. Needs no tombstones: effects come in causal
/// order, so a removal never comes before what it observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AddWinsSet {
    elements: HashMap<Value, Dots, FixedState>,
}

impl AddWinsSet {
    pub(crate) fn apply(&mut self, change: &SetChange, dot: Dot, seen: Seen<'_>) {
        for element in &change.removed {
            if let Some(dots) = self.elements.get_mut(element) {
                dots.remove_seen(seen);
                if dots.is_empty() {
                    self.elements.remove(element);
                }
            }
        }
        for element in &change.added {
            self.elements.entry_ref(element).or_default().add(dot, seen);
        }
    }

    pub(crate) fn remove_all_seen(&mut self, seen: Seen<'_>) {
        self.elements.retain(|_, dots| {
            dots.remove_seen(seen);
            !dots.is_empty()
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(crate) fn contains(&self, element: &[u8]) -> bool {
        self.elements.contains_key(element)
    }

    pub(crate) fn dots(&self, element: &[u8]) -> Dots {
        self.elements.get(element).cloned().unwrap_or_default()
    }

    pub(crate) fn elements(&self) -> impl Iterator<Item = &Value> {
        self.elements.keys()
    }

    /// Takes an element of another part.
    pub(crate) fn insert(&mut self, element: Value, dots: Dots) {
        self.elements.insert(element, dots);
    }

    pub(crate) fn into_elements(self) -> impl Iterator<Item = (Value, Dots)> {
        self.elements.into_iter()
    }

    pub(crate) fn size(&self) -> usize {
        let values: usize = self.elements.keys().map(|element| element.len() + 16).sum();
        values + self.elements.capacity() * size_of::<(Value, Dots)>()
    }
}
