//! Requests that futures send to replicas, and the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use solera_machine::{Address, RequestId};
use solera_mixt::executor::Clock;
use solera_mixt::store::{BoxFuture, Horizon};
use solera_time::SiteId;
use solera_unistore::{Command, Response};

use crate::queue::MS;
use crate::random::Random;

/// Time without an answer after which a session treats its connection as broken, in nanoseconds.
const PATIENCE: u64 = 1_500 * MS;

/// State that the world and the futures of all hosts share. Copies share their contents.
#[derive(Clone)]
pub(super) struct Exchange(Arc<Mutex<Inner>>);

pub(super) struct Inner {
    /// The world's time, in nanoseconds.
    pub(super) now: u64,
    pub(super) random: Random,
    requests: u64,
    outbox: Vec<(Address, RequestId, Command)>,
    waiting: BTreeMap<RequestId, Slot>,
    /// Workers that answer clients.
    pub(super) answering: BTreeSet<Address>,
    /// Number of times that each worker has stopped. Each stop ends the worker's connections.
    stops: BTreeMap<Address, u64>,
    /// Time up to which commits are visible, as each site reports it.
    pub(super) horizons: BTreeMap<SiteId, Horizon>,
    /// Whether there are answers that no future has received.
    news: bool,
}

/// State of a request.
enum Slot {
    Asked { worker: Address, until: u64 },
    Answered(Box<Response>),
    Broken,
}

impl Exchange {
    pub(super) fn new(seed: u64) -> Exchange {
        Exchange(Arc::new(Mutex::new(Inner {
            now: 0,
            random: Random::new(seed.wrapping_mul(7_919).wrapping_add(13)),
            requests: 0,
            outbox: Vec::new(),
            waiting: BTreeMap::new(),
            answering: BTreeSet::new(),
            stops: BTreeMap::new(),
            horizons: BTreeMap::new(),
            news: false,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("the world has one thread")
    }

    /// Returns a number in `low..high`.
    pub(super) fn within(&self, low: u64, high: u64) -> u64 {
        self.lock().random.within(low, high)
    }

    pub(super) fn below(&self, limit: usize) -> usize {
        self.lock().random.below(limit)
    }

    /// Returns a worker of a site that answers, and how often it has stopped before.
    pub(super) fn some_worker(&self, site: SiteId) -> Option<(Address, u64)> {
        let mut exchange = self.lock();
        let of_site: Vec<_> =
            exchange.answering.iter().filter(|worker| worker.site == site).copied().collect();
        let worker = *of_site.get(exchange.random.below(of_site.len()))?;
        Some((worker, exchange.stops(worker)))
    }

    /// Returns whether a connection that was opened after this number of stops of its worker is
    /// still open.
    pub(super) fn is_open(&self, (worker, stops): (Address, u64)) -> bool {
        let exchange = self.lock();
        exchange.answering.contains(&worker) && exchange.stops(worker) == stops
    }

    /// Sends a command to a worker and returns the answer, or `None` if the connection broke
    /// before.
    pub(super) async fn ask(&self, worker: Address, command: Command) -> Option<Response> {
        let request = self.lock().send(worker, command);
        std::future::poll_fn(|_| self.lock().look(request)).await
    }

    /// Sends a command without an answer to a worker.
    pub(super) fn send_only(&self, worker: Address, command: Command) {
        let mut exchange = self.lock();
        exchange.requests += 1;
        let request = RequestId(exchange.requests);
        exchange.outbox.push((worker, request, command));
    }
}

impl Inner {
    fn stops(&self, worker: Address) -> u64 {
        self.stops.get(&worker).copied().unwrap_or(0)
    }

    fn send(&mut self, worker: Address, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let until = self.now + PATIENCE;
        self.waiting.insert(request, Slot::Asked { worker, until });
        self.outbox.push((worker, request, command));
        request
    }

    fn look(&mut self, request: RequestId) -> Poll<Option<Response>> {
        match self.waiting.remove(&request) {
            Some(Slot::Answered(response)) => Poll::Ready(Some(*response)),
            Some(Slot::Asked { worker, until }) if self.now < until => {
                self.waiting.insert(request, Slot::Asked { worker, until });
                Poll::Pending
            }
            Some(Slot::Asked { .. } | Slot::Broken) | None => Poll::Ready(None),
        }
    }

    /// Returns the commands that were sent after the last call.
    pub(super) fn take_asked(&mut self) -> Vec<(Address, RequestId, Command)> {
        std::mem::take(&mut self.outbox)
    }

    /// Returns whether an event after the last call may let some future continue.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    pub(super) fn answer(&mut self, request: RequestId, response: Response) {
        if let Some(slot) = self.waiting.get_mut(&request) {
            *slot = Slot::Answered(Box::new(response));
            self.news = true;
        }
    }

    /// Records that a worker does not answer a request.
    pub(super) fn break_off(&mut self, request: RequestId) {
        if let Some(slot @ Slot::Asked { .. }) = self.waiting.get_mut(&request) {
            *slot = Slot::Broken;
            self.news = true;
        }
    }

    /// Records that a worker has stopped: all connections with it break.
    pub(super) fn stop(&mut self, stopped: Address) {
        *self.stops.entry(stopped).or_default() += 1;
        self.answering.remove(&stopped);
        for slot in self.waiting.values_mut() {
            if matches!(slot, Slot::Asked { worker, .. } if *worker == stopped) {
                *slot = Slot::Broken;
            }
        }
        self.news = true;
    }
}

/// The clock of one host.
pub(super) struct HostClock {
    pub(super) exchange: Exchange,
    /// Time of the clock when the world begins.
    pub(super) epoch_ms: u64,
}

impl Clock for HostClock {
    fn now_ms(&self) -> u64 {
        self.epoch_ms + self.exchange.lock().now / MS
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        let until = self.exchange.lock().now + ms * MS;
        let is_over = move || self.exchange.lock().now >= until;
        Box::pin(std::future::poll_fn(
            move |_| {
                if is_over() { Poll::Ready(()) } else { Poll::Pending }
            },
        ))
    }
}
