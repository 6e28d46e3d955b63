//! Moves of homes: agreement, handover of data, and the table of homes that workers exchange.
//!
//! A move is agreed on by a strong transaction of UniStore, which writes it under the next number.
//! Every worker carries out all moves in the order of their numbers. The former home of a shard
//! then prepares no further transaction in the shard. It hands the data over when all of its
//! transactions in the shard are decided. The new home puts the data into its stream, where
//! replicas find it. Until a replica has the data, its copy of the shard counts as stale.
//!
//! A forced move does not involve the former home. The new home collects the data of all other
//! copies instead. Writes that no such copy has are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use solera_data::Key;
use solera_machine::{Address, AskId, Now, RequestId};
use solera_membership::SiteStatus;
use solera_time::{Monotonic, SiteId};

use super::Occult;
use crate::command::Response;
use crate::message::{
    Answer, Body, Entry, Handover, HandoverRequest, Output, Question, Table, Takeover,
};
use crate::record::Record;
use crate::shard::{HomeChange, Move, ShardId, Stamp};

/// Number of shards whose data a worker requests at a time.
const WINDOW: usize = 64;
/// Time after which a worker proposes a move again that the sites have not agreed on.
const PROPOSE_AGAIN: Duration = Duration::from_secs(1);
/// Number of keys in a part of a shard's data.
const PART_KEYS: usize = 256;

/// The data of a shard that arrives at its new home.
#[derive(Debug)]
struct Arrival {
    from: SiteId,
    forced: bool,
    /// The copies that have not sent everything yet, and the last key that each has sent.
    waiting: BTreeMap<Address, Option<Key>>,
    /// The greatest stamp of the copies that have sent everything.
    last: Stamp,
    /// Time of the last request.
    asked: Option<Monotonic>,
}

/// A move on which the sites are to agree.
#[derive(Debug)]
struct Proposal {
    /// The client's request; `None` if the worker itself proposes the move.
    request: Option<RequestId>,
    next: Move,
    /// Number under which it was last proposed.
    number: u64,
    ask: AskId,
}

/// The state of moves at one worker.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// All moves that are carried out.
    moves: Vec<Move>,
    /// Whether the worker knows the table. A worker of a site that joins has to learn it.
    known: bool,
    /// For moves of shards whose data has not arrived here yet, by shard and number: the shardstamp
    /// of the copy here when the move was carried out.
    shown: BTreeMap<(ShardId, u64), Stamp>,
    /// The arrivals for which requests are in progress, at most [`WINDOW`].
    requested: BTreeSet<(ShardId, u64)>,
    /// The arrival after which the next one is requested.
    requested_last: Option<(ShardId, u64)>,
    /// Arrivals by shard and number of the move.
    arriving: BTreeMap<(ShardId, u64), Arrival>,
    proposals: Vec<Proposal>,
    next_ask: u64,
    /// Time when the table was last requested or sent to all.
    asked: Option<Monotonic>,
    /// Time when this worker last proposed a move itself.
    proposed: Option<Monotonic>,
    /// The number of moves that each other worker had carried out when it sent the last message.
    epochs: BTreeMap<Address, u64>,
    /// Number of times that the table is still to be sent to all workers.
    announcements: u32,
}

impl Moving {
    pub(super) fn new(knows_table: bool) -> Moving {
        Moving { known: knows_table, ..Moving::default() }
    }

    /// Returns whether the table is missing, or an arrival or announcement is in progress.
    pub(super) fn is_busy(&self) -> bool {
        !self.known || !self.arriving.is_empty() || self.announcements > 0
    }

    pub(super) fn knows_table(&self) -> bool {
        self.known
    }
}

impl Occult {
    /// Returns the number of shards whose data is on its way to this worker, their new home.
    pub fn arriving(&self) -> usize {
        self.moving.arriving.len()
    }

    /// Returns the shards whose data does not arrive without this site, which is their former home.
    pub fn arriving_from(&self, site: SiteId) -> Vec<ShardId> {
        let open = self.moving.arriving.iter();
        let open = open.filter(|(_, arrival)| arrival.from == site && !arrival.forced);
        open.map(|((shard, _), _)| *shard).collect()
    }

    /// Returns whether a session with this past may depend on writes that were lost since. The
    /// session had this past when `epoch` moves were carried out.
    pub fn has_lost(&self, past: &crate::timestamp::CausalTimestamp, epoch: u64) -> bool {
        epoch < self.homes.epoch() && past.has_lost(&self.homes, epoch)
    }

    /// Notes how many moves another worker has carried out.
    pub(super) fn note_epoch(&mut self, of: Address, epoch: u64) {
        if epoch > 0 {
            let known = self.moving.epochs.entry(of).or_default();
            *known = epoch.max(*known);
        }
    }

    /// Replies how far the moves are carried out, and requests the table from workers that may have
    /// newer data.
    pub(super) fn on_moves(&mut self, request: RequestId) {
        let epoch = self.homes.epoch();
        let known = |worker: &Address| self.moving.epochs.get(worker).copied().unwrap_or_default();
        let mut behind = self.all_others();
        behind.retain(|worker| known(worker) < epoch);
        let arriving = self.homes.arriving();
        for worker in behind.iter().copied() {
            self.out.send(worker, Body::Table(Box::new(self.table())));
        }
        let asked = match arriving {
            0 => behind.clone(),
            // While this worker was away, some home may have announced that it has taken shards
            // over.
            _ => self.all_others(),
        };
        for worker in asked {
            self.out.send(worker, Body::TableRequest);
        }
        self.out.reply(request, Response::Moves { arriving, behind });
    }

    /// Returns the table of homes.
    pub(super) fn table(&self) -> Table {
        Table {
            founders: self.config.founders as u8,
            moves: self.moving.moves.clone(),
            lasts: self.homes.lasts().into_iter().collect(),
        }
    }

    /// Proposes a move for a client.
    pub(super) fn propose(&mut self, request: Option<RequestId>, next: Move) {
        let number = self.homes.epoch() + 1;
        let ask = self.next_ask();
        let question = Question::Propose { number, next: next.clone() };
        self.moving.proposals.push(Proposal { request, next, number, ask });
        self.outputs.push_back(Output::Ask { ask, question });
    }

    fn next_ask(&mut self) -> AskId {
        self.moving.next_ask += 1;
        AskId(self.moving.next_ask)
    }

    /// Takes UniStore's answer to a question about a proposal.
    pub(super) fn on_answer(&mut self, now: Now, ask: AskId, answer: Answer) {
        let found = self.moving.proposals.iter().position(|proposal| proposal.ask == ask);
        let Some(at) = found else { return };
        let proposal = self.moving.proposals.remove(at);
        let (response, agreed) = match answer {
            Answer::Agreed => (Response::Moving, Some(proposal.next)),
            Answer::Other(other) => {
                // Another move has this number. It comes first.
                self.learn_move(now, proposal.number, other);
                return self.propose(proposal.request, proposal.next);
            }
            Answer::Failed(reason) => (Response::NotMoved(reason), None),
        };
        if let Some(next) = agreed {
            self.learn_move(now, proposal.number, next);
        }
        if let Some(request) = proposal.request {
            self.out.reply(request, response);
        }
    }

    fn learn_move(&mut self, now: Now, number: u64, next: Move) {
        if number == self.homes.epoch() + 1 {
            let mut table = self.table();
            table.moves.push(next);
            self.learn(now, table);
        }
    }

    /// Learns moves from a table.
    pub(super) fn learn(&mut self, now: Now, table: Table) {
        let is_newer = table.moves.len() > self.moving.moves.len() || !self.moving.known;
        if is_newer {
            self.record(Record::Table(Box::new(table.clone())));
        }
        if self.apply_table(now, &table) || is_newer {
            self.moving.announcements = 3;
        }
    }

    /// Carries out the moves of a table that are new here. Returns whether the table has news about
    /// the last writes of former homes.
    pub(crate) fn apply_table(&mut self, now: Now, table: &Table) -> bool {
        if !self.moving.known {
            self.config.founders = usize::from(table.founders);
            self.homes = self.config.first_homes();
            self.moving.known = true;
        }
        for next in table.moves.iter().skip(self.moving.moves.len()) {
            self.carry_out(now, next.clone());
        }
        let mut is_new = false;
        for (shard, number, last) in &table.lasts {
            is_new |= self.homes.note_last(*shard, *number, *last);
        }
        is_new
    }

    fn carry_out(&mut self, now: Now, next: Move) {
        let changed = self.homes.carry_out(&next);
        let forced = next.forced;
        self.moving.moves.push(next);
        self.passed.clear();
        self.home.forget_reports();
        self.replica.forget_progress();
        let me = self.config.address;
        self.moving.shown.retain(|(shard, number), _| self.store.taken_by(*shard) < *number);
        for (shard, _) in &changed {
            if self.config.is_mine(*shard)
                && let Some((change, before)) = self.homes.last_change(*shard)
            {
                self.store.note_moved(*shard, change.number);
                let home = self.config.owner(before, *shard);
                if home != me {
                    let shown = self.replica.shown_by(home, *shard);
                    self.moving.shown.insert((*shard, change.number), shown);
                }
                if change.to == me.site {
                    self.begin_arrival(*shard, change);
                } else if forced && change.from == me.site {
                    self.with_home(now, |it, context| it.drop_shard(context, *shard));
                }
            }
        }
        if forced {
            // The data comes from all copies now, whatever earlier moves wait for.
            let number = self.homes.epoch();
            let taken: BTreeSet<ShardId> = changed.iter().map(|(shard, _)| *shard).collect();
            let open = &mut self.moving.arriving;
            open.retain(|(shard, before), _| *before == number || !taken.contains(shard));
            self.with_gateway(now, |it, context| it.on_forced(context, &changed));
        }
    }

    /// Begins to collect the data of a shard of which this worker is the new home.
    fn begin_arrival(&mut self, shard: ShardId, change: HomeChange) {
        let HomeChange { number, from, forced, .. } = change;
        let copies = match forced {
            false => vec![from],
            true => self.members.members().filter(|site| *site != from).collect(),
        };
        let me = self.config.address;
        let copies = copies.into_iter().filter(|site| *site != me.site);
        let waiting = copies.map(|site| (self.config.owner(site, shard), None)).collect();
        let arrival = Arrival { from, forced, waiting, last: Stamp::ZERO, asked: None };
        self.moving.arriving.insert((shard, number), arrival);
    }

    /// Begins the arrivals that were in progress before a restart.
    pub(crate) fn resume_arrivals(&mut self) {
        // The records of the moves have begun arrivals that later records have completed.
        self.moving.arriving.clear();
        let me = self.config.address;
        let mine = ShardId::all(self.config.shards).filter(|shard| self.config.is_mine(*shard));
        let open: Vec<(ShardId, HomeChange)> = mine
            .flat_map(|shard| {
                let taken = self.store.taken_by(shard);
                let changes = self.homes.changes(shard);
                // A forced move replaces the arrivals for which earlier moves wait.
                let forced = changes.iter().rposition(|change| change.forced).unwrap_or(0);
                let open = changes[forced..].iter();
                let open = open.filter(move |change| change.number > taken && change.to == me.site);
                open.map(move |change| (shard, *change))
            })
            .collect();
        for (shard, change) in open {
            self.begin_arrival(shard, change);
        }
    }

    /// Sends requests for data, and the table to workers that may not know it.
    pub(super) fn keep_moving(&mut self, now: Now) {
        let (at, retry) = (now.monotonic, self.config.timing.retry);
        let due = self.moving.asked.is_none_or(|asked| at.since(asked) >= retry);
        if due && !self.moving.known {
            self.moving.asked = Some(at);
            for to in self.all_others() {
                self.out.send(to, Body::TableRequest);
            }
        }
        if due && self.moving.known && self.moving.announcements > 0 {
            self.moving.asked = Some(at);
            self.moving.announcements -= 1;
            let table = self.table();
            for to in self.all_others() {
                self.out.send(to, Body::Table(Box::new(table.clone())));
            }
        }
        if due && self.moving.announcements == 0 && !self.homes.undecided().is_empty() {
            self.moving.asked = Some(at);
            let me = self.config.address;
            let undecided = self.homes.undecided().iter();
            let homes = undecided.map(|shard| self.config.owner(self.homes.home(*shard), *shard));
            // A worker that was restarted or cut off has missed the announcements of new homes.
            for home in homes.filter(|home| *home != me).collect::<BTreeSet<Address>>() {
                self.out.send(home, Body::TableRequest);
            }
        }
        self.move_from_removed(now);
        self.request_data(now);
    }

    /// Returns all other workers of the sites that store the data.
    fn all_others(&self) -> Vec<Address> {
        let sites: BTreeSet<SiteId> = self.members.members_and_joining().collect();
        let all = self.config.topology.all_workers();
        let me = self.config.address;
        all.filter(|worker| *worker != me && sites.contains(&worker.site)).collect()
    }

    fn request_data(&mut self, now: Now) {
        let retry = self.config.timing.retry;
        let Moving { arriving, requested, requested_last, .. } = &mut self.moving;
        let is_under_way = |key: &(ShardId, u64)| {
            let asked = arriving.get(key).and_then(|arrival| arrival.asked);
            asked.is_some_and(|asked| now.monotonic.since(asked) < retry)
        };
        requested.retain(is_under_way);
        let mut complete = Vec::new();
        // Arrivals are requested in turn, so that those which wait for a lost site delay no others.
        for _ in 0..arriving.len() {
            if requested.len() >= WINDOW {
                break;
            }
            let after = requested_last.map_or(Bound::Unbounded, Bound::Excluded);
            let next = arriving.range((after, Bound::Unbounded)).next();
            let Some(key) = next.or_else(|| arriving.iter().next()).map(|(key, _)| *key) else {
                break;
            };
            *requested_last = Some(key);
            let Some(arrival) = arriving.get_mut(&key).filter(|_| !requested.contains(&key)) else {
                continue;
            };
            if arrival.forced {
                // A copy at a site that has left meanwhile does not answer.
                arrival.waiting.retain(|worker, _| self.members.is_member(worker.site));
            }
            if arrival.waiting.is_empty() {
                complete.push(key);
                continue;
            }
            arrival.asked = Some(now.monotonic);
            requested.insert(key);
            for (to, after) in &arrival.waiting {
                let request = HandoverRequest { shard: key.0, number: key.1, after: after.clone() };
                self.out.send(*to, Body::HandoverRequest(request));
            }
        }
        for (shard, number) in complete {
            self.complete_arrival(now, shard, number);
        }
    }

    /// Returns a stamp up to which this copy has all writes that a shard's homes had shown before a
    /// change. `at` is the index of the change in the shard's changes.
    fn last_here(&self, shard: ShardId, at: usize) -> Stamp {
        let changes = &self.homes.changes(shard)[..at];
        let taken = self.store.taken_by(shard);
        // Finds the first change whose data has not arrived here. Since that move, this copy has
        // ignored all further messages of the home before the move.
        let shown = match changes.iter().find(|change| change.number > taken) {
            Some(left) => self.moving.shown.get(&(shard, left.number)).copied(),
            None => self
                .homes
                .home_before(shard, at)
                .map(|home| self.replica.shown_by(self.config.owner(home, shard), shard)),
        };
        shown.unwrap_or_default().max(self.store.greatest(shard))
    }

    /// A new home requests the data of a shard.
    pub(super) fn on_handover_request(
        &mut self,
        now: Now,
        from: Address,
        request: HandoverRequest,
    ) {
        let HandoverRequest { shard, number, after } = request;
        if self.homes.epoch() < number {
            // The request has overtaken the move.
            return self.out.send(from, Body::TableRequest);
        }
        let changes = self.homes.changes(shard);
        let Some(at) = changes.iter().position(|change| change.number == number) else { return };
        let (change, before) = (changes[at], at.checked_sub(1).map(|at| changes[at].number));
        if change.to != from.site {
            return;
        }
        let was_home = self.homes.home_before(shard, at) == Some(self.config.address.site);
        let has_all = before.is_none_or(|before| self.store.taken_by(shard) >= before);
        // A forced move takes the data that this copy has.
        let is_ready = change.forced || !was_home || has_all;
        if !is_ready || !self.home.is_drained(&self.store, shard) {
            // The new home asks again.
            return;
        }
        self.drop_lost(shard);
        // A home whose data has never arrived has assigned no stamp of the shard.
        let has_served = was_home && has_all;
        let last = match has_served {
            true => self.home.clock(),
            false => self.last_here(shard, at),
        };
        if has_served {
            // No later write may have a stamp that this home has reported as shown.
            self.with_home(now, |it, context| it.report(context, Stamp::ZERO));
        }
        let losses = self.homes.losses(shard);
        let place = after.clone().map(|key| (shard, key));
        let (copies, done) =
            self.store.copies(place.as_ref(), |other| other == shard, Stamp::ZERO, PART_KEYS);
        let is_first = after.is_none();
        let mut decided = Vec::new();
        if is_first {
            decided = self.replica.decisions().within(shard, shard);
            decided.extend(self.home.askable_in(&self.config, (shard, shard)));
        }
        let handover = Handover { shard, number, after, last, copies, decided, losses, done };
        self.out.send(from, Body::Handover(handover));
    }

    /// A part of a shard's data arrives at the new home.
    pub(super) fn on_handover(&mut self, now: Now, from: Address, handover: Handover) {
        let key = (handover.shard, handover.number);
        let Some(arrival) = self.moving.arriving.get(&key) else { return };
        if arrival.waiting.get(&from) != Some(&handover.after) {
            return;
        }
        let stamps = handover.copies.iter().map(|copied| copied.stamp);
        let (greatest, mut is_ahead) = (stamps.fold(handover.last, Stamp::max), false);
        self.with_home(now, |it, context| is_ahead = it.is_too_far_ahead(context, greatest));
        if is_ahead {
            // The data is requested again. This home's clock must not follow such a stamp.
            return;
        }
        self.record(Record::Handover(handover.clone()));
        self.apply_handover(&handover);
        let Some(arrival) = self.moving.arriving.get_mut(&key) else { return };
        arrival.last = handover.last.max(arrival.last);
        if handover.done {
            arrival.waiting.remove(&from);
        } else if let Some(copied) = handover.copies.last() {
            let after = Some(copied.key.clone());
            arrival.waiting.insert(from, after.clone());
            arrival.asked = Some(now.monotonic);
            let request = HandoverRequest { shard: key.0, number: key.1, after };
            self.out.send(from, Body::HandoverRequest(request));
        }
        if arrival.waiting.is_empty() {
            self.complete_arrival(now, key.0, key.1);
        }
        self.request_data(now);
    }

    /// Drops versions of a shard that were lost in forced moves since the data here was written.
    fn drop_lost(&mut self, shard: ShardId) {
        let losses = self.homes.losses(shard);
        self.store.drop_lost(shard, &losses);
    }

    pub(crate) fn apply_handover(&mut self, handover: &Handover) {
        for (number, last) in &handover.losses {
            self.homes.note_last(handover.shard, *number, *last);
        }
        self.drop_lost(handover.shard);
        for copied in &handover.copies {
            self.store.copy(handover.shard, copied.clone());
        }
        self.replica.add_decided(handover.decided.iter().cloned());
    }

    /// Becomes the home of a shard whose data is complete.
    fn complete_arrival(&mut self, now: Now, shard: ShardId, number: u64) {
        let Some(arrival) = self.moving.arriving.remove(&(shard, number)) else { return };
        let Arrival { from, forced, mut last, .. } = arrival;
        // Earlier moves of the shard to this worker need not be completed any more.
        self.moving.arriving.retain(|(other, before), _| *other != shard || *before > number);
        self.drop_lost(shard);
        if forced {
            let changes = self.homes.changes(shard).iter();
            let at = changes.take_while(|change| change.number < number).count();
            last = self.last_here(shard, at).max(last);
        }
        self.record(Record::Took { shard, number, last });
        self.took(now, shard, number, last);
        let parts = self.parts_of(shard, (number, from), last);
        self.with_home(now, |it, context| it.take_over(context, last, parts));
        self.moving.announcements = 3;
    }

    /// Notes that this worker is the home of a shard.
    pub(crate) fn took(&mut self, now: Now, shard: ShardId, number: u64, last: Stamp) {
        self.drop_lost(shard);
        self.store.note_taken(shard, number);
        self.homes.note_last(shard, number, last);
        self.with_home(now, |it, context| it.take_over(context, last, Vec::new()));
    }

    /// Returns the entries of the stream that bring a shard's data to its replicas.
    fn parts_of(&self, shard: ShardId, (number, from): (u64, SiteId), last: Stamp) -> Vec<Entry> {
        let (mut parts, mut place, mut losses) = (Vec::new(), None, self.homes.losses(shard));
        let mut inherited = self.replica.decisions().within(shard, shard);
        loop {
            let of = |other| other == shard;
            let (copies, done) = self.store.copies(place.as_ref(), of, Stamp::ZERO, PART_KEYS);
            place = copies.last().map(|copied| (shard, copied.key.clone()));
            let (losses, decided) = (std::mem::take(&mut losses), std::mem::take(&mut inherited));
            let takeover = Takeover { number, from, last, losses, decided, copies, done };
            parts.push(Entry {
                shard,
                stamp: last,
                writes: Vec::new(),
                decided: Vec::new(),
                takeover: Some(Box::new(takeover)),
            });
            if done {
                return parts;
            }
        }
    }

    /// Proposes moves for sites that are leaving. The first worker of the first member proposes
    /// that the members take over their shards. Each worker proposes to complete the moves that
    /// wait for such a site.
    fn move_from_removed(&mut self, now: Now) {
        let me = self.config.address;
        if !self.moving.known
            || !self.moving.proposals.is_empty()
            || self.moving.proposed.is_some_and(|at| now.monotonic.since(at) < PROPOSE_AGAIN)
        {
            return;
        }
        let is_leaving = |site: &SiteId| {
            matches!(self.members.status(*site), SiteStatus::Leaving | SiteStatus::Gone)
        };
        let sites: Vec<SiteId> = SiteId::all(self.members.sites()).filter(is_leaving).collect();
        for site in sites.iter().copied() {
            let stopped = ranges(self.arriving_from(site).into_iter());
            if !stopped.is_empty() {
                self.moving.proposed = Some(now.monotonic);
                let (from, to) = (Some(site), vec![me.site]);
                let next = Move { shards: stopped, from, to, forced: true };
                return self.propose(None, next);
            }
        }
        if me.worker != 0 || self.members.members().next() != Some(me.site) {
            return;
        }
        let Some(site) = self.homes.sites().find(is_leaving) else { return };
        let shards = ranges(
            ShardId::all(self.config.shards).filter(|shard| self.homes.home(*shard) == site),
        );
        let to: Vec<SiteId> = self.members.members().collect();
        self.moving.proposed = Some(now.monotonic);
        self.propose(None, Move { shards, from: Some(site), to, forced: true });
    }
}

/// Returns the ranges of consecutive shards.
pub fn ranges(shards: impl Iterator<Item = ShardId>) -> Vec<(ShardId, ShardId)> {
    let mut ranges: Vec<(ShardId, ShardId)> = Vec::new();
    for shard in shards {
        match ranges.last_mut() {
            Some((_, last)) if last.0 + 1 == shard.0 => *last = shard,
            _ => ranges.push((shard, shard)),
        }
    }
    ranges
}
