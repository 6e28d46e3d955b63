//! Compares the final order with what clients know: what must be in it, and what precedes what.

use super::history::ReplyKind;
use super::index::{Found, Index, NOWHERE};
use super::violation::{Evidence, HistoryOrder, Replica, Violation};

/// Checks that operations are in the final order which must be.
pub(super) fn check_lost(index: &Index<'_>, found: &mut Found) {
    let count = index.history.operations.len();
    let survives = |operation: usize| {
        !index.history.destroyed.contains(&index.operation(operation).replica().0)
    };
    let mut seen = vec![None; count];
    for claim in index.claims.iter().filter(|claim| survives(claim.operation)) {
        for operation in &claim.tentative {
            seen[*operation as usize].get_or_insert(claim.operation);
        }
    }
    for operation in (0..count).filter(|it| index.positions[*it] == NOWHERE) {
        let is_answered = !index.operation(operation).replies.is_empty();
        let reason = if index.operation(operation).id().is_none() {
            continue;
        } else if index.stable[operation].is_some() {
            Evidence::Stable
        } else if index.history.unsettled {
            continue;
        } else if is_answered && survives(operation) {
            Evidence::Acknowledged
        } else if let Some(by) = seen[operation] {
            Evidence::Seen(index.name(by))
        } else {
            continue;
        };
        found.push(Violation::Lost { operation: index.name(operation), reason });
    }
}

/// Checks that stable replies stand for the final order before their operations.
pub(super) fn check_stable_orders(index: &Index<'_>, found: &mut Found) {
    for claim in index.claims.iter().filter(|claim| claim.kind() == ReplyKind::Stable) {
        let position = index.positions[claim.operation];
        let same = claim.committed() == position && claim.tentative.is_empty();
        if position != NOWHERE && !same {
            let (operation, order) = (index.name(claim.operation), claim.reply.order.clone());
            found.push(Violation::StableOrder { operation, position, order });
        }
    }
}

/// Checks that no order contains an operation that was invoked after it was observed.
pub(super) fn check_future(index: &Index<'_>, found: &mut Found) {
    // Operation with the latest invocation in each prefix of the final order.
    let mut latest = vec![None; index.order.len() + 1];
    for (position, operation) in index.order.iter().enumerate() {
        let both = [latest[position], *operation].into_iter().flatten();
        latest[position + 1] = both.max_by_key(|it| index.operation(*it).invoked);
    }
    let mut check = |operation: usize, at: u64, order: &dyn Fn() -> HistoryOrder| {
        if index.operation(operation).invoked > at {
            let operation = index.name(operation);
            found.push(Violation::FromTheFuture { operation, order: order(), at });
        }
    };
    for claim in &index.claims {
        let tentative = claim.tentative.iter().map(|operation| *operation as usize);
        for operation in tentative.chain(latest[claim.committed()]) {
            let name = || HistoryOrder::Reply(index.name(claim.operation), claim.kind());
            check(operation, claim.reply.at, &name);
        }
    }
    for report in &index.history.reports {
        if let Some(operation) = latest[report.length().min(index.order.len())] {
            check(operation, report.at, &|| HistoryOrder::Committed(Replica::from(report)));
        }
    }
}

/// Checks the real time of stable replies. Equal instants are in no order.
pub(super) fn check_real_time(index: &Index<'_>, found: &mut Found) {
    let mut latest: Option<usize> = None;
    for operation in index.order.iter().copied().flatten() {
        let invoked = |operation: usize| index.operation(operation).invoked;
        let overtook =
            latest.filter(|it| index.stable[operation].is_some_and(|at| at < invoked(*it)));
        if let Some(later) = overtook {
            let (earlier, later) = (index.name(operation), index.name(later));
            found.push(Violation::RealTime { earlier, later });
        }
        latest = latest.into_iter().chain([operation]).max_by_key(|it| invoked(*it));
    }
}

/// Checks that operations follow the weak ones of their contexts in the final order.
pub(super) fn check_contexts(index: &Index<'_>, found: &mut Found) {
    for operation in index.order.iter().copied().flatten() {
        let Some(claim) = index.context(operation) else { continue };
        let seen = claim.tentative.iter().map(|seen| *seen as usize);
        let mut weak = seen.filter(|seen| !index.is_strong(*seen));
        if let Some(seen) = weak.find(|it| index.positions[*it] > index.positions[operation]) {
            found.push(Violation::ContextOrder {
                operation: index.name(operation),
                seen: index.name(seen),
                missing: index.positions[seen] == NOWHERE,
            });
        }
    }
}

/// Checks the order of invocation within each run of a site, and within each session. A weak
/// operation may precede strong ones that were invoked before it.
pub(super) fn check_programs(index: &Index<'_>, found: &mut Found) {
    for stream in index.streams.values() {
        let mut earlier = Earlier::default();
        for (_, operation) in stream {
            earlier.check(index, *operation, false, found);
            earlier.add(index, *operation);
        }
    }
    for operations in index.sessions.values() {
        let mut earlier = Earlier::default();
        let mut pending: Vec<usize> = Vec::new();
        for operation in operations {
            let invoked = index.operation(*operation).invoked;
            pending.retain(|before| {
                let is_known = answered(index, *before).is_some_and(|at| at <= invoked);
                if is_known {
                    earlier.add(index, *before);
                }
                !is_known
            });
            if index.operation(*operation).id().is_some() {
                if index.has_context(*operation) {
                    earlier.check(index, *operation, true, found);
                }
                pending.extend(answered(index, *operation).map(|_| *operation));
            }
        }
    }
}

/// Returns the instant of the first reply.
fn answered(index: &Index<'_>, operation: usize) -> Option<u64> {
    index.operation(operation).replies.first().map(|reply| reply.at)
}

/// The earlier operations of a program with the last positions.
#[derive(Default)]
struct Earlier {
    weak: Option<usize>,
    strong: Option<usize>,
}

impl Earlier {
    fn add(&mut self, index: &Index<'_>, operation: usize) {
        let last = if index.is_strong(operation) { &mut self.strong } else { &mut self.weak };
        let both = last.iter().copied().chain([operation]);
        *last = both.max_by_key(|it| index.positions[*it]);
    }

    fn check(&self, index: &Index<'_>, later: usize, session: bool, found: &mut Found) {
        let position = index.positions[later];
        let strong = self.strong.filter(|_| index.is_strong(later));
        let overtaken = |earlier: &usize| index.positions[*earlier] > position;
        // Nothing is greater than NOWHERE, so an operation without a position overtakes none.
        for earlier in [self.weak, strong].into_iter().flatten().filter(overtaken) {
            let missing = index.positions[earlier] == NOWHERE;
            let (earlier, later) = (index.name(earlier), index.name(later));
            found.push(Violation::ProgramOrder { earlier, later, session, missing });
        }
    }
}

impl From<&super::history::Report> for Replica {
    fn from(report: &super::history::Report) -> Replica {
        Replica { site: report.site, run: report.run, at: report.at }
    }
}
