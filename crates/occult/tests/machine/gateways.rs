//! Gateways, and the state that homes keep for them, when homes move by force and sites leave and
//! return.

use solera_data::{Effect, Key};
use solera_machine::{Machine, Now};
use solera_membership::{Change, Gap, Members};
use solera_occult::{
    Body, ClientId, Command, Commit, Config, Decision, Execute, Executed, Handover, Input, Message,
    Occult, OnStale, Output, Prepare, Recovery, Response, STAMP_END, ShardId, Stamp, TransactionId,
    Unknown,
};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

use crate::net::{A, C, Net, P, at, bulk, cut, empty, key_of, only, pass, set, topology};

/// The home of shard 1.
const B: u8 = P;

fn config(site: u8) -> Config {
    Config { incarnation: 9_000, ..Config::new(at(site), topology(), 3) }
}

fn new_net() -> Net {
    Net::with(config)
}

fn key(shard: u16) -> Key {
    nth_key(shard, 0)
}

/// Returns a key of a shard.
fn nth_key(shard: u16, nth: usize) -> Key {
    key_of(&Occult::new(config(0), &Members::new(3)), shard, nth)
}

/// Removes the site C, whose worker is down.
fn remove_c(net: &mut Net) {
    net.set_members(net.members.changed(SiteId(A), SiteId(C), Change::Remove).unwrap());
    net.run(1_000, cut(C));
    let gap = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };
    net.set_members(net.members.closed(SiteId(C), gap));
    net.run(2_000, cut(C));
}

/// A message of a client at C to the home at A. The transaction has read shard 1, at a copy that
/// had carried out `epoch` moves, and writes a key of shard 0.
fn reads_and_writes(number: u64, epoch: u64) -> Message {
    let client = ClientId { address: at(C), incarnation: 1 };
    let execute = Execute {
        tid: TransactionId { client, number },
        attempt: 1,
        timestamp: empty(),
        reads: vec![(ShardId(1), Stamp(9_000_000), epoch)],
        operations: vec![(key(0), set(7))],
        writes: Vec::new(),
        oldest: number,
    };
    Message { epoch, body: Body::Execute(execute) }
}

/// The new home of a shard that was taken by force may assign stamps below those that the former
/// home has shown. A read at the former home then looks newer than writes that the read has missed.
#[test]
fn a_home_refuses_a_read_that_a_forced_move_has_followed() {
    let mut net = new_net();
    net.shift(1, (B, C), true);
    net.run(1_000, cut(B));
    assert_eq!(net.workers[usize::from(A)].homes().epoch(), 1);
    net.sent.clear();
    for (number, epoch) in [(1, 0), (2, 1)] {
        net.deliver(A, at(C), reads_and_writes(number, epoch));
    }
    let answers = net.sent.iter().filter_map(|body| match body {
        Body::Executed(tid, _, executed) => Some((tid.number, executed)),
        _ => None,
    });
    let answers: Vec<_> = answers.collect();
    assert!(matches!(
        answers.as_slice(),
        [(1, Executed::Conflict(ShardId(1))), (2, Executed::Committed(..))]
    ));
}

/// The home answers with the dependencies of the version that an update has overwritten. If the
/// answer is lost with the home, and the write is not, the session cannot learn these dependencies.
#[test]
fn an_update_that_outlives_its_home_leaves_its_session_without_a_past() {
    let mut net = new_net();
    let update = net.execute(C, &empty(), &key(0), set(7));
    net.run(
        10,
        only(|from, to, body| {
            (from, to) != (A, C) || !matches!(body, Body::Executed(..) | Body::Batch(_))
        }),
    );
    net.shift(0, (A, B), true);
    net.run(1_000, cut(A));
    assert_eq!(net.local(B, &key(0)), bulk(7), "the write has survived");
    assert_eq!(net.replies.get(&update), Some(&Response::Unknown(Unknown::Lost)));
}

/// Each start of a process draws its incarnation at random. A site that was removed and joins again
/// may draw a smaller one. Homes once took its messages for those of the former process.
#[test]
fn a_site_that_joins_again_with_a_smaller_incarnation_is_served() {
    let mut net = new_net();
    let update = net.execute(C, &empty(), &key(0), set(7));
    net.run(100, pass);
    assert!(matches!(net.replies[&update], Response::Committed { .. }));
    remove_c(&mut net);
    net.set_members(net.members.changed(SiteId(A), SiteId(C), Change::Add).unwrap());
    let generation = net.members.generation(SiteId(C));
    assert_eq!(generation, 1);
    let config = Config { generation, incarnation: 8_000, ..config(C) };
    net.queue.clear();
    net.workers[usize::from(C)] = Occult::new(config, &net.members);
    net.run(1_000, pass);
    let update = net.execute(C, &empty(), &key(0), set(7));
    net.run(1_000, pass);
    let reply = net.replies.get(&update);
    assert!(matches!(reply, Some(Response::Committed { .. })), "{reply:?}");
}

fn tid(number: u64) -> TransactionId {
    TransactionId { client: ClientId { address: at(C), incarnation: 1 }, number }
}

/// A client at C prepares a write of shard 0 at A.
fn prepare(number: u64, decision_home: u8) -> Body {
    Body::Prepare(Prepare {
        tid: tid(number),
        above: Stamp::ZERO,
        writes: vec![(nth_key(0, number as usize), Effect::default())],
        decision_home: at(decision_home),
        decision_shard: ShardId(u16::from(decision_home)),
        epoch: 0,
        oldest: number,
    })
}

/// A home rejects a commit whose stamp no correct clock can have produced. Its ceiling once rose
/// above the greatest stamp, and its journal could not be read any more.
#[test]
fn a_home_does_not_follow_a_commit_stamp_that_no_clock_has_reached() {
    let config = Config { journal: true, ..config(A) };
    let members = Members::new(3);
    let mut home = Occult::new(config.clone(), &members);
    let commit =
        |stamp| Box::new(Commit { timestamp: empty(), stamps: vec![(SiteId(A), Stamp(stamp))] });
    let decided = |stamp| Body::Decided(tid(1), Decision::Commit(commit(stamp)));
    let bodies = [
        (at(C), prepare(1, B)),
        (at(B), decided(STAMP_END - 1)),
        (at(C), prepare(2, A)),
        (at(C), Body::Commit(tid(2), commit(STAMP_END - 1), vec![at(A), at(B)])),
    ];
    let now = Now { monotonic: Monotonic(1_000_000_000), physical: Physical(1_000_000) };
    let (mut recovery, mut sent) = (Recovery::new(config, &members), Vec::new());
    for (from, body) in bodies {
        let message = Message { epoch: 0, body };
        home.handle(now, Input::Message { from, generation: 0, message });
        while let Some(output) = home.poll_output() {
            match output {
                Output::Records(records) => {
                    for record in records.iter() {
                        recovery.take_record(record).unwrap();
                    }
                }
                Output::Send { message, .. } => sent.push(message.body),
                _ => {}
            }
        }
    }
    assert!(home.clock() < Stamp(STAMP_END / 2));
    assert_eq!(home.unfinished().0, 1, "the first stays prepared: {sent:?}");
    assert!(sent.contains(&Body::Outcome(tid(2), false)), "{sent:?}");
}

#[test]
fn a_new_home_does_not_follow_a_stamp_that_no_clock_has_reached() {
    let mut net = new_net();
    let is_handover = |body: &Body| matches!(body, Body::Handover(_));
    net.shift(0, (A, B), false);
    net.run(500, only(|_, _, body| !is_handover(body)));
    let sent = net.sent.iter().rev().find_map(|body| match body {
        Body::Handover(handover) => Some(handover.clone()),
        _ => None,
    });
    let handover = Handover { last: Stamp(STAMP_END - 1), ..sent.expect("B has requested it") };
    net.deliver(B, at(A), Message { epoch: 1, body: Body::Handover(handover) });
    let home = &net.workers[usize::from(B)];
    assert!(home.arriving() == 1 && home.clock() < Stamp(STAMP_END / 2), "{:?}", home.clock());
    net.run(1_000, pass);
    assert_eq!(net.workers[usize::from(B)].arriving(), 0, "the right one arrives");
}

/// A decision home once waited for ever for a participant that had been removed. It kept the
/// record, and repeated the decision.
#[test]
fn a_home_waits_for_no_confirmation_of_a_removed_site() {
    let mut net = new_net();
    let (past, on_stale) = (empty(), OnStale::Home);
    let begun = net.ask(B, Command::Begin { past, on_stale });
    let Response::Begun(transaction) = net.replies[&begun] else { panic!("it has begun") };
    for key in [key(0), key(2)] {
        let op = set(7);
        net.ask(B, Command::Operate { transaction, key, op, validates: false });
    }
    let commit = net.ask(B, Command::Commit { transaction });
    net.run(50, only(|_, _, body| !matches!(body, Body::Decided(..))));
    assert!(matches!(net.replies[&commit], Response::Committed { .. }));
    assert_eq!(net.workers[usize::from(A)].unfinished().1, 1);
    remove_c(&mut net);
    assert_eq!(net.workers[usize::from(A)].unfinished().1, 0);
    net.sent.clear();
    net.run(1_000, cut(C));
    assert!(!net.sent.iter().any(|body| matches!(body, Body::Decided(..))));
}

/// A transaction over two homes is decided at the client's site, whichever site that is.
#[test]
fn a_participant_of_the_clients_site_decides() {
    for site in [A, C] {
        let mut net = new_net();
        net.sent.clear();
        net.write_both(site, [key(0), key(2)], 1);
        net.run(200, pass);
        assert!(!net.sent.iter().any(|body| matches!(body, Body::Commit(..))));
        assert!(net.sent.iter().any(|body| matches!(body, Body::Decided(..))));
        assert_eq!([key(0), key(2)].map(|key| net.local(B, &key)), [bulk(1), bulk(1)]);
    }
}
