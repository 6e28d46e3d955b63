//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose content was not written by hand.
const NOT_OURS: &[&str] =
    &["target", ".git", "node_modules", "corpus", "artifacts", "proptest-regressions", "shared"];

/// A text file: its path below the root, and its content.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) path: PathBuf,
    pub(crate) content: String,
}

impl Text {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }
}

/// Returns all text files below `root/folder`, in the order of their paths. Omits files that are
/// not UTF-8.
pub(crate) fn texts(root: &Path, folder: &str) -> Vec<Text> {
    let mut paths = Vec::new();
    collect(&root.join(folder), &mut paths);
    paths.sort();
    let text = |path: PathBuf| {
        let content = fs::read_to_string(&path).ok().filter(|text| !text.contains('\0'))?;
        Some(Text { path: path.strip_prefix(root).unwrap_or(&path).to_owned(), content })
    };
    paths.into_iter().filter_map(text).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Symbolic links are not followed, because they may lead out of the tree or form a cycle.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && !NOT_OURS.iter().any(|other| name == *other) {
            collect(&entry.path(), paths);
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
}
