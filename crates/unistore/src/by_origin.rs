//! A map from origins to values.

use std::ops::{Index, IndexMut};

use solera_time::{MAX_SITES, Origin, SiteId};

/// One value for each site that a cluster may ever list, and one for strong transactions.
///
/// All entries exist from the beginning, so nothing moves when the list of sites grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByOrigin<T> {
    sites: [T; MAX_SITES],
    strong: T,
}

impl<T> ByOrigin<T> {
    /// Returns the values in the order of their origins.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.sites.iter().chain([&self.strong])
    }

    /// Returns the values with their origins, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Origin, &T)> {
        Origin::all(MAX_SITES).zip(self.values())
    }

    /// Returns mutable references to the values with their origins, in order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Origin, &mut T)> {
        Origin::all(MAX_SITES).zip(self.sites.iter_mut().chain([&mut self.strong]))
    }
}

impl<T> Index<SiteId> for ByOrigin<T> {
    type Output = T;
    fn index(&self, site: SiteId) -> &T {
        &self.sites[site.index()]
    }
}

impl<T> IndexMut<SiteId> for ByOrigin<T> {
    fn index_mut(&mut self, site: SiteId) -> &mut T {
        &mut self.sites[site.index()]
    }
}

impl<T> Index<Origin> for ByOrigin<T> {
    type Output = T;
    fn index(&self, origin: Origin) -> &T {
        match origin {
            Origin::Site(site) => &self[site],
            Origin::Strong => &self.strong,
        }
    }
}

impl<T> IndexMut<Origin> for ByOrigin<T> {
    fn index_mut(&mut self, origin: Origin) -> &mut T {
        match origin {
            Origin::Site(site) => &mut self[site],
            Origin::Strong => &mut self.strong,
        }
    }
}
