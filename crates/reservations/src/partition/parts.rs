//! The durable state of a partition, as parts of checkpoints.

use std::ops::Bound;

use solera_machine::PartitionId;

use super::Partition;
use super::filling::Filling;
use crate::agreed::{Key, KeyRecord};
use crate::counter::Counter;
use crate::numbers::{Position, Term, Version};
use crate::record::{KeyPart, PartitionPart};

impl Partition {
    /// Returns everything but the keys.
    pub(crate) fn as_part(&self, partition: PartitionId) -> PartitionPart {
        PartitionPart {
            partition,
            known: self.known.clone(),
            version: self.agreed.version,
            readers: self.agreed.readers.clone(),
            terms: self.agreed.terms.clone(),
            closed: self.agreed.closed,
            removed: self.agreed.removed.clone(),
            changed: self.agreed.changed.clone(),
            pin: self.pin.clone(),
            sponsored: self.sponsored.clone(),
            filled: self.filling.is_filled(),
            continues: self.filling.continues(),
        }
    }

    /// Returns the next keys. A key with a record has a counter.
    pub(crate) fn key_parts(
        &self,
        id: PartitionId,
        after: Bound<Key>,
        most: usize,
    ) -> Vec<KeyPart> {
        let counters = self.counters.range((after, Bound::Unbounded)).take(most);
        let part = |(key, counter): (&Key, &Counter)| KeyPart {
            partition: id,
            key: key.clone(),
            value: counter.value,
            ended: counter.ended.iter().map(|(site, (epoch, at))| (*site, *epoch, *at)).collect(),
            unseen: counter.unseen.iter().collect(),
            stopped: counter.stopped,
            floors: counter.floors.clone(),
            record: self.agreed.keys.get(key).cloned().unwrap_or_default(),
            tally: counter.rights.tally.clone(),
            pasts: counter.rights.pasts.clone(),
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
        self.agreed.changed = part.changed;
        self.agreed.changed.renewals.resize(sites, Version(0));
        self.pin = part.pin;
        self.sponsored = part.sponsored;
        self.filling = Filling::new(part.filled);
    }

    /// Restores a key.
    pub(crate) fn restore_key(&mut self, part: KeyPart) {
        let counter = self.counters.entry(part.key.clone()).or_default();
        counter.value = part.value;
        counter.ended =
            part.ended.into_iter().map(|(site, epoch, at)| (site, (epoch, at))).collect();
        counter.unseen = part.unseen.into_iter().collect();
        counter.stopped = part.stopped;
        counter.floors = part.floors;
        counter.rights.tally = part.tally;
        counter.rights.pasts = part.pasts;
        if part.record == KeyRecord::default() {
            self.agreed.keys.remove(&part.key);
        } else {
            self.agreed.keys.insert(part.key, part.record);
        }
    }
}
