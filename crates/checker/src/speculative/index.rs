//! Numbers operations, and resolves the identifiers in orders.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use super::history::{
    History, Operation, OperationId, Origin, Procedure, Reply, ReplyKind, Strength,
};
use super::violation::{HistoryOrder, Malformation, Name, Violation};

/// Largest number of violations of one kind that are reported.
const MOST: usize = 64;

/// Position of an operation that is not in the final order.
pub(super) const NOWHERE: usize = usize::MAX;

/// A history with operations as numbers: their positions in [`History::operations`].
pub(super) struct Index<'a> {
    pub(super) history: &'a History,
    /// Operations of the final order, each once; `None` for an unknown or repeated identifier.
    pub(super) order: Vec<Option<usize>>,
    /// Position of each operation in the final order, or [`NOWHERE`].
    pub(super) positions: Vec<usize>,
    /// Replies whose orders consist of known operations.
    pub(super) claims: Vec<Claim<'a>>,
    /// Place of the first reply of each operation in `claims`.
    pub(super) first: Vec<Option<usize>>,
    /// Instant of the first stable reply to each operation.
    pub(super) stable: Vec<Option<u64>>,
    /// Operations of each session, in their order.
    pub(super) sessions: BTreeMap<u64, Vec<usize>>,
    /// Place in `claims` of the reply that shows the causal context of an operation.
    contexts: Vec<Option<usize>>,
    /// Previous operation of the same run of a site.
    pub(super) previous: Vec<Option<usize>>,
    /// Operations of each run of a site, in the order of their events.
    pub(super) streams: BTreeMap<(u32, u32), Vec<(u64, usize)>>,
}

/// A reply with a valid order.
pub(super) struct Claim<'a> {
    /// Operation.
    pub(super) operation: usize,
    pub(super) reply: &'a Reply,
    pub(super) tentative: Vec<u32>,
}

impl Claim<'_> {
    pub(super) fn committed(&self) -> usize {
        self.reply.order.committed
    }

    pub(super) fn kind(&self) -> ReplyKind {
        self.reply.kind
    }
}

/// Violations found so far.
#[derive(Default)]
pub(super) struct Found(Vec<Violation>);

impl Found {
    /// Adds a violation, unless there are many of its kind.
    pub(super) fn push(&mut self, violation: Violation) {
        let same = |other: &&Violation| discriminant(*other) == discriminant(&violation);
        if self.0.iter().filter(same).count() < MOST {
            self.0.push(violation);
        }
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.0
    }
}

/// Membership in the order of one claim at a time.
pub(super) struct Members {
    marks: Vec<usize>,
    current: usize,
    committed: usize,
}

impl Members {
    pub(super) fn new(index: &Index<'_>) -> Members {
        Members { marks: vec![0; index.history.operations.len()], current: 0, committed: 0 }
    }

    /// Makes a claim the current one.
    pub(super) fn set(&mut self, claim: &Claim<'_>) {
        self.current += 1;
        self.committed = claim.committed();
        for operation in &claim.tentative {
            self.marks[*operation as usize] = self.current;
        }
    }

    /// Returns the first operation of a prefix of the final order that the current claim lacks.
    pub(super) fn lacks_committed(&self, index: &Index<'_>, length: usize) -> Option<usize> {
        let rest = index.order.get(self.committed..length).unwrap_or_default();
        rest.iter().copied().flatten().find(|operation| !self.contains(index, *operation))
    }

    /// Returns whether the current claim's order contains an operation.
    pub(super) fn contains(&self, index: &Index<'_>, operation: usize) -> bool {
        index.positions[operation] < self.committed || self.marks[operation] == self.current
    }
}

impl<'a> Index<'a> {
    /// Numbers the operations, and reports malformed records and orders with unknown or repeated
    /// operations.
    pub(super) fn new(history: &'a History, found: &mut Found) -> Index<'a> {
        let count = history.operations.len();
        let mut index = Index {
            history,
            order: Vec::with_capacity(history.order.len()),
            positions: vec![NOWHERE; count],
            claims: Vec::new(),
            first: vec![None; count],
            stable: vec![None; count],
            sessions: BTreeMap::new(),
            contexts: vec![None; count],
            previous: vec![None; count],
            streams: BTreeMap::new(),
        };
        index.number(found);
        index.resolve_order(found);
        index.resolve_claims(found);
        index.resolve_contexts();
        index
    }

    /// Finds the causal contexts. That of a weak operation is what its first reply knew. That of a
    /// strong one is what the last first reply to its session knew: its own first reply is
    /// tentative, and may know operations that have arrived since the invocation.
    fn resolve_contexts(&mut self) {
        for operations in self.sessions.values() {
            let (mut last, mut pending) = (None, Vec::new());
            for operation in operations {
                let invoked = self.operation(*operation).invoked;
                pending.retain(|first: &usize| {
                    let is_known = self.claims[*first].reply.at <= invoked;
                    last = if is_known { Some(*first).max(last) } else { last };
                    !is_known
                });
                let first =
                    self.first[*operation].filter(|_| self.first_claim(*operation).is_some());
                pending.extend(first);
                let is_strong = self.is_strong(*operation);
                let own = first.filter(|_| !self.history.strong_contexts);
                self.contexts[*operation] = if is_strong { last } else { own };
            }
        }
    }

    pub(super) fn operation(&self, operation: usize) -> &'a Operation {
        &self.history.operations[operation]
    }

    pub(super) fn name(&self, operation: usize) -> Name {
        Name::from(self.operation(operation))
    }

    /// Returns the reply that shows the causal context of an operation.
    pub(super) fn context(&self, operation: usize) -> Option<&Claim<'a>> {
        self.contexts[operation].map(|place| &self.claims[place])
    }

    /// Returns whether an operation has a causal context.
    pub(super) fn has_context(&self, operation: usize) -> bool {
        !self.history.strong_contexts || self.is_strong(operation)
    }

    pub(super) fn is_strong(&self, operation: usize) -> bool {
        self.operation(operation).strength == Strength::Strong
    }

    /// Returns the first reply to an operation, if it is weak or tentative and has a valid order.
    pub(super) fn first_claim(&self, operation: usize) -> Option<&Claim<'a>> {
        let claim = &self.claims[self.first[operation]?];
        matches!(claim.kind(), ReplyKind::Weak | ReplyKind::Tentative).then_some(claim)
    }

    /// Returns the operation with an identifier.
    pub(super) fn find(&self, id: OperationId) -> Option<usize> {
        let stream = self.streams.get(&(id.site, id.run))?;
        // Events usually have no gaps.
        let guess = usize::try_from(id.event.checked_sub(stream.first()?.0)?).ok()?;
        match stream.get(guess) {
            Some((event, operation)) if *event == id.event => Some(*operation),
            _ => {
                let place = stream.binary_search_by_key(&id.event, |(event, _)| *event).ok()?;
                Some(stream[place].1)
            }
        }
    }

    fn number(&mut self, found: &mut Found) {
        let mut ids = BTreeSet::new();
        for (number, operation) in self.history.operations.iter().enumerate() {
            let mut malformed = |reason| {
                found.push(Violation::Malformed { operation: operation.into(), reason });
            };
            if let Origin::Broadcast(id) = operation.origin {
                if ids.insert(id) {
                    let stream = self.streams.entry((id.site, id.run)).or_default();
                    stream.push((id.event, number));
                } else {
                    malformed(Malformation::RepeatedId);
                }
            } else if operation.strength == Strength::Strong
                || !operation.procedure.only_reads()
                || operation.procedure == Procedure::Nothing
            {
                malformed(Malformation::NotARead);
            }
            if let Some(session) = operation.session {
                let session = self.sessions.entry(session).or_default();
                let last = session.last().map(|last| self.history.operations[*last].invoked);
                if last.is_some_and(|last| last > operation.invoked) {
                    malformed(Malformation::InvokedBeforeEarlier);
                }
                session.push(number);
            }
            let instants = operation.replies.iter().map(|reply| reply.at);
            let mut instants = std::iter::once(operation.invoked).chain(instants);
            if !instants.by_ref().is_sorted() {
                malformed(Malformation::AnsweredTooEarly);
            }
            check_kinds(operation, found);
            let stable = operation.replies.iter().find(|reply| reply.kind == ReplyKind::Stable);
            self.stable[number] = stable.map(|reply| reply.at);
        }
        for stream in self.streams.values_mut() {
            stream.sort_unstable();
            for (before, (_, operation)) in stream.iter().zip(&stream[1..]) {
                self.previous[*operation] = Some(before.1);
            }
        }
    }

    fn resolve_order(&mut self, found: &mut Found) {
        for (position, id) in self.history.order.iter().enumerate() {
            let operation = self.find(*id);
            let is_new = operation.is_some_and(|known| self.positions[known] == NOWHERE);
            match operation {
                None => found.push(Violation::NeverInvoked { id: *id, order: HistoryOrder::Final }),
                Some(known) if is_new => self.positions[known] = position,
                Some(known) => {
                    let operation = self.name(known);
                    found.push(Violation::Twice { operation, order: HistoryOrder::Final });
                }
            }
            self.order.push(operation.filter(|_| is_new));
        }
    }

    fn resolve_claims(&mut self, found: &mut Found) {
        let mut marks = vec![0; self.history.operations.len()];
        let mut current = 0;
        for number in 0..self.history.operations.len() {
            for (place, reply) in self.operation(number).replies.iter().enumerate() {
                current += 1;
                let is_new =
                    |known: usize| std::mem::replace(&mut marks[known], current) != current;
                let Some(tentative) = self.resolve(number, reply, is_new, found) else { continue };
                if place == 0 {
                    self.first[number] = Some(self.claims.len());
                }
                self.claims.push(Claim { operation: number, reply, tentative });
            }
        }
    }

    /// Returns the tentative operations of a reply's order, or reports what is wrong with it.
    /// `is_new` returns whether it is called with an operation for the first time.
    fn resolve(
        &self,
        number: usize,
        reply: &Reply,
        mut is_new: impl FnMut(usize) -> bool,
        found: &mut Found,
    ) -> Option<Vec<u32>> {
        let (committed, length) = (reply.order.committed, self.order.len());
        let (operation, kind) = (self.name(number), reply.kind);
        let mut wrong = |violation| {
            found.push(violation);
            None
        };
        if committed > length {
            return wrong(Violation::BeyondFinal { operation, kind, committed, length });
        }
        if self.positions[number] < committed {
            return wrong(Violation::SeesItself { operation, kind });
        }
        let order = || HistoryOrder::Reply(operation, kind);
        let mut tentative = Vec::with_capacity(reply.order.tentative.len());
        for id in &reply.order.tentative {
            let Some(known) = self.find(*id) else {
                return wrong(Violation::NeverInvoked { id: *id, order: order() });
            };
            if known == number {
                return wrong(Violation::SeesItself { operation, kind });
            }
            if self.positions[known] < committed || !is_new(known) {
                let operation = self.name(known);
                return wrong(Violation::Twice { operation, order: order() });
            }
            tentative.push(u32::try_from(known).expect("a history has fewer than 2^32 operations"));
        }
        Some(tentative)
    }
}

/// Reports replies of kinds that the operation cannot have.
fn check_kinds(operation: &Operation, found: &mut Found) {
    let mut after = None;
    for reply in &operation.replies {
        let is_local = matches!(operation.origin, Origin::Local { .. });
        let expected = match (reply.kind, after) {
            (ReplyKind::Weak, None) => operation.strength == Strength::Weak,
            (ReplyKind::Tentative, None) => operation.strength == Strength::Strong,
            (ReplyKind::Revised, Some(last)) => last != ReplyKind::Stable && !is_local,
            (ReplyKind::Stable, _) => !is_local,
            _ => false,
        };
        if !expected {
            let (operation, kind) = (operation.into(), reply.kind);
            found.push(Violation::UnexpectedReply { operation, kind, after });
            return;
        }
        after = Some(reply.kind);
    }
}
