//! `solera fault`: injects faults into a running cluster.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use solera_node::NO_FAULTS;

use crate::admin::AdminArgs;

const EXAMPLES: &str = "\
Examples:
  solera fault cut virginia california   drops all messages between the two sites
  solera fault cut 1 2                   the same, by number
  solera fault delay 1 3 200             adds 200 ms in each direction
  solera fault heal                      ends all cuts and delays
  solera fault skew california 22        the site's clocks are 22 ms ahead
  solera fault skew california -22       they are 22 ms behind
  solera fault skew california off       they are right again
  solera fault slow virginia 17 5000     virginia shows the writes of shard 17 after 5 s
  solera fault slow virginia 17 off      it shows them at once again
  solera fault kill frankfurt            stops the site
  solera fault restart frankfurt         restarts it with the state that it had
  solera fault status                    shows sites, links, shifted clocks and slow shards

Nodes of `solera serve` have no injected faults.";

/// Inject faults into a running `solera up`, and end them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FaultArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(subcommand)]
    fault: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Cut the link between two sites
    #[command(after_help = "Example:\n  solera fault cut virginia california")]
    Cut {
        /// Name or number of a site
        a: String,
        /// Name or number of the other site
        b: String,
    },
    /// End all cuts and added delays
    #[command(after_help = "Example:\n  solera fault heal")]
    Heal,
    /// Kill a site
    #[command(after_help = "Example:\n  solera fault kill frankfurt")]
    Kill {
        /// Name or number of the site
        site: String,
    },
    /// Restart a killed site with the state it had
    #[command(after_help = "Example:\n  solera fault restart frankfurt")]
    Restart {
        /// Name or number of the site
        site: String,
    },
    /// Add a delay between two sites, each way
    #[command(after_help = "Example:\n  solera fault delay virginia frankfurt 200")]
    Delay {
        /// Name or number of a site
        a: String,
        /// Name or number of the other site
        b: String,
        /// Delay in milliseconds; 0 removes the added delay
        ms: u64,
    },
    /// Shift the clock that the workers of a site read
    #[command(after_help = "Example:\n  solera fault skew us 250")]
    Skew {
        /// Name or number of the site
        site: String,
        /// Milliseconds by which the clock is ahead, at most a day; negative if it is behind. `off`
        /// or 0 ends the shift
        #[arg(value_parser = skew, allow_negative_numbers = true)]
        ms: i64,
    },
    /// Delay the writes of a shard of level pcpsi at a site
    #[command(after_help = "Example:\n  solera fault slow virginia 17 5000")]
    Slow {
        /// Name or number of the site
        site: String,
        /// Number of the shard. SOLERA.HOME KEY returns the shard of a key
        shard: u16,
        /// Milliseconds after which the site's copy of the shard shows a write, at most a minute.
        /// `off` or 0 ends the delay
        #[arg(value_parser = slowness)]
        ms: u64,
    },
    /// Show the state of sites, links, shifted clocks and slow shards
    #[command(after_help = "Example:\n  solera fault status --json")]
    Status {
        /// Print the state as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Parses the shift of a clock.
fn skew(text: &str) -> Result<i64, String> {
    match text {
        "off" => Ok(0),
        _ => text.parse().map_err(|_| "give a number of milliseconds, or off".to_owned()),
    }
}

/// Parses the delay of a shard.
fn slowness(text: &str) -> Result<u64, String> {
    match text {
        "off" => Ok(0),
        _ => text.parse().map_err(|_| "give a number of milliseconds, or off".to_owned()),
    }
}

/// Runs the command; fails if the cluster rejects the fault or cannot be reached.
pub(crate) fn main(args: &FaultArgs) -> ExitCode {
    let done = match &args.fault {
        Kind::Status { json } => status(&args.admin, *json),
        fault => inject(&args.admin, fault),
    };
    match done {
        Ok(text) => {
            output!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error!("solera fault: {error}");
            ExitCode::FAILURE
        }
    }
}

fn inject(admin: &AdminArgs, fault: &Kind) -> Result<String, String> {
    let (body, done) = match fault {
        Kind::Cut { a, b } => {
            (json!({"fault": "cut", "a": a, "b": b}), format!("cut the link between {a} and {b}"))
        }
        Kind::Heal => (json!({"fault": "heal"}), "healed all links".to_owned()),
        Kind::Kill { site } => (json!({"fault": "kill", "site": site}), format!("killed {site}")),
        Kind::Restart { site } => {
            (json!({"fault": "restart", "site": site}), format!("restarted {site}"))
        }
        Kind::Delay { a, b, ms } => (
            json!({"fault": "delay", "a": a, "b": b, "ms": ms}),
            format!("added a delay of {ms} ms in each direction between {a} and {b}"),
        ),
        Kind::Skew { site, ms } => {
            let done = match ms {
                0 => format!("the clocks of {site} are right again"),
                _ => format!("the clocks of {site} are {}", shifted(*ms)),
            };
            (json!({"fault": "skew", "site": site, "ms": ms}), done)
        }
        Kind::Slow { site, shard, ms } => {
            let done = match ms {
                0 => format!("{site} shows the writes of shard {shard} at once"),
                _ => format!("{site} shows the writes of shard {shard} after {ms} ms"),
            };
            (json!({"fault": "slow", "site": site, "shard": shard, "ms": ms}), done)
        }
        Kind::Status { .. } => unreachable!("the caller shows the status"),
    };
    admin.ask("POST", "/faults", &body.to_string()).map(|_| done)
}

/// Describes the shift of a clock.
fn shifted(ms: i64) -> String {
    let direction = if ms < 0 { "behind" } else { "ahead" };
    format!("{} ms {direction}", ms.unsigned_abs())
}

fn status(admin: &AdminArgs, as_json: bool) -> Result<String, String> {
    let status = admin.ask("GET", "/status", "")?;
    if status.get("own_site").is_some() {
        return Err(NO_FAULTS.to_owned());
    }
    if as_json {
        return serde_json::to_string_pretty(&status).map_err(|error| error.to_string());
    }
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let sites = list(&status["sites"]);
    let width = sites.iter().map(|site| text(&site["name"]).len()).max().unwrap_or(4).max(4);
    let mut lines = vec![format!(
        "{:width$}  {:>5}  {:>5}  {:>8}  {:>11}  {:>12}  suspects",
        "site", "RESP", "alive", "keys", "connections", "durable (ms)"
    )];
    for site in &sites {
        let suspects: Vec<_> = list(&site["suspects"]).iter().map(text).collect();
        let durable = match (site["alive"].as_bool(), site["uniformity_ms"].as_f64()) {
            (Some(true), Some(ms)) => format!("{ms:.1}"),
            _ => "-".to_owned(),
        };
        lines.push(format!(
            "{:width$}  {:>5}  {:>5}  {:>8}  {:>11}  {:>12}  {}",
            text(&site["name"]),
            site["resp_port"].as_u64().map_or_else(|| "-".to_owned(), |port| port.to_string()),
            if site["alive"].as_bool() == Some(true) { "yes" } else { "no" },
            site["keys"].to_string(),
            site["connections"].to_string(),
            durable,
            suspects.join(", ")
        ));
    }
    lines.push(String::new());
    for link in list(&status["links"]) {
        let state = if link["cut"].as_bool() == Some(true) { "cut" } else { "whole" };
        let (a, b) = (text(&link["a"]), text(&link["b"]));
        lines.push(format!("{a} – {b}: {} ms, {state}", link["rtt_ms"]));
    }
    for site in &sites {
        if let Some(ms) = site["injected_skew_ms"].as_i64().filter(|ms| *ms != 0) {
            lines.push(format!("clocks of {}: {}", text(&site["name"]), shifted(ms)));
        }
        for (shard, ms) in site["slow_shards"].as_object().into_iter().flatten() {
            let name = text(&site["name"]);
            lines.push(format!("shard {shard} at {name}: writes are shown after {ms} ms"));
        }
    }
    Ok(lines.join("\n"))
}
