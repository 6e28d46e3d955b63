//! Replicas that run Creek's machine, or a baseline's, in virtual time (Creek §6.1).
//!
//! A replica has one protocol thread, on which each input of the machine takes the same time, and
//! cores, each of which runs one job at a time for the time that the job costs. Messages pass the
//! network cards of both replicas and a network with random delays, in which links keep their
//! order. One seed always gives the same results.

use std::time::Duration;

use solera_creek::Creek;
use solera_machine::{Now, Wire};
use solera_random::Random;
use solera_time::{Monotonic, Physical, Queue, SiteId};
use solera_tpcc::{Mix, Tpcc};

use super::clients::Clients;
use super::measured::Measured;
use super::replica::{Effects, Input, Message, Replica};
use super::setting::{Setting, nanos};
use crate::error::BenchError;
use crate::virtual_cluster::network::{Card, Cards};

/// Wall-clock time at the beginning of virtual time, in microseconds since 1970.
const EPOCH: u64 = 1_800_000_000_000_000;
/// Shortest delay of a message, and the difference to the longest one, in nanoseconds.
const DELAY: (u64, u64) = (200_000, 100_000);
/// Interval at which final operations are read from the replicas.
const SLICE: Duration = Duration::from_millis(5);
/// Longest time until all replicas are at rest after the last operation.
const UNTIL_REST: Duration = Duration::from_secs(120);

/// An event of virtual time.
enum Due {
    /// Clients of a replica invoke an operation.
    Invoke(usize),
    /// The first byte of a message reaches the card of its receiver.
    Receive { from: usize, to: usize, message: Box<Message>, bytes: u64 },
    /// An input reaches a replica.
    Input(usize, Box<Input>),
    /// The protocol thread of a replica becomes idle.
    Free(usize),
    /// A timer of a replica is due.
    Timer(usize),
}

/// The replicas, the network and the clients.
pub(crate) struct World {
    setting: Setting,
    tpcc: Tpcc,
    replicas: Vec<Replica>,
    cards: Cards,
    /// For each sender and receiver, when the last message reaches the receiver.
    links: Vec<Vec<u64>>,
    network: Random,
    clients: Clients,
    queue: Queue<Due>,
    now: u64,
    messages: u64,
}

/// Runs a setting until all replicas are at rest again.
///
/// # Errors
/// Fails if the replicas do not come to rest or disagree, if a stable reply is not the final
/// response, or if a consistency condition of TPC-C is violated.
pub(crate) fn run(setting: &Setting) -> Result<Measured, BenchError> {
    let fails = |what: String| {
        BenchError::Transaction(format!("{:?} at {:.0}/s: {what}", setting.scheme, setting.load))
    };
    World::new(setting.clone()).measure().map_err(fails)
}

impl World {
    fn new(setting: Setting) -> World {
        let mut tpcc = Tpcc::new(setting.warehouses);
        tpcc.costs = setting.costs.clone();
        let mix = Mix { warehouses: setting.warehouses, weights: setting.weights };
        let replica = |site: SiteId| {
            Replica::new(Creek::new(setting.config(site), tpcc.clone()), site.index(), setting.step)
        };
        let gap = setting.replicas as f64 * 1e9 / setting.load;
        let mut random = Random::new(setting.seed);
        let mut world = World {
            replicas: SiteId::all(setting.replicas).map(replica).collect(),
            cards: Cards::new(Card::default(), setting.replicas),
            links: vec![vec![0; setting.replicas]; setting.replicas],
            network: Random::new(random.draw()),
            clients: Clients::new(mix, tpcc.clone(), gap, Random::new(random.draw())),
            queue: Queue::new(),
            now: 0,
            messages: 0,
            tpcc,
            setting,
        };
        for replica in 0..world.replicas.len() {
            let first = world.clients.gap();
            world.queue.push(first, Due::Invoke(replica));
        }
        world
    }

    /// Runs for the warm-up and the window, and then until all replicas are at rest.
    fn measure(mut self) -> Result<Measured, String> {
        let Setting { warm_up, window, .. } = self.setting;
        self.run_for(warm_up);
        self.clients.begin_window(self.now);
        self.cards.reset();
        self.replicas.iter_mut().for_each(Replica::begin_window);
        let (before, messages) = (self.backlog(), self.messages);
        self.run_for(window);
        let used = self.replicas.iter().map(|replica| replica.used).collect();
        let mut measured = Measured::new(&self.setting, used);
        measured.backlog = (before, self.backlog());
        measured.messages = self.messages - messages;
        measured.bytes = self.cards.bytes().iter().map(|(sent, _)| *sent).collect();
        self.clients.end(self.now);
        self.rest()?;
        self.check()?;
        self.clients.report(&mut measured)?;
        measured.executions = self.replicas.iter().map(|it| it.machine.status().executions).sum();
        measured.machine = self.replicas.iter().map(|it| it.spent).sum();
        Ok(measured)
    }

    /// Returns the number of operations that are invoked, but not final everywhere or answered.
    fn backlog(&self) -> u64 {
        let finals = self.replicas.iter().map(|replica| replica.updates).min();
        self.clients.backlog(finals.unwrap_or_default())
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + nanos(time);
        while self.now < end {
            let until = end.min(self.now + nanos(SLICE));
            while let Some((at, due)) = self.queue.pop(until) {
                self.now = at;
                self.handle(due);
            }
            self.now = until;
            for (number, replica) in self.replicas.iter_mut().enumerate() {
                let finals = replica.read_finals();
                if number == 0 {
                    self.clients.take_finals(finals);
                }
            }
        }
    }

    /// Continues until no replica has anything to do.
    fn rest(&mut self) -> Result<(), String> {
        let limit = self.now + nanos(UNTIL_REST);
        while self.clients.is_waiting() || !self.replicas.iter().all(Replica::is_at_rest) {
            if self.now > limit {
                return Err("the replicas do not come to rest".to_owned());
            }
            self.run_for(SLICE);
        }
        // A replica may be at rest before another one's last operation has reached it.
        self.run_for(SLICE);
        Ok(())
    }

    /// Checks that the replicas agree, and that the tables are consistent.
    fn check(&self) -> Result<(), String> {
        let states = || self.replicas.iter().map(|replica| replica.machine.status());
        let finals: Vec<_> = states().map(|status| (status.finals, status.digest)).collect();
        if finals.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(format!("the replicas disagree: {finals:?}"));
        }
        let registers = self.replicas[0].machine.final_registers();
        let registers = registers.iter().map(|(name, value)| (&name[..], value));
        match self.tpcc.violations(registers).first() {
            Some(violation) => Err(format!("a consistency condition is violated: {violation}")),
            None => Ok(()),
        }
    }

    fn clocks(&self) -> Now {
        Now { monotonic: Monotonic(self.now), physical: Physical(EPOCH + self.now / 1000) }
    }

    fn handle(&mut self, due: Due) {
        match due {
            Due::Invoke(replica) => {
                let Some(command) = self.clients.invoke(self.now) else { return };
                let next = self.now + self.clients.gap();
                self.queue.push(next, Due::Invoke(replica));
                self.take(replica, command);
            }
            Due::Receive { from, to, message, bytes } => {
                let at = self.cards.receive(to, self.now, bytes);
                let from = self.replicas[from].address;
                let input = Input::Message { from, generation: 0, message: *message };
                self.queue.push(at, Due::Input(to, Box::new(input)));
            }
            Due::Input(replica, input) => self.take(replica, *input),
            Due::Free(replica) => {
                self.replicas[replica].is_waking = false;
                self.advance(replica);
            }
            Due::Timer(replica) => {
                let timer = &mut self.replicas[replica].timer;
                *timer = timer.filter(|at| *at > self.now);
                self.advance(replica);
            }
        }
    }

    fn take(&mut self, replica: usize, input: Input) {
        self.replicas[replica].inbox.push_back((self.now, input));
        self.advance(replica);
    }

    /// Lets the protocol thread of a replica continue, if it is idle.
    fn advance(&mut self, number: usize) {
        let now = self.clocks();
        let replica = &mut self.replicas[number];
        if replica.free_at <= self.now
            && let Some(effects) = replica.step(now)
        {
            self.carry_out(number, effects);
        }
        let replica = &mut self.replicas[number];
        if !replica.inbox.is_empty() {
            if !std::mem::replace(&mut replica.is_waking, true) {
                self.queue.push(replica.free_at, Due::Free(number));
            }
        } else if let Some(at) = replica.next_timer(self.now) {
            replica.timer = Some(at);
            self.queue.push(at, Due::Timer(number));
        }
    }

    /// Carries out what a step of a replica leads to, when the step ends.
    fn carry_out(&mut self, from: usize, effects: Effects) {
        let at = self.replicas[from].free_at;
        for (to, message) in effects.messages {
            let bytes = message.encoded_bytes() as u64;
            let delay = DELAY.0 + self.network.below(DELAY.1 + 1);
            let last = &mut self.links[from][to];
            *last = (self.cards.send(from, at, bytes) + delay).max(*last);
            self.messages += 1;
            let message = Box::new(message);
            self.queue.push(*last, Due::Receive { from, to, message, bytes });
        }
        for (cost, input) in effects.jobs {
            self.queue.push(at + cost, Due::Input(from, Box::new(input)));
        }
        for (request, response) in effects.replies {
            self.clients.answered(request, response, at);
        }
    }
}
