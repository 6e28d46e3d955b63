//! The members, and the size of a quorum.

use std::time::Duration;

use solera_time::{Monotonic, SiteId};

/// The members of a group in one configuration, and thereby the size of a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Electors {
    /// Number of the configuration; greater than that of every earlier one.
    pub number: u64,
    /// The members, in ascending order.
    pub members: Vec<SiteId>,
}

impl Electors {
    /// Creates the configuration with this number and these members.
    pub fn new(number: u64, members: impl IntoIterator<Item = SiteId>) -> Self {
        let mut members: Vec<SiteId> = members.into_iter().collect();
        members.sort_unstable();
        members.dedup();
        Electors { number, members }
    }

    /// Returns whether a site is a member.
    pub fn includes(&self, site: SiteId) -> bool {
        self.members.contains(&site)
    }

    /// Returns the size of a quorum. Any two quorums of the members intersect.
    pub fn quorum(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// Returns the members at other sites.
    pub fn others(&self, me: SiteId) -> Vec<SiteId> {
        self.members.iter().copied().filter(|site| *site != me).collect()
    }
}

/// The members that elect a leader, as one of them knows them while it handles one input.
#[derive(Clone, Copy, Debug)]
pub struct Electorate<'a> {
    /// This member's site.
    pub me: SiteId,
    /// The members.
    pub electors: &'a Electors,
    /// Time of the input.
    pub now: Monotonic,
    /// Time without a message of the leader after which the members replace it.
    pub patience: Duration,
    /// Time after which a candidate repeats its requests.
    pub retry: Duration,
}

impl Electorate<'_> {
    /// Returns whether a site is a member.
    pub fn includes(&self, site: SiteId) -> bool {
        self.electors.includes(site)
    }

    /// Returns the position of a site among the members.
    pub(crate) fn place(&self, site: SiteId) -> Option<usize> {
        self.electors.members.iter().position(|other| *other == site)
    }
}
