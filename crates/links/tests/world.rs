//! Two nodes whose processes die and whose connections break, in one direction or both, from seeds.
//! The judge compares lists of queued and delivered frames, and does not use numbers,
//! acknowledgements or connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use solera_links::{Handshake, Link, Ticket};
use solera_machine::Lane;
use solera_random::Random;
use solera_time::Monotonic;

/// Content of a frame: sender, receiver, and index among that pair's frames of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Body {
    from: u64,
    to: u64,
    class: usize,
    place: usize,
}

/// Lanes and numbers of protocols. Frames of one class stay in order.
const CLASSES: [(Lane, u8); 3] = [(Lane::USUAL, 1), (Lane::URGENT, 1), (Lane::USUAL, 2)];

/// Errors of a host. The judge must notice each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// It delivers frames that the link rejects.
    DeliversAll,
    /// It acknowledges the frame after the last that has arrived.
    AcknowledgesTooMuch,
    /// It takes frames of an earlier connection for frames of the latest one.
    ConfusesConnections,
    /// It keeps the link when it restarts.
    KeepsTheLink,
    /// It takes the handshake's state only when the handshake is over.
    AsksLate,
    /// After the faults have ended, it sends none of the link's frames.
    LosesInTheEnd,
}

/// A call that is not a connection yet. Any other event may occur between its steps.
struct Call {
    caller: usize,
    /// Calling process, and whether it still exists.
    process: u64,
    caller_is_there: bool,
    handshake: Handshake,
    /// Set once the called node has read the greeting and has not decided yet.
    read: Option<Handshake>,
    /// Set once the called node has accepted and the caller has not received the welcome yet.
    welcome: Option<Welcome>,
}

struct Welcome {
    process: u64,
    received: u64,
    /// Index into `World::pipes`.
    pipe: usize,
}

/// A connection, from the calling node. Either end may have closed it while the other has not
/// noticed.
struct Pipe {
    caller: usize,
    caller_is_there: bool,
    called_is_there: bool,
    /// Its number at the called node.
    number: u64,
    frames: VecDeque<(u64, Body)>,
    acknowledgements: VecDeque<u64>,
}

struct Node {
    incarnation: u64,
    /// Processes of the other node that this node knows.
    met: BTreeSet<u64>,
    link: Link<Body>,
    /// Messages that are being encoded.
    encoding: Option<(Ticket, Body)>,
}

#[derive(Default)]
struct Judge {
    /// Number of queued frames by sender, receiver and class.
    queued: BTreeMap<(u64, u64, usize), usize>,
    delivered: BTreeMap<(u64, u64, usize), Vec<usize>>,
}

struct World {
    random: Random,
    now: u64,
    within_site: bool,
    /// Whether processes die often, and welcomes take long.
    restless: bool,
    flaw: Option<Flaw>,
    nodes: [Node; 2],
    calls: Vec<Call>,
    pipes: Vec<Pipe>,
    judge: Judge,
    problems: Vec<String>,
    /// Whether faults have ended.
    calm: bool,
}

/// Limit of a queue, small enough to be reached.
const LIMIT: usize = 20;

impl World {
    fn new(seed: u64, within_site: bool, flaw: Option<Flaw>) -> World {
        let node = |incarnation| Node {
            incarnation,
            met: BTreeSet::new(),
            link: Link::new(LIMIT, within_site),
            encoding: None,
        };
        World {
            random: Random::new(seed),
            now: 0,
            within_site,
            restless: seed.is_multiple_of(3),
            flaw,
            nodes: [node(1), node(2)],
            calls: Vec::new(),
            pipes: Vec::new(),
            judge: Judge::default(),
            problems: Vec::new(),
            calm: false,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.index(bound)
    }

    fn now(&self) -> Monotonic {
        Monotonic(self.now)
    }

    fn step(&mut self) {
        self.now += 100_000_000;
        let node = self.below(2);
        let one_of = match self.restless {
            true => 100,
            false => 600,
        };
        if self.below(one_of) == 0 {
            return self.restart(node);
        }
        match self.below(320) {
            0..5 => self.give_up(node),
            5..8 => self.hang_up(node),
            8..12 => self.duplicate(node),
            12..50 => self.call(node),
            50..85 => self.read(node),
            85..120 => self.welcome(node),
            120..150 if !self.restless || self.below(4) == 0 => self.hear(node),
            150..185 => self.encode(node),
            185..220 => self.queue(node),
            220..250 => self.send(node),
            250..290 => self.receive(node),
            _ => self.take_acknowledgement(node),
        }
    }

    /// The process dies and another begins. The other node notices when it closes its connections.
    fn restart(&mut self, node: usize) {
        let incarnation = self.nodes.iter().map(|node| node.incarnation).max().unwrap() + 1;
        let Node { incarnation: own, met, link, encoding } = &mut self.nodes[node];
        (*own, *encoding) = (incarnation, None);
        met.clear();
        if self.flaw != Some(Flaw::KeepsTheLink) {
            *link = Link::new(LIMIT, self.within_site);
        }
        for pipe in &mut self.pipes {
            match pipe.caller == node {
                true => pipe.caller_is_there = false,
                false => pipe.called_is_there = false,
            }
        }
        // Unanswered calls are gone with the called process; an answer that it sent may still
        // arrive.
        self.calls.retain(|call| call.caller == node || call.welcome.is_some());
        for call in self.calls.iter_mut().filter(|call| call.caller == node) {
            call.caller_is_there = false;
        }
    }

    /// Breaks a node's own connection at its end.
    fn give_up(&mut self, node: usize) {
        let now = self.now();
        let own = |pipe: &&mut Pipe| pipe.caller == node && pipe.caller_is_there;
        if let Some(pipe) = self.pipes.iter_mut().find(own) {
            pipe.caller_is_there = false;
            self.nodes[node].link.closed(now);
        }
    }

    /// Breaks the oldest connection with which a node was called, at its end.
    fn hang_up(&mut self, node: usize) {
        let now = self.now();
        let called = |pipe: &&mut Pipe| pipe.caller != node && pipe.called_is_there;
        if let Some(pipe) = self.pipes.iter_mut().find(called) {
            pipe.called_is_there = false;
            self.nodes[node].link.hung_up(now, pipe.number);
        }
    }

    /// Duplicates the last frame in transit.
    fn duplicate(&mut self, node: usize) {
        if let Some(pipe) = self.pipes.iter_mut().rfind(|pipe| pipe.caller == node) {
            pipe.frames.extend(pipe.frames.back().copied());
        }
    }

    /// A node calls the other, unless it has a connection or is about to.
    fn call(&mut self, node: usize) {
        let own = |pipe: &Pipe| pipe.caller == node && pipe.caller_is_there;
        let calling = |call: &Call| call.caller == node && call.caller_is_there;
        if self.pipes.iter().any(own) || self.calls.iter().any(calling) {
            return;
        }
        let Node { incarnation, link, .. } = &self.nodes[node];
        self.calls.push(Call {
            caller: node,
            process: *incarnation,
            caller_is_there: true,
            handshake: link.handshake(),
            read: None,
            welcome: None,
        });
    }

    /// A node reads the greeting of a caller. Hosts detect by other means that a process was
    /// replaced before its node met it.
    fn read(&mut self, node: usize) {
        let unread = |call: &Call| call.caller != node && call.read.is_none();
        let Some(at) = self.calls.iter().position(unread) else { return };
        let Node { met, link, .. } = &self.nodes[node];
        let process = self.calls[at].process;
        match process < *met.last().unwrap_or(&0) && !met.contains(&process) {
            true => drop(self.calls.remove(at)),
            false => self.calls[at].read = Some(link.handshake()),
        }
    }

    /// A node accepts a caller whose greeting it has read, or refuses the call.
    fn welcome(&mut self, node: usize) {
        let waits = |call: &Call| call.caller != node && call.welcome.is_none();
        let ready: Vec<usize> = (0..self.calls.len())
            .filter(|at| waits(&self.calls[*at]) && self.calls[*at].read.is_some())
            .collect();
        if ready.is_empty() {
            return;
        }
        let at = ready[self.below(ready.len())];
        let (now, call) = (self.now(), &mut self.calls[at]);
        let Node { incarnation, met, link, .. } = &mut self.nodes[node];
        let handshake = match self.flaw {
            Some(Flaw::AsksLate) => link.handshake(),
            _ => call.read.expect("it was read"),
        };
        let Some((number, received)) = link.accepted(now, handshake, call.process) else {
            self.calls.remove(at);
            return;
        };
        met.insert(call.process);
        call.welcome = Some(Welcome { process: *incarnation, received, pipe: self.pipes.len() });
        self.pipes.push(Pipe {
            caller: call.caller,
            caller_is_there: false,
            called_is_there: true,
            number,
            frames: VecDeque::new(),
            acknowledgements: VecDeque::new(),
        });
    }

    /// A node receives a welcome, or loses it at times.
    fn hear(&mut self, node: usize) {
        let heard = |call: &Call| call.caller == node && call.welcome.is_some();
        let Some(at) = self.calls.iter().position(heard) else { return };
        let (now, call) = (self.now(), self.calls.remove(at));
        if !call.caller_is_there || (!self.calm && self.below(8) == 0) {
            return;
        }
        let Node { met, link, .. } = &mut self.nodes[node];
        let handshake = match self.flaw {
            Some(Flaw::AsksLate) => link.handshake(),
            _ => call.handshake,
        };
        let Welcome { process, received, pipe } = call.welcome.expect("it is there");
        if link.opened(now, handshake, process, received) {
            self.pipes[pipe].caller_is_there = true;
            met.insert(process);
        }
    }

    fn encode(&mut self, node: usize) {
        let Node { incarnation, link, encoding, .. } = &mut self.nodes[node];
        if let (None, Some(ticket)) = (&encoding, link.admit()) {
            let to = link.incarnation().expect("it was met before");
            *encoding = Some((ticket, Body { from: *incarnation, to, class: 0, place: 0 }));
        }
    }

    fn queue(&mut self, node: usize) {
        let Node { link, encoding, .. } = &mut self.nodes[node];
        let Some((ticket, body)) = encoding.take() else { return };
        let class = self.random.index(CLASSES.len());
        let place = self.judge.queued.entry((body.from, body.to, class)).or_default();
        // The judge does not expect bodies that the link drops.
        let before = link.queue_bytes();
        link.push(ticket, CLASSES[class], Body { class, place: *place, ..body }, 3);
        let queued = link.queue_bytes() > before;
        *place += usize::from(queued);
        if self.within_site && queued != (link.incarnation() == Some(body.to)) {
            self.problems.push(format!("{body:?} was queued: {queued}"));
        }
    }

    fn send(&mut self, node: usize) {
        let own = |pipe: &&mut Pipe| pipe.caller == node && pipe.caller_is_there;
        if let Some(pipe) = self.pipes.iter_mut().find(own)
            && let Some(frame) = self.nodes[node].link.next_frame()
            && !(self.calm && self.flaw == Some(Flaw::LosesInTheEnd))
        {
            pipe.frames.push_back(frame);
        }
    }

    /// A node takes a frame of any connection that is still open at its end.
    fn receive(&mut self, node: usize) {
        let waits =
            |pipe: &Pipe| pipe.caller != node && pipe.called_is_there && !pipe.frames.is_empty();
        let ready: Vec<usize> =
            (0..self.pipes.len()).filter(|at| waits(&self.pipes[*at])).collect();
        if ready.is_empty() {
            return;
        }
        let at = ready[self.below(ready.len())];
        let latest = self.pipes.iter().filter(|pipe| pipe.caller != node).map(|pipe| pipe.number);
        let latest = latest.max().expect("there is one at least");
        let pipe = &mut self.pipes[at];
        let (number, body) = pipe.frames.pop_front().expect("one waits");
        let connection = match self.flaw {
            Some(Flaw::ConfusesConnections) => latest,
            _ => pipe.number,
        };
        let Node { incarnation, link, .. } = &mut self.nodes[node];
        if link.takes(connection, number) || self.flaw == Some(Flaw::DeliversAll) {
            let problem = self.judge.deliver(*incarnation, body, self.within_site);
            self.problems.extend(problem);
        }
        match link.received(pipe.number) {
            Some(last) => {
                let more = u64::from(self.flaw == Some(Flaw::AcknowledgesTooMuch));
                pipe.acknowledgements.push_back(last + more);
            }
            None => pipe.called_is_there = false,
        }
    }

    fn take_acknowledgement(&mut self, node: usize) {
        let own = |pipe: &&mut Pipe| pipe.caller == node && pipe.caller_is_there;
        if let Some(number) =
            self.pipes.iter_mut().find(own).and_then(|pipe| pipe.acknowledgements.pop_front())
        {
            self.nodes[node].link.acknowledge(number);
        }
    }

    /// Closes each connection whose other end is closed.
    fn notice(&mut self) {
        let now = self.now();
        for pipe in &mut self.pipes {
            let Pipe { caller, caller_is_there, called_is_there, number, .. } = pipe;
            if *caller_is_there && !*called_is_there {
                self.nodes[*caller].link.closed(now);
            } else if *called_is_there && !*caller_is_there {
                self.nodes[1 - *caller].link.hung_up(now, *number);
            }
            let both = *caller_is_there && *called_is_there;
            (*caller_is_there, *called_is_there) = (both, both);
        }
    }

    /// Ends the faults: both nodes notice broken connections, and all queued frames are carried.
    fn calm_down(&mut self) {
        self.calm = true;
        for node in [0, 1] {
            self.give_up(node);
            (0..self.pipes.len()).for_each(|_| self.hang_up(node));
        }
        // A former process may have been accepted, or may still be accepted while its call is in
        // progress. Nothing arrives over its connection, and the connection is closed.
        for _ in 0..10 {
            for node in [0, 1] {
                self.call(node);
                for _ in 0..10 {
                    self.read(1 - node);
                    self.welcome(1 - node);
                    self.hear(node);
                }
                self.notice();
            }
        }
        for node in [0, 1] {
            self.queue(node);
            for _ in 0..200 {
                self.send(node);
                self.receive(1 - node);
                self.take_acknowledgement(node);
            }
        }
        if self.within_site {
            let [one, other] = [self.nodes[0].incarnation, self.nodes[1].incarnation];
            let ways = [(one, other), (other, one)];
            let classes = (0..CLASSES.len()).flat_map(|class| ways.map(|(a, b)| (a, b, class)));
            for way in classes {
                let queued = self.judge.queued.get(&way).copied().unwrap_or_default();
                let delivered = self.judge.delivered.get(&way).map_or(0, Vec::len);
                if delivered != queued {
                    self.problems.push(format!("{delivered} of {queued} arrived of {way:?}"));
                }
            }
        }
    }
}

impl Judge {
    fn deliver(&mut self, at: u64, body: Body, within_site: bool) -> Option<String> {
        let delivered = self.delivered.entry((body.from, body.to, body.class)).or_default();
        let next = delivered.last().map_or(0, |last| last + 1);
        delivered.push(body.place);
        if at != body.to {
            Some(format!("{body:?} arrived at process {at}"))
        } else if body.place < next || (within_site && body.place > next) {
            Some(format!("{body:?} arrived in place of {next}"))
        } else {
            None
        }
    }
}

/// Runs a seed. Returns the problems, and the number of frames that arrived.
fn run(seed: u64, within_site: bool, flaw: Option<Flaw>) -> (Vec<String>, usize) {
    let mut world = World::new(seed, within_site, flaw);
    for _ in 0..2000 {
        world.step();
    }
    world.calm_down();
    (world.problems, world.judge.delivered.values().map(Vec::len).sum())
}

#[test]
fn within_a_site_all_that_is_queued_arrives_once_and_in_order() {
    let mut arrived = 0;
    for seed in 0..5000 {
        let (problems, frames) = run(seed, true, None);
        assert_eq!(problems, [""; 0], "seed {seed}");
        arrived += frames;
    }
    assert!(arrived > 80_000, "{arrived} frames arrived");
}

#[test]
fn between_sites_nothing_arrives_twice_or_late() {
    let mut arrived = 0;
    for seed in 0..5000 {
        let (problems, frames) = run(seed, false, None);
        assert_eq!(problems, [""; 0], "seed {seed}");
        arrived += frames;
    }
    assert!(arrived > 40_000, "{arrived} frames arrived");
}

#[test]
fn errors_of_hosts_are_noticed() {
    use Flaw::*;
    let flaws = [DeliversAll, AcknowledgesTooMuch, ConfusesConnections, KeepsTheLink];
    for flaw in flaws.into_iter().chain([AsksLate, LosesInTheEnd]) {
        let found = (0..3000).filter(|seed| !run(*seed, true, Some(flaw)).0.is_empty()).count();
        println!("{flaw:?}: {found} of 3000 seeds");
        assert!(found > 0, "{flaw:?}");
    }
}

#[test]
fn a_process_that_was_replaced_is_not_met_again() {
    let mut link: Link<Body> = Link::new(LIMIT, true);
    let meet = |link: &mut Link<Body>, incarnation| {
        let handshake = link.handshake();
        let accepted = link.accepted(Monotonic(1), handshake, incarnation)?;
        link.hung_up(Monotonic(2), accepted.0);
        Some(accepted)
    };
    let (connection, _) = meet(&mut link, 7).unwrap();
    assert!(link.takes(connection, 1));
    let (connection, received) = meet(&mut link, 8).unwrap();
    assert!(received == 0 && link.takes(connection, 1));
    assert_eq!(meet(&mut link, 7), None, "its greeting was late");
    assert_eq!(meet(&mut link, 8).unwrap().1, 1, "what has arrived counts");
}
