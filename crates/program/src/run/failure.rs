//! Why a phase fails.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::nesting::MAX_NESTING;
use crate::span::{Position, Span};
use crate::value::{Handle, Value};

/// A phase that failed. Unless it was the store's doing, or took too long, the same inputs make it
/// fail again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// Where in the source text.
    pub span: Span,
    /// In which function or transaction.
    pub place: Place,
}

/// What was being run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A transaction.
    Transaction(Arc<str>),
    /// A function.
    Function(Arc<str>),
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FailureKind {
    /// A number does not fit: what was computed.
    Overflow(String),
    /// An integer was divided by zero.
    DivisionByZero,
    /// There is no such place.
    OutOfRange {
        /// The place that was asked for, from 0.
        index: i64,
        /// How many there are.
        length: usize,
    },
    /// The map has no such key.
    MissingKey(String),
    /// `or_fail` of what is not there.
    NothingThere,
    /// A text was to be split at nothing.
    EmptySeparator,
    /// The store has nothing where the handle leads.
    NothingStored {
        /// What was done.
        operation: String,
        /// Where.
        handle: Handle,
    },
    /// The store refused an operation.
    Refused {
        /// What was done.
        operation: String,
        /// What the store said.
        reason: String,
    },
    /// It takes too many steps.
    Fuel {
        /// How many it may take.
        limit: u64,
    },
    /// Functions call one another too deeply.
    Depth {
        /// How deeply they may.
        limit: u32,
    },
    /// A value is too large.
    TooLarge {
        /// How large it may be, in bytes.
        limit: u64,
    },
    /// The values that are there at a time are too large together.
    HeldTooLarge {
        /// How large they may be, in bytes.
        limit: u64,
    },
    /// A value is nested deeper than [`MAX_NESTING`].
    TooDeep,
    /// What is kept for later phases is too large.
    TapesTooLarge {
        /// How large it may be, in bytes.
        limit: u64,
    },
    /// The program aborted, with its text.
    Aborted(String),
    /// The number of arguments is wrong.
    ArgumentCount {
        /// How many the transaction takes.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// An argument has the wrong type.
    WrongArgument {
        /// The parameter.
        name: Arc<str>,
        /// Its type.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A store's answer has the wrong type.
    WrongAnswer {
        /// What was done.
        operation: String,
        /// What it should answer.
        expected: String,
        /// What it did answer.
        found: String,
    },
    /// A handle leads to another store than its type says (MixT §3.1, note 1).
    WrongStore {
        /// The handle.
        handle: Handle,
        /// The store that it should lead to.
        expected: Arc<str>,
    },
    /// A value that an earlier phase should have handed on is missing.
    NotHandedOn {
        /// The number of the tape.
        tape: u32,
    },
    /// The program does what no compiled program does.
    Malformed(String),
    /// It takes too long, by the clock of whoever runs it.
    Time {
        /// How long it may take, in milliseconds.
        limit_ms: u64,
    },
}

impl Failure {
    /// The failure for people who have the source text: with line and column.
    pub fn describe(&self, source: &str) -> String {
        format!("{}: {self}", Position::of(source, self.span.start))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.place)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Transaction(name) => write!(f, "in transaction `{name}`"),
            Place::Function(name) => write!(f, "in function `{name}`"),
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Overflow(what) => write!(f, "{what} does not fit into an integer"),
            FailureKind::DivisionByZero => f.write_str("an integer is divided by zero"),
            FailureKind::OutOfRange { index, length } => {
                write!(f, "there is no place {index}: there are {length}, counted from 0")
            }
            FailureKind::MissingKey(key) => write!(f, "the map has no key {key}"),
            FailureKind::NothingThere => f.write_str("`or_fail` found nothing"),
            FailureKind::EmptySeparator => f.write_str("a text cannot be split at an empty text"),
            FailureKind::NothingStored { operation, handle } => {
                write!(f, "there is nothing at {handle}, so {operation} fails")
            }
            FailureKind::Refused { operation, reason } => write!(f, "{operation} failed: {reason}"),
            FailureKind::Fuel { limit } => {
                write!(f, "it takes more than {limit} steps, perhaps in a loop without an end")
            }
            FailureKind::Depth { limit } => {
                write!(f, "functions call one another more than {limit} deep")
            }
            FailureKind::TooLarge { limit } => {
                write!(f, "a value is larger than {limit} bytes")
            }
            FailureKind::HeldTooLarge { limit } => {
                write!(
                    f,
                    "variables and intermediate results hold more than {limit} bytes together"
                )
            }
            FailureKind::TooDeep => {
                write!(f, "a value is nested more than {MAX_NESTING} deep")
            }
            FailureKind::TapesTooLarge { limit } => {
                write!(f, "what is kept for later phases is larger than {limit} bytes")
            }
            FailureKind::Aborted(text) => write!(f, "aborted: {text}"),
            FailureKind::ArgumentCount { expected, found } => {
                write!(f, "{expected} arguments are expected, and {found} were given")
            }
            FailureKind::WrongArgument { name, expected, found } => {
                write!(f, "argument `{name}` must be {expected}, not {found}")
            }
            FailureKind::WrongAnswer { operation, expected, found } => {
                write!(f, "the store answered {operation} with {found}, not {expected}")
            }
            FailureKind::WrongStore { handle, expected } => {
                write!(f, "{handle} is used as a handle of `{expected}`")
            }
            FailureKind::NotHandedOn { tape } => {
                write!(f, "an earlier phase did not hand on a value (tape {tape})")
            }
            FailureKind::Malformed(what) => write!(f, "the compiled program is wrong: {what}"),
            FailureKind::Time { limit_ms } => {
                write!(f, "it takes more than {limit_ms} ms, perhaps in a loop without an end")
            }
        }
    }
}

/// An instruction that got something else than it works on. The compiler never makes one.
pub(super) fn malformed(what: &str, found: &Value) -> FailureKind {
    FailureKind::Malformed(format!("{what} cannot be done with {}", found.kind()))
}

/// A value in an error message: itself if it is short, else its kind.
pub(super) fn brief(value: &Value) -> String {
    match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::String(text) if text.len() <= 60 => format!("{text:?}"),
        Value::Handle(handle) if handle.key.len() <= 60 => handle.to_string(),
        other => format!("({})", other.kind()),
    }
}
