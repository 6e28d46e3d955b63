//! Siblings that lack updates which they had stored (`docs/decisions/0012-stale-restarts.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::Monotonic;

/// Time for which a sibling must keep asking before its updates count as lost. A sibling with a
/// slow link asks only once, in a message that it sent before the updates reached it by another
/// route. Links close silent connections sooner.
const ASKS_FOR: Duration = Duration::from_secs(6);
/// Time after which a sibling that has not asked again has received the updates. Workers ask for
/// gaps every 250 ms.
const ASKS_AGAIN: Duration = Duration::from_millis(1500);

/// Siblings that ask for updates which are forgotten everywhere.
#[derive(Debug, Default)]
pub(crate) struct Lacking {
    /// Times of the first and the last request of each sibling.
    asking: BTreeMap<Address, (Monotonic, Monotonic)>,
    found: BTreeSet<Address>,
}

impl Lacking {
    /// Notes a request of a sibling for updates that are forgotten because all sites, its own
    /// included, had stored them.
    pub(crate) fn note(&mut self, now: Now, sibling: Address) {
        let now = now.monotonic;
        let (first, last) = self.asking.entry(sibling).or_insert((now, now));
        if now.since(*last) > ASKS_AGAIN {
            *first = now;
        }
        *last = now;
        if now.since(*first) >= ASKS_FOR {
            self.asking.remove(&sibling);
            self.found.insert(sibling);
        }
    }

    /// Returns the siblings that were found to lack updates since the last call.
    pub(crate) fn take(&mut self) -> BTreeSet<Address> {
        std::mem::take(&mut self.found)
    }
}
