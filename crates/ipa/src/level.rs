//! Levels as types, with their order and joins.
//!
//! They are the built-in levels of [`solera_levels`]; a test compares the order and all joins. No
//! other crate can add one. Levels that a MixT program declares exist in that program only.

use solera_levels::Level;

mod sealed {
    /// Prevents implementations in other crates.
    pub trait Sealed {}
}

/// A level as a type. It has no values.
pub trait LevelMarker: sealed::Sealed + Copy + 'static {
    /// The level.
    const LEVEL: Level;
}

/// A level that is `Weaker` or stronger: a value of this level may be used where `Weaker` is
/// required.
///
/// ```
/// use solera_ipa::At;
/// use solera_ipa::level::{self, AtLeast};
///
/// fn publish<L: AtLeast<level::Causal>>(text: At<String, L>) -> At<usize, level::Causal> {
///     text.weaken().map(|text| text.len())
/// }
///
/// let length = publish(solera_ipa::Por::new("news".to_owned()));
/// assert_eq!(*length.endorse(), 4);
/// ```
#[diagnostic::on_unimplemented(
    message = "a value of level `{Self}` is used where `{Weaker}` or a stronger level is required",
    label = "`{Self}` is not at least `{Weaker}`",
    note = "read the value at a stronger level, or accept the risk explicitly: `endorse()`"
)]
pub trait AtLeast<Weaker: LevelMarker>: LevelMarker {}

/// A level that has a join and a meet with `Other`. Any two levels have both.
pub trait JoinWith<Other: LevelMarker>: LevelMarker {
    /// Strongest level that is not stronger than either level: the level of a value that depends on
    /// values of both.
    type Join: LevelMarker;
    /// Weakest level that is not weaker than either level: the level of a read that two policies
    /// require.
    type Meet: LevelMarker;
}

/// Strongest level that is not stronger than either level.
pub type Join<One, Other> = <One as JoinWith<Other>>::Join;

/// Weakest level that is not weaker than either level.
///
/// ```
/// use solera_ipa::level::{Causal, LevelMarker, LocalQuorum, Meet};
///
/// // No other level is at least as strong as both.
/// assert_eq!(<Meet<Causal, LocalQuorum>>::LEVEL.name(), "linearizable");
/// ```
pub type Meet<One, Other> = <One as JoinWith<Other>>::Meet;

/// Defines the levels.
macro_rules! levels {
    ($($(#[$doc:meta])* $level:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $level {}

        impl sealed::Sealed for $level {}

        impl LevelMarker for $level {
            const LEVEL: Level = Level::$level;
        }

        impl AtLeast<$level> for $level {}

        impl JoinWith<$level> for $level {
            type Join = $level;
            type Meet = $level;
        }
    )*};
}

levels! {
    /// See [`Level::Linearizable`].
    Linearizable;
    /// See [`Level::Por`].
    Por;
    /// See [`Level::PcPsi`].
    PcPsi;
    /// See [`Level::Quorum`].
    Quorum;
    /// See [`Level::LocalQuorum`].
    LocalQuorum;
    /// See [`Level::Causal`].
    Causal;
    /// See [`Level::Speculative`].
    Speculative;
    /// See [`Level::Eventual`].
    Eventual;
}

/// States the join and the meet of two levels, in both orders.
macro_rules! join {
    ($one:ident, $other:ident => $join:ident, $meet:ident) => {
        impl JoinWith<$other> for $one {
            type Join = $join;
            type Meet = $meet;
        }

        impl JoinWith<$one> for $other {
            type Join = $join;
            type Meet = $meet;
        }
    };
}

/// Calls a macro with each level and the levels that are weaker.
macro_rules! order {
    ($macro:ident) => {
        $macro! {
            Linearizable: Por PcPsi Quorum LocalQuorum Causal Speculative Eventual;
            Por: Causal Eventual;
            PcPsi: Causal Eventual;
            Quorum: LocalQuorum Eventual;
            LocalQuorum: Eventual;
            Causal: Eventual;
            Speculative: Eventual;
        }
    };
}
pub(crate) use order;

/// States which levels are weaker than another.
macro_rules! weaker {
    ($($strong:ident: $($weak:ident)+;)*) => {$($(
        impl AtLeast<$weak> for $strong {}

        join!($strong, $weak => $weak, $strong);
    )+)*};
}

order!(weaker);

/// States the joins of levels that are not comparable. Of any two such levels, only the strongest
/// level of all is as strong as both.
macro_rules! incomparable {
    ($($one:ident, $other:ident => $join:ident;)*) => {$(
        join!($one, $other => $join, Linearizable);
    )*};
}

incomparable! {
    Por, PcPsi => Causal;
    Por, Quorum => Eventual;
    Por, LocalQuorum => Eventual;
    Por, Speculative => Eventual;
    PcPsi, Quorum => Eventual;
    PcPsi, LocalQuorum => Eventual;
    PcPsi, Speculative => Eventual;
    Quorum, Causal => Eventual;
    Quorum, Speculative => Eventual;
    LocalQuorum, Causal => Eventual;
    LocalQuorum, Speculative => Eventual;
    Causal, Speculative => Eventual;
}
