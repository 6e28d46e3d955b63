//! The machine alone, with every input under the test's control. Each test also takes the rule out
//! that it is about, and sees the difference: some of these rules need a rare sequence of steps,
//! which few simulated seeds contain.

use std::sync::Arc;
use std::time::Duration;

use solera_machine::{
    Address, AskId, Guard, GuardAnswer, GuardQuestion, Guarded, Machine, Now, PartitionId,
    PromiseId, RequestId, Topology, Verdict,
};
use solera_membership::{Change as MemberChange, Gap, Members, Participant};
use solera_reservations::{
    Answer, Body, Cannot, Change, Claim, Command, Config, Entry, Epoch, Input, Message, Need,
    Nonce, Output, PROTOCOL, Placed, Policy, Position, Question, Recovery, Reservations, Response,
    Rule, TakeId, Term, Tokens, Version,
};
use solera_time::{Monotonic, Physical, SiteId, Timestamp};

const KEY: &[u8] = b"counter";
const PARTITION: PartitionId = PartitionId(0);
const SITES: usize = 3;
const WITHIN: Duration = Duration::from_secs(60);

fn site(number: u8) -> SiteId {
    SiteId(number)
}

/// A worker and its host.
struct Host {
    config: Config,
    machine: Reservations,
    now: Monotonic,
    journal: Vec<Vec<u8>>,
    /// Last version of the record, and all changes that have led to it.
    version: Version,
    changes: Vec<(Version, Change)>,
    /// Outputs since the last look.
    replies: Vec<Response>,
    asked: Vec<(AskId, Question)>,
    sent: Vec<(SiteId, Body)>,
    promises: u64,
}

impl Host {
    fn new(me: u8, without: Option<Rule>) -> Host {
        Host::in_generation(me, 0, without)
    }

    fn in_generation(me: u8, generation: u32, without: Option<Rule>) -> Host {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1; SITES] });
        let policy = Policy { tolerance_ppm: 250_000, spare: 8, lease: Duration::from_secs(1) };
        let config = Config {
            policies: Arc::new([(Vec::new(), policy)]),
            without: without.into(),
            generation,
            ..Config::new(Address { site: site(me), worker: 0 }, topology)
        };
        let mut host = Host {
            machine: Reservations::new(config.clone()),
            config,
            now: Monotonic(1),
            journal: Vec::new(),
            version: Version(0),
            changes: Vec::new(),
            replies: Vec::new(),
            asked: Vec::new(),
            sent: Vec::new(),
            promises: 0,
        };
        host.collect();
        host.request();
        host
    }

    /// Makes a request, without which the machine does not renew its right.
    fn request(&mut self) {
        let command = Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
        self.command(command);
        self.replies.clear();
    }

    fn reading(&self) -> Now {
        Now { monotonic: self.now, physical: Physical(0) }
    }

    fn collect(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Records(records) => {
                    self.journal.extend(records.iter().map(<[u8]>::to_vec));
                }
                Output::Reply { response, .. } => self.replies.push(response),
                Output::Ask { ask, question } => self.asked.push((ask, question)),
                Output::Send { to, message } => self.sent.push((to.site, message.body)),
                Output::Trace(_) => {}
                Output::Job { work, .. } => match work {},
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let reading = self.reading();
        self.machine.handle(reading, input);
        self.collect();
    }

    /// Runs a command. Returns the reply, if it comes at once.
    fn command(&mut self, command: Command) -> Option<Response> {
        self.replies.clear();
        self.handle(Input::Client { request: RequestId(1), command });
        self.replies.last().cloned()
    }

    fn message(&mut self, from: u8, body: Body) {
        let from = Address { site: site(from), worker: 0 };
        let message = Message { partition: PARTITION, body };
        self.handle(Input::Message { from, generation: 0, message });
    }

    /// A message of another host.
    fn message_of(&mut self, from: Address, generation: u32, body: Body) {
        let message = Message { partition: PARTITION, body };
        self.handle(Input::Message { from, generation, message });
    }

    /// Lets time pass, and the timer run at its end.
    fn wait(&mut self, time: Duration) {
        self.now = self.now.after(time);
        let reading = self.reading();
        self.machine.on_deadline(reading);
        self.collect();
    }

    fn stream(&mut self, origin: u8, (after, upto): (u64, u64), entries: Vec<(u64, Entry)>) {
        let entries = entries.into_iter().map(|(position, entry)| Placed {
            position: Position(position),
            key: KEY.to_vec(),
            entry,
        });
        self.command(Command::Stream {
            partition: PARTITION,
            origin: site(origin),
            after: Position(after),
            entries: entries.collect(),
            upto: Position(upto),
        });
    }

    /// Appends a change of the record to the strong history. It is derived from the last version.
    fn change(&mut self, change: Change) -> Version {
        self.change_from(self.version, change)
    }

    fn change_from(&mut self, read: Version, change: Change) -> Version {
        let (previous, version) = (self.version, Version(self.version.0 + 1));
        self.version = version;
        self.changes.push((read, change.clone()));
        self.command(Command::Changed { partition: PARTITION, previous, version, read, change });
        version
    }

    /// Gives the machine the versions that it lacks, up to this one.
    fn give_versions_again(&mut self, upto: Version) {
        let known = self.machine.version(PARTITION).unwrap();
        for place in known.0..upto.0 {
            let (previous, version) = (Version(place), Version(place + 1));
            let (read, change) = self.changes[place as usize].clone();
            let partition = PARTITION;
            self.command(Command::Changed { partition, previous, version, read, change });
        }
    }

    /// Commits the last change of the record that the machine has asked for.
    fn commit_asked(&mut self, is_it: impl Fn(&Change) -> bool) -> Version {
        let wanted = |(_, question): &(AskId, Question)| match question {
            Question::Change { change, .. } => is_it(change),
            Question::End { .. } => false,
        };
        let place = self.asked.iter().rposition(wanted).expect("the machine asks for it");
        let (ask, question) = self.asked.remove(place);
        let Question::Change { read, change, .. } = question else { panic!("{question:?}") };
        let version = self.change_from(read, change);
        self.handle(Input::Answered { ask, answer: Answer::Decided(version) });
        version
    }

    fn asks_for(&self, is_it: impl Fn(&Change) -> bool) -> bool {
        let changes = self.asked.iter().filter_map(|(_, question)| match question {
            Question::Change { change, .. } => Some(change),
            Question::End { .. } => None,
        });
        changes.filter(|change| is_it(change)).count() > 0
    }

    /// Has the list of members say that a site leaves.
    fn set_leaving(&mut self, leaving: SiteId) {
        let members = Members::new(SITES);
        let members = members.changed(site(0), leaving, MemberChange::Remove).unwrap();
        self.machine.set_members(self.reading(), &members);
    }

    /// Another site reports.
    fn report_of(&mut self, from: u8, version: Version, seen: [u64; SITES]) {
        let seen = seen.map(Position).to_vec();
        self.message(from, Body::Report { version, seen, ended: None, used: true });
    }

    /// Returns what the machine reports to a site now about the stream of site 0.
    fn reported_to(&mut self, to: u8) -> u64 {
        self.sent.clear();
        self.wait(Duration::from_millis(250));
        let reports = self.sent.iter().filter_map(|(receiver, body)| match body {
            Body::Report { seen, .. } if *receiver == site(to) => Some(seen[0].0),
            _ => None,
        });
        reports.max().expect("the timer reports")
    }

    /// Grants tokens to this site, and has all others confirm it.
    fn grant(&mut self, tokens: (u64, u64)) {
        let tokens = Tokens { increments: tokens.0, decrements: tokens.1 };
        let me = self.config.address.site;
        let change = Change::Grant { key: KEY.to_vec(), site: me, epoch: Epoch(1), tokens };
        let version = self.change(change);
        for other in (0..SITES as u8).filter(|other| site(*other) != me) {
            self.report_of(other, version, [0; SITES]);
        }
    }

    fn take(&mut self, amount: i64) -> Option<TakeId> {
        match self.command(Command::Take { key: KEY.to_vec(), amount, within: WITHIN }) {
            Some(Response::Taken(take)) => Some(take),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    fn is_promised(&mut self, take: TakeId) -> bool {
        let guard = Guard {
            key: KEY.to_vec(),
            protocol: PROTOCOL.number,
            claim: Claim::Take(take).encode(),
        };
        self.promises += 1;
        let id = PromiseId { coordinator: 0, sequence: self.promises };
        let question = GuardQuestion::Promise { id, guards: guard.into() };
        match self.command(Command::Guard(question)) {
            Some(Response::Guard(GuardAnswer::Verdict(verdict))) => verdict == Verdict::Promised,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the process, and starts another one from the journal.
    fn restart(&mut self) {
        let mut recovery = Recovery::new(self.config.clone());
        for (place, record) in self.journal.iter().enumerate() {
            recovery.take_record(place as u64 + 1, record).unwrap();
        }
        self.machine = recovery.into_machine();
        self.asked.clear();
        self.collect();
        self.request();
    }
}

fn is_renewal(change: &Change) -> bool {
    matches!(change, Change::Renew { .. })
}

fn foreign() -> Nonce {
    Nonce { process: 99, number: 1 }
}

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

/// Returns a host whose site has a lease and took a token for a decrement.
fn decrementer(without: Option<Rule>) -> (Host, TakeId) {
    let mut host = Host::new(0, without);
    host.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
    host.wait(Duration::from_millis(10));
    host.commit_asked(is_renewal);
    host.grant((0, 4));
    let take = host.take(-1).expect("there are tokens");
    (host, take)
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

fn tokens(increments: u64, decrements: u64) -> Claim {
    Claim::Tokens(Tokens { increments, decrements })
}

fn guards(claim: Claim) -> Guarded {
    Guard { key: KEY.to_vec(), protocol: PROTOCOL.number, claim: claim.encode() }.into()
}

impl Host {
    fn reserve(&mut self, sequence: u64, claim: Claim) -> Option<Verdict> {
        let id = PromiseId { coordinator: 0, sequence };
        self.verdict(GuardQuestion::Reserve { id, guards: guards(claim) })
    }

    fn promise(&mut self, sequence: u64, claim: Claim) -> Option<Verdict> {
        let id = PromiseId { coordinator: 0, sequence };
        self.verdict(GuardQuestion::Promise { id, guards: guards(claim) })
    }

    fn verdict(&mut self, question: GuardQuestion) -> Option<Verdict> {
        self.command(Command::Guard(question)).map(|response| match response {
            Response::Guard(GuardAnswer::Verdict(verdict)) => verdict,
            other => panic!("{other:?}"),
        })
    }

    fn end(&mut self, sequence: u64, committed: bool) {
        let id = PromiseId { coordinator: 0, sequence };
        self.command(Command::Guard(GuardQuestion::End { id, committed }));
    }

    fn answers(&self) -> Vec<Verdict> {
        let answers = self.replies.iter().filter_map(|reply| match reply {
            Response::Guard(GuardAnswer::Verdict(verdict)) => Some(verdict.clone()),
            _ => None,
        });
        answers.collect()
    }
}

#[test]
fn a_reservation_waits_for_tokens_and_becomes_a_promise() {
    let mut host = Host::new(0, None);
    assert_eq!(host.reserve(1, tokens(2, 0)), None);
    host.grant((4, 0));
    assert_eq!(host.answers(), [Verdict::Promised]);
    // Two of the four are left.
    assert_eq!(host.reserve(2, tokens(3, 0)), None);
    assert_eq!(host.promise(1, tokens(2, 0)), Some(Verdict::Promised));
    let (promised, id) =
        (host.machine.promises().next(), PromiseId { coordinator: 0, sequence: 1 });
    assert_eq!(promised, Some(id));
    // The other one stops waiting, so that its end lets nobody wait behind it.
    host.end(2, false);
    assert_eq!(host.reserve(3, tokens(2, 0)), Some(Verdict::Promised));
    host.end(3, false);
    assert_eq!(host.reserve(4, tokens(2, 0)), Some(Verdict::Promised), "3 gave back its tokens");
}

#[test]
fn a_reservation_without_tokens_is_refused_with_the_reason() {
    let mut host = Host::new(0, None);
    let reason = |verdict: Option<Verdict>| match verdict {
        Some(Verdict::Refused(refusal)) => refusal.reason,
        other => panic!("{other:?}"),
    };
    let mut late = |claim| {
        host.replies.clear();
        assert_eq!(host.reserve(1, claim), None);
        host.wait(host.config.timing.patience);
        reason(host.answers().pop())
    };
    assert!(late(tokens(1, 0)).contains("no tokens in time"));
    assert!(late(tokens(9, 0)).contains("at most 8 tokens"));
    let guard = Guard { key: KEY.to_vec(), protocol: PROTOCOL.number, claim: vec![7] };
    let id = PromiseId { coordinator: 0, sequence: 2 };
    let junk = host.verdict(GuardQuestion::Reserve { id, guards: guard.into() });
    assert!(reason(junk).contains("cannot be read"));
    // A claim that names its tokens needs no others, and its promise is judged.
    let unknown = Claim::Take(TakeId(foreign()));
    assert_eq!(host.reserve(3, unknown), Some(Verdict::Promised));
    assert!(reason(host.promise(3, unknown)).contains("taken back"));
}

#[test]
fn a_promise_without_its_reservation_is_refused() {
    let mut host = Host::new(0, None);
    host.grant((4, 0));
    assert_eq!(host.reserve(1, tokens(2, 0)), Some(Verdict::Promised));
    assert!(matches!(host.promise(1, tokens(1, 0)), Some(Verdict::Refused(_))), "other guards");
    assert_eq!(host.reserve(2, tokens(4, 0)), Some(Verdict::Promised), "1 gave back its tokens");
    host.restart();
    assert!(matches!(host.promise(2, tokens(4, 0)), Some(Verdict::Refused(_))));
    assert_eq!(host.promise(3, tokens(0, 0)), Some(Verdict::Promised), "it needs none");
}

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

#[test]
fn a_spent_token_counts_until_the_stream_contains_the_update() {
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    let between = |least, greatest| Some(Response::Interval { least, greatest });
    for (without, before) in [(None, 101), (Some(Rule::CountSpent), 100)] {
        let mut host = Host::new(0, without);
        host.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
        host.wait(Duration::from_millis(10));
        host.commit_asked(is_renewal);
        host.grant((2, 0));
        let spent = host.machine.spend(host.reading(), KEY, 1).expect("there is a token");
        host.machine.note_commit(spent, Position(10));
        assert_eq!(host.command(read()), between(100, before), "{without:?}");
        if without.is_some() {
            continue;
        }
        // The other token may be spent, too, and given back.
        let spent = host.machine.spend(host.reading(), KEY, 1).expect("there is another token");
        assert!(host.machine.spend(host.reading(), KEY, 1).is_none());
        host.machine.give_back_spent(host.reading(), spent);
        host.stream(0, (0, 10), vec![(10, Entry::Update(1))]);
        assert_eq!(host.command(read()), between(101, 101));
        // The update is not seen by others yet.
        assert!(host.machine.spend(host.reading(), KEY, 2).is_none());
        let nothing = host.machine.spend(host.reading(), KEY, 0).expect("it needs no token");
        host.machine.note_commit(nothing, Position(20));
        let last = host.machine.spend(host.reading(), KEY, 1).expect("one is left");
        host.machine.give_back_spent(host.reading(), last);
        assert!(host.machine.spend(host.reading(), KEY, -1).is_none(), "it has no decrements");
    }
}

#[test]
fn nobody_spends_tokens_for_which_another_waits() {
    let mut host = Host::new(0, None);
    host.grant((2, 0));
    assert!(host.take(3).is_none());
    assert!(host.machine.spend(host.reading(), KEY, 1).is_none());
}

#[test]
fn a_decrement_is_spent_during_the_lease_alone() {
    let (mut host, take) = decrementer(None);
    host.command(Command::GiveBack { key: KEY.to_vec(), take });
    let spent = host.machine.spend(host.reading(), KEY, -1).expect("there are tokens");
    host.machine.give_back_spent(host.reading(), spent);
    host.now = host.now.after(Duration::from_secs(5));
    assert!(host.machine.spend(host.reading(), KEY, -1).is_none());
}

#[test]
fn an_update_that_is_not_in_the_stream_counts_after_a_restart() {
    let read = || Command::Interval { key: KEY.to_vec(), within: Duration::ZERO };
    for (without, greatest) in [(None, 102), (Some(Rule::RestoreCommits), 100)] {
        let mut host = Host::new(0, without);
        host.stream(1, (0, 10), vec![(10, Entry::Update(100))]);
        host.grant((4, 0));
        let spent = host.machine.spend(host.reading(), KEY, 2).expect("there are tokens");
        host.machine.note_commit(spent, Position(20));
        host.restart();
        host.machine.restore_commit(KEY, 2, Position(20));
        host.wait(Duration::from_millis(10));
        host.commit_asked(is_renewal);
        let answer = Some(Response::Interval { least: 100, greatest });
        assert_eq!(host.command(read()), answer, "{without:?}");
        // The epoch does not end before the update is in the stream.
        host.wait(Duration::from_secs(1));
        let ends = |host: &Host| {
            host.asked.iter().filter(|(_, it)| matches!(it, Question::End { .. })).count()
        };
        assert_eq!(ends(&host), usize::from(without.is_some()), "{without:?}");
        host.stream(0, (0, 20), vec![(20, Entry::Update(2))]);
        host.wait(Duration::from_secs(1));
        assert_eq!(ends(&host), 1);
    }
}

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

/// Delivers messages between two hosts until there are none.
fn exchange(hosts: [&mut Host; 2]) {
    let [a, b] = hosts;
    loop {
        let (to_b, to_a) = (std::mem::take(&mut a.sent), std::mem::take(&mut b.sent));
        if to_b.is_empty() && to_a.is_empty() {
            return;
        }
        let (of_a, of_b) = (a.config.clone(), b.config.clone());
        for (from, to, sent) in [(&of_a, &mut *b, to_b), (&of_b, &mut *a, to_a)] {
            let me = to.config.address.site;
            for (_, body) in sent.into_iter().filter(|(receiver, _)| *receiver == me) {
                to.message_of(from.address, from.generation, body);
            }
        }
    }
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
        let spent = host.machine.spend(host.reading(), KEY, 1).expect("there is a token");
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
