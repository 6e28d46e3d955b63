//! How a group gets another leader.
//!
//! A member that hears nothing of its leader first asks whether others do (canvass), so that one that
//! was cut off does not disturb a group that works. Then it begins a term: a quorum leaves all lower
//! ones and hands over what it has kept.
//!
//! Where only the link between a member and the leader is broken, nobody else would miss the leader, and
//! the member's site could commit nothing. Who hears both of them for long enough takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_machine::Address;
use solera_time::{Monotonic, SiteId, Timestamp};

use crate::ahead::Ahead;
use crate::config::Rule;
use crate::entry::{Phase, State};
use crate::ids::{Ballot, TransactionId};
use crate::leading::Leading;
use crate::member::{Member, Role, remember};
use crate::message::{Body, Record};
use crate::rare;
use crate::share::Vote;
use crate::step::Step;

/// A member on its way to lead.
#[derive(Debug)]
pub(crate) struct Candidacy<W> {
    ballot: Ballot,
    since: Monotonic,
    told_at: Monotonic,
    stage: Stage<W>,
}

#[derive(Debug)]
enum Stage<W> {
    Canvassing(BTreeSet<SiteId>),
    Gathering(BTreeMap<SiteId, State<W>>),
}

/// The members that have asked for another leader while this one hears it.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    /// When each first asked, and when it last did.
    by: BTreeMap<SiteId, (Monotonic, Monotonic)>,
    /// When this member last took over for one of them. A site that hears nobody is not helped by it.
    took_over: Option<Monotonic>,
}

/// A member takes over once in so long for those who do not hear the leader.
const TAKING_OVER: Duration = Duration::from_secs(15);

impl Unheard {
    /// Whether `site` has been asking for so long now; who is silent for as long begins anew.
    fn asks(&mut self, site: SiteId, now: Monotonic, patience: Duration) -> bool {
        let (first, last) = self.by.entry(site).or_insert((now, now));
        if now.since(*last) >= patience {
            *first = now;
        }
        *last = now;
        let again = self.took_over.is_none_or(|at| now.since(at) >= TAKING_OVER);
        again && now.since(*first) >= patience
    }
}

impl<W: Clone> Member<W> {
    /// Begins and goes on with what leads to another leader, where one is needed.
    pub(crate) fn elect(&mut self, step: &mut Step<'_, W>) {
        let me = step.me();
        if !step.configuration.members.contains(&me) {
            self.follow();
            return;
        }
        let timing = &step.config.timing;
        let (retry, patience) = (timing.retry, timing.leader_timeout);
        let outdated = self.ballot.configuration < step.configuration.number;
        match &mut self.role {
            Role::Leader(leading) => {
                let (now, delivered) = (step.now.monotonic, self.state.delivered);
                // Who is in the way of a change of members moves with it, without asking.
                let reason = if outdated {
                    Some(rare::TERM_OF_NEW_MEMBERS)
                } else if leading.waits_in_vain(delivered, now, patience * 2) {
                    Some(rare::TERM_TO_CATCH_UP)
                } else {
                    self.waits_for_what_is_lost(now, patience * 4)
                        .then_some(rare::TERM_WITHOUT_LOST_UPDATES)
                };
                if let Some(reason) = reason {
                    step.reach(reason);
                    self.begin_term(step);
                }
            }
            Role::Candidate(candidacy) => {
                let now = step.now.monotonic;
                if now.since(candidacy.since) >= patience * 2 {
                    // Somebody else may do better.
                    self.follow();
                    self.heard = now;
                } else if now.since(candidacy.told_at) >= retry {
                    candidacy.told_at = now;
                    let body = candidacy.body();
                    step.send_others(self.group, body);
                }
            }
            Role::Follower => {
                let turn = self.turn(step);
                let silent = step.now.monotonic.since(self.heard);
                let own = self.ballot.leader == me;
                if silent >= patience * (1 + turn) || own {
                    self.canvass(step);
                }
            }
        }
    }

    /// How many members are to lead before this one: the next after the leader is first.
    fn turn(&self, step: &Step<'_, W>) -> u32 {
        let members = &step.configuration.members;
        let place = |site: SiteId| members.iter().position(|other| *other == site);
        let mine = place(step.me()).unwrap_or(0);
        let after = place(self.ballot.leader).map_or(0, |leader| leader + 1);
        ((mine + members.len() - after % members.len()) % members.len()) as u32
    }

    /// Asks whether others hear of their leader.
    fn canvass(&mut self, step: &mut Step<'_, W>) {
        let ballot = self.next_ballot(step);
        self.stand(step, ballot, Stage::Canvassing(BTreeSet::new()));
        self.on_support(step, step.config.me.site, ballot);
    }

    /// Becomes the leader if a quorum lets it.
    pub(crate) fn take_over(&mut self, step: &mut Step<'_, W>) {
        let me = step.me();
        if !self.leads() && step.configuration.members.contains(&me) {
            self.begin_term(step);
        }
    }

    /// Whether it only asks whether others hear of their leader.
    pub(crate) fn canvasses(&self) -> bool {
        matches!(&self.role, Role::Candidate(Candidacy { stage: Stage::Canvassing(_), .. }))
    }

    fn next_ballot(&self, step: &Step<'_, W>) -> Ballot {
        let configuration = step.configuration.number.max(self.ballot.configuration);
        Ballot {
            configuration,
            round: self.ballot.round.saturating_add(1),
            leader: step.config.me.site,
        }
    }

    fn begin_term(&mut self, step: &mut Step<'_, W>) {
        let ballot = self.next_ballot(step);
        self.promise(step, ballot);
        self.stand(step, ballot, Stage::Gathering(BTreeMap::new()));
        let state = self.state.clone();
        self.on_promise(step, step.config.me.site, ballot, state);
    }

    fn stand(&mut self, step: &mut Step<'_, W>, ballot: Ballot, stage: Stage<W>) {
        let now = step.now.monotonic;
        let candidacy = Candidacy { ballot, since: now, told_at: now, stage };
        let body = candidacy.body();
        self.follow();
        self.role = Role::Candidate(candidacy);
        step.send_others(self.group, body);
    }

    /// Takes part in no lower term from now on.
    pub(crate) fn promise(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if ballot > self.ballot {
            self.ballot = ballot;
            step.record(Record::Promised(self.group, ballot));
        }
    }

    pub(crate) fn on_canvass(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) {
        if ballot <= self.ballot {
            step.send(from, self.group, Body::Stale { ballot: self.ballot });
            return;
        }
        let silent = step.now.monotonic.since(self.heard) >= step.config.timing.leader_timeout;
        let content = match self.role {
            Role::Leader(_) => true,
            Role::Follower | Role::Candidate(_) => !silent && self.ballot.leader != from.site,
        };
        if !content {
            step.send(from, self.group, Body::Support { ballot });
        } else if self.stands_between(step, from.site) {
            step.reach(rare::STANDS_BETWEEN);
            self.begin_term(step);
        }
    }

    /// Whether this member hears both the leader and a member that has not heard it for long.
    fn stands_between(&mut self, step: &Step<'_, W>, unhearing: SiteId) -> bool {
        let members = &step.configuration.members;
        let between = matches!(self.role, Role::Follower)
            && self.ballot.leader != unhearing
            && [unhearing, step.me()].iter().all(|site| members.contains(site));
        // More than the time from one question to the next, and later where others are to go first.
        let patience =
            step.config.timing.leader_timeout * (4 + members.len() as u32 + self.turn(step));
        let now = step.now.monotonic;
        let takes_over = between && self.unheard.asks(unhearing, now, patience);
        if takes_over {
            self.unheard = Unheard { by: BTreeMap::new(), took_over: Some(now) };
        }
        takes_over
    }

    pub(crate) fn on_support(&mut self, step: &mut Step<'_, W>, from: SiteId, ballot: Ballot) {
        let Role::Candidate(candidacy) = &mut self.role else { return };
        let Stage::Canvassing(supporters) = &mut candidacy.stage else { return };
        if ballot == candidacy.ballot && step.configuration.members.contains(&from) {
            supporters.insert(from);
            if supporters.len() >= step.configuration.quorum() {
                self.begin_term(step);
            }
        }
    }

    pub(crate) fn on_new_ballot(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) {
        if ballot < self.ballot || ballot.leader != from.site {
            step.send(from, self.group, Body::Stale { ballot: self.ballot });
            return;
        }
        if matches!(self.role, Role::Candidate(_)) {
            step.reach(rare::PROMISE_DURING_ELECTION);
        }
        self.promise(step, ballot);
        self.follow();
        self.heard = step.now.monotonic;
        let state = self.state.clone();
        step.send(from, self.group, Body::Promise { ballot, state });
    }

    /// Leads, once enough have handed over what they have kept.
    pub(crate) fn on_promise(
        &mut self,
        step: &mut Step<'_, W>,
        from: SiteId,
        ballot: Ballot,
        state: State<W>,
    ) {
        let Role::Candidate(candidacy) = &mut self.role else { return };
        let Stage::Gathering(states) = &mut candidacy.stage else { return };
        if ballot != candidacy.ballot || !step.configuration.members.contains(&from) {
            return;
        }
        states.insert(from, state);
        // Quorums of different members need not meet: then all of those that are left are asked.
        let changed = step.config.keeps(Rule::AllAfterChange)
            && states.values().any(|state| state.accepted_in.configuration < ballot.configuration);
        let enough = match changed {
            true => step.configuration.members.len(),
            false => step.configuration.quorum(),
        };
        if states.len() < enough && step.config.keeps(Rule::Gather) {
            return;
        }
        if changed {
            step.reach(rare::PROMISES_OF_ALL);
        }
        let states = std::mem::take(states);
        self.begin_to_lead(step, ballot, states.into_values().collect());
    }

    /// What follows from the states of a quorum.
    fn begin_to_lead(&mut self, step: &mut Step<'_, W>, ballot: Ballot, states: Vec<State<W>>) {
        let newest = states.iter().map(|state| state.accepted_in).max();
        let told_by = |states: &[State<W>]| -> BTreeSet<TransactionId> {
            let entries = states.iter().flat_map(|state| &state.entries);
            entries.filter(|(_, entry)| entry.told).map(|(tid, _)| *tid).collect()
        };
        let (told, told_here) = (told_by(&states), told_by(std::slice::from_ref(&self.state)));
        let mut merged = State { accepted_in: ballot, ..self.state.clone() };
        let mut base = merged.delivered;
        merged.entries.clear();
        for state in states {
            merged.ceiling = merged.ceiling.max(state.ceiling);
            base = base.max(state.delivered);
            for (coordinator, oldest) in state.oldest {
                merged.learn_oldest(coordinator, oldest);
            }
            if Some(state.accepted_in) != newest {
                continue;
            }
            for (tid, entry) in state.entries {
                match merged.entries.get_mut(&tid) {
                    Some(known) => {
                        known.phase = known.phase.max(entry.phase);
                        known.share = known.share.take().or(entry.share);
                    }
                    None => {
                        merged.entries.insert(tid, entry);
                    }
                }
            }
        }
        // What was not acknowledged was not chosen; it might wait for ever for what is lost.
        if step.config.keeps(Rule::DropUntold) {
            let before = merged.entries.len();
            merged
                .entries
                .retain(|tid, entry| entry.phase > Phase::Undecided || told.contains(tid));
            if merged.entries.len() < before {
                step.reach(rare::DROPS_UNTOLD);
            }
        }
        for (tid, entry) in &mut merged.entries {
            // What was delivered stays to be delivered: perhaps only one member has stored it.
            entry.told = told_here.contains(tid);
        }
        let before = std::mem::replace(&mut self.state, merged);
        for (tid, entry) in &before.entries {
            remember(step, *tid, entry);
        }
        step.clock.observe(self.latest().max(base));
        step.record(Record::Took(self.group, self.state.clone()));
        self.conflicts.forget_prepared();
        for (tid, entry) in &self.state.entries {
            match (&entry.share, entry.phase) {
                (Some(share), Phase::Undecided) if entry.vote == Vote::Commit => {
                    self.conflicts.prepare(*tid, share, entry.ts);
                }
                (Some(share), Phase::Committed(ts)) => self.conflicts.commit(share, ts),
                _ => {}
            }
        }
        let leading = Leading::new(step.now.monotonic, base, &self.state.entries);
        self.ahead = Ahead::default();
        self.role = Role::Leader(Box::new(leading));
        self.name_leader(step, ballot);
        step.send_others(self.group, Body::NewState { state: self.state.clone() });
        self.tell_status(step);
    }

    /// Leads from the very beginning, when nothing was kept by anybody.
    pub(crate) fn lead_at_once(&mut self, step: &mut Step<'_, W>) {
        let leading = Leading::new(step.now.monotonic, Timestamp::ZERO, &self.state.entries);
        self.ahead = Ahead::default();
        self.role = Role::Leader(Box::new(leading));
        self.name_leader(step, self.ballot);
        self.tell_status(step);
    }

    pub(crate) fn on_new_state(&mut self, step: &mut Step<'_, W>, from: Address, state: State<W>) {
        let ballot = state.accepted_in;
        if ballot < self.ballot || ballot.leader != from.site {
            step.send(from, self.group, Body::Stale { ballot: self.ballot });
            return;
        }
        if ballot <= self.state.accepted_in || ballot.leader == step.me() {
            return;
        }
        let delivered = self.state.delivered;
        let ceiling = self.state.ceiling.max(state.ceiling);
        let before = std::mem::replace(&mut self.state, State { delivered, ceiling, ..state });
        for (tid, entry) in &before.entries {
            remember(step, *tid, entry);
        }
        for (tid, entry) in &mut self.state.entries {
            entry.told = before.entries.get(tid).is_some_and(|entry| entry.told);
        }
        self.ballot = ballot;
        self.follow();
        self.heard = step.now.monotonic;
        step.record(Record::Took(self.group, self.state.clone()));
        step.clock.observe(self.latest());
        self.name_leader(step, ballot);
    }

    pub(crate) fn on_need_state(&mut self, step: &mut Step<'_, W>, from: Address, ballot: Ballot) {
        if self.leads() && ballot == self.state.accepted_in {
            step.send(from, self.group, Body::NewState { state: self.state.clone() });
        }
    }

    /// There is a higher term: a leader of a lower one can decide nothing.
    pub(crate) fn on_stale(&mut self, step: &mut Step<'_, W>, ballot: Ballot) {
        if ballot > self.ballot {
            if self.leads() {
                step.reach(rare::DEPOSED_LEADER);
            }
            self.promise(step, ballot);
            self.follow();
            self.heard = step.now.monotonic;
        }
    }
}

impl<W> Candidacy<W> {
    fn body(&self) -> Body<W> {
        let ballot = self.ballot;
        match self.stage {
            Stage::Canvassing(_) => Body::Canvass { ballot },
            Stage::Gathering(_) => Body::NewBallot { ballot },
        }
    }
}
