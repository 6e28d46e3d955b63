//! Completes transactions whose coordinators are gone.
//!
//! A transaction of several groups that write leaves a record together with the first of them. Every host that uses the
//! databases may look for records from time to time; those that are older than
//! [`Limits::orphan_ms`](crate::outcome::Limits::orphan_ms) it takes over. Several may do so at the same time.

use std::sync::Arc;

use crate::binding::Modules;
use crate::coordinator::{CannotResume, Coordinator, TransactionId};
use crate::drive::{Clock, Connections, run};
use crate::outcome::{Limits, Outcome};
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
}

/// How many names are listed at once.
const PAGE: usize = 256;

/// Completes what others have left in a place.
///
/// # Errors
/// If the records cannot be listed or read. What a single transaction fails by is part of the result.
pub async fn recover(
    place: &Place,
    connections: &mut Connections,
    (modules, limits): (&Arc<Modules>, Limits),
    clock: &dyn Clock,
) -> Result<Recovered, StoreError> {
    let mut recovered = Recovered::default();
    let mut orphans = Vec::new();
    let mut after: Arc<str> = "".into();
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
            let Some(record) = read(place, &key, connections).await? else { continue };
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    recovered.unreadable.push((key, error));
                    continue;
                }
            };
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
    for record in orphans {
        take_over(record, connections, (modules, limits), clock, &mut recovered).await;
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
    recovered: &mut Recovered,
) {
    match Coordinator::resume(record, Arc::clone(modules), limits, clock.now_ms()) {
        Ok(mut coordinator) => {
            match run(&mut coordinator, connections, clock).await {
                Outcome::Done { .. } => {}
                outcome => recovered.open.push((coordinator.id(), outcome)),
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
