//! Restoring a file to a new cluster.

use std::io::Read;
use std::time::Duration;

use solera::{Client, Error, Value};

use crate::Progress;
use crate::batch::Batch;
use crate::entry::Tally;
use crate::file::{BackupReader, ReadError};
use crate::finals::Finals;
use crate::scan::{Scan, ScanError};
use crate::spaces::{Difference, SpaceInfo, differences, space_of, spaces};

/// Reason why a backup was not restored, or not verified.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup cannot be read. If the error is in the middle, the cluster holds a part of the
    /// backup.
    #[error("cannot read the backup: {0}")]
    Read(ReadError),
    /// The cluster already holds this number of keys; nothing was written.
    #[error("the cluster is not empty: number of its keys: {0}")]
    NotEmpty(u64),
    /// The cluster's spaces differ from the backup's; nothing was written.
    #[error("the cluster's spaces differ from the backup's; number of differences: {}", .0.len())]
    Spaces(Vec<Difference>),
    /// The cluster returned an error or was lost in the middle; it holds a part of the backup.
    #[error(transparent)]
    Cluster(#[from] ScanError),
    /// Everything is written, but it cannot be compared, because operations of the space of level
    /// `speculative` are not final.
    #[error(
        "the backup is written, but cannot be compared; number of operations of space '{space}' \
         that are not final: {operations}; they will be when enough sites are connected"
    )]
    NotFinal {
        /// Name of the space.
        space: String,
        /// Number of these operations.
        operations: u64,
    },
    /// The content that was read back differs.
    #[error(
        "the cluster's content differs from what was restored ({} keys, {} elements and fields \
         and {} bytes instead of {}, {} and {}); did another client write?",
        .found.keys(),
        .found.elements + .found.fields,
        .found.bytes,
        .expected.keys(),
        .expected.elements + .expected.fields,
        .expected.bytes
    )]
    Differs {
        /// Tally of what was restored.
        expected: Box<Tally>,
        /// Tally of what the cluster holds.
        found: Box<Tally>,
    },
}

impl From<ReadError> for RestoreError {
    fn from(error: ReadError) -> Self {
        RestoreError::Read(error)
    }
}

impl From<Error> for RestoreError {
    fn from(error: Error) -> Self {
        RestoreError::Cluster(error.into())
    }
}

/// Exceptions that a restore allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// Whether the cluster may hold keys. Nothing is read back then.
    pub keys: bool,
    /// Whether the cluster's spaces may differ from the backup's.
    pub other_spaces: bool,
}

/// Result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Differences between the cluster's spaces and the backup's; empty unless allowed.
    pub differences: Vec<Difference>,
    /// Tally of the restored entries.
    pub tally: Tally,
    /// Whether everything was read back and compared.
    pub compared: bool,
    /// Number of keys that were not read back, because they are in spaces of the cluster whose keys
    /// no snapshot contains.
    pub unread: u64,
    /// Whether the restored keys survive the loss of f sites.
    pub durable: bool,
}

/// Writes a backup into an empty cluster with the same spaces, reads it back, and waits up to
/// `patience` until it is durable at other sites. `allow` lists exceptions.
///
/// The cluster should have no other clients meanwhile, because keys appear one by one. The caller
/// should have read the whole file before, so that damage is found before anything is written.
///
/// # Errors
/// See [`RestoreError`].
pub async fn restore<R: Read>(
    client: &mut Client,
    mut backup: BackupReader<R>,
    allow: Allow,
    patience: Duration,
    total: u64,
    mut progress: impl FnMut(Progress),
) -> Result<Restored, RestoreError> {
    let there = spaces(client).await?;
    let differences = differences(&backup.header().spaces, &there);
    if !allow.other_spaces && !differences.is_empty() {
        return Err(RestoreError::Spaces(differences));
    }
    if !allow.keys {
        require_empty(client).await?;
    }
    let mut batch = Batch::new(allow.keys);
    let mut done = 0;
    let mut readable = Tally::default();
    while let Some(entry) = backup.next_entry()? {
        done += u64::from(!entry.continued);
        let space = space_of(&there, &entry.key);
        if space.is_none_or(SpaceInfo::is_held) {
            readable.add(&entry);
        }
        batch.push(entry, space);
        if batch.is_full() {
            batch.send(client).await?;
            progress(Progress::Keys(done, total));
        }
    }
    batch.send(client).await?;
    let tally = *backup.tally();
    if !allow.keys {
        compare(client, &there, &readable, &mut progress).await?;
    }
    progress(Progress::Waiting);
    let durable = match client.barrier(Some(patience)).await {
        Ok(()) => true,
        Err(error) if matches!(error.code(), Some("TIMEOUT" | "TOOFEW")) => false,
        Err(error) => return Err(error.into()),
    };
    let unread = tally.keys() - readable.keys();
    Ok(Restored { differences, tally, compared: !allow.keys, unread, durable })
}

async fn require_empty(client: &mut Client) -> Result<(), RestoreError> {
    match client.command(&["DBSIZE"]).await? {
        Value::Integer(0) => Ok(()),
        Value::Integer(keys) => Err(RestoreError::NotEmpty(keys as u64)),
        _ => Err(ScanError::Answer("DBSIZE returned no number").into()),
    }
}

/// Reads the cluster and compares it with the restored entries.
async fn compare(
    client: &mut Client,
    spaces: &[SpaceInfo],
    expected: &Tally,
    progress: &mut impl FnMut(Progress),
) -> Result<(), RestoreError> {
    let mut scan = Scan::begin(client).await?;
    if let Some(Finals { left_out: operations @ 1.., .. }) = scan.introduction.speculative {
        let space = spaces.iter().find(|space| space.is_speculative());
        let space = space.map_or_else(String::new, |space| space.name.clone());
        return Err(RestoreError::NotFinal { space, operations });
    }
    let mut found = Tally::default();
    for partition in 0..scan.introduction.partitions {
        scan.partition(partition, |entry| {
            found.add(&entry);
            progress(Progress::Compared(found.keys(), expected.keys()));
            Ok::<_, RestoreError>(())
        })
        .await?;
    }
    scan.end().await?;
    match found == *expected {
        true => Ok(()),
        false => {
            Err(RestoreError::Differs { expected: Box::new(*expected), found: Box::new(found) })
        }
    }
}
