//! Single members, with every message under the test's control.

use std::cell::RefCell;
use std::collections::BTreeSet;

use solera_consensus::{
    Batch, CastId, Checkpoint, Config, Held, Member, Message, NotRestored, Output, Predicate,
    Record, Run, Slot, Snapshot,
};
use solera_election::Ballot;
use solera_random::Random;
use solera_time::{Monotonic, SiteId};

type Body = u64;

const SECOND: u64 = 1_000_000_000;

/// The casts of a single run whose bodies a member has.
#[derive(Default)]
struct Bodies(RefCell<BTreeSet<CastId>>);

impl Predicate<Body> for Bodies {
    fn holds(&self, id: CastId) -> bool {
        self.0.borrow().contains(&id)
    }

    fn bodies(&self, ids: &[CastId]) -> Vec<Body> {
        ids.iter().map(|id| id.number).collect()
    }

    fn bytes(&self, _: &Body) -> usize {
        100
    }
}

fn id(number: u64) -> CastId {
    Run { site: SiteId(2), number: 0 }.cast(number)
}

fn batch(numbers: &[u64]) -> Batch {
    numbers.iter().map(|number| id(*number)).collect()
}

fn ballot(round: u64, leader: u8) -> Ballot {
    Ballot { configuration: 0, round, leader: SiteId(leader) }
}

struct Site {
    member: Member<Body>,
    bodies: Bodies,
    now: u64,
    journal: Vec<Record>,
}

impl Site {
    fn with(me: u8, sites: usize, journal: Vec<Record>, part_bytes: usize) -> Site {
        let config = Config { part_bytes, ..Config::new(SiteId(me), sites, SiteId(0)) };
        let mut member = Member::new(config, Monotonic(0));
        for record in &journal {
            member.restore(record.clone()).unwrap();
        }
        let mut site = Site { member, bodies: Bodies::default(), now: SECOND, journal };
        site.member.begin(Monotonic(SECOND), &site.bodies, true);
        site
    }

    fn new(me: u8, sites: usize) -> Site {
        let mut site = Site::with(me, sites, Vec::new(), 1000);
        site.outputs();
        site
    }

    /// Returns the outputs but records, which it keeps.
    fn outputs(&mut self) -> Vec<Output<Body>> {
        let mut outputs = Vec::new();
        while let Some(output) = self.member.poll_output() {
            match output {
                Output::Record(record) => self.journal.push(record),
                Output::Reached(_) => {}
                output => outputs.push(output),
            }
        }
        outputs
    }

    fn receive(&mut self, from: u8, message: Message<Body>) -> Vec<Output<Body>> {
        self.member.on_message(Monotonic(self.now), &self.bodies, SiteId(from), message);
        self.outputs()
    }

    fn learn(&mut self, number: u64) -> Vec<Output<Body>> {
        self.bodies.0.borrow_mut().insert(id(number));
        self.member.learn(Monotonic(self.now), &self.bodies, id(number));
        self.outputs()
    }

    fn restarted(&self) -> Site {
        let mut site = Site::with(1, 3, self.journal.clone(), 1000);
        site.outputs();
        site
    }
}

fn send(to: u8, message: Message<Body>) -> Output<Body> {
    Output::Send { to: SiteId(to), message }
}

fn accept(ballot: Ballot, slot: u64, numbers: &[u64]) -> Message<Body> {
    Message::Accept { ballot, slot: Slot(slot), batch: batch(numbers) }
}

fn new_ballot(ballot: Ballot, attempt: u32, part: u32) -> Message<Body> {
    Message::NewBallot { ballot, delivered: Slot(0), attempt, part }
}

/// A proposal waits for the body. Slots are accepted in any order, and delivered in theirs.
#[test]
fn proposals_wait_for_their_bodies_and_deliveries_for_earlier_slots() {
    let mut site = Site::new(1, 3);
    let term = ballot(0, 0);
    assert!(
        !site.receive(0, accept(term, 1, &[1])).iter().any(|it| matches!(it, Output::Send { .. }))
    );
    site.bodies.0.borrow_mut().insert(id(2));
    let outputs = site.receive(0, accept(term, 2, &[2]));
    let accepted = |slot| Message::Accepted { ballot: term, slot: Slot(slot) };
    assert_eq!(outputs, [send(0, accepted(2)), send(2, accepted(2))]);
    let outputs = site.learn(1);
    let deliver = |slot, number| Output::Deliver { slot: Slot(slot), ids: vec![id(number)] };
    assert_eq!(outputs, [send(0, accepted(1)), send(2, accepted(1)), deliver(1, 1), deliver(2, 2)]);
}

/// A quorum decides before this member has the body. It delivers when it has the body.
#[test]
fn a_decided_slot_waits_for_its_body() {
    let mut site = Site::new(1, 5);
    let term = ballot(0, 0);
    site.receive(0, accept(term, 1, &[1]));
    for from in [2, 3, 4] {
        let accepted = Message::Accepted { ballot: term, slot: Slot(1) };
        assert_eq!(site.receive(from, accepted), []);
    }
    assert_eq!(site.learn(1), [Output::Deliver { slot: Slot(1), ids: vec![id(1)] }]);
}

/// A member that has promised a higher ballot does not accept a proposal that it has kept.
#[test]
fn a_kept_proposal_of_a_former_term_is_dropped() {
    let mut site = Site::new(1, 3);
    site.receive(0, accept(ballot(0, 0), 1, &[1]));
    site.receive(2, new_ballot(ballot(1, 2), 1, 0));
    assert_eq!(site.learn(1), []);
}

/// Promises and acceptances survive a restart.
#[test]
fn promises_and_acceptances_survive_a_restart() {
    let mut site = Site::new(1, 3);
    site.learn(1);
    site.receive(0, accept(ballot(0, 0), 1, &[1]));
    site.receive(2, new_ballot(ballot(3, 2), 1, 0));
    let mut site = site.restarted();
    let stale = Message::Stale { ballot: ballot(3, 2) };
    assert_eq!(site.receive(0, accept(ballot(2, 0), 2, &[2])), [send(0, stale)]);
    // The slot was decided: the leader's proposal and the own acceptance are a quorum of three.
    let outputs = site.receive(0, new_ballot(ballot(4, 0), 1, 0));
    let [Output::Send { message: Message::Promise { slots, .. }, .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(*slots, [Held { slot: Slot(1), accepted: None, batch: batch(&[1]) }]);
}

/// A promise is cut into parts. Each request is answered once, also if it arrives twice or late.
#[test]
fn a_promise_is_sent_in_parts_once_per_request() {
    let mut site = Site::with(1, 5, Vec::new(), 150);
    site.outputs();
    for number in 1..=3 {
        site.learn(number);
        site.receive(0, accept(ballot(0, 0), number, &[number]));
    }
    let term = ballot(1, 2);
    let mut slots = Vec::new();
    let mut bodies = Vec::new();
    let mut part = 0;
    loop {
        let outputs = site.receive(2, new_ballot(term, part + 1, part));
        let [Output::Send { message: Message::Promise { version, parts, .. }, .. }] = &outputs[..]
        else {
            panic!("{outputs:?}")
        };
        assert_eq!(*version, 1);
        let parts = *parts;
        assert_eq!(site.receive(2, new_ballot(term, part + 1, part)), []);
        let Some(Output::Send {
            message: Message::Promise { slots: some, bodies: more, .. }, ..
        }) = outputs.into_iter().next()
        else {
            unreachable!()
        };
        assert!(100 * more.len() + 48 * some.len() <= 150);
        slots.extend(some);
        bodies.extend(more);
        part += 1;
        if part == parts {
            break;
        }
    }
    assert!(part > 2);
    assert_eq!(slots.len(), 3);
    assert_eq!(bodies, [1, 2, 3]);
}

/// A candidate becomes leader with a quorum's promises, takes the bodies, and proposes again when
/// it has them. It fills the slot in between.
#[test]
fn a_new_leader_proposes_again_and_fills_gaps() {
    let mut site = Site::new(1, 3);
    site.receive(0, Message::TakeOver);
    let term = ballot(1, 1);
    let slots = vec![
        Held { slot: Slot(1), accepted: Some(ballot(0, 0)), batch: batch(&[1]) },
        Held { slot: Slot(3), accepted: Some(ballot(0, 0)), batch: batch(&[2]) },
    ];
    let promise = Message::Promise {
        ballot: term,
        version: 1,
        part: 0,
        parts: 1,
        established: 0,
        slots,
        bodies: vec![1, 2],
    };
    let outputs = site.receive(2, promise);
    assert!(outputs.contains(&Output::Bodies(vec![1, 2])), "{outputs:?}");
    assert!(outputs.contains(&Output::Leader(SiteId(1))));
    assert!(outputs.contains(&send(0, accept(term, 2, &[]))));
    assert!(!outputs.contains(&send(0, accept(term, 1, &[1]))));
    site.bodies.0.borrow_mut().extend([id(1), id(2)]);
    site.member.recheck(Monotonic(site.now), &site.bodies);
    let outputs = site.outputs();
    assert!(outputs.contains(&send(0, accept(term, 1, &[1]))), "{outputs:?}");
    assert!(outputs.contains(&send(0, accept(term, 3, &[2]))));
    // The next cast has the next slot.
    assert!(site.learn(3).contains(&send(2, accept(term, 4, &[3]))));
}

/// Members that lost the acceptances ask for the decisions, and get them in bounded messages.
#[test]
fn decisions_are_sent_in_bounded_messages() {
    let mut site = Site::with(0, 1, Vec::new(), 100);
    (1..=5).for_each(|number| drop(site.learn(number)));
    let outputs = site.receive(1, Message::Ask { after: Slot(1) });
    let slots = vec![(Slot(2), batch(&[2])), (Slot(3), batch(&[3]))];
    assert_eq!(outputs, [send(1, Message::Decided { slots })]);
}

/// A member that has received a part of the decisions asks for the next ones at once.
#[test]
fn a_member_asks_for_decisions_until_it_has_all() {
    let mut site = Site::new(1, 3);
    let (term, decided) = (ballot(0, 0), Slot(4));
    let status = Message::Status { ballot: term, decided, everywhere: Slot(0), established: true };
    site.receive(0, status.clone());
    site.now += SECOND / 5;
    let ask = |after| Message::Ask { after: Slot(after) };
    assert!(site.receive(0, status).contains(&send(0, ask(0))));
    let slots = |from, to| (from..=to).map(|slot| (Slot(slot), Batch::default())).collect();
    let outputs = site.receive(0, Message::Decided { slots: slots(1, 2) });
    assert!(outputs.contains(&send(0, ask(2))), "{outputs:?}");
    let outputs = site.receive(0, Message::Decided { slots: slots(3, 4) });
    assert!(outputs.iter().all(|it| matches!(it, Output::Deliver { .. })), "{outputs:?}");
}

/// A leader repeats a proposal that it does not know to be decided.
#[test]
fn the_proposal_of_a_decided_slot_is_answered_with_the_decision() {
    let mut site = Site::new(1, 3);
    site.learn(1);
    let term = ballot(0, 0);
    site.receive(0, accept(term, 1, &[1]));
    let decided = Message::Decided { slots: vec![(Slot(1), batch(&[1]))] };
    assert_eq!(site.receive(0, accept(term, 1, &[1])), [send(0, decided)]);
}

/// A member keeps an id that is in two slots, and an id that comes before an earlier one of its
/// run, in the log, and delivers each once, in the order of the run.
#[test]
fn ids_are_delivered_once_and_in_the_order_of_their_run() {
    let mut site = Site::new(1, 3);
    (1..=3).for_each(|number| drop(site.learn(number)));
    let slots = [vec![2], vec![1], vec![1, 2, 2], vec![3]];
    let slots = slots.iter().zip(1..).map(|(ids, slot)| (Slot(slot), batch(ids))).collect();
    let outputs = site.receive(0, Message::Decided { slots });
    let ids: Vec<Vec<CastId>> = outputs
        .into_iter()
        .map(|output| match output {
            Output::Deliver { ids, .. } => ids,
            output => panic!("{output:?}"),
        })
        .collect();
    assert_eq!(ids, [vec![], vec![id(1)], vec![id(2)], vec![id(3)]]);
    let mut again = site.restarted();
    assert_eq!(again.member.delivered(), Slot(4));
    assert_eq!(again.learn(3), []);
}

/// A site that will join decides nothing, and no slot is forgotten that it has not delivered.
#[test]
fn a_leader_forgets_nothing_that_a_learner_may_lack() {
    let (mut site, term) = (Site::new(0, 3), ballot(0, 0));
    site.member.set_learners(vec![(SiteId(3), 1)]);
    let decide = |site: &mut Site, number| {
        site.learn(number);
        site.receive(1, Message::Accepted { ballot: term, slot: Slot(number) });
    };
    let report = |delivered| Message::Report { ballot: term, delivered: Slot(delivered) };
    let members_report = |site: &mut Site, delivered| {
        (1..3).for_each(|member| drop(site.receive(member, report(delivered))));
        site.member.delivered_everywhere()
    };
    decide(&mut site, 1);
    assert_eq!(members_report(&mut site, 1), Slot(0));
    site.now += SECOND;
    site.member.on_deadline(Monotonic(site.now), &site.bodies);
    let outputs = site.outputs();
    let is_status = |output: &Output<Body>| {
        matches!(output, Output::Send { to: SiteId(3), message: Message::Status { .. } })
    };
    assert!(outputs.iter().any(is_status), "{outputs:?}");
    site.receive(3, report(1));
    assert_eq!(site.member.delivered_everywhere(), Slot(1));
    // Another generation of the site may lack what the former one had.
    site.member.set_learners(vec![(SiteId(3), 2)]);
    decide(&mut site, 2);
    assert_eq!(members_report(&mut site, 2), Slot(1));
    site.member.set_learners(Vec::new());
    assert_eq!(members_report(&mut site, 2), Slot(2));
}

/// A checkpoint that was taken while the member went on, and the records since it began, contain
/// what the member knows.
#[test]
fn a_checkpoint_and_later_records_restore_a_member() {
    let mut site = Site::new(1, 5);
    let term = ballot(0, 0);
    (1..=6).for_each(|number| drop(site.learn(number)));
    for slot in 1..=4 {
        site.receive(0, accept(term, slot, &[slot]));
    }
    let began = site.journal.len();
    let mut checkpoint = Checkpoint::default();
    let mut parts = Vec::new();
    let mut slot = 1;
    while let Some(part) = site.member.next_part(&mut checkpoint, 1) {
        parts.push(part);
        site.receive(2, Message::Accepted { ballot: term, slot: Slot(slot) });
        site.receive(3, accept(ballot(slot, 3), 4 + slot, &[4 + slot]));
        slot += 1;
    }
    let config = Config::new(SiteId(1), 5, SiteId(0));
    let mut restored: Member<Body> = Member::new(config, Monotonic(0));
    parts.into_iter().for_each(|part| restored.restore_part(part));
    for record in &site.journal[began..] {
        restored.restore(record.clone()).unwrap();
    }
    assert_eq!(restored.delivered(), site.member.delivered());
    assert!(site.member.delivered() >= Slot(4));
    assert_eq!(restored.snapshot(), site.member.snapshot());
    let last = |member: &Member<Body>| {
        let mut checkpoint = Checkpoint::default();
        std::iter::from_fn(|| member.next_part(&mut checkpoint, 1)).last()
    };
    assert_eq!(last(&restored), last(&site.member));
}

/// A journal that lacks records is refused.
#[test]
fn a_journal_with_a_gap_is_refused() {
    let config = Config::new(SiteId(1), 3, SiteId(0));
    let mut member: Member<Body> = Member::new(config, Monotonic(0));
    let delivered = |slot, batch| Record::Delivered { slot: Slot(slot), batch };
    assert_eq!(member.restore(delivered(1, None)), Err(NotRestored::NoBatch(Slot(1))));
    let gap = NotRestored::Gap { after: Slot(0), found: Slot(2) };
    assert_eq!(member.restore(delivered(2, Some(batch(&[1])))), Err(gap));
}

fn any_message(random: &mut Random) -> Message<Body> {
    let number = |random: &mut Random| match random.below(4) {
        0 => random.below(4),
        1 => u64::MAX - random.below(2),
        2 => 1 << random.below(64),
        _ => random.below(1 << 17),
    };
    let slot = Slot(number(random));
    let other = Slot(number(random));
    let ballot = Ballot {
        configuration: random.below(3),
        round: if random.one_in(50) { number(random) } else { random.below(5) },
        leader: SiteId(random.below(7) as u8),
    };
    let ids = random.index(4);
    let batch: Batch = (0..ids)
        .map(|_| CastId { site: SiteId(2), run: random.below(2), number: number(random) })
        .collect();
    let accepted = random.one_in(2).then_some(ballot);
    let held = vec![Held { slot: other, accepted, batch: batch.clone() }];
    let small = |random: &mut Random| random.below(3) as u32;
    match random.below(13) {
        0 => Message::Accept { ballot, slot, batch },
        1 => Message::Accepted { ballot, slot },
        2 => Message::Status {
            ballot,
            decided: slot,
            everywhere: other,
            established: random.one_in(2),
        },
        3 => Message::Report { ballot, delivered: slot },
        4 => Message::Ask { after: slot },
        5 => Message::Decided { slots: vec![(slot, batch)] },
        6 => Message::Forgotten { upto: slot },
        7 => Message::Canvass { ballot },
        8 => Message::Support { ballot },
        9 => Message::NewBallot {
            ballot,
            delivered: slot,
            attempt: small(random),
            part: small(random),
        },
        10 => Message::Promise {
            ballot,
            version: small(random),
            part: small(random),
            parts: small(random),
            established: number(random),
            slots: held,
            bodies: vec![1],
        },
        11 => Message::Stale { ballot },
        _ => Message::TakeOver,
    }
}

/// No message causes a panic or work without end, whatever its content and sender.
#[test]
fn forged_messages_do_no_harm() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut site = Site::new(random.below(3) as u8, 3);
        for _ in 0..100 {
            site.now += random.below(SECOND / 4);
            match random.below(8) {
                0 => {
                    site.member.on_deadline(Monotonic(site.now), &site.bodies);
                }
                1 => drop(site.learn(random.below(6))),
                2 if random.one_in(4) => {
                    let members = SiteId::all(1 + random.index(7));
                    let number = random.below(4);
                    site.member.set_members(Monotonic(site.now), &site.bodies, number, members);
                }
                3 if random.one_in(8) => {
                    let delivered = Slot(random.below(1 << 40));
                    let snapshot = Snapshot { delivered, ..Snapshot::default() };
                    site.member.install(Monotonic(site.now), &site.bodies, snapshot);
                }
                _ => {
                    let message = any_message(&mut random);
                    site.receive(random.below(7) as u8, message);
                }
            }
            site.outputs();
        }
    }
}
