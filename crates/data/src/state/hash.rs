use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::Cell;
use crate::effect::Seen;
use crate::{Dot, HashChange, Value, is_stamp};

/// Fields with a register and counter each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub(crate) struct Hash {
    /// Fields whose names are no stamps.
    named: HashMap<Value, Cell, FixedState>,
    /// Fields whose names are stamps. They are in order, because the newest elements of a list are
    /// read at a cost that does not depend on its length.
    stamped: BTreeMap<Value, Cell>,
    /// Sum of `bytes_of` over all fields, maintained so that the size is known in constant time.
    bytes: usize,
}

/// Serialized form of a hash.
#[derive(Deserialize)]
struct Fields {
    fields: HashMap<Value, Cell, FixedState>,
}

impl From<Fields> for Hash {
    fn from(Fields { fields }: Fields) -> Self {
        let bytes = fields.iter().map(|(field, cell)| bytes_of(field) + cell.size()).sum();
        let mut named = fields;
        let stamped = named.extract_if(|field, _| is_stamp(field)).collect();
        named.shrink_to_fit();
        Hash { named, stamped, bytes }
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Both<'a>(&'a Hash);

        impl Serialize for Both<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.named.iter().chain(&self.0.stamped))
            }
        }

        let mut fields = serializer.serialize_struct("Fields", 1)?;
        fields.serialize_field("fields", &Both(self))?;
        fields.end()
    }
}

/// Returns the size of a field without its cell, in bytes.
fn bytes_of(field: &Value) -> usize {
    field.len() + 16
}

impl Hash {
    pub(crate) fn apply(&mut self, change: &HashChange, dot: Dot, seen: Seen<'_>) {
        for (field, removes, change) in &change.fields {
            if !change.is_noop() {
                self.change_or_add(field, |cell| {
                    if *removes {
                        cell.remove_seen(seen);
                    }
                    cell.apply(change, dot, seen);
                });
            } else if *removes {
                let empty = self.change(field, |cell| {
                    cell.remove_seen(seen);
                    cell.is_empty()
                });
                if empty == Some(true) {
                    match is_stamp(field) {
                        true => self.stamped.remove(field),
                        false => self.named.remove(field),
                    };
                    self.bytes -= bytes_of(field);
                }
            }
        }
    }

    pub(crate) fn remove_all_seen(&mut self, seen: Seen<'_>) {
        self.bytes = 0;
        let mut remains = |field: &Value, cell: &mut Cell| {
            cell.remove_seen(seen);
            if !cell.is_empty() {
                self.bytes += bytes_of(field) + cell.size();
            }
            !cell.is_empty()
        };
        self.named.retain(&mut remains);
        self.stamped.retain(&mut remains);
    }

    pub(crate) fn settle(&mut self, change: &HashChange, dot: Dot) {
        for (field, _, change) in &change.fields {
            if change.add.is_some() {
                self.change(field, |cell| cell.settle(dot));
            }
        }
    }

    /// Changes an existing field.
    fn change<R>(&mut self, field: &Value, change: impl FnOnce(&mut Cell) -> R) -> Option<R> {
        let cell = match is_stamp(field) {
            true => self.stamped.get_mut(field)?,
            false => self.named.get_mut(field)?,
        };
        self.bytes -= cell.size();
        let result = change(cell);
        self.bytes += cell.size();
        Some(result)
    }

    fn change_or_add(&mut self, field: &Value, change: impl FnOnce(&mut Cell)) {
        let new = || {
            self.bytes += bytes_of(field);
            Cell::default()
        };
        let cell = match is_stamp(field) {
            true => self.stamped.entry(field.clone()).or_insert_with(new),
            false => self.named.entry_ref(field).or_insert_with(new),
        };
        self.bytes -= cell.size();
        change(cell);
        self.bytes += cell.size();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.stamped.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.named.len() + self.stamped.len()
    }

    pub(crate) fn cell(&self, field: &[u8]) -> Option<&Cell> {
        match is_stamp(field) {
            true => self.stamped.get(field),
            false => self.named.get(field),
        }
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &Value> {
        self.named.keys().chain(self.stamped.keys())
    }

    /// Iterates over the fields in descending order. The cost does not depend on the number of
    /// stamps, but on that of all other fields.
    pub(crate) fn fields_descending(&self) -> impl Iterator<Item = &Value> {
        let mut named: BinaryHeap<&Value> = self.named.keys().collect();
        descending(self.stamped.keys().rev(), std::iter::from_fn(move || named.pop()))
    }

    /// Returns the greatest field whose name is a stamp.
    pub(crate) fn last_stamp(&self) -> Option<&Value> {
        self.stamped.last_key_value().map(|(field, _)| field)
    }

    /// Adds a field, or a part of one, of another part.
    pub(crate) fn absorb_field(&mut self, field: Value, cell: Cell) {
        self.change_or_add(&field, |known| known.absorb(cell));
    }

    pub(crate) fn into_fields(self) -> impl Iterator<Item = (Value, Cell)> {
        self.named.into_iter().chain(self.stamped)
    }

    pub(crate) fn size(&self) -> usize {
        // Appending leaves the nodes of the ordered map about half full.
        let places = self.named.capacity() + 2 * self.stamped.len();
        self.bytes + places * size_of::<(Value, Cell)>()
    }
}

/// Merges two iterators over descending fields. A field of both occurs once.
pub(crate) fn descending<'a>(
    one: impl Iterator<Item = &'a Value>,
    other: impl Iterator<Item = &'a Value>,
) -> impl Iterator<Item = &'a Value> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) => match first.cmp(second) {
            Ordering::Greater => one.next(),
            Ordering::Less => other.next(),
            Ordering::Equal => one.next().and(other.next()),
        },
        (Some(_), None) => one.next(),
        (None, _) => other.next(),
    })
}
