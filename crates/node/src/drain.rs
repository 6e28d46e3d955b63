//! Graceful shutdown: the process accepts no new clients, finishes with those that are connected,
//! and waits until its writes have reached the other sites.

use std::fmt;
use std::time::Duration;

use solera_commands::counted;
use solera_time::SiteId;
use tokio::time::{sleep, timeout};

use crate::cluster::Cluster;

/// Interval between checks for completion.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Work that was not finished when the time limit expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Clients that were in a transaction, or waited for an answer.
    pub clients: usize,
    /// Clients among them with an open transaction.
    pub in_transaction: usize,
    /// Transactions between prepare and commit.
    pub prepared: usize,
    /// Transactions that too few other sites are known to store.
    pub at_risk: usize,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { clients, in_transaction, prepared, at_risk } = *self;
        let transactions = |count: usize| counted(count, "transaction");
        match clients {
            1 => write!(f, "1 client was not done")?,
            _ => write!(f, "{clients} clients were not done")?,
        }
        match (in_transaction, clients) {
            (0, _) => {}
            (1, 1) => write!(f, " (it has a transaction open)")?,
            (1, _) => write!(f, " (1 has a transaction open)")?,
            _ => write!(f, " ({in_transaction} have transactions open)")?,
        }
        let prepared = transactions(prepared);
        write!(f, ", {prepared} not decided, and {at_risk} not known to be safe at other sites")
    }
}

impl Cluster {
    /// Stops accepting clients, reports that the process is not ready, and disconnects each client
    /// once it has its answers and no open transaction. Returns when all clients are gone and, for
    /// a node, other sites store its writes, but after `drain_ms` at the latest.
    ///
    /// # Errors
    /// The unfinished work when the time limit expires.
    pub async fn drain(&self) -> Result<(), Unfinished> {
        self.network.start_draining();
        let done = async {
            while self.unfinished().await != Unfinished::default() {
                sleep(LOOK_INTERVAL).await;
            }
        };
        match timeout(self.settings().drain, done).await {
            Ok(()) => Ok(()),
            Err(_) => match self.unfinished().await {
                left if left == Unfinished::default() => Ok(()),
                left => Err(left),
            },
        }
    }

    async fn unfinished(&self) -> Unfinished {
        let mut left = Unfinished::default();
        for (index, site) in SiteId::all(self.spec.sites.len()).enumerate() {
            let clients = self.network.clients(site);
            left.clients += clients.count();
            left.in_transaction += clients.in_transaction();
            // A cluster in one process ends as a whole, so no other site needs its writes.
            if self.here.as_ref().is_some_and(|here| here.id.site == site) {
                for sample in self.samples(index, false).await {
                    left.prepared += sample.prepared_transactions;
                    left.at_risk += sample.at_risk;
                }
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_described() {
        let described = |clients, in_transaction, prepared| {
            let left = Unfinished { clients, in_transaction, prepared, at_risk: 2 };
            let text = left.to_string();
            text.strip_suffix(", and 2 not known to be safe at other sites").unwrap().to_owned()
        };
        assert_eq!(described(0, 0, 0), "0 clients were not done, 0 transactions not decided");
        assert_eq!(
            described(1, 1, 1),
            "1 client was not done (it has a transaction open), 1 transaction not decided"
        );
        assert_eq!(
            described(3, 1, 2),
            "3 clients were not done (1 has a transaction open), 2 transactions not decided"
        );
        assert_eq!(
            described(3, 2, 0),
            "3 clients were not done (2 have transactions open), 0 transactions not decided"
        );
    }
}
