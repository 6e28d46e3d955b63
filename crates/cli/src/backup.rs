//! `solera backup`: saves one causal snapshot of a running cluster to a file.

use solera_commands::counted;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use solera::Endpoint;
use solera_backup::{BackupReader, Finals, Header, Progress, ReadError, SpaceInfo, Tally, take};
use solera_node::utc;

use crate::connect::LoginArgs;
use crate::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  solera backup monday.backup                      saves `solera up` on this machine
  solera backup --from eu-1.example.com:7101 monday.backup
  SOLERA_PASSWORD=… solera backup --from eu-1.example.com:7101 --user ann --cacert ca.pem a.backup
  solera backup check monday.backup                verifies a backup and prints a summary

The file holds all keys in one causal snapshot of the site: all writes that the site had
acknowledged, and those of other sites that were visible there. Keys of level pcpsi are in one
snapshot of their own, with each transaction as a whole. Keys of level speculative have the values
after the final operations. The command waits up to 5 seconds until the operations of the site are
final, and prints how many are not. Connect to any node of the site.
The user needs the command solera.export, those of a transaction, and read access to all keys:
  commands = [\"+@transaction\", \"+solera.begin\", \"+solera.commit\", \"+solera.spaces\",
              \"+solera.export\"]
  keys = [\"%R~*\"]

`solera restore` creates a new cluster from it.";

/// Time after which the progress bar appears.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// Save the data of a running cluster to a file, or check such a file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// File to write; it must not exist
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Address of any node of the site
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7101")]
    from: Endpoint,
    #[command(flatten)]
    login: LoginArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Verify that a backup is complete, and print a summary
    #[command(after_help = "Example:\n  solera backup check monday.backup")]
    Check {
        /// File to check
        file: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command; fails unless it ends with a complete backup.
pub(crate) fn main(args: &BackupArgs) -> ExitCode {
    let done = match (&args.action, &args.file) {
        (Some(Action::Check { file, json }), _) => check(file).map(|found| found.print(*json)),
        (None, Some(file)) => save(args, file).map(|made| made.print(args.json)),
        (None, None) => unreachable!("clap requires the file"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error!("solera backup: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A complete backup.
pub(crate) struct Backup {
    file: PathBuf,
    pub(crate) header: Header,
    pub(crate) tally: Tally,
    file_bytes: u64,
}

impl Backup {
    fn print(&self, as_json: bool) {
        let Backup { file, header, tally, file_bytes } = self;
        if as_json {
            let about = json!({
                "file": file, "file_bytes": file_bytes, "taken": utc(header.taken_ms),
                "cluster": header.cluster, "site": header.site, "sites": header.sites,
                "partitions": header.partitions, "spaces": header.spaces,
                "protocols": header.protocols,
                "snapshot": header.snapshot, "speculative": header.speculative,
                "solera": header.solera,
                "keys": tally.keys(), "content": tally,
            });
            return output!("{about}");
        }
        let Header { cluster, site, .. } = header;
        let [cluster, site] = [cluster, site].map(|text| printable(text));
        output!("{}: cluster '{cluster}' at {site}, {}", file.display(), utc(header.taken_ms));
        output!("  {}", Amount(tally));
        for space in header.spaces.iter().filter(|space| !space.prefix.is_empty()) {
            let [name, prefix, level] =
                [&space.name, &space.prefix, &space.level].map(|text| printable(text));
            if let Some(reason) = left_out(header, space) {
                output!("  space {name}: {reason}");
                continue;
            }
            output!("  space {name}: keys with '{prefix}' are {level}");
            if let Some(of_type) = &space.of_type {
                let error = space.error.as_ref().map(|error| format!(", error bound {error}"));
                output!("    {}{}", printable(of_type), printable(&error.unwrap_or_default()));
            }
            if space.is_speculative()
                && let Some(finals) = &header.speculative
            {
                print_finals(space, finals);
            }
            if space.declares() {
                let pairs: Vec<_> = space.conflicts.iter().map(|pair| pair.join("+")).collect();
                output!("    strong: {}", printable(&space.strong.join(" ")));
                output!("    conflicts: {}", printable(&pairs.join(" ")));
            }
        }
        output!("  {}", counted(*file_bytes, "byte"));
    }
}

/// Prints which operations of a space of level `speculative` a backup contains.
fn print_finals(space: &SpaceInfo, state: &Finals) {
    if !space.strong.is_empty() {
        output!("    strong: {}", printable(&space.strong.join(" ")));
    }
    let Finals { finals, digest, .. } = state;
    output!("    after {}, digest {}", counted(*finals, "final operation"), printable(digest));
    if let Some(warning) = lacking(state) {
        output!("    WARNING: {warning}");
    }
}

/// Returns a warning if a backup lacks operations that its site had executed.
pub(crate) fn lacking(state: &Finals) -> Option<String> {
    let operations = counted(state.left_out, "operation");
    (state.left_out > 0).then(|| {
        format!(
            "the backup lacks {operations} of this space that the site had executed, because too few sites were \
             connected to make them final"
        )
    })
}

/// Returns the reason why a backup lacks the keys of a space; `None` if it contains them.
fn left_out(header: &Header, space: &SpaceInfo) -> Option<String> {
    if header.contains(space) {
        return None;
    }
    let (prefix, protocol) = (printable(&space.prefix), space.shown_protocol());
    let without_snapshots =
        [solera_primary::PROTOCOL, solera_occult::PROTOCOL, solera_creek::PROTOCOL];
    let without_snapshots = without_snapshots.map(|protocol| protocol.number);
    Some(if without_snapshots.contains(&space.protocol_number) {
        format!(
            "keys with '{prefix}' are NOT in the backup, because protocol {protocol} stores them"
        )
    } else {
        format!(
            "this version of Solera has no protocol {protocol} and cannot read its spaces; whether keys with \
             '{prefix}' are in the backup is unknown"
        )
    })
}

/// Escapes the characters of a backup's text that a terminal would interpret, because a file may
/// come from anywhere.
pub(crate) fn printable(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\'' | '"' | '\\' => letter.to_string(),
        letter => letter.escape_debug().to_string(),
    };
    text.chars().map(shown).collect()
}

/// Displays the numbers of keys, elements and fields.
pub(crate) struct Amount<'a>(pub(crate) &'a Tally);

impl std::fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { strings, sets, hashes, elements, fields, .. } = self.0;
        write!(
            f,
            "{}: {}, {} with {}, {} with {}",
            counted(self.0.keys(), "key"),
            counted(*strings, "string"),
            counted(*sets, "set"),
            counted(*elements, "element"),
            counted(*hashes, "hash"),
            counted(*fields, "field")
        )
    }
}

/// Reads a backup to its end, and returns its summary.
pub(crate) fn check(file: &Path) -> Result<Backup, String> {
    let wrong = |error: ReadError| format!("{}: {error}", file.display());
    let mut backup = open(file)?;
    let file_bytes = fs::metadata(file).map_err(|error| wrong(error.into()))?.len();
    while backup.next_entry().map_err(wrong)?.is_some() {}
    let (header, tally) = (backup.header().clone(), *backup.tally());
    Ok(Backup { file: file.to_owned(), header, tally, file_bytes })
}

/// Opens a backup for reading.
pub(crate) fn open(file: &Path) -> Result<BackupReader<BufReader<File>>, String> {
    let opened = File::open(file).map_err(ReadError::Io);
    let read =
        opened.and_then(|opened| BackupReader::open(BufReader::with_capacity(1 << 16, opened)));
    read.map_err(|error| format!("{}: {error}", file.display()))
}

fn save(args: &BackupArgs, file: &Path) -> Result<Backup, String> {
    let unwritable = |error: io::Error| format!("{} cannot be written: {error}", file.display());
    if file.exists() {
        return Err(format!("{} exists; choose another name", file.display()));
    }
    let partial = Partial::create(file).map_err(unwritable)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (sink, header, tally) = runtime.block_on(async {
        let stop = Stop::new().map_err(|error| error.to_string())?;
        let sink = partial.file.try_clone().map_err(unwritable)?;
        let taking = async {
            let mut client = args.login.connect(&args.from).await?;
            let bar = Bar::new("saved");
            let sink = BufWriter::with_capacity(1 << 16, sink);
            let taken = take(&mut client, sink, now_ms(), |progress| bar.show(progress)).await;
            taken.map_err(|error| error.to_string())
        };
        tokio::select! {
            taken = taking => taken,
            () = stop.requested() => Err("stopped; there is no backup".to_owned()),
        }
    })?;
    drop(sink);
    let file_bytes = partial.complete(file).map_err(unwritable)?;
    Ok(Backup { file: file.to_owned(), header, tally, file_bytes })
}

/// A backup that is being written, under a temporary name. Dropping it removes the temporary file.
struct Partial {
    file: File,
    path: PathBuf,
}

impl Partial {
    /// Creates the temporary file, readable only by its owner: it holds all data.
    fn create(target: &Path) -> io::Result<Partial> {
        let name = target.file_name().ok_or_else(|| io::Error::other("it is not a file name"))?;
        let mut name = name.to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let path = target.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Partial { file, path })
    }

    /// Syncs the file, gives it its final name, and returns its size in bytes.
    fn complete(self, target: &Path) -> io::Result<u64> {
        self.file.sync_all()?;
        let bytes = self.file.metadata()?.len();
        // Unlike a rename, a hard link never replaces a file that another process has created
        // meanwhile.
        match fs::hard_link(&self.path, target) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // Not every file system supports hard links.
                fs::rename(&self.path, target)?;
            }
            linked => linked?,
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(bytes)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // The file may have its final name already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the time of the system's clock, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_millis() as u64
}

/// Progress bar of an operation that may take long.
pub(crate) struct Bar {
    bar: ProgressBar,
    done: &'static str,
    started: Instant,
}

impl Bar {
    pub(crate) fn new(done: &'static str) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden()).with_style(
            ProgressStyle::with_template("{bar:24} {pos} of {len} keys {msg}, {elapsed} so far")
                .expect("the template is well-formed"),
        );
        Bar { bar, done, started: Instant::now() }
    }

    pub(crate) fn show(&self, progress: Progress) {
        if self.bar.is_hidden() {
            // A wait has no measurable progress, so the bar appears at once.
            if self.started.elapsed() < QUIET_TIME && progress != Progress::Waiting {
                return;
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let (message, done, all) = match progress {
            Progress::Keys(done, all) => (self.done, done, all),
            Progress::Compared(done, all) => ("compared", done, all),
            Progress::Waiting => {
                return self.bar.set_message("written, waiting for other sites");
            }
        };
        if self.bar.message() != message {
            self.bar.set_message(message);
        }
        // Nothing is known yet.
        if all == 0 {
            return;
        }
        // Keys may have been added since the estimate.
        self.bar.set_length(all.max(done));
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_of_protocols_are_described_as_far_as_they_are_known() {
        let header = |protocols: &[u8]| -> Header {
            let text = json!({
                "cluster": "c", "site": "eu", "sites": ["eu"], "partitions": 16, "spaces": [],
                "protocols": protocols, "snapshot": [1], "taken_ms": 1, "solera": "0.1.0",
            });
            serde_json::from_value(text).unwrap()
        };
        let (all, old) = (header(&[1, 3, 5]), header(&[1]));
        let by = |header: &Header, protocol: &str, protocol_number| {
            let (prefix, protocol) = ("n:".to_owned(), protocol.to_owned());
            let space = SpaceInfo { prefix, protocol, protocol_number, ..SpaceInfo::default() };
            left_out(header, &space)
        };
        let of = |protocol: &str, number| by(&all, protocol, number);
        let known = [("unistore", 1), ("occult", 3), ("creek", 5)];
        assert_eq!(known.map(|(name, number)| of(name, number)), [None, None, None]);
        for (header, name, number) in [
            (&all, "primary", solera_primary::PROTOCOL.number),
            (&old, "occult", solera_occult::PROTOCOL.number),
            (&old, "creek", solera_creek::PROTOCOL.number),
        ] {
            let known = by(header, name, number).unwrap();
            let why = format!(
                "'n:' are NOT in the backup, because protocol {name} ({number}) stores them"
            );
            assert!(known.contains(&why), "{known}");
        }
        let later = of("later", 9).unwrap();
        assert!(later.contains("has no protocol later (9)") && !later.contains("NOT"), "{later}");
    }

    #[test]
    fn texts_of_a_file_do_not_control_the_terminal() {
        assert_eq!(printable("user's \"é\"\x1b[2J\n"), "user's \"é\"\\u{1b}[2J\\n");
    }
}
