//! Databases of the experiments: a distant linearizable store, and a close causal one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use solera::mixed::Spaces;
use solera_mixt::store::Database;
use solera_postgres::Postgres;

use super::load::Bound;
use super::shaped::{Shaped, Tracking};
use super::{counters, groups};
use crate::error::BenchError;
use crate::papers::network::Network;
use crate::papers::processes::{Process, Wan};

/// Delays of the paper (§8.1): 85 ± 10 ms to the linearizable store, 1 ms to the causal one.
const FAR: (Duration, Duration) = (Duration::from_millis(75), Duration::from_millis(20));
const NEAR: (Duration, Duration) = (Duration::from_millis(1), Duration::ZERO);

/// Space of each database.
const SPACE: &str = "data";

/// Databases of a run: an independent pair of a linearizable and a causal one, or one database that
/// serves as both.
pub(super) struct Deployment {
    /// Description of the linearizable store.
    pub(super) title: &'static str,
    /// Databases without delays, to load data.
    beside: Databases,
    /// Databases with the paper's delays.
    away: Databases,
    /// Maximum number of clients of its databases.
    pub(super) most_clients: usize,
    _processes: Vec<Process>,
    _network: Network,
}

/// The linearizable database and the causal one, each with its space.
#[derive(Clone)]
struct Databases([(Arc<dyn Database>, &'static str); 2]);

/// Settings for running a program.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    /// Whether the stores have the paper's delays.
    pub(super) away: bool,
    pub(super) binding: Binding,
    pub(super) tracking: Tracking,
    /// Whether phases run next to their stores.
    pub(super) shipping: bool,
}

/// Settings of the paper.
pub(super) const MIXED: Setting =
    Setting { away: true, binding: Binding::Mixed, tracking: Tracking::On, shipping: false };

/// Binding of a program's stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Each store to its own database.
    Mixed,
    /// Both stores to the linearizable database.
    AllStrong,
}

impl Deployment {
    /// Starts two clusters in separate processes.
    ///
    /// # Errors
    /// Fails if they cannot be started.
    pub(super) fn spaces() -> Result<Deployment, BenchError> {
        let network = Network::new()?;
        let mut processes = Vec::new();
        let mut cluster = |level: &str, distance| {
            let config = format!("cluster = '{level}'\n{}", space(level));
            let mut process = Process::up(&config, 1, Wan::Named("none"))?;
            let address = process.wait()?[0];
            processes.push(process);
            let away = network.at(&address.to_string(), distance)?;
            let named = |address| {
                let found = spaces(address)?;
                Ok::<_, BenchError>(found.executing([counters::SOURCE, groups::SOURCE]))
            };
            Ok::<_, BenchError>((named(address)?, named(away)?))
        };
        let (strong, strong_away) = cluster("linearizable", FAR)?;
        let (weak, weak_away) = cluster("causal", NEAR)?;
        Ok(Deployment {
            title: "spaces of two clusters",
            beside: Databases([(Arc::new(strong), SPACE), (Arc::new(weak), SPACE)]),
            away: Databases([(Arc::new(strong_away), SPACE), (Arc::new(weak_away), SPACE)]),
            most_clients: usize::MAX,
            _processes: processes,
            _network: network,
        })
    }

    /// Uses a PostgreSQL server, and starts a cluster for the causal data.
    ///
    /// # Errors
    /// Fails if the URL has no host and port, or if one of the databases cannot be reached.
    pub(super) fn postgres(url: &str) -> Result<Deployment, BenchError> {
        let network = Network::new()?;
        let server = Server::of(url)?;
        let away = network.at(server.address, FAR)?;
        let strong = |url: &str| -> Result<Arc<dyn Database>, BenchError> {
            let built = Postgres::builder(url).schema(SCHEMA).space(SPACE).build();
            Ok(Arc::new(built.map_err(|error| BenchError::Start(error.to_string()))?))
        };
        let (beside, distant) = (strong(url)?, strong(&server.at(&away.to_string()))?);
        let mut process = Process::up(&space("causal"), 1, Wan::Named("none"))?;
        let address = process.wait()?[0];
        let weak_away = network.at(&address.to_string(), NEAR)?;
        Ok(Deployment {
            title: "PostgreSQL",
            beside: Databases([(beside, SPACE), (Arc::new(spaces(address)?), SPACE)]),
            away: Databases([(distant, SPACE), (Arc::new(spaces(weak_away)?), SPACE)]),
            most_clients: 48,
            _processes: vec![process],
            _network: network,
        })
    }

    /// Starts one cluster whose spaces serve as both databases. The leaders are at distant sites.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub(super) fn one_cluster() -> Result<Deployment, BenchError> {
        let named = |level: &str| space(level).replace(SPACE, level);
        let config = named("linearizable") + &named("causal");
        let network = Network::new()?;
        let mut process =
            Process::up(&config, 3, Wan::Rtt("[[0, 5, 85], [5, 0, 85], [85, 85, 0]]"))?;
        let addresses = process.wait()?;
        let away = spaces(network.at(&addresses[2].to_string(), NEAR)?)?;
        let beside = spaces(addresses[0])?;
        let both = |spaces: Spaces| {
            let database: Arc<dyn Database> = Arc::new(spaces);
            Databases([(Arc::clone(&database), "linearizable"), (database, "causal")])
        };
        Ok(Deployment {
            title: "spaces of one cluster",
            beside: both(beside),
            away: both(away),
            most_clients: usize::MAX,
            _processes: vec![process],
            _network: network,
        })
    }

    /// Returns whether the linearizable store can run phases.
    pub(super) fn ships(&self) -> bool {
        self.away.0[0].0.executes()
    }

    /// Binds the stores of a program.
    ///
    /// # Errors
    /// Fails if a store's space is missing or too weak.
    pub(super) fn bind(
        &self,
        source: &str,
        stores: [&str; 2],
        setting: Setting,
    ) -> Result<Bound, BenchError> {
        let Setting { away, binding, tracking, shipping } = setting;
        let Databases(databases) = if away { &self.away } else { &self.beside };
        let [(strong, strong_space), (weak, weak_space)] = databases;
        let one = Arc::ptr_eq(strong, weak);
        let shaped = |database: &Arc<dyn Database>| -> Arc<dyn Database> {
            let (inner, looks) = (Arc::clone(database), Arc::new(AtomicU64::new(0)));
            Arc::new(Shaped { inner, tracking, shipping, looks })
        };
        let strong = shaped(strong);
        let weak = if one { Arc::clone(&strong) } else { shaped(weak) };
        let second = match binding {
            Binding::AllStrong => (stores[1], 0, *strong_space),
            Binding::Mixed => (stores[1], usize::from(!one), *weak_space),
        };
        let databases = if one { vec![strong] } else { vec![strong, weak] };
        Bound::new(source, databases, &[(stores[0], 0, *strong_space), second])
    }
}

/// Returns the configuration of a cluster with one space.
fn space(level: &str) -> String {
    format!("[[space]]\nname = '{SPACE}'\nprefix = '{SPACE}:'\nlevel = '{level}'\n")
}

/// Schema of the measured data in PostgreSQL.
const SCHEMA: &str = "solera_papers";

/// Address of a PostgreSQL server within its URL.
struct Server<'a> {
    before: &'a str,
    address: &'a str,
    after: &'a str,
}

impl<'a> Server<'a> {
    fn of(url: &'a str) -> Result<Server<'a>, BenchError> {
        let invalid = || {
            let text =
                "the URL of PostgreSQL must be as postgresql://USER:PASSWORD@HOST:PORT/DATABASE";
            BenchError::Settings(text.to_owned())
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let address = authority.rsplit('@').next().unwrap_or_default();
        let from = scheme.len() + 3 + authority.len() - address.len();
        let (host, port) = address.rsplit_once(':').ok_or_else(invalid)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(invalid());
        }
        Ok(Server { before: &url[..from], address, after: &url[from + address.len()..] })
    }

    /// Returns the URL with another address.
    fn at(&self, address: &str) -> String {
        format!("{}{address}{}", self.before, self.after)
    }
}

/// Connects to a cluster's spaces as a database at an address.
fn spaces(address: SocketAddr) -> Result<Spaces, BenchError> {
    crate::runtime()?.block_on(Spaces::at(address)).map_err(BenchError::Connect)
}

#[cfg(test)]
mod tests {
    use super::Server;

    #[test]
    fn only_the_address_in_a_url_is_replaced() {
        for (url, address) in [
            ("postgresql://a:p%40ss@127.0.0.1:5432/db?options=x:1", "127.0.0.1:5432"),
            ("postgres://db.example:1/", "db.example:1"),
        ] {
            let server = Server::of(url).unwrap();
            assert_eq!(server.address, address);
            assert_eq!(server.at("[::1]:9"), url.replace(address, "[::1]:9"));
        }
        for url in
            ["", "host=x", "postgresql://host/db", "postgresql://a@:5/db", "postgresql://h:x/"]
        {
            assert!(Server::of(url).is_err(), "{url}");
        }
    }
}
