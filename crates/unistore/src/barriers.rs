//! UNIFORM_BARRIER and ATTACH (Alg. 1 l. 49–52, §5.6), with an end when waiting is in vain.

use std::time::Duration;

use solera_machine::Now;
use solera_time::{Monotonic, SiteId, Vector};

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
        let waiting = Waiting { request, kind, past, until };
        if let Some(response) = self.outcome_of(now, &waiting) {
            self.reply(request, response);
        } else {
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
        let uniform_vec = &self.dissemination.view.uniform_vec;
        let missing = SiteId::all(uniform_vec.sites()).find(|site| {
            let matters = match waiting.kind {
                Kind::Barrier => *site == self.me,
                Kind::Attach => *site != self.me,
            };
            matters && waiting.past[*site] > uniform_vec[*site]
        });
        let Some(site) = missing else {
            return Some(match waiting.kind {
                Kind::Barrier => Response::Uniform,
                Kind::Attach => Response::Attached,
            });
        };
        if let Some(missing) = self.lost(now, &waiting.past) {
            return Some(Response::Failed(missing));
        }
        if waiting.until.is_some_and(|until| now.monotonic >= until) {
            let behind = waiting.past[site].ahead_of(uniform_vec[site]);
            return Some(Response::Failed(CommandError::TimedOut { site, behind }));
        }
        None
    }

    /// A past that contains transactions of a failed site which no reachable site stores: they are
    /// gone with it. Waits long enough for forwarding to have brought up what there is.
    fn lost(&self, now: Now, past: &Vector) -> Option<CommandError> {
        let reachable = &self.dissemination.view.reachable_vec;
        SiteId::all(past.sites())
            .filter(|site| *site != self.me && past[*site] > reachable[*site])
            .find(|site| {
                self.detector
                    .suspected_for(*site, now.monotonic)
                    .is_some_and(|silent| silent >= self.config.timing.lost_after)
            })
            .map(|site| CommandError::Lost { site, missing: past[site].ahead_of(reachable[site]) })
    }
}
