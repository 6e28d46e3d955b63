//! The encodings of messages, records, parts and claims. They change only with their version.

use solera_machine::{PromiseId, Wire};
use solera_trial::{Allocations, Claim, Message, PROTOCOL, Part, Record, SetAside};

#[test]
fn messages_have_these_bytes() {
    let message = Message { run: 300, urgent: true, number: 5, before: 9 };
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(bytes, [0xac, 0x02, 1, 5, 9]);
    assert_eq!(Message::decode(PROTOCOL, &bytes), Some((message, &[][..])));
    assert_eq!(PROTOCOL.message_header(), [255, 1]);
    assert!(Message::decode(PROTOCOL, &bytes[..3]).is_none(), "it is not complete");
}

#[test]
fn records_and_claims_have_these_bytes() {
    let id = PromiseId { coordinator: 2, sequence: 300 };
    let set_aside = SetAside { key: b"k".to_vec(), claim: 7, units: 3 };
    let written = |record: Record| {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    };
    let promised = written(Record::Promised(id, vec![set_aside]));
    assert_eq!(promised, [255, 1, 0, 2, 0xac, 0x02, 1, 1, b'k', 7, 3]);
    assert_eq!(written(Record::Ended(id, true)), [255, 1, 1, 2, 0xac, 0x02, 1]);
    let mut part = Vec::new();
    Part(Allocations::default()).encode(&mut part);
    assert_eq!(part, [255, 1, 0, 0]);
    assert_eq!(Claim { id: 300, units: 2, steps: 1 }.encode(), [0xac, 0x02, 2, 1]);
}
