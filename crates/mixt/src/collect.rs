//! Removes what complete transactions leave behind, many at a time (MixT §7.1).
//!
//! First the record is made to say that the transaction is complete, so that nobody recovers it.
//! After [`Limits::keep_ms`](crate::outcome::Limits::keep_ms) the write witnesses go, if the
//! databases that tell how far their commits are seen say that these are; after half as long again
//! commit witnesses and done marks, and at last the record: whoever finds one of them finds what
//! explains it. If the host dies in between, [recovery](crate::recovery) finds the record and hands
//! it to a collector again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::drive::{BATCH, Connections};
use crate::outcome::Limits;
use crate::place::{Fields, Name};
use crate::record::Record;
use crate::recovered::Recovered;
use crate::request::calls::{Begin, Horizon, NameWrite, StoreError};
use crate::witness::{self, TransactionId};

/// Transactions whose leftovers are to be removed.
#[derive(Debug)]
pub struct Collector {
    limits: Limits,
    entries: BTreeMap<TransactionId, Entry>,
    /// What was given up here and may be gone on with at once, by its tickets.
    given_up: BTreeMap<TransactionId, Record>,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    came_ms: u64,
    /// What is to be done next.
    step: Step,
    /// What must be seen by everybody before witnesses are removed, by database; once it is known.
    until: Option<BTreeMap<Arc<str>, u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Somebody else removes everything, it seems.
    Watch,
    Complete,
    WriteWitnesses,
    Marks,
    Record,
    Over,
}

/// How far databases say that commits are seen.
type Horizons = BTreeMap<Arc<str>, Horizon>;

impl Collector {
    /// One that has nothing to do yet.
    pub fn new(limits: Limits) -> Collector {
        Collector { limits, entries: BTreeMap::new(), given_up: BTreeMap::new() }
    }

    /// Takes over transactions that have just been completed: what
    /// [`Coordinator::leftovers`](crate::coordinator::Coordinator::leftovers) gives. What it has
    /// already stays as it is.
    pub fn add(&mut self, records: impl IntoIterator<Item = Record>, now_ms: u64) {
        self.enter(records, now_ms, Step::Complete);
    }

    /// Takes over transactions of which somebody else removes what is left, unless that one has
    /// died.
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

    /// Takes over what was found of complete transactions.
    pub fn take(&mut self, found: &mut Recovered, now_ms: u64) {
        self.add(std::mem::take(&mut found.completed), now_ms);
        self.watch(std::mem::take(&mut found.complete), now_ms);
        for ticket in std::mem::take(&mut found.given_up) {
            self.give_up(ticket);
        }
        // By then anybody may go on with them.
        let orphan_ms = self.limits.orphan_ms;
        self.given_up.retain(|_, ticket| now_ms.saturating_sub(ticket.turn.since_ms) < orphan_ms);
    }

    /// Remembers the ticket of a transaction that was given up here, so that
    /// [recovery](crate::recovery) goes on with it at once: others may wait for it, and be given up
    /// themselves before it is an orphan. Not if that must wait.
    pub fn give_up(&mut self, ticket: Record) {
        let is_open = !ticket.complete && ticket.failed.is_none();
        if is_open && ticket.stopped && !self.has(ticket.id) {
            self.given_up.insert(ticket.id, ticket);
        }
    }

    /// The ticket of a transaction that was given up here.
    pub(crate) fn ticket(&self, id: TransactionId) -> Option<&Record> {
        self.given_up.get(&id)
    }

    /// The transactions that it has to clean up after.
    pub fn all(&self) -> impl Iterator<Item = TransactionId> {
        self.entries.keys().copied()
    }

    /// Whether it has a transaction.
    pub fn has(&self, id: TransactionId) -> bool {
        self.entries.contains_key(&id)
    }

    /// How many transactions it has to clean up after.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Does what is due, in a transaction for each database, step and batch. To be called from time
    /// to time, say once in a second.
    ///
    /// # Errors
    /// The first of a database that could not be asked. What was not done is done the next time.
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

    /// Forgets what others have removed, and takes over what they have not.
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
            for due in due.chunks(BATCH) {
                let names = due.iter().map(|(_, name)| name.clone()).collect();
                match connections.read(&database, names).await {
                    Ok(found) => {
                        for ((id, _), fields) in due.iter().zip(found) {
                            let entry = self.entries.get_mut(id).expect("it was there before");
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

    /// Finds out how far commits are seen. Of what is in a database that does not answer it stays
    /// unknown.
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
        // Databases bound what one transaction may write.
        for due in due.chunks(BATCH) {
            result = result.and(self.step_of(due, step, connections, &mut away).await);
        }
        result
    }

    /// Does a step for some transactions, in one transaction of each database that is not away.
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
            let written = match step {
                Step::Record => remove(connections, &database, writes).await,
                _ => write(connections, &database, writes).await,
            };
            if let Err(error) = written {
                if let StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_) = error {
                    away.insert(Arc::clone(&database));
                }
                failed.insert(database);
                result = result.and(Err(error));
            }
        }
        for id in due {
            let entry = self.entries.get_mut(id).expect("nothing is removed meanwhile");
            let mut written = step.writes(&entry.record).into_iter();
            if !written.any(|(database, _)| failed.contains(&database)) {
                entry.step = step.next();
            }
        }
        result
    }
}

impl Entry {
    /// Whether it is not known that everybody sees its commits.
    fn unseen(&self) -> bool {
        let seen = self.until.as_ref().is_some_and(BTreeMap::is_empty);
        self.step == Step::WriteWitnesses && !seen
    }

    fn due(&self, now_ms: u64, limits: &Limits) -> bool {
        let seen = self.until.as_ref().is_some_and(BTreeMap::is_empty);
        let after_ms = match self.step {
            Step::Complete => return true,
            // Whoever has completed it has removed everything by then.
            Step::Watch => 2 * limits.keep_ms,
            Step::WriteWitnesses if !seen => return false,
            Step::WriteWitnesses => limits.keep_ms,
            // Whoever has just found a write witness has time to look for the commit witness.
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

    /// What it writes for a transaction, in which databases.
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

/// Has the record of a transaction say at once that this is complete, which is what a [`Collector`]
/// does first.
///
/// # Errors
/// The database of the record cannot do it.
pub async fn complete(record: &Record, connections: &mut Connections) -> Result<(), StoreError> {
    for (database, one) in Step::Complete.writes(record) {
        write(connections, &database, vec![one]).await?;
    }
    Ok(())
}

/// The databases in which there is something of a transaction.
fn databases(record: &Record) -> BTreeSet<Arc<str>> {
    let places = record.witnessed.iter().chain(&record.home).map(|place| &place.database);
    places.chain(record.marks.iter().map(|(database, _)| database)).cloned().collect()
}

async fn horizon(
    connections: &mut Connections,
    database: &str,
) -> Result<Option<Horizon>, StoreError> {
    let mut taken = connections.take(database).await?;
    let horizon = taken.connection.horizon().await;
    taken.leave();
    horizon
}

/// Removes all values of the names that are written: whose turn it was lies next to a record.
async fn remove(
    connections: &mut Connections,
    database: &str,
    writes: Vec<NameWrite>,
) -> Result<(), StoreError> {
    let names = writes.into_iter().map(|write| match write {
        NameWrite::Set { name, .. } | NameWrite::Remove { name, .. } => name,
    });
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

/// Writes what follows from what is read, in one transaction.
async fn change(
    connections: &mut Connections,
    database: &str,
    begin: &Begin,
    writes: impl FnOnce(Vec<Fields>) -> Vec<NameWrite>,
) -> Result<(), StoreError> {
    let mut taken = connections.take(database).await?;
    let changed = match taken.connection.begin(begin).await {
        Ok(found) => taken.connection.commit(&writes(found)).await,
        Err(error) => Err(error),
    };
    taken.leave();
    changed
}
