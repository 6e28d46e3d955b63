//! A cluster of Solera in the caller's process.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let cluster = solera_embedded::Embedded::start(3)?;
//! let mut client = cluster.client(0).await?;
//! client.set("greeting", "hello").await?;
//! let token = client.token().await?;
//!
//! let mut elsewhere = cluster.client(1).await?;
//! elsewhere.attach(&token).await?;
//! assert_eq!(elsewhere.get("greeting").await?, Some("hello".into()));
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The cluster logs with `tracing`. Install a subscriber to see its events, whose targets are the
//! [areas of the log](solera_config::areas).

use std::fmt;
use std::io::ErrorKind::ConnectionRefused;
use std::sync::Arc;

use solera::mixed::Spaces;
use solera::{Client, Error};
pub use solera_config::{ClusterSpec, Overrides};
use solera_mixt::store::BoxFuture;
use solera_modules::Host;
pub use solera_modules::{Settings, Store};
use solera_node::Cluster;
pub use solera_node::Fault;

/// Reason why a cluster did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

impl StartError {
    fn because(reason: impl fmt::Display) -> StartError {
        StartError(reason.to_string())
    }
}

/// A whole cluster in this process, without ports. Dropping it stops it.
#[derive(Clone)]
pub struct Embedded {
    cluster: Arc<Cluster>,
}

impl Embedded {
    /// Starts a cluster of `sites` sites without delays between them.
    ///
    /// # Errors
    /// The number of sites is out of range, or threads cannot be started.
    pub fn start(sites: usize) -> Result<Embedded, StartError> {
        let spec = ClusterSpec::local(sites).map_err(StartError::because)?;
        Embedded::with(spec)
    }

    /// Starts a cluster as specified. Modules have no stores but its spaces.
    ///
    /// # Errors
    /// A port is in use, threads cannot be started, or the limits of modules contradict one
    /// another.
    pub fn with(spec: ClusterSpec) -> Result<Embedded, StartError> {
        let settings = Settings::configured(&spec.modules);
        let settings = settings.map_err(StartError::because)?;
        Embedded::with_modules(spec, settings, Vec::new())
    }

    /// Starts a cluster with other limits for modules and with further stores.
    ///
    /// # Errors
    /// A port is in use, or threads cannot be started.
    pub fn with_modules(
        spec: ClusterSpec,
        settings: Settings,
        stores: Vec<Store>,
    ) -> Result<Embedded, StartError> {
        let modules = Host::start(settings, stores);
        let modules = modules.map_err(StartError::because)?;
        let cluster = Cluster::start(spec, Some(Arc::new(modules))).map_err(StartError::because)?;
        Ok(Embedded { cluster: Arc::new(cluster) })
    }

    /// Opens a session at a site, numbered from 0.
    ///
    /// # Errors
    /// The site is dead.
    pub async fn client(&self, site: usize) -> Result<Client, Error> {
        self.connect(site, None).await
    }

    /// Opens a session at a site as one of the cluster's users.
    ///
    /// # Errors
    /// The site is dead, or `WRONGPASS`.
    pub async fn client_as(&self, site: usize, user: &str, pass: &str) -> Result<Client, Error> {
        self.connect(site, Some((user, pass))).await
    }

    async fn connect(&self, site: usize, login: Option<(&str, &str)>) -> Result<Client, Error> {
        let cluster = Arc::clone(&self.cluster);
        let open = move || {
            let opened = cluster.connect(site);
            opened.map_err(|down| std::io::Error::new(ConnectionRefused, down.to_string()))
        };
        Client::through(open, login).await
    }

    /// Returns the cluster's spaces, used at a site, for mixed transactions.
    ///
    /// # Errors
    /// The site is dead.
    pub async fn spaces(&self, site: usize) -> Result<Spaces, Error> {
        let cluster = self.clone();
        let connect = move || -> BoxFuture<'static, Result<Client, Error>> {
            let cluster = cluster.clone();
            Box::pin(async move { cluster.client(site).await })
        };
        Spaces::of(connect).await
    }

    /// Injects a fault, or heals it.
    ///
    /// # Errors
    /// The site does not exist, or the fault changes nothing.
    pub async fn inject(&self, fault: Fault) -> Result<(), Error> {
        let result = self.cluster.inject(fault).await;
        result.map_err(|error| Error::server(&format!("FAULT {error}")))
    }

    /// Returns the cluster itself, for its status.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}
