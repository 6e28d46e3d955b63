//! The data directory of a process: the identity of its data, and a folder for each worker.

mod examine;
mod joining;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_config::ClusterSpec;
use solera_journal::{Disk, RealDisk, is_begun};
use solera_machine::Address;

use crate::peers::{PEERS, Peers};
use crate::random::random;
use crate::storage::{StorageError, in_words};

pub use examine::examine;

const FILE: &str = "solera-data.toml";
/// Name of the file while the first start is under way. Some workers may have no journal yet.
const UNFINISHED: &str = "solera-data.toml.new";
/// Temporary file, which replaces the file in one step.
const NEXT: &str = "solera-data.toml.next";
/// Locked by the process that uses the directory.
const LOCK: &str = "solera-data.lock";
/// Folder that the file system itself keeps in the root of a disk.
const LOST_AND_FOUND: &str = "lost+found";
const IN_USE: &str = "another process uses it";
const FORMAT: u32 = 5;

/// Identity of the data. It must not change after the first write, except that the list of sites
/// may grow.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct About {
    format: u32,
    cluster: String,
    sites: Vec<String>,
    /// Number of sites that were listed from the beginning; earlier formats did not store it.
    #[serde(default)]
    founders: usize,
    partitions: u16,
    workers: Vec<u8>,
    /// Folders of the workers whose data this is; format 1 did not store them.
    #[serde(default)]
    holds: Vec<String>,
    /// Generation of the site that the data belongs to.
    #[serde(default)]
    generation: u32,
    /// Random number drawn when the directory was created. Other nodes compare it to notice that
    /// the data was replaced.
    #[serde(default)]
    id: String,
    /// Number of processes that were started with the data. Other nodes compare it to notice a copy
    /// from before the last start that they know of.
    #[serde(default)]
    starts: u64,
}

/// A data directory that belongs to this process.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: PathBuf,
    sites: Vec<String>,
    founders: usize,
    /// New contents of the file, if sites were listed since it was written.
    grown: Option<About>,
    /// Whether the directory is new, so workers may lack a journal.
    begins: bool,
    generation: u32,
    id: u64,
    starts: u64,
    /// Held while any clone may write here.
    _lock: Arc<<RealDisk as Disk>::Lock>,
}

/// Returns the data directory of a node where all nodes have the same setting `shared`: the node's
/// own folder within `shared`. If `shared` itself is already a data directory, returns `shared`.
pub(crate) fn part_of(shared: &Path, site: &str, node: usize) -> PathBuf {
    match shared.join(FILE).exists() {
        true => shared.to_owned(),
        false => shared.join(site).join(format!("node-{node}")),
    }
}

/// Gives the data directory of a worker's folder a new identity, so that other nodes treat it as
/// new data. Must be called after some data was lost, because other nodes must not take the rest
/// for the original. Returns the directory; `None` if the folder is in no data directory.
///
/// # Errors
/// The directory cannot be changed, or a node uses it.
pub fn disown(folder: &Path) -> Result<Option<PathBuf>, StorageError> {
    // A worker's folder is in its site's folder, which is in the directory.
    let Some(root) = folder.ancestors().nth(2) else { return Ok(None) };
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let unusable = |reason: String| StorageError { folder: root.to_owned(), reason };
    let Some(about) = read(root, FILE).map_err(&unusable)? else { return Ok(None) };
    let mut about = about.map_err(|error| unusable(format!("{FILE} is damaged: {error}")))?;
    let lock = RealDisk::new(root).lock(LOCK).map_err(|error| unusable(error.to_string()))?;
    let _lock = lock.ok_or_else(|| unusable(IN_USE.to_owned()))?;
    about.id = format!("{:016x}", random());
    replace(root, FILE, &about).map_err(&unusable)?;
    Ok(Some(root.to_owned()))
}

impl DataDir {
    /// Opens the directory with the data of these workers, or creates it if it does not exist or is
    /// empty. `generation` is the generation of their site; `None` takes the generation from the
    /// data.
    pub(crate) fn open(
        root: &Path,
        spec: &ClusterSpec,
        workers: &[Address],
        generation: Option<u32>,
    ) -> Result<DataDir, StorageError> {
        let unusable = |reason: String| StorageError { folder: root.to_owned(), reason };
        // Check before anything is written there.
        check_root(root).map_err(&unusable)?;
        let disk = RealDisk::new(root);
        disk.make_dir().map_err(|error| unusable(error.to_string()))?;
        let lock = disk.lock(LOCK).map_err(|error| unusable(error.to_string()))?;
        let lock = lock.ok_or_else(|| unusable(IN_USE.to_owned()))?;
        let sites: Vec<String> = spec.sites.iter().map(|site| site.name.clone()).collect();
        let mut dir = DataDir {
            root: root.to_owned(),
            founders: sites.len(),
            sites,
            grown: None,
            begins: false,
            generation: generation.unwrap_or(0),
            id: random(),
            starts: 1,
            _lock: lock.into(),
        };
        let about = dir.describe(spec, workers);
        if generation.is_some() {
            joining::begin_anew(root, &about).map_err(&unusable)?;
        }
        if let Some(found) = read(root, FILE).map_err(&unusable)? {
            let found = found.map_err(|error| unusable(format!("{FILE} is damaged: {error}")))?;
            found.check(&about, generation).map_err(&unusable)?;
            dir.adopt(&found, about);
            for worker in workers {
                dir.must_hold(*worker)?;
                dir.remove_unfinished(*worker)?;
            }
            // The count must be durable before any other node learns of this start.
            dir.starts = found.starts + 1;
            replace(root, FILE, &About { starts: dir.starts, ..found }).map_err(&unusable)?;
            return Ok(dir);
        }
        dir.begins = true;
        match read(root, UNFINISHED).map_err(&unusable)? {
            // The first start was interrupted; some workers have a journal.
            Some(Ok(found)) => {
                found.check(&about, generation).map_err(&unusable)?;
                dir.adopt(&found, about);
            }
            // If the file is incomplete, no worker has a journal.
            Some(Err(_)) | None => {
                if generation.is_some() {
                    joining::mark(root).map_err(|error| unusable(error.to_string()))?;
                }
                write(root, UNFINISHED, &about).map_err(|error| unusable(error.to_string()))?;
            }
        }
        Ok(dir)
    }

    /// Returns the generation of the site that the data belongs to.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the random number that identifies the data.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of processes that were started with the data, including this one.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Notes that another site has accepted this node. From now on the data belongs to its
    /// generation.
    ///
    /// # Errors
    /// The note cannot be stored; the data may be discarded if the node joins with another
    /// generation.
    pub(crate) fn note_accepted(&self) -> Result<(), StorageError> {
        joining::unmark(&self.root)
            .map_err(|error| StorageError { folder: self.root.clone(), reason: error.to_string() })
    }

    /// Reads the stored identities of the other nodes' data.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn peers(&self) -> Result<Peers, StorageError> {
        let peers = Peers::open(&self.root, &self.sites);
        peers.map_err(|reason| StorageError { folder: self.root.clone(), reason })
    }

    /// Returns the path of the directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the number of sites that were listed from the beginning, according to this data.
    pub(crate) fn founders(&self) -> usize {
        self.founders
    }

    fn adopt(&mut self, found: &About, now: About) {
        self.generation = found.generation;
        self.id = u64::from_str_radix(&found.id, 16).unwrap_or(0);
        self.founders = found.founders;
        let About { sites, workers, .. } = now;
        if sites.len() > found.sites.len() {
            self.grown = Some(About { sites, workers, ..found.clone() });
        }
    }

    /// Stores the grown list of sites. Must be called once the journals are known to be usable with
    /// it; from then on the new sites must stay listed.
    pub(crate) fn grow(&self) -> Result<(), StorageError> {
        let Some(about) = &self.grown else { return Ok(()) };
        let name = if self.begins { UNFINISHED } else { FILE };
        let about = About { starts: self.starts, ..about.clone() };
        replace(&self.root, name, &about)
            .map_err(|reason| StorageError { folder: self.root.clone(), reason })
    }

    /// Returns the folder of a worker, which may not exist yet.
    pub(crate) fn of(&self, worker: Address) -> PathBuf {
        self.root.join(self.name_of(worker))
    }

    /// Records that all workers have their journals, which must exist from now on.
    pub(crate) fn finish(&self) -> Result<(), StorageError> {
        if !self.begins {
            return Ok(());
        }
        let disk = RealDisk::new(&self.root);
        let done = disk.rename(UNFINISHED, FILE).and_then(|()| disk.sync_dir());
        done.map_err(|error| StorageError { folder: self.root.clone(), reason: error.to_string() })
    }

    fn name_of(&self, worker: Address) -> String {
        format!("{}/worker-{}", self.sites[worker.site.index()], worker.worker)
    }

    fn describe(&self, spec: &ClusterSpec, workers: &[Address]) -> About {
        About {
            format: FORMAT,
            cluster: spec.name.clone(),
            sites: self.sites.clone(),
            founders: self.sites.len(),
            partitions: spec.partitions,
            workers: spec.topology().workers,
            holds: workers.iter().map(|worker| self.name_of(*worker)).collect(),
            generation: self.generation,
            id: format!("{:016x}", self.id),
            starts: self.starts,
        }
    }

    /// Rejects a missing journal: a worker that started without its journal would lack data that it
    /// has promised to others.
    fn must_hold(&self, worker: Address) -> Result<(), StorageError> {
        let folder = self.of(worker);
        match is_begun(&RealDisk::new(&folder)) {
            Ok(true) => Ok(()),
            _ => {
                let reason = format!("{FILE} lists a journal here, and it is missing");
                Err(StorageError { folder, reason })
            }
        }
    }

    /// Removes files that an earlier process was preparing. They may occupy the rest of a full
    /// disk, and something must be written before the journal is opened.
    fn remove_unfinished(&self, worker: Address) -> Result<(), StorageError> {
        let folder = self.of(worker);
        let removed = solera_journal::remove_unfinished(&RealDisk::new(&folder));
        removed.map(drop).map_err(|error| StorageError { folder, reason: in_words(&error) })
    }
}

/// Rejects a directory that is no data directory and cannot become one. Changes nothing.
fn check_root(root: &Path) -> Result<(), String> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err("it is a file, and data is kept in a directory".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    let names = entries.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<io::Result<_>>().map_err(|error| error.to_string())?;
    if names.iter().any(|name| name == FILE) {
        return Ok(());
    }
    // An interrupted first start leaves workers' folders only after its file was complete.
    if matches!(read(root, UNFINISHED)?, Some(Ok(_))) {
        return Ok(());
    }
    let known = [UNFINISHED, NEXT, LOCK, joining::MARK, LOST_AND_FOUND];
    let Some(other) = names.iter().find(|name| !known.iter().any(|known| *name == known)) else {
        return Ok(());
    };
    let journals = |dir: &Path| dir.join("worker-0").is_dir();
    if journals(&root.join(other)) || names.iter().any(|name| name == PEERS) {
        return Err(format!(
            "it holds data of a node, and its {FILE} is gone: put that back, or choose an empty \
             directory"
        ));
    }
    Err(format!("it holds other files, and no {FILE}; choose an empty one"))
}

/// Reads a file; `None` if it does not exist.
fn read(root: &Path, name: &str) -> Result<Option<Result<About, toml::de::Error>>, String> {
    match fs::read(root.join(name)) {
        Ok(bytes) => Ok(Some(toml::from_str(&String::from_utf8_lossy(&bytes)))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}

/// Writes a file durably, before any worker's folder exists.
fn write(root: &Path, name: &str, about: &About) -> io::Result<()> {
    let text = format!(
        "# Whose data this is; must stay as it is. Only Solera counts its starts.\n{}",
        toml::to_string(about).map_err(io::Error::other)?
    );
    let file = root.join(name);
    fs::write(&file, text)?;
    fs::File::open(&file)?.sync_all()?;
    fs::File::open(root)?.sync_all()
}

/// Replaces a file durably in one step.
fn replace(root: &Path, name: &str, about: &About) -> Result<(), String> {
    let disk = RealDisk::new(root);
    let written = write(root, NEXT, about).and_then(|()| disk.rename(NEXT, name));
    written.and_then(|()| disk.sync_dir()).map_err(|error| match error.kind() {
        ErrorKind::StorageFull => format!("{name} cannot be written: the disk is full; make room"),
        _ => format!("{name} cannot be written: {error}"),
    })
}

impl About {
    fn must_be_readable(&self) -> Result<(), String> {
        let About { format, sites, founders, .. } = self;
        if *format != FORMAT {
            return Err(format!("it has format {format}; this version of Solera reads {FORMAT}"));
        }
        if !(1..=sites.len()).contains(founders) {
            return Err(format!("{FILE} is damaged: {founders} of its sites are founders"));
        }
        Ok(())
    }

    fn check(&self, now: &About, generation: Option<u32>) -> Result<(), String> {
        self.must_be_readable()?;
        let About { cluster, sites, partitions, workers, holds, .. } = self;
        let differs = |what: &str, was: String, is: String| {
            Err(format!("it was written with {what} {was}, and the configuration has {is}"))
        };
        if *cluster != now.cluster {
            return differs("cluster", format!("'{cluster}'"), format!("'{}'", now.cluster));
        }
        let (was, is) = (sites.join(", "), now.sites.join(", "));
        if sites.starts_with(&now.sites) && *sites != now.sites {
            return Err(format!(
                "it knows the sites {was}, and the configuration lists only {is}: list all of them. \
                 A configuration keeps every site that its data knows; `solera site remove` removes a \
                 site of nodes that `solera serve` runs"
            ));
        }
        if !now.sites.starts_with(sites) {
            return differs("sites", was, format!("{is}; new sites are listed after the others"));
        }
        if *sites != now.sites && now.holds.len() > holds.len() {
            let is = format!(
                "{is}; the sites of one process cannot become more: take a backup, and restore it into a \
                 cluster that has them"
            );
            return differs("sites", was, is);
        }
        if *partitions != now.partitions {
            return differs("partitions =", partitions.to_string(), now.partitions.to_string());
        }
        if !now.workers.starts_with(workers) {
            return differs(
                "workers per site",
                format!("{workers:?}"),
                format!("{:?}", now.workers),
            );
        }
        if generation.is_some_and(|generation| generation != self.generation) {
            return Err(format!(
                "it is the data of generation {} of the site, and the site joins with generation {}: move it away, \
                 and begin with an empty directory",
                self.generation, now.generation
            ));
        }
        if *holds != now.holds {
            return Err(format!(
                "it is the data of {}, and this process runs {}",
                holds.join(", "),
                now.holds.join(", ")
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use solera_time::SiteId;

    use super::*;

    const CLUSTER: &str = "\
partitions = 4
[[site]]
name = 'eu'
[[site]]
name = 'us'
";

    /// A temporary directory, removed at the end of the test.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Root {
            let name = format!("solera-data-dir-{}-{name}", std::process::id());
            let root = Root(std::env::temp_dir().join(name));
            fs::create_dir_all(&root.0).unwrap();
            root
        }

        fn open(&self, workers: &[Address]) -> Result<DataDir, String> {
            self.open_with(CLUSTER, workers)
        }

        fn open_with(&self, cluster: &str, workers: &[Address]) -> Result<DataDir, String> {
            let spec = solera_config::sample::parse(cluster);
            DataDir::open(&self.0, &spec, workers, None).map_err(|error| error.reason)
        }

        /// Completes a first start.
        fn begin(&self, workers: &[Address]) {
            let dir = self.open(workers).unwrap();
            for worker in workers {
                begin_journal(&dir.of(*worker));
            }
            dir.finish().unwrap();
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn begin_journal(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("0000000001.segment"), "").unwrap();
    }

    fn at(site: u8, worker: u8) -> Address {
        Address { site: SiteId(site), worker }
    }

    #[test]
    fn the_data_of_other_workers_is_refused() {
        let root = Root::new("others");
        root.begin(&[at(0, 0), at(0, 1)]);
        for workers in [&[at(1, 0), at(1, 1)][..], &[at(0, 0)], &[at(0, 1), at(0, 2)]] {
            let reason = root.open(workers).unwrap_err();
            assert!(reason.contains("it is the data of eu/worker-0, eu/worker-1"), "{reason}");
        }
        assert!(root.open(&[at(0, 0), at(0, 1)]).is_ok());
    }

    #[test]
    fn unfinished_files_are_removed_before_anything_is_written() {
        let root = Root::new("room");
        root.begin(&[at(0, 0)]);
        let spare = root.0.join("eu/worker-0/spare.tmp");
        fs::write(&spare, "zeros").unwrap();
        // The directory makes writing the file of this name fail, as a full disk would.
        fs::create_dir(root.0.join(NEXT)).unwrap();
        root.open(&[at(0, 0)]).unwrap_err();
        assert!(!spare.exists());
    }

    #[test]
    fn a_journal_that_is_gone_is_not_begun_anew() {
        let root = Root::new("gone");
        root.begin(&[at(0, 0), at(1, 0)]);
        fs::remove_file(root.0.join("us/worker-0/0000000001.segment")).unwrap();
        let reason = root.open(&[at(0, 0), at(1, 0)]).unwrap_err();
        assert!(reason.contains("it is missing"), "{reason}");
        fs::remove_dir_all(root.0.join("us")).unwrap();
        assert!(root.open(&[at(0, 0), at(1, 0)]).is_err());
    }

    #[test]
    fn an_interrupted_first_start_is_taken_up_again() {
        let root = Root::new("interrupted");
        fs::create_dir(root.0.join(LOST_AND_FOUND)).unwrap();
        fs::write(root.0.join(UNFINISHED), "format = 1\nclu").unwrap();
        let workers = [at(0, 0), at(0, 1)];
        let dir = root.open(&workers).unwrap();
        // The code that opens the journal creates its folder, as its last step.
        assert!(!dir.of(workers[0]).exists());
        begin_journal(&dir.of(workers[0]));
        drop(dir);
        assert!(root.open(&[at(1, 0)]).unwrap_err().contains("it is the data of eu/worker-0"));
        let dir = root.open(&workers).unwrap();
        begin_journal(&dir.of(workers[1]));
        dir.finish().unwrap();
        drop(dir);
        assert!(root.open(&workers).is_ok());
    }

    #[test]
    fn other_directories_are_rejected_and_not_changed() {
        let root = Root::new("strange");
        let workers = [at(0, 0)];
        fs::write(root.0.join("letters.txt"), "dear").unwrap();
        assert!(root.open(&workers).unwrap_err().contains("it holds other files"));
        assert!(!root.0.join(LOCK).exists());
        fs::remove_file(root.0.join("letters.txt")).unwrap();
        root.begin(&workers);
        fs::remove_file(root.0.join(FILE)).unwrap();
        assert!(root.open(&workers).unwrap_err().contains("its solera-data.toml is gone"));
        let file = Root(root.0.join("file"));
        fs::write(&file.0, "").unwrap();
        assert!(file.open(&workers).unwrap_err().contains("it is a file"));
    }

    #[test]
    fn starts_are_counted() {
        let root = Root::new("starts");
        let workers = [at(0, 0)];
        root.begin(&workers);
        let starts: Vec<u64> = (0..3).map(|_| root.open(&workers).unwrap().starts()).collect();
        assert_eq!(starts, [2, 3, 4]);
    }

    #[test]
    fn a_disowned_directory_has_a_new_identity() {
        let root = Root::new("disowned");
        let workers = [at(0, 0)];
        root.begin(&workers);
        let dir = root.open(&workers).unwrap();
        let (folder, id) = (dir.of(workers[0]), dir.id());
        assert_eq!(disown(&folder).unwrap_err().reason, IN_USE);
        drop(dir);
        assert_eq!(disown(&folder).unwrap(), Some(root.0.clone()));
        assert_ne!(root.open(&workers).unwrap().id(), id);
        assert_eq!(disown(&root.0.join("elsewhere/worker-0/x")).unwrap(), None);
    }

    #[test]
    fn the_list_of_sites_grows_at_its_end_and_does_not_shrink() {
        let root = Root::new("grows");
        let workers = [at(1, 0)];
        root.begin(&workers);
        let with = |sites: &[&str]| {
            let site = |name: &&str| format!("[[site]]\nname = '{name}'\n");
            format!("partitions = 4\n{}", sites.iter().map(site).collect::<String>())
        };
        let grown = with(&["eu", "us", "ap"]);
        let dir = root.open_with(&grown, &workers).unwrap();
        assert_eq!((dir.founders(), dir.sites.len()), (2, 3));
        drop(dir);
        assert!(root.open(&workers).is_ok(), "nothing was written about the new site");
        root.open_with(&grown, &workers).unwrap().grow().unwrap();
        let dir = root.open_with(&grown, &workers).unwrap();
        assert_eq!((dir.founders(), dir.grown.is_none()), (2, true));
        drop(dir);
        for (sites, reason) in [
            (
                &["eu", "us"][..],
                "it knows the sites eu, us, ap, and the configuration lists only eu, us",
            ),
            (
                &["eu", "us", "sa"],
                "sites eu, us, ap, and the configuration has eu, us, sa; new sites",
            ),
            (
                &["eu", "ap", "us"],
                "sites eu, us, ap, and the configuration has eu, ap, us; new sites",
            ),
        ] {
            let error = root.open_with(&with(sites), &workers).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let further = root.open_with(&with(&["eu", "us", "ap", "sa"]), &workers).unwrap();
        assert_eq!(further.founders(), 2);
    }

    #[test]
    fn one_process_gets_no_more_sites() {
        let root = Root::new("whole");
        root.begin(&[at(0, 0), at(1, 0)]);
        let grown = format!("{CLUSTER}[[site]]\nname = 'ap'\n");
        let reason = root.open_with(&grown, &[at(0, 0), at(1, 0), at(2, 0)]).unwrap_err();
        assert!(reason.contains("take a backup"), "{reason}");
    }

    #[test]
    fn one_process_at_a_time() {
        let root = Root::new("locked");
        let dir = root.open(&[at(0, 0)]).unwrap();
        assert_eq!(root.open(&[at(0, 0)]).unwrap_err(), "another process uses it");
        drop(dir);
        assert!(root.open(&[at(0, 0)]).is_ok());
    }

    #[test]
    fn nodes_that_share_a_directory_have_parts_of_it() {
        let root = Root::new("shared");
        assert_eq!(part_of(&root.0, "eu", 2), root.0.join("eu/node-2"));
        root.begin(&[at(0, 0)]);
        // The node continues with its data, and does not start without data in another folder.
        assert_eq!(part_of(&root.0, "eu", 1), root.0);
    }
}
