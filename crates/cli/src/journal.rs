//! `solera journal`: checks, dumps and repairs the journals of a stopped node.

use solera_commands::counted;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use solera_journal::{
    Entry, Error, RealDisk, Repair, Report, check, dump, is_begun, must_be_repaired, repair,
};
use solera_node::{disown, examine};
use solera_unistore::{Part, Record};

const EXAMPLES: &str = "\
Examples:
  solera journal check /var/lib/solera      checks all journals below DIR; exit code 1 for damage
  solera journal dump DIR/eu/worker-0       prints every record, one per line
  solera journal repair DIR/eu/worker-0     truncates a damaged journal at the first damage

DIR is a data directory, or one worker's folder in it. The node must be stopped.";

/// Advice where a repair cannot help.
const GIVE_UP: &str = "\
the node does not start with this data, and `solera journal repair` cannot repair it. Restore the missing \
files as they were at the last start. If they are lost, so are all updates that the node had not replicated:
  where there are other sites, remove this one (`solera site remove NAME`), add it again \
(`solera site add NAME`), and start its nodes with empty directories and `--join`;
  in a cluster of one site, start with empty directories and restore a backup; or continue without this \
node's data: with an empty directory, its other nodes accept it.";

/// Check, print or repair the journals of a stopped node
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JournalArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read all journals and report damage
    #[command(after_help = "Example:\n  solera journal check /var/lib/solera")]
    Check {
        /// Data directory, or a worker's folder in it
        dir: PathBuf,
    },
    /// Print every record
    #[command(after_help = "Example:\n  solera journal dump /var/lib/solera/eu/worker-0")]
    Dump {
        /// Data directory, or a worker's folder in it
        dir: PathBuf,
    },
    /// Truncate a damaged journal at the first damage, after copying what is removed
    #[command(after_help = "Example:\n  solera journal repair /var/lib/solera/eu/worker-0")]
    Repair {
        /// Folder of one worker
        dir: PathBuf,
        /// Folder for copies of what is removed (default: DIR.backup-N)
        #[arg(long)]
        backup: Option<PathBuf>,
    },
}

/// Runs the command. Exit code 1 for damage, 2 for journals that cannot be read.
pub(crate) fn main(args: &JournalArgs) -> ExitCode {
    let done = match &args.action {
        Action::Check { dir } => check_all(dir),
        Action::Dump { dir } => each(dir, |folder| {
            output!("# {}", folder.display());
            let report = dump(&RealDisk::new(folder), |entry| {
                output!("{}", line(entry));
                Ok(())
            })?;
            report.problems.iter().for_each(|problem| print_error!("damaged: {problem}"));
            Ok(report.problems.is_empty())
        }),
        Action::Repair { dir, backup } => repair_one(dir, backup.as_deref()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            print_error!("solera journal: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Checks all journals in a directory, and that none is missing.
fn check_all(dir: &Path) -> Result<bool, String> {
    let missing = missing_data(dir)?;
    let intact = match journals(dir)?.is_empty() && !missing.is_empty() {
        true => false,
        false => each(dir, |folder| {
            let report = check(&RealDisk::new(folder))?;
            print_report(folder, &report);
            Ok(report.problems.is_empty())
        })?,
    };
    for copy in copies_and_journals(dir)?.0 {
        output!("{}\n  not checked: a copy of what a repair has changed", copy.display());
    }
    print_missing(&missing);
    Ok(intact && missing.is_empty())
}

/// Returns descriptions of the parts that are missing in the data directory. Does not check the
/// contents of journals.
fn missing_data(dir: &Path) -> Result<Vec<String>, String> {
    examine(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))
}

fn print_missing(missing: &[String]) {
    for problem in missing {
        output!("DAMAGED   {problem}");
    }
    if !missing.is_empty() {
        output!("{GIVE_UP}");
    }
}

/// Applies `action` to each journal in a directory; returns `false` if any call did.
fn each(dir: &Path, mut action: impl FnMut(&Path) -> Result<bool, Error>) -> Result<bool, String> {
    let folders = journals(dir)?;
    if folders.is_empty() {
        return Err(format!("{} holds no journal", dir.display()));
    }
    let mut all_intact = true;
    for folder in folders {
        let intact = action(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        all_intact &= intact;
    }
    Ok(all_intact)
}

/// Returns the folders of all journals below `dir`, without copies that repairs have left; `dir`
/// itself, if it holds a journal.
fn journals(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let (_, journals) = copies_and_journals(dir)?;
    Ok(journals)
}

/// Returns whether a folder has the name of a copy that a repair leaves beside a journal.
fn is_copy(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let number = name.rsplit_once(".backup-").map(|(_, number)| number);
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the copies that repairs have left below `dir`, and all other journals; `dir` itself as a
/// journal, if it holds one.
fn copies_and_journals(dir: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
    let list = |dir: &Path| -> Result<Vec<PathBuf>, String> {
        let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", dir.display());
        let entries = std::fs::read_dir(dir).map_err(unreadable)?;
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        Ok(paths)
    };
    let is_journal = |dir: &Path| {
        dir.join("lock").is_file() || is_begun(&RealDisk::new(dir)).is_ok_and(|begun| begun)
    };
    if is_journal(dir) {
        return Ok((Vec::new(), vec![dir.to_owned()]));
    }
    // A worker's folder is in its site's folder, which may be in one node's part of a shared
    // directory.
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    for _ in 0..4 {
        let mut below = Vec::new();
        for folder in folders {
            below.extend(
                list(&folder)?
                    .into_iter()
                    .filter(|path| path.is_dir() && !path.ends_with("lost+found")),
            );
        }
        let (journals, others) = below.into_iter().partition(|path| is_journal(path));
        found.extend::<Vec<PathBuf>>(journals);
        folders = others;
    }
    Ok(found.into_iter().partition(|folder| is_copy(folder)))
}

fn print_report(folder: &Path, report: &Report) {
    output!("{}", folder.display());
    if let Some(identity) = &report.identity {
        output!("  id        {identity}");
    }
    if let Some(snapshot) = &report.snapshot {
        output!(
            "  snapshot  {}: {}, up to record {}",
            snapshot.file,
            counted(snapshot.records, "part"),
            snapshot.lsn.0
        );
    }
    for segment in &report.segments {
        output!(
            "  segment   {}: records {} to {}, {} of {} bytes used",
            segment.file,
            segment.first.0,
            segment.last().0,
            segment.used_bytes,
            segment.bytes
        );
    }
    if let Some(torn) = &report.torn {
        output!("  torn      {torn}; the next start removes it");
    }
    for problem in &report.problems {
        output!("  DAMAGED   {problem}");
    }
    for file in &report.foreign {
        output!("  foreign   {file} is not a file of a journal");
    }
    output!("  {}", if report.problems.is_empty() { "no damage found" } else { "damaged" });
}

/// Formats one entry as one line.
fn line(entry: Entry<'_>) -> String {
    match entry {
        Entry::Snapshot { lsn, payload } => {
            let part = payload.split_first_chunk::<8>().map(|(covers, part)| {
                let covers = u64::from_le_bytes(*covers);
                let part = shown(
                    part,
                    Part::decode,
                    solera_primary::Part::decode,
                    solera_occult::Part::decode,
                );
                part.map_or_else(|error| error, |part| format!("covers up to {covers}: {part}"))
            });
            format!("snapshot {}: {}", lsn.0, part.unwrap_or_else(|| "too short".to_owned()))
        }
        Entry::Record { lsn, payload } => {
            let record = shown(
                payload,
                Record::decode,
                solera_primary::Record::decode,
                solera_occult::Record::decode,
            );
            format!("{}: {}", lsn.0, record.unwrap_or_else(|error| error))
        }
    }
}

/// Formats bytes of UniStore, of `primary` or of Occult; the error is UniStore's.
fn shown<A: fmt::Debug, B: fmt::Debug, C: fmt::Debug, E: fmt::Display>(
    bytes: &[u8],
    unistore: impl Fn(&[u8]) -> Result<A, E>,
    primary: impl Fn(&[u8]) -> Result<B, E>,
    occult: impl Fn(&[u8]) -> Result<C, E>,
) -> Result<String, String> {
    let error = match unistore(bytes) {
        Ok(found) => return Ok(format!("{found:?}")),
        Err(error) => error.to_string(),
    };
    match (primary(bytes), occult(bytes)) {
        (Ok(found), _) => Ok(format!("primary {found:?}")),
        (_, Ok(found)) => Ok(format!("occult {found:?}")),
        _ => Err(error),
    }
}

fn repair_one(dir: &Path, backup: Option<&Path>) -> Result<bool, String> {
    let [folder] = journals(dir)?.try_into().map_err(|found: Vec<PathBuf>| {
        format!("{} holds {} journals; name one worker's folder", dir.display(), found.len())
    })?;
    let backup = match backup {
        Some(backup) => backup.to_owned(),
        None => (1..)
            .map(|number| folder.with_extension(format!("backup-{number}")))
            .find(|path| !path.exists())
            .expect("some number is free"),
    };
    let disk = RealDisk::new(&folder);
    let in_folder = |error: Error| format!("{}: {error}", folder.display());
    let must = match must_be_repaired(&disk) {
        Err(error @ Error::BeyondRepair(_)) => {
            output!("DAMAGED   {}", in_folder(error));
            output!("{GIVE_UP}");
            return Ok(false);
        }
        must => must.map_err(in_folder)?,
    };
    std::fs::create_dir_all(&backup)
        .map_err(|error| format!("cannot create {}: {error}", backup.display()))?;
    // The node disowns its data before the repair, so that other nodes never mistake the remaining
    // data for the complete data.
    let disowned = match must {
        false => None,
        true => disown(&folder.canonicalize().map_err(|error| error.to_string())?)
            .map_err(|error| error.to_string())?,
    };
    let done = repair(&disk, &RealDisk::new(&backup)).map_err(in_folder)?;
    if done.problems.is_empty() {
        // Removes the folder only if it is empty.
        let _ = std::fs::remove_dir(&backup);
        let missing = missing_data(&folder)?;
        match missing.is_empty() {
            true => output!("no damage found; nothing was changed"),
            false => print_missing(&missing),
        }
        return Ok(missing.is_empty());
    }
    print_repair(&done, &backup);
    if let Some(root) = disowned {
        output!(
            "the data in {} has a new id: other sites may have received updates that are lost here, so \
             they reject this data. Remove the site and add it again; a cluster of one site continues \
             with the remaining data",
            root.display()
        );
    } else {
        output!(
            "no solera-data.toml was found two folders above: if this is a copy, do not use it for a \
             node whose cluster has other sites"
        );
    }
    Ok(true)
}

/// Prints what was damaged, what the repair changed, and which records are lost.
fn print_repair(done: &Repair, backup: &Path) {
    for problem in &done.problems {
        output!("damaged: {problem}");
    }
    if let Some((file, at)) = &done.cut {
        output!("truncated {file} at byte {at}");
    }
    for file in &done.moved {
        output!("moved {file} away");
    }
    output!("copies of what was changed or removed are in {}", backup.display());
    match done.seen.0 - done.last.0.min(done.seen.0) {
        0 => output!("unreadable records after record {} are lost, if there were any", done.last.0),
        1 => output!("record {} is lost, and so are unreadable records after it", done.seen.0),
        _ => output!(
            "records {} to {} are lost, and so are unreadable records after them",
            done.last.0 + 1,
            done.seen.0
        ),
    }
}
