//! Sessions of clients, each at one site, and the faults that the world draws.

use solera_creek::Level;
use solera_machine::{Input, RequestId};

use super::procedures::{Operation, Response};
use super::{World, history::Issued};

pub(crate) type Command = solera_creek::Command<Operation, Response>;

pub(crate) struct Session {
    site: usize,
    /// The request whose reply the session awaits.
    waits: Option<RequestId>,
    next_at: u64,
    /// Whether it awaits the stable replies to strong operations.
    awaits_stable: bool,
    /// Whether its site has failed, and has another generation.
    is_closed: bool,
}

impl World {
    pub(crate) fn open_sessions(&mut self) {
        (0..self.nodes.len()).for_each(|site| self.open_sessions_at(site));
    }

    pub(crate) fn open_sessions_at(&mut self, site: usize) {
        for number in 0..2 + self.random.index(3) {
            let awaits_stable = number == 0 || self.random.one_in(2);
            let (waits, next_at, is_closed) = (None, 0, false);
            self.sessions.push(Session { site, waits, next_at, awaits_stable, is_closed });
        }
    }

    /// Ends the sessions of a site that has failed for good.
    pub(crate) fn close_sessions(&mut self, site: usize) {
        let of_site = self.sessions.iter_mut().filter(|session| session.site == site);
        of_site.for_each(|session| session.is_closed = true);
    }

    /// Has each session that waits for nothing invoke its next operation.
    pub(crate) fn invoke(&mut self) {
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            let site = session.site;
            let is_busy = session.waits.is_some() || self.now < session.next_at;
            if is_busy || session.is_closed || !self.nodes[site].is_up {
                continue;
            }
            let strong = self.random.chance(self.strong_percent);
            let track = self.random.one_in(4);
            let operation = Operation::random(&mut self.random);
            let request = RequestId(self.history.requests.len() as u64 + 1);
            let issued = Issued::new(self.slots[site], at, operation.clone(), strong);
            self.history.invoke(request, issued);
            self.sessions[at].waits = Some(request);
            let level = if strong { Level::Strong } else { Level::Weak };
            let command = Command::Invoke { operation, level, track };
            self.nodes[site].handle(self.now, Input::Client { request, command });
            if self.random.one_in(100) {
                self.nodes[site].handle(self.now, Input::Cancel { request });
                self.history.cancel(request);
                self.free(request);
            }
        }
    }

    /// Lets the session of a request go on.
    fn free(&mut self, request: RequestId) {
        let session = self.history.requests[&request].session;
        // Several sessions invoke at the same time now and then, so that executions queue up.
        let pause = if self.random.one_in(3) { 1 } else { 1 + self.random.below(self.pause) };
        let Some(session) = self.sessions.get_mut(session) else { return };
        if session.waits == Some(request) {
            session.waits = None;
            session.next_at = self.now + pause;
        }
    }

    /// Notes a reply.
    pub(crate) fn replied(&mut self, request: RequestId, last: bool) {
        let issued = &self.history.requests[&request];
        let session = self.sessions.get(issued.session);
        if last || !issued.strong || session.is_some_and(|session| !session.awaits_stable) {
            self.free(request);
        }
    }

    /// Frees the sessions of a site whose process has failed.
    pub(crate) fn free_all(&mut self, site: usize) {
        for session in self.sessions.iter_mut().filter(|session| session.site == site) {
            session.waits = None;
        }
        self.lose_observers(site);
    }

    pub(crate) fn waiting_sessions(&self) -> usize {
        let lives = |session: &&Session| {
            !session.is_closed && self.living().any(|(site, _)| site == session.site)
        };
        self.sessions.iter().filter(lives).filter(|session| session.waits.is_some()).count()
    }

    /// Draws faults.
    pub(crate) fn fail(&mut self) {
        let sites = self.nodes.len();
        let site = self.random.index(sites);
        if self.random.one_in(400) {
            let other = (site + 1 + self.random.index(sites - 1)) % sites;
            let until = self.now + self.random.below(600);
            self.network.cut(site, other, until);
        }
        if self.random.one_in(900) {
            let until = self.now + self.random.below(1_000);
            let alone = 1 + self.random.index(sites);
            for a in 0..sites {
                for b in a + 1..sites {
                    if (a < alone) != (b < alone) {
                        self.network.cut(a, b, until);
                    }
                }
            }
        }
        if self.random.one_in(500) && self.nodes[site].is_up {
            let until = self.now + self.random.below(400);
            self.nodes[site].crash(until);
            self.free_all(site);
        }
        self.fail_during_changes(site);
        if self.random.one_in(300) {
            self.nodes[site].skew = self.random.below(10_000);
        }
        if self.dies_at == Some(self.now) {
            self.kill(self.doomed);
        }
    }
}
