//! Runs this program under callgrind or strace: why that fails, and what it says.

use std::fmt;
use std::path::PathBuf;
use std::process::Output;

use super::kind::Kind;

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

/// What is counted for so many times and for three times as many: what one of them adds.
pub(super) fn what_one_adds(
    times: u64,
    count: impl Fn(u64) -> Result<u64, CountError>,
) -> Result<f64, CountError> {
    let (fewer, more) = (count(times)?, count(3 * times)?);
    Ok(more.saturating_sub(fewer) as f64 / (2 * times) as f64)
}

/// Instructions, as callgrind says at its end.
pub(super) fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
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
