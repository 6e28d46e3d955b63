//! Siblings that lack updates which they had stored (`docs/decisions/0012-former-selves.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_machine::{Address, Now};
use solera_time::Monotonic;

/// A sibling that asks for so long has lost what it asks for. One whose link was only slow asks
/// once, with a message that was sent before the updates reached it another way; links give up
/// silent connections sooner.
const ASKS_FOR: Duration = Duration::from_secs(6);
/// One that does not ask again within this time has got what it needs: gaps are asked for every 250
/// ms.
const ASKS_AGAIN: Duration = Duration::from_millis(1500);

/// Siblings that ask for updates which are forgotten everywhere.
#[derive(Debug, Default)]
pub(crate) struct Lacking {
    /// When each began to ask, and when it last did.
    asking: BTreeMap<Address, (Monotonic, Monotonic)>,
    found: BTreeSet<Address>,
}

impl Lacking {
    /// A sibling asks for updates that are forgotten because all sites, its own included, had
    /// stored them.
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

    /// Returns the siblings that were found to lack something since the last call.
    pub(crate) fn take(&mut self) -> BTreeSet<Address> {
        std::mem::take(&mut self.found)
    }
}
