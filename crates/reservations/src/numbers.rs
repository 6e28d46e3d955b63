//! Numbers that identify versions, positions and periods, and numbers of tokens.

use serde::{Deserialize, Serialize};

/// Version of the record of a partition. The strong history numbers them; numbers may be skipped.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Version(pub u64);

/// Position in a site's stream. Positions increase along a stream; numbers may be skipped.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position(pub u64);

/// Number of a grant of a key to a site. It is never used for another grant of the two.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

/// Number of an admission of a site as a reader.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Term(pub u64);

/// Identifies a request among all that any process of a site has sent.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Nonce {
    /// Number of the process among those of the worker.
    pub process: u64,
    /// Number of the request within the process.
    pub number: u64,
}

/// Kinds of updates. Each has its own tokens, and the kinds never cancel out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The value rises.
    Increment,
    /// The value falls.
    Decrement,
}

impl Kind {
    /// Both kinds.
    pub const BOTH: [Kind; 2] = [Kind::Increment, Kind::Decrement];
}

/// Numbers of tokens by kind: an update by `n` takes `n` tokens. Sums stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens for increments.
    pub increments: u64,
    /// Tokens for decrements.
    pub decrements: u64,
}

impl Tokens {
    /// Returns the tokens that an update needs.
    pub fn of(amount: i64) -> Tokens {
        match amount {
            0.. => Tokens { increments: amount.unsigned_abs(), decrements: 0 },
            _ => Tokens { increments: 0, decrements: amount.unsigned_abs() },
        }
    }

    /// Returns the number of a kind.
    pub fn get(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Increment => self.increments,
            Kind::Decrement => self.decrements,
        }
    }

    /// Returns the numbers that a function gives for each kind.
    pub fn by_kind(of: impl Fn(Kind) -> u64) -> Tokens {
        Tokens { increments: of(Kind::Increment), decrements: of(Kind::Decrement) }
    }

    /// Returns the sums.
    #[must_use]
    pub fn plus(self, other: Tokens) -> Tokens {
        Tokens::by_kind(|kind| self.get(kind).saturating_add(other.get(kind)))
    }

    /// Returns the differences, at least 0.
    #[must_use]
    pub fn minus(self, other: Tokens) -> Tokens {
        Tokens::by_kind(|kind| self.get(kind).saturating_sub(other.get(kind)))
    }

    /// Returns the greater number of each kind.
    #[must_use]
    pub fn most(self, other: Tokens) -> Tokens {
        Tokens::by_kind(|kind| self.get(kind).max(other.get(kind)))
    }

    /// Returns whether there are at least as many of each kind.
    pub fn covers(&self, other: Tokens) -> bool {
        Kind::BOTH.into_iter().all(|kind| self.get(kind) >= other.get(kind))
    }

    /// Returns whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Tokens::default()
    }

    /// Returns the number of tokens of both kinds.
    pub fn total(&self) -> u128 {
        u128::from(self.increments) + u128::from(self.decrements)
    }
}
