//! The machine of one worker.

use std::collections::{BTreeSet, VecDeque};

use solera_machine::{Address, Machine, Now};
use solera_membership::{Change, MemberError, Members};
use solera_primary::Primary;
use solera_time::{Monotonic, Physical, SiteId, Timestamp};
use solera_unistore::Replica;

use crate::composed::{Command, Event, Input, Message, Output, Part, Response};

/// What a worker is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// For UniStore, which every worker runs.
    pub unistore: solera_unistore::Config,
    /// For `primary`, if the worker runs it.
    pub primary: Option<solera_primary::Config>,
}

/// The machine of one worker: one machine for each protocol.
///
/// UniStore comes first: it knows the list of sites, and the others learn it with each change. Outputs leave in the order in which
/// the protocols made them, so that records are durable before what another protocol says in consequence.
#[derive(Debug)]
pub struct Site {
    unistore: Replica,
    primary: Option<Primary>,
    /// What both have said until one of them was last given something.
    outputs: VecDeque<Output>,
}

/// Progress of a checkpoint of a [`Site`].
#[derive(Debug, Default)]
pub struct Checkpoint {
    unistore: solera_unistore::Checkpoint,
    primary: solera_primary::Checkpoint,
    complete: bool,
}

impl From<solera_unistore::Config> for Config {
    fn from(unistore: solera_unistore::Config) -> Config {
        Config { unistore, primary: None }
    }
}

impl Config {
    /// Lets the worker run `primary`, too.
    #[must_use]
    pub fn with_primary(mut self) -> Config {
        let unistore = &self.unistore;
        let usual = solera_primary::Config::new(unistore.address, unistore.topology.clone());
        self.primary = Some(solera_primary::Config {
            f: unistore.f,
            life: unistore.life,
            journal: unistore.journal,
            first_number: unistore.first_transaction,
            ..usual
        });
        self
    }

    /// Returns the list of sites with which the worker's life began.
    pub(crate) fn first_members(&self) -> Members {
        let Config { unistore: config, .. } = self;
        let (sites, me) = (config.topology.sites(), config.address.site);
        Members::at_start(sites, config.founders, me, config.life)
    }
}

impl Site {
    /// Creates the machine of a worker that stores nothing yet. `seed` only spreads keys over hash tables.
    pub fn new(config: impl Into<Config>, seed: u64) -> Site {
        let config = config.into();
        let members = config.first_members();
        let primary = config.primary.map(|primary| Primary::new(primary, &members));
        Site::of(Replica::new(config.unistore, seed), primary)
    }

    pub(crate) fn of(unistore: Replica, primary: Option<Primary>) -> Site {
        let mut site = Site { unistore, primary, outputs: VecDeque::new() };
        site.note_filled();
        site
    }

    /// Returns the address of the worker.
    pub fn address(&self) -> Address {
        self.unistore.address()
    }

    /// Returns the machine of UniStore.
    pub fn unistore(&self) -> &Replica {
        &self.unistore
    }

    /// Returns the machine of UniStore for direct calls. What [`change_members`](Self::change_members) does is no such call.
    pub fn unistore_mut(&mut self) -> &mut Replica {
        &mut self.unistore
    }

    /// Returns the machine of `primary`, if the worker runs it.
    pub fn primary(&self) -> Option<&Primary> {
        self.primary.as_ref()
    }

    /// Returns the list of sites as the worker knows it.
    pub fn members(&self) -> &Members {
        self.unistore.members()
    }

    /// Changes the standing of a site.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub fn change_members(
        &mut self,
        now: Now,
        site: SiteId,
        change: Change,
    ) -> Result<(), MemberError> {
        let changed = self.unistore.change_members(now, site, change);
        self.pass_on_members(now);
        changed
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

    /// Tells the other protocols of a change of the list of sites.
    fn pass_on_members(&mut self, now: Now) {
        let Some(primary) = &mut self.primary else { return };
        if primary.members() != self.unistore.members() {
            collect(&mut self.outputs, &mut self.unistore);
            primary.set_members(now, self.unistore.members());
            collect(&mut self.outputs, primary);
            self.note_filled();
        }
    }

    /// Tells UniStore whether the other protocols have what they need to serve.
    fn note_filled(&mut self) {
        if let Some(primary) = &self.primary {
            self.unistore.set_others_filled(primary.is_filled());
        }
    }

    /// Gives `primary` something to do; what UniStore has said until now leaves first.
    fn with_primary(&mut self, action: impl FnOnce(&mut Primary)) {
        let Some(primary) = &mut self.primary else { return };
        collect(&mut self.outputs, &mut self.unistore);
        action(primary);
        collect(&mut self.outputs, primary);
        self.note_filled();
    }
}

/// Moves the outputs of a protocol behind those that came before.
fn collect<M>(outputs: &mut VecDeque<Output>, machine: &mut M)
where
    M: Machine,
    Message: From<M::Message>,
    Response: From<M::Response>,
    Event: From<M::Event>,
{
    while let Some(output) = machine.poll_output() {
        outputs.push_back(output.widen());
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
        use solera_machine::Input as Of;

        match input {
            Input::Message { from, life, message: Message::UniStore(message) } => {
                self.unistore.handle(now, Of::Message { from, life, message });
                self.pass_on_members(now);
            }
            Input::Client { request, command: Command::UniStore(command) } => {
                self.unistore.handle(now, Of::Client { request, command });
            }
            // A worker that does not run the protocol drops its messages: the sender's spaces are others, and links refuse it.
            Input::Message { from, life, message: Message::Primary(message) } => {
                self.with_primary(|it| it.handle(now, Of::Message { from, life, message }));
            }
            Input::Client { request, command: Command::Primary(command) } => {
                self.with_primary(|it| it.handle(now, Of::Client { request, command }));
            }
            Input::Cancel { request } => {
                self.unistore.handle(now, Of::Cancel { request });
                self.with_primary(|it| it.handle(now, Of::Cancel { request }));
            }
        }
    }

    fn on_deadline(&mut self, now: Now) {
        self.unistore.on_deadline(now);
        self.pass_on_members(now);
        self.with_primary(|primary| primary.on_deadline(now));
    }

    #[inline]
    fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        if let Some(output) = self.unistore.poll_output() {
            return Some(output.widen());
        }
        self.primary.as_mut()?.poll_output().map(solera_machine::Output::widen)
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let primary = self.primary.as_ref().and_then(Primary::next_deadline);
        self.unistore.next_deadline().into_iter().chain(primary).min()
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        assert!(self.outputs.is_empty(), "records are written before a part that knows of them");
        if !Replica::is_complete(&checkpoint.unistore) {
            if let Some(part) = self.unistore.next_part(&mut checkpoint.unistore, keys) {
                return Some(Part::UniStore(part));
            }
            if !Replica::is_complete(&checkpoint.unistore) {
                return None;
            }
        }
        let primary = self.primary.as_ref();
        let part = primary.and_then(|it| it.next_part(&mut checkpoint.primary, keys));
        checkpoint.complete = part.is_none();
        part.map(Part::Primary)
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        checkpoint.complete
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        match part {
            Part::UniStore(part) => Replica::encode_part(part, bytes),
            Part::Primary(part) => part.encode(bytes),
        }
    }
}
