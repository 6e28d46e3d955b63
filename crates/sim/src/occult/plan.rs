//! The operations of sessions that use Occult.

use std::collections::VecDeque;

use solera_checker::pcpsi::{Version, Write};
use solera_data::{Effect, Key, Op, Outcome, Value};

use super::OccultSessions;
use crate::queue::MS;
use crate::scenario::AT_ONE_SITE;

/// Number of keys of each kind.
const KEYS: u64 = 3;
/// Prefixes of the keys: keys that sessions may delete, keys that they do not delete, and keys that
/// have their home at one site.
pub(super) const KINDS: [&str; 3] = ["od", "ok", AT_ONE_SITE];

/// An operation, and the pause after it in nanoseconds.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) step: Step,
    pub(super) pause: u64,
}

/// An operation. Writes have numbers.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Get {
        key: Key,
        validates: bool,
    },
    Set(Key, u64),
    /// Writes the key if it is absent.
    SetNew(Key, u64),
    Delete(Key, u64),
}

impl Step {
    pub(super) fn key(&self) -> &Key {
        match self {
            Step::Get { key, .. }
            | Step::Set(key, _)
            | Step::SetNew(key, _)
            | Step::Delete(key, _) => key,
        }
    }

    pub(super) fn op(&self) -> Op {
        let value = |id: &u64| Value::from(id.to_string().as_str());
        match self {
            Step::Get { .. } => Op::Get,
            Step::Set(_, id) => Op::Set(value(id)),
            Step::SetNew(_, id) => Op::SetNew(value(id)),
            Step::Delete(..) => Op::Delete,
        }
    }

    pub(super) fn validates(&self) -> bool {
        matches!(self, Step::Get { validates: true, .. })
    }

    /// Returns the write, if it is one.
    pub(super) fn write(&self) -> Option<Write> {
        let (id, removes, overwrote) = match self {
            Step::Get { .. } => return None,
            Step::Set(_, id) => (*id, false, None),
            Step::SetNew(_, id) => (*id, false, Some(Version::Absent)),
            Step::Delete(_, id) => (*id, true, None),
        };
        Some(Write { key: name(self.key()), id, removes, stamp: None, overwrote })
    }

    /// Returns whether the operation has written, according to its answer.
    pub(super) fn has_written(&self, answer: &Outcome) -> bool {
        match self {
            Step::Get { .. } => false,
            Step::Set(..) => true,
            Step::SetNew(..) | Step::Delete(..) => *answer == Outcome::Int(1),
        }
    }

    /// Returns the version that the answer shows, if it shows one.
    pub(super) fn version(&self, answer: &Outcome) -> Option<Version> {
        match (self, answer) {
            (Step::Get { .. }, Outcome::Nil) => Some(Version::Absent),
            (Step::Get { .. }, Outcome::Bulk(value)) => number(value).map(Version::Of),
            // There was nothing to delete.
            (Step::Delete(..), Outcome::Int(0)) => Some(Version::Absent),
            _ => None,
        }
    }
}

pub(super) fn name(key: &Key) -> String {
    String::from_utf8_lossy(key.as_bytes()).into_owned()
}

/// Returns the number of the write that made a value.
fn number(value: &Value) -> Option<u64> {
    std::str::from_utf8(value.as_bytes()).ok()?.parse().ok()
}

/// Returns the number of the write that made an effect, if it assigns one.
pub(super) fn number_of(effect: &Effect) -> Option<u64> {
    number(effect.cell.assign.as_ref()?)
}

/// Returns all keys.
pub(super) fn keys() -> impl Iterator<Item = Key> {
    let of = |kind| (0..KEYS).map(move |number| Key::from(format!("{kind}{number}").as_str()));
    KINDS.into_iter().flat_map(of)
}

/// Returns whether sessions may delete a key.
pub(super) fn may_be_deleted(key: &Key) -> bool {
    key.starts_with(KINDS[0].as_bytes())
}

impl OccultSessions {
    pub(super) fn some_key(&mut self) -> Key {
        let kind = KINDS[self.random.below(KINDS.len())];
        Key::from(format!("{kind}{}", self.random.within(0, KEYS)).as_str())
    }

    pub(super) fn some_write(&mut self, key: Key) -> Step {
        self.ids += 1;
        let id = self.ids;
        match self.random.below(4) {
            0 if self.deletes && may_be_deleted(&key) => Step::Delete(key, id),
            1 if self.deletes && may_be_deleted(&key) => Step::SetNew(key, id),
            _ => Step::Set(key, id),
        }
    }

    /// Draws the operations of a transaction. In some transactions, the client waits between two
    /// operations for so long that other clients write, and all sites receive these writes.
    pub(super) fn some_plan(&mut self) -> VecDeque<Planned> {
        let longest = self.random.weighted(&[(50, MS), (35, 40 * MS), (15, 1_500 * MS)]);
        let mut plan = VecDeque::new();
        for _ in 0..self.random.within(2, 6) {
            let key = self.some_key();
            let mut add = |step, random: &mut crate::random::Random| {
                plan.push_back(Planned { step, pause: random.within(0, longest) });
            };
            if self.random.chance(35) {
                let step = self.some_write(key);
                add(step, &mut self.random);
                continue;
            }
            let validates = self.random.chance(15);
            add(Step::Get { key: key.clone(), validates }, &mut self.random);
            if self.random.chance(25) {
                let step = self.some_write(key);
                add(step, &mut self.random);
            }
        }
        plan
    }
}
