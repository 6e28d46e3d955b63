//! Observations of sessions that use Occult, and the verdicts about them.
//!
//! `checker::pcpsi` judges the transactions. In addition, a write that was acknowledged, or that a
//! barrier has promised, must be there at the end; all sites must agree; and between a
//! transaction's read of a validated key and its commit, no other transaction may write this key.

use std::collections::{BTreeMap, BTreeSet};

use solera_checker::pcpsi::{
    History, Operation, Outcome, Read, Transaction, Version, Write, check,
};
use solera_data::{Key, Op};
use solera_machine::RequestId;
use solera_occult::{Command, Entry, OnStale, Response};
use solera_time::SiteId;

use super::OccultSessions;
use super::moves::{KeyHome, differences};
use super::plan::{Step, keys, may_be_deleted, name, number_of};
use crate::world::{SiteState, World};

/// Observations of the sessions.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    transactions: Vec<Transaction>,
    /// For some committed transactions, by their places: keys that must not have changed since
    /// they were read, and the versions read.
    validated: Vec<(usize, Vec<(Key, Version)>)>,
    /// The stamp of each write, as homes have shown it.
    stamps: BTreeMap<(Key, u64), u64>,
    /// The first promise of each promised write.
    promised: BTreeMap<(Key, u64), String>,
    /// Final reads: site and key, and the version once it is known.
    finals: BTreeMap<RequestId, (usize, Key, Option<Version>)>,
    problems: Vec<String>,
}

impl Verdicts {
    /// Adds an ended transaction, and the keys that it has validated.
    pub(super) fn add(&mut self, transaction: Transaction, validated: Vec<(Key, Version)>) {
        if transaction.outcome == Outcome::Committed && !validated.is_empty() {
            self.validated.push((self.transactions.len(), validated));
        }
        self.transactions.push(transaction);
    }

    pub(super) fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Notes that these writes must survive.
    pub(super) fn promise(&mut self, writes: BTreeSet<(Key, u64)>, promise: &str) {
        for write in writes {
            self.promised.entry(write).or_insert_with(|| promise.to_owned());
        }
    }

    /// Takes the reply to a final read. Returns whether the request was a final read.
    pub(super) fn reply(&mut self, request: RequestId, response: &Response) -> bool {
        let Some((_, key, version)) = self.finals.get_mut(&request) else { return false };
        if let Response::Committed { outcomes, .. } = response {
            let get = Step::Get { key: key.clone(), validates: false };
            *version = outcomes.first().and_then(|answer| get.version(answer));
        }
        true
    }

    fn stamp(&self, key: &Key, version: Version) -> Option<u64> {
        match version {
            Version::Absent => Some(0),
            Version::Of(id) => self.stamps.get(&(key.clone(), id)).copied(),
        }
    }

    /// Returns whether a version contains this write, or a later write of the key; `None` if that
    /// is unknown.
    fn has(&self, version: Version, write: &(Key, u64)) -> Option<bool> {
        let (key, id) = write;
        Some(self.stamp(key, version)? >= self.stamp(key, Version::Of(*id))?)
    }

    /// Returns the final versions of a key, by site.
    fn finals(&self, key: &Key) -> Vec<(usize, Option<Version>)> {
        let of_key = self.finals.values().filter(|(_, other, _)| other == key);
        of_key.map(|(site, _, version)| (*site, *version)).collect()
    }

    /// Checks that no other transaction has written a key between its read and the commit of the
    /// transaction that has validated it.
    fn judge_validated(&self, homes: &BTreeMap<Key, KeyHome>) -> Vec<String> {
        let mut problems = Vec::new();
        for (place, validated) in &self.validated {
            let transaction = &self.transactions[*place];
            let committed = own_stamps(transaction, &self.stamps, homes);
            for (key, version) in validated.iter().filter(|(key, _)| !may_be_deleted(key)) {
                // Stamps of different homes cannot be compared.
                let home = Some(homes[key]).filter(|home| home.is_first);
                let at = home.and_then(|home| committed.get(&home.site));
                let (Some(at), Some(read)) = (at, self.stamp(key, *version)) else {
                    continue;
                };
                let is_between = |write: &(Key, u64)| {
                    self.stamps.get(write).is_some_and(|stamp| read < *stamp && stamp < at)
                };
                // A home may have shown other writes and lost them in a crash.
                if let Some((_, id)) = self.acknowledged(key, |_| true).find(is_between) {
                    let Transaction { order, session, .. } = transaction;
                    let key = name(key);
                    problems.push(format!(
                        "transaction {order} of session {session} has validated {key} at {version:?}, and write {id} came before it"
                    ));
                }
            }
        }
        problems
    }

    /// Checks that all sites agree about a key, and that the key has the acknowledged and promised
    /// writes.
    fn judge_final(&self, key: &Key, homes: &BTreeMap<Key, KeyHome>) -> Vec<String> {
        let finals = self.finals(key);
        let KeyHome { site: home, is_up: is_home_up, is_first, is_held } = homes[key];
        let at_home = finals.iter().find(|(site, _)| *site == home.index());
        let mut problems = Vec::new();
        if let (Some((_, Some(version))), true) = (at_home, is_home_up) {
            if finals.iter().any(|(_, other)| *other != Some(*version)) {
                problems.push(format!("sites differ about {}: {finals:?}", name(key)));
            }
            let is_lost = |write: &(Key, u64)| self.has(*version, write) == Some(false);
            if !may_be_deleted(key) {
                // While the decision home is gone, no other home learns of the commit.
                let are_homes_up = |key: &Key| homes[key].is_up;
                let lost = self.acknowledged(key, are_homes_up).find(is_lost);
                problems.extend(lost.map(|(_, id)| {
                    format!("{} has {version:?}, but write {id} was acknowledged", name(key))
                }));
            }
        } else if is_home_up && !is_held {
            // A compressed timestamp can contain a stamp above that of an undecided transaction.
            // The shown version of the shard then looks stale.
            problems.push(format!("{} was not read at its home: {finals:?}", name(key)));
        }
        let versions = || finals.iter().filter_map(|(_, version)| *version);
        for (write, promise) in self.promised.iter().filter(|(write, _)| write.0 == *key) {
            // The new home of a shard that moves away from a lost site does not show its copy
            // until someone takes the shard by force.
            let has_unshown = !is_first && finals.iter().any(|(_, version)| version.is_none());
            let survives =
                has_unshown || versions().any(|version| self.has(version, write) != Some(false));
            if !may_be_deleted(key) && !survives {
                problems.push(format!("{promise} write {} of {}: {finals:?}", write.1, name(key)));
            }
        }
        problems
    }

    /// Returns the writes of a key whose commit was acknowledged, by transactions that have used
    /// only keys for which `used` holds.
    fn acknowledged(
        &self,
        key: &Key,
        used: impl Fn(&Key) -> bool,
    ) -> impl Iterator<Item = (Key, u64)> {
        let is_acknowledged = move |transaction: &&Transaction| {
            transaction.outcome == Outcome::Committed
                && transaction.operations.iter().all(|operation| used(&key_of(operation)))
        };
        let committed = self.transactions.iter().filter(is_acknowledged);
        let operations = committed.flat_map(|transaction| &transaction.operations);
        operations.filter_map(move |operation| match operation {
            Operation::Write(write) if key_of(operation) == *key => Some((key.clone(), write.id)),
            _ => None,
        })
    }

    /// Returns the history with the stamps that homes have shown, and with the final reads.
    fn history(&mut self, first_session: usize) -> History {
        let mut transactions = std::mem::take(&mut self.transactions);
        for operation in transactions.iter_mut().flat_map(|it| &mut it.operations) {
            if let Operation::Write(write) = operation {
                let key = Key::from(write.key.as_str());
                write.stamp = self.stamps.get(&(key, write.id)).copied();
            }
        }
        let finals = self.finals.values().filter_map(|(site, key, version)| {
            Some((*site, Read { key: name(key), version: (*version)?, stale: true }))
        });
        transactions.extend(finals.enumerate().map(|(number, (site, read))| Transaction {
            session: first_session + number,
            order: 1,
            site,
            outcome: Outcome::Committed,
            operations: vec![Operation::Read(read)],
        }));
        History { transactions }
    }
}

fn key_of(operation: &Operation) -> Key {
    match operation {
        Operation::Write(Write { key, .. }) | Operation::Read(Read { key, .. }) => {
            Key::from(key.as_str())
        }
    }
}

/// Returns the commit stamp of a transaction at each site that is the home of keys that it wrote.
fn own_stamps(
    transaction: &Transaction,
    stamps: &BTreeMap<(Key, u64), u64>,
    homes: &BTreeMap<Key, KeyHome>,
) -> BTreeMap<SiteId, u64> {
    let writes = transaction.operations.iter().filter_map(|operation| match operation {
        Operation::Write(write) => {
            let key = Key::from(write.key.as_str());
            let home = homes.get(&key).filter(|home| home.is_first)?;
            Some((home.site, *stamps.get(&(key, write.id))?))
        }
        Operation::Read(_) => None,
    });
    writes.collect()
}

impl OccultSessions {
    /// Notes the writes that a home shows.
    pub(crate) fn shown(&mut self, entry: &Entry) {
        for (key, effect, _) in &entry.writes {
            if let Some(id) = number_of(effect) {
                self.verdicts.stamps.insert((key.clone(), id), entry.stamp.0);
            }
        }
    }

    /// Returns descriptions of unfinished transactions and writes. Only the loss of a home may
    /// leave any.
    pub(crate) fn left(&self, world: &World) -> Vec<String> {
        let homes = homes(world);
        let mut texts = Vec::new();
        if !homes.values().all(|home| home.is_up) {
            return texts;
        }
        for (address, occult) in world.occults() {
            let (prepared, _, hidden) = occult.unfinished();
            let open = occult.open();
            if prepared + hidden + open > 0 {
                texts.push(format!(
                    "{address:?} has {prepared} prepared and {open} open transactions of Occult, and {hidden} hidden writes"
                ));
            }
        }
        texts
    }

    /// Reads all keys at all sites.
    pub(crate) fn final_reads(&mut self, world: &mut World) {
        for site in 0..world.sites() {
            if world.state(site) != SiteState::Up {
                continue;
            }
            for key in keys() {
                let request = self.next_request();
                let to = world.some_worker(SiteId(site as u8), 0);
                let past = solera_occult::CausalTimestamp::new(self.scheme);
                let on_stale = OnStale::Accept;
                let read = Command::Execute { past, key: key.clone(), op: Op::Get, on_stale };
                self.verdicts.finals.insert(request, (site, key, None));
                world.example_command(to, request, read.into(), false);
            }
        }
    }

    /// Returns the problems found, once the final reads are answered.
    pub(crate) fn judge(&mut self, world: &World) -> Vec<String> {
        let homes = homes(world);
        let mut problems = std::mem::take(&mut self.verdicts.problems);
        problems.extend(self.verdicts.judge_validated(&homes));
        problems.extend(differences(world));
        for key in homes.keys() {
            problems.extend(self.verdicts.judge_final(key, &homes));
        }
        let history = self.verdicts.history(self.numbers);
        // The history helps to analyse a seed.
        if std::env::var("SOLERA_SIM_HISTORY").is_ok() {
            history.transactions.iter().for_each(|transaction| eprintln!("{transaction:?}"));
        }
        problems.extend(check(&history).iter().map(ToString::to_string));
        problems
    }
}

/// Returns the home of each key.
fn homes(world: &World) -> BTreeMap<Key, KeyHome> {
    keys().filter_map(|key| Some((key.clone(), KeyHome::of(world, &key)?))).collect()
}
