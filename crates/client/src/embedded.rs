//! A cluster in the caller's process.

use std::sync::Arc;

use solera_config::{ClusterSpec, LogLevel};
use solera_mixt::store::BoxFuture;
use solera_node::{Cluster, Fault, Log};

use crate::client::{Client, Login, Target};
use crate::error::Error;
use crate::mixed::Spaces;
use crate::modules::{Host, Settings, Store};

/// A whole cluster in this process, without ports. Dropping it stops it.
#[derive(Clone)]
pub struct Embedded {
    cluster: Arc<Cluster>,
}

impl Embedded {
    /// A cluster of `sites` sites without delays between them.
    ///
    /// # Errors
    /// The number of sites is out of range, or threads cannot be started.
    pub fn start(sites: usize) -> Result<Embedded, Error> {
        let spec = ClusterSpec::local(sites).map_err(|error| Error::Start(error.to_string()))?;
        Embedded::with(spec)
    }

    /// A cluster as specified. Modules have no stores but its spaces.
    ///
    /// # Errors
    /// A port is in use, threads cannot be started, or the bounds of modules contradict one another.
    pub fn with(spec: ClusterSpec) -> Result<Embedded, Error> {
        let settings = Settings::configured(&spec.modules);
        let settings = settings.map_err(|error| Error::Start(error.to_string()))?;
        Embedded::with_modules(spec, settings, Vec::new())
    }

    /// The same, with other bounds for modules, and with other stores.
    ///
    /// # Errors
    /// A port is in use, or threads cannot be started.
    pub fn with_modules(
        spec: ClusterSpec,
        settings: Settings,
        stores: Vec<Store>,
    ) -> Result<Embedded, Error> {
        let modules = Host::start(settings, stores);
        let modules = modules.map_err(|error| Error::Start(error.to_string()))?;
        let cluster = Cluster::start(spec, Log::new(LogLevel::Error), Some(Arc::new(modules)))
            .map_err(|error| Error::Start(error.to_string()))?;
        Ok(Embedded { cluster: Arc::new(cluster) })
    }

    /// A new session at a site, numbered from 0.
    ///
    /// # Errors
    /// The site is dead.
    pub async fn client(&self, site: usize) -> Result<Client, Error> {
        Client::open(Target::Embedded(self.cluster.clone(), site)).await
    }

    /// The same, as one of the cluster's users.
    ///
    /// # Errors
    /// The site is dead, and `WRONGPASS`.
    pub async fn client_as(&self, site: usize, user: &str, pass: &str) -> Result<Client, Error> {
        let login = Login { user: user.to_owned(), password: pass.to_owned() };
        Client::open_as(Target::Embedded(self.cluster.clone(), site), Some(login)).await
    }

    /// The cluster's spaces, used at a site, for mixed transactions.
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

    /// Lets something go wrong, or right again.
    ///
    /// # Errors
    /// No such site, or nothing to do.
    pub async fn inject(&self, fault: Fault) -> Result<(), Error> {
        let result = self.cluster.inject(fault).await;
        result.map_err(|error| Error::server(&format!("FAULT {error}")))
    }

    /// The cluster itself, for its status.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}
