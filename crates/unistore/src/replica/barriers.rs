//! UNIFORM_BARRIER and ATTACH (Alg. 1 l. 49–52, §5.6), with an error when waiting cannot succeed.

use std::time::Duration;

use solera_machine::{Now, RequestId};
use solera_time::{Monotonic, Origin, SiteId, Timestamp, Vector};

use crate::command::{CommandError, Response};
use crate::config::Rule;
use crate::pasts::Pasts;
use crate::replica::Replica;

/// Clients that wait for `uniformVec` to reach their pasts.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    waiting: Vec<Waiting>,
}

/// A wait for `uniformVec`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    request: RequestId,
    kind: Kind,
    pasts: Pasts,
    since: Monotonic,
    until: Option<Monotonic>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Barrier,
    Attach,
}

impl Barriers {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Waiting {
    /// Waits as ATTACH does, without limit.
    pub(super) fn attach(request: RequestId, past: Vector, since: Monotonic) -> Waiting {
        let (kind, pasts, until) = (Kind::Attach, Pasts::causal(past), None);
        Waiting { request, kind, pasts, since, until }
    }

    /// Returns the causal past that it waits for.
    pub(super) fn past(&self) -> Vector {
        self.pasts.causal
    }
}

impl Replica {
    /// UNIFORM_BARRIER (UniStore Alg. 1 l. 49–50), on the durability past
    /// (`docs/decisions/0023-durability-past.md`).
    pub(crate) fn barrier(
        &mut self,
        now: Now,
        request: RequestId,
        pasts: Pasts,
        timeout: Option<Duration>,
    ) {
        let pasts = self.weakened(pasts);
        self.wait(now, request, Kind::Barrier, pasts, timeout);
    }

    /// ATTACH (UniStore Alg. 1 l. 51–52), on the causal past. It does not wait for eventual writes.
    /// It fails if some eventual writes are known to be lost, because later transactions of the
    /// same site would hide the loss.
    pub(crate) fn attach(
        &mut self,
        now: Now,
        request: RequestId,
        pasts: Pasts,
        timeout: Option<Duration>,
    ) {
        self.wait(now, request, Kind::Attach, pasts, timeout);
    }

    fn wait(
        &mut self,
        now: Now,
        request: RequestId,
        kind: Kind,
        pasts: Pasts,
        timeout: Option<Duration>,
    ) {
        let until = timeout.map(|timeout| now.monotonic.after(timeout));
        self.worker.note_activity(now);
        let waiting = Waiting { request, kind, pasts, since: now.monotonic, until };
        if let Some(response) = self.outcome_of(now, &waiting) {
            self.worker.reply(request, response);
        } else {
            let past = self.with_snapshots(kind, &waiting.pasts);
            match kind {
                Kind::Barrier => self.wait_for(&past),
                // The past comes from a client. This site's own entry needs no request: its
                // transactions are stored here, or the time is in the future.
                Kind::Attach => self.wait_for_past(&past.with(self.worker.me, Timestamp::ZERO)),
            }
            self.barriers.waiting.push(waiting);
        }
    }

    /// Answers the requests whose wait has ended.
    pub(crate) fn check_barriers(&mut self, now: Now) {
        let mut over = Vec::new();
        let mut waiting = std::mem::take(&mut self.barriers.waiting);
        waiting.retain(|waiting| match self.outcome_of(now, waiting) {
            Some(response) => {
                over.push((waiting.request, response));
                false
            }
            None => true,
        });
        self.barriers.waiting = waiting;
        for (request, response) in over {
            self.worker.reply(request, response);
        }
    }

    pub(super) fn outcome_of(&self, now: Now, waiting: &Waiting) -> Option<Response> {
        if waiting.kind == Kind::Attach && !self.worker.config.keeps(Rule::AttachWaits) {
            return Some(Response::Attached);
        }
        let past = &self.awaited(waiting.kind, &waiting.pasts);
        if let Some(gone) = self.gone(past).or_else(|| self.gone(waiting.pasts.eventual())) {
            return Some(Response::Failed(gone));
        }
        if waiting.kind == Kind::Barrier
            && let Err(too_few) = self.status().has_enough_sites()
        {
            return Some(Response::Failed(too_few));
        }
        let (whole, reached) =
            (self.with_snapshots(waiting.kind, &waiting.pasts), self.reached(waiting.kind));
        let missing = Origin::all(self.worker.config.topology.sites())
            .find(|origin| whole[*origin] > reached[*origin]);
        let Some(origin) = missing else {
            return Some(match waiting.kind {
                Kind::Barrier => Response::Uniform,
                Kind::Attach => Response::Attached,
            });
        };
        if let Some(lost) = self.lost(now, past, waiting.since) {
            return Some(Response::Failed(lost));
        }
        if waiting.until.is_some_and(|until| now.monotonic >= until) {
            let behind = (reached[origin] > Timestamp::ZERO)
                .then(|| whole[origin].ahead_of(reached[origin]));
            return Some(Response::Failed(CommandError::TimedOut { origin, behind }));
        }
        None
    }

    /// Returns the sites with transactions in a session's durability past for which a barrier here
    /// would wait, or which it would report as lost.
    pub(crate) fn not_uniform(&self, pasts: &Pasts) -> Vec<SiteId> {
        let pasts = self.weakened(*pasts);
        let awaited = self.awaited(Kind::Barrier, &pasts);
        let (reached, members) = (self.reached(Kind::Barrier), &self.worker.dissemination.members);
        let gone = |site: SiteId, ts| members.gap_of(site, ts).is_some();
        // It is not known which eventual writes depend on the missing part of their snapshots.
        let shown = reached.covers(pasts.eventual_snap());
        let missing = |site: &SiteId| {
            awaited[*site] > reached[*site]
                || (!shown && pasts.eventual()[*site] > Timestamp::ZERO)
                || gone(*site, awaited[*site])
                || gone(*site, pasts.eventual()[*site])
        };
        SiteId::all(self.worker.config.topology.sites()).filter(missing).collect()
    }

    /// Returns the pasts without eventual writes, or without their snapshots, if tests have
    /// disabled the rule that barriers wait for them.
    fn weakened(&self, pasts: Pasts) -> Pasts {
        let causal = Pasts::causal(pasts.causal);
        if !self.worker.config.keeps(Rule::DurabilityPast) {
            causal
        } else if !self.worker.config.keeps(Rule::EventualSnapshots) {
            causal
                .with_eventual(pasts.eventual(), &Vector::zero(self.worker.config.topology.sites()))
        } else {
            pasts
        }
    }

    fn awaited(&self, kind: Kind, pasts: &Pasts) -> Vector {
        match kind {
            Kind::Barrier => pasts.to_be_uniform(self.worker.me),
            Kind::Attach => pasts.causal,
        }
    }

    /// Returns the vector that a request waits for. For a barrier, it includes the snapshots of
    /// eventual writes: other sites show these writes once they store everything in the snapshots.
    /// If a part of a snapshot is lost with its site, the write is not lost; removing the site
    /// makes it visible.
    fn with_snapshots(&self, kind: Kind, pasts: &Pasts) -> Vector {
        let mut whole = self.awaited(kind, pasts);
        if kind == Kind::Barrier {
            whole.join(pasts.eventual_snap());
        }
        whole
    }

    /// Returns whether snapshots of this site contain a whole past that was taken at another site.
    pub(crate) fn holds(&self, past: &Vector) -> bool {
        self.reached(Kind::Attach).covers(past)
    }

    /// Returns the vector that must cover a past for its wait to end.
    fn reached(&self, kind: Kind) -> Vector {
        let uniform_vec = self.worker.dissemination.view.uniform_vec;
        match kind {
            // Strong transactions are uniform when they commit (§6.3).
            Kind::Barrier => uniform_vec.with(Origin::Strong, Timestamp::MAX),
            // This site stores its own transactions. But the past comes from a client: if it
            // contains a time in this site's future, it was not taken here. Such a time must not
            // advance this site's clocks.
            Kind::Attach => uniform_vec.with(
                self.worker.me,
                self.worker.clock.last().max(self.worker.dissemination.view.clock),
            ),
        }
    }

    /// Returns an error if the past contains transactions that were given up with a generation of
    /// their site.
    fn gone(&self, past: &Vector) -> Option<CommandError> {
        let members = &self.worker.dissemination.members;
        SiteId::all(self.worker.config.topology.sites()).find_map(|site| {
            let gap = members.gap_of(site, past[site])?;
            Some(CommandError::Lost { site, missing: past[site].ahead_of(gap.cut) })
        })
    }

    /// Returns an error if the past contains transactions that are lost with a failed site, because
    /// no reachable site stores them. Waits long enough for forwarding to deliver transactions that
    /// other sites store: a site that has been suspected for long may be alive, and other sites may
    /// be receiving the missing transactions just now.
    fn lost(&self, now: Now, past: &Vector, since: Monotonic) -> Option<CommandError> {
        let patient = now.monotonic.since(since) >= self.worker.config.timing.lost_after;
        if !patient {
            return None;
        }
        let reachable = &self.worker.dissemination.view.reachable_vec;
        SiteId::all(self.worker.config.topology.sites())
            .filter(|site| *site != self.worker.me && past[*site] > reachable[*site])
            .find(|site| {
                self.worker
                    .detector
                    .suspected_for(*site, now.monotonic)
                    .is_some_and(|silent| silent >= self.worker.config.timing.lost_after)
            })
            .map(|site| CommandError::Lost { site, missing: past[site].ahead_of(reachable[site]) })
    }
}
