//! A member of one group, in one of three roles.

use std::sync::Arc;

use solera_election::Candidacy;
use solera_machine::{Address, Now};
use solera_time::{SiteId, Timestamp};

use crate::config::{Config, Configuration, Rule};
use crate::entry::State;
use crate::following::Follower;
use crate::ids::{Ballot, GroupId, Serial, TransactionId};
use crate::kept::Kept;
use crate::leading::{Leader, PrepareRequest, Reported};
use crate::message::Body;
use crate::payload::Outcome;
use crate::rare;
use crate::step::Step;

/// The member of a group at one site.
#[derive(Debug)]
pub(crate) struct Member<W> {
    pub(crate) kept: Kept<W>,
    pub(crate) role: Role<W>,
}

/// Role of a member in its group, with the state that belongs to this role only.
#[derive(Debug)]
pub(crate) enum Role<W> {
    Follower(Follower),
    Candidate(Candidate<W>),
    Leader(Box<Leader<W>>),
}

/// A member that stands for election. Until it leads, it delivers as a follower does.
#[derive(Debug)]
pub(crate) struct Candidate<W> {
    pub(crate) candidacy: Candidacy<State<W>>,
    pub(crate) follower: Follower,
}

impl<W: Clone> Member<W> {
    /// Creates a member without stored votes. Every group begins in a term of the preferred site.
    pub(crate) fn new(group: GroupId, ballot: Ballot, sites: usize, now: Now) -> Self {
        Member {
            kept: Kept::new(group, ballot, sites, now),
            role: Role::Follower(Follower::default()),
        }
    }

    /// Returns whether the member leads.
    pub(crate) fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Returns the site that was last seen to lead.
    pub(crate) fn leader(&self) -> SiteId {
        self.kept.last_begun().leader
    }

    /// Returns whether there are no transactions, and the member is not about to lead.
    pub(crate) fn is_idle(&self) -> bool {
        let by_role = match &self.role {
            Role::Follower(_) => true,
            Role::Candidate(_) => false,
            Role::Leader(leader) => !leader.has_deferred(),
        };
        by_role && self.kept.state.entries.is_empty() && self.kept.deferred_acks.is_empty()
    }

    /// Becomes a follower. Drops the state of a leader or candidate: the coordinators of deferred
    /// requests send these to the next leader as soon as they learn of it.
    pub(crate) fn follow(&mut self) {
        let follower = self.take_follower();
        self.role = Role::Follower(follower);
    }

    /// Returns the follower if a leader's message belongs to the term that it follows, and it has
    /// the initial state of that term.
    pub(crate) fn follows(
        &mut self,
        step: &mut Step<'_, W>,
        from: Address,
        ballot: Ballot,
    ) -> Option<(&mut Follower, &mut Kept<W>)> {
        let promised = self.kept.election.ballot();
        if ballot < promised {
            step.counts.ignored += 1;
            self.kept.refuse(step, from);
            return None;
        }
        if ballot.leader == step.me() {
            step.counts.ignored += 1;
            return None;
        }
        self.kept.election.hear(step.now.monotonic);
        let canvasses = matches!(
            &self.role, Role::Candidate(Candidate { candidacy, .. }) if candidacy.canvasses()
        );
        if ballot > promised || canvasses {
            self.follow();
        }
        let Member { kept, role } = self;
        kept.promise(step, ballot);
        kept.name_leader(step, ballot);
        if ballot > kept.state.accepted_in {
            step.reach(rare::NEEDS_STATE);
            step.send(from, kept.group, Body::NeedState { ballot });
            return None;
        }
        let Role::Follower(follower) = role else {
            unreachable!(
                "a member that leads, or asks for promises, has promised a term of its own"
            )
        };
        Some((follower, kept))
    }

    /// Takes the follower's state, for the member's next role.
    pub(crate) fn take_follower(&mut self) -> Follower {
        match &mut self.role {
            Role::Follower(follower) | Role::Candidate(Candidate { follower, .. }) => {
                std::mem::take(follower)
            }
            Role::Leader(_) => Follower::default(),
        }
    }

    pub(crate) fn on_message(&mut self, step: &mut Step<'_, W>, from: Address, body: Body<W>) {
        match body {
            Body::Prepare { tid, payload, participants, oldest, until, claim } => {
                let request =
                    PrepareRequest { coordinator: from, payload, participants, until, claim };
                self.on_prepare(step, tid, request, oldest);
            }
            Body::Decision { tid, outcome, oldest } => {
                self.on_decision(step, tid, outcome, oldest);
            }
            Body::Finished { tid, of, answer } => {
                // The sender may not know the leader, so it sends the message to all members. Only
                // the leader handles it.
                if let Role::Leader(leader) = &mut self.role {
                    leader.on_through(&mut self.kept, step, tid, of, answer);
                }
            }
            Body::Oldest { oldest } => self.learn_oldest(step, from, Some(oldest)),
            Body::Accept { ballot, tid, entry, coordinator, after } => {
                if let Some((follower, kept)) = self.follows(step, from, ballot) {
                    follower.on_accept(kept, step, tid, entry, coordinator, after);
                }
            }
            Body::Status { ballot, ceiling, upto, range, phases, oldest } => {
                for (coordinator, oldest) in oldest {
                    self.learn_oldest(step, coordinator, Some(oldest));
                }
                if let Some((_, kept)) = self.follows(step, from, ballot) {
                    kept.keep_ceiling(step, ceiling);
                    kept.take_phases(step, upto, range, phases);
                    let delivered = kept.state.delivered;
                    let body = Body::StatusKept { ballot, ceiling, delivered };
                    step.send(from, kept.group, body);
                }
            }
            Body::StatusKept { ballot, ceiling, delivered } => {
                self.on_status_kept(step, from.site, ballot, Reported { ceiling, delivered });
            }
            Body::Canvass { ballot } => self.on_canvass(step, from, ballot),
            Body::Support { ballot } => self.on_support(step, from.site, ballot),
            Body::NewBallot { ballot } => self.on_new_ballot(step, from, ballot),
            Body::Promise { ballot, state } => self.on_promise(step, from.site, ballot, state),
            Body::NewState { state } => self.on_new_state(step, from, state),
            Body::NeedState { ballot } => self.on_need_state(step, from, ballot),
            Body::Stale { ballot } => self.on_stale(step, ballot),
            Body::TakeOver => self.take_over(step),
            Body::NotLeader { .. }
            | Body::Accepted { .. }
            | Body::OutcomeForgotten { .. }
            | Body::AskOldest => unreachable!("the service gives these to its coordinator"),
        }
    }

    /// Lets a leader vote on a transaction. A member that does not lead answers with the leader.
    fn on_prepare(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        request: PrepareRequest<W>,
        oldest: Option<Serial>,
    ) {
        self.learn_oldest(step, tid.coordinator, oldest);
        self.kept.asked_by.insert(request.coordinator);
        if let Role::Leader(leader) = &mut self.role {
            return leader.on_prepare(&mut self.kept, step, tid, request);
        }
        let ballot = match step.config.keeps(Rule::NameLeaders) {
            true => self.kept.last_begun(),
            false => self.kept.election.ballot(),
        };
        step.send(request.coordinator, self.kept.group, Body::NotLeader { ballot });
    }

    /// Handles the outcome of a transaction that a coordinator has determined.
    fn on_decision(
        &mut self,
        step: &mut Step<'_, W>,
        tid: TransactionId,
        outcome: Option<Outcome>,
        oldest: Option<Serial>,
    ) {
        self.learn_oldest(step, tid.coordinator, oldest);
        match &mut self.role {
            Role::Leader(leader) => leader.on_decision(&mut self.kept, step, tid, outcome),
            Role::Follower(follower) | Role::Candidate(Candidate { follower, .. }) => {
                if let Some(Outcome::Committed(ts)) = outcome {
                    follower.on_commit(&mut self.kept, step, tid, ts);
                }
            }
        }
    }

    /// Handles a member's report that it has stored the ceiling.
    fn on_status_kept(
        &mut self,
        step: &mut Step<'_, W>,
        from: SiteId,
        ballot: Ballot,
        reported: Reported,
    ) {
        let counts = ballot == self.kept.state.accepted_in
            && step.configuration.electors.members.contains(&from);
        match &mut self.role {
            Role::Leader(leader) if counts => {
                leader.on_status_kept(&mut self.kept, step, from, reported);
            }
            _ => step.counts.ignored += 1,
        }
    }

    /// Records that a coordinator will not submit any transaction earlier than `oldest` again.
    fn learn_oldest(&mut self, step: &Step<'_, W>, coordinator: Address, oldest: Option<Serial>) {
        let learns = self.leads() || step.config.keeps(Rule::LearnOldest);
        if let Some(oldest) = oldest.filter(|_| learns) {
            self.kept.state.learn_oldest(coordinator, oldest);
        }
    }

    /// Delivers the transactions that nothing can precede.
    pub(crate) fn deliver(&mut self, step: &mut Step<'_, W>) {
        match &mut self.role {
            Role::Leader(leader) => leader.deliver(&mut self.kept, step),
            Role::Follower(follower) | Role::Candidate(Candidate { follower, .. }) => {
                follower.deliver_ahead(&mut self.kept, step);
            }
        }
    }

    /// Performs a leader's periodic work.
    pub(crate) fn lead(&mut self, step: &mut Step<'_, W>) {
        if let Role::Leader(leader) = &mut self.role {
            leader.on_tick(&mut self.kept, step);
        }
    }

    /// Returns undecided transactions whose coordinator should have sent the outcome long ago.
    pub(crate) fn overdue(&mut self, step: &Step<'_, W>) -> Vec<(TransactionId, Arc<[GroupId]>)> {
        match &mut self.role {
            Role::Leader(leader) => leader.overdue(&self.kept, step),
            Role::Follower(_) | Role::Candidate(_) => Vec::new(),
        }
    }

    /// Notes that the host has discarded all data that it had stored.
    pub(crate) fn stores_nothing(&mut self) {
        self.kept.state.delivered = Timestamp::ZERO;
    }

    /// Forgets the serials of coordinators at sites that have left, which submit nothing any more.
    /// Their deferred requests get no vote.
    pub(crate) fn forget_former(&mut self, config: &Config, configuration: &Configuration) {
        let stays = |site: &SiteId| configuration.electors.members.contains(site);
        self.kept.state.oldest.retain(|coordinator, _| stays(&coordinator.site));
        self.kept.asked_by.retain(|coordinator| stays(&coordinator.site));
        if let Role::Leader(leader) = &mut self.role
            && config.keeps(Rule::ForgetFormer)
        {
            leader.forget_deferred(|tid| !stays(&tid.coordinator.site));
        }
    }
}
