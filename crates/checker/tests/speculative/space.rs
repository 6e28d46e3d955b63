//! A speculative space in one thread: replicas with committed and tentative operations, a broadcast
//! that delivers at random, and one sequencer that decides on strong operations. It records the
//! history of its sessions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use solera_checker::speculative::{
    Claim, History, Operation, OperationId, Origin, Outcome, Procedure, Reply, ReplyKind, Report,
    Strength,
};

use crate::model::{State, procedure, run};
use crate::random::Random;

const SITES: u32 = 3;

/// A rule of the space that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Operations wait for their context.
    Context,
    /// A commit stabilises the context first.
    Stabilise,
    /// Weak replies stand for what was known at the invocation.
    Snapshot,
    /// Weak replies of acyclic spaces hide undecided operations.
    Hide,
    /// Sessions move only to replicas that know what they know.
    Attach,
    /// Others relay operations of a site that is lost.
    Relay,
    /// Strong operations of a run are decided in their order.
    CastOrder,
    /// Replicas commit in the order of decisions.
    Decisions,
    /// Receiving an operation advances the clock.
    Clock,
    /// Operations are executed again when their place changes.
    Rollback,
}

/// An operation that was broadcast.
struct Body {
    id: OperationId,
    number: usize,
    strong: bool,
    timestamp: u64,
    context: BTreeSet<OperationId>,
}

struct Site {
    run: u32,
    events: u64,
    clock: u64,
    skew: u64,
    lost: bool,
    committed: Vec<OperationId>,
    tentative: Vec<OperationId>,
    /// Received operations whose context is incomplete.
    waiting: BTreeSet<OperationId>,
    /// Number of received operations of each run.
    received: BTreeMap<(u32, u32), u64>,
    /// Number of decisions that are committed here.
    decided: usize,
    /// Length of the committed list at the last report of this run.
    reported: usize,
}

struct Session {
    number: u64,
    site: u32,
    /// Operations without a reply so far.
    open: usize,
    /// Operations that replies showed.
    seen: BTreeSet<OperationId>,
    /// Strong operations of the session, and committed ones that replies showed.
    firm: BTreeSet<OperationId>,
}

pub(crate) struct Space {
    pub(crate) history: History,
    random: Random,
    without: Option<Rule>,
    now: u64,
    sites: Vec<Site>,
    bodies: BTreeMap<OperationId, Body>,
    decided: Vec<OperationId>,
    sessions: Vec<Session>,
    next_session: u64,
    /// Replies on their way, by operation.
    replies: BTreeMap<usize, VecDeque<Reply>>,
    /// Session of each operation, as a place in `sessions`.
    owners: Vec<Option<usize>>,
    /// Operations whose later results are sent, each with the last one.
    tracked: BTreeMap<usize, Outcome>,
}

/// Runs a space for a number of steps.
pub(crate) fn simulate(seed: u64, steps: usize, without: Option<Rule>) -> History {
    let mut random = Random(seed);
    let history =
        History { acyclic: random.once_in(2), unsettled: random.once_in(8), ..History::default() };
    let site = |random: &mut Random| Site {
        run: 1,
        events: 0,
        clock: 0,
        skew: random.below(40) as u64,
        lost: false,
        committed: Vec::new(),
        tentative: Vec::new(),
        waiting: BTreeSet::new(),
        received: BTreeMap::new(),
        decided: 0,
        reported: 0,
    };
    let sites = (0..SITES).map(|_| site(&mut random)).collect();
    let mut space = Space {
        history,
        random,
        without,
        now: 0,
        sites,
        bodies: BTreeMap::new(),
        decided: Vec::new(),
        sessions: Vec::new(),
        next_session: 0,
        replies: BTreeMap::new(),
        owners: Vec::new(),
        tracked: BTreeMap::new(),
    };
    for site in 0..5 {
        space.open_session(site % SITES);
    }
    let loses = space.random.once_in(3);
    for step in 0..steps {
        space.step();
        if loses && step == steps / 2 {
            space.lose(2);
        }
    }
    space.finish();
    space.history
}

impl Space {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn open_session(&mut self, site: u32) {
        self.next_session += 1;
        let number = self.next_session;
        let (seen, firm) = Default::default();
        self.sessions.push(Session { number, site, open: 0, seen, firm });
    }

    fn step(&mut self) {
        self.now += self.random.below(3) as u64;
        match self.random.below(100) {
            0..20 => self.invoke_any(),
            20..60 => self.deliver_any(),
            60..68 => self.decide_any(),
            68..80 => {
                let site = self.random.below(SITES as usize);
                self.commit_next(site);
            }
            80..94 => self.receive_any(),
            94..97 => self.report_any(),
            97..99 => self.move_any(),
            _ => self.restart_any(),
        }
    }

    fn invoke_any(&mut self) {
        let session = self.random.below(self.sessions.len());
        let site = self.sessions[session].site;
        let is_idle = self.sessions[session].open == 0 || self.random.once_in(8);
        if is_idle && !self.sites[site as usize].lost {
            let strength = if self.random.once_in(3) { Strength::Strong } else { Strength::Weak };
            let local = strength == Strength::Weak && self.random.once_in(5);
            let procedure =
                procedure(&mut self.random, local, self.history.operations.len() as u64);
            self.invoke(Some(session), site, strength, procedure, local);
        }
    }

    fn invoke(
        &mut self,
        session: Option<usize>,
        site: u32,
        strength: Strength,
        procedure: Procedure,
        local: bool,
    ) {
        let strong = strength == Strength::Strong;
        let number = self.history.operations.len();
        let own = &mut self.sites[site as usize];
        let run = own.run;
        let hides = self.history.acyclic && !strong && self.without != Some(Rule::Hide);
        let is_shown = |id: &OperationId| !hides || !self.bodies[id].strong;
        let tentative = own.tentative.iter().copied().filter(is_shown).collect();
        let order = Claim { committed: own.committed.len(), tentative };
        let mut origin = Origin::Local { site, run };
        if !local {
            own.events += 1;
            own.clock = (own.clock + 1).max(self.now + own.skew);
            let id = OperationId { site, run, event: own.events };
            origin = Origin::Broadcast(id);
            let timestamp = own.clock;
            let is_context = |id: &OperationId| !self.bodies[id].strong;
            let weak = own.tentative.iter().copied().filter(is_context);
            let context = weak.chain(own.committed.iter().copied()).collect();
            self.bodies.insert(id, Body { id, number, strong, timestamp, context });
        }
        self.history.operations.push(Operation {
            session: session.map(|session| self.sessions[session].number),
            origin,
            strength,
            procedure,
            invoked: self.now,
            replies: Vec::new(),
        });
        self.owners.push(session);
        if let Origin::Broadcast(id) = origin {
            self.receive(site as usize, id);
        }
        if let Some(session) = session {
            self.sessions[session].open += 1;
            let kind = if strong { ReplyKind::Tentative } else { ReplyKind::Weak };
            if !strong || !self.random.once_in(4) {
                self.reply(number, kind, order);
            }
            if !local && self.random.once_in(2) {
                self.tracked.insert(number, Outcome::Done);
            }
        }
    }

    /// Sends a reply.
    fn reply(&mut self, number: usize, kind: ReplyKind, order: Claim) {
        let mut state = State::new();
        let longest = self.sites.iter().map(|site| &site.committed).max_by_key(|it| it.len());
        let committed = longest.unwrap()[..order.committed].to_vec();
        for id in committed.iter().chain(&order.tentative) {
            run(&mut state, &self.history.operations[self.bodies[id].number].procedure);
        }
        let mut result = run(&mut state, &self.history.operations[number].procedure);
        let first = self.history.operations[number].replies.first();
        if let Some(first) = first.filter(|_| self.without == Some(Rule::Rollback)) {
            result = first.result.clone();
        }
        if let Some(last) = self.tracked.get_mut(&number) {
            *last = result.clone();
        }
        let reply = Reply { kind, at: 0, order, result };
        self.replies.entry(number).or_default().push_back(reply);
    }

    fn deliver_any(&mut self) {
        let site = self.random.below(SITES as usize);
        let streams: BTreeSet<(u32, u32)> =
            self.bodies.keys().map(|id| (id.site, id.run)).collect();
        let streams: Vec<(u32, u32)> = streams.into_iter().collect();
        if streams.is_empty() || self.sites[site].lost {
            return;
        }
        let stream = streams[self.random.below(streams.len())];
        for _ in 0..1 + self.random.below(6) {
            self.deliver(site, stream);
        }
    }

    /// Delivers the next operation of a run of a site, from any site that has it.
    fn deliver(&mut self, site: usize, stream: (u32, u32)) -> bool {
        let received = self.sites[site].received.get(&stream).copied().unwrap_or(0);
        let first = self.bodies.range(OperationId { site: stream.0, run: stream.1, event: 0 }..);
        let mut events = first.take_while(|(id, _)| (id.site, id.run) == stream);
        let Some((id, _)) = events.nth(received as usize) else { return false };
        let id = *id;
        let relays = self.has(Rule::Relay);
        let has = |(at, other): (usize, &Site)| {
            let is_origin = at == stream.0 as usize;
            !other.lost
                && (relays || is_origin)
                && other.received.get(&stream).is_some_and(|count| *count > received)
        };
        if !self.sites.iter().enumerate().any(has) {
            return false;
        }
        self.receive(site, id);
        true
    }

    fn receive(&mut self, site: usize, id: OperationId) {
        let clock = self.bodies[&id].timestamp;
        let advances = self.has(Rule::Clock);
        let own = &mut self.sites[site];
        *own.received.entry((id.site, id.run)).or_default() += 1;
        own.waiting.insert(id);
        if advances {
            own.clock = own.clock.max(clock);
        }
        while let Some(next) = self.ready(site) {
            let key = |id: &OperationId| (self.bodies[id].timestamp, *id);
            let own = &mut self.sites[site];
            own.waiting.remove(&next);
            let at = own.tentative.partition_point(|other| key(other) < key(&next));
            own.tentative.insert(at, next);
        }
        self.revise(site);
    }

    fn ready(&self, site: usize) -> Option<OperationId> {
        let ids = self.sites[site].waiting.iter().copied();
        ids.into_iter()
            .find(|id| !self.has(Rule::Context) || self.knows(site, &self.bodies[id].context))
    }

    fn knows(&self, site: usize, ids: &BTreeSet<OperationId>) -> bool {
        let site = &self.sites[site];
        ids.iter().all(|id| {
            site.committed.contains(id) || site.tentative.contains(id) && !self.bodies[id].strong
        })
    }

    fn decide_any(&mut self) {
        let site = &self.sites[self.random.below(SITES as usize)];
        let strong: Vec<OperationId> =
            site.tentative.iter().copied().filter(|id| self.bodies[id].strong).collect();
        if !strong.is_empty() && !site.lost {
            let id = strong[self.random.below(strong.len())];
            self.decide(id);
        }
    }

    fn decide(&mut self, id: OperationId) {
        let has = |site: &&Site| site.tentative.contains(&id) || site.committed.contains(&id);
        let majority = self.sites.iter().filter(|site| !site.lost).filter(has).count() >= 2;
        let earlier = |other: &Body| {
            other.strong
                && (other.id.site, other.id.run) == (id.site, id.run)
                && other.id.event < id.event
                && !self.decided.contains(&other.id)
        };
        let in_order = !self.has(Rule::CastOrder) || !self.bodies.values().any(earlier);
        if majority && in_order && !self.decided.contains(&id) {
            self.decided.push(id);
        }
    }

    /// Commits the next decision at a site. Returns whether it could.
    fn commit_next(&mut self, site: usize) -> bool {
        let own = &self.sites[site];
        let mut next = own.decided;
        if !self.has(Rule::Decisions) && self.random.once_in(2) {
            let rest = self.decided.iter().skip(next);
            let other = rest.clone().position(|id| own.tentative.contains(id));
            next = other.map_or(next, |other| next + other);
        }
        let Some(id) = self.decided.get(next).copied() else { return false };
        if own.lost || own.committed.contains(&id) {
            return false;
        }
        if !own.tentative.contains(&id) {
            return false;
        }
        let stabilises = self.has(Rule::Stabilise);
        let own = &mut self.sites[site];
        let context = &self.bodies[&id].context;
        let (mut moved, mut rest): (Vec<_>, Vec<_>) =
            own.tentative.iter().partition(|other| stabilises && context.contains(other));
        rest.retain(|other| *other != id);
        moved.push(id);
        own.tentative = rest;
        own.decided += 1;
        for id in moved {
            let own = &mut self.sites[site];
            let order = Claim { committed: own.committed.len(), tentative: Vec::new() };
            own.committed.push(id);
            let body = &self.bodies[&id];
            let is_awaited = body.strong || self.tracked.contains_key(&body.number);
            if id.site as usize == site && is_awaited && self.owners[body.number].is_some() {
                self.reply(body.number, ReplyKind::Stable, order);
                let number = self.bodies[&id].number;
                self.tracked.remove(&number);
            }
        }
        while let Some(id) = self.ready(site) {
            let key = |id: &OperationId| (self.bodies[id].timestamp, *id);
            let own = &mut self.sites[site];
            own.waiting.remove(&id);
            let at = own.tentative.partition_point(|other| key(other) < key(&id));
            own.tentative.insert(at, id);
        }
        self.revise(site);
        true
    }

    /// Sends revisions of tracked operations of a site whose results have changed.
    fn revise(&mut self, site: usize) {
        let own = &self.sites[site];
        let tentative = own.tentative.clone();
        let committed = own.committed.clone();
        let mut state = State::new();
        for id in &committed {
            run(&mut state, &self.history.operations[self.bodies[id].number].procedure);
        }
        for (at, id) in tentative.iter().enumerate() {
            let number = self.bodies[id].number;
            let result = run(&mut state, &self.history.operations[number].procedure);
            let is_own = id.site as usize == site;
            let was_answered = !self.history.operations[number].replies.is_empty();
            let changed = self.tracked.get(&number).is_some_and(|last| *last != result);
            if is_own && was_answered && changed {
                let order =
                    Claim { committed: committed.len(), tentative: tentative[..at].to_vec() };
                self.reply(number, ReplyKind::Revised, order);
            }
        }
    }

    fn receive_any(&mut self) {
        self.replies.retain(|_, replies| !replies.is_empty());
        if self.replies.is_empty() {
            return;
        }
        let at = self.random.below(self.replies.len());
        let number = *self.replies.keys().nth(at).unwrap();
        self.receive_reply(number);
    }

    fn receive_reply(&mut self, number: usize) {
        let Some(mut reply) = self.replies.get_mut(&number).and_then(VecDeque::pop_front) else {
            return;
        };
        // An invocation at the same instant would come after the reply.
        self.now += 1;
        reply.at = self.now;
        if !self.has(Rule::Snapshot) && reply.kind == ReplyKind::Weak {
            self.execute_late(number, &mut reply);
        }
        let operation = &mut self.history.operations[number];
        if let Some(owner) = self.owners[number] {
            let session = &mut self.sessions[owner];
            if operation.replies.is_empty() {
                session.open -= 1;
            }
            let strong = operation.strength == Strength::Strong;
            session.seen.extend(operation.id());
            session.firm.extend(operation.id().filter(|_| strong));
            session.seen.extend(reply.order.tentative.iter().copied());
            let longest = self.sites.iter().map(|site| &site.committed).max_by_key(|it| it.len());
            let committed = &longest.unwrap()[..reply.order.committed];
            session.firm.extend(committed.iter().copied());
            session.seen.extend(committed.iter().copied());
        }
        operation.replies.push(reply);
    }

    /// Executes an operation only when its reply leaves.
    fn execute_late(&mut self, number: usize, reply: &mut Reply) {
        let Origin::Broadcast(id) = self.history.operations[number].origin else { return };
        let own = &self.sites[id.site as usize];
        let Some(at) = own.tentative.iter().position(|other| *other == id) else { return };
        let hides = self.history.acyclic;
        let is_shown = |id: &OperationId| !hides || !self.bodies[id].strong;
        let tentative = own.tentative[..at].iter().copied().filter(is_shown).collect();
        let order = Claim { committed: own.committed.len(), tentative };
        self.reply(number, ReplyKind::Weak, order);
        let late = self.replies.get_mut(&number).and_then(VecDeque::pop_back).unwrap();
        *reply = Reply { at: reply.at, ..late };
    }

    fn report_any(&mut self) {
        let site = self.random.below(SITES as usize);
        if !self.sites[site].lost {
            self.report(site);
        }
    }

    fn report(&mut self, site: usize) {
        let own = &mut self.sites[site];
        let from = std::mem::replace(&mut own.reported, own.committed.len());
        let operations = own.committed[from..].to_vec();
        let mut state = State::new();
        for id in &own.committed {
            run(&mut state, &self.history.operations[self.bodies[id].number].procedure);
        }
        let text = format!("{state:?}");
        let digest = text
            .bytes()
            .fold(7_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let (run, at, site) = (own.run, self.now, site as u32);
        self.history.reports.push(Report { site, run, at, from, operations, digest: Some(digest) });
    }

    /// Moves a session to another replica that knows what the session does.
    fn move_any(&mut self) {
        let session = self.random.below(self.sessions.len());
        let site = self.random.below(SITES as usize) as u32;
        if self.sessions[session].open == 0 && self.can_attach(session, site) {
            self.sessions[session].site = site;
        }
    }

    fn can_attach(&self, session: usize, site: u32) -> bool {
        let own = &self.sites[site as usize];
        let session = &self.sessions[session];
        let knows = |id: &OperationId| own.committed.contains(id) || own.tentative.contains(id);
        let is_firm = |id: &&OperationId| session.firm.contains(*id) && self.bodies[*id].strong;
        let firm = session.seen.iter().filter(is_firm).all(|id| own.committed.contains(id));
        !own.lost && (!self.has(Rule::Attach) || session.seen.iter().all(knows) && firm)
    }

    /// Starts a site again. Replies on their way are lost.
    fn restart_any(&mut self) {
        let site = self.random.below(SITES as usize);
        if self.sites[site].lost {
            return;
        }
        self.sites[site].run += 1;
        self.sites[site].events = 0;
        self.sites[site].reported = 0;
        self.drop_replies(site as u32);
        for session in 0..self.sessions.len() {
            if self.sessions[session].site != site as u32 {
                continue;
            }
            self.sessions[session].open = 0;
            if !self.can_attach(session, site as u32) {
                self.replace_session(session, site as u32);
            }
        }
    }

    fn replace_session(&mut self, session: usize, site: u32) {
        self.open_session(site);
        let new = self.sessions.pop().unwrap();
        self.sessions[session] = new;
    }

    fn drop_replies(&mut self, site: u32) {
        let operations = &self.history.operations;
        self.replies.retain(|number, _| operations[*number].replica().0 != site);
        self.tracked.retain(|number, _| operations[*number].replica().0 != site);
        for (number, owner) in self.owners.iter_mut().enumerate() {
            if operations[number].replica().0 == site {
                *owner = None;
            }
        }
    }

    /// Loses a site, with all operations that only it has.
    fn lose(&mut self, site: u32) {
        self.sites[site as usize].lost = true;
        self.history.destroyed.push(site);
        self.drop_replies(site);
        for session in 0..self.sessions.len() {
            if self.sessions[session].site == site {
                self.replace_session(session, 0);
            }
        }
    }

    fn finish(&mut self) {
        let alive: Vec<usize> = (0..SITES as usize).filter(|it| !self.sites[*it].lost).collect();
        if !self.history.unsettled {
            for last in [false, true] {
                if last {
                    self.invoke(None, 0, Strength::Strong, Procedure::Nothing, false);
                }
                self.settle(&alive);
            }
        }
        for _ in 0..200 {
            self.now += 1;
            self.receive_any();
        }
        alive.iter().for_each(|site| self.report(*site));
        let lists = alive.iter().map(|site| &self.sites[*site].committed);
        self.history.order = lists.max_by_key(|list| list.len()).unwrap().clone();
    }

    /// Delivers everything, and commits every strong operation.
    fn settle(&mut self, alive: &[usize]) {
        loop {
            let mut progress = false;
            self.now += 1;
            let streams: BTreeSet<(u32, u32)> =
                self.bodies.keys().map(|id| (id.site, id.run)).collect();
            for site in alive {
                for stream in &streams {
                    while self.deliver(*site, *stream) {
                        progress = true;
                    }
                }
                while self.commit_next(*site) {
                    progress = true;
                }
            }
            let undecided = self.sites[alive[0]].tentative.iter().copied();
            let undecided: Vec<OperationId> = undecided
                .filter(|id| self.bodies[id].strong && !self.decided.contains(id))
                .collect();
            for id in undecided {
                let before = self.decided.len();
                self.decide(id);
                progress |= self.decided.len() > before;
            }
            if !progress {
                return;
            }
        }
    }
}
