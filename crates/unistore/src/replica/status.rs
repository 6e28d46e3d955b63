//! What a replica knows and holds, for status reports and for the simulator's assertions.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_certification::TransactionId;
use solera_data::Key;
use solera_machine::{Address, PartitionId};
use solera_membership::{Members, Standing};
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

/// How many bytes of keys are named as being at risk.
const AT_RISK_BYTES: usize = 8 << 20;

/// What the loss of sites could still undo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtRisk {
    /// How many transactions.
    pub transactions: usize,
    /// Keys that they wrote, the latest first.
    pub keys: Vec<Key>,
}

/// A replica's knowledge and holdings.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    pub(crate) replica: &'a Replica,
}

impl<'a> Status<'a> {
    /// The site's vectors as this worker last heard them.
    pub fn view(&self) -> &'a SiteView {
        &self.replica.worker.dissemination.view
    }

    /// `knownVec` of each owned partition.
    pub fn known_vecs(&self) -> impl Iterator<Item = (PartitionId, Vector)> + '_ {
        self.replica.worker.partitions.iter().map(|partition| (partition.id, partition.known_vec))
    }

    /// Times of their own that the workers of another site have told: the greatest that each has
    /// told this worker, and that of the last update in each partition, whoever sent it. `knownVec`
    /// may hold times that a worker never told: other workers of its site told them.
    pub fn heard_of(&self, site: SiteId) -> impl Iterator<Item = (Address, Timestamp)> + '_ {
        let topology = &self.replica.worker.config.topology;
        let stored =
            self.replica.worker.partitions.iter().map(move |partition| {
                (topology.owner(site, partition.id), partition.arrived[site])
            });
        self.replica.heard_of.of(site, self.members()).chain(stored)
    }

    /// What strong transactions of this worker's clients have come to.
    pub fn strong(&self) -> StrongCounts {
        self.replica.strong.counts()
    }

    /// Who leads the certification of each owned partition, as far as this worker knows of
    /// somebody, and whether it does so itself.
    pub fn leaders(&self) -> impl Iterator<Item = (PartitionId, SiteId, bool)> + '_ {
        let service = &self.replica.strong.service;
        self.replica.worker.partitions.iter().filter_map(|partition| {
            let group = group_of(partition.id);
            Some((partition.id, service.leader(group)?, service.leads(group)))
        })
    }

    /// Whether a strong transaction whose client knows its name committed, as far as this worker
    /// knows.
    pub fn outcome(&self, tid: TransactionId) -> Option<bool> {
        self.replica.outcome(tid)
    }

    /// Messages that were dropped since the start: they came again, or too late to count, or no
    /// correct replica sends them. Those of certification are counted apart.
    pub fn ignored(&self) -> u64 {
        self.replica.worker.ignored
    }

    /// The greatest time that this worker has read, issued or seen.
    pub fn clock(&self) -> Timestamp {
        self.replica.worker.clock.last()
    }

    /// The members that this worker suspects to have failed.
    pub fn suspects(&self) -> Vec<SiteId> {
        let suspected = self.replica.worker.detector.suspected().into_iter();
        suspected.filter(|site| self.members().is_member(*site)).collect()
    }

    /// How each site stands, as far as this worker knows.
    pub fn members(&self) -> &'a Members {
        &self.replica.worker.dissemination.members
    }

    /// Whether anything can survive the loss of `f` sites. While too few take part, what all of
    /// them have counts as uniform, so that they can go on.
    ///
    /// # Errors
    /// Nothing can.
    pub fn has_enough_sites(&self) -> Result<(), CommandError> {
        let (me, f) = (self.replica.worker.me, self.replica.worker.config.f);
        let others = self.members().members().filter(|site| *site != me).count();
        if others < f { Err(CommandError::TooFewSites { others, f }) } else { Ok(()) }
    }

    /// A member or joining site that has not confirmed to know the same standings; only known at
    /// the root.
    pub fn not_agreed(&self) -> Option<SiteId> {
        self.replica.worker.dissemination.not_agreed()
    }

    /// Returns a member of which some protocol has not settled the removal of a site that leaves;
    /// only known at the root.
    pub fn not_settled(&self) -> Option<SiteId> {
        let members = self.members();
        let mut leaving = members.which(Standing::Leaving);
        leaving.find_map(|site| {
            self.replica.worker.dissemination.not_settled((site, members.life(site)))
        })
    }

    /// How far this worker has come with getting its partitions, if its site joins.
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

    /// Transactions that are open or being committed by this worker.
    pub fn open_transactions(&self) -> usize {
        self.replica.coordinator.open()
    }

    /// Transactions that are prepared at this worker.
    pub fn prepared_transactions(&self) -> usize {
        self.replica.participant.prepared()
    }

    /// Transactions that were prepared at this worker with guards, until all guards know how they
    /// ended.
    pub fn guarded_transactions(&self) -> usize {
        self.replica.participant.guarding.open()
    }

    /// How often a guard was named whose protocol guards nothing here.
    pub fn unknown_guards(&self) -> u64 {
        self.replica.participant.guarding.unknown
    }

    /// Commits of this worker that some participant has not confirmed.
    pub fn unconfirmed_decisions(&self) -> usize {
        self.replica.coordinator.unconfirmed()
    }

    /// Strong transactions that were submitted or are finished here and not decided, or that wait
    /// to be executed again.
    pub fn undecided_transactions(&self) -> usize {
        self.replica.strong.undecided()
    }

    /// The sites of whose transactions some in a session's durability past could still be undone by
    /// the loss of sites, as far as this worker knows: a barrier here would wait for them.
    pub fn not_uniform(&self, pasts: &Pasts) -> Vec<SiteId> {
        self.replica.not_uniform(pasts)
    }

    /// The transactions of this site, as far as they wrote here, that the loss of sites could still
    /// undo: they are not uniform as far as this worker knows. Those that are prepared here are
    /// among them, as their clients may know already that they committed. And the keys of the
    /// latest of them, but no more than can be told in a few megabytes.
    pub fn at_risk(&self, keys: usize) -> AtRisk {
        let me = self.replica.worker.me;
        let uniform_vec = self.replica.worker.dissemination.view.uniform_vec;
        // Strong transactions survive since they committed.
        let survives = uniform_vec.with(Origin::Strong, Timestamp::MAX);
        let config = &self.replica.worker.config;
        let counts = |update: &&Arc<Update>| !update.eventual || config.keeps(Rule::EventualAtRisk);
        // Other sites show an eventual write once they store what it was executed on.
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
            // Where all that has arrived is uniform, only later ones can be at risk.
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
        // A transaction over several partitions is one.
        times.sort_unstable();
        times.dedup();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        let mut seen = BTreeSet::new();
        let fresh = newest.into_iter().map(|(_, key)| key).filter(|key| seen.insert(*key));
        let mut room = AT_RISK_BYTES;
        let told = fresh.take(keys).take_while(|key| {
            let fits = key.len() <= room;
            room = room.saturating_sub(key.len());
            fits
        });
        let named = told.cloned().collect();
        AtRisk { transactions: times.len(), keys: named }
    }

    /// Updates held because some site may still need them.
    pub fn unsettled_updates(&self) -> usize {
        let partitions = self.replica.worker.partitions.iter();
        partitions.flat_map(|partition| partition.committed.values()).map(|log| log.len()).sum()
    }

    /// How many keys this worker holds. Cheap.
    pub fn keys(&self) -> usize {
        self.replica.worker.partitions.iter().map(Partition::key_count).sum()
    }

    /// All keys that this worker holds, in no order.
    pub fn each_key(&self) -> impl Iterator<Item = &Key> {
        self.replica.worker.partitions.iter().flat_map(Partition::each_key)
    }

    /// Approximate bytes that the keys of this worker take. Cheap.
    pub fn bytes(&self) -> usize {
        self.replica.worker.partitions.iter().map(Partition::bytes).sum()
    }

    /// Versions of keys, and the same bytes as they are counted from the keys. Walks all keys.
    pub fn versions_and_bytes(&self) -> (usize, usize) {
        self.replica.worker.partitions.iter().map(Partition::versions_and_bytes).fold(
            (0, 0),
            |(versions, bytes), (more_versions, more_bytes)| {
                (versions + more_versions, bytes + more_bytes)
            },
        )
    }
}
