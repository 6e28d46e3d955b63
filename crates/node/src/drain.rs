//! Leaving without cutting anybody short: no new clients, those that are there come to an end, and what
//! this process has written reaches the others.

use std::fmt;
use std::time::Duration;

use solera_time::SiteId;
use tokio::time::{sleep, timeout};

use crate::cluster::Cluster;

/// How often is looked whether the end is reached.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What had not come to its end when the time was up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Clients that were in a transaction, or waited for an answer.
    pub clients: usize,
    /// Transactions between prepare and commit.
    pub prepared: usize,
    /// Transactions that too few other sites are known to have.
    pub at_risk: usize,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { clients, prepared, at_risk } = self;
        write!(
            f,
            "{clients} clients were not done, {prepared} transactions not decided, and {at_risk} \
             not known to be safe at other sites"
        )
    }
}

impl Cluster {
    /// Takes no more clients, says that it is not ready, and lets the clients go that are there: each
    /// when it has its answers and no transaction is open. Returns when that is done and, of a node,
    /// when other sites have what it has written; at the latest after `drain_ms`.
    ///
    /// # Errors
    /// What is left when the time is up.
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
                Unfinished { clients: 0, prepared: 0, at_risk: 0 } => Ok(()),
                left => Err(left),
            },
        }
    }

    async fn unfinished(&self) -> Unfinished {
        let mut left = Unfinished::default();
        for (index, site) in SiteId::all(self.spec.sites.len()).enumerate() {
            left.clients += self.network.clients(site).count();
            // A cluster in one process ends as a whole; nobody is left to be told.
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
