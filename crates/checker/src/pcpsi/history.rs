//! Histories of transactions on keys with versions.

/// A run of a store, as its clients observed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Transactions in any order. An operation outside of a transaction is a transaction of its
    /// own.
    pub transactions: Vec<Transaction>,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Session that ran it.
    pub session: usize,
    /// Position, unique within its session.
    pub order: usize,
    /// Site at which the session ran it. Only texts of violations use it.
    pub site: usize,
    /// Outcome.
    pub outcome: Outcome,
    /// Answered reads and all writes, answered or not, in the order of execution.
    pub operations: Vec<Operation>,
}

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client received the answer that it committed.
    Committed,
    /// It never takes effect.
    Aborted,
    /// The client received no answer. The transaction may have committed, or may do so later, even
    /// after the session's next transactions.
    Unknown,
}

/// An operation of a transaction. A read-modify-write operation is a write that shows the
/// overwritten version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Read(Read),
    /// Writes or removes a key.
    Write(Write),
}

/// A read of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Key.
    pub key: String,
    /// Version that the answer shows.
    pub version: Version,
    /// Whether the session accepted the answer although it was stale.
    pub stale: bool,
}

/// A write, which creates a version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Key.
    pub key: String,
    /// Number, unique among the writes of the key.
    pub id: u64,
    /// Whether it removes the key. Reads may then show [`Version::Absent`] or its number.
    pub removes: bool,
    /// Position among the versions of the key, if the store exhibits it.
    pub stamp: Option<u64>,
    /// Version that it overwrote, if the answer shows it.
    pub overwrote: Option<Version>,
}

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// No value: the initial version, or a removal.
    Absent,
    /// The version that the write with this number created.
    Of(u64),
}
