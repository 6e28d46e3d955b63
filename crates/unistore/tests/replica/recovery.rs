//! State of a replica after a restart, step by step, in cases that the simulator rarely reaches.

use std::sync::Arc;

use solera_data::{CellChange, Dot, Effect, Key, Op, Outcome, SetChange, Value};
use solera_levels::Level;
use solera_machine::{
    Address, DecodeError, Machine, Now, PartitionId, Records, RequestId, Topology,
};
use solera_membership::{Change, Gap, Members};
use solera_time::{Monotonic, Origin, Physical, SiteId, Timestamp, Vector};
use solera_unistore::{
    Checkpoint, Command, Config, Decision, Event, Input, Kind, LogRange, Message, Output, Part,
    Pasts, Record, Recovery, Replica, Response, TxId, Update, Write,
};

const ME: Address = Address { site: SiteId(0), worker: 0 };
const OTHER: Address = Address { site: SiteId(0), worker: 1 };
const B: SiteId = SiteId(1);
const C: SiteId = SiteId(2);

fn config() -> Config {
    config_of(&[2, 1])
}

/// Returns a configuration with one partition and these numbers of workers at the sites.
fn config_of(workers: &[u8]) -> Config {
    let topology = Topology { partitions: 1, workers: workers.to_vec() };
    let mut config = Config::new(ME, Arc::new(topology));
    config.journal = true;
    config
}

/// Returns `ms` after the start of the host, and the time of the wall clock.
fn now(ms: u64, wall_ms: u64) -> Now {
    Now { monotonic: Monotonic(ms * 1_000_000), physical: Physical(wall_ms * 1000) }
}

/// A replica and its journal.
struct Host {
    config: Config,
    replica: Replica,
    records: Vec<Record>,
    parts: Vec<(u64, Part)>,
    trimmed: usize,
}

impl Host {
    fn new() -> Host {
        Host::of(config())
    }

    fn of(config: Config) -> Host {
        let replica = Replica::new(config.clone(), 1);
        Host { config, replica, records: Vec::new(), parts: Vec::new(), trimmed: 0 }
    }

    /// Takes all outputs; keeps the records and returns the others.
    fn outputs(&mut self) -> Vec<Output> {
        let mut others = Vec::new();
        while let Some(output) = self.replica.poll_output() {
            match output {
                Output::Records(records) => {
                    self.records.extend(records.iter().map(|bytes| Record::decode(bytes).unwrap()));
                }
                other => others.push(other),
            }
        }
        others
    }

    fn tick(&mut self, now: Now) -> Vec<Output> {
        self.replica.on_deadline(now);
        self.outputs()
    }

    fn handle(&mut self, now: Now, input: Input) -> Vec<Output> {
        self.replica.handle(now, input);
        self.outputs()
    }

    fn hear(&mut self, now: Now, from: SiteId, message: Message) -> Vec<Output> {
        let from = Address { site: from, worker: 0 };
        self.handle(now, Input::Message { from, generation: 0, message })
    }

    /// Delivers a range of the history of `origin` up to `known`, with these updates.
    fn replicate(
        &mut self,
        from: SiteId,
        origin: impl Into<Origin>,
        known: Timestamp,
        updates: &[Update],
    ) {
        let (partition, origin, prev) = (PartitionId(0), origin.into(), Timestamp::ZERO);
        let updates = updates.iter().cloned().map(Arc::new).collect();
        let range = LogRange { partition, origin, prev, known, updates };
        self.hear(now(5, 1000), from, Message::Replicate(vec![range]));
    }

    fn known_vec(&self) -> Vector {
        self.replica.status().known_vecs().next().unwrap().1
    }

    /// Lets an operator declare C dead.
    fn remove_c(&mut self) {
        self.replica.change_members(now(6, 1000), C, Change::Remove).unwrap();
        self.outputs();
    }

    fn members(&self) -> Members {
        self.replica.status().members().clone()
    }

    /// Delivers B's list of members.
    fn b_listens_to(&mut self, members: Members) {
        let known_vecs = vec![(PartitionId(0), Vector::zero(3))];
        let message = Message::KnownVecGlobal {
            known_vecs,
            suspects: Vec::new(),
            members,
            voted: Timestamp::ZERO,
        };
        self.hear(now(7, 1000), B, message);
    }

    fn checkpoint(&mut self) {
        let lsn = self.records.len() as u64;
        let mut checkpoint = Checkpoint::default();
        let parts = std::iter::from_fn(|| self.replica.next_part(&mut checkpoint, 100));
        self.parts = parts.map(|part| (lsn, part)).collect();
        self.trimmed = self.records.len();
    }

    /// Drops everything that is not in the journal, and restarts.
    fn restart(&mut self) {
        self.outputs();
        let mut recovery = Recovery::new(self.config.clone(), 1);
        for (lsn, part) in &self.parts {
            let mut bytes = Vec::new();
            part.encode(&mut bytes);
            recovery.load(*lsn, Part::decode(&bytes).unwrap()).unwrap();
        }
        for (index, record) in self.records.iter().enumerate().skip(self.trimmed) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let record = Record::decode(&bytes).unwrap();
            recovery.replay(index as u64 + 1, record).unwrap();
        }
        self.replica = recovery.finish();
    }
}

#[test]
fn later_times_are_later_than_a_prepare_time_in_a_checkpoint() {
    let mut host = Host::new();
    host.tick(now(1, 1000));
    // The transaction is prepared on a snapshot two seconds ahead. The checkpoint comes before the
    // next promise.
    let ahead = Timestamp::from_physical(Physical(3_000_000));
    let snap_vec = Vector::zero(2).with(SiteId(0), ahead);
    let tx = TxId { coordinator: 1, sequence: 7 };
    let (writes, eventual) = (Vec::new(), Vec::new());
    let message = Message::Prepare { tx, snap_vec, writes, eventual };
    host.handle(now(2, 1001), Input::Message { from: OTHER, generation: 0, message });
    host.checkpoint();
    host.restart();
    let sent = host.tick(now(1, 1500)).into_iter().filter_map(|output| match output {
        Output::Send { message: Message::Replicate(ranges), .. } => Some(ranges[0].known),
        _ => None,
    });
    let sent = sent.max().expect("siblings get this site's time");
    let (mut pasts, op) = (Pasts::none(2), Op::Set(Value::from("v")));
    let executed = host.replica.execute_at_once(now(2, 1501), &mut pasts, Level::Causal, b"k", &op);
    assert!(executed.is_some());
    assert!(pasts.causal[SiteId(0)] > sent, "{pasts:?} after {sent} was sent");
}

/// Returns the times of this site's own history that are sent.
fn sent(outputs: Vec<Output>) -> impl Iterator<Item = Timestamp> {
    let ranges = outputs.into_iter().filter_map(|output| match output {
        Output::Send { message: Message::Replicate(ranges), .. } => Some(ranges),
        _ => None,
    });
    ranges
        .flatten()
        .filter(|range| range.origin == Origin::Site(SiteId(0)))
        .map(|range| range.known)
}

/// Other sites reject a replica from which they have received times between these two.
#[test]
fn no_time_is_sent_that_one_run_forgets_and_the_next_does_not_reach() {
    let mut host = Host::new();
    let mut wall_ms = 1000;
    for run in 0..5 {
        let (recovered, began) = host.replica.begin_run(Physical(wall_ms * 1000));
        assert!(run == 0 || recovered > Timestamp::ZERO);
        let mut greatest = Timestamp::ZERO;
        for step in 1..40 {
            // The wall clock jumps, and also goes back.
            wall_ms = if step % 7 == 0 { wall_ms - 20 } else { wall_ms + step * step };
            let now = now(step * 100, wall_ms);
            let (mut pasts, op) = (Pasts::none(2), Op::Set(Value::from("v")));
            if step % 3 == 0 {
                host.replica
                    .execute_at_once(now, &mut pasts, Level::Causal, b"k", &op)
                    .unwrap()
                    .unwrap();
            }
            for sent in sent(host.tick(now)) {
                assert!(sent <= recovered || sent >= began, "run {run}: {sent} is in between");
                greatest = greatest.max(sent);
            }
        }
        assert!(greatest > began);
        host.restart();
        assert!(host.replica.status().clock() >= greatest, "run {run} is not remembered");
    }
}

#[test]
fn transactions_of_two_runs_never_have_the_same_identifier() {
    let mut host = Host::new();
    let mut names = Vec::new();
    host.tick(now(1, 1000));
    for run in 0..4 {
        let begin = Command::Begin { past: Vector::zero(2), strong: false };
        let input = Input::Client { request: RequestId(1), command: begin };
        // The wall clock stands still, and power fails right after the reply.
        for output in host.handle(now(1, 1000), input) {
            if let Output::Reply { response: Response::Begun(tx), .. } = output {
                names.push(tx);
            }
        }
        assert_eq!(names.len(), run + 1);
        host.restart();
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[test]
fn a_decision_is_repeated_until_all_have_confirmed_it() {
    let mut host = Host::new();
    let tx = TxId { coordinator: 0, sequence: 5 };
    let decision = Decision { ts: Timestamp(9 << 12), unconfirmed: vec![OTHER] };
    host.records.push(Record::Decided(tx, decision));
    host.restart();
    let outputs = host.tick(now(1, 1000));
    let sent = outputs.iter().any(|output| {
        matches!(output, Output::Send { to, message: Message::Commit { .. } } if *to == OTHER)
    });
    assert!(sent);
    host.handle(
        now(2, 1001),
        Input::Message {
            from: OTHER,
            generation: 0,
            message: Message::Resolved { tx, until: Vector::zero(3) },
        },
    );
    assert_eq!(host.replica.status().unconfirmed_decisions(), 0);
    host.restart();
    assert_eq!(host.replica.status().unconfirmed_decisions(), 0);
}

/// Prepares, as a participant, a transaction that adds 1 to the eventual key `e`.
fn prepare_increment(host: &mut Host, tx: TxId) {
    let (snap_vec, writes) = (Vector::zero(2), Vec::new());
    let eventual = vec![(Key::from("e"), Op::IncrBy(1))];
    let message = Message::Prepare { tx, snap_vec, writes, eventual };
    host.handle(now(2, 1001), Input::Message { from: OTHER, generation: 0, message });
}

fn eventual_count(host: &mut Host) -> Outcome {
    let (mut pasts, now) = (Pasts::none(2), now(9, 2000));
    host.replica.execute_at_once(now, &mut pasts, Level::Eventual, b"e", &Op::Get).unwrap().unwrap()
}

#[test]
fn an_eventual_operation_of_a_transaction_is_executed_once() {
    let tx = TxId { coordinator: 1, sequence: 7 };
    let commit = || Input::Message {
        from: OTHER,
        generation: 0,
        message: Message::Commit { tx, ts: Timestamp::from_physical(Physical(1_002_000)) },
    };
    let one = Outcome::Bulk(Value::from("1"));
    // Restarts before and after the commit, with and without a checkpoint there.
    for checkpoints in 0..4 {
        let mut host = Host::new();
        host.tick(now(1, 1000));
        prepare_increment(&mut host, tx);
        if checkpoints & 1 != 0 {
            host.checkpoint();
        }
        host.restart();
        assert_eq!(eventual_count(&mut host), Outcome::Nil);
        host.handle(now(3, 1003), commit());
        assert_eq!(eventual_count(&mut host), one);
        if checkpoints & 2 != 0 {
            host.checkpoint();
        }
        for _ in 0..2 {
            host.restart();
            assert_eq!(eventual_count(&mut host), one);
            // The coordinator has not received the confirmation.
            host.handle(now(4, 1004), commit());
            assert_eq!(eventual_count(&mut host), one);
        }
    }
}

#[test]
fn an_eventual_operation_is_traced_after_its_record() {
    // Checkers assume that an event that is traced before a record is as durable as earlier events.
    let mut config = config();
    config.trace = true;
    let mut replica = Replica::new(config, 1);
    let level = Level::Eventual;
    let operate = |op| Command::Execute { past: Vector::zero(2), level, key: Key::from("e"), op };
    let nobody = Vector::zero(2);
    let tx = TxId { coordinator: 0, sequence: 1 };
    let commands = [
        operate(Op::IncrBy(1)),
        Command::Begin { past: nobody, strong: false },
        Command::Operate { tx, level, key: Key::from("e"), op: Op::IncrBy(1), kind: Kind::UPDATE },
        Command::Commit { tx, claim: None },
    ];
    let of_another = TxId { coordinator: 1, sequence: 7 };
    let (writes, eventual) = (Vec::new(), vec![(Key::from("e"), Op::IncrBy(1))]);
    let ts = Timestamp::from_physical(Physical(1_002_000));
    let messages = [
        Message::Prepare { tx: of_another, snap_vec: nobody, writes, eventual },
        Message::Commit { tx: of_another, ts },
    ];
    let commands =
        commands.map(|command| Input::Client { request: RequestId(1), command }).into_iter();
    let messages = messages.map(|message| Input::Message { from: OTHER, generation: 0, message });
    let (mut commits, mut recorded) = (0, false);
    for input in commands.chain(messages) {
        replica.handle(now(2, 1001), input);
        recorded = false;
        while let Some(output) = replica.poll_output() {
            match output {
                Output::Records(_) => recorded = true,
                Output::Trace(Event::Committed { dot, .. }) => {
                    assert!(recorded, "{dot:?} is traced before its record");
                    commits += 1;
                }
                _ => {}
            }
        }
    }
    assert_eq!((commits, recorded), (3, true));
}

#[test]
fn records_share_one_output_until_another_output_follows() {
    let mut replica = Replica::new(config_of(&[1]), 1);
    let mut pasts = Pasts::none(1);
    let mut set = |replica: &mut Replica, key: &[u8], value: &str| {
        let op = Op::Set(Value::from(value));
        replica
            .execute_at_once(now(2, 1001), &mut pasts, Level::Causal, key, &op)
            .unwrap()
            .unwrap();
    };
    let values = ["first", "second", "third"];
    // The first value is kept for a time; a value that is overwritten when no snapshot needs it is
    // not.
    values.iter().for_each(|value| set(&mut replica, b"k", value));
    let past = Vector::zero(1);
    let begin =
        Input::Client { request: RequestId(1), command: Command::Begin { past, strong: false } };
    replica.handle(now(2, 1001), begin);
    set(&mut replica, b"other", "fourth");
    let outputs: Vec<_> = std::iter::from_fn(|| replica.poll_output()).collect();
    let [Output::Records(before), Output::Reply { .. }, Output::Records(after)] = &outputs[..]
    else {
        panic!("{outputs:?}");
    };
    let read = |records: &Records| -> Vec<_> {
        let decoded = records.iter().map(|bytes| Record::decode(bytes).unwrap());
        let writes = decoded.flat_map(|record| match record {
            Record::Stored(updates) => updates[0].1.writes.clone(),
            _ => Vec::new(),
        });
        writes.map(|write| (write.key, write.effect.cell.assign.unwrap())).collect()
    };
    assert_eq!(read(before), values.map(|value| (Key::from("k"), Value::from(value))));
    assert_eq!(read(after), [(Key::from("other"), Value::from("fourth"))]);
}

#[test]
fn parts_of_a_checkpoint_are_short_whatever_is_in_them() {
    let mut host = Host::new();
    host.tick(now(1, 1000));
    let value = Value::from(vec![b'x'; 400_000]);
    for i in 0..20 {
        let (mut pasts, op) = (Pasts::none(2), Op::Set(value.clone()));
        let (key, now) = (format!("k{i}"), now(2, 1001));
        let at_once =
            host.replica.execute_at_once(now, &mut pasts, Level::Causal, key.as_bytes(), &op);
        at_once.unwrap().unwrap();
        let tx = TxId { coordinator: 1, sequence: i };
        let (snap_vec, writes) = (Vector::zero(2), Vec::new());
        let eventual = vec![(Key::from("e"), op)];
        let message = Message::Prepare { tx, snap_vec, writes, eventual };
        host.handle(now, Input::Message { from: OTHER, generation: 0, message });
    }
    host.checkpoint();
    for (_, part) in &host.parts {
        let mut bytes = Vec::new();
        part.encode(&mut bytes);
        assert!(bytes.len() < 2 << 20, "a part of {} bytes", bytes.len());
    }
    host.restart();
    assert_eq!(host.replica.status().keys(), 20);
    assert_eq!(host.replica.status().prepared_transactions(), 20);
}

#[test]
fn bytes_that_are_no_record_are_rejected() {
    let foreign = |bytes: &[u8]| match Record::decode(bytes) {
        Err(DecodeError::Foreign(foreign)) => foreign.to_string(),
        read => panic!("{read:?}"),
    };
    assert!(foreign(&[]).contains("too short") && foreign(&[1]).contains("too short"));
    assert!(foreign(&[9, 1, 2]).contains("of protocol 9, and this build knows 1 (UniStore)"));
    assert!(foreign(&[1, 9, 2]).contains("of version 9 of UniStore"));
    let mut bytes = Vec::new();
    let tx = TxId { coordinator: 0, sequence: 5 };
    Record::Aborted(tx).encode(&mut bytes);
    assert_eq!(Record::decode(&bytes), Ok(Record::Aborted(tx)));
    for end in 2..bytes.len() {
        assert!(matches!(Record::decode(&bytes[..end]), Err(DecodeError::Malformed(_))), "{end}");
    }
    bytes.push(0);
    assert!(matches!(Record::decode(&bytes), Err(DecodeError::Malformed(_))));
}

/// Returns the timestamp of a wall-clock time.
fn at(wall_ms: u64) -> Timestamp {
    Timestamp::from_physical(Physical(wall_ms * 1000))
}

fn update_of(site: SiteId, ts: Timestamp, snap_vec: Vector, effect: Effect) -> Update {
    let writes = vec![Write { key: Key::from("k"), effect }];
    Update { dot: Dot::of(site, ts), snap_vec, writes, eventual: false }
}

/// A removal of B arrives before the write of C that it has observed. A checkpoint begins between
/// them and ends when both are folded and forgotten: the write is in the journal, the removal is
/// not any more.
#[test]
fn a_write_that_was_removed_during_a_checkpoint_does_not_return() {
    // The partition's keys are listed when none of its data is left, or before the write comes.
    for parts_before in [1, 2] {
        let mut host = Host::of(config_of(&[1, 1, 1]));
        let nothing = Vector::zero(3);
        let cell = CellChange { assign: Some(Value::from("x")), add: None };
        let write = Effect { clear: true, cell, ..Effect::default() };
        let removal = Effect { clear: true, ..Effect::default() };
        let write = update_of(C, at(500), nothing, write);
        let removal = update_of(B, at(600), nothing.with(C, at(500)), removal);
        host.tick(now(1, 1000));
        host.replicate(B, B, at(600), &[removal]);
        let mut checkpoint = Checkpoint::default();
        host.trimmed = host.records.len();
        for _ in 0..parts_before {
            let part = host.replica.next_part(&mut checkpoint, 1).unwrap();
            host.parts.push((host.records.len() as u64, part));
        }
        host.replicate(C, C, at(600), &[write]);
        let all = nothing.with(ME.site, at(1500)).with(B, at(600)).with(C, at(600));
        for step in 0..50 {
            for site in [B, C] {
                let (stable_vec, floor, ceiling, members) = (all, all, nothing, host.members());
                let message =
                    Message::StableVec { stable_vec, floor, ceiling, members, settled: None };
                host.hear(now(10 + step * 20, 1000 + step * 20), site, message);
            }
            host.tick(now(20 + step * 20, 1010 + step * 20));
        }
        let status = host.replica.status();
        assert_eq!((status.unsettled_updates(), status.keys()), (0, 0));
        while let Some(part) = host.replica.next_part(&mut checkpoint, 1) {
            host.parts.push((host.records.len() as u64, part));
        }
        host.restart();
        let (mut pasts, now) = (Pasts::causal(nothing), now(1, 2100));
        let read = host.replica.execute_at_once(now, &mut pasts, Level::Causal, b"k", &Op::Get);
        assert_eq!(read, Some(Ok(Outcome::Nil)), "{parts_before} parts before");
    }
}

/// A restarted sibling may have less history than it had reported.
#[test]
fn a_site_that_asks_for_a_gap_gets_it_whatever_it_had_reported() {
    let mut host = Host::of(config_of(&[1, 1]));
    host.tick(now(1, 1000));
    let (mut pasts, op) = (Pasts::none(2), Op::Set(Value::from("v")));
    let executed = host.replica.execute_at_once(now(2, 1001), &mut pasts, Level::Causal, b"k", &op);
    assert!(executed.is_some());
    host.tick(now(10, 1010));
    let known_vecs = vec![(PartitionId(0), host.known_vec())];
    let (suspects, members, voted) = (Vec::new(), host.members(), Timestamp::ZERO);
    host.hear(now(11, 1011), B, Message::KnownVecGlobal { known_vecs, suspects, members, voted });
    let (partition, origin, known) = (PartitionId(0), ME.site.into(), Timestamp::ZERO);
    host.hear(now(12, 1012), B, Message::Gap { partition, origin, known });
    let sent = host.tick(now(30, 1030)).into_iter().find_map(|output| match output {
        Output::Send { message: Message::Replicate(ranges), .. } => Some(ranges),
        _ => None,
    });
    let range = sent.expect("something is sent with every tick").remove(0);
    assert_eq!((range.prev, range.updates.len()), (Timestamp::ZERO, 1));
}

/// Other sites rely on the times that a worker has reported of a leaving site.
#[test]
fn the_known_time_of_a_leaving_site_survives_a_restart() {
    let mut host = Host::of(config_of(&[1, 1, 1]));
    host.tick(now(1, 1000));
    host.replicate(C, C, at(500), &[]);
    host.remove_c();
    host.restart();
    assert!(host.known_vec()[C] >= at(500));
    host.b_listens_to(host.members());
    host.replicate(B, C, at(600), &[]);
    host.restart();
    assert!(host.known_vec()[C] >= at(600));
}

/// A site may have forgotten updates that it had sent before it received the removal.
#[test]
fn history_of_a_leaving_site_counts_only_from_sites_that_have_its_removal() {
    let mut host = Host::of(config_of(&[1, 1, 1]));
    host.tick(now(1, 1000));
    let before = host.members();
    host.remove_c();
    for (members, counts) in [(before, false), (host.members(), true)] {
        host.b_listens_to(members);
        host.replicate(B, C, at(600), &[]);
        assert_eq!(host.known_vec()[C] >= at(600), counts);
    }
    host.replicate(C, C, at(900), &[]);
    assert!(host.known_vec()[C] < at(900), "nobody listens to the site itself");
}

/// No member may lack transactions of a lost site that another site's strong transaction has seen.
#[test]
fn the_gap_of_a_removed_site_ends_after_the_snapshots_of_strong_transactions() {
    let mut host = Host::of(config_of(&[1, 1, 1]));
    host.tick(now(1, 1000));
    let dot = Dot::of(Origin::Strong, at(700));
    let snap_vec = Vector::zero(3).with(C, at(500));
    let write = Write { key: Key::from("k"), effect: Effect::default() };
    let update = Update { dot, snap_vec, writes: vec![write], eventual: false };
    host.replicate(B, Origin::Strong, at(700), &[update]);
    host.remove_c();
    let members = host.members();
    host.b_listens_to(members.clone());
    let (stable_vec, floor, ceiling) = (Vector::zero(3), Vector::zero(3), Vector::zero(3));
    host.hear(
        now(8, 1000),
        B,
        Message::StableVec { stable_vec, floor, ceiling, members, settled: None },
    );
    for ms in 9..40 {
        host.tick(now(ms, 1000));
    }
    let gap = *host.members().gaps(C).last().expect("it is gone");
    assert!(gap.end >= at(500), "{gap:?}");
}

/// A worker has the histories of its siblings up to different times. After a restart, `knownVec`
/// has the least of these times for all partitions, although a sibling may never have sent it.
/// Times that a third site reports of a sibling do not count as sent by the sibling. (`solera sim
/// --seed 50 --links`: a worker was rejected for a time that it had allegedly forgotten.)
#[test]
fn times_of_a_sibling_are_kept_apart_from_the_known_vectors() {
    let topology = Topology { partitions: 2, workers: vec![1, 2, 1] };
    let config = Config { journal: true, ..Config::new(ME, Arc::new(topology)) };
    let mut host = Host::of(config);
    let send = |host: &mut Host, from, partition, known, updates: &[Update]| {
        let updates = updates.iter().cloned().map(Arc::new).collect();
        let (partition, prev) = (PartitionId(partition), Timestamp::ZERO);
        let range = LogRange { partition, origin: B.into(), prev, known, updates };
        let message = Message::Replicate(vec![range]);
        host.handle(now(5, 1000), Input::Message { from, generation: 0, message });
    };
    let [first, second] = [0, 1].map(|worker| Address { site: B, worker });
    let heard = |host: &Host| {
        let times = |worker| {
            let status = host.replica.status();
            let heard = status.heard_of(B).filter(move |(it, _)| *it == worker);
            heard.map(|(_, ts)| ts).max().unwrap()
        };
        [first, second].map(times)
    };
    let known = |host: &Host| -> Vec<Timestamp> {
        host.replica.status().known_vecs().map(|(_, known_vec)| known_vec[B]).collect()
    };
    let update = update_of(B, at(110), Vector::zero(3), Effect::default());
    send(&mut host, first, 0, at(100), &[]);
    send(&mut host, second, 1, at(200), &[update]);
    assert_eq!(heard(&host), [at(100), at(200)]);
    send(&mut host, Address { site: C, worker: 0 }, 0, at(120), &[]);
    assert_eq!(known(&host), [at(120), at(200)]);
    assert_eq!(heard(&host), [at(100), at(200)]);
    host.tick(now(1000, 2000));
    host.restart();
    assert_eq!(known(&host), [at(120), at(120)], "the least of both");
    assert_eq!(heard(&host), [at(100), at(200)], "the time that each has sent");
    host.outputs();
    host.checkpoint();
    host.restart();
    assert_eq!(heard(&host), [at(100), at(200)], "also in a checkpoint");
}

/// A site that has joined again is not checked against the times that its former generation has
/// sent.
#[test]
fn times_of_a_former_generation_do_not_count_for_the_next() {
    let mut host = Host::of(config_of(&[1, 1, 1]));
    host.tick(now(1, 1000));
    host.replicate(C, C, at(900), &[]);
    let heard = |host: &Host| host.replica.status().heard_of(C).map(|(_, ts)| ts).max().unwrap();
    assert_eq!(heard(&host), at(900));
    let gap = Gap { cut: at(500), end: at(600) };
    let removed = Members::new(3).changed(ME.site, C, Change::Remove).unwrap().closed(C, gap);
    host.b_listens_to(removed.changed(ME.site, C, Change::Add).unwrap().joined(C, at(700)));
    assert_eq!(heard(&host), at(700), "the end of the former generation");
    host.tick(now(1000, 2000));
    host.restart();
    assert_eq!(heard(&host), at(700), "also after a restart");
}

/// The records have a valid checksum, but contents that no worker writes.
#[test]
fn invalid_records_are_rejected_with_a_reason() {
    let replay = |bytes: &[u8]| {
        let mut recovery = Recovery::new(config(), 1);
        solera_machine::Recovery::take_record(&mut recovery, 1, bytes)
    };
    let encode = |record: Record| {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    };
    let known = |site| encode(Record::Known(PartitionId(0), site, Timestamp::ZERO));
    let (mut of_b, of_c) = (known(B), known(C));
    assert_eq!(replay(&of_b), Ok(()));
    let site = (0..of_b.len()).find(|at| of_b[*at] != of_c[*at]).expect("the site's number");
    of_b[site] = 7;
    let reason = replay(&of_b).expect_err("a site that no cluster has");
    assert!(reason.starts_with("no record"), "{reason}");

    let mut members = encode(Record::Members(Members::new(1)));
    assert_eq!(replay(&members), Ok(()));
    // This is the number of the site's changes, before its empty list of gaps: the site has left.
    let stage = members.len() - 2;
    assert_eq!(members[stage], 0);
    members[stage] = 2;
    let reason = replay(&members).expect_err("a list that no worker writes");
    assert!(reason.starts_with("no record"), "{reason}");
}

/// Data that was visible before a restart may be beyond what the restarted replica knows to be
/// uniform.
#[test]
fn a_size_contains_what_a_reader_has_and_the_replica_does_not_show() {
    let mut host = Host::of(config_of(&[1, 1, 1]));
    host.tick(now(1, 1000));
    let key = Key::from("fans");
    let add = |site: SiteId, ts: u64, element: &str| {
        let set = SetChange { removed: Vec::new(), added: vec![Value::from(element)] };
        let effect = Effect { set: Some(Box::new(set)), ..Effect::default() };
        let writes = vec![Write { key: key.clone(), effect }];
        let dot = Dot::of(site, Timestamp(ts));
        Update { dot, snap_vec: Vector::zero(3), writes, eventual: false }
    };
    host.replicate(B, B, Timestamp(20), &[add(B, 10, "b")]);
    host.replicate(C, C, Timestamp(40), &[add(C, 30, "c"), add(C, 35, "b")]);
    let (mut pasts, op) = (Pasts::none(3), Op::SetAdd(vec![Value::from("a")]));
    let added = host.replica.execute_at_once(now(6, 1000), &mut pasts, Level::Causal, b"fans", &op);
    assert!(matches!(added, Some(Ok(Outcome::Int(1)))));
    let size = |mine: u64, b: u64, c: u64| {
        let known = [mine, b, c].map(Timestamp);
        host.replica.size_with(b"fans", &known)
    };
    let visible = host.replica.status().view().uniform_vec;
    assert_eq!((visible[B], visible[C]), (Timestamp::ZERO, Timestamp::ZERO));
    for (known, expected) in
        [((0, 0, 0), Some(1)), ((0, 10, 0), Some(2)), ((0, 20, 30), Some(3)), ((0, 0, 40), Some(3))]
    {
        assert_eq!(size(known.0, known.1, known.2), expected, "{known:?}");
    }
    let received = |b: u64, c: u64| {
        let known = [u64::MAX, b, c].map(Timestamp);
        host.replica.has_received(PartitionId(0), &known)
    };
    assert!(received(20, 40) && !received(21, 40) && !received(20, 41));
}
