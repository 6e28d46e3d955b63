//! Replication of transactions to other sites (Alg. 2 l. 1–26 and 37–38).

use std::collections::BTreeMap;

use smallvec::smallvec;
use solera_machine::{Address, Now, PartitionId};
use solera_membership::{Gap, Members, SiteStatus};
use solera_time::{Origin, SiteId, Timestamp, Vector};

use crate::committed::{RANGE_LIMIT, TICK_BYTES};
use crate::config::Rule;
use crate::groups::group_of;
use crate::message::{Converged, Event, LogRange, Message, Subtree};
use crate::rare;
use crate::record::{Promise, Record};
use crate::replica::Replica;

/// Time after which a receiver asks again for a gap: about the longest round trip.
const GAP_INTERVAL: std::time::Duration = std::time::Duration::from_millis(250);

impl Replica {
    /// Advances `knownVec[d]` (UniStore Alg. 2 l. 2–3): to the clock, or just below the smallest
    /// prepare time. Later transactions get greater timestamps, because each timestamp is greater
    /// than all earlier readings of the clock.
    pub(crate) fn advance_known_vec(&mut self, now: Now) {
        self.worker.clock.observe(self.worker.dissemination.view.clock);
        let clock = self.worker.clock.read(now.physical);
        let known = match self.participant.smallest_prepare() {
            Some(ts) if self.worker.config.keeps(Rule::KnownVecBelowPrepared) => ts.just_below(),
            _ => clock,
        };
        let me = self.worker.me;
        for partition in &mut self.worker.partitions {
            partition.known_vec.raise(me, known);
        }
    }

    /// PROPAGATE_LOCAL_TXS (UniStore Alg. 2 l. 4–8) to every site, and FORWARD_REMOTE_TXS
    /// (l. 19–22) where another site may have failed before its updates reached all sites (§5.5).
    pub(crate) fn propagate(&mut self, now: Now) {
        let topology = self.worker.config.topology.clone();
        let again = now.monotonic.since(self.forwarded_again) >= GAP_INTERVAL;
        if again {
            self.forwarded_again = now.monotonic;
        }
        let mut behind = false;
        for dest in self.worker.other_members() {
            let mut by_worker: BTreeMap<Address, (usize, Vec<LogRange>)> = BTreeMap::new();
            let (first, partitions) = (self.first_to_send, self.worker.partitions.len());
            for index in (0..partitions).map(|index| (index + first) % partitions) {
                let owner = topology.owner(dest, self.worker.partitions[index].id);
                if self.worker.held_back.contains(&owner) {
                    continue;
                }
                let (budget, ranges) =
                    by_worker.entry(owner).or_insert_with(|| (TICK_BYTES, Vec::new()));
                for origin in Origin::all(topology.sites()) {
                    let (sends, own) = match origin {
                        Origin::Site(site) => (self.sends(dest, site), site == self.worker.me),
                        Origin::Strong => {
                            (self.sends_strong(index, dest), self.leads_strong(index))
                        }
                    };
                    if sends {
                        if again && !own {
                            self.worker.partitions[index].forward_again(dest, origin);
                        }
                        ranges.extend(self.next_range(index, dest, origin, budget));
                    }
                }
            }
            for (owner, (budget, ranges)) in by_worker {
                behind |= budget == 0;
                self.worker.send(owner, Message::Replicate(ranges));
            }
        }
        if behind {
            // Sends the rest soon, and begins with another partition each time, so that no
            // partition is always last.
            self.worker.note_activity(now);
            self.first_to_send += 1;
        }
        if now.monotonic.since(self.known_vec_sent) >= self.worker.config.timing.known_vec_interval
        {
            self.known_vec_sent = now.monotonic;
            self.send_known_vecs();
        }
    }

    /// Returns whether this replica sends `dest` the causal transactions of `site`.
    fn sends(&self, dest: SiteId, site: SiteId) -> bool {
        let forwards = || match self.worker.dissemination.members.status(site) {
            SiteStatus::Member => self.worker.detector.should_forward(dest, site),
            SiteStatus::Leaving => !self.worker.detector.suspects(dest),
            SiteStatus::Gone | SiteStatus::Joining => false,
        };
        site == self.worker.me
            || (site != dest && self.worker.config.keeps(Rule::Forwarding) && forwards())
    }

    /// Returns the next range of the history of `origin` for `dest`: REPLICATE if there are
    /// updates, else HEARTBEAT. `None` if the budget does not allow even the next update.
    fn next_range(
        &mut self,
        index: usize,
        dest: SiteId,
        origin: Origin,
        budget: &mut usize,
    ) -> Option<LogRange> {
        let partition = &mut self.worker.partitions[index];
        let reached = partition.global_matrix[dest.index()][origin];
        let sent = &mut partition.sent[dest.index()][origin];
        // Every site has stored the updates that are forgotten here. A receiver that lacks some of
        // them has lost data. The range begins after them, so that the receiver does not take it
        // for the continuation of its own history.
        *sent = (*sent).max(reached).max(partition.committed[origin].forgotten());
        let prev = *sent;
        let known = partition.known_vec[origin];
        // Sends heartbeats of its own history even while the clock stands still because it has run
        // ahead of the wall clock: without them, a receiver would not notice that it has missed
        // updates.
        let own = match origin {
            Origin::Site(site) => site == self.worker.me,
            Origin::Strong => true,
        };
        if known < prev || (known == prev && !own) {
            return None;
        }
        let history = &partition.committed[origin];
        let (updates, all) = history.range(prev, known, RANGE_LIMIT, budget);
        let known = if all { known } else { updates.last()?.dot.ts };
        *sent = known;
        let partition = partition.id;
        if origin == Origin::Strong && all {
            self.sent_strong(index, dest);
        }
        Some(LogRange { partition, origin, prev, known, updates })
    }

    /// REPLICATE and HEARTBEAT (UniStore Alg. 2 l. 9–18).
    pub(crate) fn on_replicate(&mut self, now: Now, from: Address, ranges: Vec<LogRange>) {
        let own = ranges.iter().filter(|range| range.origin == Origin::Site(from.site));
        if let Some(sent) = own.map(|range| range.known).max() {
            self.hear(from, sent);
        }
        for range in ranges {
            if let Some(index) = self.worker.index_of(range.partition)
                && self.worker.partitions[index].filled
                && range.origin != Origin::Site(self.worker.me)
                && self.worker.is_origin(range.origin)
            {
                self.on_range(now, from, index, range);
            } else {
                self.worker.ignored += 1;
            }
        }
    }

    /// Handles strong transactions that this site's central certifier of REDBLUE has stored.
    pub(crate) fn on_forward_ranges(&mut self, now: Now, from: Address, ranges: Vec<LogRange>) {
        for range in ranges {
            if let Some(index) = self.worker.index_of(range.partition)
                && range.origin == Origin::Strong
            {
                self.on_range(now, from, index, range);
            } else {
                self.worker.ignored += 1;
            }
        }
    }

    fn on_range(&mut self, now: Now, from: Address, index: usize, range: LogRange) {
        let LogRange { origin, prev, known, updates, partition: id } = range;
        let already = self.worker.partitions[index].known_vec[origin];
        match origin {
            Origin::Site(site)
                if self.worker.dissemination.members.status(site) == SiteStatus::Leaving
                    && !self.worker.partitions[index].agreed[from.site.index()] =>
            {
                // The sender did not know of the removal when it sent this range, and may have
                // forgotten the updates since then.
                return self.worker.reach(rare::IGNORES_UNINFORMED);
            }
            Origin::Strong
                if from.site != self.worker.me && known > self.strong.service.horizon(now) =>
            {
                // The range would advance strong time too far, so it is dropped.
                self.strong.from_the_future += 1;
                return;
            }
            Origin::Site(_) | Origin::Strong => {}
        }
        if prev > already {
            self.ask_for_gap(now, from, index, origin, already);
            return;
        }
        if !updates.is_empty() {
            self.worker.note_activity(now);
            self.demand.hurry();
        }
        let mut taken = Vec::new();
        for update in updates {
            // UniStore Alg. 2 l. 11: another site may have forwarded the update before.
            if update.dot.ts > already {
                let dot = update.dot;
                self.demand.want_stored(dot.origin, dot.ts);
                if !update.eventual {
                    self.demand.want(&update.snap_vec);
                }
                self.worker.record(|| Record::Stored(smallvec![(id, update.clone())]));
                match origin {
                    Origin::Site(_) => {
                        self.worker.partitions[index].store(update);
                        self.worker.trace(|| Event::Stored { partition: id, dot });
                    }
                    Origin::Strong => {
                        self.strong.service.stored(group_of(id), &update.commit_vec());
                        taken.push(update.clone());
                        self.store_strong(index, update);
                    }
                }
            }
        }
        self.worker.partitions[index].known_vec.raise(origin, known);
        if known <= already {
            return;
        }
        if self.demand.lacks(origin, already) {
            self.demand.hurry();
        }
        match origin {
            Origin::Site(site) => self.keep_known(index, site),
            Origin::Strong => {
                self.spread(id, already, &taken, known);
                let group = group_of(id);
                self.certifying(now, |replica| replica.strong.service.known(now, group, known));
                self.retry_parked(now);
            }
        }
    }

    /// Records the known time of a leaving site. Other sites rely on it, so it must survive a
    /// restart.
    pub(crate) fn keep_known(&mut self, index: usize, site: SiteId) {
        if self.worker.dissemination.members.status(site) == SiteStatus::Leaving {
            let (id, known) =
                (self.worker.partitions[index].id, self.worker.partitions[index].known_vec[site]);
            self.worker.record(|| Record::Known(id, site, known));
        }
    }

    /// Asks a sibling for missing updates. Links lose messages in transit when they break. A range
    /// names its beginning, so the receiver notices the gap. It asks for the missing part instead
    /// of storing what follows.
    fn ask_for_gap(
        &mut self,
        now: Now,
        from: Address,
        index: usize,
        origin: Origin,
        known: Timestamp,
    ) {
        let asked = &mut self.gap_asked[index][origin];
        if asked.is_none_or(|asked| now.monotonic.since(asked) >= GAP_INTERVAL) {
            *asked = Some(now.monotonic);
            let partition = self.worker.partitions[index].id;
            self.worker.reach(rare::ASKS_FOR_GAP);
            self.worker.send(from, Message::Gap { partition, origin, known });
        }
    }

    /// Handles a sibling's request for the history after `known`, which is sent again at once.
    pub(crate) fn on_gap(
        &mut self,
        now: Now,
        from: Address,
        (partition, origin, known): (PartitionId, Origin, Timestamp),
    ) {
        let site = from.site;
        if site == self.worker.me {
            return self.spread_again(partition, known);
        }
        if let Some(index) = self.worker.index_of(partition)
            && self.worker.is_origin(origin)
        {
            if known < self.worker.partitions[index].committed[origin].forgotten() {
                // Every site has stored the missing updates, or they would not be forgotten here.
                // No site can send them again.
                self.lacking.note(now, from);
                self.worker.trace(|| Event::Lacks { worker: from, partition, origin, known });
            }
            if origin == Origin::Strong {
                self.asked_for_strong(index, site);
            }
            self.demand.hurry();
            let partition = &mut self.worker.partitions[index];
            let sent = &mut partition.sent[site.index()][origin];
            *sent = (*sent).min(known);
            // After a restart, the sibling's `knownVec` may be less than before, because times
            // without updates are not recorded.
            let reached = &mut partition.global_matrix[site.index()][origin];
            *reached = (*reached).min(known);
        }
    }

    fn send_known_vecs(&mut self) {
        let topology = self.worker.config.topology.clone();
        let suspects = self.worker.detector.suspected();
        for dest in self.worker.other_members() {
            let mut by_worker: BTreeMap<Address, Vec<(PartitionId, Vector)>> = BTreeMap::new();
            for partition in &self.worker.partitions {
                let owner = topology.owner(dest, partition.id);
                by_worker.entry(owner).or_default().push((partition.id, partition.known_vec));
            }
            for (owner, known_vecs) in by_worker {
                let suspects = suspects.clone();
                let members = self.worker.dissemination.members.clone();
                let voted = self.strong.service.clock();
                let message = Message::KnownVecGlobal { known_vecs, suspects, members, voted };
                self.worker.send(owner, message);
            }
        }
    }

    /// KNOWNVEC_GLOBAL (UniStore Alg. 2 l. 37–38).
    pub(crate) fn on_known_vec_global(
        &mut self,
        site: SiteId,
        known_vecs: Vec<(PartitionId, Vector)>,
        suspects: Vec<SiteId>,
        members: &Members,
        voted: Timestamp,
    ) {
        self.worker.detector.heard_suspicions(site, suspects);
        let agreed = *members == self.worker.dissemination.members;
        for (partition, known_vec) in known_vecs {
            if let Some(index) = self.worker.index_of(partition) {
                // The vector is usually greater than before, but may be less after a restart.
                self.worker.partitions[index].global_matrix[site.index()] = known_vec;
                self.worker.partitions[index].agreed[site.index()] = agreed;
                self.worker.partitions[index].voted[site.index()] = voted;
            } else {
                self.worker.ignored += 1;
            }
        }
    }

    /// BROADCAST_VECS (UniStore Alg. 2 l. 23–30): sends this worker's part up the tree. The root
    /// sends the site's STABLEVEC to the other roots, and the results down the tree.
    pub(crate) fn broadcast_vecs(&mut self, now: Now) {
        let own = self.own_subtree(now);
        let Some(subtree) = self.worker.dissemination.subtree(own) else { return };
        if let Some(parent) = self.worker.dissemination.parent() {
            self.worker.send(parent, Message::Up(subtree));
            return;
        }
        self.worker.dissemination.note_completed_removals(subtree.settled.clone());
        self.conclude(now, &subtree);
        self.worker.dissemination.on_whole_site(subtree);
        let members = self.worker.dissemination.members.clone();
        let known = self.worker.dissemination.known_members();
        // A site that is not a member yet has no state that other sites need.
        let me = self.worker.me;
        if let Some((stable_vec, floor, ceiling)) = self.worker.dissemination.stable_vec()
            && members.generation(me) == self.worker.config.generation
        {
            for site in members.members_and_joining().filter(|site| *site != me) {
                let (root, members) = (Address { site, worker: 0 }, known.clone());
                let settled = self.worker.dissemination.completed_removals();
                let message = Message::StableVec { stable_vec, floor, ceiling, members, settled };
                self.worker.send(root, message);
            }
        }
        self.send_down();
    }

    /// At the root: completes changes of the member list. A leaving site is removed when all
    /// members have the same part of its history, and this site has joined when all its partitions
    /// are filled.
    fn conclude(&mut self, now: Now, subtree: &Subtree) {
        // A joining site has to confirm the list, too, before it becomes a member.
        let agreed = !self.worker.config.keeps(Rule::GoneWhenConverged)
            || self.worker.dissemination.not_agreed().is_none();
        for Converged { site, generation, gone, least, most, .. } in &subtree.converged {
            let members = &self.worker.dissemination.members;
            if members.generation(*site) != *generation {
                continue;
            }
            let completed = !self.worker.config.keeps(Rule::GoneWhenCompleted)
                || self.worker.dissemination.not_completed((*site, *generation)).is_none();
            let members = match members.status(*site) {
                // The cut is the least time of all partitions, because some partitions may have
                // only a part of the history after it.
                SiteStatus::Leaving if agreed && completed && !gone => {
                    members.closed(*site, Gap { cut: *least, end: *most })
                }
                // Another removed site had more of this site's history. That part is lost together
                // with the other site. The end of the gap must have arrived at a site before the
                // site joins.
                SiteStatus::Gone if *gone => members.ended_at(*site, *most),
                _ => continue,
            };
            self.learn_members(now, &members);
        }
        let members = &self.worker.dissemination.members;
        let joining = members.status(self.worker.me) == SiteStatus::Joining
            && members.generation(self.worker.me) == self.worker.config.generation
            && members.which(SiteStatus::Leaving).next().is_none();
        if joining && subtree.filled {
            let members = members.joined(self.worker.me, self.worker.clock.read(now.physical));
            self.learn_members(now, &members);
        }
    }

    /// Returns the leaving sites whose history no member can extend, because every member has the
    /// same part of it as this worker; and the sites that are removed or join again.
    fn converged(&self) -> Vec<Converged> {
        let members = &self.worker.dissemination.members;
        if members.members().count() == members.sites() {
            return Vec::new();
        }
        let others = self.worker.other_members();
        let same = |site: SiteId| {
            !self.worker.config.keeps(Rule::GoneWhenConverged)
                || self.worker.partitions.iter().all(|partition| {
                    others.iter().all(|other| {
                        partition.agreed[other.index()]
                            && partition.global_matrix[other.index()][site]
                                == partition.known_vec[site]
                    })
                })
        };
        let leaving = members.which(SiteStatus::Leaving).filter(|site| same(*site));
        let gone = SiteId::all(members.sites()).filter(|site| members.open_gap(*site).is_some());
        let converged = leaving.chain(gone).map(|site| {
            let known = || self.worker.partitions.iter().map(|partition| partition.known_vec[site]);
            let named = self.worker.partitions.iter().map(|p| p.latest_named(site, members));
            let mut ceiling = Vector::zero(self.worker.config.topology.sites());
            for partition in &self.worker.partitions {
                for update in partition.committed[site].iter() {
                    ceiling.join(&update.commit_vec());
                }
            }
            let ceiling = self.latest_voted(&others).map(|voted| {
                ceiling.raise(Origin::Strong, voted);
                ceiling
            });
            Converged {
                site,
                generation: members.generation(site),
                gone: members.open_gap(site).is_some(),
                least: known().min().unwrap_or(Timestamp::MAX),
                most: known().chain(named).max().unwrap_or(Timestamp::ZERO),
                ceiling,
            }
        });
        if members.is_member(self.worker.me) { converged.collect() } else { Vec::new() }
    }

    /// Returns an upper bound of the strong timestamps of votes that members may have given to
    /// coordinators whose messages no member accepts any more. `None` until all members have
    /// reported their bounds for the current list of members.
    fn latest_voted(&self, others: &[SiteId]) -> Option<Timestamp> {
        let mut voted = self.strong.service.clock();
        for partition in &self.worker.partitions {
            for other in others {
                if !partition.agreed[other.index()] {
                    return None;
                }
                voted = voted.max(partition.voted[other.index()]);
            }
        }
        Some(voted)
    }

    /// Raises the ceiling so that it covers the strong transactions that this site has submitted in
    /// its former generations and that may still commit.
    fn cover_former_generations(&mut self) {
        if self.former_generations_covered
            || !self.worker.dissemination.members.is_member(self.worker.me)
        {
            return;
        }
        if let Some(voted) = self.latest_voted(&self.worker.other_members()) {
            self.former_ceiling.raise(Origin::Strong, voted);
            self.former_generations_covered = true;
        }
    }

    /// Returns the state of this worker alone: the meet of its partitions' `knownVec`s, and of the
    /// snapshots of its open and future transactions.
    fn own_subtree(&mut self, now: Now) -> Subtree {
        self.cover_former_generations();
        let clock = self.worker.clock.read(now.physical);
        let future = self.worker.dissemination.view.uniform_vec.with(self.worker.me, clock);
        let mut ceiling = future;
        ceiling.raise(Origin::Strong, self.strong.ceiling());
        ceiling.join(&self.former_ceiling);
        let mut strong_clock = Timestamp::ZERO;
        let mut strong_folded = Timestamp::MAX;
        for partition in &self.worker.partitions {
            ceiling.join(&partition.known_vec);
            strong_clock = strong_clock.max(partition.known_vec.strong);
            strong_folded = strong_folded.min(partition.strong_folded());
        }
        let (floor, known_vec, uniform_vec) = if self.worker.config.journal {
            let Promise { floor, known_vec, uniform_vec, .. } = self.promised;
            (floor, known_vec, uniform_vec)
        } else {
            let uniform_vec = self.worker.dissemination.view.uniform_vec;
            (self.floor(future), self.own_known_vec(clock), uniform_vec)
        };
        self.demand.reported = known_vec;
        Subtree {
            known_vec,
            floor,
            ceiling,
            strong_clock,
            strong_folded,
            former_generations_covered: self.former_generations_covered,
            uniform_vec,
            filled: self.worker.is_filled()
                && self.others.as_ref().is_none_or(|others| others.filled),
            base_vec: self.joining.base_vec,
            listed: self.worker.config.topology.sites() as u8,
            converged: self.converged(),
            settled: self.completed_removals(),
        }
    }

    /// Returns the meet of the `knownVec`s of this worker's partitions.
    fn own_known_vec(&self, clock: Timestamp) -> Vector {
        let mut known_vec = Vector::top(self.worker.config.topology.sites());
        for partition in &self.worker.partitions {
            known_vec.meet(&partition.known_vec);
        }
        if self.worker.partitions.is_empty() {
            known_vec[self.worker.me] = clock;
        }
        known_vec
    }

    /// Records a promise if it is due. With a journal, the vectors, floor and clock that this
    /// worker reports must still hold after a restart, so they are recorded first: at once if other
    /// workers wait for them, otherwise periodically.
    pub(crate) fn keep_promises(&mut self, now: Now) {
        if !self.worker.config.journal {
            return;
        }
        let clock = self.worker.clock.read(now.physical);
        let interval = self.worker.config.timing.promise_interval;
        let due = self.promised_at.is_none_or(|at| now.monotonic.since(at) >= interval);
        let wanted = || self.demand.is_served(&self.promised.known_vec, &self.own_known_vec(clock));
        if !due && clock <= self.promised.clock && !wanted() {
            return;
        }
        self.promise(now, clock, clock);
    }

    /// Promises not to restart below `ts`. Must be called before the worker sends a time of its
    /// own, or one derived from it.
    pub(crate) fn promise_past(&mut self, now: Now, ts: Timestamp) {
        if self.worker.config.journal && ts > self.promised.clock {
            let clock = self.worker.clock.read(now.physical);
            self.promise(now, clock, ts);
        }
    }

    /// Records a promise at the time `clock`: the next run will begin after `latest`.
    fn promise(&mut self, now: Now, clock: Timestamp, latest: Timestamp) {
        let future = self.worker.dissemination.view.uniform_vec.with(self.worker.me, clock);
        self.promised.floor.join(&self.floor(future));
        self.promised.known_vec.join(&self.own_known_vec(clock));
        self.promised.uniform_vec.join(&self.worker.dissemination.view.uniform_vec);
        let interval = self.worker.config.timing.promise_interval;
        if latest.later(interval) > self.promised.clock {
            self.promised.clock = latest.later(2 * interval);
        }
        self.promised_at = Some(now.monotonic);
        let promise = self.promised;
        self.worker.record(|| Record::Promised(promise));
        self.record_heard();
    }

    pub(crate) fn send_down(&mut self) {
        let view = self.worker.dissemination.view;
        for child in self.worker.dissemination.children().to_vec() {
            self.worker.send(child, Message::Down(view, self.worker.dissemination.members.clone()));
        }
    }
}
