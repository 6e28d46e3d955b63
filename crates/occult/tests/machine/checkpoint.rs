//! Checkpoints that are written while the worker continues, and recoveries from them.

use std::sync::Arc;

use solera_data::{CellChange, Effect, Key, Op, Outcome, Value};
use solera_machine::{Address, Machine, Now, Topology};
use solera_membership::Members;
use solera_occult::{
    Batch, Body, CausalTimestamp, Checkpoint, ClientId, Commit, Config, Decision, Entry, Input,
    Message, Occult, Output, Prepare, Progress, Recovery, Scheme, ShardId, Stamp, TransactionId,
};
use solera_time::{Monotonic, Physical, SiteId};

const ME: Address = Address { site: SiteId(1), worker: 0 };
const OTHER: Address = Address { site: SiteId(0), worker: 0 };
const SCHEME: Scheme = Scheme::Exact;
const NOW: Now = Now { monotonic: Monotonic(1_000_000_000), physical: Physical(1_000_000) };

/// A worker, and the records that it has written.
struct Journaled {
    config: Config,
    worker: Occult,
    records: Vec<Vec<u8>>,
    messages: Vec<Body>,
}

impl Journaled {
    /// Creates a worker whose keys have their home at `home`.
    fn new(home: Address) -> Journaled {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
        let home_of = Arc::new([(Vec::new(), Some(home.site))]);
        let config = Config { scheme: SCHEME, home_of, ..Config::new(ME, topology, 2) };
        let worker = Occult::new(config.clone(), &Members::new(2));
        let mut this = Journaled { config, worker, records: Vec::new(), messages: Vec::new() };
        this.collect();
        this
    }

    fn collect(&mut self) {
        while let Some(output) = self.worker.poll_output() {
            match output {
                Output::Records(records) => {
                    self.records.extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::Send { message, .. } => self.messages.push(message.body),
                _ => {}
            }
        }
    }

    fn give(&mut self, body: Body) {
        let message = Message { epoch: 0, body };
        self.worker.handle(NOW, Input::Message { from: OTHER, generation: 0, message });
        self.collect();
    }

    /// Writes a checkpoint in parts of one key. `action` happens after `before` parts. Returns the
    /// worker that recovers from the checkpoint and the records since it began, and the number of
    /// parts.
    fn recover(&mut self, before: usize, action: impl FnOnce(&mut Journaled)) -> (Occult, usize) {
        let (first, mut checkpoint) = (self.records.len(), Checkpoint::default());
        let (mut parts, mut action) = (Vec::new(), Some(action));
        loop {
            if parts.len() == before
                && let Some(action) = action.take()
            {
                action(self);
            }
            let Some(part) = self.worker.next_part(&mut checkpoint, 1) else { break };
            let mut bytes = Vec::new();
            Occult::encode_part(&part, &mut bytes);
            parts.push(bytes);
        }
        assert!(Occult::is_complete(&checkpoint) && action.is_none());
        let members = Members::new(2);
        let mut recovery = Recovery::new(self.config.clone(), &members);
        parts.iter().for_each(|part| recovery.take_part(part).unwrap());
        self.records[first..].iter().for_each(|record| recovery.take_record(record).unwrap());
        (recovery.into_machine(&members), parts.len())
    }
}

fn tid(number: u64) -> TransactionId {
    TransactionId { client: ClientId { address: OTHER, incarnation: 1 }, number }
}

fn key(name: &str) -> Key {
    Key::from(name)
}

fn assign(value: &str) -> Effect {
    let cell = CellChange { assign: Some(Value::from(value)), add: None };
    Effect { clear: true, cell, ..Effect::default() }
}

fn value(worker: &mut Occult, name: &str) -> Option<Outcome> {
    let mut past = CausalTimestamp::new(SCHEME);
    worker.read_at_once(NOW, &mut past, (&key(name), &Op::Get)).map(Result::unwrap)
}

fn bulk(value: &str) -> Option<Outcome> {
    Some(Outcome::Bulk(Value::from(value)))
}

/// Prepares a write, and returns its stamp.
fn prepare(home: &mut Journaled, number: u64, (name, value): (&str, &str)) -> Stamp {
    home.give(Body::Prepare(Prepare {
        tid: tid(number),
        above: Stamp::ZERO,
        writes: vec![(key(name), assign(value))],
        decision_home: OTHER,
        decision_shard: ShardId(1),
        epoch: 0,
        oldest: 0,
    }));
    let prepared = home.messages.iter().rev().find_map(|message| match message {
        Body::Prepared(of, stamp, _) if *of == tid(number) => Some(*stamp),
        _ => None,
    });
    prepared.expect("no other transaction has locked the key")
}

fn commit(home: &mut Journaled, number: u64, stamp: Stamp) {
    let timestamp = CausalTimestamp::new(SCHEME);
    let commit = Box::new(Commit { timestamp, stamps: vec![(ME.site, stamp)] });
    home.give(Body::Decided(tid(number), Decision::Commit(commit)));
}

/// The record of the prepare precedes the checkpoint, so that only the checkpoint has it.
#[test]
fn a_commit_while_a_checkpoint_is_written_survives() {
    for before in 0..=3 {
        let mut home = Journaled::new(ME);
        for (number, name) in [(1, "a"), (2, "b")] {
            let stamp = prepare(&mut home, number, (name, "old"));
            commit(&mut home, number, stamp);
        }
        let stamp = prepare(&mut home, 3, ("a", "new"));
        let (mut recovered, parts) = home.recover(before, |home| commit(home, 3, stamp));
        assert_eq!(parts, 3);
        assert_eq!(value(&mut recovered, "a"), bulk("new"), "after {before} parts");
        assert_eq!(value(&mut recovered, "b"), bulk("old"), "after {before} parts");
    }
}

/// A commit is hidden behind an undecided one, whose decision shows both.
#[test]
fn a_hidden_commit_survives() {
    for before in 0..=1 {
        let mut home = Journaled::new(ME);
        let undecided = prepare(&mut home, 1, ("a", "one"));
        let stamp = prepare(&mut home, 2, ("b", "two"));
        commit(&mut home, 2, stamp);
        // Nothing is shown yet, so that a checkpoint before the decision has no values.
        let (mut recovered, _) = home.recover(before, |home| commit(home, 1, undecided));
        assert_eq!(value(&mut recovered, "a"), bulk("one"));
        assert_eq!(value(&mut recovered, "b"), bulk("two"));
    }
}

/// The decision reaches the replicas with the writes, which become visible after the recovery.
#[test]
fn the_decision_about_a_hidden_commit_survives() {
    let mut home = Journaled::new(ME);
    let undecided = prepare(&mut home, 1, ("a", "one"));
    let decision_shard = home.config.shard_of(&key("b"));
    home.give(Body::Prepare(Prepare {
        tid: tid(2),
        above: Stamp::ZERO,
        writes: vec![(key("b"), assign("two"))],
        decision_home: ME,
        decision_shard,
        epoch: 0,
        oldest: 0,
    }));
    let timestamp = CausalTimestamp::new(SCHEME);
    let stamps = vec![(ME.site, Stamp(undecided.0 + 1_000))];
    let decided = Box::new(Commit { timestamp, stamps });
    home.give(Body::Commit(tid(2), decided.clone(), vec![ME, OTHER]));
    home.worker = home.recover(0, |_| ()).0;
    home.messages.clear();
    commit(&mut home, 1, undecided);
    home.worker.on_deadline(Now { monotonic: Monotonic(2_000_000_000), ..NOW });
    home.collect();
    let batches = home.messages.iter().filter_map(|message| match message {
        Body::Batch(batch) => Some(&batch.entries),
        _ => None,
    });
    let mut found = batches.flatten().flat_map(|entry| &entry.decided);
    assert!(found.any(|found| *found == (tid(2), decided.clone())));
}

fn batch(after: u64, name: &str, value: &str) -> Body {
    let stamp = Stamp(1_000 + after);
    let shard = Journaled::new(OTHER).config.shard_of(&key(name));
    let writes = vec![(key(name), assign(value), CausalTimestamp::new(SCHEME))];
    let progress = Some(Progress { through: stamp, ..Progress::default() });
    let entries = vec![Entry { shard, stamp, writes, decided: Vec::new(), takeover: None }];
    Body::Batch(Batch { epoch: 0, start: 1, after, end: after + 1, entries, progress })
}

/// Reads data with other homes of keys: from a checkpoint if `saved`, or else from records.
fn reopen(written: Journaled, home: Address, saved: bool) -> Result<(), String> {
    let config = Journaled::new(home).config;
    let mut recovery = Recovery::new(config, &Members::new(2));
    if saved {
        let mut checkpoint = Checkpoint::default();
        while let Some(part) = written.worker.next_part(&mut checkpoint, 1) {
            let mut bytes = Vec::new();
            Occult::encode_part(&part, &mut bytes);
            recovery.take_part(&bytes)?;
        }
    } else {
        written.records.iter().try_for_each(|record| recovery.take_record(record))?;
    }
    recovery.check()
}

/// A key of another home is in another shard, in which sessions do not look for its writes.
#[test]
fn data_is_refused_if_the_home_of_its_space_has_changed() {
    for (home, other, saved) in
        [(ME, OTHER, false), (ME, OTHER, true), (OTHER, ME, false), (OTHER, ME, true)]
    {
        let mut worker = Journaled::new(home);
        assert_eq!(reopen(worker, other, saved), Ok(()), "there is no data yet");
        worker = Journaled::new(home);
        if home == ME {
            let stamp = prepare(&mut worker, 1, ("a", "old"));
            commit(&mut worker, 1, stamp);
        } else {
            worker.give(batch(0, "a", "old"));
        }
        let error = reopen(worker, other, saved).unwrap_err();
        assert!(error.starts_with("'a' was written while the space with the prefix ''"), "{error}");
        assert!(error.contains("`home`") && error.ends_with("`solera home move`"), "{error}");
    }
}

/// The position in the checkpoint must not be later than the values.
#[test]
fn a_batch_that_arrives_while_a_checkpoint_is_written_survives() {
    for before in 0..=3 {
        let mut replica = Journaled::new(OTHER);
        replica.give(batch(0, "a", "old"));
        replica.give(batch(1, "b", "old"));
        let action = |replica: &mut Journaled| replica.give(batch(2, "a", "new"));
        let (mut recovered, _) = replica.recover(before, action);
        assert_eq!(value(&mut recovered, "a"), bulk("new"), "after {before} parts");
    }
}
