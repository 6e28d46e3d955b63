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
  solera fault kill frankfurt            stops the site
  solera fault restart frankfurt         restarts it with the state that it had
  solera fault status                    shows sites and links

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
    /// Show the state of sites and links
    #[command(after_help = "Example:\n  solera fault status --json")]
    Status {
        /// Print the state as JSON
        #[arg(long)]
        json: bool,
    },
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
        Kind::Status { .. } => unreachable!("the caller shows the status"),
    };
    admin.ask("POST", "/faults", &body.to_string()).map(|_| done)
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
    Ok(lines.join("\n"))
}
