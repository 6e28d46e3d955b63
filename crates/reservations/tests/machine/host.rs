//! A worker with a host under the control of a test.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::{
    Address, AskId, Guard, GuardAnswer, GuardQuestion, Machine, Now, PartitionId, PromiseId,
    RequestId, Topology, Verdict,
};
use solera_membership::{Change as MemberChange, Members, Participant};
use solera_reservations::{
    Answer, Body, Bound, Change, Claim, Command, Config, Entry, Epoch, Event, Input, Message,
    Nonce, Output, PROTOCOL, Placed, Policy, Position, Question, Recovery, Reservations, Response,
    Rule, TakeId, Tokens, Version,
};
use solera_time::{Monotonic, Physical, SiteId};

pub(crate) const KEY: &[u8] = b"counter";
pub(crate) const PARTITION: PartitionId = PartitionId(0);
pub(crate) const SITES: usize = 3;
pub(crate) const WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn site(number: u8) -> SiteId {
    SiteId(number)
}

/// A worker and its host.
pub(crate) struct Host {
    pub(crate) config: Config,
    pub(crate) machine: Reservations,
    pub(crate) now: Monotonic,
    pub(crate) journal: Vec<Vec<u8>>,
    /// Last version of the record, and all changes that have led to it.
    pub(crate) version: Version,
    pub(crate) changes: Vec<(Version, Change)>,
    /// Outputs since the last look.
    pub(crate) replies: Vec<Response>,
    pub(crate) asked: Vec<(AskId, Question)>,
    pub(crate) sent: Vec<(SiteId, Body)>,
    pub(crate) promises: u64,
    /// Rare paths that were taken.
    pub(crate) rare: Vec<&'static str>,
}

impl Host {
    pub(crate) fn new(me: u8, without: Option<Rule>) -> Host {
        Host::in_generation(me, 0, without)
    }

    pub(crate) fn in_generation(me: u8, generation: u32, without: Option<Rule>) -> Host {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1; SITES] });
        let policy = Policy { tolerance_ppm: 250_000, spare: 8, lease: Duration::from_secs(1) };
        let config = Config {
            bounds: Arc::new([
                (b"tickets".to_vec(), Some(Bound::Rights)),
                (Vec::new(), Some(Bound::Error(policy))),
            ]),
            without: without.into(),
            generation,
            ..Config::new(Address { site: site(me), worker: 0 }, topology)
        };
        Host::of(config)
    }

    /// Creates a host of site 0 whose key is a set.
    pub(crate) fn of_set(without: Option<Rule>) -> Host {
        let config = Host::new(0, without).config;
        let policy = config.policy(KEY).expect("it has an error bound");
        let bounds = Arc::new([(Vec::new(), Some(Bound::Size(policy)))]);
        Host::of(Config { bounds, ..config })
    }

    fn of(config: Config) -> Host {
        let mut host = Host {
            machine: Reservations::new(config.clone()),
            config,
            now: Monotonic(1),
            journal: Vec::new(),
            version: Version(0),
            changes: Vec::new(),
            replies: Vec::new(),
            asked: Vec::new(),
            sent: Vec::new(),
            promises: 0,
            rare: Vec::new(),
        };
        host.collect();
        host.request();
        host
    }

    /// Makes a request, without which the machine does not renew its right.
    pub(crate) fn request(&mut self) {
        let command = Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
        self.command(command);
        self.replies.clear();
    }

    pub(crate) fn reading(&self) -> Now {
        Now { monotonic: self.now, physical: Physical(0) }
    }

    pub(crate) fn collect(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Records(records) => {
                    self.journal.extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::Reply { response, .. } => self.replies.push(response),
                Output::Ask { ask, question } => self.asked.push((ask, question)),
                Output::Send { to, message } => self.sent.push((to.site, message.body)),
                Output::Trace(Event::Rare(path)) => self.rare.push(path.0),
                Output::Trace(_) => {}
                Output::Job { work, .. } => match work {},
            }
        }
        assert_eq!(self.machine.counts().held, self.machine.recounted_holdings());
    }

    pub(crate) fn handle(&mut self, input: Input) {
        let reading = self.reading();
        self.machine.handle(reading, input);
        self.collect();
    }

    /// Runs a command. Returns the reply, if it comes at once.
    pub(crate) fn command(&mut self, command: Command) -> Option<Response> {
        self.replies.clear();
        self.handle(Input::Client { request: RequestId(1), command });
        self.replies.last().cloned()
    }

    pub(crate) fn message(&mut self, from: u8, body: Body) {
        let from = Address { site: site(from), worker: 0 };
        let message = Message { partition: PARTITION, body };
        self.handle(Input::Message { from, generation: 0, message });
    }

    /// A message of another host.
    pub(crate) fn message_of(&mut self, from: Address, generation: u32, body: Body) {
        let message = Message { partition: PARTITION, body };
        self.handle(Input::Message { from, generation, message });
    }

    /// Lets time pass, and the timer run at its end.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now.after(time);
        let reading = self.reading();
        self.machine.on_deadline(reading);
        self.collect();
    }

    pub(crate) fn stream(
        &mut self,
        origin: u8,
        (after, upto): (u64, u64),
        entries: Vec<(u64, Entry)>,
    ) {
        let entries = entries.into_iter().map(|(position, entry)| Placed {
            position: Position(position),
            key: KEY.to_vec(),
            entry,
        });
        self.command(Command::Stream {
            partition: PARTITION,
            origin: site(origin),
            after: Position(after),
            entries: entries.collect(),
            upto: Position(upto),
        });
    }

    /// Appends a change of the record to the strong history. It is derived from the last version.
    pub(crate) fn change(&mut self, change: Change) -> Version {
        self.change_from(self.version, change)
    }

    pub(crate) fn change_from(&mut self, read: Version, change: Change) -> Version {
        let (previous, version) = (self.version, Version(self.version.0 + 1));
        self.version = version;
        self.changes.push((read, change.clone()));
        self.command(Command::Changed { partition: PARTITION, previous, version, read, change });
        version
    }

    /// Gives the machine the versions that it lacks, up to this one.
    pub(crate) fn give_versions_again(&mut self, upto: Version) {
        let known = self.machine.version(PARTITION).unwrap();
        for place in known.0..upto.0 {
            let (previous, version) = (Version(place), Version(place + 1));
            let (read, change) = self.changes[place as usize].clone();
            let partition = PARTITION;
            self.command(Command::Changed { partition, previous, version, read, change });
        }
    }

    /// Commits the last change of the record that the machine has asked for.
    pub(crate) fn commit_asked(&mut self, is_it: impl Fn(&Change) -> bool) -> Version {
        let wanted = |(_, question): &(AskId, Question)| match question {
            Question::Change { change, .. } => is_it(change),
            Question::End { .. } | Question::Give { .. } => false,
        };
        let place = self.asked.iter().rposition(wanted).expect("the machine asks for it");
        let (ask, question) = self.asked.remove(place);
        let Question::Change { read, change, .. } = question else { panic!("{question:?}") };
        let version = self.change_from(read, change);
        self.handle(Input::Answered { ask, answer: Answer::Decided(version) });
        version
    }

    pub(crate) fn asks_for(&self, is_it: impl Fn(&Change) -> bool) -> bool {
        let changes = self.asked.iter().filter_map(|(_, question)| match question {
            Question::Change { change, .. } => Some(change),
            Question::End { .. } | Question::Give { .. } => None,
        });
        changes.filter(|change| is_it(change)).count() > 0
    }

    /// Has the list of members say that a site leaves.
    pub(crate) fn set_leaving(&mut self, leaving: SiteId) {
        let members = Members::new(SITES);
        let members = members.changed(site(0), leaving, MemberChange::Remove).unwrap();
        self.machine.set_members(self.reading(), &members);
    }

    /// Another site reports.
    pub(crate) fn report_of(&mut self, from: u8, version: Version, seen: [u64; SITES]) {
        let seen = seen.map(Position).to_vec();
        self.message(from, Body::Report { version, seen, ended: None, used: true });
    }

    /// Returns what the machine reports to a site now about the stream of site 0.
    pub(crate) fn reported_to(&mut self, to: u8) -> u64 {
        self.sent.clear();
        self.wait(Duration::from_millis(250));
        let reports = self.sent.iter().filter_map(|(receiver, body)| match body {
            Body::Report { seen, .. } if *receiver == site(to) => Some(seen[0].0),
            _ => None,
        });
        reports.max().expect("the timer reports")
    }

    /// Grants tokens to this site, and has all others confirm it.
    pub(crate) fn grant(&mut self, tokens: (u64, u64)) {
        let tokens = Tokens { increments: tokens.0, decrements: tokens.1 };
        let me = self.config.address.site;
        let change = Change::Grant { key: KEY.to_vec(), site: me, epoch: Epoch(1), tokens };
        let version = self.change(change);
        for other in (0..SITES as u8).filter(|other| site(*other) != me) {
            self.report_of(other, version, [0; SITES]);
        }
    }

    pub(crate) fn take(&mut self, amount: i64) -> Option<TakeId> {
        match self.command(Command::Take { key: KEY.to_vec(), amount, within: WITHIN }) {
            Some(Response::Taken(take)) => Some(take),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    pub(crate) fn is_promised(&mut self, take: TakeId) -> bool {
        self.promise_of(KEY, take).1
    }

    /// Has the guard promise tokens that were taken. Returns the promise, and whether it is given.
    pub(crate) fn promise_of(&mut self, key: &[u8], take: TakeId) -> (PromiseId, bool) {
        let claim = Claim::Take(take).encode();
        let guard = Guard { key: key.to_vec(), protocol: PROTOCOL.number, claim };
        self.promises += 1;
        let id = PromiseId { coordinator: 0, sequence: self.promises };
        let question = GuardQuestion::Promise { id, guards: guard.into() };
        match self.command(Command::Guard(question)) {
            Some(Response::Guard(GuardAnswer::Verdict(verdict))) => {
                (id, verdict == Verdict::Promised)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Ends the process, and starts another one from the journal.
    pub(crate) fn restart(&mut self) {
        let mut recovery = Recovery::new(self.config.clone());
        for (place, record) in self.journal.iter().enumerate() {
            recovery.take_record(place as u64 + 1, record).unwrap();
        }
        self.machine = recovery.into_machine();
        self.asked.clear();
        self.collect();
        self.request();
    }
}

pub(crate) fn is_renewal(change: &Change) -> bool {
    matches!(change, Change::Renew { .. })
}

pub(crate) fn foreign() -> Nonce {
    Nonce { process: 99, number: 1 }
}

/// Returns a host whose site has a lease and took a token for a decrement.
pub(crate) fn decrementer(without: Option<Rule>) -> (Host, TakeId) {
    let mut host = Host::new(0, without);
    host.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
    host.wait(Duration::from_millis(10));
    host.commit_asked(is_renewal);
    host.grant((0, 4));
    let take = host.take(-1).expect("there are tokens");
    (host, take)
}

/// Delivers messages between two hosts until there are none.
pub(crate) fn exchange(hosts: [&mut Host; 2]) {
    let [a, b] = hosts;
    loop {
        let (to_b, to_a) = (std::mem::take(&mut a.sent), std::mem::take(&mut b.sent));
        if to_b.is_empty() && to_a.is_empty() {
            return;
        }
        let (of_a, of_b) = (a.config.clone(), b.config.clone());
        for (from, to, sent) in [(&of_a, &mut *b, to_b), (&of_b, &mut *a, to_a)] {
            let me = to.config.address.site;
            for (_, body) in sent.into_iter().filter(|(receiver, _)| *receiver == me) {
                to.message_of(from.address, from.generation, body);
            }
        }
    }
}
