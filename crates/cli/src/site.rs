//! `solera site`: which sites take part.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;
use solera::{Client, Endpoint, Value};

use crate::connect::LoginArgs;

const EXAMPLES: &str = "\
Examples:
  solera site list --at eu-1.example.com:7101
  solera site remove us --at eu-1.example.com:7101   us is dead for good
  solera site add us --at eu-1.example.com:7101      and may come back, with nothing

To remove a site, stop its nodes if any still run, and ask any node of another site. What the site
had told nobody else is lost; the others settle what they have of it alike, and keep nothing for it
any more. Every other site must be reachable, or be removed, too. A removal cannot be taken back: the
site can only be added again, with nothing.

To add it again, start its nodes with empty directories and with --join, as `add` says. They get all
data from the others, who go on serving; until then they answer LOADING.

To add a site that was never there, append it to the configuration of all nodes first, and restart
them one after another.";

/// How often the site is asked how far it is.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long something takes before it tells what it waits for.
const SILENT: Duration = Duration::from_secs(2);

/// List the sites, remove one that is dead for good, or add one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
// Before the action and after it; other commands that log in have none.
#[command(mut_args(|arg| arg.global(true)))]
pub(crate) struct SiteArgs {
    #[command(subcommand)]
    action: Action,
    /// A running site, by any of its nodes
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7101", global = true)]
    at: Endpoint,
    #[command(flatten)]
    login: LoginArgs,
    /// How long to wait for the other sites, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, global = true)]
    timeout: u64,
    /// Tell the result as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// How each site stands
    List,
    /// A site is dead for good: the others go on without it
    Remove {
        /// Its name
        name: String,
        /// Also if it is alive: what it has told nobody is lost, and its processes end
        #[arg(long)]
        force: bool,
    },
    /// A site that was removed, or is new in the list, may join
    Add {
        /// Its name
        name: String,
    },
}

/// Does it; fails if it is not done in the end.
pub(crate) fn main(args: &SiteArgs) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("solera site: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A site, as another one knows it.
#[derive(Debug)]
struct Site {
    name: String,
    standing: String,
    life: i64,
    /// The site that has not confirmed to know the same, if any.
    waits_for: Option<String>,
}

fn run(args: &SiteArgs) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut client = args.login.connect(&args.at).await?;
        let sites = match &args.action {
            Action::List => ask(&mut client, &["SOLERA.SITES"]).await?,
            Action::Remove { name, force } => {
                let mut command = vec!["SOLERA.SITES", "REMOVE", name];
                command.extend(force.then_some("FORCE"));
                change(args, &mut client, &command, name, "removed").await?
            }
            Action::Add { name } => {
                change(args, &mut client, &["SOLERA.SITES", "ADD", name], name, "joining").await?
            }
        };
        tell(args, &sites);
        Ok(())
    })
}

/// Asks for a change, and waits until it is one and every site knows.
async fn change(
    args: &SiteArgs,
    client: &mut Client,
    command: &[&str],
    name: &str,
    becomes: &str,
) -> Result<Vec<Site>, String> {
    let began = Instant::now();
    let mut told = String::new();
    let mut sites = ask(client, command).await?;
    loop {
        let site = sites.iter().find(|site| site.name.eq_ignore_ascii_case(name));
        let site = site.ok_or_else(|| format!("there is no site '{name}'"))?;
        let done = site.standing == becomes || (becomes == "joining" && site.standing == "member");
        if done {
            return Ok(sites);
        }
        let other = site.waits_for.as_deref().unwrap_or("the others");
        let what =
            format!("{} is {}; {other} must confirm what it has of it", site.name, site.standing);
        if began.elapsed() >= Duration::from_secs(args.timeout) {
            return Err(format!(
                "{what}, and did not within {} s. It cannot be taken back: {} is not let in any more, and \
                 this is done by itself as soon as {other} can be reached, or is removed, too. `solera site \
                 list` tells how it stands",
                args.timeout, site.name
            ));
        }
        if began.elapsed() >= SILENT && told != what && std::io::stderr().is_terminal() {
            eprintln!("{what}…");
            told = what;
        }
        tokio::time::sleep(INTERVAL).await;
        sites = ask(client, &["SOLERA.SITES"]).await?;
    }
}

async fn ask(client: &mut Client, command: &[&str]) -> Result<Vec<Site>, String> {
    let answer = client.command(command).await.map_err(|error| match error.code() {
        Some("ALIVE") => format!("{error} (--force)"),
        _ => error.to_string(),
    })?;
    let strange = || "the answer to SOLERA.SITES is none that this version knows".to_owned();
    let Value::Array(sites) = answer else { return Err(strange()) };
    let site = |value: &Value| {
        let Value::Map(fields) = value else { return None };
        let text = |name: &str| {
            let (_, value) = fields.iter().find(|(key, _)| text_of(key) == Some(name))?;
            match value {
                Value::Integer(number) => Some(number.to_string()),
                other => text_of(other).map(str::to_owned),
            }
        };
        Some(Site {
            name: text("name")?,
            standing: text("standing")?,
            life: text("life")?.parse().ok()?,
            waits_for: text("waits-for").filter(|name| !name.is_empty()),
        })
    };
    sites.iter().map(site).collect::<Option<_>>().ok_or_else(strange)
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
        Value::Simple(text) => Some(text),
        _ => None,
    }
}

fn tell(args: &SiteArgs, sites: &[Site]) {
    if args.json {
        let site = |site: &Site| json!({ "name": site.name, "standing": site.standing, "life": site.life });
        say!("{}", json!({ "sites": sites.iter().map(site).collect::<Vec<_>>() }));
        return;
    }
    let width = sites.iter().map(|site| site.name.len()).max().unwrap_or(0);
    for Site { name, standing, life, .. } in sites {
        say!("{name:width$}  {standing:8}  life {life}");
    }
    let added = match &args.action {
        Action::Add { name } => sites.iter().find(|site| site.name.eq_ignore_ascii_case(name)),
        _ => None,
    };
    if let Some(Site { name, life, .. }) = added {
        say!(
            "start each node of it with an empty directory: solera serve --site {name} --join {life} …"
        );
    }
}
