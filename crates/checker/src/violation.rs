//! What the judges find.

use std::fmt;

use crate::history::{Answer, Op};

/// Something that no store does that keeps its promises. Transactions are named by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An answer that does not follow from what the transaction observed.
    WrongAnswer {
        /// The transaction.
        transaction: usize,
        /// The key.
        key: String,
        /// What was done.
        op: Op,
        /// What should have been answered.
        expected: Answer,
        /// What was answered.
        got: Answer,
    },
    /// A transaction does not observe an earlier one of its session.
    SessionOrder {
        /// The earlier transaction.
        earlier: usize,
        /// The later one.
        later: usize,
    },
    /// A transaction no longer observes what an earlier read of its session had returned.
    NonMonotonicRead {
        /// The earlier transaction.
        earlier: usize,
        /// The later one.
        later: usize,
        /// The write that vanished.
        write: usize,
        /// Its key.
        key: String,
    },
    /// A transaction observes another, but not what that one observed.
    Intransitive {
        /// Observed by `second`.
        first: usize,
        /// Observed by `third`.
        second: usize,
        /// Does not observe `first`.
        third: usize,
    },
    /// A committed transaction changed something, and has no place among the others.
    NoPlace {
        /// The transaction.
        transaction: usize,
    },
    /// Two transactions claim the same place.
    SameDot {
        /// One.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A transaction's time is not after that of one it observed.
    TimeAgainstCausality {
        /// The observed one.
        first: usize,
        /// The observing one.
        second: usize,
    },
    /// A read returned an element that nobody wrote, or whose writer had no effect.
    ThinAir {
        /// The reader.
        transaction: usize,
        /// The key.
        key: String,
        /// The element.
        element: String,
    },
    /// A read returned a value that its writer itself had replaced before it committed.
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
        /// On the cycle.
        transaction: usize,
    },
    /// A read misses a write that causally precedes it, or was made earlier by the reader itself.
    StaleRead {
        /// The reader.
        reader: usize,
        /// The missed writer.
        writer: usize,
        /// The key.
        key: String,
    },
    /// A transaction saw one write of another and missed a second.
    FracturedRead {
        /// The reader.
        reader: usize,
        /// The writer.
        writer: usize,
        /// The key on which the write is missing.
        key: String,
    },
    /// A transaction of a surviving site is missing in the end.
    Lost {
        /// The transaction.
        transaction: usize,
    },
    /// A strong transaction committed and is missing in the end.
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
    /// Conflict Ordering: of two strong transactions that conflict, the later one in strong
    /// timestamps does not observe the other.
    ConflictOrder {
        /// The one with the smaller strong timestamp.
        first: usize,
        /// The one that should observe it.
        second: usize,
        /// Where they conflict.
        key: String,
    },
    /// A transaction at a linearizable key does not observe one that was over before it began.
    RealTime {
        /// The one that was over.
        earlier: usize,
        /// The one that began after that.
        later: usize,
        /// A key that the earlier one wrote.
        key: String,
    },
    /// No order of the operations on a linearizable key that agrees with real time explains their
    /// answers.
    NotLinearizable {
        /// The key.
        key: String,
        /// The first transaction, by the time it was answered, that no order reaches.
        transaction: usize,
    },
    /// Transactions that would each have to come before the next, and the last before the first.
    NoOrder {
        /// Each transaction, and why it comes before the next.
        cycle: Vec<(usize, Before)>,
    },
    /// A read at a surviving site saw a change that is missing in the end.
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
        /// Another.
        other: (usize, [Answer; 3]),
    },
    /// The final state is not what the surviving transactions make.
    WrongFinalState {
        /// The key.
        key: String,
        /// What it should be.
        expected: [Answer; 3],
        /// What the sites answer.
        got: [Answer; 3],
    },
}

/// Why one transaction must come before another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// The other read what it wrote to this key.
    Read(String),
    /// The other replaced what it wrote to this key.
    Replaced(String),
    /// It does not see what the other wrote to this key.
    Misses(String),
    /// They are of one session.
    Session,
    /// It was over before the other began.
    RealTime,
}

impl Before {
    fn tell(&self, f: &mut fmt::Formatter<'_>, one: usize, other: usize) -> fmt::Result {
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
    /// The key it is about.
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

    /// The transactions it is about.
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
                    before.tell(f, *one, *other)?;
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
