//! Sessions that use `creek`, in addition to those of UniStore.
//!
//! | module | subject |
//! |---|---|
//! | `load` | operations that sessions invoke |
//! | `roam` | sessions that continue at another site, with what they have seen |
//! | `record` | what clients and the events of the machines show |
//! | `judge` | what must hold at the end, and the history for [`solera_checker::speculative`] |

mod judge;
mod load;
mod record;
mod roam;

use solera_creek::{Command, Level, Past, Response};
use solera_machine::{Address, RequestId};
use solera_procedures::Returned;
use solera_site::speculative::Operation;
use solera_time::SiteId;

use self::record::{Invocation, Record};
use self::roam::Reached;
use crate::queue::MS;
use crate::random::Random;
use crate::scenario::{Scenario, SpeculativeShape};
use crate::world::{SiteState, World, WorldEvent};

/// Wake-ups of these sessions, beyond those of other clients.
const WAKES: usize = 1 << 48;
/// Requests of these sessions.
const REQUESTS: u64 = 29 << 57;
const SESSIONS: usize = 6;
/// Number of operations of each session.
const STEPS: usize = 40;
/// Time after which a session gives an operation up.
const PATIENCE: u64 = 3_000 * MS;
/// Time in which strong operations get their stable replies once there are no faults.
const PROMPT: u64 = 10_000 * MS;

#[derive(Debug)]
struct SimulatedSpeculativeSession {
    /// Changes when the session starts over.
    number: u64,
    site: usize,
    /// Number of operations that it has not begun; `None` if it has finished.
    left: Option<usize>,
    /// Number of times that it found its site down, one after another.
    missed: usize,
    /// Whether it waits for the stable replies to strong operations.
    awaits_stable: bool,
    /// Operations that its site had delivered when it had its last reply.
    past: Past,
    /// Whether a strong operation of it may be undecided.
    is_open: bool,
    /// Whether it waits at a site until its past is there.
    roams: bool,
    /// Whether it waits until its past is final.
    is_barrier: bool,
    waits: Option<RequestId>,
    /// Time at which it begins its next operation, or gives the present one up.
    next: u64,
}

/// The sessions, and their observations.
#[derive(Debug)]
pub(crate) struct SpeculativeSessions {
    shape: Option<SpeculativeShape>,
    sites: usize,
    sessions: Vec<SimulatedSpeculativeSession>,
    random: Random,
    requests: u64,
    numbers: u64,
    pause: u64,
    record: Record,
    barriers: Vec<Reached>,
}

impl SpeculativeSessions {
    pub(crate) fn new(scenario: &Scenario, world: &mut World) -> Self {
        let sites = scenario.topology.sites();
        let mut random = Random::new(scenario.seed.wrapping_mul(49_979_693).wrapping_add(13));
        let count = if scenario.speculative.is_some() { SESSIONS.max(sites) } else { 0 };
        let sessions = (0..count).map(|index| {
            let next = random.within(0, 200 * MS);
            world.wake(WAKES + index, next);
            SimulatedSpeculativeSession {
                number: index as u64,
                site: if index < sites { index } else { random.below(sites) },
                left: Some(STEPS),
                missed: 0,
                awaits_stable: random.chance(60),
                past: Past::default(),
                is_open: false,
                roams: false,
                is_barrier: false,
                waits: None,
                next,
            }
        });
        let sessions = sessions.collect();
        let pause = random.weighted(&[(30, 15), (50, 60), (20, 200)]) * MS * scenario.pace;
        SpeculativeSessions {
            shape: scenario.speculative.clone(),
            sites,
            sessions,
            random,
            requests: REQUESTS,
            numbers: count as u64,
            pause,
            record: Record::new(sites),
            barriers: Vec::new(),
        }
    }

    /// Returns whether every session has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.sessions.iter().all(|session| session.left.is_none())
    }

    /// Returns the sessions that are not finished.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let waiting = self.sessions.iter().filter(|session| session.left.is_some());
        waiting.map(|session| format!("creek: {session:?}")).collect()
    }

    /// Handles an event that concerns these sessions, and returns the others. An end of a site or
    /// worker concerns all.
    pub(crate) fn observe(&mut self, world: &mut World, event: WorldEvent) -> Option<WorldEvent> {
        match event {
            WorldEvent::Wake(number) if self.is_own(number) => self.wake(world, number - WAKES),
            WorldEvent::Speculative(from, request, response, last) => {
                self.reply(world, (from, request), response, last);
            }
            WorldEvent::SpeculativeStep(at, incarnation, step) => {
                self.record.step(at.site.index(), incarnation, step);
            }
            WorldEvent::SpeculativeStart(at, incarnation, finals) => {
                self.record.start(at.site.index(), incarnation, finals);
            }
            WorldEvent::SiteDown(site) if world.state(site) != SiteState::Paused => {
                self.give_up(world, site);
                return Some(WorldEvent::SiteDown(site));
            }
            WorldEvent::WorkerDown(worker) if SpeculativeShape::is_member(worker) => {
                self.give_up(world, worker.site.index());
                return Some(WorldEvent::WorkerDown(worker));
            }
            other => return Some(other),
        }
        None
    }

    fn is_own(&self, wake: usize) -> bool {
        (WAKES..WAKES + self.sessions.len()).contains(&wake)
    }

    fn wake(&mut self, world: &mut World, index: usize) {
        let session = &mut self.sessions[index];
        if world.now < session.next {
            return;
        }
        let Some(request) = session.waits.take() else { return self.go_on(world, index) };
        world.cancel(member(self.sessions[index].site), request);
        match self.sessions[index].roams {
            true => self.start_over(world, index),
            false => {
                world.tally.count("creek: operations given up");
                self.record.cancel(request);
            }
        }
        self.rest(world, index);
    }

    fn go_on(&mut self, world: &mut World, index: usize) {
        let session = &mut self.sessions[index];
        let Some(left) = session.left else { return };
        session.left = left.checked_sub(1);
        if left == 0 {
            return;
        }
        let site = session.site;
        if world.up(&[member(site)]).is_empty() {
            session.missed += 1;
            if world.state(site) == SiteState::Destroyed || session.missed > 3 {
                self.move_on(world, index);
            }
            return self.rest(world, index);
        }
        session.missed = 0;
        if self.random.chance(8) {
            return self.roam(world, index);
        }
        let strong = self.random.chance(self.shape.as_ref().map_or(0, |shape| shape.strong));
        let operation = load::operation(&mut self.random);
        let level = if strong { Level::Strong } else { Level::Weak };
        let track = self.random.chance(25);
        let number = self.sessions[index].number;
        let Some(request) = self.invoke(world, site, Some(number), operation, (level, track))
        else {
            return self.rest(world, index);
        };
        let soon = self.random.chance(6);
        let patience = if soon { self.random.within(MS, 150 * MS) } else { PATIENCE };
        let session = &mut self.sessions[index];
        session.is_open |= strong;
        (session.waits, session.next) = (Some(request), world.now + patience);
        world.wake(WAKES + index, patience);
    }

    /// Continues as a new session at another site.
    fn move_on(&mut self, world: &mut World, index: usize) {
        let sites: Vec<Address> = (0..self.sites).map(member).collect();
        let up = world.up(&sites);
        if up.is_empty() {
            return;
        }
        world.tally.count("creek: sessions that moved");
        let session = &mut self.sessions[index];
        (session.site, session.missed) = (up[self.random.below(up.len())].site.index(), 0);
        self.start_over(world, index);
    }

    /// Continues as a session that has seen nothing.
    fn start_over(&mut self, world: &mut World, index: usize) {
        world.tally.count("creek: sessions that started over");
        let session = &mut self.sessions[index];
        (session.past, session.is_open, session.roams) = (Past::default(), false, false);
        session.number = self.numbers;
        self.numbers += 1;
    }

    fn invoke(
        &mut self,
        world: &mut World,
        site: usize,
        session: Option<u64>,
        operation: Operation,
        (level, track): (Level, bool),
    ) -> Option<RequestId> {
        let (to, request) = (member(site), RequestId(self.requests));
        self.requests += 1;
        let strong = level == Level::Strong;
        let procedure = load::procedure(&operation);
        let incarnation = world.incarnation(to);
        self.record.invoke(request, Invocation { session, site, incarnation, strong, procedure });
        let command = Command::Invoke { operation, level, track };
        if !world.example_command(to, request, command.into(), true) {
            self.record.forget(request);
            return None;
        }
        world.tally.count(if strong {
            "creek: strong operations"
        } else {
            "creek: weak operations"
        });
        Some(request)
    }

    /// Lets a session rest for a while.
    fn rest(&mut self, world: &mut World, index: usize) {
        let pause = match self.random.chance(20) {
            true => MS,
            false => self.random.within(MS, self.pause),
        };
        let session = &mut self.sessions[index];
        (session.waits, session.next) = (None, world.now + pause);
        world.wake(WAKES + index, pause);
    }

    fn reply(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: Response<Returned>,
        last: bool,
    ) {
        if response == Response::Reached {
            return self.arrive(world, from.site.index(), request);
        }
        if let Response::Lost { id } = response {
            self.record.lost.push(id);
            return self.lose(world, request);
        }
        let is_stable = match response {
            Response::Tentative(_) => false,
            Response::Revised(_) => {
                world.tally.count("creek: revised replies");
                false
            }
            Response::Stable { .. } => {
                world.tally.count("creek: stable replies");
                true
            }
            // The sessions await no operations of others.
            Response::Forgotten { .. }
            | Response::Lost { .. }
            | Response::Unknown { .. }
            | Response::Reached => return,
            Response::Diverged(ref divergence) => {
                self.record.problems.push(format!("{from:?} differs from others: {divergence:?}"));
                true
            }
            Response::Busy => {
                world.tally.count("creek: operations refused");
                self.record.forget(request);
                true
            }
        };
        if !matches!(response, Response::Busy | Response::Diverged(_)) {
            self.record.reply(from.site.index(), request, response, last);
        }
        let waits = |session: &SimulatedSpeculativeSession| session.waits == Some(request);
        let Some(index) = self.sessions.iter().position(waits) else { return };
        self.see(world, index);
        let waits_on = self.sessions[index].awaits_stable && self.record.is_strong(request);
        if is_stable && self.record.is_strong(request) {
            // Its earlier ones are decided, because sites keep the order of strong operations.
            self.sessions[index].is_open = false;
        }
        if is_stable || !waits_on {
            self.rest(world, index);
        }
    }

    /// Has a session start over whose past is lost.
    fn lose(&mut self, world: &mut World, request: RequestId) {
        world.tally.count("creek: sessions whose past was lost");
        let waits = |session: &SimulatedSpeculativeSession| session.waits == Some(request);
        if let Some(index) = self.sessions.iter().position(waits) {
            self.start_over(world, index);
            self.rest(world, index);
        }
    }

    /// Lets the sessions of a site rest whose replies will not arrive.
    fn give_up(&mut self, world: &mut World, site: usize) {
        self.record.lose_replies(site);
        for index in 0..self.sessions.len() {
            let session = &self.sessions[index];
            if session.site == site && session.waits.is_some() {
                if session.roams {
                    self.start_over(world, index);
                }
                self.rest(world, index);
            }
        }
    }

    /// Invokes a strong operation at each site that is up, once there are no faults. Returns the
    /// latest time at which all must have stable replies.
    pub(crate) fn last_round(&mut self, world: &mut World) -> u64 {
        for site in self.up(world) {
            let operation = load::operation(&mut self.random);
            let invoked = self.invoke(world, site, None, operation, (Level::Strong, true));
            assert!(invoked.is_some() || world.up(&[member(site)]).is_empty(), "it is up");
        }
        world.now + PROMPT
    }

    /// Reads all keys at each site that is up.
    pub(crate) fn final_reads(&mut self, world: &mut World) {
        for site in self.up(world) {
            for operation in load::reads() {
                self.invoke(world, site, None, operation, (Level::Weak, false));
            }
        }
    }

    /// Returns the sites that run it and are up.
    fn up(&self, world: &World) -> Vec<usize> {
        let sites: Vec<Address> = (0..self.sites).map(member).collect();
        world.up(&sites).into_iter().map(|member| member.site.index()).collect()
    }
}

/// Returns the worker of a site that runs `creek`.
fn member(site: usize) -> Address {
    Address { site: SiteId(site as u8), worker: 0 }
}
