//! A map from workers, which are few and numbered.

use std::ops::Index;

use solera_machine::Address;

/// Values for some workers, in the order of their addresses.
#[derive(Debug)]
pub(crate) struct ByWorker<T> {
    /// By site, and within it by worker.
    sites: Vec<Vec<Option<(Address, T)>>>,
}

impl<T> Default for ByWorker<T> {
    fn default() -> Self {
        ByWorker { sites: Vec::new() }
    }
}

impl<T> ByWorker<T> {
    pub(crate) fn get(&self, worker: &Address) -> Option<&T> {
        let place = self.sites.get(worker.site.index())?.get(usize::from(worker.worker))?;
        place.as_ref().map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, worker: &Address) -> Option<&mut T> {
        let site = self.sites.get_mut(worker.site.index())?;
        site.get_mut(usize::from(worker.worker))?.as_mut().map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, worker: &Address) -> bool {
        self.get(worker).is_some()
    }

    pub(crate) fn insert(&mut self, worker: Address, value: T) {
        *self.place(worker) = Some((worker, value));
    }

    pub(crate) fn remove(&mut self, worker: &Address) -> Option<T> {
        let site = self.sites.get_mut(worker.site.index())?;
        site.get_mut(usize::from(worker.worker))?.take().map(|(_, value)| value)
    }

    pub(crate) fn get_or_insert_with(
        &mut self,
        worker: Address,
        value: impl FnOnce() -> T,
    ) -> &mut T {
        &mut self.place(worker).get_or_insert_with(|| (worker, value())).1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Address, &T)> {
        self.sites.iter().flatten().flatten().map(|(worker, value)| (worker, value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Address> {
        self.iter().map(|(worker, _)| worker)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.sites.iter_mut().flatten().flatten().map(|(_, value)| value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(crate) fn clear(&mut self) {
        self.sites.clear();
    }

    fn place(&mut self, worker: Address) -> &mut Option<(Address, T)> {
        let (site, number) = (worker.site.index(), usize::from(worker.worker));
        if self.sites.len() <= site {
            self.sites.resize_with(site + 1, Vec::new);
        }
        let site = &mut self.sites[site];
        if site.len() <= number {
            site.resize_with(number + 1, || None);
        }
        &mut site[number]
    }
}

impl<T> Index<&Address> for ByWorker<T> {
    type Output = T;

    fn index(&self, worker: &Address) -> &T {
        self.get(worker).expect("the map has a value for the worker")
    }
}

#[cfg(test)]
mod tests {
    use solera_time::SiteId;

    use super::*;

    #[test]
    fn workers_are_found_and_come_in_order() {
        let at = |site, worker| Address { site: SiteId(site), worker };
        let mut map = ByWorker::default();
        assert!(map.is_empty());
        for (worker, value) in [(at(1, 0), 'c'), (at(0, 2), 'b'), (at(0, 0), 'a')] {
            map.insert(worker, value);
        }
        let all: Vec<_> = map.iter().map(|(worker, value)| (*worker, *value)).collect();
        assert_eq!(all, [(at(0, 0), 'a'), (at(0, 2), 'b'), (at(1, 0), 'c')]);
        assert_eq!((map.get(&at(0, 1)), map.get(&at(3, 0)), map[&at(0, 2)]), (None, None, 'b'));
        assert_eq!(*map.get_or_insert_with(at(0, 1), || 'd'), 'd');
        assert_eq!(*map.get_or_insert_with(at(0, 0), || 'x'), 'a');
        assert_eq!((map.remove(&at(0, 1)), map.remove(&at(0, 1))), (Some('d'), None));
        assert!(!map.contains_key(&at(0, 1)) && map.contains_key(&at(1, 0)));
    }
}
