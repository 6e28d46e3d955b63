//! What a check finds.

use std::fmt;
use std::path::{Path, PathBuf};

/// Something to mend: where it is, what it is, and how it is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, relative to the workspace.
    pub(crate) file: PathBuf,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) mend: String,
}

impl Finding {
    pub(crate) fn new(
        file: &Path,
        line: usize,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Finding { file: file.to_owned(), line, what: what.into(), mend: mend.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file.display(), self.line, self.what, self.mend)
    }
}
