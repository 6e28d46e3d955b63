//! `solera fault`: lets something go wrong in a running cluster.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  solera fault cut virginia california   nothing passes between the two
  solera fault cut 1 2                   the same, by number
  solera fault delay 1 3 200             200 ms more each way
  solera fault heal                      ends all cuts and delays
  solera fault kill frankfurt            the site dies
  solera fault restart frankfurt         and comes back with the state it had
  solera fault status                    how the cluster is";

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Let something go wrong in a running `solera up`, or right again
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FaultArgs {
    /// The port of `solera up`
    #[arg(long, default_value_t = 7100, global = true)]
    port: u16,
    #[command(subcommand)]
    fault: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Cut the link between two sites
    Cut {
        /// A site, by name or number
        a: String,
        /// Another
        b: String,
    },
    /// End all cuts and added delays
    Heal,
    /// Kill a site
    Kill {
        /// The site, by name or number
        site: String,
    },
    /// Restart a killed site with the state it had
    Restart {
        /// The site, by name or number
        site: String,
    },
    /// Add a delay between two sites, each way
    Delay {
        /// A site, by name or number
        a: String,
        /// Another
        b: String,
        /// Milliseconds; 0 takes the addition away
        ms: u64,
    },
    /// Show the cluster
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it; fails if the cluster refuses or cannot be reached.
pub(crate) fn main(args: &FaultArgs) -> ExitCode {
    let done = match &args.fault {
        Kind::Status { json } => status(args.port, *json),
        fault => inject(args.port, fault),
    };
    match done {
        Ok(text) => {
            // Who reads only the start of it, as `head` does, has what it wants.
            say!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("solera fault: {error}");
            ExitCode::FAILURE
        }
    }
}

fn inject(port: u16, fault: &Kind) -> Result<String, String> {
    let (body, done) = match fault {
        Kind::Cut { a, b } => {
            (json!({"fault": "cut", "a": a, "b": b}), format!("cut the link between {a} and {b}"))
        }
        Kind::Heal => (json!({"fault": "heal"}), "all links are whole".to_owned()),
        Kind::Kill { site } => (json!({"fault": "kill", "site": site}), format!("killed {site}")),
        Kind::Restart { site } => {
            (json!({"fault": "restart", "site": site}), format!("{site} is back"))
        }
        Kind::Delay { a, b, ms } => (
            json!({"fault": "delay", "a": a, "b": b, "ms": ms}),
            format!("messages between {a} and {b} take {ms} ms more each way"),
        ),
        Kind::Status { .. } => unreachable!("the caller shows the status"),
    };
    let answer = http(port, "POST", "/faults", &body.to_string())?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(error.to_owned()),
        None => Ok(done),
    }
}

fn status(port: u16, as_json: bool) -> Result<String, String> {
    let status = http(port, "GET", "/status", "")?;
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

/// One HTTP request with a JSON answer. The server is our own and close by.
fn http(port: u16, method: &str, path: &str, body: &str) -> Result<Value, String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let failed = |error: std::io::Error| {
        format!("no cluster answers on port {port} ({error}); is `solera up` running there?")
    };
    let mut stream =
        TcpStream::connect_timeout(&address, Duration::from_secs(2)).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
            "something listens on port {port} and did not answer within {} s; is it stopped, busy, \
             or no `solera up`?",
            ANSWER_TIMEOUT.as_secs()
        ),
        _ => failed(error),
    })?;
    let no_cluster = || {
        format!(
            "what listens on port {port} is not the HTTP side of `solera up`; that is the port \
             given to it, 7100 if none was"
        )
    };
    if !answer.starts_with("HTTP/") {
        return Err(no_cluster());
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|_| no_cluster())
}
