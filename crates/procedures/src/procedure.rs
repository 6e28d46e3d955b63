//! Operations of a speculative space, and what they return.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_data::{Key, Op, Value as Bytes};

use crate::call::Call;
use crate::failure::CallError;
use crate::shown::Shown;
use crate::value::KeyResult;

/// An operation of a speculative space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Procedure {
    /// Operations on keys, executed in order if each expected key still has its digest.
    Keys {
        /// Keys with the results that [`Op::Digest`] has on them.
        expects: Vec<(Key, KeyResult)>,
        /// The operations.
        steps: Vec<(Key, Op)>,
    },
    /// Stores a module for later calls. A module that is there already stays as it is.
    Install {
        /// Digest of its source.
        digest: Arc<str>,
        /// The module, encoded by [`Module::encode`](crate::Module::encode).
        module: Bytes,
    },
    /// Calls a transaction of a module.
    Call(Box<Call>),
}

impl Procedure {
    /// Returns the procedure that executes operations on keys in order.
    pub fn of_steps(steps: Vec<(Key, Op)>) -> Procedure {
        Procedure::Keys { expects: Vec::new(), steps }
    }

    /// Returns the keys that it names. A call of a transaction names none.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let (expects, steps): (&[_], &[_]) = match self {
            Procedure::Keys { expects, steps } => (expects, steps),
            Procedure::Install { .. } | Procedure::Call(_) => (&[], &[]),
        };
        let expected = expects.iter().map(|(key, _): &(Key, KeyResult)| key.as_bytes());
        expected.chain(steps.iter().map(|(key, _): &(Key, Op)| key.as_bytes()))
    }

    /// Returns whether it never writes.
    pub fn is_read_only(&self) -> bool {
        match self {
            Procedure::Keys { steps, .. } => steps.iter().all(|(_, op)| !op.is_update()),
            Procedure::Install { .. } => false,
            Procedure::Call(call) => call.read_only,
        }
    }
}

/// Response to a [`Procedure`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Returned {
    /// The results of the operations on keys, in order.
    Outcomes(Vec<KeyResult>),
    /// An expected key has changed; nothing was done.
    Changed,
    /// The module is installed.
    Installed,
    /// The call has taken effect, with this result.
    Result(Shown),
    /// The call, or the installation of a module, has had no effect.
    Failed(CallError),
}
