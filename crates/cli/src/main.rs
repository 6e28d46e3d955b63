//! The `solera` command.

#[macro_use]
mod output;

mod admin;
mod backup;
mod bench;
mod check;
mod connect;
mod costs;
mod demo;
mod explain;
mod fault;
mod journal;
mod leader;
mod log;
mod occult;
mod papers;
mod progress;
mod reload;
mod restore;
mod run;
mod running;
mod serve;
mod sim;
mod site;
mod source;
mod stop;
mod stores;
#[cfg(test)]
mod tests;
mod up;
mod user;
mod wan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::log::Log;

/// The server allocates and frees many values; with glibc's allocator, this takes a third of the
/// time of a command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A geo-replicated database that lets each piece of data have the consistency it needs
#[derive(Debug, Parser)]
#[command(name = "solera", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Up(up::UpArgs),
    Serve(serve::ServeArgs),
    Fault(fault::FaultArgs),
    Check(check::CheckArgs),
    Explain(explain::ExplainArgs),
    Run(run::RunArgs),
    Bench(bench::BenchArgs),
    Costs(costs::CostsArgs),
    Papers(papers::PapersArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Journal(journal::JournalArgs),
    Sim(sim::SimArgs),
    Site(site::SiteArgs),
    Leader(leader::LeaderArgs),
    User(user::UserArgs),
    Wan(wan::WanArgs),
    Occult(occult::OccultArgs),
}

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(text) if text.use_stderr() => text.exit(),
        // --help and --version.
        Err(text) => {
            output::note(text.print());
            return output::finish(ExitCode::SUCCESS);
        }
    };
    let log = Log::start();
    let code = run_command(command, &log);
    log.flush();
    output::finish(code)
}

fn run_command(command: Command, log: &Log) -> ExitCode {
    match command {
        Command::Demo(args) => demo::main(&args),
        Command::Up(args) => up::main(&args, log),
        Command::Serve(args) => serve::main(&args, log),
        Command::Fault(args) => fault::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Costs(args) => costs::main(&args),
        Command::Papers(args) => papers::main(&args),
        Command::Backup(args) => backup::main(&args),
        Command::Restore(args) => restore::main(&args),
        Command::Journal(args) => journal::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Site(args) => site::main(&args),
        Command::Leader(args) => leader::main(&args),
        Command::User(args) => user::main(&args),
        Command::Wan(args) => wan::main(&args),
        Command::Occult(args) => occult::main(&args),
    }
}
