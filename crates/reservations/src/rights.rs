//! Rights of a site to decrement a counter that must not become negative, and counts of the rights
//! of all sites. The letters of rules are those of `docs/models/reservations`.
//!
//! A right is one unit of the counter. An increment creates rights at its site, a decrement spends
//! rights of its site, and a gift moves rights to another site. All three are entries of the site's
//! stream. So the rights of a site are a sum over its own stream and over the gifts that it has
//! received (B1).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use solera_machine::RequestId;
use solera_time::{Monotonic, SiteId, Vector};

use crate::numbers::{Nonce, Tokens};
use crate::waiter::Waiter;

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

    /// Returns the rights of the site, as far as a number without a sign can show them.
    pub(crate) fn rights(&self) -> u64 {
        let most = self.held().min(u64::MAX.into());
        u64::try_from(most).unwrap_or_default()
    }

    /// Returns the number of rights that the site has got, and the number that it has spent or
    /// given.
    pub(crate) fn got_and_used(&self) -> (u128, u128) {
        let got = self.received.values().fold(self.created, |sum, it| sum.saturating_add(*it));
        let used = self.given.values().fold(self.spent, |sum, it| sum.saturating_add(*it));
        (got, used)
    }

    /// Returns whether sums that another site has sent can be added up, and name sites that exist.
    pub(crate) fn is_plausible(&self, sites: usize) -> bool {
        let owners = self.given.iter().chain(&self.received);
        let are_sites = owners.clone().all(|(owner, _)| owner.site.index() < sites);
        let sums = owners.map(|(_, sum)| *sum).chain([self.created, self.spent]);
        let total = sums.fold(0, u128::saturating_add);
        are_sites && total < u128::MAX / 1024
    }

    /// Returns the sums of gifts from owners, and to owners, that a condition selects.
    fn moved(&self, of: impl Fn(&Owner) -> bool) -> (i128, i128) {
        let sum = |all: &BTreeMap<Owner, u128>| {
            all.iter().filter(|(owner, _)| of(owner)).map(|(_, sum)| signed(*sum)).sum()
        };
        (sum(&self.received), sum(&self.given))
    }
}

/// Data that snapshots must contain if they depend on rights of a site: after all rights that the
/// site had got by then, a snapshot with all that had given them. Older rights are used first, so
/// that a transaction need not wait for a snapshot with rights that it does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pasts(VecDeque<(u128, Vector)>);

/// Most entries of [`Pasts`]. Beyond them, later entries replace each other.
const MOST_PASTS: usize = 6;

impl Pasts {
    /// Notes what has given rights. The site has got `total` rights so far, and has used some.
    pub(crate) fn note(&mut self, past: &Vector, total: u128, used: u128) {
        let mut joined = *past;
        if let Some((_, last)) = self.0.back() {
            joined.join(last);
        }
        if self.0.len() >= MOST_PASTS {
            self.0.pop_back();
        }
        self.0.push_back((total, joined));
        while self.0.len() > 1 && self.0.front().is_some_and(|(total, _)| *total <= used) {
            self.0.pop_front();
        }
    }

    /// Returns what a snapshot must contain if the site uses so many of all rights that it has got.
    pub(crate) fn of(&self, used: u128) -> Option<&Vector> {
        let enough = self.0.iter().find(|(total, _)| *total >= used);
        enough.or(self.0.back()).map(|(_, past)| past)
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<(u128, Vector)>> for Pasts {
    fn from(pasts: Vec<(u128, Vector)>) -> Pasts {
        Pasts(pasts.into())
    }
}

fn signed(sum: u128) -> i128 {
    i128::try_from(sum).unwrap_or(i128::MAX)
}

/// Sums of a site at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The sums over its stream.
    pub tally: Tally,
    /// Most that updates may add to the sums that have committed, or may commit, and that are not
    /// in the stream yet.
    pub open: Tokens,
}

/// A count of the rights of all sites (B6).
///
/// Each site is asked twice. The second round begins when all sites have answered the first one.
/// The number of rights at this moment is between two bounds: created rights only get more, and
/// spent ones, too. Gifts do not change the number, so that it makes no difference whether one is
/// under way.
#[derive(Clone, Debug, Default)]
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
    /// Returns the answers of the present round.
    pub(crate) fn round(&self) -> &BTreeMap<SiteId, Counted> {
        if self.serves.is_some() { &self.second } else { &self.first }
    }

    pub(crate) fn round_mut(&mut self) -> &mut BTreeMap<SiteId, Counted> {
        if self.serves.is_some() { &mut self.second } else { &mut self.first }
    }

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

/// State of the rights of a key at a site, besides the tokens in hand, which are those of a
/// counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) tally: Tally,
    pub(crate) pasts: Pasts,
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

impl Rights {
    /// Notes what has given the site rights. The tally contains them already.
    pub(crate) fn depend_on(&mut self, past: &Vector) {
        let (got, used) = self.tally.got_and_used();
        self.pasts.note(past, got, used);
    }
}
