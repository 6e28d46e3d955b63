//! Recorded histories: transactions as their clients observed them.

use std::fmt;

/// An operation on one key, in the checker's own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the string.
    Get,
    /// Replaces the key by a string.
    Set(String),
    /// Sets the key to a string, unless it exists.
    SetNew(String),
    /// Removes the key.
    Delete,
    /// Reads whether the key exists.
    Exists,
    /// Adds to the number.
    Add(i64),
    /// Adds elements to the set.
    SetAdd(Vec<String>),
    /// Removes elements from the set.
    SetRemove(Vec<String>),
    /// Reads the set.
    Members,
    /// Reads whether the set contains an element.
    Contains(String),
    /// Reads the number of elements.
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
    /// Reads the values of at most this many greatest fields of a hash, the greatest first.
    Newest(u64),
}

impl Op {
    /// Returns whether the operation can change the key.
    pub fn is_update(&self) -> bool {
        matches!(
            self,
            Op::Set(_)
                | Op::SetNew(_)
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

/// Answer of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success, without a value.
    Ok,
    /// A number.
    Int(i64),
    /// Values, or `None` for missing ones, in the order requested.
    Values(Vec<Option<String>>),
    /// Sorted elements.
    Members(Vec<String>),
    /// Sorted fields and values.
    Pairs(Vec<(String, String)>),
    /// Rejected, without effect.
    Error,
}

/// Guarantee of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Convergence only.
    Eventual,
    /// Causal consistency.
    #[default]
    Causal,
    /// PoR consistency (UniStore §3): an order among the strong operations of the key that conflict
    /// with it. [`History::conflicts`] lists the kinds that conflict. Without a kind, an update
    /// conflicts with every strong operation, and a read with every strong update.
    Strong(Option<String>),
    /// One order of all operations on such keys, which agrees with real time.
    Linearizable,
}

impl Level {
    /// Returns whether the operation takes part in conflicts, so its transaction must be strong.
    pub fn is_strong(&self) -> bool {
        matches!(self, Level::Strong(_) | Level::Linearizable)
    }
}

/// An operation and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The key.
    pub key: String,
    /// The operation.
    pub op: Op,
    /// The answer; `None` if the client never received it.
    pub answer: Option<Answer>,
    /// The guarantee.
    pub level: Level,
}

impl Operation {
    /// Returns whether the operation changed its key, as far as its answer shows.
    pub fn has_changed(&self) -> bool {
        let needs_something =
            matches!(self.op, Op::SetNew(_) | Op::Delete | Op::SetRemove(_) | Op::FieldRemove(_));
        let without_effect = match self.answer {
            Some(Answer::Error) => true,
            Some(Answer::Int(0)) => needs_something,
            _ => false,
        };
        self.op.is_update() && !without_effect
    }

    fn kind(&self) -> Option<&str> {
        match &self.level {
            Level::Strong(kind) => kind.as_deref(),
            _ => None,
        }
    }
}

/// Outcome of a transaction, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Acknowledged.
    Committed,
    /// Known to have had no effect.
    Aborted,
    /// The client never received the outcome. The transaction took effect if and only if it has a
    /// witness with a dot.
    Unknown,
}

/// The clock that a transaction's commit time comes from. If two assignments have equal times, the
/// strong one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The site that committed it.
    Site(usize),
    /// Certification: it is a strong transaction, and the time is its strong timestamp.
    Strong,
}

impl Origin {
    fn is_within(self, sites: usize) -> bool {
        match self {
            Origin::Site(site) => site < sites,
            Origin::Strong => true,
        }
    }
}

impl From<usize> for Origin {
    fn from(site: usize) -> Self {
        Origin::Site(site)
    }
}

/// Position of a transaction in the causal order, as the system under test claims it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The snapshot that it executed on: the transactions of site `i` up to time `snapshot[i]`.
    pub snapshot: Vec<u64>,
    /// The snapshot's strong entry: the strong transactions up to this strong timestamp.
    pub strong: u64,
    /// The time and origin of its commit, if it wrote or was certified.
    pub dot: Option<(u64, Origin)>,
}

impl Witness {
    /// Returns whether a transaction with this witness observed the transaction `other`: no entry
    /// of its snapshot is below that of the other's commit vector. Snapshots of different lengths
    /// observe nothing of each other.
    pub fn observes(&self, other: &Witness) -> bool {
        let Some((time, origin)) = other.dot else { return false };
        let needed = |entry: Origin, theirs: u64| if entry == origin { time } else { theirs };
        origin.is_within(self.snapshot.len())
            && self.snapshot.len() == other.snapshot.len()
            && self.strong >= needed(Origin::Strong, other.strong)
            && self
                .snapshot
                .iter()
                .zip(&other.snapshot)
                .enumerate()
                .all(|(site, (mine, theirs))| *mine >= needed(Origin::Site(site), *theirs))
    }

    /// Returns the commit vector: the snapshot with the origin's entry replaced by the commit time.
    /// The strong entry is the last.
    pub(crate) fn commit_vector(&self) -> Vec<u64> {
        let mut vector = self.snapshot.clone();
        vector.push(self.strong);
        if let Some((time, origin)) = self.dot
            && origin.is_within(self.snapshot.len())
        {
            let at = match origin {
                Origin::Site(site) => site,
                Origin::Strong => self.snapshot.len(),
            };
            vector[at] = time;
        }
        vector
    }
}

/// Time span of a transaction, by a clock that all clients share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Time at which its client invoked it.
    pub invoked: u64,
    /// Time at which its client received the outcome, if ever.
    pub answered: Option<u64>,
}

/// A transaction as its client observed it. Operations on eventual keys are transactions of one
/// operation each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The client's session. The transactions of a session are in order of execution.
    pub session: usize,
    /// The site that executed it.
    pub site: usize,
    /// Its outcome.
    pub status: Status,
    /// Its operations.
    pub operations: Vec<Operation>,
    /// Its claimed position. A history without any witnesses is judged by the black-box checkers
    /// only; where some transactions have one, a committed transaction that changed something must
    /// have one too.
    pub witness: Option<Witness>,
    /// Its time span, if recorded.
    pub interval: Option<Interval>,
    /// Whether it committed and no surviving site has it at the end.
    pub lost: bool,
}

impl Transaction {
    /// Returns whether the transaction took effect.
    pub fn took_effect(&self) -> bool {
        self.status != Status::Aborted && self.dot().is_some()
    }

    /// Returns the time and origin of its commit.
    pub fn dot(&self) -> Option<(u64, Origin)> {
        self.witness.as_ref()?.dot
    }

    /// Returns its strong timestamp, if it was certified.
    pub fn strong_time(&self) -> Option<u64> {
        self.dot().and_then(|(time, origin)| (origin == Origin::Strong).then_some(time))
    }

    /// Returns whether it is a strong transaction: it was certified, or should have been.
    pub fn is_strong(&self) -> bool {
        self.strong_time().is_some() || self.operations.iter().any(|o| o.level.is_strong())
    }

    /// Returns whether it took effect before `other` began, by the clients' common clock.
    pub fn is_over_before(&self, other: &Transaction) -> bool {
        let answered = self.interval.and_then(|interval| interval.answered);
        let is_over = |answered| other.interval.is_some_and(|other| answered < other.invoked);
        self.status == Status::Committed && answered.is_some_and(is_over)
    }

    /// Returns whether it writes `key`.
    pub fn writes(&self, key: &str) -> bool {
        self.operations.iter().any(|operation| operation.key == key && operation.op.is_update())
    }

    /// Returns whether it changed `key`, as far as its answers show.
    pub fn changes(&self, key: &str) -> bool {
        self.operations.iter().any(|operation| operation.key == key && operation.has_changed())
    }

    /// Returns whether its answers prove that it changed something outside eventual keys, so it
    /// must have a position in the causal order. Adding an element that is already present proves
    /// nothing.
    pub fn has_changed_something(&self) -> bool {
        self.operations.iter().filter(|o| o.level != Level::Eventual).any(|operation| {
            match (&operation.op, &operation.answer) {
                (Op::Set(_), Some(Answer::Ok))
                | (Op::Add(1..) | Op::FieldAdd(_, 1..), Some(Answer::Int(_)))
                | (Op::FieldSet(..), Some(Answer::Int(_))) => true,
                (op, Some(Answer::Int(1..))) => op.is_update(),
                _ => false,
            }
        })
    }

    /// Returns whether it is an operation on an eventual key.
    pub fn is_eventual(&self) -> bool {
        self.operations.iter().any(|operation| operation.level == Level::Eventual)
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} at site {}, {:?}", self.session, self.site, self.status)?;
        if let Some(witness) = &self.witness {
            write!(f, ", on {:?}", witness.snapshot)?;
            if witness.strong > 0 {
                write!(f, " and strong ones up to {}", witness.strong)?;
            }
            match witness.dot {
                Some((time, Origin::Site(site))) => {
                    write!(f, ", commits at {time} of site {site}")?
                }
                Some((time, Origin::Strong)) => write!(f, ", commits at strong timestamp {time}")?,
                None => {}
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

/// A read of all of a key's contents at a site, after healing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalRead {
    /// The site.
    pub site: usize,
    /// The key.
    pub key: String,
    /// The answers to [`Op::Get`], [`Op::Members`] and [`Op::Pairs`].
    pub answers: [Answer; 3],
}

/// A recorded history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Number of sites.
    pub sites: usize,
    /// Sites that were destroyed; updates that only they stored may be lost. At most as many as may
    /// fail.
    pub destroyed: Vec<usize>,
    /// Pairs of kinds of strong operations that conflict on the same key, in either order. `*`
    /// stands for every strong operation.
    pub conflicts: Vec<(String, String)>,
    /// All transactions; those of one session in order.
    pub transactions: Vec<Transaction>,
    /// Answers of the surviving sites at the end.
    pub finals: Vec<FinalRead>,
}

impl History {
    /// Returns whether two operations, of different transactions, are strong and conflict (the
    /// paper's `⋈`).
    pub fn conflict(&self, one: &Operation, other: &Operation) -> bool {
        if one.key != other.key || !one.level.is_strong() || !other.level.is_strong() {
            return false;
        }
        match (one.kind(), other.kind()) {
            (Some(one), Some(other)) => self.kinds_conflict(one, other),
            // Operations without a kind conflict as reads and writes do.
            _ => one.op.is_update() || other.op.is_update(),
        }
    }

    fn kinds_conflict(&self, one: &str, other: &str) -> bool {
        let names = |name: &str, kind: &str| name == "*" || name == kind;
        self.conflicts.iter().any(|(first, second)| {
            (names(first, one) && names(second, other))
                || (names(first, other) && names(second, one))
        })
    }
}
