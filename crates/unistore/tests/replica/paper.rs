//! The paper's rules one by one. The test controls every message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use solera_data::{Key, Op, OpError, Outcome, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, PartitionId, RequestId, Topology};
use solera_time::{Monotonic, Origin, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Command, CommandError, Config, Input, Kind, LogRange, Message, Output, Pasts, Protocol,
    Replica, Response, Rule, StrongLimit, StrongLimits, TxId,
};

pub(crate) const PARTITIONS: u16 = 2;

/// Replicas, and messages that wait on their links until the test delivers them.
pub(crate) struct Stage {
    pub(crate) replicas: BTreeMap<Address, Replica>,
    pub(crate) links: BTreeMap<(Address, Address), VecDeque<Message>>,
    pub(crate) replies: BTreeMap<RequestId, Response>,
    now_ms: u64,
    requests: u64,
}

pub(crate) fn at(site: u8, worker: u8) -> Address {
    Address { site: SiteId(site), worker }
}

impl Stage {
    pub(crate) fn new(workers: &[u8], without: Option<Rule>) -> Self {
        Stage::with(workers, |config| config.without = without.into())
    }

    fn with(workers: &[u8], change: impl Fn(&mut Config)) -> Self {
        let topology = Arc::new(Topology { partitions: PARTITIONS, workers: workers.to_vec() });
        let addresses = workers
            .iter()
            .enumerate()
            .flat_map(|(site, workers)| (0..*workers).map(move |worker| at(site as u8, worker)));
        let replicas = addresses
            .map(|address| {
                let mut config = Config::new(address, topology.clone());
                change(&mut config);
                (address, Replica::new(config, 1))
            })
            .collect();
        let (links, replies) = (BTreeMap::new(), BTreeMap::new());
        Stage { replicas, links, replies, now_ms: 1000, requests: 0 }
    }

    fn sites(&self) -> usize {
        self.replicas.keys().map(|address| address.site.index() + 1).max().unwrap_or(0)
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            monotonic: Monotonic(self.now_ms * 1_000_000),
            physical: Physical(1_800_000_000_000_000 + self.now_ms * 1000),
        }
    }

    pub(crate) fn drain(&mut self, address: Address) {
        let replica = self.replicas.get_mut(&address).unwrap();
        while let Some(output) = replica.poll_output() {
            match output {
                Output::Send { to, message } => {
                    self.links.entry((address, to)).or_default().push_back(message);
                }
                Output::Reply { request, response, .. } => {
                    self.replies.insert(request, response);
                }
                Output::Records(_) | Output::Trace(_) | Output::Ask { .. } => {}
            }
        }
    }

    pub(crate) fn ask(&mut self, address: Address, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let now = self.now();
        let input = Input::Client { request, command };
        self.replicas.get_mut(&address).unwrap().handle(now, input);
        self.drain(address);
        request
    }

    pub(crate) fn execute(
        &mut self,
        address: Address,
        past: Vector,
        key: &str,
        op: Op,
    ) -> RequestId {
        let (key, level) = (Key::from(key), Level::Causal);
        self.ask(address, Command::Execute { past, level, key, op })
    }

    /// Delivers the messages on the links for which `open` is true, until none is left.
    pub(crate) fn deliver(&mut self, open: impl Fn(Address, Address) -> bool) {
        loop {
            let ready = self.links.iter().find(|((from, to), messages)| {
                !messages.is_empty() && self.replicas.contains_key(to) && open(*from, *to)
            });
            let Some(((from, to), _)) = ready.map(|(link, _)| (*link, ())) else { return };
            let message = self.links.get_mut(&(from, to)).unwrap().pop_front().unwrap();
            let now = self.now();
            self.replicas
                .get_mut(&to)
                .unwrap()
                .handle(now, Input::Message { from, generation: 0, message });
            self.drain(to);
        }
    }

    /// Lets `ms` milliseconds pass, with ticks, delivering messages on the links for which `open`
    /// is true.
    pub(crate) fn pass(&mut self, ms: u64, open: impl Fn(Address, Address) -> bool) {
        for _ in 0..ms / 10 {
            self.now_ms += 10;
            let addresses: Vec<_> = self.replicas.keys().copied().collect();
            for address in addresses {
                let now = self.now();
                self.replicas.get_mut(&address).unwrap().on_deadline(now);
                self.drain(address);
            }
            self.deliver(&open);
        }
    }

    /// Loses the updates on the links from one site to another.
    fn drop_history(&mut self, from: u8, to: u8) {
        for ((sender, receiver), messages) in &mut self.links {
            if (sender.site.0, receiver.site.0) == (from, to) {
                messages.retain(|message| !matches!(message, Message::Replicate { .. }));
            }
        }
    }

    /// Lets some replicas tick once, after 10 ms, and delivers messages on the links for which
    /// `open` is true.
    fn round(&mut self, ticking: &[Address], open: impl Fn(Address, Address) -> bool) {
        self.now_ms += 10;
        for address in ticking {
            let now = self.now();
            self.replicas.get_mut(address).unwrap().on_deadline(now);
            self.drain(*address);
        }
        self.deliver(open);
    }

    pub(crate) fn reply(&self, request: RequestId) -> &Response {
        self.replies.get(&request).expect("the reply has come")
    }

    pub(crate) fn outcome(&self, request: RequestId) -> Outcome {
        match self.reply(request) {
            Response::Executed { outcome, .. } | Response::Operated(outcome) => {
                outcome.clone().unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    fn pasts(&self, request: RequestId) -> Pasts {
        match self.reply(request) {
            Response::Executed { pasts, .. } | Response::Committed { pasts } => *pasts,
            other => panic!("{other:?}"),
        }
    }

    fn past(&self, request: RequestId) -> Vector {
        self.pasts(request).causal
    }

    pub(crate) fn begin(&mut self, address: Address, past: Vector) -> TxId {
        let request = self.ask(address, Command::Begin { past, strong: false });
        match self.reply(request) {
            Response::Begun(tx) => *tx,
            other => panic!("{other:?}"),
        }
    }

    fn known_vec(&self, address: Address) -> Vector {
        self.replicas[&address].status().known_vecs().next().unwrap().1
    }
}

pub(crate) fn always(_: Address, _: Address) -> bool {
    true
}

fn set(value: &str) -> Op {
    Op::Set(Value::from(value))
}

fn bulk(value: &str) -> Outcome {
    Outcome::Bulk(Value::from(value))
}

/// Returns a key whose partition this worker owns at a site with two workers.
pub(crate) fn key_of(worker: u16) -> String {
    let mut keys = (0..).map(|i| format!("key{i}"));
    keys.find(|key| PartitionId::of(key.as_bytes(), PARTITIONS).0 % 2 == worker).unwrap()
}

/// Creates a transaction on both workers of one site that waits for its commit.
fn prepared(stage: &mut Stage) -> RequestId {
    prepared_with(stage, "new")
}

fn prepared_with(stage: &mut Stage, value: &str) -> RequestId {
    let none = Vector::zero(1);
    let tx = stage.begin(at(0, 0), none);
    for worker in [0, 1] {
        let (key, op) = (Key::from(key_of(worker).as_str()), set(value));
        stage.ask(
            at(0, 0),
            Command::Operate { tx, level: Level::Causal, key, op, kind: Kind::UPDATE },
        );
        stage.deliver(always);
    }
    let commit = stage.ask(at(0, 0), Command::Commit { tx, claim: None });
    // PREPARE arrives at worker 1, and its PREPARE_ACK does not arrive.
    stage.deliver(|from, _| from.worker == 0);
    commit
}

#[test]
fn alg_1_l_13_only_the_transaction_itself_reads_its_own_writes() {
    let mut stage = Stage::new(&[2], None);
    let tx = stage.begin(at(0, 0), Vector::zero(1));
    let operate = |op| Command::Operate {
        tx,
        level: Level::Causal,
        key: Key::from("k"),
        op,
        kind: Kind::UPDATE,
    };
    stage.ask(at(0, 0), operate(set("mine")));
    stage.deliver(always);
    let own = stage.ask(at(0, 0), operate(Op::Get));
    let other = stage.execute(at(0, 0), Vector::zero(1), "k", Op::Get);
    stage.deliver(always);
    assert_eq!(stage.outcome(own), bulk("mine"));
    assert_eq!(stage.outcome(other), Outcome::Nil);
}

#[test]
fn alg_1_l_21_a_read_waits_for_a_prepared_transaction_on_its_key() {
    for (without, waits) in [(None, true), (Some(Rule::WaitOnKnownVec), false)] {
        let mut stage = Stage::new(&[2], without);
        let commit = prepared(&mut stage);
        stage.now_ms += 1;
        let read = stage.execute(at(0, 1), Vector::zero(1), &key_of(1), Op::Get);
        assert_eq!(!stage.replies.contains_key(&read), waits);
        stage.deliver(always);
        assert!(matches!(stage.reply(commit), Response::Committed { .. }));
        let expected = if waits { bulk("new") } else { Outcome::Nil };
        assert_eq!(stage.outcome(read), expected);
    }
}

#[test]
fn alg_2_l_3_known_vec_stays_just_below_the_smallest_prepare_time() {
    for (without, stays) in [(None, true), (Some(Rule::KnownVecBelowPrepared), false)] {
        let mut stage = Stage::new(&[2], without);
        let commit = prepared(&mut stage);
        stage.pass(100, |_, _| false);
        let while_prepared = stage.known_vec(at(0, 1));
        stage.deliver(always);
        let ts = stage.past(commit)[SiteId(0)];
        assert_eq!(while_prepared[SiteId(0)] < ts, stays);
        stage.pass(50, always);
        assert!(stage.known_vec(at(0, 1))[SiteId(0)] >= ts, "once committed, it goes on");
    }
}

#[test]
fn a_partition_that_does_not_prepare_in_time_aborts_the_transaction() {
    let mut stage = Stage::new(&[2], None);
    let commit = prepared(&mut stage);
    stage.pass(1500, |from, _| from.worker == 0);
    assert_eq!(*stage.reply(commit), Response::Failed(CommandError::PartitionSlow));
    stage.pass(50, always);
    let status = stage.replicas[&at(0, 1)].status();
    assert_eq!(status.prepared_transactions(), 0);
    let read = stage.execute(at(0, 1), Vector::zero(1), &key_of(1), Op::Get);
    assert_eq!(stage.outcome(read), Outcome::Nil);
}

#[test]
fn a_large_transaction_has_time_to_get_to_its_partitions() {
    let mut stage = Stage::new(&[2], None);
    let commit = prepared_with(&mut stage, &"x".repeat(20 << 20));
    stage.pass(2500, |from, _| from.worker == 0);
    assert!(!stage.replies.contains_key(&commit));
    stage.pass(1000, |from, _| from.worker == 0);
    assert_eq!(*stage.reply(commit), Response::Failed(CommandError::PartitionSlow));
}

#[test]
fn a_participant_that_gets_no_decision_asks_for_it() {
    let mut stage = Stage::new(&[2], None);
    let commit = prepared(&mut stage);
    // The acknowledgement arrives, and the decision is lost.
    stage.deliver(|from, _| from.worker == 1);
    assert!(matches!(stage.reply(commit), Response::Committed { .. }));
    stage.links.remove(&(at(0, 0), at(0, 1)));
    assert_eq!(stage.replicas[&at(0, 1)].status().prepared_transactions(), 1);
    stage.pass(2500, always);
    let read = stage.execute(at(0, 1), Vector::zero(1), &key_of(1), Op::Get);
    assert_eq!(stage.outcome(read), bulk("new"));
}

/// Creates a transaction of worker 0 that adds to an eventual key of worker 1, and is about to
/// commit.
fn eventual(stage: &mut Stage, key: &str) -> TxId {
    let tx = stage.begin(at(0, 0), Vector::zero(1));
    let (key, level) = (Key::from(key), Level::Eventual);
    stage.ask(at(0, 0), Command::Operate { tx, level, key, op: Op::IncrBy(1), kind: Kind::UPDATE });
    stage.deliver(always);
    tx
}

#[test]
fn an_eventual_write_is_acknowledged_only_when_no_crash_can_lose_it() {
    let mut stage = Stage::new(&[2], None);
    let (key, nobody) = (key_of(1), Vector::zero(1));
    let read = |stage: &mut Stage| {
        let request = stage.execute(at(0, 1), nobody, &key, Op::Get);
        stage.outcome(request)
    };
    let tx = eventual(&mut stage, &key);
    let commit = stage.ask(at(0, 0), Command::Commit { tx, claim: None });
    assert!(!stage.replies.contains_key(&commit), "worker 1 does not know of it yet");
    stage.deliver(|from, _| from.worker == 0);
    assert_eq!(read(&mut stage), Outcome::Nil, "it may still be given up");
    // The acknowledgement arrives, and the decision is lost.
    stage.deliver(|from, _| from.worker == 1);
    assert!(!stage.replies.contains_key(&commit), "nobody knows yet when worker 1 executes it");
    stage.links.remove(&(at(0, 0), at(0, 1)));
    stage.pass(2500, always);
    assert!(matches!(stage.reply(commit), Response::Committed { .. }));
    assert_eq!(read(&mut stage), bulk("1"));
    stage.pass(2500, always);
    assert_eq!(read(&mut stage), bulk("1"), "a decision that is repeated does nothing");
}

#[test]
fn a_strong_transaction_ends_at_its_limits_and_a_causal_one_does_not() {
    let (bytes, operations) = (1000, 4);
    let limits = StrongLimits { bytes, operations };
    let (too_long, too_many) = (StrongLimit::Bytes(bytes), StrongLimit::Operations(operations));
    // Keys of both workers: the coordinator gets the value from another worker, or from itself.
    for worker in [0, 1] {
        let key = key_of(worker);
        // Overwritten values do not count twice, and keys count.
        for (sizes, last, limit) in [
            (vec![], bytes - key.len() + 1, too_long),
            (vec![600, 600], bytes - key.len(), too_long),
            (vec![1, 1, 1, 1], 1, too_many),
        ] {
            for strong in [true, false] {
                let mut stage = Stage::new(&[2], None);
                stage.replicas.get_mut(&at(0, 0)).unwrap().limit_strong(limits);
                let past = Vector::zero(1);
                let begun = stage.ask(at(0, 0), Command::Begin { past, strong });
                let Response::Begun(tx) = *stage.reply(begun) else { panic!("it does not begin") };
                let mut write = |size: usize| {
                    let (key, op) = (Key::from(&*key), Op::Set(Value::from(vec![b'x'; size])));
                    let (level, kind) = (Level::Causal, Kind::UPDATE);
                    let done = stage.ask(at(0, 0), Command::Operate { tx, level, key, op, kind });
                    stage.deliver(always);
                    stage.reply(done).clone()
                };
                for size in sizes.iter().copied() {
                    assert_eq!(write(size), Response::Operated(Ok(Outcome::Ok)));
                }
                let (last, after) = (write(last), write(1));
                if strong {
                    assert_eq!(last, Response::Failed(CommandError::StrongTooLarge(limit)));
                    assert_eq!(after, Response::Failed(CommandError::NoSuchTransaction));
                } else {
                    assert_eq!((last, after.clone()), (after, Response::Operated(Ok(Outcome::Ok))));
                }
            }
        }
    }
}

#[test]
fn a_transaction_too_large_for_a_record_is_rejected_before_anything_is_recorded() {
    let mut stage = Stage::new(&[2], None);
    let nobody = Vector::zero(1);
    let value = Value::from(vec![b'x'; 300 << 20]);
    for worker in [0, 1] {
        let long = vec![value.clone(), value.clone()];
        let request = stage.execute(at(0, 0), nobody, &key_of(worker), Op::SetAdd(long));
        let Response::Executed { outcome, .. } = stage.reply(request) else { panic!("no answer") };
        assert_eq!(*outcome, Err(OpError::TooLarge));
    }
    // Each value is allowed, but not all in one transaction. A transaction that writes a key again
    // holds it once, but repeats all its operations on an eventual space.
    let value = Value::from(vec![b'x'; 200 << 20]);
    let (here, there) = (key_of(0), key_of(1));
    for (level, keys) in [
        (Level::Causal, vec![&*here, &here, &there, "last"]),
        (Level::Causal, vec![&*there, &there, &here, "last"]),
        (Level::Eventual, vec![&*here, &here, &here]),
    ] {
        let begun = stage.ask(at(0, 0), Command::Begin { past: nobody, strong: false });
        let Response::Begun(tx) = *stage.reply(begun) else { panic!("it does not begin") };
        let mut write = |key: &str| {
            let (key, op) = (Key::from(key), Op::Set(value.clone()));
            let done =
                stage.ask(at(0, 0), Command::Operate { tx, level, key, op, kind: Kind::UPDATE });
            stage.deliver(always);
            stage.reply(done).clone()
        };
        let (last, fit) = keys.split_last().unwrap();
        for key in fit {
            assert_eq!(write(key), Response::Operated(Ok(Outcome::Ok)));
        }
        assert_eq!(write(last), Response::Failed(CommandError::TooLarge));
        // The transaction was aborted, because it would lack the operation.
        assert_eq!(write("small"), Response::Failed(CommandError::NoSuchTransaction));
        for key in keys {
            let request = stage.execute(at(0, 0), nobody, key, Op::Get);
            stage.deliver(always);
            assert_eq!(stage.outcome(request), Outcome::Nil);
        }
    }
}

#[test]
fn keys_at_risk_are_listed_up_to_a_few_megabytes() {
    let mut stage = Stage::new(&[1, 1], None);
    for key in ["x".repeat(9 << 20).as_str(), "short"] {
        stage.execute(at(0, 0), Vector::zero(2), key, set("v"));
        stage.now_ms += 1;
    }
    let at_risk = stage.replicas[&at(0, 0)].status().at_risk(10);
    assert_eq!((at_risk.transactions, at_risk.keys), (2, vec![Key::from("short")]));
}

/// Executes a strong command at a site that receives the leader's changes 20 ms late, while the
/// leader's site changes the same key every 10 ms. Returns the number of changes until it was
/// answered, too.
fn strong_command_among_others(without: Option<Rule>) -> (Response, usize) {
    let mut stage = Stage::new(&[1, 1, 1], without);
    stage.pass(200, always);
    let incr = |past| Command::ExecuteStrong {
        past,
        key: Key::from("k"),
        op: Op::IncrBy(1),
        kind: Kind::UPDATE,
    };
    let far = stage.ask(at(2, 0), incr(Vector::zero(3)));
    let (mut near, mut past, mut changes) = (None, Vector::zero(3), 0);
    for round in 0..600 {
        if near.is_none_or(|near| stage.replies.contains_key(&near)) {
            if let Some(near) = near {
                past = stage.past(near);
                changes += 1;
            }
            near = Some(stage.ask(at(0, 0), incr(past)));
        }
        // Messages to the far site are delivered in one round, those from it in another.
        stage.pass(10, |from, to| match (from.site.0, to.site.0) {
            (_, 2) => round % 4 == 0,
            (2, _) => round % 4 == 2,
            _ => true,
        });
        if let Some(response) = stage.replies.get(&far) {
            return (response.clone(), changes);
        }
    }
    panic!("it was not answered");
}

/// A cancelled read is never answered and leaves nothing behind, whether it waits for the key's
/// owner, for a vote, or for its next attempt.
#[test]
fn a_cancelled_strong_read_ends_in_each_of_its_stages() {
    let read = |past| {
        let (key, op, kind) = (Key::from("k"), Op::Get, Kind::READ);
        Command::ReadStrong { past, key, op, kind }
    };
    let owner = PartitionId::of(b"k", PARTITIONS).0 as u8;
    for stage_of in ["owner", "vote", "retry"] {
        let mut stage = Stage::new(&[2, 2, 2], None);
        stage.pass(200, always);
        let here = at(1, if stage_of == "owner" { 1 - owner } else { owner });
        if stage_of == "retry" {
            // The leader's site changes the key, and this one has not received the change.
            let (key, op, kind) = (Key::from("k"), Op::IncrBy(1), Kind::UPDATE);
            let past = Vector::zero(3);
            stage.ask(at(0, owner), Command::ExecuteStrong { past, key, op, kind });
            stage.pass(500, |from, to| from.site.0 != 0 || to.site.0 != 1);
            stage.drop_history(0, 1);
        }
        let request = stage.ask(here, read(Vector::zero(3)));
        if stage_of == "retry" {
            for _ in 0..80 {
                stage.pass(10, |from, _| from.site.0 != 0);
                stage.drop_history(0, 1);
                stage.deliver(always);
            }
            assert_eq!(stage.replicas[&here].status().strong().aborted, 2);
            // A writer would wait for a reserved key.
            assert_eq!(stage.replicas[&at(0, owner)].status().strong().reserved, 0);
        }
        let undecided = stage.replicas[&here].status().undecided_transactions();
        assert_eq!(undecided, usize::from(stage_of != "owner"), "{stage_of}");
        let now = stage.now();
        stage.replicas.get_mut(&here).unwrap().handle(now, Input::Cancel { request });
        stage.drain(here);
        if stage_of == "retry" {
            assert_eq!(stage.replicas[&here].status().undecided_transactions(), 0);
        }
        stage.pass(1000, always);
        assert!(!stage.replies.contains_key(&request), "{stage_of}: {:?}", stage.replies);
        let status = stage.replicas[&here].status();
        assert_eq!((status.undecided_transactions(), status.open_transactions()), (0, 0));
        let again = stage.ask(here, read(Vector::zero(3)));
        stage.pass(1000, always);
        assert!(matches!(stage.reply(again), Response::Executed { .. }), "{stage_of}");
    }
}

/// The reads of a transaction that was dropped are certified as its commit would be: this fails if
/// a transaction that its site has not seen has changed the keys.
#[test]
fn alg_3_l_1_the_reads_of_a_dropped_transaction_are_certified() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let (here, key, level) = (at(1, 0), Key::from("k"), Level::Linearizable);
    let change = |past| {
        let (op, kind) = (Op::IncrBy(1), Kind::UPDATE);
        Command::ExecuteStrong { past, key: Key::from("k"), op, kind }
    };
    for other in [false, true] {
        let begun = stage.ask(here, Command::Begin { past: Vector::zero(3), strong: true });
        let Response::Begun(tx) = *stage.reply(begun) else { panic!("it does not begin") };
        let named = stage.ask(here, Command::Name { tx });
        let Response::Named(tid) = *stage.reply(named) else { panic!("it has no name") };
        let (op, kind) = (Op::IncrBy(5), Kind::UPDATE);
        let read = stage.ask(here, Command::Operate { tx, level, key: key.clone(), op, kind });
        assert_eq!(stage.outcome(read), Outcome::Int(5));
        if other {
            let past = Vector::zero(3);
            let changed = stage.ask(at(0, 0), change(past));
            stage.pass(500, always);
            assert!(matches!(stage.reply(changed), Response::Executed { .. }));
        }
        let certified = stage.ask(here, Command::Certify { tx, claim: None });
        stage.pass(500, always);
        match stage.reply(certified) {
            Response::Committed { .. } => assert!(!other, "what it has read was changed"),
            Response::Failed(CommandError::Aborted { .. }) => assert!(other, "nobody was there"),
            reply => panic!("{reply:?}"),
        }
        // A query by its identifier returns that it had no effect.
        let outcome = stage.ask(here, Command::Outcome { tid });
        stage.deliver(always);
        assert_eq!(stage.reply(outcome), &Response::Outcome(Some(false)));
    }
    let all = stage.ask(here, change(Vector::zero(3)));
    stage.pass(500, always);
    assert_eq!(stage.outcome(all), Outcome::Int(2), "what was dropped has had an effect");
}

#[test]
fn a_strong_command_commits_although_others_change_its_key_all_the_time() {
    let (response, changes) = strong_command_among_others(None);
    assert!(matches!(response, Response::Executed { .. }), "{response:?}");
    assert!((5..30).contains(&changes), "after {changes} changes");
}

#[test]
fn a_strong_command_that_conflicts_each_time_fails_in_time_and_names_the_key() {
    let without = Rule::Certification(solera_certification::Rule::AbortedFirst);
    let (response, changes) = strong_command_among_others(Some(without));
    let Response::Failed(error @ CommandError::Aborted { key, .. }) = &response else {
        panic!("{response:?}");
    };
    assert_eq!(key, &Some(Key::from("k")));
    assert!(error.to_string().starts_with("conflict on 'k';"), "{error}");
    // The command was retried for five seconds.
    assert!(changes > 400, "after {changes} changes");
}

/// Returns the number of updates in the REPLICATE messages that wait on a link.
fn under_way(stage: &Stage, from: Address, to: Address) -> usize {
    let messages = stage.links.get(&(from, to)).into_iter().flatten();
    let ranges = messages.filter_map(|message| match message {
        Message::Replicate(ranges) => Some(ranges),
        _ => None,
    });
    let writes = ranges.flatten().flat_map(|range| &range.updates);
    writes.flat_map(|update| &update.writes).map(|write| write.size()).sum()
}

#[test]
fn a_backlog_is_sent_piece_by_piece_and_not_at_all_to_a_full_link() {
    let mut stage = Stage::new(&[1, 1], None);
    stage.pass(100, always);
    let value = "x".repeat(300_000);
    for i in 0..20 {
        stage.execute(at(0, 0), Vector::zero(2), &format!("k{i}"), set(&value));
    }
    let (here, there) = (at(0, 0), at(1, 0));
    let mut left = 20 * 300_000_usize;
    while left > 0 {
        stage.replicas.get_mut(&here).unwrap().hold_back(vec![there]);
        stage.round(&[here], |_, _| false);
        assert_eq!(under_way(&stage, here, there), 0, "the link is full");
        stage.replicas.get_mut(&here).unwrap().hold_back(Vec::new());
        stage.round(&[here], |_, _| false);
        let sent = under_way(&stage, here, there);
        assert!((1..2 << 20).contains(&sent), "{sent} bytes at once");
        left = left.saturating_sub(sent);
        stage.deliver(always);
    }
    assert!(!stage.links.values().flatten().any(|m| matches!(m, Message::Gap { .. })));
    stage.pass(100, always);
    for i in 0..20 {
        let read = stage.execute(there, Vector::zero(2), &format!("k{i}"), Op::Get);
        assert_eq!(stage.outcome(read), bulk(&value), "k{i}");
    }
}

#[test]
fn alg_1_l_5_a_remote_transaction_is_invisible_before_it_is_uniform() {
    for (without, hidden) in [(None, true), (Some(Rule::UniformBeforeVisible), false)] {
        let mut stage = Stage::new(&[1, 1, 1], without);
        stage.pass(100, always);
        stage.execute(at(0, 0), Vector::zero(3), "k", set("v"));
        // Replication reaches site 1. The messages that would show site 1 that two sites store the
        // transaction do not.
        stage.pass(10, |_, _| false);
        stage.links.retain(|(from, to), _| (*from, *to) == (at(0, 0), at(1, 0)));
        let link = stage.links.get_mut(&(at(0, 0), at(1, 0))).unwrap();
        link.retain(|message| matches!(message, Message::Replicate(_)));
        stage.deliver(always);
        stage.pass(10, |_, _| false);
        let read = stage.execute(at(1, 0), Vector::zero(3), "k", Op::Get);
        let expected = if hidden { Outcome::Nil } else { bulk("v") };
        assert_eq!(stage.outcome(read), expected);
    }
}

/// UniStore Figure 1: site 0 commits t1, which reaches site 1 alone, and dies. Site 1 commits t2,
/// which depends on t1. Site 2 can show t2 only if site 1 forwards t1 (Alg. 2 l. 19–22).
#[test]
fn figure_1_a_transaction_that_reached_one_site_is_forwarded_to_all() {
    for (without, arrives) in [(None, true), (Some(Rule::Forwarding), false)] {
        let mut stage = Stage::new(&[1, 1, 1], without);
        stage.pass(100, always);
        let t1 = stage.execute(at(0, 0), Vector::zero(3), "t1", set("1"));
        stage.pass(50, |from, to| from != at(2, 0) && to != at(2, 0));
        let seen = stage.execute(at(1, 0), Vector::zero(3), "t1", Op::Get);
        assert_eq!(stage.outcome(seen), bulk("1"), "t1 is uniform at sites 0 and 1");
        let t2 = stage.execute(at(1, 0), stage.past(seen), "t2", set("2"));
        assert!(stage.past(t2)[SiteId(0)] >= stage.past(t1)[SiteId(0)]);
        stage.replicas.remove(&at(0, 0));
        stage.links.clear();
        stage.pass(4000, always);
        for (key, value) in [("t2", "2"), ("t1", "1")] {
            let read = stage.execute(at(2, 0), Vector::zero(3), key, Op::Get);
            let expected = if arrives { bulk(value) } else { Outcome::Nil };
            assert_eq!(stage.outcome(read), expected, "{key} at site 2");
        }
    }
}

/// UniStore Figure 2: only site 0 stores t1 when the strong transaction t2, which depends on it, is
/// certified, and t1 is lost with the site. If t2 had committed, t3, which conflicts with it, never
/// could.
#[test]
fn figure_2_a_strong_transaction_does_not_depend_on_what_may_be_lost() {
    let without = Rule::Certification(solera_certification::Rule::UniformBeforeCommit);
    for (without, holds) in [(None, true), (Some(without), false)] {
        let mut stage = Stage::new(&[1, 1, 1], without);
        stage.pass(100, always);
        let strong = |past| Command::ExecuteStrong {
            past,
            key: Key::from("k"),
            op: Op::IncrBy(1),
            kind: Kind::UPDATE,
        };
        let t1 = stage.execute(at(0, 0), Vector::zero(3), "t1", set("1"));
        let t2 = stage.ask(at(0, 0), strong(stage.past(t1)));
        stage.deliver(always);
        assert_eq!(stage.replies.contains_key(&t2), !holds, "t2 commits before t1 is uniform");
        stage.replicas.remove(&at(0, 0));
        stage.links.clear();
        stage.pass(8000, always);
        let t3 = stage.ask(at(1, 0), strong(Vector::zero(3)));
        stage.pass(8000, always);
        let committed = matches!(stage.reply(t3), Response::Executed { .. });
        assert_eq!(committed, holds, "{:?}", stage.reply(t3));
    }
}

#[test]
fn alg_1_l_49_to_52_barrier_and_attach_wait_for_uniformity() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(100, always);
    let write = stage.execute(at(0, 0), Vector::zero(3), "k", set("v"));
    let past = stage.past(write);
    let timeout = None;
    let barrier = stage.ask(at(0, 0), Command::Barrier { pasts: Pasts::causal(past), timeout });
    let attach = stage.ask(at(1, 0), Command::Attach { pasts: Pasts::causal(past), timeout });
    stage.pass(100, |_, _| false);
    assert!(!stage.replies.contains_key(&barrier) && !stage.replies.contains_key(&attach));
    stage.pass(100, always);
    assert_eq!(*stage.reply(barrier), Response::Uniform);
    assert_eq!(*stage.reply(attach), Response::Attached);
    let read = stage.execute(at(1, 0), past, "k", Op::Get);
    assert_eq!(stage.outcome(read), bulk("v"));
}

#[test]
fn a_past_that_died_with_its_site_is_reported() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(100, always);
    let write = stage.execute(at(0, 0), Vector::zero(3), "k", set("v"));
    let past = stage.past(write);
    stage.replicas.remove(&at(0, 0));
    stage.links.clear();
    let timeout = Some(Duration::from_secs(60));
    let attach = stage.ask(at(1, 0), Command::Attach { pasts: Pasts::causal(past), timeout });
    stage.pass(5000, always);
    let reply = stage.reply(attach);
    assert!(
        matches!(reply, Response::Failed(CommandError::Lost { site: SiteId(0), .. })),
        "{reply:?}"
    );
}

#[test]
fn transactions_of_a_live_site_are_not_lost_though_it_is_suspected_for_long() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(100, always);
    // Sites 0 and 1 get no messages from each other; their writes reach each other through site 2.
    let cut = |from: Address, to: Address| from.site.0 + to.site.0 != 1;
    stage.pass(5000, cut);
    let write = stage.execute(at(0, 0), Vector::zero(3), "k", set("v"));
    let past = stage.past(write);
    let timeout = Some(Duration::from_secs(60));
    let attach = stage.ask(at(1, 0), Command::Attach { pasts: Pasts::causal(past), timeout });
    stage.pass(1500, cut);
    assert_eq!(*stage.reply(attach), Response::Attached);
}

#[test]
fn an_open_transaction_keeps_its_snapshot_while_the_others_go_on() {
    let none = Vector::zero(3);
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(100, always);
    stage.execute(at(0, 0), none, "n", Op::IncrBy(100));
    stage.pass(100, always);
    let tx = stage.begin(at(0, 0), none);
    for i in 1..=40 {
        // Sometimes a remote increment comes in between. It is visible once it is uniform.
        if i % 8 == 0 {
            stage.execute(at(1, 0), none, "n", Op::IncrBy(1000));
            stage.pass(100, always);
        }
        let increment = stage.execute(at(0, 0), none, "n", Op::IncrBy(1));
        assert_eq!(stage.outcome(increment), Outcome::Int(100 + i + i / 8 * 1000));
        let (key, level) = (Key::from("n"), Level::Causal);
        let read = stage
            .ask(at(0, 0), Command::Operate { tx, level, key, op: Op::Get, kind: Kind::UPDATE });
        assert_eq!(stage.outcome(read), bulk("100"));
    }
}

#[test]
fn an_eventual_read_shows_what_has_arrived_before_its_dependencies_have() {
    let none = Vector::zero(3);
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(100, always);
    // Site 2 gets the messages of site 0, and site 1 those of site 2 but not of site 0.
    let cut = |from: Address, to: Address| from.site.0 + to.site.0 != 1;
    stage.pass(50, cut);
    let eventual = |op| {
        let (key, level) = (Key::from("e"), Level::Eventual);
        Command::Execute { past: none, level, key, op }
    };
    stage.ask(at(2, 0), eventual(set("v")));
    stage.pass(50, cut);
    let read = stage.ask(at(1, 0), eventual(Op::Get));
    assert_eq!(stage.outcome(read), bulk("v"));
}

/// An update that settles at a key must not be removed by a removal that was folded after it. Site
/// 0 had received a removal `U_b` that had not observed the increment `X`, after an eventual write
/// `U_a` of the same site that was not within the floor yet. `X` settled, and `U_b` then removed
/// it, at site 0 only.
#[test]
fn an_update_that_cannot_be_folded_does_not_hold_back_the_removals_behind_it() {
    let mut stage = Stage::new(&[1, 2, 2], None);
    let mut of_worker_1 = (0..)
        .map(|i| format!("key{i}"))
        .filter(|key| PartitionId::of(key.as_bytes(), PARTITIONS).0 % 2 == 1);
    let (key, other, here) = (of_worker_1.next().unwrap(), of_worker_1.next().unwrap(), key_of(0));
    let none = Vector::zero(3);
    let (root, worker) = (at(1, 0), at(1, 1));
    stage.pass(200, always);
    stage.execute(worker, none, &key, Op::IncrBy(10));
    stage.pass(300, always);
    let tx = stage.begin(root, none);
    for (key, op) in [(&key, Op::Delete), (&here, set("z"))] {
        let key = Key::from(key.as_str());
        stage.ask(root, Command::Operate { tx, level: Level::Causal, key, op, kind: Kind::UPDATE });
        stage.deliver(always);
    }
    let x = Op::IncrBy(1);
    stage.execute(at(2, 1), none, &key, x);
    stage.pass(300, always);
    let without_2 = |from: Address, to: Address| from.site.0 != 2 && to.site.0 != 2;
    let others = [at(0, 0), worker, root];
    for _ in 0..5 {
        stage.round(&others, without_2);
    }
    // Only this worker learns site 2's progress, so its next eventual write is ahead of the root.
    stage.round(&[at(2, 1)], |from, to| from == at(2, 1) && to == worker);
    let (eventual, op) = (Key::from(other.as_str()), Op::IncrBy(1));
    let u_a = Command::Execute { past: none, level: Level::Eventual, key: eventual, op };
    stage.ask(worker, u_a);
    let u_b = stage.ask(root, Command::Commit { tx, claim: None });
    stage.deliver(|from, to| from.site.0 == 1 && to.site.0 == 1);
    assert!(matches!(stage.reply(u_b), Response::Committed { .. }));
    stage.round(&[root], without_2);
    for _ in 0..6 {
        stage.round(&others, without_2);
    }
    stage.pass(500, always);
    for site in [at(0, 0), worker, at(2, 1)] {
        let read = stage.execute(site, none, &key, Op::Get);
        stage.deliver(always);
        assert_eq!(stage.outcome(read), bulk("1"), "{site:?}");
    }
}

#[test]
fn a_past_from_the_future_does_not_attach_and_advances_no_clock() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(100, always);
    let timeout = Some(Duration::from_millis(200));
    for of in [Origin::Site(SiteId(2)), Origin::Strong] {
        let forged = Vector::zero(3).with(of, Timestamp::MAX);
        let attach = stage.ask(at(1, 0), Command::Attach { pasts: Pasts::causal(forged), timeout });
        stage.pass(300, always);
        let reply = stage.reply(attach);
        let Response::Failed(CommandError::TimedOut { origin, .. }) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(*origin, of, "what it waits for is named");
    }
    let write = stage.execute(at(1, 0), Vector::zero(3), "k", set("v"));
    let clock = stage.now().physical;
    let ahead = stage.past(write)[SiteId(1)].ahead_of(Timestamp::from_physical(clock));
    assert_eq!(ahead.as_secs(), 0);
}

#[test]
fn a_timeout_reports_that_nothing_of_a_site_has_arrived() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    let without_2 = |from: Address, to: Address| from.site.0 != 2 && to.site.0 != 2;
    let wait_in_vain = |stage: &mut Stage| {
        // This time is a little later than the update that has just arrived.
        let seen = Timestamp::from_physical(Physical(stage.now().physical.0 + 100_000));
        let pasts = Pasts::causal(Vector::zero(3).with(SiteId(2), seen));
        let timeout = Some(Duration::from_millis(200));
        let attach = stage.ask(at(1, 0), Command::Attach { pasts, timeout });
        stage.pass(300, without_2);
        match stage.reply(attach) {
            Response::Failed(CommandError::TimedOut { behind, .. }) => *behind,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wait_in_vain(&mut stage), None);
    stage.pass(300, always);
    let behind = wait_in_vain(&mut stage).expect("something has arrived");
    assert_eq!(behind.as_secs(), 0, "{behind:?}");
}

/// REDBLUE: updates that the central certifier sends within its site may be lost when a link
/// between two nodes of the site breaks.
#[test]
fn lost_messages_of_a_central_certifier_are_sent_again() {
    let mut stage = Stage::with(&[2, 1, 1], |config| config.protocol = Protocol::RedBlue);
    stage.pass(200, always);
    let key = Key::from(key_of(1).as_str());
    let op = set("v");
    let past = Vector::zero(3);
    let write = stage.ask(at(0, 0), Command::ExecuteStrong { past, key, op, kind: Kind::UPDATE });
    let (mut lost, broken) = (0, (at(0, 0), at(0, 1)));
    for _ in 0..50 {
        stage.pass(10, |from, to| (from, to) != broken);
        let link = stage.links.entry(broken).or_default();
        let spreads = |message: &Message| match message {
            Message::ForwardRanges(ranges) => ranges.iter().any(|it| !it.updates.is_empty()),
            _ => false,
        };
        lost += link.iter().filter(|message| spreads(message)).count();
        link.retain(|message| !spreads(message));
        stage.deliver(|from, to| (from, to) == broken);
    }
    assert!(lost > 0, "{:?}", stage.reply(write));
    stage.pass(1000, always);
    let read = stage.execute(at(0, 1), stage.past(write), &key_of(1), Op::Get);
    stage.deliver(always);
    assert_eq!(stage.outcome(read), bulk("v"));
}

/// A site that follows a time passes it on, so one broken peer must not advance the times of all.
#[test]
fn strong_times_from_the_future_advance_no_clock() {
    use solera_certification::{Ballot, Body, GroupId, Message as Certified};
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(200, always);
    let before = stage.replicas[&at(1, 0)].status().strong().ignored;
    let ballot = Ballot { configuration: 0, round: 0, leader: SiteId(0) };
    let (ceiling, upto, phases) = (Timestamp::MAX, Timestamp::ZERO, Vec::new());
    let range = (None, None);
    let status = Body::Status { ballot, ceiling, upto, range, phases, oldest: Vec::new() };
    let range = LogRange {
        partition: PartitionId(0),
        origin: Origin::Strong,
        prev: Timestamp::ZERO,
        known: Timestamp::MAX,
        updates: Vec::new(),
    };
    for message in [
        Message::Certification(Box::new(Certified { group: GroupId(0), body: status })),
        Message::Replicate(vec![range]),
    ] {
        let now = stage.now();
        let input = Input::Message { from: at(0, 0), generation: 0, message };
        stage.replicas.get_mut(&at(1, 0)).unwrap().handle(now, input);
        stage.drain(at(1, 0));
    }
    assert_eq!(stage.replicas[&at(1, 0)].status().strong().ignored, before + 2);
    // The next leader begins after all ceilings that it has received.
    stage.replicas.remove(&at(0, 0));
    stage.links.clear();
    stage.pass(6000, always);
    let (past, key, op) = (Vector::zero(3), Key::from("k"), Op::IncrBy(1));
    let write = stage.ask(at(1, 0), Command::ExecuteStrong { past, key, op, kind: Kind::UPDATE });
    stage.pass(3000, always);
    let wall = Timestamp::from_physical(stage.now().physical);
    assert!(stage.past(write).strong.ahead_of(wall) < Duration::from_secs(10));
}

/// The error of a transaction that is not decided names clocks only if messages were ignored.
#[test]
fn an_undecided_transaction_reports_that_clocks_may_differ() {
    use solera_certification::{Ballot, Body, GroupId, Message as Certified};
    for early in [false, true] {
        let mut stage = Stage::new(&[1, 1, 1], None);
        stage.pass(200, always);
        let (past, key, op) = (Vector::zero(3), Key::from("k"), Op::IncrBy(1));
        let write =
            stage.ask(at(1, 0), Command::ExecuteStrong { past, key, op, kind: Kind::UPDATE });
        if early {
            let ballot = Ballot { configuration: 0, round: 0, leader: SiteId(0) };
            let (upto, phases) = (Timestamp::ZERO, Vec::new());
            let ceiling = Timestamp::from_physical(stage.now().physical);
            let ceiling = ceiling.later(Duration::from_secs(600));
            let (range, oldest) = ((None, None), Vec::new());
            let body = Body::Status { ballot, ceiling, upto, range, phases, oldest };
            let message = Message::Certification(Box::new(Certified { group: GroupId(0), body }));
            let (now, from) = (stage.now(), at(0, 0));
            let input = Input::Message { from, generation: 0, message };
            stage.replicas.get_mut(&at(1, 0)).unwrap().handle(now, input);
            stage.drain(at(1, 0));
        }
        stage.pass(6000, |from, to| from.site == to.site);
        let reply = stage.reply(write);
        let Response::Failed(error @ CommandError::Unavailable { clocks, .. }) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(*clocks, early);
        assert_eq!(error.to_string().contains("clocks of sites differ"), early, "{error}");
    }
}

/// Commits a transaction of worker 0 of site 0 that writes eventual keys of both workers. Its
/// messages to worker 1 arrive, but no confirmation does.
fn unconfirmed(stage: &mut Stage) -> RequestId {
    let tx = stage.begin(at(0, 0), Vector::zero(stage.sites()));
    for worker in [0, 1] {
        let (key, level) = (Key::from(key_of(worker).as_str()), Level::Eventual);
        let op = set("x");
        stage.ask(at(0, 0), Command::Operate { tx, level, key, op, kind: Kind::UPDATE });
        stage.deliver(always);
    }
    let commit = stage.ask(at(0, 0), Command::Commit { tx, claim: None });
    // Delivers PREPARE, PREPARE_ACK and COMMIT.
    stage.deliver(|from, _| from == at(0, 0));
    stage.deliver(|from, _| from == at(0, 1));
    stage.deliver(|from, _| from == at(0, 0));
    commit
}

/// See `docs/decisions/0023-durability-past.md`.
#[test]
fn a_commit_is_answered_when_its_eventual_writes_are_executed_and_its_durability_past_has_them() {
    for (without, waits) in [(None, true), (Some(Rule::EventualConfirmed), false)] {
        let mut stage = Stage::new(&[2, 1, 1], without);
        stage.pass(100, always);
        let commit = unconfirmed(&mut stage);
        assert_eq!(!stage.replies.contains_key(&commit), waits);
        stage.deliver(|from, to| from.site == to.site);
        let pasts = stage.pasts(commit);
        assert_eq!(pasts.causal[SiteId(0)], Timestamp::ZERO, "no read waits for eventual writes");
        let timeout = None;
        let barrier = stage.ask(at(0, 0), Command::Barrier { pasts, timeout });
        stage.pass(200, |from, to| from.site == to.site);
        assert_eq!(!stage.replies.contains_key(&barrier), waits);
        stage.pass(200, always);
        assert_eq!(*stage.reply(barrier), Response::Uniform);
        assert!(stage.replicas[&at(0, 0)].status().not_uniform(&pasts).is_empty());
    }
}

#[test]
fn a_commit_whose_eventual_writes_are_not_confirmed_is_answered_with_the_worker() {
    let mut stage = Stage::new(&[2, 1, 1], None);
    let commit = unconfirmed(&mut stage);
    stage.pass(3900, |from, _| from != at(0, 1));
    assert!(!stage.replies.contains_key(&commit));
    stage.pass(200, |from, _| from != at(0, 1));
    let worker = at(0, 1);
    assert_eq!(*stage.reply(commit), Response::Failed(CommandError::Unconfirmed { worker }));
    stage.pass(3000, always);
    assert_eq!(stage.replicas[&at(0, 0)].status().unconfirmed_decisions(), 0);
}

/// The session has written to an eventual space at another site, which is not in its causal past.
#[test]
fn attach_awaits_the_causal_past_and_a_barrier_there_the_durability_past() {
    for (without, waits) in [(None, true), (Some(Rule::DurabilityPast), false)] {
        let mut stage = Stage::new(&[1, 1, 1], without);
        stage.pass(100, always);
        let (key, level, op) = (Key::from("e"), Level::Eventual, set("x"));
        let past = Vector::zero(3);
        let write = stage.ask(at(0, 0), Command::Execute { past, level, key, op });
        let (pasts, timeout) = (stage.pasts(write), None);
        assert_eq!(pasts.causal, past);
        let attach = stage.ask(at(1, 0), Command::Attach { pasts, timeout });
        assert_eq!(*stage.reply(attach), Response::Attached);
        let read = stage.execute(at(1, 0), pasts.causal, "k", Op::Get);
        assert_eq!(stage.outcome(read), Outcome::Nil);
        let at_risk = stage.replicas[&at(1, 0)].status().not_uniform(&pasts);
        assert_eq!(at_risk, if waits { vec![SiteId(0)] } else { vec![] });
        let barrier = stage.ask(at(1, 0), Command::Barrier { pasts, timeout });
        assert_eq!(!stage.replies.contains_key(&barrier), waits);
        stage.pass(200, always);
        assert_eq!(*stage.reply(barrier), Response::Uniform);
        assert!(stage.replicas[&at(1, 0)].status().not_uniform(&pasts).is_empty());
    }
}

#[test]
fn a_barrier_reports_eventual_writes_that_died_with_another_site() {
    let mut stage = Stage::new(&[1, 1, 1], None);
    stage.pass(100, always);
    let (key, level, op) = (Key::from("e"), Level::Eventual, set("x"));
    let past = Vector::zero(3);
    let write = stage.ask(at(0, 0), Command::Execute { past, level, key, op });
    let (pasts, timeout) = (stage.pasts(write), None);
    stage.replicas.remove(&at(0, 0));
    stage.links.clear();
    let barrier = stage.ask(at(1, 0), Command::Barrier { pasts, timeout });
    stage.pass(5000, always);
    let reply = stage.reply(barrier);
    let lost = matches!(reply, Response::Failed(CommandError::Lost { site: SiteId(0), .. }));
    assert!(lost, "{reply:?}");
}

#[test]
fn prepared_transactions_are_at_risk() {
    for (without, transactions) in [(None, 1), (Some(Rule::PreparedAtRisk), 0)] {
        let mut stage = Stage::new(&[2, 1, 1], without);
        stage.pass(100, always);
        let tx = stage.begin(at(0, 0), Vector::zero(3));
        let (key, level) = (Key::from(key_of(1).as_str()), Level::Causal);
        let op = set("x");
        stage.ask(at(0, 0), Command::Operate { tx, level, key, op, kind: Kind::UPDATE });
        stage.deliver(always);
        let commit = stage.ask(at(0, 0), Command::Commit { tx, claim: None });
        stage.deliver(|from, _| from == at(0, 0));
        stage.deliver(|from, _| from == at(0, 1));
        assert!(matches!(stage.reply(commit), Response::Committed { .. }));
        let at_risk = stage.replicas[&at(0, 1)].status().at_risk(10);
        assert_eq!((at_risk.transactions, at_risk.keys.len()), (transactions, transactions));
        stage.pass(300, always);
        assert_eq!(stage.replicas[&at(0, 1)].status().at_risk(10).transactions, 0);
    }
}
