//! Opens the journals of a process in parallel, and logs the progress.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use solera_config::Durability;
use solera_config::areas::JOURNAL;
use solera_journal::RealDisk;
use solera_site::Config;
use tokio::sync::mpsc::UnboundedSender;
use tracing::info;

use crate::control::{Control, Envelope};
use crate::progress::Progress;
use crate::storage::{Engine, Found, Storage, StorageError};

/// Interval between progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// A worker whose journal is to be opened.
pub(crate) struct Opening {
    pub(crate) folder: PathBuf,
    pub(crate) config: Config,
    pub(crate) seed: u64,
    /// Name of the worker for messages.
    pub(crate) name: String,
    pub(crate) mailbox: UnboundedSender<Envelope>,
}

/// Opens all journals, as many at once as there are processors. Returns them in the order of
/// `openings`.
///
/// # Errors
/// The first journal that cannot be used. The others were opened, and are closed again.
pub(crate) fn open_all(
    openings: Vec<Opening>,
    durability: Durability,
    cluster: u64,
) -> Result<Vec<(Storage, Engine, Found)>, StorageError> {
    let count = openings.len();
    let total = openings.iter().map(|opening| records_on_disk(&opening.folder)).sum();
    let progress = Progress::default();
    let queue: Mutex<VecDeque<(usize, Opening)>> =
        Mutex::new(openings.into_iter().enumerate().collect());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let (sender, results) = channel();
    let mut opened: Vec<Option<Result<_, StorageError>>> = (0..count).map(|_| None).collect();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            let (sender, progress) = (sender.clone(), &progress);
            scope.spawn(move || {
                while let Some((place, opening)) = next() {
                    // The receiver outlives the threads.
                    let _ = sender.send((place, open(opening, durability, cluster, progress)));
                }
            });
        }
        drop(sender);
        loop {
            match results.recv_timeout(PROGRESS_INTERVAL) {
                Ok((place, result)) => opened[place] = Some(result),
                Err(RecvTimeoutError::Timeout) => {
                    let done = opened.iter().flatten().count();
                    let percent = progress.percent(total);
                    info!(
                        target: JOURNAL,
                        "recovering: {percent}% read, {done} of {count} workers done"
                    );
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    opened.into_iter().flatten().collect()
}

fn open(
    opening: Opening,
    durability: Durability,
    cluster: u64,
    progress: &Progress,
) -> Result<(Storage, Engine, Found), StorageError> {
    let Opening { folder, config, seed, name, mailbox } = opening;
    let on_event = move |event| {
        // The worker may have ended.
        let _ = mailbox.send(Envelope::Control(Control::Journal(event)));
    };
    let disk = RealDisk::new(&folder);
    Storage::open(disk, &folder, durability, cluster, config, seed, on_event, name, progress)
}

/// Returns the bytes of a journal's segments and snapshots. Unreadable files are reported when they
/// are opened.
fn records_on_disk(folder: &Path) -> u64 {
    let holds_records =
        |path: &Path| path.extension().is_some_and(|kind| kind == "segment" || kind == "snapshot");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| holds_records(&entry.path()));
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_machine::{Address, Topology};
    use solera_time::SiteId;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn opening(root: &Path, worker: u8) -> Opening {
        let topology = Arc::new(Topology { partitions: 8, workers: vec![8] });
        let folder = root.join(worker.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        Opening {
            folder,
            config: solera_unistore::Config::new(Address { site: SiteId(0), worker }, topology)
                .into(),
            seed: 1,
            name: format!("worker {worker}"),
            mailbox: unbounded_channel().0,
        }
    }

    #[test]
    fn journals_are_opened_in_their_order_or_not_at_all() {
        let root = std::env::temp_dir().join(format!("solera-recovering-{}", std::process::id()));
        let open = || {
            let openings = (0..8).map(|worker| opening(&root, worker)).collect();
            open_all(openings, Durability::Always, 1)
        };
        let names: Vec<String> =
            open().unwrap().into_iter().map(|(_, _, found)| found.worker).collect();
        assert_eq!(names, (0..8).map(|worker| format!("worker {worker}")).collect::<Vec<_>>());
        // This is the journal of another worker.
        std::fs::remove_dir_all(root.join("5")).unwrap();
        std::fs::rename(root.join("6"), root.join("5")).unwrap();
        let error = open().err().unwrap();
        assert_eq!(error.folder, root.join("5"));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn progress_never_says_that_it_is_done() {
        let progress = Progress::default();
        assert_eq!([progress.percent(0), progress.percent(1000)], [0, 0]);
        progress.read(500 - crate::progress::FRAME_BYTES as usize);
        assert_eq!([progress.percent(1000), progress.percent(400)], [50, 99]);
    }
}
