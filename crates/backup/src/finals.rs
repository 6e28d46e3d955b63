//! State of a space of level `speculative`, as a backup contains it.

use serde::{Deserialize, Serialize};

/// State of the space of level `speculative`: that after its final operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finals {
    /// Number of the final operations.
    #[serde(rename = "final")]
    pub finals: u64,
    /// Digest of these operations and their results, as SOLERA.STATE shows it.
    pub digest: String,
    /// Number of operations that the site had executed before the backup, and whose effects the
    /// backup lacks because they were not final.
    pub left_out: u64,
}
