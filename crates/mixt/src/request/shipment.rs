//! A group of phases on its way to a worker next to its store, and what comes back (MixT §7.2).
//!
//! What comes back is what the store has answered to each request, in order. The coordinator goes
//! through the group once more with these answers, by the code that has run at the worker: so what
//! it takes over is checked as if it had asked the store itself, and nothing else has to be
//! believed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::form::{Unreadable, decode, encode};
use crate::record::Record;
use crate::request::calls::StoreError;
use crate::request::{Reply, Request};
use crate::sight::Sight;
use crate::witness::TransactionId;

/// A group of phases with all that it needs but the program, which is known by the module's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shipment {
    /// Random: no two shipments have the same.
    pub(crate) number: u64,
    /// When it must not be begun or committed any more, in milliseconds since 1970.
    pub(crate) until_ms: u64,
    /// Which database is to run it.
    pub(crate) database: Arc<str>,
    pub(crate) sight: Sight,
    /// The transaction; the group is the one that is next.
    pub(crate) record: Record,
}

impl Shipment {
    /// Its number, which no other shipment has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The transaction's name.
    pub fn id(&self) -> TransactionId {
        self.record.id
    }

    /// The name of the module.
    pub fn module(&self) -> &Arc<str> {
        &self.record.module
    }

    /// In whose name the transaction asks a database, if that knows users.
    pub fn user(&self, database: &str) -> Option<&Arc<str>> {
        self.record.user(database)
    }

    /// The name of the database that is to run it.
    pub fn database(&self) -> &Arc<str> {
        &self.database
    }

    /// The spaces of the database to which the module's stores are bound.
    pub fn spaces(&self) -> impl Iterator<Item = &str> {
        let all = self.record.bindings.all().iter().map(|bound| &bound.place);
        all.filter(|place| place.database == self.database).map(|place| &*place.space)
    }

    /// When it must not be begun or committed any more, in milliseconds since 1970.
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// As bytes.
    pub fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are no shipment of this version.
    pub fn decode(bytes: &[u8]) -> Result<Shipment, Unreadable> {
        decode(bytes, "a shipment")
    }
}

/// What a worker has done: the answer to each request that the group made. Without an answer to its
/// last request, and with nothing that is open or may still commit, the worker has stopped before
/// it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shipped {
    pub(crate) replies: Vec<Result<Reply, StoreError>>,
}

impl Shipped {
    /// As bytes.
    pub fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are no answer of this version.
    pub fn decode(bytes: &[u8]) -> Result<Shipped, Unreadable> {
        decode(bytes, "the answer of a worker")
    }
}

/// Whether this may be the answer to that.
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
