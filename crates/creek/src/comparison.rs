//! Comparison of the digests of final operations between sites.
//!
//! All sites execute the same operations in the same order, so their digests are equal at each
//! position. A program that is not deterministic, or damaged state, makes them differ from one
//! position on, for ever. A site with which a majority of the sites cannot agree stops answering.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::digest::Digest;

/// A difference between the results of this site and those of other sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// The last position up to which a site that differs now has agreed, as far as is known.
    pub after: u64,
    /// The first position at which a site is known to differ.
    pub position: u64,
    /// The sites that differ.
    pub sites: Vec<SiteId>,
    /// Whether so many sites differ that this site gives no results.
    pub is_stopped: bool,
}

/// Reports of other sites about their digests.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// First report of each site about a position that this site has not reached.
    ahead: BTreeMap<SiteId, (u64, Digest)>,
    /// Last position at which each site has agreed.
    equal: BTreeMap<SiteId, u64>,
    /// First position at which each site has differed.
    different: BTreeMap<SiteId, u64>,
    /// Number of final operations when the site has last reported its digest.
    reported: u64,
}

impl Comparison {
    /// Notes the digest of another site at a position that this site has not reached.
    pub(crate) fn expect(&mut self, site: SiteId, position: u64, digest: Digest) {
        self.ahead.entry(site).or_insert((position, digest));
    }

    /// Compares the digest of another site with this one's.
    pub(crate) fn compare(&mut self, site: SiteId, position: u64, reported: Digest, own: Digest) {
        if reported == own {
            let equal = self.equal.entry(site).or_default();
            *equal = position.max(*equal);
        } else {
            let different = self.different.entry(site).or_insert(position);
            *different = position.min(*different);
        }
    }

    /// Compares the digest at a position that this site has reached with those of the sites that
    /// were ahead.
    pub(crate) fn reach(&mut self, position: u64, own: Digest) {
        while let Some((&site, &(_, digest))) =
            self.ahead.iter().find(|(_, (ahead, _))| *ahead == position)
        {
            self.ahead.remove(&site);
            self.compare(site, position, digest, own);
        }
    }

    /// Returns a position between the last one at which a site has agreed and the first one at
    /// which it has differed, if there is one. Comparing their digests halves the distance.
    pub(crate) fn probe(&self, site: SiteId) -> Option<u64> {
        let different = *self.different.get(&site)?;
        let equal = self.last_equal(site);
        let middle = equal.midpoint(different);
        (middle > equal).then_some(middle)
    }

    /// Returns whether the site has to report its digest.
    pub(crate) fn is_due(&self, finals: u64) -> bool {
        finals != self.reported
    }

    /// Notes that the site reports its digest.
    pub(crate) fn note_reported(&mut self, finals: u64) {
        self.reported = finals;
    }

    /// Forgets the reports of a site.
    pub(crate) fn forget(&mut self, site: SiteId) {
        self.ahead.remove(&site);
        self.equal.remove(&site);
        self.different.remove(&site);
    }

    /// Returns the differences, if there are any. Only those of other members stop a site.
    pub(crate) fn divergence(&self, others: impl Iterator<Item = SiteId>) -> Option<Divergence> {
        let (first, position) = self.different.iter().min_by_key(|(_, position)| **position)?;
        let others: Vec<SiteId> = others.collect();
        let differing = others.iter().filter(|site| self.different.contains_key(site)).count();
        let sites = others.len() + 1;
        Some(Divergence {
            after: self.last_equal(*first).min(position - 1),
            position: *position,
            sites: self.different.keys().copied().collect(),
            is_stopped: sites - differing <= sites / 2,
        })
    }

    /// Returns the last position at which a site has agreed; 0 if there is none.
    fn last_equal(&self, site: SiteId) -> u64 {
        self.equal.get(&site).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divergence(comparison: &Comparison, sites: usize) -> Option<Divergence> {
        comparison.divergence(SiteId::all(sites).skip(1))
    }

    fn site(number: u8) -> SiteId {
        SiteId(number)
    }

    #[test]
    fn a_site_stops_where_a_majority_cannot_agree_with_it() {
        let mut comparison = Comparison::default();
        comparison.compare(site(1), 10, Digest(7), Digest(7));
        comparison.compare(site(2), 12, Digest(8), Digest(8));
        assert_eq!(divergence(&comparison, 3), None);
        assert_eq!(comparison.probe(site(1)), None);
        comparison.compare(site(1), 20, Digest(1), Digest(2));
        assert_eq!(comparison.probe(site(1)), Some(15));
        let one = Divergence { after: 10, position: 20, sites: vec![site(1)], is_stopped: false };
        assert_eq!(divergence(&comparison, 3), Some(one.clone()));
        // Neither of two sites knows which one is right.
        assert_eq!(
            divergence(&comparison, 2),
            Some(Divergence { is_stopped: true, ..one.clone() })
        );
        // A site that joins stops nobody.
        assert_eq!(comparison.divergence([site(2)].into_iter()), Some(one));
        comparison.compare(site(2), 15, Digest(1), Digest(2));
        let sites = vec![site(1), site(2)];
        let both = Divergence { after: 12, position: 15, sites, is_stopped: true };
        assert_eq!(divergence(&comparison, 3), Some(both.clone()));
        assert_eq!(divergence(&comparison, 4), Some(both.clone()));
        assert_eq!(divergence(&comparison, 5), Some(Divergence { is_stopped: false, ..both }));
        comparison.compare(site(2), 13, Digest(1), Digest(2));
        assert_eq!(comparison.probe(site(2)), None);
    }

    #[test]
    fn a_report_of_a_site_that_is_ahead_is_compared_later() {
        let mut comparison = Comparison::default();
        comparison.expect(site(1), 5, Digest(50));
        comparison.expect(site(1), 9, Digest(90));
        comparison.expect(site(2), 5, Digest(51));
        comparison.reach(4, Digest(50));
        assert_eq!(divergence(&comparison, 3), None);
        comparison.reach(5, Digest(50));
        let differs = Divergence { after: 0, position: 5, sites: vec![site(2)], is_stopped: false };
        assert_eq!(divergence(&comparison, 3), Some(differs));
        comparison.expect(site(1), 9, Digest(90));
        comparison.reach(9, Digest(91));
        assert!(divergence(&comparison, 3).is_some_and(|it| it.is_stopped));
    }
}
