//! Calls of transactions of modules.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_data::pattern::matches;
use solera_data::{Operation, RESERVED, Value};
use solera_program::run::Limits;

/// A call of a transaction of a module, all of whose stores are the space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Name by which the caller named the module, which has no effect.
    pub module: Arc<str>,
    /// Digest of the module, by which it was installed.
    pub digest: Arc<str>,
    /// The transaction.
    pub transaction: Arc<str>,
    /// The arguments in the form of [`Codec::argument`](solera_program::codec::Codec::argument).
    pub arguments: Vec<Value>,
    /// Whether it is to read only. It fails if it writes.
    pub read_only: bool,
    /// Beginning of the names of new objects. No other call may have it.
    pub names: Arc<str>,
    /// Limits of each phase.
    pub limits: Limits,
    /// Keys that the call may use.
    pub scope: Scope,
}

/// Keys that a call may use, and the operations on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Prefix of the keys of the space.
    pub prefix: Arc<str>,
    /// Longer prefixes, of keys of other spaces.
    pub except: Vec<Arc<str>>,
    /// Rights of the caller at the time of the call.
    pub rights: Vec<Right>,
}

/// Right to execute operations on keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Right {
    /// Pattern of the keys.
    pub pattern: Value,
    /// The operations, as bits ([`Operation::bit`]).
    pub operations: u64,
}

impl Right {
    /// Returns the right to execute all operations on all keys.
    pub fn everything() -> Right {
        Right { pattern: Value::from("*"), operations: u64::MAX }
    }
}

impl Scope {
    /// Returns the key of the space for an object's key.
    ///
    /// # Errors
    /// The reason why programs may not use the key.
    pub(crate) fn key(&self, key: &str) -> Result<Vec<u8>, String> {
        if key.is_empty() {
            return Err("a handle's key must not be empty".to_owned());
        }
        if key.starts_with(RESERVED) {
            return Err(format!("keys beginning with `{RESERVED}` are reserved: `{key}`"));
        }
        let whole = format!("{}{key}", self.prefix);
        if self.except.iter().any(|other| whole.starts_with(&**other)) {
            return Err(format!("the key `{whole}` is in another space"));
        }
        Ok(whole.into_bytes())
    }

    /// Returns whether the caller may execute an operation on a key.
    pub(crate) fn permits(&self, operation: Operation, key: &[u8]) -> bool {
        self.rights.iter().any(|right| {
            right.operations & operation.bit() != 0 && matches(right.pattern.as_bytes(), key)
        })
    }
}
