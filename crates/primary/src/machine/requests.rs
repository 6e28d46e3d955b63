//! Clients' updates that wait for the home of their key.

use std::collections::BTreeMap;

use solera_data::Key;
use solera_machine::{Now, PartitionId, RequestId};
use solera_time::Monotonic;

use super::Primary;
use crate::command::{Done, Failure, Response, Update};
use crate::list::home_of;
use crate::message::{Answer, Body, Request};
use crate::record::Record;

/// Greatest number of updates that may wait at one worker.
const MAX_PENDING: usize = 4096;
/// Number of update numbers that one record reserves.
const NUMBERS: u64 = 1024;
/// Number of the lower bits of an update number. The generation is in the bits above.
const LIFE_SHIFT: u32 = 48;

/// A client's update that waits.
#[derive(Debug)]
struct Pending {
    request: RequestId,
    key: Key,
    update: Update,
    /// Whether the client has received the reply that its update is accepted, and the number that
    /// the home returned.
    accepted: bool,
    number: Option<i64>,
    sent: Monotonic,
    deadline: Monotonic,
}

/// Clients' updates that wait, by their numbers.
#[derive(Debug)]
pub(crate) struct Requests {
    next: u64,
    /// Numbers below this one are reserved in the journal.
    pub(crate) reserved: u64,
    pending: BTreeMap<u64, Pending>,
}

impl Requests {
    /// Creates an empty set of requests. A later generation of the site has greater numbers,
    /// because other sites remember the finished updates of an earlier one.
    pub(crate) fn new(generation: u32, first: u64) -> Requests {
        let first = u64::from(generation) << LIFE_SHIFT | (first & ((1 << LIFE_SHIFT) - 1));
        Requests { next: first, reserved: first, pending: BTreeMap::new() }
    }

    /// Skips all numbers below this one.
    pub(crate) fn skip_to(&mut self, reserved: u64) {
        self.next = self.next.max(reserved);
        self.reserved = self.reserved.max(reserved);
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Forgets the update of a request.
    pub(crate) fn cancel(&mut self, request: RequestId) {
        self.pending.retain(|_, pending| pending.request != request);
    }

    fn oldest(&self) -> u64 {
        self.pending.keys().next().copied().unwrap_or(self.next)
    }
}

impl Primary {
    /// Submits a client's update.
    pub(crate) fn submit(&mut self, now: Now, request: RequestId, key: Key, update: Update) {
        let id = PartitionId::of(&key, self.config.topology.partitions);
        if self.index_of(id).is_none() {
            return self.reply(request, Response::Failed(Failure::OtherWorker));
        }
        if self.requests.len() >= MAX_PENDING {
            return self.reply(request, Response::Failed(Failure::Busy));
        }
        let number = self.requests.next;
        self.requests.next += 1;
        if number >= self.requests.reserved {
            let reserved = number + NUMBERS;
            self.requests.reserved = reserved;
            self.record(|| Record::Numbers(reserved));
        }
        let deadline = now.monotonic.after(self.config.timing.timeout);
        let sent = now.monotonic;
        let pending =
            Pending { request, key, update, accepted: false, number: None, sent, deadline };
        self.requests.pending.insert(number, pending);
        self.send_to_home(now, number);
    }

    /// Sends an update to its home.
    fn send_to_home(&mut self, now: Now, number: u64) {
        let oldest = self.requests.oldest();
        let Some(pending) = self.requests.pending.get_mut(&number) else { return };
        pending.sent = now.monotonic;
        let (key, update) = (pending.key.clone(), pending.update.clone());
        let id = PartitionId::of(&key, self.config.topology.partitions);
        let request = Request { number, oldest, key, update };
        let me = self.config.address;
        match home_of(&self.members, id) {
            Some(home) if home == me.site => match (self.order(me, request), self.index_of(id)) {
                (Some(Err(failure)), _) => self.refuse(number, failure),
                (Some(Ok(_)), Some(index)) => self.push(now, index),
                _ => {}
            },
            Some(home) => self.send(home, id, Body::Forward(vec![request])),
            None => {}
        }
    }

    /// Sends updates again whose answer or entry has not arrived, and fails those that have waited
    /// too long.
    pub(crate) fn retry_requests(&mut self, now: Now) {
        let (mut again, mut over) = (Vec::new(), Vec::new());
        for (number, pending) in &self.requests.pending {
            if now.monotonic >= pending.deadline {
                over.push(*number);
            } else if now.monotonic.since(pending.sent) >= self.config.timing.retry {
                again.push(*number);
            }
        }
        for number in over {
            self.refuse(number, Failure::TimedOut);
        }
        for number in again {
            self.send_to_home(now, number);
        }
    }

    /// Handles a home's answers.
    pub(crate) fn on_answers(&mut self, answers: Vec<Answer>) {
        for Answer { number, result } in answers {
            match result {
                Ok(done) => self.accept(number, done),
                Err(failure) => self.refuse(number, failure),
            }
        }
    }

    fn accept(&mut self, number: u64, done: Done) {
        let Some(pending) = self.requests.pending.get_mut(&number) else { return };
        pending.number = pending.number.or(done.number);
        let done = Done { number: pending.number, ..done };
        if !std::mem::replace(&mut pending.accepted, true) {
            let request = pending.request;
            self.reply(request, Response::Accepted(done));
        }
    }

    fn refuse(&mut self, number: u64, failure: Failure) {
        if let Some(pending) = self.requests.pending.remove(&number) {
            self.reply(pending.request, Response::Failed(failure));
        }
    }

    /// Answers the client whose update was applied here.
    pub(crate) fn note_applied(&mut self, number: u64, done: Done) {
        if let Some(pending) = self.requests.pending.remove(&number) {
            let done = Done { number: done.number.or(pending.number), ..done };
            self.reply(pending.request, Response::Applied(done));
        }
    }
}
