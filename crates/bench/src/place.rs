//! The cluster that clients use: a running one, or one in this process.

use solera::{Client, Endpoint, Error};
use solera_embedded::{ClusterSpec, Embedded, Overrides};

use crate::error::BenchError;

/// A site with its addresses.
#[derive(Clone, Debug)]
struct Site {
    name: String,
    endpoints: Vec<Endpoint>,
}

#[derive(Clone)]
enum Reach {
    Remote(Vec<Site>),
    Embedded(Embedded, Vec<String>),
}

/// The cluster whose sites the clients are spread over.
#[derive(Clone)]
pub struct TargetCluster(Reach);

impl TargetCluster {
    /// Uses a running cluster, by addresses of its sites. The clients of a site are spread over its
    /// addresses.
    ///
    /// # Errors
    /// Fails if an address does not answer as a site.
    pub async fn at(endpoints: Vec<Endpoint>) -> Result<TargetCluster, BenchError> {
        if endpoints.is_empty() {
            return Err(BenchError::Settings("no site is named".to_owned()));
        }
        let mut sites: Vec<Site> = Vec::new();
        for endpoint in endpoints {
            let asked = async { Client::connect_to(&endpoint).await?.site().await };
            let name =
                asked.await.map_err(|error| BenchError::Site(endpoint.to_string(), error))?;
            match sites.iter_mut().find(|site| site.name == name) {
                Some(site) => site.endpoints.push(endpoint),
                None => sites.push(Site { name, endpoints: vec![endpoint] }),
            }
        }
        Ok(TargetCluster(Reach::Remote(sites)))
    }

    /// Starts a cluster in this process, in memory, with `spaces` in the format of `solera.toml`.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or if threads cannot be started.
    pub fn up(over: Overrides, spaces: &str) -> Result<TargetCluster, BenchError> {
        let spec = ClusterSpec::parse("the benchmark's spaces", spaces, over);
        let spec = spec.map_err(|error| BenchError::Settings(error.to_string()))?;
        let names = spec.sites.iter().map(|site| site.name.clone()).collect();
        let cluster = Embedded::with(spec).map_err(|error| BenchError::Start(error.to_string()))?;
        Ok(TargetCluster(Reach::Embedded(cluster, names)))
    }

    /// Returns the names of the sites.
    pub fn sites(&self) -> Vec<String> {
        match &self.0 {
            Reach::Remote(sites) => sites.iter().map(|site| site.name.clone()).collect(),
            Reach::Embedded(_, names) => names.clone(),
        }
    }

    /// Returns whether the cluster runs in other processes.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.0, Reach::Remote(_))
    }

    /// Returns the site of a client, round robin.
    pub(crate) fn site_of(&self, client: usize) -> usize {
        let sites = match &self.0 {
            Reach::Remote(sites) => sites.len(),
            Reach::Embedded(_, names) => names.len(),
        };
        client % sites
    }

    /// Connects a client to its site.
    pub(crate) async fn connect(&self, client: usize) -> Result<Client, Error> {
        let site = self.site_of(client);
        match &self.0 {
            Reach::Remote(sites) => {
                let endpoints = &sites[site].endpoints;
                Client::connect_to(&endpoints[client / sites.len() % endpoints.len()]).await
            }
            Reach::Embedded(cluster, _) => cluster.client(site).await,
        }
    }
}
