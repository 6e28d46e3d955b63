//! Registers, and what their values weigh.

use std::sync::Arc;

use super::failure::{FailureKind, malformed};
use super::inputs::Limits;
use crate::nesting::MAX_NESTING;
use crate::value::Value;

/// What a value weighs without what it holds, in bytes.
pub(super) const NODE: u32 = 16;

/// The size of a value in bytes, everything in it counted as often as it is in it, and how deep it
/// is nested.
///
/// The depth of a value that was changed in place may be that of what it once held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) size: u32,
    pub(super) depth: u8,
}

impl Weight {
    /// Of a value that holds nothing yet.
    pub(super) const EMPTY: Weight = Weight { size: NODE, depth: 0 };
}

/// A register.
///
/// What a loop builds up must be changed in place, and whether a change copies must cost the same
/// fuel everywhere. So the register knows whether its value was made here and is held by nobody
/// else; the count of references may differ, as the host may hold some.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) value: Value,
    /// Whether nobody else refers to what the value shares.
    pub(super) owned: bool,
    /// Not known if the size is 0.
    weight: Weight,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::scalar(Value::Unit)
    }
}

impl Slot {
    /// A value that holds no others, and no text.
    pub(super) fn scalar(value: Value) -> Slot {
        Slot { value, owned: false, weight: Weight::EMPTY }
    }

    /// A value that others may refer to.
    pub(super) fn shared(value: Value) -> Slot {
        let size = match &value {
            Value::Unit | Value::Bool(_) | Value::Int(_) | Value::Float(_) => NODE,
            Value::String(text) => leaf(text.len()),
            Value::Bytes(bytes) => leaf(bytes.len()),
            Value::Handle(handle) => leaf(handle.store.len() + handle.key.len()),
            _ => 0,
        };
        Slot { value, owned: false, weight: Weight { size, depth: 0 } }
    }

    /// A value that was just made, and whose weight is to be found out.
    pub(super) fn made(value: Value) -> Slot {
        Slot { owned: true, ..Slot::shared(value) }
    }

    /// A value that was just made, and its weight.
    pub(super) fn weighing(value: Value, weight: Weight) -> Slot {
        Slot { value, owned: true, weight }
    }

    /// The value once more. From now on it is held twice.
    pub(super) fn share(&mut self) -> Slot {
        self.owned = false;
        Slot { value: self.value.clone(), owned: false, weight: self.weight }
    }

    /// Less is in it.
    pub(super) fn shrink(&mut self, by: u32) {
        self.weight.size = self.weight.size.saturating_sub(by).max(NODE);
    }

    /// The elements of a list, to be changed. Copies them if somebody else refers to them.
    pub(super) fn list_mut(&mut self, meter: &mut Meter) -> Result<&mut Vec<Value>, FailureKind> {
        let values = match &mut self.value {
            Value::List(values) => values,
            other => return Err(malformed("a method of lists", other)),
        };
        if !self.owned {
            meter.elements(values.len())?;
            self.owned = true;
        }
        Ok(Arc::make_mut(values))
    }
}

fn leaf(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(NODE)
}

/// How many bytes a unit of fuel can make, at most: as of [`Meter::bytes`].
const MADE_PER_UNIT: u64 = 256;

/// Into how many parts what may be held is divided: what is held is counted each time so much fuel
/// is used as can make one of them.
const PARTS: u64 = 16;

/// How much fuel is used between two counts at least, however little may be held.
const MIN_BETWEEN: u64 = 1024;

/// Counts what a phase does.
#[derive(Debug)]
pub(super) struct Meter {
    left: u64,
    /// When no more than this is left, what is held is to be counted.
    count_at: u64,
    limits: Limits,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Meter {
        let mut meter = Meter { left: limits.fuel, count_at: 0, limits };
        meter.plan_count();
        meter
    }

    fn plan_count(&mut self) {
        let between = (self.limits.held_bytes / PARTS / MADE_PER_UNIT).max(MIN_BETWEEN);
        self.count_at = self.left.saturating_sub(between);
    }

    /// Whether [`count`](Self::count) is due.
    #[inline]
    pub(super) fn count_is_due(&self) -> bool {
        self.left <= self.count_at
    }

    /// Whether all that registers hold is not too large together.
    ///
    /// A sum that is kept up to date with each instruction would have to know what each value
    /// weighs, also of what is only looked at within another. Fuel tells as well how much there can
    /// be new, and the same amount everywhere.
    pub(super) fn count<'a>(
        &mut self,
        held: impl ExactSizeIterator<Item = &'a mut Slot>,
    ) -> Result<(), FailureKind> {
        // Most of them are known already.
        self.spend(held.len() as u64 / 16)?;
        let mut bytes = 0;
        for slot in held {
            bytes += u64::from(self.weigh(slot)?.size);
        }
        if bytes > self.limits.held_bytes {
            return Err(FailureKind::HeldTooLarge { limit: self.limits.held_bytes });
        }
        self.plan_count();
        Ok(())
    }

    pub(super) fn used(&self) -> u64 {
        self.limits.fuel - self.left
    }

    #[inline]
    pub(super) fn spend(&mut self, work: u64) -> Result<(), FailureKind> {
        match self.left.checked_sub(work) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(FailureKind::Fuel { limit: self.limits.fuel })
            }
        }
    }

    /// For copying or making so many values.
    pub(super) fn elements(&mut self, count: usize) -> Result<(), FailureKind> {
        self.spend(count as u64 / 4)
    }

    /// For copying so many bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Result<(), FailureKind> {
        self.spend(count as u64 / 256)
    }

    /// For looking at so many bytes one by one.
    pub(super) fn scan(&mut self, count: usize) -> Result<(), FailureKind> {
        self.spend(count as u64 / 16)
    }

    /// For comparing two values: to the end of the smaller one, at worst.
    pub(super) fn compare(&mut self, one: Weight, other: Weight) -> Result<(), FailureKind> {
        self.spend(u64::from(one.size.min(other.size)) / 64)
    }

    /// For finding a key among so many.
    pub(super) fn search(&mut self, among: usize, key: Weight) -> Result<(), FailureKind> {
        let comparisons = u64::from(among.checked_ilog2().unwrap_or(0)) + 1;
        self.spend(comparisons * (1 + u64::from(key.size) / 64) / 4)
    }

    /// What a value weighs. Finding it out costs fuel, once.
    pub(super) fn weigh(&mut self, slot: &mut Slot) -> Result<Weight, FailureKind> {
        if slot.weight.size == 0 {
            slot.weight = self.weigh_value(&slot.value)?;
        }
        Ok(slot.weight)
    }

    /// What a value weighs that is in no register.
    pub(super) fn weigh_value(&mut self, value: &Value) -> Result<Weight, FailureKind> {
        let mut scale = Scale { size: 0, limit: self.limits.value_bytes.min(u64::from(u32::MAX)) };
        let depth = scale.add(value, 0).ok_or(FailureKind::TooDeep);
        self.spend(scale.size / 64)?;
        let weight = Weight { size: u32::try_from(scale.size).unwrap_or(u32::MAX), depth: depth? };
        self.check(weight)?;
        Ok(weight)
    }

    /// More is in a value.
    pub(super) fn grow(&mut self, slot: &mut Slot, by: Weight) -> Result<(), FailureKind> {
        let weight = self.weigh(slot)?;
        slot.weight = self.holding(weight, by)?;
        Ok(())
    }

    /// The weight of a value with another one in it.
    pub(super) fn holding(&self, outer: Weight, inner: Weight) -> Result<Weight, FailureKind> {
        let weight = Weight {
            size: outer.size.saturating_add(inner.size),
            depth: outer.depth.max(inner.depth.saturating_add(1)),
        };
        self.check(weight)?;
        Ok(weight)
    }

    /// Whether there may be a text of so many bytes.
    pub(super) fn room(&self, bytes: usize) -> Result<(), FailureKind> {
        self.check(Weight { size: leaf(bytes), depth: 0 })
    }

    fn check(&self, weight: Weight) -> Result<(), FailureKind> {
        if u64::from(weight.size) > self.limits.value_bytes || weight.size == u32::MAX {
            return Err(FailureKind::TooLarge { limit: self.limits.value_bytes });
        }
        if weight.depth > MAX_NESTING {
            return Err(FailureKind::TooDeep);
        }
        Ok(())
    }
}

/// Adds up a value, no further than what is too large anyway.
struct Scale {
    size: u64,
    limit: u64,
}

impl Scale {
    /// How deep the value is nested; none if that is too deep.
    fn add(&mut self, value: &Value, level: u8) -> Option<u8> {
        if level > MAX_NESTING {
            return None;
        }
        let leaf = match value {
            Value::Unit | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Handle(handle) => handle.store.len() + handle.key.len(),
            _ => 0,
        };
        self.size += u64::from(NODE) + leaf as u64;
        match value {
            Value::Option(Some(of)) => self.all([&**of], level),
            Value::List(of) | Value::Struct(of) => self.all(of.iter(), level),
            Value::Set(of) => self.all(of.iter(), level),
            Value::Map(of) => self.all(of.iter().flat_map(|(key, value)| [key, value]), level),
            _ => Some(0),
        }
    }

    fn all<'a>(&mut self, of: impl IntoIterator<Item = &'a Value>, level: u8) -> Option<u8> {
        let mut depth = 0;
        for value in of {
            if self.size > self.limit {
                break;
            }
            depth = depth.max(self.add(value, level + 1)? + 1);
        }
        Some(depth)
    }
}
