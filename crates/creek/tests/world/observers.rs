//! Clients that wait: for operations of others, at any site, and for what a site has shown.

use std::collections::BTreeSet;

use solera_creek::{Command, Level, OperationId, Past, Response as Reply};
use solera_machine::{Input, RequestId};

use super::World;
use super::history::{Claimed, Issued};
use super::procedures::{Operation, Response};

/// The first number of observers' requests.
const REQUESTS: u64 = 1 << 40;
/// The session of clients that invoke one operation each.
pub(crate) const GUEST: usize = usize::MAX;

/// Event for which an observer waits.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    Await(OperationId),
    Follow(OperationId, Option<Response>),
    Attach(Past),
    Barrier(Past),
}

#[derive(Debug)]
pub(crate) struct Observer {
    site: usize,
    wait: Wait,
    /// When it gives up.
    until: u64,
}

/// Returns whether a request is one of an observer.
pub(crate) fn is_observer(request: RequestId) -> bool {
    request.0 >= REQUESTS
}

impl World {
    /// Has observers begin to wait and give up.
    pub(crate) fn observe(&mut self) {
        if !self.observes {
            return;
        }
        let tired = |observer: &Observer| observer.until <= self.now;
        let tired = self.observers.iter().filter(|(_, it)| tired(it)).map(|(id, _)| *id);
        for request in tired.collect::<Vec<_>>() {
            if let Some(observer) = self.observers.remove(&request) {
                self.nodes[observer.site].handle(self.now, Input::Cancel { request });
            }
        }
        let site = self.watch.index(self.nodes.len());
        if !self.serves(site) || !self.watch.one_in(15) {
            return;
        }
        let recent = self.history.invoked.len().min(20);
        let mut past = self.pasts[self.watch.index(self.nodes.len())].clone();
        if self.watch.one_in(3) {
            past.join(&self.pasts[self.watch.index(self.nodes.len())]);
        }
        let wait = match self.watch.below(5) {
            0 | 1 if recent > 0 => {
                let back = 1 + self.watch.index(recent);
                let id = self.history.invoked[self.history.invoked.len() - back];
                match self.watch.one_in(2) {
                    true => Wait::Await(id),
                    false => Wait::Follow(id, None),
                }
            }
            2 => Wait::Barrier(past),
            _ => Wait::Attach(past),
        };
        self.wait(site, wait);
    }

    fn wait(&mut self, site: usize, wait: Wait) {
        let request = RequestId(REQUESTS + self.observed);
        self.observed += 1;
        let until = self.now + self.watch.below(1_500);
        let command = match wait.clone() {
            Wait::Await(id) => Command::Await { id },
            Wait::Follow(id, seen) => Command::Follow { id, seen },
            Wait::Attach(past) => Command::Attach { past },
            Wait::Barrier(past) => Command::Barrier { past },
        };
        self.observers.insert(request, Observer { site, wait, until });
        self.nodes[site].handle(self.now, Input::Client { request, command });
    }

    /// Notes a reply to an observer. Hosts drop replies to cancelled requests.
    pub(crate) fn show(&mut self, request: RequestId, reply: Reply<Response>, last: bool) {
        let Some(Observer { site, wait, .. }) = self.observers.remove(&request) else { return };
        let mut is_right = last;
        match (wait, reply) {
            (
                Wait::Await(awaited) | Wait::Follow(awaited, _),
                Reply::Stable { id, position, response },
            ) => {
                is_right &= id == awaited;
                self.history.stable.push((id, position, response));
            }
            (Wait::Await(awaited) | Wait::Follow(awaited, _), Reply::Forgotten { id }) => {
                // Operations without effect have no response; all others are kept.
                is_right &= id == awaited && self.history.ids.get(&id) == Some(&None);
            }
            (Wait::Await(awaited) | Wait::Follow(awaited, _), Reply::Lost { id }) => {
                is_right &= id == awaited;
                self.history.lost.insert(id);
            }
            (Wait::Attach(past) | Wait::Barrier(past), Reply::Lost { id }) => {
                is_right &= past.lasts().any(|last| last == id);
                self.history.lost.insert(id);
            }
            (Wait::Follow(id, seen), Reply::Revised(tentative)) => {
                is_right &= tentative.id == Some(id) && seen.as_ref() != Some(&tentative.response);
                let claimed = Claimed {
                    response: tentative.response.clone(),
                    claim: tentative.claim.unwrap(),
                };
                match self.history.ids.get(&id).copied().flatten() {
                    Some(request) => self.history.revised.push((request, claimed)),
                    None => is_right = false,
                }
                if self.network.is_faulty {
                    self.wait(site, Wait::Follow(id, Some(tentative.response)));
                }
            }
            (Wait::Attach(past), Reply::Reached) => self.visit(site, past),
            (Wait::Barrier(past), Reply::Reached) => {
                let slot = self.slots[site];
                self.history.barriers.push((slot, past, self.history.counts[slot]));
            }
            _ => is_right = false,
        }
        if !is_right {
            self.history.violations.push(format!("site {site}: a bad reply to {request:?}"));
        }
    }

    /// Invokes an operation whose reply must show a past.
    fn visit(&mut self, site: usize, past: Past) {
        if !self.serves(site) || !self.network.is_faulty {
            return;
        }
        let strong = self.watch.one_in(3);
        let operation = Operation::random(&mut self.watch);
        let request = RequestId(self.history.requests.len() as u64 + 1);
        let mut issued = Issued::new(self.slots[site], GUEST, operation.clone(), strong);
        issued.past = past;
        self.history.invoke(request, issued);
        let level = if strong { Level::Strong } else { Level::Weak };
        let command = Command::Invoke { operation, level, track: false };
        self.nodes[site].handle(self.now, Input::Client { request, command });
    }

    /// Forgets the observers of a site whose process has failed.
    pub(crate) fn lose_observers(&mut self, site: usize) {
        self.observers.retain(|_, observer| observer.site != site);
    }

    /// Returns the observers that wait although everything for which they wait is final.
    pub(crate) fn waiting_observers(&self) -> usize {
        if self.observers.is_empty() {
            return 0;
        }
        let finals: BTreeSet<OperationId> =
            self.history.finals.values().map(|(id, _)| *id).collect();
        // Clients learn that something is lost, too.
        let is_over =
            |id: OperationId| finals.contains(&id) || self.has_left(id.site.index(), id.run >> 32);
        let is_answered = |observer: &&Observer| match &observer.wait {
            Wait::Await(id) | Wait::Follow(id, _) => is_over(*id),
            Wait::Attach(past) | Wait::Barrier(past) => past.lasts().all(is_over),
        };
        let lives = |observer: &&Observer| self.living().any(|(site, _)| site == observer.site);
        self.observers.values().filter(lives).filter(is_answered).count()
    }
}
