//! Recovery of a machine from a checkpoint and records.

use std::collections::BTreeMap;

use solera_machine::PartitionId;

use crate::agreed::{Change, Key};
use crate::config::{BoundKind, Config};
use crate::machine::Reservations;
use crate::numbers::Version;
use crate::record::{KeyPart, Part, PartitionPart, Record};

/// A machine under recovery.
#[derive(Debug)]
pub struct Recovery {
    worker: Reservations,
    /// The last record that the parts include: of everything but keys, and of keys.
    rest: u64,
    keys: BTreeMap<(PartitionId, Key), u64>,
    /// Keys of a state whose last record has not been restored yet.
    filled: Vec<KeyPart>,
    /// Difference between the data and the configuration, if there is one.
    misfit: Option<String>,
}

impl Recovery {
    /// Creates a recovery without any data.
    pub fn new(config: Config) -> Recovery {
        let worker = Reservations::empty(config);
        Recovery { worker, rest: 0, keys: BTreeMap::new(), filled: Vec::new(), misfit: None }
    }

    /// Restores a part of a checkpoint, which includes all records up to `lsn`.
    ///
    /// # Errors
    /// The bytes are no part of this protocol.
    pub fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        if self.misfit.is_some() {
            return Ok(());
        }
        match Part::decode(part).map_err(|error| error.to_string())? {
            Part::Rest { incarnation, prefixes, partitions, promises } => {
                self.compare(&prefixes);
                self.rest = lsn;
                self.note_incarnation(incarnation);
                for part in partitions {
                    if let Some(partition) = self.worker.partitions.get_mut(&part.partition) {
                        partition.restore(part);
                    }
                }
                self.worker.promises = promises.into_iter().collect();
            }
            Part::Keys(keys) => {
                for part in keys {
                    let place = (part.partition, part.key.clone());
                    if let Some(partition) = self.worker.partitions.get_mut(&part.partition) {
                        partition.restore_key(part);
                        self.keys.insert(place, lsn);
                    }
                }
            }
        }
        Ok(())
    }

    /// Restores the record with this number.
    ///
    /// # Errors
    /// The bytes are no record of this protocol.
    pub fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String> {
        if self.misfit.is_some() {
            return Ok(());
        }
        let record = Record::decode(record).map_err(|error| error.to_string())?;
        if let Record::Started { prefixes, .. } = &record {
            self.compare(prefixes);
        }
        self.replay(lsn, record);
        Ok(())
    }

    /// Notes whether the same keys have the same kinds of bounds as when the data was written.
    fn compare(&mut self, kept: &[(Vec<u8>, BoundKind)]) {
        self.misfit = misfit(kept, &self.worker.config.prefixes());
    }

    /// Checks that the data fits the configuration. The data is not restored otherwise.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self) -> Result<(), String> {
        self.misfit.clone().map_or(Ok(()), Err)
    }

    fn note_incarnation(&mut self, incarnation: u64) {
        let config = &mut self.worker.config;
        config.incarnation = config.incarnation.max(incarnation.saturating_add(1));
    }

    /// Returns whether the parts lack the effects of a record on a key.
    fn lacks(&self, lsn: u64, partition: PartitionId, key: &Key) -> bool {
        let included = self.keys.get(&(partition, key.clone())).copied();
        lsn > included.unwrap_or(self.rest)
    }

    fn replay(&mut self, lsn: u64, record: Record) {
        let lacks_rest = lsn > self.rest;
        match record {
            Record::Started { incarnation, .. } => {
                self.filled.clear();
                self.note_incarnation(incarnation);
            }
            Record::Stream { partition, origin, entries, upto } => {
                let mut entries = entries;
                entries.retain(|placed| self.lacks(lsn, partition, &placed.key));
                let config = &self.worker.config;
                let Some(partition) = self.worker.partitions.get_mut(&partition) else { return };
                for placed in &entries {
                    partition.apply_entry(config, origin, placed);
                }
                if let Some(known) = partition.known.get_mut(origin.index()) {
                    *known = upto.max(*known);
                }
            }
            Record::Changed { partition, version, read, change } => {
                self.replay_change(lsn, partition, (version, read), &change);
            }
            Record::Promised(id, held) if lacks_rest => {
                self.worker.promises.insert(id, held);
            }
            Record::Ended(id) if lacks_rest => {
                self.worker.promises.remove(&id);
            }
            Record::Stopped { partition, key, epoch } => {
                if let Some(partition) = self.worker.partitions.get_mut(&partition) {
                    partition.restore_stop(&key, epoch);
                }
            }
            Record::Pinned { partition, pin } if lacks_rest => {
                if let Some(partition) = self.worker.partitions.get_mut(&partition) {
                    partition.pin = Some(pin);
                }
            }
            Record::FilledKeys(keys) => self.filled.extend(keys),
            Record::Filled(rest) => self.replay_filled(lsn, *rest),
            Record::Emptied(partition) if lacks_rest => {
                if let Some(partition) = self.worker.partitions.get_mut(&partition) {
                    partition.restore_emptied();
                }
            }
            Record::Continued(partition) if lacks_rest => {
                if let Some(partition) = self.worker.partitions.get_mut(&partition) {
                    partition.restore_continued();
                }
            }
            Record::Continued(_)
            | Record::Promised(..)
            | Record::Ended(_)
            | Record::Pinned { .. }
            | Record::Emptied(_) => {}
        }
    }

    fn replay_filled(&mut self, lsn: u64, rest: PartitionPart) {
        // A process that ended between the records of a state has left keys without the rest.
        let mut keys = std::mem::take(&mut self.filled);
        keys.retain(|part| part.partition == rest.partition);
        keys.retain(|part| self.lacks(lsn, part.partition, &part.key));
        let Some(partition) = self.worker.partitions.get_mut(&rest.partition) else { return };
        keys.into_iter().for_each(|part| partition.fill_key(part));
        if lsn > self.rest {
            partition.fill(rest);
        }
    }

    /// Whether the change took effect is decided again. Where a part includes the effects on a key
    /// already, the decision may differ, and is not used: a change of a key depends on this key,
    /// and otherwise on items whose state here is exactly the one before the record.
    fn replay_change(
        &mut self,
        lsn: u64,
        id: PartitionId,
        (version, read): (Version, Version),
        change: &Change,
    ) {
        let lacks_rest = lsn > self.rest;
        let lacks_key = change.key().is_some_and(|key| self.lacks(lsn, id, key));
        let (keys, rest) = (&self.keys, self.rest);
        let lacks = |key: &Key| lsn > keys.get(&(id, key.clone())).copied().unwrap_or(rest);
        let config = &self.worker.config;
        let Some(partition) = self.worker.partitions.get_mut(&id) else { return };
        let effective = partition.agreed.takes_effect(read, change);
        if effective && lacks_rest {
            partition.apply_to_readers(config, version, change);
        }
        if effective && matches!(change, Change::Found { .. }) {
            partition.agreed.clear_grants(lacks);
        }
        if effective && lacks_key {
            partition.apply_to_key(config, version, change);
        }
        partition.agreed.version = version.max(partition.agreed.version);
    }

    /// Returns the machine with the state after the last record.
    pub fn into_machine(self) -> Reservations {
        let mut worker = self.worker;
        for held in worker.promises.values().flatten() {
            if let Some(partition) = worker.partitions.get_mut(&held.partition) {
                partition.restore_promise(held);
            }
        }
        for partition in worker.partitions.values_mut() {
            partition.after_recovery(&worker.config);
        }
        worker.note_members();
        worker.recovered = true;
        worker.start();
        worker
    }
}

impl solera_machine::Recovery for Recovery {
    type Machine = Reservations;

    fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        Recovery::take_part(self, lsn, part)
    }

    fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String> {
        Recovery::take_record(self, lsn, record)
    }

    fn check(&self) -> Result<(), String> {
        Recovery::check(self)
    }

    fn into_machine(self) -> Reservations {
        Recovery::into_machine(self)
    }
}

/// Returns the difference between the bounds of keys when data was written and the present ones;
/// `None` if there is none.
fn misfit(kept: &[(Vec<u8>, BoundKind)], own: &[(Vec<u8>, BoundKind)]) -> Option<String> {
    let bound = |of: &[(Vec<u8>, BoundKind)], prefix: &[u8]| {
        let found = of.iter().find(|(it, _)| it == prefix);
        found.map_or("no bound", |(_, kind)| match kind {
            BoundKind::Error => "the setting `error` for counters",
            BoundKind::Size => "the setting `error` for sets",
            BoundKind::Rights => "the type `bounded-counter` or `pool`",
        })
    };
    let mut prefixes = kept.iter().chain(own).map(|(prefix, _)| &**prefix);
    let changed = prefixes.find(|prefix| bound(kept, prefix) != bound(own, prefix))?;
    Some(format!(
        "the space with prefix '{}' had {} when the data was written, and has {} now. Bounds cannot change while \
         there is data: restore the former lines, or run `solera backup` with them and `solera restore` into a new \
         cluster with the new ones",
        String::from_utf8_lossy(changed),
        bound(kept, changed),
        bound(own, changed)
    ))
}

/// Returns the difference to a configuration without bounds that a part of a checkpoint shows.
pub fn misfit_of_part(part: &[u8]) -> Option<String> {
    match Part::decode(part).ok()? {
        Part::Rest { prefixes, .. } => misfit(&prefixes, &[]),
        Part::Keys(_) => None,
    }
}

/// Returns the difference to a configuration without bounds that a record shows.
pub fn misfit_of_record(record: &[u8]) -> Option<String> {
    match Record::decode(record).ok()? {
        Record::Started { prefixes, .. } => misfit(&prefixes, &[]),
        _ => None,
    }
}
