//! Two nodes whose processes die and whose connections break, half or whole, from seeds. What arrives is judged by
//! lists of what was queued and delivered, which know nothing of numbers, acknowledgements and connections.

use std::collections::{BTreeMap, VecDeque};

use solera_links::{Link, Ticket};
use solera_time::Monotonic;

/// What a frame carries: who sent it to whom, and as which of that pair's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Body {
    from: u64,
    to: u64,
    place: usize,
}

/// What a host may do wrong. The judge must notice each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// It delivers frames that the link does not take.
    DeliversAll,
    /// It acknowledges the frame after the last that has arrived.
    AcknowledgesTooMuch,
    /// It takes frames of a former connection for ones of the latest.
    ConfusesConnections,
    /// It keeps the link when it starts again.
    KeepsTheLink,
}

/// A connection, from the node that called. Either end may have given it up while the other has not noticed.
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
    link: Link<Body>,
    /// Messages that are being encoded.
    encoding: Option<(Ticket, Body)>,
}

#[derive(Default)]
struct Judge {
    /// By sender and receiver.
    queued: BTreeMap<(u64, u64), usize>,
    delivered: BTreeMap<(u64, u64), Vec<usize>>,
}

struct World {
    random: u64,
    now: u64,
    within_site: bool,
    flaw: Option<Flaw>,
    nodes: [Node; 2],
    pipes: Vec<Pipe>,
    judge: Judge,
    problems: Vec<String>,
}

/// Small enough to be full at times.
const LIMIT: usize = 20;

impl World {
    fn new(seed: u64, within_site: bool, flaw: Option<Flaw>) -> World {
        let node =
            |incarnation| Node { incarnation, link: Link::new(LIMIT, within_site), encoding: None };
        World {
            random: seed,
            now: 0,
            within_site,
            flaw,
            nodes: [node(1), node(2)],
            pipes: Vec::new(),
            judge: Judge::default(),
            problems: Vec::new(),
        }
    }

    /// SplitMix64.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % bound as u64) as usize
    }

    fn now(&self) -> Monotonic {
        Monotonic(self.now)
    }

    fn step(&mut self) {
        self.now += 100_000_000;
        let node = self.below(2);
        match self.below(200) {
            0..2 => self.restart(node),
            2..5 => self.give_up(node),
            5..8 => self.hang_up(node),
            8..12 => self.duplicate(node),
            12..40 => self.call(node),
            40..75 => self.encode(node),
            75..110 => self.queue(node),
            110..140 => self.send(node),
            140..175 => self.receive(node),
            _ => self.take_acknowledgement(node),
        }
    }

    /// The process dies and another begins. The other node notices when it gives up its connections.
    fn restart(&mut self, node: usize) {
        let incarnation = self.nodes.iter().map(|node| node.incarnation).max().unwrap() + 1;
        self.nodes[node].incarnation = incarnation;
        self.nodes[node].encoding = None;
        if self.flaw != Some(Flaw::KeepsTheLink) {
            self.nodes[node].link = Link::new(LIMIT, self.within_site);
        }
        for pipe in &mut self.pipes {
            match pipe.caller == node {
                true => pipe.caller_is_there = false,
                false => pipe.called_is_there = false,
            }
        }
    }

    /// A node's own connection breaks for it.
    fn give_up(&mut self, node: usize) {
        let now = self.now();
        let own = |pipe: &&mut Pipe| pipe.caller == node && pipe.caller_is_there;
        if let Some(pipe) = self.pipes.iter_mut().find(own) {
            pipe.caller_is_there = false;
            self.nodes[node].link.closed(now);
        }
    }

    /// A connection that a node was called with breaks for it, the oldest first.
    fn hang_up(&mut self, node: usize) {
        let now = self.now();
        let called = |pipe: &&mut Pipe| pipe.caller != node && pipe.called_is_there;
        if let Some(pipe) = self.pipes.iter_mut().find(called) {
            pipe.called_is_there = false;
            self.nodes[node].link.hung_up(now, pipe.number);
        }
    }

    /// The last frame on the way arrives twice.
    fn duplicate(&mut self, node: usize) {
        if let Some(pipe) = self.pipes.iter_mut().rfind(|pipe| pipe.caller == node) {
            pipe.frames.extend(pipe.frames.back().copied());
        }
    }

    /// A node calls the other. At times it does not hear that it was welcome.
    fn call(&mut self, node: usize) {
        let now = self.now();
        if self.pipes.iter().any(|pipe| pipe.caller == node && pipe.caller_is_there) {
            return;
        }
        let (mine, theirs) = (self.nodes[node].incarnation, self.nodes[1 - node].incarnation);
        let Some((number, received)) = self.nodes[1 - node].link.accepted(now, mine) else {
            return;
        };
        let heard = self.below(8) > 0 && self.nodes[node].link.opened(now, theirs, received);
        self.pipes.push(Pipe {
            caller: node,
            caller_is_there: heard,
            called_is_there: true,
            number,
            frames: VecDeque::new(),
            acknowledgements: VecDeque::new(),
        });
    }

    fn encode(&mut self, node: usize) {
        let Node { incarnation, link, encoding } = &mut self.nodes[node];
        if let (None, Some(ticket)) = (&encoding, link.admit()) {
            let to = link.incarnation().expect("it was met before");
            *encoding = Some((ticket, Body { from: *incarnation, to, place: 0 }));
        }
    }

    fn queue(&mut self, node: usize) {
        let Node { link, encoding, .. } = &mut self.nodes[node];
        let Some((ticket, body)) = encoding.take() else { return };
        let place = self.judge.queued.entry((body.from, body.to)).or_default();
        // Those that the link drops are no part of what it promises.
        let before = link.queue_bytes();
        link.push(ticket, Body { place: *place, ..body }, 3);
        *place += usize::from(link.queue_bytes() > before);
    }

    fn send(&mut self, node: usize) {
        let own = |pipe: &&mut Pipe| pipe.caller == node && pipe.caller_is_there;
        if let Some(pipe) = self.pipes.iter_mut().find(own)
            && let Some(frame) = self.nodes[node].link.next_frame()
        {
            pipe.frames.push_back(frame);
        }
    }

    /// A node takes a frame of any connection that still stands for it.
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

    /// Faults end, each notices what broke, and all that waits is carried.
    fn calm_down(&mut self) {
        for _ in 0..3 {
            for node in [0, 1] {
                self.give_up(node);
                (0..self.pipes.len()).for_each(|_| self.hang_up(node));
            }
            // One who is told that another process has connections notices when it is called again.
            for node in [0, 1, 0, 1] {
                while !self.pipes.iter().any(|pipe| pipe.caller == node && pipe.caller_is_there) {
                    self.call(node);
                    self.random = self.random.wrapping_add(1);
                }
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
            for pair in [(one, other), (other, one)] {
                let queued = self.judge.queued.get(&pair).copied().unwrap_or_default();
                let delivered = self.judge.delivered.get(&pair).map_or(0, Vec::len);
                if delivered != queued {
                    self.problems.push(format!("{delivered} of {queued} arrived of {pair:?}"));
                }
            }
        }
    }
}

impl Judge {
    fn deliver(&mut self, at: u64, body: Body, within_site: bool) -> Option<String> {
        let delivered = self.delivered.entry((body.from, body.to)).or_default();
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

/// Runs a seed. Returns what went wrong, and how many frames arrived.
fn run(seed: u64, within_site: bool, flaw: Option<Flaw>) -> (Vec<String>, usize) {
    let mut world = World::new(seed, within_site, flaw);
    for _ in 0..1000 {
        world.step();
    }
    // A host that is wrong may never come to rest.
    if flaw.is_none() {
        world.calm_down();
    }
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
    assert!(arrived > 100_000, "{arrived} frames arrived");
}

#[test]
fn between_sites_nothing_arrives_twice_or_late() {
    let mut arrived = 0;
    for seed in 0..5000 {
        let (problems, frames) = run(seed, false, None);
        assert_eq!(problems, [""; 0], "seed {seed}");
        arrived += frames;
    }
    assert!(arrived > 50_000, "{arrived} frames arrived");
}

#[test]
fn what_hosts_may_do_wrong_is_noticed() {
    use Flaw::{AcknowledgesTooMuch, ConfusesConnections, DeliversAll, KeepsTheLink};
    for flaw in [DeliversAll, AcknowledgesTooMuch, ConfusesConnections, KeepsTheLink] {
        let found = (0..1000).filter(|seed| !run(*seed, true, Some(flaw)).0.is_empty()).count();
        println!("{flaw:?}: {found} of 1000 seeds");
        assert!(found > 0, "{flaw:?}");
    }
}
