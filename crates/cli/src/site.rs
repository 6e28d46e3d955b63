//! `solera site`: lists, removes and adds sites of a cluster.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use solera::{Client, Value};

use crate::running::{RunningArgs, Waiting};

const EXAMPLES: &str = "\
Examples:
  solera site list --at eu-1.example.com:7101
  solera site remove us --at eu-1.example.com:7101   removes us, which has failed for good
  solera site add us --at eu-1.example.com:7101      lets us join again, with empty directories

To remove a site, stop its nodes if any still run, and run this command against any node of
another site. Updates that the removed site had not replicated to another site are lost. The other
sites agree on which of its updates they keep, and stop buffering messages for it. Every other
site must be reachable, or be removed as well. A removal cannot be undone: the site can only be
added again, with empty directories.

To add it again, start its nodes with empty directories and with the --join option that `add`
prints. The nodes copy all data from the other sites, which continue to serve clients. Until the
copy is complete, the new nodes answer LOADING.

To add a new site, first append it to the configuration of all nodes, and restart them one after
another.";

/// List the sites, remove a site that has failed for good, or add one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
// Options are accepted before and after the action.
#[command(mut_args(|arg| arg.global(true)))]
pub(crate) struct SiteArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    running: RunningArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the status and generation of each site
    #[command(after_help = "Example:\n  solera site list --at eu-1.example.com:7101")]
    List,
    /// Remove a site that has failed for good; the others continue without it
    #[command(after_help = "Example:\n  solera site remove us --at eu-1.example.com:7101")]
    Remove {
        /// Name of the site
        name: String,
        /// Remove the site even if it is alive: updates that it has not replicated are lost, and
        /// its processes exit
        #[arg(long)]
        force: bool,
    },
    /// Let a removed site, or one that is new in the configuration, join the cluster
    #[command(after_help = "Example:\n  solera site add us --at eu-1.example.com:7101")]
    Add {
        /// Name of the site
        name: String,
    },
}

/// Runs the command; fails if the change is not complete in time.
pub(crate) fn main(args: &SiteArgs) -> ExitCode {
    args.running.main("site", async |client| {
        let sites = match &args.action {
            Action::List => ask(client, &["SOLERA.SITES"]).await?,
            Action::Remove { name, force } => {
                let mut command = vec!["SOLERA.SITES", "REMOVE", name];
                command.extend(force.then_some("FORCE"));
                change(args, client, &command, name, "removed").await?
            }
            Action::Add { name } => {
                change(args, client, &["SOLERA.SITES", "ADD", name], name, "joining").await?
            }
        };
        print_sites(args, &sites);
        Ok(())
    })
}

/// State of a site, as the contacted site reports it.
#[derive(Debug)]
struct Site {
    name: String,
    status: String,
    generation: i64,
    /// Site whose confirmation of this state is missing, if any.
    waits_for: Option<String>,
}

/// Requests a change, and waits until every site has applied it.
async fn change(
    args: &SiteArgs,
    client: &mut Client,
    command: &[&str],
    name: &str,
    becomes: &str,
) -> Result<Vec<Site>, String> {
    let mut waiting = Waiting::begin(args.running.timeout);
    let mut sites = ask(client, command).await?;
    loop {
        let site = sites.iter().find(|site| site.name.eq_ignore_ascii_case(name));
        let site = site.ok_or_else(|| format!("there is no site '{name}'"))?;
        let done = site.status == becomes || (becomes == "joining" && site.status == "member");
        if done {
            return Ok(sites);
        }
        let other = site.waits_for.as_deref().unwrap_or("the others");
        let what = format!(
            "site {} is {}; waiting for {other} to confirm which of its updates it has",
            site.name, site.status
        );
        if waiting.is_over() {
            return Err(format!(
                "{what}, which it did not within {} s. The change cannot be undone: {} can no longer \
                 connect, and the change completes automatically once {other} is reachable or is removed as \
                 well. SOLERA.SITES names, as `waits-for`, a site that has not confirmed it",
                args.running.timeout, site.name
            ));
        }
        waiting.pause(what).await;
        sites = ask(client, &["SOLERA.SITES"]).await?;
    }
}

async fn ask(client: &mut Client, command: &[&str]) -> Result<Vec<Site>, String> {
    let answer = client.command(command).await.map_err(|error| match error.code() {
        Some("ALIVE") => format!("{error} (--force)"),
        _ => error.to_string(),
    })?;
    let unexpected = || "this version does not understand the reply to SOLERA.SITES".to_owned();
    let Value::Array(sites) = answer else { return Err(unexpected()) };
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
            status: text("status")?,
            generation: text("generation")?.parse().ok()?,
            waits_for: text("waits-for").filter(|name| !name.is_empty()),
        })
    };
    sites.iter().map(site).collect::<Option<_>>().ok_or_else(unexpected)
}

/// Returns the text of a reply or of a part of it.
pub(crate) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
        Value::Simple(text) => Some(text),
        _ => None,
    }
}

/// Returns a note about a site that has not confirmed the list, if there is one. It is the same for
/// all sites of the list.
fn unconfirmed(sites: &[Site]) -> Option<String> {
    let other = sites.iter().find_map(|site| site.waits_for.as_ref())?;
    Some(format!("waits for {other}, which has not confirmed this list or not completed a removal"))
}

fn print_sites(args: &SiteArgs, sites: &[Site]) {
    if args.running.json {
        let site = |site: &Site| {
            let Site { name, status, generation, waits_for } = site;
            json!({ "name": name, "status": status, "generation": generation, "waits_for": waits_for })
        };
        output!("{}", json!({ "sites": sites.iter().map(site).collect::<Vec<_>>() }));
        return;
    }
    let width = sites.iter().map(|site| site.name.len()).max().unwrap_or(0);
    for Site { name, status, generation, .. } in sites {
        output!("{name:width$}  {status:8}  generation {generation}");
    }
    // Just after a change, the other sites have not heard of it.
    if matches!(args.action, Action::List)
        && let Some(note) = unconfirmed(sites)
    {
        output!("{note}");
    }
    let added = match &args.action {
        Action::Add { name } => sites.iter().find(|site| site.name.eq_ignore_ascii_case(name)),
        _ => None,
    };
    if let Some(Site { name, generation, .. }) = added {
        output!(
            "start each of its nodes with an empty directory: solera serve --site {name} --join {generation} …"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_a_site_that_has_not_confirmed_it() {
        let site = |waits_for: Option<&str>| Site {
            name: "us".to_owned(),
            status: "leaving".to_owned(),
            generation: 1,
            waits_for: waits_for.map(str::to_owned),
        };
        assert_eq!(unconfirmed(&[site(None), site(None)]), None);
        let note = unconfirmed(&[site(Some("ap")), site(Some("ap"))]).unwrap();
        assert!(note.starts_with("waits for ap, which has not confirmed this list"), "{note}");
    }
}
