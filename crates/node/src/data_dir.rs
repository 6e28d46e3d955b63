//! The data directory of a process: whose data it is, and a folder for each worker.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use solera_unistore::Address;

use crate::config::ClusterSpec;
use crate::storage::StorageError;

const FILE: &str = "solera-data.toml";
const FORMAT: u32 = 1;

/// What was true of the cluster when its data was first written, and must stay so.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
struct About {
    format: u32,
    cluster: String,
    sites: Vec<String>,
    partitions: u16,
    workers: Vec<u8>,
}

/// A data directory that belongs to this cluster.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: PathBuf,
    sites: Vec<String>,
}

impl DataDir {
    /// Opens the directory, or begins it if it is not there or empty.
    pub(crate) fn open(root: &Path, spec: &ClusterSpec) -> Result<DataDir, StorageError> {
        let unusable = |reason: String| StorageError { folder: root.to_owned(), reason };
        fs::create_dir_all(root).map_err(|error| unusable(error.to_string()))?;
        let sites: Vec<String> = spec.sites.iter().map(|site| site.name.clone()).collect();
        let about = About {
            format: FORMAT,
            cluster: spec.name.clone(),
            sites: sites.clone(),
            partitions: spec.partitions,
            workers: spec.topology().workers,
        };
        let file = root.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => {
                let found: About = toml::from_str(&text)
                    .map_err(|error| unusable(format!("{FILE} is damaged: {error}")))?;
                found.must_be(&about).map_err(unusable)?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut entries =
                    fs::read_dir(root).map_err(|error| unusable(error.to_string()))?;
                if entries.next().is_some() {
                    let reason =
                        format!("it holds other files, and no {FILE}; choose an empty one");
                    return Err(unusable(reason));
                }
                write(root, &file, &about).map_err(|error| unusable(error.to_string()))?;
            }
            Err(error) => return Err(unusable(format!("{FILE} cannot be read: {error}"))),
        }
        Ok(DataDir { root: root.to_owned(), sites })
    }

    /// The folder of a worker, made if it is not there.
    pub(crate) fn of(&self, worker: Address) -> Result<PathBuf, StorageError> {
        let site = &self.sites[worker.site.index()];
        let folder = self.root.join(site).join(format!("worker-{}", worker.worker));
        match fs::create_dir_all(&folder) {
            Ok(()) => Ok(folder),
            Err(error) => Err(StorageError { folder, reason: error.to_string() }),
        }
    }
}

/// The file is there whole, or not at all, also when power fails.
fn write(root: &Path, file: &Path, about: &About) -> std::io::Result<()> {
    let text = format!(
        "# Written when this data was begun; must stay as it is.\n{}",
        toml::to_string(about).map_err(std::io::Error::other)?
    );
    let temporary = root.join(format!("{FILE}.new"));
    fs::write(&temporary, text)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, file)?;
    fs::File::open(root)?.sync_all()
}

impl About {
    fn must_be(&self, now: &About) -> Result<(), String> {
        let About { format, cluster, sites, partitions, workers } = self;
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
        Ok(())
    }
}
