//! A member of the broadcast: its interface, and the dispatch of inputs.

use std::collections::VecDeque;
use std::time::Duration;

use solera_election::{Ballot, Electors};
use solera_time::{Monotonic, SiteId};

use crate::config::Config;
use crate::ids::{CastId, Slot};
use crate::message::{Message, Output};
use crate::participant::{Participant, Role};
use crate::predicate::Predicate;
use crate::rare;
use crate::record::{Record, Snapshot};
use crate::step::Step;

/// One member of the broadcast, at one site. It is a component of its owner's machine.
///
/// After each call, the owner carries out the outputs ([`Self::poll_output`]) in order. Handling an
/// output may make predicates true; then it calls [`Self::recheck`] and polls again, until there is
/// no output. No output may leave the owner's machine before all records that were emitted earlier,
/// by the member or the owner, are durable.
#[derive(Debug)]
pub struct Member<B> {
    pub(crate) config: Config,
    electors: Electors,
    /// Sites that will join, each with its generation; see [`Self::set_learners`].
    learners: Vec<(SiteId, u32)>,
    pub(crate) participant: Participant<B>,
    outputs: VecDeque<Output<B>>,
    /// Time of the last tick.
    ticked: Monotonic,
    pub(crate) restored: bool,
    begun: bool,
}

impl<B: Clone> Member<B> {
    /// Creates a member that has no records, or whose records follow ([`Self::restore`]). It takes
    /// part from [`Self::begin`] on.
    pub fn new(config: Config, now: Monotonic) -> Self {
        let first = Ballot { configuration: 0, round: 0, leader: config.leader };
        Member {
            electors: Electors::new(0, SiteId::all(config.sites)),
            learners: Vec::new(),
            participant: Participant::new(first, now),
            outputs: VecDeque::new(),
            ticked: now,
            restored: false,
            begun: false,
            config,
        }
    }

    /// Begins to take part. The member of the first leader leads at once if nothing was restored:
    /// the members of a new cluster need no vote on their leader. `founds` is whether this is a
    /// member of a new cluster.
    pub fn begin(&mut self, now: Monotonic, predicate: &dyn Predicate<B>, founds: bool) {
        self.begun = true;
        self.ticked = now;
        self.participant.state.election.hear(now);
        let founds = founds && !self.restored;
        self.with(now, predicate, |participant, step| {
            if founds {
                participant.found(step);
            }
            participant.elect(step);
        });
    }

    /// Returns whether the member takes part yet.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Sets the members from now on. The number grows with every change; the first configuration
    /// has 0. A configuration may lack only a minority of the members of the one before, and may
    /// begin only when that one [is established](Self::is_established) at all of its members that
    /// remain. A leader of an earlier configuration begins a term of the new members, or steps down
    /// if it is none of them. That term needs the promises of all of them.
    ///
    /// The owner makes the configuration durable, and sets it again after a restart, before
    /// [`Self::begin`]. A member that joins begins with the [snapshot](Self::install) of another.
    pub fn set_members(
        &mut self,
        now: Monotonic,
        predicate: &dyn Predicate<B>,
        number: u64,
        members: impl IntoIterator<Item = SiteId>,
    ) {
        if number <= self.electors.number && self.begun {
            return;
        }
        self.electors = Electors::new(number, members);
        if self.begun {
            self.with(now, predicate, |participant, step| {
                participant.state.decide_all_voted(step);
                participant.elect(step);
            });
        }
    }

    /// Sets the sites that will join, each with its generation. They take part in no decision. The
    /// leader sends them its status, and members forget no slot that one of them has not delivered.
    ///
    /// If all members count a site before one of them composes a snapshot for it, then the site
    /// lacks no forgotten slot.
    pub fn set_learners(&mut self, learners: Vec<(SiteId, u32)>) {
        // Reports of former members end with the term.
        if let Role::Leader(leader) = &mut self.participant.role {
            let former = self.learners.iter().filter(|learner| !learners.contains(learner));
            former.for_each(|(site, _)| leader.forget_report(*site));
        }
        self.learners = learners;
    }

    /// Reports that the body of a cast has arrived, or that a cast was made here; with it the
    /// member has the bodies of all earlier casts of the run. Has no effect for a cast that was
    /// delivered. After a restart, the owner reports the last undelivered cast of each run.
    pub fn learn(&mut self, now: Monotonic, predicate: &dyn Predicate<B>, id: CastId) {
        if id.number > self.participant.state.runs.last(id.of()) {
            self.participant.state.known.add(id);
        }
        self.recheck(now, predicate);
    }

    /// Evaluates again the predicates for which the member waits.
    pub fn recheck(&mut self, now: Monotonic, predicate: &dyn Predicate<B>) {
        if self.begun {
            self.with(now, predicate, |_, _| {});
        }
    }

    /// Handles a message of the member at another site.
    pub fn on_message(
        &mut self,
        now: Monotonic,
        predicate: &dyn Predicate<B>,
        from: SiteId,
        message: Message<B>,
    ) {
        if self.begun && from != self.config.me {
            self.with(now, predicate, |participant, step| {
                participant.on_message(step, from, message);
            });
        }
    }

    /// Performs the actions that are due at `now`.
    pub fn on_deadline(&mut self, now: Monotonic, predicate: &dyn Predicate<B>) {
        if self.next_deadline().is_some_and(|deadline| now >= deadline) {
            self.ticked = now;
            self.with(now, predicate, |participant, step| participant.on_tick(step));
        }
    }

    /// Returns when [`Self::on_deadline`] must be called next; `None` before the member takes part.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let timing = &self.config.timing;
        let interval = timing.status_interval.min(timing.retry / 4).min(timing.leader_timeout / 8);
        self.begun.then(|| self.ticked.after(interval.max(Duration::from_millis(1))))
    }

    /// Returns the next output, in the order in which they arose.
    pub fn poll_output(&mut self) -> Option<Output<B>> {
        self.outputs.pop_front()
    }

    /// Asks the member at a site to become the leader, if a quorum supports it.
    pub fn move_leader(&mut self, now: Monotonic, predicate: &dyn Predicate<B>, site: SiteId) {
        let me = self.config.me;
        self.with(now, predicate, |participant, step| match site == me {
            true => participant.take_over(step),
            false => step.send(site, Message::TakeOver),
        });
    }

    /// Replaces what this member has delivered by the snapshot of another member, if that contains
    /// more. The owner takes over that member's state as of the same slot.
    pub fn install(&mut self, now: Monotonic, predicate: &dyn Predicate<B>, snapshot: Snapshot) {
        if snapshot.delivered <= self.participant.state.log.delivered {
            return;
        }
        self.participant.state.install(snapshot.clone());
        self.with(now, predicate, |_, step| {
            step.reach(rare::INSTALLS);
            step.record(Record::Installed(snapshot));
        });
    }

    /// Returns what this member has delivered, for a member that lacks forgotten slots.
    pub fn snapshot(&self) -> Snapshot {
        self.participant.state.snapshot()
    }

    /// Returns the last slot that was delivered.
    pub fn delivered(&self) -> Slot {
        self.participant.state.log.delivered
    }

    /// Returns the last slot that all members have delivered, as far as this member knows.
    pub fn delivered_everywhere(&self) -> Slot {
        self.participant.state.log.forgotten
    }

    /// Returns whether a cast was delivered.
    pub fn is_delivered(&self, id: CastId) -> bool {
        id.number <= self.participant.state.runs.last(id.of())
    }

    /// Returns the last leader that this member has seen. If the member has led itself, returns
    /// `None` until it has seen the next leader.
    pub fn leader(&self) -> Option<SiteId> {
        let leader = self.participant.state.election.begun()?.leader;
        (leader != self.config.me || self.leads()).then_some(leader)
    }

    /// Returns whether this member leads.
    pub fn leads(&self) -> bool {
        matches!(self.participant.role, Role::Leader(_))
    }

    /// Returns the number of the present configuration.
    pub fn configuration(&self) -> u64 {
        self.electors.number
    }

    /// Returns whether a quorum of the present members has delivered everything that was accepted
    /// in earlier configurations. The next configuration must not begin before.
    pub fn is_established(&self) -> bool {
        self.participant.state.established >= self.electors.number
    }

    /// Calls `act` with the context of one input, and then continues whatever can continue.
    fn with(
        &mut self,
        now: Monotonic,
        predicate: &dyn Predicate<B>,
        act: impl FnOnce(&mut Participant<B>, &mut Step<'_, B>),
    ) {
        let Member { config, electors, learners, participant, outputs, .. } = self;
        let mut step = Step { now, config, electors, learners, predicate, outputs };
        act(participant, &mut step);
        participant.proceed(&mut step);
    }
}
