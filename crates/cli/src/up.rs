//! `solera up`: runs a geo-replicated cluster in one process.

use solera_commands::counted;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use solera_backup::Allow;
use solera_config::{Baseline, ClusterSpec, LogSpec, Overrides, Runs, Space, User};
use solera_node::{AdminListener, Cluster, raise_descriptor_limit};

use crate::log::Log;
use crate::stop::Stop;
use crate::{output, reload, restore, stores};

const EXAMPLES: &str = "\
Examples:
  solera up                                three sites on ports 7101 to 7103, without delays
  solera up --wan aws                      with the delays between AWS regions
  solera up --sites 5 --wan lan --port 8000
  solera up --config solera.toml           with sites, spaces and other settings from a file
  solera up --data DIR --restore FILE      a new cluster with the data of a backup

Then, in other terminals:
  redis-cli -p 7101 set greeting hello
  redis-cli -p 7102 get greeting
  solera fault cut 1 2

Exits with 0 when it is stopped, and with 1 if it cannot start.";

/// Run all sites of a cluster in one process, for development
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    /// Number of sites (default 3, or as configured)
    #[arg(long)]
    sites: Option<usize>,
    /// Delays between sites: aws, lan, none, or a file with rtt_ms = [[0, 61], [61, 0]] and,
    /// optionally, names = ["a", "b"]
    #[arg(long)]
    wan: Option<String>,
    /// Port of the HTTP interface; site i (from 1) serves RESP on this port + i
    #[arg(long, default_value_t = 7100, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Number of logical partitions of the key space (default 16)
    #[arg(long)]
    partitions: Option<u16>,
    /// Number of workers (threads) per site, at most 32 and at most one per partition (default 1)
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    workers: Option<u8>,
    /// Data directory. Without it, data is kept in memory and is lost when the process exits
    #[arg(long)]
    data: Option<PathBuf>,
    /// Configuration file (solera.toml)
    #[arg(long)]
    config: Option<PathBuf>,
    /// Fill the data directory from this backup; the directory must be empty or not exist
    #[arg(long, value_name = "FILE", requires = "data")]
    restore: Option<PathBuf>,
}

/// Runs until Ctrl-C or SIGTERM.
pub(crate) fn main(args: &UpArgs, log: &Log) -> ExitCode {
    match run(args, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error!("solera up: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &UpArgs, log: &Log) -> Result<(), Box<dyn std::error::Error>> {
    let over = Overrides {
        sites: args.sites,
        partitions: args.partitions,
        workers: args.workers,
        wan: args.wan.clone(),
        data: args.data.clone(),
        log: LogSpec::default(),
    };
    let spec = ClusterSpec::load(args.config.as_deref(), over.clone())?.listen_from(args.port)?;
    for warning in spec.warnings() {
        print_error!("warning: {warning}");
    }
    log.configure(&spec.log);
    raise_descriptor_limit();
    let modules = stores::host(&spec)?;
    if let Some(file) = &args.restore {
        restore::begin_with(file, &spec, Allow::default())?.print(false);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stop, hangups) = (Stop::new()?, reload::hangups()?);
        let admin = AdminListener::bind(SocketAddr::from(([127, 0, 0, 1], args.port))).await?;
        let cluster = Arc::new(Cluster::start(spec, Some(Arc::new(modules)))?);
        print_summary(&cluster, args.port).await;
        if output::has_failed() {
            // The program that has started this one may wait for these lines forever.
            return Ok(());
        }
        let stopped = async {
            stop.requested().await;
            // The process stops even if standard output is closed.
            output!("\nstopping");
            // Clients that have not finished within the configured time are disconnected.
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

/// Prints the sites of the cluster, its settings, and commands to try.
async fn print_summary(cluster: &Cluster, port: u16) {
    let spec = cluster.spec();
    let width = spec.sites.iter().map(|site| site.name.len()).max().unwrap_or(0).max(4);
    let mut workers: Vec<_> =
        (0..spec.sites.len()).map(|site| spec.workers_of(site).to_string()).collect();
    workers.dedup();
    let workers = match workers.as_slice() {
        [one] if one == "1" => "1 worker".to_owned(),
        several => format!("{} workers", several.join("/")),
    };
    output!(
        "Solera {}: cluster '{}', {} with {} on {workers} each, f = {}\n",
        env!("CARGO_PKG_VERSION"),
        spec.name,
        counted(spec.sites.len(), "site"),
        counted(spec.partitions, "partition"),
        spec.f
    );
    let heads = spec.sites.iter().map(|site| format!("{:>1$}", site.name, width.max(8)));
    output!(
        "  {:width$}  {:>5}   round trips in ms: {}",
        "site",
        "RESP",
        heads.collect::<Vec<_>>().join(" ")
    );
    for (i, site) in spec.sites.iter().enumerate() {
        let trips = spec.wan.rtt_ms[i].iter().map(|rtt| format!("{rtt:>0$}", width.max(8)));
        output!(
            "  {:width$}  {:>5}                      {}",
            site.name,
            site.listen.map_or(0, |address| address.port()),
            trips.collect::<Vec<_>>().join(" ")
        );
    }
    output!("");
    print_settings(spec);
    print_homes(cluster).await;
    let scheme = if is_admin_tls(spec) { "https" } else { "http" };
    output!("\n  HTTP  {scheme}://127.0.0.1:{port}/status  /metrics\n");
    for found in cluster.found() {
        output!("  {found}");
    }
    let place = match &spec.data {
        Some(data) => format!("Data is in {}.", data.display()),
        None => "Data is in memory and is lost when this process exits (--data DIR keeps it)."
            .to_owned(),
    };
    let commands = commands_to_try(spec, port);
    match commands.is_empty() {
        true => output!("{place}"),
        false => output!("{place} Try, in other terminals:"),
    }
    for command in commands {
        output!("  {command}");
    }
    output!("Press Ctrl-C to stop.");
}

/// Returns whether the HTTP interface uses TLS.
fn is_admin_tls(spec: &ClusterSpec) -> bool {
    spec.tls.as_ref().is_some_and(|tls| tls.admin)
}

/// Returns commands that succeed on the cluster, with a login where they need one.
fn commands_to_try(spec: &ClusterSpec, port: u16) -> Vec<String> {
    const KEY: &[u8] = b"greeting";
    let users = &spec.users;
    // Returns the user to log in as, `Some(None)` if the command needs no login, and `None` if no
    // user is permitted to run it.
    let login = |may: &dyn Fn(&User) -> bool| match users.without_login() {
        Some(user) if may(user) => Some(None),
        _ => users.iter().find(|user| user.enabled && may(user)).map(|user| Some(&user.name)),
    };
    let redis_cli = |site: u16, name: &str, rest: &str| {
        let user = login(&|user| user.may_run_on(name, KEY))?;
        let user = user.map_or_else(String::new, |user| format!(" --user {user} --askpass"));
        Some(format!("redis-cli -p {}{user} {name} greeting{rest}", port + site))
    };
    let mut commands = vec![redis_cli(1, "set", " hello")];
    if spec.sites.len() > 1 {
        commands.push(redis_cli(2, "get", ""));
        commands.push(login(&|user| user.may_run_all("admin")).map(|user| {
            let ca = if is_admin_tls(spec) { " --cacert …" } else { "" };
            let cut = format!("solera fault cut 1 2 --port {port}{ca}");
            match user {
                None => cut,
                Some(user) => format!("SOLERA_PASSWORD=… {cut} --user {user}"),
            }
        }));
    }
    commands.into_iter().flatten().collect()
}

/// Prints how many shards have their home at each site, if there are spaces of level `pcpsi`.
async fn print_homes(cluster: &Cluster) {
    let status = cluster.status(false).await;
    let homes = status.sites.iter().filter_map(|site| {
        let shards = site.occult.as_ref()?.home_shards;
        Some(format!("{} {shards}", site.name))
    });
    let homes: Vec<String> = homes.collect();
    if !homes.is_empty() {
        output!("  homes of pcpsi shards: {}", homes.join(", "));
    }
}

/// Prints the settings that differ from the defaults: protocol, spaces, TLS ports, users.
fn print_settings(spec: &ClusterSpec) {
    if spec.protocol != Baseline::UniStore {
        let (name, what) = (spec.protocol.name(), spec.protocol.explained());
        output!("  protocol {name}: {what}\n");
    }
    for space in spec.spaces.iter() {
        output!(
            "  space {}: keys beginning with '{}' are {}",
            space.name,
            space.prefix,
            space.level_name()
        );
        match (space.of_type, space.error) {
            (Some(of_type), Some(bound)) => {
                output!("    of type {of_type} with error bound {}", bound.tolerance());
            }
            (Some(of_type), None) => output!("    of type {of_type}"),
            (None, _) => {}
        }
        if let Some(level) = space.at_least {
            output!("    SOLERA.READ reads them at level {level} or a stronger one");
        }
        if space.runs == Runs::Speculative {
            output!("    experimental; {}", strong_commands(space));
        }
        if matches!(space.runs, Runs::Primary(_)) {
            output!("    an example protocol, not for production data");
        }
    }
    let tls = spec.sites.iter().filter_map(|site| site.listen_tls);
    let ports: Vec<String> = tls.map(|address| address.port().to_string()).collect();
    if !ports.is_empty() {
        output!("\n  RESP over TLS on ports {}", ports.join(", "));
    }
    if spec.users.are_configured() {
        match spec.users.without_login().is_some() {
            true => {
                output!("\n  users: clients that send no AUTH have the rights of user 'default'")
            }
            false => output!("\n  users: commands require AUTH"),
        }
    }
}

/// Names the strong commands of a space of level `speculative`.
fn strong_commands(space: &Space) -> String {
    match &*space.relation.strong() {
        [] => "no command is strong".to_owned(),
        strong => format!("strong commands are {}", strong.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_try(users: &str) -> Vec<String> {
        let spec = ClusterSpec::parse("s.toml", users, Overrides::default()).unwrap();
        commands_to_try(&spec, 7100)
    }

    #[test]
    fn commands_to_try_succeed_where_users_are_configured() {
        let user = |name: &str, rest: &str| format!("[[user]]\nname = '{name}'\n{rest}\n");
        let password = format!("password_sha256 = ['{}']", "0".repeat(64));
        let open = user("default", "nopass = true\ncommands = ['+@all']\nkeys = ['*']");
        let plain = [
            "redis-cli -p 7101 set greeting hello",
            "redis-cli -p 7102 get greeting",
            "solera fault cut 1 2 --port 7100",
        ];
        assert_eq!(to_try(""), plain);
        assert_eq!(to_try(&open), plain);
        let reader = user("default", "nopass = true\ncommands = ['+@read']\nkeys = ['*']");
        let ann = user("ann", &format!("{password}\ncommands = ['+@write']\nkeys = ['gr*']"));
        assert_eq!(
            to_try(&(reader + &ann)),
            ["redis-cli -p 7101 --user ann --askpass set greeting hello", plain[1]]
        );
        let admin = user("root", &format!("{password}\ncommands = ['+@all']\nkeys = ['*']"));
        assert_eq!(
            to_try(&admin),
            [
                "redis-cli -p 7101 --user root --askpass set greeting hello",
                "redis-cli -p 7102 --user root --askpass get greeting",
                "SOLERA_PASSWORD=… solera fault cut 1 2 --port 7100 --user root",
            ]
        );
        let tls = "[tls]\ncert = 'c'\nkey = 'k'\nport = 7200\nadmin = true\n";
        assert_eq!(
            to_try(&(admin + tls)).last().unwrap(),
            "SOLERA_PASSWORD=… solera fault cut 1 2 --port 7100 --cacert … --user root"
        );
        let elsewhere = user("bob", &format!("{password}\ncommands = ['+@read']\nkeys = ['b:*']"));
        assert_eq!(to_try(&elsewhere), Vec::<String>::new());
    }
}
