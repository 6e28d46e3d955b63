//! Transactions with guards. The test controls every message and every question.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use solera_data::{Key, Measure, Op, Outcome, Span};
use solera_levels::Level;
use solera_machine::{
    Address, AskId, Guard, GuardAnswer, GuardQuestion, Guarded, Machine, Now, PartitionId,
    PromiseId, Recovery as _, Refusal, RequestId, Topology, Verdict,
};
use solera_time::{Monotonic, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Checkpoint, Command, CommandError, Config, Errand, ExecuteGuarded, GuardedKeys, Input, Kind,
    Message, Output, Record, Recovery, Replica, Response, TxId,
};

/// Protocols that guard keys.
const BANK: u8 = 40;
const DESK: u8 = 41;

const FIRST: Address = Address { site: SiteId(0), worker: 0 };
const SECOND: Address = Address { site: SiteId(0), worker: 1 };

/// A single site with two workers, whose messages and questions wait until the test delivers them.
struct Site {
    configs: BTreeMap<Address, Config>,
    replicas: BTreeMap<Address, Replica>,
    records: BTreeMap<Address, Vec<Vec<u8>>>,
    messages: VecDeque<(Address, Address, Message)>,
    asks: VecDeque<(Address, AskId, Errand)>,
    /// Whether guards answer requests for reservations at once.
    ready: bool,
    replies: Vec<(RequestId, Response)>,
    now_ms: u64,
    requests: u64,
}

impl Site {
    fn new() -> Site {
        let topology = Arc::new(Topology { partitions: 2, workers: vec![2] });
        let configs: BTreeMap<Address, Config> = [FIRST, SECOND]
            .into_iter()
            .map(|address| {
                let mut config = Config::new(address, topology.clone());
                (config.guards, config.journal) = (vec![BANK, DESK], true);
                (address, config)
            })
            .collect();
        let replicas = configs.iter().map(|(at, config)| (*at, Replica::new(config.clone(), 1)));
        Site {
            replicas: replicas.collect(),
            configs,
            records: BTreeMap::new(),
            messages: VecDeque::new(),
            asks: VecDeque::new(),
            ready: true,
            replies: Vec::new(),
            now_ms: 1000,
            requests: 0,
        }
    }

    fn now(&self) -> Now {
        let physical = Physical(1_800_000_000_000_000 + self.now_ms * 1000);
        Now { monotonic: Monotonic(self.now_ms * 1_000_000), physical }
    }

    fn drain(&mut self, at: Address) {
        let replica = self.replicas.get_mut(&at).unwrap();
        let mut ready = Vec::new();
        while let Some(output) = replica.poll_output() {
            match output {
                Output::Ask { ask, question: Errand { question, .. } }
                    if self.ready && matches!(question, GuardQuestion::Reserve { .. }) =>
                {
                    ready.push(ask);
                }
                Output::Send { to, message } => self.messages.push_back((at, to, message)),
                Output::Reply { request, response, last } => {
                    assert!(last);
                    self.replies.push((request, response));
                }
                Output::Ask { ask, question } => self.asks.push_back((at, ask, question)),
                Output::Records(records) => {
                    let kept = self.records.entry(at).or_default();
                    kept.extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::Trace(_) | Output::Job { .. } => {}
            }
        }
        for ask in ready {
            self.promise(at, ask);
        }
    }

    fn give(&mut self, at: Address, input: Input) {
        let now = self.now();
        self.replicas.get_mut(&at).unwrap().handle(now, input);
        self.drain(at);
    }

    fn ask(&mut self, at: Address, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.give(at, Input::Client { request, command });
        request
    }

    /// Delivers all messages.
    fn deliver(&mut self) {
        while let Some((from, to, message)) = self.messages.pop_front() {
            self.give(to, Input::Message { from, generation: 0, message });
        }
    }

    /// Lets time pass without delivering messages.
    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        for at in [FIRST, SECOND] {
            let now = self.now();
            self.replicas.get_mut(&at).unwrap().on_deadline(now);
            self.drain(at);
        }
    }

    /// Returns the next question, which must ask for a promise.
    fn next_promise(&mut self) -> (Address, AskId, PromiseId, u8) {
        match self.asks.pop_front() {
            Some((
                at,
                ask,
                Errand { protocol, question: GuardQuestion::Promise { id, guards } },
            )) => {
                assert_eq!(guards.protocols(), [protocol]);
                (at, ask, id, protocol)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the transaction of the next question, which must report an end, and whether it
    /// committed. Confirms it.
    fn next_end(&mut self) -> (u8, PromiseId, bool) {
        match self.asks.pop_front() {
            Some((
                at,
                ask,
                Errand { protocol, question: GuardQuestion::End { id, committed } },
            )) => {
                self.give(at, Input::Answered { ask, answer: GuardAnswer::Ended });
                (protocol, id, committed)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the next question, which must ask for a reservation.
    fn next_reserve(&mut self) -> (Address, AskId, PromiseId, Guarded) {
        match self.asks.pop_front() {
            Some((at, ask, Errand { question: GuardQuestion::Reserve { id, guards, .. }, .. })) => {
                (at, ask, id, guards)
            }
            other => panic!("{other:?}"),
        }
    }

    fn promise(&mut self, at: Address, ask: AskId) {
        let answer = GuardAnswer::Verdict(Verdict::Promised);
        self.give(at, Input::Answered { ask, answer });
    }

    fn refuse(&mut self, at: Address, ask: AskId, key: &Key) {
        let refusal = Refusal { key: key.to_vec(), protocol: 9, reason: "no units left".into() };
        let answer = GuardAnswer::Verdict(Verdict::Refused(refusal));
        self.give(at, Input::Answered { ask, answer });
    }

    fn replies_to(&self, request: RequestId) -> Vec<&Response> {
        let replies = self.replies.iter().filter(|(of, _)| *of == request);
        replies.map(|(_, response)| response).collect()
    }

    fn failure(&self, request: RequestId) -> &CommandError {
        match self.replies_to(request)[..] {
            [Response::Failed(error)] => error,
            ref other => panic!("{other:?}"),
        }
    }

    fn begin(&mut self, at: Address, strong: bool) -> TxId {
        let begun = self.ask(at, Command::Begin { past: Vector::zero(1), strong });
        match self.replies_to(begun)[..] {
            [Response::Begun(tx)] => *tx,
            ref other => panic!("{other:?}"),
        }
    }

    /// Adds one to a counter within a transaction.
    fn add(&mut self, at: Address, tx: TxId, key: &Key) {
        let (key, op) = (key.clone(), Op::IncrBy(1));
        let level = Level::Causal;
        let done = self.ask(at, Command::Operate { tx, level, key, op, kind: Kind::UPDATE });
        self.deliver();
        assert!(matches!(self.replies_to(done)[..], [Response::Operated(Ok(_))]));
    }

    fn commit(&mut self, at: Address, tx: TxId) -> RequestId {
        let request = self.ask(at, Command::Commit { tx, claim: None });
        self.deliver();
        request
    }

    fn guarded(&mut self, at: Address, tx: TxId, guards: Guarded) -> RequestId {
        self.ask(at, Command::Guard { tx, guards })
    }

    fn single(&mut self, at: Address, key: &Key, guards: Guarded) -> RequestId {
        let (past, level, key, op) = (Vector::zero(1), Level::Causal, key.clone(), Op::IncrBy(1));
        let it = ExecuteGuarded { past, level, key, op, guards };
        self.ask(at, Command::ExecuteGuarded(Box::new(it)))
    }

    fn counter(&mut self, key: &Key) -> Option<i64> {
        let (past, level, op) = (Vector::zero(1), Level::Causal, Op::Get);
        let at = self.replicas[&FIRST].owner_of(key);
        let read = self.ask(at, Command::Execute { past, level, key: key.clone(), op });
        match self.replies_to(read)[..] {
            [Response::Executed { outcome: Ok(Outcome::Nil), .. }] => None,
            [Response::Executed { outcome: Ok(Outcome::Bulk(value)), .. }] => {
                value.to_string().parse().ok()
            }
            ref other => panic!("{other:?}"),
        }
    }

    fn guarded_at(&self, at: Address) -> usize {
        self.replicas[&at].status().guarded_transactions()
    }

    /// Restarts a worker from its records.
    fn restart(&mut self, at: Address) {
        let mut recovery = Recovery::new(self.configs[&at].clone(), 1);
        for (lsn, record) in self.records[&at].iter().enumerate() {
            recovery.take_record(lsn as u64 + 1, record).unwrap();
        }
        self.replicas.insert(at, recovery.into_machine());
        self.asks.retain(|(asker, ..)| *asker != at);
        self.messages.retain(|(_, to, _)| *to != at);
        self.drain(at);
    }

    /// Restarts a worker from a checkpoint alone.
    fn restart_from_checkpoint(&mut self, at: Address) {
        let mut recovery = Recovery::new(self.configs[&at].clone(), 1);
        let last = self.records[&at].len() as u64;
        let mut checkpoint = Checkpoint::default();
        while let Some(part) = self.replicas[&at].next_part(&mut checkpoint, 100) {
            let mut bytes = Vec::new();
            Replica::encode_part(&part, &mut bytes);
            recovery.take_part(last, &bytes).unwrap();
        }
        self.replicas.insert(at, recovery.into_machine());
        self.asks.clear();
        self.drain(at);
    }
}

/// Returns a key that a worker owns.
fn key_of(owner: Address, name: &str) -> Key {
    let mut keys = (0..).map(|n| Key::from(format!("{name}{n}").as_str()));
    keys.find(|key| PartitionId::of(key, 2).0 == u16::from(owner.worker)).unwrap()
}

fn guard(key: &Key, protocol: u8) -> Guarded {
    Guard { key: key.to_vec(), protocol, claim: b"1".to_vec() }.into()
}

#[test]
fn a_transaction_commits_once_all_its_guards_have_promised() {
    let mut site = Site::new();
    let (here, there) = (key_of(FIRST, "a"), key_of(SECOND, "b"));
    let tx = site.begin(FIRST, false);
    site.add(FIRST, tx, &here);
    for guards in [guard(&here, BANK), guard(&there, BANK).and(guard(&there, DESK))] {
        let named = site.guarded(FIRST, tx, guards);
        assert_eq!(site.replies_to(named), [&Response::Guarded]);
    }
    let commit = site.commit(FIRST, tx);
    let asked: Vec<_> = (0..3).map(|_| site.next_promise()).collect();
    let whom: Vec<_> = asked.iter().map(|(at, _, _, protocol)| (*at, *protocol)).collect();
    assert_eq!(whom, [(FIRST, BANK), (SECOND, BANK), (SECOND, DESK)]);
    for (at, ask, id, _) in &asked {
        assert!(site.replies_to(commit).is_empty());
        assert_eq!(*id, PromiseId::from(tx));
        site.promise(*at, *ask);
        site.deliver();
    }
    assert!(matches!(site.replies_to(commit)[..], [Response::Committed { .. }]));
    assert_eq!(site.counter(&here), Some(1));
    assert_eq!((site.guarded_at(FIRST), site.guarded_at(SECOND)), (1, 1));
    let ends: Vec<_> = (0..3).map(|_| site.next_end()).collect();
    let expected = [BANK, BANK, DESK].map(|protocol| (protocol, tx.into(), true));
    assert_eq!(ends, expected);
    assert_eq!((site.guarded_at(FIRST), site.guarded_at(SECOND)), (0, 0));
}

#[test]
fn a_refusal_aborts_and_is_reported_to_the_client_and_to_the_other_guards() {
    let mut site = Site::new();
    let (here, there) = (key_of(FIRST, "a"), key_of(SECOND, "b"));
    let tx = site.begin(FIRST, false);
    site.add(FIRST, tx, &here);
    site.guarded(FIRST, tx, guard(&here, DESK).and(guard(&there, BANK)));
    let commit = site.commit(FIRST, tx);
    let (at, ask, ..) = site.next_promise();
    site.promise(at, ask);
    let (at, ask, ..) = site.next_promise();
    site.refuse(at, ask, &there);
    site.deliver();
    // The number is that of the protocol that refuses, whatever number the guard's answer has.
    let refusal = Refusal { key: there.to_vec(), protocol: BANK, reason: "no units left".into() };
    assert_eq!(
        *site.failure(commit),
        CommandError::Guarded { refusal: Box::new(refusal), later: None }
    );
    assert_eq!(
        site.failure(commit).to_string(),
        format!("the guard of '{there}' refuses: no units left; nothing was changed")
    );
    assert_eq!(site.next_end(), (DESK, tx.into(), false));
    assert_eq!(site.next_end(), (BANK, tx.into(), false));
    assert_eq!(site.counter(&here), None);
    assert_eq!((site.guarded_at(FIRST), site.guarded_at(SECOND)), (0, 0));
}

#[test]
fn a_guarded_single_of_the_same_worker_asks_too_and_is_answered_once() {
    let mut site = Site::new();
    let key = key_of(FIRST, "a");
    let add = site.single(FIRST, &key, guard(&key, BANK));
    let (at, ask, id, _) = site.next_promise();
    assert!(site.replies_to(add).is_empty());
    site.promise(at, ask);
    let [Response::Executed { outcome: Ok(Outcome::Int(1)), pasts }] = site.replies_to(add)[..]
    else {
        panic!("{:?}", site.replies)
    };
    assert!(pasts.causal[SiteId(0)] > Timestamp::ZERO);
    assert_eq!(site.next_end(), (BANK, id, true));
    site.pass(10_000);
    assert_eq!(site.replies_to(add).len(), 1);
    assert_eq!(site.counter(&key), Some(1));
}

#[test]
fn a_single_without_guards_asks_no_guard_and_has_the_same_answer() {
    let mut site = Site::new();
    for owner in [FIRST, SECOND] {
        let key = key_of(owner, "a");
        let add = site.single(FIRST, &key, Guarded::default());
        site.deliver();
        let replies = site.replies_to(add);
        assert!(
            matches!(replies[..], [Response::Executed { outcome: Ok(Outcome::Int(1)), .. }]),
            "{replies:?}"
        );
        assert!(site.asks.is_empty());
    }
}

#[test]
fn an_operation_that_fails_asks_no_guard() {
    let mut site = Site::new();
    let key = key_of(FIRST, "a");
    let (past, level) = (Vector::zero(1), Level::Causal);
    let set = Op::SetAdd(vec![solera_data::Value::from(b"x".to_vec())]);
    site.ask(FIRST, Command::Execute { past, level, key: key.clone(), op: set });
    let add = site.single(FIRST, &key, guard(&key, BANK));
    assert!(matches!(site.replies_to(add)[..], [Response::Executed { outcome: Err(_), .. }]));
    assert!(site.asks.is_empty() && site.replicas[&FIRST].status().open_transactions() == 0);
}

#[test]
fn a_single_that_was_cancelled_is_never_answered() {
    let mut site = Site::new();
    let there = key_of(SECOND, "b");
    // This single is cancelled while it commits. The commit continues.
    let commits = site.single(FIRST, &there, guard(&there, BANK));
    site.deliver();
    site.give(FIRST, Input::Cancel { request: commits });
    let (at, ask, id, _) = site.next_promise();
    site.promise(at, ask);
    site.deliver();
    assert_eq!(site.next_end(), (BANK, id, true));
    // This single is cancelled while its operation is executed.
    let executes = site.single(FIRST, &there, guard(&there, BANK));
    site.give(FIRST, Input::Cancel { request: executes });
    site.deliver();
    site.pass(10_000);
    site.deliver();
    assert!(site.asks.is_empty());
    assert!(site.replies_to(commits).is_empty() && site.replies_to(executes).is_empty());
    assert_eq!(site.counter(&there), Some(1));
}

#[test]
fn a_single_that_takes_too_long_is_answered_once() {
    let mut site = Site::new();
    let there = key_of(SECOND, "b");
    let add = site.single(FIRST, &there, guard(&there, BANK));
    let read = site.messages.pop_front().unwrap();
    site.pass(700_000);
    assert_eq!(*site.failure(add), CommandError::PartitionSlow);
    // Later responses are dropped.
    site.messages.push_front(read);
    site.deliver();
    assert_eq!(site.replies_to(add).len(), 1);
    assert!(site.asks.is_empty() && site.counter(&there).is_none());
}

#[test]
fn a_guard_that_does_not_answer_in_time_gets_the_abort() {
    let mut site = Site::new();
    let key = key_of(FIRST, "a");
    let add = site.single(FIRST, &key, guard(&key, BANK));
    let (at, ask, id, _) = site.next_promise();
    site.pass(60_000);
    assert_eq!(*site.failure(add), CommandError::PartitionSlow);
    assert_eq!(site.next_end(), (BANK, id, false));
    site.promise(at, ask);
    site.deliver();
    assert_eq!((site.replies_to(add).len(), site.guarded_at(FIRST)), (1, 0));
    assert_eq!(site.counter(&key), None);
}

#[test]
fn a_guard_of_an_unknown_protocol_is_rejected_with_the_reason() {
    let mut site = Site::new();
    let key = key_of(FIRST, "a");
    let many: Guarded = (0..=Guarded::MOST as u8)
        .map(|n| Guard { key: key.to_vec(), protocol: BANK, claim: vec![n] })
        .collect();
    for (strong, guards, error, words) in [
        (false, guard(&key, 2), CommandError::NoGuard { protocol: 2 }, "protocol 2 guards no keys"),
        (false, many, CommandError::TooManyGuards, "at most 64 guards"),
        (true, guard(&key, BANK), CommandError::StrongGuarded, "a strong transaction cannot"),
    ] {
        if !strong {
            let add = site.single(FIRST, &key, guards.clone());
            assert_eq!(*site.failure(add), error);
        }
        let tx = site.begin(FIRST, strong);
        let named = site.guarded(FIRST, tx, guards);
        assert_eq!(*site.failure(named), error);
        assert!(error.to_string().contains(words), "{error}");
        // Its client relies on the guards.
        let commit = site.commit(FIRST, tx);
        assert_eq!(*site.failure(commit), CommandError::NoSuchTransaction);
    }
    assert!(site.asks.is_empty() && site.counter(&key).is_none());
    assert_eq!(site.replicas[&FIRST].status().unknown_guards(), 2);
}

/// The workers of a site restart one after another with a new configuration.
#[test]
fn a_participant_without_the_guard_refuses_with_the_reason() {
    let mut site = Site::new();
    let there = key_of(SECOND, "b");
    site.configs.get_mut(&SECOND).unwrap().guards.clear();
    site.records.entry(SECOND).or_default();
    site.restart(SECOND);
    let add = site.single(FIRST, &there, guard(&there, BANK));
    site.deliver();
    let CommandError::Guarded { refusal, .. } = site.failure(add) else {
        panic!("{:?}", site.replies)
    };
    assert_eq!(refusal.reason, "protocol 40 guards no keys at its worker");
    assert_eq!(site.replicas[&SECOND].status().unknown_guards(), 1);
    assert_eq!(site.guarded_at(SECOND), 0);
}

#[test]
fn a_commit_before_the_promise_is_ignored() {
    let mut site = Site::new();
    let there = key_of(SECOND, "b");
    let add = site.single(FIRST, &there, guard(&there, BANK));
    site.deliver();
    let (_, ask, id, _) = site.next_promise();
    let tx = TxId { coordinator: id.coordinator, sequence: id.sequence };
    let message = Message::Commit { tx, ts: Timestamp::MAX };
    let ignored = site.replicas[&SECOND].status().ignored();
    site.give(SECOND, Input::Message { from: FIRST, generation: 0, message });
    assert_eq!(site.replicas[&SECOND].status().ignored(), ignored + 1);
    site.promise(SECOND, ask);
    site.deliver();
    assert!(matches!(site.replies_to(add)[..], [Response::Executed { .. }]));
}

/// Prepares a single at a participant whose guard has promised; returns the message that commits
/// it, too.
fn promised(site: &mut Site) -> (RequestId, PromiseId, Message) {
    let there = key_of(SECOND, "b");
    let add = site.single(FIRST, &there, guard(&there, BANK));
    site.deliver();
    let (at, ask, id, _) = site.next_promise();
    site.promise(at, ask);
    let (_, _, ack) = site.messages.pop_front().unwrap();
    site.give(FIRST, Input::Message { from: SECOND, generation: 0, message: ack });
    let (_, _, commit) = site.messages.pop_front().unwrap();
    (add, id, commit)
}

#[test]
fn a_restarted_participant_sends_guards_the_outcome_of_a_prepared_transaction() {
    let mut site = Site::new();
    let (add, id, _) = promised(&mut site);
    site.restart(SECOND);
    assert_eq!(site.guarded_at(SECOND), 1);
    // Its coordinator repeats the commit.
    site.pass(10_000);
    assert!(site.asks.is_empty());
    site.deliver();
    assert_eq!(site.next_end(), (BANK, id, true));
    assert_eq!((site.guarded_at(SECOND), site.replies_to(add).len()), (0, 1));
}

#[test]
fn a_restarted_participant_sends_outcomes_until_guards_acknowledge_them() {
    for from_checkpoint in [false, true] {
        let mut site = Site::new();
        let (_, id, commit) = promised(&mut site);
        site.give(SECOND, Input::Message { from: FIRST, generation: 0, message: commit });
        // The guard has received the outcome, and the process dies before the guard has recorded
        // it.
        assert_eq!(site.asks.len(), 1);
        for _ in 0..2 {
            match from_checkpoint {
                true => site.restart_from_checkpoint(SECOND),
                false => site.restart(SECOND),
            }
            assert_eq!(site.guarded_at(SECOND), 1);
            site.pass(10);
            assert_eq!(site.asks.len(), 1);
        }
        assert_eq!(site.next_end(), (BANK, id, true));
        match from_checkpoint {
            true => site.restart_from_checkpoint(SECOND),
            false => site.restart(SECOND),
        }
        site.pass(10);
        assert!(site.asks.is_empty() && site.guarded_at(SECOND) == 0);
    }
}

/// A question that was not answered before a crash never gets a promise, so the coordinator aborts.
#[test]
fn a_participant_that_restarts_before_the_promise_does_not_vote() {
    let mut site = Site::new();
    let there = key_of(SECOND, "b");
    let add = site.single(FIRST, &there, guard(&there, BANK));
    site.deliver();
    let (_, _, id, _) = site.next_promise();
    site.restart(SECOND);
    site.pass(10);
    site.deliver();
    assert!(site.asks.is_empty() && site.replies_to(add).is_empty());
    site.pass(60_000);
    site.deliver();
    assert_eq!(*site.failure(add), CommandError::PartitionSlow);
    assert_eq!(site.next_end(), (BANK, id, false));
}

/// A checkpoint contains the guards of prepared transactions.
#[test]
fn a_checkpoint_keeps_the_guards_of_prepared_transactions() {
    let mut site = Site::new();
    let (_, id, commit) = promised(&mut site);
    site.restart_from_checkpoint(SECOND);
    site.give(SECOND, Input::Message { from: FIRST, generation: 0, message: commit });
    assert_eq!(site.next_end(), (BANK, id, true));
}

/// A guard records its promise after the transaction is recorded as prepared with it.
#[test]
fn the_record_comes_before_the_question() {
    let mut site = Site::new();
    site.ready = false;
    let key = key_of(FIRST, "a");
    site.single(FIRST, &key, guard(&key, BANK));
    let (_, ask, ..) = site.next_reserve();
    let now = site.now();
    let replica = site.replicas.get_mut(&FIRST).unwrap();
    let answer = GuardAnswer::Verdict(Verdict::Promised);
    replica.handle(now, Input::Answered { ask, answer });
    let outputs = std::iter::from_fn(|| replica.poll_output());
    let order: Vec<_> = outputs
        .filter_map(|output| match output {
            Output::Records(records) => {
                let is_it = |record| matches!(record, Record::PreparedGuarded(..));
                records.iter().any(|it| Record::decode(it).is_ok_and(is_it)).then_some("record")
            }
            Output::Ask { .. } => Some("question"),
            Output::Send { .. } => Some("message"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["record", "question"]);
}

/// While a guard acquires what it needs, other transactions commit, and reads see them.
#[test]
fn nothing_waits_for_a_transaction_whose_guards_are_not_ready() {
    let mut site = Site::new();
    site.ready = false;
    let key = key_of(FIRST, "a");
    let add = site.single(FIRST, &key, guard(&key, BANK));
    let (at, ask, id, _) = site.next_reserve();
    assert_eq!(site.guarded_at(FIRST), 1);
    let (past, level, op) = (Vector::zero(1), Level::Causal, Op::IncrBy(5));
    let other = site.ask(FIRST, Command::Execute { past, level, key: key.clone(), op });
    assert!(matches!(site.replies_to(other)[..], [Response::Executed { outcome: Ok(_), .. }]));
    assert_eq!(site.counter(&key), Some(5));
    site.promise(at, ask);
    let (at, ask, promised, _) = site.next_promise();
    assert_eq!(promised, id);
    site.promise(at, ask);
    site.deliver();
    assert!(matches!(site.replies_to(add)[..], [Response::Executed { .. }]));
    assert_eq!(site.next_end(), (BANK, id, true));
    assert_eq!((site.counter(&key), site.guarded_at(FIRST)), (Some(6), 0));
}

#[test]
fn a_guard_that_cannot_get_what_it_needs_refuses_before_the_prepare() {
    let mut site = Site::new();
    site.ready = false;
    let there = key_of(SECOND, "b");
    let add = site.single(FIRST, &there, guard(&there, BANK).and(guard(&there, DESK)));
    site.deliver();
    let (at, ask, id, _) = site.next_reserve();
    site.refuse(at, ask, &there);
    site.deliver();
    let (late, desk, ..) = site.next_reserve();
    // Both may have reserved something.
    assert_eq!(site.next_end(), (BANK, id, false));
    assert_eq!(site.next_end(), (DESK, id, false));
    site.promise(late, desk);
    site.deliver();
    assert!(matches!(site.failure(add), CommandError::Guarded { .. }));
    assert_eq!((site.guarded_at(SECOND), site.counter(&there)), (0, None));
}

/// Answers a reservation: the guard needs a later snapshot.
fn need_later(site: &mut Site, at: Address, ask: AskId, key: &Key) -> Vector {
    let past = Vector::zero(1).with(FIRST.site, Timestamp(1 << 62));
    let answer = GuardAnswer::Verdict(Verdict::Later { key: key.to_vec(), past });
    site.give(at, Input::Answered { ask, answer });
    site.deliver();
    past
}

#[test]
fn a_single_whose_guard_needs_a_later_snapshot_runs_again() {
    let mut site = Site::new();
    site.ready = false;
    let key = key_of(SECOND, "remote");
    let request = site.single(FIRST, &key, guard(&key, BANK));
    site.deliver();
    let (at, ask, first, _) = site.next_reserve();
    let past = need_later(&mut site, at, ask, &key);
    assert_eq!(site.next_end(), (BANK, first, false));
    let (at, ask, second, _) = site.next_reserve();
    assert_ne!(first, second, "each attempt is a transaction of its own");
    assert!(site.replies_to(request).is_empty());
    site.promise(at, ask);
    let (at, ask, ..) = site.next_promise();
    site.promise(at, ask);
    site.deliver();
    match site.replies_to(request)[..] {
        [Response::Executed { outcome: Ok(Outcome::Int(1)), pasts }] => {
            assert!(pasts.causal.covers(&past), "the commit depends on what the guard needs");
        }
        ref other => panic!("{other:?}"),
    }
    assert_eq!(site.counter(&key), Some(1));
}

#[test]
fn a_transaction_whose_guard_needs_later_snapshots_fails_at_last() {
    let mut site = Site::new();
    site.ready = false;
    let key = key_of(FIRST, "local");
    let single = site.single(FIRST, &key, guard(&key, BANK));
    let mut attempts = 0;
    while site.replies_to(single).is_empty() {
        let (at, ask, ..) = site.next_reserve();
        need_later(&mut site, at, ask, &key);
        site.next_end();
        attempts += 1;
    }
    assert_eq!(attempts, 5);
    let tx = site.begin(FIRST, false);
    site.guarded(FIRST, tx, guard(&key, BANK));
    site.add(FIRST, tx, &key);
    let commit = site.commit(FIRST, tx);
    let (at, ask, ..) = site.next_reserve();
    let past = need_later(&mut site, at, ask, &key);
    for request in [single, commit] {
        let CommandError::Guarded { refusal, later } = site.failure(request) else {
            panic!("not guarded")
        };
        assert!(refusal.reason.contains("run it again"), "{refusal:?}");
        assert_eq!(later.as_deref(), Some(&past), "what runs it again begins with this past");
    }
    assert_eq!(site.counter(&key), None);
}

#[test]
fn a_cancelled_single_does_not_run_again() {
    let mut site = Site::new();
    site.ready = false;
    let key = key_of(FIRST, "local");
    let request = site.single(FIRST, &key, guard(&key, BANK));
    let (at, ask, id, _) = site.next_reserve();
    site.give(FIRST, Input::Cancel { request });
    need_later(&mut site, at, ask, &key);
    assert_eq!(site.next_end(), (BANK, id, false));
    assert!(site.asks.is_empty() && site.replies_to(request).is_empty());
}

#[test]
fn a_guard_that_reserves_too_long_gets_the_abort() {
    let mut site = Site::new();
    site.ready = false;
    let key = key_of(FIRST, "a");
    let add = site.single(FIRST, &key, guard(&key, BANK));
    let (at, ask, id, _) = site.next_reserve();
    site.pass(60_000);
    assert_eq!(*site.failure(add), CommandError::PartitionSlow);
    assert_eq!(site.next_end(), (BANK, id, false));
    site.promise(at, ask);
    site.deliver();
    assert!(site.asks.is_empty());
    assert_eq!((site.guarded_at(FIRST), site.counter(&key)), (0, None));
}

/// Makes BANK guard the values of keys that begin with "views", and the sizes of "views:fans".
fn guard_views(site: &mut Site) {
    for at in [FIRST, SECOND] {
        let prefixes = [
            (b"views:free".to_vec(), None),
            (b"views:fans".to_vec(), Some(Measure::Size)),
            (b"views".to_vec(), Some(Measure::Value)),
        ];
        let claim = |span: Span| format!("{}-{}", span.up, span.down).into_bytes();
        site.configs.get_mut(&at).unwrap().guarded_keys = Some(GuardedKeys {
            protocol: BANK,
            prefixes: Arc::new(prefixes),
            claim,
            patience: Duration::ZERO,
        });
        site.records.entry(at).or_default();
        site.restart(at);
    }
}

#[test]
fn increments_of_guarded_keys_name_their_guard_by_themselves() {
    let mut site = Site::new();
    guard_views(&mut site);
    site.ready = false;
    for owner in [FIRST, SECOND] {
        let key = key_of(owner, "views:");
        let (past, level, op) = (Vector::zero(1), Level::Causal, Op::IncrBy(3));
        let add = site.ask(FIRST, Command::Execute { past, level, key: key.clone(), op });
        site.deliver();
        let (at, ask, _, guards) = site.next_reserve();
        let expected = Guard { key: key.to_vec(), protocol: BANK, claim: b"3-0".to_vec() };
        assert_eq!((at, guards), (owner, expected.into()));
        site.promise(at, ask);
        let (at, ask, id, _) = site.next_promise();
        site.promise(at, ask);
        site.deliver();
        let replies = site.replies_to(add);
        assert!(matches!(replies[..], [Response::Executed { outcome: Ok(Outcome::Int(3)), .. }]));
        assert_eq!(site.next_end(), (BANK, id, true));
    }
    // A transaction claims the sum of its increments of each key.
    let key = key_of(SECOND, "views:");
    let tx = site.begin(FIRST, false);
    for _ in 0..4 {
        site.add(FIRST, tx, &key);
    }
    site.commit(FIRST, tx);
    let (.., guards) = site.next_reserve();
    assert_eq!(guards.iter().map(|guard| &guard.claim[..]).collect::<Vec<_>>(), [b"4-0"]);
    // The longest prefix decides.
    let free = key_of(SECOND, "views:free");
    let tx = site.begin(FIRST, false);
    site.add(FIRST, tx, &free);
    let commit = site.commit(FIRST, tx);
    assert!(matches!(site.replies_to(commit)[..], [Response::Committed { .. }]));
    assert!(site.asks.is_empty());
}

#[test]
fn changes_of_guarded_sets_claim_each_element() {
    let mut site = Site::new();
    guard_views(&mut site);
    site.ready = false;
    let key = key_of(SECOND, "views:fans");
    let elements = |names: &[&str]| names.iter().map(|it| (*it).into()).collect();
    let change = |site: &mut Site, op| {
        let (past, level) = (Vector::zero(1), Level::Causal);
        let request = site.ask(FIRST, Command::Execute { past, level, key: key.clone(), op });
        site.deliver();
        request
    };
    for (op, claim) in [
        (Op::SetAdd(elements(&["a", "b", "a"])), "2-0"),
        (Op::SetAdd(elements(&["a", "c"])), "2-0"),
        (Op::SetRemove(elements(&["a", "d"])), "0-1"),
    ] {
        change(&mut site, op);
        let (at, ask, _, guards) = site.next_reserve();
        assert_eq!(guards.iter().map(|it| &it.claim[..]).collect::<Vec<_>>(), [claim.as_bytes()]);
        site.promise(at, ask);
        let (at, ask, ..) = site.next_promise();
        site.promise(at, ask);
        site.deliver();
        site.next_end();
    }
    // What has no effect needs no consent. Nothing else may change the key.
    let nothing = change(&mut site, Op::SetRemove(elements(&["d"])));
    assert!(matches!(site.replies_to(nothing)[..], [Response::Executed { .. }]));
    let removal = change(&mut site, Op::Delete);
    assert_eq!(*site.failure(removal), CommandError::OnlyCounted { key: key.clone() });
    assert!(site.asks.is_empty());
}

#[test]
fn guarded_keys_change_by_causal_increments_alone() {
    let mut site = Site::new();
    guard_views(&mut site);
    let key = key_of(FIRST, "views:");
    let only = CommandError::OnlyCounted { key: key.clone() };
    for (level, op) in [(Level::Causal, Op::Set("7".into())), (Level::Eventual, Op::IncrBy(1))] {
        let (past, key) = (Vector::zero(1), key.clone());
        let change = site.ask(FIRST, Command::Execute { past, level, key, op });
        assert_eq!(*site.failure(change), only);
    }
    let tx = site.begin(FIRST, true);
    site.add(FIRST, tx, &key);
    let commit = site.commit(FIRST, tx);
    assert_eq!(*site.failure(commit), CommandError::StrongGuarded);
    assert!(site.asks.is_empty() && site.counter(&key).is_none());
}

/// A worker with an older configuration does not know that the key is guarded.
#[test]
fn a_participant_refuses_unguarded_changes_of_guarded_keys() {
    let mut site = Site::new();
    guard_views(&mut site);
    let there = key_of(SECOND, "views:");
    let here = key_of(FIRST, "a");
    site.configs.get_mut(&FIRST).unwrap().guarded_keys = None;
    site.restart(FIRST);
    let tx = site.begin(FIRST, false);
    site.add(FIRST, tx, &here);
    site.add(FIRST, tx, &there);
    let commit = site.commit(FIRST, tx);
    let CommandError::Guarded { refusal, .. } = site.failure(commit) else {
        panic!("{:?}", site.replies)
    };
    assert_eq!(refusal.key, there.to_vec());
    let (past, level, op) = (Vector::zero(1), Level::Causal, Op::IncrBy(1));
    let add = site.ask(FIRST, Command::Execute { past, level, key: there.clone(), op });
    site.deliver();
    assert_eq!(*site.failure(add), CommandError::OnlyCounted { key: there.clone() });
    assert_eq!((site.counter(&here), site.counter(&there)), (None, None));
}
