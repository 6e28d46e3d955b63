//! Rights of a site to decrement a counter that must not become negative, and counts of the rights
//! of all sites. The letters of rules are those of `docs/models/reservations`.
//!
//! A right is one unit of the counter. An increment creates rights at its site, a decrement spends
//! rights of its site, and a gift moves rights to another site. All three are entries of the site's
//! stream. So the rights of a site are a sum over its own stream and over the gifts that it has
//! received (B1).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use solera_machine::RequestId;
use solera_time::{Monotonic, SiteId, Vector};

use crate::counter::Waiter;
use crate::numbers::{Nonce, Tokens};

/// One generation of a site. A later generation does not have the rights of an earlier one (B4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// The site.
    pub site: SiteId,
    /// Its generation.
    pub generation: u32,
}

/// Rights that a site gives to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gift {
    /// The giver.
    pub from: Owner,
    /// The receiver.
    pub to: Owner,
    /// Number of rights.
    pub amount: u64,
}

/// Rights of one generation of a site for a key, as sums over the streams that the site has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Sum of the site's increments.
    pub created: u128,
    /// Sum of the site's decrements.
    pub spent: u128,
    /// Sums of the gifts to other sites.
    pub given: BTreeMap<Owner, u128>,
    /// Sums of the gifts of other sites.
    pub received: BTreeMap<Owner, u128>,
}

impl Tally {
    pub(crate) fn note_created(&mut self, amount: u64) {
        self.created = self.created.saturating_add(amount.into());
    }

    pub(crate) fn note_spent(&mut self, amount: u64) {
        self.spent = self.spent.saturating_add(amount.into());
    }

    pub(crate) fn note_given(&mut self, gift: &Gift) {
        let sum = self.given.entry(gift.to).or_default();
        *sum = sum.saturating_add(gift.amount.into());
    }

    pub(crate) fn note_received(&mut self, gift: &Gift) {
        let sum = self.received.entry(gift.from).or_default();
        *sum = sum.saturating_add(gift.amount.into());
    }

    /// Returns the rights of the site (B1).
    pub fn held(&self) -> i128 {
        let (received, given) = self.moved(|_| true);
        signed(self.created) - signed(self.spent) + received - given
    }

    /// Returns the sums of gifts from owners, and to owners, that a condition selects.
    fn moved(&self, of: impl Fn(&Owner) -> bool) -> (i128, i128) {
        let sum = |all: &BTreeMap<Owner, u128>| {
            all.iter().filter(|(owner, _)| of(owner)).map(|(_, sum)| signed(*sum)).sum()
        };
        (sum(&self.received), sum(&self.given))
    }
}

fn signed(sum: u128) -> i128 {
    i128::try_from(sum).unwrap_or(i128::MAX)
}

/// What a site has at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The sums over its stream.
    pub tally: Tally,
    /// Most that updates may add to the sums that have committed, or may commit, and that are not in
    /// the stream yet.
    pub open: Tokens,
}

/// A count of the rights of all sites (B6).
///
/// Each site is asked twice. The second round begins when all sites have answered the first one. The
/// number of rights at this moment is between two bounds: created rights only get more, and spent
/// ones, too. Gifts do not change the number, so that it makes no difference whether one is under
/// way.
#[derive(Clone, Debug)]
pub(crate) struct Count {
    /// Identifies the count and the round.
    pub(crate) nonce: Nonce,
    /// When the round was last sent.
    pub(crate) sent: Monotonic,
    pub(crate) first: BTreeMap<SiteId, Counted>,
    pub(crate) second: BTreeMap<SiteId, Counted>,
    /// Requests that the count answers: those that had arrived when the second round began.
    pub(crate) serves: Option<(BTreeSet<RequestId>, Vec<Waiter>)>,
}

impl Count {
    /// Returns the least and the greatest number of rights at the moment between the rounds.
    pub(crate) fn bounds(&self, is_over: impl Fn(&Owner) -> bool) -> (i128, i128) {
        let (mut least, mut greatest) = (0, 0);
        for (first, second) in self.first.values().zip(self.second.values()) {
            let (early, late) = (&first.tally, &second.tally);
            // Gifts of a removed site that remain of its stream are valid, those to it are lost.
            let (received_early, given_early) = early.moved(&is_over);
            let (received_late, given_late) = late.moved(&is_over);
            least += signed(early.created) - signed(late.spent);
            least += received_early - given_late - i128::from(second.open.decrements);
            greatest += signed(late.created) - signed(early.spent);
            greatest += received_late - given_early + i128::from(second.open.increments);
        }
        (least.max(0), greatest)
    }
}

impl Rights {
    /// Notes what has given the site rights.
    pub(crate) fn depend_on(&mut self, past: &Vector) {
        self.past.get_or_insert(*past).join(past);
    }
}

/// State of the rights of a key at a site, besides the tokens in hand, which are those of a counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) tally: Tally,
    /// What a snapshot must contain to contain all that has given the site rights.
    pub(crate) past: Option<Vector>,
    /// Gifts that are not in the site's stream yet. They count as promised.
    pub(crate) giving: Vec<Gift>,
    pub(crate) count: Option<Count>,
    /// Rights of other sites, and when they reported them.
    pub(crate) heard: BTreeMap<SiteId, (u64, Monotonic)>,
    /// Most rights since the site last requested some. When less than half of them are left, it
    /// requests more.
    pub(crate) most: i128,
    /// When the site may next request rights.
    pub(crate) next_want: Option<Monotonic>,
}
