//! Values with a level.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Add, Deref, Mul, Neg, Sub};

use solera_levels::Level;

use crate::Consistent;
use crate::level::{self, AtLeast, Join, JoinWith, LevelMarker};

/// A value of a level, the `τ[T]` of IPA §3.4. Programs write its aliases, such as
/// [`Causal<T>`](crate::Causal).
///
/// Only a [`Consistent<T>`] can be dereferenced, printed, compared or hashed. For all other levels,
/// `Debug` prints the level.
#[derive(Clone, Copy)]
#[must_use = "a value has no effect unless it is used"]
pub struct At<T, L: LevelMarker> {
    value: T,
    level: PhantomData<L>,
}

impl<T, L: LevelMarker> At<T, L> {
    /// Labels a value. The caller guarantees the level: it has read the value at this level, or the
    /// value depends on nothing weaker.
    pub const fn new(value: T) -> Self {
        At { value, level: PhantomData }
    }

    /// Returns the level.
    pub fn level(&self) -> Level {
        L::LEVEL
    }

    /// Returns the value with a weaker level.
    pub fn weaken<Weaker: LevelMarker>(self) -> At<T, Weaker>
    where
        L: AtLeast<Weaker>,
    {
        At::new(self.value)
    }

    /// Returns the value with the strongest level. The caller accepts that the value may be
    /// inconsistent (IPA §3.4.1: `Consistent(e)`).
    pub fn endorse(self) -> Consistent<T> {
        At::new(self.value)
    }

    /// Applies a function to the value. The function must not let the value out by other means than
    /// its result; no type checks this.
    pub fn map<U>(self, function: impl FnOnce(T) -> U) -> At<U, L> {
        At::new(function(self.value))
    }

    /// Applies a function to two values. The result has the join of their levels.
    pub fn map2<U, V, M: LevelMarker>(
        self,
        other: At<U, M>,
        function: impl FnOnce(T, U) -> V,
    ) -> At<V, Join<L, M>>
    where
        L: JoinWith<M>,
    {
        At::new(function(self.value, other.value))
    }

    /// Returns the pair of two values, with the join of their levels.
    pub fn zip<U, M: LevelMarker>(self, other: At<U, M>) -> At<(T, U), Join<L, M>>
    where
        L: JoinWith<M>,
    {
        self.map2(other, |one, other| (one, other))
    }

    /// Applies a function that returns a value with a level of its own, such as a read of an object
    /// that this value names. The result has the join of both levels.
    pub fn and_then<U, M: LevelMarker>(
        self,
        function: impl FnOnce(T) -> At<U, M>,
    ) -> At<U, Join<L, M>>
    where
        L: JoinWith<M>,
    {
        At::new(function(self.value).value)
    }

    /// Returns a reference to the value, at the same level.
    pub const fn as_ref(&self) -> At<&T, L> {
        At::new(&self.value)
    }

    /// Removes the label.
    pub(crate) fn into_hidden(self) -> T {
        self.value
    }
}

/// Implements `From` for values of weaker levels.
macro_rules! conversions {
    ($($strong:ident: $($weak:ident)+;)*) => {$($(
        impl<T> From<At<T, level::$strong>> for At<T, level::$weak> {
            fn from(value: At<T, level::$strong>) -> Self {
                value.weaken()
            }
        }
    )+)*};
}

level::order!(conversions);

impl<T> Consistent<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> From<T> for Consistent<T> {
    fn from(value: T) -> Self {
        At::new(value)
    }
}

impl<T> Deref for Consistent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Consistent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Consistent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Consistent<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Consistent<T> {}

impl<T: PartialOrd> PartialOrd for Consistent<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<T: Ord> Ord for Consistent<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}

impl<T: Hash> Hash for Consistent<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

/// Implements `Debug` for weak levels, without the value.
macro_rules! hidden {
    ($($level:ident)*) => {$(
        impl<T> fmt::Debug for At<T, level::$level> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}(..)", self.level())
            }
        }
    )*};
}

hidden!(Por PcPsi Quorum LocalQuorum Causal Speculative Eventual);

/// Implements an operator for values of any two levels, by the operator of their contents.
macro_rules! operator {
    ($operator:ident $method:ident) => {
        impl<T: $operator<U>, U, L: JoinWith<M>, M: LevelMarker> $operator<At<U, M>> for At<T, L> {
            type Output = At<T::Output, Join<L, M>>;

            fn $method(self, other: At<U, M>) -> Self::Output {
                self.map2(other, T::$method)
            }
        }
    };
}

// A quotient by zero would panic depending on a hidden value, so there is no division.
operator!(Add add);
operator!(Sub sub);
operator!(Mul mul);

impl<T: Neg, L: LevelMarker> Neg for At<T, L> {
    type Output = At<T::Output, L>;

    fn neg(self) -> Self::Output {
        self.map(T::neg)
    }
}
