//! Violations of the guarantees of a speculative space.

mod text;

use super::history::{Claim, Operation, OperationId, Origin, Outcome, ReplyKind};

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The recorder's data contradicts itself.
    Malformed {
        /// Operation.
        operation: Name,
        /// Reason why the record is wrong.
        reason: Malformation,
    },
    /// A reply of a kind that the operation cannot have after its earlier replies.
    UnexpectedReply {
        /// Operation.
        operation: Name,
        /// Kind of the reply.
        kind: ReplyKind,
        /// Kind of the reply before it.
        after: Option<ReplyKind>,
    },
    /// An order contains an operation that nobody invoked.
    NeverInvoked {
        /// Identifier in the order.
        id: OperationId,
        /// The order.
        order: HistoryOrder,
    },
    /// An order contains an operation that was invoked only later.
    FromTheFuture {
        /// Operation in the order.
        operation: Name,
        /// The order.
        order: HistoryOrder,
        /// Instant of the order.
        at: u64,
    },
    /// An order contains an operation twice.
    Twice {
        /// Operation.
        operation: Name,
        /// The order.
        order: HistoryOrder,
    },
    /// The order before an operation contains the operation itself.
    SeesItself {
        /// Operation.
        operation: Name,
        /// Kind of the reply.
        kind: ReplyKind,
    },
    /// A reply stands for more committed operations than the final order has.
    BeyondFinal {
        /// Operation.
        operation: Name,
        /// Kind of the reply.
        kind: ReplyKind,
        /// Number of committed operations in its order.
        committed: usize,
        /// Length of the final order.
        length: usize,
    },
    /// A reply is not the result of its order.
    WrongResult {
        /// Operation.
        operation: Name,
        /// Kind of the reply.
        kind: ReplyKind,
        /// Order for which the reply stands.
        order: Claim,
        /// Result of the order.
        expected: Outcome,
        /// Result of the reply.
        found: Outcome,
    },
    /// A stable reply is not the result of the final order.
    WrongStableResult {
        /// Operation.
        operation: Name,
        /// Its position in the final order, from zero.
        position: usize,
        /// Result of the final order.
        expected: Outcome,
        /// Result of the reply.
        found: Outcome,
    },
    /// A stable reply does not stand for the final order before its operation.
    StableOrder {
        /// Operation.
        operation: Name,
        /// Its position in the final order, from zero.
        position: usize,
        /// Order for which the reply stands.
        order: Claim,
    },
    /// An operation is missing in the final order.
    Lost {
        /// Operation.
        operation: Name,
        /// Why it must be there.
        reason: Evidence,
    },
    /// The first reply to an operation misses an earlier operation that its session knew.
    SessionForgets {
        /// Operation.
        operation: Name,
        /// Operation that its order lacks.
        missing: Name,
        /// Earlier operation of the session whose reply saw the missing one; `None` if the missing
        /// one is an operation of the session that had been answered.
        seen_by: Option<Name>,
    },
    /// A first reply stands for fewer committed operations than its replica had.
    ReplicaForgets {
        /// Operation.
        operation: Name,
        /// Number of committed operations in its order.
        committed: usize,
        /// Number of committed operations that the replica had before the invocation.
        known: usize,
    },
    /// A first reply lacks an operation that was known before in the same run of its site.
    ReplicaDrops {
        /// Operation.
        operation: Name,
        /// Operation that its order lacks.
        missing: Name,
        /// Operation whose first reply saw the missing one; `None` if the missing one is an
        /// operation of the run that had been answered.
        seen_by: Option<Name>,
    },
    /// A first reply knows an operation without its context.
    Incomplete {
        /// Operation.
        operation: Name,
        /// Operation of its order.
        known: Name,
        /// Weak or committed operation that the first reply to `known` saw, and that the order
        /// lacks.
        missing: Name,
    },
    /// A revision lacks a weak operation that the reply before it saw.
    RevisionDrops {
        /// Operation.
        operation: Name,
        /// Operation that the order of the revision lacks.
        missing: Name,
    },
    /// A reply lacks an operation that precedes, in a run of a site, its own operation or one of
    /// its order.
    Gap {
        /// Operation.
        operation: Name,
        /// Operation that its order lacks.
        missing: Name,
        /// Next operation of the run that the order has, or the replied operation itself.
        next: Name,
    },
    /// An operation had its stable reply before another one was invoked, but follows it in the
    /// final order.
    RealTime {
        /// Operation that was answered.
        earlier: Name,
        /// Operation that was invoked after that.
        later: Name,
    },
    /// The final order exchanges two operations of one session or of one run of a site.
    ProgramOrder {
        /// Operation that was invoked first.
        earlier: Name,
        /// Operation that was invoked after it.
        later: Name,
        /// Whether the order is that of a session.
        session: bool,
        /// Whether the final order lacks the first one.
        missing: bool,
    },
    /// The final order does not have an operation after all weak ones that its first reply saw.
    ContextOrder {
        /// Operation.
        operation: Name,
        /// Weak operation that its first reply saw.
        seen: Name,
        /// Whether the final order lacks the weak one.
        missing: bool,
    },
    /// Operations saw one another in a circle.
    Circle {
        /// Operations, each with its relation to the next one; the last one leads to the first.
        links: Vec<(Name, Link)>,
    },
    /// Replies disagree on the order of tentative operations: each of these precedes the next one
    /// in some order, and the last one precedes the first.
    TentativeOrder {
        /// Operations.
        operations: Vec<Name>,
    },
    /// The committed list of a replica is no prefix of the final order.
    NotAPrefix {
        /// Replica and instant.
        replica: Replica,
        /// First position that differs, from zero.
        position: usize,
        /// Operation of the replica.
        found: OperationId,
        /// Operation of the final order; `None` at its end.
        expected: Option<OperationId>,
    },
    /// The committed list of a replica became shorter within a run.
    Shrank {
        /// Replica and instant.
        replica: Replica,
        /// Length before.
        from: usize,
        /// Length at the instant.
        to: usize,
    },
    /// Two replicas have different states after the same operations.
    DigestsDiffer {
        /// Number of operations.
        length: usize,
        /// First replica that had this length.
        first: Replica,
        /// Replica with another digest.
        second: Replica,
    },
    /// A replica has committed more than the final order has.
    Ahead {
        /// Replica and instant.
        replica: Replica,
        /// Length of its list.
        length: usize,
        /// Length of the final order.
        expected: usize,
    },
    /// A replica has committed less than the others at the end.
    Behind {
        /// Replica at its last report.
        replica: Replica,
        /// Length of its list.
        length: usize,
        /// Length of the final order.
        expected: usize,
    },
}

/// Reason why a record is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformation {
    /// Another operation has the same identifier.
    RepeatedId,
    /// It was not broadcast, but is strong or may change something.
    NotARead,
    /// An earlier one of its session was invoked after it.
    InvokedBeforeEarlier,
    /// A reply has an instant before the invocation or before the reply that precedes it.
    AnsweredTooEarly,
}

/// An order in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryOrder {
    /// The final order.
    Final,
    /// The order of a reply.
    Reply(Name, ReplyKind),
    /// The committed list of a replica.
    Committed(Replica),
}

/// Reason why an operation must be in the final order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It has a stable reply.
    Stable,
    /// It has a reply, and its site survived.
    Acknowledged,
    /// A reply of a surviving site saw it.
    Seen(Name),
}

/// Relation of an operation to the next one of a circle, which precedes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Its reply saw the next one.
    Saw,
    /// It follows the next one in their session.
    Follows,
}

/// Name of an operation in texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Where it was invoked.
    pub origin: Origin,
    /// Session.
    pub session: Option<u64>,
    /// Instant of the invocation.
    pub invoked: u64,
}

/// A replica at an instant, in texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Site.
    pub site: u32,
    /// Run of its machine.
    pub run: u32,
    /// Instant.
    pub at: u64,
}

impl From<&Operation> for Name {
    fn from(operation: &Operation) -> Name {
        let Operation { origin, session, invoked, .. } = *operation;
        Name { origin, session, invoked }
    }
}
