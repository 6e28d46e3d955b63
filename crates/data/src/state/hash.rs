use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::Cell;
use crate::effect::Seen;
use crate::{Dot, HashChange, Value};

/// Fields with a register and counter each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hash {
    fields: HashMap<Value, Cell, FixedState>,
}

impl Hash {
    pub(crate) fn apply(&mut self, change: &HashChange, dot: Dot, seen: Seen<'_>) {
        for (field, removes, change) in &change.fields {
            if !change.is_noop() {
                let cell = self.fields.entry_ref(field).or_default();
                if *removes {
                    cell.remove_seen(seen);
                }
                cell.apply(change, dot, seen);
            } else if *removes && let Some(cell) = self.fields.get_mut(field) {
                cell.remove_seen(seen);
                if cell.is_empty() {
                    self.fields.remove(field);
                }
            }
        }
    }

    pub(crate) fn remove_all_seen(&mut self, seen: Seen<'_>) {
        self.fields.retain(|_, cell| {
            cell.remove_seen(seen);
            !cell.is_empty()
        });
    }

    pub(crate) fn settle(&mut self, change: &HashChange, dot: Dot) {
        for (field, _, change) in &change.fields {
            if change.add.is_some()
                && let Some(cell) = self.fields.get_mut(field)
            {
                cell.settle(dot);
            }
        }
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

    /// Takes a field, or some of one, of another part.
    pub(crate) fn absorb_field(&mut self, field: Value, cell: Cell) {
        self.fields.entry(field).or_default().absorb(cell);
    }

    pub(crate) fn into_fields(self) -> impl Iterator<Item = (Value, Cell)> {
        self.fields.into_iter()
    }

    pub(crate) fn size(&self) -> usize {
        let values: usize =
            self.fields.iter().map(|(field, cell)| field.len() + 16 + cell.size()).sum();
        values + self.fields.capacity() * size_of::<(Value, Cell)>()
    }
}
