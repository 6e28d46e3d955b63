//! Commands of clients, and responses.

use serde::{Deserialize, Serialize};

use crate::ids::OperationId;

/// Level of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The first execution answers.
    Weak,
    /// The execution at the final place answers; the first one gives a tentative response.
    Strong,
}

/// Invokes an operation (Creek Alg. 1 l. 15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command<O> {
    /// The operation.
    pub operation: O,
    /// Its level.
    pub level: Level,
    /// Whether the client wants all responses: those of later executions where they differ, and the
    /// stable one of a weak operation too.
    pub track: bool,
}

/// The operations that a site has executed before another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Number of committed operations, which come first, in committed order.
    pub committed: u64,
    /// The tentative operations after them.
    pub tentative: Vec<OperationId>,
}

/// A response to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response<R> {
    /// Response of the first execution (Creek Alg. 1 l. 67, l. 71).
    Tentative(Tentative<R>),
    /// Response of a later execution that differs from the previous one.
    Revised(Tentative<R>),
    /// Response at the final place (Creek Alg. 1 l. 56, l. 73).
    Stable {
        /// The operation.
        id: OperationId,
        /// Its position in the final order, from 1.
        position: u64,
        /// The response.
        response: R,
    },
    /// The operation has not been and will not be executed, because the tentative list is full.
    Busy,
}

/// A response that may differ from the final one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tentative<R> {
    /// The operation; `None` for a weak one that only reads, which no other site executes.
    pub id: Option<OperationId>,
    /// The response.
    pub response: R,
    /// What was executed before the operation, if the configuration requires it.
    pub claim: Option<Claim>,
}
