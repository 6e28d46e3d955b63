//! Which unknown outcomes are worth assuming.
//!
//! Whatever order there is, an unknown call in it can be put off, call by call, until it matters to
//! the next known one, or be left out if it never does. So the search assumes unknown calls only in
//! a row before a known call that each of the row helps, and these rules say which cannot. They
//! hold if every unknown call is plain; others always may help.

use super::Call;
use crate::history::{Answer, Op, Operation};

impl Call<'_> {
    /// Whether it is a single operation whose answer nobody knows.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.operations[..], [Operation { answer: None, .. }])
    }

    /// Whether assuming this plain unknown call can make `next` answer as it did.
    pub(super) fn may_help(&self, next: &Call<'_>) -> bool {
        let [Operation { op, .. }] = self.operations[..] else { return true };
        let [Operation { op: next, answer: Some(answer), .. }] = next.operations[..] else {
            return true;
        };
        match (op, answer) {
            (_, Answer::Error) => true,
            // What is not there in the end was put there in vain, and what is there taken away.
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
                // What empties a key makes room for another type.
                (Some((mine, ours)), Some((theirs, others))) => {
                    mine != theirs || ours.iter().any(|name| others.contains(name))
                }
                _ => true,
            },
        }
    }
}

/// The elements or fields that an operation is about, if it is about nothing else: which of the
/// two, and their names.
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
