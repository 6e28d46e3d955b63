//! Number and versions of the protocol.

use solera_machine::Protocol;

/// UniStore's number and versions. `tests/golden` has samples of all encodings.
pub const PROTOCOL: Protocol =
    Protocol { number: 1, name: "UniStore", oldest_messages: 2, messages: 2, records: 1, pasts: 1 };
