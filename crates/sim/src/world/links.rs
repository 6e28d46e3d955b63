//! Links between workers, each of which is a process of its own, over connections in virtual time.
//!
//! [`solera_links::Link`] decides which frames are queued, sent again and delivered, as in servers.
//! This module is its host: it makes connections, breaks them for one end before the other, and
//! carries frames in the time that their bytes take.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_links::{Greeting, Handshake, Link, decode_batch, encode_batch};
use solera_machine::Address;
use solera_site::Message;
use solera_time::{Monotonic, SiteId};
use solera_unistore::Command;

use super::admissions::{Admissions, read_greeting};
use super::copies::Copies;
use super::frame_ledger::FrameLedger;
use super::frame_ledger::{Body, Process};
use super::{Due, SiteState, World, WorldEvent};
use crate::queue::MS;
use crate::scenario::Wiring;
use crate::weakness::Weakness;

/// Time without an answer, in nanoseconds, after which a rejection no longer counts.
const SILENCE: u64 = 1_000 * MS;
/// Length of a frame's header, in bytes.
const FRAME_HEADER: usize = 17;

/// All links of a world.
pub(super) struct Links {
    wiring: Wiring,
    weakness: Option<Weakness>,
    pub(super) admissions: Admissions,
    pub(super) copies: Copies,
    ledger: FrameLedger,
    /// One worker's state of its link with another.
    ends: BTreeMap<(Address, Address), End>,
    connections: BTreeMap<u64, Connection>,
    /// Number of the latest connection.
    latest: u64,
    /// Messages that a worker sends in this turn.
    outbox: BTreeMap<Address, Vec<Message>>,
    /// Steps of workers at paused sites. The workers take them when their sites resume.
    deferred: Vec<Step>,
    /// Whether faults have ended: the final reads are then sent all at once, and none is repeated.
    is_healed: bool,
}

struct End {
    link: Link<Body>,
    /// The connection that this worker made.
    connection: Option<u64>,
    /// Number of calls of this worker.
    attempt: u64,
    /// Whether the latest call may still be answered.
    is_calling: bool,
    /// Time at which a call was last answered, in nanoseconds.
    answered: u64,
}

/// A connection, over which the caller sends frames.
struct Connection {
    caller: Process,
    called: Process,
    /// Generation of the caller's site.
    generation: u32,
    /// Number of the connection at the called worker's link.
    number: u64,
    caller_is_there: bool,
    called_is_there: bool,
    /// Frames that arrive from then on are lost.
    broken_at: Option<u64>,
    /// Whether the caller has sent a frame.
    has_sent: bool,
    /// Time at which the caller can send the next frame.
    free_at: u64,
    /// Whether a step to send more is scheduled.
    will_send: bool,
    /// Times at which the last frame and the last acknowledgement arrive.
    last_arrival: (u64, u64),
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Caller,
    Called,
}

/// A connection request on its way.
#[derive(Clone, Debug)]
pub(super) struct Call {
    caller: Process,
    called: Address,
    attempt: u64,
    generation: u32,
    handshake: Handshake,
    /// The encoded greeting.
    hello: Body,
}

/// A step of a link.
#[derive(Debug)]
pub(super) enum Step {
    /// A worker calls another, unless it has begun another attempt in the meantime.
    Call(Process, Address, u64),
    /// The called worker reads the greeting.
    Greeting(Call),
    /// The called worker decides.
    Decision(Call, Process, Handshake),
    /// The caller reads that its call is accepted, with the number of the connection.
    Welcome(Call, u64, Vec<u8>),
    /// The caller reads that its call is rejected, with the reason.
    Refusal(Call, Vec<u8>),
    /// The connection has room for the next frame.
    Room(u64),
    /// A frame arrives.
    Frame(u64, u64, Body),
    /// An acknowledgement arrives.
    Ack(u64, u64),
    /// One side notices that the connection is broken.
    Noticed(u64, Side),
}

impl Links {
    pub(super) fn new(wiring: Wiring, weakness: Option<Weakness>) -> Links {
        Links {
            wiring,
            weakness,
            admissions: Admissions::default(),
            copies: Copies::default(),
            ledger: FrameLedger::default(),
            ends: BTreeMap::new(),
            connections: BTreeMap::new(),
            latest: 0,
            outbox: BTreeMap::new(),
            deferred: Vec::new(),
            is_healed: false,
        }
    }

    /// Removes transfer times of bytes, and no longer rejects commands.
    pub(super) fn heal(&mut self) {
        self.is_healed = true;
        self.wiring.byte_time = 0;
    }

    pub(super) fn has(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }

    /// Adds a message to those that a worker sends in this turn.
    pub(super) fn say(&mut self, to: Address, message: Message) {
        self.outbox.entry(to).or_default().push(message);
    }

    pub(super) fn take_deferred(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.deferred)
    }

    /// Returns the process that takes part in a step.
    fn process(&self, step: &Step) -> Option<Process> {
        let side = |connection: &u64, side| {
            let connection = self.connections.get(connection)?;
            Some(match side {
                Side::Caller => connection.caller,
                Side::Called => connection.called,
            })
        };
        match step {
            Step::Call(caller, ..) => Some(*caller),
            Step::Greeting(_) => None,
            Step::Decision(_, called, _) => Some(*called),
            Step::Welcome(call, ..) | Step::Refusal(call, _) => Some(call.caller),
            Step::Room(connection) | Step::Ack(connection, _) => side(connection, Side::Caller),
            Step::Frame(connection, ..) => side(connection, Side::Called),
            Step::Noticed(connection, which) => side(connection, *which),
        }
    }

    /// Returns the connections between a worker for which `is_one` holds and another for which
    /// `is_other` holds.
    fn between(
        &self,
        is_one: impl Fn(Address) -> bool,
        is_other: impl Fn(Address) -> bool,
    ) -> Vec<u64> {
        let between = |connection: &Connection| {
            let (caller, called) = (connection.caller.0, connection.called.0);
            (is_one(caller) && is_other(called)) || (is_one(called) && is_other(caller))
        };
        let connections = self.connections.iter().filter(|(_, connection)| between(connection));
        connections.map(|(number, _)| *number).collect()
    }
}

impl World {
    /// Begins the links of a new worker process: it knows no other worker, and calls all of them.
    pub(super) fn begin_links(&mut self, worker: Address) {
        self.end_links(worker);
        self.open_door(worker);
        let process = (worker, self.incarnation(worker));
        let topology = self.configs[&worker].topology.clone();
        for other in topology.all_workers().filter(|other| *other != worker) {
            let Some(links) = &mut self.links else { return };
            let link = Link::new(links.wiring.queue_limit, worker.site == other.site);
            let end =
                End { link, connection: None, attempt: 0, is_calling: false, answered: self.now };
            links.ends.insert((worker, other), end);
            let at = self.now + self.random.within(0, MS / 10);
            self.push(at, Due::Link(Step::Call(process, other, 0)));
        }
    }

    /// Ends the links of a worker process. Messages that it has sent may arrive for a moment.
    pub(super) fn end_links(&mut self, worker: Address) {
        let Some(links) = &mut self.links else { return };
        links.ends.retain(|(one, _), _| *one != worker);
        links.ledger.end(worker);
        for number in links.between(|one| one == worker, |_| true) {
            let last = self.now + self.random.within(0, MS / 5);
            self.break_connection(number, last);
            let Some(connection) = self.connection(number) else { continue };
            match connection.caller.0 == worker {
                true => connection.caller_is_there = false,
                false => connection.called_is_there = false,
            }
            self.forget_if_over(number);
        }
    }

    /// Breaks all connections between two sites.
    pub(super) fn break_links(&mut self, a: usize, b: usize) {
        let Some(links) = &self.links else { return };
        let at = |site: usize| move |worker: Address| worker.site.index() == site;
        for connection in links.between(at(a), at(b)) {
            self.break_connection(connection, self.now);
        }
    }

    /// Breaks the connections between two workers.
    pub(super) fn break_link(&mut self, a: Address, b: Address) {
        let Some(links) = &self.links else { return };
        for connection in links.between(|one| one == a, |other| other == b) {
            self.tally.count("connections of two workers broken");
            self.break_connection(connection, self.now);
        }
    }

    /// Breaks a connection: nothing arrives from `at` on, and each side notices at some time.
    fn break_connection(&mut self, number: u64, at: u64) {
        let Some(connection) = self.connection(number) else { return };
        if connection.broken_at.is_some() {
            return;
        }
        connection.broken_at = Some(at);
        for side in [Side::Caller, Side::Called] {
            let most = if self.random.chance(50) { MS } else { 200 * MS };
            let at = at + self.random.within(0, most);
            self.push(at, Due::Link(Step::Noticed(number, side)));
        }
    }

    /// Forgets a connection when both sides have given it up.
    fn forget_if_over(&mut self, number: u64) {
        let Some(links) = &mut self.links else { return };
        let is_over = |connection: &Connection| {
            let Connection { caller_is_there, called_is_there, broken_at, .. } = connection;
            broken_at.is_some() && !caller_is_there && !called_is_there
        };
        if links.connections.get(&number).is_some_and(is_over) {
            links.connections.remove(&number);
        }
    }

    fn connection(&mut self, number: u64) -> Option<&mut Connection> {
        self.links.as_mut()?.connections.get_mut(&number)
    }

    fn end(&mut self, worker: Address, other: Address) -> Option<&mut End> {
        self.links.as_mut()?.ends.get_mut(&(worker, other))
    }

    /// Returns whether a worker's process runs, or is only paused.
    pub(super) fn is_there(&self, process: Process) -> bool {
        let (worker, incarnation) = process;
        let state = self.states[worker.site.index()];
        let there = self.runs(worker.site.index()) || state == SiteState::Paused;
        there && self.incarnation(worker) == incarnation && self.workers.contains_key(&worker)
    }

    /// Returns whether a greeting gets from one worker to another.
    fn passes(&self, from: Address, to: Address) -> bool {
        let (a, b) = (from.site.index(), to.site.index());
        a == b || self.cuts[a][b] == 0
    }

    pub(super) fn link_step(&mut self, step: Step) {
        let Some(links) = &mut self.links else { return };
        if let Some(process) = links.process(&step) {
            if self.states[process.0.site.index()] == SiteState::Paused {
                links.deferred.push(step);
                return;
            }
            if !self.is_there(process) {
                return;
            }
        }
        match step {
            Step::Call(caller, called, attempt) => self.call(caller, called, attempt),
            Step::Greeting(call) => self.read_greeting(call),
            Step::Decision(call, called, read) => self.decide(call, called, read),
            Step::Welcome(call, connection, greeting) => {
                self.welcome(&call, connection, &greeting);
            }
            Step::Refusal(call, greeting) => self.take_refusal(&call, &greeting),
            Step::Room(connection) => {
                if let Some(connection) = self.connection(connection) {
                    connection.will_send = false;
                }
                self.send_frames(connection);
            }
            Step::Frame(connection, number, body) => self.take_frame(connection, number, &body),
            Step::Ack(number, last) => self.take_ack(number, last),
            Step::Noticed(connection, side) => self.notice(connection, side),
        }
    }

    /// Has a worker call another after `after` nanoseconds, unless it is connected by then.
    fn call_after(&mut self, worker: Address, other: Address, after: u64) {
        let process = (worker, self.incarnation(worker));
        if let Some(end) = self.end(worker, other) {
            end.attempt += 1;
            let step = Step::Call(process, other, end.attempt);
            self.push(self.now + after, Due::Link(step));
        }
    }

    fn call(&mut self, caller: Process, called: Address, attempt: u64) {
        let (now, generation) = (self.now, self.generations[caller.0.site.index()]);
        let Some(card) = self.card(caller.0, called, 0) else { return };
        let Some(end) = self.end(caller.0, called) else { return };
        if end.connection.is_some() || end.attempt != attempt {
            return;
        }
        let is_silent = now - end.answered > SILENCE;
        end.attempt += 1;
        end.is_calling = true;
        let (attempt, handshake) = (end.attempt, end.link.handshake());
        let hello = Arc::new(Greeting::Hello(card).encode());
        let call = Call { caller, called, attempt, generation, handshake, hello };
        if let Some(links) = self.links.as_mut().filter(|_| is_silent) {
            links.admissions.silent(caller.0, called);
        }
        let there = self.travel_time(caller.0, called);
        let back = self.travel_time(called, caller.0);
        if self.passes(caller.0, called) {
            self.push(self.now + there, Due::Link(Step::Greeting(call)));
        }
        // This time usually suffices for an answer.
        let patience = there + back + self.random.within(MS, 60 * MS);
        self.push(self.now + patience, Due::Link(Step::Call(caller, called, attempt)));
    }

    fn read_greeting(&mut self, call: Call) {
        let process = (call.called, self.incarnation(call.called));
        let site = call.called.site.index();
        if !self.runs(site) || !self.is_there(process) || !self.passes(call.caller.0, call.called) {
            return;
        }
        let Some(end) = self.end(call.called, call.caller.0) else { return };
        let read = end.link.handshake();
        let most = if self.random.chance(80) { MS / 10 } else { 20 * MS };
        let at = self.now + self.random.within(0, most);
        self.push(at, Due::Link(Step::Decision(call, process, read)));
    }

    fn decide(&mut self, call: Call, called: Process, read: Handshake) {
        let (now, caller) = (Monotonic(self.now), call.caller);
        let Greeting::Hello(theirs) = read_greeting(&call.hello) else {
            unreachable!("callers say hello")
        };
        if let Err(refusal) = self.lets_in(called.0, &theirs, true) {
            self.tally.count("workers not let in");
            let at = self.now + self.travel_time(called.0, caller.0);
            if self.is_there(caller) && self.passes(called.0, caller.0) {
                let greeting = refusal.answer(refusal.to_string()).encode();
                self.push(at, Due::Link(Step::Refusal(call, greeting)));
            }
            return;
        }
        let Some(end) = self.end(called.0, caller.0) else { return };
        let Some((number, received)) = end.link.accepted(now, read, caller.1) else {
            return self.tally.count("calls refused");
        };
        let calls_back = end.connection.is_none() && !end.is_calling;
        let Some(links) = &mut self.links else { return };
        links.admissions.note_entry(called.0, &theirs);
        links.latest += 1;
        let latest = links.latest;
        let connection = Connection {
            caller,
            called,
            generation: call.generation,
            number,
            caller_is_there: false,
            called_is_there: true,
            broken_at: None,
            has_sent: false,
            free_at: 0,
            will_send: false,
            last_arrival: (0, 0),
        };
        links.connections.insert(latest, connection);
        let at = self.now + self.travel_time(called.0, caller.0);
        let card = self.card(called.0, caller.0, received);
        match card.filter(|_| self.is_there(caller) && self.passes(called.0, caller.0)) {
            Some(card) => {
                let greeting = Greeting::Welcome(card).encode();
                self.push(at, Due::Link(Step::Welcome(call, latest, greeting)));
            }
            None => self.break_connection(latest, self.now),
        }
        if calls_back {
            self.call_after(called.0, caller.0, MS / 100);
        }
    }

    fn take_refusal(&mut self, call: &Call, greeting: &[u8]) {
        let now = self.now;
        let word = match read_greeting(greeting) {
            Greeting::Refusal(word) | Greeting::Farewell(word) => word,
            other => unreachable!("{other:?} is no refusal"),
        };
        if let Some(links) = &mut self.links {
            links.admissions.heard(call.caller.0, call.called, Err(word));
        }
        if let Some(end) = self.end(call.caller.0, call.called) {
            end.answered = now;
        }
    }

    fn welcome(&mut self, call: &Call, number: u64, greeting: &[u8]) {
        let now = Monotonic(self.now);
        let Greeting::Welcome(card) = read_greeting(greeting) else {
            unreachable!("it is a welcome")
        };
        let Some(connection) = self.connection(number) else { return };
        let broken = connection.broken_at.is_some();
        if self.lets_in(call.caller.0, &card, false).is_err() {
            return self.break_connection(number, self.now);
        }
        let Some(end) = self.end(call.caller.0, call.called) else { return };
        let waits = end.connection.is_none() && end.attempt == call.attempt;
        let (peer, received) = (card.incarnation, card.received);
        if broken || !waits || !end.link.opened(now, call.handshake, peer, received) {
            return self.break_connection(number, self.now);
        }
        end.connection = Some(number);
        end.is_calling = false;
        end.answered = now.0;
        if end.link.reconnects() > 0 {
            self.tally.count("connections made again");
        }
        if let Some(links) = &mut self.links {
            links.admissions.note_entry(call.caller.0, &card);
            links.admissions.heard(call.caller.0, call.called, Ok(()));
        }
        if let Some(connection) = self.connection(number) {
            connection.caller_is_there = true;
        }
        self.send_frames(number);
    }

    /// Sends the messages of a worker's turn.
    pub(super) fn send_outbox(&mut self, from: Address) {
        while let Some((to, messages)) =
            self.links.as_mut().and_then(|links| links.outbox.pop_first())
        {
            self.queue_messages(from, to, messages);
        }
    }

    fn queue_messages(&mut self, from: Address, to: Address, messages: Vec<Message>) {
        let sender = (from, self.incarnation(from));
        let Some(links) = &mut self.links else { return };
        let Some(end) = links.ends.get_mut(&(from, to)) else { return };
        let dropped = end.link.dropped();
        let Some(ticket) = end.link.admit() else {
            let is_full = end.link.dropped() > dropped;
            return self.tally.count(match is_full {
                true => "batches dropped before full queues",
                false => "batches dropped without connection",
            });
        };
        for body in encode_batch(links.wiring.sizes, from, to, messages) {
            let (of, bytes, body) =
                ((body.lane, body.protocol), body.bytes.len(), Arc::new(body.bytes));
            if let Some(incarnation) = end.link.incarnation().filter(|_| from.site == to.site) {
                links.ledger.queued(sender, (to, incarnation), of, body.clone());
            }
            end.link.push(ticket, of, body, bytes);
        }
        if let Some(connection) = end.connection {
            self.send_frames(connection);
        }
    }

    /// Sends the frames that wait for a connection, until it is occupied.
    fn send_frames(&mut self, number: u64) {
        loop {
            let now = self.now;
            let Some(links) = &mut self.links else { return };
            let Some(connection) = links.connections.get_mut(&number) else { return };
            let (from, to) = (connection.caller.0, connection.called.0);
            let Some(end) = links.ends.get_mut(&(from, to)) else { return };
            if !connection.caller_is_there || end.connection != Some(number) {
                return;
            }
            if connection.free_at > now {
                if !std::mem::replace(&mut connection.will_send, true) {
                    let at = connection.free_at;
                    self.push(at, Due::Link(Step::Room(number)));
                }
                return;
            }
            let Some((frame, body)) = end.link.next_frame() else { return };
            let is_first = !std::mem::replace(&mut connection.has_sent, true);
            if is_first
                && end.link.reconnects() > 0
                && links.weakness == Some(Weakness::LosesFrames)
            {
                continue;
            }
            let bytes = (FRAME_HEADER + body.len()) as u64;
            connection.free_at = now + bytes * links.wiring.byte_time;
            let earliest = connection.free_at + self.travel_time(from, to);
            let Some(connection) = self.connection(number) else { return };
            let at = earliest.max(connection.last_arrival.0 + 1);
            connection.last_arrival.0 = at;
            self.push(at, Due::Link(Step::Frame(number, frame, body)));
        }
    }

    fn take_frame(&mut self, number: u64, frame: u64, body: &Body) {
        let now = self.now;
        let Some(connection) = self.connection(number) else { return };
        let Connection { caller, called, generation, number: counted, broken_at, .. } = *connection;
        if !connection.called_is_there || broken_at.is_some_and(|at| at <= now) {
            return;
        }
        let Some(links) = &self.links else { return };
        if !links.admissions.admits(called.0, caller.0, generation) {
            return self.notice(number, Side::Called);
        }
        let delivers_all = links.has(Weakness::DeliversAllFrames);
        let Some(end) = self.end(called.0, caller.0) else { return };
        let takes = end.link.takes(counted, frame);
        if !takes {
            self.tally.count("frames that had arrived before");
        }
        if takes || delivers_all {
            let ledger = self.links.as_mut().map(|links| &mut links.ledger);
            if let Some(Err(what)) = ledger.map(|it| it.delivered(caller, called, frame, body)) {
                self.events.push(WorldEvent::Lost(what));
            }
            self.deliver_frame((caller.0, generation), called, body);
        }
        // Handling the frame may have crashed the worker.
        let last = self.end(called.0, caller.0).map(|end| end.link.received(counted));
        match last {
            Some(Some(last)) if self.is_there(called) => self.acknowledge(number, last),
            Some(None) => self.notice(number, Side::Called),
            _ => {}
        }
    }

    /// Delivers the whole frame that has arrived, even if its connection breaks meanwhile.
    fn deliver_frame(&mut self, from: (Address, u32), to: Process, body: &[u8]) {
        let (from, generation) = from;
        let topology = &self.configs[&to.0].topology;
        let delivery = decode_batch::<Message>(body, from.site, to.0.site, topology)
            .expect("what a worker has encoded can be read, and fits");
        for message in delivery.messages {
            let sprung = self.spring(from, to.0, &message);
            let strike = |world: &mut World, before: bool| {
                if let Some((ambush, victim)) = sprung
                    && ambush.before == before
                {
                    let sites = [from.site.index(), to.0.site.index()];
                    let other = if sites[0] == victim { sites[1] } else { sites[0] };
                    world.strike_in_ambush(ambush, victim, other);
                }
            };
            strike(self, true);
            if !self.is_there(to) {
                return;
            }
            if from.site != to.0.site {
                self.note_sent_times(from, to.0, &message, generation);
            }
            self.receive(from, to.0, Box::new(message), generation);
            strike(self, false);
        }
    }

    fn acknowledge(&mut self, number: u64, last: u64) {
        let Some(connection) = self.connection(number) else { return };
        let (caller, called) = (connection.caller.0, connection.called.0);
        let earliest = self.now + self.travel_time(called, caller);
        let Some(connection) = self.connection(number) else { return };
        let at = earliest.max(connection.last_arrival.1 + 1);
        connection.last_arrival.1 = at;
        self.push(at, Due::Link(Step::Ack(number, last)));
    }

    fn take_ack(&mut self, number: u64, last: u64) {
        let now = self.now;
        let Some(connection) = self.connection(number) else { return };
        let Connection { caller, called, caller_is_there, broken_at, .. } = *connection;
        if caller_is_there
            && broken_at.is_none_or(|at| at > now)
            && let Some(end) = self.end(caller.0, called.0)
        {
            end.link.acknowledge(last);
        }
    }

    /// Handles that a side gives up its connection. Breaks the connection if it was not broken.
    fn notice(&mut self, number: u64, side: Side) {
        self.break_connection(number, self.now);
        let now = Monotonic(self.now);
        let Some(connection) = self.connection(number) else { return };
        let Connection { caller, called, number: counted, .. } = *connection;
        let was_there = match side {
            Side::Caller => std::mem::take(&mut connection.caller_is_there),
            Side::Called => std::mem::take(&mut connection.called_is_there),
        };
        if !was_there {
            return;
        }
        match side {
            Side::Caller => {
                let Some(end) = self.end(caller.0, called.0) else { return };
                end.link.closed(now);
                end.connection = None;
                let pause = self.random.within(0, 50 * MS);
                self.call_after(caller.0, called.0, pause);
            }
            Side::Called => {
                if let Some(end) = self.end(called.0, caller.0) {
                    end.link.hung_up(now, counted);
                }
            }
        }
        self.forget_if_over(number);
    }

    /// Returns whether a command would wait for a worker of the same site that cannot be reached.
    /// Sessions check this before they send a command.
    pub(super) fn is_out_of_reach(&self, worker: Address, command: &Command) -> bool {
        let (Command::Execute { key, .. } | Command::Operate { key, .. }) = command else {
            return false;
        };
        let Some(links) = self.links.as_ref().filter(|links| !links.is_healed) else {
            return false;
        };
        let Some(owner) = self.replica(&worker).map(|replica| replica.owner_of(key.as_bytes()))
        else {
            return false;
        };
        let end = links.ends.get(&(worker, owner));
        end.is_some_and(|end| !end.link.is_reachable(Monotonic(self.now)))
    }

    /// Returns the workers of other sites whose queues are full enough to hold messages back.
    pub(super) fn full_links(&self, from: Address) -> Vec<Address> {
        let Some(links) = &self.links else { return Vec::new() };
        let enough = links.wiring.queue_limit / 4;
        let ends = links.ends.range((from, Address { site: SiteId(0), worker: 0 })..);
        ends.take_while(|((one, _), _)| *one == from)
            .filter(|((_, other), end)| other.site != from.site && end.link.queue_bytes() >= enough)
            .map(|((_, other), _)| *other)
            .collect()
    }
}
