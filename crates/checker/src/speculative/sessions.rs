//! Operations that sessions know: orders of their later operations contain them.

use std::collections::BTreeMap;

use super::history::ReplyKind;
use super::index::{Claim, Found, Index, Members, NOWHERE};
use super::violation::Violation;

/// Checks that first replies contain what their session knew.
pub(super) fn check(index: &Index<'_>, found: &mut Found) {
    let mut members = Members::new(index);
    for operations in index.sessions.values() {
        let mut session = SessionState::default();
        for operation in operations {
            session.receive(index, index.operation(*operation).invoked);
            if let Some(claim) = index.first_claim(*operation) {
                members.set(claim);
                session.check(index, claim, &members, found);
            }
            let replies = index.first[*operation].into_iter();
            let others = replies.clone().flat_map(|first| first + 1..index.claims.len());
            let others = others.take_while(|at| index.claims[*at].operation == *operation);
            session.pending.extend(replies.chain(others));
        }
    }
}

/// A session between two of its operations.
#[derive(Default)]
struct SessionState {
    /// Claims whose replies have not been received yet.
    pending: Vec<usize>,
    /// Answered operations that the orders of later ones have not contained yet.
    own: Vec<usize>,
    /// Longest prefix of the final order for which a first reply stood, and the reply's operation.
    committed: (usize, usize),
    /// The same of later replies, by site. The session may have moved before it received them.
    later: BTreeMap<u32, (usize, usize)>,
    /// First reply to the last answered operation.
    last: Option<usize>,
}

impl SessionState {
    /// Receives the replies up to an instant.
    fn receive(&mut self, index: &Index<'_>, until: u64) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|place| {
            let claim = &index.claims[*place];
            let operation = claim.operation;
            let is_first = index.first[operation] == Some(*place);
            // A session may continue at the instant of a first reply. It does not wait for others.
            if claim.reply.at > until || claim.reply.at == until && !is_first {
                return true;
            }
            if is_first && index.operation(operation).id().is_some() {
                self.own.push(operation);
            }
            if is_first && self.last.is_none_or(|last| index.claims[last].operation < operation) {
                self.last = Some(*place);
            }
            let mut committed = claim.committed();
            if claim.kind() == ReplyKind::Stable && index.positions[operation] != NOWHERE {
                committed = committed.max(index.positions[operation] + 1);
            }
            let site = index.operation(operation).replica().0;
            let before =
                if is_first { &mut self.committed } else { self.later.entry(site).or_default() };
            *before = (committed, operation).max(*before);
            false
        });
        self.pending = pending;
    }

    /// Checks the order of the session's next operation, and reports the first operation that it
    /// lacks.
    fn check(
        &mut self,
        index: &Index<'_>,
        claim: &Claim<'_>,
        members: &Members,
        found: &mut Found,
    ) {
        let hides = index.history.acyclic;
        let is_hidden = |operation: usize| hides && index.is_strong(operation);
        let lacks = |operation: &usize| !members.contains(index, *operation);
        let own = self.own.iter().copied().find(|it| lacks(it) && !is_hidden(*it));
        let site = index.operation(claim.operation).replica().0;
        let later = self.later.get(&site).copied().unwrap_or_default();
        let (length, by) = self.committed.max(later);
        let committed = members.lacks_committed(index, length);
        let last = self.last.map(|last| &index.claims[last]);
        let tentative = last.into_iter().flat_map(|last| &last.tentative);
        let tentative = tentative.map(|it| *it as usize).find(|it| lacks(it) && !is_hidden(*it));
        let own = own.map(|missing| (missing, missing));
        let committed = committed.map(|missing| (missing, by));
        let tentative = tentative.zip(last.map(|last| last.operation));
        if let Some((missing, by)) = own.or(committed).or(tentative) {
            found.push(Violation::SessionForgets {
                operation: index.name(claim.operation),
                missing: index.name(missing),
                seen_by: (by != missing).then(|| index.name(by)),
            });
        }
        self.own.retain(|own| lacks(own) && is_hidden(*own));
    }
}
