//! Commands of clients, and responses.

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::comparison::Divergence;
use crate::ids::OperationId;
use crate::past::Past;

/// Level of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// The first execution answers.
    Weak,
    /// The execution at the final place answers; the first one gives a tentative response.
    Strong,
}

/// A command of a client, on operations `O` with responses `R`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command<O, R> {
    /// Invokes an operation (Creek Alg. 1 l. 15).
    Invoke {
        /// The operation.
        operation: O,
        /// Its level.
        level: Level,
        /// Whether the client wants all responses: those of later executions where they differ, and
        /// the stable one of a weak operation too.
        track: bool,
    },
    /// Awaits the stable response to an operation of any site. It is [`Response::Stable`];
    /// [`Response::Forgotten`] if the site keeps the response no longer; [`Response::Unknown`] if
    /// the site knows that there is no such operation. A site that does not know that waits.
    Await {
        /// The operation.
        id: OperationId,
    },
    /// Awaits the next response to an operation of any site: [`Response::Revised`] with a tentative
    /// one that differs from the last one that the client has seen, or what `Await` returns.
    Follow {
        /// The operation.
        id: OperationId,
        /// Last response that the client has seen; `None` if it has seen none.
        seen: Option<R>,
    },
    /// Waits until the site has delivered all operations of a past: they are tentative or
    /// committed here. The response is [`Response::Reached`].
    Attach {
        /// The past.
        past: Past,
    },
    /// Waits until all operations of a past are final here. The response is
    /// [`Response::Reached`].
    Barrier {
        /// The past.
        past: Past,
    },
    /// Asks a site to lead the conditional atomic broadcast, if a majority supports it. The
    /// response is [`Response::Reached`] at once.
    Lead {
        /// The site.
        site: SiteId,
    },
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The operation is final, and the site keeps no response to it: it is not among the last
    /// [`Limits::history`](crate::Limits::history) ones, or it has no effect.
    Forgotten {
        /// The operation.
        id: OperationId,
    },
    /// The operation, or one of the past, is lost with a site that has left the cluster.
    Lost {
        /// The operation.
        id: OperationId,
    },
    /// No operation has this id, and none will have it.
    Unknown {
        /// The id.
        id: OperationId,
    },
    /// The site has reached the past, or has sent the request.
    Reached,
    /// The results of the site differ from those of so many others that it gives none.
    Diverged(Divergence),
}

/// A response that may differ from the final one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tentative<R> {
    /// The operation; `None` for a weak one that only reads, which no other site executes.
    pub id: Option<OperationId>,
    /// The response.
    pub response: R,
    /// Operations that were executed before this one, if the configuration requires a claim.
    pub claim: Option<Claim>,
    /// Of a revised response, the operation because of which this one reads something else than in
    /// the execution whose response a client got last. It is the operation whose version this one
    /// reads now and did not read then; or, if this one reads an older version now, the operation
    /// whose version it read then. It has got another place, or has been executed again, or is new
    /// at the site. Of several such operations, it is the first one in the order. `None` if the
    /// site does not know it: because no client has got a response since the machine started, or
    /// because the site has forgotten the former versions.
    pub cause: Option<OperationId>,
}
