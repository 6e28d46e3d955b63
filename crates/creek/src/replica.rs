//! Creek Alg. 1: invocation, delivery and commit of operations at one site.
//!
//! The conditional atomic broadcast is outside. It calls [`Replica::deliver_casts`] in the same
//! order at every site, and only where [`Replica::holds`] returns true.

mod baselines;
mod departures;
mod gossip;
mod replies;
mod waits;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_consensus::{CastId, Member};
use solera_machine::{Now, RarePath, Records, RequestId};
use solera_membership::Members;
use solera_time::{HybridClock, Lane, Monotonic, SiteId};

use self::departures::Departures;
use self::replies::Awaited;
use self::waits::Waits;
use crate::command::{Command, Level, Response};
use crate::comparison::{Comparison, Divergence};
use crate::config::{Config, Rule, Scheme};
use crate::context::Context;
use crate::digest::Digest;
use crate::execution::{Before, Done, Execution, Invoked, Kind, Moved};
use crate::finals::Finals;
use crate::frontier::Frontier;
use crate::ids::{OperationId, StreamId, before_runs, stream_of};
use crate::message::{Event, Message, Output};
use crate::object::Procedures;
use crate::order::{Order, OrderPlace};
use crate::rare;
use crate::record::Record;
use crate::request::Request;
use crate::sites::Sites;
use crate::streams::Streams;

/// State of one site.
pub(crate) struct Replica<P: Procedures> {
    pub(crate) config: Config,
    pub(crate) sites: Sites,
    /// Whether the site has the data with which it begins. A joining site fetches it.
    pub(crate) is_filled: bool,
    pub(crate) departures: Departures,
    pub(crate) run: u64,
    /// Number of operations that were invoked in this run (Alg. 1 l. 5, `currEventNo`).
    event: u64,
    /// Number of strong operations that were invoked in this run.
    cast: u64,
    /// The last run with operations before this one, and their number.
    previous: Option<(u64, u64)>,
    pub(crate) clock: HybridClock,
    pub(crate) streams: Streams<P::Operation>,
    /// Operations that are committed, or weak and delivered (Alg. 1 l. 7, `causalCtx`).
    pub(crate) causal: Context,
    pub(crate) order: Order<P::Operation>,
    pub(crate) execution: Execution<P>,
    /// Operations that are not tentative yet, by an operation of their context that is missing: the
    /// last one of its stream, if that is missing.
    waiting: BTreeMap<OperationId, Vec<Arc<Request<P::Operation>>>>,
    /// Strong operations that are not committed.
    pub(crate) undecided: BTreeMap<CastId, Arc<Request<P::Operation>>>,
    /// Number of committed casts of each run, all of which precede those that are not committed.
    pub(crate) casts: BTreeMap<StreamId, u64>,
    pub(crate) digest: Digest,
    comparison: Comparison,
    /// The last final operations, at most [`Limits::history`](crate::Limits::history).
    pub(crate) history: Finals<P::Operation, P::Response>,
    /// How far the operations of each site have come.
    pub(crate) frontier: Frontier<P::Response>,
    /// Requests of clients that wait.
    pub(crate) waits: Waits<P::Response>,
    /// Number of operations of this run whose first response was tentative and that are final, and
    /// of those whose first response was the stable one.
    pub(crate) predicted: (u64, u64),
    /// Clients' operations that have not got their last response (Alg. 1 l. 9, `reqsAwaitingResp`).
    awaited: BTreeMap<OperationId, Awaited<P::Response>>,
    /// The operations of these requests.
    invoked: BTreeMap<RequestId, OperationId>,
    /// Strong operations of clients that wait for weak ones.
    delayed: VecDeque<Invoked<P>>,
    /// Since when weak operations are tentative without a commit.
    quiet_since: Monotonic,
    /// Records that are written late. Used without `DurableHeads` alone.
    late: Vec<Record<P::Operation>>,
    /// Number of executions and revocations that this step may still do.
    left: usize,
    /// Last stream of the last report, if the streams did not fit it.
    reported: Option<StreamId>,
    next_tick: Option<Monotonic>,
    out: VecDeque<Output<P>>,
    /// Casts whose operations are new here, for the conditional atomic broadcast.
    pub(crate) learned: Vec<CastId>,
    /// Whether predicates may have become true.
    advanced: bool,
}

/// Member of the conditional atomic broadcast. Its bodies are requests.
pub(crate) type Consensus<P> = Member<Arc<Request<<P as Procedures>::Operation>>>;

impl<P: Procedures> Replica<P> {
    /// Creates a replica whose process has not started.
    pub(crate) fn new(config: Config, procedures: P) -> Replica<P> {
        let mut order = Order::new();
        order.favours = (!config.has(Rule::OrderByTimestamp)).then(|| config.me());
        Replica {
            sites: Sites::new(&config),
            is_filled: config.generation == 0,
            departures: Departures::default(),
            run: 0,
            event: 0,
            cast: 0,
            previous: None,
            clock: HybridClock::new(Lane(config.address.worker)),
            streams: Streams::new(),
            causal: Context::default(),
            order,
            execution: Execution::new(procedures, &config),
            waiting: BTreeMap::new(),
            undecided: BTreeMap::new(),
            casts: BTreeMap::new(),
            digest: Digest::default(),
            comparison: Comparison::default(),
            history: Finals::new(config.limits.history),
            frontier: Frontier::new(),
            waits: Waits::new(),
            predicted: (0, 0),
            awaited: BTreeMap::new(),
            invoked: BTreeMap::new(),
            delayed: VecDeque::new(),
            quiet_since: Monotonic(0),
            late: Vec::new(),
            left: 0,
            reported: None,
            next_tick: None,
            out: VecDeque::new(),
            learned: Vec::new(),
            advanced: false,
            config,
        }
    }

    /// Begins a run.
    pub(crate) fn start(&mut self) {
        self.previous = self.streams.last_run(self.me());
        self.run = self.run.max(before_runs(self.config.generation)) + 1;
        self.execution.start(StreamId { site: self.me(), run: self.run });
        if self.config.has(Rule::DurableRun) {
            self.record(&Record::Started { run: self.run });
        }
    }

    fn me(&self) -> SiteId {
        self.config.me()
    }

    pub(crate) fn record(&mut self, record: &Record<P::Operation>) {
        if self.config.journal {
            let mut records = Records::default();
            records.push_with(|bytes| record.encode(bytes));
            self.out.push_back(Output::<P>::Records(records));
        }
    }

    pub(crate) fn send(&mut self, to: SiteId, message: Message<P::Operation>) {
        let to = self.config.member(to);
        self.out.push_back(Output::<P>::Send { to, message });
    }

    fn trace(&mut self, event: Event) {
        if self.config.trace {
            self.out.push_back(Output::<P>::Trace(event));
        }
    }

    pub(crate) fn rare(&mut self, path: RarePath) {
        self.trace(Event::Rare(path));
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output<P>> {
        self.out.pop_front()
    }

    pub(crate) fn has_outputs(&self) -> bool {
        !self.out.is_empty()
    }

    /// Returns the number of outputs that were not polled.
    pub(crate) fn outputs(&self) -> usize {
        self.out.len()
    }

    /// Removes all outputs but the first `count` ones.
    pub(crate) fn truncate_outputs(&mut self, count: usize) {
        self.out.truncate(count);
    }

    /// Removes and returns the casts whose operations are new here.
    pub(crate) fn take_learned(&mut self) -> Vec<CastId> {
        std::mem::take(&mut self.learned)
    }

    /// Returns whether predicates may have become true since the last call.
    pub(crate) fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }

    /// Takes over a list of sites.
    pub(crate) fn set_members(&mut self, list: &Members) {
        if !self.sites.set(list) {
            return;
        }
        let others = self.sites.others();
        self.streams.retain_reports(&others);
        let is_other = |site: &SiteId| others.contains(site);
        SiteId::all(list.sites()).filter(|it| !is_other(it)).for_each(|site| {
            self.comparison.forget(site);
        });
        self.forget_departures();
    }

    /// Begins with the data of another site.
    pub(crate) fn begin_filled(&mut self) {
        // Fetched operations are executed before any client is answered.
        self.execution.start(StreamId { site: self.me(), run: self.run });
        self.previous = self.streams.last_run(self.me());
        self.rare(rare::FILLED);
        self.trace(Event::Filled(self.order.finals()));
    }

    /// Returns the differences between the results of this site and those of others.
    pub(crate) fn divergence(&self) -> Option<Divergence> {
        self.comparison.divergence(self.sites.other_members())
    }

    /// Returns these differences if the site gives no results because of them.
    fn stopped(&self) -> Option<Divergence> {
        self.divergence().filter(|divergence| divergence.is_stopped)
    }

    /// Takes a command of a client.
    pub(crate) fn on_command(
        &mut self,
        now: Now,
        request: RequestId,
        command: Command<P::Operation, P::Response>,
    ) {
        if let Some(divergence) = self.stopped() {
            return self.reply(request, Response::Diverged(divergence), true);
        }
        if !self.is_filled {
            return self.refuse(request);
        }
        match command {
            Command::Invoke { operation, level, track } => {
                let operation = Arc::new(operation);
                let invoked = Invoked { client: request, operation, track, foretells: None };
                self.invoke(now, invoked, level);
            }
            Command::Await { id } => self.wait_for(request, id),
            Command::Follow { id, seen } => self.follow(request, id, seen),
            Command::Attach { past } => self.wait_for_past(request, past, false),
            Command::Barrier { past } => self.wait_for_past(request, past, true),
            Command::Lead { .. } => self.reply(request, Response::Reached, true),
        }
    }

    /// Invokes an operation of a client (Creek Alg. 1 l. 15–25). A weak one gets no place before it
    /// is executed: it then follows what its response shows, at this site and in the final order.
    fn invoke(&mut self, now: Now, invoked: Invoked<P>, level: Level) {
        if self.is_full() {
            self.rare(rare::BUSY);
            self.refuse(invoked.client);
        } else if level == Level::Weak && self.is_weak(&invoked.operation) {
            self.execution.attempt(invoked);
        } else {
            self.delayed.push_back(invoked);
            self.place_strong(now);
        }
    }

    /// Returns whether as many operations have no place as may be tentative.
    fn is_full(&self) -> bool {
        self.execution.attempts() + self.delayed.len() >= self.config.limits.tentative
    }

    /// Returns whether strong operations of clients can get their places. A weak operation gets one
    /// when the strong ones of its site are executed, so strong ones wait after a number of them.
    pub(crate) fn may_place_strong(&self) -> bool {
        !self.delayed.is_empty() && !self.execution.is_passed()
    }

    /// Gives strong operations of clients their places.
    pub(crate) fn place_strong(&mut self, now: Now) {
        while !self.execution.is_passed()
            && let Some(invoked) = self.delayed.pop_front()
        {
            self.execution.pass();
            self.place_invoked(now, invoked, Level::Strong);
        }
    }

    /// Continues the weak operation of a client, which follows all others now.
    fn take_attempt(
        &mut self,
        now: Now,
        invoked: Invoked<P>,
        done: Option<Done<P>>,
        before: Option<Before>,
    ) {
        if let Some(id) = invoked.foretells {
            let response = done.and_then(|done| done.response);
            let response = response.or_else(|| self.execution.read(&invoked.operation));
            return self.foretell(id, response, before);
        }
        if self.execution.is_read_only(&invoked.operation) {
            // Creek §4.4: no other site needs the operation.
            let response = done.and_then(|done| done.response);
            let response = response.or_else(|| self.execution.read(&invoked.operation));
            if let Some(response) = response {
                self.answer_read(invoked.client, response, before);
            }
            return;
        }
        let Some(place) = self.place_invoked(now, invoked, Level::Weak) else { return };
        match done {
            Some(done) => self.execution.complete(place, done),
            None => {
                let progress = self.execution.step(&self.order, 0);
                self.take_progress(now, progress);
            }
        }
    }

    /// Gives an invoked operation its place. Returns `None` if the tentative list is full.
    fn place_invoked(&mut self, now: Now, invoked: Invoked<P>, level: Level) -> Option<OrderPlace> {
        let Invoked { client, operation, track, .. } = invoked;
        if self.order.tentative_len() + self.hidden_len() >= self.config.limits.tentative {
            self.rare(rare::BUSY);
            self.refuse(client);
            return None;
        }
        let foretold = self.hides(level == Level::Strong).then(|| Arc::clone(&operation));
        let operation = Arc::unwrap_or_clone(operation);
        let id = self.cast_operation(now, Some((client, operation)), level == Level::Strong);
        self.awaited.insert(id, Awaited::new(client, level, track));
        self.invoked.insert(client, id);
        if let Some(operation) = foretold {
            self.execution.attempt(Invoked { client, operation, track, foretells: Some(id) });
        }
        Some(OrderPlace::Tentative((self.clock.last(), id)))
    }

    /// Returns whether operations, strong ones or others, have no place before they are committed,
    /// so that no response shows them.
    fn hides(&self, strong: bool) -> bool {
        strong && self.config.acyclic && self.config.has(Rule::HideUndecided)
    }

    /// Returns the number of undecided strong operations that have no place.
    pub(crate) fn hidden_len(&self) -> usize {
        if self.hides(true) { self.undecided.len() } else { 0 }
    }

    /// Returns the undecided strong operations that have no place.
    pub(crate) fn hidden(&self) -> impl DoubleEndedIterator<Item = &Arc<Request<P::Operation>>> {
        self.undecided.values().take(self.hidden_len())
    }

    /// Returns the first of these operations of a site.
    pub(crate) fn first_hidden(&self, site: SiteId) -> Option<OperationId> {
        let first = CastId { site, run: 0, number: 0 };
        let next = self.undecided.range(first..).next().filter(|_| self.hides(true));
        next.filter(|(cast, _)| cast.site == site).map(|(_, request)| request.id)
    }

    /// Broadcasts an operation and adds it to the tentative ones.
    fn cast_operation(
        &mut self,
        now: Now,
        invoked: Option<(RequestId, P::Operation)>,
        strong: bool,
    ) -> OperationId {
        let (client, operation) = invoked.unzip();
        self.event += 1;
        let stream = StreamId { site: self.me(), run: self.run };
        let id = stream.at(self.event);
        let timestamp = self.clock.tick(now.physical);
        let context = match self.config.scheme {
            Scheme::Creek => self.causal.clone(),
            _ => Context::default(),
        };
        let previous = self.previous.filter(|_| self.event == 1);
        let mut request = Request { id, timestamp, operation, context, cast: None, previous };
        // Creek Alg. 1 l. 19. The clock is ahead of all that the site has received, so the set
        // loses operations only where a clock is at its end.
        for id in self.order.tentative_after(&request) {
            request.context.remove(id);
        }
        if strong {
            self.cast += 1;
            request.cast = Some(self.cast);
        }
        if let Some(cast) = request.cast() {
            let mut past = self.frontier.past();
            past.insert(id);
            self.waits.note_cast(cast, past);
        }
        let request = Arc::new(request);
        self.trace(Event::Invoked { id, request: client });
        self.record(&Record::Operation(Arc::clone(&request)));
        self.streams.receive(Arc::clone(&request), 0);
        for site in self.sites.others() {
            let requests = vec![Arc::clone(&request)];
            self.send(site, Message::Operations { requests, more: false });
        }
        self.deliver(now.monotonic, request);
        id
    }

    /// Takes operations that the site has not received by their stream yet, in any order.
    pub(crate) fn take_bodies(
        &mut self,
        now: Monotonic,
        requests: Vec<Arc<Request<P::Operation>>>,
    ) {
        for request in requests {
            if request.is_plausible() {
                let new = self.receive(now, request, usize::MAX);
                if new > 0 {
                    self.rare(rare::HANDED_OVER);
                }
            }
        }
    }

    /// Stores an operation of another site (Creek Alg. 1 l. 26–31). Returns the number of
    /// operations that the site now has without a gap.
    fn receive(
        &mut self,
        now: Monotonic,
        request: Arc<Request<P::Operation>>,
        early: usize,
    ) -> usize {
        // No other site can have an operation of this run that this site has not invoked.
        if request.id.site == self.me() && request.id.run >= self.run {
            return 0;
        }
        let delivered = self.streams.receive(request, early);
        let count = delivered.len();
        for request in delivered {
            if self.config.has(Rule::AdvanceClock) {
                self.clock.observe(request.timestamp);
            }
            let record = Record::Operation(Arc::clone(&request));
            if self.config.has(Rule::DurableHeads) {
                self.record(&record);
            } else {
                self.late.push(record);
            }
            self.deliver(now, request);
        }
        count
    }

    /// Takes an operation again that a checkpoint contains and that was committed before.
    pub(crate) fn restore_committed(&mut self, request: Arc<Request<P::Operation>>) {
        self.streams.receive(request, 0);
    }

    /// Takes an operation again that a journal or checkpoint contains.
    pub(crate) fn restore(&mut self, request: Arc<Request<P::Operation>>) {
        for request in self.streams.receive(request, 0) {
            self.clock.observe(request.timestamp);
            self.deliver(Monotonic(0), request);
        }
    }

    /// Puts a delivered operation in its place (Creek Alg. 1 l. 24, l. 29–31).
    pub(crate) fn deliver(&mut self, now: Monotonic, request: Arc<Request<P::Operation>>) {
        if self.departures.has_lost(request.id) {
            // A checkpoint contains it.
            return self.frontier.take_all(request.id);
        }
        if let Some(cast) = request.cast() {
            if self.is_delivered(cast) || self.undecided.contains_key(&cast) {
                // Two operations of a correct site never have the same cast. All sites drop the
                // later one, because they deliver the operations of a run in the same order.
                return self.frontier.take_all(request.id);
            }
            self.undecided.insert(cast, Arc::clone(&request));
            self.learned.push(cast);
        }
        self.frontier.take(&request);
        if let Some(id) = self.insert_if_complete(now, request) {
            self.add_causal(now, id);
        }
    }

    /// Makes an operation tentative when its context is here (Creek §4.1). Returns its id if it is
    /// part of the causal context of later ones now.
    fn insert_if_complete(
        &mut self,
        now: Monotonic,
        request: Arc<Request<P::Operation>>,
    ) -> Option<OperationId> {
        let missing = self.causal.first_missing(&request.context);
        if let Some(missing) = missing.filter(|_| self.config.has(Rule::WaitForContext)) {
            self.rare(rare::WAITS);
            // Streams arrive in order, so the last event that is needed of this one comes last.
            let last = request.context.last(missing.stream());
            let last = last.filter(|id| !self.causal.contains(*id)).unwrap_or(missing);
            self.waiting.entry(last).or_default().push(request);
            return None;
        }
        let id = request.id;
        let counts = !request.is_strong() || !self.config.has(Rule::ExcludeUndecided);
        self.insert(now, request);
        counts.then_some(id)
    }

    /// Adds an operation to the causal context of later ones, and continues those that wait for it.
    fn add_causal(&mut self, now: Monotonic, id: OperationId) {
        self.advanced = true;
        let mut added = vec![id];
        while let Some(id) = added.pop() {
            self.causal.insert(id);
            for request in self.waiting.remove(&id).into_iter().flatten() {
                added.extend(self.insert_if_complete(now, request));
            }
        }
    }

    /// Creek Alg. 1 l. 36–41.
    fn insert(&mut self, now: Monotonic, request: Arc<Request<P::Operation>>) {
        let cast = request.cast();
        if cast.is_some_and(|cast| !self.undecided.contains_key(&cast)) {
            // It was committed without the rule `WaitForContext` or `CheckContext`.
            return;
        }
        if self.config.scheme.orders_first() {
            return;
        }
        if self.hides(request.is_strong()) {
            // It is part of pasts, because it may be committed when another site reads them.
            return self.frontier.place(request.id);
        }
        if self.order.weak_len() == 0 {
            self.quiet_since = now;
        }
        if !self.config.has(Rule::AttachExecuted) {
            self.frontier.place(request.id);
        }
        let place = self.order.insert(Arc::clone(&request));
        let is_own = request.id.stream() == StreamId { site: self.me(), run: self.run };
        let is_awaited = is_own || self.waits.has(request.id);
        let kind = if is_awaited { Kind::Awaited } else { Kind::Other };
        if self.execution.insert(&self.order, place, request, kind) {
            self.rare(rare::INSERTED);
        }
    }

    /// Returns whether an operation is committed.
    fn is_committed(&self, request: &Request<P::Operation>) -> bool {
        self.causal.contains(request.id) && !self.order.is_tentative(request)
    }

    /// Returns whether the operation of a cast is committed.
    fn is_delivered(&self, cast: CastId) -> bool {
        self.casts.get(&stream_of(cast)).is_some_and(|last| cast.number <= *last)
    }

    /// Returns whether the operation of a cast may be committed here (Creek Alg. 1 l. 10–14,
    /// `checkDep`): the site has it and everything in its context, and has committed the casts of
    /// earlier runs of its site. Once true, it stays true.
    pub(crate) fn holds(&self, cast: CastId) -> bool {
        if self.is_delivered(cast) {
            return true;
        }
        let request = self.undecided.get(&cast);
        request.map_or(self.is_lost_cast(cast), |request| {
            let is_complete =
                !self.config.has(Rule::CheckContext) || self.causal.covers(&request.context);
            let is_next = !self.config.has(Rule::OrderRuns) || !self.has_earlier_run(cast);
            is_complete && is_next
        })
    }

    /// Returns whether strong operations of earlier runs of the site are undecided. The site has
    /// delivered all of them, because it delivers runs in order.
    fn has_earlier_run(&self, cast: CastId) -> bool {
        let first = |run| CastId { site: cast.site, run, number: 0 };
        self.undecided.range(first(0)..first(cast.run)).next().is_some()
    }

    /// Returns the operations of casts and, of the streams to which their contexts belong, what is
    /// not committed here, in the order of the streams. Without a gap in its streams, a site that
    /// has the committed operations needs nothing else to make the predicates true.
    pub(crate) fn bodies(&self, casts: &[CastId]) -> Vec<Arc<Request<P::Operation>>> {
        let requests = casts.iter().filter_map(|cast| self.undecided.get(cast));
        if !self.config.has(Rule::HandOverStreams) {
            return requests.cloned().collect();
        }
        let mut needed: BTreeMap<StreamId, u64> = BTreeMap::new();
        for request in requests {
            let context = request.context.heads();
            for (stream, event) in context.chain([(request.id.stream(), request.id.event)]) {
                let last = needed.entry(stream).or_default();
                *last = event.max(*last);
            }
        }
        // Nobody delivers a run without the earlier runs of its site.
        for stream in needed.keys().copied().collect::<Vec<_>>() {
            for earlier in self.streams.earlier_runs(stream) {
                needed.insert(earlier, u64::MAX);
            }
        }
        let kept = needed.iter().flat_map(|(stream, event)| self.streams.upto(*stream, *event));
        let is_needed = |request: &&Arc<Request<_>>| {
            !self.is_committed(request) && !self.departures.has_lost(request.id)
        };
        kept.filter(is_needed).cloned().collect()
    }

    /// Commits the operations of a slot, in order (Creek Alg. 1 l. 32–35).
    pub(crate) fn deliver_casts(&mut self, now: Monotonic, casts: &[CastId]) {
        casts.iter().for_each(|cast| self.commit(now, *cast));
    }

    /// Commits a strong operation and its context (Creek Alg. 1 l. 32–35, l. 48–57).
    fn commit(&mut self, now: Monotonic, cast: CastId) {
        // An id is delivered once, and only where its predicate holds.
        let Some(request) = self.undecided.remove(&cast) else { return };
        let last = self.casts.entry(stream_of(cast)).or_default();
        *last = cast.number.max(*last);
        self.quiet_since = now;
        let context = &request.context;
        let stabilises = |id| self.config.has(Rule::CommitContext) && context.contains(id);
        let before = self.order.committed().len();
        let commit = self.order.commit(&request, stabilises);
        match self.execution.commit(before, &commit) {
            Moved::Reordered => self.rare(rare::REORDERED),
            Moved::Kept => self.rare(rare::KEPT),
            Moved::Nothing => {}
        }
        let committed: Vec<_> = self.order.committed().range(before..).map(|it| it.id).collect();
        if committed.len() > 1 && request.operation.is_none() {
            self.rare(rare::SETTLED);
        }
        for id in committed {
            self.frontier.commit(id);
            self.trace(Event::Committed(id));
        }
        if !self.config.has(Rule::ValidPrefix) {
            self.answer_early(request.id);
        }
        self.add_causal(now, request.id);
    }
}
