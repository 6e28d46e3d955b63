//! The spaces of a cluster and their keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_data::RESERVED;
use solera_levels::Level;
use solera_mixt::store::{Name, StoreError};

use crate::port::Kind;

/// Prefix of the keys of named objects, after the prefix of their space.
const NAMES: &str = "mixt:";
/// Number of sets that list the recovery records of a space of level `pcpsi`.
const INDEXES: usize = 16;

/// Returns whether one transaction of a cluster can span spaces of two levels: those of level
/// `pcpsi` have transactions of their own.
pub fn spans(one: Level, other: Level) -> bool {
    (one == Level::PcPsi) == (other == Level::PcPsi)
}

/// A space of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its name.
    pub name: Arc<str>,
    /// Prefix of its keys.
    pub prefix: String,
    /// Its consistency level.
    pub level: Level,
}

/// Spaces that cannot be used, with the reason.
pub type Unfit = BTreeMap<Arc<str>, String>;

/// The spaces of a cluster. Copies share them.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Spaces by descending length of the prefix, so that the first match is a key's space.
    spaces: Arc<[Space]>,
    /// Spaces that differ from their declaration, or have a level that mixed transactions cannot
    /// use.
    unfit: Arc<Unfit>,
}

impl Layout {
    /// Creates the layout of all spaces of a cluster. Those of level `speculative` are unusable.
    pub fn new(mut spaces: Vec<Space>) -> Layout {
        spaces.sort_by_key(|space| std::cmp::Reverse(space.prefix.len()));
        let speculative = spaces.iter().filter(|space| space.level == Level::Speculative);
        let unfit: Unfit = speculative.map(|it| (it.name.clone(), not_yet(&it.name))).collect();
        Layout { spaces: spaces.into(), unfit: unfit.into() }
    }

    /// Returns the same spaces, with some of them marked as unusable.
    #[must_use]
    pub fn without(self, unfit: Unfit) -> Layout {
        let mut all = unfit;
        all.extend(self.unfit.iter().map(|(name, why)| (name.clone(), why.clone())));
        Layout { unfit: all.into(), ..self }
    }

    /// Returns the spaces, by descending length of the prefix.
    pub fn spaces(&self) -> &[Space] {
        &self.spaces
    }

    /// Returns a space by its name.
    pub fn find(&self, name: &str) -> Option<&Space> {
        self.spaces.iter().find(|space| *space.name == *name)
    }

    /// Returns whether one transaction can span two spaces.
    pub fn spans(&self, one: &str, other: &str) -> bool {
        match (self.find(one), self.find(other)) {
            (Some(one), Some(other)) => spans(one.level, other.level),
            _ => false,
        }
    }

    /// Returns the reason why a space cannot be used; `None` if it can be used.
    pub fn why_unfit(&self, name: &str) -> Option<&str> {
        self.unfit.get(name).map(String::as_str)
    }

    /// Checks that a space is as declared.
    pub(crate) fn validate(&self, name: &str) -> Result<(), StoreError> {
        self.why_unfit(name).map_or(Ok(()), |why| Err(StoreError::Denied(why.to_owned())))
    }

    /// Returns a usable space by its name.
    pub(crate) fn space(&self, name: &str) -> Result<&Space, StoreError> {
        self.validate(name)?;
        let found = self.find(name);
        found.ok_or_else(|| StoreError::Refused(format!("there is no space `{name}`")))
    }

    /// Returns the key of a program's object.
    pub(crate) fn key(&self, space: &str, key: &str) -> Result<Vec<u8>, StoreError> {
        if key.starts_with(RESERVED) {
            let text = format!("keys beginning with `{RESERVED}` are reserved: `{key}`");
            return Err(StoreError::Refused(text));
        }
        self.place(space, key)
    }

    /// Returns a key of a space. Fails if the key belongs to another space with a longer prefix.
    fn place(&self, name: &str, key: &str) -> Result<Vec<u8>, StoreError> {
        let space = self.space(name)?;
        let whole = format!("{}{key}", space.prefix);
        let owner = self.spaces.iter().find(|space| whole.starts_with(&space.prefix));
        match owner {
            Some(owner) if owner.name != space.name => Err(StoreError::Refused(format!(
                "the key `{whole}` is not in the space `{name}`, but in `{}`",
                owner.name
            ))),
            _ => Ok(whole.into_bytes()),
        }
    }

    /// Returns the key of a named object.
    pub(crate) fn name(&self, name: &Name) -> Result<Vec<u8>, StoreError> {
        self.place(&name.space, &format!("{RESERVED}{NAMES}{}", name.key))
    }

    /// Returns the kind of a transaction that uses a space. `strong` is whether it uses a strong
    /// space, too.
    pub(crate) fn kind(&self, strong: bool, space: &str) -> Result<Kind, StoreError> {
        Ok(match self.space(space)?.level {
            Level::PcPsi => Kind::PcPsi,
            _ if strong => Kind::Strong,
            _ => Kind::Causal,
        })
    }

    /// Returns the key of the set that lists a recovery record of a space.
    pub(crate) fn index(&self, record: &Name) -> Result<Vec<u8>, StoreError> {
        let mut all = self.indexes(&record.space)?;
        let sum = record.key.bytes().fold(0_usize, |sum, byte| sum + usize::from(byte));
        let number = sum % all.len();
        Ok(all.swap_remove(number))
    }

    /// Returns the keys of the sets that list the recovery records of a space.
    ///
    /// In most cases, this is one key in the default space, so that records of strong spaces do not
    /// conflict with one another. The transactions of a space of level `pcpsi` cannot span the
    /// default space. The space itself contains several sets, so that few of its transactions
    /// conflict.
    pub(crate) fn indexes(&self, space: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        if self.space(space)?.level != Level::PcPsi {
            return Ok(vec![format!("{RESERVED}{NAMES}records:{space}").into_bytes()]);
        }
        let key = |number| self.place(space, &format!("{RESERVED}{NAMES}records:{number}"));
        (0..INDEXES).map(key).collect()
    }

    /// Returns whether commands in a space are ordered against others by certification.
    pub(crate) fn is_strong(&self, space: &str) -> Result<bool, StoreError> {
        Ok(matches!(self.space(space)?.level, Level::Linearizable | Level::Por))
    }

    /// Returns whether one of these names is in a strong space.
    pub(crate) fn are_strong<'n>(
        &self,
        names: impl IntoIterator<Item = &'n Name>,
    ) -> Result<bool, StoreError> {
        let mut strong = false;
        for name in names {
            strong |= self.is_strong(&name.space)?;
        }
        Ok(strong)
    }
}

/// Returns the reason why a space of level `speculative` cannot be used.
fn not_yet(name: &str) -> String {
    format!(
        "space `{name}` has the level speculative, and takes part in no transaction with other stores"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_of_level_speculative_cannot_be_used_and_keeps_its_keys() {
        let space = |name: &str, prefix: &str, level| Space {
            name: name.into(),
            prefix: prefix.to_owned(),
            level,
        };
        let spaces = vec![
            space("default", "", Level::Causal),
            space("bank", "b:", Level::Linearizable),
            space("orders", "o:", Level::Speculative),
        ];
        for layout in [
            Layout::new(spaces.clone()),
            Layout::new(spaces).without([("bank".into(), "gone".to_owned())].into()),
        ] {
            let why = "space `orders` has the level speculative, and takes part in no transaction with other stores";
            let denied = StoreError::Denied(why.to_owned());
            assert_eq!(layout.why_unfit("orders"), Some(why));
            assert_eq!(layout.key("orders", "k"), Err(denied.clone()));
            let name = Name { space: "orders".into(), key: "w:k".into() };
            assert_eq!(layout.name(&name), Err(denied));
            let refused = layout.key("default", "o:k");
            assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
        }
    }

    #[test]
    fn a_key_is_in_the_space_whose_prefix_is_the_longest() {
        let space = |name: &str, prefix: &str, level| Space {
            name: name.into(),
            prefix: prefix.to_owned(),
            level,
        };
        let spaces = vec![
            space("default", "", Level::Causal),
            space("bank", "b:", Level::Linearizable),
            space("notes", "b:n:", Level::Eventual),
        ];
        let layout = Layout::new(spaces).without([("notes".into(), "gone".to_owned())].into());
        assert_eq!(layout.key("bank", "k"), Ok(b"b:k".to_vec()));
        assert_eq!(layout.key("default", "k"), Ok(b"k".to_vec()));
        for (name, key) in [("default", "b:k"), ("bank", "n:k"), ("default", "solera:k")] {
            let refused = layout.key(name, key);
            assert!(matches!(refused, Err(StoreError::Refused(_))), "{name} {key}: {refused:?}");
        }
        assert_eq!(layout.key("notes", "k"), Err(StoreError::Denied("gone".to_owned())));
        let name = |space: &str| Name { space: space.into(), key: "w:k".into() };
        assert_eq!(layout.name(&name("bank")), Ok(b"b:solera:mixt:w:k".to_vec()));
        assert_eq!(layout.are_strong(&[name("default"), name("bank")]), Ok(true));
        assert_eq!(layout.are_strong(&[name("default")]), Ok(false));
    }
}
