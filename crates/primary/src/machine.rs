//! The machine: dispatch, time, membership.

pub(crate) mod checkpoint;
mod following;
mod home;
mod requests;

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use solera_data::{Key, Value};
use solera_machine::{Address, Machine, Now, PartitionId, RarePath, Records, RequestId};
use solera_membership::{Members, Participant, SiteStatus};
use solera_time::{Monotonic, SiteId};

use self::checkpoint::Checkpoint;
use self::following::{Sent, Staging};
use self::home::{Gathering, Home};
use self::requests::Requests;
use crate::command::{Command, Failure, Response};
use crate::config::Config;
use crate::history::{Has, History};
use crate::list::{List, home_of};
use crate::message::{Body, Event, Input, Message, Output};
use crate::position::Past;
use crate::rare;
use crate::record::{Part, Record};

/// Role of a replica in its partition.
#[derive(Debug)]
pub(crate) enum Role {
    /// The replica orders updates.
    Home(Home),
    /// The replica will order updates once it has the longest history.
    Gathering(Gathering),
    /// The replica applies the updates that the home sends.
    Following,
}

/// One partition of this worker.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) history: History,
    pub(crate) role: Role,
    /// The list of sites for which the worker was the home; see [`Record::Home`].
    pub(crate) home_for: Option<List>,
    /// The greatest index up to which f + 1 sites are known to store the history.
    pub(crate) settled: u64,
    /// Whether the replica has all data that it needs to serve.
    pub(crate) filled: bool,
    /// Pieces that have arrived.
    pub(crate) staging: Option<Staging>,
}

/// A command that waits until replicas have what a session has seen.
#[derive(Debug)]
struct Waiting {
    request: RequestId,
    past: Past,
    /// Whether the command waits for f + 1 sites. Otherwise it waits for this site only.
    stored: bool,
    deadline: Monotonic,
}

/// The machine of one worker.
#[derive(Debug)]
pub struct Primary {
    pub(crate) config: Config,
    pub(crate) members: Members,
    pub(crate) list: List,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) requests: Requests,
    waiting: Vec<Waiting>,
    outputs: VecDeque<Output>,
    next_tick: Option<Monotonic>,
    /// Time when the worker may next request news from homes.
    next_question: Option<Monotonic>,
    /// See [`Primary::ignored`].
    pub(crate) ignored: u64,
}

impl Replica {
    pub(crate) fn new(id: PartitionId, config: &Config) -> Replica {
        Replica {
            history: History::new(id, config.log_entries),
            role: Role::Following,
            home_for: None,
            settled: 0,
            filled: config.generation == 0,
            staging: None,
        }
    }
}

impl Primary {
    /// Creates the machine of a worker that stores nothing yet and knows these sites.
    pub fn new(config: Config, members: &Members) -> Primary {
        let mut primary = Primary::empty(config, members);
        if primary.config.generation == 0 {
            // No site has updates yet, so a new home has nothing to gather.
            for replica in &mut primary.replicas {
                replica.home_for = Some(primary.list.clone());
            }
        }
        primary.take_roles();
        primary
    }

    /// Creates a machine without roles.
    pub(crate) fn empty(config: Config, members: &Members) -> Primary {
        let owned = config.topology.owned_by(config.address);
        let replicas = owned.map(|id| Replica::new(id, &config)).collect();
        Primary {
            requests: Requests::new(config.generation, config.first_number),
            members: members.clone(),
            list: List::of(members),
            replicas,
            waiting: Vec::new(),
            outputs: VecDeque::new(),
            // The first tick sends what may have been lost in a restart.
            next_tick: Some(Monotonic(0)),
            next_question: None,
            ignored: 0,
            config,
        }
    }

    /// Assigns the worker's role in each partition after a start.
    pub(crate) fn take_roles(&mut self) {
        for replica in &mut self.replicas {
            let is_home =
                home_of(&self.members, replica.history.id) == Some(self.config.address.site);
            replica.role = match is_home {
                true if replica.home_for.as_ref() == Some(&self.list) => {
                    Role::Home(Home::default())
                }
                true => Role::Gathering(Gathering::default()),
                false => Role::Following,
            };
        }
    }

    /// Returns the list of sites that the worker uses.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the number of updates here that f + 1 sites are not known to store.
    pub fn unsettled(&self) -> u64 {
        let unsettled = |replica: &Replica| replica.history.applied.saturating_sub(replica.settled);
        self.replicas.iter().map(unsettled).sum()
    }

    /// Returns the keys whose last update f + 1 sites are not known to store.
    pub fn at_risk(&self) -> impl Iterator<Item = &Key> {
        self.replicas.iter().flat_map(|replica| replica.history.changed_since(replica.settled))
    }

    /// Returns the value of a key here.
    pub fn value(&self, key: &Key) -> Option<&Value> {
        let id = PartitionId::of(key, self.config.topology.partitions);
        self.replicas[self.index_of(id)?].history.store.values().get(key).map(|held| &held.value)
    }

    /// Returns, for each partition, how many updates have been applied here, and whether this
    /// worker is its home.
    pub fn applied(&self) -> impl Iterator<Item = (PartitionId, u64, bool)> + '_ {
        self.replicas.iter().map(|replica| {
            let is_home = matches!(replica.role, Role::Home(_));
            (replica.history.id, replica.history.applied, is_home)
        })
    }

    /// Returns the number of keys that have a value here.
    pub fn keys(&self) -> usize {
        self.replicas.iter().map(|replica| replica.history.store.values().len()).sum()
    }

    /// Returns the approximate size of the data here in bytes, and the largest size since the last
    /// call.
    pub fn take_held(&mut self) -> (usize, usize) {
        let held = self.replicas.iter_mut().map(|replica| replica.history.store.take_held());
        held.fold((0, 0), |(now, most), held| (now + held.0, most + held.1))
    }

    /// Returns the number of clients' updates that wait for their home.
    pub fn pending(&self) -> usize {
        self.requests.len()
    }

    /// Returns the sites to which a home sends its history: all other members and joining sites.
    pub(crate) fn others(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.members.members_and_joining().filter(|site| *site != self.config.address.site)
    }

    /// Returns the replica of a partition of this worker.
    pub(crate) fn index_of(&self, id: PartitionId) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.history.id == id)
    }

    pub(crate) fn send(&mut self, site: SiteId, partition: PartitionId, body: Body) {
        let to = self.config.topology.owner(site, partition);
        self.send_to(to, body);
    }

    pub(crate) fn send_to(&mut self, to: Address, body: Body) {
        let message = Message { list: self.list.clone(), body };
        self.outputs.push_back(Output::Send { to, message });
    }

    pub(crate) fn reply(&mut self, request: RequestId, response: Response) {
        let last = !matches!(response, Response::Accepted(_));
        self.outputs.push_back(Output::Reply { request, response, last });
    }

    pub(crate) fn rare(&mut self, path: RarePath) {
        self.outputs.push_back(Output::Trace(Event::Rare(path)));
    }

    pub(crate) fn record(&mut self, record: impl FnOnce() -> Record) {
        if self.config.journal {
            let mut records = Records::default();
            records.push_with(|bytes| record().encode(bytes));
            self.outputs.push_back(Output::Records(records));
        }
    }

    /// Schedules a tick.
    fn arm(&mut self, now: Now) {
        if self.next_tick.is_none() {
            self.next_tick = Some(now.monotonic.after(self.config.timing.tick));
        }
    }

    fn on_message(&mut self, now: Now, from: Address, body: Body) {
        let site = from.site;
        match body {
            Body::Forward(requests) => self.on_forward(now, from, requests),
            Body::Answers(answers) => self.on_answers(answers),
            Body::Append { partition, after, entries, epochs, settled, last } => {
                let sent = Sent { after, entries, epochs, settled, last };
                self.with_partition(partition, |it, index| it.on_append(now, site, index, sent));
            }
            Body::Stored { partition, applied, asks } => self
                .with_partition(partition, |it, index| {
                    it.on_stored(now, site, index, (applied, asks))
                }),
            Body::Ask(partition) => self.report(partition, site, false),
            Body::Take(partition, after) => self.on_take(site, partition, after),
            Body::Piece(partition, piece) => {
                self.with_partition(partition, |it, index| it.on_piece(now, site, index, piece));
            }
        }
    }

    /// Passes a message to the replica of a partition. Ignores a message about another worker's
    /// partition.
    fn with_partition(&mut self, id: PartitionId, action: impl FnOnce(&mut Primary, usize)) {
        match self.index_of(id) {
            Some(index) => action(self, index),
            None => self.ignored += 1,
        }
    }

    /// Returns the number of messages that were dropped since the start. A message is dropped if it
    /// has another list of sites or generation, if it comes from a site to which the replica does
    /// not listen, or if it is about a partition of another worker.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    fn on_command(&mut self, now: Now, request: RequestId, command: Command) {
        match command {
            Command::Read { key } => {
                let response = self.read(&key);
                self.reply(request, response);
            }
            Command::Update { key, update } => self.submit(now, request, key, update),
            Command::Attach { past } => self.wait(now, request, past, false),
            Command::Barrier { past } => self.wait(now, request, past, true),
        }
    }

    /// Reads the local replica. Returns the reply to a [`Command::Read`], as a direct call.
    pub fn read(&self, key: &Key) -> Response {
        let id = PartitionId::of(key, self.config.topology.partitions);
        let Some(index) = self.index_of(id) else { return Response::Failed(Failure::OtherWorker) };
        let history = &self.replicas[index].history;
        let value = history.store.values().get(key).map(|held| held.value.clone());
        Response::Value { value, position: history.position() }
    }

    fn wait(&mut self, now: Now, request: RequestId, past: Past, stored: bool) {
        if past.positions().any(|(id, _)| self.index_of(id).is_none()) {
            return self.reply(request, Response::Failed(Failure::OtherWorker));
        }
        let deadline = now.monotonic.after(self.config.timing.timeout);
        self.waiting.push(Waiting { request, past, stored, deadline });
        self.answer_waiting(now);
    }

    /// Answers commands whose past has arrived or is lost, and commands that have waited too long.
    fn answer_waiting(&mut self, now: Now) {
        let mut answers = Vec::new();
        let has = |waiting: &Waiting, id: PartitionId, position| {
            let replica = self.replicas.iter().find(|replica| replica.history.id == id);
            replica.map_or(Has::Lost, |replica| match replica.history.has(position) {
                Has::Yes if waiting.stored && position.index > replica.settled => Has::NotYet,
                has => has,
            })
        };
        self.waiting.retain(|waiting| {
            let all: Vec<Has> =
                waiting.past.positions().map(|(id, at)| has(waiting, id, at)).collect();
            let response = if all.contains(&Has::Lost) {
                Response::Failed(Failure::Lost)
            } else if !all.contains(&Has::NotYet) {
                if waiting.stored { Response::Stored } else { Response::Attached }
            } else if now.monotonic >= waiting.deadline {
                Response::Failed(Failure::TimedOut)
            } else {
                return true;
            };
            answers.push((waiting.request, response));
            false
        });
        for (request, response) in answers {
            if response == Response::Failed(Failure::Lost) {
                self.rare(rare::POSITION_LOST);
            }
            self.reply(request, response);
        }
    }

    /// Requests news from homes at intervals while commands wait for it, because earlier messages
    /// may be lost.
    fn ask_for_news(&mut self, now: Now) {
        if self.waiting.is_empty() || self.next_question.is_some_and(|next| now.monotonic < next) {
            return;
        }
        self.next_question = Some(now.monotonic.after(self.config.timing.retry));
        let seen = self.waiting.iter().flat_map(|waiting| waiting.past.positions());
        let ids: BTreeSet<PartitionId> = seen.map(|(id, _)| id).collect();
        for id in ids {
            if let Some(home) = home_of(&self.members, id) {
                self.report(id, home, true);
            }
        }
    }
}

impl Participant for Primary {
    /// Replaces the list of sites. From now on, the worker drops messages with the former list.
    fn set_members(&mut self, now: Now, members: &Members) {
        let list = List::of(members);
        let before = std::mem::replace(&mut self.members, members.clone());
        if list == self.list {
            return;
        }
        self.list = list;
        self.arm(now);
        let me = self.config.address.site;
        let joins = members.status(me) == SiteStatus::Joining;
        for index in 0..self.replicas.len() {
            let id = self.replicas[index].history.id;
            let (former, home) = (home_of(&before, id), home_of(members, id));
            // Copies at a site that has left no longer count.
            self.replicas[index].settled = 0;
            if former != home && joins {
                self.begin_anew(index);
            }
            let was_home = matches!(self.replicas[index].role, Role::Home(_));
            self.replicas[index].role = match home == Some(me) {
                true if was_home => Role::Home(Home::default()),
                true => Role::Gathering(Gathering::default()),
                false => Role::Following,
            };
            if was_home && home == Some(me) {
                self.note_home(index);
            }
            self.gather(now, index, false);
        }
    }

    /// Returns whether each partition whose home has left has another home.
    fn has_completed_removals(&self) -> bool {
        !self.replicas.iter().any(|replica| matches!(replica.role, Role::Gathering(_)))
    }

    fn is_filled(&self) -> bool {
        self.replicas.iter().all(|replica| replica.filled)
    }
}

impl Machine for Primary {
    type Message = Message;
    type Command = Command;
    type Response = Response;
    type Event = Event;
    type Job = Infallible;
    type Question = Infallible;
    type Answer = Infallible;
    type Part = Part;
    type Checkpoint = Checkpoint;

    fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Message { from, generation, message } => {
                if message.list != self.list || generation != self.members.generation(from.site) {
                    self.ignored += 1;
                    return;
                }
                self.on_message(now, from, message.body);
            }
            Input::Client { request, command } => self.on_command(now, request, command),
            Input::Cancel { request } => {
                self.requests.cancel(request);
                self.waiting.retain(|waiting| waiting.request != request);
            }
        }
        self.answer_waiting(now);
        self.arm(now);
    }

    fn on_deadline(&mut self, now: Now) {
        if self.next_tick.is_none_or(|tick| now.monotonic < tick) {
            return;
        }
        self.next_tick = None;
        self.retry_requests(now);
        self.ask_for_news(now);
        let mut is_busy = !self.waiting.is_empty() || self.requests.len() > 0;
        for index in 0..self.replicas.len() {
            self.gather(now, index, false);
            is_busy |= self.replicate(now, index);
        }
        self.answer_waiting(now);
        if is_busy {
            self.arm(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        self.next_tick
    }

    fn next_part(&self, checkpoint: &mut Checkpoint, keys: usize) -> Option<Part> {
        assert!(self.outputs.is_empty(), "records are written before a part that knows of them");
        self.part_of(checkpoint, keys)
    }

    fn is_complete(checkpoint: &Checkpoint) -> bool {
        checkpoint.is_complete()
    }

    fn encode_part(part: &Part, bytes: &mut Vec<u8>) {
        part.encode(bytes);
    }
}
