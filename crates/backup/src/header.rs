//! Origin of a backup.

use serde::{Deserialize, Serialize};

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
    /// The snapshot: for each site, the time up to which it contains the site's transactions, as a
    /// hybrid timestamp like those in tokens.
    pub snapshot: Vec<u64>,
    /// Time when the backup was begun, by the clock of the caller, in milliseconds since 1970.
    pub taken_ms: u64,
    /// Version of Solera that wrote the file.
    pub solera: String,
}
