//! How far workers of other sites have told of their own histories
//! (`docs/decisions/0012-former-selves.md`).
//!
//! A worker must not come back with less than it has told: others have drawn conclusions, and have
//! forgotten updates because it stored them. Updates that this worker stores show what was told; a
//! time in which nothing happened leaves no trace but this one, so it is recorded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_machine::Address;
use solera_membership::Members;
use solera_time::{SiteId, Timestamp};

/// The greatest time of its own that a worker of another site has told this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The worker.
    pub worker: Address,
    /// The life of its site in which it told the time.
    pub life: u32,
    /// The time.
    pub ts: Timestamp,
}

/// The latest of each worker.
#[derive(Debug, Default)]
pub(crate) struct HeardOf {
    latest: BTreeMap<Address, (u32, Timestamp)>,
    /// Whether something is in no record.
    is_news: bool,
}

impl HeardOf {
    pub(crate) fn raise(&mut self, heard: Heard) {
        let latest = self.latest.entry(heard.worker).or_default();
        if *latest < (heard.life, heard.ts) {
            *latest = (heard.life, heard.ts);
            self.is_news = true;
        }
    }

    /// Returns all, if something is in no record yet; from then on it is.
    pub(crate) fn take_news(&mut self) -> Option<Vec<Heard>> {
        std::mem::take(&mut self.is_news).then(|| self.to_save())
    }

    pub(crate) fn to_save(&self) -> Vec<Heard> {
        self.latest.iter().map(|(&worker, &(life, ts))| Heard { worker, life, ts }).collect()
    }

    /// Workers of the present life of `site`, and the latest time of each.
    pub(crate) fn of<'a>(
        &'a self,
        site: SiteId,
        members: &'a Members,
    ) -> impl Iterator<Item = (Address, Timestamp)> + 'a {
        let present = move |(worker, (life, _)): &(&Address, &(u32, Timestamp))| {
            worker.site == site && *life == members.life(site)
        };
        self.latest.iter().filter(present).map(|(worker, (_, ts))| (*worker, *ts))
    }
}
