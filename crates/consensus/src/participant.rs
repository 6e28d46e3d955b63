//! Processing of one input by a member: dispatch, and the steps that follow every input.

use solera_election::{Ballot, Candidacy};
use solera_time::{Monotonic, SiteId};

use crate::handing_over::{Gathered, HandOver, PromisePart};
use crate::ids::Held;
use crate::leading::Leader;
use crate::message::Message;
use crate::rare;
use crate::record::Record;
use crate::state::State;
use crate::step::Step;

/// A member without its configuration and outputs, which are in the [`Step`].
#[derive(Debug)]
pub(crate) struct Participant<B> {
    pub(crate) state: State,
    pub(crate) role: Role,
    /// State that the member hands over to the candidate that it has promised last.
    pub(crate) handing_over: Option<HandOver<B>>,
}

/// Role of a member, with the state that belongs to this role only.
#[derive(Debug)]
pub(crate) enum Role {
    Follower,
    Candidate(Candidate),
    Leader(Leader),
}

/// A member that stands for election.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) candidacy: Candidacy<Promised>,
    pub(crate) gathered: Gathered,
}

/// State that a member hands over with its promise.
#[derive(Debug)]
pub(crate) struct Promised {
    /// The last configuration that the member knows to be established.
    pub(crate) established: u64,
    pub(crate) slots: Vec<Held>,
}

impl<B: Clone> Participant<B> {
    /// Creates a participant whose first term this is.
    pub(crate) fn new(first: Ballot, now: Monotonic) -> Self {
        Participant { state: State::new(first, now), role: Role::Follower, handing_over: None }
    }

    /// Begins in the first term of a new cluster.
    pub(crate) fn found(&mut self, step: &mut Step<'_, B>) {
        let ballot = self.state.election.ballot();
        // After a restart, the configuration may name another first leader.
        step.record(Record::Promised(ballot));
        if ballot.leader == step.me() && step.electors.number == ballot.configuration {
            self.lead_at_once(step);
        }
    }

    /// Performs periodic work.
    pub(crate) fn on_tick(&mut self, step: &mut Step<'_, B>) {
        self.elect(step);
        self.ask_if_lacking(step);
        if let Role::Leader(leader) = &mut self.role {
            leader.on_tick(&mut self.state, step);
        }
    }

    /// Accepts, proposes and delivers what is possible.
    pub(crate) fn proceed(&mut self, step: &mut Step<'_, B>) {
        self.state.accept_kept(step);
        self.state.deliver(step);
        if let Role::Leader(leader) = &mut self.role {
            leader.propose(&mut self.state, step);
            // A single member decides at once.
            self.state.deliver(step);
        }
    }

    pub(crate) fn on_message(&mut self, step: &mut Step<'_, B>, from: SiteId, message: Message<B>) {
        match message {
            Message::Accept { ballot, slot, batch } => {
                if self.follows(step, from, ballot) && !self.state.log.is_far(slot) {
                    self.state.on_accept(step, ballot, slot, batch);
                }
            }
            Message::Accepted { ballot, slot } => {
                self.state.on_accepted(step, from, ballot, slot);
            }
            Message::Status { ballot, decided, everywhere, established } => {
                if self.follows(step, from, ballot) {
                    self.on_status(step, ballot, decided, everywhere, established);
                }
            }
            Message::Report { ballot, delivered } => {
                if let Role::Leader(leader) = &mut self.role {
                    leader.on_report(&mut self.state, step, from, ballot, delivered);
                }
            }
            Message::Ask { after } => self.on_ask(step, from, after),
            Message::Decided { slots } => self.on_decided(step, from, slots),
            Message::Forgotten { upto } => self.on_forgotten(step, from, upto),
            Message::Canvass { ballot } => self.on_canvass(step, from, ballot),
            Message::Support { ballot } => self.on_support(step, from, ballot),
            Message::NewBallot { ballot, delivered, attempt, part } => {
                self.on_new_ballot(step, from, ballot, delivered, (attempt, part));
            }
            Message::Promise { ballot, version, part, parts, established, slots, bodies } => {
                let part = PromisePart { version, part, parts, established, slots, bodies };
                self.on_promise(step, from, ballot, part);
            }
            Message::Stale { ballot } => self.on_stale(step, ballot),
            Message::TakeOver => self.take_over(step),
        }
    }

    /// Returns whether a leader's message belongs to the term that this member follows.
    fn follows(&mut self, step: &mut Step<'_, B>, from: SiteId, ballot: Ballot) -> bool {
        if ballot.leader != from {
            return false;
        }
        if State::is_former(step, ballot) {
            step.reach(rare::FORMER_CONFIGURATION);
            self.state.refuse(step, from);
            return false;
        }
        let promised = self.state.election.ballot();
        if ballot < promised {
            self.state.refuse(step, from);
            return false;
        }
        self.state.election.hear(step.now);
        let canvasses =
            matches!(&self.role, Role::Candidate(candidate) if candidate.candidacy.canvasses());
        if ballot > promised || canvasses {
            self.role = Role::Follower;
        }
        self.state.promise(step, ballot);
        self.state.name_leader(step, ballot);
        self.handing_over = None;
        true
    }
}
