//! Arbitrary bytes in place of journal records and parts of checkpoints of a speculative space are
//! rejected, or decoded to a value that can be encoded and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use solera_creek::{PROTOCOL, Part, Record};
use solera_procedures::{KeyValue, Procedure, Returned};

type Decoded = Part<Procedure, KeyValue, Returned>;

fn encoded(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    PROTOCOL.append_record(value, &mut bytes);
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    // Protocol and version, which precede each record and part.
    let bytes = &[encoded(&()), bytes.to_vec()].concat();
    if let Ok(record) = Record::<Procedure>::decode(bytes) {
        let again = encoded(&record);
        let record = Record::<Procedure>::decode(&again).expect("it was encoded just now");
        assert_eq!(encoded(&record).len(), again.len());
    }
    if let Ok(part) = Decoded::decode(bytes) {
        let again = encoded(&part);
        let part = Decoded::decode(&again).expect("it was encoded just now");
        // The elements of a set have no order.
        assert_eq!(encoded(&part).len(), again.len());
    }
});
