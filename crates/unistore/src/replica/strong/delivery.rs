//! DELIVER_UPDATES (Alg. 3): stores the transactions that certification delivers, and sends them to
//! workers and siblings as the history of one more origin.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::smallvec;
use solera_certification::{GroupId, GroupPayload};
use solera_data::{Dot, Key};
use solera_machine::{Address, Now, PartitionId};
use solera_time::{Origin, SiteId, Timestamp};

use crate::committed::{RANGE_LIMIT, TICK_BYTES};
use crate::config::{Protocol, Rule};
use crate::groups::{CENTRAL, group_of};
use crate::message::{Event, LogRange, Message, Update, Write};
use crate::record::Record;
use crate::replica::Replica;

impl Replica {
    /// Returns the group that certifies transactions of a partition.
    pub(super) fn certifier_of(&self, partition: PartitionId) -> GroupId {
        match self.worker.config.protocol {
            Protocol::RedBlue => CENTRAL,
            _ => group_of(partition),
        }
    }

    /// Sends new updates of the central certifier's history at this site to the other partitions.
    pub(crate) fn spread(
        &mut self,
        certifier: PartitionId,
        prev: Timestamp,
        updates: &[Arc<Update>],
        known: Timestamp,
    ) {
        let central =
            self.worker.config.protocol == Protocol::RedBlue && group_of(certifier) == CENTRAL;
        if !central || known <= prev {
            return;
        }
        let mut by_worker: BTreeMap<Address, Vec<LogRange>> = BTreeMap::new();
        for id in (0..self.worker.config.topology.partitions).map(PartitionId) {
            if group_of(id) == CENTRAL {
                continue;
            }
            let updates = updates.iter().filter_map(|update| self.part_at(id, update)).collect();
            let owner = self.worker.config.topology.owner(self.worker.me, id);
            let origin = Origin::Strong;
            let range = LogRange { partition: id, origin, prev, known, updates };
            by_worker.entry(owner).or_default().push(range);
        }
        for (worker, ranges) in by_worker {
            self.worker.send(worker, Message::ForwardRanges(ranges));
        }
    }

    /// Returns the part of an update of the central certifier's history that belongs to a
    /// partition.
    fn part_at(&self, id: PartitionId, update: &Update) -> Option<Arc<Update>> {
        let of = |write: &&Write| self.worker.partition_of(&write.key) == id;
        let writes: Vec<Write> = update.writes.iter().filter(of).cloned().collect();
        let Update { dot, snap_vec, .. } = *update;
        let part = Update { dot, snap_vec, writes, eventual: false };
        (!part.writes.is_empty()).then(|| Arc::new(part))
    }

    /// Handles a request of a partition of this site for the central certifier's history after
    /// `known`. The link between two of the site's nodes may have lost that part.
    pub(crate) fn spread_again(&mut self, id: PartitionId, known: Timestamp) {
        let redblue = self.worker.config.protocol == Protocol::RedBlue;
        let Some(index) = self.worker.index_of(PartitionId(CENTRAL.0)).filter(|_| redblue) else {
            return;
        };
        if id.0 >= self.worker.config.topology.partitions || group_of(id) == CENTRAL {
            return;
        }
        let central = &self.worker.partitions[index];
        let history = &central.committed[Origin::Strong];
        let (has, mut budget) = (central.known_vec.strong, TICK_BYTES);
        let (updates, all) = history.range(known, has, RANGE_LIMIT, &mut budget);
        // The partition requests the rest when it receives new updates.
        let upto = if all { Some(has) } else { updates.last().map(|u| u.dot.ts) };
        let updates = updates.iter().filter_map(|update| self.part_at(id, update)).collect();
        let (origin, owner) =
            (Origin::Strong, self.worker.config.topology.owner(self.worker.me, id));
        if let Some(upto) = upto.filter(|upto| *upto > known) {
            let range = LogRange { partition: id, origin, prev: known, known: upto, updates };
            self.worker.send(owner, Message::ForwardRanges(vec![range]));
        }
    }

    /// DELIVER_UPDATES (UniStore Alg. 3 l. 4–8), at the leader, which sends the updates to the
    /// others. Updates that a follower has delivered early arrive again from the leader, and
    /// [`Self::on_replicate`] drops them as known.
    pub(super) fn deliver(
        &mut self,
        now: Now,
        group: GroupId,
        ts: Timestamp,
        payload: &GroupPayload<Write>,
    ) {
        let id = PartitionId(group.0);
        let index = self.worker.index_of(id).expect("only groups of owned partitions deliver here");
        assert!(
            ts > self.worker.partitions[index].known_vec.strong,
            "strong transactions come in order"
        );
        self.worker.note_activity(now);
        self.wait_for(&payload.commit_vec(ts));
        let prev = self.worker.partitions[index].known_vec.strong;
        let mut delivered = Vec::new();
        if !payload.writes.is_empty() {
            let dot = Dot::of(Origin::Strong, ts);
            let (snap_vec, writes) = (payload.snap_vec, payload.writes.clone());
            let update = Arc::new(Update { dot, snap_vec, writes, eventual: false });
            self.worker.record(|| Record::Stored(smallvec![(id, update.clone())]));
            self.store_strong(index, update.clone());
            delivered.push(update);
        }
        self.worker.partitions[index].known_vec.raise(Origin::Strong, ts);
        self.spread(id, prev, &delivered, ts);
        self.retry_parked(now);
    }

    /// Notes that no other transaction was committed up to `upto`, in place of HEARTBEAT_STRONG
    /// (UniStore Alg. 3 l. 9–10).
    pub(super) fn complete(&mut self, now: Now, group: GroupId, upto: Timestamp) {
        let index = self.worker.index_of(PartitionId(group.0));
        let index = index.expect("only groups of owned partitions are complete here");
        if self.certifier_of(PartitionId(group.0)) != group {
            return;
        }
        let prev = self.worker.partitions[index].known_vec.strong;
        self.worker.partitions[index].known_vec.raise(Origin::Strong, upto);
        self.spread(PartitionId(group.0), prev, &[], upto);
        self.retry_parked(now);
    }

    /// Stores an update of the strong history.
    pub(crate) fn store_strong(&mut self, index: usize, update: Arc<Update>) {
        let (partition, dot) = (self.worker.partitions[index].id, update.dot);
        let partitions = self.worker.config.topology.partitions;
        let own = |key: &Key| PartitionId::of(key, partitions) == partition;
        self.worker.partitions[index].store_of(update, own);
        self.worker.trace(|| Event::Stored { partition, dot });
    }

    /// Asks the other members for strong history that a new leader lacks.
    pub(super) fn catch_up(&mut self, group: GroupId) {
        let partition = PartitionId(group.0);
        let index =
            self.worker.index_of(partition).expect("only owned partitions have a leader here");
        let known = self.worker.partitions[index].known_vec.strong;
        for site in self.worker.other_members() {
            let to = self.worker.config.topology.owner(site, partition);
            self.worker.send(to, Message::Gap { partition, origin: Origin::Strong, known });
        }
    }

    /// Returns whether this replica sends `dest` the strong transactions of an owned partition: it
    /// leads, or was asked, or the leader cannot reach `dest`.
    pub(crate) fn sends_strong(&self, index: usize, dest: SiteId) -> bool {
        let group = group_of(self.worker.partitions[index].id);
        if self.certifier_of(self.worker.partitions[index].id) != group {
            // Each site's certifier sends them to the partitions of its site.
            return false;
        }
        let leader = self.strong.service.leader(group);
        let forwards = || {
            self.worker.config.keeps(Rule::Forwarding)
                && leader.is_some_and(|leader| {
                    leader != dest && self.worker.detector.should_forward(dest, leader)
                })
        };
        self.leads_strong(index) || self.strong.asked.contains(&(index, dest)) || forwards()
    }

    /// Returns the leader of the group of a partition, as far as this replica knows.
    pub(crate) fn strong_leader(&self, id: PartitionId) -> Option<SiteId> {
        self.strong.service.leader(self.certifier_of(id))
    }

    /// Returns whether this replica leads the group of an owned partition.
    pub(crate) fn leads_strong(&self, index: usize) -> bool {
        self.strong.service.leads(group_of(self.worker.partitions[index].id))
    }

    /// Notes that a site has asked this replica for the history, whichever site leads.
    pub(crate) fn asked_for_strong(&mut self, index: usize, dest: SiteId) {
        self.strong.asked.insert((index, dest));
    }

    /// Notes that the whole history was sent to the site.
    pub(crate) fn sent_strong(&mut self, index: usize, dest: SiteId) {
        self.strong.asked.remove(&(index, dest));
    }

    /// Asks a site to lead the certification of all partitions.
    pub fn move_leaders(&mut self, now: Now, site: SiteId) {
        for id in 0..self.worker.config.topology.partitions {
            self.move_leader(now, PartitionId(id), site);
        }
    }

    /// Asks a site to lead the certification of one partition.
    pub fn move_leader(&mut self, now: Now, partition: PartitionId, site: SiteId) {
        let group = group_of(partition);
        self.certifying(now, |replica| replica.strong.service.move_leader(now, group, site));
    }
}
