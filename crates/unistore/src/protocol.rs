//! The number and versions of the protocol.

use solera_machine::Protocol;

/// UniStore, in bytes. `tests/golden` has samples of all that is written.
pub const PROTOCOL: Protocol =
    Protocol { number: 1, name: "UniStore", oldest_messages: 2, messages: 2, records: 1, pasts: 1 };
