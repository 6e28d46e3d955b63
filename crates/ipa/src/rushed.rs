//! Values of levels that are known only when the program runs.

use solera_levels::Level;

use crate::level::{self, LevelMarker};
use crate::{At, Causal, Consistent, Inconsistent, LocalQuorum, Por, Quorum};

/// Result of a read that may be answered at several levels (IPA §3.4.1). A `match` handles each
/// level, or weakens the rest explicitly:
///
/// ```
/// use solera_ipa::{Causal, Quorum, Rushed};
///
/// fn show(left: Rushed<i64>) -> String {
///     match left {
///         Rushed::Consistent(left) => left.to_string(),
///         Rushed::Quorum(left) => format!("about {}", left.endorse()),
///         rest => rest.weaken().map(|left| format!("perhaps {left}")).endorse().into_inner(),
///     }
/// }
///
/// assert_eq!(show(Quorum::new(5).into()), "about 5");
/// assert_eq!(show(Causal::new(5).into()), "perhaps 5");
/// ```
///
/// There is a variant for each level at which a store could answer a read: a space of level `por`
/// or `linearizable`, or Apache Cassandra. A new variant would break every `match`, which is
/// intended: the enum will not become `non_exhaustive`.
#[derive(Clone, Copy, Debug)]
#[must_use = "a value has no effect unless it is used"]
pub enum Rushed<T> {
    /// Value of the strongest level.
    Consistent(Consistent<T>),
    /// Value of level `por`.
    Por(Por<T>),
    /// Value of level `quorum`.
    Quorum(Quorum<T>),
    /// Value of level `local_quorum`.
    LocalQuorum(LocalQuorum<T>),
    /// Value of level `causal`.
    Causal(Causal<T>),
    /// Value of the weakest level.
    Inconsistent(Inconsistent<T>),
}

impl<T> Rushed<T> {
    /// Labels a value that was read at a level. Returns `None` if no read is answered at this
    /// level. The caller guarantees the level, as for [`At::new`].
    pub fn labelled(value: T, level: Level) -> Option<Rushed<T>> {
        Some(match level {
            Level::Linearizable => Rushed::Consistent(At::new(value)),
            Level::Por => Rushed::Por(At::new(value)),
            Level::Quorum => Rushed::Quorum(At::new(value)),
            Level::LocalQuorum => Rushed::LocalQuorum(At::new(value)),
            Level::Causal => Rushed::Causal(At::new(value)),
            Level::Eventual => Rushed::Inconsistent(At::new(value)),
            Level::PcPsi | Level::Speculative => return None,
        })
    }

    /// Returns the level.
    pub fn level(&self) -> Level {
        match self {
            Rushed::Consistent(value) => value.level(),
            Rushed::Por(value) => value.level(),
            Rushed::Quorum(value) => value.level(),
            Rushed::LocalQuorum(value) => value.level(),
            Rushed::Causal(value) => value.level(),
            Rushed::Inconsistent(value) => value.level(),
        }
    }

    /// Returns the value with the weakest level. No variant is weaker.
    pub fn weaken(self) -> Inconsistent<T> {
        At::new(self.into_hidden())
    }

    /// Returns the value as a value of level `L`, if its level is `L` or stronger.
    ///
    /// ```
    /// use solera_ipa::level::Causal;
    /// use solera_ipa::{Por, Rushed};
    ///
    /// let followers = Rushed::from(Por::new(7));
    /// match followers.at_least::<Causal>() {
    ///     Ok(followers) => assert_eq!(*followers.endorse(), 7),
    ///     Err(weaker) => unreachable!("{weaker:?}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the value itself if its level is weaker than `L`, or not comparable with it.
    pub fn at_least<L: LevelMarker>(self) -> Result<At<T, L>, Rushed<T>> {
        match self.level().at_least(L::LEVEL) {
            true => Ok(At::new(self.into_hidden())),
            false => Err(self),
        }
    }

    /// Applies a function to the value, as [`At::map`] does.
    pub fn map<U>(self, function: impl FnOnce(T) -> U) -> Rushed<U> {
        match self {
            Rushed::Consistent(value) => Rushed::Consistent(value.map(function)),
            Rushed::Por(value) => Rushed::Por(value.map(function)),
            Rushed::Quorum(value) => Rushed::Quorum(value.map(function)),
            Rushed::LocalQuorum(value) => Rushed::LocalQuorum(value.map(function)),
            Rushed::Causal(value) => Rushed::Causal(value.map(function)),
            Rushed::Inconsistent(value) => Rushed::Inconsistent(value.map(function)),
        }
    }

    fn into_hidden(self) -> T {
        match self {
            Rushed::Consistent(value) => value.into_hidden(),
            Rushed::Por(value) => value.into_hidden(),
            Rushed::Quorum(value) => value.into_hidden(),
            Rushed::LocalQuorum(value) => value.into_hidden(),
            Rushed::Causal(value) => value.into_hidden(),
            Rushed::Inconsistent(value) => value.into_hidden(),
        }
    }
}

/// Implements the conversion of a value of each level that has a variant.
macro_rules! from_levels {
    ($($level:ident => $variant:ident;)*) => {$(
        impl<T> From<At<T, level::$level>> for Rushed<T> {
            fn from(value: At<T, level::$level>) -> Self {
                Rushed::$variant(value)
            }
        }
    )*};
}

from_levels! {
    Linearizable => Consistent;
    Por => Por;
    Quorum => Quorum;
    LocalQuorum => LocalQuorum;
    Causal => Causal;
    Eventual => Inconsistent;
}
