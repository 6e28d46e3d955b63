//! `solera restore`: creates a new cluster from a backup.

use solera_commands::counted;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::json;
use solera::{Client, Endpoint};
use solera_backup::{Allow, Difference, Finals, RestoreError, Restored, SpaceInfo, restore};
use solera_config::{ClusterSpec, LogSpec, Overrides, Relation, Users};
use solera_embedded::Embedded;

use crate::backup::{Amount, Backup, Bar, check, lacking, open, printable};
use crate::connect::LoginArgs;

const EXAMPLES: &str = "\
Examples:
  solera restore monday.backup --data DIR         creates DIR, for `solera up --data DIR`
  solera up --data DIR --restore monday.backup    the same, and starts the cluster
  solera restore monday.backup --to 10.0.0.1:7101 fills a new, running cluster (`solera serve`)

The new cluster may have other sites, partitions and workers than the old one, but must have the
same spaces: the same prefixes, levels, types, error bounds, strong commands and conflicts. If they
differ, the command writes nothing, lists all differences, and exits with 4. With
--allow-other-spaces it lists the differences and continues with the cluster's own spaces. `solera
backup check` prints the spaces of a backup.";

/// Exit code when the spaces of the backup and of the cluster differ.
const OTHER_SPACES: u8 = 4;

/// Time to wait until the data is durable at other sites.
const PATIENCE: Duration = Duration::from_secs(60);

/// Create a new cluster from a backup
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("target").args(["to", "data"]).required(true))]
pub(crate) struct RestoreArgs {
    /// File that `solera backup` wrote
    file: PathBuf,
    /// Fill a running, empty cluster through this node
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<Endpoint>,
    #[command(flatten)]
    login: LoginArgs,
    /// With --to: write even if the cluster holds keys. Strings and counters are replaced; elements
    /// and fields are added
    #[arg(long, conflicts_with = "data")]
    force: bool,
    /// Write even if the cluster's spaces differ from the backup's, and list the differences
    #[arg(long)]
    allow_other_spaces: bool,
    /// Create a data directory for `solera up`; it must be empty or not exist
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --data: number of sites (default 3, or as configured)
    #[arg(long, conflicts_with = "to")]
    sites: Option<usize>,
    /// With --data: number of logical partitions (default 16, or as configured)
    #[arg(long, conflicts_with = "to")]
    partitions: Option<u16>,
    /// With --data: number of workers per site (default 1, or as configured)
    #[arg(long, conflicts_with = "to", value_parser = clap::value_parser!(u8).range(1..))]
    workers: Option<u8>,
    /// With --data: configuration file (solera.toml)
    #[arg(long, conflicts_with = "to")]
    config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; fails unless the whole backup is restored.
pub(crate) fn main(args: &RestoreArgs) -> ExitCode {
    match run(args) {
        Ok(done) => {
            done.print(args.json);
            if let (Some(data), false) = (&args.data, args.json) {
                output!("start it with `solera up --data {}` and the same options", data.display());
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            print_error!("solera restore: {failure}");
            match failure {
                Failure::OtherSpaces(differences, _) => {
                    if args.json {
                        output!("{}", json!({ "differences": differences }));
                    }
                    ExitCode::from(OTHER_SPACES)
                }
                Failure::Message(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn run(args: &RestoreArgs) -> Result<Done, Failure> {
    let allow = Allow { keys: args.force, other_spaces: args.allow_other_spaces };
    let Some(endpoint) = &args.to else {
        let over = Overrides {
            sites: args.sites,
            partitions: args.partitions,
            workers: args.workers,
            wan: None,
            data: args.data.clone(),
            log: LogSpec::default(),
        };
        let spec = ClusterSpec::load(args.config.as_deref(), over);
        return begin_with(&args.file, &spec.map_err(|error| error.to_string())?, allow);
    };
    let backup = check(&args.file)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let mut client = args.login.connect(endpoint).await?;
        fill(&mut client, &args.file, &backup, allow).await
    })
}

/// Error of a restore that wrote nothing, or not everything.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A message for users.
    #[error("{0}")]
    Message(String),
    /// The cluster's spaces differ from the backup's: the differences, and the backup's spaces.
    #[error(
        "the cluster's spaces differ from the backup's; nothing was written:\n{}`solera restore \
         --allow-other-spaces` restores all the same, with the cluster's spaces; or configure \
         the cluster like the old one:\n{}",
        table(.0),
        settings_of(.1)
    )]
    OtherSpaces(Vec<Difference>, Vec<SpaceInfo>),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure::Message(text)
    }
}

/// Result of a restore.
#[derive(Debug)]
pub(crate) struct Done {
    restored: Restored,
    /// State of the backup's space of level `speculative`.
    speculative: Option<Finals>,
}

impl Done {
    pub(crate) fn print(&self, as_json: bool) {
        let Restored { differences, tally, compared, unread, durable } = &self.restored;
        if as_json {
            let about = json!({
                "keys": tally.keys(), "content": tally, "compared": compared, "unread": unread,
                "durable": durable, "differences": differences, "speculative": self.speculative,
            });
            return output!("{about}");
        }
        if !differences.is_empty() {
            output!(
                "the cluster's spaces differ from the backup's:\n{}",
                table(differences).trim_end()
            );
        }
        output!("restored {}", Amount(tally));
        if let Some(warning) = self.speculative.as_ref().and_then(lacking) {
            output!("WARNING: {warning}");
        }
        match (*compared, *unread) {
            (true, 0) => output!("read back and compared: all data is identical"),
            (true, keys) => output!(
                "read back and compared: all data is identical, except {} in spaces outside snapshots. They \
                 were not compared",
                counted(keys, "key")
            ),
            (false, _) => {}
        }
        if !durable {
            output!("the data is not durable at other sites yet: are they all running?");
        }
    }
}

/// Creates a cluster's data directory from a backup. The directory appears only when it is
/// complete.
///
/// # Errors
/// A message for users.
pub(crate) fn begin_with(file: &Path, spec: &ClusterSpec, allow: Allow) -> Result<Done, Failure> {
    let data = spec.data.as_ref().ok_or("a data directory is required".to_owned())?;
    let unusable = |error: std::io::Error| format!("cannot create {}: {error}", data.display());
    let is_empty = |dir: &Path| fs::read_dir(dir).map(|mut entries| entries.next().is_none());
    if data.exists() && !is_empty(data).map_err(unusable)? {
        let text = format!(
            "{} is not empty; a backup can only be restored into a new directory",
            data.display()
        );
        return Err(text.into());
    }
    let backup = check(file)?;
    let mut partial = data.clone().into_os_string();
    partial.push(format!(".partial-{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let filled = fill_directory(file, &backup, spec, &partial, allow);
    // This also replaces an empty directory.
    let moved = filled.and_then(|done| {
        fs::rename(&partial, data).map_err(unusable)?;
        Ok(done)
    });
    if moved.is_err() {
        // The first error is reported, not one of the removal.
        let _ = fs::remove_dir_all(&partial);
    }
    moved
}

/// Runs the cluster without ports, users or delays, and fills it.
fn fill_directory(
    file: &Path,
    backup: &Backup,
    spec: &ClusterSpec,
    data: &Path,
    allow: Allow,
) -> Result<Done, Failure> {
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
        fill(&mut client, file, backup, allow).await
    })
}

async fn fill(
    client: &mut Client,
    file: &Path,
    backup: &Backup,
    allow: Allow,
) -> Result<Done, Failure> {
    let bar = Bar::new("written");
    let (reader, keys) = (open(file)?, backup.tally.keys());
    let restored =
        restore(client, reader, allow, PATIENCE, keys, |progress| bar.show(progress)).await;
    drop(bar);
    match restored {
        Ok(restored) => Ok(Done { restored, speculative: backup.header.speculative.clone() }),
        Err(RestoreError::Spaces(differences)) => {
            Err(Failure::OtherSpaces(differences, backup.header.spaces.clone()))
        }
        Err(error @ RestoreError::NotEmpty(_)) => {
            let hint = "restore into a new cluster, or write over its keys with --force";
            Err(Failure::Message(format!("{error}; {hint}")))
        }
        Err(error) => Err(Failure::Message(error.to_string())),
    }
}

/// Formats the differences as a table with aligned columns, one per line.
fn table(differences: &[Difference]) -> String {
    let mut rows = vec![["keys with", "", "backup", "cluster"].map(str::to_owned)];
    rows.extend(differences.iter().map(|Difference { prefix, what, backup, cluster }| {
        let [what, backup, cluster] = [what, backup, cluster].map(|text| printable(text));
        [format!("'{}'", prefix.escape_debug()), what, backup, cluster]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let line = |[keys, what, backup, cluster]: &[String; 4]| {
        let [first, second, third] = widths;
        format!("  {keys:first$}  {what:second$}  {backup:third$}  {cluster}\n")
    };
    rows.iter().map(line).collect()
}

/// Formats spaces, with the permission that they need, as sections of `solera.toml`.
fn settings_of(spaces: &[SpaceInfo]) -> String {
    let mut lines: String = spaces.iter().map(toml_of).collect();
    let is_example = |space: &SpaceInfo| space.protocol_number == solera_primary::PROTOCOL.number;
    if spaces.iter().any(is_example) {
        lines.push_str("[development]\nexamples = true\n");
    }
    lines
}

/// Formats a space as a section of `solera.toml`.
fn toml_of(space: &SpaceInfo) -> String {
    let SpaceInfo { name, prefix, level, strong, conflicts, .. } = space;
    let mut lines = format!("[[space]]\nname = {name:?}\nprefix = {prefix:?}\nlevel = {level:?}\n");
    if space.declares() || !strong.is_empty() {
        lines.push_str(&format!("strong = {strong:?}\n"));
    }
    if space.declares() {
        let pairs = match Relation::named(strong, conflicts) {
            Some(relation) => relation.pairs().iter().map(|pair| pair.map(str::to_owned)).collect(),
            // A newer version wrote the backup, and it contains commands that this version does not
            // know.
            None => conflicts.clone(),
        };
        if !pairs.is_empty() {
            lines.push_str(&format!("conflicts = {pairs:?}\n"));
        }
    }
    for (setting, value) in [
        ("answer", &space.answer),
        ("home", &space.home),
        ("type", &space.of_type),
        ("error", &space.error),
        ("at_least", &space.at_least),
    ] {
        if let Some(value) = value {
            lines.push_str(&format!("{setting} = {value:?}\n"));
        }
    }
    if let Some(lease_ms) = space.lease_ms {
        lines.push_str(&format!("lease_ms = {lease_ms}\n"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster with the printed settings has the same spaces.
    #[test]
    fn printed_spaces_are_a_valid_configuration() {
        let space = |name: &str, level: &str, number: u8, answer: Option<&str>| SpaceInfo {
            name: name.to_owned(),
            prefix: format!("{name}:"),
            level: level.to_owned(),
            protocol_number: number,
            answer: answer.map(str::to_owned),
            ..SpaceInfo::default()
        };
        let home = Some("california".to_owned());
        let spaces = [
            space("a", "causal", 1, None),
            space("n", "primary", 2, Some("accepted")),
            SpaceInfo { home, ..space("w", "pcpsi", 3, None) },
            SpaceInfo { strong: vec!["INCRBY".to_owned()], ..space("o", "speculative", 5, None) },
            SpaceInfo {
                of_type: Some("counter".to_owned()),
                error: Some("0.5%".to_owned()),
                lease_ms: Some(700),
                at_least: Some("causal".to_owned()),
                ..space("v", "causal", 1, None)
            },
        ];
        let text = settings_of(&spaces);
        let spec = ClusterSpec::parse("printed", &text, Overrides::default());
        let spec = spec.unwrap_or_else(|error| panic!("{error} in\n{text}"));
        let of = |key: &[u8]| spec.spaces.space_of(key).to_string();
        assert_eq!(of(b"n:1"), "n = \"n:\" primary (answers when accepted)");
        assert_eq!(of(b"a:1"), "a = \"a:\" causal");
        assert_eq!(of(b"o:1"), "o = \"o:\" speculative (strong INCRBY)");
        let described =
            "v = \"v:\" causal (counter, error 0.5%, lease 700 ms) (reads at least causal)";
        assert_eq!(of(b"v:1"), described);
        assert!(text.contains("level = \"pcpsi\"\nhome = \"california\"\n"), "{text}");
        assert!(!settings_of(&spaces[..1]).contains("examples"));
    }
}
