use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{MAX_SITES, SiteId};

/// The history that an update belongs to: that of the site that committed it, or that of strong
/// transactions.
///
/// Origins are ordered: the sites by number, then strong transactions. The order breaks ties
/// between updates with equal timestamps, so it must be the same at every site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Causal transactions of one site.
    Site(SiteId),
    /// Strong transactions, which all sites commit together. A vector's entry for them is
    /// [`Vector::strong`](crate::Vector::strong).
    Strong,
}

impl Origin {
    /// Returns the origins of a cluster of `sites` sites, in order.
    pub fn all(sites: usize) -> impl DoubleEndedIterator<Item = Origin> + Clone {
        SiteId::all(sites).map(Origin::Site).chain([Origin::Strong])
    }

    /// Returns the position among all possible origins: the site's number, or [`MAX_SITES`].
    ///
    /// # Panics
    /// If the site's number is not below [`MAX_SITES`]. No cluster has such a site.
    pub fn index(self) -> usize {
        match self {
            Origin::Site(site) => {
                assert!(
                    site.index() < MAX_SITES,
                    "{site} in a cluster of at most {MAX_SITES} sites"
                );
                site.index()
            }
            Origin::Strong => MAX_SITES,
        }
    }
}

impl From<SiteId> for Origin {
    fn from(site: SiteId) -> Self {
        Origin::Site(site)
    }
}

/// Writes one byte, the position among all origins. An enum tag would make every stored update
/// longer.
impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.index() as u8)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u8::deserialize(deserializer)?;
        match usize::from(number) {
            ..MAX_SITES => Ok(Origin::Site(SiteId(number))),
            MAX_SITES => Ok(Origin::Strong),
            _ => Err(D::Error::invalid_value(Unexpected::Unsigned(number.into()), &"an origin")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, U8Deserializer};

    use super::*;

    /// Displays an origin as the number that serde writes.
    struct Encoded(Origin);

    impl fmt::Display for Encoded {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.serialize(f)
        }
    }

    fn decode(number: u8) -> Result<Origin, Error> {
        let deserializer: U8Deserializer<Error> = number.into_deserializer();
        Origin::deserialize(deserializer)
    }

    #[test]
    fn strong_transactions_come_after_every_site() {
        let origins: Vec<Origin> = Origin::all(MAX_SITES).collect();
        assert_eq!(origins.len(), MAX_SITES + 1);
        assert!(origins.is_sorted_by(|one, next| one < next), "{origins:?}");
        assert_eq!(origins.last(), Some(&Origin::Strong));
        assert_eq!(Origin::all(2).last(), Some(Origin::Strong));
    }

    #[test]
    fn every_origin_has_its_number_and_no_other_number_is_an_origin() {
        for (number, origin) in Origin::all(MAX_SITES).enumerate() {
            assert_eq!(origin.index(), number);
            assert_eq!(Encoded(origin).to_string(), number.to_string());
            assert_eq!(decode(number as u8), Ok(origin));
        }
        for number in MAX_SITES as u8 + 1..=u8::MAX {
            assert!(decode(number).is_err(), "{number}");
        }
    }

    #[test]
    #[should_panic(expected = "in a cluster of at most 7 sites")]
    fn a_site_beyond_the_limit_has_no_index() {
        Origin::Site(SiteId(MAX_SITES as u8)).index();
    }
}
