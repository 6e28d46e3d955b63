//! `solera leader`: from which site strong transactions are led.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;
use solera::{Client, Endpoint, Value};

use crate::connect::LoginArgs;

const EXAMPLES: &str = "\
Examples:
  solera leader list --at eu-1.example.com:7101
  solera leader move us --at eu-1.example.com:7101   us leads all partitions from now on

Each partition has a leader among the sites, which puts its strong transactions in order. They are
fastest where the leader is: one round trip from there to the nearest other site, and from other
sites one to the leader. So let the site lead whose clients use them most.

A leader that dies is replaced by itself, and does not take its place again when it is back: move it.
While leaders move, nothing fails; some transactions take a little longer.";

/// How often the site is asked how far it is.
const INTERVAL: Duration = Duration::from_millis(200);
/// How often the move is asked for again: what was sent may be lost with a link.
const AGAIN: Duration = Duration::from_secs(2);
/// How long something takes before it tells what it waits for.
const SILENT: Duration = Duration::from_secs(2);

/// Tell from which site strong transactions are led, or move that
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
// Before the action and after it; other commands that log in have none.
#[command(mut_args(|arg| arg.global(true)))]
pub(crate) struct LeaderArgs {
    #[command(subcommand)]
    action: Action,
    /// A running site, by any of its nodes
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7101", global = true)]
    at: Endpoint,
    #[command(flatten)]
    login: LoginArgs,
    /// How long to wait until the site leads, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, global = true)]
    timeout: u64,
    /// Tell the result as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// How many partitions each site leads
    List,
    /// Let a site lead all partitions
    Move {
        /// Its name
        site: String,
    },
}

/// How many partitions a site leads, as the asked one knows.
#[derive(Debug)]
struct Leads {
    site: String,
    partitions: i64,
}

/// Does it; fails if it is not done in the end.
pub(crate) fn main(args: &LeaderArgs) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("solera leader: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &LeaderArgs) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut client = args.login.connect(&args.at).await?;
        let leads = match &args.action {
            Action::List => ask(&mut client).await?,
            Action::Move { site } => lead_from(args, &mut client, site).await?,
        };
        tell(args, &leads);
        Ok(())
    })
}

/// Asks a site to lead all partitions, and waits until it does.
async fn lead_from(
    args: &LeaderArgs,
    client: &mut Client,
    name: &str,
) -> Result<Vec<Leads>, String> {
    let began = Instant::now();
    let mut asked: Option<Instant> = None;
    let mut told = String::new();
    loop {
        if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            let answer = client.command(&["SOLERA.LEADERS", "MOVE", name]).await;
            answer.map_err(|error| error.to_string())?;
            asked = Some(Instant::now());
        }
        let leads = ask(client).await?;
        let all: i64 = leads.iter().map(|leads| leads.partitions).sum();
        let site = leads.iter().find(|leads| leads.site.eq_ignore_ascii_case(name));
        let Leads { site, partitions } =
            site.ok_or_else(|| format!("there is no site '{name}'"))?;
        if *partitions == all {
            return Ok(leads);
        }
        let what = format!("{site} leads {partitions} of {all} partitions");
        if began.elapsed() >= Duration::from_secs(args.timeout) {
            return Err(format!(
                "{what}, and took over no more within {} s: it and more than half of the sites must reach \
                 one another. What was led before is still led; `solera leader list` tells by whom",
                args.timeout
            ));
        }
        if began.elapsed() >= SILENT && told != what && std::io::stderr().is_terminal() {
            eprintln!("{what}; it and more than half of the sites must agree to the rest…");
            told = what;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn ask(client: &mut Client) -> Result<Vec<Leads>, String> {
    let answer = client.command(&["SOLERA.LEADERS"]).await.map_err(|error| error.to_string())?;
    let strange = || "the answer to SOLERA.LEADERS is none that this version knows".to_owned();
    let Value::Map(sites) = answer else { return Err(strange()) };
    let leads = |(site, partitions): &(Value, Value)| match (site, partitions) {
        (Value::Bulk(site), Value::Integer(partitions)) => {
            Some(Leads { site: String::from_utf8(site.clone()).ok()?, partitions: *partitions })
        }
        _ => None,
    };
    sites.iter().map(leads).collect::<Option<_>>().ok_or_else(strange)
}

fn tell(args: &LeaderArgs, leads: &[Leads]) {
    if args.json {
        let site = |leads: &Leads| json!({ "site": leads.site, "partitions": leads.partitions });
        say!("{}", json!({ "leaders": leads.iter().map(site).collect::<Vec<_>>() }));
        return;
    }
    let width = leads.iter().map(|leads| leads.site.len()).max().unwrap_or(0);
    for Leads { site, partitions } in leads {
        let unit = if *partitions == 1 { "partition" } else { "partitions" };
        say!("{site:width$}  leads {partitions} {unit}");
    }
}
