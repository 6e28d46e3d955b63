//! Declarative meaning of the types: a written fact lives unless a removal that observed it exists.

use std::collections::{BTreeMap, BTreeSet};

use solera_data::{Dot, Op, OpError, Outcome, Type, Value};

use crate::world::Transaction;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Text,
    Element(Value),
    Field(Value),
}

struct Fact {
    part: Part,
    assigned: Option<Value>,
    added: Option<i64>,
    dot: Dot,
    writer: usize,
}

/// Everything a client can read after `transactions`, a causally closed set.
pub(crate) struct Meaning {
    members: BTreeSet<Value>,
    fields: BTreeMap<Value, Value>,
    text: Option<Value>,
}

impl Meaning {
    pub(crate) fn of(transactions: &[&Transaction]) -> Self {
        let mut order: Vec<usize> = (0..transactions.len()).collect();
        order.sort_by_key(|t| transactions[*t].dot);
        let mut facts: Vec<Fact> = Vec::new();
        for t in order {
            let transaction = transactions[t];
            for op in &transaction.ops {
                facts.retain(|fact| {
                    let saw = fact.writer == t
                        || transactions[fact.writer].is_within(&transaction.observed);
                    !(saw && removes(op, &fact.part))
                });
                for (part, assigned, added) in writes(op) {
                    facts.push(Fact { part, assigned, added, dot: transaction.dot, writer: t });
                }
            }
        }
        let mut meaning = Meaning { members: BTreeSet::new(), fields: BTreeMap::new(), text: None };
        let parts: BTreeSet<Part> = facts.iter().map(|fact| fact.part.clone()).collect();
        for part in parts {
            let shown = show(facts.iter().filter(|fact| fact.part == part));
            match (part, shown) {
                (Part::Element(element), _) => {
                    meaning.members.insert(element);
                }
                (Part::Field(field), Some(value)) => {
                    meaning.fields.insert(field, value);
                }
                (Part::Text, shown) => meaning.text = shown,
                (Part::Field(_), None) => {}
            }
        }
        meaning
    }

    /// Returns the answer of a reading operation.
    pub(crate) fn read(&self, op: &Op) -> Result<Outcome, OpError> {
        let kind = if !self.members.is_empty() {
            Some(Type::Set)
        } else if !self.fields.is_empty() {
            Some(Type::Hash)
        } else {
            self.text.is_some().then_some(Type::String)
        };
        let wanted = match op {
            Op::Get => Some(Type::String),
            Op::SetMembers | Op::SetLen | Op::SetContains(_) => Some(Type::Set),
            Op::HashGet(_) | Op::HashGetMany(_) | Op::HashGetAll | Op::HashNewest(_) => {
                Some(Type::Hash)
            }
            _ => None,
        };
        if wanted.is_some() && kind.is_some() && wanted != kind {
            return Err(OpError::WrongType);
        }
        let bulk = |value: Option<&Value>| value.cloned().map_or(Outcome::Nil, Outcome::Bulk);
        let value_of = |field: &Value| self.fields.get(field).cloned();
        Ok(match op {
            Op::Get => bulk(self.text.as_ref()),
            Op::Exists => Outcome::Int(i64::from(kind.is_some())),
            Op::Type => Outcome::Type(kind),
            Op::SetMembers => Outcome::Members(self.members.iter().cloned().collect()),
            Op::SetLen => Outcome::Int(self.members.len() as i64),
            Op::SetContains(element) => Outcome::Int(i64::from(self.members.contains(element))),
            Op::HashGet(field) => bulk(self.fields.get(field)),
            Op::HashGetMany(fields) => Outcome::Values(fields.iter().map(value_of).collect()),
            Op::HashGetAll => Outcome::Pairs(self.fields.clone().into_iter().collect()),
            Op::HashNewest(most) => {
                let newest = self.fields.values().rev().take(*most as usize);
                Outcome::Values(newest.cloned().map(Some).collect())
            }
            update => panic!("{update:?} does not only read"),
        })
    }
}

fn removes(op: &Op, part: &Part) -> bool {
    match (op, part) {
        (Op::Set(_) | Op::Delete, _) => true,
        (Op::SetRemove(gone), Part::Element(element)) => gone.contains(element),
        (Op::HashDelete(gone), Part::Field(field)) => gone.contains(field),
        (Op::HashSet(pairs), Part::Field(field)) => pairs.iter().any(|(other, _)| other == field),
        _ => false,
    }
}

fn writes(op: &Op) -> Vec<(Part, Option<Value>, Option<i64>)> {
    match op {
        Op::Set(value) => vec![(Part::Text, Some(value.clone()), None)],
        Op::IncrBy(by) => vec![(Part::Text, None, Some(*by))],
        Op::SetAdd(elements) => {
            elements.iter().map(|element| (Part::Element(element.clone()), None, None)).collect()
        }
        Op::HashSet(pairs) => {
            let last: BTreeMap<&Value, &Value> = pairs.iter().map(|(f, v)| (f, v)).collect();
            let write = |(f, v): (&Value, &Value)| (Part::Field(f.clone()), Some(v.clone()), None);
            last.into_iter().map(write).collect()
        }
        Op::HashIncrBy(field, by) => vec![(Part::Field(field.clone()), None, Some(*by))],
        _ => Vec::new(),
    }
}

fn show<'a>(facts: impl Iterator<Item = &'a Fact>) -> Option<Value> {
    let (mut assigned, mut sum): (Option<(Dot, Value)>, Option<i64>) = (None, None);
    for fact in facts {
        if let Some(value) = &fact.assigned
            && assigned.as_ref().is_none_or(|(dot, _)| fact.dot >= *dot)
        {
            assigned = Some((fact.dot, value.clone()));
        }
        if let Some(by) = fact.added {
            sum = Some(sum.unwrap_or(0) + by);
        }
    }
    let number = |value: &Value| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
    let decimal = |number: i64| Value::from(number.to_string().as_str());
    match (assigned, sum) {
        (Some((_, value)), Some(sum)) => Some(number(&value).map_or(value, |b| decimal(b + sum))),
        (Some((_, value)), None) => Some(value),
        (None, sum) => sum.map(decimal),
    }
}
