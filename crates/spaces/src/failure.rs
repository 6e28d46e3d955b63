//! Classification of a server's errors for a transaction.

use solera_mixt::store::StoreError;

use crate::port::{Broken, Reply};

/// Splits an error reply into its code and the rest.
fn parts(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Returns the code and text of the error that made the server give a transaction up. Returns an
/// error's own code and text if it has no such cause.
fn cause(text: &str) -> (&str, &str) {
    let (code, message) = parts(text);
    let cause = message.split_once("because of: ").or_else(|| message.split_once("first: "));
    match cause.filter(|_| code == "EXECABORT") {
        Some((_, cause)) => parts(cause),
        None => (code, message),
    }
}

/// Returns whether an error is temporary: the server cannot answer now, but may later.
fn is_passing(text: &str) -> bool {
    let (code, message) = cause(text);
    let codes =
        ["TRYAGAIN", "TOOFEW", "LOADING", "MISCONF", "REFUSED", "TIMEOUT", "UNKNOWN", "OOM"];
    codes.contains(&code) || (code == "ERR" && message == STOPPING)
}

/// Error of a server that is stopped while it executes a command.
const STOPPING: &str = "the server is stopping";

/// Returns an error's text without the note that nothing was changed. The code that runs the whole
/// transaction adds it, once.
fn without_note(text: &str) -> String {
    text.replace("; nothing was changed", "")
}

/// Returns the name of the transaction for SOLERA.OUTCOME, which an error contains if the outcome
/// is unknown.
pub fn transaction_to_ask_for(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("SOLERA.OUTCOME ")?;
    let id = after.split(|c: char| c.is_whitespace() || ",;'\"`".contains(c)).next()?;
    let id = id.trim_end_matches('.');
    (!id.is_empty()).then_some(id)
}

/// Converts an error reply to any command other than a commit. The open transaction has no effect.
pub fn of_command(text: &str) -> StoreError {
    match parts(text).0 {
        // A transaction that the server has ended may be retried.
        "ABORTED" | "NOTX" => StoreError::Conflict,
        "NOPERM" | "NOAUTH" | "WRONGPASS" => StoreError::Denied(without_note(text)),
        "UNAVAILABLE" => StoreError::Unavailable(without_note(text)),
        _ if is_passing(text) => StoreError::Unavailable(without_note(text)),
        _ => StoreError::Refused(without_note(text)),
    }
}

/// Converts an error of opening a session.
pub fn of_connect(text: &str) -> StoreError {
    match parts(text).0 {
        "NOPERM" => StoreError::Denied(without_note(text)),
        _ => StoreError::Unavailable(text.to_owned()),
    }
}

/// Converts an error reply to a commit.
pub(crate) fn of_commit(text: &str) -> StoreError {
    let unknown = match parts(text) {
        ("UNAVAILABLE", message) => transaction_to_ask_for(message).is_some(),
        // The worker was stopped while it executed the commit.
        ("MISCONF", message) => message.contains("unknown"),
        // The transaction committed, and takes effect when a node answers again.
        ("UNKNOWN", _) => true,
        (_, message) => message == STOPPING,
    };
    if unknown { StoreError::OutcomeUnknown(text.to_owned()) } else { of_command(text) }
}

/// Converts the end of a session during any command other than a commit.
pub(crate) fn of_break(Broken(why): Broken) -> StoreError {
    StoreError::Unavailable(why)
}

/// Returns the error for a reply that does not belong to its command.
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
    fn unavailable_and_unknown_outcomes_are_distinguished() {
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
    fn missing_rights_and_permanent_errors_are_distinguished() {
        let text = "NOPERM no permissions to access a key";
        assert_eq!(command(text), StoreError::Denied(text.to_owned()));
        let text = "TOOLARGE at most 5 operations; nothing was changed (see there)";
        let expected = "TOOLARGE at most 5 operations (see there)";
        assert_eq!(commit(text), StoreError::Refused(expected.to_owned()));
        let text = "WRONGTYPE it is a hash";
        assert_eq!(command(text), StoreError::Refused(text.to_owned()));
        let text = "EXECABORT Transaction discarded because of previous errors, first: ERR no";
        assert_eq!(commit(text), StoreError::Refused(text.to_owned()));
    }
}
