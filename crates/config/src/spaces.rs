//! Spaces: parts of the key space, chosen by prefix, with one level each.

use std::fmt;

use solera_commands::CommandId;
use solera_data::{Op, RESERVED};
use solera_levels::Level;

mod bound;
mod declared;
mod operation;
mod relation;
mod runs;

pub use bound::{ErrorBound, KeyBound, SpaceType};
pub(crate) use declared::Declared;
pub use relation::{Class, Relation};
pub use runs::{Answer, Runs, SpaceHome};

/// A named part of the key space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Name.
    pub name: String,
    /// Prefix of its keys; the longest prefix wins.
    pub prefix: String,
    /// Guarantee of its operations. A space that `primary` runs has no guarantee of the lattice:
    /// its level is the weakest one, and [`Space::level_name`] returns the protocol.
    pub level: Level,
    /// Protocol.
    pub runs: Runs,
    /// Strong operations, and conflicts.
    pub relation: Relation,
    /// Type of its keys; `None` if they may have any.
    pub of_type: Option<SpaceType>,
    /// Error bound of its counters, if it has one.
    pub error: Option<ErrorBound>,
    /// Weakest level at which SOLERA.READ may read its keys; `None` if the space sets none.
    pub at_least: Option<Level>,
    /// With level `speculative`: whether results show no strong operation before it is committed.
    pub acyclic: bool,
}

impl Space {
    /// Creates a space with the strong commands and conflicts of its level.
    pub fn new(name: impl Into<String>, prefix: impl Into<String>, level: Level) -> Space {
        let relation = Relation::of(level);
        let runs = match level {
            Level::Speculative => Runs::Speculative,
            _ => Runs::UniStore,
        };
        let (name, prefix) = (name.into(), prefix.into());
        let (of_type, error, at_least, acyclic) = (None, None, None, false);
        Space { name, prefix, level, runs, relation, of_type, error, at_least, acyclic }
    }

    /// Creates a space that `primary` runs.
    pub fn primary(name: impl Into<String>, prefix: impl Into<String>, answer: Answer) -> Space {
        Space { runs: Runs::Primary(answer), ..Space::new(name, prefix, Level::Eventual) }
    }

    /// Creates a space that Occult runs.
    pub fn occult(name: impl Into<String>, prefix: impl Into<String>, home: SpaceHome) -> Space {
        Space { runs: Runs::Occult(home), ..Space::new(name, prefix, Level::PcPsi) }
    }

    /// Creates a space of level `speculative`. `relation` names its strong commands; conflicts have
    /// no meaning there, because all operations have one order.
    pub fn speculative(
        name: impl Into<String>,
        prefix: impl Into<String>,
        relation: Relation,
    ) -> Space {
        Space { relation, ..Space::new(name, prefix, Level::Speculative) }
    }

    /// Returns the bound of its keys, if they have one.
    pub fn bound(&self) -> Option<KeyBound> {
        match (self.of_type?, self.error) {
            (SpaceType::Counter, error) => error.map(KeyBound::Error),
            (SpaceType::Set, error) => error.map(KeyBound::Size),
            (SpaceType::BoundedCounter | SpaceType::Pool, _) => Some(KeyBound::Hard),
            (SpaceType::List, _) => None,
        }
    }

    /// Returns whether its keys may have a type without a bound.
    pub(crate) fn may_have_type(&self) -> bool {
        let may = matches!(self.level, Level::Causal | Level::Por | Level::Linearizable);
        self.runs == Runs::UniStore && may
    }

    /// Returns whether its keys may have a bound: no operation on them is strong.
    pub(crate) fn may_have_bound(&self) -> bool {
        self.runs == Runs::UniStore && self.level == Level::Causal
    }

    /// Returns the levels that reads of its keys may have, the strongest first. Empty if the level
    /// of a read cannot be chosen. [`Space::at_least`] may exclude some of them.
    ///
    /// In a causal space with a type, a read that asks every site is linearizable, because updates
    /// of such keys commute. The last of several plain writes depends on clocks.
    pub fn read_levels(&self) -> &'static [Level] {
        if self.runs != Runs::UniStore {
            return &[];
        }
        match self.level {
            Level::Linearizable => &[Level::Linearizable, Level::Causal, Level::Eventual],
            Level::Por => &[Level::Por, Level::Causal, Level::Eventual],
            Level::Causal if self.of_type.is_some() => {
                &[Level::Linearizable, Level::Causal, Level::Eventual]
            }
            Level::Causal => &[Level::Causal, Level::Eventual],
            Level::Eventual => &[Level::Eventual],
            Level::PcPsi | Level::Speculative | Level::Quorum | Level::LocalQuorum => &[],
        }
    }

    /// Returns [`Space::at_least`] if a read at `level` would be weaker.
    pub fn stronger_least(&self, level: Level) -> Option<Level> {
        self.at_least.filter(|least| least.is_stronger_than(level))
    }

    /// Returns the level's name in `solera.toml`.
    pub fn level_name(&self) -> &'static str {
        match self.runs {
            Runs::UniStore | Runs::Occult(_) | Runs::Speculative => self.level.name(),
            Runs::Primary(_) => PRIMARY,
        }
    }
}

impl fmt::Display for Space {
    /// Writes everything on which nodes must agree: spaces with equal texts have equal guarantees.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?} {}", self.name, self.prefix, self.level_name())?;
        match self.runs {
            Runs::Primary(answer) => return write!(f, " (answers when {answer})"),
            Runs::Occult(SpaceHome::Site(site)) => {
                return write!(f, " (home {})", site.index() + 1);
            }
            Runs::Speculative => {
                let strong = self.relation.strong();
                if !strong.is_empty() {
                    write!(f, " (strong {})", strong.join(" "))?;
                }
                return f.write_str(if self.acyclic { " (acyclic)" } else { "" });
            }
            Runs::Occult(SpaceHome::Hash) | Runs::UniStore => {}
        }
        if self.relation != Relation::of(self.level) {
            write!(f, " ({})", self.relation)?;
        }
        match (self.of_type, self.error) {
            (Some(of_type), Some(error)) => write!(f, " ({of_type}, {error})")?,
            (Some(of_type), None) => write!(f, " ({of_type})")?,
            (None, _) => {}
        }
        match self.at_least {
            Some(level) => write!(f, " (reads at least {level})"),
            None => Ok(()),
        }
    }
}

/// Name that replaces a level where `primary` runs a space.
pub(crate) const PRIMARY: &str = "primary";

/// Levels that this version supports.
const SERVED: [Level; 6] = [
    Level::Linearizable,
    Level::Por,
    Level::PcPsi,
    Level::Causal,
    Level::Speculative,
    Level::Eventual,
];

/// Returns the levels that this version supports.
pub(crate) fn served() -> [Level; 6] {
    SERVED
}

/// Returns the names of the supported levels, for messages.
pub(crate) fn served_levels() -> String {
    let names = SERVED.map(|level| format!("'{level}'"));
    let (last, others) = names.split_last().expect("some levels are served");
    format!("{} and {last}", others.join(", "))
}

/// Error of spaces that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// Two spaces have the same prefix.
    #[error("the spaces '{0}' and '{1}' have the same prefix")]
    SamePrefix(String, String),
    /// Two spaces have the same name.
    #[error("there are two spaces called '{0}'")]
    SameName(String),
    /// This version does not support the level.
    #[error("space '{0}': {why}", why = why_not_served(*.1))]
    NotServed(String, Level),
    /// Two spaces have the level `speculative`.
    #[error(
        "the spaces '{0}' and '{1}' both have the level 'speculative': a cluster has at most one such \
         space"
    )]
    TwoSpeculative(String, String),
}

fn why_not_served(level: Level) -> String {
    let served = served_levels();
    match level.why_not_offered() {
        Some(why) => format!("{why}; spaces have {served}"),
        None => format!("the level '{level}' is not served by this version; it serves {served}"),
    }
}

impl SpaceError {
    /// Returns the name of the invalid space.
    pub(crate) fn space(&self) -> &str {
        match self {
            SpaceError::SamePrefix(_, name)
            | SpaceError::SameName(name)
            | SpaceError::TwoSpeculative(_, name)
            | SpaceError::NotServed(name, _) => name,
        }
    }
}

/// All spaces of a cluster; the default space has the empty prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spaces {
    /// Longest prefix first; the default space last.
    spaces: Vec<Space>,
    /// Whether `primary` runs any of them.
    run_primary: bool,
    /// Whether Occult runs any of them.
    run_occult: bool,
    /// Index of the space of level `speculative`.
    speculative: Option<usize>,
    /// Whether any of them has a type.
    have_types: bool,
    /// Whether any of them has a bound.
    have_bounds: bool,
}

impl Default for Spaces {
    fn default() -> Self {
        Spaces {
            spaces: vec![default_space()],
            run_primary: false,
            run_occult: false,
            speculative: None,
            have_types: false,
            have_bounds: false,
        }
    }
}

fn default_space() -> Space {
    Space::new("default", "", Level::Causal)
}

impl Spaces {
    /// Creates the spaces of a configuration, with the default space if none has the empty prefix.
    ///
    /// # Errors
    /// Two names or prefixes are equal, a level is not supported, or two spaces have the level
    /// `speculative`.
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
                if [other, space].iter().all(|it| it.runs == Runs::Speculative) {
                    let (one, other) = (other.name.clone(), space.name.clone());
                    return Err(SpaceError::TwoSpeculative(one, other));
                }
            }
        }
        if spaces.iter().all(|space| !space.prefix.is_empty()) {
            spaces.push(default_space());
        }
        spaces.sort_by_key(|space| std::cmp::Reverse(space.prefix.len()));
        let runs = |wanted: fn(Runs) -> bool| spaces.iter().any(|space| wanted(space.runs));
        let run_primary = runs(|runs| matches!(runs, Runs::Primary(_)));
        let run_occult = runs(|runs| matches!(runs, Runs::Occult(_)));
        let speculative = spaces.iter().position(|space| space.runs == Runs::Speculative);
        let have_types = spaces.iter().any(|space| space.of_type.is_some());
        let have_bounds = spaces.iter().any(|space| space.bound().is_some());
        Ok(Spaces { spaces, run_primary, run_occult, speculative, have_types, have_bounds })
    }

    /// Returns whether any space has a type.
    pub fn have_types(&self) -> bool {
        self.have_types
    }

    /// Returns whether any space has a bound.
    pub fn have_bounds(&self) -> bool {
        self.have_bounds
    }

    /// Returns prefixes with their bounds, if they have one, the longest first. The first one that
    /// matches a key decides, as [`Spaces::bound_of`] does.
    pub fn prefixes_with_bounds(&self) -> Vec<(String, Option<KeyBound>)> {
        let all = self.spaces.iter().map(|space| (space.prefix.clone(), space.bound()));
        // Keys that are reserved in a space have no bound, unless another space contains them.
        let reserved =
            self.spaces.iter().filter(|space| space.bound().is_some()).filter_map(|space| {
                let reserved = format!("{}{RESERVED}", space.prefix);
                (self.space_of(reserved.as_bytes()).prefix == space.prefix)
                    .then_some((reserved, None))
            });
        let mut prefixes: Vec<_> = all.chain(reserved).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        prefixes
    }

    /// Returns the bound of a key. Keys that are reserved for the server have none.
    pub fn bound_of(&self, key: &[u8]) -> Option<KeyBound> {
        if !self.have_bounds || self.is_reserved(key) {
            return None;
        }
        self.space_of(key).bound()
    }

    /// Returns the type that a key must have, and its space. Keys that are reserved for the server
    /// may have any.
    pub fn type_of(&self, key: &[u8]) -> Option<(SpaceType, &Space)> {
        if !self.have_types || self.is_reserved(key) {
            return None;
        }
        let space = self.space_of(key);
        Some((space.of_type?, space))
    }

    /// Returns whether a key is reserved for the server, and not for the data of users.
    pub fn is_reserved(&self, key: &[u8]) -> bool {
        let prefix = self.space_of(key).prefix.len();
        key[prefix..].starts_with(RESERVED.as_bytes())
    }

    /// Returns whether Occult runs any space.
    pub fn run_occult(&self) -> bool {
        self.run_occult
    }

    /// Returns whether Occult runs the space of a key.
    pub fn is_of_occult(&self, key: &[u8]) -> bool {
        self.run_occult && matches!(self.space_of(key).runs, Runs::Occult(_))
    }

    /// Returns whether a space has the level `speculative`.
    pub fn run_speculative(&self) -> bool {
        self.speculative.is_some()
    }

    /// Returns the space of level `speculative`, if there is one.
    pub fn speculative(&self) -> Option<&Space> {
        Some(&self.spaces[self.speculative?])
    }

    /// Returns whether a key is in the space of level `speculative`.
    pub fn is_speculative(&self, key: &[u8]) -> bool {
        let Some(place) = self.speculative else { return false };
        key.starts_with(self.spaces[place].prefix.as_bytes()) && self.place_of(key) == place
    }

    /// Returns whether `primary` runs any space.
    pub fn run_primary(&self) -> bool {
        self.run_primary
    }

    /// Returns the space of a key, and when its updates are answered, if `primary` runs it.
    pub fn primary_of(&self, key: &[u8]) -> Option<(&Space, Answer)> {
        if !self.run_primary {
            return None;
        }
        let space = self.space_of(key);
        match space.runs {
            Runs::Primary(answer) => Some((space, answer)),
            Runs::UniStore | Runs::Occult(_) | Runs::Speculative => None,
        }
    }

    /// Returns whether this version supports a level.
    pub fn serves(level: Level) -> bool {
        SERVED.contains(&level)
    }

    /// Returns the space of a key.
    pub fn space_of(&self, key: &[u8]) -> &Space {
        &self.spaces[self.place_of(key)]
    }

    /// Returns the index of a key's space in [`Spaces::iter`].
    pub fn place_of(&self, key: &[u8]) -> usize {
        let matches = |space: &Space| key.starts_with(space.prefix.as_bytes());
        self.spaces.iter().position(matches).expect("the last space has the empty prefix")
    }

    /// Returns the level of a key.
    pub fn level_of(&self, key: &[u8]) -> Level {
        self.space_of(key).level
    }

    /// Returns the certification class of a command's operation on a key.
    pub fn class_of(&self, key: &[u8], command: CommandId, op: &Op) -> Class {
        self.space_of(key).relation.class_of(command, op)
    }

    /// Returns all spaces.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Space> {
        self.spaces.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let spaces = Spaces::new(vec![
            Space::new("log", "log:", Level::Eventual),
            Space::new("audit", "log:audit:", Level::Causal),
        ])
        .unwrap();
        assert_eq!(spaces.space_of(b"log:1").name, "log");
        assert_eq!(spaces.space_of(b"log:audit:1").name, "audit");
        assert_eq!(spaces.space_of(b"cart").name, "default");
        assert_eq!(spaces.level_of(b"log:1"), Level::Eventual);
    }

    #[test]
    fn the_space_of_a_key_determines_strong_commands() {
        let spaces = Spaces::new(vec![
            Space::new("balance", "balance:", Level::Por),
            Space::new("lock", "lock:", Level::Linearizable),
        ])
        .unwrap();
        let strong = |key: &[u8]| {
            let read = spaces.class_of(key, CommandId::Get, &Op::Get).strong;
            (read, spaces.class_of(key, CommandId::Incr, &Op::IncrBy(1)).strong)
        };
        assert_eq!(strong(b"balance:1"), (false, true));
        assert_eq!(strong(b"lock:1"), (true, true));
        assert_eq!(strong(b"cart"), (false, false));
    }

    #[test]
    fn contradictions_and_unserved_levels_are_refused() {
        let two = |a, b| Spaces::new(vec![a, b]).unwrap_err();
        let causal = |name, prefix| Space::new(name, prefix, Level::Causal);
        let same = SpaceError::SamePrefix("a".into(), "b".into());
        assert_eq!(two(causal("a", "x"), causal("b", "x")), same);
        assert_eq!(two(causal("a", "x"), causal("a", "y")), SpaceError::SameName("a".into()));
        let speculative = |name, prefix| Space::new(name, prefix, Level::Speculative);
        let error = two(speculative("a", "x"), speculative("b", "y"));
        assert_eq!(error, SpaceError::TwoSpeculative("a".into(), "b".into()));
        let text = "the spaces 'a' and 'b' both have the level 'speculative'";
        assert!(error.to_string().starts_with(text), "{error}");
        for level in [Level::Quorum, Level::LocalQuorum] {
            let error = Spaces::new(vec![Space::new("a", "x", level)]).unwrap_err();
            let known = "a level of Apache Cassandra, which this version cannot use as a store yet";
            assert!(error.to_string().contains(&format!("space 'a': '{level}' is {known}")));
            assert_eq!(error.space(), "a");
        }
    }

    #[test]
    fn the_speculative_space_has_its_keys_except_those_of_a_longer_prefix() {
        let causal = |name, prefix| Space::new(name, prefix, Level::Causal);
        let orders = Space::new("orders", "order:", Level::Speculative);
        let spaces =
            vec![causal("all", "o"), orders.clone(), causal("old", "order:old:"), causal("x", "x")];
        let spaces = Spaces::new(spaces).unwrap();
        assert!(spaces.run_speculative());
        assert_eq!(spaces.speculative(), Some(&orders));
        for (key, expected) in [
            ("order:", true),
            ("order:1", true),
            ("order:solera:x", true),
            ("order:old", true),
            ("order:old:1", false),
            ("order", false),
            ("other", false),
            ("x", false),
            ("", false),
        ] {
            assert_eq!(spaces.is_speculative(key.as_bytes()), expected, "{key}");
        }
        let without = Spaces::default();
        assert!(!without.run_speculative() && without.speculative().is_none());
        assert!(!without.is_speculative(b"order:1"));
    }
}
