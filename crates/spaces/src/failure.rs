//! What a server's errors mean to a transaction.

use solera_mixt::store::StoreError;

use crate::port::{Broken, Reply};

/// The code of an error reply, and what follows it.
fn parts(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// The code and text of the error because of which a transaction was given up; of another error,
/// its own.
fn cause(text: &str) -> (&str, &str) {
    let (code, message) = parts(text);
    let cause = message.split_once("because of: ").or_else(|| message.split_once("first: "));
    match cause.filter(|_| code == "EXECABORT") {
        Some((_, cause)) => parts(cause),
        None => (code, message),
    }
}

/// Whether an error says that the server has no time or means to answer, rather than that it never
/// will.
fn is_passing(text: &str) -> bool {
    let (code, message) = cause(text);
    let codes =
        ["TRYAGAIN", "TOOFEW", "LOADING", "MISCONF", "REFUSED", "TIMEOUT", "UNKNOWN", "OOM"];
    codes.contains(&code) || (code == "ERR" && message == STOPPING)
}

/// What a server says that is stopped in the middle.
const STOPPING: &str = "the server is stopping";

/// An error's text. What was changed is for who runs the whole transaction to say, once.
fn told(text: &str) -> String {
    text.replace("; nothing was changed", "")
}

/// The transaction that an error names for SOLERA.OUTCOME, which it does where its outcome is not
/// known.
pub fn transaction_to_ask_for(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("SOLERA.OUTCOME ")?;
    let id = after.split(|c: char| c.is_whitespace() || ",;'\"`".contains(c)).next()?;
    let id = id.trim_end_matches('.');
    (!id.is_empty()).then_some(id)
}

/// An error reply to anything but a commit. What was open has no effect.
pub fn of_command(text: &str) -> StoreError {
    match parts(text).0 {
        // What ended by itself may be run again.
        "ABORTED" | "NOTX" => StoreError::Conflict,
        "NOPERM" | "NOAUTH" | "WRONGPASS" => StoreError::Denied(told(text)),
        "UNAVAILABLE" => StoreError::Unavailable(told(text)),
        _ if is_passing(text) => StoreError::Unavailable(told(text)),
        _ => StoreError::Refused(told(text)),
    }
}

/// An error of opening a session.
pub fn of_connect(text: &str) -> StoreError {
    match parts(text).0 {
        "NOPERM" => StoreError::Denied(told(text)),
        _ => StoreError::Unavailable(text.to_owned()),
    }
}

/// An error reply to a commit.
pub(crate) fn of_commit(text: &str) -> StoreError {
    let unknown = match parts(text) {
        ("UNAVAILABLE", message) => transaction_to_ask_for(message).is_some(),
        // The worker was stopped in the middle.
        ("MISCONF", message) => message.contains("unknown"),
        // It committed, and takes effect when a node answers again.
        ("UNKNOWN", _) => true,
        (_, message) => message == STOPPING,
    };
    if unknown { StoreError::OutcomeUnknown(text.to_owned()) } else { of_command(text) }
}

/// The end of a session in anything but a commit.
pub(crate) fn of_break(Broken(why): Broken) -> StoreError {
    StoreError::Unavailable(why)
}

/// A reply that no such command has.
pub(crate) fn unexpected(reply: &Reply) -> StoreError {
    let shown = match reply {
        Reply::Other(shown) => shown.clone(),
        other => format!("{other:?}"),
    };
    StoreError::Refused(format!("it answers {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> StoreError {
        of_command(text)
    }

    fn commit(text: &str) -> StoreError {
        of_commit(text)
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
        let text = "MISCONF the disk is full; whether the last writes were done is unknown";
        assert!(matches!(commit(text), StoreError::OutcomeUnknown(_)));
        assert!(matches!(commit("MISCONF the disk is full"), StoreError::Unavailable(_)));
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
