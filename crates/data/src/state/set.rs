use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::effect::Seen;
use crate::{Dot, SetChange, Value};

/// Living adds of one element. An add replaces the adds that it observed, because a transaction
/// that observes the new add has observed these, too.
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

/// A set in which an add wins over a concurrent removal. It needs no tombstones: effects are
/// applied in causal order, so the adds that a removal observed always precede it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Elements")]
pub(crate) struct AddWinsSet {
    elements: HashMap<Value, Dots, FixedState>,
    /// Sum of `bytes_of` over all elements, maintained so that the size is known in constant time.
    #[serde(skip)]
    bytes: usize,
}

/// Serialized form of a set.
#[derive(Deserialize)]
struct Elements {
    elements: HashMap<Value, Dots, FixedState>,
}

impl From<Elements> for AddWinsSet {
    fn from(Elements { elements }: Elements) -> Self {
        let bytes = elements.keys().map(bytes_of).sum();
        AddWinsSet { elements, bytes }
    }
}

fn bytes_of(element: &Value) -> usize {
    element.len() + 16
}

impl AddWinsSet {
    pub(crate) fn apply(&mut self, change: &SetChange, dot: Dot, seen: Seen<'_>) {
        for element in &change.removed {
            if let Some(dots) = self.elements.get_mut(element) {
                dots.remove_seen(seen);
                if dots.is_empty() {
                    self.elements.remove(element);
                    self.bytes -= bytes_of(element);
                }
            }
        }
        for element in &change.added {
            self.dots_of(element).add(dot, seen);
        }
    }

    pub(crate) fn remove_all_seen(&mut self, seen: Seen<'_>) {
        self.elements.retain(|element, dots| {
            dots.remove_seen(seen);
            if dots.is_empty() {
                self.bytes -= bytes_of(element);
            }
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

    /// Adds an element of another part.
    pub(crate) fn insert(&mut self, element: Value, dots: Dots) {
        *self.dots_of(&element) = dots;
    }

    fn dots_of(&mut self, element: &Value) -> &mut Dots {
        self.elements.entry_ref(element).or_insert_with(|| {
            self.bytes += bytes_of(element);
            Dots::default()
        })
    }

    pub(crate) fn into_elements(self) -> impl Iterator<Item = (Value, Dots)> {
        self.elements.into_iter()
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes + self.elements.capacity() * size_of::<(Value, Dots)>()
    }
}
