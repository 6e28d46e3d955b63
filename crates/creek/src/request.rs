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
    /// The cast of a strong operation; `None` for a weak one.
    pub cast: Option<Cast>,
}

/// Place of a strong operation among those of its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cast {
    /// Its number in the run, from 1.
    pub number: u64,
    /// In the first cast of a run: the run and the number of the site's last cast before it, if
    /// there was one. It must be committed first.
    pub after: Option<(u64, u64)>,
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
        self.cast.map(|cast| CastId { site, run, number: cast.number })
    }

    /// Returns the id of the cast of an earlier run of the site that must be committed first.
    pub(crate) fn after(&self) -> Option<CastId> {
        let (run, number) = self.cast?.after?;
        Some(CastId { site: self.id.site, run, number })
    }

    /// Returns whether the numbers can be those of a request: streams, their events and their
    /// casts begin at 1, and a request does not depend on itself.
    pub(crate) fn is_plausible(&self) -> bool {
        let is_cast = |cast: Cast| {
            let follows = cast.after.is_none_or(|(run, number)| run < self.id.run && number > 0);
            cast.number > 0 && follows
        };
        let numbered = self.id.run > 0 && self.id.event > 0 && self.cast.is_none_or(is_cast);
        numbered && !self.context.contains(self.id)
    }
}
