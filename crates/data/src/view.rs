//! A version of a key, read without building it: a folded base, effects on top of it, and what the
//! reading transaction itself did.

use std::collections::BTreeSet;

use crate::state::{Cell, Dots, Shown};
use crate::{Context, Dot, Effect, State, Type, Value};

/// What a transaction sees of a key.
///
/// A large set or hash is never copied for a small question: one element or field is taken from the
/// base, and the effects that touch it are applied to the copy.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    base: &'a State,
    pending: &'a [(&'a Effect, Context<'a>)],
    unseen: &'a [Dot],
    own: Option<&'a Effect>,
}

impl<'a> View<'a> {
    /// A version that is all in the base.
    pub fn new(base: &'a State) -> Self {
        View { base, pending: &[], unseen: &[], own: None }
    }

    /// A base and the effects after it, in an order consistent with causality. `unseen` names the
    /// effects on the key that are not within the snapshot although the snapshot's entries reach
    /// their dots; an effect made from this view must not count as having observed them.
    pub fn with_pending(
        base: &'a State,
        pending: &'a [(&'a Effect, Context<'a>)],
        unseen: &'a [Dot],
    ) -> Self {
        View { base, pending, unseen, own: None }
    }

    /// The same with the reading transaction's own effect so far, which observed all of it.
    pub fn own(self, own: Option<&'a Effect>) -> Self {
        View { own, ..self }
    }

    pub(crate) fn unseen(&self) -> &'a [Dot] {
        self.unseen
    }

    fn is_plain(&self) -> bool {
        self.pending.is_empty() && self.own.is_none()
    }

    /// The visible type.
    pub(crate) fn kind(&self) -> Option<Type> {
        if self.set_len() > 0 {
            Some(Type::Set)
        } else if self.has_fields() {
            Some(Type::Hash)
        } else {
            self.text().exists().then_some(Type::String)
        }
    }

    /// Whether the key holds a visible set or hash; cheap for the usual key, which never did.
    pub(crate) fn has_collection(&self) -> bool {
        let may = |effect: &Effect| effect.set.is_some() || effect.hash.is_some();
        if self.base.set.is_none()
            && self.base.hash.is_none()
            && !self.pending.iter().any(|(effect, _)| may(effect))
            && !self.own.is_some_and(may)
        {
            return false;
        }
        self.set_len() > 0 || self.has_fields()
    }

    /// The string.
    pub(crate) fn text(&self) -> Shown {
        if self.is_plain() {
            return self.base.cell.show();
        }
        let mut cell = self.base.cell.clone();
        for (effect, context) in self.pending {
            if effect.clear {
                cell.remove_seen(effect.seen(*context));
            }
            cell.apply(&effect.cell, context.dot, effect.seen(*context));
        }
        if let Some(own) = self.own {
            cell.apply_own(own.clear, &own.cell);
        }
        cell.show()
    }

    /// A field of the hash.
    pub(crate) fn field(&self, field: &[u8]) -> Shown {
        let base = self.base.hash.as_ref().and_then(|hash| hash.cell(field));
        if self.is_plain() {
            return base.map_or(Shown::Nothing, Cell::show);
        }
        let mut cell = base.cloned().unwrap_or_default();
        for (effect, context) in self.pending {
            let seen = effect.seen(*context);
            if effect.clear {
                cell.remove_seen(seen);
            }
            for (other, removes, change) in effect.hash.iter().flat_map(|hash| &hash.fields) {
                if other.as_bytes() == field {
                    if *removes {
                        cell.remove_seen(seen);
                    }
                    cell.apply(change, context.dot, seen);
                }
            }
        }
        if let Some(own) = self.own {
            if own.clear {
                cell = Cell::default();
            }
            for (other, removes, change) in own.hash.iter().flat_map(|hash| &hash.fields) {
                if other.as_bytes() == field {
                    cell.apply_own(*removes, change);
                }
            }
        }
        cell.show()
    }

    /// Whether the set contains an element.
    pub(crate) fn contains(&self, element: &[u8]) -> bool {
        if self.is_plain() {
            return self.base.set.as_ref().is_some_and(|set| set.contains(element));
        }
        let mut dots = self.base.set.as_ref().map_or_else(Dots::default, |set| set.dots(element));
        let names = |values: &[Value]| values.iter().any(|value| value.as_bytes() == element);
        for (effect, context) in self.pending {
            let change = effect.set.as_ref();
            if effect.clear || change.is_some_and(|change| names(&change.removed)) {
                dots.remove_seen(effect.seen(*context));
            }
            if change.is_some_and(|change| names(&change.added)) {
                dots.add(context.dot, effect.seen(*context));
            }
        }
        let Some(own) = self.own else { return !dots.is_empty() };
        let change = own.set.as_ref();
        if own.clear || change.is_some_and(|change| names(&change.removed)) {
            dots.clear();
        }
        !dots.is_empty() || change.is_some_and(|change| names(&change.added))
    }

    /// How many elements the set has: the base's, corrected for those that effects touched.
    pub(crate) fn set_len(&self) -> usize {
        let base = self.base.set.as_ref().map_or(0, |set| set.len());
        if self.is_plain() {
            return base;
        }
        if self.clears() {
            return self.members().len();
        }
        let mut touched: BTreeSet<&Value> = BTreeSet::new();
        self.changed_elements(&mut touched);
        touched.into_iter().fold(base, |len, element| {
            let before = self.base.set.as_ref().is_some_and(|set| set.contains(element));
            len + usize::from(self.contains(element)) - usize::from(before)
        })
    }

    /// The elements of the set, sorted.
    pub(crate) fn members(&self) -> Vec<Value> {
        let mut elements: BTreeSet<&Value> =
            self.base.set.iter().flat_map(|set| set.elements()).collect();
        if !self.is_plain() {
            self.changed_elements(&mut elements);
            elements.retain(|element| self.contains(element));
        }
        elements.into_iter().cloned().collect()
    }

    /// The fields of the hash and what they show, sorted.
    pub(crate) fn pairs(&self) -> Vec<(Value, Value)> {
        let fields = self.candidate_fields();
        let pairs = fields.into_iter().map(|field| (field, self.field(field).into_value()));
        pairs.filter_map(|(field, value)| Some((field.clone(), value?))).collect()
    }

    fn has_fields(&self) -> bool {
        if self.is_plain() {
            return self.base.hash.is_some();
        }
        self.candidate_fields().into_iter().any(|field| self.field(field).exists())
    }

    /// Every field that may show something.
    fn candidate_fields(&self) -> BTreeSet<&'a Value> {
        let mut fields: BTreeSet<&Value> =
            self.base.hash.iter().flat_map(|hash| hash.fields()).collect();
        for change in self.effects().filter_map(|effect| effect.hash.as_ref()) {
            fields.extend(change.fields.iter().map(|(field, ..)| field));
        }
        fields
    }

    fn changed_elements(&self, elements: &mut BTreeSet<&'a Value>) {
        for change in self.effects().filter_map(|effect| effect.set.as_ref()) {
            elements.extend(change.removed.iter().chain(&change.added));
        }
    }

    fn clears(&self) -> bool {
        self.effects().any(|effect| effect.clear)
    }

    fn effects(&self) -> impl Iterator<Item = &'a Effect> + use<'a> {
        self.pending.iter().map(|(effect, _)| *effect).chain(self.own)
    }
}
