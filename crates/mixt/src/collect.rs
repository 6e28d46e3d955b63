//! Removes the garbage of complete transactions, many at a time (MixT §7.1).
//!
//! The collector first marks the record of the transaction as complete, so that no host recovers
//! it. It removes the write witnesses after [`Limits::keep_ms`](crate::outcome::Limits::keep_ms),
//! as soon as each database that reports a [`Horizon`] shows that every session sees the commits.
//! After half of that time again it removes the commit witnesses and done marks, and finally the
//! record. In this order, a host that finds a write witness can still find the commit witnesses,
//! and a host that finds any of these objects can still find the record. If this host dies in
//! between, [recovery](crate::recovery) finds the record and passes it to a collector again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::executor::{BATCH, Connections};
use crate::location::{Fields, Name};
use crate::outcome::Limits;
use crate::record::Record;
use crate::recovered::Recovered;
use crate::request::calls::{Begin, Horizon, NameWrite, StoreError};
use crate::witness::{self, TransactionId};

/// Transactions whose garbage is to be removed.
#[derive(Debug)]
pub struct Collector {
    limits: Limits,
    entries: BTreeMap<TransactionId, Entry>,
    /// Tickets of transactions that this host gave up and that may be resumed at once.
    given_up: BTreeMap<TransactionId, Record>,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    came_ms: u64,
    /// The next step.
    step: Step,
    /// Timestamps that every session must see before the witnesses are removed, by database; `None`
    /// until they are known.
    until: Option<BTreeMap<Arc<str>, u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Another host appears to remove the garbage; this collector waits, in case that host dies.
    Watch,
    Complete,
    WriteWitnesses,
    Marks,
    Record,
    Over,
}

/// Horizons of databases.
type Horizons = BTreeMap<Arc<str>, Horizon>;

impl Collector {
    /// Creates an empty collector.
    pub fn new(limits: Limits) -> Collector {
        Collector { limits, entries: BTreeMap::new(), given_up: BTreeMap::new() }
    }

    /// Adds transactions that have just been completed, from
    /// [`Coordinator::garbage`](crate::coordinator::Coordinator::garbage). Keeps those that it has
    /// already.
    pub fn add(&mut self, records: impl IntoIterator<Item = Record>, now_ms: u64) {
        self.enter(records, now_ms, Step::Complete);
    }

    /// Adds transactions whose garbage another host removes, in case that host dies.
    fn watch(&mut self, records: impl IntoIterator<Item = Record>, now_ms: u64) {
        self.enter(records, now_ms, Step::Watch);
    }

    fn enter(&mut self, records: impl IntoIterator<Item = Record>, now_ms: u64, step: Step) {
        for record in records {
            let (id, came_ms) = (record.id, now_ms);
            self.given_up.remove(&id);
            self.entries.entry(id).or_insert(Entry { record, came_ms, step, until: None });
        }
    }

    /// Adds the complete and given-up transactions that recovery has found.
    pub fn take(&mut self, found: &mut Recovered, now_ms: u64) {
        self.add(std::mem::take(&mut found.completed), now_ms);
        self.watch(std::mem::take(&mut found.complete), now_ms);
        for ticket in std::mem::take(&mut found.given_up) {
            self.give_up(ticket);
        }
        // After this time any coordinator may take them over.
        let orphan_ms = self.limits.orphan_ms;
        self.given_up.retain(|_, ticket| now_ms.saturating_sub(ticket.lease.since_ms) < orphan_ms);
    }

    /// Keeps the ticket of a transaction that this host gave up, so that
    /// [recovery](crate::recovery) resumes it at once. Otherwise transactions that wait for it
    /// could reach their time limits before it counts as orphaned. Ignores a ticket whose requests
    /// may still be in progress.
    pub fn give_up(&mut self, ticket: Record) {
        let is_open = !ticket.complete && ticket.failed.is_none();
        if is_open && ticket.stopped && !self.has(ticket.id) {
            self.given_up.insert(ticket.id, ticket);
        }
    }

    /// Returns the ticket of a transaction that this host gave up.
    pub(crate) fn ticket(&self, id: TransactionId) -> Option<&Record> {
        self.given_up.get(&id)
    }

    /// Returns the transactions whose garbage it has to remove.
    pub fn all(&self) -> impl Iterator<Item = TransactionId> {
        self.entries.keys().copied()
    }

    /// Returns whether it has a transaction.
    pub fn has(&self, id: TransactionId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Returns the number of transactions whose garbage it has to remove.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Executes all steps that are due, in a transaction for each database, step and batch. Call it
    /// from time to time, for example once a second.
    ///
    /// # Errors
    /// The first error of a database. The next call repeats the steps that failed.
    pub async fn collect(
        &mut self,
        connections: &mut Connections,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let mut result = self.look_after(connections, now_ms).await;
        result = result.and(self.step(Step::Complete, connections, now_ms).await);
        result = result.and(self.look_around(connections).await);
        for step in [Step::WriteWitnesses, Step::Marks, Step::Record] {
            result = result.and(self.step(step, connections, now_ms).await);
        }
        self.entries.retain(|_, entry| entry.step != Step::Over);
        result
    }

    /// Forgets the transactions whose garbage others have removed, and takes over the rest.
    async fn look_after(
        &mut self,
        connections: &mut Connections,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let mut names: BTreeMap<Arc<str>, Vec<(TransactionId, Name)>> = BTreeMap::new();
        for (id, entry) in &self.entries {
            if let (Step::Watch, Some(home)) = (entry.step, &entry.record.home)
                && entry.due(now_ms, &self.limits)
            {
                let name = (*id, witness::record(&home.space, *id));
                names.entry(Arc::clone(&home.database)).or_default().push(name);
            }
        }
        let mut result = Ok(());
        for (database, due) in names {
            let parts = connections.divide(&database, due, |(_, name)| &name.space);
            for due in parts.iter().flat_map(|part| part.chunks(BATCH)) {
                let names = due.iter().map(|(_, name)| name.clone()).collect();
                match connections.read(&database, names).await {
                    Ok(found) => {
                        for ((id, _), fields) in due.iter().zip(found) {
                            let entry = self.entries.get_mut(id).expect("the entry still exists");
                            let gone = !fields.contains_key(&0);
                            entry.step = if gone { Step::Over } else { Step::WriteWitnesses };
                        }
                    }
                    Err(error) => result = result.and(Err(error)),
                }
            }
        }
        result
    }

    /// Reads from the databases the time up to which commits are visible. The answer stays unknown
    /// for transactions in a database that does not answer.
    async fn look_around(&mut self, connections: &mut Connections) -> Result<(), StoreError> {
        let unseen = self.entries.values().filter(|entry| entry.unseen());
        let all: BTreeSet<_> = unseen.flat_map(|entry| databases(&entry.record)).collect();
        let (mut horizons, mut away) = (Horizons::new(), BTreeSet::new());
        let mut result = Ok(());
        for database in all {
            match horizon(connections, &database).await {
                Ok(Some(horizon)) => {
                    horizons.insert(database, horizon);
                }
                Ok(None) => {}
                Err(error) => {
                    result = result.and(Err(error));
                    away.insert(database);
                }
            }
        }
        for entry in self.entries.values_mut().filter(|entry| entry.unseen()) {
            if !away.is_disjoint(&databases(&entry.record)) {
                continue;
            }
            let until = entry.until.get_or_insert_with(|| {
                let known = databases(&entry.record).into_iter().filter_map(|database| {
                    let latest = horizons.get(&database)?.latest;
                    Some((database, latest))
                });
                known.collect()
            });
            until.retain(|database, latest| {
                horizons.get(database).is_some_and(|horizon| horizon.stable < *latest)
            });
        }
        result
    }

    async fn step(
        &mut self,
        step: Step,
        connections: &mut Connections,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let due: Vec<TransactionId> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.step == step && entry.due(now_ms, &self.limits))
            .map(|(id, _)| *id)
            .collect();
        let mut result = Ok(());
        let mut away = BTreeSet::new();
        // Databases limit the number of writes in one transaction.
        for due in due.chunks(BATCH) {
            result = result.and(self.step_of(due, step, connections, &mut away).await);
        }
        result
    }

    /// Executes a step for some transactions, in one transaction of each database that is
    /// reachable; in several, if one cannot span all spaces.
    async fn step_of(
        &mut self,
        due: &[TransactionId],
        step: Step,
        connections: &mut Connections,
        away: &mut BTreeSet<Arc<str>>,
    ) -> Result<(), StoreError> {
        let mut writes: BTreeMap<Arc<str>, Vec<NameWrite>> = BTreeMap::new();
        for id in due {
            for (database, write) in step.writes(&self.entries[id].record) {
                writes.entry(database).or_default().push(write);
            }
        }
        let mut result = Ok(());
        let mut failed = away.clone();
        for (database, writes) in writes {
            if away.contains(&database) {
                continue;
            }
            for writes in connections.divide(&database, writes, |write| &write.name().space) {
                let written = match step {
                    Step::Record => remove(connections, &database, writes).await,
                    _ => write(connections, &database, writes).await,
                };
                if let Err(error) = written {
                    if let StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_) = error {
                        away.insert(Arc::clone(&database));
                    }
                    failed.insert(Arc::clone(&database));
                    result = result.and(Err(error));
                    break;
                }
            }
        }
        for id in due {
            let entry = self.entries.get_mut(id).expect("no entry is removed meanwhile");
            let mut written = step.writes(&entry.record).into_iter();
            if !written.any(|(database, _)| failed.contains(&database)) {
                entry.step = step.next();
            }
        }
        result
    }
}

impl Entry {
    /// Returns whether it is not yet known that every session sees its commits.
    fn unseen(&self) -> bool {
        let seen = self.until.as_ref().is_some_and(BTreeMap::is_empty);
        self.step == Step::WriteWitnesses && !seen
    }

    fn due(&self, now_ms: u64, limits: &Limits) -> bool {
        let seen = self.until.as_ref().is_some_and(BTreeMap::is_empty);
        let after_ms = match self.step {
            Step::Complete => return true,
            // By then, the host that completed the transaction has removed all garbage.
            Step::Watch => 2 * limits.keep_ms,
            Step::WriteWitnesses if !seen => return false,
            Step::WriteWitnesses => limits.keep_ms,
            // A transaction that has just found a write witness has time to look for the commit
            // witness.
            Step::Marks | Step::Record | Step::Over => limits.keep_ms + limits.keep_ms / 2,
        };
        now_ms.saturating_sub(self.came_ms) >= after_ms
    }
}

impl Step {
    fn next(self) -> Step {
        match self {
            Step::Watch | Step::Complete => Step::WriteWitnesses,
            Step::WriteWitnesses => Step::Marks,
            Step::Marks => Step::Record,
            Step::Record | Step::Over => Step::Over,
        }
    }

    /// Returns the writes of the step for a transaction, each with its database.
    fn writes(self, record: &Record) -> Vec<(Arc<str>, NameWrite)> {
        let id = record.id;
        let home = record.home.iter();
        let home = home.map(|at| (Arc::clone(&at.database), witness::record(&at.space, id)));
        let commits = record.witnessed.iter();
        let commits = commits.map(|at| (Arc::clone(&at.database), witness::commit(&at.space, id)));
        let remove = |(database, name)| (database, NameWrite::Remove { name, field: 0 });
        match self {
            Step::Complete => {
                let set = |(database, name)| {
                    let (field, value, new) = (0, record.encode(), false);
                    (database, NameWrite::Set { name, field, value, new })
                };
                home.map(set).collect()
            }
            Step::WriteWitnesses => {
                let field = id.number();
                let noted = record.state.noted.iter().cloned();
                noted
                    .map(|(database, name)| (database, NameWrite::Remove { name, field }))
                    .collect()
            }
            Step::Marks => record.marks.iter().cloned().chain(commits).map(remove).collect(),
            Step::Record => home.map(remove).collect(),
            Step::Watch | Step::Over => Vec::new(),
        }
    }
}

/// Marks the record of a transaction as complete at once, which is the first step of a
/// [`Collector`].
///
/// # Errors
/// If the database of the record fails.
pub async fn complete(record: &Record, connections: &mut Connections) -> Result<(), StoreError> {
    for (database, one) in Step::Complete.writes(record) {
        write(connections, &database, vec![one]).await?;
    }
    Ok(())
}

/// Returns the databases that contain data of a transaction.
fn databases(record: &Record) -> BTreeSet<Arc<str>> {
    let places = record.witnessed.iter().chain(&record.home).map(|place| &place.database);
    places.chain(record.marks.iter().map(|(database, _)| database)).cloned().collect()
}

async fn horizon(
    connections: &mut Connections,
    database: &str,
) -> Result<Option<Horizon>, StoreError> {
    let mut session = connections.check_out(database).await?;
    let horizon = session.connection.horizon().await;
    session.check_in();
    horizon
}

/// Removes all fields of the names in `writes`, because the recovery leases are stored next to a
/// record.
async fn remove(
    connections: &mut Connections,
    database: &str,
    writes: Vec<NameWrite>,
) -> Result<(), StoreError> {
    let names = writes.iter().map(|write| write.name().clone());
    let begin = Begin { names: names.collect(), ..Begin::default() };
    change(connections, database, &begin, |found| {
        let found = begin.names.iter().zip(found);
        let values = found.flat_map(|(name, fields)| {
            fields.into_keys().map(move |field| NameWrite::Remove { name: name.clone(), field })
        });
        values.collect()
    })
    .await
}

async fn write(
    connections: &mut Connections,
    database: &str,
    writes: Vec<NameWrite>,
) -> Result<(), StoreError> {
    change(connections, database, &Begin::default(), |_| writes).await
}

/// Reads names, and writes what `writes` returns for them, in one transaction.
async fn change(
    connections: &mut Connections,
    database: &str,
    begin: &Begin,
    writes: impl FnOnce(Vec<Fields>) -> Vec<NameWrite>,
) -> Result<(), StoreError> {
    let mut session = connections.check_out(database).await?;
    let changed = match session.connection.begin(begin).await {
        Ok(found) => session.connection.commit(&writes(found)).await,
        Err(error) => Err(error),
    };
    session.check_in();
    changed
}
