//! Progress: from every state, the members of a connected majority deliver every cast that they
//! have with its context, whatever the others do.

use crate::protocol::*;
use crate::scenarios::Rule;

impl Broadcast {
    /// Whether each majority of the members makes progress on its own, with each of its members as
    /// a new leader if it has none.
    pub fn majorities_make_progress(&self, state: &State) -> bool {
        (1..1 << self.scenario.members).all(|connected: Set| {
            // The second configuration concerns only those that know it.
            let mut state = state.clone();
            let moves = state.moved & connected != 0;
            state.moved = if moves { self.configuration(1) & connected } else { 0 };
            let configuration = self.configuration(moves.into());
            let connected = connected & configuration;
            if !self.can_go_on(&state, connected, configuration) {
                return true;
            }
            if let Some(leader) = self.leader_of(&state, connected) {
                return self.delivers_all(&mut state, connected, leader);
            }
            elements(connected).all(|leader| {
                let mut state = state.clone();
                let ballot = self.last_ballot();
                for member in elements(connected) {
                    self.promise(&mut state, member, ballot);
                }
                self.forget(&mut state);
                if !self.may_lead(&state, ballot, connected) {
                    return false;
                }
                self.lead(&mut state, leader, ballot, connected);
                self.delivers_all(&mut state, connected, leader)
            })
        })
    }

    /// Whether some members are the smallest number that must make progress: a quorum, or all new
    /// members until the configuration is settled.
    fn can_go_on(&self, state: &State, connected: Set, configuration: Set) -> bool {
        let all = state.moved != 0 && state.settled & connected == 0;
        let least =
            if all { configuration.count_ones() } else { configuration.count_ones() / 2 + 1 };
        connected.count_ones() == least
    }

    /// Returns the leader that all these members still accept. While it works, no other one is
    /// elected.
    fn leader_of(&self, state: &State, connected: Set) -> Option<Member> {
        let promised = elements(connected).map(|member| state.promised[member]).max()?;
        let newest = u8::from(state.moved != 0);
        elements(connected).find(|member| {
            let ballot = state.leads[*member];
            ballot != NONE
                && ballot >= promised
                && self.number_of_configuration(state, ballot.into()) == newest
        })
    }

    /// Lets these members do all that messages between them cause. All other messages are lost.
    fn delivers_all(&self, state: &mut State, connected: Set, leader: Member) -> bool {
        let ballot = usize::from(state.leads[leader]);
        loop {
            let before = state.clone();
            for member in elements(connected) {
                self.exchange(state, member, connected);
            }
            for slot in 0..SLOTS {
                self.propose_again(state, leader, slot);
            }
            loop {
                let cast = elements(self.proposable(state, leader)).next();
                let (_, end) = self.planned(state, leader);
                let Some(cast) = cast.filter(|_| end < SLOTS) else { break };
                self.propose(state, leader, end, bit(cast));
            }
            for member in elements(connected) {
                for slot in 0..SLOTS {
                    self.accept(state, member, ballot, slot);
                }
            }
            for member in elements(connected) {
                self.deliver_known(state, member, connected);
            }
            if *state == before {
                break;
            }
        }
        let bodies = elements(connected).fold(0, |set, member| set | state.bodies[member]);
        // An operation that arrived without its context may wait for it in vain, if the sites that
        // have the context do nothing. The site that invoked it has the context.
        let complete = |cast: &Operation| {
            is_subset(self.required(state, *cast), bodies)
                || contains(connected, self.scenario.operations[*cast].site)
        };
        let due: Set = elements(bodies & self.strong).filter(complete).map(bit).sum();
        elements(connected).all(|member| is_subset(due, self.delivered(state.log(member)).set))
    }

    /// Lets a member receive all operations that it lacks from the connected ones (S2).
    fn exchange(&self, state: &mut State, member: Member, connected: Set) {
        for operation in 0..self.scenario.operations.len() {
            let in_order = is_subset(self.earlier[operation], state.bodies[member])
                || !self.has(Rule::InOrder);
            let origin = self.scenario.operations[operation].site;
            let from = |other: &Member| {
                let truncated = state.truncated[*other].min(state.delivered[*other]);
                let dropped = &state.logs[*other][..usize::from(truncated)];
                contains(state.bodies[*other], operation)
                    && !contains(self.committed(state, dropped), operation)
                    && (*other == origin || self.has(Rule::Relay))
            };
            if in_order && elements(connected).any(|other| from(&other)) {
                state.bodies[member] |= bit(operation);
            }
        }
    }

    /// Lets a member deliver the slots that the connected ones have decided.
    fn deliver_known(&self, state: &mut State, member: Member, connected: Set) {
        while usize::from(state.delivered[member]) < SLOTS {
            let slot = usize::from(state.delivered[member]);
            let decided = elements(connected).find_map(|other| state.decided(other, slot));
            let value = decided.or_else(|| self.chosen(state, slot, connected));
            if !value.is_some_and(|value| self.deliver(state, member, value)) {
                break;
            }
        }
    }
}
