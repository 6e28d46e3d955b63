//! One worker's part of the certification service, as a state machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::{HybridClock, Lane, Monotonic, SiteId, Timestamp, Vector};

use crate::claim::Claim;
use crate::config::{Config, Configuration};
use crate::coordinator::Coordinator;
use crate::ids::{Ballot, GroupId, TransactionId};
use crate::member::Member;
use crate::message::{Body, Message, Output, Record};
use crate::outcomes::{Outcomes, REMEMBERED};
use crate::payload::{GroupPayload, Outcome};
use crate::step::{Counts, Step};

/// Greatest number of workers per site for which strong timestamps are unique.
pub const MAX_WORKERS: u8 = 32;

/// One worker's part of the certification service: its groups' members, and the coordinator of the
/// transactions that are submitted at this worker.
///
/// `W` is the type of a write; the service carries writes and does not interpret them.
#[derive(Debug)]
pub struct Service<W> {
    config: Config,
    configuration: Configuration,
    clock: HybridClock,
    members: BTreeMap<GroupId, Member<W>>,
    coordinator: Coordinator<W>,
    outputs: VecDeque<Output<W>>,
    /// Messages from this worker to itself.
    loopback: VecDeque<Message<W>>,
    /// Outcomes of transactions that members here have forgotten.
    outcomes: Outcomes<TransactionId>,
    counts: Counts,
    /// Time of the last tick.
    ticked: Monotonic,
    /// Interval of the leaders' status messages while the groups remember transactions.
    status_interval: Duration,
    begun: bool,
    /// Time when this part began, by the monotonic clock, and the timestamp at that time. Later
    /// times are derived from the pair, so that neither times of other sites nor a wall clock that
    /// is set back affect them.
    unaided: (Monotonic, Timestamp),
    /// Time when a message was last ignored because it has a time after [`Service::horizon`].
    early: Option<Monotonic>,
}

/// Interval between ticks while there are transactions.
const TICK: Duration = Duration::from_millis(1);
/// Interval between ticks while there are none: a small part of all timeouts.
const IDLE_TICK: Duration = Duration::from_millis(50);
/// Number of status messages that an idle leader sends within the leader timeout.
const SIGNS: u32 = 5;

impl<W: Clone + Send> Service<W> {
    /// Creates the service of a worker that has no records, or whose records follow
    /// ([`Self::restore`]). The worker takes part from [`Self::begin`] on.
    ///
    /// # Panics
    /// If the worker's number is not below [`MAX_WORKERS`]. Validation of configurations prevents
    /// that.
    pub fn new(now: Now, config: Config) -> Self {
        let me = config.me;
        assert!(me.worker < MAX_WORKERS, "worker {} of at most {MAX_WORKERS}", me.worker);
        let sites = config.workers.len();
        let ballot = Ballot { configuration: 0, round: 0, leader: config.leader };
        let member = |group: &GroupId| (*group, Member::new(*group, ballot, sites, now));
        Service {
            configuration: Configuration::new(0, SiteId::all(sites).map(|site| (site, 0))),
            clock: HybridClock::new(Lane(me.site.0 * MAX_WORKERS + me.worker)),
            members: config.groups.iter().map(member).collect(),
            coordinator: Coordinator::new(me, config.run),
            outputs: VecDeque::new(),
            loopback: VecDeque::new(),
            outcomes: Outcomes::new(REMEMBERED),
            counts: Counts::default(),
            ticked: Monotonic(0),
            status_interval: config.timing.status_interval,
            begun: false,
            unaided: (now.monotonic, Timestamp::ZERO),
            early: None,
            config,
        }
    }

    /// Restores a record of the journal or of a checkpoint. Must be called in the order of the
    /// records.
    pub fn restore(&mut self, record: Record<W>) {
        let group = match &record {
            Record::Promised(group, _)
            | Record::Took(group, _)
            | Record::Accepted(group, ..)
            | Record::Ceiling(group, _)
            | Record::Forgot(group, ..) => *group,
        };
        if let Some(member) = self.members.get_mut(&group) {
            member.kept.restore(record);
        }
    }

    /// Returns the records that a checkpoint stores.
    pub fn save(&self) -> Vec<Record<W>> {
        self.members.values().flat_map(|member| member.kept.save()).collect()
    }

    /// Begins to take part. `first` is set for the very first members of a cluster, where nothing
    /// can have been decided before: these members need no vote on their leader.
    pub fn begin(&mut self, now: Now, first: bool) {
        self.begun = true;
        for member in self.members.values() {
            self.clock.observe(member.kept.latest());
        }
        self.unaided = (now.monotonic, self.clock.read(now.physical));
        self.each_member(now, |member, step| {
            member.kept.election.hear(step.now.monotonic);
            member.kept.keep_first_term(step);
            if first && member.kept.election.ballot().leader == step.me() {
                member.lead_at_once(step);
            }
        });
        self.tick(now);
        self.drain_loopback(now);
    }

    /// Submits a transaction, with its part for each group (CERTIFY, UniStore Alg. 3 l. 3). Emits
    /// [`Output::Decided`] later. If the transaction commits, its strong timestamp is at most
    /// `until`, whichever process finishes it and however late. `claim` gives the retry of an
    /// aborted transaction priority. The identifier is `name` if one was
    /// [reserved](Self::reserve), or else a new one.
    ///
    /// # Panics
    /// If there are no parts; a read-only transaction without accesses needs no certification.
    pub fn certify(
        &mut self,
        now: Now,
        name: Option<TransactionId>,
        payloads: BTreeMap<GroupId, Arc<GroupPayload<W>>>,
        until: Timestamp,
        claim: Option<Claim>,
    ) -> TransactionId {
        assert!(!payloads.is_empty(), "a certified transaction has accessed something");
        let (coordinator, mut step) = self.coordinator(now);
        let tid = coordinator.certify(&mut step, name, payloads, until, claim);
        self.drain_loopback(now);
        tid
    }

    /// Reserves the identifier of a transaction that will be certified later, for a client that
    /// must know the identifier before it could miss the reply. The caller must soon pass the
    /// identifier to [`Self::certify`], or release it: until then, the groups forget no transaction
    /// that is submitted here.
    pub fn reserve(&mut self) -> TransactionId {
        self.coordinator.reserve()
    }

    /// Releases a reserved identifier without certification, with the outcome of its transaction.
    /// Has no effect on an identifier that has been used.
    pub fn release(&mut self, tid: TransactionId, outcome: Outcome) {
        self.coordinator.release(tid, outcome);
    }

    /// Stops submitting a transaction whose client no longer waits. Its outcome is determined as if
    /// its coordinator had failed.
    pub fn give_up(&mut self, tid: TransactionId) {
        self.coordinator.give_up(tid);
    }

    /// Like [`Self::give_up`], for a transaction whose outcome will not be requested.
    pub fn cancel(&mut self, tid: TransactionId) {
        self.coordinator.cancel(tid);
    }

    /// Returns whether this number of members can decide a transaction.
    pub fn is_enough(&self, members: usize) -> bool {
        members >= self.configuration.keepers(self.config.f)
    }

    /// Returns the outcome of a transaction whose identifier the client knows, if this worker's
    /// coordinator or one of its members knows the outcome, or knew it when it forgot the
    /// transaction.
    pub fn outcome(&self, tid: TransactionId) -> Option<Outcome> {
        let of_member = |member: &Member<W>| member.kept.state.entries.get(&tid)?.phase.outcome();
        let own = self.coordinator.outcome(tid).cloned();
        let known = own.or_else(|| self.members.values().find_map(of_member));
        known.or_else(|| self.outcomes.get(&tid).cloned())
    }

    /// Returns the transactions of a group that may have committed with a later time than `stored`,
    /// as far as this worker's member has their votes, and that the caller is concerned with. A
    /// transaction whose writes are not known here counts.
    pub fn unsettled(
        &self,
        group: GroupId,
        stored: Timestamp,
        concerns: impl Fn(&GroupPayload<W>) -> bool,
    ) -> BTreeSet<TransactionId> {
        let Some(member) = self.members.get(&group) else { return BTreeSet::new() };
        let entries = member.kept.state.entries.iter();
        let unsettled = entries.filter(|(_, entry)| {
            entry.may_commit_after(stored) && entry.payload.as_deref().is_none_or(&concerns)
        });
        unsettled.map(|(tid, _)| *tid).collect()
    }

    /// Returns whether a transaction cannot commit with a later time than `stored` any more; `None`
    /// if this worker's member has forgotten it.
    pub fn is_settled(
        &self,
        group: GroupId,
        tid: TransactionId,
        stored: Timestamp,
    ) -> Option<bool> {
        let member = self.members.get(&group)?;
        match member.kept.state.entries.get(&tid) {
            Some(entry) => Some(!entry.may_commit_after(stored)),
            None => match self.outcome(tid)? {
                Outcome::Committed(ts) => Some(ts <= stored),
                Outcome::Aborted(_) => Some(true),
            },
        }
    }

    /// Reports that the host has stored a transaction of the group that a leader elsewhere
    /// delivered.
    pub fn stored(&mut self, group: GroupId, commit_vec: &Vector) {
        self.clock.observe(commit_vec.strong);
        if let Some(member) = self.members.get_mut(&group) {
            member.kept.stored(commit_vec);
        }
    }

    /// Reports that the host has stored all transactions of the group up to this time (Property 6).
    pub fn known(&mut self, now: Now, group: GroupId, upto: Timestamp) {
        self.clock.observe(upto);
        if let Some(member) = self.members.get_mut(&group) {
            member.kept.known(upto);
        }
        self.with_member(now, group, |member, step| member.deliver(step));
    }

    /// Reports that the host has discarded all data that it had stored, and starts again.
    pub fn stores_nothing(&mut self) {
        for member in self.members.values_mut() {
            member.stores_nothing();
        }
    }

    /// Reports that the site of this worker stores all causal transactions up to here, in all of
    /// its partitions (`stableVec`, Property 2).
    pub fn site_stores(&mut self, now: Now, stable_vec: &Vector) {
        self.each_member(now, |member, step| member.kept.site_stores(step, stable_vec));
        self.drain_loopback(now);
    }

    /// Advances the clock to a strong time that another worker has reached, so that this worker's
    /// leaders do not fall behind.
    pub fn follow(&mut self, ts: Timestamp) {
        self.clock.observe(ts);
    }

    /// Returns the greatest time that this worker has proposed or received in a proposal.
    pub fn clock(&self) -> Timestamp {
        self.clock.last()
    }

    /// Sets how far ahead other sites' times may be from now on; see [`Timing::max_ahead`].
    ///
    /// [`Timing::max_ahead`]: crate::Timing::max_ahead
    pub fn limit_times_ahead(&mut self, limit: Duration) {
        self.config.timing.max_ahead = limit;
    }

    /// Returns the latest time that is accepted from another site. Times of other sites advance
    /// this worker's clock, but not this limit.
    pub fn horizon(&self, now: Now) -> Timestamp {
        let (at, ts) = self.unaided;
        let unaided = Timestamp::from_physical(now.physical).max(ts.later(now.monotonic.since(at)));
        unaided.later(self.config.timing.max_ahead)
    }

    /// Returns whether clocks may prevent an agreement: within `period`, a message was ignored
    /// because its time is after the [horizon](Self::horizon), or this worker's own times are so
    /// far ahead of its present clock that others ignore them.
    pub fn clocks_differ(&self, now: Now, period: Duration) -> bool {
        let wall = Timestamp::from_physical(now.physical);
        self.early.is_some_and(|at| now.monotonic.since(at) < period)
            || self.clock.last() > wall.later(self.config.timing.max_ahead)
    }

    /// Sets the number of this run, which makes its transactions' identifiers unique. Must be
    /// called before [`Self::begin`].
    pub fn number_run(&mut self, run: u64) {
        self.config.run = run;
        self.coordinator = Coordinator::new(self.config.me, run);
    }

    /// Returns whether the worker takes part yet.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Forgets conflicts that every later snapshot contains.
    pub fn prune(&mut self, floor: &Vector) {
        for member in self.members.values_mut() {
            member.kept.conflicts.prune(floor);
        }
    }

    /// Sets the sites whose members form the groups from now on. The number grows with every
    /// change; the first configuration has 0. Each site is passed with the first run of its present
    /// generation, because the coordinators of earlier runs submit nothing any more.
    pub fn set_members(&mut self, number: u64, members: impl IntoIterator<Item = (SiteId, u64)>) {
        if number > self.configuration.electors.number || !self.begun {
            self.configuration = Configuration::new(number, members);
            for member in self.members.values_mut() {
                member.forget_former(&self.config, &self.configuration);
            }
        }
    }

    /// Reports the history as complete as far as possible, without waiting for the next deadline.
    pub fn complete(&mut self, now: Now) {
        self.each_member(now, |member, step| member.deliver(step));
    }

    /// Returns whether there are no transactions, and no member is about to lead.
    pub fn is_idle(&self) -> bool {
        self.coordinator.pending() == 0 && self.members.values().all(Member::is_idle)
    }

    /// Asks a site's member of a group to become its leader.
    pub fn move_leader(&mut self, now: Now, group: GroupId, site: SiteId) {
        let (_, mut step) = self.coordinator(now);
        step.send_member(group, site, Body::TakeOver);
        self.drain_loopback(now);
    }

    /// Returns the last leader that this worker's member of a group has seen. An election in
    /// progress, by this member or another, does not change it. If the member has led itself,
    /// returns `None` until it has seen the next leader.
    pub fn leader(&self, group: GroupId) -> Option<SiteId> {
        let member = self.members.get(&group)?;
        let leader = member.leader();
        (leader != self.config.me.site || member.leads()).then_some(leader)
    }

    /// Returns whether this worker's member of the group leads it.
    pub fn leads(&self, group: GroupId) -> bool {
        self.members.get(&group).is_some_and(Member::leads)
    }

    /// Returns the number of undecided transactions that were submitted here, or that this worker
    /// finishes for other coordinators.
    pub fn pending(&self) -> usize {
        self.coordinator.pending()
    }

    /// Returns the counters since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the numbers of transactions and of conflicting keys that the members remember.
    pub fn remembered(&self) -> (usize, usize) {
        let members = self.members.values();
        members.fold((0, 0), |(entries, keys), member| {
            (entries + member.kept.state.entries.len(), keys + member.kept.conflicts.keys())
        })
    }

    #[expect(clippy::too_many_arguments, reason = "one per field of the step")]
    fn step<'a>(
        now: Now,
        config: &'a Config,
        configuration: &'a Configuration,
        clock: &'a mut HybridClock,
        outputs: &'a mut VecDeque<Output<W>>,
        counts: &'a mut Counts,
        loopback: &'a mut VecDeque<Message<W>>,
        outcomes: &'a mut Outcomes<TransactionId>,
    ) -> Step<'a, W> {
        Step { now, config, configuration, clock, outputs, counts, loopback, outcomes }
    }

    fn coordinator(&mut self, now: Now) -> (&mut Coordinator<W>, Step<'_, W>) {
        let Service { config, configuration, clock, outputs, counts, loopback, outcomes, .. } =
            self;
        (
            &mut self.coordinator,
            Self::step(now, config, configuration, clock, outputs, counts, loopback, outcomes),
        )
    }

    fn with_member<R>(
        &mut self,
        now: Now,
        group: GroupId,
        act: impl FnOnce(&mut Member<W>, &mut Step<'_, W>) -> R,
    ) -> Option<R> {
        let Service { config, configuration, clock, outputs, counts, loopback, outcomes, .. } =
            self;
        let member = self.members.get_mut(&group)?;
        let mut step =
            Self::step(now, config, configuration, clock, outputs, counts, loopback, outcomes);
        let result = act(member, &mut step);
        self.coordinator.learn_leader(&mut step, member);
        Some(result)
    }

    fn each_member(&mut self, now: Now, act: impl Fn(&mut Member<W>, &mut Step<'_, W>)) {
        let Service { config, configuration, clock, outputs, counts, loopback, outcomes, .. } =
            self;
        let mut step =
            Self::step(now, config, configuration, clock, outputs, counts, loopback, outcomes);
        for member in self.members.values_mut() {
            act(member, &mut step);
            self.coordinator.learn_leader(&mut step, member);
        }
    }

    fn on_message(&mut self, now: Now, from: Address, message: Message<W>) {
        let Message { group, body } = message;
        let (coordinator, mut step) = self.coordinator(now);
        match body {
            Body::NotLeader { ballot } => coordinator.on_not_leader(&mut step, group, ballot),
            Body::Accepted { ballot, tid, vote, ts } => {
                coordinator.on_accepted(&mut step, from.site, group, ballot, tid, vote, ts);
            }
            Body::OutcomeForgotten { tid, oldest } => coordinator.on_over(&mut step, tid, oldest),
            Body::AskOldest => {
                let oldest = coordinator.oldest();
                step.send(from, group, Body::Oldest { oldest });
            }
            Body::Decision { tid, ref outcome, oldest: None } => {
                coordinator.on_decision(&mut step, tid, outcome.clone(), None);
                self.with_member(now, group, |member, step| member.on_message(step, from, body));
            }
            body => {
                let of_member = |member: &mut Member<W>, step: &mut Step<'_, W>| {
                    member.on_message(step, from, body);
                };
                if self.with_member(now, group, of_member).is_none() {
                    self.counts.ignored += 1;
                }
            }
        }
    }

    /// Handles messages from this worker to itself.
    fn drain_loopback(&mut self, now: Now) {
        while let Some(message) = self.loopback.pop_front() {
            self.on_message(now, self.config.me, message);
        }
    }

    fn tick(&mut self, now: Now) {
        self.ticked = now.monotonic;
        // Members forget transactions when status messages are due. These messages have a cost for
        // every group.
        let timing = &self.config.timing;
        let idle = (timing.leader_timeout / SIGNS).min(timing.reserve / 4);
        self.config.timing.status_interval =
            if self.is_idle() { idle.max(self.status_interval) } else { self.status_interval };
        self.each_member(now, |member, step| {
            member.elect(step);
            member.lead(step);
        });
        let groups: Vec<GroupId> = self.members.keys().copied().collect();
        for group in groups {
            let overdue = self.with_member(now, group, |member, step| member.overdue(step));
            for (tid, participants) in overdue.unwrap_or_default() {
                let (coordinator, mut step) = self.coordinator(now);
                coordinator.finish(&mut step, tid, participants);
            }
        }
        let (coordinator, mut step) = self.coordinator(now);
        coordinator.retry(&mut step);
    }
}

/// Calls of the machine that contains the service, as in [`solera_machine::Machine`], but without
/// clients and records.
impl<W: Clone + Send + Sync> Service<W> {
    /// Handles a message of another worker, or of this one, to completion.
    pub fn handle(&mut self, now: Now, from: Address, message: Message<W>) {
        let is_other = from.site != self.config.me.site;
        let is_early = is_other && message.body.latest() > self.horizon(now);
        if is_early {
            self.early = Some(now.monotonic);
        }
        if !self.begun || is_early {
            self.counts.ignored += 1;
            return;
        }
        self.on_message(now, from, message);
        self.drain_loopback(now);
    }

    /// Performs the actions that are due at `now`.
    pub fn on_deadline(&mut self, now: Now) {
        if self.next_deadline().is_some_and(|deadline| now.monotonic >= deadline) {
            self.tick(now);
            self.drain_loopback(now);
        }
    }

    /// Returns the next output, in the order in which they arose.
    pub fn poll_output(&mut self) -> Option<Output<W>> {
        self.outputs.pop_front()
    }

    /// Returns when [`on_deadline`](Self::on_deadline) must be called next; `None` before the
    /// worker takes part.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let interval = if self.is_idle() { IDLE_TICK } else { TICK };
        self.begun.then(|| self.ticked.after(interval))
    }
}
