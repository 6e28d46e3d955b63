//! The record of a transaction, with which any host can complete it.
//!
//! A recovery record and a ticket are the same: everything that a coordinator needs to continue.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_program::run::Tapes;
use solera_program::value::Value;

use crate::access::Users;
use crate::bound::Bindings;
use crate::location::{Fields, Location, Name};
pub use crate::versioned::Unreadable;
use crate::versioned::{decode, encode};
use crate::witness::TransactionId;

/// Progress of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Index of the next group.
    pub(crate) next: u32,
    /// Values that phases have handed on.
    pub(crate) tapes: Tapes,
    /// Result, if its phase has run.
    pub(crate) result: Option<Value>,
    /// Commit witnesses that must be visible before a group uses their place.
    pub(crate) worklist: Worklist,
    /// Names of the write witnesses that this transaction has written.
    pub(crate) noted: BTreeSet<(Arc<str>, Name)>,
}

impl State {
    /// Returns the state if its next group is one of `groups`; fails otherwise.
    pub(crate) fn at(
        self,
        groups: RangeInclusive<usize>,
        what: &'static str,
    ) -> Result<State, Unreadable> {
        if groups.contains(&(self.next as usize)) {
            return Ok(self);
        }
        let (next, first, last) = (self.next, groups.start(), groups.end());
        let why = format!("its next group is {next}, not one of {first} to {last}");
        Err(Unreadable { what, why })
    }
}

/// Commit witnesses that must appear in places (MixT §5.4).
pub(crate) type Worklist = BTreeMap<(Location, TransactionId), Source>;

/// Origin of a commit witness that a transaction waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// Location of the other transaction's record.
    pub(crate) record: Location,
    /// Time when its write witness was found first.
    pub(crate) found_ms: u64,
}

/// Right of one coordinator to complete a transaction. A stored record contains the lease of the
/// coordinator that ran the first group that writes. A ticket contains that of the coordinator that
/// has stopped, or the last one before. Lease 0 belongs to the coordinator that began the
/// transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecoveryLease {
    pub(crate) number: u32,
    /// Start, in milliseconds since 1970, by the holder's clock. For lease 0 it is the time of the
    /// first commit request.
    pub(crate) since_ms: u64,
    /// Replicas of databases at which its holder commits, as far as databases distinguish them.
    pub(crate) commit_replicas: CommitReplicas,
}

/// Replicas, by their databases.
pub(crate) type CommitReplicas = BTreeMap<Arc<str>, Arc<str>>;

impl RecoveryLease {
    /// Encodes the lease as it is stored next to the record.
    pub(crate) fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// Decodes the leases that are stored next to a record, in order of their numbers.
    pub(crate) fn acquired(fields: &Fields) -> Result<Vec<RecoveryLease>, Unreadable> {
        let leases = fields.range(1..).map(|(number, bytes)| {
            let lease: RecoveryLease = decode(bytes, "a recovery lease")?;
            if u64::from(lease.number) == *number {
                return Ok(lease);
            }
            let why = format!("its number is {}, not {number}", lease.number);
            Err(Unreadable { what: "a recovery lease", why })
        });
        leases.collect()
    }
}

/// A transaction that has begun, as stores keep it and callers receive it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub(crate) id: TransactionId,
    pub(crate) module: Arc<str>,
    pub(crate) transaction: Arc<str>,
    pub(crate) args: Vec<Value>,
    pub(crate) bindings: Bindings,
    pub(crate) began_ms: u64,
    /// User in whose name it runs, in each database that has users. Its requests have that user's
    /// rights, whichever host makes them.
    pub(crate) users: Users,
    pub(crate) lease: RecoveryLease,
    /// Whether no request of that lease is still in progress. Only tickets can contain `true`: the
    /// writer of a record continues, and a coordinator that stops while the answer to a commit is
    /// outstanding does not know when the commit takes effect.
    pub(crate) stopped: bool,
    pub(crate) state: State,
    /// Location of the record; `None` if there is none, because at most one group writes.
    pub(crate) home: Option<Location>,
    /// Done marks of the other groups that write.
    pub(crate) marks: Vec<(Arc<str>, Name)>,
    /// Places of commit witnesses.
    pub(crate) witnessed: Arc<[Location]>,
    /// Whether all groups are done, so that only garbage is left to remove.
    pub(crate) complete: bool,
    /// Reason why it can never be completed.
    pub(crate) failed: Option<String>,
}

impl Record {
    /// Returns the transaction's identifier.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// Returns the name of the module.
    pub fn module(&self) -> &str {
        &self.module
    }

    /// Returns the bindings of its module's stores.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Returns the name of the transaction in the module.
    pub fn transaction(&self) -> &str {
        &self.transaction
    }

    /// Returns the time when it began, by its coordinator's clock.
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// Returns the user in whose name it uses a database, if the database has users.
    pub fn user(&self, database: &str) -> Option<&Arc<str>> {
        self.users.get(database)
    }

    /// Returns the same transaction with another user of a database.
    pub fn in_name_of(mut self, database: &str, user: &str) -> Record {
        self.users.insert(database.into(), user.into());
        self
    }

    /// Returns the same transaction with these users.
    pub fn in_names_of(mut self, users: Users) -> Record {
        self.users = users;
        self
    }

    /// Returns the users in whose names it uses databases.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the more recent of this stored record and a ticket of the same transaction. A ticket
    /// may show that the holder of its lease has stopped, so that no coordinator need wait for that
    /// holder.
    pub fn or_ticket(self, ticket: Record) -> Record {
        let later = ticket.id == self.id && ticket.state.next >= self.state.next;
        if later { ticket } else { self }
    }

    /// Returns whether all of it has taken effect, so that only garbage is left to remove.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the ticket of a transaction that has since completed, with its result.
    pub(crate) fn with_result(self, result: Value) -> Record {
        Record { state: State { result: Some(result), ..self.state }, ..self }
    }

    /// Returns the reason why it can never be completed, if there is one.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Encodes it as bytes.
    pub fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// Decodes it from bytes.
    ///
    /// # Errors
    /// If they are not a record of this version.
    pub fn decode(bytes: &[u8]) -> Result<Record, Unreadable> {
        decode(bytes, "a recovery record")
    }
}
