//! A version of a key that is read without materializing it: a folded base, effects on top of it,
//! and the reading transaction's own effect.

use std::collections::BTreeSet;

use crate::state::{AddWinsSet, Cell, Dots, Hash, Shown, descending};
use crate::{CellChange, Context, Dot, Effect, HashChange, SetChange, State, Type, Value};

/// Version of a key that a transaction sees.
///
/// Reading one element or field never copies a large set or hash. The view copies the element or
/// field from the base, and applies to the copy the effects that change it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    base: &'a State,
    pending: &'a [(&'a Effect, Context<'a>)],
    unseen: &'a [Dot],
    own: Option<&'a Effect>,
}

impl<'a> View<'a> {
    /// Creates a version without effects on top of the base.
    pub fn new(base: &'a State) -> Self {
        View { base, pending: &[], unseen: &[], own: None }
    }

    /// Creates a version from a base and the effects after it, in an order consistent with
    /// causality. `unseen` lists the effects on the key that are outside the snapshot although the
    /// snapshot's entries reach their dots. An effect that is created from this view must not count
    /// as having observed them.
    pub fn with_pending(
        base: &'a State,
        pending: &'a [(&'a Effect, Context<'a>)],
        unseen: &'a [Dot],
    ) -> Self {
        View { base, pending, unseen, own: None }
    }

    /// Adds the reading transaction's own effect so far, which has observed the whole version.
    pub fn own(self, own: Option<&'a Effect>) -> Self {
        View { own, ..self }
    }

    pub(crate) fn unseen(&self) -> &'a [Dot] {
        self.unseen
    }

    fn is_plain(&self) -> bool {
        self.pending.is_empty() && self.own.is_none()
    }

    /// Returns the base and the effects under the transaction's own effect; nothing if the own
    /// effect removes everything.
    fn below(&self) -> (Option<&'a State>, &'a [(&'a Effect, Context<'a>)]) {
        match self.own {
            Some(own) if own.clear => (None, &[]),
            _ => (Some(self.base), self.pending),
        }
    }

    fn base_set(&self) -> Option<&'a AddWinsSet> {
        self.below().0?.set.as_deref()
    }

    fn base_hash(&self) -> Option<&'a Hash> {
        self.below().0?.hash.as_deref()
    }

    /// Returns the transaction's own change of the string.
    pub(crate) fn own_change(&self) -> Option<&'a CellChange> {
        self.own.map(|own| &own.cell)
    }

    /// Returns the transaction's own change of a field.
    pub(crate) fn own_field_change(&self, field: &[u8]) -> Option<&'a CellChange> {
        Some(self.own?.hash.as_ref()?.of_field(field)?.1)
    }

    /// Returns the visible type.
    pub(crate) fn kind(&self) -> Option<Type> {
        if self.has_members() {
            Some(Type::Set)
        } else if self.has_fields() {
            Some(Type::Hash)
        } else {
            self.text().exists().then_some(Type::String)
        }
    }

    /// Returns whether the key holds a visible set or hash. The call is cheap for a key that never
    /// held one.
    pub(crate) fn has_collection(&self) -> bool {
        let may = |effect: &Effect| effect.set.is_some() || effect.hash.is_some();
        if self.base.set.is_none()
            && self.base.hash.is_none()
            && !self.pending.iter().any(|(effect, _)| may(effect))
            && !self.own.is_some_and(may)
        {
            return false;
        }
        self.has_members() || self.has_fields()
    }

    /// Returns the visible string.
    pub(crate) fn text(&self) -> Shown {
        if self.is_plain() {
            return self.base.cell.show();
        }
        let (base, pending) = self.below();
        let removes = pending.iter().any(|(effect, _)| effect.clear || effect.cell.removes());
        let mut cell = base.map_or_else(Cell::default, |base| base.cell.for_changes(removes));
        for (effect, context) in pending {
            let seen = effect.seen(*context);
            if effect.clear {
                cell.remove_seen(seen);
            }
            cell.apply(&effect.cell, context.dot, seen);
        }
        if let Some(own) = self.own {
            cell.apply_own(false, &own.cell);
        }
        cell.show()
    }

    /// Returns the visible value of a hash field.
    pub(crate) fn field(&self, field: &[u8]) -> Shown {
        let base = self.base_hash().and_then(|hash| hash.cell(field));
        if self.is_plain() {
            return base.map_or(Shown::Nothing, Cell::show);
        }
        let of_field = |effect: &'a Effect| effect.hash.as_ref()?.of_field(field);
        let pending = self.below().1;
        let removes = pending.iter().any(|(effect, _)| {
            let of_field = of_field(effect);
            effect.clear || of_field.is_some_and(|(removes, change)| removes || change.removes())
        });
        let mut cell = base.map_or_else(Cell::default, |base| base.for_changes(removes));
        for (effect, context) in pending {
            let (seen, change) = (effect.seen(*context), of_field(effect));
            if effect.clear || change.is_some_and(|(removes, _)| removes) {
                cell.remove_seen(seen);
            }
            if let Some((_, change)) = change {
                cell.apply(change, context.dot, seen);
            }
        }
        if let Some((removes, change)) = self.own.and_then(of_field) {
            cell.apply_own(removes, change);
        }
        cell.show()
    }

    /// Returns whether the set contains an element.
    pub(crate) fn contains(&self, element: &[u8]) -> bool {
        let base = self.base_set();
        if self.is_plain() {
            return base.is_some_and(|set| set.contains(element));
        }
        let own = self.own.and_then(|own| own.set.as_ref());
        if own.is_some_and(|own| own.adds(element)) {
            return true;
        }
        if own.is_some_and(|own| own.removes(element)) {
            return false;
        }
        let mut dots = base.map_or_else(Dots::default, |set| set.dots(element));
        for (effect, context) in self.below().1 {
            let (seen, change) = (effect.seen(*context), effect.set.as_ref());
            if effect.clear || change.is_some_and(|change| change.removes(element)) {
                dots.remove_seen(seen);
            }
            if change.is_some_and(|change| change.adds(element)) {
                dots.add(context.dot, seen);
            }
        }
        !dots.is_empty()
    }

    /// Returns the number of elements of the set: the number in the base, corrected for the
    /// elements that effects change.
    pub fn set_len(&self) -> usize {
        let base = self.base_set();
        let len = base.map_or(0, |set| set.len());
        if self.is_plain() {
            return len;
        }
        if self.may_clear() {
            return self.members().len();
        }
        self.changed_elements().into_iter().fold(len, |len, element| {
            let before = base.is_some_and(|set| set.contains(element));
            len + usize::from(self.contains(element)) - usize::from(before)
        })
    }

    /// Returns the elements of the set, sorted.
    pub(crate) fn members(&self) -> Vec<Value> {
        let mut elements: BTreeSet<&Value> =
            self.base_set().into_iter().flat_map(|set| set.elements()).collect();
        let changed = self.changed_elements();
        elements.extend(&changed);
        if self.may_clear() {
            elements.retain(|element| self.contains(element));
        } else {
            elements.retain(|element| !changed.contains(*element) || self.contains(element));
        }
        elements.into_iter().cloned().collect()
    }

    /// Returns the fields of the hash with their visible values, sorted.
    pub(crate) fn pairs(&self) -> Vec<(Value, Value)> {
        let mut fields: BTreeSet<&Value> =
            self.base_hash().into_iter().flat_map(|hash| hash.fields()).collect();
        fields.extend(self.changed_fields());
        let pairs = fields.into_iter().map(|field| (field, self.field(field).into_value()));
        pairs.filter_map(|(field, value)| Some((field.clone(), value?))).collect()
    }

    /// Iterates over the visible values of the hash, in descending order of their fields. If the
    /// fields are stamps, the cost of each value does not depend on the number of fields.
    pub(crate) fn newest(&self) -> impl Iterator<Item = Value> + use<'a> {
        let base = self.base_hash().into_iter().flat_map(|hash| hash.fields_descending());
        let fields = descending(base, self.changed_fields().into_iter().rev());
        let view = *self;
        fields.filter_map(move |field| view.field(field).into_value())
    }

    /// Returns whether the set has an element. May inspect many elements if effects clear the key.
    fn has_members(&self) -> bool {
        let base = self.base_set();
        let len = base.map_or(0, |set| set.len());
        let touched = self.changes().map(|(set, _)| set.map_or(0, SetChange::len)).sum();
        if !self.may_clear() && len > touched {
            return true;
        }
        let mut base = base.into_iter().flat_map(|set| set.elements());
        base.any(|element| self.contains(element))
            || self.changed_elements().into_iter().any(|element| self.contains(element))
    }

    /// Returns whether the hash has a field. May inspect many fields if effects clear the key.
    fn has_fields(&self) -> bool {
        let base = self.base_hash();
        let len = base.map_or(0, |hash| hash.len());
        let touched =
            self.changes().map(|(_, hash)| hash.map_or(0, |hash| hash.fields.len())).sum();
        if !self.may_clear() && len > touched {
            return true;
        }
        let mut base = base.into_iter().flat_map(|hash| hash.fields());
        base.any(|field| self.field(field).exists())
            || self.changed_fields().into_iter().any(|field| self.field(field).exists())
    }

    /// Returns whether an effect on top of the base removes what it observed of the whole key.
    fn may_clear(&self) -> bool {
        self.below().1.iter().any(|(effect, _)| effect.clear)
    }

    fn changed_elements(&self) -> BTreeSet<&'a Value> {
        let sets = self.changes().filter_map(|(set, _)| set);
        sets.flat_map(|set| set.removed.iter().chain(&set.added)).collect()
    }

    fn changed_fields(&self) -> BTreeSet<&'a Value> {
        let hashes = self.changes().filter_map(|(_, hash)| hash);
        hashes.flat_map(|hash| hash.fields.iter().map(|(field, ..)| field)).collect()
    }

    /// Iterates over the changes of collections on top of the base.
    fn changes(
        &self,
    ) -> impl Iterator<Item = (Option<&'a SetChange>, Option<&'a HashChange>)> + use<'a> {
        let effects = self.below().1.iter().map(|(effect, _)| *effect).chain(self.own);
        effects.map(|effect| (effect.set.as_deref(), effect.hash.as_deref()))
    }
}
