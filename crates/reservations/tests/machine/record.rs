//! The record, prefixes of streams, the timer, idle partitions.

use std::time::Duration;

use solera_reservations::{
    Change, Command, Entry, Epoch, Position, Question, Response, Term, Tokens, Version,
};
use solera_time::SiteId;

use crate::host::*;

#[test]
fn a_change_has_no_effect_if_what_it_depends_on_was_changed() {
    let grant = |holder: u8| {
        let tokens = Tokens { increments: 4, decrements: 0 };
        Change::Grant { key: KEY.to_vec(), site: site(holder), epoch: Epoch(1), tokens }
    };
    let mut host = Host::new(0, None);
    let other = |key: &[u8]| Change::Propose { key: key.to_vec(), floor: 8 };
    for restarts in [false, true] {
        let read = host.change(other(b"another"));
        host.change_from(read, grant(1));
        if restarts {
            host.restart();
        }
        // It would exceed what both have seen to be free.
        let version = host.change_from(read, grant(2));
        let agreed = host.machine.agreed(PARTITION).unwrap();
        assert_eq!(agreed.version, version);
        let holders: Vec<SiteId> = agreed.keys[KEY].grants.iter().map(|it| it.site).collect();
        assert_eq!(holders, [site(1)]);
        let (key, epoch) = (KEY.to_vec(), Epoch(1));
        host.change(Change::Reclaim { key, site: site(1), epoch });
    }
    // A renewal refuses an exclusion, and changes nothing for a grant.
    let read = host.version;
    host.change_from(read, Change::Renew { site: site(2), term: Term(1), nonce: foreign() });
    host.change_from(read, Change::Exclude { site: site(2), term: Term(1) });
    host.change_from(read, grant(0));
    let agreed = host.machine.agreed(PARTITION).unwrap();
    assert!(agreed.reader(site(2)).is_some());
    assert_eq!(agreed.keys[KEY].grants.len(), 1);
}

#[test]
fn a_renewal_without_effect_begins_no_lease() {
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    for excluded in [false, true] {
        let mut host = Host::new(0, None);
        host.wait(Duration::from_millis(10));
        if excluded {
            host.change(Change::Exclude { site: site(2), term: Term(1) });
        }
        host.commit_asked(is_renewal);
        let answered = matches!(host.command(read()), Some(Response::Interval { .. }));
        assert_eq!(answered, !excluded);
    }
}

#[test]
fn a_prefix_without_entries_is_not_recorded() {
    let mut host = Host::new(0, None);
    host.stream(1, (0, 10), vec![(10, Entry::Update(50))]);
    let records = host.journal.len();
    for upto in 11..100 {
        host.stream(1, (10, upto), Vec::new());
    }
    assert_eq!(host.journal.len(), records);
    assert_eq!(host.machine.known(PARTITION).unwrap()[1], Position(99));
    // A restarted process has all entries, and is given the prefix again.
    host.restart();
    assert_eq!(host.machine.known(PARTITION).unwrap()[1], Position(10));
    host.stream(1, (10, 99), Vec::new());
    assert_eq!(host.machine.known(PARTITION).unwrap()[1], Position(99));
}

#[test]
fn the_timer_does_not_visit_keys_with_unused_tokens() {
    let mut host = Host::new(0, None);
    for number in 0..1_000u32 {
        let tokens = Tokens { increments: 4, decrements: 0 };
        let (key, epoch) = (number.to_be_bytes().to_vec(), Epoch(1));
        host.change(Change::Grant { key, site: site(0), epoch, tokens });
    }
    let tick = host.config.timing.tick;
    host.wait(tick);
    let visits = host.machine.visits();
    assert!(visits >= 1_000);
    for _ in 0..40 {
        host.stream(1, (0, host.now.0), Vec::new());
        host.report_of(1, host.version, [0; SITES]);
        host.wait(tick);
    }
    assert_eq!(host.machine.visits(), visits);
    // They are idle for a lease, and all epochs end.
    host.wait(Duration::from_secs(1));
    let ends = host.asked.iter().filter(|(_, it)| matches!(it, Question::End { .. }));
    assert_eq!(ends.count(), 1_000);
}

/// A partition that nobody uses costs nothing. It is active again with the first request.
#[test]
fn an_idle_partition_neither_renews_nor_reports() {
    let mut host = Host::new(0, None);
    host.wait(Duration::from_millis(1));
    assert!(host.asks_for(is_renewal));
    host.commit_asked(is_renewal);
    // The sites of the others keep it active, while they say that they use it.
    host.report_of(1, Version(0), [0; SITES]);
    host.wait(Duration::from_secs(30));
    host.wait(Duration::from_secs(3));
    host.asked.clear();
    host.sent.clear();
    for _ in 0..50 {
        host.wait(Duration::from_millis(500));
    }
    assert!(host.asked.is_empty() && host.sent.is_empty(), "{:?} {:?}", host.asked, host.sent);
    host.request();
    host.wait(Duration::from_millis(1));
    assert!(host.asks_for(is_renewal));
    // Readers that had no reason to renew are not excluded.
    let is_exclusion = |change: &Change| matches!(change, Change::Exclude { .. });
    assert!(!host.sent.is_empty() && !host.asks_for(is_exclusion));
}
