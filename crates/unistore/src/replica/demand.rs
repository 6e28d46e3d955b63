//! Progress on demand: whoever waits for a worker that has nothing to do asks it for its progress.
//!
//! A vector is wanted as long as `uniformVec` does not cover it: the commit vector of every update
//! that is stored here, the snapshot of a strong transaction, the past that a client waits for. The
//! entries of a site's vectors are those of its slowest worker, so the other workers of the site
//! are asked as soon as something is wanted ([`Message::Wanted`]). They answer at once, each by a
//! tick of its own: it records a promise, sends heartbeats to its siblings, and its `knownVec` up
//! the tree. Workers of another site are asked where what they should have sent does not come.
//!
//! `docs/decisions/0024-progress-on-demand.md`.

use std::collections::BTreeSet;
use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::{Monotonic, Origin, Timestamp, Vector};

use crate::config::Rule;
use crate::message::Message;
use crate::replica::Replica;

/// So many ticks happen at once in each interval of regular ones; further ones wait until the next.
/// It bounds what messages that come one by one may cost.
const AT_ONCE: u8 = 4;

/// A worker that has stored more updates than this since its last tick has enough to do: it waits
/// for the regular tick, which serves them all.
const FEW: u32 = 4;

/// What is wanted lies no further ahead of a worker's clock than this: the clocks of other sites
/// may be ahead.
const MOST_AHEAD: Duration = Duration::from_secs(1);

/// What is waited for at one worker, and what it has asked of others.
#[derive(Debug)]
pub(crate) struct Demand {
    /// Somebody here or elsewhere waits until `uniformVec` covers this.
    wanted: Vector,
    /// Up to here the other workers of the site have been asked, or have asked themselves.
    asked: Vector,
    /// Whether what is wanted may be known here alone: other sites are asked without delay.
    afar: bool,
    /// When workers of other sites were last asked, or the wait for what they send unasked began.
    afar_at: Option<Monotonic>,
    /// When this worker was last asked.
    pub(crate) asked_at: Option<Monotonic>,
    /// The `knownVec` that this worker last told its site.
    pub(crate) told: Vector,
    /// Whether a tick should come at once.
    at_once: bool,
    /// The ticks that may still come at once in this interval, and when it began.
    left: u8,
    since: Monotonic,
    /// Updates stored since the last tick.
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
            told: zero,
            at_once: false,
            left: AT_ONCE,
            since: Monotonic(0),
            stored: 0,
        }
    }

    /// An update of this worker, or a time that it has given to one.
    pub(crate) fn want_stored(&mut self, origin: impl Into<Origin>, ts: Timestamp) {
        self.wanted.raise(origin, ts);
        self.stored += 1;
    }

    /// Something waits until `uniformVec` covers this. Returns whether that is news.
    pub(crate) fn want(&mut self, vec: &Vector) -> bool {
        let news = !self.wanted.covers(vec);
        self.wanted.join(vec);
        news
    }

    /// Bounds what is wanted by a time: nobody can be asked for what is to come, and a token may
    /// name any time. Those who wait for more do so with regular ticks.
    pub(crate) fn bound(&mut self, latest: Timestamp) {
        for vec in [&mut self.wanted, &mut self.asked] {
            for origin in Origin::all(vec.entries().len()) {
                vec[origin] = vec[origin].min(latest);
            }
        }
    }

    /// A tick should come at once.
    pub(crate) fn hurry(&mut self) {
        self.at_once = true;
    }

    /// A vector has grown: a tick should come at once if that brings what is wanted.
    pub(crate) fn note_progress(&mut self, before: &Vector, after: &Vector) {
        if self.is_served(before, after) {
            self.hurry();
        }
    }

    /// Whether an entry that was below what is wanted has grown.
    pub(crate) fn is_served(&self, before: &Vector, after: &Vector) -> bool {
        Origin::all(self.wanted.entries().len())
            .any(|origin| before[origin] < self.wanted[origin] && before[origin] < after[origin])
    }

    /// Whether the entry of one origin is below what is wanted.
    pub(crate) fn lacks(&self, origin: impl Into<Origin>, known: Timestamp) -> bool {
        known < self.wanted[origin.into()]
    }

    /// Whether a vector does not cover what is wanted.
    pub(crate) fn exceeds(&self, vec: &Vector) -> bool {
        !vec.covers(&self.wanted)
    }

    /// When the tick that should come at once may come; `None` if none should.
    pub(crate) fn deadline(&self, tick: Duration) -> Option<Monotonic> {
        let free = self.left > 0 && self.stored <= FEW;
        self.at_once.then(|| if free { self.since } else { self.since.after(tick) })
    }

    /// A tick has come.
    pub(crate) fn on_tick(&mut self, now: Monotonic, tick: Duration) {
        if now.since(self.since) >= tick {
            (self.since, self.left) = (now, AT_ONCE);
        } else {
            self.left = self.left.saturating_sub(1);
        }
        (self.at_once, self.stored) = (false, 0);
    }

    /// Nothing has happened for long: what did not come by now comes when its site is there again.
    pub(crate) fn give_up(&mut self) {
        let zero = Vector::zero(self.wanted.entries().len());
        (self.wanted, self.asked) = (zero, zero);
    }
}

impl Replica {
    /// Somebody waits until snapshots of this site cover `vec`: asks the others of the site at
    /// once.
    pub(crate) fn wait_for(&mut self, vec: &Vector) {
        if self.demand.want(vec) && !self.worker.dissemination.view.uniform_vec.covers(vec) {
            self.demand.hurry();
        }
    }

    /// A read waits until everything strong up to `strong` is here.
    pub(crate) fn wait_for_strong(&mut self, strong: Timestamp) {
        let nothing = Vector::zero(self.worker.config.topology.sites());
        self.wait_for(&nothing.with(Origin::Strong, strong));
    }

    /// A prepared transaction is decided, which may have held `knownVec` below what is wanted.
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

    /// As [`Self::wait_for`], for a past from elsewhere, which other sites may not know to be
    /// waited for.
    pub(crate) fn wait_for_past(&mut self, past: &Vector) {
        self.wait_for(past);
        self.demand.afar = true;
    }

    /// Asks for what is wanted and was not asked for: the other workers of this site, which are
    /// told of this one's clocks, so that theirs do not hold it back.
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

    /// Asks the siblings at other sites whose part of what is wanted has not come: it may be lost,
    /// or they do not know that it is wanted.
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
            // Of strong history a leader tells as soon as anything was decided, which takes a round
            // trip.
            if self.demand.afar
                && let Some(leader) = self.strong_leader(partition.id)
                && self.demand.lacks(Origin::Strong, partition.known_vec.strong)
            {
                asked.insert(self.worker.config.topology.owner(leader, partition.id));
            }
        }
        asked.remove(&self.worker.config.address);
        // Times of this site are no news to others.
        let (upto, none) = (self.demand.wanted, Timestamp::ZERO);
        for to in asked {
            let message = Message::Wanted { upto, clock: none, strong_clock: none, afar: false };
            self.worker.send(to, message);
        }
    }

    /// Another worker waits for the progress of this one.
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
        // A sibling asks for what has not come: told here or not, it is sent once more.
        if from.site != self.worker.me || afar || !self.demand.told.covers(upto) {
            self.demand.hurry();
        }
        if afar {
            self.demand.afar_at = None;
        }
    }

    /// Whether this worker has been asked within this time.
    pub(crate) fn was_asked(&self, now: Now, within: Duration) -> bool {
        let recent = |at: Monotonic| now.monotonic.since(at) < within;
        self.demand.asked_at.is_some_and(recent)
    }

    /// At a leader: shows strong history as complete up to what is wanted, if nothing can come
    /// before.
    pub(crate) fn complete_on_demand(&mut self, now: Now) {
        let lacks = |strong: Timestamp| self.demand.lacks(Origin::Strong, strong);
        if self.worker.partitions.iter().any(|partition| lacks(partition.known_vec.strong)) {
            self.certifying(now, |replica| replica.strong.service.complete(now));
        }
    }
}
