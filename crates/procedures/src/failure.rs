//! Failures of calls.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_program::run::{Failure, FailureScope};
use solera_program::span::{Position, Span};

/// Reason why a call had no effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallError {
    /// No module with this digest is installed at this place of the order.
    UnknownModule {
        /// The digest.
        digest: Arc<str>,
    },
    /// The module cannot be executed.
    Damaged {
        /// The problem.
        problem: String,
    },
    /// The module has no such transaction.
    UnknownTransaction {
        /// Its name.
        name: Arc<str>,
    },
    /// The number of arguments is wrong.
    ArgumentCount {
        /// The transaction.
        transaction: Arc<str>,
        /// Its parameters with their types.
        expected: String,
        /// Number of its parameters.
        parameters: usize,
        /// Number of the arguments.
        found: usize,
    },
    /// An argument is not of the type of its parameter.
    Argument {
        /// Number of the argument, from 1.
        number: usize,
        /// Name of the parameter.
        name: Arc<str>,
        /// The problem.
        problem: String,
    },
    /// The transaction has written, and the call was to read only.
    Writes {
        /// The transaction.
        transaction: Arc<str>,
    },
    /// The program failed.
    Program {
        /// The failure.
        failure: Box<Failure>,
        /// Line of the source, from 1, if the failure has a place there.
        line: Option<u32>,
    },
    /// The caller lacks a right.
    Denied {
        /// The missing right.
        reason: String,
        /// Transaction or function that needs it.
        place: FailureScope,
        /// Line of the source, from 1.
        line: Option<u32>,
    },
}

impl CallError {
    /// Creates the error for a failure of a program with this source.
    pub(crate) fn of_program(failure: Failure, source: &str) -> CallError {
        let line = line(failure.span, source);
        CallError::Program { failure: Box::new(failure), line }
    }

    /// Returns the code of the reply.
    pub fn code(&self) -> &'static str {
        match self {
            CallError::UnknownModule { .. } => "NOMODULE",
            CallError::Damaged { .. } => "BADMODULE",
            CallError::UnknownTransaction { .. } => "NOTRANSACTION",
            CallError::ArgumentCount { .. } | CallError::Argument { .. } => "BADARG",
            CallError::Writes { .. } => "ERR",
            CallError::Program { .. } => "FAILED",
            CallError::Denied { .. } => "NOPERM",
        }
    }
}

/// Returns the line of a span; `None` for a failure before the first statement, which has no place
/// in the source.
pub(crate) fn line(span: Span, source: &str) -> Option<u32> {
    (span.start < span.end)
        .then(|| u32::try_from(Position::of(source, span.start).line).unwrap_or(u32::MAX))
}

fn write_place(f: &mut fmt::Formatter<'_>, place: &FailureScope, line: Option<u32>) -> fmt::Result {
    match line {
        Some(line) => write!(f, " ({place}, line {line})"),
        None => write!(f, " ({place})"),
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::UnknownModule { digest } => {
                write!(f, "the module {digest} is not installed in the space")
            }
            CallError::Damaged { problem } => write!(f, "the module cannot be executed: {problem}"),
            CallError::UnknownTransaction { name } => {
                write!(f, "the module has no transaction '{}'", name.escape_debug())
            }
            CallError::ArgumentCount { transaction, expected, parameters, found } => {
                let s = if *parameters == 1 { "" } else { "s" };
                write!(
                    f,
                    "'{transaction}' takes {parameters} argument{s} ({expected}), not {found}"
                )
            }
            CallError::Argument { number, name, problem } => {
                write!(f, "argument {number} (`{name}`): {problem}")
            }
            CallError::Writes { transaction } => {
                write!(f, "'{transaction}' writes, and the call was to read only")
            }
            CallError::Program { failure, line } => {
                write!(f, "{}", failure.kind)?;
                write_place(f, &failure.place, *line)
            }
            CallError::Denied { reason, place, line } => {
                f.write_str(reason)?;
                write_place(f, place, *line)
            }
        }
    }
}

impl std::error::Error for CallError {}
