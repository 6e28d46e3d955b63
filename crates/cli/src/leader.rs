//! `solera leader`: from which site strong transactions are led.

use std::collections::BTreeSet;
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
  solera leader move 2                               the same of the second site
  solera leader move us 3 7                          us leads partitions 3 and 7, others stay

Each partition has a leader among the sites, which puts its strong transactions in order. They are
fastest where the leader is: one round trip from there to the nearest other site, and from other
sites one to the leader. So let the site lead whose clients use them most.

A leader that dies is replaced by itself, and does not take its place again when it is back: move it.
While leaders move, some transactions take a little longer, and those with several
commands on keys that others change may have to be run again.

Ends with 1 if there is no such site or partition, or it does not lead in time.";

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
    /// How many partitions each site leads, and which if several sites lead
    List,
    /// Let a site lead all partitions, or some
    Move {
        /// The site, by name or number
        site: String,
        /// Which partitions, by number from 0, or all (the default)
        #[arg(value_name = "PARTITION|all")]
        partitions: Vec<String>,
    },
}

/// Which partitions a site leads, as the asked one knows.
#[derive(Debug)]
struct Leads {
    site: String,
    partitions: Vec<usize>,
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
            Action::List => ask(&mut client).await?.0,
            Action::Move { site, partitions } => {
                lead_from(args, &mut client, site, partitions).await?
            }
        };
        tell(args, &leads);
        Ok(())
    })
}

/// Asks a site to lead partitions, all if none is named, and waits until it does.
async fn lead_from(
    args: &LeaderArgs,
    client: &mut Client,
    name: &str,
    partitions: &[String],
) -> Result<Vec<Leads>, String> {
    let began = Instant::now();
    let mut asked: Option<Instant> = None;
    let mut told = String::new();
    loop {
        if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            let head = ["SOLERA.LEADERS", "MOVE", name].into_iter();
            let command: Vec<&str> = head.chain(partitions.iter().map(String::as_str)).collect();
            let answer = client.command(&command).await;
            answer.map_err(|error| error.to_string())?;
            asked = Some(Instant::now());
        }
        let (leads, all) = ask(client).await?;
        let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let named = leads.iter().position(|leads| leads.site.eq_ignore_ascii_case(name));
        let site = named.or(number).and_then(|place| leads.get(place));
        let Leads { site, partitions: led } =
            site.ok_or_else(|| format!("there is no site '{name}'"))?;
        // The asked site has taken them, so each is a number or all.
        let wanted: Option<BTreeSet<usize>> =
            partitions.iter().map(|partition| partition.parse().ok()).collect();
        let wanted = wanted.filter(|wanted| !wanted.is_empty());
        let wanted = wanted.unwrap_or_else(|| (0..all).collect());
        let done = wanted.iter().filter(|partition| led.contains(partition)).count();
        if done == wanted.len() {
            return Ok(leads);
        }
        let what = format!("{site} leads {done} of {} partitions", wanted.len());
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

/// Who leads what, and how many partitions there are.
async fn ask(client: &mut Client) -> Result<(Vec<Leads>, usize), String> {
    let failed = |error: solera::Error| error.to_string();
    let strange = || "the answer to SOLERA.LEADERS is none that this version knows".to_owned();
    let sites = client.command(&["SOLERA.LEADERS"]).await.map_err(failed)?;
    let leaders = client.command(&["SOLERA.LEADERS", "PARTITIONS"]).await.map_err(failed)?;
    let (Value::Map(sites), Value::Array(leaders)) = (sites, leaders) else {
        return Err(strange());
    };
    let leads = |(site, _): &(Value, Value)| {
        let Value::Bulk(name) = site else { return None };
        let led = (0..).zip(&leaders).filter(|(_, leader)| *leader == site);
        let partitions = led.map(|(partition, _)| partition).collect();
        Some(Leads { site: String::from_utf8(name.clone()).ok()?, partitions })
    };
    let told = sites.iter().map(leads).collect::<Option<_>>().ok_or_else(strange)?;
    Ok((told, leaders.len()))
}

fn tell(args: &LeaderArgs, leads: &[Leads]) {
    if args.json {
        let site = |leads: &Leads| {
            let Leads { site, partitions } = leads;
            json!({ "site": site, "partitions": partitions.len(), "led": partitions })
        };
        say!("{}", json!({ "leaders": leads.iter().map(site).collect::<Vec<_>>() }));
        return;
    }
    let width = leads.iter().map(|leads| leads.site.len()).max().unwrap_or(0);
    let shared = leads.iter().filter(|leads| !leads.partitions.is_empty()).count() > 1;
    for Leads { site, partitions } in leads {
        let unit = if partitions.len() == 1 { "partition" } else { "partitions" };
        let which = match shared && !partitions.is_empty() {
            true => format!(": {}", in_words(partitions)),
            false => String::new(),
        };
        say!("{site:width$}  leads {} {unit}{which}", partitions.len());
    }
}

/// Numbers in order, as `0-3, 7`.
fn in_words(numbers: &[usize]) -> String {
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => stretches.push((*number, *number)),
        }
    }
    let words = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    stretches.into_iter().map(words).collect::<Vec<_>>().join(", ")
}
