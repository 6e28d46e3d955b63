//! Sets of operations that a client has seen, stored as a pair of numbers for each site.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::ids::OperationId;

/// Operations that a site had delivered at some time. For each origin, the set contains all
/// operations up to a last one.
///
/// Sites deliver the operations of an origin in the order of their runs and events, so the last one
/// represents all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Run and event of the last operation of each site.
    sites: BTreeMap<SiteId, (u64, u64)>,
}

impl Past {
    /// Adds an operation and all earlier ones of its site.
    pub fn insert(&mut self, id: OperationId) {
        let last = self.sites.entry(id.site).or_default();
        *last = (*last).max((id.run, id.event));
    }

    /// Adds all operations of another set.
    pub fn join(&mut self, other: &Past) {
        other.lasts().for_each(|id| self.insert(id));
    }

    /// Returns whether the set contains an operation.
    pub fn contains(&self, id: OperationId) -> bool {
        self.sites.get(&id.site).is_some_and(|last| (id.run, id.event) <= *last)
    }

    /// Returns whether this set contains all operations of `other`.
    pub fn covers(&self, other: &Past) -> bool {
        other.lasts().all(|id| self.contains(id))
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Returns the last operation of each site, in the order of the sites.
    pub fn lasts(&self) -> impl Iterator<Item = OperationId> + '_ {
        self.sites.iter().map(|(site, (run, event))| {
            let (site, run, event) = (*site, *run, *event);
            OperationId { site, run, event }
        })
    }
}

impl FromIterator<OperationId> for Past {
    fn from_iter<I: IntoIterator<Item = OperationId>>(ids: I) -> Past {
        let mut past = Past::default();
        ids.into_iter().for_each(|id| past.insert(id));
        past
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use solera_machine::codec;
    use solera_random::Random;

    use super::*;

    fn random_ids(random: &mut Random) -> Vec<OperationId> {
        let id = |random: &mut Random| OperationId {
            site: SiteId(random.below(3) as u8),
            run: 1 + random.below(2),
            event: 1 + random.below(4),
        };
        (0..random.below(4)).map(|_| id(random)).collect()
    }

    /// Returns all operations of the sites up to given ones.
    fn model(ids: &[OperationId]) -> BTreeSet<OperationId> {
        let all = (0..3).flat_map(|site| [1, 2].map(|run| (site, run)));
        let all = all.flat_map(|(site, run)| {
            (1..=4).map(move |event| OperationId { site: SiteId(site), run, event })
        });
        let is_in = |id: &OperationId| ids.iter().any(|last| last.site == id.site && id <= last);
        all.filter(is_in).collect()
    }

    #[test]
    fn pasts_are_sets_of_beginnings() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let [a, b] = [0; 2].map(|_| random_ids(&mut random));
            let (model_a, model_b) = (model(&a), model(&b));
            let [a, b]: [Past; 2] = [a, b].map(|ids| ids.into_iter().collect());
            assert_eq!(a.is_empty(), model_a.is_empty());
            assert_eq!(a.covers(&b), model_a.is_superset(&model_b));
            assert!(model_a.union(&model_b).all(|id| a.contains(*id) == model_a.contains(id)));
            let mut join = a.clone();
            join.join(&b);
            assert_eq!(join, model_a.union(&model_b).copied().collect());
            let mut bytes = Vec::new();
            codec::append(&a, &mut bytes);
            assert_eq!(codec::take::<Past>(&bytes), Some((a, &[][..])));
        }
    }
}
