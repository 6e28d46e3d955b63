//! Where experiments run: a linearizable store far away, and a causal one near.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use solera::Client;
use solera::mixed::Spaces;
use solera_mixt::store::{BoxFuture, Database};
use solera_wan::{Delays, Proxy};

use super::load::Bound;
use super::shaped::{Shaped, Tracking};
use crate::error::BenchError;
use crate::papers::processes::{Process, Wan};

/// The paper's distances (§8.1): 85 ± 10 ms to the linearizable store, 1 ms to the causal one.
const FAR: (Duration, Duration) = (Duration::from_millis(75), Duration::from_millis(20));
const NEAR: (Duration, Duration) = (Duration::from_millis(1), Duration::ZERO);

/// The space that each database has.
const SPACE: &str = "data";

/// A linearizable database and a causal one that know nothing of each other, or one that is both.
pub(super) struct Place {
    /// What the linearizable store is.
    pub(super) title: &'static str,
    /// The same databases beside the clients, to load data.
    beside: Databases,
    /// As far away as the paper has them.
    away: Databases,
    /// How many clients its databases take.
    pub(super) most_clients: usize,
    _processes: Vec<Process>,
    _network: Network,
}

/// The linearizable database with its space, and the causal one.
#[derive(Clone)]
struct Databases([(Arc<dyn Database>, &'static str); 2]);

/// Which stores a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// Each its own.
    Mixed,
    /// Both the linearizable one.
    AllStrong,
}

impl Place {
    /// Two clusters of a process of their own.
    ///
    /// # Errors
    /// They cannot be started.
    pub(super) fn spaces() -> Result<Place, BenchError> {
        let network = Network::new()?;
        let mut processes = Vec::new();
        let mut cluster = |level: &str, distance| {
            let config =
                format!("[[space]]\nname = '{SPACE}'\nprefix = '{SPACE}:'\nlevel = '{level}'\n");
            let mut process = Process::up(&config, 1, Wan::Named("none"))?;
            let address = process.wait()?[0];
            processes.push(process);
            let away = network.at(&address.to_string(), distance)?;
            Ok((spaces(address)?, spaces(away)?))
        };
        let (strong, strong_away) = cluster("linearizable", FAR)?;
        let (weak, weak_away) = cluster("causal", NEAR)?;
        Ok(Place {
            title: "spaces of two clusters",
            beside: Databases([(strong, SPACE), (weak, SPACE)]),
            away: Databases([(strong_away, SPACE), (weak_away, SPACE)]),
            most_clients: usize::MAX,
            _processes: processes,
            _network: network,
        })
    }

    pub(super) fn postgres(_url: &str) -> Result<Place, BenchError> {
        Err(BenchError::Start("PostgreSQL".to_owned()))
    }

    /// Spaces of one cluster, of which two sites are far away and have the leaders.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn one_cluster() -> Result<Place, BenchError> {
        let space = |level: &str| {
            format!("[[space]]\nname = '{level}'\nprefix = '{level}:'\nlevel = '{level}'\n")
        };
        let config = space("linearizable") + &space("causal");
        let network = Network::new()?;
        let mut process =
            Process::up(&config, 3, Wan::Rtt("[[0, 5, 85], [5, 0, 85], [85, 85, 0]]"))?;
        let addresses = process.wait()?;
        let database = spaces(network.at(&addresses[2].to_string(), NEAR)?)?;
        let beside = spaces(addresses[0])?;
        let both =
            |database| Databases([(Arc::clone(&database), "linearizable"), (database, "causal")]);
        Ok(Place {
            title: "spaces of one cluster",
            beside: both(beside),
            away: both(database),
            most_clients: usize::MAX,
            _processes: vec![process],
            _network: network,
        })
    }

    /// A program beside its stores, or as far away from them as the paper has it.
    ///
    /// # Errors
    /// Its stores cannot be bound.
    pub(super) fn bind(
        &self,
        source: &str,
        stores: [&str; 2],
        (away, binding, tracking): (bool, Binding, Tracking),
    ) -> Result<Bound, BenchError> {
        let Databases(databases) = if away { &self.away } else { &self.beside };
        let [(strong, strong_space), (weak, weak_space)] = databases;
        let one = Arc::ptr_eq(strong, weak);
        let shaped = |database: &Arc<dyn Database>, name: &str| -> Arc<dyn Database> {
            let (inner, looks) = (Arc::clone(database), Arc::new(AtomicU64::new(0)));
            Arc::new(Shaped { inner, name: name.into(), tracking, looks })
        };
        let strong = shaped(strong, "strong");
        let weak = if one { Arc::clone(&strong) } else { shaped(weak, "weak") };
        let second = match binding {
            Binding::AllStrong => (stores[1], 0, *strong_space),
            Binding::Mixed => (stores[1], usize::from(!one), *weak_space),
        };
        let databases = if one { vec![strong] } else { vec![strong, weak] };
        Bound::new(source, databases, &[(stores[0], 0, *strong_space), second])
    }
}

/// A cluster's spaces as a database, as they are seen at an address.
fn spaces(address: SocketAddr) -> Result<Arc<dyn Database>, BenchError> {
    let connect = move || -> BoxFuture<'static, Result<Client, solera::Error>> {
        Box::pin(Client::connect(address))
    };
    let found = super::runtime()?.block_on(Spaces::of(connect));
    Ok(Arc::new(found.map_err(BenchError::Connect)?))
}

/// Emulated distances, on a thread of their own. They end when this is dropped.
struct Network {
    handle: tokio::runtime::Handle,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Network {
    fn new() -> Result<Network, BenchError> {
        let runtime = super::runtime()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let work = move || {
            // The sender says nothing, but goes.
            let _ = runtime.block_on(stopped);
        };
        std::thread::Builder::new().name("wan".into()).spawn(work).map_err(BenchError::Threads)?;
        Ok(Network { handle, _stop: stop })
    }

    /// An address where a server at `HOST:PORT` is so far away.
    fn at(
        &self,
        server: &str,
        (rtt, jitter): (Duration, Duration),
    ) -> Result<SocketAddr, BenchError> {
        let delays = Delays::new(rtt, jitter).expect("the paper's distances are on earth");
        let server = server.to_owned();
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            let bound = Proxy::bind("127.0.0.1:0", &server, delays, 1).await;
            let address = bound
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|proxy| proxy.address().map_err(|error| error.to_string()));
            let _ = tell.send(address);
            if let Ok(proxy) = bound {
                proxy.serve().await;
            }
        });
        let address = told.recv().map_err(|error| BenchError::Start(error.to_string()))?;
        address.map_err(BenchError::Start)
    }
}
