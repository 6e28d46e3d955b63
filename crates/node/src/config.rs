//! What a cluster is made of, and `solera.toml`.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use solera_time::MAX_SITES;

use crate::spaces::{Space, SpaceError, Spaces};
use crate::wan::{Wan, WanError};

/// One site of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSpec {
    /// Its name.
    pub name: String,
    /// Where it speaks RESP; `None` for in-memory connections only.
    pub listen: Option<SocketAddr>,
}

/// A whole cluster in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Its name; tokens are bound to it and to the sites' names.
    pub name: String,
    /// Its sites, in order.
    pub sites: Vec<SiteSpec>,
    /// Logical partitions of the key space.
    pub partitions: u16,
    /// Workers per site.
    pub workers: u8,
    /// How many sites may fail.
    pub f: usize,
    /// Spaces.
    pub spaces: Spaces,
    /// Delays between sites.
    pub wan: Wan,
    /// Open transactions are aborted when their client does nothing for so long.
    pub transaction_timeout: Duration,
    /// Client connections per worker.
    pub max_connections: usize,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable(String, String),
    /// The file is not TOML, or has a setting that does not exist; tells line and column.
    Malformed(String, String),
    /// A setting that contradicts another or is out of range.
    Invalid(String),
    /// See [`SpaceError`].
    Space(SpaceError),
    /// See [`WanError`].
    Wan(WanError),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable(file, reason) => write!(f, "cannot read {file}: {reason}"),
            ConfigError::Malformed(file, reason) => write!(f, "{file}: {reason}"),
            ConfigError::Invalid(reason) => f.write_str(reason),
            ConfigError::Space(error) => error.fmt(f),
            ConfigError::Wan(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Option<String>,
    sites: Option<usize>,
    partitions: Option<u16>,
    workers: Option<u8>,
    f: Option<usize>,
    wan: Option<String>,
    transaction_timeout_ms: Option<u64>,
    max_connections: Option<usize>,
    #[serde(default)]
    site: Vec<SiteTable>,
    #[serde(default)]
    space: Vec<SpaceTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteTable {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpaceTable {
    name: String,
    prefix: String,
    level: String,
}

/// Settings given on the command line; they win over the file.
#[derive(Clone, Debug, Default)]
struct Overrides {
    sites: Option<usize>,
    partitions: Option<u16>,
    workers: Option<u8>,
    wan: Option<String>,
}

impl ClusterSpec {
    /// The cluster of a configuration file, or of the defaults where `file` is `None`. Settings given
    /// here win over those of the file. Sites do not listen yet.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(
        file: Option<&Path>,
        sites: Option<usize>,
        partitions: Option<u16>,
        workers: Option<u8>,
        wan: Option<&str>,
    ) -> Result<ClusterSpec, ConfigError> {
        let settings = match file {
            None => File::default(),
            Some(path) => {
                let shown = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| ConfigError::Unreadable(shown.clone(), error.to_string()))?;
                toml::from_str(&text)
                    .map_err(|error| ConfigError::Malformed(shown, error.to_string()))?
            }
        };
        let wan = wan.map(str::to_owned);
        build(settings, Overrides { sites, partitions, workers, wan })
    }

    /// A cluster of `sites` sites without delays, for tests and embedding.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn local(sites: usize) -> Result<ClusterSpec, ConfigError> {
        ClusterSpec::load(None, Some(sites), None, None, Some("none"))
    }

    /// Lets site `i`, counted from 1, speak RESP on `port + i` of 127.0.0.1.
    ///
    /// # Errors
    /// The ports must exist.
    pub fn listen_from(mut self, port: u16) -> Result<ClusterSpec, ConfigError> {
        for (i, site) in (1..).zip(&mut self.sites) {
            let port = port.checked_add(i).ok_or_else(|| {
                ConfigError::Invalid(format!(
                    "there is no port {} for a site",
                    u32::from(port) + u32::from(i)
                ))
            })?;
            site.listen = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        }
        Ok(self)
    }

    /// Identifies the cluster in tokens.
    pub fn id(&self) -> u64 {
        // FNV-1a: stable across versions and machines.
        let names = self.sites.iter().map(|site| site.name.as_str());
        std::iter::once(self.name.as_str()).chain(names).fold(
            0xcbf2_9ce4_8422_2325,
            |hash, name| {
                name.bytes().chain([0]).fold(hash, |hash: u64, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                })
            },
        )
    }
}

fn build(file: File, over: Overrides) -> Result<ClusterSpec, ConfigError> {
    let invalid = |text: String| Err(ConfigError::Invalid(text));
    let named = file.site.len();
    let sites = over.sites.or(file.sites).unwrap_or(if named > 0 { named } else { 3 });
    if !(1..=MAX_SITES).contains(&sites) {
        return invalid(format!("a cluster has 1 to {MAX_SITES} sites, not {sites}"));
    }
    if named > 0 && named != sites {
        return invalid(format!("{sites} sites are asked for, but {named} are named"));
    }
    let wan = over.wan.or(file.wan).unwrap_or_else(|| "none".to_owned());
    let wan = Wan::named(&wan, sites).map_err(ConfigError::Wan)?;
    let names: Vec<String> = if named > 0 {
        file.site.into_iter().map(|site| site.name).collect()
    } else {
        let regions = Wan::named("aws", 1).map_err(ConfigError::Wan)?.names;
        let given = if wan.names.len() >= sites { wan.names.clone() } else { regions };
        (0..sites)
            .map(|i| given.get(i).cloned().unwrap_or_else(|| format!("site{}", i + 1)))
            .collect()
    };
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return invalid(format!("'{name}' is no name for a site"));
        }
        if names[..i].contains(name) {
            return invalid(format!("there are two sites called '{name}'"));
        }
    }
    let partitions = over.partitions.or(file.partitions).unwrap_or(16);
    let workers = over.workers.or(file.workers).unwrap_or(1);
    if partitions == 0 || partitions > 4096 {
        return invalid(format!("there are 1 to 4096 partitions, not {partitions}"));
    }
    if workers == 0 || u16::from(workers) > partitions {
        return invalid(format!(
            "{workers} workers cannot share {partitions} partitions: each needs at least one"
        ));
    }
    let f = file.f.unwrap_or((sites - 1) / 2);
    if f >= sites {
        return invalid(format!("f = {f} sites cannot fail of {sites}; at most {}", sites - 1));
    }
    let spaces = file
        .space
        .into_iter()
        .map(|space| {
            let level = space.level.parse().map_err(|error| {
                ConfigError::Invalid(format!("space '{}': {error}", space.name))
            })?;
            Ok(Space { name: space.name, prefix: space.prefix, level })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ClusterSpec {
        name: file.cluster.unwrap_or_else(|| "solera".to_owned()),
        sites: names.into_iter().map(|name| SiteSpec { name, listen: None }).collect(),
        partitions,
        workers,
        f,
        spaces: Spaces::new(spaces).map_err(ConfigError::Space)?,
        wan,
        transaction_timeout: Duration::from_millis(file.transaction_timeout_ms.unwrap_or(60_000)),
        max_connections: file.max_connections.unwrap_or(10_000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        let file = toml::from_str(text).map_err(|error| error.to_string())?;
        build(file, Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_work() {
        let spec = parse("").unwrap();
        assert_eq!(spec.sites.len(), 3);
        assert_eq!((spec.partitions, spec.workers, spec.f), (16, 1, 1));
        assert_eq!(spec.sites[0].name, "virginia");
    }

    #[test]
    fn contradictions_are_named() {
        for (text, reason) in [
            ("sites = 0", "1 to 7 sites"),
            ("sites = 2\n[[site]]\nname = 'a'", "but 1 are named"),
            ("[[site]]\nname = 'a'\n[[site]]\nname = 'a'", "two sites called 'a'"),
            ("partitions = 2\nworkers = 3", "3 workers cannot share 2"),
            ("sites = 3\nf = 3", "f = 3"),
            ("colour = 'red'", "colour"),
            ("[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'strong'", "unknown level 'strong'"),
            ("[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'por'", "not served"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn tokens_of_clusters_with_other_names_differ() {
        let one = parse("cluster = 'a'").unwrap().id();
        assert_ne!(one, parse("cluster = 'b'").unwrap().id());
        assert_ne!(one, parse("cluster = 'a'\nsites = 2").unwrap().id());
    }
}
