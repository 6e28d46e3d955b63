//! Clients' commands and their replies.

use serde::{Deserialize, Serialize};
use solera_data::{Key, Value};

use crate::position::{Past, Position};

/// Longest value in bytes.
pub const MAX_VALUE: usize = 1 << 20;

/// A change of one key's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Update {
    /// Replaces the value.
    Set(Value),
    /// Appends to the value, which is empty if there is none.
    Append(Value),
    /// Adds to a decimal number, which is 0 if there is none.
    IncrBy(i64),
    /// Removes the value.
    Delete,
}

/// A command of a client. The gateway sends it to the worker of its site that owns the key or the
/// partitions of the past.
///
/// The nodes of a site send commands and responses to one another. Variants therefore keep their
/// order, and new ones are added at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Reads the local replica.
    Read {
        /// The key.
        key: Key,
    },
    /// Changes a key at its home.
    Update {
        /// The key.
        key: Key,
        /// The change.
        update: Update,
    },
    /// Waits until this worker has applied all updates that the session has seen.
    Attach {
        /// Positions that the session has seen, in partitions of this worker.
        past: Past,
    },
    /// Waits until f + 1 sites store all updates that the session has seen.
    Barrier {
        /// Positions that the session has seen, in partitions of this worker.
        past: Past,
    },
}

/// Result of an update that is in its partition's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The position of the update.
    pub position: Position,
    /// The sum after [`Update::IncrBy`], the length after [`Update::Append`], or the number of keys
    /// that [`Update::Delete`] removed. `None` after [`Update::Set`], or if only the position is
    /// known.
    pub number: Option<i64>,
}

/// A reply to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// The value at the local replica.
    Value {
        /// The value; `None` if the key has none.
        value: Option<Value>,
        /// End of the history that the replica has applied.
        position: Position,
    },
    /// The home has ordered and stored the update. [`Response::Applied`] or [`Response::Failed`]
    /// follows.
    Accepted(Done),
    /// This site has applied the update. This is the last reply.
    Applied(Done),
    /// This worker has applied the past of an ATTACH.
    Attached,
    /// f + 1 sites store the past of a BARRIER, or all members if these are fewer.
    Stored,
    /// The command has failed. This is the last reply.
    Failed(Failure),
}

/// Reason why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// No answer arrived in time. An update may have been executed, and may still be executed.
    #[error("the home of the key did not answer in time; the outcome is unknown")]
    TimedOut,
    /// The session has seen updates that only lost sites stored.
    #[error("the session has seen updates that were lost with a site")]
    Lost,
    /// The value is not a decimal number, or the sum is out of range. Nothing was changed.
    #[error("the value is not an integer or out of range")]
    NotANumber,
    /// The value would be longer than [`MAX_VALUE`]. Nothing was changed.
    #[error("the value would be too long")]
    TooLarge,
    /// Another worker of the site owns the partition. Nothing was executed.
    #[error("another worker of the site owns the key")]
    OtherWorker,
    /// Too many updates wait at this worker. Nothing was executed.
    #[error("too many updates wait at this worker")]
    Busy,
}

impl Update {
    /// Returns the value after the update. All replicas compute the same value.
    ///
    /// # Errors
    /// [`Failure::NotANumber`] and [`Failure::TooLarge`].
    pub fn apply(&self, value: Option<&Value>) -> Result<Option<Value>, Failure> {
        let bytes = value.map_or(&[][..], |value| value.as_bytes());
        match self {
            Update::Set(new) => bounded(new.clone()).map(Some),
            Update::Append(end) if bytes.len() + end.len() > MAX_VALUE => Err(Failure::TooLarge),
            Update::Append(end) => Ok(Some(Value::from(&[bytes, end.as_bytes()].concat()[..]))),
            Update::IncrBy(by) => {
                let text = if value.is_none() { Ok("0") } else { std::str::from_utf8(bytes) };
                let number: i64 =
                    text.ok().and_then(|text| text.parse().ok()).ok_or(Failure::NotANumber)?;
                let sum = number.checked_add(*by).ok_or(Failure::NotANumber)?;
                Ok(Some(Value::from(sum.to_string().as_bytes())))
            }
            Update::Delete => Ok(None),
        }
    }

    /// Returns the [`Done::number`] of the update that has turned `before` into `after`.
    pub(crate) fn number(&self, before: Option<&Value>, after: Option<&Value>) -> Option<i64> {
        match self {
            Update::Set(_) => None,
            Update::Append(_) => i64::try_from(after?.len()).ok(),
            Update::IncrBy(_) => std::str::from_utf8(after?.as_bytes()).ok()?.parse().ok(),
            Update::Delete => Some(i64::from(before.is_some())),
        }
    }
}

fn bounded(value: Value) -> Result<Value, Failure> {
    if value.len() > MAX_VALUE { Err(Failure::TooLarge) } else { Ok(value) }
}
