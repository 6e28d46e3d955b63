//! A guard that hands out units of an allocation: a fixed number for each key, at each worker that
//! owns it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use solera_machine::{Guarded, PromiseId, Refusal, Verdict, codec};

use crate::message::PROTOCOL;

/// A transaction's claim on a key's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Identifier of the claim, for checks.
    pub id: u64,
    /// Number of units; the guard rejects a claim of none.
    pub units: u32,
    /// Number of steps of the job that delays the guard's answer; without steps it answers at once.
    pub steps: u32,
}

/// Units of one key that a promise sets aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// The key.
    pub key: Vec<u8>,
    /// See [`Claim::id`].
    pub claim: u64,
    /// Number of units.
    pub units: u32,
}

/// The allocations of a worker. Units that are set aside or spent come back only when a transaction
/// aborts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocations {
    /// Units that open promises have set aside.
    open: BTreeMap<PromiseId, Vec<SetAside>>,
    /// Units that committed transactions have spent: claims and their units, by key.
    spent: BTreeMap<Vec<u8>, Vec<(u64, u32)>>,
}

impl Claim {
    /// Encodes the claim.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::append(self, &mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Claim> {
        codec::take(bytes).filter(|(_, rest)| rest.is_empty()).map(|(claim, _)| claim)
    }
}

/// Returns the number of steps of the job that delays the guard's answer.
pub(crate) fn steps(guards: &Guarded) -> u32 {
    let claims = guards.iter().filter_map(|guard| Claim::decode(&guard.claim));
    claims.map(|claim| claim.steps).max().unwrap_or(0)
}

impl Allocations {
    /// Returns the transactions whose promises are open.
    pub fn open(&self) -> impl Iterator<Item = PromiseId> + '_ {
        self.open.keys().copied()
    }

    /// Returns the claims on a key that committed transactions have spent.
    pub fn spent(&self, key: &[u8]) -> BTreeSet<u64> {
        self.spent.get(key).into_iter().flatten().map(|(claim, _)| *claim).collect()
    }

    /// Returns the units to set aside for these guards, at most `limit` of each key, or the reason
    /// why the guard rejects them.
    pub(crate) fn judge(&self, limit: u32, guards: &Guarded) -> Result<Vec<SetAside>, Refusal> {
        let mut set_aside: Vec<SetAside> = Vec::new();
        for guard in guards.iter() {
            let refuse = |reason: String| {
                Err(Refusal { key: guard.key.clone(), protocol: PROTOCOL.number, reason })
            };
            let Some(claim) = Claim::decode(&guard.claim) else {
                return refuse("the claim cannot be read".into());
            };
            if claim.units == 0 {
                return refuse("the claim is of no units".into());
            }
            let same = set_aside.iter().filter(|it| it.key == guard.key);
            let own: u32 = same.map(|it| it.units).fold(0, u32::saturating_add);
            let left = limit.saturating_sub(self.taken(&guard.key)).saturating_sub(own);
            if claim.units > left {
                return refuse(format!("{} units are wanted and {left} are left", claim.units));
            }
            let (key, units) = (guard.key.clone(), claim.units);
            set_aside.push(SetAside { key, claim: claim.id, units });
        }
        Ok(set_aside)
    }

    /// Returns the number of units of a key that are set aside or spent.
    fn taken(&self, key: &[u8]) -> u32 {
        let open = self.open.values().flatten().filter(|it| it.key == key).map(|it| it.units);
        let spent = self.spent.get(key).into_iter().flatten().map(|(_, units)| *units);
        open.chain(spent).fold(0, u32::saturating_add)
    }

    pub(crate) fn is_open(&self, id: PromiseId) -> bool {
        self.open.contains_key(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.spent.is_empty()
    }

    pub(crate) fn promise(&mut self, id: PromiseId, set_aside: Vec<SetAside>) {
        self.open.insert(id, set_aside);
    }

    /// Ends a promise. Returns whether it was open.
    pub(crate) fn end(&mut self, id: PromiseId, committed: bool) -> bool {
        let Some(set_aside) = self.open.remove(&id) else { return false };
        for SetAside { key, claim, units } in set_aside.into_iter().filter(|_| committed) {
            self.spent.entry(key).or_default().push((claim, units));
        }
        true
    }
}

/// Returns the verdict on a request whose transaction has ended.
pub(crate) fn too_late(guards: &Guarded) -> Verdict {
    let key = guards.iter().next().map(|guard| guard.key.clone()).unwrap_or_default();
    let reason = "the transaction ended before the guard answered".into();
    Verdict::Refused(Refusal { key, protocol: PROTOCOL.number, reason })
}

#[cfg(test)]
mod tests {
    use solera_machine::Guard;

    use super::*;

    fn id(sequence: u64) -> PromiseId {
        PromiseId { coordinator: 0, sequence }
    }

    fn claims(key: &str, units: &[u32]) -> Guarded {
        let guard = |(id, units): (usize, &u32)| Guard {
            key: key.into(),
            protocol: PROTOCOL.number,
            claim: Claim { id: id as u64, units: *units, steps: 0 }.encode(),
        };
        units.iter().enumerate().map(guard).collect()
    }

    #[test]
    fn no_more_units_are_handed_out_than_there_are() {
        let mut allocations = Allocations::default();
        let refused = |allocations: &Allocations, units: &[u32]| {
            allocations.judge(4, &claims("k", units)).err().map(|refusal| refusal.reason)
        };
        assert_eq!(refused(&allocations, &[2, 3]).unwrap(), "3 units are wanted and 2 are left");
        let set_aside = allocations.judge(4, &claims("k", &[2, 1])).unwrap();
        allocations.promise(id(1), set_aside);
        assert_eq!(refused(&allocations, &[2]).unwrap(), "2 units are wanted and 1 are left");
        assert!(allocations.end(id(1), true) && !allocations.end(id(1), true));
        assert_eq!(refused(&allocations, &[2]).unwrap(), "2 units are wanted and 1 are left");
        let set_aside = allocations.judge(4, &claims("k", &[1])).unwrap();
        allocations.promise(id(2), set_aside);
        assert!(allocations.end(id(2), false));
        assert_eq!(refused(&allocations, &[1]), None);
        assert_eq!(refused(&allocations, &[0]).unwrap(), "the claim is of no units");
    }
}
