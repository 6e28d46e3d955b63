//! Violations of PC-PSI, and their texts.

use std::fmt;

use super::history::{Transaction, Version};

/// A violation of PC-PSI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two writes of a key have one number. The history is malformed, and the second write is
    /// ignored.
    RepeatedWrite {
        /// Transaction of the first write.
        first: TransactionName,
        /// Transaction of the second write.
        second: TransactionName,
        /// Key.
        key: String,
        /// Number.
        id: u64,
    },
    /// A transaction reads a write of an aborted one.
    AbortedRead {
        /// Transaction that reads.
        reader: TransactionName,
        /// Transaction that aborted.
        writer: TransactionName,
        /// Key.
        key: String,
        /// Number of the write.
        id: u64,
    },
    /// A transaction reads a write that its writer overwrote itself.
    IntermediateRead {
        /// Transaction that reads.
        reader: TransactionName,
        /// Transaction that wrote.
        writer: TransactionName,
        /// Key.
        key: String,
        /// Number of the write.
        id: u64,
        /// Number of the writer's last write of the key.
        last: u64,
    },
    /// A transaction reads a write that is not in the history.
    NeverWritten {
        /// Transaction that reads.
        reader: TransactionName,
        /// Key.
        key: String,
        /// Number of the write.
        id: u64,
    },
    /// A transaction reads a write that it performs only later.
    FromTheFuture {
        /// Transaction that reads.
        reader: TransactionName,
        /// Key.
        key: String,
        /// Number of the write.
        id: u64,
    },
    /// A transaction reads another version than that of its own latest write of the key.
    MissesOwnWrite {
        /// Transaction.
        reader: TransactionName,
        /// Key.
        key: String,
        /// Number of its own latest write.
        own: u64,
        /// Version that it reads.
        version: Version,
    },
    /// Two writes of a key have one stamp.
    SameStamp {
        /// Key.
        key: String,
        /// Stamp.
        stamp: u64,
        /// Transaction and number of one write.
        first: (TransactionName, u64),
        /// Transaction and number of the other write.
        second: (TransactionName, u64),
    },
    /// A transaction overwrote a version whose stamp is greater than that of its own write.
    StampsContradict {
        /// Key.
        key: String,
        /// Transaction, number and stamp of the version that was overwritten.
        overwritten: (TransactionName, u64, u64),
        /// Transaction, number and stamp of the write that overwrote it.
        by: (TransactionName, u64, u64),
    },
    /// Two transactions overwrote one version of a key.
    LostUpdate {
        /// One transaction.
        first: TransactionName,
        /// The other transaction.
        second: TransactionName,
        /// Key.
        key: String,
        /// Version that both overwrote.
        version: Version,
    },
    /// A cycle of dependencies without a missed write.
    CircularInformationFlow {
        /// Edges; each begins where the previous one ends.
        cycle: Vec<Edge>,
    },
    /// A cycle of dependencies with exactly one missed write.
    MissedEffects {
        /// Edges. The first one is the missed write.
        cycle: Vec<Edge>,
        /// Path from the writer of the version that was read to the writer of the missed version,
        /// which proves the order of the two versions. Empty where stamps, overwritten versions or
        /// the initial version prove it.
        order: Vec<Edge>,
    },
    /// Every order of the versions has a cycle of one of these two kinds.
    NoVersionOrder {
        /// Edges. Some of them hold because the opposite order has a cycle as well.
        cycle: Vec<Edge>,
    },
}

/// Name of a transaction in violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionName {
    /// Session.
    pub session: usize,
    /// Position in the session.
    pub order: usize,
    /// Site.
    pub site: usize,
}

/// A dependency between two transactions: the first must precede the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// First transaction.
    pub from: TransactionName,
    /// Second transaction.
    pub to: TransactionName,
    /// Reason.
    pub dependency: Dependency,
}

/// Reason why a transaction must precede another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// The session committed the first before the second (sd).
    Session,
    /// The second reads or overwrites the version that the first wrote (wr).
    Read {
        /// Key.
        key: String,
        /// Number of the write.
        id: u64,
    },
    /// The first's version precedes the second's (ww).
    Order {
        /// Key.
        key: String,
        /// Number of the first's write.
        earlier: u64,
        /// Number of the second's write.
        later: u64,
    },
    /// The first reads a version that precedes the second's (rw).
    Misses {
        /// Key.
        key: String,
        /// Version that the first reads.
        version: Version,
        /// Number of the second's write.
        missed: u64,
    },
    /// The first's version precedes the second's (ww), because `reader` would miss effects in the
    /// opposite order.
    Implied {
        /// Key.
        key: String,
        /// Number of the first's write.
        earlier: u64,
        /// Number of the second's write.
        later: u64,
        /// Transaction that would miss effects.
        reader: TransactionName,
    },
}

impl From<&Transaction> for TransactionName {
    fn from(transaction: &Transaction) -> Self {
        let Transaction { session, order, site, .. } = *transaction;
        TransactionName { session, order, site }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::RepeatedWrite { first, second, key, id } => {
                write!(f, "malformed history: {first} and {second} both have write {id} of '{key}'")
            }
            Violation::AbortedRead { reader, writer, key, id } => {
                write!(
                    f,
                    "aborted read: {reader} reads write {id} of '{key}' by {writer}, which aborted"
                )
            }
            Violation::IntermediateRead { reader, writer, key, id, last } => write!(
                f,
                "intermediate read: {reader} reads write {id} of '{key}' by {writer}, which \
                 overwrote it with write {last}"
            ),
            Violation::NeverWritten { reader, key, id } => {
                write!(f, "never written: {reader} reads write {id} of '{key}'")
            }
            Violation::FromTheFuture { reader, key, id } => write!(
                f,
                "from the future: {reader} reads its own write {id} of '{key}' before it writes it"
            ),
            Violation::MissesOwnWrite { reader, key, own, version } => write!(
                f,
                "misses its own write: {reader} reads {version} of '{key}' after its own write \
                 {own}"
            ),
            Violation::SameStamp { key, stamp, first, second } => write!(
                f,
                "same stamp: write {} of '{key}' by {} and write {} by {} both have the stamp \
                 {stamp}",
                first.1, first.0, second.1, second.0
            ),
            Violation::StampsContradict { key, overwritten, by } => write!(
                f,
                "stamps contradict answers: write {} of '{key}' by {}, with the stamp {}, \
                 overwrote write {} by {}, with the stamp {}",
                by.1, by.0, by.2, overwritten.1, overwritten.0, overwritten.2
            ),
            Violation::LostUpdate { first, second, key, version } => {
                write!(f, "lost update: {first} and {second} both overwrote {version} of '{key}'")
            }
            Violation::CircularInformationFlow { cycle } => {
                write_edges(f, "circular information flow", cycle)
            }
            Violation::MissedEffects { cycle, order } => {
                write_edges(f, "missed effects", cycle)?;
                if !order.is_empty() {
                    write_edges(f, "; the order of the two versions follows from", order)?;
                }
                Ok(())
            }
            Violation::NoVersionOrder { cycle } => write_edges(f, "no version order", cycle),
        }
    }
}

fn write_edges(f: &mut fmt::Formatter<'_>, title: &str, edges: &[Edge]) -> fmt::Result {
    f.write_str(title)?;
    for (at, edge) in edges.iter().enumerate() {
        f.write_str(if at == 0 { ": " } else { "; " })?;
        write!(f, "{edge}")?;
    }
    Ok(())
}

impl fmt::Display for TransactionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TransactionName { session, order, site } = self;
        write!(f, "transaction {order} of session {session} at site {site}")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Absent => f.write_str("no value"),
            Version::Of(id) => write!(f, "version {id}"),
        }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Edge { from, to, dependency } = self;
        match dependency {
            Dependency::Session => write!(f, "{from} precedes {to} (sd)"),
            Dependency::Read { key, id } => {
                write!(f, "{from} makes write {id} of '{key}', which {to} reads (wr)")
            }
            Dependency::Order { key, earlier, later } => write!(
                f,
                "{from} makes write {earlier} of '{key}', which precedes write {later} by {to} (ww)"
            ),
            Dependency::Misses { key, version, missed } => write!(
                f,
                "{from} reads {version} of '{key}' and misses write {missed} by {to} (rw)"
            ),
            Dependency::Implied { key, earlier, later, reader } => write!(
                f,
                "{from} makes write {earlier} of '{key}', which must precede write {later} by {to} \
                 (ww), because {reader} misses effects otherwise"
            ),
        }
    }
}
