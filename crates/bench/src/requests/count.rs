//! Counts instructions under callgrind and system calls under strace, by running this program again.
//!
//! Each kind is run twice, the second time with three times as many requests. The difference between the runs is that
//! of the requests alone: what starting and loading cost is the same in both.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::kind::Kind;
use super::server::serve;
use super::table::{Counted, Table};

/// Why requests cannot be counted.
#[derive(Debug)]
pub enum CountError {
    /// A tool cannot be run.
    Tool {
        /// Its name.
        tool: &'static str,
        /// Why not.
        error: std::io::Error,
    },
    /// What runs under a tool has failed.
    Failed {
        /// The tool's name.
        tool: &'static str,
        /// The requests.
        kind: Kind,
        /// What was said about the failure.
        reason: String,
    },
    /// This program cannot be run again, or its server cannot be reached.
    Server(String),
}

impl fmt::Display for CountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CountError::Tool { tool, error } => {
                write!(f, "{tool} cannot be run: {error}; on Debian, apt-get install {tool}")
            }
            CountError::Failed { tool, kind, reason } => {
                write!(f, "counting {kind} under {tool} failed: {}", reason.trim_end())
            }
            CountError::Server(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for CountError {}

/// Counts what the requests of these kinds cost. `tell` hears what is going on.
///
/// # Errors
/// See [`CountError`].
pub fn count(kinds: &[Kind], tell: &dyn Fn(&str)) -> Result<Table, CountError> {
    let mut rows = Vec::new();
    for kind in kinds {
        tell(&format!("counting {kind}"));
        let instructions = per_request(*kind, instructions)?;
        let system_calls = match kind {
            Kind::Client => 0.0,
            kind => per_request(*kind, system_calls)?,
        };
        rows.push(Counted { kind: *kind, instructions, system_calls });
    }
    Ok(Table { rows })
}

/// What one request adds to what is counted.
fn per_request(
    kind: Kind,
    count: fn(Kind, u64) -> Result<u64, CountError>,
) -> Result<f64, CountError> {
    what_one_adds(kind.times(), |times| count(kind, times))
}

/// What is counted for so many times and for three times as many: what one of them adds.
pub(super) fn what_one_adds(
    times: u64,
    count: impl Fn(u64) -> Result<u64, CountError>,
) -> Result<f64, CountError> {
    let (fewer, more) = (count(times)?, count(3 * times)?);
    Ok(more.saturating_sub(fewer) as f64 / (2 * times) as f64)
}

fn instructions(kind: Kind, times: u64) -> Result<u64, CountError> {
    let tool = "valgrind";
    let mut command = Command::new(tool);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this_program()?);
    command.args(["costs", "--of", kind.name(), "--times", &times.to_string()]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| CountError::Tool { tool, error })?;
    let said = successful(tool, kind, &output)?;
    collected(&said).ok_or(CountError::Failed { tool, kind, reason: said })
}

/// Instructions, as callgrind says at its end.
pub(super) fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

fn system_calls(kind: Kind, times: u64) -> Result<u64, CountError> {
    let tool = "strace";
    let failed = |reason: String| CountError::Failed { tool, kind, reason };
    let summary = Temporary::new(kind);
    let mut command = Command::new(tool);
    command.args(["-f", "-c", "-o"]).arg(&summary.0).arg(this_program()?);
    serve(command, (tool, kind), 1, async |server| server.connect().await?.run(kind, times).await)?;
    let summary = std::fs::read_to_string(&summary.0).map_err(|error| failed(error.to_string()))?;
    total_calls(&summary).ok_or_else(|| failed(format!("its summary has no total:\n{summary}")))
}

/// The calls in the last line of a summary: percent, seconds, microseconds for each call, calls, errors if any, `total`.
fn total_calls(summary: &str) -> Option<u64> {
    let line = summary.lines().rfind(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// A file that is removed when it is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(kind: Kind) -> Temporary {
        let name = format!("solera-costs-{}-{kind:?}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed is in a folder for what may be lost.
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) fn successful(
    tool: &'static str,
    kind: Kind,
    output: &Output,
) -> Result<String, CountError> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => {
            Err(CountError::Failed { tool, kind, reason: format!("{}: {said}", output.status) })
        }
    }
}

pub(super) fn this_program() -> Result<PathBuf, CountError> {
    std::env::current_exe().map_err(|error| CountError::Server(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_with_and_without_errors() {
        let head = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                     60.00    0.000006           0        11         2 read\n\
                    ------ ----------- ----------- --------- --------- ----------------\n";
        let with = format!("{head}100.00    0.000010           1        17         2 total\n");
        assert_eq!(total_calls(&with), Some(17));
        let without = format!("{head}100.00    0.000010           1        15           total\n");
        assert_eq!(total_calls(&without), Some(15));
        assert_eq!(total_calls(head), None);
    }
}
