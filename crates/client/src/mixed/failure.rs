//! What a server's errors mean to a transaction.

use solera_mixt::store::StoreError;

use crate::error::Error;

/// The code and text of the error because of which a transaction was given up; of another error, its own.
fn cause<'a>(code: &'a str, message: &'a str) -> (&'a str, &'a str) {
    let cause = message.split_once("because of: ").or_else(|| message.split_once("first: "));
    match cause.filter(|_| code == "EXECABORT") {
        Some((_, cause)) => cause.split_once(' ').unwrap_or((cause, "")),
        None => (code, message),
    }
}

/// Whether an error says that the server has no time or means to answer, rather than that it never will.
fn is_passing(code: &str, message: &str) -> bool {
    let (code, message) = cause(code, message);
    let codes =
        ["TRYAGAIN", "TOOFEW", "LOADING", "MISCONF", "REFUSED", "TIMEOUT", "UNKNOWN", "OOM"];
    codes.contains(&code) || (code == "ERR" && message == "the server is stopping")
}

/// An error's text. What was changed is for who runs the whole transaction to say, once.
fn told(error: &Error) -> String {
    error.to_string().replace("; nothing was changed", "")
}

/// An error of anything but a commit. What was open has no effect.
pub(super) fn of_command(error: &Error) -> StoreError {
    match error {
        // What ended by itself may be run again.
        Error::Aborted { .. } => StoreError::Conflict,
        Error::Server { code, .. } if ["ABORTED", "NOTX"].contains(&code.as_str()) => {
            StoreError::Conflict
        }
        Error::Server { code, .. }
            if ["NOPERM", "NOAUTH", "WRONGPASS"].contains(&code.as_str()) =>
        {
            StoreError::Denied(told(error))
        }
        Error::Server { code, message } if !is_passing(code, message) => {
            StoreError::Refused(told(error))
        }
        Error::Server { .. }
        | Error::Connection(_)
        | Error::Protocol(_)
        | Error::Unavailable { .. } => StoreError::Unavailable(told(error)),
        Error::UnexpectedReply(_) => StoreError::Refused(told(error)),
    }
}

/// An error of opening a session.
pub(super) fn of_connect(error: &Error) -> StoreError {
    match error {
        Error::Server { code, .. } if code == "NOPERM" => StoreError::Denied(told(error)),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

/// An error of a commit.
pub(super) fn of_commit(error: &Error) -> StoreError {
    let unknown = match error {
        Error::Connection(_) | Error::Protocol(_) | Error::UnexpectedReply(_) => true,
        Error::Unavailable { transaction, .. } => transaction.is_some(),
        // The worker was stopped in the middle.
        Error::Server { code, message } => {
            (code == "MISCONF" && message.contains("unknown"))
                || message == "the server is stopping"
                // It committed, and takes effect when a node answers again.
                || code == "UNKNOWN"
        }
        _ => false,
    };
    if unknown { StoreError::OutcomeUnknown(error.to_string()) } else { of_command(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> StoreError {
        of_command(&Error::server(text))
    }

    fn commit(text: &str) -> StoreError {
        of_commit(&Error::server(text))
    }

    #[test]
    fn conflicts_may_be_run_again() {
        let text = "ABORTED conflict on 'a'; nothing was changed, run the transaction again";
        assert_eq!((command(text), commit(text)), (StoreError::Conflict, StoreError::Conflict));
        assert_eq!(commit("NOTX the transaction was given up"), StoreError::Conflict);
    }

    #[test]
    fn what_is_unavailable_is_told_from_what_is_unknown() {
        let nothing = "UNAVAILABLE no quorum in time; nothing was changed";
        let unknown = "UNAVAILABLE no quorum in time; ask SOLERA.OUTCOME 1-7";
        assert!(matches!(commit(nothing), StoreError::Unavailable(_)));
        assert!(matches!(commit(unknown), StoreError::OutcomeUnknown(_)));
        assert!(matches!(command(unknown), StoreError::Unavailable(_)));
        assert!(matches!(commit("ERR the server is stopping"), StoreError::OutcomeUnknown(_)));
        assert!(matches!(
            commit("UNKNOWN node eu1 does not answer"),
            StoreError::OutcomeUnknown(_)
        ));
        assert!(matches!(command("LOADING site x"), StoreError::Unavailable(_)));
        for text in ["because of: MISCONF full", "because of previous errors, first: OOM full"] {
            let text = format!("EXECABORT Transaction discarded {text}");
            assert!(matches!(commit(&text), StoreError::Unavailable(_)), "{text}");
        }
        let broken = Error::Connection(std::io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(of_commit(&broken), StoreError::OutcomeUnknown(_)));
        assert!(matches!(of_command(&broken), StoreError::Unavailable(_)));
    }

    #[test]
    fn what_is_not_allowed_is_told_from_what_is_refused_for_good() {
        let text = "NOPERM no permissions to access a key";
        assert_eq!(command(text), StoreError::Denied(text.to_owned()));
        let text = "TOOLARGE at most 5 operations; nothing was changed (see there)";
        let told = "TOOLARGE at most 5 operations (see there)";
        assert_eq!(commit(text), StoreError::Refused(told.to_owned()));
        let text = "WRONGTYPE it is a hash";
        assert_eq!(command(text), StoreError::Refused(text.to_owned()));
        let text = "EXECABORT Transaction discarded because of previous errors, first: ERR no";
        assert_eq!(commit(text), StoreError::Refused(text.to_owned()));
    }
}
