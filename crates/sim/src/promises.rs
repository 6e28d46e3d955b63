//! Promises of durability, and a check that the surviving data keeps them.
//!
//! Further sessions write keys that no other client writes, in eventual, causal and strong spaces,
//! by single operations and in transactions. They take barriers, WAIT, AT-RISK and tokens, and
//! attach the tokens of others. Each session remembers the writes that were acknowledged to it. The
//! promises of an answer follow from these lists alone, and never from the protocol's vectors. At
//! the end every surviving site must hold every promised write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_data::{Key, Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, RequestId};
use solera_time::{SiteId, Vector};
use solera_unistore::{Command, Kind, Pasts, Response, TxId};

use crate::queue::MS;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::weakness::Weakness;
use crate::world::{SiteState, World};

/// Wake-ups of these sessions, beyond those of clients.
const WAKES: usize = 1 << 40;
/// Requests of these sessions; those of the last round begin later.
const REQUESTS: u64 = 1 << 60;
const SESSIONS: usize = 6;
/// Number of steps of each session.
const STEPS: usize = 60;
const ATTACH_TIMEOUT: Duration = Duration::from_millis(1500);

/// A write of a key that nothing else writes.
#[derive(Clone, Debug)]
struct Write {
    key: Key,
    level: Level,
    session: usize,
    site: usize,
}

#[derive(Clone, Debug)]
struct Token {
    pasts: Pasts,
    /// Writes that were acknowledged to the session that took the token.
    covered: BTreeSet<usize>,
}

#[derive(Debug)]
enum Doing {
    Nothing,
    Execute(usize),
    Begin(Vec<usize>),
    /// The writes, the number of them that are done, and the transaction.
    Operate(Vec<usize>, usize, TxId),
    Commit(Vec<usize>),
    Barrier(&'static str),
    Attach(Token),
    Done,
}

#[derive(Debug)]
struct PromiseSession {
    /// Changes when the session starts over.
    number: usize,
    site: usize,
    pasts: Pasts,
    /// Writes that were acknowledged to it, or are covered by the token that it attached.
    covered: BTreeSet<usize>,
    left: usize,
    doing: Doing,
    waiting_for: Option<(Address, RequestId)>,
}

/// The sessions, and the promises that they received.
#[derive(Debug)]
pub(crate) struct Promises {
    sessions: Vec<PromiseSession>,
    random: Random,
    requests: u64,
    numbers: usize,
    workers: Vec<u8>,
    has_strong: bool,
    pace: u64,
    weakness: Option<Weakness>,
    writes: Vec<Write>,
    tokens: Vec<Token>,
    /// The first promise of each promised write.
    promised: BTreeMap<usize, String>,
    /// Final reads that have not shown the promised write: the site and the write.
    unseen: BTreeMap<RequestId, (usize, usize)>,
}

impl Promises {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let sites = scenario.topology.sites();
        let mut random = Random::new(scenario.seed.wrapping_mul(7_919).wrapping_add(29));
        let count = if scenario.promises { SESSIONS } else { 0 };
        let sessions = (0..count)
            .map(|index| {
                world.wake(WAKES + index, random.within(0, 200 * MS));
                PromiseSession {
                    number: index,
                    site: random.below(sites),
                    pasts: Pasts::none(sites),
                    covered: BTreeSet::new(),
                    left: STEPS,
                    doing: Doing::Nothing,
                    waiting_for: None,
                }
            })
            .collect();
        Promises {
            sessions,
            random,
            requests: REQUESTS,
            numbers: count,
            workers: scenario.topology.workers.clone(),
            has_strong: scenario.strong_share > 0,
            pace: scenario.pace,
            weakness: scenario.weakness,
            writes: Vec::new(),
            tokens: Vec::new(),
            promised: BTreeMap::new(),
            unseen: BTreeMap::new(),
        }
    }

    /// Returns whether every session has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.sessions.iter().all(|session| matches!(session.doing, Doing::Done))
    }

    /// Describes the events for which unfinished sessions wait.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let waiting = self.sessions.iter().filter(|session| !matches!(session.doing, Doing::Done));
        waiting.map(|session| format!("{session:?}")).collect()
    }

    /// Handles a wake-up. Returns whether it was for a session.
    pub(crate) fn wake(&mut self, world: &mut World, index: usize) -> bool {
        let Some(index) = index.checked_sub(WAKES) else { return false };
        if matches!(self.sessions[index].doing, Doing::Nothing) {
            self.go_on(world, index);
        }
        true
    }

    fn go_on(&mut self, world: &mut World, index: usize) {
        if self.sessions[index].left == 0 {
            self.sessions[index].doing = Doing::Done;
            return;
        }
        if world.state(self.sessions[index].site) != SiteState::Up {
            return self.begin_anew(world, index);
        }
        self.sessions[index].left -= 1;
        match self.random.below(100) {
            0..18 => self.execute(world, index, Level::Eventual),
            18..26 => self.execute(world, index, Level::Causal),
            26..32 if self.has_strong => self.execute(world, index, Level::Linearizable),
            26..54 => self.begin(world, index),
            54..66 => self.barrier(world, index, "BARRIER"),
            66..72 => self.barrier(world, index, "WAIT"),
            72..84 => self.ask_at_risk(world, index),
            84..92 => self.take_token(world, index),
            _ => self.begin_anew(world, index),
        }
    }

    fn new_write(&mut self, index: usize, level: Level) -> usize {
        let PromiseSession { number, site, .. } = self.sessions[index];
        // The first letter is that of a space of this level.
        let letter = match level {
            Level::Eventual => 'e',
            Level::Linearizable => 'v',
            _ => 'u',
        };
        let key = Key::from(format!("{letter}-promise{}", self.writes.len()).as_str());
        self.writes.push(Write { key, level, session: number, site });
        self.writes.len() - 1
    }

    fn execute(&mut self, world: &mut World, index: usize, level: Level) {
        let write = self.new_write(index, level);
        let (past, key) = (self.sessions[index].pasts.causal, self.writes[write].key.clone());
        let op = Op::Set(value_of(&key));
        let command = match level {
            Level::Linearizable => Command::ExecuteStrong { past, key, op, kind: Kind::UPDATE },
            level => Command::Execute { past, level, key, op },
        };
        self.ask(world, index, Doing::Execute(write), command);
    }

    /// Begins a transaction that writes several keys, many of them in eventual spaces.
    fn begin(&mut self, world: &mut World, index: usize) {
        let count = self.random.within(1, 5);
        let eventual = self.random.weighted(&[(35, 0), (65, 75)]);
        let writes = (0..count)
            .map(|_| {
                let is_eventual = self.random.chance(eventual);
                self.new_write(index, if is_eventual { Level::Eventual } else { Level::Causal })
            })
            .collect();
        let command = Command::Begin { past: self.sessions[index].pasts.causal, strong: false };
        self.ask(world, index, Doing::Begin(writes), command);
    }

    #[expect(clippy::too_many_arguments, reason = "a transaction, and where it runs")]
    fn operate(
        &mut self,
        world: &mut World,
        index: usize,
        worker: Address,
        writes: Vec<usize>,
        done: usize,
        tx: TxId,
    ) {
        let Some(next) = writes.get(done) else {
            let commit = Command::Commit { tx, claim: None };
            return self.ask_worker(world, index, worker, Doing::Commit(writes), commit);
        };
        let Write { key, level, .. } = self.writes[*next].clone();
        let (op, kind) = (Op::Set(value_of(&key)), Kind::UPDATE);
        let command = Command::Operate { tx, level, key, op, kind };
        self.ask_worker(world, index, worker, Doing::Operate(writes, done + 1, tx), command);
    }

    fn barrier(&mut self, world: &mut World, index: usize, name: &'static str) {
        let timeout = Some(Duration::from_millis(self.random.within(1, 1500)));
        let command = Command::Barrier { pasts: self.sessions[index].pasts, timeout };
        self.ask(world, index, Doing::Barrier(name), command);
    }

    /// Evaluates SOLERA.AT-RISK on all workers of the site at once. The answer promises that the
    /// session's writes at this site survive if it does not list their keys, and that all writes at
    /// sites that it does not list survive.
    fn ask_at_risk(&mut self, world: &mut World, index: usize) {
        let PromiseSession { number, site, pasts, .. } = self.sessions[index];
        let here = |address: &Address| address.site.index() == site && world.answers(*address);
        let replicas = world.replicas().filter(|(address, _)| here(address));
        let statuses: Vec<_> = replicas.map(|(_, replica)| replica.status()).collect();
        let complete = statuses.len() == usize::from(self.workers[site]);
        if complete && statuses[0].has_enough_sites().is_ok() {
            let keys: BTreeSet<Key> =
                statuses.iter().flat_map(|status| status.at_risk(usize::MAX).keys).collect();
            let sites: Vec<usize> =
                statuses[0].not_uniform(&pasts).iter().map(|site| site.index()).collect();
            self.promise(world, index, "AT-RISK", |write| {
                write.level == Level::Linearizable
                    || !sites.contains(&write.site)
                    || (write.session == number && write.site == site && !keys.contains(&write.key))
            });
        }
        self.rest(world, index);
    }

    fn take_token(&mut self, world: &mut World, index: usize) {
        let PromiseSession { pasts, covered, .. } = &self.sessions[index];
        let pasts = match self.weakness {
            Some(Weakness::TokensOfCausalPasts) => Pasts::causal(pasts.causal),
            _ => *pasts,
        };
        self.tokens.push(Token { pasts, covered: covered.clone() });
        world.tally.count("tokens taken");
        self.rest(world, index);
    }

    /// Begins a new session at some site, usually with a token that some session has taken.
    fn begin_anew(&mut self, world: &mut World, index: usize) {
        let up = (0..self.workers.len()).filter(|site| world.state(*site) == SiteState::Up);
        let up: Vec<usize> = up.collect();
        if up.is_empty() {
            world.wake(WAKES + index, 100 * MS);
            return;
        }
        let session = &mut self.sessions[index];
        session.number = self.numbers;
        session.site = up[self.random.below(up.len())];
        session.pasts = Pasts::none(self.workers.len());
        session.covered.clear();
        self.numbers += 1;
        if self.tokens.is_empty() || self.random.chance(20) {
            return self.rest(world, index);
        }
        // Most often use one of the latest tokens.
        let recent = self.random.below(self.tokens.len().min(4));
        let token = self.tokens[self.tokens.len() - 1 - recent].clone();
        let (pasts, timeout) = (token.pasts, Some(ATTACH_TIMEOUT));
        self.ask(world, index, Doing::Attach(token), Command::Attach { pasts, timeout });
    }

    /// Handles a reply. Returns it if it belongs to another request.
    pub(crate) fn reply(
        &mut self,
        world: &mut World,
        from: Address,
        request: RequestId,
        response: Response,
    ) -> Option<Response> {
        if let Some((_, write)) = self.unseen.get(&request) {
            let there = Outcome::Bulk(value_of(&self.writes[*write].key));
            if matches!(response, Response::Executed { outcome: Ok(outcome), .. } if outcome == there)
            {
                self.unseen.remove(&request);
            }
            return None;
        }
        let Some(index) = self.waiting(from, request) else {
            return (!is_own(request)).then_some(response);
        };
        self.sessions[index].waiting_for = None;
        let doing = std::mem::replace(&mut self.sessions[index].doing, Doing::Nothing);
        match (doing, response) {
            (Doing::Execute(write), Response::Executed { outcome: Ok(_), pasts }) => {
                self.acknowledged(index, &[write], &pasts);
            }
            (Doing::Begin(writes), Response::Begun(tx)) => {
                self.operate(world, index, from, writes, 0, tx);
                return None;
            }
            (Doing::Operate(writes, done, tx), Response::Operated(Ok(_))) => {
                self.operate(world, index, from, writes, done, tx);
                return None;
            }
            (Doing::Commit(writes), Response::Committed { pasts }) => {
                self.acknowledged(index, &writes, &pasts);
            }
            (Doing::Barrier(name), Response::Uniform) => {
                self.promise(world, index, name, |_| true);
            }
            (Doing::Attach(token), Response::Attached) => {
                let session = &mut self.sessions[index];
                session.pasts.join(&token.pasts);
                session.covered = token.covered;
                // The site waits for the token's causal past. Writes at this site were there
                // already, so ATTACH promises nothing about them.
                let site = session.site;
                self.promise(world, index, "ATTACH", |write| match write.level {
                    Level::Eventual => false,
                    Level::Linearizable => true,
                    _ => write.site != site,
                });
            }
            _ => {}
        }
        self.rest(world, index);
        None
    }

    fn acknowledged(&mut self, index: usize, writes: &[usize], pasts: &Pasts) {
        let session = &mut self.sessions[index];
        session.pasts.join(pasts);
        session.covered.extend(writes);
    }

    /// Records that an answer promises that the covered writes for which `which` holds survive.
    fn promise(
        &mut self,
        world: &mut World,
        index: usize,
        name: &'static str,
        which: impl Fn(&Write) -> bool,
    ) {
        let PromiseSession { number, site, covered, .. } = &self.sessions[index];
        world.tally.count(match name {
            "BARRIER" => "promises of barriers",
            "WAIT" => "promises of WAIT",
            "AT-RISK" => "promises of AT-RISK",
            _ => "promises of ATTACH",
        });
        for write in covered.iter().filter(|write| which(&self.writes[**write])) {
            self.promised.entry(*write).or_insert_with(|| {
                let ms = world.now / MS;
                format!("{name} at site {site} promised session {number} at {ms} ms")
            });
        }
    }

    /// Cuts off the sessions of a site that stopped.
    pub(crate) fn site_down(&mut self, world: &mut World, site: usize) {
        for index in 0..self.sessions.len() {
            let session = &self.sessions[index];
            let asked = session.waiting_for.map(|(worker, _)| worker.site.index());
            if asked == Some(site) {
                self.cut_off(world, index);
            }
        }
    }

    /// Cuts off the sessions that wait for a worker that no longer answers.
    pub(crate) fn worker_down(&mut self, world: &mut World, worker: Address) {
        for index in 0..self.sessions.len() {
            if self.sessions[index].waiting_for.is_some_and(|(asked, _)| asked == worker) {
                self.cut_off(world, index);
            }
        }
    }

    /// Handles a command that gets no answer, or that was rejected. Returns whether a session had
    /// sent it.
    pub(crate) fn unanswered(
        &mut self,
        world: &mut World,
        from: Address,
        request: RequestId,
    ) -> bool {
        if let Some(index) = self.waiting(from, request) {
            self.cut_off(world, index);
        }
        is_own(request)
    }

    fn waiting(&self, from: Address, request: RequestId) -> Option<usize> {
        let waiting = Some((from, request));
        self.sessions.iter().position(|session| session.waiting_for == waiting)
    }

    fn cut_off(&mut self, world: &mut World, index: usize) {
        self.sessions[index].waiting_for = None;
        self.rest(world, index);
    }

    fn rest(&mut self, world: &mut World, index: usize) {
        self.sessions[index].doing = Doing::Nothing;
        // Some sessions continue at once.
        let most = self.random.weighted(&[(30, 1), (50, 40 * MS), (20, 120 * MS)]);
        let delay = self.random.within(0, most) * self.pace;
        world.wake(WAKES + index, delay);
    }

    fn ask(&mut self, world: &mut World, index: usize, doing: Doing, command: Command) {
        let site = self.sessions[index].site;
        let first = self.random.below(usize::from(self.workers[site]));
        let worker = world.some_worker(SiteId(site as u8), first);
        self.ask_worker(world, index, worker, doing, command);
    }

    fn ask_worker(
        &mut self,
        world: &mut World,
        index: usize,
        worker: Address,
        doing: Doing,
        command: Command,
    ) {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.sessions[index].doing = doing;
        self.sessions[index].waiting_for = Some((worker, request));
        world.command(worker, request, command);
    }

    /// Reads every promised write at every surviving site.
    pub(crate) fn final_reads(&mut self, world: &mut World) {
        let sites = world.sites();
        for site in 0..sites {
            if world.state(site) != SiteState::Up {
                continue;
            }
            let to = Address { site: SiteId(site as u8), worker: 0 };
            for write in self.promised.keys().copied() {
                let Write { key, level, .. } = self.writes[write].clone();
                let level = if level == Level::Eventual { level } else { Level::Causal };
                self.requests += 1;
                let request = RequestId(self.requests);
                self.unseen.insert(request, (site, write));
                let (past, op) = (Vector::zero(sites), Op::Get);
                world.command(to, request, Command::Execute { past, level, key, op });
            }
        }
    }

    /// Returns the promises that were not kept, once the final reads are answered.
    pub(crate) fn broken(&self) -> Vec<String> {
        let broken = self.unseen.values().map(|(site, write)| {
            let (Write { key, session, site: at, .. }, promise) =
                (&self.writes[*write], &self.promised[write]);
            format!(
                "{promise} {key}, which session {session} wrote at site {at}; site {site} lacks it"
            )
        });
        broken.collect()
    }
}

fn is_own(request: RequestId) -> bool {
    (REQUESTS..2 * REQUESTS).contains(&request.0)
}

fn value_of(key: &Key) -> Value {
    Value::from(key.as_bytes().to_vec())
}
