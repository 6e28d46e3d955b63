//! Errors of transactions.

use std::fmt;
use std::sync::Arc;

use solera_program::run::{Failure, FailureKind};

use crate::outcome::Why;
use crate::record::Record;

/// Reason why a transaction returned no result. "Nothing was changed" applies to stores that are at
/// least causal: a weaker one may keep earlier writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The program executed `abort`, with this text. Nothing was changed.
    Aborted(String),
    /// The program failed. Nothing was changed.
    Program(Failure),
    /// The program failed, or executed `abort`, on values that a database has not certified:
    /// another call may succeed. Nothing was changed.
    Uncertified(String),
    /// Other transactions conflicted with every attempt. Nothing was changed, and another call may
    /// succeed.
    Conflict {
        /// Number of attempts.
        attempts: u32,
    },
    /// A database cannot be used now, or another transaction does not become visible. Nothing was
    /// changed.
    Unavailable(String),
    /// A database rejected a request that it never executes. Nothing was changed.
    Refused {
        /// Name of the database, or of the module if it cannot run at all.
        by: Arc<str>,
        /// The reason.
        reason: String,
    },
    /// The answer to the only commit was lost: all of it may have taken effect, or nothing. Read
    /// before you repeat the call.
    Unknown(String),
    /// Some phases have committed, and the others could not yet. Do not call it again, but
    /// [resume](crate::typed::TypedSession::resume) it.
    Incomplete(Ticket),
}

/// Ticket that resumes an incomplete transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    pub(super) record: Box<Record>,
    message: String,
}

impl Ticket {
    pub(super) fn new(record: Box<Record>, message: String) -> Ticket {
        Ticket { record, message }
    }

    /// Returns the record of the transaction. With its [bytes](Record::encode), any host that has
    /// the module can resume the transaction.
    pub fn record(&self) -> &Record {
        &self.record
    }
}

impl Error {
    /// Returns the error of a transaction that has changed nothing.
    pub(super) fn because(why: Why) -> Error {
        let message = why.to_string();
        match why {
            Why::Program(Failure { kind: FailureKind::Aborted(text), .. }) => Error::Aborted(text),
            Why::Program(failure) => Error::Program(failure),
            Why::Uncertified { .. } => Error::Uncertified(message),
            Why::Contention { attempts } => Error::Conflict { attempts },
            Why::Unavailable { .. } | Why::Blocked { .. } | Why::Taken | Why::Late => {
                Error::Unavailable(message)
            }
            Why::Refused { database, reason } | Why::Denied { database, reason, .. } => {
                Error::Refused { by: database, reason }
            }
            Why::Unknown { .. } | Why::Completed | Why::GivenUp { .. } => Error::Unknown(message),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Aborted(text) => write!(f, "aborted: {text}; nothing was changed"),
            Error::Program(failure) => write!(f, "{failure}; nothing was changed"),
            Error::Conflict { attempts } => {
                write!(
                    f,
                    "other transactions conflicted with it {attempts} times; nothing was changed"
                )
            }
            Error::Unavailable(message) | Error::Uncertified(message) => {
                write!(f, "{message}; nothing was changed")
            }
            Error::Refused { by, reason } => {
                write!(f, "`{by}` refuses: {reason}; nothing was changed")
            }
            Error::Unknown(message) => f.write_str(message),
            Error::Incomplete(ticket) => f.write_str(&ticket.message),
        }
    }
}

impl std::error::Error for Error {}
