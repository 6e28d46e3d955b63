//! The mark of a data directory whose node has begun to join and was not accepted yet.
//!
//! A node that joins with a wrong generation is refused. Its directory must not stay bound to that
//! generation, or the node could not start again with the right one. No data is lost: a node of a
//! joining site serves no client before other sites accept it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use solera_journal::{Disk, RealDisk};

use super::{About, FILE, UNFINISHED, read, replace};

/// File that exists until another site has accepted the joining node.
pub(super) const MARK: &str = "solera-data.joining";

/// Marks a new directory, durably.
pub(super) fn mark(root: &Path) -> io::Result<()> {
    fs::File::create(root.join(MARK))?.sync_all()?;
    fs::File::open(root)?.sync_all()
}

/// Removes the mark, durably, if there is one.
pub(super) fn unmark(root: &Path) -> io::Result<()> {
    match fs::remove_file(root.join(MARK)) {
        Ok(()) => fs::File::open(root)?.sync_all(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Discards the contents of a directory if it is marked and has another generation than `now`,
/// which describes the data that the process is to hold. Other differences are left to later
/// checks.
pub(super) fn begin_anew(root: &Path, now: &About) -> Result<(), String> {
    if !root.join(MARK).exists() {
        return Ok(());
    }
    let begun = [FILE, UNFINISHED].map(|name| read(root, name));
    for (name, found) in [FILE, UNFINISHED].into_iter().zip(begun) {
        let Some(Ok(found)) = found? else { continue };
        if found.generation == now.generation || found.check(now, None).is_err() {
            continue;
        }
        let failed = |error: io::Error| {
            format!("the data of a refused join as generation {} stays: {error}", found.generation)
        };
        // If this is interrupted, the directory is that of an interrupted first start.
        RealDisk::new(root).rename(name, UNFINISHED).map_err(failed)?;
        for folder in &found.holds {
            match fs::remove_dir_all(root.join(folder)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        replace(root, UNFINISHED, now)?;
    }
    Ok(())
}
