//! Failures of phases.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_data::RESERVED;

use crate::nesting::MAX_NESTING;
use crate::span::{Position, Span};
use crate::value::{Handle, Value};

/// Failure of a phase. The same inputs fail again, unless the store caused the failure or the phase
/// took too long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind} ({place})")]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Span in the source text.
    pub span: Span,
    /// Function or transaction that failed.
    pub place: FailureScope,
}

/// Function or transaction that a failure occurred in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureScope {
    /// A transaction.
    Transaction(Arc<str>),
    /// A function.
    Function(Arc<str>),
}

/// Kind of the failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FailureKind {
    /// A number overflowed; the computation.
    Overflow(String),
    /// An integer was divided by zero.
    DivisionByZero,
    /// An index is out of range.
    OutOfRange {
        /// The index, from 0.
        index: i64,
        /// Length of the collection.
        length: usize,
    },
    /// The map has no such key.
    MissingKey(String),
    /// `or_fail` of an option without a value.
    NothingThere,
    /// A text was split at an empty separator.
    EmptySeparator,
    /// The object of a handle does not exist.
    NothingStored {
        /// The operation.
        operation: String,
        /// Handle of the object.
        handle: Handle,
    },
    /// The store rejected an operation.
    Refused {
        /// The operation.
        operation: String,
        /// Reason that the store gave.
        reason: String,
    },
    /// The phase used all its fuel.
    Fuel {
        /// Maximum fuel.
        limit: u64,
    },
    /// Function calls are nested too deeply.
    Depth {
        /// Maximum depth.
        limit: u32,
    },
    /// A value is too large.
    TooLarge {
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The values held at one time are too large together.
    HeldTooLarge {
        /// Maximum total size in bytes.
        limit: u64,
    },
    /// A value is nested deeper than [`MAX_NESTING`].
    TooDeep,
    /// The values for later phases are too large.
    TapesTooLarge {
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The program aborted, with its text.
    Aborted(String),
    /// The number of arguments is wrong.
    ArgumentCount {
        /// Number of parameters.
        expected: usize,
        /// Number of arguments.
        found: usize,
    },
    /// An argument has the wrong type.
    WrongArgument {
        /// Name of the parameter.
        name: Arc<str>,
        /// Its type.
        expected: String,
        /// Description of the argument.
        found: String,
    },
    /// A store's answer has the wrong type.
    WrongAnswer {
        /// The operation.
        operation: String,
        /// Required type of the answer.
        expected: String,
        /// Description of the answer.
        found: String,
    },
    /// A handle refers to another store than its type (MixT §3.1, note 1).
    WrongStore {
        /// The handle.
        handle: Handle,
        /// Store of the type.
        expected: Arc<str>,
    },
    /// A value that an earlier phase should have passed on is missing.
    NotHandedOn {
        /// The number of the tape.
        tape: u32,
    },
    /// The program contains an operation that the compiler never generates.
    Malformed(String),
    /// The phase took too long by its host's clock.
    Time {
        /// Timeout in milliseconds.
        limit_ms: u64,
    },
    /// A program may not make a handle of this key
    /// ([`is_usable_key`](crate::value::is_usable_key)).
    InvalidKey {
        /// The key.
        key: Arc<str>,
    },
}

impl Failure {
    /// Formats the failure with line and column in the source text.
    pub fn describe(&self, source: &str) -> String {
        format!("{}: {self}", Position::of(source, self.span.start))
    }
}

impl fmt::Display for FailureScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureScope::Transaction(name) => write!(f, "in transaction `{name}`"),
            FailureScope::Function(name) => write!(f, "in function `{name}`"),
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Overflow(what) => write!(f, "{what} does not fit into an integer"),
            FailureKind::DivisionByZero => f.write_str("an integer is divided by zero"),
            FailureKind::OutOfRange { index, length } => {
                write!(
                    f,
                    "index {index} is out of range: indices begin at 0, and the length is {length}"
                )
            }
            FailureKind::MissingKey(key) => write!(f, "the map has no key {key}"),
            FailureKind::NothingThere => f.write_str("`or_fail` was called on `none`"),
            FailureKind::EmptySeparator => {
                f.write_str("a string cannot be split at an empty separator")
            }
            FailureKind::NothingStored { operation, handle } => {
                write!(f, "{handle} does not exist, so {operation} fails")
            }
            FailureKind::Refused { operation, reason } => write!(f, "{operation} failed: {reason}"),
            FailureKind::Fuel { limit } => {
                write!(f, "it takes more than {limit} steps, perhaps in an endless loop")
            }
            FailureKind::Depth { limit } => {
                write!(f, "calls of functions are nested more than {limit} deep")
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
                write!(f, "values for later phases are larger than {limit} bytes")
            }
            FailureKind::Aborted(text) => write!(f, "aborted: {text}"),
            FailureKind::ArgumentCount { expected, found } => {
                write!(f, "expected number of arguments: {expected}; found: {found}")
            }
            FailureKind::WrongArgument { name, expected, found } => {
                write!(f, "argument `{name}` must be {expected}, not {found}")
            }
            FailureKind::WrongAnswer { operation, expected, found } => {
                write!(f, "the store returned {found} for {operation}, not {expected}")
            }
            FailureKind::WrongStore { handle, expected } => {
                write!(f, "{handle} is used as a handle of `{expected}`")
            }
            FailureKind::NotHandedOn { tape } => {
                write!(f, "an earlier phase did not hand on a value (tape {tape})")
            }
            FailureKind::Malformed(what) => write!(f, "the compiled program is invalid: {what}"),
            FailureKind::Time { limit_ms } => {
                write!(f, "it takes more than {limit_ms} ms, perhaps in an endless loop")
            }
            FailureKind::InvalidKey { key } if key.is_empty() => {
                f.write_str("a handle's key must not be empty")
            }
            FailureKind::InvalidKey { key } => {
                let shown: String = key.chars().take(60).collect();
                write!(f, "keys beginning with `{RESERVED}` are reserved: `{shown}`")
            }
        }
    }
}

/// Returns the failure of an instruction on a value of the wrong kind, which the compiler never
/// generates.
pub(super) fn malformed(what: &str, found: &Value) -> FailureKind {
    FailureKind::Malformed(format!("{what} cannot be done with {}", found.kind()))
}

/// Formats a value for an error message: the value if it is short, else its kind.
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
