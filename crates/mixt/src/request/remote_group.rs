//! A group of phases sent to a worker next to its store, and the replies (MixT §7.2).
//!
//! The worker returns the store's answer to each request, in order. The coordinator runs the group
//! once more with these answers, by the same code as the worker. It therefore checks them like
//! answers of the store itself, and does not rely on the worker's results.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::Record;
use crate::request::calls::StoreError;
use crate::request::{Reply, Request};
use crate::versioned::{Unreadable, decode, encode};
use crate::visibility::Visibility;
use crate::witness::TransactionId;

/// A group of phases with all that it needs except the program, which the module's name identifies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteGroup {
    /// Random number, unique to this remote group.
    pub(crate) number: u64,
    /// Time after which a worker must not begin or commit it, in milliseconds since 1970.
    pub(crate) until_ms: u64,
    /// Database that is to run it.
    pub(crate) database: Arc<str>,
    pub(crate) visibility: Visibility,
    /// Record of the transaction; the group is the next one.
    pub(crate) record: Record,
}

impl RemoteGroup {
    /// Returns its number, which no other remote group has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the transaction's identifier.
    pub fn id(&self) -> TransactionId {
        self.record.id
    }

    /// Returns the name of the module.
    pub fn module(&self) -> &Arc<str> {
        &self.record.module
    }

    /// Returns the user in whose name the transaction uses a database, if the database has users.
    pub fn user(&self, database: &str) -> Option<&Arc<str>> {
        self.record.user(database)
    }

    /// Returns the name of the database that is to run it.
    pub fn database(&self) -> &Arc<str> {
        &self.database
    }

    /// Returns the spaces of the database to which the module's stores are bound.
    pub fn spaces(&self) -> impl Iterator<Item = &str> {
        let all = self.record.bindings.all().iter().map(|bound| &bound.place);
        all.filter(|place| place.database == self.database).map(|place| &*place.space)
    }

    /// Returns the time after which a worker must not begin or commit it, in milliseconds since
    /// 1970.
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// Encodes it as bytes.
    pub fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// Decodes it from bytes.
    ///
    /// # Errors
    /// If they are not a remote group of this version.
    pub fn decode(bytes: &[u8]) -> Result<RemoteGroup, Unreadable> {
        decode(bytes, "a remote group")
    }
}

/// Replies of a worker: the answer to each request of the group. If the answer to the last request
/// is missing, the worker stopped before that request, and no transaction is open or may still
/// commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoteReplies {
    pub(crate) replies: Vec<Result<Reply, StoreError>>,
}

impl RemoteReplies {
    /// Encodes them as bytes.
    pub fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// Decodes them from bytes.
    ///
    /// # Errors
    /// If they are not replies of this version.
    pub fn decode(bytes: &[u8]) -> Result<RemoteReplies, Unreadable> {
        decode(bytes, "the answer of a worker")
    }
}

/// Returns whether `reply` can be the answer to `request`.
pub(crate) fn answers(request: &Request, reply: &Result<Reply, StoreError>) -> bool {
    match (request, reply) {
        (Request::Execute(_) | Request::Permits(_), _) => false,
        (_, Err(_)) | (Request::Abort, Ok(Reply::Done)) => true,
        (Request::Begin(begin), Ok(Reply::Began(fields))) => fields.len() == begin.names.len(),
        (Request::Perform(_) | Request::Custom(_), Ok(Reply::Answered(_))) => true,
        (Request::Commit(_), Ok(Reply::Committed)) => true,
        (Request::Certify, Ok(Reply::Certified)) => true,
        _ => false,
    }
}
