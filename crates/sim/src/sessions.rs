//! Sessions that wait for one reply at a time. What they do is up to their load, a module such as
//! `bounds`.

use std::fmt::Debug;
use std::ops::{Index, IndexMut};

use solera_machine::{Address, RequestId};
use solera_unistore::{Command, TxId};

use crate::queue::MS;
use crate::random::Random;
use crate::world::{World, WorldEvent};

/// How the sessions of a load differ from those of other loads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    /// Number of the first wake-up. Each session has one number.
    pub(crate) wakes: usize,
    /// Number of the first request.
    pub(crate) requests: u64,
    /// Number of steps of each session.
    pub(crate) steps: usize,
    /// Latest time of the first step.
    pub(crate) begin: u64,
    /// Longest pause between two steps.
    pub(crate) pause: u64,
}

/// Number of requests that a load may send.
const MOST_REQUESTS: u64 = 1 << 57;

/// A session. `D` is what it may wait for.
#[derive(Debug)]
pub(crate) struct SimulatedSession<D> {
    /// Present wait of the session; `None` if it rests.
    pub(crate) doing: Option<D>,
    /// The worker that it uses.
    pub(crate) worker: Address,
    pub(crate) request: RequestId,
    /// Its open transaction.
    pub(crate) tx: Option<TxId>,
    /// Index of its present attempt in the load's list.
    pub(crate) attempt: usize,
    /// Number of steps that it has not begun; `None` if it has finished.
    left: Option<usize>,
}

/// The sessions of a load.
#[derive(Debug)]
pub(crate) struct Sessions<D> {
    load: Load,
    workers: Vec<Address>,
    pub(crate) random: Random,
    requests: u64,
    sessions: Vec<SimulatedSession<D>>,
}

impl<D: Clone + Debug> Sessions<D> {
    /// Creates `count` sessions, each of which begins within some time.
    pub(crate) fn new(
        load: Load,
        count: usize,
        workers: Vec<Address>,
        mut random: Random,
        world: &mut World,
    ) -> Sessions<D> {
        let sessions = (0..count).map(|index| {
            world.wake(load.wakes + index, random.within(0, load.begin));
            let (worker, request, tx, left) = (workers[0], RequestId(0), None, Some(load.steps));
            SimulatedSession { doing: None, worker, request, tx, attempt: 0, left }
        });
        let sessions = sessions.collect();
        Sessions { load, workers, random, requests: load.requests, sessions }
    }

    /// Returns whether every session has finished.
    pub(crate) fn all_done(&self) -> bool {
        self.sessions.iter().all(|session| session.left.is_none())
    }

    /// Returns the sessions that are not finished.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let waiting = self.sessions.iter().filter(|session| session.left.is_some());
        waiting.map(|session| format!("{}: {session:?}", self.load.name)).collect()
    }

    /// Returns whether a request belongs to these sessions.
    pub(crate) fn is_own(&self, request: RequestId) -> bool {
        (self.load.requests..self.load.requests + MOST_REQUESTS).contains(&request.0)
    }

    /// Returns the session that a wake-up is for.
    pub(crate) fn woken(&self, number: usize) -> Option<usize> {
        number.checked_sub(self.load.wakes).filter(|index| *index < self.sessions.len())
    }

    /// Begins the next step of a session that rests. Returns the worker that it uses, or `None` if
    /// it has finished, or has to wait for a worker.
    pub(crate) fn begin(&mut self, world: &mut World, index: usize) -> Option<Address> {
        let session = &mut self.sessions[index];
        session.left = session.left?.checked_sub(1);
        session.left?;
        let up = world.up(&self.workers);
        if up.is_empty() {
            self.rest(world, index);
            return None;
        }
        let worker = up[self.random.below(up.len())];
        self.sessions[index].worker = worker;
        Some(worker)
    }

    /// Returns the number of a new request.
    pub(crate) fn new_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests - 1)
    }

    /// Sends a command to the session's worker, and waits for the reply.
    pub(crate) fn ask(&mut self, world: &mut World, index: usize, doing: D, command: Command) {
        let request = self.new_request();
        let session = &mut self.sessions[index];
        (session.doing, session.request) = (Some(doing), request);
        world.command(session.worker, request, command);
    }

    /// Lets a session rest for a while.
    pub(crate) fn rest(&mut self, world: &mut World, index: usize) {
        let session = &mut self.sessions[index];
        (session.doing, session.tx) = (None, None);
        world.wake(self.load.wakes + index, self.random.within(MS, self.load.pause));
    }

    /// Returns the session that waits for a reply, and what it waits for.
    pub(crate) fn waiting(&self, from: Address, request: RequestId) -> Option<(usize, D)> {
        self.sessions.iter().enumerate().find_map(|(index, session)| {
            let doing = session.doing.as_ref()?;
            let is_it = session.request == request && session.worker == from;
            is_it.then(|| (index, doing.clone()))
        })
    }

    /// Lets sessions rest whose workers will not reply, because they have gone down.
    pub(crate) fn give_up(&mut self, world: &mut World, event: &WorldEvent) {
        let is_down = |worker: Address| match event {
            WorldEvent::SiteDown(site) => worker.site.index() == *site,
            WorldEvent::WorkerDown(down) => worker == *down,
            _ => false,
        };
        for index in 0..self.sessions.len() {
            let SimulatedSession { doing, worker, .. } = &self.sessions[index];
            if doing.is_some() && is_down(*worker) {
                self.rest(world, index);
            }
        }
    }
}

impl<D> Index<usize> for Sessions<D> {
    type Output = SimulatedSession<D>;

    fn index(&self, index: usize) -> &SimulatedSession<D> {
        &self.sessions[index]
    }
}

impl<D> IndexMut<usize> for Sessions<D> {
    fn index_mut(&mut self, index: usize) -> &mut SimulatedSession<D> {
        &mut self.sessions[index]
    }
}
