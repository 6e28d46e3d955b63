//! Rules that tests take out of a protocol.

use std::fmt;
use std::marker::PhantomData;

/// The rule of a protocol that is left out, so that a test sees what it is for and that judges
/// notice.
///
/// Only a build with feature `traps` can leave a rule out. No other build has the switch: there,
/// [`keeps`](Self::keeps) is constant.
pub struct Without<R> {
    #[cfg(feature = "traps")]
    rule: Option<R>,
    of: PhantomData<R>,
}

impl<R: Copy + Eq> Without<R> {
    /// Returns whether a rule holds.
    #[inline]
    pub fn keeps(&self, rule: R) -> bool {
        self.rule() != Some(rule)
    }

    /// Returns the rule that is left out.
    #[cfg(feature = "traps")]
    pub fn rule(&self) -> Option<R> {
        self.rule
    }

    /// Returns the rule that is left out: none.
    #[cfg(not(feature = "traps"))]
    #[inline]
    pub fn rule(&self) -> Option<R> {
        None
    }

    /// Returns the same for a part of the machine that has rules of its own.
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
