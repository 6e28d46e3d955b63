//! Parts of a key's value that operations read and write.

use crate::{Op, Value};

/// A part of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The whole value.
    Whole,
    /// Existence and type of the key.
    Absence,
    /// Number of elements or fields.
    Size,
    /// Presence of an element in a set.
    Element(&'a Value),
    /// A field of a hash.
    Field(&'a Value),
}

impl Part<'_> {
    /// Returns whether a change of one part can affect the other.
    pub fn meets(self, other: Part<'_>) -> bool {
        match (self, other) {
            (Part::Whole, _) | (_, Part::Whole) => true,
            (Part::Element(_), Part::Field(_)) | (Part::Field(_), Part::Element(_)) => {
                // A key has one type, so adding elements hides its fields.
                true
            }
            (one, other) => one == other,
        }
    }
}

impl Op {
    /// Returns the parts on which the operation's outcome and effect depend.
    pub fn reads(&self) -> Vec<Part<'_>> {
        match self {
            Op::Set(_) => Vec::new(),
            Op::Delete | Op::Exists | Op::Type | Op::SetNew(_) => vec![Part::Absence],
            Op::SetLen => vec![Part::Size],
            Op::Get
            | Op::IncrBy(_)
            | Op::SetMembers
            | Op::HashGetAll
            | Op::HashNewest(_)
            | Op::Digest => vec![Part::Whole],
            _ => self.named(),
        }
    }

    /// Returns the parts that the operation can change.
    pub fn writes(&self) -> Vec<Part<'_>> {
        match self {
            Op::Set(_) | Op::Delete | Op::SetNew(_) | Op::IncrBy(_) => vec![Part::Whole],
            op if !op.is_update() => Vec::new(),
            _ => {
                let mut parts = self.named();
                // Adding the first element creates the key, and removing the last one deletes it.
                parts.extend([Part::Size, Part::Absence]);
                parts
            }
        }
    }

    /// Returns the elements or fields in the operation's arguments.
    fn named(&self) -> Vec<Part<'_>> {
        match self {
            Op::SetAdd(elements) | Op::SetRemove(elements) => {
                elements.iter().map(Part::Element).collect()
            }
            Op::SetContains(element) => vec![Part::Element(element)],
            Op::HashSet(pairs) => pairs.iter().map(|(field, _)| Part::Field(field)).collect(),
            Op::HashGetMany(fields) | Op::HashDelete(fields) => {
                fields.iter().map(Part::Field).collect()
            }
            Op::HashGet(field) | Op::HashIncrBy(field, _) => vec![Part::Field(field)],
            Op::Get
            | Op::Set(_)
            | Op::Delete
            | Op::Exists
            | Op::Type
            | Op::IncrBy(_)
            | Op::SetMembers
            | Op::SetLen
            | Op::HashGetAll
            | Op::HashNewest(_)
            | Op::SetNew(_)
            | Op::Digest => Vec::new(),
        }
    }
}
