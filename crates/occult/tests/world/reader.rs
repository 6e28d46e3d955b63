//! A reader of all keys in one snapshot, as a backup is. The checker judges its reads as a
//! transaction of a separate session.

use std::collections::BTreeMap;

use solera_checker::pcpsi::{Operation, Outcome, Read, Transaction, Version};
use solera_data::{Key, Outcome as Answer};
use solera_machine::{Address, PartitionId};
use solera_occult::{Beginning, Command, Peaks, Response, SnapshotAnswer, SnapshotStep};
use solera_time::SiteId;

use super::sessions::{KEYS, name, number};
use super::{PARTITIONS, World};

const ID: u64 = 7;
/// Number of the reader's first session. Other sessions have smaller numbers.
const FIRST_SESSION: usize = 1_000_000;

#[derive(Debug)]
enum Stage {
    Mark,
    Poll,
    Fix(Peaks),
    Read(BTreeMap<Key, u64>),
}

/// The reader, at one site at a time.
pub(crate) struct Reader {
    site: SiteId,
    stage: Stage,
    beginning: Beginning,
    /// Workers that the present step has still to visit; partitions while it reads.
    left: Vec<u16>,
    after: Option<Key>,
    /// Number of writes that the site had acknowledged before.
    acknowledged: usize,
    pub(crate) transactions: Vec<Transaction>,
    /// Acknowledged writes that a snapshot lacks.
    pub(crate) missed: Vec<String>,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        Reader {
            site: SiteId(0),
            stage: Stage::Mark,
            beginning: Beginning::default(),
            left: Vec::new(),
            after: None,
            acknowledged: 0,
            transactions: Vec::new(),
            missed: Vec::new(),
        }
    }

    fn restart(&mut self, world: &mut World) {
        self.site = SiteId(world.random.index(world.shape.sites) as u8);
        (self.stage, self.beginning, self.after) = (Stage::Mark, Beginning::default(), None);
        self.left = (0..u16::from(world.shape.workers)).collect();
        self.acknowledged = world.acknowledged.get(&self.site).map_or(0, Vec::len);
    }

    fn poll(&mut self, world: &World) {
        self.beginning.poll();
        (self.stage, self.left) = (Stage::Poll, (0..u16::from(world.shape.workers)).collect());
    }

    /// Executes a step from time to time.
    pub(crate) fn act(&mut self, world: &mut World) {
        if !world.random.one_in(3) {
            return;
        }
        let Some(next) = self.left.last().copied() else { return self.restart(world) };
        let id = ID;
        let (to, step) = match &self.stage {
            Stage::Mark => (next as u8, SnapshotStep::Mark { id, lasts_ms: 60_000 }),
            Stage::Poll => {
                let marks = self.beginning.marks().clone();
                (next as u8, SnapshotStep::Poll { id, marks })
            }
            Stage::Fix(shown) => (next as u8, SnapshotStep::Fix { id, shown: shown.clone() }),
            Stage::Read(_) => {
                let config = world.configs.values().next().expect("there are workers");
                let owner = config.topology.owner(self.site, PartitionId(next));
                let after = self.after.clone();
                let partition = PartitionId(next);
                (owner.worker, SnapshotStep::Page { id, partition, after })
            }
        };
        let to = Address { site: self.site, worker: to };
        match world.ask(to, Command::Snapshot(step)) {
            Some(Response::Snapshot(answer)) => self.take(world, answer),
            Some(other) => panic!("{other:?}"),
            None => self.restart(world),
        }
    }

    fn take(&mut self, world: &mut World, answer: SnapshotAnswer) {
        let all = || (0..u16::from(world.shape.workers)).collect::<Vec<u16>>();
        match (&mut self.stage, answer) {
            (Stage::Mark, SnapshotAnswer::Marked(peaks)) => {
                self.beginning.on_marked(peaks);
                self.left.pop();
                if self.left.is_empty() {
                    self.poll(world);
                }
            }
            (Stage::Poll, SnapshotAnswer::Shown(shown)) => {
                self.beginning.on_shown(shown);
                self.left.pop();
                if !self.left.is_empty() {
                    return;
                }
                match self.beginning.behind() {
                    Some(_) => self.poll(world),
                    None => (self.stage, self.left) = (Stage::Fix(self.beginning.bounds()), all()),
                }
            }
            (Stage::Poll, SnapshotAnswer::Arriving) => self.poll(world),
            (Stage::Fix(_), SnapshotAnswer::Done) => {
                self.left.pop();
                if self.left.is_empty() {
                    self.stage = Stage::Read(BTreeMap::new());
                    self.left = (0..PARTITIONS).collect();
                }
            }
            (Stage::Read(found), SnapshotAnswer::Page(entries, next)) => {
                for (key, content) in entries {
                    let Answer::Bulk(value) = content else { panic!("{content:?}") };
                    assert_eq!(found.insert(key, number(&value)), None, "a key is read once");
                }
                if next.is_none() {
                    self.left.pop();
                }
                self.after = next;
                if self.left.is_empty() {
                    self.record(world);
                }
            }
            (_, SnapshotAnswer::Gone | SnapshotAnswer::Unheard(_)) => self.restart(world),
            (stage, answer) => panic!("{answer:?} in {stage:?}"),
        }
    }

    /// Returns writes that the site had acknowledged before the snapshot and that the snapshot
    /// lacks: it contains neither this version of the key nor a later one. Returns none in worlds
    /// that lose writes, and in worlds with removals, which have no stamp here.
    fn missed(&self, world: &World, found: &BTreeMap<Key, u64>) -> Vec<String> {
        if world.shape.lost.is_some() || world.shape.deletes {
            return Vec::new();
        }
        let stamp =
            |key: &Key, id: u64| world.stamps.get(&(key.clone(), id)).map(|(_, stamp)| stamp);
        let before = world.acknowledged.get(&self.site).into_iter().flatten();
        let missed = before.take(self.acknowledged).filter(|(key, id)| {
            let version = found.get(key).map(|found| stamp(key, *found));
            match (version, stamp(key, *id)) {
                (None, _) => true,
                // A home that has crashed meanwhile has not reported the stamp.
                (Some(None), _) | (_, None) => false,
                (Some(Some(version)), Some(acknowledged)) => version < acknowledged,
            }
        });
        missed
            .map(|(key, id)| format!("{:?}: a snapshot lacks {}={id}", self.site, name(key)))
            .collect()
    }

    fn record(&mut self, world: &World) {
        let Stage::Read(found) = &self.stage else { return };
        self.missed.extend(self.missed(world, found));
        let operations = (0..KEYS).map(|key| {
            let key = Key::from(format!("k{key}").as_str());
            let version = found.get(&key).map_or(Version::Absent, |id| Version::Of(*id));
            Operation::Read(Read { key: name(&key), version, stale: false })
        });
        self.transactions.push(Transaction {
            session: FIRST_SESSION + self.transactions.len(),
            order: 1,
            site: self.site.index(),
            outcome: Outcome::Committed,
            operations: operations.collect(),
        });
    }
}
