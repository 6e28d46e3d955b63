//! A home, message by message.

use std::sync::Arc;

use solera_data::{CellChange, Effect, Key, Op, Outcome, Value};
use solera_machine::{Address, Machine, Now, Topology};
use solera_membership::Members;
use solera_occult::{
    Body, CausalTimestamp, ClientId, Commit, Config, Decision, Execute, Executed, Input, Message,
    Occult, Output, Prepare, Read, Scheme, ShardId, Stamp, TransactionId,
};
use solera_time::{Monotonic, Physical, SiteId};

const ME: Address = Address { site: SiteId(1), worker: 0 };
/// Worker that runs the client and is the decision home.
const OTHER: Address = Address { site: SiteId(0), worker: 0 };
const SCHEME: Scheme = Scheme::Exact;

struct Home {
    worker: Occult,
    millis: u64,
}

impl Home {
    fn new() -> Home {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
        let home_of = Arc::new([(Vec::new(), Some(ME.site))]);
        let config = Config { scheme: SCHEME, home_of, ..Config::new(ME, topology, 2) };
        Home { worker: Occult::new(config, &Members::new(2)), millis: 1_000 }
    }

    /// Gives a message to the home, and returns the messages that it sends back.
    fn give(&mut self, body: Body) -> Vec<Body> {
        self.millis += 1;
        let (monotonic, physical) =
            (Monotonic(self.millis * 1_000_000), Physical(self.millis * 1_000));
        let input =
            Input::Message { from: OTHER, generation: 0, message: Message { epoch: 0, body } };
        self.worker.handle(Now { monotonic, physical }, input);
        std::iter::from_fn(|| self.worker.poll_output())
            .filter_map(|output| match output {
                Output::Send { message: Message { body: Body::Batch(_), .. }, .. } => None,
                Output::Send { to, message } => {
                    Some((to == OTHER).then_some(message.body).expect("to it"))
                }
                _ => None,
            })
            .collect()
    }

    fn prepare(&mut self, number: u64, value: &str) -> Stamp {
        let prepare = Prepare {
            tid: tid(number),
            above: Stamp::ZERO,
            writes: vec![(key(), assign(value))],
            decision_home: OTHER,
            decision_shard: ShardId(1),
            epoch: 0,
            oldest: 0,
        };
        match self.give(Body::Prepare(prepare)).as_slice() {
            [Body::Prepared(of, assigned, _)] if *of == tid(number) => *assigned,
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, number: u64, stamp: Stamp) {
        let timestamp = CausalTimestamp::new(SCHEME);
        let commit = Box::new(Commit { timestamp, stamps: vec![(ME.site, stamp)] });
        let sent = self.give(Body::Decided(tid(number), Decision::Commit(commit)));
        assert_eq!(sent, [Body::Applied(tid(number))]);
    }

    fn value(&mut self) -> Outcome {
        let read = Read {
            number: 1,
            key: key(),
            op: Op::Get,
            own: None,
            at_least: Stamp::ZERO,
            waits: false,
        };
        match self.give(Body::Read(read)).as_slice() {
            [Body::ReadAnswer(answer)] => answer.result.clone().unwrap().0,
            other => panic!("{other:?}"),
        }
    }
}

fn tid(number: u64) -> TransactionId {
    TransactionId { client: ClientId { address: OTHER, incarnation: 1 }, number }
}

fn key() -> Key {
    Key::from("k")
}

fn assign(value: &str) -> Effect {
    let cell = CellChange { assign: Some(Value::from(value)), add: None };
    Effect { clear: true, cell, ..Effect::default() }
}

fn bulk(value: &str) -> Outcome {
    Outcome::Bulk(Value::from(value))
}

/// Copies of a PREPARE arrive after the decision, which another process has sent. Each copy gets a
/// new stamp (List. 2 l. 3–8).
#[test]
fn a_prepare_that_arrives_again_changes_nothing() {
    let mut home = Home::new();
    let first = home.prepare(1, "one");
    home.commit(1, first);
    assert!(home.prepare(1, "one") > first);
    home.commit(1, first);
    assert_eq!(home.value(), bulk("one"));
    // The second transaction is hidden behind an undecided one when the copy is decided again.
    home.give(Body::Prepare(Prepare {
        tid: tid(7),
        above: Stamp::ZERO,
        writes: vec![(Key::from("other"), assign("x"))],
        decision_home: OTHER,
        decision_shard: ShardId(1),
        epoch: 0,
        oldest: 0,
    }));
    let second = home.prepare(2, "two");
    home.commit(2, second);
    home.prepare(1, "one");
    home.commit(1, first);
    home.give(Body::Decided(tid(7), Decision::Abort));
    assert_eq!(home.value(), bulk("two"));
}

/// List. 2 l. 26–27 and 29, and §6.2: locks on objects.
#[test]
fn an_undecided_transaction_hides_later_commits_and_only_aborting_it_shows_them() {
    let mut home = Home::new();
    let other = |value| Prepare {
        tid: tid(7),
        above: Stamp::ZERO,
        writes: vec![(Key::from("other"), assign(value))],
        decision_home: OTHER,
        decision_shard: ShardId(1),
        epoch: 0,
        oldest: 0,
    };
    home.give(Body::Prepare(other("x")));
    let stamp = home.prepare(1, "one");
    home.commit(1, stamp);
    assert_eq!(home.value(), Outcome::Nil);
    home.give(Body::Decided(tid(7), Decision::Abort));
    assert_eq!(home.value(), bulk("one"));
}

#[test]
fn equal_stamps_appear_in_one_step() {
    let mut home = Home::new();
    let first = home.prepare(1, "one");
    let other = Prepare {
        tid: tid(2),
        above: Stamp::ZERO,
        writes: vec![(Key::from("other"), assign("two"))],
        decision_home: OTHER,
        decision_shard: ShardId(1),
        epoch: 0,
        oldest: 0,
    };
    home.give(Body::Prepare(other));
    // The stamps of other homes have raised both commit stamps to this one.
    let stamp = Stamp(first.0 + 1_000_000);
    home.commit(1, stamp);
    assert_eq!(home.value(), Outcome::Nil, "the other one may get this stamp as well");
    home.commit(2, stamp);
    assert_eq!(home.value(), bulk("one"));
}

/// Fig. 4 l. 1–2, and List. 2 l. 23–24 for a transaction of one home.
#[test]
fn a_repeated_execute_is_answered_from_its_record_and_a_locked_one_is_not_recorded() {
    let mut home = Home::new();
    let execute = |attempt| Execute {
        tid: tid(3),
        attempt,
        timestamp: CausalTimestamp::new(SCHEME),
        reads: Vec::new(),
        operations: vec![(key(), Op::IncrBy(1))],
        writes: Vec::new(),
        oldest: 0,
    };
    home.prepare(1, "5");
    let locked = home.give(Body::Execute(execute(1)));
    assert_eq!(locked, [Body::Executed(tid(3), 1, Executed::Locked(key()))]);
    home.give(Body::Decided(tid(1), Decision::Abort));
    let done = home.give(Body::Execute(execute(2)));
    let [Body::Executed(_, 2, Executed::Committed(outcomes, past))] = done.as_slice() else {
        panic!("{done:?}")
    };
    assert_eq!(outcomes, &[Outcome::Int(1)]);
    let again = Executed::Committed(outcomes.clone(), past.clone());
    assert_eq!(home.give(Body::Execute(execute(3))), [Body::Executed(tid(3), 3, again)]);
    assert_eq!(home.value(), bulk("1"));
}

#[test]
fn the_decision_home_refuses_a_commit_after_it_has_decided_to_abort() {
    let mut home = Home::new();
    // A participant's prepare has expired, and the decision home has not even seen its own.
    let sent = home.give(Body::Resolve(tid(9)));
    assert_eq!(sent, [Body::Decided(tid(9), Decision::Abort)]);
    let prepare = Prepare {
        tid: tid(9),
        above: Stamp::ZERO,
        writes: vec![(key(), assign("late"))],
        decision_home: ME,
        decision_shard: ShardId(1),
        epoch: 0,
        oldest: 0,
    };
    assert_eq!(home.give(Body::Prepare(prepare)), [Body::Outcome(tid(9), false)]);
    let timestamp = CausalTimestamp::new(SCHEME);
    let commit = Box::new(Commit { timestamp, stamps: vec![(ME.site, Stamp(9))] });
    let sent = home.give(Body::Commit(tid(9), commit, vec![ME, OTHER]));
    assert_eq!(sent, [Body::Outcome(tid(9), false)]);
    assert_eq!(home.worker.unfinished(), (0, 1, 0));
    // The record is removed once the client cannot ask any more.
    home.give(Body::Oldest(tid(9).client, 10));
    assert_eq!(home.worker.unfinished(), (0, 0, 0));
}
