//! What errors mean to a transaction.

use redis::{ErrorKind, RedisError};
use solera_mixt::store::StoreError;

/// Why a command has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was not sent.
    Unreached(String),
    /// It may have taken effect.
    Lost(String),
    /// The server does not let us in.
    Shut(String),
    /// The server has answered with an error: its code and all of it.
    Said { code: String, text: String },
}

/// Codes of errors which say that the server has no time or means now, rather than that it never
/// will.
const PASSING: [&str; 11] = [
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

/// Codes of errors which say that the user may not do that.
const DENYING: [&str; 3] = ["NOAUTH", "NOPERM", "WRONGPASS"];

impl Failure {
    pub(crate) fn of_connecting(address: &str, error: &RedisError) -> Failure {
        let text = format!("{address}: {error}");
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Failure::Shut(text),
            _ if error.code().is_some_and(|code| DENYING.contains(&code)) => Failure::Shut(text),
            _ => Failure::Unreached(text),
        }
    }

    pub(crate) fn of_command(error: &RedisError) -> Failure {
        match error.code() {
            Some(code) => {
                let text = match error.detail() {
                    Some(detail) => format!("{code} {detail}"),
                    None => code.to_owned(),
                };
                Failure::Said { code: code.to_owned(), text }
            }
            // Also an answer that is none: nothing after it could be trusted.
            None => Failure::Lost(error.to_string()),
        }
    }

    /// The code of the error because of which a transaction was given up, as Redis names it; of
    /// another error, its own.
    fn code_of_cause(code: &str, text: &str) -> String {
        let cause = text.split_once("because of: ").filter(|_| code == "EXECABORT");
        let cause = cause.and_then(|(_, cause)| cause.split(' ').next());
        cause.unwrap_or(code).to_owned()
    }

    /// As that of a command which may be repeated.
    pub(crate) fn told(self) -> StoreError {
        match self {
            Failure::Unreached(text) | Failure::Lost(text) => StoreError::Unavailable(text),
            Failure::Shut(text) => StoreError::Denied(text),
            Failure::Said { code, text } => {
                let code = Failure::code_of_cause(&code, &text);
                match code.as_str() {
                    code if PASSING.contains(&code) => StoreError::Unavailable(text),
                    code if DENYING.contains(&code) => StoreError::Denied(text),
                    _ => StoreError::Refused(text),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_apart_from_what_stays() {
        let said = |text: &str| {
            let code = text.split(' ').next().unwrap().to_owned();
            Failure::Said { code, text: text.to_owned() }.told()
        };
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
        assert_eq!(Failure::Lost("x".into()).told(), StoreError::Unavailable("x".into()));
        assert_eq!(Failure::Shut("x".into()).told(), StoreError::Denied("x".into()));
    }
}
