//! Errors of PostgreSQL, and their meaning for a transaction.

use std::time::Duration;

use solera_mixt::store::StoreError;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Reason why a request failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server returned an error, or the client failed.
    Server(tokio_postgres::Error),
    /// The server did not answer in time.
    Slow(Duration),
    /// No connection can be opened.
    Unreachable(StoreError),
}

impl From<tokio_postgres::Error> for RequestError {
    fn from(error: tokio_postgres::Error) -> RequestError {
        RequestError::Server(error)
    }
}

/// Consequence of an error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The transaction may be retried at once.
    Conflict,
    /// The transaction may succeed later.
    Unavailable,
    /// The error has ended the session.
    Ended,
    /// The transaction may succeed when an administrator allows it.
    Denied,
    /// The transaction will never succeed.
    Refused,
}

impl RequestError {
    /// Returns whether the connection is unusable, so that the result of the request is unknown.
    pub(crate) fn lost(&self) -> bool {
        match self.server() {
            Some(error) => {
                let fatal =
                    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
                fatal || meaning(error.code()) == Meaning::Ended
            }
            // The connection stays usable if the client rejected the request before sending it, or
            // cannot decode an answer.
            None => match self {
                RequestError::Server(error) => error.is_closed() || has_io(error),
                RequestError::Slow(_) => true,
                // There is no connection to lose.
                RequestError::Unreachable(_) => false,
            },
        }
    }

    /// Returns whether a value that was to be new exists.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.has_code(&SqlState::UNIQUE_VIOLATION)
    }

    /// Returns whether a read-only transaction tried to write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.has_code(&SqlState::READ_ONLY_SQL_TRANSACTION)
    }

    /// Returns whether a number exceeds its type.
    pub(crate) fn is_overflow(&self) -> bool {
        self.has_code(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE)
    }

    /// Returns whether this server has not assigned the transaction number yet.
    pub(crate) fn is_unknown_number(&self) -> bool {
        self.has_code(&SqlState::INVALID_PARAMETER_VALUE)
    }

    /// Returns whether a prepared statement does not match tables that have changed since.
    pub(crate) fn is_outdated(&self) -> bool {
        self.has_code(&SqlState::FEATURE_NOT_SUPPORTED)
            && self.server().is_some_and(|error| error.message().contains("cached plan"))
    }

    fn has_code(&self, code: &SqlState) -> bool {
        self.server().is_some_and(|error| error.code() == code)
    }

    fn server(&self) -> Option<&DbError> {
        match self {
            RequestError::Server(error) => error.as_db_error(),
            RequestError::Slow(_) | RequestError::Unreachable(_) => None,
        }
    }

    /// Returns the error for a transaction that this failure has ended, if the transaction had no
    /// effect.
    pub(crate) fn to_store_error(&self) -> StoreError {
        if let RequestError::Unreachable(error) = self {
            return error.clone();
        }
        match self.server().map(|error| meaning(error.code())) {
            Some(Meaning::Conflict) => StoreError::Conflict,
            Some(Meaning::Denied) => StoreError::Denied(self.to_string()),
            Some(Meaning::Refused) => StoreError::Refused(self.to_string()),
            Some(Meaning::Unavailable | Meaning::Ended) => {
                StoreError::Unavailable(self.to_string())
            }
            None if self.lost() => StoreError::Unavailable(self.to_string()),
            None => StoreError::Refused(self.to_string()),
        }
    }
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RequestError::Server(error) => match error.as_db_error() {
                Some(error) => {
                    write!(f, "{} (SQLSTATE {})", error.message(), error.code().code())
                }
                None => write!(f, "{}", cause(error)),
            },
            RequestError::Unreachable(error) => write!(f, "{error}"),
            RequestError::Slow(limit) => {
                write!(f, "PostgreSQL has not answered within {} ms", limit.as_millis())
            }
        }
    }
}

/// Formats an error with its causes, on one line.
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
        // Terminated by an administrator, a crash or idleness, or the database is dropped.
        "57P01" | "57P02" | "57P04" | "57P05" | "25P03" => Meaning::Ended,
        // The server starts or stops, or a statement was cancelled or took too long.
        "57P03" | "57014" => Meaning::Unavailable,
        // A standby, for example after a failover: our transactions write.
        "25006" => Meaning::Denied,
        // A right is missing.
        "42501" => Meaning::Denied,
        _ => match code.get(..2).unwrap_or_default() {
            // Connection errors.
            "08" => Meaning::Ended,
            // Authentication errors.
            "28" => Meaning::Denied,
            // Insufficient resources, and system errors.
            "53" | "58" => Meaning::Unavailable,
            _ => Meaning::Refused,
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
