//! Findings of checks.

use std::fmt;
use std::path::{Path, PathBuf};

/// A violation of a rule: its location, its description, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, relative to the workspace.
    pub(crate) file: PathBuf,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// Description of the violation.
    pub(crate) what: String,
    /// How to fix it.
    pub(crate) fix: String,
}

impl Finding {
    pub(crate) fn new(
        file: &Path,
        line: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding { file: file.to_owned(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file.display(), self.line, self.what, self.fix)
    }
}
