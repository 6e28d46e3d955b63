//! Checks that a data directory is complete, for tools that read it without a node.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use solera_journal::{RealDisk, is_begun};

use super::{FILE, LOCK, NEXT, UNFINISHED, read};
use crate::peers::PEERS;

/// Depth of a node's part within a directory that nodes share: a folder of its own in its site's
/// folder.
const PARTS_DEPTH: usize = 2;

/// Returns problems that would prevent a node from starting with the data in `dir`, apart from
/// problems inside the journals: a missing or damaged description, or missing journals that it
/// names.
///
/// `dir` is a data directory, one that several nodes share, or a folder in either. In the last case
/// only journals below it are checked. Changes nothing.
///
/// # Errors
/// The directory cannot be read.
pub fn examine(dir: &Path) -> io::Result<Vec<String>> {
    let dir = dir.canonicalize()?;
    let mut problems = Vec::new();
    for root in roots(&dir)? {
        problems.extend(examine_root(&root, &dir)?);
    }
    Ok(problems)
}

/// Returns the data directory that contains the folder, or those that it contains.
fn roots(dir: &Path) -> io::Result<Vec<PathBuf>> {
    // A worker's folder is in its site's folder, which is in the directory.
    if let Some(root) = dir.ancestors().take(3).find(|folder| is_root(folder)) {
        return Ok(vec![root.to_owned()]);
    }
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    for _ in 0..PARTS_DEPTH {
        let mut below = Vec::new();
        for folder in folders {
            for entry in fs::read_dir(folder)? {
                below.push(entry?.path());
            }
        }
        below.retain(|path| path.is_dir() && !path.ends_with(super::LOST_AND_FOUND));
        let (roots, others): (Vec<_>, _) = below.into_iter().partition(|path| is_root(path));
        found.extend(roots);
        folders = others;
    }
    found.sort();
    Ok(found)
}

/// Returns whether a folder is a data directory. Other files identify one whose description is
/// missing.
fn is_root(folder: &Path) -> bool {
    [FILE, UNFINISHED, NEXT, LOCK, PEERS].iter().any(|name| folder.join(name).is_file())
}

fn examine_root(root: &Path, dir: &Path) -> io::Result<Vec<String>> {
    let file = root.join(FILE).display().to_string();
    let about = match read(root, FILE).map_err(io::Error::other)? {
        Some(Ok(about)) => about,
        Some(Err(error)) => return Ok(vec![format!("{file} is damaged: {error}")]),
        None => return Ok(without_description(root, &file)?.into_iter().collect()),
    };
    if let Err(reason) = about.must_be_readable() {
        return Ok(vec![format!("{}: {reason}", root.display())]);
    }
    let mut problems = Vec::new();
    for name in &about.holds {
        let folder = root.join(name);
        let shown = folder.display();
        if !folder.starts_with(dir) && !dir.starts_with(&folder) {
            continue;
        }
        match is_begun(&RealDisk::new(&folder)) {
            Ok(true) => {}
            Ok(false) => problems.push(format!("{shown} holds no journal, and {FILE} names one")),
            Err(_) if !folder.exists() => {
                problems.push(format!("{shown} is missing, and {FILE} names a journal there"));
            }
            Err(error) => problems.push(format!("{shown} cannot be read: {error}")),
        }
    }
    Ok(problems)
}

/// Returns a problem if the description is missing. It may be missing only before the first start
/// is complete.
fn without_description(root: &Path, file: &str) -> io::Result<Option<String>> {
    if matches!(read(root, UNFINISHED).map_err(io::Error::other)?, Some(Ok(_))) {
        return Ok(None);
    }
    let mut holds_data = root.join(PEERS).exists();
    for entry in fs::read_dir(root)? {
        holds_data |= entry?.path().join("worker-0").is_dir();
    }
    Ok(holds_data.then(|| format!("{file} is missing")))
}
