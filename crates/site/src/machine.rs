//! The machine of one worker.

use std::collections::BTreeSet;

use solera_machine::{Address, Machine, Now};
use solera_membership::Members;
use solera_time::{Monotonic, Physical, Timestamp};
use solera_unistore::{Config, Replica};

use crate::composed::{Command, Event, Input, Message, Output, Part, Response};

/// The machine of one worker: one machine for each protocol.
#[derive(Debug)]
pub struct Site {
    unistore: Replica,
}

/// Progress of a checkpoint of a [`Site`].
#[derive(Debug, Default)]
pub struct Checkpoint {
    unistore: solera_unistore::Checkpoint,
}

impl Site {
    /// Creates the machine of a worker that stores nothing yet. `seed` only spreads keys over hash tables.
    pub fn new(config: Config, seed: u64) -> Site {
        Site::of(Replica::new(config, seed))
    }

    pub(crate) fn of(unistore: Replica) -> Site {
        Site { unistore }
    }

    /// Returns the address of the worker.
    pub fn address(&self) -> Address {
        self.unistore.address()
    }

    /// Returns the machine of UniStore.
    pub fn unistore(&self) -> &Replica {
        &self.unistore
    }

    /// Returns the machine of UniStore for direct calls.
    pub fn unistore_mut(&mut self) -> &mut Replica {
        &mut self.unistore
    }

    /// Returns the list of sites as the worker knows it.
    pub fn members(&self) -> &Members {
        self.unistore.status().members()
    }

    /// Returns the greatest time that the worker has seen or sent.
    pub fn clock(&self) -> Timestamp {
        self.unistore.status().clock()
    }

    /// Returns whether the worker has the data that it serves. At a joining site it first receives them.
    pub fn serves(&self) -> bool {
        self.unistore.status().view().serving
    }

    /// See [`Replica::begin_run`].
    pub fn begin_run(&mut self, physical: Physical) -> (Timestamp, Timestamp) {
        self.unistore.begin_run(physical)
    }

    /// Sends as little as possible to these workers until the next call, because the links to them are full.
    pub fn hold_back(&mut self, full: Vec<Address>) {
        self.unistore.hold_back(full);
    }

    /// See [`Replica::take_lacking`].
    pub fn take_lacking(&mut self) -> BTreeSet<Address> {
        self.unistore.take_lacking()
    }
}

impl Machine for Site {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Part = Part;
    type Checkpoint = Checkpoint;

    #[inline]
    fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Message { from, life, message: Message::UniStore(message) } => {
                self.unistore.handle(now, solera_machine::Input::Message { from, life, message });
            }
            Input::Client { request, command: Command::UniStore(command) } => {
                self.unistore.handle(now, solera_machine::Input::Client { request, command });
            }
        }
    }

    fn on_deadline(&mut self, now: Now) {
        self.unistore.on_deadline(now);
    }

    #[inline]
    fn poll_output(&mut self) -> Option<Output> {
        self.unistore.poll_output().map(solera_machine::Output::widen)
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        self.unistore.next_deadline()
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        self.unistore.next_part(&mut checkpoint.unistore, keys).map(Part::UniStore)
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        Replica::is_complete(&checkpoint.unistore)
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        match part {
            Part::UniStore(part) => Replica::encode_part(part, bytes),
        }
    }
}
