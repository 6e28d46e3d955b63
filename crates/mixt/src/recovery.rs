//! Completes transactions whose coordinators are gone.
//!
//! A transaction of several groups that write leaves a record together with the first of them. Every host that uses the
//! databases may look for records from time to time; those that are older than
//! [`Limits::orphan_ms`](crate::outcome::Limits::orphan_ms) it takes over. Several may do so at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::binding::Modules;
use crate::coordinator::{CannotResume, Coordinator, TransactionId};
use crate::drive::{Clock, Connections, run};
use crate::outcome::{Limits, Outcome, Why};
use crate::record::{Record, Unreadable};
use crate::store::{Begin, List, Place, StoreError};
use crate::witness;

/// What was found and done.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Complete transactions, for a [`Collector`](crate::collect::Collector).
    pub complete: Vec<Record>,
    /// Those that could not be completed now, and how their attempts ended.
    pub open: Vec<(TransactionId, Outcome)>,
    /// Those that can never be completed: their programs failed after a phase had committed. They stay until they are
    /// [given up](forget).
    pub failed: Vec<Record>,
    /// Those whose modules are not known here.
    pub unknown: Vec<CannotResume>,
    /// Records that cannot be read, by their names.
    pub unreadable: Vec<(Arc<str>, Unreadable)>,
    /// Records that their database did not give, by their names, and what it said.
    pub unread: Vec<(Arc<str>, StoreError)>,
    /// Those that were not tried, as a database that they need next could not be reached for an earlier one.
    pub skipped: Vec<TransactionId>,
}

/// How many names are listed at once.
const PAGE: usize = 256;

/// After how many records in a row that could not be read their database is taken to be away.
const UNREAD_IN_A_ROW: usize = 8;

/// Completes what others have left in a place.
///
/// # Errors
/// If the records cannot be listed, or many in a row cannot be read. What a single one fails by is part of the result.
pub async fn recover(
    place: &Place,
    connections: &mut Connections,
    (modules, limits): (&Arc<Modules>, Limits),
    clock: &dyn Clock,
) -> Result<Recovered, StoreError> {
    let mut recovered = Recovered::default();
    let mut orphans = Vec::new();
    let mut after: Arc<str> = "".into();
    let mut unread_in_a_row = 0;
    loop {
        let list = List {
            space: Arc::clone(&place.space),
            prefix: witness::RECORDS.into(),
            after: Arc::clone(&after),
            limit: PAGE,
        };
        let keys = connections.get(&place.database).await?.list(&list).await?;
        let Some(last) = keys.last() else { break };
        after = Arc::clone(last);
        for key in keys {
            let record = match read(place, &key, connections).await {
                Ok(None) => continue,
                Ok(Some(Ok(record))) => record,
                Err(error) => {
                    unread_in_a_row += 1;
                    if unread_in_a_row == UNREAD_IN_A_ROW {
                        return Err(error);
                    }
                    recovered.unread.push((key, error));
                    continue;
                }
                Ok(Some(Err(error))) => {
                    recovered.unreadable.push((key, error));
                    continue;
                }
            };
            unread_in_a_row = 0;
            let young = clock.now_ms().saturating_sub(record.began_ms) < limits.orphan_ms;
            if record.failed.is_some() {
                recovered.failed.push(record);
            } else if record.complete {
                recovered.complete.push(record);
            } else if !young {
                orphans.push(record);
            }
        }
    }
    // Later ones may have to wait for earlier ones.
    orphans.sort_by_key(|record| record.began_ms);
    let mut away = BTreeSet::new();
    for record in orphans {
        let rules = (modules, limits);
        take_over(record, connections, rules, clock, (&mut recovered, &mut away)).await;
    }
    Ok(recovered)
}

async fn read(
    place: &Place,
    key: &Arc<str>,
    connections: &mut Connections,
) -> Result<Option<Result<Record, Unreadable>>, StoreError> {
    let name = crate::store::Name { space: Arc::clone(&place.space), key: Arc::clone(key) };
    let connection = connections.get(&place.database).await?;
    let begin = Begin { read_only: true, names: vec![name], ..Begin::default() };
    let fields = connection.begin(&begin).await?;
    connection.abort().await?;
    // Somebody may have removed it since it was listed.
    Ok(fields.first().and_then(|fields| fields.get(&0)).map(|bytes| Record::decode(bytes)))
}

async fn take_over(
    record: Record,
    connections: &mut Connections,
    (modules, limits): (&Arc<Modules>, Limits),
    clock: &dyn Clock,
    (recovered, away): (&mut Recovered, &mut BTreeSet<Arc<str>>),
) {
    let next = record.state.next as usize;
    match Coordinator::resume(record, Arc::clone(modules), limits, clock.now_ms()) {
        Ok(mut coordinator) => {
            // Each is tried for as long as a database may be away for a moment: not all one after another.
            let mut groups = coordinator.plan().groups[next..].iter();
            if groups.any(|group| group.database.as_ref().is_some_and(|name| away.contains(name))) {
                recovered.skipped.push(coordinator.id());
                return;
            }
            match run(&mut coordinator, connections, clock).await {
                Outcome::Done { .. } => {}
                outcome => {
                    if let Outcome::Incomplete { why: Why::Unavailable { database, .. }, .. } =
                        &outcome
                    {
                        away.insert(Arc::clone(database));
                    }
                    recovered.open.push((coordinator.id(), outcome));
                }
            }
            recovered.complete.extend(coordinator.leftovers());
        }
        Err(error) => recovered.unknown.push(error),
    }
}

/// Gives a transaction up that can never be completed, once a person has seen to what it has done: what it leaves
/// behind, its record included, is for a [`Collector`](crate::collect::Collector) then. None if it can be completed.
pub fn forget(failed: Record) -> Option<Record> {
    failed.failed.as_ref()?;
    Some(Record { complete: true, failed: None, ..failed })
}
