//! Steps that must survive a restart, and parts of checkpoints.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use solera_machine::{DecodeError, Protocol};
use solera_time::{SiteId, Timestamp};

use crate::context::Context;
use crate::digest::Digest;
use crate::finals::Final;
use crate::ids::{OperationId, StreamId};
use crate::object::RegisterKey;
use crate::protocol::PROTOCOL;
use crate::request::Request;

/// A step that must be durable before a message or reply that follows it leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record<O> {
    /// A run has begun.
    Started {
        /// Its number.
        run: u64,
    },
    /// The site has invoked or received an operation, without a gap in its stream.
    Operation(Arc<Request<O>>),
    /// A step of the conditional atomic broadcast.
    Consensus(solera_consensus::Record),
    /// An encoded part of another site's data, which the joining site has fetched.
    Fetched(Encoded),
    /// The joining site has all parts, and begins with them.
    Filled,
    /// All sites have the same operations of these generations, and never get more.
    Closed(Closed),
}

/// An encoded part. It is read and written as a whole, not byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded(pub Vec<u8>);

impl Serialize for Encoded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Encoded, D::Error> {
        struct OfBytes;

        impl Visitor<'_> for OfBytes {
            type Value = Encoded;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Encoded, E> {
                Ok(Encoded(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(OfBytes)
    }
}

/// Generations of sites that are closed, and operations that are lost with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Number of closed generations of each site that has some.
    pub generations: Vec<(SiteId, u64)>,
    /// Operations that are never executed.
    pub lost: Vec<OperationId>,
}

/// A part of a checkpoint. All parts hold the state at the time of the first one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Part<O, V, R> {
    /// Everything but operations and registers. It comes first.
    Rest(Box<Rest>),
    /// Registers after the final operations.
    Registers(Vec<(RegisterKey, V)>),
    /// Operations that the streams keep, each stream in order.
    Kept(Vec<Arc<Request<O>>>),
    /// Committed operations that are not final, in order.
    Committed(Vec<Arc<Request<O>>>),
    /// A part of the conditional atomic broadcast.
    Consensus(solera_consensus::Part),
    /// The last final operations, in order.
    History(Vec<Final<O, R>>),
    /// What the conditional atomic broadcast has delivered. Joining sites receive it in place of
    /// [`Part::Consensus`].
    Delivered(solera_consensus::Snapshot),
    /// The site has joined with the data of another one.
    Filled,
    /// Closed generations of sites.
    Closed(Closed),
}

/// State whose size depends on the numbers of streams and of gaps in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// Number of the run.
    pub run: u64,
    /// The clock.
    pub clock: Timestamp,
    /// Number of events of each stream that were removed.
    pub removed: Vec<(StreamId, u64)>,
    /// Operations that are committed, or weak and tentative.
    pub causal: Context,
    /// Weak operations that are tentative.
    pub weak: Context,
    /// Number of committed casts of each run.
    pub casts: Vec<(StreamId, u64)>,
    /// Number of final operations.
    pub finals: u64,
    /// Digest of the final operations.
    pub digest: Digest,
}

const KNOWN: &[Protocol] = &[PROTOCOL];

impl<O: Serialize + DeserializeOwned> Record<O> {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// The bytes are no record of this protocol.
    pub fn decode(bytes: &[u8]) -> Result<Record<O>, DecodeError> {
        Protocol::decode_record(KNOWN, bytes)
    }
}

impl<O, V, R> Part<O, V, R>
where
    O: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        PROTOCOL.append_record(self, bytes);
    }

    /// Decodes a part.
    ///
    /// # Errors
    /// The bytes are no part of this protocol.
    pub fn decode(bytes: &[u8]) -> Result<Part<O, V, R>, DecodeError> {
        Protocol::decode_record(KNOWN, bytes)
    }
}
