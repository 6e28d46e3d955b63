//! Guards: what a transaction asks other protocols of its workers before it may prepare.
//!
//! A transaction names guards. Each worker that owns a guarded key asks the protocol that guards
//! the key, which runs in the same worker, whether the transaction may commit. A yes is a
//! *promise*, under the transaction's name; it ends when the worker tells the guard that the
//! transaction committed or aborted. `docs/decisions/0031-guards-of-prepare.md`.
//!
//! What a guard must do:
//! - It answers every question, in the end: the worker keeps what it has asked until then.
//! - It records a promise before it answers, and the end of one before it says that it knows.
//! - It may be told of an end several times, and of the end of what it never promised or has not
//!   answered yet. It gives no promise after the end.

use serde::{Deserialize, Serialize};

/// A protocol's consent that a transaction needs before it may commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Guard {
    /// The guarded key; the worker that owns it asks.
    pub key: Vec<u8>,
    /// The number of the protocol that guards it.
    pub protocol: u8,
    /// What the transaction wants of the guard, in an encoding of the guard's.
    pub claim: Vec<u8>,
}

/// The guards of a transaction, in the order of their keys, protocols and claims. Equal ones count
/// each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded(Vec<Guard>);

/// Names a transaction to the guards of its site, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PromiseId {
    /// The worker that coordinates the transaction.
    pub coordinator: u8,
    /// Counts the coordinator's transactions, over all runs.
    pub sequence: u64,
}

/// A guard's no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A key for which the guard refuses.
    pub key: Vec<u8>,
    /// The number of the guard's protocol.
    pub protocol: u8,
    /// Why, in words for people.
    pub reason: String,
}

/// A guard's answer to a transaction that wants to prepare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transaction may commit until the guard is told how it ended.
    Promised,
    /// It must not commit. The guard keeps nothing of it.
    Refused(Refusal),
}

/// What a participant of a transaction asks a guard of its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardQuestion {
    /// May the transaction commit, as far as all these guards of the protocol are concerned?
    Promise {
        /// The transaction.
        id: PromiseId,
        /// The protocol's guards at this worker.
        guards: Guarded,
    },
    /// The transaction ended, and with it all that was promised to it.
    End {
        /// The transaction.
        id: PromiseId,
        /// Whether it committed.
        committed: bool,
    },
}

/// What a guard answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardAnswer {
    /// To [`GuardQuestion::Promise`].
    Verdict(Verdict),
    /// To [`GuardQuestion::End`]: the guard knows, and its record of that comes before this answer.
    Ended,
}

impl Guarded {
    /// The most guards of one transaction.
    pub const MOST: usize = 64;
    /// The longest claim in bytes.
    pub const LONGEST_CLAIM: usize = 1 << 10;
    /// The most bytes of keys and claims.
    pub const MOST_BYTES: usize = 64 << 10;

    /// Returns the guards of both. It makes no difference which come first.
    #[must_use]
    pub fn and(mut self, other: Guarded) -> Guarded {
        if self.0.is_empty() {
            return other;
        }
        self.0.extend(other.0);
        self.0.sort();
        self
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the guards in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter()
    }

    /// Returns the length of all keys and claims.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|guard| guard.key.len() + guard.claim.len()).sum()
    }

    /// Returns whether there are no more guards, and no longer ones, than a transaction may name.
    pub fn is_bounded(&self) -> bool {
        self.0.len() <= Guarded::MOST
            && self.0.iter().all(|guard| guard.claim.len() <= Guarded::LONGEST_CLAIM)
            && self.bytes() <= Guarded::MOST_BYTES
    }

    /// Returns whether the guards are in their order, which those that come from a wire need not
    /// be.
    pub fn is_canonical(&self) -> bool {
        self.0.is_sorted()
    }

    /// Returns the numbers of the protocols, in their order and each once.
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
    /// The longest reason in bytes.
    pub const LONGEST_REASON: usize = 256;

    /// Returns the refusal with a reason that is no longer than that.
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
    fn the_order_in_which_guards_are_named_makes_no_difference() {
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
        // Two claims of one unit are no claim of one unit.
        assert_eq!(sorted.iter().filter(|guard| **guard == all[0]).count(), 2);
        assert_eq!(sorted.protocols(), [2, 3]);
        assert_eq!(sorted.of(3), guard("a", 3, "1").into());
    }

    #[test]
    fn what_is_too_much_is_not_bounded() {
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
