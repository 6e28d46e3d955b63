//! Parts of a checkpoint, which are written while the worker continues.
//!
//! Everything but the keys comes first. A later part contains keys with the effects of all records
//! up to that time. Recovery therefore skips the effects of these records on these keys.

use std::ops::Bound;

use solera_machine::PartitionId;

use crate::agreed::Key;
use crate::machine::Reservations;
use crate::numbers::{Position, Term};
use crate::partition::Partition;
use crate::record::{KeyPart, Part, PartitionPart};

/// Progress of a checkpoint.
#[derive(Debug, Default)]
pub struct Checkpoint {
    /// Whether everything but the keys has been written.
    has_rest: bool,
    /// The last key that was written.
    after: Option<(PartitionId, Key)>,
    complete: bool,
}

impl Checkpoint {
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

/// See [`Machine::next_part`](solera_machine::Machine::next_part).
pub(crate) fn next_part(
    worker: &Reservations,
    checkpoint: &mut Checkpoint,
    keys: usize,
) -> Option<Part> {
    if !checkpoint.has_rest {
        checkpoint.has_rest = true;
        let promises = worker.promises.iter().map(|(id, held)| (*id, held.clone()));
        return Some(Part::Rest {
            incarnation: worker.config.incarnation,
            partitions: worker.partitions.iter().map(|(id, it)| it.as_part(*id)).collect(),
            promises: promises.collect(),
        });
    }
    if checkpoint.complete {
        return None;
    }
    let mut parts = Vec::new();
    for (id, partition) in &worker.partitions {
        let after = match &checkpoint.after {
            Some((last, _)) if id < last => continue,
            Some((last, key)) if id == last => Bound::Excluded(key.clone()),
            _ => Bound::Unbounded,
        };
        let room = keys.max(1) - parts.len();
        parts.extend(partition.key_parts(*id, after, room));
        if let Some(last) = parts.last().filter(|_| parts.len() >= keys.max(1)) {
            checkpoint.after = Some((last.partition, last.key.clone()));
            return Some(Part::Keys(parts));
        }
    }
    checkpoint.complete = true;
    (!parts.is_empty()).then_some(Part::Keys(parts))
}

impl Partition {
    fn as_part(&self, partition: PartitionId) -> PartitionPart {
        PartitionPart {
            partition,
            known: self.known.clone(),
            version: self.agreed.version,
            readers: self.agreed.readers.clone(),
            terms: self.agreed.terms.clone(),
            closed: self.agreed.closed,
            removed: self.agreed.removed.clone(),
            pin: self.pin.clone(),
            sponsored: self.sponsored.clone(),
        }
    }

    /// Returns the next keys. A key with a record has a counter.
    fn key_parts(&self, id: PartitionId, after: Bound<Key>, most: usize) -> Vec<KeyPart> {
        let counters = self.counters.range((after, Bound::Unbounded)).take(most);
        let part = |(key, counter): (&Key, &crate::counter::Counter)| KeyPart {
            partition: id,
            key: key.clone(),
            value: counter.value,
            ended: counter.ended.iter().map(|(site, (epoch, at))| (*site, *epoch, *at)).collect(),
            unseen: counter.unseen.iter().copied().collect(),
            stopped: counter.stopped,
            floors: counter.floors.clone(),
            record: self.agreed.keys.get(key).cloned().unwrap_or_default(),
        };
        counters.map(part).collect()
    }

    /// Restores everything but the keys.
    pub(crate) fn restore(&mut self, part: PartitionPart) {
        // The cluster may have got more sites.
        let put = |to: &mut Vec<Position>, from: &[Position]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        };
        put(&mut self.known, &part.known);
        self.agreed.version = part.version;
        let sites = self.agreed.readers.len();
        self.agreed.readers = part.readers;
        self.agreed.readers.resize(sites, None);
        self.agreed.terms = part.terms;
        self.agreed.terms.resize(sites, Term(0));
        self.agreed.closed = part.closed;
        self.agreed.removed = part.removed;
        self.pin = part.pin;
        self.sponsored = part.sponsored;
    }

    /// Restores a key.
    pub(crate) fn restore_key(&mut self, part: KeyPart) {
        let counter = self.counters.entry(part.key.clone()).or_default();
        counter.value = part.value;
        counter.ended =
            part.ended.into_iter().map(|(site, epoch, at)| (site, (epoch, at))).collect();
        counter.unseen = part.unseen.into();
        counter.stopped = part.stopped;
        counter.floors = part.floors;
        self.agreed.keys.insert(part.key, part.record);
    }
}
