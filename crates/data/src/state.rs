//! The folded state of one key.

use serde::{Deserialize, Serialize};
mod cell;
mod counter;
mod hash;
mod set;

pub(crate) use cell::{Cell, Shown};
pub(crate) use hash::{Hash, descending};
pub(crate) use set::{AddWinsSet, Dots};

use crate::{Context, Dot, Effect, Value};

/// State of a key: a string, a set and a hash. Concurrent writers may create several of them. The
/// set then takes precedence over the hash, and the hash over the string, so that no element
/// becomes invisible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub(crate) cell: Cell,
    pub(crate) set: Option<Box<AddWinsSet>>,
    pub(crate) hash: Option<Box<Hash>>,
}

impl State {
    /// Creates the state of an absent key.
    pub fn new() -> Self {
        State::default()
    }

    /// Applies an effect. Effects must be applied in an order consistent with causality. All such
    /// orders lead to the same state.
    pub fn apply(&mut self, effect: &Effect, context: Context<'_>) {
        let (dot, seen) = (context.dot, effect.seen(context));
        if effect.clear {
            self.cell.remove_seen(seen);
            if let Some(set) = &mut self.set {
                set.remove_all_seen(seen);
            }
            if let Some(hash) = &mut self.hash {
                hash.remove_all_seen(seen);
            }
        }
        if !effect.cell.is_noop() {
            self.cell.apply(&effect.cell, dot, seen);
        }
        if let Some(change) = &effect.set {
            self.set.get_or_insert_default().apply(change, dot, seen);
        }
        if let Some(change) = &effect.hash {
            self.hash.get_or_insert_default().apply(change, dot, seen);
        }
        if self.set.as_ref().is_some_and(|set| set.is_empty()) {
            self.set = None;
        }
        if self.hash.as_ref().is_some_and(|hash| hash.is_empty()) {
            self.hash = None;
        }
    }

    /// Merges data that had to be kept separately until an applied effect was causally stable.
    /// Every effect that is applied later must have observed this one.
    pub fn settle(&mut self, effect: &Effect, dot: Dot) {
        if effect.cell.add.is_some() {
            self.cell.settle(dot);
        }
        if let (Some(hash), Some(change)) = (&mut self.hash, &effect.hash) {
            hash.settle(change, dot);
        }
    }

    /// Returns the greatest field of the hash whose name is a stamp: the last element of a list.
    pub fn last_stamp(&self) -> Option<&Value> {
        self.hash.as_ref()?.last_stamp()
    }

    /// Returns whether the state is empty, so that the key can be dropped.
    pub fn is_empty(&self) -> bool {
        self.cell.is_empty() && self.set.is_none() && self.hash.is_none()
    }

    /// Returns the number of parts that a copy would have to clone one by one.
    pub fn weight(&self) -> usize {
        let set = self.set.as_ref().map_or(0, |set| set.len());
        let hash = self.hash.as_ref().map_or(0, |hash| hash.len());
        self.cell.weight() + set + hash
    }

    /// Splits the state into parts of about `bytes` bytes, each of which another state can
    /// [absorb](Self::absorb). Does not split elements, fields or concurrent values. Returns at
    /// least one part.
    pub fn split(self, bytes: usize) -> Vec<State> {
        let mut parts = Parts { parts: vec![State::new()], bytes: 0, limit: bytes };
        for (size, cell) in self.cell.split() {
            parts.with_room(size).cell.absorb(cell);
        }
        for (element, dots) in self.set.into_iter().flat_map(|set| set.into_elements()) {
            let part = parts.with_room(element.len() + PART_BYTES);
            part.set.get_or_insert_default().insert(element, dots);
        }
        for (field, cell) in self.hash.into_iter().flat_map(|hash| hash.into_fields()) {
            for (size, cell) in cell.split() {
                let part = parts.with_room(field.len() + size);
                part.hash.get_or_insert_default().absorb_field(field.clone(), cell);
            }
        }
        parts.parts
    }

    /// Adds another part of the same state.
    pub fn absorb(&mut self, part: State) {
        self.cell.absorb(part.cell);
        match (&mut self.set, part.set) {
            (Some(set), Some(more)) => {
                more.into_elements().for_each(|(element, dots)| set.insert(element, dots));
            }
            (set, more) => *set = set.take().or(more),
        }
        match (&mut self.hash, part.hash) {
            (Some(hash), Some(more)) => {
                more.into_fields().for_each(|(field, cell)| hash.absorb_field(field, cell));
            }
            (hash, more) => *hash = hash.take().or(more),
        }
    }

    /// Returns the approximate size on the heap in bytes, in constant time.
    pub fn size(&self) -> usize {
        let set = self.set.as_ref().map_or(0, |set| set.size());
        let hash = self.hash.as_ref().map_or(0, |hash| hash.size());
        self.cell.size() + set + hash
    }
}

/// Approximate overhead of an element or a value, in bytes.
const PART_BYTES: usize = 32;

/// Parts of a state that is being split.
struct Parts {
    parts: Vec<State>,
    /// Size of the last part.
    bytes: usize,
    limit: usize,
}

impl Parts {
    /// Returns the part to which an item of this size can be added.
    fn with_room(&mut self, size: usize) -> &mut State {
        if self.bytes > 0 && self.bytes + size > self.limit {
            self.parts.push(State::new());
            self.bytes = 0;
        }
        self.bytes += size;
        self.parts.last_mut().expect("there is a first part")
    }
}
