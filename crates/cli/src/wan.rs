//! `solera wan`: a TCP proxy that delays connections to other servers.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use solera_wan::{Delays, Proxy};
use tokio::task::JoinSet;

use crate::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  solera wan --to 127.0.0.1:6379 --rtt-ms 85          a Redis server at 85 ms, on a free port
  solera wan --listen 127.0.0.1:7000 --to db.example:5432 --rtt-ms 85 --jitter-ms 10
  solera wan --rtt-ms 30 --route 127.0.0.1:7001=127.0.0.1:6379 --route 127.0.0.1:7002=127.0.0.1:6380

The first lines print the address of each route, as `127.0.0.1:40001 -> 127.0.0.1:6379`. The proxy
preserves all bytes and their order, and does not limit throughput. When one side closes a
connection, the proxy closes the other side in the same way. A new connection takes a round trip
and a half until the server accepts it. If the server cannot be reached, the proxy closes the
connection; the server may start later.

Exits with 0 when it is stopped, and with 1 if it cannot start.";

/// Simulate distant servers: a TCP proxy that delays connections
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WanArgs {
    /// Address to listen on; port 0 chooses a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Address of the server
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "route")]
    to: Option<String>,
    /// Address to listen on, and the server's address; may be repeated
    #[arg(long, value_name = "LISTEN=TO")]
    route: Vec<Route>,
    /// Minimum round-trip time in milliseconds; half of it is added in each direction
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    rtt_ms: Duration,
    /// Maximum random addition to the round-trip time in milliseconds, drawn for each block that is
    /// read
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "0")]
    jitter_ms: Duration,
    /// Seed of the random numbers
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
    let ms: f64 = text.parse().map_err(|_| "it must be a number of milliseconds".to_owned())?;
    Duration::try_from_secs_f64(ms / 1000.0).map_err(|error| error.to_string())
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) fn main(args: &WanArgs) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error!("solera wan: {error}");
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
            return Err(
                format!("'{to}' is not a server address: it must have the form HOST:PORT").into()
            );
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
            output!("{} -> {to}", proxy.address()?);
            proxies.spawn(proxy.serve());
        }
        stop.requested().await;
        Ok(())
    })
}
