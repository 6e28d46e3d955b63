//! The lattice of consistency levels, shared by the server, the language and the types.
//!
//! `a ⊑ b` reads "a is at least as strong as b": a value of level `a` may be used where `b` is
//! required.

mod lattice;

pub use lattice::{Label, Lattice, LatticeError, MAX_LEVELS};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A consistency level built into Solera.
///
/// Records and messages contain the variants by their position here, so a new one is added at the
/// end. [`Level::ALL`] is the order by strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Level {
    /// Strict serializability.
    Linearizable,
    /// Causal, and operations declared as conflicting observe one another (UniStore §3).
    Por,
    /// Causal reads at any site, no lost updates (Occult §6).
    PcPsi,
    /// Transactional causal consistency with merges by type; the default.
    Causal,
    /// Immediate results that may be revised, stable results that are not (Creek §2).
    Speculative,
    /// Convergence only.
    Eventual,
    /// A read of an object includes every update of this object that was acknowledged, at any site,
    /// before the read began (IPA §4.1). No guarantee spans several objects. Experimental.
    Quorum,
    /// A read of an object includes every update of this object that was acknowledged at the
    /// reader's own site before the read began (IPA §4.1). No guarantee spans several objects.
    /// Experimental.
    LocalQuorum,
}

impl Level {
    /// All levels, strongest first, in an order compatible with [`at_least`](Self::at_least).
    pub const ALL: [Level; 8] = [
        Level::Linearizable,
        Level::Por,
        Level::PcPsi,
        Level::Quorum,
        Level::LocalQuorum,
        Level::Causal,
        Level::Speculative,
        Level::Eventual,
    ];

    /// Whether `self ⊑ other`: a value of this level may be used where `other` is required.
    pub fn at_least(self, other: Level) -> bool {
        self == other || self.directly_below().iter().any(|next| next.at_least(other))
    }

    /// Returns whether the level is strictly stronger than another one.
    pub fn is_stronger_than(self, other: Level) -> bool {
        self != other && self.at_least(other)
    }

    /// Returns the strongest level that both are at least as strong as: the label of a value
    /// computed from both.
    pub fn join(self, other: Level) -> Level {
        Self::ALL
            .into_iter()
            .find(|level| self.at_least(*level) && other.at_least(*level))
            .expect("every level is at least eventual")
    }

    /// Returns the weakest level that is at least as strong as both.
    pub fn meet(self, other: Level) -> Level {
        Self::ALL
            .into_iter()
            .rev()
            .find(|level| level.at_least(self) && level.at_least(other))
            .expect("linearizable is at least as strong as every level")
    }

    /// Returns the name used in configuration and replies.
    pub fn name(self) -> &'static str {
        match self {
            Level::Linearizable => "linearizable",
            Level::Por => "por",
            Level::PcPsi => "pcpsi",
            Level::Causal => "causal",
            Level::Speculative => "speculative",
            Level::Eventual => "eventual",
            Level::Quorum => "quorum",
            Level::LocalQuorum => "local_quorum",
        }
    }

    /// Returns why no space can have the level, if only a kind of store that is to come will offer
    /// it. For messages, which name the level and that store.
    pub fn why_not_offered(self) -> Option<String> {
        let store = match self {
            Level::Quorum | Level::LocalQuorum => "Apache Cassandra",
            Level::Linearizable
            | Level::Por
            | Level::PcPsi
            | Level::Causal
            | Level::Speculative
            | Level::Eventual => return None,
        };
        Some(format!(
            "'{self}' is a level of {store}, which this version cannot use as a store yet"
        ))
    }

    fn directly_below(self) -> &'static [Level] {
        match self {
            Level::Linearizable => &[Level::Por, Level::PcPsi, Level::Quorum, Level::Speculative],
            Level::Por | Level::PcPsi => &[Level::Causal],
            Level::Quorum => &[Level::LocalQuorum],
            Level::LocalQuorum | Level::Causal | Level::Speculative => &[Level::Eventual],
            Level::Eventual => &[],
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: a name that is not a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel(pub String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Level::ALL.iter().map(|level| level.name()).collect();
        write!(f, "unknown level '{}'; the levels are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;
    fn from_str(name: &str) -> Result<Self, UnknownLevel> {
        Level::ALL
            .into_iter()
            .find(|level| level.name() == name)
            .ok_or_else(|| UnknownLevel(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strength_is_a_partial_order() {
        for a in Level::ALL {
            assert!(a.at_least(a));
            for b in Level::ALL {
                assert!(a == b || !(a.at_least(b) && b.at_least(a)), "{a} and {b}");
                for c in Level::ALL {
                    assert!(!(a.at_least(b) && b.at_least(c)) || a.at_least(c), "{a} {b} {c}");
                }
            }
        }
        assert!(!Level::Por.at_least(Level::PcPsi) && !Level::PcPsi.at_least(Level::Por));
        assert!(!Level::Causal.at_least(Level::Speculative));
    }

    /// IPA §4.1.
    #[test]
    fn quorum_and_local_quorum_are_comparable_with_the_strongest_and_the_weakest_only() {
        assert!(Level::Linearizable.at_least(Level::Quorum));
        assert!(Level::Quorum.at_least(Level::LocalQuorum));
        assert!(Level::LocalQuorum.at_least(Level::Eventual));
        for quorum in [Level::Quorum, Level::LocalQuorum] {
            for other in [Level::Por, Level::PcPsi, Level::Causal, Level::Speculative] {
                assert!(!quorum.at_least(other) && !other.at_least(quorum), "{quorum} {other}");
                assert_eq!(quorum.join(other), Level::Eventual);
                assert_eq!(quorum.meet(other), Level::Linearizable);
            }
            let why = quorum.why_not_offered().unwrap();
            assert!(why.contains(quorum.name()) && why.contains("Apache Cassandra"), "{why}");
        }
        assert_eq!(Level::Speculative.why_not_offered(), None);
    }

    /// Records of mixed transactions, and messages of UniStore, contain these numbers.
    #[test]
    fn each_level_keeps_its_number_in_records_and_messages() {
        let numbers = [
            (Level::Linearizable, 0),
            (Level::Por, 1),
            (Level::PcPsi, 2),
            (Level::Causal, 3),
            (Level::Speculative, 4),
            (Level::Eventual, 5),
            (Level::Quorum, 6),
            (Level::LocalQuorum, 7),
        ];
        assert_eq!(numbers.len(), Level::ALL.len());
        for (level, number) in numbers {
            assert_eq!(level as u8, number, "{level}");
        }
    }

    #[test]
    fn join_is_the_least_upper_and_meet_the_greatest_lower_bound() {
        for a in Level::ALL {
            for b in Level::ALL {
                let (join, meet) = (a.join(b), a.meet(b));
                for c in Level::ALL {
                    assert_eq!(a.at_least(c) && b.at_least(c), join.at_least(c), "{a} ⊔ {b}, {c}");
                    assert_eq!(c.at_least(a) && c.at_least(b), c.at_least(meet), "{a} ⊓ {b}, {c}");
                }
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        for level in Level::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert!("strong".parse::<Level>().unwrap_err().to_string().contains("linearizable"));
    }
}
