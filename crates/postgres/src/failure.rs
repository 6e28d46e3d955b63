//! What errors of PostgreSQL mean to a transaction.

use std::time::Duration;

use solera_mixt::store::StoreError;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Why something that was asked did not succeed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// What the server said, or why it did not.
    Server(tokio_postgres::Error),
    /// It did not answer in time.
    Slow(Duration),
    /// No connection can be opened.
    Unreachable(StoreError),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Trouble {
        Trouble::Server(error)
    }
}

/// What is to be done after an error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Run it again.
    Conflict,
    /// Later, perhaps.
    Later,
    /// The session has ended with it.
    Ended,
    /// When people allow it.
    Denied,
    /// Never.
    Never,
}

impl Trouble {
    /// Whether the connection cannot be used any more, so that it is not known what the server has
    /// done.
    pub(crate) fn lost(&self) -> bool {
        match self.server() {
            Some(error) => {
                let fatal =
                    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
                fatal || meaning(error.code()) == Meaning::Ended
            }
            // What the client itself refuses was not sent; what it cannot read leaves it in step
            // with the server.
            None => match self {
                Trouble::Server(error) => error.is_closed() || has_io(error),
                Trouble::Slow(_) => true,
                // There is none that could be lost.
                Trouble::Unreachable(_) => false,
            },
        }
    }

    /// Whether a value that was to be new is there.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.has_code(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether it failed as it would have written in a transaction that only reads.
    pub(crate) fn is_read_only(&self) -> bool {
        self.has_code(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Whether a number does not fit its type.
    pub(crate) fn is_overflow(&self) -> bool {
        self.has_code(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE)
    }

    /// Whether the number of a transaction is one that this server has not given yet.
    pub(crate) fn is_unknown_number(&self) -> bool {
        self.has_code(&SqlState::INVALID_PARAMETER_VALUE)
    }

    /// Whether a prepared statement does not fit tables that have changed since.
    pub(crate) fn is_outdated(&self) -> bool {
        self.has_code(&SqlState::FEATURE_NOT_SUPPORTED)
            && self.server().is_some_and(|error| error.message().contains("cached plan"))
    }

    fn has_code(&self, code: &SqlState) -> bool {
        self.server().is_some_and(|error| error.code() == code)
    }

    fn server(&self) -> Option<&DbError> {
        match self {
            Trouble::Server(error) => error.as_db_error(),
            Trouble::Slow(_) | Trouble::Unreachable(_) => None,
        }
    }

    /// For the transaction that it has ended, if that had no effect.
    pub(crate) fn told(&self) -> StoreError {
        if let Trouble::Unreachable(error) = self {
            return error.clone();
        }
        match self.server().map(|error| meaning(error.code())) {
            Some(Meaning::Conflict) => StoreError::Conflict,
            Some(Meaning::Denied) => StoreError::Denied(self.to_string()),
            Some(Meaning::Never) => StoreError::Refused(self.to_string()),
            Some(Meaning::Later | Meaning::Ended) => StoreError::Unavailable(self.to_string()),
            None if self.lost() => StoreError::Unavailable(self.to_string()),
            None => StoreError::Refused(self.to_string()),
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Server(error) => match error.as_db_error() {
                Some(error) => {
                    write!(f, "{} (SQLSTATE {})", error.message(), error.code().code())
                }
                None => write!(f, "{}", cause(error)),
            },
            Trouble::Unreachable(error) => write!(f, "{error}"),
            Trouble::Slow(limit) => {
                write!(f, "PostgreSQL has not answered within {} ms", limit.as_millis())
            }
        }
    }
}

/// An error with its cause, on one line.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", cause(source)),
        None => error.to_string(),
    }
}

fn meaning(code: &SqlState) -> Meaning {
    let code = code.code();
    match code {
        // Serialization failure, deadlock, a lock that was not free in time.
        "40001" | "40P01" | "55P03" => Meaning::Conflict,
        // Terminated by an administrator or a crash, for idleness, or the database is gone.
        "57P01" | "57P02" | "57P04" | "57P05" | "25P03" => Meaning::Ended,
        // It starts or stops, or a statement was cancelled or took too long.
        "57P03" | "57014" => Meaning::Later,
        // A standby, after a failover say: what we ask writes.
        "25006" => Meaning::Denied,
        // A right is missing.
        "42501" => Meaning::Denied,
        _ => match code.get(..2).unwrap_or_default() {
            // Connections.
            "08" => Meaning::Ended,
            // Who it is.
            "28" => Meaning::Denied,
            // Room, and errors of the system.
            "53" | "58" => Meaning::Later,
            _ => Meaning::Never,
        },
    }
}

fn has_io(error: &dyn std::error::Error) -> bool {
    let mut next = error.source();
    while let Some(source) = next {
        if source.is::<std::io::Error>() {
            return true;
        }
        next = source.source();
    }
    false
}
