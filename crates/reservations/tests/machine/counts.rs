//! Counts for metrics. Every step of a host also compares what the site holds with a walk over all
//! keys.

use std::time::Duration;

use solera_reservations::{
    CHANGES, Change, Command, Entry, Epoch, Gift, Holdings, Owner, Placed, Position, REFUSALS,
    Response,
};
use solera_time::Vector;

use crate::host::{Host, KEY, PARTITION, SITES, decrementer, site};

/// Returns the count with this name.
fn of<const N: usize>(names: [&str; N], counts: [u64; N], name: &str) -> u64 {
    let place = names.iter().position(|it| *it == name).unwrap();
    counts[place]
}

#[test]
fn tokens_count_while_the_site_holds_them() {
    let (mut host, take) = decrementer(None);
    let held = Holdings { increments: 0, decrements: 4, rights: 0 };
    assert_eq!(host.machine.counts().held, held);
    assert!(host.is_promised(take));
    let counts = host.machine.counts();
    assert_eq!((counts.updates, counts.waits), (1, 0));
    assert_eq!(of(CHANGES, counts.changes, "grant"), 1);
    assert_eq!(of(CHANGES, counts.changes, "renew"), 1);
    host.restart();
    let counts = host.machine.counts();
    assert_eq!((counts.held, counts.updates, counts.changes), (held, 0, [0; CHANGES.len()]));
    host.change(Change::Reclaim { key: KEY.to_vec(), site: site(0), epoch: Epoch(1) });
    assert_eq!(host.machine.counts().held, Holdings::default());
}

#[test]
fn a_wait_counts_when_it_ends_and_a_refusal_by_its_reason() {
    let mut host = Host::new(0, None);
    assert_eq!(host.take(3), None);
    host.wait(Duration::from_millis(200));
    host.grant((8, 0));
    let counts = host.machine.counts();
    assert_eq!((counts.waits, counts.waited), (1, Duration::from_millis(200)));
    host.take(1).unwrap();
    assert_eq!(host.machine.counts().waits, 1, "it has the tokens at once");
    let within = Duration::from_millis(50);
    host.command(Command::Take { key: KEY.to_vec(), amount: 6, within });
    host.wait(within);
    let counts = host.machine.counts();
    assert_eq!(of(REFUSALS, counts.refused, "no_tokens"), 1);
    assert_eq!(counts.refused.iter().sum::<u64>(), 1);
    assert!(!host.is_promised(solera_reservations::TakeId(crate::host::foreign())));
    assert_eq!(of(REFUSALS, host.machine.counts().refused, "lapsed"), 1);
}

#[test]
fn rights_count_while_the_site_has_them() {
    let key = b"tickets".to_vec();
    let owner = |place| Owner { site: site(place), generation: 0 };
    let past = || Box::new(Vector::zero(SITES));
    let mut host = Host::new(0, None);
    let mut stream = |origin: u8, (after, upto): (u64, u64), entry: Entry| {
        let entries = vec![Placed { position: Position(upto), key: key.clone(), entry }];
        let (after, upto, origin) = (Position(after), Position(upto), site(origin));
        let command = Command::Stream { partition: PARTITION, origin, after, entries, upto };
        host.command(command);
        let counts = host.machine.counts();
        (counts.held.rights, counts.given, counts.received)
    };
    assert_eq!(stream(0, (0, 10), Entry::Created(7, past())), (7, 0, 0));
    assert_eq!(stream(0, (10, 20), Entry::Update(-2)), (5, 0, 0));
    assert_eq!(stream(1, (0, 10), Entry::Created(9, past())), (5, 0, 0));
    let gift = Gift { from: owner(0), to: owner(1), amount: 1 };
    assert_eq!(stream(0, (20, 30), Entry::Given(gift, past())), (4, 1, 0));
    let gift = Gift { from: owner(1), to: owner(0), amount: 3 };
    assert_eq!(stream(1, (10, 20), Entry::Given(gift, past())), (7, 1, 3));
    let elsewhere = Gift { from: owner(1), to: owner(2), amount: 3 };
    assert_eq!(stream(1, (20, 30), Entry::Given(elsewhere, past())), (7, 1, 3));
    let amount = -7;
    let taken = host.command(Command::Take { key: key.clone(), amount, within: Duration::ZERO });
    assert!(matches!(taken, Some(Response::Taken(_))), "{taken:?}");
}
