//! A leader's part: votes, decisions, and delivery in the order of strong timestamps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use solera_machine::Address;
use solera_time::{Monotonic, SiteId, Timestamp};

use crate::claim::Claim;
use crate::config::{Config, Configuration, Rule};
use crate::entry::{Entry, Phase};
use crate::ids::{Ballot, GroupId, Serial, TransactionId};
use crate::member::{Member, Role};
use crate::message::{Body, Output};
use crate::rare;
use crate::reservations::Reservations;
use crate::share::{Outcome, Share, Vote};
use crate::step::Step;

/// Of so many transactions members hear with one sign of life: of 20,000 in a second.
const PHASES: usize = 1024;

/// What only a leader keeps.
#[derive(Debug)]
pub(crate) struct Leading {
    /// When the term began.
    since: Monotonic,
    /// Members had stored this much when the term began: so must the leader, before it goes on.
    base: Timestamp,
    /// When the host was last asked to catch up.
    catching_up: Option<Monotonic>,
    /// What each member has kept as ceiling, and stored.
    kept: BTreeMap<SiteId, Kept>,
    /// When the members last heard of this leader.
    status_at: Option<Monotonic>,
    /// The last transaction that they heard of then, if others come after it.
    told_upto: Option<TransactionId>,
    /// What was last said to be complete.
    complete: Timestamp,
    /// No transaction that is delivered is later.
    last: Timestamp,
    /// Transactions that were delivered at a quorum, and the other groups that are through with them.
    through: BTreeMap<TransactionId, Through>,
    /// When coordinators were last asked whether they have old transactions in mind.
    asked_oldest: Monotonic,
    /// When the outcome of an undecided transaction was last asked for.
    asked: BTreeMap<TransactionId, Monotonic>,
    /// When it was last looked for overdue ones.
    overdue_at: Option<Monotonic>,
    /// The undecided ones that may commit, by the time that the group proposes.
    open: BTreeSet<(Timestamp, TransactionId)>,
    /// The committed ones that are not delivered, by their strong timestamps.
    due: BTreeSet<(Timestamp, TransactionId)>,
    /// Keys that are kept free for those that were aborted before.
    reservations: Reservations,
    /// The undecided ones that were aborted before.
    claims: BTreeMap<TransactionId, Claim>,
    /// What waits until a quorum has confirmed the term, and the ceiling that it must keep for that; none before it is sent.
    unconfirmed: BTreeMap<Unconfirmed, Option<Timestamp>>,
}

/// What only the present leader may do: one that was deposed, and has not heard so, would be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unconfirmed {
    /// To forget an undecided transaction of which others have forgotten the outcome.
    Forget(TransactionId),
    /// Answering a process that a transaction is over which is not known here.
    Over(TransactionId, Address),
    /// Answering another group that this one is through with a transaction which is not known here.
    Through(TransactionId, GroupId),
}

/// What a coordinator wants a vote on.
#[derive(Debug)]
pub(crate) struct Asked<W> {
    pub(crate) coordinator: Address,
    pub(crate) share: Option<Arc<Share<W>>>,
    pub(crate) participants: Arc<[GroupId]>,
    /// A vote that would be later is to abort.
    pub(crate) until: Timestamp,
    pub(crate) claim: Option<Claim>,
}

/// A transaction that was submitted before the leader's site stores what it has seen, or while another goes
/// before it.
#[derive(Debug)]
pub(crate) struct Early<W> {
    asked: Asked<W>,
    /// When its coordinator first asked.
    since: Monotonic,
    /// When its coordinator last asked.
    last: Monotonic,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    ceiling: Timestamp,
    delivered: Timestamp,
}

#[derive(Debug, Default)]
struct Through {
    /// The groups that are.
    groups: BTreeSet<GroupId>,
    /// When they were last told that this one is.
    told: Option<Monotonic>,
}

impl Leading {
    /// A term that begins with these entries.
    pub(crate) fn new<W>(
        since: Monotonic,
        base: Timestamp,
        entries: &BTreeMap<TransactionId, Entry<W>>,
    ) -> Self {
        let open = entries.iter().filter(|(_, entry)| entry.holds_back());
        let due = entries.iter().filter_map(|(tid, entry)| match (entry.phase, &entry.share) {
            (Phase::Committed(ts), Some(_)) => Some((ts, *tid)),
            _ => None,
        });
        Leading {
            open: open.map(|(tid, entry)| (entry.ts, *tid)).collect(),
            due: due.collect(),
            overdue_at: None,
            since,
            base,
            catching_up: None,
            kept: BTreeMap::new(),
            status_at: None,
            told_upto: None,
            complete: Timestamp::ZERO,
            last: base,
            through: BTreeMap::new(),
            asked_oldest: since,
            asked: BTreeMap::new(),
            reservations: Reservations::new(),
            claims: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
        }
    }

    /// Whether what members had stored still has not come: who has it may have failed, and the others
    /// must be asked what they kept of it.
    pub(crate) fn waits_in_vain(
        &self,
        delivered: Timestamp,
        now: Monotonic,
        patience: Duration,
    ) -> bool {
        delivered < self.base && now.since(self.since) >= patience
    }

    /// An undecided transaction is not so any more.
    fn no_longer_undecided<W>(
        &mut self,
        step: &Step<'_, W>,
        tid: TransactionId,
        ts: Timestamp,
        committed: bool,
    ) {
        self.asked.remove(&tid);
        self.unconfirmed.remove(&Unconfirmed::Forget(tid));
        self.open.remove(&(ts, tid));
        let Some(claim) = self.claims.remove(&tid) else { return };
        if committed {
            self.reservations.end(claim);
        } else {
            let until = step.now.monotonic.after(step.config.timing.reservation);
            self.reservations.extend(claim, until);
        }
    }

    /// The ceiling that a quorum of the members has kept in this term.
    fn kept_by_quorum(&self, configuration: &Configuration) -> Timestamp {
        nth_greatest(self.kept.values().map(|kept| kept.ceiling), configuration.quorum())
    }

    /// The last transaction before what is proposed next, if nothing can come in between.
    fn nothing_since(&self, config: &Config) -> Option<Timestamp> {
        match config.keeps(Rule::NothingBetween) {
            true => (self.open.is_empty() && self.due.is_empty()).then_some(self.last),
            false => Some(Timestamp::ZERO),
        }
    }
}

impl<W: Clone> Member<W> {
    /// Votes on a transaction, once, and has the group keep the vote.
    pub(crate) fn on_prepare(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        asked: Asked<W>,
        oldest: Option<Serial>,
    ) {
        self.learn_oldest(step, tid.coordinator, oldest);
        self.asked_by.insert(asked.coordinator);
        if !self.leads() {
            let ballot = match step.config.keeps(Rule::NameLeaders) {
                true => self.last_begun(),
                false => self.ballot,
            };
            step.send(asked.coordinator, self.group, Body::NotLeader { ballot });
            return;
        }
        let since = self.early.remove(&tid).map_or(step.now.monotonic, |early| early.since);
        self.consider(step, tid, asked, since);
    }

    /// Votes, or repeats the vote, or waits until it can.
    fn consider(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        asked: Asked<W>,
        since: Monotonic,
    ) {
        let coordinator = asked.coordinator;
        if let Some(entry) = self.state.entries.get(&tid) {
            step.counts.ignored += 1;
            match entry.phase {
                Phase::Undecided => {
                    let entry = entry.clone();
                    self.have_kept(step, coordinator, tid, entry, None);
                }
                Phase::Committed(ts) | Phase::Finished(Some(ts)) => {
                    self.tell_decision(step, coordinator, tid, Outcome::Committed(ts));
                }
                Phase::Finished(None) => {
                    self.tell_decision(step, coordinator, tid, Outcome::Aborted(None));
                }
            }
            return;
        }
        if self.oldest_if_over(step, tid).is_some() {
            // However it ended, everybody who took part is done with it, if no later leader has it.
            self.once_confirmed(step, Unconfirmed::Over(tid, coordinator));
            return;
        }
        if self.is_behind(step) {
            // It does not know everything that the transaction must have seen. It will be asked again.
            return;
        }
        if let Some(share) = &asked.share
            && self.is_early(step, share, asked.claim, since)
        {
            if self.stores(step, &share.snap_vec) && since == step.now.monotonic {
                step.counts.waited += 1;
            }
            if since == step.now.monotonic {
                // It has come in time, and waits for what this site lacks.
                self.keep_reservation(step, asked.claim);
            }
            self.early.insert(tid, Early { asked, since, last: step.now.monotonic });
            return;
        }
        self.vote(step, tid, asked);
    }

    /// Whether a vote has to wait.
    fn is_early(
        &self,
        step: &Step<'_, W>,
        share: &Share<W>,
        claim: Option<Claim>,
        since: Monotonic,
    ) -> bool {
        // A vote would hold back whatever comes after it, and could not be acknowledged.
        !self.stores(step, &share.snap_vec) || self.gives_way(step, share, claim, since)
    }

    /// Whether a transaction waits for one that was aborted before. Not if it must abort anyway, and never for
    /// long: it may be prepared in other groups.
    fn gives_way(
        &self,
        step: &Step<'_, W>,
        share: &Share<W>,
        claim: Option<Claim>,
        since: Monotonic,
    ) -> bool {
        let Role::Leader(leading) = &self.role else { return false };
        leading.reservations.goes_before(claim, share)
            && step.now.monotonic.since(since) < step.config.timing.reservation
            && self.conflicts.against(share).is_none()
    }

    fn vote(&mut self, step: &mut Step<'_, W>, tid: TransactionId, asked: Asked<W>) {
        let Asked { coordinator, share, participants, until, claim } = asked;
        let vote = match &share {
            Some(share) => match self.conflicts.against(share) {
                Some(obstacle) => {
                    if obstacle.key.is_none() {
                        step.reach(rare::BELOW_FENCE);
                    }
                    Vote::Abort(Some(obstacle))
                }
                None => Vote::Commit,
            },
            None if step.configuration.is_former(tid)
                && step.config.keeps(Rule::AdmitForgotten) =>
            {
                step.reach(rare::ADMITS_FORGOTTEN);
                Vote::Forgotten
            }
            None => Vote::Abort(None),
        };
        if let Some(share) = &share {
            // Replicated types compare the times of all transactions.
            step.clock.observe(share.snap_vec.max_entry());
        }
        let ts = step.clock.tick(step.now.physical);
        // Others may have gone on without waiting for it (`until`).
        let too_late = ts > until && step.config.keeps(Rule::InTime);
        let vote = if too_late && vote == Vote::Commit {
            step.reach(rare::TOO_LATE);
            Vote::Abort(None)
        } else {
            vote
        };
        if let (Some(claim), Some(share)) = (claim, &share) {
            self.reserve(step, tid, claim, share, &vote);
        }
        if let (Vote::Commit, Some(share)) = (&vote, &share)
            && step.config.keeps(Rule::PreparedConflicts)
        {
            self.conflicts.prepare(tid, share, ts);
        }
        let share = share.filter(|_| vote == Vote::Commit);
        let phase = Phase::Undecided;
        let entry = Entry { share, participants, vote, ts, phase, told: false };
        self.state.entries.insert(tid, entry.clone());
        let mut after = None;
        if let Role::Leader(leading) = &mut self.role {
            leading.asked.insert(tid, step.now.monotonic);
            if entry.holds_back() {
                after = leading.nothing_since(step.config);
                leading.open.insert((ts, tid));
            }
        }
        self.have_kept(step, coordinator, tid, entry, after);
    }

    /// Keeps keys free for the next attempt of a transaction that was aborted before, should it abort again.
    fn reserve(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        claim: Claim,
        share: &Share<W>,
        vote: &Vote,
    ) {
        let Role::Leader(leading) = &mut self.role else { return };
        if !step.config.keeps(Rule::AbortedFirst) {
            return;
        }
        let lacks = match vote {
            Vote::Abort(Some(obstacle)) => Some(obstacle.past),
            _ => None,
        };
        let until = step.now.monotonic.after(step.config.timing.reservation);
        if leading.reservations.keep(claim, share, lacks, until) {
            step.counts.reserved += 1;
            leading.claims.insert(tid, claim);
        }
    }

    /// Keeps what is reserved for a claim until a while from now.
    fn keep_reservation(&mut self, step: &mut Step<'_, W>, claim: Option<Claim>) {
        let until = step.now.monotonic.after(step.config.timing.reservation);
        if let (Role::Leader(leading), Some(claim)) = (&mut self.role, claim)
            && leading.reservations.extend(claim, until)
        {
            step.reach(rare::RESERVATION_WAITS);
        }
    }

    /// Votes on what could not be voted on before, and forgets what nobody asks for any more.
    fn take_early(&mut self, step: &mut Step<'_, W>) {
        let now = step.now.monotonic;
        if let Role::Leader(leading) = &mut self.role {
            leading.reservations.expire(now);
        }
        let patience = step.config.timing.retry * 4;
        for (tid, early) in std::mem::take(&mut self.early) {
            if now.since(early.last) >= patience {
                step.reach(rare::DROPS_EARLY);
                continue;
            }
            let Early { asked, since, last } = early;
            let waits = asked
                .share
                .as_ref()
                .is_some_and(|share| self.is_early(step, share, asked.claim, since));
            if waits {
                self.early.insert(tid, Early { asked, since, last });
            } else {
                self.consider(step, tid, asked, since);
            }
        }
    }

    /// Whether other members have stored what this leader has not.
    fn is_behind(&self, step: &Step<'_, W>) -> bool {
        match &self.role {
            Role::Leader(leading) => {
                self.state.delivered < leading.base && step.config.keeps(Rule::CatchUp)
            }
            _ => false,
        }
    }

    /// Has the members keep a vote, and tells that this one does.
    fn have_kept(
        &mut self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
        entry: Entry<W>,
        after: Option<Timestamp>,
    ) {
        self.tell_kept(step, coordinator, tid);
        let ballot = self.state.accepted_in;
        let accept = Body::Accept { ballot, tid, entry, coordinator, after };
        step.send_others(self.group, accept);
    }

    fn tell_decision(
        &self,
        step: &mut Step<'_, W>,
        coordinator: Address,
        tid: TransactionId,
        outcome: Outcome,
    ) {
        let outcome = Some(outcome);
        step.send(coordinator, self.group, Body::Decision { tid, outcome, oldest: None });
    }

    /// A coordinator has found out what became of a transaction.
    pub(crate) fn on_decision(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        outcome: Option<Outcome>,
        oldest: Option<Serial>,
    ) {
        self.learn_oldest(step, tid.coordinator, oldest);
        if !self.leads() {
            if let Some(Outcome::Committed(ts)) = outcome {
                self.ahead.commit(tid, ts);
                self.deliver_ahead(step);
            }
            return;
        }
        let entry = self.state.entries.get(&tid);
        if let Some(entry) = entry.filter(|entry| entry.phase == Phase::Undecided) {
            match outcome {
                Some(outcome) => self.decide(step, tid, outcome),
                // It aborted, or it committed and a quorum has stored it. In the second case a later leader may have
                // delivered it, so that this one has to find out whether it still leads.
                None if entry.holds_back() => {
                    self.once_confirmed(step, Unconfirmed::Forget(tid));
                }
                None => self.forget_undecided(step, tid),
            }
        }
        self.deliver(step);
    }

    fn decide(&mut self, step: &mut Step<'_, W>, tid: TransactionId, outcome: Outcome) {
        let Some(entry) = self.state.entries.get_mut(&tid) else { return };
        if let Some(share) = &entry.share {
            self.conflicts.release(tid, share);
        }
        match outcome {
            Outcome::Committed(ts) => {
                entry.phase = Phase::Committed(ts);
                step.clock.observe(ts);
                if let Some(share) = &entry.share {
                    self.conflicts.commit(share, ts);
                }
            }
            Outcome::Aborted(_) => {
                entry.phase = Phase::Finished(None);
                entry.share = None;
            }
        }
        let (ts, phase, has_share) = (entry.ts, entry.phase, entry.share.is_some());
        let Role::Leader(leading) = &mut self.role else { return };
        leading.no_longer_undecided(step, tid, ts, matches!(phase, Phase::Committed(_)));
        if let Phase::Committed(ts) = phase
            && has_share
        {
            leading.due.insert((ts, tid));
        }
    }

    /// Forgets a transaction that everybody else is done with.
    fn forget_undecided(&mut self, step: &mut Step<'_, W>, tid: TransactionId) {
        if let (Some(entry), Role::Leader(leading)) = (self.state.entries.get(&tid), &mut self.role)
        {
            if let Some(share) = &entry.share {
                self.conflicts.release(tid, share);
            }
            leading.no_longer_undecided(step, tid, entry.ts, false);
        }
        self.forget(step, &[tid]);
    }

    /// A coordinator will submit no transaction below this one again.
    pub(crate) fn learn_oldest(
        &mut self,
        step: &Step<'_, W>,
        coordinator: Address,
        oldest: Option<Serial>,
    ) {
        let learns = self.leads() || step.config.keeps(Rule::TellOldest);
        if let Some(oldest) = oldest.filter(|_| learns) {
            self.state.learn_oldest(coordinator, oldest);
        }
    }

    /// Delivers what no undecided transaction can precede, in order, and tells how far that goes.
    pub(crate) fn deliver(&mut self, step: &mut Step<'_, W>) {
        if self.is_behind(step) {
            return;
        }
        if self.leads() && self.is_outdated(step) {
            // Enough of the present members may not be enough of those with whom this term began: a later leader of theirs
            // may have delivered what is not known here. The next term asks all of them.
            return;
        }
        let Role::Leader(leading) = &mut self.role else { return self.deliver_ahead(step) };
        let own = Kept { ceiling: self.state.ceiling, delivered: self.state.delivered };
        leading.kept.insert(step.config.me.site, own);
        let ceiling = leading.kept_by_quorum(step.configuration);
        let is_kept = |at: &Option<Timestamp>| at.is_some_and(|at| at <= ceiling);
        let confirmed = leading.unconfirmed.iter().filter(|(_, at)| is_kept(at));
        let confirmed: Vec<Unconfirmed> = confirmed.map(|(what, _)| *what).collect();
        leading.unconfirmed.retain(|_, at| !is_kept(at));
        for what in confirmed {
            step.reach(rare::CONFIRMS_TERM);
            self.on_confirmed(step, what);
        }
        let Role::Leader(leading) = &mut self.role else { return };
        let mut limit = step.clock.read(step.now.physical);
        if step.config.keeps(Rule::Ceiling) {
            limit = limit.min(ceiling);
        }
        if step.config.keeps(Rule::DeliverInOrder) {
            let first = leading.open.first().map(|(ts, _)| ts.just_below());
            limit = limit.min(first.unwrap_or(Timestamp::MAX));
        }
        let delivered = self.state.delivered;
        while let Some((ts, tid)) = leading.due.first().copied().filter(|(ts, _)| *ts <= limit) {
            leading.due.pop_first();
            leading.last = leading.last.max(ts);
            let entry = self.state.entries.get(&tid);
            let Some(share) = entry.and_then(|entry| entry.share.clone()) else { continue };
            if ts <= delivered {
                step.reach(rare::STORED_FROM_ELSEWHERE);
                continue;
            }
            self.state.delivered = ts;
            step.outputs.push_back(Output::Deliver { group: self.group, tid, ts, share });
        }
        if limit > leading.complete && limit > delivered {
            leading.complete = limit;
            self.state.delivered = limit;
            step.outputs.push_back(Output::Complete { group: self.group, upto: limit });
        }
    }

    /// What is periodic for a leader.
    pub(crate) fn lead(&mut self, step: &mut Step<'_, W>) {
        if !self.leads() {
            return;
        }
        self.take_early(step);
        let Role::Leader(leading) = &mut self.role else { return };
        let now = step.now.monotonic;
        let since = |at: Option<Monotonic>| at.map(|at| now.since(at));
        let behind = self.state.delivered < leading.base;
        if behind
            && since(leading.catching_up).is_none_or(|since| since >= step.config.timing.retry)
        {
            leading.catching_up = Some(step.now.monotonic);
            step.reach(rare::CATCHES_UP);
            let (group, upto) = (self.group, leading.base);
            step.outputs.push_back(Output::CatchUp { group, upto });
        }
        if since(leading.status_at).is_none_or(|since| since >= step.config.timing.status_interval)
        {
            self.tell_status(step);
            self.forget_finished(step);
        }
        self.deliver(step);
    }

    /// Tells the members that this one leads, and what it remembers.
    pub(crate) fn tell_status(&mut self, step: &mut Step<'_, W>) {
        let clock = step.clock();
        // Not each time, because all members write it down.
        let reserve = step.config.timing.reserve;
        if self.state.ceiling < clock.later(reserve - reserve / 4) {
            self.keep_ceiling(step, clock.later(reserve));
        }
        self.confirm_term(step);
        let ceiling = self.state.ceiling;
        let Role::Leader(leading) = &mut self.role else { return };
        leading.status_at = Some(step.now.monotonic);
        let after = leading.told_upto;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.state.entries.range((from, Bound::Unbounded));
        let phases: Vec<_> = rest.map(|(tid, of)| (*tid, of.phase)).take(PHASES).collect();
        leading.told_upto = phases.last().map(|(tid, _)| *tid).filter(|_| phases.len() == PHASES);
        let (ballot, range) = (self.state.accepted_in, (after, leading.told_upto));
        let oldest = self.state.oldest.iter().map(|(of, first)| (*of, *first)).collect();
        let status = Body::Status { ballot, ceiling, upto: clock, range, phases, oldest };
        step.send_others(self.group, status);
    }

    /// Does something once a quorum has confirmed that no later term had begun by now.
    fn once_confirmed(&mut self, step: &mut Step<'_, W>, what: Unconfirmed) {
        if !step.config.keeps(Rule::ConfirmTerm) {
            return self.on_confirmed(step, what);
        }
        if let Role::Leader(leading) = &mut self.role {
            leading.unconfirmed.entry(what).or_default();
        }
    }

    /// No later term had begun when this was asked for: what committed until then is among what this leader had to store
    /// when its term began, or it is known here.
    fn on_confirmed(&mut self, step: &mut Step<'_, W>, what: Unconfirmed) {
        match what {
            Unconfirmed::Forget(tid) => self.forget_undecided(step, tid),
            Unconfirmed::Over(tid, asker) => {
                if let Some(oldest) = self.oldest_if_over(step, tid) {
                    step.reach(rare::ANSWERS_OVER);
                    step.send(asker, self.group, Body::Over { tid, oldest });
                }
            }
            // It was forgotten here, because all are through.
            Unconfirmed::Through(tid, of) if !self.state.entries.contains_key(&tid) => {
                self.tell_through(step, tid, of, true);
            }
            Unconfirmed::Through(..) => {}
        }
    }

    /// The first transaction that the coordinator of an unknown one may still submit, if that is a later one.
    fn oldest_if_over(&self, step: &Step<'_, W>, tid: TransactionId) -> Option<Serial> {
        let oldest = self.state.oldest.get(&tid.coordinator).copied();
        let later = |oldest: &Serial| tid.serial < *oldest && step.config.keeps(Rule::Remember);
        oldest.filter(|oldest| !self.state.entries.contains_key(&tid) && later(oldest))
    }

    /// Has the members keep a ceiling that none has been sent before, if something waits for that. A quorum of answers says
    /// that no later leader had begun when it began to wait.
    fn confirm_term(&mut self, step: &mut Step<'_, W>) {
        let Role::Leader(leading) = &mut self.role else { return };
        if leading.unconfirmed.values().all(Option::is_some) {
            return;
        }
        let ceiling = self.state.ceiling.later(Duration::from_micros(1));
        for at in leading.unconfirmed.values_mut().filter(|at| at.is_none()) {
            *at = Some(ceiling);
        }
        self.keep_ceiling(step, ceiling);
    }

    /// A member has kept the ceiling.
    pub(crate) fn on_status_kept(
        &mut self,
        step: &mut Step<'_, W>,
        from: SiteId,
        ballot: Ballot,
        ceiling: Timestamp,
        delivered: Timestamp,
    ) {
        if ballot != self.state.accepted_in || !step.configuration.members.contains(&from) {
            return;
        }
        let Role::Leader(leading) = &mut self.role else { return };
        let kept = leading.kept.entry(from).or_default();
        kept.ceiling = kept.ceiling.max(ceiling);
        kept.delivered = kept.delivered.max(delivered);
        self.deliver(step);
    }

    /// The leader of another group says that a quorum of it has delivered a transaction.
    pub(crate) fn on_through(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        of: GroupId,
        answer: bool,
    ) {
        let known = self.state.entries.contains_key(&tid);
        let Role::Leader(leading) = &mut self.role else { return };
        if known {
            leading.through.entry(tid).or_default().groups.insert(of);
        } else if !answer {
            self.once_confirmed(step, Unconfirmed::Through(tid, of));
        }
    }

    /// To wherever the leader of the group is: only it listens.
    fn tell_through(&self, step: &mut Step<'_, W>, tid: TransactionId, to: GroupId, answer: bool) {
        let of = self.group;
        for site in step.configuration.members.clone() {
            step.send_member(to, site, Body::Through { tid, of, answer });
        }
    }

    /// The same, to where the leader most likely is: groups are led from one site, as a rule.
    fn tell_through_here(&self, step: &mut Step<'_, W>, tid: TransactionId, to: GroupId) {
        let (of, me) = (self.group, step.me());
        step.send_member(to, me, Body::Through { tid, of, answer: false });
    }

    /// Finishes what a quorum has stored, and forgets what nobody will ask for.
    pub(crate) fn forget_finished(&mut self, step: &mut Step<'_, W>) {
        let Role::Leader(leading) = &mut self.role else { return };
        let keepers = step.configuration.keepers(step.config.f);
        let stored = nth_greatest(leading.kept.values().map(|kept| kept.delivered), keepers);
        let ask = step.now.monotonic.since(leading.asked_oldest) >= step.config.timing.retry * 2;
        if ask {
            leading.asked_oldest = step.now.monotonic;
        }
        let mut in_mind = BTreeSet::new();
        let mut tell = Vec::new();
        let mut forgotten = Vec::new();
        for (tid, entry) in &mut self.state.entries {
            // Others may store it that have it from who delivered it ahead. But until this leader has shown as
            // much as complete, it has not delivered it itself, and only the entry keeps successors above it.
            if let Phase::Committed(ts) = entry.phase
                && ts <= stored.min(leading.complete)
            {
                entry.phase = Phase::Finished(Some(ts));
                entry.share = None;
            }
            let Phase::Finished(outcome) = entry.phase else { continue };
            let others = || entry.participants.iter().filter(|group| **group != self.group);
            let through = leading.through.entry(*tid).or_default();
            let all = outcome.is_none() || others().all(|group| through.groups.contains(group));
            let again = through
                .told
                .is_none_or(|told| step.now.monotonic.since(told) >= step.config.timing.retry);
            if outcome.is_some() && again && !(all && through.told.is_some()) {
                let first = through.told.is_none();
                through.told = Some(step.now.monotonic);
                tell.extend(others().map(|group| (*tid, *group, first)));
            }
            let oldest = self.state.oldest.get(&tid.coordinator);
            let asked = oldest.is_none_or(|oldest| *oldest <= tid.serial)
                && step.configuration.members.contains(&tid.coordinator.site);
            if (all && !asked) || !step.config.keeps(Rule::Remember) {
                forgotten.push(*tid);
            } else if ask && asked {
                in_mind.insert(tid.coordinator);
            }
        }
        for coordinator in in_mind {
            step.send(coordinator, self.group, Body::AskOldest);
        }
        for tid in &forgotten {
            leading.through.remove(tid);
        }
        self.forget(step, &forgotten);
        for (tid, group, first) in tell {
            match first {
                true => self.tell_through_here(step, tid, group),
                false => self.tell_through(step, tid, group, false),
            }
        }
    }

    /// Undecided transactions whose coordinator should have told their outcome long since.
    pub(crate) fn overdue(&mut self, step: &Step<'_, W>) -> Vec<(TransactionId, Arc<[GroupId]>)> {
        let Role::Leader(leading) = &mut self.role else { return Vec::new() };
        let (now, timing) = (step.now.monotonic, &step.config.timing);
        if leading.overdue_at.is_some_and(|at| now.since(at) < timing.status_interval) {
            return Vec::new();
        }
        leading.overdue_at = Some(now);
        let patience = timing.retry * 2;
        let mut overdue = Vec::new();
        for (tid, entry) in &self.state.entries {
            let asked = leading.asked.get(tid);
            // After a restart these may be many.
            if overdue.len() == PHASES {
                break;
            }
            if entry.phase == Phase::Undecided
                && asked.is_none_or(|asked| step.now.monotonic.since(*asked) >= patience)
            {
                leading.asked.insert(*tid, step.now.monotonic);
                overdue.push((*tid, entry.participants.clone()));
            }
        }
        overdue
    }
}

/// What at least `n` of the values reach; zero if there are fewer.
fn nth_greatest(values: impl Iterator<Item = Timestamp>, n: usize) -> Timestamp {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(n.saturating_sub(1)).copied().unwrap_or(Timestamp::ZERO)
}
