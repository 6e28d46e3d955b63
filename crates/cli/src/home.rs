//! `solera home`: shows and moves the homes of spaces of level `pcpsi`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use solera::{Client, Value};

use crate::running::{RunningArgs, Waiting};

const EXAMPLES: &str = "\
Examples:
  solera home list --at eu-1.example.com:7101
  solera home move --from us --to eu             moves all shards whose home is us
  solera home move --shard-of order:7 --to eu    moves the shard of a key
  solera home move --shards 0-99 --to eu         moves shards by their numbers
  solera home move --from us --to eu --force     does without us, which is down

Keys of spaces of level pcpsi belong to shards. Each shard has a home among the sites, which orders
the updates of its keys. Updates are fastest at their home. A move loses nothing: the former home
finishes its transactions and hands the data over. Meanwhile, updates of the shard wait.

With --force, the new home takes the data of all other sites instead. Writes that only the former
home has are lost, and sessions that have seen them get the error LOST. `solera site remove` does
this for all shards of a site.

Exits with 1 if the sites do not agree, or if the move is not complete in time.";

/// Show the homes of keys of level pcpsi, or move them to another site
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
// Options are accepted before and after the action.
#[command(mut_args(|arg| arg.global(true)))]
pub(crate) struct HomeArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    running: RunningArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the number of shards whose home is each site
    #[command(after_help = "Example:\n  solera home list --at eu-1.example.com:7101")]
    List,
    /// Move shards to another home
    #[command(after_help = "Example:\n  solera home move --from us --to eu")]
    Move(MoveArgs),
}

#[derive(Debug, Args)]
struct MoveArgs {
    /// Move all shards whose home is this site
    #[arg(
        long,
        value_name = "SITE",
        required_unless_present_any = ["shards", "shard_of"],
        conflicts_with_all = ["shards", "shard_of"]
    )]
    from: Option<String>,
    /// Move these shards, by number
    #[arg(long, value_name = "FIRST-LAST", num_args = 1.., conflicts_with = "shard_of")]
    shards: Vec<String>,
    /// Move the shard of this key
    #[arg(long, value_name = "KEY")]
    shard_of: Option<String>,
    /// The new home
    #[arg(long, value_name = "SITE")]
    to: String,
    /// Do without the former home, whose last writes are then lost
    #[arg(long)]
    force: bool,
}

/// Homes, as the contacted site reports them.
#[derive(Debug)]
struct Homes {
    shards: Vec<(String, i64)>,
    moves: i64,
    /// Number of shards whose data is on its way to their home.
    arriving: i64,
    /// Sites with workers that are not known to have carried out all moves.
    behind: Vec<String>,
}

impl Homes {
    /// Returns the number of shards of a site.
    fn of(&self, site: &str) -> i64 {
        self.shards.iter().find(|(name, _)| name == site).map_or(0, |(_, count)| *count)
    }

    /// Returns what the last move waits for; `None` if it is complete. After a forced move,
    /// `before` is the state before it: a site that has lost shards since may be down, and does not
    /// count.
    fn incomplete(&self, before: Option<&Homes>) -> Option<String> {
        let may_be_down = |site: &str| {
            before.is_some_and(|before| self.of(site) == 0 || self.of(site) < before.of(site))
        };
        let behind: Vec<&str> =
            self.behind.iter().map(String::as_str).filter(|site| !may_be_down(site)).collect();
        match self.arriving {
            0 if behind.is_empty() => None,
            0 => Some(format!("nodes of {} have not carried out the move", behind.join(", "))),
            1 => Some("1 shard is on its way to its new home".to_owned()),
            several => Some(format!("{several} shards are on their way to their new home")),
        }
    }
}

/// Runs the command; fails if the move is not complete in time.
pub(crate) fn main(args: &HomeArgs) -> ExitCode {
    args.running.main("home", async |client| {
        let homes = match &args.action {
            Action::List => ask(client).await?,
            Action::Move(what) => move_homes(args, client, what).await?,
        };
        print_homes(args, &homes);
        Ok(())
    })
}

async fn move_homes(
    args: &HomeArgs,
    client: &mut Client,
    what: &MoveArgs,
) -> Result<Homes, String> {
    let mut command = vec!["SOLERA.HOME", "MOVE"];
    match (&what.from, &what.shard_of) {
        (Some(site), _) => command.extend(["FROM", site]),
        (None, Some(key)) => command.extend(["KEY", key]),
        (None, None) => {
            command.push("SHARDS");
            command.extend(what.shards.iter().map(String::as_str));
        }
    }
    command.extend(["TO", &what.to]);
    if what.force {
        command.push("FORCE");
    }
    let before = if what.force { Some(ask(client).await?) } else { None };
    client.command(&command).await.map_err(|error| error.to_string())?;
    let mut waiting = Waiting::begin(args.running.timeout);
    loop {
        let homes = ask(client).await?;
        let Some(missing) = homes.incomplete(before.as_ref()) else { return Ok(homes) };
        if waiting.is_over() {
            if what.force && homes.arriving == 0 {
                // The sites that are behind were taken by force before, or are down as well.
                print_error!("solera home: {missing}, and carry it out when they are back");
                return Ok(homes);
            }
            return Err(format!(
                "{missing} after {} s: all sites must be reachable, unless the move is forced, and their clocks must \
                 have been within an hour of each other; it goes on",
                args.running.timeout
            ));
        }
        waiting.pause(missing).await;
    }
}

async fn ask(client: &mut Client) -> Result<Homes, String> {
    let unexpected = || "this version does not understand the reply to SOLERA.HOME".to_owned();
    let answer = client.command(&["SOLERA.HOME"]).await.map_err(|error| error.to_string())?;
    let Value::Map(answer) = answer else { return Err(unexpected()) };
    let of = |name: &str| {
        let found = answer.iter().find(|(key, _)| *key == Value::Bulk(name.as_bytes().to_vec()));
        found.map(|(_, value)| value).ok_or_else(unexpected)
    };
    let (Value::Map(shards), Value::Integer(moves), Value::Integer(arriving), Value::Array(behind)) =
        (of("shards")?, of("moves")?, of("arriving")?, of("behind")?)
    else {
        return Err(unexpected());
    };
    let count = |(site, count): &(Value, Value)| match (site, count) {
        (Value::Bulk(site), Value::Integer(count)) => {
            Some((String::from_utf8(site.clone()).ok()?, *count))
        }
        _ => None,
    };
    let shards = shards.iter().map(count).collect::<Option<_>>().ok_or_else(unexpected)?;
    let name = |site: &Value| match site {
        Value::Bulk(site) => String::from_utf8(site.clone()).ok(),
        _ => None,
    };
    let behind = behind.iter().map(name).collect::<Option<_>>().ok_or_else(unexpected)?;
    Ok(Homes { shards, moves: *moves, arriving: *arriving, behind })
}

fn print_homes(args: &HomeArgs, homes: &Homes) {
    if args.running.json {
        let shards: serde_json::Map<String, serde_json::Value> =
            homes.shards.iter().map(|(site, count)| (site.clone(), (*count).into())).collect();
        return output!(
            "{}",
            json!({
                "shards": shards, "moves": homes.moves, "arriving": homes.arriving,
                "behind": homes.behind,
            })
        );
    }
    let width = homes.shards.iter().map(|(site, _)| site.len()).max().unwrap_or(0).max(4);
    output!("{:width$}  shards", "site");
    for (site, count) in &homes.shards {
        output!("{site:width$}  {count:>6}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_complete_when_all_sites_know_it_and_the_data_has_arrived() {
        let with = |of_us, arriving, behind: &[&str]| Homes {
            shards: vec![("eu".to_owned(), 8), ("us".to_owned(), of_us)],
            moves: 1,
            arriving,
            behind: behind.iter().map(|site| (*site).to_owned()).collect(),
        };
        let homes = |arriving, behind: &[&str]| with(0, arriving, behind);
        let (few, more) = (with(3, 0, &[]), with(4, 0, &[]));
        let late = |site: &str| Some(format!("nodes of {site} have not carried out the move"));
        assert_eq!(homes(0, &[]).incomplete(None), None);
        assert_eq!(homes(0, &["us"]).incomplete(None), late("us"));
        assert_eq!(homes(0, &["us"]).incomplete(Some(&few)), None);
        assert_eq!(homes(0, &["eu", "us"]).incomplete(Some(&few)), late("eu"));
        // One of four shards of the site was taken by force, or none.
        assert_eq!(with(3, 0, &["us"]).incomplete(Some(&more)), None);
        assert_eq!(with(3, 0, &["us"]).incomplete(Some(&few)), late("us"));
        let arriving = homes(2, &[]).incomplete(Some(&few)).unwrap();
        assert_eq!(arriving, "2 shards are on their way to their new home");
    }
}
