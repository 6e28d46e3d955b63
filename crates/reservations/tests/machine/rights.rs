//! The right to answer, grants, floors, closing.

use std::time::Duration;

use solera_machine::{GuardQuestion, PromiseId};
use solera_reservations::{
    Body, Cannot, Change, Command, Entry, Epoch, Expiry, Holder, Need, Position, Question,
    Response, Rule, Term, Tokens, Version,
};
use solera_time::SiteId;

use crate::host::*;

/// Has site 1 sponsor site 2 after it has seen position 10 of site 0, and then see position 20.
fn sponsor(without: Option<Rule>) -> Host {
    let mut host = Host::new(1, without);
    host.change(Change::Exclude { site: site(2), term: Term(1) });
    host.stream(0, (0, 10), vec![(10, Entry::Update(50))]);
    host.message(2, Body::OfferRequest);
    let offers = host.sent.iter().filter(|(_, body)| matches!(body, Body::Offer { .. }));
    assert_eq!(offers.count(), 1);
    host.stream(0, (10, 20), vec![(20, Entry::Update(1))]);
    host
}

fn admit(host: &mut Host) {
    let since = vec![Position(10), Position(0), Position(0)];
    let (site, sponsor) = (site(2), site(1));
    host.change(Change::Admit { site, term: Term(2), since, sponsor, nonce: foreign() });
}

#[test]
fn a_sponsor_reports_no_more_than_it_has_offered_until_its_next_renewal() {
    for (without, reported) in [(None, 10), (Some(Rule::PinReports), 20)] {
        let mut host = sponsor(without);
        assert_eq!(host.reported_to(0), reported, "{without:?}");
    }
    let mut host = sponsor(None);
    host.wait(Duration::from_secs(2));
    host.commit_asked(is_renewal);
    assert_eq!(host.reported_to(0), 20);
}

#[test]
fn an_offer_outlives_a_restart() {
    for (without, reported) in [(None, 10), (Some(Rule::DurablePins), 20)] {
        let mut host = sponsor(without);
        host.restart();
        assert_eq!(host.reported_to(0), reported, "{without:?}");
    }
}

#[test]
fn a_sponsor_reports_no_more_to_a_holder_that_has_not_confirmed_the_admission() {
    for (without, reported) in [(None, 10), (Some(Rule::CapReports), 20)] {
        let mut host = sponsor(without);
        admit(&mut host);
        host.wait(Duration::from_secs(2));
        host.commit_asked(is_renewal);
        assert_eq!(host.reported_to(0), reported, "{without:?}");
        host.report_of(0, host.version, [20, 0, 0]);
        assert_eq!(host.reported_to(0), 20);
    }
}

#[test]
fn this_lasts_even_if_the_admitted_site_is_excluded_again() {
    for (without, reported) in [(None, 10), (Some(Rule::CapUntilConfirmed), 20)] {
        let mut host = sponsor(without);
        admit(&mut host);
        host.wait(Duration::from_secs(2));
        host.commit_asked(is_renewal);
        host.change(Change::Exclude { site: site(2), term: Term(2) });
        assert_eq!(host.reported_to(0), reported, "{without:?}");
    }
}

#[test]
fn a_stop_outlives_a_restart_although_its_end_is_not_in_the_stream_yet() {
    for (without, serves) in [(None, false), (Some(Rule::DurableStops), true)] {
        let mut host = Host::new(0, without);
        host.grant((4, 0));
        host.wait(Duration::from_millis(10));
        host.wait(Duration::from_secs(2));
        let ends = host.asked.iter().filter(|(_, it)| matches!(it, Question::End { .. }));
        assert_eq!(ends.count(), 1);
        host.restart();
        host.report_of(1, host.version, [0; SITES]);
        host.report_of(2, host.version, [0; SITES]);
        assert_eq!(host.take(1).is_some(), serves, "{without:?}");
    }
}

#[test]
fn a_copy_outlives_a_restart() {
    for (without, recycled) in [(None, false), (Some(Rule::DurableCopies), true)] {
        let mut host = Host::new(0, without);
        host.change(Change::Exclude { site: site(2), term: Term(1) });
        host.grant((1, 0));
        admit(&mut host);
        let take = host.take(1).expect("there is a token");
        assert!(host.is_promised(take));
        host.stream(0, (0, 10), vec![(10, Entry::Update(1))]);
        let (id, committed) = (PromiseId { coordinator: 0, sequence: 1 }, true);
        host.command(Command::Guard(GuardQuestion::End { id, committed }));
        // The admitted site has not seen the update.
        let version = host.version;
        host.report_of(1, version, [10, 0, 0]);
        host.report_of(2, version, [0, 0, 0]);
        host.restart();
        // The host has the last version later than the machine needs it.
        host.give_versions_again(Version(2));
        host.report_of(1, version, [10, 0, 0]);
        host.report_of(2, version, [0, 0, 0]);
        assert_eq!(host.take(1).is_some(), recycled, "{without:?}");
    }
}

#[test]
fn a_decrement_needs_the_lease_at_its_promise() {
    let (mut host, take) = decrementer(None);
    assert!(host.is_promised(take));
    for (without, promised) in [(None, false), (Some(Rule::LeaseAtCommit), true)] {
        let (mut host, _) = decrementer(without);
        // The site's right has ended, and the new token lasts.
        host.now = host.now.after(Duration::from_secs(5));
        let take = host.take(-1).expect("there are tokens");
        assert_eq!(host.is_promised(take), promised, "{without:?}");
    }
}

#[test]
fn a_decrement_needs_the_right_under_which_it_was_taken() {
    for (without, promised) in [(None, false), (Some(Rule::TermAtCommit), true)] {
        let (mut host, take) = decrementer(without);
        host.change(Change::Exclude { site: site(0), term: Term(1) });
        let (seen, renewals) = (vec![Position(0); SITES], 0);
        host.message(1, Body::Offer { term: Term(1), renewals, seen });
        host.commit_asked(|change| matches!(change, Change::Admit { .. }));
        assert_eq!(host.is_promised(take), promised, "{without:?}");
    }
}

#[test]
fn a_floor_rises_when_holders_of_decrements_have_confirmed_it() {
    let is_raise = |change: &Change| matches!(change, Change::Raise { .. });
    for (without, early) in [(None, false), (Some(Rule::RaiseAfterHolders), true)] {
        let (mut host, _) = decrementer(without);
        let tokens = Tokens { increments: 0, decrements: 2 };
        host.change(Change::Grant { key: KEY.to_vec(), site: site(1), epoch: Epoch(1), tokens });
        let proposed = host.change(Change::Propose { key: KEY.to_vec(), floor: 80 });
        host.report_of(2, Version(0), [0, 10, 0]);
        host.wait(host.config.timing.retry);
        assert_eq!(host.asks_for(is_raise), early, "{without:?}");
        host.report_of(1, proposed, [0, 10, 0]);
        host.wait(host.config.timing.retry);
        assert!(host.asks_for(is_raise), "{without:?}");
    }
}

#[test]
fn a_floor_rises_when_enough_sites_store_the_updates_on_which_it_depends() {
    let is_raise = |change: &Change| matches!(change, Change::Raise { .. });
    for (without, early) in [(None, false), (Some(Rule::RaiseStored), true)] {
        let (mut host, _) = decrementer(without);
        host.stream(1, (10, 20), vec![(20, Entry::Update(50))]);
        host.change(Change::Propose { key: KEY.to_vec(), floor: 120 });
        host.wait(host.config.timing.retry);
        assert_eq!(host.asks_for(is_raise), early, "{without:?}");
        host.report_of(2, Version(0), [0, 20, 0]);
        host.wait(host.config.timing.retry);
        assert!(host.asks_for(is_raise), "{without:?}");
    }
}

/// The size that a site reads may contain its own updates that no other site stores.
#[test]
fn a_floor_of_a_size_does_not_depend_on_updates_that_the_stream_lacks() {
    let is_raise = |change: &Change| matches!(change, Change::Raise { .. });
    for (without, early) in [(None, false), (Some(Rule::StoredSizes), true)] {
        let mut host = Host::of_set(without);
        host.stream(1, (0, 10), vec![(10, Entry::Resized(Tokens::of(100), 100))]);
        host.wait(Duration::from_millis(10));
        host.commit_asked(is_renewal);
        host.grant((20, 4));
        let spent = host.machine.spend(host.reading(), KEY, Tokens::of(20));
        host.machine.note_commit(spent.expect("there are tokens"), Position(15));
        host.stream(1, (10, 20), vec![(20, Entry::Resized(Tokens::of(1), 121))]);
        host.change(Change::Propose { key: KEY.to_vec(), floor: 110 });
        host.report_of(2, Version(0), [0, 20, 0]);
        host.wait(host.config.timing.retry);
        assert_eq!(host.asks_for(is_raise), early, "{without:?}");
        host.stream(0, (0, 15), vec![(15, Entry::Resized(Tokens::of(20), 121))]);
        host.report_of(2, Version(0), [15, 20, 0]);
        host.wait(host.config.timing.retry);
        assert!(host.asks_for(is_raise), "{without:?}");
    }
}

#[test]
fn a_site_is_removed_when_it_has_no_right() {
    let is_removal = |change: &Change| matches!(change, Change::Remove { .. });
    for (without, early) in [(None, false), (Some(Rule::RemoveAfterExclusion), true)] {
        let mut host = Host::new(0, without);
        let (site, upto) = (site(2), Position(10));
        host.set_leaving(site);
        host.command(Command::Remove { partition: PARTITION, site, upto });
        host.wait(Duration::from_millis(100));
        assert_eq!(host.asks_for(is_removal), early, "{without:?}");
        host.change(Change::Exclude { site, term: Term(1) });
        host.wait(Duration::from_millis(100));
        assert!(host.asks_for(is_removal), "{without:?}");
    }
}

#[test]
fn tokens_of_a_removed_site_count_until_the_rest_of_its_stream_is_there() {
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    let answer = |greatest| Some(Response::Interval { least: 100, greatest });
    for (without, greatest) in [(None, 104), (Some(Rule::CountUntilCut), 100)] {
        let (mut host, _) = decrementer(without);
        let (key, epoch) = (KEY.to_vec(), Epoch(1));
        let tokens = Tokens { increments: 4, decrements: 0 };
        host.change(Change::Grant { key, site: site(2), epoch, tokens });
        host.change(Change::Exclude { site: site(2), term: Term(1) });
        assert_eq!(host.command(read()), answer(104));
        host.change(Change::Remove { site: site(2), generation: 0, upto: Position(10) });
        assert_eq!(host.command(read()), answer(greatest), "{without:?}");
        host.stream(2, (0, 10), Vec::new());
        assert_eq!(host.command(read()), answer(100));
        // What does not remain has no effect.
        host.stream(2, (10, 20), vec![(20, Entry::Update(1))]);
        assert_eq!(host.command(read()), answer(100));
    }
}

#[test]
fn a_partition_is_closed_when_all_leases_have_ended() {
    let is_close = |change: &Change| matches!(change, Change::Close { .. });
    for (without, early) in [(None, false), (Some(Rule::CloseAfterLeases), true)] {
        let mut host = Host::new(0, without);
        host.change(Change::Exclude { site: site(0), term: Term(1) });
        host.change(Change::Exclude { site: site(1), term: Term(1) });
        let (site, upto) = (site(2), Position(10));
        host.set_leaving(site);
        host.command(Command::Remove { partition: PARTITION, site, upto });
        host.wait(Duration::from_millis(100));
        assert_eq!(host.asks_for(is_close), early, "{without:?}");
        host.wait(Duration::from_secs(5));
        // A renewal has just been seen.
        host.change(Change::Renew { site, term: Term(1), nonce: foreign() });
        host.wait(Duration::from_secs(5));
        assert_eq!(host.asks_for(is_close), early, "{without:?}");
        host.wait(Duration::from_secs(2));
        assert!(host.asks_for(is_close), "{without:?}");
    }
}

#[test]
fn a_site_without_the_right_names_those_who_have_it() {
    let mut host = Host::new(0, None);
    host.change(Change::Exclude { site: site(0), term: Term(1) });
    let read = Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    let readers = vec![site(1), site(2)];
    assert_eq!(host.command(read), Some(Response::Cannot(Cannot::NotReader { readers })));
}

#[test]
fn the_largest_numbers_are_handled() {
    let (mut host, _) = decrementer(None);
    for amount in [i64::MAX, i64::MIN] {
        assert_eq!(host.take(amount), None);
        host.stream(2, (0, 30), vec![(10, Entry::Update(amount)), (20, Entry::Update(amount))]);
        host.wait(Duration::from_millis(100));
        let far = Tokens { increments: u64::MAX, decrements: u64::MAX };
        for holder in [1, 2] {
            let epoch = Epoch(u64::MAX - 1);
            let key = KEY.to_vec();
            host.change(Change::Grant { key, site: site(holder), epoch, tokens: far });
        }
        host.change(Change::Propose { key: KEY.to_vec(), floor: amount });
        host.change(Change::Raise { key: KEY.to_vec() });
        let read = Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
        let answer = host.command(read);
        assert!(matches!(answer, Some(Response::Cannot(Cannot::TooWide { .. }))), "{answer:?}");
        host.wait(Duration::from_millis(100));
    }
    host.change(Change::Lower { key: KEY.to_vec(), floor: Some(i64::MIN) });
    host.wait(Duration::from_secs(100));
}

#[test]
fn a_value_beyond_64_bits_has_no_interval() {
    let mut host = Host::new(0, None);
    host.wait(Duration::from_millis(10));
    host.commit_asked(is_renewal);
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    let mut position = 0;
    for (amount, value) in [
        (i64::MAX, Some(i64::MAX)),
        (i64::MAX, None),
        (i64::MIN, Some(i64::MAX - 1)),
        (i64::MIN, Some(-2)),
        (i64::MIN, None),
    ] {
        host.stream(2, (position, position + 10), vec![(position + 10, Entry::Update(amount))]);
        position += 10;
        let expected = match value {
            Some(value) => Response::Interval { least: value, greatest: value },
            None => Response::Cannot(Cannot::OutOfRange),
        };
        assert_eq!(host.command(read()), Some(expected));
    }
}

#[test]
fn what_does_not_fit_the_cluster_has_no_effect() {
    let mut host = Host::new(0, None);
    let far = site(200);
    host.change(Change::Renew { site: far, term: Term(1), nonce: foreign() });
    host.change(Change::Exclude { site: far, term: Term(1) });
    let (since, sponsor) = (vec![Position(0)], site(1));
    host.change(Change::Admit { site: far, term: Term(1), since, sponsor, nonce: foreign() });
    host.stream(200, (0, 10), vec![(10, Entry::Update(1))]);
    host.wait(Duration::from_secs(1));
    assert_eq!(host.machine.known(PARTITION), Some(&[Position(0); SITES][..]));
}

/// Two seeds of the world stopped like this: a site with a single token served its clients one
/// after the other, and nobody learned that it needs more, because the token was enough for each.
#[test]
fn a_site_with_less_than_its_share_asks_others_for_room() {
    let mut host = Host::new(0, None);
    host.stream(1, (0, 10), vec![(10, Entry::Update(120))]);
    host.change(Change::Propose { key: KEY.to_vec(), floor: 100 });
    host.change(Change::Raise { key: KEY.to_vec() });
    let tokens = Tokens { increments: 12, decrements: 12 };
    host.change(Change::Grant { key: KEY.to_vec(), site: site(1), epoch: Epoch(1), tokens });
    host.grant((1, 0));
    assert!(host.take(1).is_some());
    host.sent.clear();
    assert!(host.take(1).is_none(), "its token is in use");
    let asks = |(to, body): &(SiteId, Body)| {
        *to == site(1) && matches!(body, Body::Ask { need: Need::Room, .. })
    };
    assert!(host.sent.iter().any(asks), "{:?}", host.sent);
}

/// The sites with the right to answer.
const READERS: [u8; 3] = [0, 1, 2];

fn expiry(lease: u64, unused: Option<u64>) -> Expiry {
    let unused = unused.map(Duration::from_millis);
    Expiry { lease: Some(Duration::from_millis(lease)), unused }
}

/// Returns the expiry of each site in the last reply.
fn expiries(host: &Host) -> Vec<Expiry> {
    let Some(Response::Holders(holders)) = host.replies.last() else {
        panic!("{:?}", host.replies)
    };
    let of_tokens = |holder: &Holder| match holder {
        Holder::Tokens { expiry, .. } => *expiry,
        Holder::Rights { .. } => panic!("{holder:?}"),
    };
    holders.iter().map(of_tokens).collect()
}

#[test]
fn holders_are_asked_when_they_give_up_their_tokens() {
    let mut host = Host::new(1, None);
    host.grant((5, 5));
    host.sent.clear();
    host.replies.clear();
    host.command(Command::Holders { key: KEY.to_vec(), within: WITHIN });
    let asked: Vec<(SiteId, Body)> = host.sent.iter().filter(is_expiry_request).cloned().collect();
    assert_eq!(asked.len(), READERS.len() - 1);
    assert!(host.replies.is_empty());
    for (to, request) in asked {
        let Body::ExpiryRequest { key, nonce } = request else { panic!("{request:?}") };
        let expiry = expiry(900, (to == site(0)).then_some(400));
        // An answer to an earlier request is of no use.
        let earlier =
            Body::Expiry { key: key.clone(), nonce: foreign(), expiry: Expiry::default() };
        host.message(to.index() as u8, earlier);
        host.wait(Duration::from_millis(100));
        host.message(to.index() as u8, Body::Expiry { key, nonce, expiry });
    }
    let found = expiries(&host);
    assert_eq!(found[0], expiry(800, Some(300)), "100 ms have passed since its answer");
    assert_eq!(found[2], expiry(900, None));
    assert!(found[1].unused.is_some(), "{found:?}");
}

#[test]
fn a_holder_that_does_not_answer_is_reported_without_expiry() {
    let mut host = Host::new(1, None);
    host.command(Command::Holders { key: KEY.to_vec(), within: Duration::from_millis(500) });
    host.sent.clear();
    host.wait(Duration::from_millis(400));
    assert!(host.sent.iter().filter(is_expiry_request).count() >= 2, "it asks again");
    assert!(host.replies.is_empty());
    host.wait(Duration::from_millis(200));
    let found = expiries(&host);
    assert_eq!([found[0], found[2]], [Expiry::default(); 2]);
    host.sent.clear();
    host.wait(Duration::from_secs(1));
    assert_eq!(host.sent.iter().filter(is_expiry_request).count(), 0);
}

#[test]
fn a_site_answers_when_it_gives_up_its_tokens() {
    let mut host = Host::new(1, None);
    host.wait(Duration::from_secs(2));
    host.commit_asked(is_renewal);
    host.grant((5, 5));
    host.wait(Duration::from_millis(100));
    host.sent.clear();
    host.message(0, Body::ExpiryRequest { key: KEY.to_vec(), nonce: foreign() });
    let answer = host.sent.iter().find_map(|(to, body)| match body {
        Body::Expiry { nonce, expiry, .. } => Some((*to, *nonce, *expiry)),
        _ => None,
    });
    let (to, nonce, expiry) = answer.unwrap();
    assert_eq!((to, nonce), (site(0), foreign()));
    assert!(expiry.lease.is_some() && expiry.unused.is_some(), "{expiry:?}");
}

fn is_expiry_request((_, body): &&(SiteId, Body)) -> bool {
    matches!(body, Body::ExpiryRequest { .. })
}
