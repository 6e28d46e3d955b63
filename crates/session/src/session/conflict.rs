//! What an aborted strong transaction leaves for its next attempt.

use std::time::{Duration, Instant};

use solera_time::Vector;
use solera_unistore::Claim;

/// For how long commands that are known in full are run again after conflicts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What the session's last strong transaction leaves for its next attempt, whether that is the
/// server's or the client's.
#[derive(Debug)]
pub(crate) struct Conflict {
    claim: Claim,
    /// Before this is visible here, another attempt is in vain.
    pub(crate) lacks: Option<Vector>,
    pub(crate) since: Instant,
}

impl Conflict {
    pub(crate) fn new(claim: Claim, lacks: Option<Vector>) -> Self {
        Conflict { claim, lacks, since: Instant::now() }
    }

    /// What the next attempt shows; nothing if the client has let too much time pass.
    pub(crate) fn claim(&self) -> Option<Claim> {
        (self.since.elapsed() < PATIENCE).then_some(self.claim)
    }
}
