//! Sites that leave, join and return.

use std::time::Duration;

use solera_membership::{Change as MemberChange, Gap, Members, Participant};
use solera_reservations::{
    Body, Cannot, Change, Command, Entry, Epoch, Need, Position, Response, Rule, Term, Tokens,
    Version,
};
use solera_time::{SiteId, Timestamp};

use crate::host::*;

#[test]
fn a_site_that_leaves_is_removed_as_a_holder() {
    let is_removal = |change: &Change| matches!(change, Change::Remove { .. });
    let mut host = Host::new(0, None);
    assert!(host.machine.has_completed_removals());
    let (partition, site, upto) = (PARTITION, site(2), Position(10));
    host.change(Change::Exclude { site, term: Term(1) });
    // The list does not say that it leaves.
    host.command(Command::Remove { partition, site, upto });
    host.wait(Duration::from_millis(100));
    assert!(!host.asks_for(is_removal));
    host.set_leaving(site);
    assert!(!host.machine.has_completed_removals());
    host.command(Command::Remove { partition, site, upto });
    host.wait(Duration::from_millis(100));
    host.commit_asked(is_removal);
    assert!(host.machine.has_completed_removals());
    // Its reports count no more.
    host.grant((1, 0));
    host.sent.clear();
    host.message(2, Body::Ask { key: KEY.to_vec(), need: Need::Reports });
    assert!(host.sent.is_empty());
}

/// Returns the list of members after a site was removed, and has joined again in generation 1.
fn returned(back: SiteId, is_member: bool) -> Members {
    let gap = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };
    let by = if back == site(0) { site(1) } else { site(0) };
    let members = Members::new(SITES).changed(by, back, MemberChange::Remove).unwrap();
    let members = members.closed(back, gap).changed(by, back, MemberChange::Add).unwrap();
    if is_member { members.joined(back, Timestamp::ZERO) } else { members }
}

/// Returns a host with 2000 counters, and one of a later generation of site 1 without data.
fn with_and_without_data() -> (Host, Host) {
    let mut source = Host::new(0, None);
    source.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
    for number in 0..2_000u32 {
        let key = number.to_be_bytes().to_vec();
        source.change(Change::Propose { key, floor: number.into() });
    }
    // Nobody gets a state before its former generation is removed.
    let mut joiner = Host::in_generation(1, 1, None);
    for host in [&mut source, &mut joiner] {
        host.machine.set_members(host.reading(), &returned(site(1), false));
    }
    joiner.wait(Duration::from_millis(20));
    exchange([&mut source, &mut joiner]);
    assert!(!joiner.machine.has_state(PARTITION));
    source.change(Change::Exclude { site: site(1), term: Term(1) });
    source.change(Change::Remove { site: site(1), generation: 0, upto: Position(10) });
    source.sent.clear();
    let mut joiner = Host::in_generation(1, 1, None);
    joiner.machine.set_members(joiner.reading(), &returned(site(1), false));
    (source, joiner)
}

#[test]
fn a_site_without_data_gets_the_state_of_another() {
    let (mut source, mut joiner) = with_and_without_data();
    assert!(!joiner.machine.is_filled());
    let read = Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    assert_eq!(joiner.command(read), Some(Response::Cannot(Cannot::Behind)));
    // It takes nothing before it has the state.
    joiner.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
    assert_eq!(joiner.machine.known(PARTITION), Some(&[Position(0); SITES][..]));
    joiner.wait(Duration::from_millis(20));
    exchange([&mut source, &mut joiner]);
    for restarts in [false, true] {
        if restarts {
            joiner.restart();
        }
        assert!(joiner.machine.is_filled() && joiner.machine.has_state(PARTITION));
        assert_eq!(joiner.machine.known(PARTITION), source.machine.known(PARTITION));
        assert!(joiner.machine.agreed(PARTITION) == source.machine.agreed(PARTITION));
    }
}

#[test]
fn a_state_that_ends_before_what_the_site_has_is_not_installed() {
    let (mut source, mut joiner) = with_and_without_data();
    joiner.wait(Duration::from_millis(20));
    exchange([&mut source, &mut joiner]);
    joiner.stream(2, (0, 10), vec![(10, Entry::Update(7))]);
    let known = [Position(0), Position(10), Position(10)];
    joiner.command(Command::Lacks { partition: PARTITION });
    assert!(!joiner.machine.is_filled());
    joiner.restart();
    joiner.machine.set_members(joiner.reading(), &returned(site(1), true));
    assert!(!joiner.machine.has_state(PARTITION), "this outlives a restart");
    let try_to_fill = |source: &mut Host, joiner: &mut Host| {
        source.machine.set_members(source.reading(), &returned(site(1), true));
        // The other member does not answer.
        for _ in 0..3 {
            joiner.wait(joiner.config.timing.exclusion);
            exchange([source, joiner]);
        }
        joiner.machine.has_state(PARTITION)
    };
    assert!(!try_to_fill(&mut source, &mut joiner));
    source.stream(2, (0, 10), vec![(10, Entry::Update(7))]);
    assert!(try_to_fill(&mut source, &mut joiner));
    assert_eq!(joiner.machine.known(PARTITION), Some(&known[..]));
}

/// Has site 2 be removed, and a later generation of it return and get the right.
fn return_of_site_2(host: &mut Host) {
    let site = site(2);
    host.change(Change::Exclude { site, term: Term(1) });
    host.change(Change::Remove { site, generation: 0, upto: Position(10) });
    // A late change of the removed generation.
    let tokens = Tokens { increments: 2, decrements: 0 };
    host.change(Change::Grant { key: KEY.to_vec(), site, epoch: Epoch(5), tokens });
    host.change(Change::Return { site, generation: 0 });
    assert!(host.machine.agreed(PARTITION).unwrap().remains(site).is_some(), "it was removed");
    host.change(Change::Return { site, generation: 1 });
    assert!(host.machine.agreed(PARTITION).unwrap().remains(site).is_none());
    let (since, sponsor) = (vec![Position(0); SITES], self::site(1));
    host.change(Change::Admit { site, term: Term(2), since, sponsor, nonce: foreign() });
}

#[test]
fn reports_of_a_removed_site_do_not_count_for_its_next_generation() {
    for (without, recycled) in [(None, false), (Some(Rule::ForgetReports), true)] {
        let mut host = Host::new(0, without);
        host.grant((1, 0));
        let spent =
            host.machine.spend(host.reading(), KEY, Tokens::of(1)).expect("there is a token");
        host.machine.note_commit(spent, Position(10));
        host.stream(0, (0, 10), vec![(10, Entry::Update(1))]);
        host.report_of(2, Version(100), [10, 0, 0]);
        return_of_site_2(&mut host);
        host.report_of(1, host.version, [10, 0, 0]);
        // The new generation of site 2 may lack the update.
        assert_eq!(host.take(1).is_some(), recycled, "{without:?}");
    }
}

#[test]
fn grants_of_a_removed_generation_count_until_the_rest_of_its_stream_is_there() {
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    let answer = |greatest| Some(Response::Interval { least: 100, greatest });
    let (mut host, _) = decrementer(None);
    return_of_site_2(&mut host);
    assert_eq!(host.command(read()), answer(102));
    host.stream(2, (0, 10), Vec::new());
    assert_eq!(host.command(read()), answer(100));
    // The tokens of the new generation count as usual.
    let tokens = Tokens { increments: 3, decrements: 0 };
    host.change(Change::Grant { key: KEY.to_vec(), site: site(2), epoch: Epoch(6), tokens });
    assert_eq!(host.command(read()), answer(103));
}
