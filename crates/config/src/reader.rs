//! Reader of `solera.toml`, which reports the place of each error.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use solera_commands::counted;
use solera_time::MAX_SITES;
use solera_unistore::MAX_WORKERS;
use toml::Spanned;

use crate::error::ConfigError;
use crate::malformed;
use crate::placed::Placed;
use crate::spec::{ClusterSpec, Overrides, SiteSpec};
use crate::wan::Wan;

mod amount;
mod at_least;
mod bounds;
mod changes;
mod development;
mod durability;
mod log;
mod modules;
mod nodes;
mod protocol;
mod spaces;
mod speculative;
mod stores;
mod tls;
mod users;

use amount::Amount;

impl ClusterSpec {
    /// Reads the cluster from a configuration file, or from the defaults where `file` is `None`.
    /// Sites do not listen yet.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(file: Option<&Path>, over: Overrides) -> Result<ClusterSpec, ConfigError> {
        let Some(path) = file else { return Reader::default().read(over) };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable(name.clone(), error.to_string()))?;
        ClusterSpec::parse(&name, &text, over)
    }

    /// Reads the cluster from the text of a configuration file. `name` is the file's name for
    /// errors.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(name: &str, text: &str, over: Overrides) -> Result<ClusterSpec, ConfigError> {
        Reader { file: Some(name.to_owned()), text }.read(over)
    }

    /// Returns a cluster of `sites` sites without delays, for tests and embedding.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn local(sites: usize) -> Result<ClusterSpec, ConfigError> {
        ClusterSpec::load(None, Overrides { sites: Some(sites), ..Overrides::default() })
    }
}

/// Least value of `max_memory`: slightly more than a process without data uses.
const LEAST_MEMORY: u64 = 32 << 20;

/// Default limit of a site's clients in one process.
pub const MAX_CONNECTIONS: usize = 10_000;

const NAMES: &str =
    "a name has 1 to 64 letters, digits, '-', '_' or '.', and does not begin with '.'";

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    // Folders use these names, too.
    !name.starts_with('.') && (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Option<Spanned<String>>,
    sites: Option<Spanned<usize>>,
    partitions: Option<Spanned<u16>>,
    workers: Option<Spanned<u16>>,
    f: Option<Spanned<usize>>,
    wan: Option<Spanned<String>>,
    protocol: Option<Spanned<String>>,
    leader: Option<Spanned<String>>,
    pcpsi_timestamps: Option<Spanned<String>>,
    pcpsi_stamps: Option<Spanned<u16>>,
    strong_max_bytes: Option<Spanned<Amount>>,
    strong_max_operations: Option<Spanned<usize>>,
    transaction_timeout_ms: Option<Spanned<u64>>,
    transaction_max_age_ms: Option<Spanned<u64>>,
    max_connections: Option<Spanned<usize>>,
    data: Option<PathBuf>,
    durability: Option<Spanned<String>>,
    sync_interval_ms: Option<Spanned<u64>>,
    max_clock_skew_ms: Option<Spanned<u64>>,
    drain_ms: Option<Spanned<u64>>,
    max_memory: Option<Spanned<Amount>>,
    log_level: Option<Spanned<String>>,
    #[serde(default)]
    log: log::LogTable,
    #[serde(default)]
    site: Vec<SiteTable>,
    #[serde(default)]
    space: Vec<spaces::SpaceTable>,
    #[serde(default)]
    user: Vec<users::UserTable>,
    tls: Option<Spanned<tls::ClientTable>>,
    peer_tls: Option<tls::PeerTable>,
    #[serde(default)]
    modules: modules::ModuleTable,
    #[serde(default)]
    development: development::DevelopmentTable,
    #[serde(default)]
    speculative: speculative::SpeculativeTable,
    #[serde(default)]
    store: Vec<stores::StoreTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteTable {
    name: Spanned<String>,
    #[serde(default)]
    node: Vec<nodes::NodeTable>,
}

/// Reads a file, and reports errors with their places in it.
#[derive(Default)]
struct Reader<'a> {
    file: Option<String>,
    text: &'a str,
}

/// A value, with its position if it comes from the file.
struct Setting<T> {
    value: T,
    place: Option<usize>,
}

impl<T> Setting<T> {
    fn new(given: Option<T>, read: Option<Spanned<T>>, default: T) -> Self {
        match (given, read) {
            (Some(value), _) => Setting { value, place: None },
            (None, Some(read)) => {
                Setting { place: Some(read.span().start), value: read.into_inner() }
            }
            (None, None) => Setting { value: default, place: None },
        }
    }
}

impl Reader<'_> {
    fn read(&self, over: Overrides) -> Result<ClusterSpec, ConfigError> {
        let file = toml::from_str(self.text).map_err(|error| {
            let place = error.span().map(|span| span.start);
            let at = self.at(place).or_else(|| self.file.clone());
            ConfigError::Invalid { at, reason: malformed::reason(self.text, &error) }
        })?;
        self.build(file, over)
    }

    /// Returns a value with its place, for a later check by another crate.
    fn placed<T>(&self, read: Spanned<T>) -> Placed<T> {
        Placed { at: self.at(Some(read.span().start)), value: read.into_inner() }
    }

    fn invalid<T>(&self, place: Option<usize>, reason: String) -> Result<T, ConfigError> {
        Err(ConfigError::Invalid { at: self.at(place), reason })
    }

    /// Returns the file and line of a position, for messages.
    fn at(&self, place: Option<usize>) -> Option<String> {
        let at = place.zip(self.file.as_ref());
        at.map(|(start, file)| format!("{file}, line {}", malformed::line_of(self.text, start)))
    }

    /// Checks a number of workers. Timestamps have one byte for it.
    fn worker_count(
        &self,
        workers: Setting<u16>,
        of: &'static str,
    ) -> Result<Setting<u8>, ConfigError> {
        match u8::try_from(workers.value) {
            Ok(value @ 1..=MAX_WORKERS) => Ok(Setting { value, place: workers.place }),
            _ => {
                let reason = format!("a {of} has 1 to 32 workers, not {}", workers.value);
                self.invalid(workers.place, reason)
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one setting after the other")]
    fn build(&self, file: File, over: Overrides) -> Result<ClusterSpec, ConfigError> {
        let sites = self.site_count(over.sites, file.sites, file.site.len())?;
        let wan = Setting::new(over.wan, file.wan, "none".to_owned());
        let wan = match Wan::named(&wan.value, sites) {
            Ok(found) => found,
            Err(error) => return self.invalid(wan.place, error.to_string()),
        };
        let names = self.site_names(&file.site, &wan, sites)?;
        let leader = self.leader(file.leader.as_ref(), &names)?;
        let strong_limits =
            self.strong_limits(file.strong_max_bytes, file.strong_max_operations)?;

        let partitions = Setting::new(over.partitions, file.partitions, 16);
        let workers = Setting::new(over.workers.map(u16::from), file.workers, 1);
        let (partitions, workers) = self.shares(partitions, workers)?;
        let mut nodes = self.nodes(&file.site, workers, partitions)?;
        let tls = file.tls.as_ref();
        let place = tls.map(|table| table.span().start);
        let tls = tls.map(|table| self.client_tls(table.get_ref())).transpose()?;
        self.check_tls(tls.as_ref(), place, &file.site)?;
        if over.workers.is_some() {
            nodes.clear();
        }
        let f = self.failures(file.f, sites)?;
        let [transaction_timeout, transaction_max_age] =
            self.transaction_times(file.transaction_timeout_ms, file.transaction_max_age_ms)?;
        let max_connections = self.within(
            Setting::new(None, file.max_connections, MAX_CONNECTIONS),
            1..=usize::MAX,
            "max_connections is at least 1",
        )?;
        let max_clock_skew = self.within(
            Setting::new(None, file.max_clock_skew_ms, 60_000),
            1000..=u64::MAX,
            "clocks differ by milliseconds; allow at least 1000 ms",
        )?;
        let drain = self.within(
            Setting::new(None, file.drain_ms, 5000),
            0..=3_600_000,
            "drain_ms is at most 3600000, an hour",
        )?;
        let cluster = Setting::new(None, file.cluster, "solera".to_owned());
        if !is_name(&cluster.value) {
            let reason = format!("{:?} is no name for a cluster: {NAMES}", cluster.value);
            return self.invalid(cluster.place, reason);
        }
        let shared_data = file.data.filter(|_| over.data.is_none());
        let data = over.data.or_else(|| shared_data.clone());
        let protocol = self.protocol(file.protocol.as_ref(), data.is_some())?;
        let durability = self.durability(data.is_some(), file.durability, file.sync_interval_ms)?;
        let spaces = self.spaces(&file.space, &names, file.development.examples, protocol)?;
        let timestamps =
            self.timestamps(file.pcpsi_timestamps.as_ref(), file.pcpsi_stamps.as_ref())?;
        let stores = self.stores(file.store, &cluster.value)?;
        let speculative_threads = self.speculative_threads(&file.speculative)?;
        let max_tentative = self.max_tentative(&file.speculative)?;
        Ok(ClusterSpec {
            speculative_threads,
            max_tentative,
            data,
            shared_data,
            durability,
            name: cluster.value,
            sites: names
                .into_iter()
                .zip(nodes.into_iter().chain(std::iter::repeat_with(Vec::new)))
                .map(|(name, nodes)| SiteSpec { name, listen: None, listen_tls: None, nodes })
                .collect(),
            partitions,
            workers,
            f,
            spaces,
            timestamps,
            protocol,
            leader,
            strong_limits,
            wan,
            transaction_timeout,
            transaction_max_age,
            max_connections,
            max_clock_skew: Duration::from_millis(max_clock_skew),
            users: self.users(&file.user)?,
            tls,
            peer_tls: file.peer_tls.as_ref().map(|table| self.peer_tls(table)).transpose()?,
            max_memory: file.max_memory.map(|amount| self.max_memory(&amount)).transpose()?,
            drain: Duration::from_millis(drain),
            log: over.log.or(self.log(file.log, file.log_level)?),
            modules: self.modules(file.modules)?,
            stores,
        })
    }

    /// Checks that a setting is within bounds.
    fn within<T: PartialOrd>(
        &self,
        setting: Setting<T>,
        bounds: RangeInclusive<T>,
        reason: &str,
    ) -> Result<T, ConfigError> {
        match bounds.contains(&setting.value) {
            true => Ok(setting.value),
            false => self.invalid(setting.place, reason.to_owned()),
        }
    }

    /// Returns the number of sites; `named` is the number of `[[site]]` tables.
    fn site_count(
        &self,
        given: Option<usize>,
        read: Option<Spanned<usize>>,
        named: usize,
    ) -> Result<usize, ConfigError> {
        let sites = Setting::new(given, read, if named > 0 { named } else { 3 });
        let Setting { value: sites, place } = sites;
        if !(1..=MAX_SITES).contains(&sites) {
            return self
                .invalid(place, format!("a cluster has 1 to {MAX_SITES} sites, not {sites}"));
        }
        if named > 0 && named != sites {
            let reason = format!(
                "the number of sites is {sites}, but there are [[site]] tables for {named}"
            );
            return self.invalid(place, reason);
        }
        Ok(sites)
    }

    /// Returns the number of partitions, and the number of a site's workers that share them.
    fn shares(
        &self,
        partitions: Setting<u16>,
        workers: Setting<u16>,
    ) -> Result<(u16, u8), ConfigError> {
        if partitions.value == 0 || partitions.value > 4096 {
            let reason = format!("there are 1 to 4096 partitions, not {}", partitions.value);
            return self.invalid(partitions.place, reason);
        }
        let workers = self.worker_count(workers, "site")?;
        let (partitions, place) = (partitions.value, workers.place.or(partitions.place));
        if u16::from(workers.value) > partitions {
            let reason = format!(
                "{} workers cannot share {}: each needs at least one partition",
                workers.value,
                counted(partitions, "partition")
            );
            return self.invalid(place, reason);
        }
        Ok((partitions, workers.value))
    }

    /// Returns the number of sites that may fail.
    fn failures(&self, read: Option<Spanned<usize>>, sites: usize) -> Result<usize, ConfigError> {
        let f = Setting::new(None, read, (sites - 1) / 2);
        if f.value >= sites {
            let reason = format!(
                "{} of {} cannot fail without losing data; f is at most {}",
                f.value,
                counted(sites, "site"),
                sites - 1
            );
            return self.invalid(f.place, reason);
        }
        Ok(f.value)
    }

    /// Returns the idle timeout and the maximum age of transactions.
    fn transaction_times(
        &self,
        timeout_ms: Option<Spanned<u64>>,
        max_age_ms: Option<Spanned<u64>>,
    ) -> Result<[Duration; 2], ConfigError> {
        let timeout = Setting::new(None, timeout_ms, 60_000);
        if timeout.value == 0 {
            let reason = "transaction_timeout_ms is at least 1".to_owned();
            return self.invalid(timeout.place, reason);
        }
        let max_age = Setting::new(None, max_age_ms, 600_000);
        if max_age.value < timeout.value {
            let reason = format!(
                "transaction_max_age_ms is {} and transaction_timeout_ms is {}: the maximum age must not be \
                 less than the timeout",
                max_age.value, timeout.value
            );
            return self.invalid(max_age.place.or(timeout.place), reason);
        }
        Ok([timeout.value, max_age.value].map(Duration::from_millis))
    }

    fn max_memory(&self, amount: &Spanned<Amount>) -> Result<u64, ConfigError> {
        let place = Some(amount.span().start);
        match amount.get_ref().bytes("max_memory") {
            Ok(bytes) if bytes < LEAST_MEMORY => {
                let least = LEAST_MEMORY >> 20;
                let reason = format!(
                    "max_memory must be at least {least} MiB: the process alone may take that much"
                );
                self.invalid(place, reason)
            }
            Ok(bytes) => Ok(bytes),
            Err(reason) => self.invalid(place, reason),
        }
    }

    fn site_names(
        &self,
        named: &[SiteTable],
        wan: &Wan,
        sites: usize,
    ) -> Result<Vec<String>, ConfigError> {
        let mut names: Vec<String> = Vec::new();
        for table in named {
            let (place, name) = (Some(table.name.span().start), table.name.get_ref().clone());
            if !is_name(&name) {
                return self.invalid(place, format!("{name:?} is no name for a site: {NAMES}"));
            }
            if name.bytes().all(|byte| byte.is_ascii_digit()) {
                let reason =
                    format!("site '{name}': a number could be mistaken for a site's place");
                return self.invalid(place, reason);
            }
            if let Some(other) = names.iter().find(|other| other.eq_ignore_ascii_case(&name)) {
                let reason = if *other == name {
                    format!("there are two sites called '{name}'")
                } else {
                    format!("the sites '{other}' and '{name}' differ only in upper and lower case")
                };
                return self.invalid(place, reason);
            }
            names.push(name);
        }
        if !names.is_empty() {
            return Ok(names);
        }
        let given = if wan.names.is_empty() { &Wan::regions() } else { &wan.names };
        for i in 0..sites {
            let name = given.get(i).cloned().unwrap_or_else(|| format!("site{}", i + 1));
            let distinct = !names.iter().any(|other| other.eq_ignore_ascii_case(&name));
            let number = name.bytes().all(|byte| byte.is_ascii_digit());
            if !is_name(&name) || number || !distinct {
                let reason = format!(
                    "the file of delays names a site {name:?}: {NAMES}; it is no number, and no other site \
                     has it"
                );
                return self.invalid(None, reason);
            }
            names.push(name);
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        let reader = Reader { file: Some("s.toml".to_owned()), text };
        reader.read(Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_work() {
        let spec = parse("").unwrap();
        assert_eq!(spec.sites.len(), 3);
        assert_eq!((spec.partitions, spec.workers, spec.f), (16, 1, 1));
        assert_eq!(spec.sites[0].name, "virginia");
        assert!(spec.warnings().is_empty());
    }

    #[test]
    fn a_protocol_that_is_for_comparisons_is_warned_about() {
        for (protocol, text) in
            [("redblue", "one group certifies"), ("causal", "no transaction is")]
        {
            let [warning] = &parse(&format!("protocol = '{protocol}'")).unwrap().warnings()[..]
            else {
                panic!("one warning");
            };
            assert!(warning.contains(protocol) && warning.contains(text), "{warning}");
        }
    }

    #[test]
    fn contradictions_are_named_with_their_line() {
        for (text, reason) in [
            ("sites = 0", "s.toml, line 1: a cluster has 1 to 7 sites, not 0"),
            ("f = 1\nsites = 2\n[[site]]\nname = 'a'", "line 2: the number of sites is 2, but"),
            (
                "[[site]]\nname = 'a'\n[[site]]\nname = 'a'",
                "line 4: there are two sites called 'a'",
            ),
            ("[[site]]\nname = 'a'\n[[site]]\nname = 'A'", "line 4: the sites 'a' and 'A' differ"),
            ("[[site]]\nname = '2'", "line 2: site '2': a number"),
            ("[[site]]\nname = \"a\\tb\"", r#"line 2: "a\tb" is no name for a site"#),
            ("site = 3", "[[site]]"),
            ("cluster = eu", "s.toml, line 1: texts need quotes: \"eu\""),
            ("\ncluster = 'eu", "line 2: this is not TOML: invalid literal string"),
            ("f = 1\nf = 2", "line 2: 'f' is set twice"),
            ("sites = '3'", "line 1: sites: expected a whole number"),
            ("\nwan = 3", "line 2: wan: expected a text in quotes, found the number 3"),
            ("max_memory = 1.5", "line 1: max_memory: 1.5 is not an amount of bytes; amounts are"),
            ("[[space]]\nname = 'x'", "line 1: the setting 'prefix' is missing"),
            ("spase = 1", "line 1: there is no setting 'spase' here; did you mean 'space'?"),
            (
                "[log]\ncolour = 1",
                "line 2: there is no setting 'colour' here; there are format, level, areas",
            ),
            ("[[space]]\nstrong = [\nDECRBY]", "texts need quotes: \"DECRBY\""),
            ("[[space]]\nstrong = 'SET'", "strong is a list: ['SET']"),
            ("[[space]]\nconflicts = [\n'SET', 'SET']", "conflicts is a list of pairs: [["),
            ("max_connections = 100\n[space]\nname = 'a'", "each space is a table: [[space]]"),
            ("drain_ms = 1\n[ \"user\" ] # x = 1\nname = 'a'", "each user is a table: [[user]]"),
            (
                "[[site]]\nname = 'eu'\n[site.node]\npeer = 'h:1'",
                "each node is a table: [[site.node]]",
            ),
            ("[[store]]\nname = 'a'\n[store.space]", "each space is a table: [[store.space]]"),
            ("drain_ms = 1\nspace.name = 'a'", "each space is a table: [[space]]"),
            ("[[store]]\nspace = { name = 'b' }", "space is a list: [{ name = 'b' }]"),
            ("cluster = ''", "line 1: \"\" is no name for a cluster"),
            ("partitions = 2\nworkers = 3", "line 2: 3 workers cannot share 2"),
            ("\nworkers = 0", "line 2: a site has 1 to 32 workers, not 0"),
            ("\nprotocol = 'paxos'", "line 2: there is no protocol 'paxos'; there are unistore,"),
            ("data = 'd'\nprotocol = 'causal'", "line 2: the protocol 'causal' is for comparisons"),
            ("pcpsi_timestamps = 'vector'", "line 1: 'vector' is no kind of timestamp: exact,"),
            ("\npcpsi_stamps = 0", "line 2: pcpsi_stamps is 1 to 64"),
            (
                "pcpsi_stamps = 3\npcpsi_timestamps = 'exact'",
                "line 1: timestamps that are exact have a stamp for each shard",
            ),
            ("leader = 'mars'", "line 1: there is no site 'mars' to lead; the sites are"),
            ("strong_max_bytes = '1 GiB'", "line 1: strong_max_bytes is 1 KiB to 512 MiB"),
            ("\nstrong_max_bytes = 'much'", "line 2: strong_max_bytes: 'much' is not an amount of"),
            ("\nstrong_max_operations = 0", "line 2: strong_max_operations is 1 to 10000000"),
            ("workers = 1000", "line 1: a site has 1 to 32 workers, not 1000"),
            ("sites = 3\nf = 3", "line 2: 3 of 3 sites cannot fail"),
            ("max_connections = 0", "line 1: max_connections is at least 1"),
            ("max_memory = '4 GX'", "line 1: max_memory: '4 GX' is not an amount of bytes"),
            ("\nmax_memory = 1000", "line 2: max_memory must be at least 32 MiB"),
            ("log_level = 'loud'", "line 1: there is no level 'loud': the levels are error"),
            ("transaction_timeout_ms = 0", "line 1: transaction_timeout_ms is at least 1"),
            ("\ntransaction_timeout_ms = 900000", "line 2: transaction_max_age_ms is 600000 and"),
            ("sites = 6\nwan = 'aws'", "line 2: the delays of 'aws' cover 5 sites"),
            ("colour = 'red'", "colour"),
            ("[[site]]\nname = '..'", "line 2: \"..\" is no name for a site"),
            ("durability = 'always'", "line 1: durability 'always' needs a directory"),
            ("durability = 'never'", "line 1: durability is 'always', 'interval' or 'memory', not"),
            ("data = 'd'\ndurability = 'often'", "line 2: durability is 'always', 'interval' or"),
            ("data = 'd'\nsync_interval_ms = 5", "line 2: sync_interval_ms goes with durability"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.starts_with("s.toml, line ") && !error.contains('\n'), "{error}");
        }
    }

    const TWO_NODES: &str = "\
[[site]]
name = 'eu'
[[site.node]]
resp = '10.0.0.1:1'
peer = 'eu-1.example:2'
admin = '[::1]:3'
workers = 2
[[site.node]]
resp = '10.0.0.2:1'
peer = '10.0.0.2:2'
admin = '10.0.0.2:3'
";

    #[test]
    fn workers_are_counted_over_a_sites_nodes() {
        let spec = parse(TWO_NODES).unwrap();
        assert_eq!(spec.topology().workers, [3]);
        assert_eq!(spec.sites[0].nodes[0].admin.to_string(), "[::1]:3");
        // A node can listen on all addresses, but cannot be reached at all of them.
        let everywhere = parse(&TWO_NODES.replace("10.0.0.2:1", "0.0.0.0:1")).unwrap();
        assert_eq!(everywhere.sites[0].nodes[1].resp.as_ref().unwrap().host, "0.0.0.0");
        assert_eq!(parse(&format!("workers = 4\n{TWO_NODES}")).unwrap().workers_of(0), 6);
        let over = Overrides { workers: Some(2), ..Overrides::default() };
        let alone = Reader { file: None, text: TWO_NODES }.read(over).unwrap();
        assert_eq!(alone.topology().workers, [2]);
        assert_eq!(parse("workers = 3").unwrap().topology().workers, [3, 3, 3]);
    }

    #[test]
    fn contradictory_nodes_are_named_with_their_line() {
        for (old, new, reason) in [
            ("10.0.0.2:2", "10.0.0.1:1", "line 10: 10.0.0.1:1 is used twice"),
            ("10.0.0.2:2", "10.0.0.2", "line 10: \"10.0.0.2\" is not \"host:port\""),
            ("10.0.0.2:2", ":2", "line 10: \":2\" is not"),
            ("10.0.0.2:2", "h:0", "line 10: \"h:0\" is not"),
            ("10.0.0.2:2", "h:70000", "line 10: \"h:70000\" is not"),
            ("10.0.0.2:2", "::1:7", "line 10: \"::1:7\" is not"),
            ("10.0.0.2:2", "[x]:7", "line 10: \"[x]:7\" is not"),
            ("10.0.0.2:2", "0.0.0.0:7", "line 10: other nodes cannot reach this one at 0.0.0.0:7"),
            ("10.0.0.2:2", "[::]:7", "line 10: other nodes cannot reach"),
            ("10.0.0.2:2", "[::ffff:0.0.0.0]:7", "line 10: other nodes cannot reach"),
            ("10.0.0.2:2", "0:7", "line 10: other nodes cannot reach"),
            ("10.0.0.2:2", "255.255.255.255:7", "line 10: other nodes cannot reach"),
            ("10.0.0.2:2", "[ff02::1]:7", "line 10: other nodes cannot reach"),
            ("workers = 2", "workers = 0", "line 7: a node has 1 to 32 workers, not 0"),
            ("workers = 2", "workers = 300", "line 7: a node has 1 to 32 workers, not 300"),
            ("workers = 2", "workers = 17", "line 7: the nodes of site 'eu' have 17 workers"),
            ("workers = 2", "workers = 16", "line 9: the nodes of site 'eu' have 17 workers"),
            ("workers = 2", "worker = 2", "line 7"),
            ("[[site]]", "[[site]]\nname = 'us'\n[[site]]", "line 2: site 'us' lists no nodes"),
            ("resp = '10.0.0.2:1'", "", "line 10: clients cannot reach this node"),
            ("resp = '10.0.0.2:1'", "resp_tls = 'h:1'", "line 9: resp_tls needs a [tls]"),
            ("[[site]]", "[tls]\ncert = 'x'\nkey = ''\n[[site]]", "line 3: tls.key names no file"),
            ("[[site]]", "[tls]\ncert = 'x'\nkey = 'y'\n[[site]]", "line 1: [tls] has no effect"),
            ("[[site]]", "[tls]\ncert = 'x'\nkey = 'y'\nport = 0\n[[site]]", "line 4: there is no"),
            ("[[site]]", "[peer_tls]\ncert = 'x'\nkey = 'y'\n[[site]]", "ca"),
            ("[[site]]", "max_clock_skew_ms = 1\n[[site]]", "line 1: clocks differ"),
        ] {
            let error = parse(&TWO_NODES.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(reason), "{new}: {error}");
        }
    }

    #[test]
    fn an_f_that_stalls_when_it_is_needed_is_warned_about() {
        assert_eq!(parse("sites = 3\nf = 2").unwrap().warnings().len(), 1);
        assert!(parse("sites = 1").unwrap().warnings().is_empty());
    }

    #[test]
    fn nodes_whose_certificates_cannot_tell_them_apart_are_warned_about() {
        let tls = "[peer_tls]\ncert = 'c'\nkey = 'k'\nca = 'a'";
        let shared = TWO_NODES.replace("10.0.0.2:2", "EU-1.example:3");
        let warnings = |text: &str| parse(text).unwrap().warnings();
        assert_eq!(warnings(&format!("{TWO_NODES}{tls}")), Vec::<String>::new());
        assert_eq!(warnings(&shared), Vec::<String>::new());
        let warnings = warnings(&format!("{shared}{tls}"));
        assert!(warnings[0].starts_with("node 1 of site eu and node 2 of site eu share the host"));
    }

    #[test]
    fn tokens_of_clusters_with_other_names_differ() {
        let one = parse("cluster = 'a'").unwrap().id();
        assert_ne!(one, parse("cluster = 'b'").unwrap().id());
        assert_eq!(one, parse("cluster = 'a'\nsites = 2").unwrap().id(), "sites are added");
        assert_ne!(one, parse("cluster = 'a'\n[[site]]\nname = 'x'").unwrap().id());
    }
}
