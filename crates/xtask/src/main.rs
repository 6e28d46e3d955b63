//! Checks of the workspace: `cargo xtask tidy` checks the rules of the code base, `cargo xtask
//! spec` the citations of the papers.

mod finding;
mod imports;
mod source;
mod spec;
mod tidy;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use finding::Finding;

const USAGE: &str = "\
cargo xtask tidy   checks crates' dependencies, cycles of modules, I/O in machines, unfinished work, and texts
cargo xtask spec   checks citations of the papers, and lists what nobody cites or tests";

fn main() -> ExitCode {
    let root = root();
    let (name, findings) = match std::env::args().nth(1).as_deref() {
        Some("tidy") => ("tidy", tidy::check(&root)),
        Some("spec") => ("spec", spec::check(&root)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    verdict(name, &findings)
}

fn verdict(name: &str, findings: &[Finding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("xtask {name}: no findings"),
        count => println!("xtask {name}: {count} to fix"),
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the workspace's folder. Cargo provides the location of this crate, so that the checks
/// work in any folder; a binary run without cargo uses the current folder.
fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let above = manifest.and_then(|folder| Some(folder.parent()?.parent()?.to_owned()));
    above.unwrap_or_else(|| PathBuf::from("."))
}
