//! Single runs, message by message: the duration of a decision, and how other processes finish the
//! transactions of failed ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solera_certification::*;
use solera_data::Key;
use solera_machine::{Address, Now};
use solera_time::{Monotonic, Physical, SiteId, Timestamp, Vector};

const MILLI: u64 = 1_000_000;

type Write = u32;

/// Site, group, transaction, and number in the order of deliveries.
type Delivered = (SiteId, GroupId, TransactionId, Timestamp);

/// Three sites, one worker each, with the paper's distances: Virginia, California, Frankfurt.
struct Sites {
    groups: u16,
    broken: Option<Rule>,
    services: Vec<Option<Service<Write>>>,
    /// Messages in transit, by their arrival.
    letters: BTreeMap<(u64, u64), (Address, Address, Message<Write>)>,
    sequence: u64,
    now: u64,
    delivered: Vec<Delivered>,
    decided: Vec<(u64, SiteId, TransactionId, Outcome)>,
    /// Claims of the decided transactions.
    claims: BTreeMap<TransactionId, Claim>,
    /// Times up to which the leader has reported the history as complete, with the time of each
    /// report.
    shown: Vec<(u64, Timestamp)>,
    /// Time up to which each site has reported the history as complete while it led.
    complete: [Timestamp; 3],
    /// Sites that have answered that a transaction is over, or that their group has delivered it.
    answers: Vec<SiteId>,
    /// A site that is paused.
    blind: Option<u8>,
    /// Selects messages that are lost.
    lose: fn(&Body<Write>) -> bool,
    /// Links, from one site to another, that lose all messages.
    cut: Vec<(u8, u8)>,
    /// Number of times that each site began to lead.
    led: usize,
    /// Latest time at which submitted transactions may commit.
    until: Timestamp,
    /// Delay between sites, in milliseconds.
    one_way: [[u64; 3]; 3],
    /// Delay until a site shows a delivery to its clients, in milliseconds.
    shows_after: u64,
    /// Delay until the first site stores the causal updates that transactions of the last one
    /// depend on, in milliseconds.
    lags: u64,
}

const ONE_WAY: [[u64; 3]; 3] = [[0, 30, 44], [30, 0, 73], [44, 73, 0]];

fn at(site: u8) -> Address {
    Address { site: SiteId(site), worker: 0 }
}

impl Sites {
    fn new(groups: u16) -> Self {
        Self::without(groups, None)
    }

    fn without(groups: u16, broken: Option<Rule>) -> Self {
        let mut sites = Sites {
            groups,
            broken,
            services: Vec::new(),
            letters: BTreeMap::new(),
            sequence: 0,
            now: 0,
            delivered: Vec::new(),
            decided: Vec::new(),
            claims: BTreeMap::new(),
            shown: Vec::new(),
            complete: [Timestamp::ZERO; 3],
            answers: Vec::new(),
            blind: None,
            lose: |_| false,
            cut: Vec::new(),
            led: 0,
            until: Timestamp::MAX,
            one_way: ONE_WAY,
            shows_after: 0,
            lags: 0,
        };
        for site in 0..3 {
            let mut service = Service::new(sites.time(), sites.config(site));
            service.begin(sites.time(), true);
            sites.services.push(Some(service));
        }
        sites.run_for(500);
        sites
    }

    fn config(&self, site: u8) -> Config {
        Config {
            me: at(site),
            workers: vec![1; 3],
            groups: (0..self.groups).map(GroupId).collect(),
            leader: SiteId(0),
            f: 1,
            run: 0,
            timing: Timing::default(),
            without: self.broken.into(),
        }
    }

    fn time(&self) -> Now {
        let physical = Physical(1_000_000 + self.now / 1000);
        Now { monotonic: Monotonic(self.now), physical }
    }

    fn take(&mut self, site: u8) {
        let (now, lose) = (self.time(), self.lose);
        let cut = self.cut.clone();
        let Some(service) = &mut self.services[usize::from(site)] else { return };
        while let Some(output) = service.poll_output() {
            if let Output::Send { message, .. } = &output
                && matches!(
                    message.body,
                    Body::OutcomeForgotten { .. } | Body::Finished { answer: true, .. }
                )
            {
                self.answers.push(SiteId(site));
            }
            match output {
                Output::Send { to, message }
                    if !lose(&message.body) && !cut.contains(&(site, to.site.0)) =>
                {
                    let delay = self.one_way[usize::from(site)][to.site.index()] * MILLI;
                    self.sequence += 1;
                    self.letters
                        .insert((self.now + delay, self.sequence), (at(site), to, *message));
                }
                Output::Decided { tid, outcome, claim } => {
                    self.claims.extend(claim.map(|claim| (tid, claim)));
                    self.decided.push((self.now / MILLI, SiteId(site), tid, outcome));
                }
                Output::Deliver { group, tid, ts, .. } => {
                    self.delivered.push((SiteId(site), group, tid, ts));
                }
                Output::Complete { group, upto } | Output::CatchUp { group, upto } => {
                    self.complete[usize::from(site)] = upto;
                    service.known(now, group, upto);
                    self.shown.push((self.now, upto));
                }
                Output::Leader { site: leader, .. } if leader.0 == site => self.led += 1,
                _ => {}
            }
        }
    }

    fn run_for(&mut self, millis: u64) {
        let end = self.now + millis * MILLI;
        while self.now < end {
            while let Some((&(due, id), _)) = self.letters.first_key_value()
                && due <= self.now
            {
                let (from, to, message) = self.letters.remove(&(due, id)).unwrap();
                let now = self.time();
                if let Some(service) = &mut self.services[to.site.index()] {
                    service.handle(now, from, message);
                }
                self.take(to.site.0);
            }
            let stored = Vector::zero(3)
                .with(SiteId(2), Timestamp((self.now / MILLI).saturating_sub(self.lags)));
            for site in 0..3 {
                let now = self.time();
                if let Some(service) = &mut self.services[usize::from(site)] {
                    service.site_stores(now, &stored);
                }
                if let Some(service) = &mut self.services[usize::from(site)] {
                    service.on_deadline(now);
                }
                self.take(site);
            }
            self.now += MILLI;
        }
    }

    /// Submits a change of one key per group, on a snapshot of everything so far.
    fn certify(&mut self, site: u8, keys: &[(u16, &str)], strong: Timestamp) -> TransactionId {
        self.certify_again(site, keys, strong, None)
    }

    /// The same, for a transaction that may have been aborted before.
    fn certify_again(
        &mut self,
        site: u8,
        keys: &[(u16, &str)],
        strong: Timestamp,
        claim: Option<Claim>,
    ) -> TransactionId {
        let mut snap_vec = Vector::zero(3);
        snap_vec.strong = strong;
        if site == 2 && self.lags > 0 {
            snap_vec = snap_vec.with(SiteId(2), Timestamp(self.now / MILLI));
        }
        let kind = Kind { number: 0, conflicts: 1 };
        let payload = |key: &str| {
            let access = Access { key: Key::from(key.as_bytes()), update: true, kind };
            Arc::new(GroupPayload { snap_vec, accesses: vec![access], writes: vec![7] })
        };
        let payloads = keys.iter().map(|(group, key)| (GroupId(*group), payload(key))).collect();
        let (now, until) = (self.time(), self.until);
        let service = self.services[usize::from(site)].as_mut().unwrap();
        let tid = service.certify(now, None, payloads, until, claim);
        self.take(site);
        tid
    }

    /// Returns the time up to which a site has seen what the first one has reported as complete.
    fn seen(&self, site: u8) -> Timestamp {
        if self.blind == Some(site) {
            return Timestamp::ZERO;
        }
        let delay = (self.one_way[0][usize::from(site)] + self.shows_after) * MILLI;
        let there = self.shown.iter().rev().find(|(when, _)| when + delay <= self.now);
        there.map_or(Timestamp::ZERO, |(_, upto)| *upto)
    }

    /// Stores everything that the leader has delivered at all sites.
    fn store_all(&mut self) {
        let (now, upto) = (self.time(), self.seen(0));
        for service in self.services.iter_mut().flatten() {
            service.known(now, GroupId(0), upto);
        }
    }

    /// Stores everything of the first group up to this time at a site.
    fn store(&mut self, site: u8, upto: Timestamp) {
        let now = self.time();
        self.services[usize::from(site)].as_mut().unwrap().known(now, GroupId(0), upto);
        self.take(site);
    }

    /// Returns the number of transactions that each site remembers.
    fn remembered(&self) -> Vec<usize> {
        self.services.iter().flatten().map(|service| service.remembered().0).collect()
    }

    fn delivered_at(&self, site: u8) -> impl Iterator<Item = &Delivered> {
        self.delivered.iter().filter(move |delivered| delivered.0 == SiteId(site))
    }

    fn outcome(&self, tid: TransactionId) -> Option<&Outcome> {
        self.decided.iter().find(|decided| decided.2 == tid).map(|decided| &decided.3)
    }
}

#[test]
fn a_decision_takes_one_round_trip() {
    // From the leader's site, to the nearest other site; from elsewhere, to the leader and back.
    for (site, round_trip) in [(0, 60), (1, 60), (2, 88)] {
        for keys in [&[(0, "a")][..], &[(0, "a"), (1, "b"), (2, "c")]] {
            let mut sites = Sites::new(3);
            let began = sites.now / MILLI;
            let tid = sites.certify(site, keys, Timestamp::ZERO);
            sites.run_for(200);
            let (when, _, _, outcome) = sites.decided[0].clone();
            assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
            // The test's loop adds up to two turns of a millisecond each.
            assert!(when - began <= round_trip + 2, "site {site} waited {} ms", when - began);
            let groups: Vec<_> = sites.delivered_at(0).map(|delivered| delivered.1).collect();
            assert_eq!(groups.len(), keys.len(), "delivered at {groups:?}");
            assert!(sites.delivered.iter().all(|delivered| delivered.2 == tid));
        }
    }
}

/// A site has its own transactions as soon as it knows that they committed, one after another.
#[test]
fn a_follower_delivers_what_its_site_submitted_without_waiting_for_the_leader() {
    let mut sites = Sites::new(1);
    let mut strong = Timestamp::ZERO;
    for n in 1..=3 {
        let tid = sites.certify(2, &[(0, "a")], strong);
        sites.run_for(90);
        let Some(Outcome::Committed(ts)) = sites.outcome(tid).cloned() else {
            panic!("number {n}")
        };
        let delivered: Vec<_> = sites.delivered_at(2).cloned().collect();
        assert_eq!(delivered.len(), n);
        assert_eq!(delivered.last(), Some(&(SiteId(2), GroupId(0), tid, ts)));
        strong = ts;
    }
    assert_eq!(sites.delivered_at(1).count(), 0, "it was not submitted there");
}

/// Of several groups, only the one with the greatest proposal knows that no other transaction comes
/// before.
#[test]
fn a_follower_waits_for_its_leader_where_a_later_time_counts() {
    let mut sites = Sites::new(2);
    let tid = sites.certify(1, &[(0, "a"), (1, "b")], Timestamp::ZERO);
    sites.run_for(61);
    assert!(matches!(sites.outcome(tid), Some(Outcome::Committed(_))));
    let groups: Vec<_> = sites.delivered_at(1).map(|delivered| delivered.1).collect();
    assert_eq!(groups, [GroupId(1)]);
    sites.run_for(100);
    assert_eq!((sites.delivered_at(0).count(), sites.delivered_at(1).count()), (2, 1));
}

/// Another site's transaction is undecided when the leader votes, and may come before.
#[test]
fn a_follower_waits_for_its_leader_while_something_may_come_before() {
    for (broken, ahead) in [(None, 0), (Some(Rule::NothingBetween), 1)] {
        let mut sites = Sites::without(1, broken);
        sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.run_for(20);
        let tid = sites.certify(1, &[(0, "b")], Timestamp::ZERO);
        sites.run_for(70);
        assert!(matches!(sites.outcome(tid), Some(Outcome::Committed(_))));
        assert_eq!(sites.delivered_at(1).count(), ahead, "without {broken:?}");
    }
}

/// The site has not received what another one committed before, or has discarded it.
#[test]
fn a_follower_delivers_ahead_when_it_has_what_came_before() {
    for had_it in [false, true] {
        let mut sites = Sites::new(1);
        let first = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.run_for(200);
        let Some(Outcome::Committed(before)) = sites.outcome(first).cloned() else { panic!("no") };
        if had_it {
            sites.store(1, before);
            sites.services[1].as_mut().unwrap().stores_nothing();
        }
        let tid = sites.certify(1, &[(0, "b")], Timestamp::ZERO);
        sites.run_for(70);
        assert!(matches!(sites.outcome(tid), Some(Outcome::Committed(_))));
        assert_eq!(sites.delivered_at(1).count(), 0);
        sites.store(1, before);
        assert_eq!(sites.delivered_at(1).count(), 1);
    }
}

/// Members have received a transaction from the site where it was submitted, and the leader may not
/// report as much as complete yet: it must not treat the transaction as finished.
#[test]
fn a_leader_delivers_what_members_had_before_it() {
    let mut sites = Sites::new(1);
    let is_status = |body: &Body<Write>| matches!(body, Body::Status { .. });
    // Delays status messages with low ceilings, and loses all later ones.
    while !sites.letters.values().any(|(_, to, message)| *to == at(2) && is_status(&message.body)) {
        sites.run_for(1);
    }
    let late: Vec<_> =
        sites.letters.extract_if(.., |_, (.., message)| is_status(&message.body)).collect();
    sites.lose = |body| matches!(body, Body::Status { .. });
    let soon = Timestamp::from_physical(sites.time().physical).later(Duration::from_secs(3));
    let tid = sites.certify(1, &[(0, "a")], soon);
    sites.run_for(100);
    let Some(Outcome::Committed(ts)) = sites.outcome(tid).cloned() else { panic!("no commit") };
    assert_eq!((sites.delivered_at(0).count(), sites.delivered_at(1).count()), (0, 1));
    sites.store(2, ts);
    for ((_, id), letter) in late {
        sites.letters.insert((sites.now, id), letter);
    }
    sites.run_for(200);
    sites.lose = |_| false;
    sites.run_for(500);
    assert_eq!(sites.delivered_at(0).count(), 1);
}

#[test]
fn the_later_of_two_that_conflict_aborts_unless_it_has_seen_the_earlier() {
    let mut sites = Sites::new(1);
    let first = sites.certify(1, &[(0, "a")], Timestamp::ZERO);
    let second = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    let other = sites.certify(2, &[(0, "b")], Timestamp::ZERO);
    sites.run_for(300);
    let Some(Outcome::Committed(ts)) = sites.outcome(first).cloned() else { panic!("no commit") };
    let Some(Outcome::Aborted(Some(cause))) = sites.outcome(second) else { panic!("no abort") };
    assert_eq!(cause.key, Some(Key::from("a")));
    assert_eq!(cause.past.strong, ts, "who has seen that much may try again");
    assert!(matches!(sites.outcome(other), Some(Outcome::Committed(_))));
    let again = sites.certify(2, &[(0, "a")], ts);
    sites.run_for(300);
    assert!(matches!(sites.outcome(again), Some(Outcome::Committed(later)) if *later > ts));
}

#[test]
fn other_processes_decide_transactions_of_a_failed_coordinator() {
    // The coordinator fails when all groups have its request. No process then receives the answers.
    let mut sites = Sites::new(2);
    let tid = sites.certify(2, &[(0, "a"), (1, "b")], Timestamp::ZERO);
    sites.run_for(60);
    sites.services[2] = None;
    sites.run_for(3000);
    let of: Vec<_> = sites.delivered.iter().filter(|delivered| delivered.2 == tid).collect();
    assert_eq!(of.len(), 2, "{of:?}");
    assert_eq!(of[0].3, of[1].3, "one strong timestamp");

    // The coordinator fails when only one of two groups has its request.
    let mut sites = Sites::new(2);
    let now = sites.now;
    let tid = sites.certify(2, &[(0, "a"), (1, "b")], Timestamp::ZERO);
    sites.letters.retain(|(due, _), (_, _, message)| *due <= now || message.group == GroupId(0));
    sites.run_for(60);
    sites.services[2] = None;
    sites.run_for(3000);
    assert!(sites.delivered.iter().all(|delivered| delivered.2 != tid));
    // The next transaction does not conflict with anything.
    let next = sites.certify(1, &[(0, "a"), (1, "b")], Timestamp::ZERO);
    sites.run_for(500);
    assert!(matches!(sites.outcome(next), Some(Outcome::Committed(_))));
}

#[test]
fn another_leader_decides_alike_when_the_leaders_site_dies() {
    let mut sites = Sites::new(1);
    let tid = sites.certify(1, &[(0, "a")], Timestamp::ZERO);
    // California stores the vote, and then Virginia is gone.
    sites.run_for(62);
    sites.services[0] = None;
    let proposed = sites.delivered.first().map(|delivered| delivered.3);
    sites.run_for(5000);
    let Some(Outcome::Committed(ts)) = sites.outcome(tid).cloned() else { panic!("no commit") };
    assert!(proposed.is_none_or(|proposed| proposed == ts));
    let leaders: Vec<_> =
        sites.services[1..].iter().flatten().map(|service| service.leader(GroupId(0))).collect();
    assert!(leaders.iter().all(|leader| *leader == leaders[0] && *leader != Some(SiteId(0))));
    let next = sites.certify(2, &[(0, "a")], ts);
    sites.run_for(500);
    assert!(matches!(sites.outcome(next), Some(Outcome::Committed(later)) if *later > ts));
}

#[test]
fn a_leader_can_be_moved() {
    let mut sites = Sites::new(1);
    let now = sites.time();
    sites.services[1].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(2));
    sites.take(1);
    sites.run_for(1000);
    assert!(sites.services[2].as_ref().unwrap().leads(GroupId(0)));
    assert!(!sites.services[0].as_ref().unwrap().leads(GroupId(0)));
    let began = sites.now / MILLI;
    sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(300);
    assert!(sites.decided[0].0 - began <= 90, "one round trip to the nearest other site");
}

#[test]
fn a_member_that_cannot_reach_others_does_not_claim_to_lead() {
    let mut sites = Sites::new(1);
    let leader =
        |sites: &Sites, site: usize| sites.services[site].as_ref().unwrap().leader(GroupId(0));
    sites.cut = vec![(2, 0), (2, 1), (0, 2), (1, 2)];
    let now = sites.time();
    sites.services[2].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(2));
    sites.take(2);
    // It asks for promises, gives up, asks whether others hear from their leader, and so on.
    for _ in 0..100 {
        sites.run_for(100);
        assert_eq!(leader(&sites, 2), Some(SiteId(0)), "the last that it has seen to lead");
    }
    // Members that promise to follow it do not name it either, before they have seen it lead.
    sites.cut = vec![(0, 2), (1, 2)];
    let now = sites.time();
    sites.services[2].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(2));
    sites.take(2);
    sites.run_for(100);
    assert_eq!(leader(&sites, 0), None, "it has made way");
    assert_eq!([1, 2].map(|site| leader(&sites, site)), [Some(SiteId(0)); 2]);
    sites.cut.clear();
    let now = sites.time();
    sites.services[1].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(2));
    sites.take(1);
    sites.run_for(1000);
    assert_eq!([0, 1, 2].map(|site| leader(&sites, site)), [Some(SiteId(2)); 3]);
}

/// A coordinator that asks a candidate once, because the leader does not answer, must not send its
/// requests to the candidate first from then on.
#[test]
fn a_member_that_does_not_lead_names_no_candidate() {
    let waits = |broken| {
        let mut sites = Sites::without(1, broken);
        // Site 1 would lead. Only processes that send it a request learn of that.
        sites.lose = |body| matches!(body, Body::NewBallot { .. });
        sites.cut = vec![(0, 1), (1, 0), (2, 0)];
        let now = sites.time();
        sites.services[1].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(1));
        sites.take(1);
        sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.cut.pop();
        sites.run_for(700);
        let began = sites.now / MILLI;
        let tid = sites.certify(2, &[(0, "b")], Timestamp::ZERO);
        sites.run_for(2000);
        let decided = sites.decided.iter().find(|decided| decided.2 == tid);
        decided.expect("all members are asked in turn").0 - began
    };
    assert!(waits(None) <= 90, "one round trip to the leader");
    assert!(waits(Some(Rule::NameLeaders)) > 500, "no answer, before the next member is asked");
}

/// Returns the time that a transaction takes at a worker that is not a member of its group and has
/// just started.
fn first_decision(sites: &mut Sites) -> u64 {
    let (now, config) = (sites.time(), Config { groups: Vec::new(), run: 1, ..sites.config(2) });
    let mut service = Service::new(now, config);
    service.begin(now, true);
    sites.services[2] = Some(service);
    let began = sites.now / MILLI;
    let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(4000);
    let decided = sites.decided.iter().find(|decided| decided.2 == tid);
    decided.expect("all members are asked in turn").0 - began
}

/// The worker knows of no term, and asks the configured leader; that leader's answer names its
/// first term.
#[test]
fn a_new_coordinator_asks_the_leader_that_the_first_answer_names() {
    let mut sites = Sites::new(1);
    let now = sites.time();
    sites.services[1].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(1));
    sites.take(1);
    sites.run_for(1000);
    assert!(sites.services[1].as_ref().unwrap().leads(GroupId(0)));
    let round_trips = 2 * (44 + 73);
    assert!(first_decision(&mut sites) < round_trips + 10, "one to each of the two leaders");
}

/// A coordinator that asks the former leader while another one is about to lead is sent the new
/// term, whenever it asks.
#[test]
fn a_coordinator_that_asks_between_two_terms_is_sent_the_next() {
    let mut slowest = 0;
    for after in 0..200 {
        let mut sites = Sites::new(1);
        let (now, config) =
            (sites.time(), Config { groups: Vec::new(), run: 1, ..sites.config(2) });
        let mut service = Service::new(now, config);
        service.begin(now, true);
        sites.services[2] = Some(service);
        sites.services[0].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(1));
        sites.take(0);
        sites.run_for(after);
        let began = sites.now / MILLI;
        let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.run_for(2000);
        let decided = sites.decided.iter().find(|decided| decided.2 == tid).expect("it is decided");
        slowest = slowest.max(decided.0 - began);
    }
    let round_trips = 3 * (44 + 73);
    assert!(slowest < round_trips + 10, "{slowest} ms: to the former leader and to the next one");
}

/// The coordinator's own member has seen the new leader: the coordinator need not wait until its
/// turn comes.
#[test]
fn a_coordinator_asks_a_leader_at_once_when_its_own_member_sees_it_begin() {
    let mut sites = Sites::new(1);
    sites.services[0] = None;
    let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    let led = sites.led;
    while sites.led == led {
        sites.run_for(1);
    }
    let began = sites.now / MILLI;
    sites.run_for(4000);
    let decided = sites.decided.iter().find(|decided| decided.2 == tid).expect("it is decided").0;
    assert!(decided - began < 3 * 73 + 10, "{} ms after a leader began", decided - began);
}

#[test]
fn a_member_that_was_cut_off_does_not_disturb_the_others() {
    let mut sites = Sites::new(1);
    let frankfurt = sites.services[2].take();
    sites.run_for(10_000);
    sites.services[2] = frankfurt;
    sites.run_for(3000);
    assert!(sites.services[0].as_ref().unwrap().leads(GroupId(0)), "the leader stays");
}

#[test]
fn a_claim_counts_for_the_next_attempt_and_for_nothing_else() {
    let mut sites = Sites::new(1);
    sites.certify(1, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(500);
    let aborted = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(500);
    assert!(matches!(sites.outcome(aborted), Some(Outcome::Aborted(_))));
    let claim = Some(sites.claims[&aborted]);
    let reserved = |sites: &Sites| sites.services[0].as_ref().unwrap().counts().reserved;
    sites.certify_again(2, &[(0, "b")], Timestamp::ZERO, claim);
    sites.run_for(500);
    assert_eq!(reserved(&sites), 0, "its client went on to something else");
    sites.certify_again(2, &[(0, "a")], Timestamp::ZERO, claim);
    sites.run_for(500);
    assert_eq!(reserved(&sites), 1);
}

/// A leader is cut off after its vote. The next one delivers the transaction, and all forget it.
/// Then the former leader, which does not know of the next one yet, learns that the transaction is
/// over. It must not report as complete what it lacks: its site would never accept that part from
/// others again.
#[test]
fn a_deposed_leader_reports_nothing_as_complete_that_others_delivered() {
    for (broken, shows_it) in [(None, false), (Some(Rule::ConfirmTerm), true)] {
        let mut sites = Sites::without(1, broken);
        let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.run_for(50);
        sites.cut = vec![(0, 1), (0, 2), (1, 0), (2, 0)];
        sites.run_for(2500);
        let Some(Outcome::Committed(ts)) = sites.outcome(tid).cloned() else { panic!("no") };
        assert!(sites.delivered.iter().any(|delivered| delivered.0 != SiteId(0)));
        assert_eq!(sites.remembered()[1..], [0, 0], "the others have forgotten it");
        assert!(sites.complete[0] < ts);
        // No other site sends it the next term on its own.
        sites.lose = |body| matches!(body, Body::Status { .. } | Body::Stale { .. });
        sites.cut.clear();
        sites.run_for(2000);
        assert_eq!(sites.complete[0] >= ts, shows_it, "without {broken:?}");
        sites.lose = |_| false;
        sites.run_for(1000);
        assert_eq!(sites.remembered(), [0, 0, 0], "it has heard of the next term");
    }
}

/// A leader is cut off, and a transaction commits under the next one. The former leader knows
/// neither the term nor the transaction, and is asked for it. A process that believed that it is
/// over, or that the group has delivered it, would forget a transaction that is not delivered.
#[test]
fn a_deposed_leader_does_not_answer_for_transactions_that_it_does_not_know() {
    for (broken, answers) in [(None, 0), (Some(Rule::ConfirmTerm), 3)] {
        let mut sites = Sites::without(1, broken);
        sites.cut = vec![(0, 1), (0, 2), (1, 0), (2, 0)];
        sites.run_for(2500);
        let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.run_for(2000);
        assert!(matches!(sites.outcome(tid), Some(Outcome::Committed(_))));
        let oldest = Serial { sequence: tid.serial.sequence + 1, ..tid.serial };
        let (group, participants) = (GroupId(0), [GroupId(0), GroupId(1)].into());
        let until = Timestamp::MAX;
        let questions = [
            Body::Prepare {
                tid,
                payload: None,
                participants,
                oldest: Some(oldest),
                until,
                claim: None,
            },
            Body::Finished { tid, of: GroupId(1), answer: false },
        ];
        for body in questions {
            let now = sites.time();
            let leader = sites.services[0].as_mut().unwrap();
            assert!(leader.leads(group), "it has heard of no other");
            leader.handle(now, at(1), Message { group, body });
            sites.take(0);
        }
        sites.run_for(500);
        let of_former = sites.answers.iter().filter(|site| **site == SiteId(0)).count();
        // The former leader answers the process that asked that the transaction is over, and sends
        // both other sites the delivery acknowledgement.
        assert_eq!(of_former, answers, "without {broken:?}");
    }
}

/// The same leader learns that the others were removed before it begins a term of the remaining
/// members. It is a quorum of these members, but was not a quorum of the earlier ones.
#[test]
fn a_leader_of_former_members_shows_nothing() {
    for (broken, shows_it) in [(None, false), (Some(Rule::NothingOutdated), true)] {
        let mut sites = Sites::without(1, broken);
        sites.cut = vec![(0, 1), (0, 2), (1, 0), (2, 0)];
        sites.run_for(2500);
        let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.run_for(2000);
        let Some(Outcome::Committed(ts)) = sites.outcome(tid).cloned() else { panic!("no") };
        assert!(sites.complete[0] < ts);
        let now = sites.time();
        let former = sites.services[0].as_mut().unwrap();
        former.set_members(1, [(SiteId(0), 0)]);
        former.known(now, GroupId(0), Timestamp::ZERO);
        sites.take(0);
        assert_eq!(sites.complete[0] >= ts, shows_it, "without {broken:?}");
    }
}

#[test]
fn a_member_that_hears_both_takes_over_from_a_leader_that_another_does_not_hear() {
    let mut sites = Sites::new(1);
    sites.cut = vec![(0, 2), (2, 0)];
    sites.run_for(3000);
    assert!(sites.services[0].as_ref().unwrap().leads(GroupId(0)), "a short break is no reason");
    let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(9000);
    assert!(sites.services[1].as_ref().unwrap().leads(GroupId(0)));
    assert!(matches!(sites.outcome(tid), Some(Outcome::Committed(_))), "{:?}", sites.outcome(tid));
    sites.cut.clear();
    sites.run_for(9000);
    assert!(sites.services[1].as_ref().unwrap().leads(GroupId(0)), "once is enough");
    // An operator moves the leader back, and the link breaks once more.
    let now = sites.time();
    sites.services[1].as_mut().unwrap().move_leader(now, GroupId(0), SiteId(0));
    sites.take(1);
    sites.run_for(1000);
    assert!(sites.services[0].as_ref().unwrap().leads(GroupId(0)));
    sites.cut = vec![(0, 2), (2, 0)];
    sites.run_for(25_000);
    assert!(sites.services[1].as_ref().unwrap().leads(GroupId(0)), "it helps again before long");
}

#[test]
fn a_member_without_links_does_not_change_leaders_repeatedly() {
    let mut sites = Sites::new(1);
    sites.cut = vec![(0, 2), (1, 2)];
    sites.led = 0;
    sites.run_for(50_000);
    assert!(sites.led <= 2, "it changed {} times", sites.led);
}

#[test]
fn without_a_quorum_nothing_is_decided_and_nothing_is_shown() {
    let mut sites = Sites::new(1);
    sites.services[1] = None;
    sites.services[2] = None;
    sites.run_for(Duration::from_secs(5).as_millis() as u64);
    let tid = sites.certify(0, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(5000);
    assert_eq!(sites.outcome(tid), None);
    assert!(sites.delivered.is_empty());
}

#[test]
fn the_last_member_continues_with_its_votes() {
    let mut sites = Sites::new(1);
    let tid = sites.certify(1, &[(0, "a")], Timestamp::ZERO);
    // California stores the vote and learns of no quorum. Then the other sites are lost for good.
    sites.run_for(40);
    sites.letters.retain(|_, (from, _, message)| {
        *from == at(0) && matches!(message.body, Body::Accept { .. })
    });
    sites.services[0] = None;
    sites.services[2] = None;
    sites.run_for(3000);
    assert_eq!(sites.outcome(tid), None, "it is no quorum");
    sites.services[1].as_mut().unwrap().set_members(1, [(SiteId(1), 0)]);
    sites.run_for(3000);
    let Some(Outcome::Committed(ts)) = sites.outcome(tid).cloned() else { panic!("no commit") };
    assert_eq!(sites.delivered.last().map(|delivered| delivered.2), Some(tid));
    let next = sites.certify(1, &[(0, "a")], ts);
    sites.run_for(500);
    assert!(matches!(sites.outcome(next), Some(Outcome::Committed(later)) if *later > ts));
}

/// A vote that comes too late is to abort: others have proceeded without the transaction.
#[test]
fn nothing_commits_after_the_time_that_its_coordinator_named() {
    for (ahead_ms, commits) in [(20, false), (500, true)] {
        let mut sites = Sites::new(1);
        let until = Timestamp::from_physical(sites.time().physical);
        sites.until = until.later(Duration::from_millis(ahead_ms));
        let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
        sites.run_for(300);
        let outcome = sites.outcome(tid);
        assert_eq!(matches!(outcome, Some(Outcome::Committed(_))), commits, "{outcome:?}");
        assert!(outcome.is_some(), "it is decided");
    }
}

// Clients that change the same keys without pause.

/// Number of transactions whose phases one status message reports.
const PHASES: usize = 1024;

fn is_short(body: &Body<Write>) -> bool {
    !matches!(body, Body::Status { phases, .. } if phases.len() > PHASES)
}

#[test]
fn a_leader_reports_many_transactions_in_turn() {
    const UNDECIDED: usize = PHASES * 3 / 2;
    let mut sites = Sites::new(1);
    sites.lose = |body| {
        assert!(is_short(body));
        matches!(body, Body::Accepted { tid, .. } if tid.coordinator == at(1))
    };
    for n in 0..UNDECIDED {
        sites.certify(1, &[(0, &format!("k{n}"))], Timestamp::ZERO);
    }
    // These are reported last, and decided: others conflict with them.
    for n in 0..10 {
        sites.certify(2, &[(0, &format!("k{n}"))], Timestamp::ZERO);
    }
    sites.run_for(100);
    assert_eq!(sites.remembered(), [UNDECIDED + 10; 3]);
    sites.run_for(5000);
    assert_eq!(sites.decided.len(), 10);
    // Members rely on what the leader reports: a member without reports on all could not forget
    // these.
    assert_eq!(sites.remembered(), [UNDECIDED; 3]);

    sites.lose = |body| {
        assert!(is_short(body));
        false
    };
    sites.run_for(3000);
    sites.store_all();
    sites.run_for(5000);
    let committed = |outcome: &Outcome| matches!(outcome, Outcome::Committed(_));
    let committed = sites.decided.iter().filter(|(.., outcome)| committed(outcome)).count();
    assert_eq!((committed, sites.decided.len()), (UNDECIDED, UNDECIDED + 10));
    assert_eq!(sites.remembered(), [0; 3]);
}

/// Restarts a site with its durable state, as another run.
fn restart(sites: &mut Sites, site: u8, run: u64) {
    let now = sites.time();
    let former = sites.services[usize::from(site)].take().unwrap();
    let mut service = Service::new(now, sites.config(site));
    former.save().into_iter().for_each(|record| service.restore(record));
    service.number_run(run);
    service.begin(now, false);
    sites.services[usize::from(site)] = Some(service);
}

#[test]
fn outcomes_are_known_after_a_restart_of_the_coordinator() {
    let mut sites = Sites::new(2);
    let committed = sites.certify(2, &[(0, "a"), (1, "b")], Timestamp::ZERO);
    sites.run_for(300);
    let aborted = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(300);
    let Some(Outcome::Committed(ts)) = sites.outcome(committed).cloned() else { panic!("no") };
    assert!(matches!(sites.outcome(aborted), Some(Outcome::Aborted(_))));
    restart(&mut sites, 2, 1);
    sites.store_all();
    let (now, upto) = (sites.time(), sites.seen(0));
    for service in sites.services.iter_mut().flatten() {
        service.known(now, GroupId(1), upto);
    }
    sites.run_for(5000);
    assert_eq!(sites.remembered(), [0; 3], "all are done with it");
    for (site, service) in sites.services.iter().flatten().enumerate() {
        assert_eq!(service.outcome(committed), Some(Outcome::Committed(ts)), "at site {site}");
        // Site 2 had forgotten this transaction before it restarted, and does not store outcomes on
        // disk.
        let aborted = service.outcome(aborted);
        assert_eq!(aborted, (site < 2).then_some(Outcome::Aborted(None)), "at site {site}");
    }
}

#[test]
fn a_member_that_forgot_a_transaction_without_its_outcome_reports_none() {
    let mut sites = Sites::new(1);
    let tid = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    // California has its vote, and does not learn that it committed.
    sites.run_for(80);
    sites.cut = vec![(0, 1)];
    sites.run_for(300);
    let Some(Outcome::Committed(ts)) = sites.outcome(tid).cloned() else { panic!("no") };
    sites.store_all();
    sites.run_for(3000);
    assert_eq!(sites.remembered(), [0, 1, 0]);
    sites.cut.clear();
    sites.run_for(1000);
    assert_eq!(sites.remembered(), [0; 3]);
    let answers: Vec<_> =
        sites.services.iter().flatten().map(|service| service.outcome(tid)).collect();
    let committed = Some(Outcome::Committed(ts));
    assert_eq!(answers, [committed.clone(), None, committed]);
}

/// A client that changes keys repeatedly, on snapshots of what its site has seen.
struct Busy {
    site: u8,
    keys: &'static [(u16, &'static str)],
    /// Whether it retries before its site has seen the cause of the abort.
    hasty: bool,
    waits_for: Option<TransactionId>,
    must_see: Timestamp,
    claim: Option<Claim>,
    tries: usize,
    /// Number of tries of each transaction that committed.
    committed: Vec<usize>,
}

impl Busy {
    fn at(site: u8, keys: &'static [(u16, &'static str)]) -> Self {
        let (hasty, waits_for, must_see) = (false, None, Timestamp::ZERO);
        let (claim, tries, committed) = (None, 0, Vec::new());
        Busy { site, keys, hasty, waits_for, must_see, claim, tries, committed }
    }

    fn go_on(&mut self, sites: &mut Sites) {
        if let Some(tid) = self.waits_for {
            match sites.outcome(tid).cloned() {
                None => return,
                Some(Outcome::Committed(ts)) => {
                    self.committed.push(std::mem::take(&mut self.tries));
                    (self.must_see, self.claim) = (ts, None);
                }
                Some(Outcome::Aborted(cause)) => {
                    self.must_see = cause.unwrap().past.strong;
                    self.claim = Some(sites.claims[&tid]);
                }
            }
            self.waits_for = None;
        }
        let seen = sites.seen(self.site);
        if self.must_see <= seen || self.hasty {
            self.tries += 1;
            self.waits_for = Some(sites.certify_again(self.site, self.keys, seen, self.claim));
        }
    }
}

fn compete(sites: &mut Sites, busy: &mut [Busy], millis: u64) {
    for _ in 0..millis {
        for client in busy.iter_mut() {
            client.go_on(sites);
        }
        sites.run_for(1);
    }
}

#[test]
fn a_client_far_from_the_leader_is_not_too_late_for_ever() {
    let compete_with = |broken| {
        let mut sites = Sites::without(1, broken);
        let mut busy: Vec<Busy> = (0..3).map(|site| Busy::at(site, &[(0, "a")])).collect();
        compete(&mut sites, &mut busy, 20_000);
        busy
    };
    for client in compete_with(None) {
        let (site, tries) = (client.site, client.committed);
        assert!(tries.len() >= 20, "site {site}: {tries:?}");
        assert!(tries.iter().all(|tries| *tries <= 4), "site {site}: {tries:?}");
    }
    let starved = &compete_with(Some(Rule::AbortedFirst))[2];
    assert!(starved.committed.is_empty(), "it needs no reservation: {:?}", starved.committed);
}

/// The retry comes in time, and waits for what the leader's site lacks until its reservation would
/// end.
#[test]
fn a_reservation_lasts_while_the_attempt_waits_for_its_snapshot() {
    let mut sites = Sites::new(1);
    sites.certify(0, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(100);
    let first = sites.certify(2, &[(0, "a")], Timestamp::ZERO);
    sites.run_for(100);
    let claim = Some(sites.claims[&first]);
    let second = sites.certify_again(2, &[(0, "a")], Timestamp::ZERO, claim);
    sites.run_for(100);
    assert!(matches!(sites.outcome(second), Some(Outcome::Aborted(_))), "and keys are reserved");
    sites.run_for(300);
    sites.lags = 400;
    let third = sites.certify_again(2, &[(0, "a")], sites.seen(2), claim);
    // The first site stores what the third attempt has seen after 400 ms.
    sites.run_for(300);
    let other = sites.certify(0, &[(0, "a")], sites.seen(0));
    sites.run_for(500);
    let times = [third, other].map(|tid| sites.outcome(tid).cloned());
    assert!(matches!(times, [Some(Outcome::Committed(_)), Some(Outcome::Aborted(_))]), "{times:?}");
}

/// Where sites are near, a key waits for the next client in turn only until its site shows the
/// previous transaction. Reservations cost nothing in addition.
#[test]
fn on_near_sites_it_costs_next_to_nothing_to_go_in_turns() {
    const KEYS: [&[(u16, &str)]; 4] = [&[(0, "a")], &[(0, "b")], &[(0, "c")], &[(0, "a")]];
    let compete_with = |broken| {
        let mut sites = Sites::without(1, broken);
        (sites.one_way, sites.shows_after) = ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], 20);
        let mut busy: Vec<Busy> = (0..6).map(|n| Busy::at(n % 3, KEYS[0])).collect();
        for _ in 0..20_000 {
            for (n, client) in busy.iter_mut().enumerate().filter(|(_, client)| client.tries == 0) {
                client.keys = KEYS[(client.committed.len() * (n + 1) + n) % KEYS.len()];
            }
            compete(&mut sites, &mut busy, 1);
        }
        busy.iter().map(|client| client.committed.len()).sum::<usize>()
    };
    let (in_turns, in_vain) = (compete_with(None), compete_with(Some(Rule::AbortedFirst)));
    assert!(in_turns * 10 >= in_vain * 9, "{in_turns} have committed, without turns {in_vain}");
}

#[test]
fn transactions_with_common_groups_do_not_wait_for_each_other() {
    let mut sites = Sites::new(2);
    let mut busy = [
        Busy::at(0, &[(0, "a"), (1, "b")]),
        Busy::at(0, &[(0, "a")]),
        Busy::at(1, &[(0, "a"), (1, "b")]),
        Busy::at(1, &[(1, "b")]),
        Busy::at(2, &[(0, "a"), (1, "b")]),
    ];
    compete(&mut sites, &mut busy, 30_000);
    for client in busy {
        let (site, tries) = (client.site, client.committed);
        assert!(tries.len() >= 10, "site {site}: {tries:?}");
        assert!(tries.iter().all(|tries| *tries <= 10), "site {site}: {tries:?}");
    }
}

#[test]
fn a_client_that_does_not_retry_blocks_no_others_for_long() {
    let mut sites = Sites::new(1);
    let mut busy = [Busy::at(0, &[(0, "a")]), Busy::at(2, &[(0, "a")])];
    while busy[1].tries < 2 {
        compete(&mut sites, &mut busy, 1);
    }
    sites.run_for(200);
    let [stays, _] = busy;
    let before = stays.committed.len();
    let mut busy = [stays];
    compete(&mut sites, &mut busy, 100);
    assert!(busy[0].committed.len() <= before + 2, "nothing was reserved");
    compete(&mut sites, &mut busy, 5_000);
    let after = busy[0].committed.len() - before;
    assert!(after >= 60, "it has committed {after} in the time of 80");
}

#[test]
fn a_client_that_retries_in_vain_does_not_block_others_for_ever() {
    let mut sites = Sites::new(1);
    let hasty = Busy { hasty: true, ..Busy::at(2, &[(0, "a")]) };
    let mut busy = [Busy::at(0, &[(0, "a")]), hasty];
    // Its snapshot stays as it is.
    sites.blind = Some(2);
    compete(&mut sites, &mut busy, 10_000);
    let [stays, hasty] = busy;
    assert!(hasty.committed.is_empty() && hasty.tries > 50, "{}", hasty.tries);
    assert!(stays.committed.len() >= 40, "it has committed {}", stays.committed.len());
}
