//! Violations that the checkers report.

use std::fmt;

use crate::history::{Answer, Op};

/// A violation of a guarantee. Transactions are named by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An answer that does not follow from the transaction's observations.
    WrongAnswer {
        /// The transaction.
        transaction: usize,
        /// The key.
        key: String,
        /// The operation.
        op: Op,
        /// The answer that follows.
        expected: Answer,
        /// The recorded answer.
        got: Answer,
    },
    /// A transaction does not observe an earlier one of its session.
    SessionOrder {
        /// The earlier transaction.
        earlier: usize,
        /// The later one.
        later: usize,
    },
    /// A transaction does not observe a write that an earlier read of its session returned.
    NonMonotonicRead {
        /// The earlier transaction.
        earlier: usize,
        /// The later one.
        later: usize,
        /// The write that is missing.
        write: usize,
        /// Its key.
        key: String,
    },
    /// A transaction observes another, but not everything that the other observed.
    Intransitive {
        /// The transaction that `second` observes.
        first: usize,
        /// The transaction that `third` observes.
        second: usize,
        /// The transaction that does not observe `first`.
        third: usize,
    },
    /// A committed transaction changed something, and has no position in the causal order.
    NoPlace {
        /// The transaction.
        transaction: usize,
    },
    /// Two transactions claim the same dot.
    SameDot {
        /// One transaction.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A transaction's time is not after that of a transaction it observed.
    TimeAgainstCausality {
        /// The observed transaction.
        first: usize,
        /// The observing transaction.
        second: usize,
    },
    /// A read returned an element that no transaction wrote, or whose writer had no effect.
    ThinAir {
        /// The reader.
        transaction: usize,
        /// The key.
        key: String,
        /// The element.
        element: String,
    },
    /// A read returned a value that its writer itself replaced before it committed.
    IntermediateRead {
        /// The reader.
        reader: usize,
        /// The writer.
        writer: usize,
        /// The key.
        key: String,
    },
    /// Reads-from and session order form a cycle through this transaction.
    CyclicCausality {
        /// A transaction on the cycle.
        transaction: usize,
    },
    /// A read misses a write that causally precedes it, or one of the reader's own.
    StaleRead {
        /// The reader.
        reader: usize,
        /// The missed writer.
        writer: usize,
        /// The key.
        key: String,
    },
    /// A transaction observed one write of another and missed a second.
    FracturedRead {
        /// The reader.
        reader: usize,
        /// The writer.
        writer: usize,
        /// The key on which the write is missing.
        key: String,
    },
    /// A transaction of a surviving site is missing at the end.
    Lost {
        /// The transaction.
        transaction: usize,
    },
    /// A strong transaction committed and is missing at the end.
    StrongLost {
        /// The transaction.
        transaction: usize,
    },
    /// A transaction with a strong operation committed without certification.
    NotCertified {
        /// The transaction.
        transaction: usize,
        /// The operation's key.
        key: String,
    },
    /// Conflict Ordering is violated: of two strong transactions that conflict, the one with the
    /// greater strong timestamp does not observe the other.
    ConflictOrder {
        /// The transaction with the smaller strong timestamp.
        first: usize,
        /// The transaction that should observe it.
        second: usize,
        /// The key on which they conflict.
        key: String,
    },
    /// A transaction at a linearizable key does not observe one that ended before it began.
    RealTime {
        /// The transaction that ended.
        earlier: usize,
        /// The transaction that began after that.
        later: usize,
        /// A key that the earlier one wrote.
        key: String,
    },
    /// No order of the operations on a linearizable key that agrees with real time explains their
    /// answers.
    NotLinearizable {
        /// The key.
        key: String,
        /// The first transaction, by the time of its answer, that no order reaches.
        transaction: usize,
    },
    /// A cycle of transactions, each of which must precede the next.
    NoOrder {
        /// Each transaction, and the reason why it must precede the next.
        cycle: Vec<(usize, Before)>,
    },
    /// A read at a surviving site observed a change that is missing at the end.
    SeenThenLost {
        /// The reader.
        reader: usize,
        /// The lost writer.
        writer: usize,
        /// The key.
        key: String,
    },
    /// Two sites answer differently after healing.
    Divergence {
        /// The key.
        key: String,
        /// One site and its answers.
        one: (usize, [Answer; 3]),
        /// Another site and its answers.
        other: (usize, [Answer; 3]),
    },
    /// The final state does not follow from the surviving transactions.
    WrongFinalState {
        /// The key.
        key: String,
        /// The state that follows.
        expected: [Answer; 3],
        /// The answers of the sites.
        got: [Answer; 3],
    },
}

/// Reason why one transaction must precede another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// The other transaction read the value that the first wrote to this key.
    Read(String),
    /// The other transaction replaced the value that the first wrote to this key.
    Replaced(String),
    /// The first transaction does not observe the other's write to this key.
    Misses(String),
    /// Both belong to one session.
    Session,
    /// The first transaction ended before the other began.
    RealTime,
}

impl Before {
    fn write(&self, f: &mut fmt::Formatter<'_>, one: usize, other: usize) -> fmt::Result {
        match self {
            Before::Read(key) => write!(f, "{other} read what {one} wrote to '{key}'"),
            Before::Replaced(key) => write!(f, "{other} replaced what {one} wrote to '{key}'"),
            Before::Misses(key) => write!(f, "{one} does not see what {other} wrote to '{key}'"),
            Before::Session => write!(f, "{other} came after {one} in their session"),
            Before::RealTime => write!(f, "{one} was answered before {other} began"),
        }
    }
}

impl Violation {
    /// Returns the key concerned.
    pub fn key(&self) -> Option<&str> {
        match self {
            Violation::WrongAnswer { key, .. }
            | Violation::NonMonotonicRead { key, .. }
            | Violation::ThinAir { key, .. }
            | Violation::StaleRead { key, .. }
            | Violation::IntermediateRead { key, .. }
            | Violation::FracturedRead { key, .. }
            | Violation::SeenThenLost { key, .. }
            | Violation::NotCertified { key, .. }
            | Violation::ConflictOrder { key, .. }
            | Violation::RealTime { key, .. }
            | Violation::NotLinearizable { key, .. }
            | Violation::Divergence { key, .. }
            | Violation::WrongFinalState { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Returns the transactions concerned.
    pub fn transactions(&self) -> Vec<usize> {
        match self {
            Violation::WrongAnswer { transaction, .. }
            | Violation::ThinAir { transaction, .. }
            | Violation::CyclicCausality { transaction }
            | Violation::NoPlace { transaction }
            | Violation::Lost { transaction }
            | Violation::StrongLost { transaction }
            | Violation::NotCertified { transaction, .. }
            | Violation::NotLinearizable { transaction, .. } => vec![*transaction],
            Violation::SessionOrder { earlier, later }
            | Violation::RealTime { earlier, later, .. } => vec![*earlier, *later],
            Violation::NonMonotonicRead { earlier, later, write, .. } => {
                vec![*earlier, *later, *write]
            }
            Violation::Intransitive { first, second, third } => vec![*first, *second, *third],
            Violation::SameDot { first, second }
            | Violation::TimeAgainstCausality { first, second }
            | Violation::ConflictOrder { first, second, .. } => vec![*first, *second],
            Violation::StaleRead { reader, writer, .. }
            | Violation::IntermediateRead { reader, writer, .. }
            | Violation::FracturedRead { reader, writer, .. }
            | Violation::SeenThenLost { reader, writer, .. } => vec![*reader, *writer],
            Violation::NoOrder { cycle } => cycle.iter().map(|(t, _)| *t).collect(),
            Violation::Divergence { .. } | Violation::WrongFinalState { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for Violation {
    #[expect(clippy::too_many_lines, reason = "one arm per violation")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::WrongAnswer { transaction, key, op, expected, got } => write!(
                f,
                "wrong answer: transaction {transaction} did {op:?} on '{key}' and got {got:?}; \
                 what it observed makes {expected:?}"
            ),
            Violation::SessionOrder { earlier, later } => {
                write!(f, "session order: {later} does not observe {earlier} of its own session")
            }
            Violation::NonMonotonicRead { earlier, later, write, key } => write!(
                f,
                "non-monotonic read: {earlier} saw the write of {write} to '{key}', and {later} of \
                 the same session does not"
            ),
            Violation::Intransitive { first, second, third } => write!(
                f,
                "causality violated: {third} observes {second}, which observed {first}, but not \
                 {first} itself"
            ),
            Violation::NoPlace { transaction } => {
                write!(f, "{transaction} changed something but has no place in the causal order")
            }
            Violation::SameDot { first, second } => {
                write!(
                    f,
                    "{first} and {second} have the same commit time of the same site, or strong timestamp"
                )
            }
            Violation::TimeAgainstCausality { first, second } => {
                write!(f, "{second} observed {first} but committed at an earlier time")
            }
            Violation::ThinAir { transaction, key, element } => {
                write!(f, "thin air: {transaction} read '{element}' in '{key}', never written")
            }
            Violation::IntermediateRead { reader, writer, key } => write!(
                f,
                "intermediate read: {reader} read in '{key}' what {writer} had itself replaced"
            ),
            Violation::CyclicCausality { transaction } => {
                write!(f, "cyclic causality through {transaction}")
            }
            Violation::StaleRead { reader, writer, key } => write!(
                f,
                "stale read: {reader} does not see the write of {writer} to '{key}', which \
                 causally precedes it"
            ),
            Violation::FracturedRead { reader, writer, key } => write!(
                f,
                "fractured read: {reader} sees one write of {writer} but not that to '{key}'"
            ),
            Violation::Lost { transaction } => {
                write!(f, "lost: {transaction} committed at a surviving site and is gone")
            }
            Violation::StrongLost { transaction } => {
                write!(f, "lost: the strong transaction {transaction} committed and is gone")
            }
            Violation::NotCertified { transaction, key } => write!(
                f,
                "not certified: {transaction} changed '{key}' by a strong operation, and committed \
                 without a strong timestamp"
            ),
            Violation::ConflictOrder { first, second, key } => write!(
                f,
                "conflict order: {first} and {second} conflict on '{key}', and {second}, which has the \
                 later strong timestamp, does not observe {first}"
            ),
            Violation::RealTime { earlier, later, key } => write!(
                f,
                "real time violated: {earlier} had written to '{key}' and was answered before {later} \
                 began, which does not see that"
            ),
            Violation::NotLinearizable { key, transaction } => write!(
                f,
                "not linearizable: no order of what clients did on '{key}' explains all answers up to \
                 that of {transaction}"
            ),
            Violation::NoOrder { cycle } => {
                write!(f, "no order:")?;
                for (at, (one, before)) in cycle.iter().enumerate() {
                    let (other, _) = &cycle[(at + 1) % cycle.len()];
                    write!(f, "{} ", if at == 0 { "" } else { "," })?;
                    before.write(f, *one, *other)?;
                }
                Ok(())
            }
            Violation::SeenThenLost { reader, writer, key } => write!(
                f,
                "seen, then lost: {reader} saw the write of {writer} to '{key}' at a surviving site, \
                 and it is gone"
            ),
            Violation::Divergence { key, one, other } => write!(
                f,
                "divergence on '{key}': site {} holds {:?}, site {} holds {:?}",
                one.0, one.1, other.0, other.1
            ),
            Violation::WrongFinalState { key, expected, got } => {
                write!(f, "final state of '{key}' is {got:?}; the transactions make {expected:?}")
            }
        }
    }
}
