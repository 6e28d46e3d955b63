//! A key of a store with a single copy, which executes operations one after another.
//!
//! Operations can be undone, so that a search can try several orders.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::history::{Answer, Op};
use crate::model::{Part, sum};

/// Contents of the key, by parts of one type.
#[derive(Debug, Default)]
pub(crate) struct Value {
    parts: BTreeMap<Part, String>,
    fingerprint: u64,
}

/// Replaced contents, to be restored from the last to the first.
pub(crate) type Undo = Vec<(Part, Option<String>)>;

impl Value {
    /// Returns a hash of the contents.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Executes an operation and returns its answer. Adds the replaced contents to `undo`.
    pub(crate) fn execute(&mut self, op: &Op, undo: &mut Undo) -> Answer {
        if self.refuses(op) {
            return Answer::Error;
        }
        match op {
            Op::Set(value) => {
                self.clear(undo);
                self.put(Part::Text, Some(value.clone()), undo);
                Answer::Ok
            }
            Op::SetNew(value) => {
                let is_new = self.parts.is_empty();
                if is_new {
                    self.put(Part::Text, Some(value.clone()), undo);
                }
                Answer::Int(i64::from(is_new))
            }
            Op::Delete => Answer::Int(i64::from(self.clear(undo))),
            Op::Exists => Answer::Int(i64::from(!self.parts.is_empty())),
            Op::Get => Answer::Values(vec![self.parts.get(&Part::Text).cloned()]),
            Op::Add(by) => self.add(Part::Text, *by, undo),
            Op::SetAdd(elements) => {
                let present = || Some(String::new());
                self.count(elements, |value, e| value.put(Part::Element(e), present(), undo))
            }
            Op::SetRemove(elements) => {
                self.count(elements, |value, e| value.put(Part::Element(e), None, undo))
            }
            Op::Members => {
                Answer::Members(self.pairs().into_iter().map(|(name, _)| name).collect())
            }
            Op::Contains(element) => {
                Answer::Int(i64::from(self.parts.contains_key(&Part::Element(element.clone()))))
            }
            Op::Len => Answer::Int(self.parts.len() as i64),
            Op::FieldSet(field, value) => {
                let part = Part::Field(field.clone());
                let is_new = !self.parts.contains_key(&part);
                self.put(part, Some(value.clone()), undo);
                Answer::Int(i64::from(is_new))
            }
            Op::FieldAdd(field, by) => self.add(Part::Field(field.clone()), *by, undo),
            Op::FieldRemove(fields) => {
                self.count(fields, |value, f| value.put(Part::Field(f), None, undo))
            }
            Op::Fields(fields) => {
                let field = |field: &String| self.parts.get(&Part::Field(field.clone())).cloned();
                Answer::Values(fields.iter().map(field).collect())
            }
            Op::Pairs => Answer::Pairs(self.pairs()),
            Op::Newest(most) => {
                let newest = self.pairs().into_iter().rev().map(|(_, value)| Some(value));
                Answer::Values(newest.take(usize::try_from(*most).unwrap_or(usize::MAX)).collect())
            }
        }
    }

    /// Undoes operations.
    pub(crate) fn take_back(&mut self, undo: Undo) {
        for (part, content) in undo.into_iter().rev() {
            self.put(part, content, &mut Undo::new());
        }
    }

    /// Returns whether the key holds another type than the operation needs.
    fn refuses(&self, op: &Op) -> bool {
        let Some(part) = self.parts.keys().next() else { return false };
        match op {
            Op::Set(_) | Op::SetNew(_) | Op::Delete | Op::Exists => false,
            Op::Get | Op::Add(_) => *part != Part::Text,
            Op::SetAdd(_) | Op::SetRemove(_) | Op::Members | Op::Contains(_) | Op::Len => {
                !matches!(part, Part::Element(_))
            }
            Op::FieldSet(..)
            | Op::FieldAdd(..)
            | Op::FieldRemove(_)
            | Op::Fields(_)
            | Op::Pairs
            | Op::Newest(_) => !matches!(part, Part::Field(_)),
        }
    }

    /// Sets or removes a part. Returns whether that changed anything.
    fn put(&mut self, part: Part, content: Option<String>, undo: &mut Undo) -> bool {
        if self.parts.get(&part) == content.as_ref() {
            return false;
        }
        let old = match &content {
            Some(content) => {
                self.fingerprint ^= mark(&part, content);
                self.parts.insert(part.clone(), content.clone())
            }
            None => self.parts.remove(&part),
        };
        if let Some(old) = &old {
            self.fingerprint ^= mark(&part, old);
        }
        undo.push((part, old));
        true
    }

    fn clear(&mut self, undo: &mut Undo) -> bool {
        let parts: Vec<Part> = self.parts.keys().cloned().collect();
        let existed = !parts.is_empty();
        parts.into_iter().for_each(|part| {
            self.put(part, None, undo);
        });
        existed
    }

    fn add(&mut self, part: Part, by: i64, undo: &mut Undo) -> Answer {
        let answer = sum(self.parts.get(&part).cloned(), by);
        if let Answer::Int(number) = answer {
            self.put(part, Some(number.to_string()), undo);
        }
        answer
    }

    /// Returns how many of the names were changed.
    fn count(
        &mut self,
        names: &[String],
        mut change: impl FnMut(&mut Self, String) -> bool,
    ) -> Answer {
        let changed = names.iter().filter(|name| change(self, (*name).clone()));
        Answer::Int(changed.count() as i64)
    }

    fn pairs(&self) -> Vec<(String, String)> {
        let pair = |(part, content): (&Part, &String)| match part {
            Part::Element(name) | Part::Field(name) => Some((name.clone(), content.clone())),
            Part::Text => None,
        };
        self.parts.iter().filter_map(pair).collect()
    }
}

/// Returns a part's contribution to the fingerprint.
fn mark(part: &Part, content: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (part, content).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::Origin;
    use crate::model::{Key, has_effect};

    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["x", "y", "7", ""]).prop_map(str::to_owned)
    }

    fn names() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(name(), 0..3)
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            Just(Op::Get),
            name().prop_map(Op::Set),
            name().prop_map(Op::SetNew),
            Just(Op::Delete),
            Just(Op::Exists),
            (-3..4i64).prop_map(Op::Add),
            Just(Op::Add(i64::MAX)),
            names().prop_map(Op::SetAdd),
            names().prop_map(Op::SetRemove),
            Just(Op::Members),
            name().prop_map(Op::Contains),
            Just(Op::Len),
            (name(), name()).prop_map(|(field, value)| Op::FieldSet(field, value)),
            (name(), -3..4i64).prop_map(|(field, by)| Op::FieldAdd(field, by)),
            names().prop_map(Op::FieldRemove),
            names().prop_map(Op::Fields),
            Just(Op::Pairs),
            (0..4u64).prop_map(Op::Newest),
        ]
    }

    proptest! {
        /// The declarative model returns the same answers if every operation observes all earlier
        /// ones.
        #[test]
        fn it_answers_as_the_declared_meaning(ops in prop::collection::vec(op(), 0..30)) {
            let (mut value, mut key) = (Value::default(), Key::default());
            for (at, op) in ops.iter().enumerate() {
                let answer = key.answer(op);
                prop_assert_eq!(&value.execute(op, &mut Undo::new()), &answer, "{:?}", op);
                if has_effect(op, &answer) {
                    key.apply(op, at, (at as u64, Origin::Site(0)), &|_| true);
                }
            }
        }

        #[test]
        fn undone_operations_leave_no_trace(
            before in prop::collection::vec(op(), 0..10),
            after in prop::collection::vec(op(), 0..10),
        ) {
            let mut value = Value::default();
            before.iter().for_each(|op| { value.execute(op, &mut Undo::new()); });
            let (parts, fingerprint) = (value.parts.clone(), value.fingerprint());
            let mut undo = Undo::new();
            after.iter().for_each(|op| { value.execute(op, &mut undo); });
            value.take_back(undo);
            prop_assert_eq!((&value.parts, value.fingerprint()), (&parts, fingerprint));
        }
    }
}
