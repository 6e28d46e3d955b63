//! Sessions that change counters and sets with bounds and read intervals, and checks of the answers
//! by [`solera_checker::interval`].
//!
//! Each element of one set is added once and removed at most once, so that its size is a counter.
//! Elements of another set are added and removed several times: its size is not the sum of its
//! changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_checker::interval::{self, History, Read, Update};
use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, PartitionId, RequestId};
use solera_reservations::{Cannot, Response as Answered, SOLD_OUT};
use solera_time::{SiteId, Timestamp, Vector};
use solera_unistore::{Command, CommandError, Kind, Response, TxId};

use crate::queue::MS;
use crate::random::Random;
use crate::scenario::{BOUNDS_PREFIX as PREFIX, RIGHTS_PREFIX, SIZES_PREFIX, Scenario};
use crate::sessions::{Load, Sessions};
use crate::world::{SiteState, World, WorldEvent};

const LOAD: Load = Load {
    name: "bounds",
    wakes: 1 << 45,
    requests: 9 << 59,
    steps: 45,
    begin: 100 * MS,
    pause: 60 * MS,
};
const SESSIONS: usize = 5;
const KEYS: u64 = 3;
/// Number of counters that must not become negative.
const HARD_KEYS: u64 = 2;
/// The set whose elements are added once.
const DISTINCT: &str = "s:distinct";
/// The set whose elements are added several times, and the number of these elements.
const REPEATED: &str = "s:repeated";
const ELEMENTS: u64 = 40;
/// Largest number of states that the check of a history may need before it falls back to bounds.
const STATES: usize = 400;
/// Time that a read may wait.
const PATIENCE: Duration = Duration::from_millis(1800);

#[derive(Clone, Debug)]
enum Doing {
    /// Changes one counter or set.
    Single,
    /// Reads the value of a counter that must not become negative.
    Get(Key),
    Begin,
    /// Number of changes that were requested.
    Operate(usize),
    Commit,
    /// Reads an interval.
    Read {
        key: Key,
        begin: u64,
    },
}

/// A change of a counter, or of a set if it names elements.
#[derive(Clone, Debug)]
struct Change {
    key: Key,
    amount: i64,
    elements: Vec<u64>,
}

impl Change {
    fn op(&self) -> Op {
        let elements = || self.elements.iter().map(|it| Value::from(it.to_string().as_str()));
        match (self.elements.is_empty(), self.amount > 0) {
            (true, _) => Op::IncrBy(self.amount),
            (false, true) => Op::SetAdd(elements().collect()),
            (false, false) => Op::SetRemove(elements().collect()),
        }
    }

    /// Notes the outcome. Elements that the site does not see are not removed.
    fn note(&mut self, outcome: &Outcome) {
        if !self.elements.is_empty() && self.amount < 0 {
            self.amount = number_of(outcome).map_or(self.amount, |removed| -removed);
        }
    }
}

/// Knowledge of a client about an attempt to change counters and sets.
#[derive(Debug)]
struct Attempt {
    changes: Vec<Change>,
    /// When it may first take effect; `None` if it was not submitted.
    begin: Option<u64>,
    end: Option<u64>,
    never: bool,
    /// The site and its generation. A removal may lose their updates.
    site: usize,
    generation: u32,
}

impl Attempt {
    /// Returns the sum of the changes of a key.
    fn amount(&self, key: &[u8]) -> i128 {
        let of_key = self.changes.iter().filter(|change| change.key.as_bytes() == key);
        of_key.map(|change| i128::from(change.amount)).sum()
    }
}

/// The sessions, and what they observed.
#[derive(Debug)]
pub(crate) struct BoundsSessions {
    workers: Vec<Address>,
    partitions: u16,
    sites: usize,
    tolerance_ppm: i128,
    sessions: Sessions<Doing>,
    attempts: Vec<Attempt>,
    /// Elements of the set with distinct elements that were added, and not removed.
    elements: Vec<u64>,
    added: u64,
    has_sets: bool,
    reads: BTreeMap<Key, Vec<Read>>,
    /// Final reads of intervals and values without answers: the site and the key.
    asked: BTreeMap<RequestId, (usize, Key)>,
    final_intervals: BTreeMap<(usize, Key), (i64, i64)>,
    final_values: BTreeMap<(usize, Key), i64>,
    problems: Vec<String>,
    /// Greatest time of a strong transaction that a client of each site has seen.
    strong: Vec<Timestamp>,
}

impl BoundsSessions {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let random = Random::new(scenario.seed.wrapping_mul(86_028_157).wrapping_add(5));
        let workers: Vec<Address> = scenario.topology.all_workers().collect();
        let count = if scenario.bounds.is_some() { SESSIONS } else { 0 };
        let sessions = Sessions::new(LOAD, count, workers.clone(), random, world);
        let tolerance_ppm = scenario.bounds.as_ref().map_or(0, |it| it.policy.tolerance_ppm);
        BoundsSessions {
            workers,
            partitions: scenario.topology.partitions,
            sites: scenario.topology.sites(),
            tolerance_ppm: tolerance_ppm.into(),
            sessions,
            attempts: Vec::new(),
            elements: Vec::new(),
            added: 0,
            // The others have more load on counters.
            has_sets: scenario.seed % 5 >= 3,
            reads: BTreeMap::new(),
            asked: BTreeMap::new(),
            final_intervals: BTreeMap::new(),
            final_values: BTreeMap::new(),
            problems: Vec::new(),
            strong: vec![Timestamp::ZERO; scenario.topology.sites()],
        }
    }

    /// Returns the past of a session: nothing, or what another client of the site has seen.
    fn past(&mut self, site: SiteId) -> Vector {
        let mut past = Vector::zero(self.sites);
        if self.sessions.random.below(100) < 40 {
            past.strong = self.strong[site.index()];
        }
        past
    }

    /// Returns whether every session has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.sessions.all_done()
    }

    /// Returns the sessions that are not finished.
    pub(crate) fn stuck(&self) -> Vec<String> {
        self.sessions.stuck()
    }

    /// Handles an event. Returns it if it is not for these sessions only.
    pub(crate) fn observe(&mut self, world: &mut World, event: WorldEvent) -> Option<WorldEvent> {
        match event {
            WorldEvent::Wake(number) => match self.sessions.woken(number) {
                Some(index) => self.wake(world, index),
                None => return Some(event),
            },
            WorldEvent::Refused(from, request) if self.sessions.is_own(request) => {
                if let Some((index, _)) = self.sessions.waiting(from, request) {
                    self.end(world, index, Fate::Never, "bounds: not taken");
                }
            }
            WorldEvent::Unanswered(from, request) if self.sessions.is_own(request) => {
                if let Some((index, _)) = self.sessions.waiting(from, request) {
                    self.end(world, index, Fate::Unknown, "bounds: unanswered");
                }
            }
            WorldEvent::Reply(from, request, response) if self.sessions.is_own(request) => {
                self.reply(world, (from, request), response);
            }
            WorldEvent::Bounds(from, request, response) => {
                self.answered(world, (from, request), response);
            }
            other => {
                match &other {
                    WorldEvent::Reply(
                        from,
                        _,
                        Response::Executed { pasts, .. } | Response::Committed { pasts },
                    ) => {
                        let seen = &mut self.strong[from.site.index()];
                        *seen = pasts.causal.strong.max(*seen);
                    }
                    down => self.sessions.give_up(world, down),
                }
                return Some(other);
            }
        }
        None
    }

    fn wake(&mut self, world: &mut World, index: usize) {
        if self.sessions[index].doing.is_some() || self.sessions.begin(world, index).is_none() {
            return;
        }
        match self.sessions.random.below(100) {
            0..35 => self.read(world, index),
            35..42 => self.get(world, index),
            42..85 => {
                let changes = vec![self.change()];
                self.attempt(world, index, changes);
            }
            _ => {
                let (first, second) = (self.change(), self.change());
                self.attempt(world, index, vec![first, second]);
            }
        }
    }

    fn key(&mut self) -> Key {
        let (prefix, keys) = match (self.sessions.random.below(100), self.has_sets) {
            (0..45, _) => (PREFIX, KEYS),
            (45..60, true) => return Key::from(DISTINCT),
            (60..70, true) => return Key::from(REPEATED),
            (45..55, false) => (PREFIX, KEYS),
            _ => (RIGHTS_PREFIX, HARD_KEYS),
        };
        Key::from(format!("{prefix}{}", self.sessions.random.within(0, keys)).as_str())
    }

    fn change(&mut self) -> Change {
        let key = self.key();
        if is_set(&key) {
            return self.resize(key);
        }
        let amount = if is_hard(&key) {
            match self.sessions.random.below(100) {
                0..20 => self.sessions.random.within(1, 12) as i64,
                20..85 => -(self.sessions.random.within(1, 3) as i64),
                _ => -(self.sessions.random.within(4, 12) as i64),
            }
        } else {
            match self.sessions.random.below(100) {
                0..65 => self.sessions.random.within(1, 5) as i64,
                65..90 => -(self.sessions.random.within(1, 4) as i64),
                90..97 => self.sessions.random.within(20, 400) as i64,
                _ => -(self.sessions.random.within(5, 60) as i64),
            }
        };
        Change { key, amount, elements: Vec::new() }
    }

    /// Returns a change of a set.
    fn resize(&mut self, key: Key) -> Change {
        let adds = self.sessions.random.below(100) < 70 || self.elements.is_empty();
        let count = match self.sessions.random.below(100) {
            0..80 => 1,
            80..95 => self.sessions.random.within(2, 5),
            _ => self.sessions.random.within(20, 60),
        };
        let elements: Vec<u64> = match (key.as_bytes() == REPEATED.as_bytes(), adds) {
            (true, _) => {
                (0..count.min(8)).map(|_| self.sessions.random.within(0, ELEMENTS)).collect()
            }
            (false, true) => {
                self.added += count;
                (self.added - count..self.added).collect()
            }
            (false, false) => {
                let at = self.sessions.random.below(self.elements.len());
                vec![self.elements.swap_remove(at)]
            }
        };
        let amount = elements.len() as i64;
        Change { key, amount: if adds { amount } else { -amount }, elements }
    }

    /// Submits a single command, or begins a transaction.
    fn attempt(&mut self, world: &mut World, index: usize, changes: Vec<Change>) {
        let past = self.past(self.sessions[index].worker.site);
        let single = (changes.len() == 1).then(|| changes[0].clone());
        self.sessions[index].attempt = self.attempts.len();
        let begin = single.is_some().then_some(world.now);
        let site = self.sessions[index].worker.site.index();
        let generation = world.generation(site);
        let attempt = Attempt { changes, begin, end: None, never: false, site, generation };
        self.attempts.push(attempt);
        match single {
            Some(change) => {
                let (level, op) = (Level::Causal, change.op());
                let command = Command::Execute { past, level, key: change.key, op };
                self.sessions.ask(world, index, Doing::Single, command);
            }
            None => {
                let command = Command::Begin { past, strong: false };
                self.sessions.ask(world, index, Doing::Begin, command);
            }
        }
    }

    fn read(&mut self, world: &mut World, index: usize) {
        let key = self.key();
        let site = self.sessions[index].worker.site;
        let owner = self.owner(site, &key);
        let request = self.sessions.new_request();
        let session = &mut self.sessions[index];
        (session.worker, session.request) = (owner, request);
        session.doing = Some(Doing::Read { key: key.clone(), begin: world.now });
        if !self.ask_interval(world, owner, request, &key) {
            self.sessions.rest(world, index);
        }
    }

    /// Reads a value, which may be old. It depends on all increments on which decrements do.
    fn get(&mut self, world: &mut World, index: usize) {
        let number = self.sessions.random.within(0, HARD_KEYS);
        let key = Key::from(format!("{RIGHTS_PREFIX}{number}").as_str());
        let past = self.past(self.sessions[index].worker.site);
        let (level, op) = (Level::Causal, Op::Get);
        let command = Command::Execute { past, level, key: key.clone(), op };
        self.sessions.ask(world, index, Doing::Get(key), command);
    }

    fn owner(&self, site: SiteId, key: &Key) -> Address {
        let partition = PartitionId::of(key.as_bytes(), self.partitions);
        let workers = self.workers.iter().filter(|worker| worker.site == site).count() as u16;
        Address { site, worker: (partition.0 % workers) as u8 }
    }

    fn ask_interval(&self, world: &mut World, to: Address, request: RequestId, key: &Key) -> bool {
        let (key, within) = (key.as_bytes().to_vec(), PATIENCE);
        let command = solera_reservations::Command::Interval { key, within };
        world.example_command(to, request, command.into(), false)
    }

    fn reply(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: Response,
    ) {
        if let Some((site, key)) = self.asked.remove(&request) {
            return self.note_value(site, key, &response);
        }
        let Some((index, doing)) = self.sessions.waiting(from, request) else { return };
        match (doing, response) {
            (Doing::Begin, Response::Begun(tx)) => {
                self.sessions[index].tx = Some(tx);
                self.go_on(world, index, tx, 0);
            }
            (Doing::Operate(done), Response::Operated(Ok(outcome))) => {
                self.attempts[self.sessions[index].attempt].changes[done - 1].note(&outcome);
                if let Some(tx) = self.sessions[index].tx {
                    self.go_on(world, index, tx, done);
                }
            }
            (Doing::Get(key), Response::Executed { outcome: Ok(outcome), .. }) => {
                if number_of(&outcome).is_none_or(|value| value < 0) {
                    self.problems.push(format!("{key} has the value {outcome:?}"));
                }
                world.tally.count("bounds: values");
                self.sessions.rest(world, index);
            }
            (Doing::Get(_), Response::Failed(_)) => self.sessions.rest(world, index),
            (Doing::Single, Response::Executed { outcome: Ok(outcome), .. }) => {
                let change = &mut self.attempts[self.sessions[index].attempt].changes[0];
                change.note(&outcome);
                let key = &change.key;
                if is_hard(key) && number_of(&outcome).is_none_or(|value| value < 0) {
                    self.problems.push(format!("a change of {key} was answered {outcome:?}"));
                }
                self.end(world, index, Fate::Committed, "bounds: committed");
            }
            (Doing::Commit, Response::Committed { .. }) => {
                self.end(world, index, Fate::Committed, "bounds: committed");
            }
            (_, Response::Failed(error)) => {
                let (fate, what) = match error {
                    CommandError::Guarded { refusal, .. }
                        if refusal.reason.starts_with(SOLD_OUT) =>
                    {
                        self.note_sold_out(world, index, &refusal.key);
                        (Fate::Never, "bounds: sold out")
                    }
                    CommandError::Guarded { .. } => (Fate::Never, "bounds: refused"),
                    CommandError::PartitionSlow
                    | CommandError::NoSuchTransaction
                    | CommandError::NotHereYet => (Fate::Never, "bounds: not in time"),
                    error => {
                        self.problems.push(format!("an increment failed: {error:?}"));
                        (Fate::Unknown, "bounds: other errors")
                    }
                };
                self.end(world, index, fate, what);
            }
            (doing, response) => {
                self.problems.push(format!("{doing:?} was answered {response:?}"));
                self.end(world, index, Fate::Unknown, "bounds: other errors");
            }
        }
    }

    /// Sends the next operation of a transaction, or its commit.
    fn go_on(&mut self, world: &mut World, index: usize, tx: TxId, done: usize) {
        let attempt = &mut self.attempts[self.sessions[index].attempt];
        if let Some(change) = attempt.changes.get(done) {
            let (level, op, kind) = (Level::Causal, change.op(), Kind::UPDATE);
            let command = Command::Operate { tx, level, key: change.key.clone(), op, kind };
            return self.sessions.ask(world, index, Doing::Operate(done + 1), command);
        }
        attempt.begin = Some(world.now);
        self.sessions.ask(world, index, Doing::Commit, Command::Commit { tx, claim: None });
    }

    /// Handles an answer of `reservations`.
    fn answered(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: Answered,
    ) {
        if let Some((site, key)) = self.asked.remove(&request) {
            match response {
                Answered::Interval { least, greatest } => {
                    self.final_intervals.insert((site, key), (least, greatest));
                }
                // A dead holder of tokens that do not fit the floor, or a dead site that cannot be
                // asked.
                Answered::Cannot(Cannot::TooWide { .. } | Cannot::Uncounted)
                    if self.has_destroyed(world) =>
                {
                    world.tally.count("bounds: reads that a destroyed site blocks");
                }
                other => self.problems.push(format!(
                    "in the end, site {site} answers a read of {key} with {other:?}"
                )),
            }
            return;
        }
        let Some((index, Doing::Read { key, begin })) = self.sessions.waiting(from, request) else {
            return;
        };
        match response {
            Answered::Interval { least, greatest } => {
                let what = if least == greatest { "bounds: exact" } else { "bounds: intervals" };
                world.tally.count(what);
                let (least, mut greatest) = (i128::from(least), i128::from(greatest));
                if !is_hard(&key) {
                    self.check_width(&key, least, greatest);
                } else if self.has_lost(world) {
                    // The value contains rights that were lost with a site.
                    greatest = i128::MAX;
                }
                let read = Read { least, greatest, begin, end: world.now };
                self.reads.entry(key).or_default().push(read);
            }
            Answered::Cannot(reason) => world.tally.count(name_of(&reason)),
            other => self.problems.push(format!("a read was answered {other:?}")),
        }
        self.sessions.rest(world, index);
    }

    /// Notes that a transaction found less than it needs. That is a read.
    fn note_sold_out(&mut self, world: &World, index: usize, key: &[u8]) {
        let attempt = &self.attempts[self.sessions[index].attempt];
        let amount = attempt.amount(key);
        let Some(begin) = attempt.begin else { return };
        if amount >= 0 {
            self.problems.push(format!("sold out for {amount} of {key:?}"));
        }
        if !self.has_lost(world) {
            let read = Read { least: 0, greatest: -amount - 1, begin, end: world.now };
            self.reads.entry(Key::from(key)).or_default().push(read);
        }
    }

    /// Returns whether a site was destroyed, or has joined again.
    fn has_lost(&self, world: &World) -> bool {
        (0..self.sites).any(|site| world.generation(site) > 0) || self.has_destroyed(world)
    }

    fn check_width(&mut self, key: &Key, least: i128, greatest: i128) {
        let nearest = if least <= 0 && greatest >= 0 { 0 } else { least.abs().min(greatest.abs()) };
        if greatest - least > nearest * self.tolerance_ppm / 1_000_000 {
            self.problems.push(format!("{key}: [{least}, {greatest}] is too wide"));
        }
    }

    fn end(&mut self, world: &mut World, index: usize, fate: Fate, what: &'static str) {
        if !matches!(self.sessions[index].doing, Some(Doing::Read { .. } | Doing::Get(_))) {
            let attempt = &mut self.attempts[self.sessions[index].attempt];
            match fate {
                Fate::Committed => {
                    attempt.end = Some(world.now);
                    let added = attempt.changes.iter().filter(|it| it.amount > 0);
                    let added = added.filter(|it| it.key.as_bytes() == DISTINCT.as_bytes());
                    self.elements.extend(added.flat_map(|it| &it.elements));
                }
                Fate::Never => attempt.never = true,
                Fate::Unknown => {}
            }
        }
        world.tally.count(what);
        self.sessions.rest(world, index);
    }

    // The end of a run.

    fn keys(&self) -> BTreeSet<Key> {
        let changes = self.attempts.iter().flat_map(|it| &it.changes);
        changes.map(|change| change.key.clone()).collect()
    }

    /// Reads all counters at the sites that are up, as intervals and as values.
    pub(crate) fn final_reads(&mut self, world: &mut World) {
        let up = (0..self.sites).filter(|site| world.state(*site) == SiteState::Up);
        for site in up.collect::<Vec<_>>() {
            for key in self.keys() {
                let owner = self.owner(SiteId(site as u8), &key);
                let [interval, value] = [(); 2].map(|()| self.sessions.new_request());
                for request in [interval, value] {
                    self.asked.insert(request, (site, key.clone()));
                }
                self.ask_interval(world, owner, interval, &key);
                let op = if is_set(&key) { Op::SetLen } else { Op::Get };
                let (past, level) = (Vector::zero(self.sites), Level::Causal);
                world.command(owner, value, Command::Execute { past, level, key, op });
            }
        }
    }

    fn has_destroyed(&self, world: &World) -> bool {
        (0..self.sites).any(|site| world.state(site) == SiteState::Destroyed)
    }

    fn note_value(&mut self, site: usize, key: Key, response: &Response) {
        let value = match response {
            Response::Executed { outcome: Ok(outcome), .. } => number_of(outcome),
            _ => None,
        };
        match value {
            Some(value) => drop(self.final_values.insert((site, key), value)),
            None => self.problems.push(format!("reading {key} was answered {response:?}")),
        }
    }

    /// Returns the problems found.
    pub(crate) fn judge(&mut self, world: &mut World) -> Vec<String> {
        let unread = self.asked.values();
        let unread =
            unread.map(|(site, key)| format!("site {site} does not answer reads of {key}"));
        self.problems.extend(unread);
        let (destroyed, lost) = (self.has_destroyed(world), self.has_lost(world));
        for ((site, key), (least, greatest)) in &self.final_intervals {
            let Some(value) = self.final_values.get(&(*site, key.clone())) else { continue };
            let exact = destroyed || least == greatest;
            // The value contains rights that were lost with a site.
            let above = value > greatest && !(is_hard(key) && lost);
            if value < least || above || !exact || *value < 0 && is_hard(key) {
                self.problems.push(format!(
                    "in the end, {key} is {value} at site {site}, and the interval [{least}, {greatest}]"
                ));
            }
        }
        if !lost {
            self.check_repeated();
        }
        for key in self.keys().into_iter().filter(|key| key.as_bytes() != REPEATED.as_bytes()) {
            let history = self.history(world, &key);
            match interval::check(&history, STATES) {
                Ok(true) => world.tally.count("bounds: histories decided"),
                Ok(false) => world.tally.count("bounds: histories compared with bounds"),
                Err(violation) => self.problems.push(format!("{key}: {violation:?}")),
            }
        }
        for (address, machine) in world.bounds() {
            let open: Vec<_> = machine.promises().collect();
            if !open.is_empty() {
                self.problems.push(format!("{address:?} keeps promises open: {open:?}"));
            }
        }
        std::mem::take(&mut self.problems)
    }

    /// Checks the intervals of the set whose elements are added and removed several times against
    /// the elements that it contained certainly, and those that it may have contained.
    fn check_repeated(&mut self) {
        let reads = self.reads.get(REPEATED.as_bytes()).cloned().unwrap_or_default();
        let changes = || {
            let begun = self.attempts.iter().filter_map(|it| Some((it, it.begin?)));
            begun.filter(|(it, _)| !it.never).flat_map(|(attempt, begin)| {
                let of_key = attempt.changes.iter();
                let of_key = of_key.filter(|it| it.key.as_bytes() == REPEATED.as_bytes());
                of_key.map(move |change| (change, begin, attempt.end))
            })
        };
        for read in reads {
            let names = |change: &Change, element: &u64| change.elements.contains(element);
            let may = |element: &u64| {
                changes()
                    .any(|(it, begin, _)| it.amount > 0 && names(it, element) && begin <= read.end)
            };
            let must = |element: &u64| {
                let added = changes().any(|(it, _, end)| {
                    it.amount > 0 && names(it, element) && end.is_some_and(|end| end <= read.begin)
                });
                let removed = |(it, begin, _): (&Change, u64, _)| {
                    it.amount <= 0 && names(it, element) && begin <= read.end
                };
                added && !changes().any(removed)
            };
            let (least, most) = (
                (0..ELEMENTS).filter(must).count() as i128,
                (0..ELEMENTS).filter(may).count() as i128,
            );
            if read.greatest < least || read.least > most {
                self.problems.push(format!(
                    "{REPEATED} has from {least} to {most} elements, and the interval is {read:?}"
                ));
            }
        }
    }

    fn history(&self, world: &World, key: &Key) -> History {
        let mut updates = Vec::new();
        for attempt in self.attempts.iter().filter(|it| !it.never) {
            let Some(begin) = attempt.begin else { continue };
            let amount = attempt.amount(key.as_bytes());
            if amount != 0 {
                updates.push(Update { amount, begin, end: attempt.end });
                let removed = attempt.generation < world.generation(attempt.site)
                    || world.state(attempt.site) == SiteState::Destroyed;
                // An acknowledged update of a counter that must not become negative counts, also
                // if it is lost.
                if removed && attempt.end.is_some() && !is_hard(key) {
                    // The removal may have undone it at any time since.
                    updates.push(Update { amount: -amount, begin, end: None });
                }
            }
        }
        let reads = self.reads.get(key).cloned().unwrap_or_default();
        History { start: 0, updates, reads, floor: is_hard(key).then_some(0) }
    }
}

/// Returns the value of a counter that an outcome contains.
fn number_of(outcome: &Outcome) -> Option<i64> {
    match outcome {
        Outcome::Nil => Some(0),
        Outcome::Int(value) => Some(*value),
        Outcome::Bulk(value) => value.to_string().parse().ok(),
        _ => None,
    }
}

/// Returns whether a counter must not become negative.
fn is_hard(key: &Key) -> bool {
    key.as_bytes().starts_with(RIGHTS_PREFIX.as_bytes())
}

/// Returns whether a key is a set.
fn is_set(key: &Key) -> bool {
    key.as_bytes().starts_with(SIZES_PREFIX.as_bytes())
}

/// Outcome of an attempt, as the client learns it.
enum Fate {
    Committed,
    Never,
    Unknown,
}

fn name_of(reason: &Cannot) -> &'static str {
    match reason {
        Cannot::NotReader { .. } => "bounds: reads without the right",
        Cannot::Behind => "bounds: reads behind a sponsor",
        Cannot::NoLease => "bounds: reads without a lease",
        Cannot::TooWide { .. } => "bounds: reads that are too wide",
        Cannot::Uncounted => "bounds: sites that could not be counted",
        _ => "bounds: other reads without an answer",
    }
}
