//! Runs this program under callgrind or strace.

use std::path::PathBuf;
use std::process::Output;

use super::kind::Kind;

/// Error while requests are counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// A tool cannot be run.
    #[error("{tool} cannot be run: {error}; on Debian, apt-get install {tool}")]
    Tool {
        /// Name of the tool.
        tool: &'static str,
        /// Error of the system.
        error: std::io::Error,
    },
    /// The program under a tool failed.
    #[error("counting {kind} under {tool} failed: {}", .reason.trim_end())]
    Failed {
        /// Name of the tool.
        tool: &'static str,
        /// The requests.
        kind: Kind,
        /// Description of the failure.
        reason: String,
    },
    /// This program cannot be started as a child process, or its server cannot be reached.
    #[error("{0}")]
    Server(String),
}

/// Counts for `times` requests and for three times as many; returns the cost that one request adds.
pub(super) fn what_one_adds(
    times: u64,
    count: impl Fn(u64) -> Result<u64, CountError>,
) -> Result<f64, CountError> {
    let (fewer, more) = (count(times)?, count(3 * times)?);
    Ok(more.saturating_sub(fewer) as f64 / (2 * times) as f64)
}

/// Parses the number of instructions in callgrind's output.
pub(super) fn collected(output: &str) -> Option<u64> {
    let (_, count) = output.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

pub(super) fn successful(
    tool: &'static str,
    kind: Kind,
    output: &Output,
) -> Result<String, CountError> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            Err(CountError::Failed { tool, kind, reason: format!("{}: {text}", output.status) })
        }
    }
}

pub(super) fn this_program() -> Result<PathBuf, CountError> {
    std::env::current_exe().map_err(|error| CountError::Server(error.to_string()))
}
