//! Switches by which tests disable rules of a protocol.

use std::fmt;
use std::marker::PhantomData;

/// The rule of a protocol that is disabled, if any. Tests disable a rule to prove that it is needed
/// and that the checkers notice its absence.
///
/// Only a build with feature `traps` can disable a rule. Other builds do not contain the switch:
/// there, [`keeps`](Self::keeps) is constant.
pub struct Without<R> {
    #[cfg(feature = "traps")]
    rule: Option<R>,
    of: PhantomData<R>,
}

impl<R: Copy + Eq> Without<R> {
    /// Returns whether a rule is in force.
    #[inline]
    pub fn keeps(&self, rule: R) -> bool {
        self.rule() != Some(rule)
    }

    /// Returns the disabled rule.
    #[cfg(feature = "traps")]
    pub fn rule(&self) -> Option<R> {
        self.rule
    }

    /// Returns `None`: this build cannot disable rules.
    #[cfg(not(feature = "traps"))]
    #[inline]
    pub fn rule(&self) -> Option<R> {
        None
    }

    /// Returns the switch for a part of the machine that has its own rules.
    #[cfg_attr(not(feature = "traps"), expect(unused_variables, reason = "no rule is left out"))]
    pub fn part<S>(&self, rule_of: impl FnOnce(R) -> Option<S>) -> Without<S> {
        Without {
            #[cfg(feature = "traps")]
            rule: self.rule.and_then(rule_of),
            of: PhantomData,
        }
    }
}

#[cfg(feature = "traps")]
impl<R> From<Option<R>> for Without<R> {
    fn from(rule: Option<R>) -> Without<R> {
        Without { rule, of: PhantomData }
    }
}

impl<R> Default for Without<R> {
    fn default() -> Without<R> {
        Without {
            #[cfg(feature = "traps")]
            rule: None,
            of: PhantomData,
        }
    }
}

impl<R: Copy> Clone for Without<R> {
    fn clone(&self) -> Without<R> {
        *self
    }
}

impl<R: Copy> Copy for Without<R> {}

impl<R: Copy + Eq> PartialEq for Without<R> {
    fn eq(&self, other: &Without<R>) -> bool {
        self.rule() == other.rule()
    }
}

impl<R: Copy + Eq> Eq for Without<R> {}

impl<R: Copy + Eq + fmt::Debug> fmt::Debug for Without<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule().fmt(f)
    }
}
