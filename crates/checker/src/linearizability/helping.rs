//! Rules that select the calls with unknown outcomes that the search assumes to have taken effect.
//!
//! In any order, an unknown call can be postponed, call by call, until it matters to the next known
//! one, or be left out if it never does. The search therefore assumes unknown calls only in a row
//! before a known call that each of them helps, and these rules exclude calls that cannot help.
//! They hold if every unknown call is plain; other calls may always help.

use super::Call;
use crate::history::{Answer, Op, Operation};

impl Call<'_> {
    /// Returns whether it is a single operation whose answer is not known.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.operations[..], [Operation { answer: None, .. }])
    }

    /// Returns whether assuming this plain unknown call can make `next` answer as it did.
    pub(super) fn may_help(&self, next: &Call<'_>) -> bool {
        let [Operation { op, .. }] = self.operations[..] else { return true };
        let [Operation { op: next, answer: Some(answer), .. }] = next.operations[..] else {
            return true;
        };
        match (op, answer) {
            (_, Answer::Error) => true,
            // Elements that are absent at the end were added in vain, and elements that are present
            // were removed in vain.
            (Op::SetAdd(elements), Answer::Members(members)) => {
                elements.iter().any(|element| members.contains(element))
            }
            (Op::SetRemove(elements), Answer::Members(members)) => {
                elements.iter().any(|element| !members.contains(element))
            }
            (Op::FieldSet(field, _) | Op::FieldAdd(field, _), Answer::Pairs(pairs)) => {
                pairs.iter().any(|(shown, _)| shown == field)
            }
            _ => match (parts(op), parts(next)) {
                // An operation that empties a key allows another type.
                (Some((mine, ours)), Some((theirs, others))) => {
                    mine != theirs || ours.iter().any(|name| others.contains(name))
                }
                _ => true,
            },
        }
    }
}

/// Returns the elements or fields of an operation, and which of the two they are; `None` if the
/// operation concerns anything else.
fn parts(op: &Op) -> Option<(Kind, &[String])> {
    match op {
        Op::SetAdd(names) | Op::SetRemove(names) => Some((Kind::Elements, names)),
        Op::Contains(name) => Some((Kind::Elements, std::slice::from_ref(name))),
        Op::FieldRemove(names) | Op::Fields(names) => Some((Kind::Fields, names)),
        Op::FieldSet(name, _) | Op::FieldAdd(name, _) => {
            Some((Kind::Fields, std::slice::from_ref(name)))
        }
        _ => None,
    }
}

#[derive(PartialEq)]
enum Kind {
    Elements,
    Fields,
}
