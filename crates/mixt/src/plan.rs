//! Joins the phases of a transaction into groups, each of which runs in one transaction of a
//! database.
//!
//! Consecutive phases that use several atomic stores of one database form one group, if one
//! transaction of the database can span these stores. The database makes them atomic, so the phases
//! of a group need neither witnesses nor a recovery record among them. A reader of several such
//! stores sees them at one time. Every other phase is a group of its own.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use solera_program::ir::Transaction;
use solera_program::types::StoreId;

use crate::bound::Bindings;
use crate::location::Location;

/// Groups of a transaction, and the records and witnesses that they must store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The groups, in the order in which they run.
    pub groups: Vec<Group>,
    /// The first group that writes. It stores the recovery record if several groups write.
    pub first_writer: Option<usize>,
    /// Whether several groups write. The transaction then has a recovery record, because a
    /// coordinator that dies may leave it incomplete.
    pub recorded: bool,
    /// Atomic places that get witnesses. Empty unless more than one group writes such places.
    pub witnessed: Arc<[Location]>,
}

/// Phases that run in one transaction of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Range of its phases.
    pub phases: Range<usize>,
    /// Stores that it uses. A group without stores only computes.
    pub stores: BTreeSet<StoreId>,
    /// Name of the database, if it uses one.
    pub database: Option<Arc<str>>,
    /// Whether the transaction is ordered against others.
    pub strong: bool,
    /// Whether the transaction is validated when it commits
    /// ([`Bound::validated`](crate::bound::Bound::validated)).
    pub validated: bool,
    /// Whether all its stores are atomic.
    pub atomic: bool,
    /// The stores that it may write.
    pub written: BTreeSet<StoreId>,
    /// Whether it reads endorsed values.
    pub endorsing: bool,
    /// Whether it executes one read and nothing else.
    pub reads_once: bool,
}

impl Group {
    /// Returns whether it may write.
    pub fn writes(&self) -> bool {
        !self.written.is_empty()
    }

    /// Returns the store whose space contains its recovery record or done mark: an atomic one, if
    /// there is one.
    pub fn home(&self, bindings: &Bindings) -> Option<StoreId> {
        let atomic = self.written.iter().find(|store| bindings.of(**store).atomic());
        atomic.or(self.written.first()).copied()
    }
}

impl Plan {
    /// Creates the plan of a transaction with these bindings.
    pub fn new(transaction: &Transaction, bindings: &Bindings) -> Plan {
        let mut groups = Vec::new();
        let mut start = 0;
        while start < transaction.phases.len() {
            let end = joined(transaction, bindings, start).unwrap_or(start + 1);
            groups.push(group(transaction, bindings, start..end));
            start = end;
        }
        let writing = || groups.iter().filter(|group| group.writes());
        let marked =
            |group: &&Group| group.written.iter().any(|store| bindings.of(*store).atomic());
        let witnessed: BTreeSet<_> = if writing().filter(marked).count() > 1 {
            let written =
                writing().flat_map(|group| &group.written).map(|store| bindings.of(*store));
            written.filter(|bound| bound.atomic()).map(|bound| bound.place.clone()).collect()
        } else {
            BTreeSet::new()
        };
        Plan {
            first_writer: groups.iter().position(Group::writes),
            recorded: writing().count() > 1,
            witnessed: witnessed.into_iter().collect(),
            groups,
        }
    }
}

/// Returns the end of the group that begins at a phase, if later phases join that phase.
fn joined(transaction: &Transaction, bindings: &Bindings, start: usize) -> Option<usize> {
    let mut used = BTreeSet::new();
    let mut end = None;
    for (index, phase) in transaction.phases.iter().enumerate().skip(start) {
        let Some(store) = phase.store else { continue };
        let bound = bindings.of(store);
        let first = used.first().map_or(bound, |store| bindings.of(*store));
        if phase.endorsing || !bound.atomic() || !bound.joins(first) {
            break;
        }
        if index > start && used.is_empty() {
            // A phase that uses no store does not begin a joined group.
            return None;
        }
        used.insert(store);
        if used.len() > 1 {
            end = Some(index + 1);
        }
    }
    end
}

fn group(transaction: &Transaction, bindings: &Bindings, phases: Range<usize>) -> Group {
    let within = &transaction.phases[phases.clone()];
    let stores: BTreeSet<_> = within.iter().filter_map(|phase| phase.store).collect();
    let bounds = || stores.iter().map(|store| bindings.of(*store));
    let written = within.iter().filter(|phase| phase.mutates).filter_map(|phase| phase.store);
    let using: Vec<_> = within.iter().filter(|phase| phase.store.is_some()).collect();
    Group {
        phases,
        database: bounds().next().map(|bound| Arc::clone(&bound.place.database)),
        strong: bounds().any(|bound| bound.strong()),
        validated: bounds().any(|bound| bound.validated()),
        atomic: bounds().all(|bound| bound.atomic()),
        written: written.collect(),
        endorsing: within.iter().any(|phase| phase.endorsing),
        reads_once: matches!(using[..], [one] if !one.mutates && one.calls_once()),
        stores,
    }
}
