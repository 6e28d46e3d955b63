//! The data directory of a process: whose data it is, and a folder for each worker.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_journal::{Disk, RealDisk, is_begun};
use solera_unistore::Address;

use crate::config::ClusterSpec;
use crate::storage::StorageError;

const FILE: &str = "solera-data.toml";
/// The same, while the first start is under way: not all workers may have a journal yet.
const UNFINISHED: &str = "solera-data.toml.new";
/// Locked by the process that uses the directory.
const LOCK: &str = "solera-data.lock";
/// What the file system itself keeps in the root of a disk.
const LOST_AND_FOUND: &str = "lost+found";
const FORMAT: u32 = 2;

/// What was true when this data was first written, and must stay so.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
struct About {
    format: u32,
    cluster: String,
    sites: Vec<String>,
    partitions: u16,
    workers: Vec<u8>,
    /// The folders of the workers whose data this is; format 1 did not say.
    #[serde(default)]
    holds: Vec<String>,
    /// Which life of its site the data belongs to.
    #[serde(default)]
    life: u32,
    /// Drawn when the directory was begun: other nodes tell by it whether the data is still the same.
    #[serde(default)]
    id: String,
}

/// A data directory that belongs to this process.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: PathBuf,
    sites: Vec<String>,
    /// Whether it is only now begun, so that workers may lack a journal.
    begins: bool,
    life: u32,
    id: u64,
    /// Held as long as anybody writes here.
    _lock: Arc<<RealDisk as Disk>::Lock>,
}

/// Where a node keeps its data if all nodes are given the same `shared` directory: in a part of its
/// own. A directory that some node took for itself stays that node's.
pub(crate) fn part_of(shared: &Path, site: &str, node: usize) -> PathBuf {
    match shared.join(FILE).exists() {
        true => shared.to_owned(),
        false => shared.join(site).join(format!("node-{node}")),
    }
}

impl DataDir {
    /// Opens the directory as that of these workers, or begins it if it is not there or empty. `life`
    /// is which life of its site they belong to; nothing is that of the data.
    pub(crate) fn open(
        root: &Path,
        spec: &ClusterSpec,
        workers: &[Address],
        life: Option<u32>,
    ) -> Result<DataDir, StorageError> {
        let unusable = |reason: String| StorageError { folder: root.to_owned(), reason };
        let disk = RealDisk::new(root);
        disk.make_dir().map_err(|error| unusable(error.to_string()))?;
        let lock = disk.lock(LOCK).map_err(|error| unusable(error.to_string()))?;
        let lock = lock.ok_or_else(|| unusable("another process uses it".to_owned()))?;
        let sites: Vec<String> = spec.sites.iter().map(|site| site.name.clone()).collect();
        let mut dir = DataDir {
            root: root.to_owned(),
            sites,
            begins: false,
            life: life.unwrap_or(0),
            id: RandomState::new().hash_one(root),
            _lock: lock.into(),
        };
        let about = dir.describe(spec, workers);
        if let Some(found) = read(root, FILE).map_err(&unusable)? {
            let found = found.map_err(|error| unusable(format!("{FILE} is damaged: {error}")))?;
            found.must_be(&about, life).map_err(&unusable)?;
            dir.is_of(&found);
            for worker in workers {
                dir.must_hold(*worker)?;
            }
            return Ok(dir);
        }
        dir.begins = true;
        match read(root, UNFINISHED).map_err(&unusable)? {
            // The first start was interrupted; some workers have a journal.
            Some(Ok(found)) => {
                found.must_be(&about, life).map_err(&unusable)?;
                dir.is_of(&found);
            }
            // If it is not whole, no worker has one.
            Some(Err(_)) | None => {
                dir.must_be_empty().map_err(&unusable)?;
                write(root, &about).map_err(|error| unusable(error.to_string()))?;
            }
        }
        Ok(dir)
    }

    /// Which life of its site the data belongs to.
    pub(crate) fn life(&self) -> u32 {
        self.life
    }

    /// Tells the data from any other.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn is_of(&mut self, found: &About) {
        self.life = found.life;
        self.id = u64::from_str_radix(&found.id, 16).unwrap_or(0);
    }

    /// The folder of a worker. It may not be there yet.
    pub(crate) fn of(&self, worker: Address) -> PathBuf {
        self.root.join(self.name_of(worker))
    }

    /// All workers have their journals now, and must have them from now on.
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
            partitions: spec.partitions,
            workers: spec.topology().workers,
            holds: workers.iter().map(|worker| self.name_of(*worker)).collect(),
            life: self.life,
            id: format!("{:016x}", self.id),
        }
    }

    /// A worker that began anew would not know what it has promised others.
    fn must_hold(&self, worker: Address) -> Result<(), StorageError> {
        let folder = self.of(worker);
        match is_begun(&RealDisk::new(&folder)) {
            Ok(true) => Ok(()),
            _ => {
                let reason = format!("{FILE} says that a journal is there, and there is none");
                Err(StorageError { folder, reason })
            }
        }
    }

    fn must_be_empty(&self) -> Result<(), String> {
        for entry in fs::read_dir(&self.root).map_err(|error| error.to_string())? {
            let name = entry.map_err(|error| error.to_string())?.file_name();
            if ![UNFINISHED, LOCK, LOST_AND_FOUND].iter().any(|ours| name == *ours) {
                return Err(format!("it holds other files, and no {FILE}; choose an empty one"));
            }
        }
        Ok(())
    }
}

/// What a file says; nothing if there is no file.
fn read(root: &Path, name: &str) -> Result<Option<Result<About, toml::de::Error>>, String> {
    match fs::read(root.join(name)) {
        Ok(bytes) => Ok(Some(toml::from_str(&String::from_utf8_lossy(&bytes)))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}

/// The file is durable before any worker's folder is there.
fn write(root: &Path, about: &About) -> io::Result<()> {
    let text = format!(
        "# Written when this data was begun; must stay as it is.\n{}",
        toml::to_string(about).map_err(io::Error::other)?
    );
    let file = root.join(UNFINISHED);
    fs::write(&file, text)?;
    fs::File::open(&file)?.sync_all()?;
    fs::File::open(root)?.sync_all()
}

impl About {
    fn must_be(&self, now: &About, life: Option<u32>) -> Result<(), String> {
        let About { format, cluster, sites, partitions, workers, holds, .. } = self;
        if *format != FORMAT {
            return Err(format!("it has format {format}; this version of Solera reads {FORMAT}"));
        }
        let differs = |what: &str, was: String, is: String| {
            Err(format!("it was written with {what} {was}, and the configuration says {is}"))
        };
        if *cluster != now.cluster {
            return differs("cluster", format!("'{cluster}'"), format!("'{}'", now.cluster));
        }
        if *sites != now.sites {
            return differs("sites", sites.join(", "), now.sites.join(", "));
        }
        if *partitions != now.partitions {
            return differs("partitions =", partitions.to_string(), now.partitions.to_string());
        }
        if *workers != now.workers {
            return differs(
                "workers per site",
                format!("{workers:?}"),
                format!("{:?}", now.workers),
            );
        }
        if life.is_some_and(|life| life != self.life) {
            return Err(format!(
                "it is the data of life {} of the site, and the site joins with life {}: move it away, \
                 and begin with an empty directory",
                self.life, now.life
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

    /// A directory of its own, removed at the end of the test.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Root {
            let name = format!("solera-data-dir-{}-{name}", std::process::id());
            let root = Root(std::env::temp_dir().join(name));
            fs::create_dir_all(&root.0).unwrap();
            root
        }

        fn open(&self, workers: &[Address]) -> Result<DataDir, String> {
            let spec = crate::config::sample::parse(CLUSTER);
            DataDir::open(&self.0, &spec, workers, None).map_err(|error| error.reason)
        }

        /// A first start that goes well.
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
    fn a_journal_that_is_gone_is_not_begun_anew() {
        let root = Root::new("gone");
        root.begin(&[at(0, 0), at(1, 0)]);
        fs::remove_file(root.0.join("us/worker-0/0000000001.segment")).unwrap();
        let reason = root.open(&[at(0, 0), at(1, 0)]).unwrap_err();
        assert!(reason.contains("there is none"), "{reason}");
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
        // Whoever opens the journal makes its folder, and makes it last.
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
        // Not begun anew somewhere else.
        assert_eq!(part_of(&root.0, "eu", 1), root.0);
    }
}
