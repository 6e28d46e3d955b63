//! From a file to a new cluster.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::time::Duration;

use solera::{Client, Error, Value};

use crate::Progress;
use crate::entry::{Content, Entry, Tally};
use crate::file::{BackupReader, ReadError};
use crate::header::SpaceInfo;
use crate::scan::{Scan, ScanError};
use crate::take::spaces;

/// So many commands are sent at once, and about so many bytes.
const BATCH_COMMANDS: usize = 256;
const BATCH_BYTES: usize = 256 * 1024;
/// A command adds so many elements or fields.
const COMMAND_ITEMS: usize = 512;

/// Why a backup was not restored, or not surely.
#[derive(Debug)]
pub enum RestoreError {
    /// The backup cannot be read. If that is found on the way, the cluster holds a part of it.
    Read(ReadError),
    /// The cluster holds so many keys already; nothing was written.
    NotEmpty(u64),
    /// The cluster promises something else of some keys; nothing was written.
    Spaces {
        /// The spaces of the backup.
        backup: Vec<SpaceInfo>,
        /// Those of the cluster.
        cluster: Vec<SpaceInfo>,
    },
    /// The cluster refused or was lost on the way: it holds a part of the backup.
    Cluster(ScanError),
    /// What was read back is something else.
    Differs {
        /// What was restored.
        expected: Box<Tally>,
        /// What the cluster holds.
        found: Box<Tally>,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Read(error) => write!(f, "the backup: {error}"),
            RestoreError::NotEmpty(keys) => write!(f, "the cluster holds {keys} keys already"),
            RestoreError::Spaces { backup, cluster } => write!(
                f,
                "the backup's spaces are {}, and the cluster's {}",
                Promises(backup),
                Promises(cluster)
            ),
            RestoreError::Cluster(error) => error.fmt(f),
            RestoreError::Differs { expected, found } => write!(
                f,
                "the cluster holds something else than was restored ({} keys, {} elements and fields \
                 and {} bytes instead of {}, {} and {}); did somebody else write?",
                found.keys(),
                found.elements + found.fields,
                found.bytes,
                expected.keys(),
                expected.elements + expected.fields,
                expected.bytes
            ),
        }
    }
}

/// Spaces as people read them.
struct Promises<'a>(&'a [SpaceInfo]);

impl fmt::Display for Promises<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, space) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}'{}' {}", space.prefix, space.level)?;
        }
        Ok(())
    }
}

impl std::error::Error for RestoreError {}

impl From<ReadError> for RestoreError {
    fn from(error: ReadError) -> Self {
        RestoreError::Read(error)
    }
}

impl From<ScanError> for RestoreError {
    fn from(error: ScanError) -> Self {
        RestoreError::Cluster(error)
    }
}

impl From<Error> for RestoreError {
    fn from(error: Error) -> Self {
        RestoreError::Cluster(error.into())
    }
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// How much.
    pub tally: Tally,
    /// Whether all of it was read back and found to be the same.
    pub compared: bool,
    /// Whether the loss of f sites can no longer undo it.
    pub durable: bool,
}

/// Writes a backup into an empty cluster with the same spaces, reads it back, and waits up to `patience`
/// until it is durable at other sites. With `force` it does not matter what the cluster holds, nor
/// what its spaces are; then nothing is read back.
///
/// Nobody else should use the cluster meanwhile: keys appear one by one. The whole file should have
/// been read before, so that damage is found while nothing is written.
///
/// # Errors
/// See [`RestoreError`].
pub async fn restore<R: Read>(
    client: &mut Client,
    mut backup: BackupReader<R>,
    force: bool,
    patience: Duration,
    total: u64,
    mut progress: impl FnMut(Progress),
) -> Result<Restored, RestoreError> {
    if !force {
        check_cluster(client, backup.header().spaces.clone()).await?;
    }
    let (mut batch, mut bytes, mut done) = (Vec::new(), 0, 0);
    while let Some(entry) = backup.next_entry()? {
        done += u64::from(!entry.continued);
        for command in commands(entry) {
            bytes += command.iter().map(Vec::len).sum::<usize>();
            batch.push(command);
        }
        if batch.len() >= BATCH_COMMANDS || bytes >= BATCH_BYTES {
            send(client, &batch).await?;
            progress(Progress::Keys(done, total));
            (batch, bytes) = (Vec::new(), 0);
        }
    }
    send(client, &batch).await?;
    let tally = *backup.tally();
    if !force {
        compare(client, &tally, &mut progress).await?;
    }
    progress(Progress::Waiting);
    let durable = match client.barrier(Some(patience)).await {
        Ok(()) => true,
        Err(error) if matches!(error.code(), Some("TIMEOUT" | "TOOFEW")) => false,
        Err(error) => return Err(error.into()),
    };
    Ok(Restored { tally, compared: !force, durable })
}

async fn check_cluster(client: &mut Client, backup: Vec<SpaceInfo>) -> Result<(), RestoreError> {
    let cluster = spaces(client).await?;
    let promises = |spaces: &[SpaceInfo]| -> BTreeSet<(String, String)> {
        let promise = |space: &SpaceInfo| (space.prefix.clone(), space.level.clone());
        spaces.iter().map(promise).collect()
    };
    if promises(&backup) != promises(&cluster) {
        return Err(RestoreError::Spaces { backup, cluster });
    }
    match client.command(&["DBSIZE"]).await? {
        Value::Integer(0) => Ok(()),
        Value::Integer(keys) => Err(RestoreError::NotEmpty(keys as u64)),
        _ => Err(ScanError::Answer("no number of keys").into()),
    }
}

/// The commands that make an entry.
fn commands(entry: Entry) -> Vec<Vec<Vec<u8>>> {
    let Entry { key, content, .. } = entry;
    let command = |name: &str, items: Vec<Vec<u8>>| {
        let mut command = vec![name.as_bytes().to_vec(), key.clone()];
        command.extend(items);
        command
    };
    match content {
        Content::String(value) => vec![command("SET", vec![value])],
        Content::Set(elements) => {
            elements.chunks(COMMAND_ITEMS).map(|some| command("SADD", some.to_vec())).collect()
        }
        Content::Hash(pairs) => pairs
            .chunks(COMMAND_ITEMS)
            .map(|some| {
                let flat = some.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
                command("HSET", flat.collect())
            })
            .collect(),
    }
}

async fn send(client: &mut Client, batch: &[Vec<Vec<u8>>]) -> Result<(), RestoreError> {
    let borrowed: Vec<Vec<&[u8]>> =
        batch.iter().map(|command| command.iter().map(Vec::as_slice).collect()).collect();
    for reply in client.pipeline(&borrowed).await? {
        if let Value::Error(text) = reply {
            return Err(Error::server(&text).into());
        }
    }
    Ok(())
}

/// Reads the cluster and compares it with what was restored.
async fn compare(
    client: &mut Client,
    expected: &Tally,
    progress: &mut impl FnMut(Progress),
) -> Result<(), RestoreError> {
    let mut scan = Scan::begin(client).await?;
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
