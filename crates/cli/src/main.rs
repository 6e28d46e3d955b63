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
mod home;
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

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::log::Log;

/// The server allocates and frees many values; with glibc's allocator, this takes a third of the
/// time of a command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A geo-replicated database that lets each piece of data have the consistency it needs
#[derive(Debug, Parser)]
#[command(name = "solera", version, max_term_width = 100)]
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
    Home(home::HomeArgs),
    User(user::UserArgs),
    Wan(wan::WanArgs),
    Occult(occult::OccultArgs),
}

fn main() -> ExitCode {
    let command = match parse() {
        Ok(cli) => cli.command,
        Err(text) if text.use_stderr() => text.exit(),
        // This is the text of --help or --version.
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

/// Parses the arguments of the process.
fn parse() -> Result<Cli, clap::Error> {
    let grammar = with_negative_numbers(Cli::command());
    let parsed = grammar.try_get_matches();
    parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(
        |error| match negative_number(&error) {
            Some(reason) => clap::Error::raw(ErrorKind::ValueValidation, reason),
            None => error,
        },
    )
}

/// Lets all options and arguments take negative numbers. Otherwise an error would call the number
/// an unknown option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_values)
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Returns a description of the error if an option does not accept a negative number.
fn negative_number(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    let (value, option) = (text(ContextKind::InvalidValue)?, text(ContextKind::InvalidArg)?);
    let number: f64 = value.parse().ok()?;
    (error.kind() == ErrorKind::ValueValidation && number < 0.0)
        .then(|| format!("invalid value '{value}' for '{option}': it must not be negative\n"))
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
        Command::Home(args) => home::main(&args),
        Command::User(args) => user::main(&args),
        Command::Wan(args) => wan::main(&args),
        Command::Occult(args) => occult::main(&args),
    }
}
