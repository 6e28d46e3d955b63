use std::fmt;

use solera_resp::Value;
use solera_spaces::failure::transaction_to_ask_for;

use crate::ticket::Ticket;

/// Reason why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The connection could not be opened, or broke. Whether the last command took effect is
    /// unknown.
    Connection(std::io::Error),
    /// The connection broke while the client waited for results of an operation of a speculative
    /// space. The operation goes on. After [`Client::reconnect`](crate::Client::reconnect), or at
    /// another site, [`Client::stable`](crate::Client::stable) waits for its final result.
    Interrupted {
        /// Name of the operation, which stays valid.
        ticket: Ticket,
        /// Reason why the connection broke.
        error: std::io::Error,
    },
    /// The operation of a speculative space has no final result: a weak operation that only reads
    /// has no place in the order.
    Unordered,
    /// The other side does not speak RESP.
    Protocol(String),
    /// The server returned an error. Its code is the first word, such as `WRONGTYPE`, `TIMEOUT` or
    /// `LOST`.
    Server {
        /// The error's code.
        code: String,
        /// Message of the server.
        message: String,
    },
    /// A strong transaction conflicted with another one. Nothing was changed; it may be retried.
    Aborted {
        /// The key on which they conflicted.
        key: String,
        /// Number of attempts, if the client retried the transaction.
        attempts: u32,
    },
    /// A strong transaction could not be decided in time because too few sites can be reached.
    Unavailable {
        /// Name of the transaction for [`Client::outcome`](crate::Client::outcome). Nothing was
        /// changed if it is `None`.
        transaction: Option<String>,
        /// Message of the server.
        message: String,
    },
    /// The reply has a type that the command does not return.
    UnexpectedReply(String),
    /// A value was opened with a type or a policy that contradicts its space, or a read was
    /// answered at a level that its policy does not permit.
    Policy(String),
}

impl Error {
    /// Returns the server's error code, if the server returned an error.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Server { code, .. } => Some(code),
            Error::Aborted { .. } => Some("ABORTED"),
            Error::Unavailable { .. } => Some("UNAVAILABLE"),
            _ => None,
        }
    }

    /// Converts the text of an error reply.
    pub fn server(text: &str) -> Self {
        let (code, message) = text.split_once(' ').unwrap_or((text, ""));
        if code == "UNAVAILABLE" {
            let transaction = transaction_to_ask_for(message).map(str::to_owned);
            return Error::Unavailable { transaction, message: message.to_owned() };
        }
        if let Some(key) = conflicting_key(message).filter(|_| code == "ABORTED") {
            return Error::Aborted { key: key.to_owned(), attempts: 1 };
        }
        Error::Server { code: code.to_owned(), message: message.to_owned() }
    }

    /// Creates the error for a reply of an unexpected type.
    pub fn unexpected(reply: &Value) -> Self {
        Error::UnexpectedReply(format!("{reply:?}"))
    }

    /// Returns the error with the number of attempts.
    pub(crate) fn after(self, runs: u32) -> Self {
        match self {
            Error::Aborted { key, .. } => Error::Aborted { key, attempts: runs },
            other => other,
        }
    }
}

/// Returns the key in `conflict on 'KEY'; …`. The key may contain quotes.
fn conflicting_key(message: &str) -> Option<&str> {
    let (key, _) = message.strip_prefix("conflict on '")?.rsplit_once("';")?;
    Some(key)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connection(error) => write!(f, "the connection failed: {error}"),
            Error::Interrupted { ticket, error } => write!(
                f,
                "the connection failed while the client waited for operation {ticket}: {error}; the operation goes on, \
                 and its ticket is valid on new connections to any site"
            ),
            Error::Unordered => f.write_str(
                "a weak operation that only reads has no place in the order, and no final result",
            ),
            Error::Protocol(reason) => write!(f, "the server does not speak RESP: {reason}"),
            Error::Server { code, message } => write!(f, "{code} {message}"),
            Error::Aborted { key, attempts: 1 } => {
                write!(f, "ABORTED conflict on '{key}'; nothing was changed")
            }
            Error::Aborted { key, attempts } => write!(
                f,
                "ABORTED conflict on '{key}' in the last of {attempts} attempts; nothing was changed"
            ),
            Error::Unavailable { message, .. } => write!(f, "UNAVAILABLE {message}"),
            Error::Policy(reason) => f.write_str(reason),
            Error::UnexpectedReply(reply) => write!(f, "unexpected reply: {reply}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Connection(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_names_the_key() {
        for key in ["stock:7", "it's", "a'; nothing'", ""] {
            let reply = format!(
                "ABORTED conflict on '{key}'; nothing was changed, run the transaction again"
            );
            let error = Error::server(&reply);
            let Error::Aborted { key: found, attempts: 1 } = &error else { panic!("{error:?}") };
            assert_eq!(found, key);
            assert_eq!(error.code(), Some("ABORTED"));
        }
    }

    #[test]
    fn an_abort_without_a_key_keeps_its_code() {
        let error = Error::server("ABORTED for some reason");
        assert!(matches!(error, Error::Server { .. }), "{error:?}");
        assert_eq!(error.code(), Some("ABORTED"));
        // Not every error that mentions a conflict is an abort.
        assert_eq!(Error::server("ERR conflict on 'a'; no").code(), Some("ERR"));
    }

    #[test]
    fn unavailable_names_the_transaction_if_its_outcome_is_unknown() {
        for (reply, expected) in [
            ("UNAVAILABLE no quorum within 5000 ms; nothing was changed", None),
            ("UNAVAILABLE the outcome is not known; ask SOLERA.OUTCOME 1-2-77", Some("1-2-77")),
            ("UNAVAILABLE its outcome is not known: 'SOLERA.OUTCOME 3:9' tells it.", Some("3:9")),
            ("UNAVAILABLE ask SOLERA.OUTCOME 12.", Some("12")),
            ("UNAVAILABLE ask SOLERA.OUTCOME ", None),
        ] {
            let error = Error::server(reply);
            let Error::Unavailable { transaction, .. } = &error else { panic!("{error:?}") };
            assert_eq!(transaction.as_deref(), expected, "{reply}");
            assert_eq!(error.to_string(), reply);
        }
    }
}
