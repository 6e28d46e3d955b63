//! Completes transactions whose coordinators are gone.
//!
//! A transaction of several groups that write leaves a record together with the first of them.
//! Every host that uses the databases may look for records from time to time; those that are older
//! than [`Limits::orphan_ms`](crate::outcome::Limits::orphan_ms) it takes over. Several may do so
//! at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::binding::Modules;
use crate::collect::Collector;
use crate::coordinator::{Ask, CannotResume, Coordinator, Next, Request, TransactionId};
use crate::drive::{BATCH, Clock, Connections, run};
use crate::form::Unreadable;
use crate::job::Job;
use crate::outcome::{Limits, Outcome, Why};
use crate::place::{Name, Place};
use crate::record::Record;
pub use crate::recovered::Recovered;
use crate::request::calls::{List, StoreError};
use crate::witness;

/// What lies under the name of a record.
#[derive(Debug)]
pub enum Found {
    /// A record.
    Record(Box<Record>),
    /// Something else.
    Unreadable(Unreadable),
    /// The database does not give it.
    Unread(StoreError),
}

/// How many names are listed at once: more than there usually are, as some databases look at all of
/// them each time.
const PAGE: usize = 65_536;

/// After how many records in a row that could not be read their database is taken to be away.
const UNREAD_IN_A_ROW: usize = 8;

/// All records in a place, each with the name of its transaction, but those of transactions that a
/// collector has.
///
/// # Errors
/// If they cannot be listed, or many in a row cannot be read.
pub async fn records(
    place: &Place,
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
        let mut taken = connections.take(&place.database).await?;
        let listed = taken.connection.list(&list).await;
        taken.leave();
        let mut keys = listed?;
        let Some(last) = keys.last() else { return Ok(records) };
        after = Arc::clone(last);
        keys.retain(|key| !witness::of_record(key).is_some_and(|id| collector.has(id)));
        for batch in keys.chunks(BATCH) {
            match read(place, batch, connections).await {
                Ok(found) => records.extend(found),
                // Perhaps it is one of them.
                Err(_) => read_singly(place, batch, connections, &mut records).await?,
            }
        }
    }
}

async fn read_singly(
    place: &Place,
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
    place: &Place,
    keys: &[Arc<str>],
    connections: &mut Connections,
) -> Result<Vec<(String, Found)>, StoreError> {
    let name = |key: &Arc<str>| Name { space: Arc::clone(&place.space), key: Arc::clone(key) };
    let all = connections.read(&place.database, keys.iter().map(name).collect()).await?;
    let found = keys.iter().zip(all).filter_map(|(key, fields)| {
        // Somebody may have removed it since it was listed.
        let found = match Record::decode(fields.get(&0)?) {
            Ok(record) => Found::Record(Box::new(record)),
            Err(error) => Found::Unreadable(error),
        };
        Some((transaction(key), found))
    });
    Ok(found.collect())
}

/// Completes what others have left in a place.
///
/// # Errors
/// As of [`records`]. What a single one fails by is part of the result.
pub async fn recover(
    place: &Place,
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
        let age_ms = clock.now_ms().saturating_sub(record.turn.since_ms);
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
        // Who waits for what is left would wait in vain, and so would who waits for that.
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
        // It may have completed others on its way.
        due.retain(|record| recovered.completed.iter().all(|done| done.id != record.id));
    }
}

/// Whether transactions that are waited for are there as a whole, by their commit witnesses.
type Seen = BTreeMap<(Place, TransactionId), bool>;

/// Whether a transaction waits for one of these, and would in vain: of one that is incomplete
/// elsewhere, perhaps for long, what is waited for may be there.
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

/// Takes out the first one that waits for none of the others. Those that wait for one another in a
/// circle are tried all the same.
fn next(due: &mut Vec<Record>) -> Option<Record> {
    let all = due.iter().map(|record| record.id).collect();
    let ready = due.iter().position(|record| !waits(record, &all));
    (!due.is_empty()).then(|| due.remove(ready.unwrap_or(0)))
}

/// Whether a transaction waits for another one of these.
fn waits(record: &Record, of: &BTreeSet<TransactionId>) -> bool {
    record.state.worklist.keys().any(|(_, id)| *id != record.id && of.contains(id))
}

/// Goes on with a transaction: from its ticket, if there is one. Whether it is complete now.
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
            if ticket.is_some() && !first.is_some_and(|group| group.strong && group.atomic) {
                // Only time keeps this apart from a caller who goes on from the same ticket.
                recovered.skipped.push(coordinator.id());
                return false;
            }
            // Each is tried for as long as a database may be away for a moment: not all one after
            // another.
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
            recovered.completed.extend(coordinator.leftovers());
            recovered.given_up.extend(coordinator.given_up());
            done
        }
        Err(error) => {
            recovered.unknown.push(error);
            false
        }
    }
}

/// How far a transaction has come, by its phases that write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Those that have committed.
    pub done: Vec<usize>,
    /// Those that are not known to have.
    pub left: Vec<usize>,
}

/// Finds out how far a transaction has come of which there is a record, by the marks that its
/// groups of phases have left.
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

/// Why a transaction cannot be completed in the name of its users as their rights are now, as far
/// as that is known without trying. Nothing is done.
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
            // All of this is asked before anything else.
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

/// Gives a transaction up that can never be completed, once a person has seen to what it has done:
/// what it leaves behind, its record included, is for a [`Collector`] then. None if it can be
/// completed.
pub fn forget(failed: Record) -> Option<Record> {
    failed.failed.as_ref()?;
    Some(Record { complete: true, failed: None, ..failed })
}
