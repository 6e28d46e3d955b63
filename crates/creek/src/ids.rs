//! Names of streams and operations.

use std::fmt;

use serde::{Deserialize, Serialize};
use solera_consensus::CastId;
use solera_time::SiteId;

/// A run of a site's machine. The site broadcasts its operations of one run as one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId {
    /// The site.
    pub site: SiteId,
    /// Number of the start of the site's machine, from 1. The upper half is the site's generation.
    pub run: u64,
}

/// Number of bits of a run that count the starts within a generation of the site.
const RUN_BITS: u32 = 32;

/// Returns the number below those of all runs in a generation of a site.
pub(crate) fn before_runs(generation: u32) -> u64 {
    u64::from(generation) << RUN_BITS
}

/// Names an operation (Creek Alg. 1 l. 1, `id`). No operation ever gets the id of another one.
///
/// The paper's id is a pair of a replica and an event number. A replica that restarts could repeat
/// such a pair, so the id also has the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId {
    /// The site at which the operation was invoked.
    pub site: SiteId,
    /// The run of the site's machine, from 1.
    pub run: u64,
    /// Position in the stream of the run, from 1 without gaps (Creek Alg. 1 l. 5, `currEventNo`).
    pub event: u64,
}

impl StreamId {
    /// Returns the id of the operation at a position of the stream.
    pub fn at(self, event: u64) -> OperationId {
        OperationId { site: self.site, run: self.run, event }
    }

    /// Returns the generation of the site to which the run belongs.
    pub(crate) fn generation(self) -> u64 {
        self.run >> RUN_BITS
    }
}

impl OperationId {
    /// Returns the stream that contains the operation.
    pub fn stream(self) -> StreamId {
        StreamId { site: self.site, run: self.run }
    }
}

/// Returns the stream that contains the operation of a cast.
pub(crate) fn stream_of(cast: CastId) -> StreamId {
    StreamId { site: cast.site, run: cast.run }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.site, self.run, self.event)
    }
}
