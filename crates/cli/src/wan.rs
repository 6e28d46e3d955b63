//! `solera wan`: other servers, as far away as they are told to be.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use solera_wan::{Delays, Proxy};
use tokio::task::JoinSet;

use crate::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  solera wan --to 127.0.0.1:6379 --rtt-ms 85          a Redis server 85 ms away, on a free port
  solera wan --listen 127.0.0.1:7000 --to db.example:5432 --rtt-ms 85 --jitter-ms 10
  solera wan --rtt-ms 30 --route 127.0.0.1:7001=127.0.0.1:6379 --route 127.0.0.1:7002=127.0.0.1:6380

The first lines tell where it listens, one per route, as `127.0.0.1:40001 -> 127.0.0.1:6379`. Bytes
arrive whole, in order and as fast as they are sent; a connection ends as it ended at the other side.
Like a connection over such a distance, one takes a round trip and a half until the server has it. A
server that is not there ends the connection, and may come later.

Ends with 0 when it is stopped, and with 1 if it cannot start.";

/// Put other servers at a distance: a TCP proxy that delays
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WanArgs {
    /// Where to listen; port 0 is one that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// The server
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "route")]
    to: Option<String>,
    /// Where to listen and a server, as often as you like
    #[arg(long, value_name = "LISTEN=TO")]
    route: Vec<Route>,
    /// How long a round trip takes at least; half of it in each direction
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    rtt_ms: Duration,
    /// How much longer a round trip takes at most, drawn at random for what is read at once
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "0")]
    jitter_ms: Duration,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Debug)]
struct Route {
    listen: String,
    to: String,
}

impl FromStr for Route {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Route, &'static str> {
        match text.split_once('=') {
            Some((listen, to)) => Ok(Route { listen: listen.to_owned(), to: to.to_owned() }),
            None => Err("a route looks like 127.0.0.1:7001=127.0.0.1:6379"),
        }
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms: f64 = text.parse().map_err(|_| "it is no number of milliseconds".to_owned())?;
    Duration::try_from_secs_f64(ms / 1000.0).map_err(|error| error.to_string())
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) fn main(args: &WanArgs) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("solera wan: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &WanArgs) -> Result<(), Box<dyn std::error::Error>> {
    let delays = Delays::new(args.rtt_ms, args.jitter_ms)?;
    let mut routes = args.route.clone();
    routes.extend(args.to.clone().map(|to| Route { listen: args.listen.clone(), to }));
    for Route { to, .. } in &routes {
        let port = to.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(format!("'{to}' is no server: it must be as HOST:PORT").into());
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = Stop::new()?;
        let mut proxies = JoinSet::new();
        for (number, Route { listen, to }) in (0_u64..).zip(&routes) {
            let seed = args.seed.wrapping_add(number << 48);
            let proxy = Proxy::bind(listen.as_str(), to, delays, seed).await;
            let proxy = proxy.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
            say!("{} -> {to}", proxy.address()?);
            proxies.spawn(proxy.serve());
        }
        stop.asked().await;
        Ok(())
    })
}
