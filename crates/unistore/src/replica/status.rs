//! State of a replica for status reports and for the simulator's assertions.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_certification::TransactionId;
use solera_data::Key;
use solera_machine::{Address, PartitionId};
use solera_membership::{Members, SiteStatus};
use solera_time::{Origin, SiteId, Timestamp, Vector};

use crate::command::CommandError;
use crate::config::Rule;
use crate::groups::group_of;
use crate::message::{SiteView, Update};
use crate::partition::Partition;
use crate::pasts::Pasts;
use crate::replica::Replica;
use crate::replica::joining::Progress;
use crate::replica::strong::StrongCounts;

/// Largest total length of the keys that are listed as at risk.
const AT_RISK_BYTES: usize = 8 << 20;

/// Transactions that the loss of sites could still undo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtRisk {
    /// Number of transactions.
    pub transactions: usize,
    /// Keys that they have written, the latest first.
    pub keys: Vec<Key>,
}

/// Read access to a replica's state.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    pub(crate) replica: &'a Replica,
}

impl<'a> Status<'a> {
    /// Returns the site's vectors as this worker last received them.
    pub fn view(&self) -> &'a SiteView {
        &self.replica.worker.dissemination.view
    }

    /// Returns `knownVec` of each owned partition.
    pub fn known_vecs(&self) -> impl Iterator<Item = (PartitionId, Vector)> + '_ {
        self.replica.worker.partitions.iter().map(|partition| (partition.id, partition.known_vec))
    }

    /// Returns times in the histories of another site's workers, each with its worker: the greatest
    /// time that the worker has sent to this one, and the time of the last update in each of its
    /// partitions, whichever site sent the update. `knownVec` may contain times that a worker has
    /// never sent, because other workers of its site have sent them.
    pub fn heard_of(&self, site: SiteId) -> impl Iterator<Item = (Address, Timestamp)> + '_ {
        let topology = &self.replica.worker.config.topology;
        let stored =
            self.replica.worker.partitions.iter().map(move |partition| {
                (topology.owner(site, partition.id), partition.arrived[site])
            });
        self.replica.heard_of.of(site, self.members()).chain(stored)
    }

    /// Returns counts of the outcomes of strong transactions of this worker's clients.
    pub fn strong(&self) -> StrongCounts {
        self.replica.strong.counts()
    }

    /// Returns the leader of the certification of each owned partition, where this worker knows
    /// one, and whether it is this worker itself.
    pub fn leaders(&self) -> impl Iterator<Item = (PartitionId, SiteId, bool)> + '_ {
        let service = &self.replica.strong.service;
        self.replica.worker.partitions.iter().filter_map(|partition| {
            let group = group_of(partition.id);
            Some((partition.id, service.leader(group)?, service.leads(group)))
        })
    }

    /// Returns whether a strong transaction committed; `None` if this worker does not know.
    pub fn outcome(&self, tid: TransactionId) -> Option<bool> {
        self.replica.outcome(tid)
    }

    /// Returns the number of messages that were dropped since the start: duplicates, late messages,
    /// and messages that no correct replica sends. Those of certification are counted separately.
    pub fn ignored(&self) -> u64 {
        self.replica.worker.ignored
    }

    /// Returns the greatest time that this worker has read, issued or received.
    pub fn clock(&self) -> Timestamp {
        self.replica.worker.clock.last()
    }

    /// Returns the members that this worker suspects to have failed.
    pub fn suspects(&self) -> Vec<SiteId> {
        let suspected = self.replica.worker.detector.suspected().into_iter();
        suspected.filter(|site| self.members().is_member(*site)).collect()
    }

    /// Returns this worker's view of the sites' statuses.
    pub fn members(&self) -> &'a Members {
        &self.replica.worker.dissemination.members
    }

    /// Checks whether enough sites are members for data to survive the loss of `f` sites. With
    /// fewer members, everything that all of them store counts as uniform, so that they can
    /// continue.
    ///
    /// # Errors
    /// Too few other sites are members.
    pub fn has_enough_sites(&self) -> Result<(), CommandError> {
        let (me, f) = (self.replica.worker.me, self.replica.worker.config.f);
        let others = self.members().members().filter(|site| *site != me).count();
        if others < f { Err(CommandError::TooFewSites { others, f }) } else { Ok(()) }
    }

    /// Returns a member or joining site that has not confirmed the same statuses; only known at the
    /// root.
    pub fn not_agreed(&self) -> Option<SiteId> {
        self.replica.worker.dissemination.not_agreed()
    }

    /// Returns, at the root, a member with a protocol that has not completed the removal of a
    /// leaving site.
    pub fn not_completed_removal(&self) -> Option<SiteId> {
        let members = self.members();
        let mut leaving = members.which(SiteStatus::Leaving);
        leaving.find_map(|site| {
            self.replica.worker.dissemination.not_completed((site, members.generation(site)))
        })
    }

    /// Returns the progress of this worker in filling its partitions, if its site joins.
    pub fn progress(&self) -> Progress {
        let partitions = &self.replica.worker.partitions;
        Progress {
            filled: partitions.iter().filter(|partition| partition.filled).count(),
            partitions: partitions.len(),
            current: self.replica.joining.current(),
            bytes: self.replica.joining.bytes(),
            donor: self.replica.joining.donor(),
        }
    }

    /// Returns the number of transactions that are open or being committed by this worker.
    pub fn open_transactions(&self) -> usize {
        self.replica.coordinator.open()
    }

    /// Returns the number of transactions that are prepared at this worker.
    pub fn prepared_transactions(&self) -> usize {
        self.replica.participant.prepared()
    }

    /// Returns the number of transactions that were prepared at this worker with guards, until all
    /// guards have acknowledged their outcome.
    pub fn guarded_transactions(&self) -> usize {
        self.replica.participant.guarding.open()
    }

    /// Returns the number of guards so far that name a protocol which guards no keys at this
    /// worker.
    pub fn unknown_guards(&self) -> u64 {
        self.replica.participant.guarding.unknown
    }

    /// Returns the number of commits of this worker that some participant has not confirmed.
    pub fn unconfirmed_decisions(&self) -> usize {
        self.replica.coordinator.unconfirmed()
    }

    /// Returns the number of strong transactions that this worker has submitted or recovers and
    /// that are not decided, or that wait for a retry.
    pub fn undecided_transactions(&self) -> usize {
        self.replica.strong.undecided()
    }

    /// Returns the sites with transactions in a session's durability past that the loss of sites
    /// could still undo, as far as this worker knows. A barrier here would wait for them.
    pub fn not_uniform(&self, pasts: &Pasts) -> Vec<SiteId> {
        self.replica.not_uniform(pasts)
    }

    /// Returns the transactions of this site with writes here that the loss of sites could still
    /// undo, because they are not uniform as far as this worker knows. This includes prepared
    /// transactions, whose clients may have learned already that they committed. Also returns at
    /// most `keys` of the latest keys that they have written, with a total length of a few
    /// megabytes at most.
    pub fn at_risk(&self, keys: usize) -> AtRisk {
        let me = self.replica.worker.me;
        let uniform_vec = self.replica.worker.dissemination.view.uniform_vec;
        // Committed strong transactions survive.
        let survives = uniform_vec.with(Origin::Strong, Timestamp::MAX);
        let config = &self.replica.worker.config;
        let counts = |update: &&Arc<Update>| !update.eventual || config.keeps(Rule::EventualAtRisk);
        // Other sites show an eventual write once they store the snapshot on which it was executed.
        let snapshots = config.keeps(Rule::EventualSnapshots);
        let is_at_risk = |update: &&Arc<Update>| {
            update.dot.ts > uniform_vec[me]
                || (update.eventual && snapshots && !survives.covers(&update.snap_vec))
        };
        let mut times: Vec<Timestamp> = Vec::new();
        let mut newest: Vec<(Timestamp, &Key)> = Vec::new();
        if config.keeps(Rule::PreparedAtRisk) {
            for prepared in self.replica.participant.each_prepared() {
                times.push(prepared.ts);
                newest.extend(prepared.keys().map(|key| (prepared.ts, key)).take(keys));
            }
        }
        for partition in &self.replica.worker.partitions {
            // If everything that has arrived is uniform, only later updates can be at risk.
            let whole = survives.with(me, Timestamp::MAX).covers(&partition.arrived);
            let from = if whole { uniform_vec[me] } else { Timestamp::ZERO };
            let history = &partition.committed[me];
            let at_risk = || history.after(from).filter(counts).filter(is_at_risk);
            times.extend(at_risk().map(|update| update.dot.ts));
            let writes = at_risk()
                .rev()
                .flat_map(|update| update.writes.iter().map(|write| (update.dot.ts, &write.key)));
            newest.extend(writes.take(keys));
        }
        // A transaction over several partitions counts once.
        times.sort_unstable();
        times.dedup();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        let mut seen = BTreeSet::new();
        let fresh = newest.into_iter().map(|(_, key)| key).filter(|key| seen.insert(*key));
        let mut room = AT_RISK_BYTES;
        let listed = fresh.take(keys).take_while(|key| {
            let fits = key.len() <= room;
            room = room.saturating_sub(key.len());
            fits
        });
        let named = listed.cloned().collect();
        AtRisk { transactions: times.len(), keys: named }
    }

    /// Returns the number of updates that are held because some site may still need them.
    pub fn unsettled_updates(&self) -> usize {
        let partitions = self.replica.worker.partitions.iter();
        partitions.flat_map(|partition| partition.committed.values()).map(|log| log.len()).sum()
    }

    /// Returns the number of keys that this worker holds, in constant time.
    pub fn keys(&self) -> usize {
        self.replica.worker.partitions.iter().map(Partition::key_count).sum()
    }

    /// Returns all keys that this worker holds, in no particular order.
    pub fn each_key(&self) -> impl Iterator<Item = &Key> {
        self.replica.worker.partitions.iter().flat_map(Partition::each_key)
    }

    /// Returns the approximate size of this worker's keys in bytes, in constant time.
    pub fn bytes(&self) -> usize {
        self.replica.worker.partitions.iter().map(Partition::bytes).sum()
    }

    /// Returns the number of versions of keys, and their size, recomputed from the keys. Visits all
    /// keys.
    pub fn versions_and_bytes(&self) -> (usize, usize) {
        self.replica.worker.partitions.iter().map(Partition::versions_and_bytes).fold(
            (0, 0),
            |(versions, bytes), (more_versions, more_bytes)| {
                (versions + more_versions, bytes + more_bytes)
            },
        )
    }
}
