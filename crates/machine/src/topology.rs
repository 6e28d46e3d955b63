//! Where partitions are.

use solera_time::SiteId;

use crate::{Address, PartitionId};

/// The shape of a cluster: how many partitions, and how many workers share them at each site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Logical partitions of the key space, the same at every site (UniStore's `N`).
    pub partitions: u16,
    /// For each site, its number of workers.
    pub workers: Vec<u8>,
}

impl Topology {
    /// How many sites there are (UniStore's `D`).
    pub fn sites(&self) -> usize {
        self.workers.len()
    }

    /// Every site but `me`.
    pub fn siblings_of(&self, me: SiteId) -> impl Iterator<Item = SiteId> + use<> {
        SiteId::all(self.sites()).filter(move |site| *site != me)
    }

    /// All workers, site by site.
    pub fn all_workers(&self) -> impl Iterator<Item = Address> + '_ {
        SiteId::all(self.sites()).flat_map(|site| {
            (0..self.workers[site.index()]).map(move |worker| Address { site, worker })
        })
    }

    /// Whether there is such a worker.
    pub fn has(&self, worker: Address) -> bool {
        self.workers.get(worker.site.index()).is_some_and(|count| worker.worker < *count)
    }

    /// The worker that holds the replica of `partition` at `site`.
    pub fn owner(&self, site: SiteId, partition: PartitionId) -> Address {
        let workers = u16::from(self.workers[site.index()]);
        Address { site, worker: (partition.0 % workers) as u8 }
    }

    /// The partitions whose replicas a worker holds, in order.
    pub fn owned_by(&self, address: Address) -> impl Iterator<Item = PartitionId> + '_ {
        (0..self.partitions)
            .map(PartitionId)
            .filter(move |partition| self.owner(address.site, *partition) == address)
    }
}
