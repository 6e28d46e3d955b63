//! Updates of small counters, which wait for reports, confirmations and tokens of other sites, but
//! not for the timer.

use std::time::Duration;

use solera_reservations::{
    Body, Change, Command, Entry, Epoch, Need, Position, Question, Response, Tokens, Version,
};
use solera_time::SiteId;

use crate::host::{Host, KEY, PARTITION, SITES, is_renewal, site};

const MS: Duration = Duration::from_millis(1);

impl Host {
    /// Returns the site and what it is reported of the stream of site 0, for each report since the
    /// last call. Lets no time pass.
    fn reports_now(&mut self) -> Vec<(u8, u64)> {
        self.wait(Duration::ZERO);
        let reports = std::mem::take(&mut self.sent).into_iter().filter_map(|(to, body)| {
            let Body::Report { seen, .. } = body else { return None };
            Some((to.0, seen[0].0))
        });
        reports.collect()
    }

    /// Returns the sites that were asked for this since the last call. Lets no time pass.
    fn asked_now(&mut self, need: Need) -> Vec<u8> {
        self.wait(Duration::ZERO);
        let is_it = |body: &Body| matches!(body, Body::Ask { need: asked, .. } if *asked == need);
        std::mem::take(&mut self.sent)
            .into_iter()
            .filter_map(|(to, body)| is_it(&body).then_some(to.0))
            .collect()
    }

    fn ask_of(&mut self, from: u8, need: Need) {
        self.message(from, Body::Ask { key: KEY.to_vec(), need });
    }

    /// Uses a token for an update at this position.
    fn spend(&mut self, position: u64) -> bool {
        let spent = self.machine.spend(self.reading(), KEY, Tokens::of(1));
        let has = spent.is_some();
        spent.into_iter().for_each(|it| self.machine.note_commit(it, Position(position)));
        has
    }

    fn ends(&self) -> usize {
        let ends = self.asked.iter().filter(|(_, it)| matches!(it, Question::End { .. }));
        ends.count()
    }

    /// Returns the tokens that the site has asked for.
    fn requested(&self) -> Option<u64> {
        self.asked.iter().find_map(|(_, question)| match question {
            Question::Change { change: Change::Grant { tokens, .. }, .. } => {
                Some(tokens.increments)
            }
            _ => None,
        })
    }
}

/// A host of site 1 after its first tick, which reports to all.
fn reader() -> Host {
    let mut host = Host::new(1, None);
    host.wait(MS);
    host.wait(5 * MS);
    host.sent.clear();
    host
}

#[test]
fn a_reader_reports_to_a_site_that_waits_when_it_gets_its_update() {
    let mut host = reader();
    host.ask_of(0, Need::Reports);
    assert_eq!(host.reports_now(), [(0, 0)], "what it has at once");
    host.wait(5 * MS);
    host.stream(0, (0, 10), vec![(10, Entry::Update(1))]);
    assert_eq!(host.reports_now(), [(0, 10)]);
    // The update of another site does not free a token of the site that waits.
    host.wait(5 * MS);
    host.stream(2, (0, 10), vec![(10, Entry::Update(1))]);
    assert_eq!(host.reports_now(), []);
    // The site does not wait any more.
    let later = 2 * host.config.timing.retry;
    host.wait(later);
    host.sent.clear();
    host.stream(0, (10, 20), vec![(20, Entry::Update(1))]);
    assert_eq!(host.reports_now(), []);
}

#[test]
fn reports_to_a_site_that_waits_have_a_distance() {
    let mut host = reader();
    host.config.timing.spacing = 2 * MS;
    host.ask_of(0, Need::Reports);
    assert_eq!(host.reports_now(), [(0, 0)]);
    for place in 0..5 {
        let (after, upto) = (10 * place, 10 * (place + 1));
        host.stream(0, (after, upto), vec![(upto, Entry::Update(1))]);
        assert_eq!(host.reports_now(), []);
    }
    host.wait(2 * MS);
    assert_eq!(host.reports_now(), [(0, 50)]);
}

#[test]
fn all_who_want_room_learn_that_an_end_was_seen() {
    let mut host = reader();
    host.ask_of(2, Need::Room);
    assert_eq!(host.reports_now(), [(2, 0)]);
    host.wait(5 * MS);
    host.stream(0, (0, 10), vec![(10, Entry::Ended(Epoch(1)))]);
    assert_eq!(host.reports_now(), [(2, 10)]);
}

#[test]
fn a_reader_confirms_a_grant_to_its_holder_at_once() {
    let mut host = reader();
    let tokens = Tokens { increments: 2, decrements: 0 };
    host.change(Change::Grant { key: KEY.to_vec(), site: site(0), epoch: Epoch(1), tokens });
    assert_eq!(host.reports_now(), [(0, 0)]);
    host.wait(5 * MS);
    // A floor concerns all holders.
    host.change(Change::Propose { key: KEY.to_vec(), floor: 4 });
    assert_eq!(host.reports_now().len(), SITES - 1);
}

#[test]
fn a_holder_asks_for_reports_before_it_lacks_tokens() {
    let mut host = Host::new(0, None);
    host.stream(1, (0, 10), vec![(10, Entry::Update(120))]);
    host.grant((4, 0));
    host.wait(MS);
    host.sent.clear();
    assert!(host.spend(10) && host.spend(20));
    assert_eq!(host.asked_now(Need::Reports), [0; 0]);
    assert!(host.spend(30));
    assert_eq!(host.asked_now(Need::Reports), [1, 2]);
    assert!(host.spend(40));
    assert_eq!(host.asked_now(Need::Reports), [0; 0], "it has asked");
    // A report serves the update that waits.
    host.stream(0, (0, 40), (1..5).map(|at| (10 * at, Entry::Update(1))).collect());
    assert!(host.take(1).is_none());
    host.replies.clear();
    let version = host.version;
    host.report_of(1, version, [40, 0, 0]);
    assert!(host.replies.is_empty(), "site 2 may lack it");
    host.report_of(2, version, [10, 0, 0]);
    assert_eq!(host.replies.len(), 1);
}

#[test]
fn a_request_for_tokens_follows_the_answer_to_the_last_one_at_once() {
    let mut host = Host::new(0, None);
    host.stream(1, (0, 10), vec![(10, Entry::Update(120))]);
    host.wait(MS);
    assert!(host.take(1).is_none());
    let read = host.version;
    // Another change of the key comes first, so that the request has no effect.
    let tokens = Tokens { increments: 1, decrements: 0 };
    host.change(Change::Grant { key: KEY.to_vec(), site: site(1), epoch: Epoch(1), tokens });
    let is_grant = |change: &Change| matches!(change, Change::Grant { .. });
    assert!(host.machine.version(PARTITION) > Some(read));
    host.commit_asked(is_grant);
    host.wait(Duration::ZERO);
    assert!(host.asks_for(is_grant));
    // Its removal of ended grants comes later.
    host.commit_asked(is_grant);
    host.stream(0, (0, 10), vec![(10, Entry::Ended(Epoch(1)))]);
    let version = host.version;
    host.report_of(1, version, [10, 0, 0]);
    host.report_of(2, version, [10, 0, 0]);
    host.wait(Duration::ZERO);
    assert!(host.asks_for(is_grant));
    assert!(!host.asks_for(|change| matches!(change, Change::Reclaim { .. })));
}

#[test]
fn a_site_requests_a_part_of_what_the_value_permits() {
    // With the tolerance of a quarter; a key may always have 8 tokens.
    let all = [(1000, 4, false), (16, 4, false), (16, 2, true), (8, 2, false), (8, 1, true)];
    for (value, tokens, third_reads) in all.into_iter().chain([(4, 1, false), (2, 4, true)]) {
        let mut host = Host::new(0, None);
        host.stream(1, (0, 10), vec![(10, Entry::Update(value))]);
        host.wait(MS);
        if third_reads {
            let tokens = Tokens { increments: 1, decrements: 0 };
            host.change(Change::Grant {
                key: KEY.to_vec(),
                site: site(0),
                epoch: Epoch(1),
                tokens,
            });
            host.ask_of(2, Need::Narrow);
            host.stream(0, (0, 10), vec![(10, Entry::Ended(Epoch(1)))]);
            host.wait(MS);
            host.asked.clear();
        }
        assert!(host.take(1).is_none());
        for _ in 0..9 {
            host.take(1);
        }
        // The first request was for twice the first update.
        let first = host.requested();
        host.commit_asked(|change| matches!(change, Change::Grant { .. }));
        host.wait(Duration::ZERO);
        assert_eq!(host.requested().or(first), Some(tokens), "{value}");
    }
}

#[test]
fn a_read_elsewhere_does_not_end_a_grant_before_waiting_updates_have_used_it() {
    let mut host = Host::new(0, None);
    host.stream(1, (0, 10), vec![(10, Entry::Update(2))]);
    host.wait(MS);
    host.commit_asked(is_renewal);
    assert!(host.take(1).is_none());
    let version = host.commit_asked(|change| matches!(change, Change::Grant { .. }));
    // Nobody has confirmed the grant.
    host.ask_of(1, Need::Narrow);
    host.wait(Duration::ZERO);
    assert_eq!(host.ends(), 0);
    host.replies.clear();
    host.report_of(1, version, [0; SITES]);
    host.report_of(2, version, [0; SITES]);
    let Some(Response::Taken(take)) = host.replies.pop() else { panic!("{:?}", host.replies) };
    host.wait(Duration::ZERO);
    assert_eq!(host.ends(), 0, "it may ask for a promise");
    host.command(Command::GiveBack { key: KEY.to_vec(), take });
    host.wait(host.config.timing.tick);
    assert_eq!(host.ends(), 1);
}

#[test]
fn tokens_that_are_hoarded_do_not_delay_a_read_for_long() {
    let mut host = Host::new(0, None);
    host.stream(1, (0, 10), vec![(10, Entry::Update(2))]);
    host.grant((1, 0));
    let take = host.take(1).expect("there is a token");
    host.ask_of(1, Need::Narrow);
    host.wait(host.config.timing.patience / 4);
    assert_eq!(host.ends(), 1);
    assert!(!host.is_promised(take));
}

#[test]
fn a_read_asks_again_when_the_tokens_have_changed() {
    let mut host = Host::new(0, None);
    host.stream(1, (0, 10), vec![(10, Entry::Update(2))]);
    host.wait(MS);
    host.commit_asked(is_renewal);
    let grant = |host: &mut Host, epoch| {
        let tokens = Tokens { increments: 1, decrements: 0 };
        let (key, epoch) = (KEY.to_vec(), Epoch(epoch));
        host.change(Change::Grant { key, site: SiteId(1), epoch, tokens });
    };
    grant(&mut host, 1);
    host.sent.clear();
    let within = Duration::from_secs(1);
    let read = || Command::Interval { key: KEY.to_vec(), within };
    assert_eq!(host.command(read()), None);
    assert_eq!(host.asked_now(Need::Narrow), [1, 2]);
    assert_eq!(host.command(read()), None);
    assert_eq!(host.asked_now(Need::Narrow), [0; 0]);
    host.stream(1, (10, 20), vec![(20, Entry::Ended(Epoch(1)))]);
    grant(&mut host, 2);
    assert_eq!(host.command(read()), None);
    assert_eq!(host.asked_now(Need::Narrow), [1, 2]);
    assert_eq!(host.machine.version(PARTITION), Some(Version(3)));
}
