//! Taking a backup of a running cluster.

use std::io::{self, Write};

use solera::Client;

use crate::Progress;
use crate::entry::Tally;
use crate::file::BackupWriter;
use crate::header::Header;
use crate::scan::{Scan, ScanError};
use crate::spaces::spaces;

/// Reason why no backup was taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The snapshot cannot be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The file cannot be written.
    #[error("the backup cannot be written: {0}")]
    Write(io::Error),
}

impl From<solera::Error> for TakeError {
    fn from(error: solera::Error) -> Self {
        TakeError::Scan(error.into())
    }
}

impl From<io::Error> for TakeError {
    fn from(error: io::Error) -> Self {
        TakeError::Write(error)
    }
}

/// Writes the content of a cluster: one causal snapshot of the client's site, one snapshot of the
/// keys of level `pcpsi`, and the final state of the keys of level `speculative`. `taken_ms` is the
/// time, in milliseconds since 1970.
///
/// The backup contains all writes that the site had acknowledged before, and the writes of other
/// sites that were visible at this site. If operations on keys of level `speculative` do not become
/// final in time, the backup lacks them, and its header has their number. Returns the sink; the
/// caller must make it durable.
///
/// # Errors
/// The snapshot cannot be read completely, or the sink cannot be written. In this case, the bytes
/// written so far are not a backup.
pub async fn take<W: Write>(
    client: &mut Client,
    sink: W,
    taken_ms: u64,
    mut progress: impl FnMut(Progress),
) -> Result<(W, Header, Tally), TakeError> {
    let spaces = spaces(client).await?;
    let mut scan = Scan::begin(client).await?;
    let known = scan.introduction.clone();
    let header = Header {
        cluster: known.cluster,
        site: known.site,
        sites: known.sites,
        partitions: known.partitions,
        spaces,
        protocols: known.protocols,
        snapshot: known.snapshot,
        speculative: known.speculative,
        taken_ms,
        solera: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut writer = BackupWriter::new(sink, &header)?;
    let mut done = 0;
    for partition in 0..header.partitions {
        scan.partition(partition, |entry| {
            writer.write(&entry)?;
            if !entry.continued {
                done += 1;
                progress(Progress::Keys(done, known.keys));
            }
            Ok::<_, TakeError>(())
        })
        .await?;
    }
    scan.end().await?;
    let (sink, tally) = writer.finish()?;
    Ok((sink, header, tally))
}
