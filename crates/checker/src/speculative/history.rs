//! Histories of a speculative space.

use std::fmt;

/// A run of a speculative space, as its clients and the recorder of its replicas observed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Operations. Those of one session are in the order of invocation.
    pub operations: Vec<Operation>,
    /// Final order: the longest committed list at the end.
    pub order: Vec<OperationId>,
    /// Committed lists of the replicas during the run. Those of one run of a site are in the order
    /// in which they were observed.
    pub reports: Vec<Report>,
    /// Sites that were lost for good, with the operations that only they had.
    pub destroyed: Vec<u32>,
    /// Whether the run ended before everything was committed. Operations may then be missing in the
    /// final order.
    pub unsettled: bool,
    /// Whether weak and tentative replies hide strong operations that are not committed.
    pub acyclic: bool,
    /// Whether only strong operations have causal contexts. The final order may then exchange a
    /// weak operation and others that its replies saw, and a replica may know it without these, and
    /// without undecided strong operations that precede it in its run.
    pub strong_contexts: bool,
}

/// Identifier of an operation, which no other operation ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    /// Site that invoked it.
    pub site: u32,
    /// Run of the site's machine.
    pub run: u32,
    /// Number within the run, in the order of invocation.
    pub event: u64,
}

/// An operation: one procedure call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Session; `None` for an operation that a site invoked by itself. A client that continues
    /// without what it did and saw before is another session.
    pub session: Option<u64>,
    /// Where it was invoked.
    pub origin: Origin,
    /// Whether it is weak or strong.
    pub strength: Strength,
    /// Procedure with its arguments.
    pub procedure: Procedure,
    /// Instant of its invocation. All instants of a history are readings of one clock.
    pub invoked: u64,
    /// Replies that the client received, in their order. None if the outcome is unknown.
    pub replies: Vec<Reply>,
}

/// Place of invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The operation was broadcast.
    Broadcast(OperationId),
    /// The operation was not broadcast, so it is in no order. It is weak and only reads.
    Local {
        /// Site that executed it.
        site: u32,
        /// Run of the site's machine.
        run: u32,
    },
}

/// Strength of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Answered after its first execution.
    Weak,
    /// Its stable reply needs a place in the final order.
    Strong,
}

/// A reply to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Kind.
    pub kind: ReplyKind,
    /// Instant at which the client received it.
    pub at: u64,
    /// Order of the operations before this one on which the reply is based.
    pub order: Claim,
    /// Result.
    pub result: Outcome,
}

/// Kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplyKind {
    /// First reply to a weak operation.
    Weak,
    /// First reply to a strong operation before it is committed.
    Tentative,
    /// Result of a later execution, which differs from that of the reply before.
    Revised,
    /// Result in the final order.
    Stable,
}

/// An order of operations: a prefix of the final order, then tentative operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Number of committed operations.
    pub committed: usize,
    /// Tentative operations, in their order.
    pub tentative: Vec<OperationId>,
}

/// A part of the committed list of a replica at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Site.
    pub site: u32,
    /// Run of the site's machine.
    pub run: u32,
    /// Instant.
    pub at: u64,
    /// Length of the list before `operations`.
    pub from: usize,
    /// Operations at the end of the list: usually those since the previous report.
    pub operations: Vec<OperationId>,
    /// Digest of the state after these operations.
    pub digest: Option<u64>,
}

impl Report {
    /// Returns the length of the replica's committed list.
    pub fn length(&self) -> usize {
        self.from.saturating_add(self.operations.len())
    }
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

/// A procedure. One that fails changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Does nothing. Answers [`Outcome::Done`].
    Nothing,
    /// Answers the value.
    Read(String),
    /// Answers the values of several keys.
    ReadMany(Vec<String>),
    /// Writes a value, or removes the key. Answers [`Outcome::Done`].
    Write(String, Option<Value>),
    /// Adds to a number; an absent key is zero. Answers the sum.
    Add(String, i64),
    /// Appends to a list; an absent key is an empty list. Answers the new length.
    Append(String, String),
    /// Writes a value if the key is absent. Answers the value that was there.
    PutIfAbsent(String, Value),
    /// Writes two keys if both hold the expected values. Answers [`Outcome::Done`].
    CompareAndSet([Swap; 2]),
    /// Moves an amount from one number to another; absent keys are zero. Answers the new values of
    /// both.
    Transfer {
        /// Key that must hold at least the amount.
        from: String,
        /// Key that receives the amount.
        to: String,
        /// Amount.
        amount: u32,
    },
    /// Executes commands of Redis on keys, one after the other. One that fails changes nothing, and
    /// the later ones are executed nevertheless. Answers [`Outcome::Each`].
    Commands(Vec<(String, KeyCommand)>),
}

/// A command of Redis on one key. Its number is a [`Value::Int`], its string a [`Value::Text`], and
/// its set a [`Value::List`] that is sorted and has no element twice. A key has no empty set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCommand {
    /// Answers the string, or the number as a string.
    Get,
    /// Writes a string. Answers [`Outcome::Done`].
    Set(String),
    /// Adds to a number, or to a string that is one; an absent key is zero. Answers the sum.
    IncrBy(i64),
    /// Adds elements to a set. Answers the number of new ones.
    SetAdd(Vec<String>),
    /// Removes elements from a set. Answers the number of those that it had.
    SetRemove(Vec<String>),
    /// Answers the set.
    SetMembers,
    /// Removes the key. Answers the number of removed keys.
    Delete,
}

/// Part of a [`Procedure::CompareAndSet`] that concerns one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Key.
    pub key: String,
    /// Expected value; `None` if the key must be absent.
    pub expected: Option<Value>,
    /// New value; `None` removes the key.
    pub new: Option<Value>,
}

/// Result of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// A value, or none.
    Value(Option<Value>),
    /// Several values.
    Values(Vec<Option<Value>>),
    /// Results of commands.
    Each(Vec<Outcome>),
    /// It failed.
    Failed(Failure),
}

/// Reason why a procedure failed. Keys are looked at in the order of the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A key holds a value of another type.
    WrongType,
    /// A key holds a string that is no number.
    NotANumber,
    /// A number would leave the range of 64 bits.
    Overflow,
    /// The key of a transfer holds less than the amount.
    TooLittle,
    /// The first key that does not hold the expected value.
    Differs(String),
}

impl Procedure {
    /// Returns whether the procedure changes nothing, whatever the state.
    pub fn only_reads(&self) -> bool {
        match self {
            Procedure::Nothing | Procedure::Read(_) | Procedure::ReadMany(_) => true,
            Procedure::Commands(commands) => {
                let reads = |command| matches!(command, &KeyCommand::Get | &KeyCommand::SetMembers);
                commands.iter().all(|(_, command)| reads(command))
            }
            _ => false,
        }
    }
}

impl Operation {
    /// Returns the identifier, if the operation was broadcast.
    pub fn id(&self) -> Option<OperationId> {
        match self.origin {
            Origin::Broadcast(id) => Some(id),
            Origin::Local { .. } => None,
        }
    }

    /// Returns the site, and the run of its machine.
    pub fn replica(&self) -> (u32, u32) {
        match self.origin {
            Origin::Broadcast(id) => (id.site, id.run),
            Origin::Local { site, run } => (site, run),
        }
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.site, self.run, self.event)
    }
}

impl fmt::Display for ReplyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplyKind::Weak => "weak",
            ReplyKind::Tentative => "tentative",
            ReplyKind::Revised => "revised",
            ReplyKind::Stable => "stable",
        })
    }
}
