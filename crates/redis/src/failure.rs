//! Errors of Redis, and their meaning for a transaction.

use redis::{ErrorKind, RedisError};
use solera_mixt::store::StoreError;

/// Reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command was not sent.
    NotSent(String),
    /// The command may have taken effect.
    Lost(String),
    /// The server denies access.
    Denied(String),
    /// The server replied with an error: its code, and the whole text.
    ErrorReply { code: String, text: String },
}

/// Error codes of temporary conditions.
const TRANSIENT: [&str; 11] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
];

/// Error codes of missing rights.
const DENIED: [&str; 3] = ["NOAUTH", "NOPERM", "WRONGPASS"];

impl Failure {
    pub(crate) fn of_connecting(address: &str, error: &RedisError) -> Failure {
        let text = format!("{address}: {error}");
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => {
                Failure::Denied(text)
            }
            _ if error.code().is_some_and(|code| DENIED.contains(&code)) => Failure::Denied(text),
            _ => Failure::NotSent(text),
        }
    }

    pub(crate) fn of_command(error: &RedisError) -> Failure {
        match error.code() {
            Some(code) => {
                let text = match error.detail() {
                    Some(detail) => format!("{code} {detail}"),
                    None => code.to_owned(),
                };
                Failure::ErrorReply { code: code.to_owned(), text }
            }
            // This includes unreadable replies, because after one the following replies cannot be
            // assigned to their commands.
            None => Failure::Lost(error.to_string()),
        }
    }

    /// Returns its text.
    pub(crate) fn into_text(self) -> String {
        match self {
            Failure::NotSent(text)
            | Failure::Lost(text)
            | Failure::Denied(text)
            | Failure::ErrorReply { text, .. } => text,
        }
    }

    /// Returns the code of the error that aborted a transaction, which Redis appends to EXECABORT.
    /// For other errors, returns their own code.
    fn code_of_cause(code: &str, text: &str) -> String {
        let cause = text.split_once("because of: ").filter(|_| code == "EXECABORT");
        let cause = cause.and_then(|(_, cause)| cause.split(' ').next());
        cause.unwrap_or(code).to_owned()
    }

    /// Returns the error for a command that may be repeated.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Failure::NotSent(text) | Failure::Lost(text) => StoreError::Unavailable(text),
            Failure::Denied(text) => StoreError::Denied(text),
            Failure::ErrorReply { code, text } => {
                let code = Failure::code_of_cause(&code, &text);
                match code.as_str() {
                    code if TRANSIENT.contains(&code) => StoreError::Unavailable(text),
                    code if DENIED.contains(&code) => StoreError::Denied(text),
                    _ => StoreError::Refused(text),
                }
            }
        }
    }
}

/// Returns the meaning of an error reply of Redis, such as `LOADING …`, for a transaction.
pub fn error_of_reply(text: &str) -> StoreError {
    let code = text.split(' ').next().unwrap_or_default().to_owned();
    Failure::ErrorReply { code, text: text.to_owned() }.into_store_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_errors_are_separate_from_permanent_ones() {
        let said = error_of_reply;
        let discarded = "EXECABORT Transaction discarded because of: MISCONF no disk";
        for text in
            ["LOADING Redis is loading", "OOM command not allowed", "CLUSTERDOWN no", discarded]
        {
            assert_eq!(said(text), StoreError::Unavailable(text.to_owned()));
        }
        assert_eq!(said("NOPERM no"), StoreError::Denied("NOPERM no".to_owned()));
        for text in ["ERR unknown command", "WRONGTYPE other"] {
            assert_eq!(said(text), StoreError::Refused(text.to_owned()));
        }
        assert_eq!(
            Failure::Lost("x".into()).into_store_error(),
            StoreError::Unavailable("x".into())
        );
        assert_eq!(Failure::Denied("x".into()).into_store_error(), StoreError::Denied("x".into()));
    }
}
