//! Operations as the sites broadcast them.

use serde::{Deserialize, Serialize};
use solera_consensus::CastId;
use solera_time::Timestamp;

use crate::context::Context;
use crate::ids::OperationId;

/// An invoked operation (Creek Alg. 1 l. 1, `Req`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request<O> {
    /// Its name.
    pub id: OperationId,
    /// Its place among tentative operations. Greater than the timestamps of all operations that
    /// the site had received.
    pub timestamp: Timestamp,
    /// The operation. `None` reads and writes nothing; a strong one still commits its context.
    pub operation: Option<O>,
    /// Its causal context: the weak operations that precede it at its site, and the committed
    /// strong ones. The paper gives one to strong operations only.
    pub context: Context,
    /// Number of the cast of a strong operation; `None` for a weak one.
    pub cast: Option<u64>,
    /// In the first operation of a run: the last run of the site before it, and the number of that
    /// run's operations; `None` if there were none. A site delivers the operations of a run after
    /// those of the earlier ones.
    pub previous: Option<(u64, u64)>,
}

/// Place of a request in the tentative order (Creek Alg. 1 l. 2–3).
pub(crate) type Key = (Timestamp, OperationId);

impl<O> Request<O> {
    pub(crate) fn is_strong(&self) -> bool {
        self.cast.is_some()
    }

    /// Returns the id of its cast; `None` for a weak operation.
    pub fn cast(&self) -> Option<CastId> {
        let OperationId { site, run, .. } = self.id;
        self.cast.map(|number| CastId { site, run, number })
    }

    /// Returns whether the numbers can be those of a request: streams, their events and their
    /// casts begin at 1, and a request does not depend on itself.
    pub(crate) fn is_plausible(&self) -> bool {
        let numbered = self.id.run > 0 && self.id.event > 0 && self.cast != Some(0);
        let follows = |(run, events): (u64, u64)| {
            run > 0 && run < self.id.run && events > 0 && self.id.event == 1
        };
        numbered && self.previous.is_none_or(follows) && !self.context.contains(self.id)
    }
}
