//! Decisions: commits, aborts, expired prepares, and the removal of their records.

use std::collections::BTreeSet;

use solera_machine::Address;
use solera_time::SiteId;

use super::{Context, Ended, Home};
use crate::config::{Config, Rule};
use crate::message::{Body, ClientId, Commit, DecidedOf, Decision, TransactionId};
use crate::rare;
use crate::record::Record;
use crate::shard::ShardId;

impl Home {
    /// COMMIT at the decision home. The transaction is committed once the decision home has
    /// recorded it.
    pub(crate) fn on_commit(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        (tid, commit): (TransactionId, Box<Commit>),
        participants: Vec<Address>,
    ) {
        let committed = match self.records.get(&tid) {
            // The client asks the present home as well.
            Some(Ended::Taken) => return,
            Some(record) => {
                let committed = matches!(record, Ended::Committed { .. });
                if !committed {
                    context.out.rare(rare::LATE_COMMIT);
                }
                committed
            }
            None if self.prepared.contains_key(&tid) && self.cannot_follow(context, &commit) => {
                self.decide(context, tid, Decision::Abort, Vec::new());
                false
            }
            None if self.prepared.contains_key(&tid) => {
                self.decide(context, tid, Decision::Commit(commit), participants);
                if let Some(record) = self.records.get_mut(&tid) {
                    send_decision(context, tid, record);
                }
                true
            }
            // The prepare has expired. Its record was removed when the client sent nothing more
            // about it.
            None => false,
        };
        context.out.send(from, Body::Outcome(tid, committed));
    }

    /// Returns whether the commit has a stamp here that no correct clock can have produced.
    fn cannot_follow(&self, context: &Context<'_>, commit: &Commit) -> bool {
        let stamp = commit.stamp_at(context.site());
        stamp.is_some_and(|stamp| self.is_too_far_ahead(context, stamp))
    }

    /// Records a decision of this home, and carries it out here.
    fn decide(
        &mut self,
        context: &mut Context<'_>,
        tid: TransactionId,
        decision: Decision,
        participants: Vec<Address>,
    ) {
        let shard = self.prepared.get(&tid).map(|prepared| prepared.decision_shard);
        context.out.record(Record::Decided(tid, decision.clone(), participants.clone(), shard));
        self.note_decided(context, (tid, shard), decision, participants);
    }

    pub(super) fn note_decided(
        &mut self,
        context: &mut Context<'_>,
        (tid, shard): (TransactionId, Option<ShardId>),
        decision: Decision,
        participants: Vec<Address>,
    ) {
        let ended = match decision {
            Decision::Commit(commit) => {
                // A checkpoint has decisions about shown writes as well.
                let place = shard.zip(commit.stamp_at(context.site()));
                let place = place.filter(|_| self.prepared.contains_key(&tid));
                if let Some(place) = place {
                    self.decided.entry(place).or_default().push((tid, commit.clone()));
                }
                self.settle(context, tid, Some(&commit));
                // The values of a checkpoint may be newer than its open prepares.
                if let Some((shard, stamp)) = place.filter(|it| !context.store.hides_at(it.0, it.1))
                {
                    self.decided.remove(&(shard, stamp));
                }
                let me = context.config.address;
                let waiting = participants.into_iter().filter(|other| *other != me).collect();
                Ended::Committed { commit, shard, waiting, sent: None }
            }
            Decision::Abort => {
                self.settle(context, tid, None);
                Ended::Aborted
            }
        };
        if let Ended::Committed { waiting, shard, .. } = &ended {
            if !waiting.is_empty() {
                self.unconfirmed.insert(tid);
            }
            if let Some(shard) = shard {
                self.askable.entry(*shard).or_default().insert(tid);
            }
            self.reports_askable = true;
        }
        self.records.insert(tid, ended);
    }

    /// Records that a prepared transaction has ended, and carries it out here.
    fn end(&mut self, context: &mut Context<'_>, tid: TransactionId, decision: &Decision) {
        if self.prepared.contains_key(&tid) {
            context.out.record(Record::Ended(tid, decision.clone()));
            self.note_ended(context, tid, decision);
        }
    }

    pub(super) fn note_ended(
        &mut self,
        context: &mut Context<'_>,
        tid: TransactionId,
        decision: &Decision,
    ) {
        match decision {
            Decision::Commit(commit) => self.settle(context, tid, Some(commit)),
            Decision::Abort => self.settle(context, tid, None),
        }
    }

    /// ABORT: the client gives the transaction up, and sends nothing more (List. 2 l. 35–37).
    pub(crate) fn on_abort(&mut self, context: &mut Context<'_>, tid: TransactionId) {
        self.end(context, tid, &Decision::Abort);
    }

    /// DECIDED at a participant.
    pub(crate) fn on_decided(
        &mut self,
        context: &mut Context<'_>,
        (from, epoch): (Address, u64),
        tid: TransactionId,
        decision: &Decision,
    ) {
        if let Decision::Commit(commit) = decision
            && self.cannot_follow(context, commit)
        {
            // Its sender sends it again.
            return;
        }
        if let Some(prepared) = self.prepared.get(&tid)
            && context.homes.forced(prepared.decision_shard, epoch).any(|it| it.site == from.site)
        {
            // The sender does not know yet that the shard was taken from it by force.
            return;
        }
        self.end(context, tid, decision);
        if matches!(decision, Decision::Commit(_)) {
            context.out.send(from, Body::Applied(tid));
        }
    }

    /// APPLIED at the decision home.
    pub(crate) fn on_applied(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        tid: TransactionId,
    ) {
        if self.note_applied(from, tid) {
            context.out.record(Record::Applied(tid, from));
            self.forget(tid.client);
        }
    }

    /// Returns whether this confirmation is new.
    pub(super) fn note_applied(&mut self, from: Address, tid: TransactionId) -> bool {
        match self.records.get_mut(&tid) {
            Some(Ended::Committed { waiting, .. }) => {
                let is_new = waiting.remove(&from);
                if waiting.is_empty() {
                    self.unconfirmed.remove(&tid);
                }
                is_new
            }
            _ => false,
        }
    }

    /// QUERY at the decision home: reports the decision, if there is one.
    pub(crate) fn on_query(&self, context: &mut Context<'_>, from: Address, tid: TransactionId) {
        let decision = match self.records.get(&tid) {
            Some(Ended::Committed { commit, .. }) => Decision::Commit(commit.clone()),
            Some(Ended::Taken) | None => return,
            Some(_) => Decision::Abort,
        };
        context.out.send(from, Body::Decided(tid, decision));
    }

    /// RESOLVE at the decision home: it aborts the transaction, unless it has decided before.
    pub(crate) fn on_resolve(
        &mut self,
        context: &mut Context<'_>,
        (from, epoch): (Address, u64),
        tid: TransactionId,
    ) {
        if epoch < context.homes.epoch() && !self.prepared.contains_key(&tid) {
            // The shard may have been taken from this home by force since. The participant asks
            // again when it knows the moves, and then perhaps another home.
            return self.on_query(context, from, tid);
        }
        if !self.records.contains_key(&tid) {
            // A PREPARE or COMMIT that arrives later must find the decision. Neither arrives for a
            // transaction below `oldest`. If such a transaction had committed, its record would
            // still be here, because the participant that asks has not confirmed the commit.
            if self.may_arrive(tid) && context.config.has(Rule::AbortRecord) {
                context.out.rare(rare::RESOLVED);
                self.decide(context, tid, Decision::Abort, Vec::new());
            } else {
                self.end(context, tid, &Decision::Abort);
                if from != context.config.address {
                    context.out.send(from, Body::Decided(tid, Decision::Abort));
                }
            }
        }
        if from != context.config.address {
            self.on_query(context, from, tid);
        }
    }

    /// RESOLVE_MOVED at the present home of a shard whose former home was to decide. The
    /// transaction has committed if its commit came with the shard's data. Otherwise it has
    /// aborted: a former home that hands its data over has decided all transactions before, and
    /// names the commits about which somebody may still ask. If the shard was taken by force, the
    /// transaction's writes there are lost.
    pub(crate) fn on_resolve_moved(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        (tid, shard): (TransactionId, ShardId),
    ) {
        let me = context.config.address;
        if !context.is_home(shard) {
            return;
        }
        let decides = self.prepared.get(&tid).is_some_and(|prepared| prepared.decision_home == me);
        let record = self.records.get(&tid).filter(|record| !matches!(record, Ended::Taken));
        if decides || record.is_some() {
            return self.on_query(context, from, tid);
        }
        let known = context.decisions.find(shard, tid);
        let decision =
            known.map_or(Decision::Abort, |known| Decision::Commit(Box::new(known.clone())));
        context.out.send(from, Body::Decided(tid, decision));
    }

    /// Returns the first transaction about which the client's worker may still send messages, if it
    /// has sent OLDEST. Identifiers of later incarnations are greater.
    fn first_open(&self, client: ClientId) -> Option<TransactionId> {
        let earliest = ClientId { incarnation: 0, ..client };
        let latest = ClientId { incarnation: u64::MAX, ..client };
        let (client, number) = self.oldest.range(earliest..=latest).next_back()?;
        Some(TransactionId { client: *client, number: *number })
    }

    /// Returns whether the client may still send messages about the transaction.
    pub(super) fn may_arrive(&self, tid: TransactionId) -> bool {
        self.first_open(tid.client).is_none_or(|first| tid >= first)
    }

    /// OLDEST: the client sends nothing more about transactions below `oldest`, and its earlier
    /// incarnations send nothing more at all.
    pub(crate) fn on_oldest(&mut self, client: ClientId, oldest: u64) {
        let known = self.oldest.entry(client).or_default();
        *known = oldest.max(*known);
        let earliest = ClientId { incarnation: 0, ..client };
        self.oldest.retain(|other, _| !(earliest..client).contains(other));
        self.forget(client);
    }

    /// Removes records of a client worker's transactions. No process can ask about these
    /// transactions any more.
    fn forget(&mut self, client: ClientId) {
        let Some(open) = self.first_open(client) else { return };
        let earliest = ClientId { incarnation: 0, ..client };
        let over = self.records.range(TransactionId { client: earliest, number: 0 }..open);
        let over = over.filter(|(_, record)| match record {
            Ended::Committed { waiting, .. } => waiting.is_empty(),
            Ended::Aborted | Ended::Executed(_) | Ended::Taken => true,
        });
        let over: Vec<TransactionId> = over.map(|(tid, _)| *tid).collect();
        for tid in over {
            if let Some(Ended::Committed { shard: Some(shard), .. }) = self.records.remove(&tid)
                && let Some(tids) = self.askable.get_mut(&shard)
            {
                tids.remove(&tid);
                self.reports_askable = true;
                if tids.is_empty() {
                    self.askable.remove(&shard);
                }
            }
        }
    }

    /// Stops waiting for confirmations of a site that has been removed.
    pub(crate) fn stop_waiting_for(&mut self, site: SiteId) {
        let waiting = self.unconfirmed.iter().filter_map(|tid| match self.records.get(tid) {
            Some(Ended::Committed { waiting, .. }) => Some((*tid, waiting)),
            _ => None,
        });
        let gone: Vec<(TransactionId, Address)> = waiting
            .flat_map(|(tid, waiting)| waiting.iter().map(move |worker| (tid, *worker)))
            .filter(|(_, worker)| worker.site == site)
            .collect();
        for (tid, worker) in gone {
            self.note_applied(worker, tid);
            self.forget(tid.client);
        }
    }

    /// Forgets the clients of a site that has been removed: nothing arrives from them any more.
    pub(crate) fn forget_clients_of(&mut self, site: SiteId) {
        let clients: BTreeSet<ClientId> = self.records.keys().map(|tid| tid.client).collect();
        for client in clients.into_iter().filter(|client| client.address.site == site) {
            self.on_oldest(client, u64::MAX);
        }
    }

    /// Repeats messages that may be lost: decisions that participants have not confirmed, and
    /// requests to decide about expired prepares.
    pub(crate) fn on_tick(&mut self, context: &mut Context<'_>) {
        if !self.waits() {
            return;
        }
        self.send_decisions(context);
        let now = context.now.monotonic;
        let timing = context.config.timing;
        self.parked.retain(|read| now.since(read.since) < timing.timeout);
        let mut expired = Vec::new();
        for (tid, prepared) in &mut self.prepared {
            let is_due = prepared.asked.is_none_or(|asked| now.since(asked) >= timing.retry);
            if now.since(prepared.since) >= timing.prepare_expires && is_due {
                prepared.asked = Some(now);
                expired.push((*tid, prepared.decision_home, prepared.decision_shard));
            }
        }
        for (tid, decision_home, shard) in expired {
            if self.may_ask(context, tid) {
                if decision_home == context.config.address {
                    let epoch = context.homes.epoch();
                    self.on_resolve(context, (decision_home, epoch), tid);
                } else if context.config.has(Rule::DecisionHomeDecides) {
                    context.out.send(decision_home, Body::Resolve(tid));
                } else {
                    self.end(context, tid, &Decision::Abort);
                }
            }
            // The home that was to decide may have failed since the shard moved.
            if self.is_decided_elsewhere(context, tid) {
                let to = context.config.owner(context.homes.home(shard), shard);
                context.out.send(to, Body::ResolveMoved(tid, shard));
            }
        }
    }

    /// Returns whether another home may know the decision about a prepared transaction: the shard
    /// whose home was to decide has moved since the prepare.
    fn is_decided_elsewhere(&self, context: &Context<'_>, tid: TransactionId) -> bool {
        let prepared = self.prepared.get(&tid);
        let moved_by = |shard| context.homes.moved_by(shard);
        prepared.is_some_and(|prepared| moved_by(prepared.decision_shard) > prepared.epoch)
            && context.config.has(Rule::NewHomeDecides)
    }

    /// Returns whether the home that was to decide can be asked: neither was its shard taken from
    /// it by force since the prepare, nor was its site removed.
    fn may_ask(&self, context: &Context<'_>, tid: TransactionId) -> bool {
        let Some(prepared) = self.prepared.get(&tid) else { return false };
        let site = prepared.decision_home.site;
        let mut forced = context.homes.forced(prepared.decision_shard, prepared.epoch);
        let is_here = site == context.site() || context.others.contains(&site);
        is_here && !forced.any(|left| left.site == site)
    }

    /// Returns commits of several homes that this home has decided for its shown writes in these
    /// shards, and about which somebody may still ask.
    pub(crate) fn askable_in(
        &self,
        config: &Config,
        (first, last): (ShardId, ShardId),
    ) -> impl Iterator<Item = DecidedOf> {
        let me = config.address;
        let askable = self.askable.range(first..=last);
        let askable = askable.flat_map(|(shard, tids)| tids.iter().map(move |tid| (shard, tid)));
        askable.filter_map(move |(shard, tid)| match self.records.get(tid) {
            Some(Ended::Committed { commit, .. }) => {
                let hidden = self.decided.get(&(*shard, commit.stamp_at(me.site)?));
                let is_hidden = hidden.into_iter().flatten().any(|(other, _)| other == tid);
                (!is_hidden).then(|| (me, *shard, *tid, commit.clone()))
            }
            _ => None,
        })
    }

    /// Sends the replicas, from time to time, the commits that this home has decided and about
    /// which somebody may still ask, so that they forget the others.
    pub(super) fn report_askable(&mut self, context: &mut Context<'_>) {
        let now = context.now.monotonic;
        let every = context.config.timing.timeout;
        let last = *self.reported_askable.get_or_insert(now);
        if !self.reports_askable || now.since(last) < every {
            return;
        }
        let me = context.config.address;
        self.reported_askable = Some(now);
        // What it decides next has greater stamps, but for what is prepared.
        let upto = self.clock;
        let open = self.prepared.iter().filter(|(_, prepared)| prepared.decision_home == me);
        let open = open.map(|(tid, _)| *tid);
        let tids: Vec<TransactionId> =
            open.chain(self.askable.values().flatten().copied()).collect();
        self.reports_askable = false;
        // This home may have got its own decisions back with a shard.
        for to in context.targets.iter().copied().chain([me]) {
            context.out.send(to, Body::Askable(upto, tids.clone()));
        }
    }

    /// Drops what is undecided or hidden in a shard that was taken from this worker by force. The
    /// shard's new home does not have these transactions and writes, and decides instead of this
    /// home.
    pub(crate) fn drop_shard(&mut self, context: &mut Context<'_>, shard: ShardId) {
        context.store.drop_hidden(shard);
        self.decided.retain(|(of, _), _| *of != shard);
        for tid in self.askable.remove(&shard).into_iter().flatten() {
            self.unconfirmed.remove(&tid);
            self.records.insert(tid, Ended::Taken);
        }
        let held = self.assigned.get(&shard).into_iter().flatten();
        let held: Vec<TransactionId> = held.map(|(_, tid)| *tid).collect();
        let me = context.config.address;
        for tid in held {
            let Some(prepared) = self.prepared.get(&tid) else { continue };
            if prepared.decision_home == me && prepared.decision_shard == shard {
                self.settle(context, tid, None);
                continue;
            }
            let Some(mut prepared) = self.release(tid) else { continue };
            prepared.writes.retain(|(key, _)| context.config.shard_of(key) != shard);
            prepared.shards.remove(&shard);
            if !prepared.writes.is_empty() {
                self.hold(tid, prepared);
            }
        }
        self.answer_parked(context);
    }

    /// Sends the commits that participants have not confirmed, unless they were sent lately.
    fn send_decisions(&mut self, context: &mut Context<'_>) {
        for tid in &self.unconfirmed {
            if let Some(record) = self.records.get_mut(tid) {
                send_decision(context, *tid, record);
            }
        }
    }
}

/// Sends a commit to the participants that have not confirmed it, unless it was sent to them
/// lately.
fn send_decision(context: &mut Context<'_>, tid: TransactionId, record: &mut Ended) {
    let now = context.now.monotonic;
    let retry = context.config.timing.retry;
    let Ended::Committed { commit, waiting, sent, .. } = record else { return };
    if sent.is_some_and(|sent| now.since(sent) < retry) {
        return;
    }
    *sent = Some(now);
    for to in waiting.iter() {
        let decision = Decision::Commit(commit.clone());
        context.out.send(*to, Body::Decided(tid, decision));
    }
}
