//! Model of conditional atomic broadcast over streams, checked exhaustively. `README.md` describes
//! the protocol, and names what the model leaves out.
//!
//! `cargo run --release` checks every scenario, and that each trap is found. `--scenario NAME`
//! checks one scenario; `--trap NAME` takes out a rule and prints steps that lead to a violation.

mod checking;
mod exploring;
mod progress;
mod properties;
mod protocol;
mod scenarios;
mod steps;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if checking::run(&arguments) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[test]
fn the_protocol_holds_and_every_trap_is_found() {
    assert!(checking::run(&[]));
}
