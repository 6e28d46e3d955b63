//! State that a session keeps after an abort of a strong transaction, for the next attempt.

use std::time::{Duration, Instant};

use solera_time::Vector;
use solera_unistore::Claim;

/// Maximal time for which the server retries a command after conflicts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Abort of the session's last strong transaction, for the next attempt of the server or the
/// client.
#[derive(Debug)]
pub(crate) struct Conflict {
    claim: Claim,
    /// Snapshot that must be visible here before another attempt can succeed.
    pub(crate) lacks: Option<Vector>,
    pub(crate) since: Instant,
}

impl Conflict {
    pub(crate) fn new(claim: Claim, lacks: Option<Vector>) -> Self {
        Conflict { claim, lacks, since: Instant::now() }
    }

    /// Returns the claim for the next attempt; `None` if the client has let too much time pass.
    pub(crate) fn claim(&self) -> Option<Claim> {
        (self.since.elapsed() < PATIENCE).then_some(self.claim)
    }
}
