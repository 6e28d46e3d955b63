//! The model as stateright explores it: which steps a scenario has.

use stateright::{Model, Property};

use crate::protocol::*;
use crate::steps::Action::{self, *};

impl Model for Broadcast {
    type State = State;
    type Action = Action;

    /// The owner of the first ballot leads it.
    fn init_states(&self) -> Vec<State> {
        let given = self.scenario.given;
        let mut durable: [Set; MEMBERS] = Default::default();
        for operation in elements(given) {
            durable[self.scenario.operations[operation].site] |= bit(operation);
        }
        let mut leads = [NONE; MEMBERS];
        leads[self.scenario.ballots[0].0] = 0;
        vec![State {
            invoked: given,
            contexts: Default::default(),
            bodies: [given; MEMBERS],
            durable,
            runs: [1; MEMBERS],
            promised: Default::default(),
            lost: Default::default(),
            leads,
            stands: [NONE; MEMBERS],
            plans: [[NONE; SLOTS]; MEMBERS],
            inherited: Default::default(),
            promises: Default::default(),
            entered: [[NONE; MEMBERS]; BALLOTS],
            proposals: [[NONE; SLOTS]; BALLOTS],
            votes: Default::default(),
            delivered: Default::default(),
            logs: [[NONE; SLOTS]; MEMBERS],
            truncated: Default::default(),
            moved: 0,
            settled: 0,
            settling: 0,
            restarts_left: self.scenario.restarts,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let scenario = self.scenario;
        for operation in 0..scenario.operations.len() {
            actions.push(Invoke(operation));
            let lacking = self.members().filter(|member| {
                !contains(state.bodies[*member], operation) && contains(state.invoked, operation)
            });
            actions.extend(lacking.map(|member| Receive(member, operation)));
        }
        for member in self.members() {
            self.of_leader(state, member, actions);
            if contains(scenario.delivering, member) {
                actions.push(Deliver(member));
            }
            if state.restarts_left > 0 && contains(scenario.restarting, member) {
                actions.push(Restart(member));
            }
            if scenario.truncates {
                actions.push(Truncate(member));
            }
            if scenario.removes != 0 {
                actions.extend([Configure(member), Settle(member)]);
            }
        }
        for ballot in 0..scenario.ballots.len() {
            if ballot > 0 {
                self.of_candidate(state, ballot, actions);
            }
            for slot in (0..SLOTS).filter(|slot| state.proposals[ballot][*slot] != NONE) {
                actions.extend(self.members().map(|member| Accept(member, ballot, slot)));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = before.clone();
        if !self.step(&mut after, action) {
            return None;
        }
        if matches!(action, Restart(_)) {
            after.restarts_left -= 1;
        }
        self.forget(&mut after);
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("agreement", Broadcast::slots_agree),
            Property::always("total order", Broadcast::orders_agree),
            Property::always("at most once", Broadcast::casts_are_delivered_once),
            Property::always("order of a run", Broadcast::runs_are_in_order),
            Property::always("predicate holds", Broadcast::predicates_hold),
            Property::always("no loss", Broadcast::nothing_is_lost),
            Property::always("progress", Broadcast::majorities_make_progress),
        ];
        let reaches = self.scenario.reaches.iter();
        properties.extend(reaches.map(|(name, condition)| Property::sometimes(name, *condition)));
        properties
    }
}

impl Broadcast {
    fn of_leader(&self, state: &State, leader: Member, actions: &mut Vec<Action>) {
        if state.leads[leader] == NONE {
            return;
        }
        let (_, end) = self.planned(state, leader);
        if end < self.scenario.slots {
            let casts = self.proposable(state, leader);
            actions.extend(elements(casts).map(|cast| Propose(leader, bit(cast))));
            if self.scenario.batches && casts.count_ones() > 1 {
                actions.push(Propose(leader, casts));
            }
        }
        let slots = (0..SLOTS).filter(|slot| state.plans[leader][*slot] != NONE);
        actions.extend(slots.map(|slot| ProposeAgain(leader, slot)));
    }

    fn of_candidate(&self, state: &State, ballot: Ballot, actions: &mut Vec<Action>) {
        let promised = state.promises[ballot];
        if promised == 0 {
            actions.push(Prepare(ballot));
            return;
        }
        actions.extend(self.members().map(|member| Promise(member, ballot)));
        // More promises than necessary only help.
        let least = (0..=promised)
            .filter(|some| is_subset(*some, promised) && self.may_lead(state, ballot, *some))
            .map(Set::count_ones)
            .min();
        let quorums = (0..=promised).filter(|some| Some(some.count_ones()) == least);
        actions.extend(quorums.map(|some| Lead(ballot, some)));
    }
}
