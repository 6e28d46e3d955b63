//! Restoring a file to a new cluster.

use std::io::Read;
use std::time::Duration;

use solera::{Client, Error, Value};

use crate::Progress;
use crate::entry::{Content, Entry, Tally};
use crate::file::{BackupReader, ReadError};
use crate::scan::{Scan, ScanError};
use crate::spaces::{Difference, SpaceInfo, differences, space_of, spaces};

/// Approximate number of commands, and of bytes, that are sent at once.
const BATCH_COMMANDS: usize = 256;
const BATCH_BYTES: usize = 256 * 1024;
/// Maximal number of elements or fields that one command adds.
const COMMAND_ITEMS: usize = 512;

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
    // A key of level `pcpsi` is written at its home, so these are written many at a time.
    let (mut batch, mut together) = (Vec::new(), Vec::new());
    let (mut bytes, mut done) = (0, 0);
    let mut readable = Tally::default();
    while let Some(entry) = backup.next_entry()? {
        done += u64::from(!entry.continued);
        let space = space_of(&there, &entry.key);
        if space.is_none_or(SpaceInfo::is_held) {
            readable.add(&entry);
        }
        let is_of_occult = space.is_some_and(SpaceInfo::is_of_occult);
        for command in commands(entry) {
            bytes += command.iter().map(Vec::len).sum::<usize>();
            match is_of_occult && command[0] == b"SET" {
                true => together.push(command),
                false => batch.push(command),
            }
        }
        if batch.len() + together.len() >= BATCH_COMMANDS || bytes >= BATCH_BYTES {
            batch.extend(joined(std::mem::take(&mut together)));
            send(client, &batch).await?;
            progress(Progress::Keys(done, total));
            (batch, bytes) = (Vec::new(), 0);
        }
    }
    batch.extend(joined(together));
    send(client, &batch).await?;
    let tally = *backup.tally();
    if !allow.keys {
        compare(client, &readable, &mut progress).await?;
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

/// Returns the commands that restore an entry.
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

/// Returns one command for several of `SET`.
fn joined(sets: Vec<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    let first = (!sets.is_empty()).then(|| b"MSET".to_vec())?;
    let pairs = sets.into_iter().flat_map(|command| command.into_iter().skip(1));
    Some(std::iter::once(first).chain(pairs).collect())
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

/// Reads the cluster and compares it with the restored entries.
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
