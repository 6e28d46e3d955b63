//! Background task that completes incomplete transactions and removes the garbage of complete ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use solera_config::areas::MODULES;
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::TransactionId;
use solera_mixt::executor::Clock;
use solera_mixt::record::Record;
use solera_mixt::recovery::{self, Recovered};
use solera_mixt::store::Location;
use solera_node::{Incomplete, Local};
use solera_spaces::System;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::warn;

use crate::own::Own;
use crate::{Settings, Shared, connections, places, registry};

/// Shared state of calls and the background task.
pub(crate) struct Upkeep {
    tasks: UnboundedSender<Task>,
    /// Transactions that this process has completed, but whose records may not show that yet.
    completed: Mutex<BTreeSet<TransactionId>>,
    /// Access to the site, as the last call provided it.
    local: Mutex<Option<Local>>,
    /// Transactions that could not be completed at the last attempt for lack of rights, and the
    /// reason.
    denied: Mutex<BTreeMap<TransactionId, String>>,
    /// Counts of incomplete transactions in the last pass.
    seen: Mutex<Option<Incomplete>>,
}

/// Work that a call leaves for the background task.
pub(crate) enum Task {
    /// Records of complete transactions, to be removed.
    Complete(Vec<Record>),
    /// Ticket of a transaction that the call gave up, or failed to complete.
    GivenUp(Box<Record>),
}

impl Upkeep {
    pub(crate) fn new() -> (Upkeep, UnboundedReceiver<Task>) {
        let (tasks, work) = unbounded_channel();
        let (completed, local, seen) = (Mutex::default(), Mutex::default(), Mutex::default());
        let denied = Mutex::default();
        (Upkeep { tasks, completed, local, denied, seen }, work)
    }

    /// Stores `local` as the access to the site.
    pub(crate) fn note(&self, local: Local) {
        *self.local.lock().unwrap_or_else(PoisonError::into_inner) = Some(local);
    }

    /// Reports complete transactions, whose records can be removed.
    pub(crate) fn add_garbage(&self, records: Vec<Record>) {
        self.completed().extend(records.iter().map(Record::id));
        // If there is no receiver, the process is about to end, and other processes will find the
        // records.
        let _ = self.tasks.send(Task::Complete(records));
    }

    /// Reports a transaction that was given up before it was complete.
    pub(crate) fn give_up(&self, ticket: Record) {
        let _ = self.tasks.send(Task::GivenUp(Box::new(ticket)));
    }

    /// Returns whether this process has completed the transaction.
    pub(crate) fn has_completed(&self, id: TransactionId) -> bool {
        self.completed().contains(&id)
    }

    /// Returns why the last attempt to complete a transaction here was denied, if it was.
    pub(crate) fn why_denied(&self, id: TransactionId) -> Option<String> {
        self.denied().get(&id).cloned()
    }

    fn denied(&self) -> MutexGuard<'_, BTreeMap<TransactionId, String>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts of incomplete transactions in the last pass, if there was one.
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

/// Runs passes until the host is dropped.
pub(crate) async fn run(
    shared: Weak<Shared>,
    mut work: UnboundedReceiver<Task>,
    settings: Settings,
) {
    let mut collector = Collector::new(settings.limits);
    let every = settings.upkeep.max(Duration::from_millis(1));
    let mut known = Failures::new();
    // Transactions that this process has completed, and whose tickets contain their results.
    let mut finished = BTreeSet::new();
    loop {
        tokio::time::sleep(every).await;
        while let Ok(task) = work.try_recv() {
            match task {
                Task::Complete(records) => collector.add(records, System.now_ms()),
                Task::GivenUp(ticket) => collector.give_up(*ticket),
            }
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Some(local) = shared.upkeep.local() {
            // Work that fails now is retried in the next pass.
            let mut had: Vec<_> = collector.all().collect();
            let mut found = pass(&shared, &local, &mut collector, &mut finished).await;
            let gone = finished.iter().copied().filter(|id| !collector.has(*id)).collect();
            match forget_tickets(&local, &gone).await {
                Ok(()) => finished.retain(|id| !gone.contains(id)),
                Err(why) => {
                    found.insert(OLD_TICKETS.to_owned(), why);
                }
            }
            for (what, why) in new_failures(&known, &found) {
                warn!(target: MODULES, "{what}: {why}; it will be retried");
            }
            known = found;
            // The garbage of transactions that the collector no longer has is removed completely.
            had.retain(|id| !collector.has(*id));
            for id in had {
                shared.upkeep.completed().remove(&id);
            }
        }
    }
}

/// Description of a failure, for the log.
const OLD_TICKETS: &str = "tickets of completed transactions cannot be removed";

/// Failures of a pass and their reasons.
type Failures = BTreeMap<String, String>;

/// Returns the failures that the previous pass did not have.
fn new_failures<'t>(known: &Failures, found: &'t Failures) -> Vec<(&'t String, &'t String)> {
    found.iter().filter(|(what, why)| known.get(*what) != Some(*why)).collect()
}

async fn pass(
    shared: &Shared,
    local: &Local,
    collector: &mut Collector,
    finished: &mut BTreeSet<TransactionId>,
) -> Failures {
    // The server searches for records and removes garbage with its own rights. Transactions are
    // completed with the rights of their users.
    let own = Own::of_server(local);
    let places = places(&own, &shared.stores);
    let mut connections = connections(own, &shared.stores);
    let mut failures = Failures::new();
    let recovered = shared.upkeep.incomplete().map_or(0, |seen| seen.recovered);
    let mut seen = Incomplete { recovered, ..Incomplete::default() };
    for (looked, place) in places.iter().enumerate() {
        let known = (&shared.library.all(), shared.settings.limits);
        let found = recovery::recover(place, &mut connections, known, collector, &System).await;
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                let what = format!("incomplete transactions in {place} cannot be listed");
                failures.insert(what, error.to_string());
                // If the cluster's own spaces do not answer, the site has stopped, and the pass
                // ends. Another store may become reachable again.
                if &*place.database == local.cluster() {
                    seen.unasked_spaces += places.len() - looked;
                    *shared.upkeep.seen() = Some(seen);
                    return failures;
                }
                seen.unasked_spaces += 1;
                continue;
            }
        };
        count(&found, &mut seen);
        note_denied(shared, &found, place, &mut failures);
        for (id, why) in found.unreadable.iter().map(|(id, why)| (id, why.to_string())) {
            failures.insert(format!("the record of transaction {id} in {place}"), why);
        }
        // A client that resumes a transaction that this process gave up receives its result. Other
        // tickets are no longer needed, and harmless if they remain.
        finished.extend(found.finished.iter().map(Record::id));
        if let Err(why) = keep_results(local, &found.finished).await {
            failures.insert("results of completed transactions cannot be kept".to_owned(), why);
        }
        let completed = found.completed.iter().map(Record::id);
        let gone = completed.filter(|id| !finished.contains(id)).collect();
        if let Err(why) = forget_tickets(local, &gone).await {
            failures.insert(OLD_TICKETS.to_owned(), why);
        }
        collector.take(&mut found, System.now_ms());
        for one in found.unknown {
            // The next pass completes it.
            if let Err(why) = learn(shared, local, &one.module).await {
                let what = format!("a transaction in {place} of module {}", one.module);
                failures.insert(what, why);
            }
        }
    }
    *shared.upkeep.seen() = Some(seen);
    if let Err(error) = collector.collect(&mut connections, System.now_ms()).await {
        let what = "some garbage of complete transactions cannot be removed";
        failures.insert(what.to_owned(), error.to_string());
    }
    failures
}

fn count(found: &Recovered, seen: &mut Incomplete) {
    seen.open += found.young + found.open.len() + found.skipped.len() + found.unknown.len();
    seen.denied += found.open.iter().filter(|(_, outcome)| outcome.denied().is_some()).count();
    seen.failed += found.failed.len();
    seen.unreadable += found.unreadable.len() + found.unread.len();
    seen.recovered += found.completed.len() as u64;
}

/// Records which transactions their users have no right to complete.
fn note_denied(shared: &Shared, found: &Recovered, place: &Location, failures: &mut Failures) {
    let mut denied = shared.upkeep.denied();
    for record in found.completed.iter().chain(&found.complete).chain(&found.failed) {
        denied.remove(&record.id());
    }
    for (id, outcome) in &found.open {
        match outcome.denied() {
            Some(why) => {
                failures.insert(
                    format!("transaction {id} in {place} cannot be completed"),
                    why.to_string(),
                );
                denied.insert(*id, why.to_string());
            }
            // The attempt ended for another reason, so the denial is out of date.
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
    fn the_same_failure_is_reported_once() {
        let failures = |all: &[(&str, &str)]| -> Failures {
            all.iter().map(|(what, why)| ((*what).to_owned(), (*why).to_owned())).collect()
        };
        let away = failures(&[("a", "away"), ("b", "refused")]);
        assert_eq!(new_failures(&Failures::new(), &away).len(), 2);
        assert!(new_failures(&away, &away).is_empty());
        let changed = failures(&[("a", "away"), ("b", "away")]);
        assert_eq!(new_failures(&away, &changed), [(&"b".to_owned(), &"away".to_owned())]);
        // A failure that disappeared and returned is reported again.
        assert_eq!(new_failures(&failures(&[]), &away).len(), 2);
    }
}
