//! What is judged: transactions as their clients saw them.

use std::fmt;

/// An operation on one key, in the checker's own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads the string.
    Get,
    /// Replaces the key by a string.
    Set(String),
    /// Makes the key a string, unless it exists.
    SetNew(String),
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

/// What is promised of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Convergence only.
    Eventual,
    /// Causal consistency.
    #[default]
    Causal,
    /// An order among those strong operations of its key that it conflicts with: PoR consistency
    /// (UniStore §3). Its kind tells which, by [`History::conflicts`]; without a kind an update
    /// conflicts with every strong operation, and a read with every strong update.
    Strong(Option<String>),
    /// One order of everything at such keys that real time agrees with.
    Linearizable,
}

impl Level {
    /// Whether the operation takes part in conflicts, so that its transaction must be a strong one.
    pub fn is_strong(&self) -> bool {
        matches!(self, Level::Strong(_) | Level::Linearizable)
    }
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
    /// What is promised of it.
    pub level: Level,
}

impl Operation {
    /// Whether it changed its key, as far as its answer tells.
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

/// Who gave a transaction its commit time. Of two assignments with equal times, the strong one
/// shows.
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

/// The place that the system under test claims for a transaction in the causal order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The snapshot it executed on: the transactions of site `i` up to time `snapshot[i]`.
    pub snapshot: Vec<u64>,
    /// The snapshot's strong entry: the strong transactions up to this strong timestamp.
    pub strong: u64,
    /// The time and origin of its commit, if it wrote or was certified.
    pub dot: Option<(u64, Origin)>,
}

impl Witness {
    /// Whether a transaction with this witness observed the transaction `other`: its snapshot is
    /// nowhere below the other's commit vector. Snapshots of different lengths observe nothing of
    /// each other.
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

    /// The commit vector: the snapshot with the origin's entry replaced by the commit time. The
    /// strong entry comes last.
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

/// When a transaction ran, in a time that all clients share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When its client began it.
    pub invoked: u64,
    /// When its client learned how it ended, if ever.
    pub answered: Option<u64>,
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
    /// When it ran, if that was recorded.
    pub interval: Option<Interval>,
    /// It committed, and in the end no surviving site has it.
    pub lost: bool,
}

impl Transaction {
    /// Whether it took effect.
    pub fn took_effect(&self) -> bool {
        self.status != Status::Aborted && self.dot().is_some()
    }

    /// The time and origin of its commit.
    pub fn dot(&self) -> Option<(u64, Origin)> {
        self.witness.as_ref()?.dot
    }

    /// Its strong timestamp, if it was certified.
    pub fn strong_time(&self) -> Option<u64> {
        self.dot().and_then(|(time, origin)| (origin == Origin::Strong).then_some(time))
    }

    /// Whether it is a strong transaction: it was certified, or should have been.
    pub fn is_strong(&self) -> bool {
        self.strong_time().is_some() || self.operations.iter().any(|o| o.level.is_strong())
    }

    /// Whether it took effect before `other` began, as clients know who share a clock.
    pub fn is_over_before(&self, other: &Transaction) -> bool {
        let answered = self.interval.and_then(|interval| interval.answered);
        let is_over = |answered| other.interval.is_some_and(|other| answered < other.invoked);
        self.status == Status::Committed && answered.is_some_and(is_over)
    }

    /// Whether it writes `key`.
    pub fn writes(&self, key: &str) -> bool {
        self.operations.iter().any(|operation| operation.key == key && operation.op.is_update())
    }

    /// Whether it changed `key`, as far as its answers tell.
    pub fn changes(&self, key: &str) -> bool {
        self.operations.iter().any(|operation| operation.key == key && operation.has_changed())
    }

    /// Whether its answers prove that it changed something outside eventual keys, so that it must
    /// have a place in the causal order. Adding what is there already proves nothing.
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

    /// Whether it is an operation on an eventual key.
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
    /// Sites that were destroyed; what only they knew may be lost. No more than may fail.
    pub destroyed: Vec<usize>,
    /// Pairs of kinds of strong operations that conflict on the same key, in either order. `*`
    /// stands for every strong operation.
    pub conflicts: Vec<(String, String)>,
    /// All transactions; those of one session in order.
    pub transactions: Vec<Transaction>,
    /// What the surviving sites answered in the end.
    pub finals: Vec<FinalRead>,
}

impl History {
    /// Whether two operations are strong ones that conflict, if two transactions do them (the
    /// paper's `⋈`).
    pub fn conflict(&self, one: &Operation, other: &Operation) -> bool {
        if one.key != other.key || !one.level.is_strong() || !other.level.is_strong() {
            return false;
        }
        match (one.kind(), other.kind()) {
            (Some(one), Some(other)) => self.kinds_conflict(one, other),
            // What has no kind conflicts as reads and writes do.
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
