//! `solera up`: a geo-cluster in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use solera_backup::Allow;
use solera_config::{Baseline, ClusterSpec, LogLevel, Overrides, Runs};
use solera_node::{AdminListener, Cluster, Log, raise_descriptor_limit};

use crate::stop::Stop;
use crate::{reload, restore, stores};

const EXAMPLES: &str = "\
Examples:
  solera up                                three sites on ports 7101 to 7103, no delays
  solera up --wan aws                      with the delays of regions around the world
  solera up --sites 5 --wan lan --port 8000
  solera up --config solera.toml           sites, spaces and more from a file
  solera up --data DIR --restore FILE      a new cluster with what `solera backup` saved

Then, in other terminals:
  redis-cli -p 7101 set greeting hello
  redis-cli -p 7102 get greeting
  solera fault cut 1 2

Ends with 0 when it is stopped, and with 1 if it cannot start.";

/// Run a whole geo-cluster in one process, for development
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    /// How many sites (default 3, or as configured)
    #[arg(long)]
    sites: Option<usize>,
    /// Delays between sites: aws, lan, none, or a file with rtt_ms = [[0, 61], [61, 0]], and names
    /// = ["a", "b"] if you like
    #[arg(long)]
    wan: Option<String>,
    /// HTTP on this port, site i (from 1) speaks RESP on this port + i
    #[arg(long, default_value_t = 7100, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Logical partitions of the key space (default 16)
    #[arg(long)]
    partitions: Option<u16>,
    /// Workers (threads) per site, at most 32 and one per partition (default 1)
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    workers: Option<u8>,
    /// Keep data in this directory, and find it again; without, it ends with the process
    #[arg(long)]
    data: Option<PathBuf>,
    /// A solera.toml
    #[arg(long)]
    config: Option<PathBuf>,
    /// Begin the data directory with a backup; it must not exist, or be empty
    #[arg(long, value_name = "FILE", requires = "data")]
    restore: Option<PathBuf>,
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) fn main(args: &UpArgs) -> ExitCode {
    let log = Log::new(LogLevel::default());
    let done = run(args, log.clone());
    log.flush();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("solera up: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &UpArgs, log: Log) -> Result<(), Box<dyn std::error::Error>> {
    let over = Overrides {
        sites: args.sites,
        partitions: args.partitions,
        workers: args.workers,
        wan: args.wan.clone(),
        data: args.data.clone(),
        log_level: None,
    };
    let spec = ClusterSpec::load(args.config.as_deref(), over.clone())?.listen_from(args.port)?;
    for warning in spec.warnings() {
        eprintln!("warning: {warning}");
    }
    log.set_level(spec.log_level.unwrap_or_default());
    raise_descriptor_limit(&log);
    let modules = stores::host(&spec)?;
    if let Some(file) = &args.restore {
        restore::begin_with(file, &spec, Allow::default())?.tell(false);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stop, hangups) = (Stop::new()?, reload::hangups()?);
        let admin = AdminListener::bind(SocketAddr::from(([127, 0, 0, 1], args.port))).await?;
        let cluster = Arc::new(Cluster::start(spec, log.clone(), Some(Arc::new(modules)))?);
        introduce(&cluster, args.port);
        let stopped = async {
            stop.asked().await;
            // The reader may be gone, and it stops all the same.
            say!("\nstopping");
            // Who is not done by then is cut off, as it was told.
            let _ = cluster.drain().await;
        };
        let config = args.config.as_deref();
        let reloaded = reload::at_hangups(hangups, config, &over, cluster.clone(), log);
        tokio::select! {
            () = admin.serve(cluster.clone(), stopped) => {}
            () = reloaded => {}
        }
        Ok(())
    })
}

/// Prints the sites of the cluster, its settings, and what to try.
fn introduce(cluster: &Cluster, port: u16) {
    let spec = cluster.spec();
    let width = spec.sites.iter().map(|site| site.name.len()).max().unwrap_or(0).max(4);
    let mut workers: Vec<_> =
        (0..spec.sites.len()).map(|site| spec.workers_of(site).to_string()).collect();
    workers.dedup();
    say!(
        "Solera {}: cluster '{}', {} sites of {} partitions on {} worker(s) each, f = {}\n",
        env!("CARGO_PKG_VERSION"),
        spec.name,
        spec.sites.len(),
        spec.partitions,
        workers.join("/"),
        spec.f
    );
    let heads = spec.sites.iter().map(|site| format!("{:>1$}", site.name, width.max(8)));
    say!(
        "  {:width$}  {:>5}   round trips in ms: {}",
        "site",
        "RESP",
        heads.collect::<Vec<_>>().join(" ")
    );
    for (i, site) in spec.sites.iter().enumerate() {
        let trips = spec.wan.rtt_ms[i].iter().map(|rtt| format!("{rtt:>0$}", width.max(8)));
        say!(
            "  {:width$}  {:>5}                      {}",
            site.name,
            site.listen.map_or(0, |address| address.port()),
            trips.collect::<Vec<_>>().join(" ")
        );
    }
    say!("");
    describe(spec);
    say!("\n  HTTP  http://127.0.0.1:{port}/status  /metrics\n");
    for found in cluster.found() {
        say!("  {found}");
    }
    match &spec.data {
        Some(data) => say!("Data is in {}. Try, in other terminals:", data.display()),
        None => say!(
            "Data is in memory and ends with this process (--data DIR keeps it). Try, in other \
             terminals:"
        ),
    }
    say!("  redis-cli -p {} set greeting hello", port + 1);
    if spec.sites.len() > 1 {
        say!("  redis-cli -p {} get greeting", port + 2);
        say!("  solera fault cut 1 2 --port {port}");
    }
    say!("Ctrl-C stops it.");
}

/// Prints the settings in which the cluster differs from others: protocol, spaces, TLS ports,
/// users.
fn describe(spec: &ClusterSpec) {
    if spec.protocol != Baseline::UniStore {
        let (name, what) = (spec.protocol.name(), spec.protocol.explained());
        say!("  protocol {name}: {what}\n");
    }
    for space in spec.spaces.iter() {
        say!(
            "  space {}: keys beginning with '{}' are {}",
            space.name,
            space.prefix,
            space.level_name()
        );
        if space.runs != Runs::UniStore {
            say!("    an example of a protocol, not for data that matters");
        }
    }
    let tls = spec.sites.iter().filter_map(|site| site.listen_tls);
    let ports: Vec<String> = tls.map(|address| address.port().to_string()).collect();
    if !ports.is_empty() {
        say!("\n  RESP over TLS on ports {}", ports.join(", "));
    }
    if spec.users.are_configured() {
        let anyone = spec.users.get("default").is_some_and(|user| user.nopass && user.enabled);
        match anyone {
            true => say!("\n  users: clients without AUTH have the rights of 'default'"),
            false => say!("\n  users: commands need AUTH"),
        }
    }
}
