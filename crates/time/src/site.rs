use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

/// Largest number of sites in one cluster. Vectors are stored inline, so the bound is a constant.
pub const MAX_SITES: usize = 7;

/// Number of a site: one data center or region, which holds a full copy of the data.
///
/// The paper's `d ∈ D`. Sites are numbered from 0 in the order of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SiteId(pub u8);

impl SiteId {
    /// Returns the position of this site's entry in a vector.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns all sites of a cluster of `sites` sites, in order.
    pub fn all(sites: usize) -> impl DoubleEndedIterator<Item = SiteId> + Clone {
        (0..sites).map(|i| SiteId(i as u8))
    }
}

/// Rejects numbers that no site has, so that a decoded number can be used as an index.
impl<'de> Deserialize<'de> for SiteId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u8::deserialize(deserializer)?;
        if usize::from(number) >= MAX_SITES {
            let number = Unexpected::Unsigned(number.into());
            return Err(D::Error::invalid_value(number, &"a site's number"));
        }
        Ok(SiteId(number))
    }
}

impl std::fmt::Display for SiteId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s{}", self.0)
    }
}
