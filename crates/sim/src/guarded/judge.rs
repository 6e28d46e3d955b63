//! Checks of guarded transactions at the end of a run.
//!
//! For each site that is up, in its present generation:
//! - Attempts that were reported as committed are in their sets, and those that were rejected or
//!   given up are not.
//! - The sets contain no attempt that a guard had to refuse, because it claims no units or exceeds
//!   the limit.
//! - Each guard has spent exactly the units of the attempts in the sets, and no promise is open.

use std::collections::{BTreeMap, BTreeSet};

use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, PartitionId, RequestId, Topology};
use solera_time::{SiteId, Vector};
use solera_unistore::{Command, Response};

use super::{Attempt, Fate};
use crate::scenario::Scenario;
use crate::world::{SiteState, World};

/// Final reads and problems found.
#[derive(Debug)]
pub(super) struct Judge {
    topology: std::sync::Arc<Topology>,
    limit: u32,
    /// Reads without answers.
    asked: BTreeMap<RequestId, Key>,
    /// Attempts in each set.
    members: BTreeMap<Key, BTreeSet<usize>>,
    problems: Vec<String>,
}

impl Judge {
    pub(super) fn new(scenario: &Scenario) -> Judge {
        Judge {
            topology: scenario.topology.clone(),
            limit: scenario.guard_limit(),
            asked: BTreeMap::new(),
            members: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn sites(&self) -> usize {
        self.topology.sites()
    }

    pub(super) fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Reads all sets; requests are numbered from `first` on.
    pub(super) fn read(&mut self, world: &mut World, attempts: &[Attempt], first: u64) {
        let judged = attempts.iter().filter(|attempt| is_judged(world, attempt));
        let sets: BTreeSet<(usize, Key, bool)> = judged
            .flat_map(|attempt| {
                let sets = attempt.sets.iter();
                sets.map(|(key, level)| (attempt.site, key.clone(), *level == Level::Eventual))
            })
            .collect();
        for (place, (site, key, eventual)) in sets.into_iter().enumerate() {
            let request = RequestId(first + place as u64);
            let level = if eventual { Level::Eventual } else { Level::Causal };
            self.asked.insert(request, key.clone());
            let (past, op) = (Vector::zero(self.sites()), Op::SetMembers);
            let to = world.some_worker(SiteId(site as u8), place);
            world.command(to, request, Command::Execute { past, level, key, op });
        }
    }

    /// Handles a reply. Returns whether it was to one of the final reads.
    pub(super) fn reply(&mut self, request: RequestId, response: &Response) -> bool {
        let Some(key) = self.asked.remove(&request) else { return false };
        let Response::Executed { outcome: Ok(Outcome::Members(members)), .. } = response else {
            self.problems.push(format!("reading {key} was answered {response:?}"));
            return true;
        };
        let number = |value: &Value| value.to_string().parse().ok();
        self.members.insert(key, members.iter().filter_map(number).collect());
        true
    }

    /// Returns the problems found.
    pub(super) fn judge(&mut self, world: &World, attempts: &[Attempt]) -> Vec<String> {
        let unread = self.asked.values().map(|key| format!("{key} could not be read"));
        self.problems.extend(unread);
        let judged: Vec<(usize, &Attempt)> =
            attempts.iter().enumerate().filter(|(_, it)| is_judged(world, it)).collect();
        for (number, attempt) in &judged {
            self.judge_attempt(*number, attempt);
        }
        let mut keys: BTreeMap<(usize, &Key), Vec<usize>> = BTreeMap::new();
        for (number, attempt) in &judged {
            for key in &attempt.guarded {
                keys.entry((attempt.site, key)).or_default().push(*number);
            }
        }
        for ((site, key), claims) in keys {
            self.judge_key(world, attempts, (site, key), &claims);
        }
        for (address, trial) in world.trials() {
            let open: Vec<_> = trial.allocations().open().collect();
            if !open.is_empty() {
                self.problems.push(format!("{address:?} keeps promises open: {open:?}"));
            }
        }
        std::mem::take(&mut self.problems)
    }

    /// Returns true if an attempt is in all of its sets, false if it is in none, and `None` if it
    /// is in some of them only.
    fn is_there(&self, number: usize, attempt: &Attempt) -> Option<bool> {
        let is_in = |(key, _): &(Key, Level)| {
            self.members.get(key).is_some_and(|members| members.contains(&number))
        };
        let count = attempt.sets.iter().filter(|set| is_in(set)).count();
        (count == 0 || count == attempt.sets.len()).then_some(count > 0)
    }

    fn judge_attempt(&mut self, number: usize, attempt: &Attempt) {
        let problem = match (self.is_there(number, attempt), attempt.fate) {
            (None, _) => "is there in part",
            (Some(true), _) if attempt.units == 0 => "is there against a refusal",
            (Some(true), Fate::Never) => "is there and was not committed",
            (Some(false), Fate::Committed) => "was committed and is not there",
            _ => return,
        };
        self.problems.push(format!("{number} {problem}: {attempt:?}"));
    }

    /// Compares the units of a key that a guard has spent with the attempts in the sets.
    fn judge_key(
        &mut self,
        world: &World,
        attempts: &[Attempt],
        (site, key): (usize, &Key),
        claims: &[usize],
    ) {
        let is_there = |number: &&usize| self.is_there(**number, &attempts[**number]) == Some(true);
        let there: BTreeSet<u64> = claims.iter().filter(is_there).map(|it| *it as u64).collect();
        let units: u32 = there.iter().map(|number| attempts[*number as usize].units).sum();
        if units > self.limit {
            let limit = self.limit;
            self.problems.push(format!("{units} units of {key} are spent, beyond {limit}"));
        }
        let partition = PartitionId::of(key, self.topology.partitions);
        let owner: Address = self.topology.owner(SiteId(site as u8), partition);
        let mut trials = world.trials().filter(|(address, _)| *address == owner);
        let Some((_, trial)) = trials.next() else {
            return self.problems.push(format!("{owner:?} does not run"));
        };
        let spent = trial.allocations().spent(key);
        if spent != there {
            self.problems
                .push(format!("{owner:?} has spent {spent:?} of {key}, and {there:?} committed"));
        }
    }
}

/// Returns whether an attempt belongs to the present generation of a site that is up.
fn is_judged(world: &World, attempt: &Attempt) -> bool {
    world.state(attempt.site) == SiteState::Up
        && world.generation(attempt.site) == attempt.generation
}
