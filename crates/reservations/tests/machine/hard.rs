//! Rights of counters that must not become negative (B1 to B6): gifts, counts, removed generations.

use std::time::Duration;

use solera_machine::{AskId, Guard, GuardAnswer, GuardQuestion, Now, PromiseId, Verdict};
use solera_membership::{Change as MemberChange, Gap, Members, Participant};
use solera_reservations::{
    Answer, Body, Cannot, Change, Claim, Command, Counted, Entry, Gift, Holder, Input, Nonce,
    Owner, PROTOCOL, Placed, Position, Question, Response, Rule, Tally, Term, Tokens,
};
use solera_time::{Physical, Timestamp, Vector};

use crate::host::{Host, PARTITION, SITES, WITHIN, exchange, site};

const TICKETS: &[u8] = b"tickets";

fn owner(place: u8) -> Owner {
    Owner { site: site(place), generation: 0 }
}

fn given(gift: Gift) -> Entry {
    Entry::Given(gift, Box::new(Vector::zero(SITES)))
}

fn created(amount: u64) -> Entry {
    Entry::Created(amount, Box::new(Vector::zero(SITES)))
}

impl Host {
    /// Gives the machine entries of a stream of the bounded counter.
    fn tickets(&mut self, origin: u8, (after, upto): (u64, u64), entries: Vec<(u64, Entry)>) {
        let placed = |(position, entry)| Placed {
            position: Position(position),
            key: TICKETS.to_vec(),
            entry,
        };
        self.command(Command::Stream {
            partition: PARTITION,
            origin: site(origin),
            after: Position(after),
            entries: entries.into_iter().map(placed).collect(),
            upto: Position(upto),
        });
    }

    /// Spends rights at once, for an update with this position. Returns whether the site has them.
    fn sell(&mut self, amount: i64, position: u64) -> bool {
        let now = Now { monotonic: self.now, physical: Physical(0) };
        let spent = self.machine.spend(now, TICKETS, Tokens::of(-amount));
        let sold = spent.is_some();
        if let Some(spent) = spent {
            self.machine.note_commit(spent, Position(position));
        }
        self.collect();
        sold
    }

    /// Requests rights for a transaction. Returns the answer, if it comes at once.
    fn request_rights(&mut self, amount: i64) -> Option<Response> {
        let key = TICKETS.to_vec();
        self.command(Command::Take { key, amount: -amount, within: WITHIN })
    }

    /// Has another site request rights, of which it has none.
    fn want(&mut self, from: u8, amount: u64, received: u128) {
        let (key, to) = (TICKETS.to_vec(), owner(from));
        self.message(from, Body::Want { key, to, amount, has: 0, waits: amount, received });
    }

    /// Removes and returns the gift that the machine asks for.
    fn asked_gift(&mut self) -> Option<(AskId, Gift)> {
        let place = self.asked.iter().position(|(_, it)| matches!(it, Question::Give { .. }))?;
        match self.asked.remove(place) {
            (ask, Question::Give { gift, .. }) => Some((ask, gift)),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the count requests that were sent, and forgets all messages.
    fn count_requests(&mut self) -> Vec<(u8, Nonce)> {
        let sent = std::mem::take(&mut self.sent).into_iter();
        let requests = sent.filter_map(|(to, body)| match body {
            Body::CountRequest { nonce, .. } => Some((to.index() as u8, nonce)),
            _ => None,
        });
        requests.collect()
    }

    /// Has another site answer a count request with what it has created and spent.
    fn counted(&mut self, from: u8, nonce: Nonce, (created, spent): (u128, u128)) {
        self.counted_with(from, nonce, (created, spent), Tokens::default(), vec![0; SITES]);
    }

    fn counted_with(
        &mut self,
        from: u8,
        nonce: Nonce,
        (created, spent): (u128, u128),
        open: Tokens,
        stages: Vec<u64>,
    ) {
        let tally = Tally { created, spent, ..Tally::default() };
        let (key, seen) = (TICKETS.to_vec(), vec![Position(0); SITES]);
        let counted = Counted { tally, open };
        self.message(from, Body::Counted { key, nonce, counted, seen, stages });
    }

    /// Reads the number of rights. Both rounds get the same answers, in the order of the sites.
    fn read_with(&mut self, answers: [(u128, u128); SITES - 1]) -> Option<Response> {
        self.sent.clear();
        self.command(Command::Interval { key: TICKETS.to_vec(), within: WITHIN });
        for _ in 0..2 {
            for ((to, nonce), answer) in self.count_requests().into_iter().zip(answers) {
                self.counted(to, nonce, answer);
            }
        }
        self.replies.last().cloned()
    }
}

/// Returns a host whose site has created rights.
fn with_rights(rights: u64, without: Option<Rule>) -> Host {
    let mut host = Host::new(0, without);
    host.tickets(0, (0, 10), vec![(10, created(rights))]);
    host
}

#[test]
fn rights_are_spent_once() {
    let mut host = with_rights(5, None);
    assert!(host.sell(3, 11));
    assert!(!host.sell(3, 12), "two are left, before and after the stream has the first sale");
    host.tickets(0, (10, 11), vec![(11, Entry::Update(-3))]);
    assert!(!host.sell(3, 12));
    assert!(host.sell(2, 12) && !host.sell(1, 13));
    assert!(with_rights(5, Some(Rule::KeepPromised)).sell(3, 11));
    let mut broken = with_rights(5, Some(Rule::KeepPromised));
    assert!(broken.sell(3, 11) && broken.sell(3, 12));
}

#[test]
fn a_promise_keeps_rights_through_a_restart() {
    let mut host = with_rights(5, None);
    let Some(Response::Taken(take)) = host.request_rights(4) else { panic!("{:?}", host.replies) };
    assert!(!host.sell(2, 11), "a transaction has four of five");
    let (id, promised) = host.promise_of(TICKETS, take);
    assert!(promised);
    host.restart();
    assert!(!host.sell(2, 11) && host.sell(1, 11));
    host.command(Command::Guard(GuardQuestion::End { id, committed: false }));
    assert!(host.sell(4, 12) && !host.sell(1, 13));
}

#[test]
fn a_restarted_site_does_not_spend_again_what_its_stream_lacks() {
    for (without, sold) in [(None, false), (Some(Rule::RestoreCommits), true)] {
        let mut host = with_rights(5, without);
        assert!(host.sell(3, 11));
        host.restart();
        host.machine.restore_commit(TICKETS, Tokens::of(-3), Position(11));
        assert_eq!(host.sell(3, 12), sold);
        let mut host = with_rights(5, without);
        host.want(1, 2, 0);
        let (_, gift) = host.asked_gift().expect("it has more than the other needs");
        host.restart();
        host.machine.restore_gift(TICKETS, gift);
        assert_eq!(host.sell(5, 12), sold);
    }
}

#[test]
fn rights_that_are_given_are_gone_and_arrive_once() {
    let mut host = with_rights(10, None);
    host.want(1, 2, 0);
    let (ask, gift) = host.asked_gift().expect("it has more than the other needs");
    assert_eq!((gift.from, gift.to, gift.amount), (owner(0), owner(1), 5), "half of them");
    assert_eq!(host.rare, ["reservations: a site gave rights"]);
    assert!(!host.sell(6, 11), "the gift is under way");
    host.want(1, 2, 0);
    assert_eq!(host.asked_gift(), None, "the gift has not arrived yet");
    host.want(1, 7, 0);
    let (_, more) = host.asked_gift().expect("it needs more than is under way");
    assert_eq!(more.amount, 2);
    host.tickets(0, (10, 20), vec![(20, given(gift)), (20, given(more))]);
    assert!(host.sell(3, 21) && !host.sell(1, 22));
    // A gift that was certainly not written is available again.
    let mut host = with_rights(10, None);
    host.want(1, 10, 0);
    let (refused, gift) = host.asked_gift().expect("it has what the other needs");
    assert_eq!((refused, gift.amount), (ask, 10));
    assert!(!host.sell(1, 11));
    host.handle(Input::Answered { ask: refused, answer: Answer::NotGiven });
    assert!(host.sell(10, 11));
    // The receiver has them when its copy of the giver's stream has the gift.
    let mut receiver = Host::new(1, None);
    assert!(!receiver.sell(5, 11));
    let gift = Gift { from: owner(0), to: owner(1), amount: 5 };
    receiver.tickets(0, (0, 20), vec![(20, given(gift))]);
    receiver.tickets(0, (0, 20), vec![(20, given(gift))]);
    assert!(receiver.sell(5, 11) && !receiver.sell(1, 12));
}

#[test]
fn a_site_requests_rights_on_demand_and_ahead_of_need() {
    let wants = |host: &Host| -> Vec<(u8, u64, u64)> {
        let sent = host.sent.iter().filter_map(|(to, body)| match body {
            Body::Want { amount, has, .. } => Some((to.index() as u8, *amount, *has)),
            _ => None,
        });
        sent.collect()
    };
    let mut host = with_rights(10, None);
    host.wait(Duration::from_millis(20));
    assert!(wants(&host).is_empty());
    assert!(host.sell(5, 11));
    host.wait(Duration::from_millis(20));
    assert!(wants(&host).is_empty(), "half of them are left");
    assert!(host.sell(1, 12));
    host.wait(Duration::from_millis(20));
    assert_eq!(wants(&host), [(1, 0, 4), (2, 0, 4)]);
    host.sent.clear();
    assert_eq!(host.request_rights(6), None);
    host.wait(Duration::from_millis(250));
    assert_eq!(wants(&host), [(1, 2, 4), (2, 2, 4)]);
    // Of two sites that wait, the one that waits for fewer rights keeps them.
    host.want(1, 7, 0);
    assert_eq!(host.asked_gift(), None);
    host.want(1, 5, 0);
    assert_eq!(host.asked_gift().map(|(_, gift)| gift.amount), Some(4));
}

#[test]
fn a_count_contains_what_moves_between_the_rounds() {
    let mut host = with_rights(10, None);
    let exact = |value| Some(Response::Interval { least: value, greatest: value });
    assert_eq!(host.read_with([(4, 1), (0, 3)]), exact(10));
    // Between the rounds, site 1 sells two and creates one. Site 2 has an open transaction.
    host.sent.clear();
    host.command(Command::Interval { key: TICKETS.to_vec(), within: WITHIN });
    for (to, nonce) in host.count_requests() {
        host.counted(to, nonce, if to == 1 { (4, 1) } else { (0, 0) });
    }
    let second = host.count_requests();
    assert_eq!(second.len(), SITES - 1);
    for (to, nonce) in second {
        let open = Tokens { increments: 0, decrements: 2 };
        match to {
            1 => host.counted(1, nonce, (5, 3)),
            _ => host.counted_with(2, nonce, (0, 0), open, vec![0; SITES]),
        }
    }
    assert_eq!(host.replies.last(), Some(&Response::Interval { least: 9, greatest: 14 }));
}

#[test]
fn sold_out_needs_the_answers_of_all_sites() {
    let mut host = with_rights(2, None);
    host.sent.clear();
    assert_eq!(host.request_rights(4), None);
    for _ in 0..2 {
        for (to, nonce) in host.count_requests() {
            host.counted(to, nonce, (1, 0));
        }
    }
    assert_eq!(host.replies.last(), None, "four are left at all sites together");
    host.wait(Duration::from_millis(250));
    host.replies.clear();
    for _ in 0..2 {
        for (to, nonce) in host.count_requests() {
            host.counted(to, nonce, (1, u128::from(to == 1)));
        }
    }
    assert_eq!(host.replies.last(), Some(&Response::Cannot(Cannot::SoldOut { left: 3 })));
    let path = "reservations: a transaction found that too few rights are left";
    assert_eq!(host.rare, [path]);
    // One site does not answer, or has another list of sites.
    let mut host = with_rights(2, None);
    host.sent.clear();
    assert_eq!(host.request_rights(4), None);
    for (to, nonce) in host.count_requests() {
        let stages = if to == 1 { vec![0; SITES] } else { vec![0, 0, 1] };
        host.counted_with(to, nonce, (0, 0), Tokens::default(), stages);
    }
    assert!(host.count_requests().is_empty(), "the first round is not complete");
    host.wait(WITHIN);
    assert_eq!(host.replies.last(), Some(&Response::Cannot(Cannot::Uncounted)));
}

#[test]
fn a_count_serves_those_who_waited_before_its_second_round() {
    let mut host = with_rights(2, None);
    host.sent.clear();
    let key = || TICKETS.to_vec();
    host.command(Command::Interval { key: key(), within: WITHIN });
    for (to, nonce) in host.count_requests() {
        host.counted(to, nonce, (0, 0));
    }
    let second = host.count_requests();
    let late = Command::Interval { key: key(), within: WITHIN };
    host.replies.clear();
    host.handle(Input::Client { request: solera_machine::RequestId(2), command: late });
    for (to, nonce) in second {
        host.counted(to, nonce, (0, 0));
    }
    assert_eq!(host.replies.len(), 1, "the late read waits for another count");
}

#[test]
fn holders_are_reported_as_far_as_they_are_known() {
    let mut host = with_rights(2, None);
    host.want(1, 0, 0);
    host.replies.clear();
    host.command(Command::Holders { key: TICKETS.to_vec(), within: WITHIN });
    host.wait(WITHIN);
    let rights = |place, rights, age| Holder::Rights { site: site(place), rights, age };
    let expected = vec![
        rights(0, Some(2), Duration::ZERO),
        rights(1, Some(0), WITHIN),
        rights(2, None, Duration::ZERO),
    ];
    assert_eq!(host.replies.last(), Some(&Response::Holders(expected)));
}

#[test]
fn a_snapshot_must_contain_what_the_used_rights_depend_on() {
    for (without, later) in [(None, true), (Some(Rule::RightsInSnapshot), false)] {
        let mut host = Host::new(0, without);
        let past = |time| Vector::zero(SITES).with(site(1), Timestamp(time));
        let entry = |position, past| (position, Entry::Created(5, Box::new(past)));
        host.tickets(0, (0, 20), vec![entry(10, past(7)), entry(20, past(8))]);
        let mut reserve = |place: u64, amount: i64, snapshot| {
            let claim = Claim::Tokens(Tokens::of(-amount)).encode();
            let guard = Guard { key: TICKETS.to_vec(), protocol: PROTOCOL.number, claim };
            let id = PromiseId { coordinator: 0, sequence: place };
            let (guards, snapshot) = (guard.into(), past(snapshot));
            let question = GuardQuestion::Reserve { id, guards, snapshot };
            match host.command(Command::Guard(question)) {
                Some(Response::Guard(GuardAnswer::Verdict(verdict))) => verdict,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(reserve(1, 4, 7), Verdict::Promised, "the first five are enough");
        let verdict = reserve(2, 2, 7);
        match later {
            true => {
                let key = TICKETS.to_vec();
                assert_eq!(verdict, Verdict::Later { key, past: past(8) });
                assert_eq!(reserve(3, 2, 8), Verdict::Promised, "the attempt before has none");
                let path = "reservations: a snapshot lacked what rights depend on";
                assert!(host.rare.contains(&path));
            }
            false => assert_eq!(verdict, Verdict::Promised),
        }
    }
}

#[test]
fn a_later_generation_has_no_rights_of_an_earlier_one() {
    for (without, sold) in [(None, false), (Some(Rule::BurnRemoved), true)] {
        let mut source = Host::new(0, None);
        source.change(Change::Exclude { site: site(2), term: Term(1) });
        source.change(Change::Remove { site: site(2), generation: 0, upto: Position(10) });
        let mut host = Host::in_generation(2, 1, without);
        let gap = Gap { cut: Timestamp(10), end: Timestamp(30) };
        let members = Members::new(SITES);
        let members = members.changed(site(0), site(2), MemberChange::Remove).unwrap();
        let members = members.closed(site(2), gap);
        let members = members.changed(site(0), site(2), MemberChange::Add).unwrap();
        source.machine.set_members(source.reading(), &members);
        // The list that the site has at first does not say where its generation begins.
        let first = Members::new(SITES).first(SITES);
        host.machine.set_members(host.reading(), &first);
        host.wait(Duration::from_millis(20));
        exchange([&mut source, &mut host]);
        assert!(host.machine.has_state(PARTITION));
        host.version = source.version;
        host.change(Change::Return { site: site(2), generation: 1 });
        let entries = || vec![(10, created(5))];
        host.tickets(2, (0, 10), entries());
        let known = |host: &Host| host.machine.known(PARTITION).map(|known| known[2]);
        assert_eq!(known(&host), Some(Position(0)));
        let members = members.joined(site(2), Timestamp(30));
        host.machine.set_members(host.reading(), &members);
        host.tickets(2, (0, 10), entries());
        let gift = Gift { from: owner(0), to: owner(2), amount: 2 };
        host.tickets(0, (0, 10), vec![(10, given(gift))]);
        assert_eq!(host.sell(1, 31), sold, "{without:?}");
        let now = Owner { generation: 1, ..owner(2) };
        let gift = Gift { from: owner(0), to: now, amount: 2 };
        host.tickets(0, (10, 20), vec![(20, given(gift))]);
        host.tickets(2, (10, 40), vec![(40, created(1))]);
        assert!(host.sell(3, 41));
    }
}
