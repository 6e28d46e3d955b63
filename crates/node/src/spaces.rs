//! Spaces: parts of the key space, chosen by prefix, with one level each.

use std::fmt;

use solera_levels::Level;

/// A named part of the key space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// The keys that begin with this are in it; the longest prefix wins.
    pub prefix: String,
    /// What its operations promise.
    pub level: Level,
}

/// Spaces that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceError {
    /// Two spaces have the same prefix.
    SamePrefix(String, String),
    /// Two spaces have the same name.
    SameName(String),
    /// A level that this version does not serve.
    NotServed(String, Level),
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpaceError::SamePrefix(one, other) => {
                write!(f, "the spaces '{one}' and '{other}' have the same prefix")
            }
            SpaceError::SameName(name) => write!(f, "there are two spaces called '{name}'"),
            SpaceError::NotServed(name, level) => write!(
                f,
                "space '{name}': the level '{level}' is not served by this version; it serves \
                 'causal' and 'eventual'"
            ),
        }
    }
}

impl std::error::Error for SpaceError {}

impl SpaceError {
    /// The space that is wrong.
    pub(crate) fn space(&self) -> &str {
        match self {
            SpaceError::SamePrefix(_, name)
            | SpaceError::SameName(name)
            | SpaceError::NotServed(name, _) => name,
        }
    }
}

/// All spaces of a cluster; the default one has the empty prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spaces {
    /// Longest prefix first; the default space last.
    spaces: Vec<Space>,
}

impl Default for Spaces {
    fn default() -> Self {
        Spaces { spaces: vec![default_space()] }
    }
}

fn default_space() -> Space {
    Space { name: "default".to_owned(), prefix: String::new(), level: Level::Causal }
}

impl Spaces {
    /// Spaces as configured, and the default one if none has the empty prefix.
    ///
    /// # Errors
    /// Names and prefixes must differ, and levels must be served.
    pub fn new(mut spaces: Vec<Space>) -> Result<Self, SpaceError> {
        for (i, space) in spaces.iter().enumerate() {
            if !Spaces::serves(space.level) {
                return Err(SpaceError::NotServed(space.name.clone(), space.level));
            }
            for other in &spaces[..i] {
                if other.prefix == space.prefix {
                    return Err(SpaceError::SamePrefix(other.name.clone(), space.name.clone()));
                }
                if other.name == space.name {
                    return Err(SpaceError::SameName(space.name.clone()));
                }
            }
        }
        if spaces.iter().all(|space| !space.prefix.is_empty()) {
            spaces.push(default_space());
        }
        spaces.sort_by_key(|space| std::cmp::Reverse(space.prefix.len()));
        Ok(Spaces { spaces })
    }

    /// Whether this version serves a level.
    pub fn serves(level: Level) -> bool {
        matches!(level, Level::Causal | Level::Eventual)
    }

    /// The space of a key.
    pub fn space_of(&self, key: &[u8]) -> &Space {
        &self.spaces[self.place_of(key)]
    }

    /// The place of a key's space in [`Spaces::iter`].
    pub fn place_of(&self, key: &[u8]) -> usize {
        let fits = |space: &Space| key.starts_with(space.prefix.as_bytes());
        self.spaces.iter().position(fits).expect("the last space has the empty prefix")
    }

    /// The level of a key.
    pub fn level_of(&self, key: &[u8]) -> Level {
        self.space_of(key).level
    }

    /// All spaces.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Space> {
        self.spaces.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(name: &str, prefix: &str, level: Level) -> Space {
        Space { name: name.into(), prefix: prefix.into(), level }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let spaces = Spaces::new(vec![
            space("log", "log:", Level::Eventual),
            space("audit", "log:audit:", Level::Causal),
        ])
        .unwrap();
        assert_eq!(spaces.space_of(b"log:1").name, "log");
        assert_eq!(spaces.space_of(b"log:audit:1").name, "audit");
        assert_eq!(spaces.space_of(b"cart").name, "default");
        assert_eq!(spaces.level_of(b"log:1"), Level::Eventual);
    }

    #[test]
    fn contradictions_and_unserved_levels_are_refused() {
        let two = |a, b| Spaces::new(vec![a, b]).unwrap_err();
        let causal = |name, prefix| space(name, prefix, Level::Causal);
        let same = SpaceError::SamePrefix("a".into(), "b".into());
        assert_eq!(two(causal("a", "x"), causal("b", "x")), same);
        assert_eq!(two(causal("a", "x"), causal("a", "y")), SpaceError::SameName("a".into()));
        let strong = Spaces::new(vec![space("a", "x", Level::Por)]);
        assert_eq!(strong, Err(SpaceError::NotServed("a".into(), Level::Por)));
    }
}
