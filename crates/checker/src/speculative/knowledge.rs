//! Knowledge of replicas: within a run it only grows, and it includes the context of each
//! operation.

use std::collections::BTreeMap;

use super::history::ReplyKind;
use super::index::{Claim, Found, Index, Members};
use super::violation::Violation;

/// An event at a run of a site. At equal instants, invocations come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Operation that was invoked.
    Invoked(usize),
    /// Operation that has its first reply.
    Answered(usize),
    /// Number of committed operations that the replica had.
    Committed(usize),
}

/// Checks that revisions keep the weak operations of the reply before them. An operation that is
/// committed by then has the final order, which is checked elsewhere.
pub(super) fn check_revisions(index: &Index<'_>, found: &mut Found) {
    let mut members = Members::new(index);
    for (before, claim) in index.claims.iter().zip(index.claims.iter().skip(1)) {
        let is_committed =
            claim.tentative.is_empty() && claim.committed() == index.positions[claim.operation];
        let is_revision = claim.kind() == ReplyKind::Revised && !is_committed;
        if !is_revision || before.operation != claim.operation {
            continue;
        }
        members.set(claim);
        let weak = before.tentative.iter().map(|operation| *operation as usize);
        let mut weak = weak.filter(|operation| !index.is_strong(*operation));
        if let Some(missing) = weak.find(|operation| !members.contains(index, *operation)) {
            let (operation, missing) = (index.name(claim.operation), index.name(missing));
            found.push(Violation::RevisionDrops { operation, missing });
        }
        check_gaps(index, claim, true, &members, found);
    }
}

/// Checks the orders of first replies of each run of a site.
pub(super) fn check(index: &Index<'_>, found: &mut Found) {
    let mut members = Members::new(index);
    // Run in which the context of an operation was last checked.
    let mut checked = vec![usize::MAX; index.history.operations.len()];
    for (run, mut events) in events(index).into_values().enumerate() {
        events.sort_unstable();
        let mut known = Known::default();
        for (_, event) in events {
            match event {
                Event::Committed(length) => known.committed = known.committed.max(length),
                Event::Answered(operation) => known.answer(index, operation),
                Event::Invoked(operation) => {
                    let Some(claim) = index.first_claim(operation) else { continue };
                    members.set(claim);
                    known.check(index, claim, &members, found);
                    let new = claim.tentative.iter().map(|operation| *operation as usize);
                    let new = new.filter(|it| std::mem::replace(&mut checked[*it], run) != run);
                    check_contexts(index, claim, new, &members, found);
                    let hides = index.history.acyclic;
                    check_gaps(index, claim, hides, &members, found);
                }
            }
        }
    }
}

fn events(index: &Index<'_>) -> BTreeMap<(u32, u32), Vec<(u64, Event)>> {
    let mut events: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for report in &index.history.reports {
        let event = (report.at, Event::Committed(report.length()));
        events.entry((report.site, report.run)).or_default().push(event);
    }
    for (number, operation) in index.history.operations.iter().enumerate() {
        let events = events.entry(operation.replica()).or_default();
        events.push((operation.invoked, Event::Invoked(number)));
        if let Some(claim) = index.first_claim(number) {
            events.push((claim.reply.at, Event::Answered(number)));
            events.push((claim.reply.at, Event::Committed(claim.committed())));
        }
    }
    events
}

/// Knowledge of a replica at an instant.
#[derive(Default)]
struct Known<'i> {
    /// Number of committed operations.
    committed: usize,
    /// Order of the answered operation that was invoked last.
    latest: Option<&'i Claim<'i>>,
    /// Answered operations of the run that no order contained since.
    own: Vec<usize>,
}

impl<'i> Known<'i> {
    fn answer(&mut self, index: &'i Index<'_>, operation: usize) {
        let invoked = |claim: &&Claim<'_>| index.operation(claim.operation).invoked;
        let claims = self.latest.into_iter().chain(index.first_claim(operation));
        self.latest = claims.max_by_key(invoked);
        self.own.extend(Some(operation).filter(|it| index.operation(*it).id().is_some()));
    }

    /// Checks that the current claim contains what the replica knew before the invocation.
    fn check(
        &mut self,
        index: &Index<'_>,
        claim: &Claim<'_>,
        members: &Members,
        found: &mut Found,
    ) {
        if claim.committed() < self.committed {
            found.push(Violation::ReplicaForgets {
                operation: index.name(claim.operation),
                committed: claim.committed(),
                known: self.committed,
            });
        }
        let hides = index.history.acyclic;
        let is_hidden = |operation: usize| hides && index.is_strong(operation);
        let lacks = |it: &usize| *it != claim.operation && !members.contains(index, *it);
        let own = self.own.iter().copied().find(|it| lacks(it) && !is_hidden(*it));
        let latest = self.latest.into_iter().flat_map(|latest| &latest.tentative);
        let latest = latest.map(|it| *it as usize).find(|it| lacks(it) && !is_hidden(*it));
        let latest = latest.zip(self.latest.map(|latest| latest.operation));
        if let Some((missing, by)) = own.map(|own| (own, own)).or(latest) {
            found.push(Violation::ReplicaDrops {
                operation: index.name(claim.operation),
                missing: index.name(missing),
                seen_by: (missing != by).then(|| index.name(by)),
            });
        }
        self.own.retain(|own| lacks(own) && is_hidden(*own));
    }
}

/// Checks that the current claim contains the contexts of some of its operations, without undecided
/// strong ones.
fn check_contexts(
    index: &Index<'_>,
    claim: &Claim<'_>,
    new: impl Iterator<Item = usize>,
    members: &Members,
    found: &mut Found,
) {
    for operation in new {
        let Some(context) = index.context(operation) else { continue };
        let weak = context.tentative.iter().map(|seen| *seen as usize);
        let mut weak = weak.filter(|seen| !index.is_strong(*seen));
        // An operation that precedes itself is a circle.
        let lacks = |seen: &usize| *seen != claim.operation && !members.contains(index, *seen);
        let missing = weak.find(lacks).or(members.lacks_committed(index, context.committed()));
        if let Some(missing) = missing {
            found.push(Violation::Incomplete {
                operation: index.name(claim.operation),
                known: index.name(operation),
                missing: index.name(missing),
            });
        }
    }
}

/// Checks that the current claim has no gap in a run of a site, including the run of its operation.
/// It may lack strong operations if it hides them.
fn check_gaps(
    index: &Index<'_>,
    claim: &Claim<'_>,
    hides: bool,
    members: &Members,
    found: &mut Found,
) {
    // Without a context of its own, a weak operation does not wait for strong ones.
    let hides = hides || index.history.strong_contexts;
    let is_shown = |operation: &usize| !(hides && index.is_strong(*operation));
    let tentative = claim.tentative.iter().map(|operation| *operation as usize);
    for next in tentative.chain([claim.operation]) {
        let before = |operation: &usize| index.previous[*operation];
        let mut before = std::iter::successors(before(&next), before);
        let missing = before.find(is_shown).filter(|it| !members.contains(index, *it));
        if let Some(missing) = missing {
            found.push(Violation::Gap {
                operation: index.name(claim.operation),
                missing: index.name(missing),
                next: index.name(next),
            });
            return;
        }
    }
}
