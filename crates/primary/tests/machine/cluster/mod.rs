//! Sites with one worker each. The test delivers and loses messages, and advances the clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_data::{Key, Value};
use solera_machine::{Address, Machine, Now, PartitionId, RequestId, Topology, Wire};
use solera_membership::{Change, Gap, Members, Participant};
use solera_primary::{
    Body, Checkpoint, Command, Config, Done, Event, Input, Message, Output, Past, Position,
    Primary, Recovery, Response, Update,
};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

pub(crate) const A: SiteId = SiteId(0);
pub(crate) const B: SiteId = SiteId(1);
pub(crate) const C: SiteId = SiteId(2);
pub(crate) const PARTITIONS: u16 = 24;
/// Duration above the time after which messages are sent again.
pub(crate) const RETRY_MS: u64 = 400;

/// The worker of a site, with its journal.
pub(crate) struct Worker {
    pub(crate) config: Config,
    /// `None` while it is stopped.
    pub(crate) machine: Option<Primary>,
    pub(crate) first: Members,
    pub(crate) parts: Vec<Vec<u8>>,
    pub(crate) records: Vec<Vec<u8>>,
    /// The first record since the last checkpoint began.
    pub(crate) since: usize,
}

pub(crate) struct Cluster {
    pub(crate) workers: Vec<Worker>,
    pub(crate) links: BTreeMap<(SiteId, SiteId), VecDeque<(u32, Message)>>,
    /// Replies to each request, without the numbers of updates.
    pub(crate) replies: BTreeMap<RequestId, Vec<(Response, bool)>>,
    pub(crate) numbers: BTreeMap<RequestId, Vec<Option<i64>>>,
    pub(crate) rare: Vec<&'static str>,
    topology: Arc<Topology>,
    requests: u64,
    now_ms: u64,
}

impl Cluster {
    /// Creates three sites, of which one may fail. Each home has received reports from the others.
    pub(crate) fn new(adapt: impl Fn(&mut Config)) -> Cluster {
        Cluster::of(3, adapt)
    }

    pub(crate) fn of(sites: usize, adapt: impl Fn(&mut Config)) -> Cluster {
        let topology = Arc::new(Topology { partitions: PARTITIONS, workers: vec![1; sites] });
        let first = Members::new(sites);
        let worker = |site| {
            let mut config = Config::new(address(site), Arc::clone(&topology));
            config.journal = true;
            adapt(&mut config);
            let machine = Some(Primary::new(config.clone(), &first));
            let (parts, records) = (Vec::new(), Vec::new());
            Worker { config, machine, first: first.clone(), parts, records, since: 0 }
        };
        let workers = SiteId::all(sites).map(worker).collect();
        let mut cluster = Cluster {
            workers,
            links: BTreeMap::new(),
            replies: BTreeMap::new(),
            numbers: BTreeMap::new(),
            rare: Vec::new(),
            topology: Arc::clone(&topology),
            requests: 0,
            now_ms: 0,
        };
        cluster.run();
        cluster
    }

    pub(crate) fn at(&self, site: SiteId) -> &Primary {
        self.workers[site.index()].machine.as_ref().expect("the worker runs")
    }

    pub(crate) fn now(&self) -> Now {
        let monotonic = Monotonic(self.now_ms * 1_000_000);
        Now { monotonic, physical: Physical(self.now_ms * 1000) }
    }

    pub(crate) fn input(&mut self, site: SiteId, input: Input) {
        let now = self.now();
        self.with(site, |machine| machine.handle(now, input));
    }

    pub(crate) fn command(&mut self, site: SiteId, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.input(site, Input::Client { request, command });
        request
    }

    pub(crate) fn update(&mut self, site: SiteId, key: &Key, update: Update) -> RequestId {
        self.command(site, Command::Update { key: key.clone(), update })
    }

    pub(crate) fn append(&mut self, site: SiteId, key: &Key, text: &str) -> RequestId {
        self.update(site, key, Update::Append(Value::from(text)))
    }

    pub(crate) fn cancel(&mut self, site: SiteId, request: RequestId) {
        self.input(site, Input::Cancel { request });
    }

    /// Returns the replies to a request so far.
    pub(crate) fn replies(&self, request: RequestId) -> &[(Response, bool)] {
        self.replies.get(&request).map_or(&[], Vec::as_slice)
    }

    /// Returns the only reply to a request, which must be its last.
    pub(crate) fn answer(&self, request: RequestId) -> Option<&Response> {
        match self.replies(request) {
            [] => None,
            [(response, true)] => Some(response),
            others => panic!("one last reply, not {others:?}"),
        }
    }

    /// Returns the position of a site's replica of the key's partition.
    pub(crate) fn position(&mut self, site: SiteId, key: &Key) -> Position {
        let request = self.command(site, Command::Read { key: key.clone() });
        match self.answer(request) {
            Some(Response::Value { position, .. }) => *position,
            other => panic!("a value, not {other:?}"),
        }
    }

    pub(crate) fn value(&self, site: SiteId, key: &Key) -> Option<String> {
        self.at(site).value(key).map(ToString::to_string)
    }

    pub(crate) fn applied(&self, site: SiteId, key: &Key) -> (u64, bool) {
        let partition = PartitionId::of(key, PARTITIONS);
        let mut found = self.at(site).applied().filter(|(id, ..)| *id == partition);
        found.next().map(|(_, applied, is_home)| (applied, is_home)).expect("all have it")
    }

    pub(crate) fn has_completed_removals(&self, site: SiteId) -> bool {
        self.at(site).has_completed_removals()
    }

    /// Returns the messages on a link, in order.
    pub(crate) fn queued(&self, from: SiteId, to: SiteId) -> Vec<&Body> {
        let link = self.links.get(&(from, to));
        link.into_iter().flatten().map(|(_, message)| &message.body).collect()
    }

    /// Delivers the first message of a link. Returns whether there was one.
    pub(crate) fn step(&mut self, from: SiteId, to: SiteId) -> bool {
        let link = self.links.get_mut(&(from, to));
        let Some((generation, message)) = link.and_then(VecDeque::pop_front) else { return false };
        if self.workers[to.index()].machine.is_some() {
            self.input(to, Input::Message { from: address(from), generation, message });
        }
        true
    }

    /// Delivers the messages on a link, including those that are added meanwhile.
    pub(crate) fn deliver_on(&mut self, from: SiteId, to: SiteId) {
        while self.step(from, to) {}
    }

    /// Delivers until no message is left on links between these sites.
    pub(crate) fn deliver_among(&mut self, sites: &[SiteId]) {
        let pairs = |from: SiteId| sites.iter().map(move |to| (from, *to));
        let all: Vec<_> = sites.iter().flat_map(|from| pairs(*from)).collect();
        for _ in 0..10_000 {
            let steps: Vec<bool> = all.iter().map(|(from, to)| self.step(*from, *to)).collect();
            if !steps.contains(&true) {
                return;
            }
        }
        panic!("the sites send messages without end");
    }

    pub(crate) fn deliver(&mut self) {
        let sites: Vec<SiteId> = SiteId::all(self.workers.len()).collect();
        self.deliver_among(&sites);
    }

    /// Loses the messages on a link.
    pub(crate) fn lose(&mut self, from: SiteId, to: SiteId) {
        self.links.remove(&(from, to));
    }

    /// Loses the messages on a link, except these.
    pub(crate) fn keep(&mut self, from: SiteId, to: SiteId, is_kept: impl Fn(&Body) -> bool) {
        let link = self.links.entry((from, to)).or_default();
        link.retain(|(_, message)| is_kept(&message.body));
    }

    /// Loses the messages from and to a site.
    pub(crate) fn cut_off(&mut self, site: SiteId) {
        self.links.retain(|(from, to), _| *from != site && *to != site);
    }

    /// Advances the clock, and has each running worker perform what is due.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        let now = self.now();
        for site in SiteId::all(self.workers.len()) {
            if self.workers[site.index()].machine.is_some() {
                self.with(site, |machine| machine.on_deadline(now));
            }
        }
    }

    /// Delivers everything, and has workers send again, until nothing is missing anywhere.
    pub(crate) fn run(&mut self) {
        for _ in 0..8 {
            self.pass(RETRY_MS);
            self.deliver();
        }
    }

    /// Stops a worker. Messages from and to it are lost.
    pub(crate) fn stop(&mut self, site: SiteId) {
        self.workers[site.index()].machine = None;
        self.cut_off(site);
    }

    /// Restarts a worker from its journal.
    pub(crate) fn restart(&mut self, site: SiteId, members: &Members) {
        self.stop(site);
        let worker = &mut self.workers[site.index()];
        worker.machine = Some(worker.rebuilt(members));
    }

    /// Begins a new generation of a site, without data of the former one.
    pub(crate) fn begin_generation(&mut self, site: SiteId, members: &Members) {
        self.stop(site);
        let worker = &mut self.workers[site.index()];
        worker.config.generation = members.generation(site);
        let sites = members.sites();
        worker.first = Members::at_start(sites, sites, site, worker.config.generation);
        (worker.parts, worker.records, worker.since) = (Vec::new(), Vec::new(), 0);
        worker.machine = Some(Primary::new(worker.config.clone(), &worker.first));
        self.set_members(site, members);
    }

    pub(crate) fn set_members(&mut self, site: SiteId, members: &Members) {
        let now = self.now();
        self.with(site, |machine| machine.set_members(now, members));
    }

    /// Calls a machine and carries out its outputs.
    pub(crate) fn with(&mut self, site: SiteId, call: impl FnOnce(&mut Primary)) {
        let worker = &mut self.workers[site.index()];
        let machine = worker.machine.as_mut().expect("the worker runs");
        call(machine);
        while let Some(output) = machine.poll_output() {
            match output {
                Output::Records(records) => {
                    worker.records.extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::Send { to, message } => {
                    let from = address(site);
                    assert!(message.validate(from, to, &self.topology), "{message:?}");
                    let link = self.links.entry((site, to.site)).or_default();
                    link.push_back((machine.members().generation(site), message));
                }
                Output::Reply { request, mut response, last } => {
                    if let Response::Accepted(done) | Response::Applied(done) = &mut response {
                        self.numbers.entry(request).or_default().push(done.number.take());
                    }
                    let replies = self.replies.entry(request).or_default();
                    assert!(replies.iter().all(|(_, last)| !last), "a reply after the last");
                    replies.push((response, last));
                }
                Output::Trace(Event::Rare(path)) => self.rare.push(path.0),
            }
        }
    }
}

impl Worker {
    /// Takes the next part of a checkpoint. Returns whether there was one.
    pub(crate) fn take_part(&mut self, checkpoint: &mut Checkpoint, keys: usize) -> bool {
        let machine = self.machine.as_ref().expect("the worker runs");
        let Some(part) = machine.next_part(checkpoint, keys) else { return false };
        let mut bytes = Vec::new();
        part.encode(&mut bytes);
        self.parts.push(bytes);
        true
    }

    /// Forgets the last checkpoint, and the records before the one that begins.
    pub(crate) fn begin_checkpoint(&mut self) -> Checkpoint {
        self.parts.clear();
        self.since = self.records.len();
        Checkpoint::default()
    }

    /// Returns the machine, rebuilt from the checkpoint and the records since its beginning.
    pub(crate) fn rebuilt(&self, members: &Members) -> Primary {
        let mut recovery = Recovery::new(self.config.clone(), &self.first);
        for part in &self.parts {
            recovery.take_part(part).expect("the worker has written the part");
        }
        for record in &self.records[self.since..] {
            recovery.take_record(record).expect("the worker has written the record");
        }
        recovery.into_machine(members)
    }
}

pub(crate) fn address(site: SiteId) -> Address {
    Address { site, worker: 0 }
}

/// Returns the site of a partition's home.
pub(crate) fn home_of(members: &Members, partition: PartitionId) -> SiteId {
    let topology = Topology { partitions: PARTITIONS, workers: vec![1; members.sites()] };
    let topology = Arc::new(topology);
    let is_home = |site: &SiteId| {
        let machine = Primary::new(Config::new(address(*site), Arc::clone(&topology)), members);
        machine.applied().any(|(id, _, is_home)| id == partition && is_home)
    };
    SiteId::all(members.sites()).find(is_home).expect("each partition has a home")
}

/// Returns a key whose home is at the first site under the first list, and so on.
pub(crate) fn key_at<const N: usize>(homes: [(&Members, SiteId); N]) -> Key {
    let fits = |id: &PartitionId| homes.iter().all(|(list, home)| home_of(list, *id) == *home);
    let partition = (0..PARTITIONS).map(PartitionId).find(fits).expect("some partition fits");
    key_in(partition, 0)
}

/// Returns one of the keys of a partition.
pub(crate) fn key_in(partition: PartitionId, place: usize) -> Key {
    let keys = (0..).map(|number| Key::from(format!("k{number}").as_str()));
    keys.filter(|key| PartitionId::of(key, PARTITIONS) == partition).nth(place).expect("no end")
}

/// Returns the list after a site was declared dead.
pub(crate) fn without(members: &Members, site: SiteId) -> Members {
    let asked = members.members().find(|other| *other != site).expect("another site is there");
    members.changed(asked, site, Change::Remove).unwrap()
}

/// Returns the list after a site that was declared dead is gone and may join.
pub(crate) fn joining(members: &Members, site: SiteId) -> Members {
    let gap = Gap { cut: Timestamp(1), end: Timestamp(1) };
    let asked = members.members().next().expect("a site is there");
    members.closed(site, gap).changed(asked, site, Change::Add).unwrap()
}

/// Returns the past of a session that saw one position of a key's partition.
pub(crate) fn past(key: &Key, position: Position) -> Past {
    let mut past = Past::default();
    past.note(PartitionId::of(key, PARTITIONS), position);
    past
}

pub(crate) fn at(epoch: u64, index: u64) -> Position {
    Position { epoch, index }
}

/// Returns the last reply to an update at this index of its partition's history.
pub(crate) fn applied_at(epoch: u64, index: u64) -> Response {
    Response::Applied(Done { position: at(epoch, index), number: None })
}

/// Returns the first reply to such an update of another site's client.
pub(crate) fn accepted_at(epoch: u64, index: u64) -> Response {
    Response::Accepted(Done { position: at(epoch, index), number: None })
}

pub(crate) fn attach(past: &Past) -> Command {
    Command::Attach { past: past.clone() }
}

pub(crate) fn barrier(past: &Past) -> Command {
    Command::Barrier { past: past.clone() }
}

/// Asserts that all these sites have the same data.
pub(crate) fn assert_equal(cluster: &Cluster, sites: &[SiteId], keys: &[Key]) {
    let of = |site: &SiteId| {
        let applied: Vec<_> = cluster.at(*site).applied().map(|(id, at, _)| (id, at)).collect();
        let values: Vec<_> = keys.iter().map(|key| cluster.value(*site, key)).collect();
        (applied, values)
    };
    for site in sites {
        assert_eq!(of(site), of(&sites[0]), "{site}");
    }
}
