//! Progress on demand: a worker that waits for idle workers asks them for their progress.
//!
//! A worker *wants* a vector while `uniformVec` does not cover it. It wants the commit vector of
//! every update that is stored here, the snapshot of every strong transaction, and every past that
//! a client waits for. The entries of a site's vectors are those of its slowest worker, so this
//! worker asks the other workers of the site as soon as it wants something ([`Message::Wanted`]).
//! They answer at once, each by an immediate tick: it records a promise, sends heartbeats to the
//! siblings, and sends `knownVec` up the tree. The worker asks workers of another site if the
//! messages that they should have sent do not arrive.
//!
//! See `docs/decisions/0024-progress-on-demand.md`.

use std::collections::BTreeSet;
use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::{Monotonic, Origin, Timestamp, Vector};

use crate::config::Rule;
use crate::message::Message;
use crate::replica::Replica;

/// Number of immediate ticks in each interval of regular ones; further ones wait until the next
/// interval. It bounds the cost of messages that arrive one by one.
const AT_ONCE: u8 = 4;

/// Number of updates since the last tick above which a worker waits for the regular tick, because
/// that serves all of them.
const FEW: u32 = 4;

/// Largest difference by which a wanted time may be ahead of this worker's clock, because the
/// clocks of other sites may be ahead.
const MOST_AHEAD: Duration = Duration::from_secs(1);

/// Vectors that one worker waits for, and its requests to others.
#[derive(Debug)]
pub(crate) struct Demand {
    /// Vector that `uniformVec` must cover for requests that wait here or elsewhere.
    wanted: Vector,
    /// Vector up to which this worker has asked the other workers of the site, or they have asked
    /// it.
    asked: Vector,
    /// Whether other sites may not know that the vector is wanted, so that they are asked without
    /// delay.
    afar: bool,
    /// Time when workers of other sites were last asked, or when the wait for their regular
    /// messages began.
    afar_at: Option<Monotonic>,
    /// Time when this worker was last asked.
    pub(crate) asked_at: Option<Monotonic>,
    /// `knownVec` that this worker last reported within its site.
    pub(crate) reported: Vector,
    /// Whether a tick is due at once.
    at_once: bool,
    /// Number of immediate ticks left in this interval, and the start of the interval.
    left: u8,
    since: Monotonic,
    /// Number of updates stored since the last tick.
    pub(crate) stored: u32,
}

impl Demand {
    pub(crate) fn new(sites: usize) -> Self {
        let zero = Vector::zero(sites);
        Demand {
            wanted: zero,
            asked: zero,
            afar: false,
            afar_at: None,
            asked_at: None,
            reported: zero,
            at_once: false,
            left: AT_ONCE,
            since: Monotonic(0),
            stored: 0,
        }
    }

    /// Wants the time of an update that was stored here.
    pub(crate) fn want_stored(&mut self, origin: impl Into<Origin>, ts: Timestamp) {
        self.wanted.raise(origin, ts);
        self.stored += 1;
    }

    /// Wants `uniformVec` to cover this. Returns whether that was not wanted before.
    pub(crate) fn want(&mut self, vec: &Vector) -> bool {
        let news = !self.wanted.covers(vec);
        self.wanted.join(vec);
        news
    }

    /// Bounds wanted times, because workers cannot report future times, and a token may contain any
    /// time. Requests with later times wait for regular ticks.
    pub(crate) fn bound(&mut self, latest: Timestamp) {
        for vec in [&mut self.wanted, &mut self.asked] {
            for origin in Origin::all(vec.entries().len()) {
                vec[origin] = vec[origin].min(latest);
            }
        }
    }

    /// Makes a tick due at once.
    pub(crate) fn hurry(&mut self) {
        self.at_once = true;
    }

    /// Makes a tick due at once if a vector has grown in an entry that is wanted.
    pub(crate) fn note_progress(&mut self, before: &Vector, after: &Vector) {
        if self.is_served(before, after) {
            self.hurry();
        }
    }

    /// Returns whether an entry has grown that was below the wanted one.
    pub(crate) fn is_served(&self, before: &Vector, after: &Vector) -> bool {
        Origin::all(self.wanted.entries().len())
            .any(|origin| before[origin] < self.wanted[origin] && before[origin] < after[origin])
    }

    /// Returns whether the entry of one origin is below the wanted one.
    pub(crate) fn lacks(&self, origin: impl Into<Origin>, known: Timestamp) -> bool {
        known < self.wanted[origin.into()]
    }

    /// Returns whether a vector does not cover the wanted one.
    pub(crate) fn exceeds(&self, vec: &Vector) -> bool {
        !vec.covers(&self.wanted)
    }

    /// Returns when an immediate tick may come; `None` if none is due.
    pub(crate) fn deadline(&self, tick: Duration) -> Option<Monotonic> {
        let free = self.left > 0 && self.stored <= FEW;
        self.at_once.then(|| if free { self.since } else { self.since.after(tick) })
    }

    /// Notes a tick.
    pub(crate) fn on_tick(&mut self, now: Monotonic, tick: Duration) {
        if now.since(self.since) >= tick {
            (self.since, self.left) = (now, AT_ONCE);
        } else {
            self.left = self.left.saturating_sub(1);
        }
        (self.at_once, self.stored) = (false, 0);
    }

    /// Clears the wanted vector after a long time without activity. The missing transactions arrive
    /// when their site is reachable again.
    pub(crate) fn give_up(&mut self) {
        let zero = Vector::zero(self.wanted.entries().len());
        (self.wanted, self.asked) = (zero, zero);
    }
}

impl Replica {
    /// Wants snapshots of this site to cover `vec`, and asks the other workers of the site at once.
    pub(crate) fn wait_for(&mut self, vec: &Vector) {
        if self.demand.want(vec) && !self.worker.dissemination.view.uniform_vec.covers(vec) {
            self.demand.hurry();
        }
    }

    /// Wants all strong transactions up to `strong`, for a read that waits for them.
    pub(crate) fn wait_for_strong(&mut self, strong: Timestamp) {
        let nothing = Vector::zero(self.worker.config.topology.sites());
        self.wait_for(&nothing.with(Origin::Strong, strong));
    }

    /// Makes a tick due at once if a decided transaction had held `knownVec` below the wanted
    /// entry.
    pub(crate) fn release_known_vec(&mut self) {
        let known = self
            .worker
            .partitions
            .iter()
            .map(|partition| partition.known_vec[self.worker.me])
            .min();
        if self.demand.lacks(self.worker.me, known.unwrap_or(Timestamp::MAX)) {
            self.demand.hurry();
        }
    }

    /// Like [`Self::wait_for`], for a past from another site. Other sites may not know that it is
    /// wanted.
    pub(crate) fn wait_for_past(&mut self, past: &Vector) {
        self.wait_for(past);
        self.demand.afar = true;
    }

    /// Asks the other workers of this site for everything that is newly wanted. The request
    /// contains this worker's clocks: the receivers advance theirs, so that a slow clock does not
    /// hold `knownVec` back.
    pub(crate) fn ask_for_progress(&mut self, now: Now) {
        if !self.worker.config.keeps(Rule::AskForProgress) {
            return;
        }
        self.demand.bound(self.worker.clock.read(now.physical).later(MOST_AHEAD));
        let wanted = self.demand.wanted;
        let news = !self.demand.asked.covers(&wanted);
        if news && !self.worker.dissemination.view.stable_vec.covers(&wanted) {
            self.demand.asked = wanted;
            self.demand.afar_at = (!self.demand.afar).then_some(now.monotonic);
            let (site, me) = (self.worker.me, self.worker.config.address.worker);
            let workers = self.worker.config.topology.workers[site.index()];
            if workers > 1 {
                let clock = self.worker.clock.read(now.physical);
                self.promise_past(now, clock);
                let strong_clock = self.strong.service.clock();
                let message =
                    Message::Wanted { upto: wanted, clock, strong_clock, afar: self.demand.afar };
                for worker in (0..workers).filter(|worker| *worker != me) {
                    self.worker.send(Address { site, worker }, message.clone());
                }
            }
        }
        self.ask_afar(now);
        self.demand.afar = false;
    }

    /// Asks the siblings at other sites that have not sent what is wanted: their messages may be
    /// lost, or they may not know that it is wanted.
    fn ask_afar(&mut self, now: Now) {
        let interval = self.worker.config.timing.known_vec_interval;
        let again = self.demand.afar_at.is_none_or(|at| now.monotonic.since(at) >= interval);
        if !again || !self.demand.exceeds(&self.worker.dissemination.view.uniform_vec) {
            return;
        }
        self.demand.afar_at = Some(now.monotonic);
        let mut asked = BTreeSet::new();
        for partition in &self.worker.partitions {
            for site in self.worker.other_members() {
                if self.demand.lacks(site, partition.known_vec[site]) {
                    asked.insert(self.worker.config.topology.owner(site, partition.id));
                }
            }
            // A leader sends strong history as soon as a transaction is decided, which takes a
            // round trip.
            if self.demand.afar
                && let Some(leader) = self.strong_leader(partition.id)
                && self.demand.lacks(Origin::Strong, partition.known_vec.strong)
            {
                asked.insert(self.worker.config.topology.owner(leader, partition.id));
            }
        }
        asked.remove(&self.worker.config.address);
        // Other sites do not need the clocks of this one.
        let (upto, none) = (self.demand.wanted, Timestamp::ZERO);
        for to in asked {
            let message = Message::Wanted { upto, clock: none, strong_clock: none, afar: false };
            self.worker.send(to, message);
        }
    }

    /// Handles another worker's request for the progress of this one.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    pub(crate) fn on_wanted(
        &mut self,
        now: Now,
        from: Address,
        upto: &Vector,
        clock: Timestamp,
        strong_clock: Timestamp,
        afar: bool,
    ) {
        if from.site == self.worker.me {
            self.worker.clock.observe(clock);
            self.strong.service.follow(strong_clock);
            self.demand.asked.join(upto);
        }
        self.demand.want(upto);
        self.demand.afar |= afar;
        self.demand.asked_at = Some(now.monotonic);
        // A sibling asks because nothing has arrived, so this worker sends again, even if it has
        // reported before.
        if from.site != self.worker.me || afar || !self.demand.reported.covers(upto) {
            self.demand.hurry();
        }
        if afar {
            self.demand.afar_at = None;
        }
    }

    /// Returns whether another worker has asked this one within this time.
    pub(crate) fn was_asked(&self, now: Now, within: Duration) -> bool {
        let recent = |at: Monotonic| now.monotonic.since(at) < within;
        self.demand.asked_at.is_some_and(recent)
    }

    /// At a leader: completes the strong history up to the wanted time, if no transaction can
    /// precede that time.
    pub(crate) fn complete_on_demand(&mut self, now: Now) {
        let lacks = |strong: Timestamp| self.demand.lacks(Origin::Strong, strong);
        if self.worker.partitions.iter().any(|partition| lacks(partition.known_vec.strong)) {
            self.certifying(now, |replica| replica.strong.service.complete(now));
        }
    }
}
