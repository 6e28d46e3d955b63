//! The trace of a run, line by line: to compare two runs of a seed, and to read after a failure.

use std::fmt;

/// Collects the lines of a run, or nothing.
#[derive(Debug, Default)]
pub struct Trace {
    lines: Option<Vec<u8>>,
}

impl Trace {
    /// Creates a trace that keeps no lines and costs nothing.
    pub fn off() -> Self {
        Trace { lines: None }
    }

    /// Creates a trace that keeps every line.
    pub fn on() -> Self {
        Trace { lines: Some(Vec::new()) }
    }

    /// Returns the lines so far.
    pub fn bytes(&self) -> &[u8] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// Appends a line if lines are kept.
    pub(crate) fn write(&mut self, at: u64, text: fmt::Arguments<'_>) {
        if let Some(lines) = &mut self.lines {
            use std::io::Write;
            // Writing to memory cannot fail.
            let _ = writeln!(lines, "{:>12} {text}", at / 1000);
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.lines.is_some()
    }
}
