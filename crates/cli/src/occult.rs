//! `solera occult`: a causally consistent gateway to a Redis Cluster.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use solera_occult_redis::{Gateway, Layout, Options, Server};
use solera_redis::Target;

use crate::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  solera occult redis-cluster://127.0.0.1:7001,127.0.0.1:7002 --site eu --port 6380
  solera occult redis-cluster://127.0.0.1:7001 --site us --port 6381 --near 10.1.0.5,10.1.0.6

Any client of Redis connects to the port; it needs no support for clusters. Each connection is a
session: it sees what it has written and what its reads depend on, although the replicas near by
answer most reads. MULTI and EXEC run atomically over several slots. SOLERA.TOKEN returns what a
session depends on, and SOLERA.ATTACH TOKEN goes on with it elsewhere. If a master fails before
its replica had a write that the session depends on, its commands fail with LOST.

The cluster is not modified: the gateway loads Redis Functions (scripts where functions are
forbidden). It needs Redis 7.0.

Exits with 0 when it is stopped, and with 1 if it cannot start.";

/// Serve an unmodified Redis Cluster with causal consistency and transactions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OccultArgs {
    /// URL of the cluster, with one or more of its nodes:
    /// `redis-cluster://HOST:PORT,HOST:PORT`, or with a user
    /// `redis-cluster://USER:PASSWORD@HOST:PORT`
    #[arg(value_name = "URL")]
    cluster: String,
    /// Name of the site, which INFO reports
    #[arg(long, value_name = "NAME")]
    site: String,
    /// Port to listen on; 0 chooses a free port
    #[arg(long)]
    port: u16,
    /// Address to listen on. The gateway has no users: whoever reaches it has its rights in the
    /// cluster
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: String,
    /// Nodes at this site, as HOST or HOST:PORT in the form that the cluster announces, which are
    /// read; by default those with the shortest round trips
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    near: Vec<String>,
    /// Number of entries of causal timestamps; more entries cost memory beside each value and
    /// avoid reads at masters
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=1000))]
    entries: u16,
    /// How strings are stored: `plain`, so that other programs can use them, or `envelope`, each
    /// together with its timestamp. All gateways to a cluster need the same layout
    #[arg(long, value_name = "LAYOUT", default_value_t = Layout::Plain)]
    layout: Layout,
    /// Time limit of a command in milliseconds, with all its attempts. After a master has failed,
    /// commands wait for the next one
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..))]
    timeout_ms: u64,
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) fn main(args: &OccultArgs) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error!("solera occult: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &OccultArgs) -> Result<(), Box<dyn std::error::Error>> {
    let target = Target::parse(&args.cluster)?;
    if !target.is_cluster() {
        return Err(
            "the URL must begin with redis-cluster://, because the servers must be a Redis Cluster"
                .into(),
        );
    }
    let options = Options {
        entries: args.entries,
        near: args.near.clone(),
        timeout: Duration::from_millis(args.timeout_ms),
        layout: args.layout,
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = Stop::new()?;
        let gateway = Gateway::connect(&target, options).await?;
        let listen = (args.bind.as_str(), args.port);
        let server = Server::bind(listen, gateway, &args.site).await;
        let server = server
            .map_err(|error| format!("cannot listen on {}:{}: {error}", args.bind, args.port))?;
        output!("{} serves site {}; Press Ctrl-C to stop", server.address()?, args.site);
        tokio::select! {
            () = server.serve() => {}
            () = stop.requested() => {}
        }
        Ok(())
    })
}
