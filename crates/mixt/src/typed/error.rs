//! How a transaction ends that does not return.

use std::fmt;
use std::sync::Arc;

use solera_program::run::{Failure, FailureKind};

use crate::outcome::Why;
use crate::record::Record;

/// Why there is no result. "Nothing was changed" is said of stores that are at least causal: a
/// weaker one may keep what was written there before.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The program said `abort`, with this text. Nothing was changed.
    Aborted(String),
    /// The program failed. Nothing was changed.
    Program(Failure),
    /// The program failed, or said `abort`, on values that a database has not certified: it may not
    /// do so when it is called again. Nothing was changed.
    Uncertified(String),
    /// Other transactions were in the way each time. Nothing was changed; the same may succeed when
    /// it is called again.
    Conflict {
        /// How often it was tried.
        attempts: u32,
    },
    /// A database cannot be used now, or another transaction does not become visible. Nothing was
    /// changed.
    Unavailable(String),
    /// A database refused for good. Nothing was changed.
    Refused {
        /// The database's name, or the module's if it cannot be run at all.
        by: Arc<str>,
        /// What it said.
        reason: String,
    },
    /// The answer to the only commit was lost: all of it may have taken effect, or nothing. Read
    /// before you repeat it.
    Unknown(String),
    /// Some phases have committed, and the others could not yet: not to be called again, but to be
    /// [resumed](crate::typed::Session::resume).
    Incomplete(Ticket),
}

/// What resumes a transaction that is incomplete.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    pub(super) record: Box<Record>,
    told: String,
}

impl Ticket {
    pub(super) fn new(record: Box<Record>, told: String) -> Ticket {
        Ticket { record, told }
    }

    /// What is kept of the transaction. [As bytes](Record::encode) anybody can resume it who knows
    /// the module.
    pub fn record(&self) -> &Record {
        &self.record
    }
}

impl Error {
    /// Of a transaction that has changed nothing.
    pub(super) fn because(why: Why) -> Error {
        let told = why.to_string();
        match why {
            Why::Program(Failure { kind: FailureKind::Aborted(text), .. }) => Error::Aborted(text),
            Why::Program(failure) => Error::Program(failure),
            Why::Uncertified { .. } => Error::Uncertified(told),
            Why::Contention { attempts } => Error::Conflict { attempts },
            Why::Unavailable { .. } | Why::Blocked { .. } | Why::Taken | Why::Late => {
                Error::Unavailable(told)
            }
            Why::Refused { database, reason } | Why::Denied { database, reason, .. } => {
                Error::Refused { by: database, reason }
            }
            Why::Unknown { .. } | Why::Completed | Why::GivenUp { .. } => Error::Unknown(told),
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
                    "other transactions were in the way {attempts} times; nothing was changed"
                )
            }
            Error::Unavailable(told) | Error::Uncertified(told) => {
                write!(f, "{told}; nothing was changed")
            }
            Error::Refused { by, reason } => {
                write!(f, "`{by}` refuses: {reason}; nothing was changed")
            }
            Error::Unknown(told) => f.write_str(told),
            Error::Incomplete(ticket) => f.write_str(&ticket.told),
        }
    }
}

impl std::error::Error for Error {}
