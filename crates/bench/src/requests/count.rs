//! Counts instructions under callgrind and system calls under strace, in child processes that run
//! this program.
//!
//! Each kind runs twice, the second time with three times as many requests. The difference between
//! the runs is due to the requests alone, because starting and loading cost the same in both.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::kind::Kind;
use super::server::serve;
use super::table::{Counted, Table};
use super::tool::{CountError, collected, successful, this_program, what_one_adds};

/// Counts the costs of requests of these kinds. Reports progress to `report`.
///
/// # Errors
/// See [`CountError`].
pub fn count(kinds: &[Kind], report: &dyn Fn(&str)) -> Result<Table, CountError> {
    let mut rows = Vec::new();
    for kind in kinds {
        report(&format!("counting {kind}"));
        let instructions = per_request(*kind, instructions)?;
        let system_calls = match kind {
            Kind::Client => 0.0,
            kind => per_request(*kind, system_calls)?,
        };
        rows.push(Counted { kind: *kind, instructions, system_calls });
    }
    Ok(Table { rows })
}

/// Returns the cost that one request adds.
fn per_request(
    kind: Kind,
    count: fn(Kind, u64) -> Result<u64, CountError>,
) -> Result<f64, CountError> {
    what_one_adds(kind.times(), |times| count(kind, times))
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

/// Returns the number of calls from the last line of a summary. Its columns are: percent, seconds,
/// microseconds for each call, calls, errors if any, `total`.
fn total_calls(summary: &str) -> Option<u64> {
    let line = summary.lines().rfind(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Path of a file that is removed when this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(kind: Kind) -> Temporary {
        let name = format!("solera-costs-{}-{kind:?}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that cannot be removed remains in the temporary directory.
        let _ = std::fs::remove_file(&self.0);
    }
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
