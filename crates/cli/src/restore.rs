//! `solera restore`: a new cluster from a backup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use solera::{Client, Embedded, Endpoint};
use solera_backup::{RestoreError, Restored, SpaceInfo, restore};
use solera_node::{ClusterSpec, Overrides, Users};

use crate::backup::{Amount, Backup, Bar, check, open};
use crate::connect::LoginArgs;

const EXAMPLES: &str = "\
Examples:
  solera restore monday.backup --data DIR         makes DIR, for `solera up --data DIR`
  solera up --data DIR --restore monday.backup    the same, and starts it
  solera restore monday.backup --to 10.0.0.1:7101 fills a new cluster that runs: `solera serve`

The new cluster may have other sites, partitions and workers than the old one, but must have the same
spaces: what they promise of keys must not change unnoticed. `solera backup check` shows them.";

/// How long the data may take to become durable at other sites.
const PATIENCE: Duration = Duration::from_secs(60);

/// Make a new cluster from a backup
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArgs {
    /// What `solera backup` wrote
    file: PathBuf,
    /// Fill a running, empty cluster, at one of its sites
    #[arg(
        long,
        value_name = "HOST:PORT",
        required_unless_present = "data",
        conflicts_with = "data"
    )]
    to: Option<Endpoint>,
    #[command(flatten)]
    login: LoginArgs,
    /// With --to: write although the cluster holds keys, or has other spaces. Strings are replaced,
    /// elements and fields added
    #[arg(long, requires = "to")]
    force: bool,
    /// Make a data directory for `solera up`; it must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --data: how many sites (default 3, or as configured)
    #[arg(long, requires = "data")]
    sites: Option<usize>,
    /// With --data: logical partitions (default 16, or as configured)
    #[arg(long, requires = "data")]
    partitions: Option<u16>,
    /// With --data: workers per site (default 1, or as configured)
    #[arg(long, requires = "data", value_parser = clap::value_parser!(u8).range(1..))]
    workers: Option<u8>,
    /// With --data: the solera.toml
    #[arg(long, requires = "data")]
    config: Option<PathBuf>,
    /// Tell the result as JSON
    #[arg(long)]
    json: bool,
}

/// Does it; fails unless all is there in the end.
pub(crate) fn main(args: &RestoreArgs) -> ExitCode {
    match run(args) {
        Ok(done) => {
            done.tell(args.json);
            if let (Some(data), false) = (&args.data, args.json) {
                say!("start it with `solera up --data {}` and the same options", data.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("solera restore: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RestoreArgs) -> Result<Done, String> {
    let Some(endpoint) = &args.to else {
        let over = Overrides {
            sites: args.sites,
            partitions: args.partitions,
            workers: args.workers,
            wan: None,
            data: args.data.clone(),
            log_level: None,
        };
        let spec = ClusterSpec::load(args.config.as_deref(), over);
        return begin_with(&args.file, &spec.map_err(|error| error.to_string())?);
    };
    let backup = check(&args.file)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut client = args.login.connect(endpoint).await?;
        fill(&mut client, &args.file, &backup, args.force).await
    })
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Done {
    restored: Restored,
}

impl Done {
    pub(crate) fn tell(&self, as_json: bool) {
        let Restored { tally, compared, durable } = &self.restored;
        if as_json {
            let about = json!({
                "keys": tally.keys(), "content": tally, "compared": compared, "durable": durable,
            });
            return say!("{about}");
        }
        say!("restored {}", Amount(tally));
        if *compared {
            say!("all of it was read back and is the same");
        }
        if !durable {
            say!("it is not durable at other sites yet: are they all there?");
        }
    }
}

/// Makes a cluster's data directory from a backup. It appears when all is in it.
///
/// # Errors
/// In words for people.
pub(crate) fn begin_with(file: &Path, spec: &ClusterSpec) -> Result<Done, String> {
    let data = spec.data.as_ref().ok_or("a data directory is needed")?;
    let unusable = |error: std::io::Error| format!("{} cannot be made: {error}", data.display());
    let is_empty = |dir: &Path| fs::read_dir(dir).map(|mut entries| entries.next().is_none());
    if data.exists() && !is_empty(data).map_err(unusable)? {
        return Err(format!("{} is not empty; a backup makes a new directory", data.display()));
    }
    let backup = check(file)?;
    let mut partial = data.clone().into_os_string();
    partial.push(format!(".partial-{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let filled = fill_directory(file, &backup, spec, &partial);
    // Over an empty directory, too.
    let moved = filled.and_then(|done| {
        fs::rename(&partial, data).map_err(unusable)?;
        Ok(done)
    });
    if moved.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_dir_all(&partial);
    }
    moved
}

/// Runs the cluster without any ports, users or delays.
fn fill_directory(
    file: &Path,
    backup: &Backup,
    spec: &ClusterSpec,
    data: &Path,
) -> Result<Done, String> {
    let spec = ClusterSpec {
        data: Some(data.to_owned()),
        users: Users::default(),
        tls: None,
        peer_tls: None,
        ..spec.clone()
    };
    let cluster = Embedded::with(spec).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut client = cluster.client(0).await.map_err(|error| error.to_string())?;
        fill(&mut client, file, backup, false).await
    })
}

async fn fill(
    client: &mut Client,
    file: &Path,
    backup: &Backup,
    force: bool,
) -> Result<Done, String> {
    let bar = Bar::new("written");
    let (reader, keys) = (open(file)?, backup.tally.keys());
    let restored =
        restore(client, reader, force, PATIENCE, keys, |progress| bar.show(progress)).await;
    drop(bar);
    match restored {
        Ok(restored) => Ok(Done { restored }),
        Err(error @ RestoreError::NotEmpty(_)) => Err(format!(
            "{error}; a backup makes a new cluster, or is written over it with --force"
        )),
        Err(error @ RestoreError::Spaces { .. }) => Err(format!(
            "{error}; configure the cluster as the old one was:\n{}",
            toml_of(&backup.header.spaces)
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Spaces as `solera.toml` has them.
fn toml_of(spaces: &[SpaceInfo]) -> String {
    let space = |SpaceInfo { name, prefix, level }: &SpaceInfo| {
        format!("[[space]]\nname = {name:?}\nprefix = {prefix:?}\nlevel = {level:?}\n")
    };
    spaces.iter().map(space).collect()
}
