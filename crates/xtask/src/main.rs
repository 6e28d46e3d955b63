//! Checks and chores of the workspace: `cargo xtask tidy`, `cargo xtask spec`.

mod finding;
mod spec;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let findings = match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy::check(),
        Some("spec") => spec::check(),
        _ => {
            eprintln!(
                "cargo xtask tidy   checks crates' dependencies, I/O in protocols, and texts\n\
                 cargo xtask spec   checks citations of the papers, and lists what nobody cites"
            );
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
