//! Sites with every message under the test's control.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_creek::{
    Access, Checkpoint, Command, Config, Context, Creek, Event, Level, Message, OperationId,
    Output, Procedures, Recovery, Request, Response, Tentative,
};
use solera_machine::{Address, Input, Machine, Now, OfProtocol, RarePath, RequestId, Topology};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

pub(crate) const SITES: usize = 3;

/// Appends a letter to the only register, and returns all letters; or replaces all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Letters {
    Append(char),
    Read,
    Replace(char),
}

pub(crate) struct Text;

impl Procedures for Text {
    type Operation = Letters;
    type Value = String;
    type Response = String;

    fn execute(&self, letters: &Letters, registers: &mut dyn Access<String>) -> String {
        if let Letters::Replace(letter) = letters {
            registers.write(b"text", Some(letter.to_string()));
            return letter.to_string();
        }
        let mut text = registers.read(b"text").unwrap_or_default();
        if let Letters::Append(letter) = letters {
            text.push(*letter);
            registers.write(b"text", Some(text.clone()));
        }
        text
    }

    fn is_read_only(&self, letters: &Letters) -> bool {
        *letters == Letters::Read
    }
}

/// Sites, their outputs, and messages on their way.
pub(crate) struct Cluster {
    pub(crate) machines: Vec<Creek<Text>>,
    pub(crate) configs: Vec<Config>,
    pub(crate) journals: Vec<Vec<Vec<u8>>>,
    /// Parts of the last checkpoint.
    pub(crate) parts: Vec<Vec<Vec<u8>>>,
    /// Messages by sender and receiver.
    pub(crate) sent: Vec<Vec<VecDeque<Message<Letters>>>>,
    pub(crate) replies: Vec<(RequestId, Response<String>, bool)>,
    pub(crate) rare: Vec<RarePath>,
    pub(crate) requests: u64,
    pub(crate) millis: u64,
}

pub(crate) fn site(number: usize) -> Address {
    Address { site: SiteId(number as u8), worker: 0 }
}

pub(crate) fn topology() -> Topology {
    Topology { partitions: 1, workers: vec![1; SITES] }
}

pub(crate) fn tentative(reply: &Response<String>) -> Option<&Tentative<String>> {
    match reply {
        Response::Tentative(tentative) | Response::Revised(tentative) => Some(tentative),
        _ => None,
    }
}

/// Returns the text of a reply.
pub(crate) fn text(reply: &Response<String>) -> &str {
    match reply {
        Response::Tentative(tentative) | Response::Revised(tentative) => &tentative.response,
        Response::Stable { response, .. } => response,
        Response::Busy => "busy",
        Response::Forgotten { .. } => "forgotten",
        Response::Lost { .. } => "lost",
        Response::Unknown { .. } => "unknown",
        Response::Reached => "reached",
        Response::Diverged(_) => "diverged",
    }
}

impl Cluster {
    pub(crate) fn new(change: impl Fn(&mut Config)) -> Cluster {
        Cluster::of(SITES, change)
    }

    pub(crate) fn nothing(sites: usize) -> Vec<Vec<VecDeque<Message<Letters>>>> {
        vec![vec![VecDeque::new(); sites]; sites]
    }

    pub(crate) fn of(sites: usize, change: impl Fn(&mut Config)) -> Cluster {
        let configs = (0..sites).map(|number| {
            let topology = Topology { partitions: 1, workers: vec![1; sites] };
            let mut config = Config::new(site(number), Arc::new(topology));
            config.trace = true;
            change(&mut config);
            config
        });
        let configs: Vec<Config> = configs.collect();
        let machines = configs.iter().map(|config| Creek::new(config.clone(), Text)).collect();
        let mut cluster = Cluster {
            machines,
            configs,
            journals: vec![Vec::new(); sites],
            parts: vec![Vec::new(); sites],
            sent: Cluster::nothing(sites),
            replies: Vec::new(),
            rare: Vec::new(),
            requests: 0,
            millis: 1,
        };
        (0..sites).for_each(|site| cluster.tick(site));
        cluster.sent = Cluster::nothing(sites);
        cluster
    }

    pub(crate) fn now(&self) -> Now {
        let monotonic = Monotonic(self.millis * 1_000_000);
        Now { monotonic, physical: Physical(self.millis * 1_000) }
    }

    pub(crate) fn collect(&mut self, at: usize) {
        while let Some(output) = self.machines[at].poll_output() {
            match output {
                Output::<Text>::Send { to, message } => {
                    assert!(
                        message.validate(site(at), to, &self.configs[at].topology),
                        "{message:?}"
                    );
                    self.sent[at][to.site.index()].push_back(message);
                }
                Output::<Text>::Records(records) => {
                    self.journals[at].extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::<Text>::Reply { request, response, last } => {
                    self.replies.push((request, response, last));
                }
                Output::<Text>::Trace(Event::Rare(path)) => self.rare.push(path),
                Output::<Text>::Trace(_) => {}
                Output::<Text>::Job { .. } => panic!("the configuration permits no job"),
                Output::<Text>::Ask { question, .. } => match question {},
            }
        }
    }

    pub(crate) fn tick(&mut self, at: usize) {
        let now = self.now();
        self.machines[at].on_deadline(now);
        self.collect(at);
    }

    pub(crate) fn invoke(
        &mut self,
        at: usize,
        operation: Letters,
        level: Level,
        track: bool,
    ) -> RequestId {
        self.command(at, Command::Invoke { operation, level, track })
    }

    pub(crate) fn command(&mut self, at: usize, command: Command<Letters, String>) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let now = self.now();
        self.machines[at].handle(now, Input::Client { request, command });
        self.collect(at);
        request
    }

    pub(crate) fn append(&mut self, at: usize, letter: char, level: Level) -> RequestId {
        self.invoke(at, Letters::Append(letter), level, false)
    }

    pub(crate) fn cancel(&mut self, at: usize, request: RequestId) {
        let now = self.now();
        self.machines[at].handle(now, Input::Cancel { request });
        self.collect(at);
    }

    pub(crate) fn give(&mut self, from: usize, to: usize, message: Message<Letters>) {
        let generation = self.configs[from].generation;
        let input = Input::Message { from: site(from), generation, message };
        let now = self.now();
        self.machines[to].handle(now, input);
        self.collect(to);
    }

    /// Delivers the messages from one site to another that have been sent so far.
    pub(crate) fn deliver(&mut self, from: usize, to: usize) {
        for message in std::mem::take(&mut self.sent[from][to]) {
            self.give(from, to, message);
        }
    }

    /// Delivers the messages that have been sent so far: one message delay.
    pub(crate) fn delay(&mut self) {
        let sent = std::mem::replace(&mut self.sent, Cluster::nothing(self.machines.len()));
        for (from, receivers) in sent.into_iter().enumerate() {
            for (to, messages) in receivers.into_iter().enumerate() {
                messages.into_iter().for_each(|message| self.give(from, to, message));
            }
        }
    }

    /// Lets time pass, with all messages delivered.
    pub(crate) fn rest(&mut self) {
        for _ in 0..60 {
            self.millis += 20;
            (0..self.machines.len()).for_each(|site| self.tick(site));
            self.delay();
        }
    }

    pub(crate) fn replies_to(&self, request: RequestId) -> Vec<&Response<String>> {
        let replies = self.replies.iter().filter(|(to, ..)| *to == request);
        replies.map(|(_, reply, _)| reply).collect()
    }

    pub(crate) fn finals(&self, at: usize) -> Vec<String> {
        self.machines[at].history().map(|(id, _)| id.to_string()).collect()
    }

    pub(crate) fn has_taken(&self, words: &str) -> bool {
        self.rare.iter().any(|path| path.0.contains(words))
    }

    /// Replaces the journal by a checkpoint whose parts hold a number of entries each.
    pub(crate) fn write_checkpoint(&mut self, at: usize, entries: usize) {
        let mut progress = Checkpoint::default();
        self.parts[at].clear();
        while let Some(part) = self.machines[at].next_part(&mut progress, entries) {
            let mut bytes = Vec::new();
            Creek::<Text>::encode_part(&part, &mut bytes);
            self.parts[at].push(bytes);
        }
        assert!(Creek::<Text>::is_complete(&progress));
        self.journals[at].clear();
    }

    pub(crate) fn restart(&mut self, at: usize) {
        let mut recovery = Recovery::new(self.configs[at].clone(), Text);
        self.parts[at].iter().for_each(|part| recovery.take_part(part).unwrap());
        self.journals[at].iter().for_each(|record| recovery.take_record(record).unwrap());
        self.machines[at] = recovery.into_machine();
        self.collect(at);
    }
}

pub(crate) fn request(
    run: u64,
    event: u64,
    timestamp: u64,
    (cast, context): (Option<u64>, Context),
) -> Request<Letters> {
    let id = OperationId { site: SiteId(1), run, event };
    let operation = Some(Letters::Append('f'));
    Request { id, timestamp: Timestamp(timestamp), operation, context, cast, previous: None }
}

pub(crate) fn weak(run: u64, event: u64, timestamp: u64) -> Request<Letters> {
    request(run, event, timestamp, (None, Context::default()))
}

pub(crate) fn operations(requests: Vec<Request<Letters>>) -> Message<Letters> {
    let requests = requests.into_iter().map(Arc::new).collect();
    Message::Operations { requests, more: false }
}
