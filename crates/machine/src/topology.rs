//! Placement of partitions on workers.

use solera_time::SiteId;

use crate::{Address, PartitionId};

/// Shape of a cluster: the number of partitions, and the number of workers at each site that share
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Logical partitions of the key space, the same at every site (UniStore's `N`).
    pub partitions: u16,
    /// Number of workers of each site.
    pub workers: Vec<u8>,
}

impl Topology {
    /// Returns the number of sites (UniStore's `D`).
    pub fn sites(&self) -> usize {
        self.workers.len()
    }

    /// Returns every site but `me`.
    pub fn siblings_of(&self, me: SiteId) -> impl Iterator<Item = SiteId> + use<> {
        SiteId::all(self.sites()).filter(move |site| *site != me)
    }

    /// Returns all workers, site by site.
    pub fn all_workers(&self) -> impl Iterator<Item = Address> + '_ {
        SiteId::all(self.sites()).flat_map(|site| {
            (0..self.workers[site.index()]).map(move |worker| Address { site, worker })
        })
    }

    /// Returns whether the cluster has this worker.
    pub fn has(&self, worker: Address) -> bool {
        self.workers.get(worker.site.index()).is_some_and(|count| worker.worker < *count)
    }

    /// Returns the worker that holds the replica of `partition` at `site`.
    pub fn owner(&self, site: SiteId, partition: PartitionId) -> Address {
        let workers = u16::from(self.workers[site.index()]);
        Address { site, worker: (partition.0 % workers) as u8 }
    }

    /// Returns the partitions whose replicas a worker holds, in order.
    pub fn owned_by(&self, address: Address) -> impl Iterator<Item = PartitionId> + '_ {
        (0..self.partitions)
            .map(PartitionId)
            .filter(move |partition| self.owner(address.site, *partition) == address)
    }
}
