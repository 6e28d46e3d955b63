//! Completes transactions that were left incomplete, and removes what complete ones leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use solera_mixt::collect::Collector;
use solera_mixt::coordinator::TransactionId;
use solera_mixt::executor::Clock;
use solera_mixt::record::Record;
use solera_mixt::recovery::{self, Recovered};
use solera_mixt::store::Place;
use solera_node::{Incomplete, Local};
use solera_spaces::System;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::own::Own;
use crate::{Settings, Shared, connections, places, registry};

/// What calls hand over.
pub(crate) struct Upkeep {
    left: UnboundedSender<Left>,
    /// What was completed here and may still be found, with a record that does not say so yet.
    completed: Mutex<BTreeSet<TransactionId>>,
    /// The way to the site of the last call.
    local: Mutex<Option<Local>>,
    /// What was denied at the last attempts to complete transactions, and why.
    denied: Mutex<BTreeMap<TransactionId, String>>,
    /// What was seen of transactions that are not complete.
    seen: Mutex<Option<Incomplete>>,
}

/// What a call leaves.
pub(crate) enum Left {
    /// Transactions that are complete.
    Complete(Vec<Record>),
    /// The ticket of one that it has given up, or has tried to complete in vain.
    GivenUp(Box<Record>),
}

impl Upkeep {
    pub(crate) fn new() -> (Upkeep, UnboundedReceiver<Left>) {
        let (left, work) = unbounded_channel();
        let (completed, local, seen) = (Mutex::default(), Mutex::default(), Mutex::default());
        let denied = Mutex::default();
        (Upkeep { left, completed, local, denied, seen }, work)
    }

    /// A site can be reached so.
    pub(crate) fn note(&self, local: Local) {
        *self.local.lock().unwrap_or_else(PoisonError::into_inner) = Some(local);
    }

    /// These transactions are complete.
    pub(crate) fn leave(&self, records: Vec<Record>) {
        self.completed().extend(records.iter().map(Record::id));
        // Without a receiver the process is about to end, and others find the records.
        let _ = self.left.send(Left::Complete(records));
    }

    /// This transaction was given up before it was complete.
    pub(crate) fn give_up(&self, ticket: Record) {
        let _ = self.left.send(Left::GivenUp(Box::new(ticket)));
    }

    /// Whether this process has completed it.
    pub(crate) fn has_completed(&self, id: TransactionId) -> bool {
        self.completed().contains(&id)
    }

    /// Why a transaction could not be completed here at the last attempt, if that was denied.
    pub(crate) fn why_denied(&self, id: TransactionId) -> Option<String> {
        self.denied().get(&id).cloned()
    }

    fn denied(&self) -> MutexGuard<'_, BTreeMap<TransactionId, String>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen last of transactions that are not complete, if it was looked for.
    pub(crate) fn incomplete(&self) -> Option<Incomplete> {
        *self.seen()
    }

    fn seen(&self) -> MutexGuard<'_, Option<Incomplete>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn completed(&self) -> MutexGuard<'_, BTreeSet<TransactionId>> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn local(&self) -> Option<Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Works until the host is gone.
pub(crate) async fn run(
    shared: Weak<Shared>,
    mut work: UnboundedReceiver<Left>,
    settings: Settings,
) {
    let mut collector = Collector::new(settings.limits);
    let every = settings.upkeep.max(Duration::from_millis(1));
    let mut known = Troubles::new();
    // Tickets with the results of what was completed here.
    let mut finished = BTreeSet::new();
    loop {
        tokio::time::sleep(every).await;
        while let Ok(left) = work.try_recv() {
            match left {
                Left::Complete(records) => collector.add(records, System.now_ms()),
                Left::GivenUp(ticket) => collector.give_up(*ticket),
            }
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Some(local) = shared.upkeep.local() {
            // What cannot be done now is tried again.
            let mut had: Vec<_> = collector.all().collect();
            let mut found = pass(&shared, &local, &mut collector, &mut finished).await;
            let gone = finished.iter().copied().filter(|id| !collector.has(*id)).collect();
            match forget_tickets(&local, &gone).await {
                Ok(()) => finished.retain(|id| !gone.contains(id)),
                Err(why) => {
                    found.insert(OLD_TICKETS.to_owned(), why);
                }
            }
            for (what, why) in news(&known, &found) {
                local.log().warn(format_args!("{what}: {why}; it is tried again"));
            }
            known = found;
            // Nothing is left of those that the collector had and has no more.
            had.retain(|id| !collector.has(*id));
            for id in had {
                shared.upkeep.completed().remove(&id);
            }
        }
    }
}

/// What may not work, as it is told.
const OLD_TICKETS: &str = "tickets of completed transactions cannot be removed";

/// What a pass could not do, and why.
type Troubles = BTreeMap<String, String>;

/// What was not known from the pass before.
fn news<'t>(known: &Troubles, found: &'t Troubles) -> Vec<(&'t String, &'t String)> {
    found.iter().filter(|(what, why)| known.get(*what) != Some(*why)).collect()
}

async fn pass(
    shared: &Shared,
    local: &Local,
    collector: &mut Collector,
    finished: &mut BTreeSet<TransactionId>,
) -> Troubles {
    // Records are looked for, and what is left is removed, as the server; what is completed, as the
    // users whose it is.
    let own = Own::of_server(local);
    let places = places(&own, &shared.stores);
    let mut connections = connections(own, &shared.stores);
    let mut troubles = Troubles::new();
    let recovered = shared.upkeep.incomplete().map_or(0, |seen| seen.recovered);
    let mut seen = Incomplete { recovered, ..Incomplete::default() };
    for (looked, place) in places.iter().enumerate() {
        let known = (&shared.library.all(), shared.settings.limits);
        let found = recovery::recover(place, &mut connections, known, collector, &System).await;
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                let what = format!("transactions left in {place} cannot be looked for");
                troubles.insert(what, error.to_string());
                // A site that is gone has nothing to be looked for; another store may come back.
                if &*place.database == local.cluster() {
                    seen.unasked_spaces += places.len() - looked;
                    *shared.upkeep.seen() = Some(seen);
                    return troubles;
                }
                seen.unasked_spaces += 1;
                continue;
            }
        };
        count(&found, &mut seen);
        note_denied(shared, &found, place, &mut troubles);
        for (id, why) in found.unreadable.iter().map(|(id, why)| (id, why.to_string())) {
            troubles.insert(format!("the record of transaction {id} in {place}"), why);
        }
        // Whoever resumes one that was given up here is told its result. Other tickets, where there
        // are any, are of no use any more; those that stay do nothing.
        finished.extend(found.finished.iter().map(Record::id));
        if let Err(why) = keep_results(local, &found.finished).await {
            troubles.insert("results of completed transactions cannot be kept".to_owned(), why);
        }
        let completed = found.completed.iter().map(Record::id);
        let gone = completed.filter(|id| !finished.contains(id)).collect();
        if let Err(why) = forget_tickets(local, &gone).await {
            troubles.insert(OLD_TICKETS.to_owned(), why);
        }
        collector.take(&mut found, System.now_ms());
        for one in found.unknown {
            // It is completed at the next pass.
            if let Err(why) = learn(shared, local, &one.module).await {
                let what = format!("a transaction left in {place} by module {}", one.module);
                troubles.insert(what, why);
            }
        }
    }
    *shared.upkeep.seen() = Some(seen);
    if let Err(error) = collector.collect(&mut connections, System.now_ms()).await {
        let what = "what complete transactions leave behind cannot all be removed";
        troubles.insert(what.to_owned(), error.to_string());
    }
    troubles
}

fn count(found: &Recovered, seen: &mut Incomplete) {
    seen.open += found.young + found.open.len() + found.skipped.len() + found.unknown.len();
    seen.denied += found.open.iter().filter(|(_, outcome)| outcome.denied().is_some()).count();
    seen.failed += found.failed.len();
    seen.unreadable += found.unreadable.len() + found.unread.len();
    seen.recovered += found.completed.len() as u64;
}

/// Remembers what users have no right to complete.
fn note_denied(shared: &Shared, found: &Recovered, place: &Place, troubles: &mut Troubles) {
    let mut denied = shared.upkeep.denied();
    for record in found.completed.iter().chain(&found.complete).chain(&found.failed) {
        denied.remove(&record.id());
    }
    for (id, outcome) in &found.open {
        match outcome.denied() {
            Some(why) => {
                troubles
                    .insert(format!("transaction {id}, left in {place}, waits"), why.to_string());
                denied.insert(*id, why.to_string());
            }
            // It has come further, or not as far.
            None => drop(denied.remove(id)),
        }
    }
}

async fn forget_tickets(local: &Local, of: &BTreeSet<TransactionId>) -> Result<(), String> {
    if of.is_empty() {
        return Ok(());
    }
    let caller = local.call_as_server();
    for id in of {
        registry::forget_ticket(&caller, &id.to_string()).await?;
    }
    Ok(())
}

async fn keep_results(local: &Local, tickets: &[Record]) -> Result<(), String> {
    if tickets.is_empty() {
        return Ok(());
    }
    let caller = local.call_as_server();
    for ticket in tickets {
        registry::keep_ticket(&caller, &ticket.id().to_string(), &ticket.encode()).await?;
    }
    Ok(())
}

/// Compiles a module that a record names.
async fn learn(shared: &Shared, local: &Local, digest: &str) -> Result<(), String> {
    shared.library.get(&local.call_as_server(), digest).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_told_once() {
        let troubles = |all: &[(&str, &str)]| -> Troubles {
            all.iter().map(|(what, why)| ((*what).to_owned(), (*why).to_owned())).collect()
        };
        let away = troubles(&[("a", "away"), ("b", "refused")]);
        assert_eq!(news(&Troubles::new(), &away).len(), 2);
        assert!(news(&away, &away).is_empty());
        let changed = troubles(&[("a", "away"), ("b", "away")]);
        assert_eq!(news(&away, &changed), [(&"b".to_owned(), &"away".to_owned())]);
        // What has come again is told again.
        assert_eq!(news(&troubles(&[]), &away).len(), 2);
    }
}
