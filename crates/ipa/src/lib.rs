//! Types that state how consistent a value is (IPA §3.4). **Experimental.**
//!
//! A value of type [`Consistent<T>`] is used like a `T`. A value of a weaker type, such as
//! [`Quorum<T>`] or [`Causal<T>`], shows nothing of its content: it cannot be printed, compared or
//! dereferenced. It can be
//! - computed with, by [`At::map`] and [`At::map2`]. The result has the [join](level::Join) of the
//!   levels: the weaker one, if they can be compared;
//! - passed where a weaker value is accepted, by [`At::weaken`] or `into`;
//! - used as a plain value after [`At::endorse`], which marks the place in the program where a
//!   person has decided that the value is good enough.
//!
//! [`Rushed<T>`] is a value whose level is known only when the program runs. [`Interval<T>`] is an
//! integer of which only bounds are known.
//!
//! ```
//! use solera_ipa::{Causal, Consistent, Quorum};
//!
//! /// Accepts a value of level `quorum` or a stronger one.
//! fn sell(stock: impl Into<Quorum<i64>>, wanted: i64) -> Quorum<bool> {
//!     stock.into().map(|left| left >= wanted)
//! }
//!
//! let counted = Quorum::new(12);
//! let reserved = Consistent::new(2);
//! let free = counted.map2(reserved, |counted, reserved| counted - reserved);
//! let enough: Quorum<bool> = sell(free, 10);
//! assert!(*enough.endorse(), "the sale itself checks the stock again");
//!
//! let shown: Causal<String> = Consistent::new(3).weaken().map(|count: i32| count.to_string());
//! assert_eq!(format!("{shown:?}"), "causal(..)");
//! ```
//!
//! # Limits
//! The types track values, and nothing else:
//! - **Branches.** What a program does after a branch on an endorsed value does not carry the
//!   value's level: `if *count.endorse() > 0 { … }` decides about everything in the braces,
//!   including strong writes. In the MixT language, the level of a condition applies to all effects
//!   that it decides about.
//! - **Side effects of closures.** A closure passed to [`At::map`] sees the value. The closure can
//!   print the value, store it elsewhere, panic or not return. Rust has no means to reject such a
//!   closure.
//! - **Time.** How long a computation takes, and whether it ends, may depend on a weak value.
//! - **Wrong labels.** Nothing checks the level that a program gives a value by [`At::new`].

mod answer;
mod at;
mod interval;
pub mod level;
mod monitor;
mod rushed;

pub use answer::Answer;
pub use at::At;
pub use interval::{Integer, Interval, Overflow, Reversed};
pub use monitor::Monitor;
pub use rushed::Rushed;

/// A value of the strongest level, which is used like a `T`: it dereferences to the `T`. A method
/// of [`At`] hides a method of `T` with the same name; `(*x).map(…)` calls the latter.
pub type Consistent<T> = At<T, level::Linearizable>;
/// A value of level `por`.
pub type Por<T> = At<T, level::Por>;
/// A value of level `pcpsi`.
pub type PcPsi<T> = At<T, level::PcPsi>;
/// A value of level `quorum`.
pub type Quorum<T> = At<T, level::Quorum>;
/// A value of level `local_quorum`.
pub type LocalQuorum<T> = At<T, level::LocalQuorum>;
/// A value of level `causal`.
pub type Causal<T> = At<T, level::Causal>;
/// A value of level `speculative`.
pub type Speculative<T> = At<T, level::Speculative>;
/// A value of the weakest level, `eventual`: it may only be endorsed.
pub type Inconsistent<T> = At<T, level::Eventual>;
