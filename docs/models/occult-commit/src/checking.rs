//! The model as stateright explores it, and the checks of scenarios and traps.

use std::collections::BTreeSet;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path, Property};

use super::*;
use crate::scenarios::{SCENARIOS, TRAPS};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A message of the network arrives.
    Deliver(Message, Shard),
    /// The message at this position of a link arrives, and those before it are lost.
    Receive {
        client: usize,
        shard: Shard,
        position: usize,
        message: Message,
    },
    /// The client reads a key, at the replica or at the home.
    Read {
        tid: Tid,
        key: Key,
        replica: bool,
    },
    /// The client validates its read set, and sends PREPARE.
    Validate(Tid),
    /// The client has all PREPARED, and sends COMMIT.
    Decide(Tid),
    /// The client gives up because of a lock or a timeout, before COMMIT. If all ABORT are lost, it
    /// has restarted.
    Abort(Tid),
    /// The client receives COMMITTED or REFUSED.
    Learn(Tid),
    /// The client sends RESOLVE, to learn an outcome.
    Resolve(Tid),
    /// The client stops waiting for the answer to COMMIT, or restarts.
    GiveUp(Tid),
    /// A prepare times out at a home.
    Expire(Tid, Shard),
    /// The replica applies the next entry of the home's log.
    Replicate(Shard),
    /// The home's clock passes the transaction's deadline.
    Pass(Tid, Shard),
    Forget(Tid, Shard),
    /// The home restarts, and loses the clients' `oldest`.
    LoseOldest(Shard),
    /// The home restarts, and forgets how far reads have advanced it.
    Restart(Shard),
}

impl Occult {
    fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Deliver(message, shard) => self.deliver(state, message, shard),
            Action::Read { tid, key, replica } => self.read(state, tid, key, replica),
            Action::Validate(tid) => self.validate(state, tid),
            Action::Decide(tid) => self.decide(state, tid),
            Action::Abort(tid) => self.abort(state, tid),
            Action::Receive { client, shard, position, message } => {
                let link = &mut state.links[client][shard];
                if self.has(Rule::Fifo) && !self.scenario.deadlines {
                    link.drain(..=position);
                }
                self.deliver(state, message, shard);
            }
            Action::Learn(tid) => {
                if state.network.contains(&Committed(tid)) {
                    self.end(state, tid, Phase::Committed);
                } else if state.network.contains(&Refused(tid)) {
                    self.end(state, tid, Phase::Aborted);
                }
            }
            Action::Resolve(tid) => {
                // It repeats the message only until it has an answer.
                let link = &state.links[self.client(tid)][self.decision_home(tid)];
                if !link.contains(&Resolve(tid)) {
                    self.send(state, Resolve(tid), self.decision_home(tid));
                }
            }
            Action::GiveUp(tid) => self.end(state, tid, Phase::Unknown),
            Action::Expire(tid, shard) => {
                if self.has(Rule::DecisionHomeDecides) {
                    state.network.insert(Resolve(tid));
                } else {
                    self.end_at(state, shard, tid, false);
                }
            }
            Action::Replicate(shard) => _ = state.homes[shard].log.remove(0),
            Action::Pass(tid, shard) => _ = state.homes[shard].ended.insert(tid),
            Action::LoseOldest(shard) => state.homes[shard].ended.clear(),
            Action::Forget(tid, shard) => state.homes[shard].records[tid] = Record::None,
            Action::Restart(shard) => {
                let assigned = state.homes[shard].prepared().map(|(_, assigned)| assigned);
                let known = state.homes[shard].committed.iter();
                let known = known.map(|tid| self.commit_stamp(state, *tid, shard));
                let clock = assigned.chain(known).max().unwrap_or(0);
                state.homes[shard].clock = clock.max(self.scenario.start[shard]);
            }
        }
    }

    /// Removes messages that cannot have an effect any more, so that more states are equal.
    fn reduce(&self, state: &mut State) {
        let decided = |tid: Tid| {
            let home = &state.homes[self.decision_home(tid)];
            home.committed.contains(&tid) || home.aborted.contains(&tid)
        };
        let answered = state.network.iter().filter_map(|message| match *message {
            Decision { tid, .. } if !self.scenario.forgets && decided(tid) => Some(tid),
            _ => None,
        });
        let answered: BTreeSet<Tid> = answered.collect();
        let ended = |tid: Tid| self.has_ended(state, tid);
        let network = state.network.iter().filter(|message| match **message {
            Prepared { tid, .. } => state.transactions[tid].phase == Phase::Preparing,
            Committed(tid) | Refused(tid) => !ended(tid),
            Resolve(tid) => !answered.contains(&tid),
            _ => true,
        });
        state.network = network.copied().collect();
    }
}

impl Model for Occult {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let count = self.scenario.transactions.len();
        let transaction = Transaction { phase: Phase::Reading, reads: vec![], commit_ts: None };
        let clients = self.scenario.transactions.iter().map(|t| t.client + 1).max().unwrap_or(0);
        let home = |start: &Stamp| Home {
            records: vec![Record::None; count],
            clock: *start,
            shown: vec![],
            log: vec![(*start, 0)],
            ended: BTreeSet::new(),
            committed: BTreeSet::new(),
            aborted: BTreeSet::new(),
        };
        vec![State {
            transactions: vec![transaction; count],
            sessions: vec![Timestamp::default(); clients],
            homes: self.scenario.start.iter().map(home).collect(),
            links: vec![Default::default(); clients],
            network: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for message in &state.network {
            match *message {
                Resolve(tid) => {
                    actions.push(Action::Deliver(*message, self.decision_home(tid)));
                }
                Decision { tid, .. } => {
                    let homes = self.participants(tid).into_iter();
                    actions.extend(homes.map(|shard| Action::Deliver(*message, shard)));
                }
                _ => {}
            }
        }
        for (client, links) in state.links.iter().enumerate() {
            for (shard, link) in links.iter().enumerate() {
                actions.extend(link.iter().enumerate().map(|(position, message)| {
                    Action::Receive { client, shard, position, message: *message }
                }));
            }
        }
        for (tid, transaction) in state.transactions.iter().enumerate() {
            match transaction.phase {
                Phase::Reading if self.is_current(state, tid) => {
                    let done = |key| transaction.reads.iter().any(|read| read.key == key);
                    let reads = self.scenario.transactions[tid].reads.iter().copied();
                    let reads: Vec<Key> = reads.filter(|key| !done(*key)).collect();
                    for &key in &reads {
                        actions.extend([false, true].map(|replica| Action::Read {
                            tid,
                            key,
                            replica,
                        }));
                    }
                    if reads.is_empty() {
                        actions.push(Action::Validate(tid));
                    }
                }
                Phase::Preparing => {
                    actions.push(Action::Abort(tid));
                    if self.answers(state, tid).len() == self.participants(tid).len() {
                        actions.push(Action::Decide(tid));
                    }
                }
                Phase::Committing => {
                    actions.extend([Action::Learn(tid), Action::Resolve(tid)]);
                    // A session ends with an EXECUTE without an answer.
                    let goes_on = (tid + 1..state.transactions.len())
                        .any(|t| self.client(t) == self.client(tid));
                    if !self.has_one_home(tid) || !goes_on || !self.has(Rule::WaitForExecute) {
                        actions.push(Action::GiveUp(tid));
                    }
                }
                _ => {}
            }
        }
        for (shard, home) in state.homes.iter().enumerate() {
            actions.extend(home.prepared().map(|(tid, _)| Action::Expire(tid, shard)));
            // Replicas without readers do not matter.
            let mut reads = self.scenario.transactions.iter().flat_map(|plan| plan.reads);
            if home.log.len() > 1 && reads.any(|key| HOME_OF[*key] == shard) {
                actions.push(Action::Replicate(shard));
            }
            if !self.scenario.deadlines && !home.ended.is_empty() {
                actions.push(Action::LoseOldest(shard));
            }
            if !self.has(Rule::KeepReported) {
                actions.push(Action::Restart(shard));
            }
            for tid in 0..state.transactions.len() {
                if self.scenario.deadlines && self.participants(tid).contains(&shard) {
                    actions.push(Action::Pass(tid, shard));
                }
                if self.scenario.forgets && self.may_forget(state, tid, shard) {
                    actions.push(Action::Forget(tid, shard));
                }
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = before.clone();
        self.step(&mut after, action);
        self.reduce(&mut after);
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("atomicity", Occult::is_atomic),
            Property::always("clients agree", Occult::clients_agree),
            Property::always("stamp order", Occult::shows_in_order),
            Property::always("stamps dominate", Occult::stamps_dominate),
            Property::always("lock exclusion", Occult::locks_exclude),
            Property::always("locks are released", Occult::locks_are_released),
            Property::always("isolation", Occult::sites_are_isolated),
            Property::always("PC-PSI", Occult::is_pc_psi),
        ];
        // States that must be reachable, so that no property above holds vacuously.
        properties.extend(
            self.scenario
                .reaches
                .iter()
                .map(|(name, condition)| Property::sometimes(name, *condition)),
        );
        properties
    }
}

/// Checks a scenario with all rules, and prints how large it is.
fn check(scenario: &'static Scenario) -> bool {
    let start = Instant::now();
    let finish = HasDiscoveries::AnyFailures;
    let model = Occult { scenario, trap: None };
    let checker = model.clone().checker().threads(2).finish_when(finish).spawn_bfs().join();
    println!(
        "{:15} {:>9} states, depth {:>2}, {:>5.1} s",
        scenario.name,
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f32()
    );
    let mut holds = true;
    for (name, _) in scenario.reaches {
        if checker.discovery(name).is_none() {
            println!("  never reached: {name}");
            holds = false;
        }
    }
    for (name, path) in checker.discoveries() {
        if !scenario.reaches.iter().any(|reached| reached.0 == name) {
            println!("  violated: {name}");
            print(path);
            holds = false;
        }
    }
    holds
}

/// Finds the violation of `property` in a scenario without a rule.
fn trap(rule: Rule, scenario: &str, property: &'static str) -> Option<Path<State, Action>> {
    let scenario = SCENARIOS.iter().find(|other| other.name == scenario)?;
    let model = Occult { scenario, trap: Some(rule) };
    let finish = HasDiscoveries::AnyOf([property].into());
    // One thread finds a shortest path.
    model.checker().finish_when(finish).spawn_bfs().join().discovery(property)
}

fn print(path: Path<State, Action>) {
    for (number, action) in path.into_actions().into_iter().enumerate() {
        println!("  {:>2}. {action:?}", number + 1);
    }
}

/// Checks everything that the arguments select.
pub fn run(arguments: &[String]) -> bool {
    let selects = |option: &str, name: &str| arguments.is_empty() || *arguments == [option, name];
    let mut holds = true;
    for scenario in SCENARIOS {
        if selects("--scenario", scenario.name) {
            holds &= check(scenario);
        }
    }
    for (rule, scenario, property) in TRAPS {
        let name = format!("{rule:?}");
        if !selects("--trap", &name) {
            continue;
        }
        match trap(*rule, scenario, property) {
            Some(path) => {
                println!("without {name:21} {scenario:15} violates {property}");
                if !arguments.is_empty() {
                    print(path);
                }
            }
            None => {
                println!("without {name:21} {scenario:15} DOES NOT VIOLATE {property}");
                holds = false;
            }
        }
    }
    holds
}
