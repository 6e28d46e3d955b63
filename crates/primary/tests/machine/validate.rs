//! Ill-formed messages are rejected before a machine gets them, and long ones can be split.

use solera_data::{Key, Value};
use solera_machine::{Address, Machine, Now, PartitionId, Topology, Wire};
use solera_membership::Members;
use solera_primary::{
    Answer, Body, Config, Done, End, Entry, Epoch, Input, List, Message, Output, Piece, Position,
    Primary, Request, Seen, Update,
};
use solera_time::{MAX_SITES, Monotonic, Physical, SiteId};

/// The second site has two workers, the others one each.
fn topology() -> Topology {
    Topology { partitions: 8, workers: vec![1, 2, 1] }
}

fn at(site: u8, worker: u8) -> Address {
    Address { site: SiteId(site), worker }
}

const A: Address = Address { site: SiteId(0), worker: 0 };
/// The worker with the odd partitions.
const ODD: Address = Address { site: SiteId(1), worker: 1 };
const EVEN: Address = Address { site: SiteId(1), worker: 0 };
const PARTITION: PartitionId = PartitionId(3);

fn key(partition: u16) -> Key {
    let mut keys = (0..).map(|number| Key::from(format!("k{number}").as_str()));
    keys.find(|key| PartitionId::of(key, 8) == PartitionId(partition)).unwrap()
}

fn message(body: Body) -> Message {
    Message { list: List::of(&Members::new(3)), body }
}

fn is_valid(from: Address, to: Address, body: &Body) -> bool {
    message(body.clone()).validate(from, to, &topology())
}

fn request() -> Request {
    Request { number: 5, oldest: 5, key: key(3), update: Update::Delete }
}

fn entry() -> Entry {
    Entry { origin: ODD, number: 7, oldest: 7, key: key(3), update: Update::Delete }
}

fn epoch(number: u64, after: u64) -> Epoch {
    Epoch { number, after }
}

fn append(after: u64, entries: Vec<Entry>, epochs: Vec<Epoch>) -> Body {
    Body::Append { partition: PARTITION, after, entries, epochs, settled: 0, last: after }
}

fn with_epochs(epochs: &[Epoch]) -> [Body; 2] {
    let end = Some(End { seen: Vec::new(), epochs: epochs.to_vec() });
    let piece = Piece { applied: 9, place: 0, values: Vec::new(), end };
    [append(0, Vec::new(), epochs.to_vec()), Body::Piece(PARTITION, piece)]
}

fn piece(key: Key, at: u64, origin: Address) -> Body {
    let seen = vec![(origin, Seen::default())];
    let end = Some(End { seen, epochs: vec![epoch(0, 0)] });
    let values = vec![(key, Value::from("v"), at)];
    Body::Piece(PARTITION, Piece { applied: 9, place: 0, values, end })
}

/// One valid message of each variant between A and the worker of odd partitions, in both
/// directions.
fn good() -> Vec<Body> {
    let result = Ok(Done { position: Position::default(), number: Some(1) });
    vec![
        Body::Forward(vec![request(), request()]),
        Body::Answers(vec![Answer { number: 5, result }]),
        append(4, vec![entry(), entry()], vec![epoch(0, 0), epoch(2, 4), epoch(3, 4)]),
        Body::Stored { partition: PARTITION, applied: 3, asks: false },
        Body::Ask(PARTITION),
        Body::Take(PARTITION, 3),
        piece(key(3), 9, ODD),
    ]
}

/// The bodies that name a partition.
fn about_a_partition() -> Vec<Body> {
    good().into_iter().filter(|it| !matches!(it, Body::Forward(_) | Body::Answers(_))).collect()
}

#[test]
fn valid_messages_fit() {
    for body in good() {
        assert!(is_valid(A, ODD, &body) && is_valid(ODD, A, &body), "{body:?}");
        assert!(is_valid(A, at(2, 0), &body), "{body:?}");
    }
    for body in with_epochs(&[epoch(0, 0)]) {
        assert!(is_valid(A, ODD, &body));
    }
}

#[test]
fn a_message_within_a_site_is_refused() {
    for body in good() {
        for worker in [ODD, EVEN] {
            assert!(!is_valid(worker, ODD, &body), "{body:?}");
        }
        assert!(!is_valid(A, A, &body), "{body:?}");
    }
}

#[test]
fn unknown_workers_and_sites_are_refused() {
    for body in good() {
        for unknown in [at(0, 1), at(1, 2), at(3, 0), at(255, 0)] {
            for known in [A, ODD, at(2, 0)] {
                assert!(!is_valid(unknown, known, &body), "from {unknown:?}: {body:?}");
                assert!(!is_valid(known, unknown, &body), "to {unknown:?}: {body:?}");
            }
        }
    }
}

#[test]
fn a_partition_that_the_sender_or_the_receiver_does_not_own_is_refused() {
    for body in about_a_partition() {
        assert!(!is_valid(EVEN, A, &body), "{body:?}");
        assert!(!is_valid(A, EVEN, &body), "{body:?}");
    }
    let unknown = PartitionId(9);
    for body in [Body::Ask(unknown), Body::Take(unknown, 0)] {
        assert!(!is_valid(A, ODD, &body), "{body:?}");
    }
    assert!(!is_valid(A, EVEN, &Body::Forward(vec![request()])));
    let other = Request { key: key(2), ..request() };
    assert!(is_valid(A, EVEN, &Body::Forward(vec![other.clone()])));
    assert!(!is_valid(A, ODD, &Body::Forward(vec![request(), other])));
}

#[test]
fn keys_of_another_partition_are_refused() {
    // These partitions belong to the same worker.
    let other = Entry { key: key(5), ..entry() };
    let epochs = vec![epoch(0, 0)];
    assert!(is_valid(A, ODD, &append(0, vec![entry()], epochs.clone())));
    assert!(!is_valid(A, ODD, &append(0, vec![entry(), other], epochs)));
    assert!(!is_valid(A, ODD, &piece(key(5), 9, ODD)));
}

#[test]
fn numbers_below_the_oldest_are_refused() {
    let entry = Entry { oldest: 8, ..entry() };
    assert!(!is_valid(A, ODD, &append(0, vec![entry], vec![epoch(0, 0)])));
    assert!(!is_valid(A, ODD, &Body::Forward(vec![request(), Request { oldest: 6, ..request() }])));
}

#[test]
fn origins_that_are_no_workers_are_refused() {
    for origin in [at(0, 1), at(1, 2), at(3, 0)] {
        let entry = Entry { origin, ..entry() };
        assert!(!is_valid(A, ODD, &append(0, vec![entry], vec![epoch(0, 0)])), "{origin:?}");
        assert!(!is_valid(A, ODD, &piece(key(3), 9, origin)), "{origin:?}");
    }
}

#[test]
fn epochs_that_are_out_of_order_or_missing_are_refused() {
    let (first, second) = (epoch(1, 4), epoch(2, 6));
    for epochs in [
        &[][..],
        &[second, first],
        &[first, first],
        &[first, epoch(1, 6)],
        &[first, epoch(2, 3)],
        &[first, second, epoch(2, 7)],
    ] {
        for body in with_epochs(epochs) {
            assert!(!is_valid(A, ODD, &body), "{body:?}");
        }
    }
    for body in with_epochs(&[first, second]) {
        assert!(is_valid(A, ODD, &body), "{body:?}");
    }
}

#[test]
fn places_that_cannot_be_are_refused() {
    let epochs = vec![epoch(0, 0)];
    assert!(is_valid(A, ODD, &append(1 << 62, vec![entry()], epochs.clone())));
    assert!(!is_valid(A, ODD, &append(u64::MAX, vec![entry()], epochs.clone())));
    assert!(!is_valid(A, ODD, &append(u64::MAX - 1, vec![entry(), entry()], epochs)));
    assert!(!is_valid(A, ODD, &piece(key(3), 10, ODD)), "a value is later than its piece");
}

#[test]
fn a_list_of_too_many_sites_is_refused() {
    let body = Body::Ask(PARTITION);
    for (sites, fine) in [(MAX_SITES, true), (MAX_SITES + 1, false)] {
        let message = Message { list: List::of(&Members::new(sites)), body: body.clone() };
        assert_eq!(message.validate(A, ODD, &topology()), fine, "{sites} sites");
    }
}

// Splitting.

/// Splits a message until no piece of it can be split, and returns the pieces in the order in which
/// they are sent.
fn cut(mut message: Message) -> Vec<Message> {
    match message.split() {
        Some(second) => [cut(message), cut(second)].concat(),
        None => vec![message],
    }
}

/// Returns a follower whose partition has its home at A, and that home's `Append` of `count`
/// updates.
fn follower_and_append(count: u64) -> (Primary, PartitionId, Message) {
    let topology = std::sync::Arc::new(Topology { partitions: 8, workers: vec![1, 1] });
    let machine = |site| Primary::new(Config::new(at(site, 0), topology.clone()), &Members::new(2));
    let home = machine(0);
    let mut homes = home.applied().filter(|(.., is_home)| *is_home);
    let (partition, ..) = homes.next().expect("A is the home of some");
    let entry = |number| Entry {
        origin: A,
        number,
        oldest: number,
        key: key(partition.0),
        update: Update::Append(Value::from(format!("{number} ").as_str())),
    };
    let body = Body::Append {
        partition,
        after: 0,
        entries: (0..count).map(entry).collect(),
        epochs: vec![epoch(0, 0)],
        settled: count - 1,
        last: count,
    };
    let list = List::of(&Members::new(2));
    (machine(1), partition, Message { list, body })
}

fn give(machine: &mut Primary, message: Message) -> Vec<Body> {
    let now = Now { monotonic: Monotonic(1), physical: Physical(1) };
    assert!(message.validate(A, at(1, 0), &Topology { partitions: 8, workers: vec![1, 1] }));
    machine.handle(now, Input::Message { from: A, generation: 0, message });
    let mut sent = Vec::new();
    while let Some(output) = machine.poll_output() {
        if let Output::Send { message, .. } = output {
            sent.push(message.body);
        }
    }
    sent
}

#[test]
fn the_pieces_of_a_long_append_are_the_whole_one_after_the_other() {
    for count in [2, 3, 11, 256] {
        let (mut whole, partition, message) = follower_and_append(count);
        let mut in_pieces = follower_and_append(count).0;
        let pieces = cut(message.clone());
        assert_eq!(pieces.len() as u64, count);
        let answer = give(&mut whole, message);
        let mut answers = Vec::new();
        for piece in pieces {
            answers.extend(give(&mut in_pieces, piece));
        }
        // Each piece is followed by the next, so that the follower requests nothing.
        assert!(!answers.iter().any(|it| matches!(it, Body::Stored { asks: true, .. })));
        assert_eq!(answers.last(), answer.last());
        let key = key(partition.0);
        assert!(whole.value(&key).is_some());
        assert_eq!(in_pieces.value(&key), whole.value(&key));
        assert!(in_pieces.applied().eq(whole.applied()));
        assert_eq!((whole.unsettled(), in_pieces.unsettled()), (1, 1));
    }
}

#[test]
fn requests_and_answers_are_cut_and_nothing_is_lost() {
    let requests: Vec<Request> =
        (0..7).map(|number| Request { number, oldest: 0, ..request() }).collect();
    let pieces = cut(message(Body::Forward(requests.clone())));
    let found = pieces.into_iter().flat_map(|it| match it.body {
        Body::Forward(requests) => requests,
        other => panic!("{other:?}"),
    });
    assert!(found.eq(requests));
    let result = Ok(Done { position: Position::default(), number: None });
    let answers: Vec<Answer> = (0..7).map(|number| Answer { number, result }).collect();
    let pieces = cut(message(Body::Answers(answers.clone())));
    let found = pieces.into_iter().flat_map(|it| match it.body {
        Body::Answers(answers) => answers,
        other => panic!("{other:?}"),
    });
    assert!(found.eq(answers));
}

#[test]
fn what_has_no_place_to_cut_stays_whole() {
    for body in good() {
        let mut message = message(body.clone());
        match body {
            Body::Forward(_) | Body::Append { .. } => continue,
            _ => assert_eq!((message.split(), &message.body), (None, &body)),
        }
        assert_eq!(message.too_large(), None);
    }
}
