//! What is kept of a transaction, so that anybody can complete it.
//!
//! A recovery record and a ticket are the same: everything that a coordinator needs to go on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_program::run::Tapes;
use solera_program::value::Value;

use crate::access::Users;
use crate::bound::Bindings;
pub use crate::form::Unreadable;
use crate::form::{decode, encode};
use crate::place::{Fields, Name, Place};
use crate::witness::TransactionId;

/// How far a transaction has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The group that runs next.
    pub(crate) next: u32,
    /// What phases have handed on.
    pub(crate) tapes: Tapes,
    /// The result, if its phase is over.
    pub(crate) result: Option<Value>,
    /// What must be visible before a group begins that uses the place.
    pub(crate) worklist: Worklist,
    /// Beside what there are write witnesses of this transaction.
    pub(crate) noted: BTreeSet<(Arc<str>, Name)>,
}

impl State {
    /// The state, if a group is next that may be.
    pub(crate) fn at(
        self,
        groups: RangeInclusive<usize>,
        what: &'static str,
    ) -> Result<State, Unreadable> {
        if groups.contains(&(self.next as usize)) {
            return Ok(self);
        }
        let (next, first, last) = (self.next, groups.start(), groups.end());
        let why = format!("it says that group {next} is next, not one of {first} to {last}");
        Err(Unreadable { what, why })
    }
}

/// Commit witnesses that must appear in places (MixT §5.4).
pub(crate) type Worklist = BTreeMap<(Place, TransactionId), Source>;

/// What is known of a transaction that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// Where its record is.
    pub(crate) record: Place,
    /// When its write witness was found first.
    pub(crate) found_ms: u64,
}

/// Who goes on with a transaction, and since when. In a stored record: who ran the first group that
/// writes. In a ticket: who has given up, or whose turn was the last before. Turn 0 is that of the
/// coordinator that has begun it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) number: u32,
    /// In milliseconds since 1970, by the holder's clock. Of turn 0 it is when the first commit was
    /// asked for.
    pub(crate) since_ms: u64,
    /// At which replicas of databases its holder commits, as far as they are told apart.
    pub(crate) whence: Whence,
}

/// Replicas, by their databases.
pub(crate) type Whence = BTreeMap<Arc<str>, Arc<str>>;

impl Turn {
    /// What is kept of it next to the record.
    pub(crate) fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// Those that were taken, in their order, from what is kept next to a record.
    pub(crate) fn taken(fields: &Fields) -> Result<Vec<Turn>, Unreadable> {
        let turns = fields.range(1..).map(|(number, bytes)| {
            let turn: Turn = decode(bytes, "the turn of who completes it")?;
            if u64::from(turn.number) == *number {
                return Ok(turn);
            }
            let why = format!("it says that it is turn {}, not {number}", turn.number);
            Err(Unreadable { what: "the turn of who completes it", why })
        });
        turns.collect()
    }
}

/// A transaction that has begun, as it is kept in stores and given to callers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub(crate) id: TransactionId,
    pub(crate) module: Arc<str>,
    pub(crate) transaction: Arc<str>,
    pub(crate) args: Vec<Value>,
    pub(crate) bindings: Bindings,
    pub(crate) began_ms: u64,
    /// In whose name it is run, in each database that knows users: what it asks there is asked with
    /// their rights, whoever asks.
    pub(crate) users: Users,
    pub(crate) turn: Turn,
    /// Whether nothing is under way any more that was asked for in that turn. Only tickets can say
    /// so: who has written a record goes on, and who stops while the answer to a commit is out does
    /// not know when that takes effect.
    pub(crate) stopped: bool,
    pub(crate) state: State,
    /// Where the record is kept; none if there is none, as at most one group writes.
    pub(crate) home: Option<Place>,
    /// The marks of the other groups that write.
    pub(crate) marks: Vec<(Arc<str>, Name)>,
    /// Where there are commit witnesses.
    pub(crate) witnessed: Arc<[Place]>,
    /// Whether all is done, and only what is left behind is to be removed.
    pub(crate) complete: bool,
    /// Why it can never be completed.
    pub(crate) failed: Option<String>,
}

impl Record {
    /// The transaction's name.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// The name of the module.
    pub fn module(&self) -> &str {
        &self.module
    }

    /// What its module's stores are.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// The name of the transaction in the module.
    pub fn transaction(&self) -> &str {
        &self.transaction
    }

    /// When it began, by its coordinator's clock.
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// In whose name it asks a database, if that knows users.
    pub fn user(&self, database: &str) -> Option<&Arc<str>> {
        self.users.get(database)
    }

    /// The same transaction, gone on with in the name of another user of a database.
    pub fn in_name_of(mut self, database: &str, user: &str) -> Record {
        self.users.insert(database.into(), user.into());
        self
    }

    /// The same transaction, in the names of these users again.
    pub fn in_names_of(mut self, users: Users) -> Record {
        self.users = users;
        self
    }

    /// The users in whose names it asks databases.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Whichever of a stored record and a ticket of the same transaction tells more: a ticket may
    /// say that its holder has stopped, so that nobody need wait for it.
    pub fn or_ticket(self, ticket: Record) -> Record {
        let later = ticket.id == self.id && ticket.state.next >= self.state.next;
        if later { ticket } else { self }
    }

    /// Whether all of it has taken effect, and only what it has left behind is to be removed.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// A ticket of a transaction that is complete by now, with its result.
    pub(crate) fn with_result(self, result: Value) -> Record {
        Record { state: State { result: Some(result), ..self.state }, ..self }
    }

    /// Why it can never be completed, if that is so.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// As bytes.
    pub fn encode(&self) -> Arc<[u8]> {
        encode(self)
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are no record of this version.
    pub fn decode(bytes: &[u8]) -> Result<Record, Unreadable> {
        decode(bytes, "a recovery record")
    }
}
