//! CERTIFY: collects the votes of every group and derives the outcome (UniStore Alg. 3 l. 3, §6.3).
//!
//! Any process that has the answers of the quorums knows the decision, and every process that asks
//! gets the same answers. No process therefore depends on the coordinator's state: when a
//! coordinator fails, a group's leader collects the answers in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use solera_machine::Address;
use solera_time::{Monotonic, SiteId, Timestamp};

use crate::claim::{Claim, footprint};
use crate::config::Rule;
use crate::ids::{Ballot, GroupId, Serial, TransactionId};
use crate::member::Member;
use crate::message::{Body, Output};
use crate::outcomes::{Outcomes, REMEMBERED};
use crate::payload::{GroupPayload, Outcome, Vote};
use crate::rare;
use crate::step::Step;

/// Time for which a coordinator requests the outcome of a transaction that it has given up. During
/// this time, its groups remember all transactions that it has submitted since.
const INSISTING: Duration = Duration::from_secs(60);

/// The transactions that one worker has submitted, or finishes for other coordinators.
#[derive(Debug)]
pub(crate) struct Coordinator<W> {
    me: Address,
    next: Serial,
    /// Identifiers of transactions that will be submitted later, and that clients already know.
    reserved: BTreeSet<Serial>,
    pending: BTreeMap<TransactionId, Pending<W>>,
    /// The last term of each group that is known to have begun.
    ballots: BTreeMap<GroupId, Ballot>,
    /// Outcomes of own transactions whose clients know the identifier.
    outcomes: Outcomes<Serial>,
}

#[derive(Debug)]
struct Pending<W> {
    /// Whether this worker has submitted the transaction. False if this worker finishes it for
    /// another coordinator, or gave it up long ago.
    submitted: bool,
    /// Whether the client knows the identifier, and may ask for the outcome.
    named: bool,
    participants: Arc<[GroupId]>,
    /// Parts of the transaction; empty if it is finished for another coordinator, or given up.
    payloads: BTreeMap<GroupId, Arc<GroupPayload<W>>>,
    /// The latest time that a group may propose for it.
    until: Timestamp,
    /// Claim of its earlier attempts, if it is a retry.
    claim: Option<Claim>,
    /// Time when it was submitted.
    submitted_at: Timestamp,
    answers: BTreeMap<(GroupId, Ballot), Answers>,
    chosen: BTreeMap<GroupId, (Vote, Timestamp)>,
    since: Monotonic,
    asked: Monotonic,
    /// Number of requests that each group's leader has left unanswered; it selects the member to
    /// ask next.
    attempts: BTreeMap<GroupId, usize>,
}

/// Answers of the members of a group in one term.
#[derive(Debug)]
struct Answers {
    vote: Vote,
    ts: Timestamp,
    from: BTreeSet<SiteId>,
}

impl<W: Clone> Coordinator<W> {
    pub(crate) fn new(me: Address, run: u64) -> Self {
        Coordinator {
            me,
            next: Serial { run, sequence: 0 },
            reserved: BTreeSet::new(),
            pending: BTreeMap::new(),
            ballots: BTreeMap::new(),
            outcomes: Outcomes::new(REMEMBERED),
        }
    }

    /// Reserves the identifier of a transaction that will be submitted later. Until it is submitted
    /// or released, the groups remember all transactions that are submitted here.
    pub(crate) fn reserve(&mut self) -> TransactionId {
        let tid = self.next_name();
        self.reserved.insert(tid.serial);
        tid
    }

    /// Releases a reserved identifier whose transaction ended without being submitted.
    pub(crate) fn release(&mut self, tid: TransactionId, outcome: Outcome) {
        if self.is_own(tid) && self.reserved.remove(&tid.serial) {
            self.outcomes.add(tid.serial, outcome);
        }
    }

    fn next_name(&mut self) -> TransactionId {
        self.next.sequence += 1;
        TransactionId { coordinator: self.me, serial: self.next }
    }

    /// Submits a transaction, part by part, under a reserved or a new identifier.
    pub(crate) fn certify(
        &mut self,
        step: &mut Step<'_, W>,
        name: Option<TransactionId>,
        payloads: BTreeMap<GroupId, Arc<GroupPayload<W>>>,
        until: Timestamp,
        claim: Option<Claim>,
    ) -> TransactionId {
        let tid = name.unwrap_or_else(|| self.next_name());
        self.reserved.remove(&tid.serial);
        let participants = payloads.keys().copied().collect();
        self.begin(step, tid, participants, payloads, until, claim);
        if let Some(pending) = self.pending.get_mut(&tid) {
            pending.named = name.is_some();
        }
        tid
    }

    /// Determines the outcome of a transaction that another coordinator has left, or makes it
    /// abort.
    pub(crate) fn finish(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        participants: Arc<[GroupId]>,
    ) {
        if !self.pending.contains_key(&tid) {
            self.begin(step, tid, participants, BTreeMap::new(), Timestamp::ZERO, None);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one per field of PREPARE")]
    fn begin(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        participants: Arc<[GroupId]>,
        payloads: BTreeMap<GroupId, Arc<GroupPayload<W>>>,
        until: Timestamp,
        claim: Option<Claim>,
    ) {
        let claim = claim.filter(|claim| claim.is_retry_with(footprint(payloads.values())));
        let pending = Pending {
            submitted: !payloads.is_empty(),
            named: false,
            participants,
            payloads,
            until,
            claim,
            submitted_at: step.clock(),
            answers: BTreeMap::new(),
            chosen: BTreeMap::new(),
            since: step.now.monotonic,
            asked: step.now.monotonic,
            attempts: BTreeMap::new(),
        };
        self.pending.insert(tid, pending);
        self.ask(step, tid);
    }

    /// Sends PREPARE to the groups whose vote is not chosen yet.
    fn ask(&self, step: &mut Step<'_, W>, tid: TransactionId) {
        let Some(pending) = self.pending.get(&tid) else { return };
        for group in pending.not_chosen() {
            self.ask_group(step, tid, pending, group);
        }
    }

    /// Sends PREPARE to the leader of a group, or to the next member if the leader does not answer.
    fn ask_group(
        &self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        pending: &Pending<W>,
        group: GroupId,
    ) {
        let members = &step.configuration.electors.members;
        if members.is_empty() {
            return;
        }
        let leader = self.leader(step, group);
        let place = members.iter().position(|site| *site == leader).unwrap_or(0);
        let attempts = pending.attempts.get(&group).copied().unwrap_or(0);
        let site = members[(place + attempts) % members.len()];
        let payload = pending.payloads.get(&group).cloned();
        let (participants, claim) = (pending.participants.clone(), pending.claim);
        let (until, oldest) = (pending.until, self.oldest_for(tid));
        let body = Body::Prepare { tid, payload, participants, oldest, until, claim };
        step.send_member(group, site, body);
    }

    /// Returns the leader of a group, as far as this coordinator knows.
    fn leader(&self, step: &Step<'_, W>, group: GroupId) -> SiteId {
        self.ballots.get(&group).map_or(step.config.leader, |ballot| ballot.leader)
    }

    /// Takes the term that a member of this worker has seen begin.
    pub(crate) fn learn_leader(&mut self, step: &mut Step<'_, W>, member: &Member<W>) {
        if let Some(ballot) = member.kept.election.begun() {
            self.learn_ballot(step, member.kept.group, ballot);
        }
    }

    /// Notes a term that has begun. Repeats the requests to its leader at once if another site led
    /// before, or if other members were asked meanwhile because the leader did not answer.
    fn learn_ballot(&mut self, step: &mut Step<'_, W>, group: GroupId, ballot: Ballot) {
        let Some(former) = self.note_ballot(step, group, ballot) else { return };
        let moved = former.leader != ballot.leader;
        self.ask_leader(step, group, |pending| moved || pending.attempts.contains_key(&group));
    }

    /// Returns the latest term that was known before, if this one is later.
    fn note_ballot(
        &mut self,
        step: &Step<'_, W>,
        group: GroupId,
        ballot: Ballot,
    ) -> Option<Ballot> {
        // Without a known term, requests go to the configured leader.
        let first = Ballot { configuration: 0, round: 0, leader: step.config.leader };
        let known = self.ballots.entry(group).or_insert(first);
        (ballot > *known).then(|| std::mem::replace(known, ballot))
    }

    /// Repeats the requests for a group to its leader, for the transactions that wait for it.
    fn ask_leader(
        &mut self,
        step: &mut Step<'_, W>,
        group: GroupId,
        which: impl Fn(&Pending<W>) -> bool,
    ) {
        let mut waiting = Vec::new();
        for (tid, pending) in &mut self.pending {
            let waits =
                pending.participants.contains(&group) && !pending.chosen.contains_key(&group);
            if waits && which(pending) {
                pending.attempts.remove(&group);
                waiting.push(*tid);
            }
        }
        for tid in waiting {
            self.ask_group(step, tid, &self.pending[&tid], group);
        }
    }

    /// Repeats requests whose answers are missing.
    pub(crate) fn retry(&mut self, step: &mut Step<'_, W>) {
        let mut silent = Vec::new();
        for (tid, pending) in &mut self.pending {
            let age = step.now.monotonic.since(pending.since);
            if pending.payloads.is_empty() && age >= INSISTING {
                // From now on, this coordinator handles it like one that another coordinator has
                // left.
                pending.submitted = false;
            }
            if step.now.monotonic.since(pending.asked) >= step.config.timing.retry {
                pending.asked = step.now.monotonic;
                for group in pending.participants.iter() {
                    if !pending.chosen.contains_key(group) {
                        *pending.attempts.entry(*group).or_default() += 1;
                    }
                }
                silent.push(*tid);
            }
        }
        for tid in silent {
            self.ask(step, tid);
        }
    }

    /// Handles the answer of a member that does not lead, with the last term that it has seen
    /// begin.
    pub(crate) fn on_not_leader(&mut self, step: &mut Step<'_, W>, group: GroupId, ballot: Ballot) {
        if self.note_ballot(step, group, ballot).is_some() {
            self.ask_leader(step, group, |_| true);
        }
    }

    /// Handles a member's acknowledgement of a vote, which it sends directly to the coordinator.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    pub(crate) fn on_accepted(
        &mut self,
        step: &mut Step<'_, W>,
        from: SiteId,
        group: GroupId,
        ballot: Ballot,
        tid: TransactionId,
        vote: Vote,
        ts: Timestamp,
    ) {
        self.learn_ballot(step, group, ballot);
        // This coordinator does not know the quorums of a term with other members.
        let counts = step.configuration.electors.members.contains(&from)
            && ballot.configuration == step.configuration.electors.number;
        let Some(pending) = self.pending.get_mut(&tid).filter(|_| counts) else {
            step.counts.ignored += 1;
            return;
        };
        let answers = pending.answers.entry((group, ballot)).or_insert_with(|| Answers {
            vote: vote.clone(),
            ts,
            from: BTreeSet::new(),
        });
        // A leader may vote twice on an aborted transaction, because it forgot the transaction when
        // the coordinator's site left. A member that has not forgotten it then repeats the earlier
        // vote. Neither vote lets the transaction commit, so the two votes count together.
        let neither_commits = answers.vote != Vote::Commit && vote != Vote::Commit;
        if !neither_commits && (&answers.vote, answers.ts) != (&vote, ts) {
            // A term has one vote. A vote that differs from it does not count.
            step.counts.ignored += 1;
            return;
        }
        if answers.vote != vote {
            step.reach(rare::DIFFERENT_ABORTS);
        }
        if vote == Vote::Forgotten {
            answers.vote = vote;
        }
        answers.from.insert(from);
        let keepers = match step.config.keeps(Rule::Quorum) {
            true => step.configuration.keepers(step.config.f),
            false => 1,
        };
        if answers.from.len() < keepers {
            return;
        }
        let chosen = (answers.vote.clone(), answers.ts);
        pending.chosen.insert(group, chosen);
        if let Some(outcome) = pending.outcome() {
            self.on_decision(step, tid, outcome, None);
        }
    }

    /// Handles a leader's answer that a transaction is over, so that the leaders of its groups
    /// forget it.
    pub(crate) fn on_over(&mut self, step: &mut Step<'_, W>, tid: TransactionId, oldest: Serial) {
        let oldest = Some(oldest).filter(|_| step.config.keeps(Rule::LearnOldest));
        self.on_decision(step, tid, None, oldest);
    }

    /// Passes an outcome to the submitter here and to the leaders. The outcome was derived from the
    /// groups' answers, or received from a leader that knows it. For a transaction of another
    /// coordinator, also passes the first transaction that this coordinator may still submit, if it
    /// is known.
    pub(crate) fn on_decision(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        outcome: Option<Outcome>,
        oldest: Option<Serial>,
    ) {
        let own = self.pending.get(&tid).is_some_and(|pending| pending.submitted);
        if own && outcome.is_none() {
            // The groups remember the transaction while it is pending here.
            return;
        }
        let Some(pending) = self.pending.remove(&tid) else { return };
        if !pending.submitted {
            step.reach(match outcome {
                Some(Outcome::Committed(_)) => rare::THIRD_PARTY_COMMITS,
                Some(Outcome::Aborted(_)) => rare::THIRD_PARTY_ABORTS,
                None => rare::THIRD_PARTY_FINDS_IT_OVER,
            });
        }
        // A process that finishes a transaction late may find that all groups have forgotten it.
        if let Some(outcome) = outcome.as_ref().filter(|_| pending.submitted) {
            if pending.named {
                self.outcomes.add(tid.serial, outcome.clone());
            }
            // A transaction that was given up has no payloads, and is not retried.
            let about = || footprint(pending.payloads.values());
            let first = || Claim::new(pending.submitted_at, tid, about());
            let is_aborted = matches!(outcome, Outcome::Aborted(_));
            let claim = is_aborted.then(|| pending.claim.unwrap_or_else(first));
            step.outputs.push_back(Output::Decided { tid, outcome: outcome.clone(), claim });
        }
        let oldest = self.oldest_for(tid).or(oldest);
        let me = step.me();
        for group in pending.participants.iter() {
            let leader = self.leader(step, *group);
            let outcome = outcome.clone();
            let greatest = pending.proposes(*group, outcome.as_ref());
            let decision = Body::Decision { tid, outcome, oldest };
            if greatest && leader != me {
                // The member here may deliver without waiting for its leader.
                step.send_member(*group, me, decision.clone());
            }
            step.send_member(*group, leader, decision);
        }
    }

    /// Stops submitting a transaction. From now on, the coordinator only asks for the outcome. A
    /// group that never received the transaction then votes to abort. The client receives the
    /// identifier.
    pub(crate) fn give_up(&mut self, tid: TransactionId) {
        if let Some(pending) = self.pending.get_mut(&tid) {
            pending.named = true;
        }
        self.cancel(tid);
    }

    /// Like [`Self::give_up`], for a transaction whose identifier no client receives.
    pub(crate) fn cancel(&mut self, tid: TransactionId) {
        if let Some(pending) = self.pending.get_mut(&tid) {
            pending.payloads.clear();
        }
    }

    /// Returns the outcome of an own transaction whose client knows the identifier, if the outcome
    /// is known and recent.
    pub(crate) fn outcome(&self, tid: TransactionId) -> Option<&Outcome> {
        self.is_own(tid).then(|| self.outcomes.get(&tid.serial)).flatten()
    }

    /// Returns the number of transactions that wait for their outcome.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    fn is_own(&self, tid: TransactionId) -> bool {
        tid.coordinator == self.me && tid.serial.run == self.next.run
    }

    /// Returns the first own transaction that may still be submitted again.
    pub(crate) fn oldest(&self) -> Serial {
        let next = Serial { sequence: self.next.sequence + 1, ..self.next };
        // `pending` sorts own transactions by serial.
        let pending = self.pending.iter().find(|(_, pending)| pending.submitted);
        let reserved = self.reserved.first().copied().unwrap_or(next);
        pending.map_or(next, |(tid, _)| tid.serial).min(reserved)
    }

    /// Returns [`Self::oldest`] for own transactions, and `None` for others.
    fn oldest_for(&self, tid: TransactionId) -> Option<Serial> {
        self.is_own(tid).then(|| self.oldest())
    }
}

impl<W> Pending<W> {
    fn not_chosen(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.participants.iter().copied().filter(|group| !self.chosen.contains_key(group))
    }

    /// Returns whether the transaction commits at the time that this group proposed.
    fn proposes(&self, group: GroupId, outcome: Option<&Outcome>) -> bool {
        let proposed = self.chosen.get(&group).map(|(_, ts)| *ts);
        matches!(outcome, Some(Outcome::Committed(ts)) if Some(*ts) == proposed)
    }

    /// Returns the decision once it is known. It is abort as soon as one group has chosen abort. It
    /// is commit when all groups have chosen commit, at the greatest time. `Some(None)` if a group
    /// may have forgotten the transaction: then it is over, and no process needs its outcome.
    fn outcome(&self) -> Option<Option<Outcome>> {
        let against = self.chosen.values().find_map(|(vote, _)| match vote {
            Vote::Abort(cause) => Some(Some(Outcome::Aborted(cause.clone()))),
            Vote::Forgotten => Some(None),
            Vote::Commit => None,
        });
        let all = self.chosen.len() == self.participants.len();
        let greatest = self.chosen.values().map(|(_, ts)| *ts).max();
        against.or_else(|| greatest.filter(|_| all).map(|ts| Some(Outcome::Committed(ts))))
    }
}
