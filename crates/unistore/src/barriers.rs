//! UNIFORM_BARRIER and ATTACH (Alg. 1 l. 49–52, §5.6), with an end when waiting is in vain.

use std::time::Duration;

use solera_machine::Now;
use solera_time::{Monotonic, SiteId, Timestamp, Vector};

use crate::command::{CommandError, RequestId, Response};
use crate::replica::Replica;

/// Clients that wait for `uniformVec` to reach their pasts.
#[derive(Debug, Default)]
pub(crate) struct Barriers {
    waiting: Vec<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: RequestId,
    kind: Kind,
    past: Vector,
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

impl Replica {
    /// UNIFORM_BARRIER (UniStore Alg. 1 l. 49–50).
    pub(crate) fn barrier(
        &mut self,
        now: Now,
        request: RequestId,
        past: Vector,
        timeout: Option<Duration>,
    ) {
        self.wait(now, request, Kind::Barrier, past, timeout);
    }

    /// ATTACH (UniStore Alg. 1 l. 51–52).
    pub(crate) fn attach(
        &mut self,
        now: Now,
        request: RequestId,
        past: Vector,
        timeout: Option<Duration>,
    ) {
        self.wait(now, request, Kind::Attach, past, timeout);
    }

    fn wait(
        &mut self,
        now: Now,
        request: RequestId,
        kind: Kind,
        past: Vector,
        timeout: Option<Duration>,
    ) {
        let until = timeout.map(|timeout| now.monotonic.after(timeout));
        self.be_active(now);
        let waiting = Waiting { request, kind, past, since: now.monotonic, until };
        if let Some(response) = self.outcome_of(now, &waiting) {
            self.reply(request, response);
        } else {
            match kind {
                Kind::Barrier => self.wait_for(&past),
                // It comes from outside: what this site has done itself is here, or a time yet to come.
                Kind::Attach => self.wait_for_past(&past.with(self.me, Timestamp::ZERO)),
            }
            self.barriers.waiting.push(waiting);
        }
    }

    /// Answers those whose wait is over.
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
            self.reply(request, response);
        }
    }

    fn outcome_of(&self, now: Now, waiting: &Waiting) -> Option<Response> {
        let past = &waiting.past;
        if waiting.kind == Kind::Attach
            && let Some(gone) = self.gone(past)
        {
            return Some(Response::Failed(gone));
        }
        if waiting.kind == Kind::Barrier
            && let Err(too_few) = self.status().has_enough_sites()
        {
            return Some(Response::Failed(too_few));
        }
        let reached = self.reached(waiting.kind);
        let missing = SiteId::all(self.config.topology.sites())
            .find(|site| past[*site] > reached[*site])
            .or_else(|| (past.strong > reached.strong).then_some(SiteId::STRONG));
        let Some(site) = missing else {
            return Some(match waiting.kind {
                Kind::Barrier => Response::Uniform,
                Kind::Attach => Response::Attached,
            });
        };
        if let Some(lost) = self.lost(now, waiting) {
            return Some(Response::Failed(lost));
        }
        if waiting.until.is_some_and(|until| now.monotonic >= until) {
            let behind = past[site].ahead_of(reached[site]);
            return Some(Response::Failed(CommandError::TimedOut { site, behind }));
        }
        None
    }

    /// Whether snapshots of this site hold all of a past that was taken at another site.
    pub(crate) fn holds(&self, past: &Vector) -> bool {
        self.reached(Kind::Attach).covers(past)
    }

    /// What a past must be within for a wait to end.
    fn reached(&self, kind: Kind) -> Vector {
        let uniform_vec = self.dissemination.view.uniform_vec;
        match kind {
            // Remote transactions were uniform when they were seen (§5.6).
            Kind::Barrier => {
                Vector::top(self.config.topology.sites()).with(self.me, uniform_vec[self.me])
            }
            // This site's own transactions are here. But the past comes from outside: one from the
            // future of this site was never taken here, and must not move its clocks.
            Kind::Attach => {
                uniform_vec.with(self.me, self.clock.last().max(self.dissemination.view.clock))
            }
        }
    }

    /// A past that contains transactions that were given up with their site's life.
    fn gone(&self, past: &Vector) -> Option<CommandError> {
        let members = &self.dissemination.members;
        SiteId::all(self.config.topology.sites()).find_map(|site| {
            let gap = members.gap_of(site, past[site])?;
            Some(CommandError::Lost { site, missing: past[site].ahead_of(gap.cut) })
        })
    }

    /// A past that contains transactions of a failed site which no reachable site stores: they are
    /// gone with it. Waits long enough for forwarding to have brought up what there is: a site that
    /// is suspected since long may be alive, and others may just be getting what the past contains.
    fn lost(&self, now: Now, waiting: &Waiting) -> Option<CommandError> {
        let patient = now.monotonic.since(waiting.since) >= self.config.timing.lost_after;
        if waiting.kind == Kind::Barrier || !patient {
            return None;
        }
        let (past, reachable) = (&waiting.past, &self.dissemination.view.reachable_vec);
        SiteId::all(self.config.topology.sites())
            .filter(|site| *site != self.me && past[*site] > reachable[*site])
            .find(|site| {
                self.detector
                    .suspected_for(*site, now.monotonic)
                    .is_some_and(|silent| silent >= self.config.timing.lost_after)
            })
            .map(|site| CommandError::Lost { site, missing: past[site].ahead_of(reachable[site]) })
    }
}
