use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::Cell;
use crate::effect::Seen;
use crate::{Dot, HashChange, Value};

/// Fields with a register and counter each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub(crate) struct Hash {
    fields: HashMap<Value, Cell, FixedState>,
    /// Sum of `bytes_of` over all fields, maintained so that the size is known in constant time.
    #[serde(skip)]
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
        Hash { fields, bytes }
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
                    self.fields.remove(field);
                    self.bytes -= bytes_of(field);
                }
            }
        }
    }

    pub(crate) fn remove_all_seen(&mut self, seen: Seen<'_>) {
        self.bytes = 0;
        self.fields.retain(|field, cell| {
            cell.remove_seen(seen);
            if !cell.is_empty() {
                self.bytes += bytes_of(field) + cell.size();
            }
            !cell.is_empty()
        });
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
        let cell = self.fields.get_mut(field)?;
        self.bytes -= cell.size();
        let result = change(cell);
        self.bytes += cell.size();
        Some(result)
    }

    fn change_or_add(&mut self, field: &Value, change: impl FnOnce(&mut Cell)) {
        let cell = self.fields.entry_ref(field).or_insert_with(|| {
            self.bytes += bytes_of(field);
            Cell::default()
        });
        self.bytes -= cell.size();
        change(cell);
        self.bytes += cell.size();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn cell(&self, field: &[u8]) -> Option<&Cell> {
        self.fields.get(field)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &Value> {
        self.fields.keys()
    }

    /// Adds a field, or a part of one, of another part.
    pub(crate) fn absorb_field(&mut self, field: Value, cell: Cell) {
        self.change_or_add(&field, |known| known.absorb(cell));
    }

    pub(crate) fn into_fields(self) -> impl Iterator<Item = (Value, Cell)> {
        self.fields.into_iter()
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes + self.fields.capacity() * size_of::<(Value, Cell)>()
    }
}
