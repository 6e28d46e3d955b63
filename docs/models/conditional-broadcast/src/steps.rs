//! Steps of members.

use crate::protocol::*;
use crate::scenarios::Rule;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A site invokes an operation, and broadcasts it.
    Invoke(Operation),
    /// A member receives an operation.
    Receive(Member, Operation),
    /// The leader proposes casts in its next slot.
    Propose(Member, Value),
    /// The leader proposes a value that it has taken over.
    ProposeAgain(Member, Slot),
    Accept(Member, Ballot, Slot),
    /// The owner of a ballot stands for it.
    Prepare(Ballot),
    Promise(Member, Ballot),
    /// The candidate has the promises of these members.
    Lead(Ballot, Set),
    /// A member delivers its next slot.
    Deliver(Member),
    Restart(Member),
    /// A member truncates its next slot.
    Truncate(Member),
    /// A member learns the second configuration.
    Configure(Member),
    /// A member learns that the second configuration is settled.
    Settle(Member),
}
use Action::*;

impl Broadcast {
    /// Takes a step. Returns whether its conditions hold.
    pub fn step(&self, state: &mut State, action: Action) -> bool {
        match action {
            Invoke(operation) => self.invoke(state, operation),
            Receive(member, operation) => self.receive(state, member, operation),
            Propose(leader, value) => {
                let (slots, end) = self.planned(state, leader);
                let may = slots.len() > end && is_subset(value, self.proposable(state, leader));
                if may {
                    self.propose(state, leader, end, value);
                }
                may
            }
            ProposeAgain(leader, slot) => self.propose_again(state, leader, slot),
            Accept(member, ballot, slot) => self.accept(state, member, ballot, slot),
            Prepare(ballot) => {
                let (owner, configuration) = self.scenario.ballots[ballot];
                let knows = contains(state.moved, owner) == (configuration == 1);
                let may = knows && usize::from(state.promised[owner]) < ballot;
                if may {
                    self.promise(state, owner, ballot);
                    state.stands[owner] = ballot as u8;
                }
                may
            }
            Promise(member, ballot) => {
                let may = contains(self.electorate(state, ballot), member)
                    && usize::from(state.promised[member]) < ballot;
                if may {
                    self.promise(state, member, ballot);
                }
                may
            }
            Lead(ballot, quorum) => {
                let (owner, _) = self.scenario.ballots[ballot];
                let may = usize::from(state.stands[owner]) == ballot
                    && contains(quorum, owner)
                    && is_subset(quorum, state.promises[ballot])
                    && self.may_lead(state, ballot, quorum);
                if may {
                    self.lead(state, owner, ballot, quorum);
                }
                may
            }
            Deliver(member) => {
                let slot = usize::from(state.delivered[member]);
                slot < SLOTS
                    && self
                        .chosen(state, slot, Set::MAX)
                        .is_some_and(|value| self.deliver(state, member, value))
            }
            Restart(member) => self.restart(state, member),
            Truncate(member) => self.truncate(state, member),
            Configure(member) => {
                let may = contains(self.configuration(1), member);
                state.moved |= bit(member);
                may
            }
            Settle(member) => self.settle(state, member),
        }
    }

    // Streams.

    /// Invokes an operation with its causal context.
    fn invoke(&self, state: &mut State, operation: Operation) -> bool {
        let invoked = &self.scenario.operations[operation];
        let site = invoked.site;
        let may = state.runs[site] == invoked.run
            && !contains(state.invoked, operation)
            && is_subset(self.earlier[operation], state.invoked);
        if may {
            // Strong operations without a decision are not in the context (S3).
            let weak = state.bodies[site] & !self.strong;
            state.contexts[operation] = weak | self.committed(state, state.log(site));
            state.invoked |= bit(operation);
            state.bodies[site] |= bit(operation);
            let weak = if self.has(Rule::DurableInvoked) { weak } else { 0 };
            state.durable[site] |= bit(operation) | state.bodies[site] & self.closure(weak);
        }
        may
    }

    /// Takes the next operation of a stream (S1).
    fn receive(&self, state: &mut State, member: Member, operation: Operation) -> bool {
        let may = contains(state.invoked, operation)
            && (is_subset(self.earlier[operation], state.bodies[member])
                || !self.has(Rule::InOrder));
        state.bodies[member] |= bit(operation);
        may
    }

    // Slots.

    /// Proposes a value. The proposal is the leader's acceptance (L3).
    pub fn propose(&self, state: &mut State, leader: Member, slot: Slot, value: Value) {
        let ballot = usize::from(state.leads[leader]);
        state.plans[leader][slot] = value;
        state.proposals[ballot][slot] = value;
        self.accept(state, leader, ballot, slot);
    }

    /// Proposes a value that the leader has taken over (L3).
    pub fn propose_again(&self, state: &mut State, leader: Member, slot: Slot) -> bool {
        let ballot = usize::from(state.leads[leader]);
        let value = state.plans[leader][slot];
        let may = value != NONE
            && state.proposals[ballot][slot] == NONE
            && self.holds_for_all(state, leader, value);
        if may {
            self.propose(state, leader, slot, value);
        }
        may
    }

    /// Accepts a proposal (A1–A3).
    pub fn accept(&self, state: &mut State, member: Member, ballot: Ballot, slot: Slot) -> bool {
        let value = state.proposals[ballot][slot];
        let current =
            usize::from(state.promised[member]) <= ballot || !self.has(Rule::AcceptPromised);
        let may = value != NONE
            && contains(self.electorate(state, ballot), member)
            && current
            && slot >= usize::from(state.truncated[member])
            && (self.holds_for_all(state, member, value) || !self.has(Rule::AcceptWhereHolds));
        if !may {
            return false;
        }
        if usize::from(state.promised[member]) < ballot {
            self.enter(state, member, ballot);
        }
        state.votes[ballot][slot] |= bit(member);
        for cast in elements(value).filter(|_| self.has(Rule::DurableBodies)) {
            let stored =
                if self.has(Rule::DurableContext) { self.required(state, cast) } else { bit(cast) };
            let stored = if self.has(Rule::DurableStreams) { self.closure(stored) } else { stored };
            state.durable[member] |= stored & state.bodies[member];
        }
        true
    }

    /// Delivers a value in the member's next slot (D2–D5).
    pub fn deliver(&self, state: &mut State, member: Member, value: Value) -> bool {
        let slot = usize::from(state.delivered[member]);
        let mut slots = state.logs[member];
        slots[slot] = value;
        let before = self.delivered(&slots[..slot]).casts().len();
        let delivered = self.delivered(&slots[..=slot]);
        let casts = || delivered.iter().skip(before);
        let holds = casts().all(|cast| self.holds(state, member, cast));
        if !holds && self.has(Rule::DeliverWhereHolds) {
            return false;
        }
        for cast in casts() {
            let stored = self.closure(self.required(state, cast));
            state.durable[member] |= stored & state.bodies[member];
        }
        state.logs[member] = slots;
        state.delivered[member] += 1;
        true
    }

    /// Truncates the member's next slot (T1).
    fn truncate(&self, state: &mut State, member: Member) -> bool {
        let slot = state.truncated[member];
        let configuration = self.configuration(u8::from(contains(state.moved, member)));
        let having = self.members().filter(|other| state.delivered[*other] > slot);
        let having: Set = having.map(bit).sum();
        let may = slot < state.delivered[member]
            && if self.has(Rule::TruncateAtAll) {
                is_subset(configuration, having)
            } else {
                self.is_quorum(having, configuration)
            };
        state.truncated[member] += 1;
        may
    }

    // Ballots.

    /// Promises a ballot (P1).
    pub fn promise(&self, state: &mut State, member: Member, ballot: Ballot) {
        self.enter(state, member, ballot);
        state.promises[ballot] |= bit(member);
        if self.number_of_configuration(state, ballot) == 1 {
            state.moved |= bit(member);
        }
    }

    /// Leaves all lower ballots for this one.
    fn enter(&self, state: &mut State, member: Member, ballot: Ballot) {
        state.promised[member] = ballot as u8;
        let settled = if contains(state.settled, member) { SETTLED } else { 0 };
        state.entered[ballot][member] = state.delivered[member] | settled;
    }

    /// Whether the promises of some members suffice to lead (P4).
    pub fn may_lead(&self, state: &State, ballot: Ballot, promised: Set) -> bool {
        let electorate = self.electorate(state, ballot);
        let first = self.number_of_configuration(state, ballot) == 1
            && !elements(promised).any(|member| state.promised_settled(member, ballot))
            && self.has(Rule::AllPromise);
        if first { is_subset(electorate, promised) } else { self.is_quorum(promised, electorate) }
    }

    /// Begins to lead with the promises of some members (L1, L2).
    pub fn lead(&self, state: &mut State, leader: Member, ballot: Ballot, promised: Set) {
        let delivered = usize::from(state.delivered[leader]);
        let mut plan = [NONE; SLOTS];
        for (slot, value) in plan.iter_mut().enumerate().skip(delivered) {
            *value = self.selected(state, ballot, slot, promised).unwrap_or(NONE);
        }
        let end = plan.iter().rposition(|value| *value != NONE).map_or(delivered, |slot| slot + 1);
        for value in plan[delivered..end].iter_mut().filter(|value| **value == NONE) {
            *value = if self.has(Rule::FillGaps) { 0 } else { NONE };
        }
        if self.has(Rule::PromiseBodies) {
            for member in elements(promised) {
                let handed =
                    (delivered..end).filter_map(|slot| state.accepted(member, ballot, slot));
                let casts = handed.fold(0, |set, (_, value)| set | value);
                state.bodies[leader] |= self.handed_over(state, member, casts);
            }
        }
        state.leads[leader] = ballot as u8;
        state.stands[leader] = NONE;
        state.plans[leader] = plan;
        state.inherited[leader] = end as u8;
    }

    /// Returns the value that a new leader takes over for a slot (L1).
    fn selected(&self, state: &State, ballot: Ballot, slot: Slot, promised: Set) -> Option<Value> {
        let decided = elements(promised)
            .filter(|member| slot < usize::from(state.handed(*member, ballot)))
            .find_map(|member| state.decided(member, slot))
            .filter(|_| self.has(Rule::PromiseDecided));
        let accepted = elements(promised)
            .filter(|_| self.has(Rule::TakeOver))
            .filter_map(|member| state.accepted(member, ballot, slot));
        let accepted = if self.has(Rule::SelectHighest) {
            accepted.max_by_key(|(ballot, _)| *ballot)
        } else {
            accepted.min_by_key(|(ballot, _)| *ballot)
        };
        decided.or(accepted.map(|(_, value)| value))
    }

    /// Returns the operations that a member hands over for its accepted casts (P3).
    fn handed_over(&self, state: &State, member: Member, casts: Set) -> Set {
        let required = elements(casts).fold(0, |set, cast| set | self.required(state, cast));
        let closed = if self.has(Rule::PromiseStreams) { self.closure(required) } else { required };
        let committed = self.committed(state, state.log(member));
        (casts | closed & !committed) & state.bodies[member]
    }

    /// Loses everything that is not durable (L5, S4).
    fn restart(&self, state: &mut State, member: Member) -> bool {
        state.bodies[member] = state.durable[member];
        if self.scenario.operations.iter().any(|operation| operation.site == member) {
            state.runs[member] += 1;
        }
        if self.has(Rule::LeadAfterPromises) {
            state.leads[member] = NONE;
        } else if state.leads[member] != NONE {
            // The leader goes on: its next proposals differ from the former ones of its ballot.
            state.leads[member] += 1;
            state.promised[member] = state.leads[member];
        }
        state.stands[member] = NONE;
        state.plans[member] = [NONE; SLOTS];
        let voted = |ballot: &Ballot| state.votes[*ballot].iter().any(|set| contains(*set, member));
        let voted: Vec<Ballot> = (0..BALLOTS).filter(voted).collect();
        if !self.has(Rule::DurablePromise) {
            state.promised[member] = voted.last().map_or(0, |ballot| *ballot as u8);
        }
        if !self.has(Rule::DurableAccepted) {
            state.lost[member] = voted.into_iter().map(bit).sum();
        }
        if !self.has(Rule::DurableDelivered) {
            state.delivered[member] = 0;
            state.logs[member] = [NONE; SLOTS];
        }
        true
    }

    // Members.

    /// Finds, or learns, that the second configuration is settled (C2, C3).
    fn settle(&self, state: &mut State, member: Member) -> bool {
        let configuration = self.configuration(1);
        let ballot = state.leads[member];
        let leads = ballot != NONE && self.number_of_configuration(state, usize::from(ballot)) == 1;
        let finds = leads && {
            let having = elements(configuration).filter(|other| {
                state.delivered_in(*other, ballot.into()) >= state.inherited[member]
                    || !self.has(Rule::Settle)
            });
            self.is_quorum(having.map(bit).sum(), configuration)
        };
        if finds {
            state.settling = state.settling.max(ballot);
        }
        let learns = contains(configuration, member)
            && state.settled != 0
            && state.promised[member] <= state.settling;
        state.settled |= bit(member);
        finds || learns
    }

    /// Removes what no longer has any effect, so that more states are equal.
    pub fn forget(&self, state: &mut State) {
        for member in self.members() {
            let promised = state.promised[member];
            if state.leads[member] < promised {
                state.leads[member] = NONE;
            }
            if state.stands[member] < promised {
                state.stands[member] = NONE;
            }
            if state.leads[member] == NONE {
                state.plans[member] = [NONE; SLOTS];
                state.inherited[member] = 0;
            }
            let delivered = usize::from(state.delivered[member]);
            state.plans[member][..delivered].fill(NONE);
        }
        for (ballot, (owner, _)) in self.scenario.ballots.iter().enumerate() {
            if usize::from(state.stands[*owner]) != ballot {
                // One promise remains, to show that the ballot exists.
                state.promises[ballot] &= bit(*owner);
            }
            if self.scenario.removes == 0 {
                // Acceptances suffice within one configuration.
                state.entered[ballot] = [NONE; MEMBERS];
            }
            let electorate = elements(self.electorate(state, ballot));
            let least = electorate.map(|member| state.promised[member]).min().unwrap_or(0);
            if usize::from(least) > ballot && self.has(Rule::AcceptPromised) {
                for (slot, votes) in state.votes[ballot].iter().enumerate() {
                    if *votes == 0 {
                        state.proposals[ballot][slot] = NONE;
                    }
                }
            }
        }
    }
}
