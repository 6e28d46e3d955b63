//! Shared parts of commands for running clusters: the site that they contact, and waiting for its
//! changes.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use solera::{Client, Endpoint};

use crate::connect::LoginArgs;

/// Interval at which a command polls the site's progress.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time after which a command prints what it waits for.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// Site that a command contacts, and how it reports.
#[derive(Debug, Args)]
pub(crate) struct RunningArgs {
    /// Address of any node of a running site
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7101", global = true)]
    at: Endpoint,
    #[command(flatten)]
    login: LoginArgs,
    /// Time to wait until a change is complete, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, global = true)]
    pub(crate) timeout: u64,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl RunningArgs {
    /// Runs a command with a client of the site; prints the error of `solera NAME` if it fails.
    pub(crate) fn main(
        &self,
        name: &str,
        command: impl AsyncFnOnce(&mut Client) -> Result<(), String>,
    ) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
            runtime.block_on(async {
                let mut client = self.login.connect(&self.at).await?;
                command(&mut client).await
            })
        });
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                print_error!("solera {name}: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Waiting for a change that the site makes in several steps.
pub(crate) struct Waiting {
    began: Instant,
    timeout: Duration,
    /// Text that was printed last.
    printed: String,
}

impl Waiting {
    /// Begins to wait for at most `seconds`.
    pub(crate) fn begin(seconds: u64) -> Waiting {
        let timeout = Duration::from_secs(seconds);
        Waiting { began: Instant::now(), timeout, printed: String::new() }
    }

    /// Returns whether the time has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.began.elapsed() >= self.timeout
    }

    /// Waits until the next request to the site. On a terminal, prints what the command waits for
    /// if the wait is long.
    pub(crate) async fn pause(&mut self, what: String) {
        let late = self.began.elapsed() >= QUIET_TIME;
        if late && self.printed != what && std::io::stderr().is_terminal() {
            print_error!("{what}…");
            self.printed = what;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
