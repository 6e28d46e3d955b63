//! What is judged: transactions as their clients saw them.

use std::fmt;

/// An operation on one key, in the checker's own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the string.
    Get,
    /// Replaces the key by a string.
    Set(String),
    /// Removes the key.
    Delete,
    /// Asks whether the key exists.
    Exists,
    /// Adds to the number.
    Add(i64),
    /// Adds elements to the set.
    SetAdd(Vec<String>),
    /// Removes elements from the set.
    SetRemove(Vec<String>),
    /// Reads the set.
    Members,
    /// Asks for an element.
    Contains(String),
    /// Counts the elements.
    Len,
    /// Assigns a field.
    FieldSet(String, String),
    /// Adds to a field's number.
    FieldAdd(String, i64),
    /// Removes fields.
    FieldRemove(Vec<String>),
    /// Reads fields.
    Fields(Vec<String>),
    /// Reads the whole hash.
    Pairs,
}

impl Op {
    /// Whether the operation can change something.
    pub fn is_update(&self) -> bool {
        matches!(
            self,
            Op::Set(_)
                | Op::Delete
                | Op::Add(_)
                | Op::SetAdd(_)
                | Op::SetRemove(_)
                | Op::FieldSet(..)
                | Op::FieldAdd(..)
                | Op::FieldRemove(_)
        )
    }
}

/// What an operation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Ok,
    /// A number.
    Int(i64),
    /// Values or nothing, in the order asked.
    Values(Vec<Option<String>>),
    /// Sorted elements.
    Members(Vec<String>),
    /// Sorted fields and values.
    Pairs(Vec<(String, String)>),
    /// Refused; without effect.
    Error,
}

/// An operation and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The key.
    pub key: String,
    /// What was done.
    pub op: Op,
    /// What was answered; `None` if the client never learned.
    pub answer: Option<Answer>,
    /// On a key that promises convergence only.
    pub eventual: bool,
}

/// How a transaction ended, as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Acknowledged.
    Committed,
    /// Known to have had no effect.
    Aborted,
    /// The client never learned; it took effect if and only if it has a witness with a dot.
    Unknown,
}

/// The place that the system under test claims for a transaction in the causal order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The snapshot it executed on: the transactions of site `i` up to time `snapshot[i]`.
    pub snapshot: Vec<u64>,
    /// The time and site of its commit, if it wrote.
    pub dot: Option<(u64, usize)>,
}

impl Witness {
    /// Whether a transaction with this witness observed the transaction `other`. Snapshots of
    /// different lengths observe nothing of each other.
    pub fn observes(&self, other: &Witness) -> bool {
        let Some((time, site)) = other.dot else { return false };
        site < self.snapshot.len()
            && self.snapshot.len() == other.snapshot.len()
            && self.snapshot.iter().zip(&other.snapshot).enumerate().all(|(i, (entry, theirs))| {
                let needed = if i == site { time } else { *theirs };
                *entry >= needed
            })
    }
}

/// A transaction as its client saw it. Operations on eventual keys are transactions of their own
/// here, one operation each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The client's session; transactions of a session are in order of execution.
    pub session: usize,
    /// The site it ran at.
    pub site: usize,
    /// How it ended.
    pub status: Status,
    /// What it did.
    pub operations: Vec<Operation>,
    /// Its claimed place. In a history without any places the black box judges alone; where others
    /// have one, a committed transaction that changed something must have one too.
    pub witness: Option<Witness>,
    /// It committed, and in the end no surviving site has it.
    pub lost: bool,
}

impl Transaction {
    /// Whether it took effect.
    pub fn took_effect(&self) -> bool {
        self.status != Status::Aborted && self.dot().is_some()
    }

    /// The time and site of its commit.
    pub fn dot(&self) -> Option<(u64, usize)> {
        self.witness.as_ref()?.dot
    }

    /// Whether it writes `key`.
    pub fn writes(&self, key: &str) -> bool {
        self.operations.iter().any(|operation| operation.key == key && operation.op.is_update())
    }

    /// Whether it changed `key`, as far as its answers tell.
    pub fn changes(&self, key: &str) -> bool {
        self.operations.iter().any(|operation| {
            let removal =
                matches!(operation.op, Op::Delete | Op::SetRemove(_) | Op::FieldRemove(_));
            let without_effect = match operation.answer {
                Some(Answer::Error) => true,
                Some(Answer::Int(0)) => removal,
                _ => false,
            };
            operation.key == key && operation.op.is_update() && !without_effect
        })
    }

    /// Whether its answers prove that it changed something outside eventual keys, so that it must
    /// have a place in the causal order. Adding what is there already proves nothing.
    pub fn has_changed_something(&self) -> bool {
        self.operations.iter().filter(|operation| !operation.eventual).any(|operation| {
            match (&operation.op, &operation.answer) {
                (Op::Set(_), Some(Answer::Ok))
                | (Op::Add(1..) | Op::FieldAdd(_, 1..), Some(Answer::Int(_)))
                | (Op::FieldSet(..), Some(Answer::Int(_))) => true,
                (op, Some(Answer::Int(1..))) => op.is_update(),
                _ => false,
            }
        })
    }

    /// Whether it is an operation on an eventual key.
    pub fn is_eventual(&self) -> bool {
        self.operations.iter().any(|operation| operation.eventual)
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} at site {}, {:?}", self.session, self.site, self.status)?;
        if let Some(witness) = &self.witness {
            write!(f, ", on {:?}", witness.snapshot)?;
            if let Some((time, site)) = witness.dot {
                write!(f, ", commits at {time} of site {site}")?;
            }
        }
        for operation in &self.operations {
            write!(f, "\n    {} {:?}", operation.key, operation.op)?;
            match &operation.answer {
                Some(answer) => write!(f, " → {answer:?}")?,
                None => write!(f, " → ?")?,
            }
        }
        Ok(())
    }
}

/// A read of everything about a key at a site, after healing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalRead {
    /// The site.
    pub site: usize,
    /// The key.
    pub key: String,
    /// The answers to [`Op::Get`], [`Op::Members`] and [`Op::Pairs`].
    pub answers: [Answer; 3],
}

/// Everything that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// How many sites there are.
    pub sites: usize,
    /// Sites that were destroyed; what only they knew may be lost.
    pub destroyed: Vec<usize>,
    /// All transactions; those of one session in order.
    pub transactions: Vec<Transaction>,
    /// What the surviving sites answered in the end.
    pub finals: Vec<FinalRead>,
}

/// Something that no causally consistent store does. Transactions are named by their index.
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
            | Violation::Lost { transaction } => vec![*transaction],
            Violation::SessionOrder { earlier, later } => vec![*earlier, *later],
            Violation::NonMonotonicRead { earlier, later, write, .. } => {
                vec![*earlier, *later, *write]
            }
            Violation::Intransitive { first, second, third } => vec![*first, *second, *third],
            Violation::SameDot { first, second }
            | Violation::TimeAgainstCausality { first, second } => vec![*first, *second],
            Violation::StaleRead { reader, writer, .. }
            | Violation::IntermediateRead { reader, writer, .. }
            | Violation::FracturedRead { reader, writer, .. }
            | Violation::SeenThenLost { reader, writer, .. } => vec![*reader, *writer],
            Violation::Divergence { .. } | Violation::WrongFinalState { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for Violation {
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
                write!(f, "{first} and {second} have the same commit time and site")
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
