//! Times that workers of other sites have sent of their own histories
//! (`docs/decisions/0012-stale-restarts.md`).
//!
//! A worker must not restart with a state older than the times that it has sent: other workers rely
//! on these times, and have forgotten updates because this worker stored them. The updates that a
//! receiver stores prove what the sender had. A time without updates leaves no other trace, so the
//! receiver records it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_machine::Address;
use solera_membership::Members;
use solera_time::{SiteId, Timestamp};

/// Greatest time of its own history that a worker of another site has sent to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The worker.
    pub worker: Address,
    /// Generation of its site when it sent the time.
    pub generation: u32,
    /// The time.
    pub ts: Timestamp,
}

/// The latest time of each worker.
#[derive(Debug, Default)]
pub(crate) struct HeardOf {
    latest: BTreeMap<Address, (u32, Timestamp)>,
    /// Whether some time has not been recorded yet.
    is_news: bool,
}

impl HeardOf {
    pub(crate) fn raise(&mut self, heard: Heard) {
        let latest = self.latest.entry(heard.worker).or_default();
        if *latest < (heard.generation, heard.ts) {
            *latest = (heard.generation, heard.ts);
            self.is_news = true;
        }
    }

    /// Returns all times if some have not been recorded yet, and marks them as recorded.
    pub(crate) fn take_news(&mut self) -> Option<Vec<Heard>> {
        std::mem::take(&mut self.is_news).then(|| self.to_save())
    }

    pub(crate) fn to_save(&self) -> Vec<Heard> {
        self.latest
            .iter()
            .map(|(&worker, &(generation, ts))| Heard { worker, generation, ts })
            .collect()
    }

    /// Returns the workers of the current generation of `site`, and the latest time of each.
    pub(crate) fn of<'a>(
        &'a self,
        site: SiteId,
        members: &'a Members,
    ) -> impl Iterator<Item = (Address, Timestamp)> + 'a {
        let present = move |(worker, (generation, _)): &(&Address, &(u32, Timestamp))| {
            worker.site == site && *generation == members.generation(site)
        };
        self.latest.iter().filter(present).map(|(worker, (_, ts))| (*worker, *ts))
    }
}
