//! `solera user`: prepares `[[user]]` sections of `solera.toml`.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  solera user hash < password.txt
  pwgen 32 1 | solera user hash

Put the printed line below a [[user]] of solera.toml. SHA-256 is fast to compute, so choose long,
random passwords, such as those of `redis-cli -p 7101 ACL GENPASS`, which needs a running server,
or of pwgen.";

/// Prepare users for solera.toml
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read a password from standard input, and print its line for solera.toml
    #[command(after_help = "Example:\n  solera user hash < password.txt")]
    Hash,
}

/// Runs the command; fails without a password.
pub(crate) fn main(args: &UserArgs) -> ExitCode {
    let done = match args.action {
        Action::Hash => hash(),
    };
    match done {
        Ok(line) => {
            output!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error!("solera user: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hash() -> Result<String, String> {
    let mut input = std::io::stdin();
    let mut password = Vec::new();
    let read = if input.is_terminal() {
        let mut stderr = std::io::stderr();
        // Failing to print the prompt does not matter.
        let _ = write!(stderr, "Password (it is displayed as you type): ");
        let mut line = String::new();
        input.read_line(&mut line).map(|_| password.extend_from_slice(line.as_bytes()))
    } else {
        input.read_to_end(&mut password).map(|_| ())
    };
    read.map_err(|error| format!("cannot read the password: {error}"))?;
    // Files and `echo` end with a line break, which is not part of the password.
    while let Some(b'\n' | b'\r') = password.last() {
        password.pop();
    }
    if password.is_empty() {
        return Err("standard input holds no password".to_owned());
    }
    if password.contains(&b'\n') {
        return Err(
            "standard input holds several lines; a password must be a single line".to_owned()
        );
    }
    Ok(format!("password_sha256 = [\"{}\"]", solera_node::hash_password(&password)))
}
