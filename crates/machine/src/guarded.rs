//! Guards: other protocols of a transaction's workers, whose consent the transaction needs before
//! it may prepare.
//!
//! A transaction lists its guards. Each worker that owns a guarded key asks the protocol that
//! guards the key, which runs in the same worker, whether the transaction may commit. Consent is a
//! *promise* under the transaction's identifier. It ends when the worker reports to the guard that
//! the transaction committed or aborted. See `docs/decisions/0031-prepare-guards.md`.
//!
//! A guard may have to wait for resources that a claim needs, for example from another site. The
//! worker therefore asks for a *reservation* before it asks for the promise. At that time the
//! transaction has no prepare time yet, so that nothing else waits for it.
//!
//! Requirements on a guard:
//! - It eventually answers every question; the worker keeps the question until then. If the end of
//!   the transaction is reported first, a reservation needs no answer, and an answer has no effect.
//! - Its state for a reservation is volatile: a restart loses it. A promise does not require a
//!   reservation: the guard evaluates the claims again, and may refuse them.
//! - A reservation ends with the promise under the same identifier and with the same guards, or
//!   with the report of the transaction's end. The guard may give it up earlier, and then refuses
//!   the promise.
//! - It records a promise before it answers, and the end of a promise before it acknowledges that.
//! - It accepts several reports of the same end, and reports of the end of a transaction that it
//!   has never promised or not answered yet. It gives no promise after the end.

use serde::{Deserialize, Serialize};
use solera_time::Vector;

/// A protocol's consent that a transaction needs before it may commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Guard {
    /// The guarded key. The worker that owns it asks the guard.
    pub key: Vec<u8>,
    /// Number of the protocol that guards the key.
    pub protocol: u8,
    /// Request of the transaction, in the guard's own encoding.
    pub claim: Vec<u8>,
}

/// Guards of a transaction, ordered by key, protocol and claim. Duplicates are kept, and each
/// counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded(Vec<Guard>);

/// Identifies a transaction to the guards of its site. An identifier is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PromiseId {
    /// Worker that coordinates the transaction.
    pub coordinator: u8,
    /// Sequence number of the transaction at its coordinator. Restarts do not reset it.
    pub sequence: u64,
}

/// Rejection of a transaction by a guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A key for which the guard rejects the transaction.
    pub key: Vec<u8>,
    /// Number of the guard's protocol.
    pub protocol: u8,
    /// Human-readable reason.
    pub reason: String,
}

/// A guard's answer to a transaction that wants to prepare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transaction may commit until the guard receives its outcome.
    Promised,
    /// The transaction must not commit. The guard keeps no state for it.
    Refused(Refusal),
    /// Only after [`GuardQuestion::Reserve`]: the transaction must not commit, because its snapshot
    /// lacks what the consent depends on. Another attempt with a later snapshot may. The guard
    /// keeps no state for this one.
    Later {
        /// A key for which the guard rejects the transaction.
        key: Vec<u8>,
        /// Updates that the snapshot must contain. They are visible at the site already.
        past: Vector,
    },
}

/// Question of a transaction's participant to a guard of its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardQuestion {
    /// Asks the guard to set aside what the transaction needs, before the transaction gets a
    /// prepare time. [`Promise`](Self::Promise) with the same identifier and guards follows, or
    /// [`End`](Self::End).
    Reserve {
        /// The transaction.
        id: PromiseId,
        /// The protocol's guards at this worker.
        guards: Guarded,
        /// The transaction's snapshot. The commit depends on what is in it.
        snapshot: Vector,
    },
    /// Asks whether the transaction may commit, as far as all these guards of the protocol are
    /// concerned.
    Promise {
        /// The transaction.
        id: PromiseId,
        /// The protocol's guards at this worker.
        guards: Guarded,
    },
    /// Reports that the transaction has ended, and with it all promises to it and reservations for
    /// it. A question about a reservation needs no answer any more.
    End {
        /// The transaction.
        id: PromiseId,
        /// Whether it committed.
        committed: bool,
    },
}

/// Answer of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardAnswer {
    /// Answers [`GuardQuestion::Promise`] or [`GuardQuestion::Reserve`]. After
    /// [`Verdict::Promised`] for a reservation, the transaction may ask for the promise.
    Verdict(Verdict),
    /// Answers [`GuardQuestion::End`]. The guard has emitted its record of the end before this
    /// answer.
    Ended,
}

impl Guarded {
    /// Largest number of guards of one transaction.
    pub const MOST: usize = 64;
    /// Largest length of a claim, in bytes.
    pub const LONGEST_CLAIM: usize = 1 << 10;
    /// Largest total length of keys and claims, in bytes.
    pub const MOST_BYTES: usize = 64 << 10;

    /// Returns the guards of both lists. The operation is commutative.
    #[must_use]
    pub fn and(mut self, other: Guarded) -> Guarded {
        if self.0.is_empty() {
            return other;
        }
        self.0.extend(other.0);
        self.0.sort();
        self
    }

    /// Returns whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the guards in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter()
    }

    /// Returns the total length of all keys and claims, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|guard| guard.key.len() + guard.claim.len()).sum()
    }

    /// Returns whether the number and lengths of the guards are within the limits of a transaction.
    pub fn is_bounded(&self) -> bool {
        self.0.len() <= Guarded::MOST
            && self.0.iter().all(|guard| guard.claim.len() <= Guarded::LONGEST_CLAIM)
            && self.bytes() <= Guarded::MOST_BYTES
    }

    /// Returns whether the guards are in canonical order. Decoded guards need not be.
    pub fn is_canonical(&self) -> bool {
        self.0.is_sorted()
    }

    /// Returns the numbers of the protocols, in ascending order and without duplicates.
    pub fn protocols(&self) -> Vec<u8> {
        let mut protocols: Vec<u8> = self.0.iter().map(|guard| guard.protocol).collect();
        protocols.sort_unstable();
        protocols.dedup();
        protocols
    }

    /// Returns the guards of one protocol.
    #[must_use]
    pub fn of(&self, protocol: u8) -> Guarded {
        let guards = self.0.iter().filter(|guard| guard.protocol == protocol);
        Guarded(guards.cloned().collect())
    }
}

impl From<Guard> for Guarded {
    fn from(guard: Guard) -> Guarded {
        Guarded(vec![guard])
    }
}

impl FromIterator<Guard> for Guarded {
    fn from_iter<I: IntoIterator<Item = Guard>>(guards: I) -> Guarded {
        let mut guards: Vec<Guard> = guards.into_iter().collect();
        guards.sort();
        Guarded(guards)
    }
}

impl IntoIterator for Guarded {
    type Item = Guard;
    type IntoIter = std::vec::IntoIter<Guard>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Refusal {
    /// Largest length of a reason, in bytes.
    pub const LONGEST_REASON: usize = 256;

    /// Returns the refusal with a reason of at most [`LONGEST_REASON`](Self::LONGEST_REASON).
    #[must_use]
    pub fn shortened(mut self) -> Refusal {
        let mut end = self.reason.len().min(Refusal::LONGEST_REASON);
        while !self.reason.is_char_boundary(end) {
            end -= 1;
        }
        self.reason.truncate(end);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(key: &str, protocol: u8, claim: &str) -> Guard {
        Guard { key: key.into(), protocol, claim: claim.into() }
    }

    #[test]
    fn the_order_in_which_guards_are_added_makes_no_difference() {
        let all = [
            guard("b", 2, "1"),
            guard("a", 3, "1"),
            guard("a", 2, "2"),
            guard("a", 2, "1"),
            guard("b", 2, "1"),
        ];
        let sorted = Guarded::from_iter(all.clone());
        for turn in 0..all.len() {
            let mut turned = all.clone();
            turned.rotate_left(turn);
            let none = Guarded::default();
            let one_by_one =
                turned.iter().fold(none, |guards, guard| guards.and(guard.clone().into()));
            let (left, right) = turned.split_at(turn);
            let halves = Guarded::from_iter(right.to_vec()).and(left.iter().cloned().collect());
            assert_eq!((&one_by_one, &halves), (&sorted, &sorted));
            assert!(one_by_one.is_canonical());
        }
        // Two claims to one unit each are not the same as one claim.
        assert_eq!(sorted.iter().filter(|guard| **guard == all[0]).count(), 2);
        assert_eq!(sorted.protocols(), [2, 3]);
        assert_eq!(sorted.of(3), guard("a", 3, "1").into());
    }

    #[test]
    fn guards_beyond_the_limits_are_not_bounded() {
        let many = |count: usize| (0..count).map(|n| guard(&n.to_string(), 1, "")).collect();
        let claim = |length: usize| Guarded::from(guard("k", 1, &"c".repeat(length)));
        let key = |length: usize| Guarded::from(guard(&"k".repeat(length), 1, ""));
        for (guards, bounded) in [
            (many(Guarded::MOST), true),
            (many(Guarded::MOST + 1), false),
            (claim(Guarded::LONGEST_CLAIM), true),
            (claim(Guarded::LONGEST_CLAIM + 1), false),
            (key(Guarded::MOST_BYTES), true),
            (key(Guarded::MOST_BYTES + 1), false),
        ] {
            assert_eq!(guards.is_bounded(), bounded, "{} bytes", guards.bytes());
        }
    }

    #[test]
    fn guards_in_another_order_are_not_canonical() {
        let guards = Guarded(vec![guard("b", 1, ""), guard("a", 1, "")]);
        assert!(!guards.is_canonical());
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "ä".repeat(Refusal::LONGEST_REASON);
        let refusal = Refusal { key: vec![], protocol: 1, reason: format!("x{reason}") };
        let shortened = refusal.shortened().reason;
        assert_eq!(shortened.len(), Refusal::LONGEST_REASON - 1);
        assert!(shortened.ends_with('ä'));
    }
}
