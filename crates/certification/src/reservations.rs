//! Keys that a leader reserves for retries of aborted transactions, so that a client whose
//! transactions are always too late makes progress.
//!
//! Only progress depends on reservations. The leader votes on a transaction with a reservation as
//! on any other, and other transactions only wait for a limited time. Reservations end with the
//! leader's term.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use solera_data::Key;
use solera_time::{Monotonic, Vector};

use crate::claim::Claim;
use crate::payload::{GroupPayload, Kind};

/// Greatest number of transactions with reservations; the oldest have precedence.
const MOST: usize = 256;
/// Greatest number of reserved keys of each.
const MOST_KEYS: usize = 64;
/// Number of consecutive attempts that may keep a reservation although their snapshots do not cover
/// what the previous attempt lacked. Some sites make a change visible only after the next attempt
/// has started. With 0, the retries of their clients would lose the reservation each time.
const MOST_IN_VAIN: u8 = 1;

/// The reservations of a group.
#[derive(Debug)]
pub(crate) struct Reservations {
    /// Reservations by claim; the oldest first.
    held: BTreeMap<Claim, Held>,
    keys: HashMap<Key, SmallVec<[(Claim, Kind); 1]>, FixedState>,
}

#[derive(Debug)]
struct Held {
    keys: Vec<Key>,
    /// Vector that the snapshot of the next attempt must cover, if this one was aborted.
    lacks: Option<Vector>,
    /// Number of consecutive attempts whose snapshot did not cover what the previous one lacked.
    in_vain: u8,
    until: Monotonic,
}

impl Reservations {
    pub(crate) fn new() -> Self {
        Reservations { held: BTreeMap::new(), keys: HashMap::with_hasher(FixedState::with_seed(0)) }
    }

    /// Returns whether a transaction must wait for one with an older claim.
    pub(crate) fn goes_before<W>(&self, claim: Option<Claim>, payload: &GroupPayload<W>) -> bool {
        let precedes = |other: Claim| claim.is_none_or(|claim| other < claim);
        !self.held.is_empty()
            && payload.accesses.iter().any(|access| {
                let others = self.keys.get(&access.key).into_iter().flatten();
                others
                    .into_iter()
                    .any(|(other, kind)| precedes(*other) && kind.conflicts_with(access.kind))
            })
    }

    /// Reserves the keys of a transaction with a claim for another attempt, and notes what this
    /// attempt `lacks`, if anything. Returns whether the keys are reserved. They are not if too
    /// many attempts in a row lack what the previous one lacked, so that other transactions can
    /// proceed. The count then restarts.
    pub(crate) fn keep<W>(
        &mut self,
        claim: Claim,
        payload: &GroupPayload<W>,
        lacks: Option<Vector>,
        until: Monotonic,
    ) -> bool {
        let is_in_vain = |held: &Held| {
            lacks.is_some() && held.lacks.is_some_and(|before| !payload.snap_vec.covers(&before))
        };
        let before = self.release(claim);
        let in_vain = before.filter(is_in_vain).map_or(0, |held| held.in_vain + 1);
        if in_vain > MOST_IN_VAIN {
            return false;
        }
        if self.held.len() >= MOST {
            match self.held.last_key_value() {
                Some((youngest, _)) if claim < *youngest => self.release(*youngest),
                _ => return false,
            };
        }
        let accesses = &payload.accesses[..payload.accesses.len().min(MOST_KEYS)];
        for access in accesses {
            self.keys.entry_ref(&access.key).or_default().push((claim, access.kind));
        }
        let keys = accesses.iter().map(|access| access.key.clone()).collect();
        self.held.insert(claim, Held { keys, lacks, in_vain, until });
        true
    }

    /// Extends the reservation for the next attempt. Returns whether there is one.
    pub(crate) fn extend(&mut self, claim: Claim, until: Monotonic) -> bool {
        let held = self.held.get_mut(&claim);
        held.map(|held| held.until = until).is_some()
    }

    /// Ends the reservation of a transaction that has committed.
    pub(crate) fn end(&mut self, claim: Claim) {
        self.release(claim);
    }

    /// Ends reservations whose retry did not come in time.
    pub(crate) fn expire(&mut self, now: Monotonic) {
        let late = self.held.iter().filter(|(_, held)| held.until <= now);
        for claim in late.map(|(claim, _)| *claim).collect::<Vec<_>>() {
            self.release(claim);
        }
    }

    fn release(&mut self, claim: Claim) -> Option<Held> {
        let held = self.held.remove(&claim)?;
        for key in &held.keys {
            if let Some(claims) = self.keys.get_mut(key) {
                claims.retain(|(other, _)| *other != claim);
                if claims.is_empty() {
                    self.keys.remove(key);
                }
            }
        }
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use solera_machine::Address;
    use solera_time::{SiteId, Timestamp};

    use super::*;
    use crate::ids::{Serial, TransactionId};
    use crate::payload::Access;

    fn claim(since: u64) -> Claim {
        let coordinator = Address { site: SiteId(1), worker: 0 };
        let tid = TransactionId { coordinator, serial: Serial { run: 0, sequence: since } };
        Claim::new(Timestamp(since), tid, 0)
    }

    fn payload(strong: u64, keys: &[&str]) -> GroupPayload<()> {
        let mut snap_vec = Vector::zero(3);
        snap_vec.strong = Timestamp(strong);
        let access = |key: &&str| Access { key: Key::from(*key), update: true, kind: Kind::UPDATE };
        GroupPayload { snap_vec, accesses: keys.iter().map(access).collect(), writes: Vec::new() }
    }

    fn lacks(strong: u64) -> Option<Vector> {
        Some(payload(strong, &[]).snap_vec)
    }

    #[test]
    fn the_older_claim_has_priority_on_its_keys() {
        let mut reservations = Reservations::new();
        let wants = payload(5, &["a", "b"]);
        assert!(!reservations.goes_before(None, &wants));
        assert!(reservations.keep(claim(7), &payload(5, &["b"]), lacks(6), Monotonic(10)));
        assert!(reservations.goes_before(None, &wants));
        assert!(reservations.goes_before(Some(claim(8)), &wants));
        assert!(!reservations.goes_before(Some(claim(6)), &wants));
        assert!(!reservations.goes_before(Some(claim(7)), &wants), "it waits for itself");
        assert!(!reservations.goes_before(None, &payload(5, &["a"])));
        reservations.end(claim(7));
        assert!(!reservations.goes_before(None, &wants));
    }

    #[test]
    fn a_reservation_expires() {
        let mut reservations = Reservations::new();
        let wants = payload(5, &["a"]);
        reservations.keep(claim(7), &wants, lacks(6), Monotonic(10));
        reservations.extend(claim(7), Monotonic(20));
        reservations.expire(Monotonic(19));
        assert!(reservations.goes_before(None, &wants));
        reservations.expire(Monotonic(20));
        assert!(!reservations.goes_before(None, &wants));
        assert!(reservations.keys.is_empty());
    }

    #[test]
    fn a_retry_without_what_it_lacked_keeps_no_reservation() {
        let mut reservations = Reservations::new();
        reservations.keep(claim(7), &payload(5, &["a"]), lacks(6), Monotonic(10));
        assert!(reservations.keep(claim(7), &payload(6, &["a"]), lacks(8), Monotonic(10)));
        assert!(reservations.keep(claim(7), &payload(7, &["a"]), lacks(9), Monotonic(10)), "once");
        assert!(!reservations.keep(claim(7), &payload(8, &["a"]), lacks(9), Monotonic(10)));
        assert!(!reservations.goes_before(None, &payload(9, &["a"])));
    }

    #[test]
    fn only_attempts_in_a_row_are_in_vain_too_often() {
        let mut reservations = Reservations::new();
        for strong in [5, 7, 7, 10, 10, 13, 13] {
            let lacks = lacks(strong + 1);
            assert!(reservations.keep(claim(7), &payload(strong, &["a"]), lacks, Monotonic(10)));
        }
    }

    #[test]
    fn there_are_not_too_many_and_the_oldest_stay() {
        let mut reservations = Reservations::new();
        let names: Vec<String> = (0..MOST_KEYS + 10).map(|n| format!("k{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for since in 0..MOST as u64 + 10 {
            assert!(reservations.keep(
                claim(1000 - since),
                &payload(5, &names),
                None,
                Monotonic(1)
            ));
        }
        assert!(!reservations.keep(claim(1001), &payload(5, &["a"]), None, Monotonic(1)));
        assert_eq!((reservations.held.len(), reservations.keys.len()), (MOST, MOST_KEYS));
        assert_eq!(reservations.held.first_key_value().map(|(claim, _)| *claim), Some(claim(735)));
    }
}
