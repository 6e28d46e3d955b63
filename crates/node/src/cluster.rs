//! A cluster, or the part of it that runs in this process: its threads, its status, and fault
//! injection.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::Deserialize;
use solera_commands::COMMANDS;
use solera_config::{
    ClusterSpec, ConfigError, Durability, ErrorBound, KeyBound, Runs, SiteSpec, SpaceHome,
};
use solera_links::NodeRole;
use solera_machine::{Address, PartitionId, Topology};
use solera_membership::Members;
use solera_occult::Response::Slowed;
use solera_occult::{Command, ShardId};
use solera_reservations::{Bound, Policy, Timing};
use solera_site::Site;
use solera_time::SiteId;
use solera_unistore::Config;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::clock::Clock;
use crate::control::{Control, Envelope};
use crate::data_dir::DataDir;
use crate::descriptors::Needs;
use crate::gauge::Gauge;
use crate::here::Here;
use crate::link::Link;
use crate::membership::Membership;
use crate::metrics::RefusedCount;
use crate::modules::{Incomplete, Modules};
use crate::network::{Destination, Network};
use crate::peers::Peers;
use crate::random::random;
use crate::recovering::{Opening, open_all};
use crate::run::Run;
use crate::status::{ClusterStatus, LinkStatus, MemoryStatus, SiteStatus, WorkerSample};
use crate::storage::{Engine, Found, Storage, StorageError};
use crate::tls::{for_admin, for_clients};
use crate::worker;

/// Number of keys at risk that a status lists.
const KEYS_AT_RISK: usize = 10;
/// Maximum shift of a site's clocks, in milliseconds: a day.
const MAX_SKEW_MS: u64 = 86_400_000;
/// Length at which a status cuts off a key, in bytes.
const SHOWN_KEY_BYTES: usize = 200;

/// A running cluster, or one running node of it. Dropping it stops it.
pub struct Cluster {
    pub(crate) spec: Arc<ClusterSpec>,
    pub(crate) network: Arc<Network>,
    threads: Vec<JoinHandle<()>>,
    _gauge: Gauge,
    /// Distributes in-memory connections among workers.
    connected: AtomicUsize,
    /// TLS configuration of client connections; `None` without TLS.
    pub(crate) tls: Option<Arc<ArcSwap<TlsAcceptor>>>,
    /// TLS configuration of HTTP; `None` without TLS.
    pub(crate) admin_tls: Option<Arc<ArcSwap<TlsAcceptor>>>,
    /// Descriptors that this process needs besides those of its clients.
    pub(crate) needs: Needs,
    /// The node that this process runs; `None` if it runs the whole cluster.
    pub(crate) here: Option<Here>,
    /// Contents of the data directory at the start, per worker.
    found: Vec<Found>,
    /// Data directory, locked while workers write there; `None` in memory.
    pub(crate) data: Option<DataDir>,
}

/// A site of a running cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteInfo {
    /// Its name.
    pub name: String,
    /// Address of its RESP port; `None` without one.
    pub listen: Option<SocketAddr>,
}

/// Reason why a cluster could not start.
#[derive(Debug)]
pub enum StartError {
    /// A site cannot listen at its address.
    Listen {
        /// The site.
        site: String,
        /// The address.
        address: SocketAddr,
        /// Reason.
        error: std::io::Error,
    },
    /// The certificates or keys for TLS cannot be used.
    Tls(ConfigError),
    /// A thread or its event loop could not be created.
    Worker(std::io::Error),
    /// The data cannot be used.
    Storage(StorageError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen { site, address, error }
                if error.kind() == std::io::ErrorKind::AddrInUse =>
            {
                write!(
                    f,
                    "site {site} cannot listen on {address}: the port is in use by another \
                     program; choose another base with --port"
                )
            }
            StartError::Listen { site, address, error } => {
                write!(f, "site {site} cannot listen on {address}: {error}")
            }
            StartError::Tls(error) => error.fmt(f),
            StartError::Worker(error) => write!(f, "a worker cannot start: {error}"),
            StartError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// Error of a connection to a dead site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("site {0} is down")]
pub struct SiteDown(pub String);

/// Reference to a site: its name, ignoring case, or its number from 1.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum SiteRef {
    /// Its number, also as text.
    Number(u64),
    /// Its name.
    Name(String),
}

impl fmt::Display for SiteRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteRef::Number(number) => number.fmt(f),
            SiteRef::Name(name) => name.fmt(f),
        }
    }
}

impl From<&str> for SiteRef {
    fn from(name: &str) -> Self {
        SiteRef::Name(name.to_owned())
    }
}

/// A fault to inject, or the end of one.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "fault", rename_all = "lowercase", deny_unknown_fields)]
pub enum Fault {
    /// Messages between two sites are lost.
    Cut {
        /// One site.
        a: SiteRef,
        /// The other.
        b: SiteRef,
    },
    /// Ends all cuts and added delays.
    Heal {},
    /// A site dies. It keeps its state for [`Fault::Restart`].
    Kill {
        /// The site.
        site: SiteRef,
    },
    /// A dead site continues with its state, as after a long pause.
    Restart {
        /// The site.
        site: SiteRef,
    },
    /// Adds a delay to messages between two sites, in each direction.
    Delay {
        /// One site.
        a: SiteRef,
        /// The other.
        b: SiteRef,
        /// Milliseconds in each direction; 0 removes the delay.
        ms: u64,
    },
    /// Shifts the clock that the workers of a site read.
    Skew {
        /// The site.
        site: SiteRef,
        /// Milliseconds by which the clock is ahead; negative if it is behind, 0 ends the shift.
        ms: i64,
    },
    /// Delays the writes of a shard of level `pcpsi` at a site's copy.
    Slow {
        /// The site.
        site: SiteRef,
        /// Number of the shard.
        shard: u16,
        /// Milliseconds; 0 ends the delay.
        ms: u64,
    },
}

/// Reason why a fault cannot be injected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No site has this name or number.
    #[error("there is no site '{0}'; the sites are {sites}", sites = .1.join(", "))]
    NoSuchSite(String, Vec<String>),
    /// A site has no link to itself.
    #[error("site {0} has no link to itself")]
    SameSite(String),
    /// The site is already dead.
    #[error("site {0} is dead already")]
    AlreadyDead(String),
    /// The site is alive.
    #[error("site {0} is alive; nothing to restart")]
    Alive(String),
    /// The site cannot listen again.
    #[error("site {0} runs again but cannot listen: {1}")]
    CannotListen(String, String),
    /// The delay is longer than a minute.
    #[error("{0} ms is more than a minute; cut the link instead")]
    DelayTooLong(u64),
    /// The skew is longer than a day.
    #[error("{0} ms is more than a day, the most by which a clock is shifted")]
    SkewTooLong(i64),
    /// The delay of a shard is longer than a minute.
    #[error("{0} ms is more than a minute, the longest delay of a shard")]
    SlownessTooLong(u64),
    /// No shard has this number.
    #[error("there is no shard {0}; spaces of level pcpsi have the shards 0 to {1}")]
    NoSuchShard(u16, u16),
    /// There are no shards.
    #[error("there is no space of level pcpsi, so there are no shards")]
    NoShards,
    /// The site is the home of the shard, and has no copy that could be late.
    #[error(
        "site {0} is the home of shard {1}, which shows its writes at once; choose another site"
    )]
    HomeOfShard(String, u16),
    /// The worker of the shard gives no answer.
    #[error("the worker of shard {1} at site {0} gives no answer; the site may be dead")]
    NoAnswer(String, u16),
}

impl Cluster {
    /// Starts all sites and their workers.
    ///
    /// # Errors
    /// See [`StartError`]; in this case, nothing runs.
    pub fn start(
        spec: ClusterSpec,
        modules: Option<Arc<dyn Modules>>,
    ) -> Result<Cluster, StartError> {
        Cluster::start_with_clock(spec, modules, Clock::system())
    }

    /// Starts all sites and their workers, which read the time from `clock`.
    ///
    /// # Errors
    /// See [`StartError`]; in this case, nothing runs.
    pub fn start_with_clock(
        spec: ClusterSpec,
        modules: Option<Arc<dyn Modules>>,
        clock: Clock,
    ) -> Result<Cluster, StartError> {
        for site in &spec.sites {
            for address in [site.listen, site.listen_tls].into_iter().flatten() {
                // Bind the address exclusively first: workers share it, and sharing would hide
                // another program's listener.
                TcpListener::bind(address).map_err(|error| StartError::Listen {
                    site: site.name.clone(),
                    address,
                    error,
                })?;
            }
        }
        let tls = spec.tls.as_ref().filter(|tls| tls.port.is_some());
        let tls = tls.map(|tls| for_clients(&tls.files)).transpose().map_err(StartError::Tls)?;
        let tls = tls.map(|tls| Arc::new(ArcSwap::from_pointee(tls)));
        let admin_tls = admin_tls(&spec).map_err(StartError::Tls)?;
        let admin_tls = admin_tls.map(|tls| Arc::new(ArcSwap::from_pointee(tls)));
        let cluster = match spec.durability {
            // Data in memory ends with this run, so tokens must not outlive it.
            Durability::Memory => random(),
            _ => spec.id(),
        };
        let (site, generation) = (None, None);
        let run =
            Run { cluster, first_number: 0, modules, tls, admin_tls, site, generation, clock };
        Cluster::launch(Arc::new(spec), run, |_| None)
    }

    /// Starts the workers that run in this process, which are those to which no link leads.
    pub(crate) fn launch(
        mut spec: Arc<ClusterSpec>,
        run: Run,
        link_to: impl Fn(Address) -> Option<Arc<Link>>,
    ) -> Result<Cluster, StartError> {
        let (workers, receivers) = destinations(&spec, link_to);
        let mut sites: Vec<&SiteSpec> =
            receivers.iter().map(|(address, ..)| &spec.sites[address.site.index()]).collect();
        sites.dedup();
        sites.retain(|site| site.listen.or(site.listen_tls).is_some());
        let needs =
            Needs { sites: sites.len(), workers: receivers.len(), nodes: spec.nodes().count() };
        needs.limit_connections(Arc::make_mut(&mut spec));
        let data = match &spec.data {
            Some(root) if spec.durability != Durability::Memory => {
                let here: Vec<Address> = receivers.iter().map(|(address, ..)| *address).collect();
                let data = DataDir::open(root, &spec, &here, run.generation);
                Some(data.map_err(StartError::Storage)?)
            }
            _ => None,
        };
        let generation = data.as_ref().map_or(run.generation.unwrap_or(0), DataDir::generation);
        let peers = match &data {
            Some(data) => data.peers().map_err(StartError::Storage)?,
            None => Peers::default(),
        };
        let founders = data.as_ref().map_or(spec.sites.len(), DataDir::founders);
        let members = Members::founded(founders, spec.sites.len());
        let role = NodeRole { site: run.site, durable: data.is_some(), generation };
        let membership = Membership::new(members, role, peers);
        let network = Arc::new(Network::new(workers, &spec, membership, run.clock.clone()));
        // Clients may connect as soon as the first worker listens.
        if let Some(modules) = &run.modules {
            network.run_modules(Arc::clone(modules));
        }
        let gauge = Gauge::start(&network).map_err(StartError::Worker)?;
        let mut cluster = Cluster {
            spec,
            network,
            threads: Vec::new(),
            _gauge: gauge,
            connected: AtomicUsize::new(0),
            tls: run.tls.clone(),
            admin_tls: run.admin_tls.clone(),
            needs,
            here: None,
            found: Vec::new(),
            data: None,
        };
        cluster.start_workers(receivers, &run, data, (generation, founders))?;
        Ok(cluster)
    }

    /// Builds the machines of the workers that run here, from their journals if there are any, and
    /// starts the workers.
    fn start_workers(
        &mut self,
        receivers: Vec<Receiver>,
        run: &Run,
        data: Option<DataDir>,
        (generation, founders): (u32, usize),
    ) -> Result<(), StartError> {
        let topology = Arc::new(self.spec.topology());
        let (mut openings, mut workers, mut mailboxes) = (Vec::new(), Vec::new(), Vec::new());
        for (address, mailbox_of, mailbox) in receivers {
            let mut config = machine_config(&self.spec, address, &topology);
            config.first_transaction = run.first_number;
            config.journal = data.is_some();
            (config.generation, config.founders) = (generation, founders);
            let config = site_config(&self.spec, config);
            let seed = random();
            match &data {
                None => workers.push((Engine::in_memory(Site::new(config, seed)), None)),
                Some(data) => openings.push(Opening {
                    folder: data.of(address),
                    config,
                    seed,
                    name: format!("{} worker {}", self.site_name(address), address.worker),
                    mailbox: mailbox_of,
                }),
            }
            mailboxes.push(mailbox);
        }
        let (durability, id) = (self.spec.durability, self.spec.id());
        let opened = open_all(openings, durability, id).map_err(StartError::Storage)?;
        if let Some(data) = &data {
            data.grow().map_err(StartError::Storage)?;
        }
        for (storage, engine, found) in opened {
            self.network.membership().note_clock(found.run.0);
            // The links use the members from their first greeting on.
            self.network.membership().note(engine.machine().members());
            workers.push((engine, Some(storage)));
            self.found.push(found);
        }
        // The workers are in the order of their mailboxes. Either all workers have a journal or
        // none has.
        for ((engine, storage), mailbox) in workers.into_iter().zip(mailboxes) {
            self.start_worker(engine, storage, run.clone(), mailbox)?;
        }
        if let Some(data) = data {
            data.finish().map_err(StartError::Storage)?;
            self.data = Some(data);
        }
        Ok(())
    }

    fn start_worker(
        &mut self,
        engine: Engine,
        storage: Option<Storage>,
        run: Run,
        mailbox: mpsc::UnboundedReceiver<Envelope>,
    ) -> Result<(), StartError> {
        let (spec, network) = (self.spec.clone(), self.network.clone());
        let address = engine.machine().address();
        let (sender, receiver) = std::sync::mpsc::channel();
        let name = format!("{}-{}", spec.sites[address.site.index()].name, address.worker);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || worker::run(engine, storage, spec, run, network, mailbox, &sender))
            .map_err(StartError::Worker)?;
        self.threads.push(thread);
        let site = &self.spec.sites[address.site.index()];
        match (receiver.recv(), site.listen.or(site.listen_tls)) {
            (Ok(Ok(())), _) => Ok(()),
            (Ok(Err(error)), Some(address)) => {
                Err(StartError::Listen { site: site.name.clone(), address, error })
            }
            (Ok(Err(error)), None) => Err(StartError::Worker(error)),
            (Err(_), _) => {
                Err(StartError::Worker(std::io::Error::other("the worker ended at once")))
            }
        }
    }

    fn site_name(&self, worker: Address) -> &str {
        &self.spec.sites[worker.site.index()].name
    }

    /// Returns the data that was found in the data directory when the cluster started, per worker.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Returns the configuration with which the cluster started.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// Returns the current settings: the configuration, with the changes since the start.
    pub fn settings(&self) -> Arc<ClusterSpec> {
        self.network.settings()
    }

    /// Returns the sites, in order.
    pub fn sites(&self) -> Vec<SiteInfo> {
        let info = |site: &SiteSpec| SiteInfo { name: site.name.clone(), listen: site.listen };
        self.spec.sites.iter().map(info).collect()
    }

    /// Opens an in-memory connection to a site. It uses RESP, like every client connection.
    ///
    /// # Errors
    /// The site is dead or does not exist.
    pub fn connect(&self, site: usize) -> Result<DuplexStream, SiteDown> {
        if site >= self.spec.sites.len() || !self.network.is_alive(site) {
            let name = self.spec.sites.get(site).map_or("?", |site| &site.name);
            return Err(SiteDown(name.to_owned()));
        }
        let (client, server) = tokio::io::duplex(64 * 1024);
        let number = self.connected.fetch_add(1, Ordering::Relaxed);
        let workers: Vec<Address> = self.network.workers_here(SiteId(site as u8)).collect();
        let Some(worker) = workers.get(number % workers.len().max(1)) else {
            return Err(SiteDown(self.spec.sites[site].name.clone()));
        };
        self.network.control(*worker, Control::Connect(server));
        Ok(client)
    }

    /// Runs a future on the thread of a worker, beside the worker's own tasks. The future is
    /// dropped if the worker stops first. `make` is not called if this process does not run the
    /// worker.
    pub fn spawn_at<F>(&self, site: usize, worker: u8, make: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let address = Address { site: SiteId(site as u8), worker };
        if self.network.is_here(address) {
            let task = move || drop(tokio::task::spawn_local(make()));
            self.network.control(address, Control::Run(Box::new(task)));
        }
    }

    /// Returns the incomplete transactions of modules that recovery has found; `None` before its
    /// first run.
    pub fn incomplete(&self) -> Option<Incomplete> {
        self.network.modules().and_then(|modules| modules.incomplete())
    }

    /// Injects a fault, or ends one.
    ///
    /// # Errors
    /// See [`FaultError`].
    pub async fn inject(&self, fault: Fault) -> Result<(), FaultError> {
        match fault {
            Fault::Cut { a, b } => {
                let (a, b) = self.pair(&a, &b)?;
                self.network.set_cut(a, b, true);
            }
            Fault::Heal {} => {
                for a in 0..self.spec.sites.len() {
                    for b in 0..a {
                        self.network.set_cut(a, b, false);
                        self.network.add_delay(a, b, Duration::ZERO);
                    }
                }
            }
            Fault::Delay { a, b, ms } => {
                if ms > 60_000 {
                    return Err(FaultError::DelayTooLong(ms));
                }
                let (a, b) = self.pair(&a, &b)?;
                self.network.add_delay(a, b, Duration::from_millis(ms));
            }
            Fault::Skew { site, ms } => {
                if ms.unsigned_abs() > MAX_SKEW_MS {
                    return Err(FaultError::SkewTooLong(ms));
                }
                self.network.set_skew(self.site(&site)?, ms * 1000);
            }
            Fault::Slow { site, shard, ms } => {
                self.slow_down(self.site(&site)?, shard, ms).await?;
            }
            Fault::Kill { site } => {
                let index = self.site(&site)?;
                if !self.network.is_alive(index) {
                    return Err(FaultError::AlreadyDead(self.spec.sites[index].name.clone()));
                }
                self.network.set_alive(index, false);
                self.ask(index, Control::Kill).await;
            }
            Fault::Restart { site } => {
                let index = self.site(&site)?;
                if self.network.is_alive(index) {
                    return Err(FaultError::Alive(self.spec.sites[index].name.clone()));
                }
                self.network.set_alive(index, true);
                for result in self.ask(index, Control::Restart).await {
                    if let Err(error) = result {
                        let name = self.spec.sites[index].name.clone();
                        return Err(FaultError::CannotListen(name, error.to_string()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Delays the writes of a shard at a site's copy.
    async fn slow_down(&self, index: usize, shard: u16, ms: u64) -> Result<(), FaultError> {
        let shards = self.spec.occult_shards();
        if !self.spec.spaces.run_occult() {
            return Err(FaultError::NoShards);
        }
        if shard >= shards {
            return Err(FaultError::NoSuchShard(shard, shards - 1));
        }
        if ms > 60_000 {
            return Err(FaultError::SlownessTooLong(ms));
        }
        let name = || self.spec.sites[index].name.clone();
        let site = SiteId(index as u8);
        let partition = PartitionId(shard / (shards / self.spec.partitions));
        let owner = self.spec.topology().owner(site, partition);
        let command = Command::Slow { shard: ShardId(shard), delay_ms: ms };
        match self.network.ask_occult(owner, command).await {
            Some(Slowed(is_copy)) if is_copy || ms == 0 => {
                self.network.note_slow(index, shard, ms);
                Ok(())
            }
            Some(Slowed(_)) => Err(FaultError::HomeOfShard(name(), shard)),
            _ => Err(FaultError::NoAnswer(name(), shard)),
        }
    }

    /// Returns the status of the cluster. A detailed status counts versions and bytes, which visits
    /// all keys.
    pub async fn status(&self, detailed: bool) -> ClusterStatus {
        let mut sites = Vec::new();
        for index in 0..self.spec.sites.len() {
            sites.push(self.site_status(index, &self.samples(index, detailed).await));
        }
        let mut links = Vec::new();
        for b in 0..self.spec.sites.len() {
            for a in 0..b {
                let round_trip = self.network.delay(a, b) + self.network.delay(b, a);
                links.push(LinkStatus {
                    a: self.spec.sites[a].name.clone(),
                    b: self.spec.sites[b].name.clone(),
                    rtt_ms: round_trip.as_secs_f64() * 1000.0,
                    cut: self.network.is_cut(a, b),
                });
            }
        }
        ClusterStatus {
            cluster: self.spec.name.clone(),
            protocol: self.spec.protocol.name(),
            f: self.spec.f,
            sites,
            links,
            memory: self.memory_status(),
            takes_no_writes: self.refuses_writes().or_else(|| self.refused()),
        }
    }

    /// Returns the memory that this process uses.
    pub(crate) fn memory_status(&self) -> MemoryStatus {
        let memory = self.network.memory();
        let max_bytes = self.network.settings().max_memory;
        MemoryStatus { used_bytes: memory.used(), max_bytes, full: memory.is_full() }
    }

    /// Returns the counts of handshakes and frames that this node's links have refused. Returns
    /// `None` where one process runs all sites, because their links are in memory.
    pub(crate) fn refused_of_peers(&self) -> Option<[Vec<RefusedCount>; 2]> {
        let name = |site: Option<SiteId>| {
            site.map_or_else(String::new, |site| self.spec.sites[site.index()].name.clone())
        };
        let counts = self.here.as_ref()?.refused.counts();
        Some(counts.map(|counts| {
            let counts = counts.into_iter();
            counts.map(|((site, reason), count)| (name(site), reason, count)).collect()
        }))
    }

    /// Returns samples of the workers of a site that run in this process.
    pub(crate) async fn samples(&self, site: usize, detailed: bool) -> Vec<WorkerSample> {
        let mut samples = Vec::new();
        for worker in self.network.workers_here(SiteId(site as u8)) {
            samples.extend(self.network.sample(worker, detailed).await);
        }
        samples
    }

    pub(crate) fn site_status(&self, index: usize, samples: &[WorkerSample]) -> SiteStatus {
        let names: Vec<&String> = self.spec.sites.iter().map(|site| &site.name).collect();
        let site = &self.spec.sites[index];
        let mut status = SiteStatus {
            name: site.name.clone(),
            resp_port: site.listen.map(|address| address.port()),
            alive: self.network.is_alive(index),
            injected_skew_ms: self.network.skew(index) / 1000,
            slow_shards: self.network.slow_shards(index),
            ..SiteStatus::default()
        };
        let mut batches: Vec<u64> = Vec::new();
        for sample in samples {
            status.keys += sample.keys;
            if let Some((versions, bytes)) = sample.size {
                status.versions = Some(status.versions.unwrap_or(0) + versions);
                status.bytes = Some(status.bytes.unwrap_or(0) + bytes);
            }
            status.connections += sample.connections;
            status.errors += sample.errors;
            status.failed_logins += sample.failed_logins;
            status.refused_connections += sample.refused_connections;
            status.open_transactions += sample.open_transactions;
            status.prepared_transactions += sample.prepared_transactions;
            status.unsettled_updates += sample.unsettled_updates;
            status.at_risk += sample.at_risk;
            status.strong.add(&sample.strong);
            add_protocols(&mut status, sample);
            for (protocol, count) in solera_site::of_servers(&sample.ignored) {
                *status.ignored_messages.entry(protocol.name).or_default() += count;
            }
            // Sites that lead no partitions are listed, too.
            for (site, name) in (0..).zip(&names) {
                let leads = sample.leads.iter().filter(|leader| **leader == site).count();
                *status.leaders.entry((*name).clone()).or_default() += leads as u64;
            }
            if let Some(journal) = &sample.journal {
                status.journal.get_or_insert_default().add(journal);
            }
            for (command, count) in COMMANDS.iter().zip(&sample.commands) {
                if *count > 0 {
                    *status.commands.entry(command.name).or_default() += count;
                }
            }
            for (space, keys) in self.spec.spaces.iter().zip(&sample.space_keys) {
                *status.space_keys.entry(space.name.clone()).or_default() += keys;
            }
            status.batch_sum_us += sample.batch_sum_us;
            batches.resize(sample.batches.len(), 0);
            batches.iter_mut().zip(&sample.batches).for_each(|(sum, count)| *sum += count);
        }
        status.batch_us = batches.into_iter().enumerate().map(|(i, n)| (1u64 << i, n)).collect();
        if let Some(root) = samples.first() {
            let by_name = |values: &[u64]| -> BTreeMap<String, u64> {
                names.iter().map(|name| (*name).clone()).zip(values.iter().copied()).collect()
            };
            status.stable_vec = by_name(&root.stable_vec);
            status.uniform_vec = by_name(&root.uniform_vec);
            let entries = root.behind_ms.iter().zip(&root.uniform_vec);
            // The root may list more sites than this node.
            for (other, (behind, ts)) in entries.take(names.len()).enumerate() {
                // An entry is zero before the first exchange; its age would be the time since the
                // epoch.
                let behind = (*ts > 0).then_some(*behind);
                if other == index {
                    status.uniformity_ms = behind;
                } else {
                    status.lag_ms.insert(names[other].clone(), behind);
                }
            }
            let name = |site: &usize| names.get(*site).map(|name| (*name).clone());
            status.suspects = root.suspects.iter().filter_map(name).collect();
        }
        status
    }

    /// Adds to a site's status keys of the transactions that the loss of sites could still undo.
    /// Sends no request to nodes in `missing_nodes`, because they did not answer before.
    pub(crate) async fn name_keys_at_risk(
        &self,
        site: SiteId,
        status: &mut SiteStatus,
        missing_nodes: &[u16],
    ) {
        let mut keys = Vec::new();
        for worker in self.network.workers_of(site).filter(|_| status.at_risk > 0) {
            let node = self.spec.node_of(worker).map(|id| u16::from(id.node) + 1);
            if node.is_none_or(|node| !missing_nodes.contains(&node)) {
                let found = self.network.at_risk(worker, KEYS_AT_RISK).await;
                keys.extend(found.into_iter().flat_map(|found| found.keys));
            }
        }
        keys.truncate(KEYS_AT_RISK);
        status.at_risk_keys = Some(keys.iter().map(|key| shown(key)).collect());
    }

    /// Asks every worker of a site, and collects the answers.
    async fn ask<R>(
        &self,
        site: usize,
        question: impl Fn(oneshot::Sender<R>) -> Control,
    ) -> Vec<R> {
        let mut answers = Vec::new();
        for worker in self.network.workers_here(SiteId(site as u8)) {
            let (sender, receiver) = oneshot::channel();
            self.network.control(worker, question(sender));
            answers.extend(receiver.await.ok());
        }
        answers
    }

    fn pair(&self, a: &SiteRef, b: &SiteRef) -> Result<(usize, usize), FaultError> {
        let (a, b) = (self.site(a)?, self.site(b)?);
        if a == b {
            return Err(FaultError::SameSite(self.spec.sites[a].name.clone()));
        }
        Ok((a, b))
    }

    fn site(&self, wanted: &SiteRef) -> Result<usize, FaultError> {
        let sites = &self.spec.sites;
        let number = match wanted {
            SiteRef::Number(number) => usize::try_from(*number).ok(),
            SiteRef::Name(name) => name.parse().ok(),
        };
        let numbered = number.and_then(|number| number.checked_sub(1));
        let wanted = wanted.to_string();
        // No site has a number as its name.
        let named = sites.iter().position(|site| site.name.eq_ignore_ascii_case(&wanted));
        named.or(numbered.filter(|index| *index < sites.len())).ok_or_else(|| {
            let names = sites.iter().map(|site| site.name.clone()).collect();
            FaultError::NoSuchSite(wanted, names)
        })
    }
}

/// Returns a key as text, cut off if it is long.
fn shown(key: &[u8]) -> String {
    match key.get(..SHOWN_KEY_BYTES) {
        Some(start) => format!("{}…", String::from_utf8_lossy(start)),
        None => String::from_utf8_lossy(key).into_owned(),
    }
}

/// Returns the TLS configuration of HTTP; `None` without TLS.
pub(crate) fn admin_tls(spec: &ClusterSpec) -> Result<Option<TlsAcceptor>, ConfigError> {
    let tls = spec.tls.as_ref().filter(|tls| tls.admin);
    tls.map(|tls| for_admin(&tls.files)).transpose()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for site in SiteId::all(self.spec.sites.len()) {
            for worker in self.network.workers_of(site) {
                self.network.control(worker, Control::Stop);
            }
        }
        for thread in self.threads.drain(..) {
            // The panic of a worker was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// A worker that runs here, the sender of its mailbox, and the receiver for the worker.
type Receiver = (Address, mpsc::UnboundedSender<Envelope>, mpsc::UnboundedReceiver<Envelope>);

/// Adds a worker's report about the protocols that it runs beside UniStore.
fn add_protocols(status: &mut SiteStatus, sample: &WorkerSample) {
    if let Some(primary) = &sample.primary {
        status.primary.get_or_insert_default().add(primary);
    }
    if let Some(occult) = &sample.occult {
        status.occult.get_or_insert_default().add(occult);
    }
    if let Some(speculative) = &sample.speculative {
        status.speculative.get_or_insert_default().add(speculative);
    }
    status.reads.add(&sample.reads);
    if let Some(bounds) = &sample.bounds {
        status.bounds.get_or_insert_default().add(bounds);
    }
}

/// Returns the destination of messages for each worker of the cluster, and the workers that run
/// here, which are those to which no link leads.
fn destinations(
    spec: &ClusterSpec,
    link_to: impl Fn(Address) -> Option<Arc<Link>>,
) -> (Vec<Vec<Destination>>, Vec<Receiver>) {
    let mut receivers = Vec::new();
    let mut destination = |address| match link_to(address) {
        Some(link) => Destination::There(link),
        None => {
            let (sender, receiver) = mpsc::unbounded_channel();
            receivers.push((address, sender.clone(), receiver));
            Destination::Here(sender)
        }
    };
    let workers_of = |site: SiteId| {
        (0..spec.workers_of(site.index())).map(move |worker| Address { site, worker })
    };
    let sites = SiteId::all(spec.sites.len());
    let workers = sites.map(|site| workers_of(site).map(&mut destination).collect()).collect();
    (workers, receivers)
}

/// Returns the configuration of a worker's machine, as far as the cluster's configuration
/// determines it.
fn machine_config(spec: &ClusterSpec, address: Address, topology: &Arc<Topology>) -> Config {
    let mut config = Config::new(address, topology.clone());
    config.f = spec.f;
    config.protocol = spec.protocol.protocol();
    config.leader = spec.leader;
    config.strong_limits = spec.strong_limits;
    config.certification.max_ahead = spec.max_ahead();
    config.timing.idle_transaction_timeout = spec.transaction_timeout;
    config.timing.max_transaction_age = spec.transaction_max_age;
    config
}

/// Returns the configuration of a worker, with the protocols that its spaces need.
fn site_config(spec: &ClusterSpec, unistore: Config) -> solera_site::Config {
    let idle = unistore.timing.idle_transaction_timeout;
    let mut config = solera_site::Config::from(unistore);
    if spec.spaces.run_primary() {
        config = config.with_primary();
    }
    if spec.spaces.run_occult() {
        let homes = spec.spaces.iter().map(|space| {
            let home = match space.runs {
                Runs::Occult(SpaceHome::Site(site)) => Some(site),
                _ => None,
            };
            (space.prefix.as_bytes().to_vec(), home)
        });
        config = config.with_occult(spec.occult_shards(), homes.collect());
        let spaces = spec
            .spaces
            .iter()
            .map(|space| (space.prefix.as_bytes().to_vec(), matches!(space.runs, Runs::Occult(_))));
        config.occult_spaces = spaces.collect();
        if let Some(occult) = &mut config.occult {
            occult.timing.idle = idle;
            occult.scheme = solera_session::scheme(spec);
        }
    }
    let speculative = spec.spaces.iter().find(|space| space.runs == Runs::Speculative);
    if let Some(space) = speculative
        && config.unistore.address.worker == solera_session::SPECULATIVE_WORKER
    {
        config = config
            .with_creek(spec.speculative_threads)
            .with_acyclic(space.acyclic)
            .with_max_tentative(spec.max_tentative);
        if let Some(creek) = &mut config.creek {
            creek.leader = spec.leader;
        }
    }
    if spec.spaces.have_bounds() {
        let policy = |error: ErrorBound| Policy {
            tolerance_ppm: error.tolerance_ppm,
            spare: SPARE_TOKENS,
            lease: error.lease,
        };
        let bound = |bound: KeyBound| match bound {
            KeyBound::Error(error) => Bound::Error(policy(error)),
            KeyBound::Size(error) => Bound::Size(policy(error)),
            KeyBound::Hard => Bound::Rights,
        };
        let prefixes = spec.spaces.prefixes_with_bounds().into_iter();
        let bounds = prefixes.map(|(prefix, it)| (prefix.into_bytes(), it.map(bound)));
        config = config.with_reservations(bounds.collect(), Timing::default());
    }
    config
}

/// Number of tokens that every counter with an error bound may have.
const SPARE_TOKENS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_unknown_before_the_first_message() {
        let cluster = Cluster::start(ClusterSpec::local(3).unwrap(), None).unwrap();
        let since_the_epoch = 1.7e12;
        let sample = WorkerSample {
            uniform_vec: vec![0, 7, 0],
            behind_ms: vec![since_the_epoch, 3.0, since_the_epoch],
            ..WorkerSample::default()
        };
        let status = cluster.site_status(0, &[sample]);
        assert_eq!(status.uniformity_ms, None);
        let lags: Vec<_> = status.lag_ms.into_iter().collect();
        assert_eq!(lags, [("california".to_owned(), Some(3.0)), ("frankfurt".to_owned(), None)]);
    }

    #[test]
    fn one_worker_of_each_site_runs_the_speculative_space() {
        let text = "workers = 2\nleader = 'us'\n[[site]]\nname = 'eu'\n[[site]]\nname = 'us'\n\
                    [[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'speculative'";
        let spec = solera_config::sample::parse(text);
        let topology = Arc::new(spec.topology());
        let leader = |spec: &ClusterSpec, site, worker| {
            let address = Address { site: SiteId(site), worker };
            let mut config = machine_config(spec, address, &topology);
            config.journal = false;
            let creek = site_config(spec, config).creek?;
            assert!(!creek.journal);
            Some(creek.leader)
        };
        for site in 0..2 {
            assert_eq!(leader(&spec, site, 0), Some(SiteId(1)));
            assert_eq!(leader(&spec, site, 1), None);
        }
        let without = solera_config::sample::parse(text.split("[[space]]").next().unwrap());
        assert_eq!(leader(&without, 0, 0), None);
    }

    #[test]
    fn ignored_messages_are_counted_by_the_protocols_of_servers() {
        let cluster = Cluster::start(ClusterSpec::local(1).unwrap(), None).unwrap();
        let sample =
            |ignored: &[u64]| WorkerSample { ignored: ignored.to_vec(), ..WorkerSample::default() };
        let status = cluster.site_status(0, &[sample(&[1, 2, 0]), sample(&[3, 0, 0])]);
        let ignored: Vec<_> = status.ignored_messages.into_iter().collect();
        assert_eq!(ignored, [("UniStore", 4), ("occult", 0), ("primary", 2)]);
    }
}
