//! A lattice of levels that programs can extend (MixT §4.1).

use std::fmt;

use crate::Level;

/// An element of a [`Lattice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u8);

/// Levels with their order by strength. Any two levels have a join and a meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lattice {
    names: Vec<String>,
    /// For each level, the set of levels that it is at least as strong as, including itself; one
    /// bit per level.
    weaker: Vec<u64>,
}

/// Maximum number of levels.
pub const MAX_LEVELS: usize = 64;

impl Lattice {
    /// Returns the lattice of the built-in levels.
    pub fn builtin() -> Lattice {
        let all = Level::ALL;
        let weaker = all.map(|level| {
            let bits = (0..all.len()).filter(|other| level.at_least(all[*other]));
            bits.fold(0, |mask, bit| mask | 1 << bit)
        });
        Lattice {
            names: all.iter().map(|level| level.name().to_owned()).collect(),
            weaker: weaker.to_vec(),
        }
    }

    /// Returns the strongest level, which is that of parameters and literals.
    pub fn bottom(&self) -> Label {
        self.of(Level::Linearizable)
    }

    /// Returns the weakest level.
    pub fn top(&self) -> Label {
        self.of(Level::Eventual)
    }

    /// Returns the label of a built-in level.
    pub fn of(&self, level: Level) -> Label {
        let index = Level::ALL.iter().position(|other| *other == level);
        Label(index.expect("all levels are in the list") as u8)
    }

    /// Iterates over all levels, built-in ones first.
    pub fn labels(&self) -> impl Iterator<Item = Label> + use<> {
        (0..self.names.len() as u8).map(Label)
    }

    /// Returns the level of a name.
    pub fn lookup(&self, name: &str) -> Option<Label> {
        self.labels().find(|label| self.name(*label) == name)
    }

    /// Returns the name of a level.
    pub fn name(&self, label: Label) -> &str {
        &self.names[label.0 as usize]
    }

    /// Whether `one ⊑ other`: a value of level `one` may be used where `other` is required.
    pub fn at_least(&self, one: Label, other: Label) -> bool {
        self.weaker[one.0 as usize] >> other.0 & 1 == 1
    }

    /// Returns the strongest level that both are at least as strong as: the label of a value
    /// computed from both.
    pub fn join(&self, one: Label, other: Label) -> Label {
        let both = self.weaker[one.0 as usize] & self.weaker[other.0 as usize];
        self.least(both).expect("any two levels of a lattice have a join")
    }

    /// Returns the weakest level that is at least as strong as both.
    pub fn meet(&self, one: Label, other: Label) -> Label {
        let both = |label: &Label| self.at_least(*label, one) && self.at_least(*label, other);
        let lower: Vec<_> = self.labels().filter(both).collect();
        let greatest = |label: &Label| lower.iter().all(|below| self.at_least(*below, *label));
        lower.iter().copied().find(greatest).expect("any two levels of a lattice have a meet")
    }

    /// Returns the built-in levels that are at least as strong as a level. A store with this level
    /// may be bound to spaces of these levels.
    pub fn accepts(&self, label: Label) -> Vec<Level> {
        let strong = |level: &Level| self.at_least(self.of(*level), label);
        Level::ALL.into_iter().filter(strong).collect()
    }

    /// Adds a level that is weaker than some (`below`) and stronger than others (`above`). Without
    /// either, it lies between the strongest and the weakest.
    ///
    /// # Errors
    /// Fails if the name exists, or if the levels would no longer be a lattice.
    pub fn add(
        &mut self,
        name: &str,
        below: &[Label],
        above: &[Label],
    ) -> Result<Label, LatticeError> {
        if self.lookup(name).is_some() {
            return Err(LatticeError::Twice(name.to_owned()));
        }
        if self.names.len() == MAX_LEVELS {
            return Err(LatticeError::TooMany);
        }
        let (bottom, top) = (self.bottom(), self.top());
        if below.contains(&top) {
            return Err(LatticeError::BelowWeakest(self.name(top).to_owned()));
        }
        if above.contains(&bottom) {
            return Err(LatticeError::AboveStrongest(self.name(bottom).to_owned()));
        }
        let below = if below.is_empty() { std::slice::from_ref(&bottom) } else { below };
        let above = if above.is_empty() { std::slice::from_ref(&top) } else { above };
        for stronger in below {
            for weaker in above {
                if !self.at_least(*stronger, *weaker) || stronger == weaker {
                    let [stronger, weaker] = [stronger, weaker].map(|l| self.name(*l).to_owned());
                    return Err(LatticeError::Contradiction { stronger, weaker });
                }
            }
        }
        let mut grown = self.clone();
        let label = Label(self.names.len() as u8);
        grown.names.push(name.to_owned());
        let weaker = above.iter().fold(0, |all, label| all | self.weaker[label.0 as usize]);
        grown.weaker.push(weaker | 1 << label.0);
        for stronger in self.labels().filter(|l| below.iter().any(|b| self.at_least(*l, *b))) {
            grown.weaker[stronger.0 as usize] |= weaker | 1 << label.0;
        }
        grown.check()?;
        *self = grown;
        Ok(label)
    }

    /// Checks that any two levels have a join. With a weakest and a strongest level and finitely
    /// many levels, every pair then also has a meet.
    fn check(&self) -> Result<(), LatticeError> {
        for one in self.labels() {
            for other in self.labels().filter(|other| *other > one) {
                let both = self.weaker[one.0 as usize] & self.weaker[other.0 as usize];
                if self.least(both).is_none() {
                    let minimal = |label: &Label| {
                        let within = both >> label.0 & 1 == 1;
                        let mut stronger = self.labels().filter(|below| both >> below.0 & 1 == 1);
                        within && !stronger.any(|l| l != *label && self.at_least(l, *label))
                    };
                    let name = |label: Label| self.name(label).to_owned();
                    let mut choices = self.labels().filter(minimal).map(name);
                    let mut choice = || choices.next().expect("there are two if there is no least");
                    let choices = [choice(), choice()];
                    return Err(LatticeError::NoJoin { of: [name(one), name(other)], choices });
                }
            }
        }
        Ok(())
    }

    /// Returns the strongest of some levels, if it is stronger than all the others.
    fn least(&self, some: u64) -> Option<Label> {
        self.labels()
            .filter(|label| some >> label.0 & 1 == 1)
            .find(|label| some & !self.weaker[label.0 as usize] == 0)
    }
}

/// Error of adding a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LatticeError {
    /// A level with this name exists.
    Twice(String),
    /// There are already [`MAX_LEVELS`] levels.
    TooMany,
    /// It would be weaker than the weakest level.
    BelowWeakest(String),
    /// It would be stronger than the strongest level.
    AboveStrongest(String),
    /// It would lie between two levels of which the first is not stronger than the second.
    Contradiction {
        /// Level that it would be weaker than.
        stronger: String,
        /// Level that it would be stronger than.
        weaker: String,
    },
    /// Two levels would have no single strongest level that is weaker than both.
    NoJoin {
        /// The two levels.
        of: [String; 2],
        /// Levels that are weaker than both, and of which none is stronger than the other.
        choices: [String; 2],
    },
}

impl fmt::Display for LatticeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LatticeError::Twice(name) => write!(f, "there is a level '{name}' already"),
            LatticeError::TooMany => write!(f, "there can be {MAX_LEVELS} levels at most"),
            LatticeError::BelowWeakest(name) => {
                write!(f, "no level lies below {name}, the weakest of all")
            }
            LatticeError::AboveStrongest(name) => {
                write!(f, "no level lies above {name}, the strongest of all")
            }
            LatticeError::Contradiction { stronger, weaker } => write!(
                f,
                "no level lies below {stronger} and above {weaker}, as {stronger} is not stronger \
                 than {weaker}"
            ),
            LatticeError::NoJoin { of: [one, other], choices: [this, that] } => write!(
                f,
                "values of the levels {one} and {other} could not be mixed any more: both {this} and \
                 {that} are weaker than the two, and neither is stronger than the other"
            ),
        }
    }
}

impl std::error::Error for LatticeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_levels_are_those_of_the_enum() {
        let lattice = Lattice::builtin();
        for a in Level::ALL {
            assert_eq!(lattice.lookup(a.name()), Some(lattice.of(a)));
            for b in Level::ALL {
                let (x, y) = (lattice.of(a), lattice.of(b));
                assert_eq!(lattice.at_least(x, y), a.at_least(b));
                assert_eq!(lattice.join(x, y), lattice.of(a.join(b)));
                assert_eq!(lattice.meet(x, y), lattice.of(a.meet(b)));
            }
        }
    }

    #[test]
    fn a_level_is_added_between_others() {
        let mut lattice = Lattice::builtin();
        let causal = lattice.of(Level::Causal);
        let audit = lattice.add("audit", &[causal], &[]).unwrap();
        assert!(lattice.at_least(lattice.of(Level::Por), audit));
        assert!(lattice.at_least(audit, lattice.top()) && !lattice.at_least(audit, causal));
        assert_eq!(lattice.join(audit, causal), audit);
        assert_eq!(lattice.join(audit, lattice.of(Level::Speculative)), lattice.top());
        assert_eq!(
            lattice.accepts(audit),
            [Level::Linearizable, Level::Por, Level::PcPsi, Level::Causal]
        );
        let session = lattice.add("session", &[causal], &[audit]).unwrap();
        assert!(lattice.at_least(causal, session) && lattice.at_least(session, audit));
        assert_eq!(lattice.meet(audit, session), session);
    }

    #[test]
    fn a_level_is_added_below_quorum() {
        let mut lattice = Lattice::builtin();
        let [causal, quorum] = [Level::Causal, Level::Quorum].map(|level| lattice.of(level));
        let recent = lattice.add("recent", &[quorum], &[]).unwrap();
        assert_eq!(lattice.accepts(recent), [Level::Linearizable, Level::Quorum]);
        assert_eq!(lattice.join(recent, causal), lattice.top());
        let local = lattice.of(Level::LocalQuorum);
        assert_eq!(lattice.join(recent, local), lattice.top());
        let both = lattice.add("both", &[causal, quorum], &[]).unwrap();
        assert_eq!(lattice.join(causal, quorum), both);
        let fit = [Level::Linearizable, Level::Por, Level::PcPsi, Level::Quorum, Level::Causal];
        assert_eq!(lattice.accepts(both), fit);
    }

    #[test]
    fn what_is_no_lattice_is_refused() {
        let mut lattice = Lattice::builtin();
        let [por, pcpsi, causal, speculative] =
            [Level::Por, Level::PcPsi, Level::Causal, Level::Speculative].map(|l| lattice.of(l));
        let message = |error: LatticeError| error.to_string();
        assert!(message(lattice.add("por", &[], &[]).unwrap_err()).contains("already"));
        let error = lattice.add("x", &[causal], &[por]).unwrap_err();
        assert_eq!(
            error,
            LatticeError::Contradiction { stronger: "causal".into(), weaker: "por".into() }
        );
        let (bottom, top) = (lattice.bottom(), lattice.top());
        let error = lattice.add("x", &[top], &[]).unwrap_err();
        assert_eq!(message(error), "no level lies below eventual, the weakest of all");
        let error = lattice.add("x", &[], &[bottom]).unwrap_err();
        assert_eq!(message(error), "no level lies above linearizable, the strongest of all");
        let error = lattice.add("x", &[por, pcpsi], &[]).unwrap_err();
        assert!(message(error).contains("both causal and x"));
        let before = lattice.clone();
        assert!(lattice.add("x", &[causal, speculative], &[causal]).is_err());
        assert_eq!(lattice, before);
        for index in lattice.names.len()..MAX_LEVELS {
            let weakest =
                lattice.labels().last().filter(|_| index > Level::ALL.len()).unwrap_or(causal);
            lattice.add(&format!("l{index}"), &[weakest], &[]).unwrap();
        }
        assert_eq!(lattice.add("one_more", &[], &[]), Err(LatticeError::TooMany));
    }
}
