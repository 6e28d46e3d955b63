//! The `solera` command.

mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A geo-replicated database that lets each piece of data have the consistency it needs
#[derive(Debug, Parser)]
#[command(name = "solera", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sim(sim::SimArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Sim(args) => sim::main(&args),
    }
}
