//! Completes transactions whose coordinators are gone.
//!
//! If several groups of a transaction write, it stores a record together with the first of them.
//! Every host that uses the databases may look for records from time to time, and takes over those
//! that are older than [`Limits::orphan_ms`](crate::outcome::Limits::orphan_ms). Several hosts may
//! do so at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::binding::Modules;
use crate::collect::Collector;
use crate::coordinator::{Ask, CannotResume, Coordinator, Next, Request, TransactionId};
use crate::executor::{BATCH, Clock, Connections, run};
use crate::job::Job;
use crate::location::{Location, Name};
use crate::outcome::{Limits, Outcome, Why};
use crate::record::Record;
pub use crate::recovered::Recovered;
use crate::request::calls::{List, StoreError};
use crate::versioned::Unreadable;
use crate::witness;

/// Data found under a record's name.
#[derive(Debug)]
pub enum Found {
    /// A record.
    Record(Box<Record>),
    /// Bytes that are not a record.
    Unreadable(Unreadable),
    /// The database does not return it.
    Unread(StoreError),
}

/// Number of names to list at once. It exceeds the usual number of names, because some databases
/// scan all names for each request.
const PAGE: usize = 65_536;

/// Number of unreadable records in a row after which their database counts as unreachable.
const UNREAD_IN_A_ROW: usize = 8;

/// Returns all records in a place, each with the identifier of its transaction, except those that a
/// collector has.
///
/// # Errors
/// If the database cannot list them, or cannot read many in a row.
pub async fn records(
    place: &Location,
    connections: &mut Connections,
    collector: &Collector,
) -> Result<Vec<(String, Found)>, StoreError> {
    let mut records = Vec::new();
    let mut after: Arc<str> = "".into();
    loop {
        let list = List {
            space: Arc::clone(&place.space),
            prefix: witness::RECORDS.into(),
            after: Arc::clone(&after),
            limit: PAGE,
        };
        let mut session = connections.check_out(&place.database).await?;
        let listed = session.connection.list(&list).await;
        session.check_in();
        let mut keys = listed?;
        let Some(last) = keys.last() else { return Ok(records) };
        after = Arc::clone(last);
        keys.retain(|key| !witness::of_record(key).is_some_and(|id| collector.has(id)));
        for batch in keys.chunks(BATCH) {
            match read(place, batch, connections).await {
                Ok(found) => records.extend(found),
                // A single record may be the cause of the error.
                Err(_) => read_singly(place, batch, connections, &mut records).await?,
            }
        }
    }
}

async fn read_singly(
    place: &Location,
    keys: &[Arc<str>],
    connections: &mut Connections,
    records: &mut Vec<(String, Found)>,
) -> Result<(), StoreError> {
    let mut unread_in_a_row = 0;
    for key in keys {
        match read(place, std::slice::from_ref(key), connections).await {
            Ok(found) => {
                unread_in_a_row = 0;
                records.extend(found);
            }
            Err(error) => {
                unread_in_a_row += 1;
                if unread_in_a_row == UNREAD_IN_A_ROW {
                    return Err(error);
                }
                records.push((transaction(key), Found::Unread(error)));
            }
        }
    }
    Ok(())
}

fn transaction(key: &str) -> String {
    key.strip_prefix(witness::RECORDS).unwrap_or(key).to_owned()
}

async fn read(
    place: &Location,
    keys: &[Arc<str>],
    connections: &mut Connections,
) -> Result<Vec<(String, Found)>, StoreError> {
    let name = |key: &Arc<str>| Name { space: Arc::clone(&place.space), key: Arc::clone(key) };
    let all = connections.read(&place.database, keys.iter().map(name).collect()).await?;
    let found = keys.iter().zip(all).filter_map(|(key, fields)| {
        // Another host may have removed it since it was listed.
        let found = match Record::decode(fields.get(&0)?) {
            Ok(record) => Found::Record(Box::new(record)),
            Err(error) => Found::Unreadable(error),
        };
        Some((transaction(key), found))
    });
    Ok(found.collect())
}

/// Completes the incomplete transactions in a place.
///
/// # Errors
/// Those of [`records`]. The result contains the errors of single transactions.
pub async fn recover(
    place: &Location,
    connections: &mut Connections,
    (modules, limits): (&Arc<Modules>, Limits),
    collector: &Collector,
    clock: &dyn Clock,
) -> Result<Recovered, StoreError> {
    let mut recovered = Recovered::default();
    let (mut due, mut young) = (Vec::new(), BTreeSet::new());
    for (key, found) in records(place, connections, collector).await? {
        let record = match found {
            Found::Record(record) => *record,
            Found::Unreadable(error) => {
                recovered.unreadable.push((key, error));
                continue;
            }
            Found::Unread(error) => {
                recovered.unread.push((key, error));
                continue;
            }
        };
        let age_ms = clock.now_ms().saturating_sub(record.lease.since_ms);
        if record.failed.is_some() {
            recovered.failed.push(record);
        } else if record.complete {
            recovered.complete.push(record);
        } else if let Some(ticket) = collector.ticket(record.id) {
            due.push(ticket.clone());
        } else if age_ms >= limits.orphan_ms {
            due.push(record);
        } else {
            young.insert(record.id);
        }
    }
    recovered.young = young.len();
    due.sort_by_key(|record| record.began_ms);
    let (mut left, mut away, mut seen) = (young, BTreeSet::new(), Seen::new());
    loop {
        // A transaction that waits for an incomplete one would wait in vain, and so would those
        // that wait for it.
        let mut at = 0;
        while at < due.len() {
            if !is_blocked(&due[at], &left, &mut seen, connections).await {
                at += 1;
                continue;
            }
            let record = due.remove(at);
            left.insert(record.id);
            recovered.skipped.push(record.id);
            at = 0;
        }
        let Some(record) = next(&mut due) else { return Ok(recovered) };
        let (id, rules, ticket) = (record.id, (modules, limits), collector.ticket(record.id));
        let found = (&mut recovered, &mut away);
        if !take_over(record, ticket, connections, rules, clock, found).await {
            left.insert(id);
        }
        // The coordinator may also have completed other transactions that blocked this one.
        due.retain(|record| recovered.completed.iter().all(|done| done.id != record.id));
    }
}

/// Whether transactions are visible as a whole in places, by their commit witnesses.
type Seen = BTreeMap<(Location, TransactionId), bool>;

/// Returns whether a transaction waits for one of the transactions in `by`, and would wait in vain.
/// If the other transaction's commit witness is in that place, it need not wait, even if the other
/// transaction is incomplete elsewhere.
async fn is_blocked(
    record: &Record,
    by: &BTreeSet<TransactionId>,
    seen: &mut Seen,
    connections: &mut Connections,
) -> bool {
    let others = record.state.worklist.keys().filter(|(_, id)| *id != record.id && by.contains(id));
    for wanted in others {
        let is_there = match seen.get(wanted) {
            Some(known) => *known,
            None => {
                let (place, id) = wanted;
                let names = vec![witness::commit(&place.space, *id)];
                let read = connections.read(&place.database, names).await;
                let found = read.is_ok_and(|found| found.iter().any(|fields| !fields.is_empty()));
                seen.insert(wanted.clone(), found);
                found
            }
        };
        if !is_there {
            return true;
        }
    }
    false
}

/// Removes and returns the first one that waits for none of the others. If all wait for one
/// another, returns the first.
fn next(due: &mut Vec<Record>) -> Option<Record> {
    let all = due.iter().map(|record| record.id).collect();
    let ready = due.iter().position(|record| !waits(record, &all));
    (!due.is_empty()).then(|| due.remove(ready.unwrap_or(0)))
}

/// Returns whether a transaction waits for another one of these.
fn waits(record: &Record, of: &BTreeSet<TransactionId>) -> bool {
    record.state.worklist.keys().any(|(_, id)| *id != record.id && of.contains(id))
}

/// Completes a transaction, from its ticket if there is one. Returns whether it is complete now.
async fn take_over(
    record: Record,
    ticket: Option<&Record>,
    connections: &mut Connections,
    (modules, limits): (&Arc<Modules>, Limits),
    clock: &dyn Clock,
    (recovered, away): (&mut Recovered, &mut BTreeSet<Arc<str>>),
) -> bool {
    let next = record.state.next as usize;
    match Coordinator::take_over(record, Arc::clone(modules), limits, clock.now_ms()) {
        Ok(mut coordinator) => {
            let plan = coordinator.plan();
            let first = plan.first_writer.map(|first| &plan.groups[first]);
            if ticket.is_some() && !first.is_some_and(|group| group.validated && group.atomic) {
                // A caller may resume the same ticket, and no lease excludes one of the two
                // coordinators here.
                recovered.skipped.push(coordinator.id());
                return false;
            }
            // Each attempt waits for an unreachable database until its time limit. Only the first
            // transaction waits; the others are skipped.
            let mut groups = coordinator.plan().groups[next..].iter();
            if groups.any(|group| group.database.as_ref().is_some_and(|name| away.contains(name))) {
                recovered.skipped.push(coordinator.id());
                return false;
            }
            let done = match run(&mut coordinator, connections, clock).await {
                Outcome::Done { result, .. } => {
                    let ticket = ticket.cloned();
                    recovered.finished.extend(ticket.map(|ticket| ticket.with_result(result)));
                    true
                }
                outcome => {
                    if let Outcome::Incomplete { why: Why::Unavailable { database, .. }, .. } =
                        &outcome
                    {
                        away.insert(Arc::clone(database));
                    }
                    if let Outcome::Incomplete { ticket: Some(ticket), .. } = &outcome {
                        recovered.given_up.push((**ticket).clone());
                    }
                    recovered.open.push((coordinator.id(), outcome));
                    false
                }
            };
            recovered.completed.extend(coordinator.garbage());
            recovered.given_up.extend(coordinator.given_up());
            done
        }
        Err(error) => {
            recovered.unknown.push(error);
            false
        }
    }
}

/// Progress of a transaction, by its phases that write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Phases that have committed.
    pub done: Vec<usize>,
    /// Phases that are not known to have committed.
    pub left: Vec<usize>,
}

/// Determines the progress of a transaction with a record from the done marks of its groups.
///
/// # Errors
/// If its module is not known.
pub async fn progress(
    record: &Record,
    (modules, limits): (&Modules, Limits),
    connections: &mut Connections,
) -> Result<Progress, CannotResume> {
    let job = Job::of(record, modules, limits)?;
    let phases = &job.module.program().transactions[job.transaction].phases;
    let writing = job.plan.groups.iter().enumerate().filter(|(_, group)| group.writes());
    let mut progress = Progress::default();
    for (index, group) in writing {
        let is_done = index < record.state.next as usize
            || match (&group.database, job.mark(index)) {
                (Some(database), Some(mark)) => {
                    let read = connections.read(database, vec![mark]).await;
                    read.is_ok_and(|found| found.iter().any(|fields| fields.contains_key(&0)))
                }
                _ => false,
            };
        let written = group.phases.clone().filter(|phase| phases[*phase].mutates);
        if is_done { progress.done.extend(written) } else { progress.left.extend(written) }
    }
    Ok(progress)
}

/// Returns the reason why a transaction cannot be completed under the current rights of its users,
/// as far as that is known without an attempt. Executes nothing.
///
/// # Errors
/// If its module is not known.
pub async fn denied(
    record: Record,
    (modules, limits): (&Arc<Modules>, Limits),
    connections: &mut Connections,
    now_ms: u64,
) -> Result<Option<Why>, CannotResume> {
    let modules = Arc::clone(modules);
    let mut coordinator = Coordinator::take_over(record, modules, limits, now_ms)?;
    coordinator.act_as(connections.users(), connections.guarded());
    let mut answer = None;
    loop {
        match coordinator.next(now_ms, answer) {
            // The coordinator checks all rights before anything else.
            Next::Ask(Ask::Store { database, request: request @ Request::Permits(_) }) => {
                let asked = connections.ask_for(coordinator.users(), &database, &request);
                answer = Some(asked.await);
            }
            Next::Finished(Outcome::Incomplete { why: why @ Why::Denied { .. }, .. }) => {
                return Ok(Some(why));
            }
            _ => return Ok(None),
        }
    }
}

/// Gives up a transaction that can never be completed, after an administrator has handled its
/// effects. Returns a record for a [`Collector`], which removes all garbage including the record.
/// Returns `None` if the transaction can be completed.
pub fn forget(failed: Record) -> Option<Record> {
    failed.failed.as_ref()?;
    Some(Record { complete: true, failed: None, ..failed })
}
