//! The meaning of a session's errors for mixed transactions.

use solera_mixt::store::StoreError;
use solera_redis::error_of_reply;

use crate::error::Error;

/// Returns the error of a request of an open transaction, or of its commit.
pub(super) fn of(error: Error) -> StoreError {
    let text = error.to_string();
    match error {
        Error::Aborted(_) | Error::Changed => StoreError::Conflict,
        Error::Unknown { .. } => StoreError::OutcomeUnknown(text),
        Error::Stale { .. } | Error::Unavailable { .. } | Error::NoCluster(_) => {
            StoreError::Unavailable(text)
        }
        Error::Reply(text) => error_of_reply(&text),
        Error::Failed { text: ref code, .. } if code.starts_with("ERR") => {
            StoreError::Refused(text)
        }
        // An administrator must repair the data, or decide that the lost writes do not matter.
        Error::Lost { .. }
        | Error::DamagedTimestamp { .. }
        | Error::DamagedRecord { .. }
        | Error::Foreign { .. }
        | Error::Layout { .. }
        | Error::Ahead(_)
        | Error::Failed { .. } => StoreError::Denied(text),
        Error::RepliesLost(_) | Error::Token(_) | Error::Refused(_) => StoreError::Refused(text),
    }
}

/// Returns the error of the beginning of a transaction. The session has determined the outcome of
/// its last transaction before.
pub(super) fn of_begin(error: Error) -> StoreError {
    match of(error) {
        StoreError::OutcomeUnknown(text) => StoreError::Unavailable(text),
        other => other,
    }
}
