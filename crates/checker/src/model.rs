//! The declarative meaning of a key, given the visible transactions.
//!
//! Nothing is merged or folded: every write is a fact, and a fact is live unless a visible removal
//! observed it.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Answer, Op, Origin};

/// The part of a key that a fact or a removal concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Text,
    Element(String),
    Field(String),
}

#[derive(Clone, Debug)]
enum Content {
    Assigned(String),
    Added(i64),
    Present,
}

/// A live write: its part, its content, its commit time and origin, and the number of its writer in
/// the evaluation.
#[derive(Clone, Debug)]
struct Fact {
    part: Part,
    content: Content,
    dot: (u64, Origin),
    writer: usize,
}

/// The live facts of a key, for one set of visible transactions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    facts: Vec<Fact>,
}

impl Key {
    /// Applies an operation that [`has_effect`]. `observed` returns whether its transaction
    /// observed an earlier writer; it includes itself.
    pub(crate) fn apply(
        &mut self,
        op: &Op,
        writer: usize,
        dot: (u64, Origin),
        observed: &dyn Fn(usize) -> bool,
    ) {
        let mut remove = |part: &dyn Fn(&Part) -> bool| {
            self.facts.retain(|fact| !(part(&fact.part) && observed(fact.writer)));
        };
        let fact = |part: Part, content: Content| Fact { part, content, dot, writer };
        match op {
            Op::Set(value) | Op::SetNew(value) => {
                remove(&|_| true);
                let fact = fact(Part::Text, Content::Assigned(value.clone()));
                self.facts.push(fact);
            }
            Op::Delete => remove(&|_| true),
            Op::Add(by) => self.facts.push(fact(Part::Text, Content::Added(*by))),
            Op::SetAdd(elements) => {
                for element in elements {
                    self.facts.push(fact(Part::Element(element.clone()), Content::Present));
                }
            }
            Op::SetRemove(elements) => {
                remove(&|part| matches!(part, Part::Element(e) if elements.contains(e)));
            }
            Op::FieldSet(field, value) => {
                remove(&|part| matches!(part, Part::Field(f) if f == field));
                self.facts.push(fact(Part::Field(field.clone()), Content::Assigned(value.clone())));
            }
            Op::FieldAdd(field, by) => {
                self.facts.push(fact(Part::Field(field.clone()), Content::Added(*by)));
            }
            Op::FieldRemove(fields) => {
                remove(&|part| matches!(part, Part::Field(f) if fields.contains(f)));
            }
            _ => {}
        }
    }

    /// Returns the answer of an operation in this state.
    pub(crate) fn answer(&self, op: &Op) -> Answer {
        let members = self.members();
        let pairs = self.pairs();
        let kind = if !members.is_empty() {
            's'
        } else if !pairs.is_empty() {
            'h'
        } else if self.show(&Part::Text).is_some() {
            't'
        } else {
            '-'
        };
        let wanted = match op {
            Op::Get | Op::Add(_) => 't',
            Op::SetAdd(_) | Op::SetRemove(_) | Op::Members | Op::Contains(_) | Op::Len => 's',
            Op::FieldSet(..)
            | Op::FieldAdd(..)
            | Op::FieldRemove(_)
            | Op::Fields(_)
            | Op::Pairs
            | Op::Newest(_) => 'h',
            Op::Set(_) | Op::SetNew(_) | Op::Delete | Op::Exists => kind,
        };
        if kind != '-' && kind != wanted {
            return Answer::Error;
        }
        let distinct =
            |elements: &[String]| elements.iter().cloned().collect::<BTreeSet<_>>().into_iter();
        let field = |field: &String| self.show(&Part::Field(field.clone()));
        match op {
            Op::Get => Answer::Values(vec![self.show(&Part::Text)]),
            Op::Set(_) => Answer::Ok,
            Op::SetNew(_) => Answer::Int(i64::from(kind == '-')),
            Op::Delete | Op::Exists => Answer::Int(i64::from(kind != '-')),
            Op::Add(by) => sum(self.show(&Part::Text), *by),
            Op::SetAdd(elements) => {
                count(distinct(elements).filter(|element| !members.contains(element)))
            }
            Op::SetRemove(elements) => {
                count(distinct(elements).filter(|element| members.contains(element)))
            }
            Op::Members => Answer::Members(members.into_iter().collect()),
            Op::Contains(element) => Answer::Int(i64::from(members.contains(element))),
            Op::Len => Answer::Int(members.len() as i64),
            Op::FieldSet(name, _) => Answer::Int(i64::from(field(name).is_none())),
            Op::FieldAdd(name, by) => sum(field(name), *by),
            Op::FieldRemove(names) => count(distinct(names).filter(|name| field(name).is_some())),
            Op::Fields(names) => Answer::Values(names.iter().map(field).collect()),
            Op::Pairs => Answer::Pairs(pairs.into_iter().collect()),
            Op::Newest(most) => {
                let most = usize::try_from(*most).unwrap_or(usize::MAX);
                Answer::Values(pairs.into_values().rev().take(most).map(Some).collect())
            }
        }
    }

    fn members(&self) -> BTreeSet<String> {
        let elements = self.facts.iter().filter_map(|fact| match &fact.part {
            Part::Element(element) => Some(element.clone()),
            _ => None,
        });
        elements.collect()
    }

    fn pairs(&self) -> BTreeMap<String, String> {
        let mut fields: BTreeMap<&String, Shown> = BTreeMap::new();
        for fact in &self.facts {
            if let Part::Field(field) = &fact.part {
                fields.entry(field).or_default().include(fact);
            }
        }
        let shown = fields.into_iter();
        shown.filter_map(|(field, shown)| Some((field.clone(), shown.text()?))).collect()
    }

    fn show(&self, part: &Part) -> Option<String> {
        let mut shown = Shown::default();
        self.facts.iter().filter(|fact| fact.part == *part).for_each(|fact| shown.include(fact));
        shown.text()
    }
}

/// The visible value of a register to which a counter is added.
#[derive(Default)]
struct Shown<'a> {
    assigned: Option<((u64, Origin), &'a String)>,
    added: Option<i128>,
}

impl<'a> Shown<'a> {
    fn include(&mut self, fact: &'a Fact) {
        match &fact.content {
            Content::Assigned(value) => {
                if self.assigned.is_none_or(|(dot, _)| fact.dot >= dot) {
                    self.assigned = Some((fact.dot, value));
                }
            }
            Content::Added(by) => self.added = Some(self.added.unwrap_or(0) + i128::from(*by)),
            Content::Present => {}
        }
    }

    fn text(&self) -> Option<String> {
        match (self.assigned, self.added) {
            (None, None) => None,
            (Some((_, value)), None) => Some(value.clone()),
            (None, Some(sum)) => Some(sum.to_string()),
            (Some((_, value)), Some(sum)) => Some(match canonical(value) {
                Some(base) => (i128::from(base) + sum).to_string(),
                None => value.clone(),
            }),
        }
    }
}

/// Returns whether an operation with this answer has an effect. A removal has an effect on the
/// facts that it observed.
pub(crate) fn has_effect(op: &Op, answer: &Answer) -> bool {
    let exists_already = matches!(op, Op::SetNew(_)) && *answer == Answer::Int(0);
    *answer != Answer::Error && !exists_already
}

fn count(things: impl Iterator) -> Answer {
    Answer::Int(things.count() as i64)
}

/// Returns the answer of adding to a number; a missing number counts as zero.
pub(crate) fn sum(shown: Option<String>, by: i64) -> Answer {
    let base = match shown {
        None => Some(0),
        Some(value) => canonical(&value),
    };
    base.and_then(|base| base.checked_add(by)).map_or(Answer::Error, Answer::Int)
}

fn canonical(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}
