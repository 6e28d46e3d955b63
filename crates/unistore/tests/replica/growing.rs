//! The list of sites grows: replicas restart from their journals, one after another, with one more
//! site in their list, which is then added and joins. All messages and records are encoded and
//! decoded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_data::{Op, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_membership::{Change, MemberError, SiteStatus};
use solera_time::{Monotonic, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Checkpoint, Command, Config, Input, Message, Output, Part, Record, Recovery, Replica, Response,
};

const PARTITIONS: u16 = 4;

/// A replica and its encoded journal.
struct Host {
    replica: Replica,
    config: Config,
    parts: Vec<(u64, Vec<u8>)>,
    records: Vec<Vec<u8>>,
}

/// A cluster whose links lose some messages and deliver the others in order.
struct Stage {
    hosts: BTreeMap<Address, Host>,
    links: VecDeque<(Address, Address, Vec<u8>)>,
    replies: BTreeMap<RequestId, Response>,
    requests: u64,
    now_ms: u64,
    random: u64,
    /// Acknowledged sums, per key.
    sums: BTreeMap<String, i64>,
}

fn at(site: u8, worker: u8) -> Address {
    Address { site: SiteId(site), worker }
}

impl Stage {
    fn new(workers: &[u8], seed: u64) -> Stage {
        let mut stage = Stage {
            hosts: BTreeMap::new(),
            links: VecDeque::new(),
            replies: BTreeMap::new(),
            requests: 0,
            now_ms: 1000,
            random: seed,
            sums: BTreeMap::new(),
        };
        for (site, count) in (0..).zip(workers) {
            for worker in 0..*count {
                let config = Stage::config(at(site, worker), workers, 0);
                stage.begin(config);
            }
        }
        stage
    }

    fn config(address: Address, workers: &[u8], generation: u32) -> Config {
        let topology = Topology { partitions: PARTITIONS, workers: workers.to_vec() };
        let mut config = Config::new(address, Arc::new(topology));
        (config.journal, config.generation) = (true, generation);
        config
    }

    fn begin(&mut self, config: Config) {
        let replica = Recovery::new(config.clone(), 1).finish();
        let (parts, records) = (Vec::new(), Vec::new());
        self.hosts.insert(config.address, Host { replica, config, parts, records });
    }

    /// Restarts a worker from its journal, with this list of sites.
    fn restart(&mut self, address: Address, workers: &[u8]) {
        self.collect();
        let Config { generation, founders, .. } = self.hosts[&address].config;
        let mut config = Stage::config(address, workers, generation);
        // The number of founders is the same as when its journal was created.
        config.founders = founders;
        let host = self.hosts.get_mut(&address).unwrap();
        let mut recovery = Recovery::new(config.clone(), 1);
        for (lsn, part) in &host.parts {
            recovery.load(*lsn, Part::decode(part).unwrap()).unwrap();
        }
        let known = host.parts.first().map_or(0, |(lsn, _)| *lsn as usize);
        for (index, record) in host.records.iter().enumerate().skip(known) {
            recovery.replay(index as u64 + 1, Record::decode(record).unwrap()).unwrap();
        }
        (host.replica, host.config) = (recovery.finish(), config);
        self.links.retain(|(from, to, _)| *from != address && *to != address);
    }

    fn checkpoint(&mut self, address: Address) {
        self.collect();
        let host = self.hosts.get_mut(&address).unwrap();
        let lsn = host.records.len() as u64;
        let mut checkpoint = Checkpoint::default();
        let parts = std::iter::from_fn(|| host.replica.next_part(&mut checkpoint, 100));
        let encoded = |part: Part| {
            let mut bytes = Vec::new();
            part.encode(&mut bytes);
            (lsn, bytes)
        };
        host.parts = parts.map(encoded).collect();
    }

    fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.now_ms * 1_000_000),
            physical: Physical(1_800_000_000_000_000 + self.now_ms * 1000),
        }
    }

    fn collect(&mut self) {
        for (from, host) in &mut self.hosts {
            while let Some(output) = host.replica.poll_output() {
                match output {
                    Output::Send { to, message } => {
                        let bytes = postcard::to_stdvec(&message).unwrap();
                        self.links.push_back((*from, to, bytes));
                    }
                    Output::Records(records) => {
                        host.records.extend(records.iter().map(<[u8]>::to_vec));
                    }
                    Output::Reply { request, response, .. } => {
                        self.replies.insert(request, response);
                    }
                    Output::Trace(_) | Output::Ask { .. } => {}
                }
            }
        }
    }

    /// Returns whether a message between sites is lost: one of eight.
    fn loses(&mut self, from: Address, to: Address) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        from.site != to.site && self.random >> 61 == 0
    }

    fn deliver(&mut self) {
        while let Some((from, to, bytes)) = self.links.pop_front() {
            if self.loses(from, to) {
                continue;
            }
            let (now, generation) = (self.now(), self.hosts[&from].config.generation);
            // A site that only some sites list gets no messages, and sends none.
            let Some(host) = self.hosts.get_mut(&to) else { continue };
            let message: Message = postcard::from_bytes(&bytes).unwrap();
            assert!(
                message.validate(from, to, &host.config.topology),
                "{from:?} breaks {to:?}: {message:?}"
            );
            host.replica.handle(now, Input::Message { from, generation, message });
            self.collect();
        }
    }

    fn run(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.now_ms += 25;
            let now = self.now();
            for host in self.hosts.values_mut() {
                host.replica.on_deadline(now);
            }
            self.collect();
            self.deliver();
        }
    }

    /// Lets time pass until a condition holds.
    #[track_caller]
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Stage) -> bool) {
        for _ in 0..1000 {
            if holds(self) {
                return;
            }
            self.run(1);
        }
        panic!("never: {what}");
    }

    fn execute(&mut self, site: u8, key: &str, op: Op, level: Level) -> Outcome {
        self.requests += 1;
        let (now, request) = (self.now(), RequestId(self.requests));
        let (past, key) = (Vector::zero(1), key.as_bytes().into());
        let command = Command::Execute { past, level, key, op };
        let host = self.hosts.get_mut(&at(site, 0)).unwrap();
        host.replica.handle(now, Input::Client { request, command });
        self.collect();
        self.deliver();
        self.run(usize::from(!self.replies.contains_key(&request)));
        match self.replies.remove(&request) {
            Some(Response::Executed { outcome: Ok(outcome), .. }) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Executes a write at every site, and replicates the writes.
    fn write(&mut self, sites: u8) {
        for site in 0..sites {
            for key in 0..6 {
                let (key, level) = match key {
                    5 => ("eventual".to_owned(), Level::Eventual),
                    _ => (format!("k{key}"), Level::Causal),
                };
                self.execute(site, &key, Op::IncrBy(1), level);
                *self.sums.entry(key).or_default() += 1;
            }
        }
        self.run(8);
    }

    #[track_caller]
    fn check(&mut self, sites: u8) {
        for (key, sum) in self.sums.clone() {
            let level = if key == "eventual" { Level::Eventual } else { Level::Causal };
            let all = Outcome::Bulk(Value::from(sum.to_string().as_str()));
            for site in 0..sites {
                let what = format!("{key} is {sum} at site {site}");
                self.until(&what, |stage| stage.execute(site, &key, Op::Get, level) == all);
            }
        }
    }

    fn add(&mut self, site: SiteId) -> Result<(), MemberError> {
        let now = self.now();
        let root = self.hosts.get_mut(&at(0, 0)).unwrap();
        let changed = root.replica.change_members(now, site, Change::Add);
        self.collect();
        changed
    }

    #[track_caller]
    fn settles(&mut self) {
        self.until("everything is settled", |stage| {
            stage.hosts.values().all(|host| host.replica.status().unsettled_updates() == 0)
        });
    }

    /// Adds a site to the list and waits until it is a member.
    fn grow(&mut self, before: &[u8]) {
        let sites = before.len() as u8;
        let new = SiteId(sites);
        let after: Vec<u8> = before.iter().copied().chain([1]).collect();
        let members: Vec<Address> = self.hosts.keys().copied().collect();
        for (done, address) in members.iter().enumerate() {
            if done > 0 && self.hosts[&at(0, 0)].config.topology.sites() > before.len() {
                let refused = MemberError::NotAgreed(address.site);
                assert_eq!(self.add(new), Err(refused), "{address:?} does not list it");
            }
            if done % 2 == 0 {
                self.checkpoint(*address);
                self.write(sites);
            }
            self.restart(*address, &after);
            self.run(40);
            self.write(sites);
            self.check(sites);
        }
        // No state is kept for a site that is not a member.
        self.settles();
        let root = &self.hosts[&at(0, 0)].replica;
        assert_eq!(root.status().members().status(new), SiteStatus::Gone);
        assert_eq!(root.status().view().uniform_vec[new], Timestamp::ZERO);
        self.until("all agree", |stage| stage.add(new).is_ok());
        let config = Stage::config(at(sites, 0), &after, 1);
        self.begin(config);
        let serves = |stage: &Stage| stage.hosts[&at(sites, 0)].replica.status().view().serving;
        self.until("the new site serves", |stage| {
            stage.write(sites);
            serves(stage)
        });
        self.write(sites + 1);
        self.check(sites + 1);
        self.settles();
    }

    fn restart_all(&mut self, workers: &[u8]) {
        for address in self.hosts.keys().copied().collect::<Vec<_>>() {
            self.restart(address, workers);
            self.run(20);
        }
    }
}

#[test]
fn a_site_that_nobody_listed_joins_while_the_others_write() {
    for seed in 0..20 {
        let mut stage = Stage::new(&[2, 1], seed);
        stage.write(2);
        stage.grow(&[2, 1]);
        stage.restart_all(&[2, 1, 1]);
        stage.write(3);
        stage.check(3);
        // The list of sites grows a second time.
        stage.grow(&[2, 1, 1]);
    }
}

#[test]
fn a_single_site_gets_a_second() {
    let mut stage = Stage::new(&[3], 1);
    stage.write(1);
    stage.grow(&[3]);
    let root = &stage.hosts[&at(0, 0)].replica;
    assert!(root.status().members().is_member(SiteId(1)));
}

#[test]
fn a_site_that_does_not_list_the_new_one_can_be_removed() {
    let mut stage = Stage::new(&[1, 1], 1);
    stage.write(2);
    stage.restart(at(0, 0), &[1, 1, 1]);
    stage.run(10);
    stage.hosts.remove(&at(1, 0));
    let now = stage.now();
    let root = stage.hosts.get_mut(&at(0, 0)).unwrap();
    root.replica.change_members(now, SiteId(1), Change::Remove).unwrap();
    stage.check(1);
    stage.until("the new site is added", |stage| stage.add(SiteId(2)).is_ok());
}
