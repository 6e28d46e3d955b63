//! `solera costs`: instructions and system calls per request.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use solera_bench::requests::{Kind, Table, count, in_memory, listen};

const EXAMPLES: &str = "\
Examples:
  solera costs                               the table, in about a minute
  solera costs --check docs/benchmarks.md    compares with the table of a document

Instructions are those that callgrind counts outside the kernel, of one worker and of the client that asks it over a
connection in memory, with a clock that advances by 50 µs for each request. System calls are those that strace counts
of a server that is asked over TCP. Needs valgrind and strace. With --check it ends with 1 if anything costs more
than 2% more.";

/// Count instructions and system calls per request
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CostsArgs {
    /// Compare with the table of this document, as docs/benchmarks.md
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Count only these requests, by their names in the table
    #[arg(long, value_name = "REQUEST", value_delimiter = ',')]
    only: Vec<Kind>,
    /// What is counted runs this
    #[arg(long, hide = true)]
    of: Option<Kind>,
    #[arg(long, hide = true, requires = "of", default_value_t = 1)]
    times: u64,
    #[arg(long, hide = true, requires = "of")]
    listen: Option<u16>,
    #[arg(long, hide = true, requires = "listen", default_value_t = 1)]
    workers: u8,
}

/// Runs to the end.
pub(crate) fn main(args: &CostsArgs) -> ExitCode {
    match run(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("solera costs: {error}");
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
    // A document that cannot be read is noticed before a minute of counting.
    let earlier = args.check.as_deref().map(table_of).transpose()?;
    let kinds = if args.only.is_empty() { &Kind::ALL[..] } else { &args.only };
    let told = |what: &str| eprintln!("solera costs: {what}");
    let table = count(kinds, &told).map_err(|error| error.to_string())?;
    say!("{}", table.to_string().trim_end());
    let Some(earlier) = earlier else { return Ok(ExitCode::SUCCESS) };
    for better in table.better_than(&earlier) {
        say!("better, so that the table is out of date: {better}");
    }
    let worse = table.worse_than(&earlier);
    for worse in &worse {
        say!("WORSE: {worse}");
    }
    if worse.is_empty() {
        say!("no request costs over 2% more than in the document");
    }
    Ok(if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table_of(document: &Path) -> Result<Table, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", document.display());
    let text = std::fs::read_to_string(document).map_err(|error| failed(&error))?;
    Table::read(&text).map_err(|error| failed(&error))
}

/// Waits until whoever has started this program closes its standard input.
fn wait_for_end() {
    // A failure to read ends it, too.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
