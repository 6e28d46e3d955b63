//! The bytes of messages. They change with their version only.

use solera_machine::Wire;
use solera_trial::{Message, PROTOCOL};

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
