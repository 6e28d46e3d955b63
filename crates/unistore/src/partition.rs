//! The replica `p_d^m` of one partition: its keys, and its history of every origin.

use std::collections::BTreeSet;
use std::sync::Arc;

use solera_data::{Context, Dot, Effect, Key, Op, OpError, Outcome, State, View, execute};
use solera_machine::PartitionId;
use solera_membership::Members;
use solera_time::{MAX_SITES, Origin, SiteId, Timestamp, Vector};

use crate::by_origin::ByOrigin;
use crate::committed::Committed;
use crate::keys::{Held, Keys};
use crate::message::{Begin, Chunk, Update, Write};
use crate::op_log::OpLog;
use crate::passing::{PassingUpdate, PassingWrite};
use crate::record::{Part, SavedKey};

/// The replica of one partition at one site.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    local: SiteId,
    keys: Keys,
    /// Property 1: all updates to this partition by transactions of site `i` with local timestamps
    /// up to `known_vec[i]` are stored here. The replica maintains the local entry.
    pub(crate) known_vec: Vector,
    /// Time of the latest update of each origin that is stored here. An operation on an eventual
    /// space depends on these updates. `known_vec` covers the same updates, but may contain later
    /// times at which there is no update. If the operation depended on it, the receivers of its
    /// effect would wait for those times.
    pub(crate) arrived: Vector,
    /// `committedCausal`, and the same of strong transactions.
    pub(crate) committed: ByOrigin<Committed>,
    /// `globalMatrix`: the siblings' `knownVec`s, by site (Alg. 2 l. 37–38).
    pub(crate) global_matrix: Vec<Vector>,
    /// Time up to which the history of an origin was sent to a site: `sent[site][origin]`.
    pub(crate) sent: Vec<Vector>,
    /// For each site, the greatest strong timestamp that its sibling had proposed or kept, as last
    /// reported.
    pub(crate) voted: Vec<Timestamp>,
    /// For each site, whether its sibling had this worker's present list of members when it sent
    /// the `knownVec` in `global_matrix`.
    pub(crate) agreed: Vec<bool>,
    /// Time up to which another protocol of the worker has read the history of each origin, if one
    /// reads it. Later updates are kept for it.
    pub(crate) read: Option<Vector>,
    /// Whether the partition has its data; at a joining site it has to be filled first.
    pub(crate) filled: bool,
    /// Summary of the data with which it is being filled, from the first piece of its donor.
    pub(crate) begun: Option<Begin>,
    /// Log of all keys that are not in `keys`: without content, but with the dependencies of keys
    /// that were removed from `keys`.
    absent: OpLog,
}

/// Readers that may still need an update after it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storing {
    /// None: every live and future snapshot contains it, there is no other site, and no other
    /// protocol reads the history.
    Alone,
    /// Other sites. Every live and future snapshot of this site contains it.
    Visible,
    /// Other sites, and snapshots of this site that may not contain it.
    Pending,
    /// The same as `Pending`, for an operation on an eventual space.
    Eventual,
}

/// Result of a transaction of one operation.
#[derive(Debug)]
pub(crate) struct Done {
    /// Outcome for the client.
    pub(crate) result: Result<Outcome, OpError>,
    /// Greatest local timestamp that the outcome depends on.
    pub(crate) dependency: Timestamp,
    /// Dot of the update, if there is one, and the update itself if it is kept.
    pub(crate) stored: Option<(Dot, Option<Arc<Update>>)>,
}

/// Data of a partition that is sent to a joining site.
#[derive(Debug)]
pub(crate) struct HandOver {
    pub(crate) begin: Begin,
    pub(crate) updates: Vec<Arc<Update>>,
    pub(crate) keys: Vec<Key>,
}

/// State of an update at one key in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// The checkpoint does not contain it, because it is newer.
    Missing,
    /// It was stored and not folded.
    Pending,
    /// It is in the base, or settled.
    Folded,
}

/// Mode in which an update of the journal is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restoring {
    /// Every snapshot from now on contains it. It is not settled: later updates in the journal may
    /// not have observed it.
    Visible,
    /// Some snapshots may not contain it.
    Pending,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, local: SiteId, sites: usize, seed: u64) -> Self {
        Partition {
            id,
            local,
            keys: Keys::new(seed),
            known_vec: Vector::zero(sites),
            arrived: Vector::zero(sites),
            committed: ByOrigin::default(),
            global_matrix: vec![Vector::zero(sites); sites],
            sent: vec![Vector::zero(sites); sites],
            voted: vec![Timestamp::ZERO; sites],
            agreed: vec![false; sites],
            read: None,
            filled: true,
            begun: None,
            absent: OpLog::default(),
        }
    }

    /// Reads a version of `key` (Alg. 1 l. 22–24); see [`OpLog::read`]. `eventual`: whether the
    /// read is at level eventual.
    pub(crate) fn read<R>(
        &mut self,
        key: &[u8],
        snap_vec: &Vector,
        eventual: bool,
        own: Option<&Effect>,
        read: impl FnOnce(&View<'_>) -> R,
    ) -> (R, Timestamp) {
        let mut at = self.keys.at(key);
        at.change(|log| log.show(snap_vec, eventual, self.local));
        let log = at.found().map_or(&self.absent, |(_, log)| log);
        log.read(snap_vec, own, self.local, read)
    }

    /// Reads a version of `key` without preparing for later reads.
    pub(crate) fn peek<R>(
        &self,
        key: &[u8],
        snap_vec: &Vector,
        read: impl FnOnce(&View<'_>) -> R,
    ) -> R {
        self.keys.get(key).unwrap_or(&self.absent).read(snap_vec, None, self.local, read).0
    }

    /// Returns the updates of a key that are not in its base.
    pub(crate) fn pending(&self, key: &[u8]) -> impl Iterator<Item = &Update> {
        self.keys.get(key).into_iter().flat_map(OpLog::pending)
    }

    /// Stores a committed update: each write in its key's log, the update in `committedCausal`
    /// (Alg. 1 l. 46–48, Alg. 2 l. 12–14).
    pub(crate) fn store(&mut self, update: Arc<Update>) {
        self.store_of(update, |_| true);
    }

    /// Stores a committed update, except its writes to keys of other partitions.
    pub(crate) fn store_of(&mut self, update: Arc<Update>, own: impl Fn(&Key) -> bool) {
        for (i, write) in update.writes.iter().enumerate().filter(|(_, write)| own(&write.key)) {
            self.change_log(&write.key, |log| log.append(update.clone(), i as u32));
        }
        self.arrived.raise(update.dot.origin, update.dot.ts);
        self.committed[update.dot.origin].insert(update);
    }

    /// Stores a local update that every live and future snapshot contains. Its effects are applied
    /// to the bases of keys without pending updates.
    pub(crate) fn store_visible(&mut self, update: Arc<Update>) {
        for (i, write) in update.writes.iter().enumerate() {
            self.change_log(&write.key, |log| {
                if log.is_folded() {
                    log.fold_now(&write.effect, update.context());
                } else {
                    log.append(update.clone(), i as u32);
                }
            });
        }
        self.arrived.raise(update.dot.origin, update.dot.ts);
        self.committed[update.dot.origin].insert(update);
    }

    /// Executes a transaction of one operation with a single lookup of its key. Reads the version
    /// at `snap_vec` and stores the operation's effect, with the dot that `new_dot` returns. If
    /// there is a journal, `passing` receives an update that is not kept.
    #[expect(
        clippy::too_many_arguments,
        reason = "an operation, its snapshot, and parameters for storing its effect"
    )]
    pub(crate) fn execute(
        &mut self,
        key: &[u8],
        op: &Op,
        snap_vec: &Vector,
        storing: Storing,
        passing: Option<impl FnOnce(PassingUpdate<'_>)>,
        new_dot: impl FnOnce() -> Dot,
    ) -> Done {
        let absent = &self.absent;
        let mut at = self.keys.at(key);
        let eventual = storing == Storing::Eventual;
        at.change(|log| log.show(snap_vec, eventual, self.local));
        let log = at.found().map_or(absent, |(_, log)| log);
        let (executed, dependency) = log.read(snap_vec, None, self.local, |view| execute(op, view));
        let (outcome, effect) = match executed {
            Ok((outcome, Some(effect))) => (outcome, effect),
            Ok((outcome, None)) => return Done { result: Ok(outcome), dependency, stored: None },
            Err(error) => return Done { result: Err(error), dependency, stored: None },
        };
        let dot = new_dot();
        let context = Context { dot, observed: snap_vec };
        let is_folded = at.found().is_none_or(|(_, log)| log.is_folded());
        if storing == Storing::Alone && is_folded {
            let empty = at.change(|log| {
                log.fold_now(&effect, context);
                log.settle(&effect, dot);
                log.is_empty()
            });
            if let Some(empty) = empty {
                if let (Some(passing), Some((key, _))) = (passing, at.found()) {
                    let writes = &[PassingWrite { key, effect: &effect }];
                    passing(PassingUpdate { dot, snap_vec, writes, eventual: false });
                }
                if empty {
                    self.forget(key);
                }
                return Done { result: Ok(outcome), dependency, stored: Some((dot, None)) };
            }
        }
        let key = at.found().map_or_else(|| Key::from(key), |(key, _)| key.clone());
        let writes = vec![Write { key, effect }];
        let eventual = storing == Storing::Eventual;
        let update = Arc::new(Update { dot, snap_vec: *snap_vec, writes, eventual });
        let visible = matches!(storing, Storing::Alone | Storing::Visible);
        at.change_or_insert(
            || OpLog::after(absent),
            |log| {
                if visible && log.is_folded() {
                    log.fold_now(&update.writes[0].effect, context);
                } else {
                    log.append(update.clone(), 0);
                }
            },
        );
        self.arrived.raise(dot.origin, dot.ts);
        self.committed[dot.origin].insert(update.clone());
        Done { result: Ok(outcome), dependency, stored: Some((dot, Some(update))) }
    }

    /// Returns the summary of the partition for a checkpoint.
    pub(crate) fn summary(&self) -> Part {
        Part::Partition {
            partition: self.id,
            arrived: self.arrived,
            absent: self.absent.base_local(),
            forgotten: self.forgotten(),
            known_vec: self.known_vec,
        }
    }

    fn sites(&self) -> usize {
        self.global_matrix.len()
    }

    /// Returns, for each origin, the time up to which updates were forgotten.
    fn forgotten(&self) -> Vector {
        let mut forgotten = Vector::zero(self.sites());
        let some = self.committed.iter().filter(|(_, c)| c.forgotten() > Timestamp::ZERO);
        for (origin, committed) in some {
            forgotten[origin] = committed.forgotten();
        }
        forgotten
    }

    /// Returns the updates and keys that a checkpoint has to store.
    pub(crate) fn to_save(&self) -> (Vec<Arc<Update>>, Vec<Key>) {
        let updates = self.committed.values().flat_map(Committed::iter).cloned().collect();
        (updates, self.keys.names().cloned().collect())
    }

    /// Returns the versions of a key for a checkpoint. They are also stored for a key that is
    /// absent, so that earlier updates are not applied to it again.
    pub(crate) fn save(&self, key: &Key) -> SavedKey {
        self.keys.get(key).unwrap_or(&self.absent).save(key.clone())
    }

    /// Restores `knownVec` of other sites from before a restart.
    pub(crate) fn restore_known(&mut self, known_vec: &Vector) {
        self.known_vec.join(&known_vec.with(self.local, Timestamp::ZERO));
    }

    /// Restores the summary that [`Self::summary`] returned.
    pub(crate) fn restore_summary(
        &mut self,
        arrived: &Vector,
        absent: Timestamp,
        forgotten: &Vector,
    ) {
        self.absent = OpLog::restore(State::new(), absent);
        self.note_arrived(arrived);
        for (origin, committed) in self.committed.iter_mut() {
            committed.restore_forgotten(forgotten[origin]);
        }
    }

    /// Restores an update of a checkpoint. The keys of the checkpoint determine whether it is
    /// folded.
    pub(crate) fn restore_committed(&mut self, update: Arc<Update>) {
        self.committed[update.dot.origin].insert(update);
    }

    /// Reserves space for `count` keys, because a table that grows step by step is copied each
    /// time.
    pub(crate) fn expect_keys(&mut self, count: usize) {
        self.keys.reserve(count);
    }

    /// Restores a key of a checkpoint. Returns its pending updates that are not in the checkpoint's
    /// `committedCausal`: they came later and will be replayed.
    pub(crate) fn restore_key(&mut self, saved: SavedKey) -> Option<(Key, Vec<Dot>)> {
        let mut log = OpLog::restore(saved.base, saved.base_local);
        let mut unresolved = Vec::new();
        for dot in saved.pending {
            let update = self.committed[dot.origin].get(dot.ts);
            let write = update.and_then(|update| {
                let of_key = update.writes.iter().position(|write| write.key == saved.key)?;
                Some((update.clone(), of_key as u32))
            });
            match write {
                Some((update, write)) => log.append(update, write),
                None => unresolved.push(dot),
            }
        }
        let incomplete = (!unresolved.is_empty()).then(|| (saved.key.clone(), unresolved));
        if log.is_empty() && incomplete.is_none() {
            self.absent.inherit(&log);
        } else {
            self.keys.insert(saved.key, log);
        }
        incomplete
    }

    /// Restores an update of the journal. `restored` returns the state of the update at a key in
    /// the checkpoint.
    pub(crate) fn restore_update(
        &mut self,
        update: Arc<Update>,
        restoring: Restoring,
        mut restored: impl FnMut(&Key) -> Restored,
    ) {
        for (i, write) in update.writes.iter().enumerate() {
            let restored = restored(&write.key);
            if restored == Restored::Folded {
                continue;
            }
            let visible = restored == Restored::Missing && restoring != Restoring::Pending;
            let empty = self.change_log(&write.key, |log| {
                if visible && log.is_folded() {
                    log.fold_now(&write.effect, update.context());
                } else {
                    log.append(update.clone(), i as u32);
                }
                log.is_empty()
            });
            if empty {
                self.forget(&write.key);
            }
        }
        let Dot { ts, origin } = update.dot;
        self.note_arrived(&Vector::zero(self.sites()).with(origin, ts));
        if self.committed[origin].get(ts).is_none() {
            self.committed[origin].insert(update);
        }
    }

    /// Notes that all updates of other sites up to `arrived` are stored again (Property 1). Leaves
    /// the local entry of `known_vec`: a local transaction with a smaller time may still be
    /// prepared.
    fn note_arrived(&mut self, arrived: &Vector) {
        self.arrived.join(arrived);
        self.restore_known(arrived);
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(forgotten) = self.keys.remove(key) {
            self.absent.inherit(&forgotten);
        }
    }

    /// Forwards again the part of an origin's history that a site is not known to have. If a
    /// forwarded range was lost, the receiver cannot detect the gap, because no further range
    /// follows it.
    pub(crate) fn forward_again(&mut self, dest: SiteId, origin: Origin) {
        self.sent[dest.index()][origin] = self.global_matrix[dest.index()][origin];
    }

    /// Returns the time up to which all strong transactions are folded.
    pub(crate) fn strong_folded(&self) -> Timestamp {
        let first = self.committed[Origin::Strong].unfolded().next();
        first.map_or(self.known_vec.strong, |update| update.dot.ts.just_below())
    }

    /// Folds the updates within `floor` and forgets those within `settled`.
    pub(crate) fn collect(&mut self, floor: &Vector, settled: &Vector) {
        let mut settled = *settled;
        if let Some(read) = &self.read {
            settled.meet(read);
        }
        let settled = &settled;
        for origin in Origin::all(MAX_SITES) {
            while let Some(update) = self.committed[origin].next_to_fold(floor) {
                for write in &update.writes {
                    self.update_log(&write.key, |log, local| log.fold(floor, local));
                }
            }
        }
        // Settle last: folding a removal requires that the state it removes is not settled yet.
        for origin in Origin::all(MAX_SITES) {
            while let Some(update) = self.committed[origin].next_settled(settled) {
                for write in &update.writes {
                    // An update outside the floor keeps `next_to_fold` from later updates of its
                    // origin, but `settled` assumes that these are folded.
                    self.update_log(&write.key, |log, local| {
                        log.fold(floor, local);
                        log.settle(&write.effect, update.dot);
                    });
                }
            }
        }
    }

    /// Drops the causal transactions of a site after the cut when its generation has ended. No
    /// snapshot has shown them.
    pub(crate) fn drop_causal_after(&mut self, site: SiteId, cut: Timestamp) {
        for update in self.committed[site].drop_causal_after(cut) {
            for write in &update.writes {
                self.update_log(&write.key, |log, _| log.discard(update.dot));
            }
        }
    }

    /// Notes that all transactions of a site up to `end` are stored. Every site knows this, so an
    /// operation on an eventual space may depend on it as well.
    pub(crate) fn note_complete(&mut self, site: SiteId, end: Timestamp) {
        self.known_vec.raise(site, end);
        self.arrived.raise(site, end);
    }

    /// Returns the latest time of `site` on which a strong update, or an update of another site's
    /// former generation, depends. It is possible that no member has the transaction with this
    /// time: only that generation, or a site that has lost the transaction since, may have had it.
    pub(crate) fn latest_named(&self, site: SiteId, members: &Members) -> Timestamp {
        let others = Origin::all(self.sites()).filter(|origin| *origin != Origin::Site(site));
        let named = others.flat_map(|origin| {
            let end = match origin {
                Origin::Site(other) if members.is_member(other) => {
                    members.gaps(other).last().map_or(Timestamp::ZERO, |gap| gap.end)
                }
                Origin::Site(_) | Origin::Strong => Timestamp::MAX,
            };
            self.committed[origin].iter().take_while(move |update| update.dot.ts <= end)
        });
        named.map(|update| update.snap_vec[site]).max().unwrap_or(Timestamp::ZERO)
    }

    /// Clears the state of a site that begins a new generation.
    pub(crate) fn begin_generation(&mut self, site: SiteId) {
        let nothing = Vector::zero(self.sites());
        self.global_matrix[site.index()] = nothing;
        self.sent[site.index()] = nothing;
    }

    /// Removes all data, so that the partition can be filled again.
    pub(crate) fn empty(&mut self) {
        let sites = self.sites();
        self.keys.clear();
        (self.filled, self.begun) = (false, None);
        self.known_vec = Vector::zero(sites);
        self.arrived = Vector::zero(sites);
        self.committed = ByOrigin::default();
        self.absent = OpLog::default();
    }

    /// Returns the data to send to a joining site: a summary, all updates that are not settled, and
    /// the names of all keys.
    pub(crate) fn hand_over(&self, snapshot: Vector) -> HandOver {
        let (mut updates, keys) = self.to_save();
        // Local updates may have later times than `knownVec`. Replication sends these.
        updates.retain(|update| update.dot.ts <= self.known_vec[update.dot.origin]);
        let mut arrived = self.arrived;
        arrived.meet(&self.known_vec);
        let begin = Begin {
            snapshot,
            known_vec: self.known_vec,
            arrived,
            forgotten: self.forgotten(),
            items: 1 + (updates.len() + keys.len()) as u64,
        };
        HandOver { begin, updates, keys }
    }

    /// Returns the state of a key in a snapshot. Updates outside the snapshot must not be folded.
    pub(crate) fn state_within(&self, key: &Key, snapshot: &Vector) -> State {
        self.keys.get(key).map_or_else(State::new, |log| log.state_within(snapshot))
    }

    /// Returns whether the updates in a donor's piece are all different, and none is stored here.
    pub(crate) fn lacks_all(&self, chunk: &Chunk) -> bool {
        let Chunk::Updates(updates) = chunk else { return true };
        let mut dots = BTreeSet::new();
        updates
            .iter()
            .map(|update| update.dot)
            .all(|dot| dots.insert(dot) && self.committed[dot.origin].lacks(dot.ts))
    }

    /// Stores an update of a donor. If it is within the snapshot, the keys that follow contain it.
    pub(crate) fn take_update(&mut self, update: Arc<Update>, snapshot: &Vector) {
        if update.within(snapshot) {
            self.committed[update.dot.origin].insert(update);
        } else {
            self.store(update);
        }
    }

    /// Stores a key of a donor, or a part of one.
    pub(crate) fn take_key(&mut self, key: &Key, state: State) {
        self.change_log(key, |log| log.begin_with(state));
        // Removes the key if the snapshot does not show it and no other update changes it.
        self.update_log(key, |_, _| {});
    }

    /// Completes the filling of the partition. All items of the donor must be stored.
    pub(crate) fn finish_filling(&mut self, begin: &Begin) {
        (self.filled, self.begun) = (true, None);
        self.note_arrived(&begin.known_vec);
        self.arrived = begin.arrived;
        for (origin, committed) in self.committed.iter_mut() {
            committed.restore_forgotten(begin.forgotten[origin]);
        }
    }

    /// Returns the number of keys with a log, including those that are absent in a snapshot.
    pub(crate) fn key_count(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn each_key(&self) -> impl Iterator<Item = &Key> {
        self.keys.names()
    }

    /// Returns the number of keys that exist in a snapshot. Reads only keys with updates that are
    /// not folded.
    pub(crate) fn keys_within(&self, snap_vec: &Vector) -> usize {
        let unfolded: BTreeSet<&Key> = self
            .committed
            .values()
            .flat_map(Committed::unfolded)
            .flat_map(|update| update.writes.iter().map(|write| &write.key))
            .filter(|key| self.keys.get(key).is_some())
            .collect();
        let is_absent = |key: &&&Key| {
            let exists = self.peek(key, snap_vec, |view| execute(&Op::Exists, view));
            !matches!(exists, Ok((Outcome::Int(1), _)))
        };
        self.keys.len() - unfolded.iter().filter(is_absent).count()
    }

    /// Returns the number of versions and their approximate size in bytes. Visits all keys.
    pub(crate) fn versions_and_bytes(&self) -> (usize, usize) {
        self.keys.versions_and_bytes()
    }

    /// Returns the approximate size of the versions in bytes, in constant time.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes()
    }

    /// Returns the current size of the keys, and the largest since the last call.
    pub(crate) fn take_held(&mut self) -> Held {
        self.keys.take_held()
    }

    /// Changes the log of a key, which is created if the key is absent.
    fn change_log<R>(&mut self, key: &Key, change: impl FnOnce(&mut OpLog) -> R) -> R {
        self.keys.change_or_insert(key, || OpLog::after(&self.absent), change)
    }

    fn update_log(&mut self, key: &Key, change: impl FnOnce(&mut OpLog, SiteId)) {
        let empty = self.keys.change(key, |log| {
            change(log, self.local);
            log.is_empty()
        });
        if empty == Some(true) {
            self.forget(key);
        }
    }
}

/// Groups a transaction's writes by a function of their keys, in the order of first occurrence.
pub(crate) fn group_by<G: PartialEq + Copy>(
    writes: Vec<Write>,
    group_of: impl Fn(&Key) -> G,
) -> Vec<(G, Vec<Write>)> {
    let mut groups: Vec<(G, Vec<Write>)> = Vec::new();
    for write in writes {
        let group = group_of(&write.key);
        match groups.iter_mut().find(|(other, _)| *other == group) {
            Some((_, writes)) => writes.push(write),
            None => groups.push((group, vec![write])),
        }
    }
    groups
}
