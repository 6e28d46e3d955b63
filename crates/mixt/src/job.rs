//! The constant part of a transaction while it runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use solera_program::run::{Failure, Names, Run, Tapes};
use solera_program::value::Value;

use crate::access::Users;
use crate::binding::{Module, Modules};
use crate::bound::Bindings;
use crate::location::{Location, Name};
use crate::outcome::Limits;
use crate::plan::{Group, Plan};
use crate::record::{Record, RecoveryLease, State};
use crate::witness::{self, TransactionId};

/// The constant part of a transaction while it runs.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) module: Module,
    pub(crate) transaction: usize,
    pub(crate) args: Vec<Value>,
    pub(crate) id: TransactionId,
    pub(crate) bindings: Bindings,
    pub(crate) plan: Plan,
    pub(crate) limits: Limits,
    pub(crate) began_ms: u64,
    /// Users in whose names it runs.
    pub(crate) users: Users,
}

impl Job {
    /// Returns the job of a record.
    pub(crate) fn of(
        record: &Record,
        modules: &Modules,
        limits: Limits,
    ) -> Result<Job, CannotResume> {
        let unknown = || CannotResume { id: record.id, module: Arc::clone(&record.module) };
        let module = modules.get(&record.module).ok_or_else(unknown)?.clone();
        let transaction = module.transaction(&record.transaction).ok_or_else(unknown)?;
        if record.bindings.len() != module.program().stores.len() {
            return Err(unknown());
        }
        let plan = Plan::new(&module.program().transactions[transaction], &record.bindings);
        let fits = check_args(&module, transaction, &record.args, record.id, limits).is_ok();
        if !fits || record.state.next as usize > plan.groups.len() {
            return Err(unknown());
        }
        let (args, bindings) = (record.args.clone(), record.bindings.clone());
        let (id, began_ms, users) = (record.id, record.began_ms, record.users.clone());
        Ok(Job { module, transaction, args, id, bindings, plan, limits, began_ms, users })
    }

    /// Returns the record with which a coordinator can continue from `state`, after `lease`.
    pub(crate) fn record(&self, state: State, lease: RecoveryLease) -> Record {
        let writers = self.plan.groups.iter().enumerate().filter(|(_, group)| group.writes());
        let marks = writers.skip(1).map(|(index, group)| {
            let home = group.home(&self.bindings).expect("a writer has a home");
            let place = &self.bindings.of(home).place;
            (Arc::clone(&place.database), witness::mark(&place.space, self.id, index))
        });
        let marks = if self.plan.recorded { marks.collect() } else { Vec::new() };
        let transaction = &self.module.program().transactions[self.transaction];
        Record {
            id: self.id,
            module: Arc::clone(self.module.name()),
            transaction: Arc::clone(&transaction.name),
            args: self.args.clone(),
            bindings: self.bindings.clone(),
            began_ms: self.began_ms,
            users: self.users.clone(),
            lease,
            stopped: false,
            state,
            home: self.record_place().cloned(),
            marks,
            witnessed: Arc::clone(&self.plan.witnessed),
            complete: false,
            failed: None,
        }
    }

    /// Returns the place of the recovery record, if the transaction has one.
    pub(crate) fn record_place(&self) -> Option<&Location> {
        let first = self.plan.first_writer.filter(|_| self.plan.recorded)?;
        let home = self.plan.groups[first].home(&self.bindings).expect("a writer has a home");
        Some(&self.bindings.of(home).place)
    }

    /// Returns the name of a group's done mark, or of the record for the first group that writes;
    /// `None` if there is none.
    pub(crate) fn mark(&self, index: usize) -> Option<Name> {
        let group = &self.plan.groups[index];
        let home = group.home(&self.bindings).filter(|_| self.plan.recorded)?;
        let space = &self.bindings.of(home).place.space;
        Some(if self.plan.first_writer == Some(index) {
            witness::record(space, self.id)
        } else {
            witness::mark(space, self.id, index)
        })
    }

    /// Returns whether one transaction of a database can span the places of two groups.
    pub(crate) fn can_join(&self, one: &Group, other: &Group) -> bool {
        let bound = |group: &Group| group.stores.first().map(|store| self.bindings.of(*store));
        bound(one).zip(bound(other)).is_some_and(|(one, other)| one.joins(other))
    }

    /// Returns the places that a group uses.
    pub(crate) fn places(&self, group: &Group) -> BTreeSet<Location> {
        group.stores.iter().map(|store| self.bindings.of(*store).place.clone()).collect()
    }

    /// Returns the places that some groups use.
    pub(crate) fn places_of(
        &self,
        range: impl std::slice::SliceIndex<[Group], Output = [Group]>,
    ) -> BTreeSet<Location> {
        self.plan.groups[range].iter().flat_map(|group| self.places(group)).collect()
    }

    /// Returns the tapes that groups take.
    pub(crate) fn taken(&self, groups: &[Group], tapes: &Tapes) -> Tapes {
        let transaction = &self.module.program().transactions[self.transaction];
        let phases = groups.iter().flat_map(|group| &transaction.phases[group.phases.clone()]);
        let taken: BTreeSet<u32> = phases.flat_map(|phase| &phase.takes).copied().collect();
        tapes.only(&taken.into_iter().collect::<Vec<_>>())
    }
}

/// Checks that the arguments have the parameters' types.
pub(crate) fn check_args(
    module: &Module,
    transaction: usize,
    args: &[Value],
    id: TransactionId,
    limits: Limits,
) -> Result<(), Failure> {
    let (program, names) = (Arc::clone(module.program()), Names { prefix: id.to_string().into() });
    let args = args.to_vec();
    Run::new(program, transaction, 0, args, Tapes::new(), names, limits.phase).map(|_| ())
}

/// Error of a transaction whose program is not known here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {id} needs the module `{module}`, which is not loaded")]
pub struct CannotResume {
    /// Identifier of the transaction.
    pub id: TransactionId,
    /// The module it needs.
    pub module: Arc<str>,
}
