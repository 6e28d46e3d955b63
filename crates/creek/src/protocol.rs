//! Number and versions of the protocol.

use solera_machine::Protocol;

/// The number and versions of this protocol.
pub const PROTOCOL: Protocol =
    Protocol { number: 5, name: "creek", oldest_messages: 1, messages: 1, records: 1, pasts: 1 };
