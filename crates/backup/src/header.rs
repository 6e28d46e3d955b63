//! Where a backup is from.

use serde::{Deserialize, Serialize};

use crate::spaces::SpaceInfo;

/// What a backup says of its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The cluster's name.
    pub cluster: String,
    /// The site that was asked.
    pub site: String,
    /// All sites of the cluster, in order.
    pub sites: Vec<String>,
    /// How many partitions it has.
    pub partitions: u16,
    /// Its spaces.
    pub spaces: Vec<SpaceInfo>,
    /// The snapshot: per site, the time up to which its transactions are in it. A hybrid timestamp,
    /// as in tokens.
    pub snapshot: Vec<u64>,
    /// When it was begun, by the clock of whoever asked, in milliseconds since 1970.
    pub taken_ms: u64,
    /// The version that wrote the file.
    pub solera: String,
}
