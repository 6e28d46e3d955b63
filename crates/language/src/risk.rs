//! What may fail on bad data, and why.

use solera_program::span::Span;

/// Something that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Risk {
    /// Where it is.
    pub span: Span,
    /// Why it may fail.
    pub why: Why,
    /// The function that it is in, by its index; none if it is in the body itself.
    pub function: Option<u32>,
}

/// Why something may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A number that does not fit.
    Overflow,
    /// A division by zero.
    Division,
    /// An option may be none.
    Nothing,
    /// A list may have no such place.
    Place,
    /// A map may have no such key.
    Key,
    /// A float may be too large for an integer.
    Float,
    /// A separator may be empty.
    Separator,
    /// A register may hold nothing.
    Register,
    /// An object may not be there.
    Object,
    /// A loop may have too many turns.
    Turns,
    /// A function that calls itself may do so too often.
    Depth,
}

impl Why {
    /// What the language does, if that is not plain.
    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Why::Overflow => {
                Some("integers do not wrap: what does not fit into 64 bits is an error")
            }
            Why::Turns => {
                Some("a loop that goes on for too long runs out of steps, which is an error")
            }
            Why::Depth => Some("a function that calls itself too often is an error"),
            _ => None,
        }
    }

    /// What to write instead.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Why::Overflow => "bound the operands: `min(n, 1000000)`",
            Why::Division => "look at the divisor first: `if n != 0 { … }`",
            Why::Nothing => "say what holds if there is none: `.or(…)`, or `match`",
            Why::Place => {
                "use `.get(i)`, which gives an option, or test it first: `if i < xs.len() { … }`"
            }
            Why::Key => {
                "use `.get(k)`, which gives an option, or test it first: `if m.contains(k) { … }`"
            }
            Why::Float => "look at it first: `if x < 1e9 { … }`",
            Why::Separator => "look at the separator first: `if by != \"\" { … }`",
            Why::Register => {
                "use `.get()`, which gives an option, or test it first: `if r.is_valid() { … }`"
            }
            Why::Object => "test first whether it is there: `if h.is_valid() { … }`",
            Why::Turns => "bound the turns: `while i < 1000 && … { i += 1; … }`",
            Why::Depth => "bound what it is given: `min(n, 100)`",
        }
    }

    /// Whether only large numbers make it fail.
    pub(crate) fn of_large_ones(self) -> bool {
        matches!(self, Why::Overflow | Why::Turns | Why::Depth)
    }
}
