//! State of the protocol, and what members derive from it. This file and `steps.rs` are the
//! protocol; the names of rules are those of `README.md`.

use crate::scenarios::{Rule, Scenario};

pub const MEMBERS: usize = 5;
/// Ballots of a scenario, and one more that begins after all faults.
pub const BALLOTS: usize = 5;
pub const SLOTS: usize = 8;
/// Operations of a scenario.
pub const OPERATIONS: usize = 5;

pub type Member = usize;
pub type Ballot = usize;
/// Slots are counted from 0.
pub type Slot = usize;
pub type Operation = usize;
/// Set of operations, members or ballots: a bit for each.
pub type Set = u8;
/// Value of a slot: a batch of casts. An empty batch fills a gap.
pub type Value = Set;
/// No value, or no ballot.
pub const NONE: u8 = u8::MAX;
/// Flag of a promise: the configuration is settled.
pub const SETTLED: u8 = 0x80;

/// State of the broadcast. Messages are not part of it. What a member has sent once, others may
/// receive at any later time, any number of times, in any order, or never: operations (`invoked`),
/// PROMISE (`promises`), ACCEPT (`proposals`) and ACCEPTED (`votes`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Operations that sites have invoked, and the causal context of each.
    pub invoked: Set,
    pub contexts: [Set; OPERATIONS],
    /// Operations that each member has, and those that are on its disk.
    pub bodies: [Set; MEMBERS],
    pub durable: [Set; MEMBERS],
    /// Run of each site. A restart begins the next one.
    pub runs: [u8; MEMBERS],
    /// The lowest ballot in which each member takes part. Durable.
    pub promised: [u8; MEMBERS],
    /// Ballots whose acceptances a member has lost. Empty with the rule `DurableAccepted`.
    pub lost: [Set; MEMBERS],
    /// Ballot that each member leads, or stands for. Volatile.
    pub leads: [u8; MEMBERS],
    pub stands: [u8; MEMBERS],
    /// Values that a leader proposes in slots which it has not delivered. Volatile.
    pub plans: [[u8; SLOTS]; MEMBERS],
    /// Number of slots that a leader of new members knew when its ballot began. Volatile.
    pub inherited: [u8; MEMBERS],
    /// Members that have promised each ballot.
    pub promises: [Set; BALLOTS],
    /// Number of slots that a member had delivered when it entered each ballot, plus `SETTLED` if
    /// it knew the configuration to be settled.
    pub entered: [[u8; MEMBERS]; BALLOTS],
    pub proposals: [[u8; SLOTS]; BALLOTS],
    /// Members that have accepted each proposal.
    pub votes: [[Set; SLOTS]; BALLOTS],
    /// Number of slots that each member has delivered, and their values. Durable.
    pub delivered: [u8; MEMBERS],
    pub logs: [[u8; SLOTS]; MEMBERS],
    /// Number of slots that each member has truncated.
    pub truncated: [u8; MEMBERS],
    /// Members that know the second configuration, and those that know that it is settled.
    pub moved: Set,
    pub settled: Set,
    /// The last ballot whose leader has found the configuration to be settled.
    pub settling: u8,
    pub restarts_left: u8,
}

#[derive(Clone)]
pub struct Broadcast {
    pub scenario: &'static Scenario,
    pub trap: Option<Rule>,
    /// The operations that are strong.
    pub strong: Set,
    /// Operations of the same stream before each one.
    pub earlier: [Set; OPERATIONS],
}

pub fn bit(number: usize) -> Set {
    1 << number
}

pub fn contains(set: Set, number: usize) -> bool {
    set & bit(number) != 0
}

pub fn is_subset(a: Set, b: Set) -> bool {
    a & !b == 0
}

pub fn elements(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let least = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        least
    })
}

impl State {
    /// Returns the ballot and value of a member's latest acceptance below a ballot, as it hands it
    /// over in a promise.
    pub fn accepted(&self, member: Member, below: Ballot, slot: Slot) -> Option<(Ballot, Value)> {
        if slot < usize::from(self.truncated[member]) {
            return None;
        }
        let accepted = |ballot: &Ballot| {
            contains(self.votes[*ballot][slot], member) && !contains(self.lost[member], *ballot)
        };
        let ballot = (0..below).rev().find(accepted)?;
        Some((ballot, self.proposals[ballot][slot]))
    }

    /// Returns the value of a slot that a member has delivered and not truncated.
    pub fn decided(&self, member: Member, slot: Slot) -> Option<Value> {
        let kept = self.truncated[member]..self.delivered[member];
        kept.contains(&(slot as u8)).then(|| self.logs[member][slot])
    }

    /// Returns the number of slots that a member had delivered when it promised a ballot.
    pub fn handed(&self, member: Member, ballot: Ballot) -> u8 {
        let entered = self.entered[ballot][member];
        if entered == NONE { 0 } else { entered & !SETTLED }
    }

    /// Returns whether a promise states that the configuration is settled.
    pub fn promised_settled(&self, member: Member, ballot: Ballot) -> bool {
        self.entered[ballot][member] != NONE && self.entered[ballot][member] & SETTLED != 0
    }

    /// Returns the number of slots that a member has delivered while it took part in a ballot.
    pub fn delivered_in(&self, member: Member, ballot: Ballot) -> u8 {
        let later = &self.entered[ballot + 1..];
        match later.iter().map(|entered| entered[member]).find(|entered| *entered != NONE) {
            _ if self.entered[ballot][member] == NONE => 0,
            Some(left) => left & !SETTLED,
            None => self.delivered[member],
        }
    }

    /// Values of the slots that a member has delivered.
    pub fn log(&self, member: Member) -> &[Value] {
        &self.logs[member][..usize::from(self.delivered[member])]
    }
}

impl Broadcast {
    pub fn new(scenario: &'static Scenario, trap: Option<Rule>) -> Self {
        let operations = scenario.operations;
        let set = |select: &dyn Fn(usize) -> bool| {
            (0..operations.len()).filter(|other| select(*other)).map(bit).sum()
        };
        let strong = set(&|other| operations[other].strong);
        let mut earlier = [0; OPERATIONS];
        for (number, operation) in operations.iter().enumerate() {
            earlier[number] = set(&|other| {
                let other_one = &operations[other];
                other < number && (other_one.site, other_one.run) == (operation.site, operation.run)
            });
        }
        Broadcast { scenario, trap, strong, earlier }
    }

    pub fn has(&self, rule: Rule) -> bool {
        self.trap != Some(rule)
    }

    pub fn members(&self) -> std::ops::Range<Member> {
        0..self.scenario.members
    }

    /// The ballot that begins after all faults.
    pub fn last_ballot(&self) -> Ballot {
        self.scenario.ballots.len()
    }

    /// Members of a configuration: 0, or 1 after the removal.
    pub fn configuration(&self, number: u8) -> Set {
        let all = (1 << self.scenario.members) - 1;
        if number == 0 { all } else { all & !self.scenario.removes }
    }

    /// Number of the configuration of a ballot.
    pub fn number_of_configuration(&self, state: &State, ballot: Ballot) -> u8 {
        let ballots = self.scenario.ballots;
        ballots.get(ballot).map_or(u8::from(state.moved != 0), |(_, number)| *number)
    }

    /// Members of the configuration of a ballot.
    pub fn electorate(&self, state: &State, ballot: Ballot) -> Set {
        self.configuration(self.number_of_configuration(state, ballot))
    }

    /// Whether some members are a quorum of a configuration.
    pub fn is_quorum(&self, some: Set, configuration: Set) -> bool {
        2 * (some & configuration).count_ones() > configuration.count_ones()
    }

    // Operations.

    /// The operations that the predicate of a cast requires: itself, and the weak ones of its
    /// causal context.
    pub fn required(&self, state: &State, cast: Operation) -> Set {
        bit(cast) | state.contexts[cast] & !self.strong
    }

    /// These operations and all earlier ones of their streams.
    pub fn closure(&self, operations: Set) -> Set {
        elements(operations).fold(operations, |closed, other| closed | self.earlier[other])
    }

    /// Operations that are committed after some slots: the casts and their contexts.
    pub fn committed(&self, state: &State, slots: &[Value]) -> Set {
        let delivered = self.delivered(slots);
        delivered.iter().fold(0, |set, cast| set | bit(cast) | state.contexts[cast])
    }

    /// Whether the predicate of a cast holds at a member (Q).
    pub fn holds(&self, state: &State, member: Member, cast: Operation) -> bool {
        if !contains(state.bodies[member], cast) {
            return false;
        }
        let context = state.contexts[cast];
        let (weak, strong) = (context & !self.strong, context & self.strong);
        !self.has(Rule::Context)
            || is_subset(weak, state.bodies[member])
                && (strong == 0 || is_subset(strong, self.committed(state, state.log(member))))
    }

    /// Whether the predicates of all casts of a batch hold at a member.
    pub fn holds_for_all(&self, state: &State, member: Member, value: Value) -> bool {
        elements(value).all(|cast| self.holds(state, member, cast))
    }

    // Slots.

    /// Casts that slots deliver, in order: each if it is the next one of its run (D4).
    pub fn delivered(&self, slots: &[Value]) -> Delivered {
        let mut delivered = Delivered::default();
        for cast in slots.iter().flat_map(|value| elements(*value)) {
            let repeated = contains(delivered.set, cast) && self.has(Rule::SkipRepeated);
            let early = !is_subset(self.earlier[cast] & self.strong, delivered.set)
                && self.has(Rule::SkipEarly);
            if !repeated && !early {
                delivered.push(cast);
            }
        }
        delivered
    }

    /// Returns the casts that a member has delivered, in order.
    pub fn order(&self, state: &State, member: Member) -> Vec<Operation> {
        self.delivered(state.log(member)).iter().collect()
    }

    /// Returns the values of all slots that a leader knows, and their number.
    pub fn planned(&self, state: &State, leader: Member) -> ([Value; SLOTS], usize) {
        let delivered = usize::from(state.delivered[leader]);
        let mut slots = state.plans[leader];
        slots[..delivered].copy_from_slice(&state.logs[leader][..delivered]);
        let last = slots.iter().rposition(|value| *value != NONE);
        let end = last.map_or(0, |slot| slot + 1);
        slots[..end].iter_mut().filter(|value| **value == NONE).for_each(|value| *value = 0);
        (slots, end)
    }

    /// Returns the casts that a leader may propose next: for each run the next one, if the
    /// predicate holds (L4).
    pub fn proposable(&self, state: &State, leader: Member) -> Set {
        let (slots, end) = self.planned(state, leader);
        let planned = self.delivered(&slots[..end]).set;
        let may = |cast: &Operation| {
            let in_order = is_subset(self.earlier[*cast] & self.strong, planned)
                || !self.has(Rule::ProposeInOrder);
            // Without the rule, the leader proposes what it has received.
            let holds = self.holds(state, leader, *cast) || !self.has(Rule::ProposeWhereHolds);
            in_order && holds
        };
        let proposed = if self.has(Rule::ProposeInOrder) {
            planned
        } else {
            // The leader remembers what it has proposed, and not whether it is delivered.
            slots[..end].iter().fold(0, |set, value| set | value)
        };
        let open = state.bodies[leader] & self.strong & !proposed;
        elements(open).filter(may).map(bit).sum()
    }

    /// Returns the value that acceptances of some members decide in a slot (D1).
    pub fn chosen(&self, state: &State, slot: Slot, from: Set) -> Option<Value> {
        let mut counted = 0;
        (0..=self.last_ballot()).find_map(|ballot| {
            let votes = state.votes[ballot][slot];
            counted = if self.has(Rule::CountOneBallot) { votes } else { counted | votes };
            let enough = self.is_quorum(counted & from, self.electorate(state, ballot))
                || !self.has(Rule::Quorum);
            let chosen = votes & from != 0 && enough;
            chosen.then(|| state.proposals[ballot][slot])
        })
    }
}

/// Casts in the order of their delivery.
#[derive(Default)]
pub struct Delivered {
    casts: [u8; 2 * SLOTS],
    length: usize,
    /// The same casts without an order.
    pub set: Set,
}

impl Delivered {
    fn push(&mut self, cast: Operation) {
        self.casts[self.length] = cast as u8;
        self.length += 1;
        self.set |= bit(cast);
    }

    pub fn casts(&self) -> &[u8] {
        &self.casts[..self.length]
    }

    pub fn iter(&self) -> impl Iterator<Item = Operation> {
        self.casts().iter().map(|cast| usize::from(*cast))
    }
}
