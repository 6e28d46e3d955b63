//! `solera costs`: counts instructions and system calls per request.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use solera_bench::requests::{Kind, Table, count, in_memory, listen};

const EXAMPLES: &str = "\
Examples:
  solera costs                               prints the table, in some minutes
  solera costs --check docs/benchmarks.md    compares with the table of a document

The tables of documents are those of a binary that `cargo build --profile dist` builds,
target/dist/solera. With --check, the command rejects other builds, whose requests cost more.

Callgrind counts the user-space instructions of one worker and of a client that sends requests
over an in-memory connection, with a clock that advances by 50 µs for each request. Strace counts
the system calls of a server that receives requests over TCP. Requires valgrind and strace. With
--check, exits with 1 if a request costs over 2% more than in the document.";

/// Profile of the binaries that are measured.
const MEASURED: &str = "dist";
/// Profile of this build.
const PROFILE: &str = env!("SOLERA_PROFILE");

/// Count instructions and system calls per request
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CostsArgs {
    /// Compare with the table in this document, such as docs/benchmarks.md
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Count only these requests, by their names in the table
    #[arg(long, value_name = "REQUEST", value_delimiter = ',')]
    only: Vec<Kind>,
    /// Run this request, for callgrind and strace
    #[arg(long, hide = true)]
    of: Option<Kind>,
    #[arg(long, hide = true, requires = "of", default_value_t = 1)]
    times: u64,
    #[arg(long, hide = true, requires = "of")]
    listen: Option<u16>,
    #[arg(long, hide = true, requires = "listen", default_value_t = 1)]
    workers: u8,
}

/// Runs the command to the end of the measurement.
pub(crate) fn main(args: &CostsArgs) -> ExitCode {
    match run(args) {
        Ok(code) => code,
        Err(error) => {
            print_error!("solera costs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &CostsArgs) -> Result<ExitCode, String> {
    if let Some(kind) = args.of {
        let ran = match args.listen {
            Some(port) => listen(kind, port, args.workers, wait_for_end),
            None => in_memory(kind, args.times),
        };
        return ran.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string());
    }
    let advice = "`cargo build --profile dist` builds target/dist/solera";
    if PROFILE != MEASURED {
        let built = format!("this binary was built with the profile '{PROFILE}'");
        let documented = format!("the table of a document holds for '{MEASURED}'");
        if args.check.is_some() {
            return Err(format!("{built}, and {documented}; {advice}"));
        }
        print_error!("solera costs: {built}; {documented}; {advice}");
    }
    // Fails on an unreadable document before a minute of counting.
    let earlier = args.check.as_deref().map(table_of).transpose()?;
    let kinds = if args.only.is_empty() { &Kind::ALL[..] } else { &args.only };
    let report = |what: &str| print_error!("solera costs: {what}");
    let table = count(kinds, &report).map_err(|error| error.to_string())?;
    output!("{}", table.to_string().trim_end());
    let Some(earlier) = earlier else { return Ok(ExitCode::SUCCESS) };
    for better in table.better_than(&earlier) {
        output!("better (the document's table is out of date): {better}");
    }
    let worse = table.worse_than(&earlier);
    for worse in &worse {
        output!("WORSE: {worse}");
    }
    if worse.is_empty() {
        output!("no request costs over 2% more than in the document");
    }
    Ok(if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table_of(document: &Path) -> Result<Table, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", document.display());
    let text = std::fs::read_to_string(document).map_err(|error| failed(&error))?;
    Table::read(&text).map_err(|error| failed(&error))
}

/// Waits until the parent process closes standard input.
fn wait_for_end() {
    // A read error ends the wait as well.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
