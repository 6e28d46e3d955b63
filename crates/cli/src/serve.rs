//! `solera serve`: runs one node of a cluster.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use solera_config::areas::{JOURNAL, SERVER};
use solera_config::{ClusterSpec, LogFormat, LogSpec, Overrides};
use solera_node::{Node, raise_descriptor_limit};
use tracing::{error, info, warn};

use crate::log::Log;
use crate::stop::Stop;
use crate::{reload, stores};

const EXAMPLES: &str = "\
Examples:
  solera serve --config solera.toml --site eu            runs node 1 of site eu
  solera serve --config solera.toml --site eu --node 2   runs node 2

The file lists every site with its nodes. All nodes use the same file:
  [[site]]
  name = \"eu\"
  [[site.node]]
  resp = \"10.0.0.1:7101\"    # clients
  peer = \"10.0.0.1:7201\"    # other nodes
  admin = \"10.0.0.1:7301\"   # HTTP";

/// Run one node of a cluster
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Configuration file of the cluster (solera.toml)
    #[arg(long)]
    config: PathBuf,
    /// Name of the site
    #[arg(long)]
    site: String,
    /// Number of the node within its site, from 1
    #[arg(long, default_value_t = 1)]
    node: usize,
    /// Data directory. Without it, data is kept in memory and is lost when the process exits
    #[arg(long)]
    data: Option<PathBuf>,
    /// Start as a node of a site that `solera site add` has added; GENERATION is the number that
    /// this command printed
    #[arg(long, value_name = "GENERATION", value_parser = clap::value_parser!(u32).range(1..))]
    join: Option<u32>,
    /// Listen on this IP address, such as 0.0.0.0, instead of the hosts in the file
    #[arg(long)]
    bind: Option<IpAddr>,
    /// Levels of the log on standard error: error, warn, info (the default) or debug, and those of
    /// areas, as in warn,links=debug. The areas are server, links, sites, journal, sessions,
    /// modules and resources
    #[arg(long, value_name = "LEVEL[,AREA=LEVEL…]")]
    log_level: Option<LogSpec>,
    /// Format of the log: text (the default), or json, an object per line
    #[arg(long)]
    log_format: Option<LogFormat>,
}

impl ServeArgs {
    /// Returns the settings of the log that the options contain.
    fn log(&self) -> LogSpec {
        let levels = self.log_level.clone().unwrap_or_default();
        LogSpec { format: self.log_format, ..levels }
    }
}

/// Exit code of a node that the other nodes reject permanently because of its data. Restarting it
/// does not help.
const EXPELLED: u8 = 3;

/// Error: the other nodes reject this node permanently, for this reason.
#[derive(Debug, thiserror::Error)]
#[error("this node can no longer take part in the cluster: {0}")]
struct Expelled(String);

/// Runs until Ctrl-C or SIGTERM.
pub(crate) fn main(args: &ServeArgs, log: &Log) -> ExitCode {
    log.configure(&args.log());
    match run(args, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(target: SERVER, "{error}");
            match error.is::<Expelled>() {
                true => ExitCode::from(EXPELLED),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn run(args: &ServeArgs, log: &Log) -> Result<(), Box<dyn std::error::Error>> {
    let over = Overrides { data: args.data.clone(), log: args.log(), ..Overrides::default() };
    let spec = ClusterSpec::load(Some(&args.config), over.clone())?;
    log.configure(&spec.log);
    raise_descriptor_limit();
    for warning in spec.warnings() {
        warn!(target: SERVER, "{warning}");
    }
    let modules = stores::host(&spec)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stop, hangups) = (Stop::new()?, reload::hangups()?);
        let cluster = spec.name.clone();
        let node = Node::bind(spec, &args.site, args.node, args.bind)?;
        let (name, addresses) = (node.name().to_owned(), node.addresses());
        let version = env!("CARGO_PKG_VERSION");
        info!(
            target: SERVER,
            cluster,
            site = args.site,
            node = args.node,
            version,
            "Solera {version} starts as {name} of cluster '{cluster}'"
        );
        let (cluster, admin) = node.start(args.join, Some(Arc::new(modules)))?;
        for (setting, address) in addresses {
            if let Some(address) = address {
                info!(target: SERVER, "listening on {address} ({setting})");
            }
        }
        for found in cluster.found() {
            let site = &cluster.spec().sites[found.address.site.index()].name;
            let (worker, keys) = (found.address.worker, found.keys);
            match found.journal.torn {
                None => info!(target: JOURNAL, site, worker, keys, "{found}"),
                Some(_) => warn!(target: JOURNAL, site, worker, keys, "{found}"),
            }
        }
        match &cluster.spec().data {
            Some(data) => info!(target: JOURNAL, "data is in {}", data.display()),
            None => {
                info!(target: JOURNAL, "data is in memory and is lost when this process exits");
            }
        }
        let cluster = Arc::new(cluster);
        let stopped = async {
            stop.requested().await;
            let seconds = cluster.settings().drain.as_secs_f64();
            info!(
                target: SERVER,
                "stopping within {seconds} s; a second signal ends the process at once"
            );
            if let Err(unfinished) = cluster.drain().await {
                warn!(target: SERVER, "the time to stop is up: {unfinished}");
            }
        };
        let config = Some(args.config.as_path());
        let reloaded = reload::at_hangups(hangups, config, &over, cluster.clone(), log);
        let expelled = cluster.clone();
        tokio::select! {
            reason = expelled.expelled() => return Err(Expelled(reason).into()),
            () = admin.serve(cluster.clone(), stopped) => {}
            () = reloaded => return Ok(()),
        };
        // Sends the remaining messages and closes the journals.
        drop(cluster);
        info!(target: SERVER, "stopped");
        Ok(())
    })
}
