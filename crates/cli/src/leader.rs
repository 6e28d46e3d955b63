//! `solera leader`: shows and moves the leaders of strong transactions.

use solera_commands::counted;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;
use solera::{Client, Value};

use crate::running::{RunningArgs, Waiting};
use crate::site::text_of;

const EXAMPLES: &str = "\
Examples:
  solera leader list --at eu-1.example.com:7101
  solera leader move us --at eu-1.example.com:7101   makes us the leader of all partitions
  solera leader move 2                               the same for the second site
  solera leader move us 3 7                          makes us the leader of partitions 3 and 7 only
  solera leader move us speculative                  us leads the speculative space

Each partition has a leader among the sites, which orders its strong transactions. Their latency
is lowest at the leader's site: one round trip to the nearest other site. From other sites they
take one round trip to the leader. The leader should therefore be the site whose clients use them
most. A space of level speculative has one leader, which orders its strong commands.

When a leader fails, another site replaces it automatically. The failed site does not become the
leader again when it restarts; move the leader back with this command. While leaders move, some
transactions take longer. Transactions of several commands on keys that others change may have to
be retried.

Exits with 1 if the site or a partition does not exist, or if the site does not lead in time.";

/// Interval at which the command repeats its request: a failing link may lose the messages of a
/// move.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Show which sites lead strong transactions, or move the leaders to another site
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
// Options are accepted before and after the action.
#[command(mut_args(|arg| arg.global(true)))]
pub(crate) struct LeaderArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    running: RunningArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the number of partitions that each site leads, and their numbers if several sites lead
    #[command(after_help = "Example:\n  solera leader list --at eu-1.example.com:7101")]
    List,
    /// Make a site the leader of all partitions and of the speculative space, or of some of them
    #[command(after_help = "Example:\n  solera leader move us 3 7 --at eu-1.example.com:7101")]
    Move {
        /// Name or number of the site
        site: String,
        /// Numbers of the partitions, from 0; speculative for the space of this level; or all (the
        /// default)
        #[arg(value_name = "PARTITION|speculative|all")]
        partitions: Vec<String>,
    },
}

/// What a site leads, as the contacted site reports it.
#[derive(Debug)]
struct Leads {
    site: String,
    partitions: Vec<usize>,
    /// Whether it leads the speculative space.
    speculative: bool,
}

/// The leaders, as the contacted site reports them.
#[derive(Debug)]
struct Leaders {
    sites: Vec<Leads>,
    /// Number of all partitions.
    partitions: usize,
    /// Whether there is a speculative space.
    has_space: bool,
}

/// Runs the command; fails if the move is not complete in time.
pub(crate) fn main(args: &LeaderArgs) -> ExitCode {
    args.running.main("leader", async |client| {
        let leads = match &args.action {
            Action::List => ask(client).await?.sites,
            Action::Move { site, partitions } => lead_from(args, client, site, partitions).await?,
        };
        print_leaders(args, &leads);
        Ok(())
    })
}

/// Requests that a site lead the given partitions, all if none is given, and waits until it does.
async fn lead_from(
    args: &LeaderArgs,
    client: &mut Client,
    name: &str,
    partitions: &[String],
) -> Result<Vec<Leads>, String> {
    let mut waiting = Waiting::begin(args.running.timeout);
    let mut asked: Option<Instant> = None;
    loop {
        if asked.is_none_or(|asked| asked.elapsed() >= RETRY_INTERVAL) {
            let head = ["SOLERA.LEADERS", "MOVE", name].into_iter();
            let command: Vec<&str> = head.chain(partitions.iter().map(String::as_str)).collect();
            let answer = client.command(&command).await;
            answer.map_err(|error| error.to_string())?;
            asked = Some(Instant::now());
        }
        let Leaders { sites: leads, partitions: all, has_space } = ask(client).await?;
        let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let named = leads.iter().position(|leads| leads.site.eq_ignore_ascii_case(name));
        let site = named.or(number).and_then(|place| leads.get(place));
        let Leads { site, partitions: led, speculative } =
            site.ok_or_else(|| format!("there is no site '{name}'"))?;
        // The contacted site has accepted the words.
        let is = |word: &str| partitions.iter().any(|it| it.eq_ignore_ascii_case(word));
        let wants_all = partitions.is_empty() || is("all");
        let wanted: BTreeSet<usize> = match wants_all {
            true => (0..all).collect(),
            false => partitions.iter().filter_map(|partition| partition.parse().ok()).collect(),
        };
        let waits_for_space = has_space && (wants_all || is("speculative")) && !speculative;
        let done = wanted.iter().filter(|partition| led.contains(partition)).count();
        if done == wanted.len() && !waits_for_space {
            return Ok(leads);
        }
        let space = if waits_for_space { ", and not the speculative space" } else { "" };
        let what = format!("{site} leads {done} of {}{space}", counted(wanted.len(), "partition"));
        if waiting.is_over() {
            return Err(format!(
                "{what} after {} s: this site and a majority of the sites must be able to reach one another. \
                 The other partitions keep their leaders; `solera leader list` shows them",
                args.running.timeout
            ));
        }
        let agree = "waiting for it and a majority of the sites to agree on the rest";
        waiting.pause(format!("{what}; {agree}")).await;
    }
}

/// Returns what each site leads.
async fn ask(client: &mut Client) -> Result<Leaders, String> {
    let failed = |error: solera::Error| error.to_string();
    let unexpected = || "this version does not understand the reply to SOLERA.LEADERS".to_owned();
    let sites = client.command(&["SOLERA.LEADERS"]).await.map_err(failed)?;
    let leaders = client.command(&["SOLERA.LEADERS", "PARTITIONS"]).await.map_err(failed)?;
    let (Value::Map(sites), Value::Array(leaders)) = (sites, leaders) else {
        return Err(unexpected());
    };
    let spaces = client.command(&["SOLERA.SPACES"]).await.map_err(failed)?;
    let space = speculative_space(&spaces);
    let leader = match &space {
        Some(name) => {
            let state = client.command(&["SOLERA.STATE", name]).await.map_err(failed)?;
            field(&state, "leader").map(str::to_owned)
        }
        None => None,
    };
    let leads = |(site, _): &(Value, Value)| {
        let Value::Bulk(name) = site else { return None };
        let led = (0..).zip(&leaders).filter(|(_, leader)| *leader == site);
        let partitions = led.map(|(partition, _)| partition).collect();
        let site = String::from_utf8(name.clone()).ok()?;
        let speculative = leader.as_ref() == Some(&site);
        Some(Leads { site, partitions, speculative })
    };
    let sites = sites.iter().map(leads).collect::<Option<_>>().ok_or_else(unexpected)?;
    Ok(Leaders { sites, partitions: leaders.len(), has_space: space.is_some() })
}

/// Returns the name of the speculative space in a reply to SOLERA.SPACES.
fn speculative_space(spaces: &Value) -> Option<String> {
    let Value::Array(spaces) = spaces else { return None };
    let space = spaces.iter().find(|space| field(space, "level") == Some("speculative"))?;
    field(space, "name").map(str::to_owned)
}

/// Returns a text in a map.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a str> {
    let Value::Map(fields) = map else { return None };
    let (_, value) = fields.iter().find(|(key, _)| text_of(key) == Some(name))?;
    text_of(value)
}

fn print_leaders(args: &LeaderArgs, leads: &[Leads]) {
    if args.running.json {
        let site = |leads: &Leads| {
            let Leads { site, partitions, speculative } = leads;
            json!({
                "site": site, "partitions": partitions.len(), "led": partitions,
                "speculative": speculative,
            })
        };
        output!("{}", json!({ "leaders": leads.iter().map(site).collect::<Vec<_>>() }));
        return;
    }
    let width = leads.iter().map(|leads| leads.site.len()).max().unwrap_or(0);
    let shared = leads.iter().filter(|leads| !leads.partitions.is_empty()).count() > 1;
    for Leads { site, partitions, speculative } in leads {
        let which = match shared && !partitions.is_empty() {
            true => format!(": {}", ranges(partitions)),
            false => String::new(),
        };
        let space = if *speculative { ", and the speculative space" } else { "" };
        output!("{site:width$}  leads {}{which}{space}", counted(partitions.len(), "partition"));
    }
}

/// Formats ascending numbers as ranges, such as `0-3, 7`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let words = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(words).collect::<Vec<_>>().join(", ")
}
