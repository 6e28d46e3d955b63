//! Steps that may fail on bad data, and the reasons.

use solera_program::span::Span;

/// A step that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Risk {
    /// Span of the step.
    pub span: Span,
    /// Reason of the failure.
    pub why: Why,
    /// Index of the function that contains it; `None` if the body itself does.
    pub function: Option<u32>,
}

/// Reason why a step may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A number may overflow.
    Overflow,
    /// A divisor may be zero.
    Division,
    /// An option may be none.
    Nothing,
    /// An index may be outside a list.
    Place,
    /// A map may lack a key.
    Key,
    /// A float may be too large for an integer.
    Float,
    /// A separator may be empty.
    Separator,
    /// A register may be empty.
    Register,
    /// An object may not exist.
    Object,
    /// A loop may have too many iterations.
    Turns,
    /// A key may be empty or reserved.
    InvalidKey,
    /// A recursive function may exceed the maximum depth.
    Depth,
}

impl Why {
    /// Returns a note on the language's behaviour, if it is not obvious.
    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Why::Overflow => {
                Some("integers do not wrap: a result that does not fit into 64 bits is an error")
            }
            Why::Turns => Some("a loop that exceeds the limit of steps is an error"),
            Why::Depth => Some("a recursion that is too deep is an error"),
            _ => None,
        }
    }

    /// Returns a suggested fix.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Why::Overflow => "bound the operands: `min(n, 1000000)`",
            Why::Division => "test the divisor first: `if n != 0 { … }`",
            Why::Nothing => "give a value for `none`: `.or(…)`, or use `match`",
            Why::Place => {
                "use `.get(i)`, which gives an option, or test it first: `if i < xs.len() { … }`"
            }
            Why::Key => {
                "use `.get(k)`, which gives an option, or test it first: `if m.contains(k) { … }`"
            }
            Why::Float => "test it first: `if x < 1e9 { … }`",
            Why::Separator => "test the separator first: `if by != \"\" { … }`",
            Why::Register => {
                "use `.get()`, which gives an option, or test it first: `if r.is_valid() { … }`"
            }
            Why::Object => "test first whether it exists: `if h.is_valid() { … }`",
            Why::Turns => "bound the iterations: `while i < 1000 && … { i += 1; … }`",
            Why::InvalidKey => "let the key begin with a text: `\"stock:\" + …`",
            Why::Depth => "bound its argument: `min(n, 100)`",
        }
    }

    /// Returns whether it fails for large numbers only.
    pub(crate) fn of_large_ones(self) -> bool {
        matches!(self, Why::Overflow | Why::Turns | Why::Depth)
    }
}
