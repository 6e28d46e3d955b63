//! `solera journal`: looks into the journals of a node that does not run, and mends them.

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
  solera journal check /var/lib/solera      all journals below; exit code 1 if any is damaged
  solera journal dump DIR/eu/worker-0       every record, one per line
  solera journal repair DIR/eu/worker-0     cuts a damaged journal at the first damage

DIR is a data directory, or one worker's folder in it. The node must not run.";

/// What is left to do where a repair cannot help.
const GIVE_UP: &str = "\
the node does not start with this data, and `solera journal repair` cannot mend that. Put back what is \
missing, as it was at the last start. If it is lost, so is what the node had told nobody:
  where there are other sites, remove this one (`solera site remove NAME`), add it again \
(`solera site add NAME`), and start its nodes with empty directories and `--join`;
  in a cluster of one site, begin with empty directories, and restore a backup; or go on without what \
this node held: with an empty directory, its other nodes let it in.";

/// Check, show or repair the journals of a node that does not run
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JournalArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read everything and tell what is damaged
    Check {
        /// A data directory, or a worker's folder
        dir: PathBuf,
    },
    /// Show every record
    Dump {
        /// A data directory, or a worker's folder
        dir: PathBuf,
    },
    /// Cut a damaged journal at the first damage, after copying what is removed
    Repair {
        /// A worker's folder
        dir: PathBuf,
        /// Where to copy what is removed (default: backup-N in the folder's parent)
        #[arg(long)]
        backup: Option<PathBuf>,
    },
}

/// Does it. Exit code 1 for damage, 2 for what cannot be looked at.
pub(crate) fn main(args: &JournalArgs) -> ExitCode {
    let done = match &args.action {
        Action::Check { dir } => check_all(dir),
        Action::Dump { dir } => each(dir, |folder| {
            say!("# {}", folder.display());
            let report = dump(&RealDisk::new(folder), |entry| {
                say!("{}", line(entry));
                Ok(())
            })?;
            report.problems.iter().for_each(|problem| eprintln!("damaged: {problem}"));
            Ok(report.problems.is_empty())
        }),
        Action::Repair { dir, backup } => mend(dir, backup.as_deref()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("solera journal: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Checks all journals in a directory, and that they are all there.
fn check_all(dir: &Path) -> Result<bool, String> {
    let lacks = lacking(dir)?;
    let well = match journals(dir)?.is_empty() && !lacks.is_empty() {
        true => false,
        false => each(dir, |folder| {
            let report = check(&RealDisk::new(folder))?;
            tell(folder, &report);
            Ok(report.problems.is_empty())
        })?,
    };
    tell_lacking(&lacks);
    Ok(well && lacks.is_empty())
}

/// What the data directory lacks, whatever its journals hold.
fn lacking(dir: &Path) -> Result<Vec<String>, String> {
    examine(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))
}

fn tell_lacking(lacks: &[String]) {
    for problem in lacks {
        say!("DAMAGED   {problem}");
    }
    if !lacks.is_empty() {
        say!("{GIVE_UP}");
    }
}

/// Does something with each journal in a directory; false if it was for any.
fn each(dir: &Path, mut action: impl FnMut(&Path) -> Result<bool, Error>) -> Result<bool, String> {
    let folders = journals(dir)?;
    if folders.is_empty() {
        return Err(format!("{} holds no journal", dir.display()));
    }
    let mut all_well = true;
    for folder in folders {
        let well = action(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        all_well &= well;
    }
    Ok(all_well)
}

/// The worker's folder itself, or those of a data directory.
fn journals(dir: &Path) -> Result<Vec<PathBuf>, String> {
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
        return Ok(vec![dir.to_owned()]);
    }
    // A worker's folder is in its site's, and that may be in one node's part of a shared directory.
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
    Ok(found)
}

fn tell(folder: &Path, report: &Report) {
    say!("{}", folder.display());
    if let Some(identity) = &report.identity {
        say!("  of        {identity}");
    }
    if let Some(snapshot) = &report.snapshot {
        say!(
            "  snapshot  {}: {} parts, up to record {}",
            snapshot.file,
            snapshot.records,
            snapshot.lsn.0
        );
    }
    for segment in &report.segments {
        say!(
            "  segment   {}: records {} to {}, {} of {} bytes used",
            segment.file,
            segment.first.0,
            segment.last().0,
            segment.used_bytes,
            segment.bytes
        );
    }
    if let Some(torn) = &report.torn {
        say!("  torn      {torn}; the next start cuts it");
    }
    for problem in &report.problems {
        say!("  DAMAGED   {problem}");
    }
    for file in &report.foreign {
        say!("  foreign   {file} is none of a journal's files");
    }
    say!("  {}", if report.problems.is_empty() { "all is well" } else { "damaged" });
}

/// One entry as one line.
fn line(entry: Entry<'_>) -> String {
    match entry {
        Entry::Snapshot { lsn, payload } => {
            let part = payload.split_first_chunk::<8>().map(|(knows, part)| {
                let knows = u64::from_le_bytes(*knows);
                let part = either(part, Part::decode, solera_primary::Part::decode);
                part.map_or_else(|error| error, |part| format!("knows of {knows}: {part}"))
            });
            format!("snapshot {}: {}", lsn.0, part.unwrap_or_else(|| "too short".to_owned()))
        }
        Entry::Record { lsn, payload } => {
            let record = either(payload, Record::decode, solera_primary::Record::decode);
            format!("{}: {}", lsn.0, record.unwrap_or_else(|error| error))
        }
    }
}

/// What bytes of UniStore or of `primary` say, or why UniStore cannot read them.
fn either<A: fmt::Debug, B: fmt::Debug, E: fmt::Display>(
    bytes: &[u8],
    unistore: impl Fn(&[u8]) -> Result<A, E>,
    primary: impl Fn(&[u8]) -> Result<B, E>,
) -> Result<String, String> {
    match unistore(bytes) {
        Ok(found) => Ok(format!("{found:?}")),
        Err(error) => match primary(bytes) {
            Ok(found) => Ok(format!("primary {found:?}")),
            Err(_) => Err(error.to_string()),
        },
    }
}

fn mend(dir: &Path, backup: Option<&Path>) -> Result<bool, String> {
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
            say!("DAMAGED   {}", in_folder(error));
            say!("{GIVE_UP}");
            return Ok(false);
        }
        must => must.map_err(in_folder)?,
    };
    std::fs::create_dir_all(&backup)
        .map_err(|error| format!("cannot create {}: {error}", backup.display()))?;
    // First, so that in no event other nodes take what is left for what was there.
    let disowned = match must {
        false => None,
        true => disown(&folder.canonicalize().map_err(|error| error.to_string())?)
            .map_err(|error| error.to_string())?,
    };
    let done = repair(&disk, &RealDisk::new(&backup)).map_err(in_folder)?;
    if done.problems.is_empty() {
        // Only an empty folder goes.
        let _ = std::fs::remove_dir(&backup);
        let lacks = lacking(&folder)?;
        match lacks.is_empty() {
            true => say!("nothing was wrong, and nothing was changed"),
            false => tell_lacking(&lacks),
        }
        return Ok(lacks.is_empty());
    }
    tell_repaired(&done, &backup);
    if let Some(root) = disowned {
        say!(
            "the data in {} has a new id: other sites, which may have been told of what is lost, \
             refuse it. Remove the site and add it anew; a cluster of one site goes on with what is \
             left",
            root.display()
        );
    } else {
        say!(
            "no solera-data.toml was found two folders above: if this is a copy, do not give it to \
             a node whose cluster has other sites"
        );
    }
    Ok(true)
}

/// What was damaged, what became of it, and what is lost.
fn tell_repaired(done: &Repair, backup: &Path) {
    for problem in &done.problems {
        say!("damaged: {problem}");
    }
    if let Some((file, at)) = &done.cut {
        say!("{file} was cut at byte {at}");
    }
    for file in &done.moved {
        say!("{file} was moved away");
    }
    say!("what was changed or removed is in {}", backup.display());
    match done.seen.0 - done.last.0.min(done.seen.0) {
        0 => say!(
            "what came after record {} and cannot be read is lost; if that was the end, nothing is",
            done.last.0
        ),
        1 => say!("record {} is lost, and what cannot be read after it", done.seen.0),
        _ => say!(
            "records {} to {} are lost, and what cannot be read after them",
            done.last.0 + 1,
            done.seen.0
        ),
    }
}
