//! Arbitrary bytes under the name of a record or in a remote group are rejected, or read and
//! processed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::world::bench::{Bench, handle, is_commit};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use solera_mixt::any_bytes::read_any;
use solera_mixt::binding::Modules;
use solera_mixt::coordinator::{Ask, Next, Reply, Request};
use solera_mixt::executor::Clock;
use solera_mixt::outcome::Outcome;
use solera_mixt::record::Record;
use solera_mixt::remote_group::RemoteGroup;
use solera_mixt::store::StoreError;
use solera_program::value::{Handle, Value};

/// Version of the encoding of records, and their parts, as docs/formats/mixt.md lists them.
const ENCODING_VERSION: u8 = 5;
type Location = (String, String);
type Name = (String, String);
type Lease = (u32, u64, BTreeMap<String, String>);
type Worklist = BTreeMap<(Location, u64), (Location, u64)>;
type State = (u32, BTreeMap<u32, Vec<Value>>, Option<Value>, Worklist, BTreeSet<(String, Name)>);
type Users = BTreeMap<String, String>;
type Begun = (u64, String, String, Vec<Value>, Vec<(Location, u8, bool)>, u64, Users, Lease, bool);
type Ended = (Option<Location>, Vec<(String, Name)>, Vec<Location>, bool, Option<String>);

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Unit),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        ".{0,8}".prop_map(Value::string),
        vec(any::<u8>(), 0..8).prop_map(|bytes| Value::Bytes(bytes.into())),
        ("[a-z]{0,4}", ".{0,8}").prop_map(|(store, key)| {
            Value::Handle(Handle { store: store.into(), key: key.into() })
        }),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            option::of(inner.clone()).prop_map(|value| Value::Option(value.map(Arc::new))),
            vec(inner.clone(), 0..4).prop_map(Value::list),
            vec(inner.clone(), 0..4).prop_map(|values| Value::Struct(Arc::new(values))),
            btree_set(inner.clone(), 0..4).prop_map(|values| Value::Set(Arc::new(values))),
            btree_map(inner.clone(), inner, 0..4).prop_map(|pairs| Value::Map(Arc::new(pairs))),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    "[a-z:]{0,6}"
}

fn place() -> impl Strategy<Value = Location> {
    (text(), text())
}

fn lease() -> impl Strategy<Value = Lease> {
    (any::<u32>(), any::<u64>(), btree_map(text(), text(), 0..3))
}

fn state() -> impl Strategy<Value = State> {
    let tapes = btree_map(any::<u32>(), vec(value(), 0..3), 0..3);
    let worklist = btree_map((place(), any::<u64>()), (place(), any::<u64>()), 0..3);
    let noted = btree_set((text(), (text(), text())), 0..3);
    (any::<u32>(), tapes, option::of(value()), worklist, noted)
}

fn begun() -> impl Strategy<Value = Begun> {
    let bindings = vec((place(), 0..6_u8, any::<bool>()), 0..3);
    let args = vec(value(), 0..3);
    let users = btree_map(text(), text(), 0..3);
    (any::<u64>(), text(), text(), args, bindings, any::<u64>(), users, lease(), any::<bool>())
}

fn ended() -> impl Strategy<Value = Ended> {
    let marks = vec((text(), (text(), text())), 0..3);
    (option::of(place()), marks, vec(place(), 0..3), any::<bool>(), option::of(text()))
}

/// Returns a record's bytes. Its parts follow one another without a length.
fn written(parts: &(Begun, State, Ended)) -> Vec<u8> {
    postcard::to_extend(parts, vec![ENCODING_VERSION]).unwrap()
}

/// Returns real bytes: two tickets, and a remote group.
fn real(bench: &Bench) -> Vec<Vec<u8>> {
    let mut all = vec![ticket(bench, "one"), ticket(bench, "two")];
    let mut coordinator = bench.coordinator("both");
    coordinator.use_workers_of(["one".into()]);
    match coordinator.next(bench.clock.now_ms(), None) {
        Next::Ask(Ask::Store { request: Request::Execute(remote_group), .. }) => {
            all.push(remote_group.encode().to_vec());
        }
        other => panic!("{other:?}"),
    }
    all
}

/// Returns the ticket of a transaction. The answer to its commit at a database was lost, and
/// afterwards its databases were unreachable.
fn ticket(bench: &Bench, database: &str) -> Vec<u8> {
    let (mut coordinator, mut connections) = (bench.coordinator("both"), bench.connections());
    let lost = |at: &str, request: &Request| at == database && is_commit(request);
    bench.until(&mut coordinator, &mut connections, None, lost);
    let mut answer = Some(Err(StoreError::OutcomeUnknown("lost".to_owned())));
    loop {
        answer = Some(match coordinator.next(bench.clock.now_ms(), answer) {
            Next::Ask(Ask::Store { .. }) => Err(StoreError::Unavailable("gone".to_owned())),
            Next::Ask(Ask::Wait { ms }) => {
                bench.pass(ms);
                Ok(Reply::Done)
            }
            Next::Finished(Outcome::Incomplete { ticket: Some(ticket), .. }) => {
                return ticket.encode().to_vec();
            }
            Next::Finished(outcome) => panic!("{outcome}"),
        });
    }
}

#[test]
fn real_bytes_are_read_and_processed() {
    let bench = Bench::apart();
    let real = real(&bench);
    assert_eq!(real.len(), 3);
    assert!(real[..2].iter().all(|bytes| Record::decode(bytes).is_ok()));
    assert!(RemoteGroup::decode(&real[2]).is_ok());
    for bytes in &real {
        assert_eq!(bytes[0], ENCODING_VERSION);
        read_any(bytes, &bench.modules);
        // Every bit flipped, and every truncation.
        for place in 0..bytes.len() * 8 {
            let mut spoilt = bytes.clone();
            spoilt[place / 8] ^= 1 << (place % 8);
            read_any(&spoilt, &bench.modules);
        }
        for length in 0..bytes.len() {
            assert!(Record::decode(&bytes[..length]).is_err(), "{length}");
            read_any(&bytes[..length], &bench.modules);
        }
    }
}

/// Lengths that exceed the input are rejected before memory is allocated for them.
#[test]
fn lengths_beyond_the_input_are_rejected() {
    let long = [0xff, 0xff, 0xff, 0xff, 0x0f];
    for before in 0..40 {
        for byte in [0, 1, 7, 0x7f] {
            let bytes = [&[ENCODING_VERSION], &vec![byte; before][..], &long.repeat(20)].concat();
            read_any(&bytes, &Arc::new(Modules::new()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn records_survive_encoding_and_decoding(
        parts in (begun(), state(), ended()), cut in any::<Index>(),
    ) {
        let bytes = written(&parts);
        let record = Record::decode(&bytes).unwrap();
        prop_assert_eq!(&record.encode()[..], &bytes[..]);
        let ((id, module, transaction, _, _, began_ms, ..), _, (.., complete, failed)) = &parts;
        prop_assert_eq!(record.id().number(), *id);
        prop_assert_eq!(record.module(), module);
        prop_assert_eq!(record.transaction(), transaction);
        prop_assert_eq!(record.began_ms(), *began_ms);
        prop_assert_eq!(record.is_complete(), *complete);
        prop_assert_eq!(record.failed(), failed.as_deref());
        prop_assert!(Record::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn records_with_other_bytes_are_rejected_or_processed(
        parts in (begun(), state(), ended()),
        changes in vec((any::<Index>(), any::<u8>()), 1..6),
    ) {
        let bytes = changed(written(&parts), &changes);
        read_any(&bytes, &Bench::apart().modules);
    }

    /// Records of known transactions with arbitrary other content.
    #[test]
    fn records_that_do_not_match_their_transaction_are_rejected_or_processed(
        (mut begun, mut state, ended) in (begun(), state(), ended()),
        transaction in prop::sample::select(vec!["both", "limited", "endorsed", "read"]),
        next in 0..4_u32,
        (tape, tapes) in (0..4_u32, vec(value(), 0..3)),
    ) {
        (begun.1, begun.2) = ("test@1".to_owned(), transaction.to_owned());
        begun.3 = vec![handle("a"), handle("b")];
        state.0 = next;
        state.1.insert(tape, tapes);
        read_any(&written(&(begun, state, ended)), &Bench::apart().modules);
    }

    #[test]
    fn bytes_are_rejected_or_read(mut bytes in vec(any::<u8>(), 0..200), form in any::<bool>()) {
        if form {
            bytes.insert(0, ENCODING_VERSION);
        }
        read_any(&bytes, &Bench::apart().modules);
    }

    #[test]
    fn real_bytes_with_changes_are_rejected_or_processed(
        which in any::<Index>(),
        changes in vec((any::<Index>(), any::<u8>()), 1..6),
    ) {
        let bench = Bench::apart();
        let mut real = real(&bench);
        let bytes = real.swap_remove(which.index(real.len()));
        read_any(&changed(bytes, &changes), &bench.modules);
    }
}

fn changed(mut bytes: Vec<u8>, changes: &[(Index, u8)]) -> Vec<u8> {
    for (place, byte) in changes {
        let at = place.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes
}
