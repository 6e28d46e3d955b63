//! Origin of a backup.

use serde::{Deserialize, Serialize};

use crate::finals::Finals;
use crate::scan::unistore_only;
use crate::spaces::SpaceInfo;

/// Origin of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the cluster.
    pub cluster: String,
    /// Site that the backup was taken at.
    pub site: String,
    /// All sites of the cluster, in order.
    pub sites: Vec<String>,
    /// Number of partitions.
    pub partitions: u16,
    /// Spaces of the cluster.
    pub spaces: Vec<SpaceInfo>,
    /// Numbers of the protocols whose spaces the backup contains. Backups of older builds contain
    /// those of UniStore only, and lack this field.
    #[serde(default = "unistore_only")]
    pub protocols: Vec<u8>,
    /// The snapshot: for each site, the time up to which it contains the site's transactions, as a
    /// hybrid timestamp like those in tokens.
    pub snapshot: Vec<u64>,
    /// State of the space of level `speculative`; `None` if there is no such space, or the backup
    /// lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative: Option<Finals>,
    /// Time when the backup was begun, by the clock of the caller, in milliseconds since 1970.
    pub taken_ms: u64,
    /// Version of Solera that wrote the file.
    pub solera: String,
}

impl Header {
    /// Returns whether the backup contains the keys of a space.
    pub fn contains(&self, space: &SpaceInfo) -> bool {
        self.protocols.contains(&space.protocol_number)
    }
}
