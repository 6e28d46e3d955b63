//! Clients and transactions that wait for tokens or rights.

use solera_machine::{PromiseId, RequestId};

/// Request that waits for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    Client(RequestId),
    /// The guard of a transaction, for the claim with this number.
    Reservation(PromiseId, usize),
}
