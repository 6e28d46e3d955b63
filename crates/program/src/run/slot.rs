//! Registers, and the sizes of their values.

use std::sync::Arc;

use super::failure::{FailureKind, malformed};
use super::inputs::Limits;
use crate::nesting::MAX_NESTING;
use crate::value::Value;

/// Size of a value without its parts, in bytes.
pub(super) const NODE: u32 = 16;

/// Size of a value in bytes, where shared parts count each time, and its nesting depth.
///
/// After a change in place, the depth may still be that of a removed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) size: u32,
    pub(super) depth: u8,
}

impl Weight {
    /// Weight of an empty value.
    pub(super) const EMPTY: Weight = Weight { size: NODE, depth: 0 };
}

/// A register.
///
/// Values that a loop builds must be changed in place, and whether a change copies must cost the
/// same fuel on every host. The register therefore records whether its value was created here and
/// has no other owner. The reference count does not show this, because the host may hold
/// references.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) value: Value,
    /// Whether this register is the only owner of the value's shared data.
    pub(super) owned: bool,
    /// Unknown if the size is 0.
    weight: Weight,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::scalar(Value::Unit)
    }
}

impl Slot {
    /// Creates a register with a value without parts or text.
    pub(super) fn scalar(value: Value) -> Slot {
        Slot { value, owned: false, weight: Weight::EMPTY }
    }

    /// Creates a register with a value that may have other owners.
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

    /// Creates a register with a new value of unknown weight.
    pub(super) fn made(value: Value) -> Slot {
        Slot { owned: true, ..Slot::shared(value) }
    }

    /// Creates a register with a new value of known weight.
    pub(super) fn weighing(value: Value, weight: Weight) -> Slot {
        Slot { value, owned: true, weight }
    }

    /// Copies the register. From now on the value has two owners.
    pub(super) fn share(&mut self) -> Slot {
        self.owned = false;
        Slot { value: self.value.clone(), owned: false, weight: self.weight }
    }

    /// Reduces the recorded size after parts were removed.
    pub(super) fn shrink(&mut self, by: u32) {
        self.weight.size = self.weight.size.saturating_sub(by).max(NODE);
    }

    /// Returns the elements of a list for a change. Copies them if they have other owners.
    pub(super) fn list_mut(&mut self, meter: &mut Meter) -> Result<&mut Vec<Value>, FailureKind> {
        let values = match &mut self.value {
            Value::List(values) => values,
            other => return Err(malformed("a method of lists", other)),
        };
        let elements = values.len();
        own(values, &mut self.owned, elements, meter)
    }
}

/// Returns the elements of a collection to change. Copying them costs `elements` if the collection
/// is not owned yet.
pub(super) fn own<'a, T: Clone>(
    values: &'a mut Arc<T>,
    owned: &mut bool,
    elements: usize,
    meter: &mut Meter,
) -> Result<&'a mut T, FailureKind> {
    if !*owned {
        meter.elements(elements)?;
        *owned = true;
    }
    Ok(Arc::make_mut(values))
}

fn leaf(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(NODE)
}

/// Maximum number of bytes that one unit of fuel can create; see [`Meter::bytes`].
const MADE_PER_UNIT: u64 = 256;

/// Divisor of the memory limit: the memory is counted each time the fuel used could have created
/// one such fraction.
const PARTS: u64 = 16;

/// Minimum fuel between two counts of the memory, however small the limit.
const MIN_BETWEEN: u64 = 1024;

/// Meters the fuel and the memory of a phase.
#[derive(Debug)]
pub(super) struct Meter {
    left: u64,
    /// The memory must be counted when the remaining fuel falls to this.
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

    /// Returns whether [`count`](Self::count) is due.
    #[inline]
    pub(super) fn count_is_due(&self) -> bool {
        self.left <= self.count_at
    }

    /// Checks that the values of all registers are not too large together.
    ///
    /// Maintaining a sum with each instruction would require the weight of each value, including
    /// parts that are only read. The fuel used bounds how much new data there can be, equally on
    /// every host.
    pub(super) fn count<'a>(
        &mut self,
        held: impl ExactSizeIterator<Item = &'a mut Slot>,
    ) -> Result<(), FailureKind> {
        // Most weights are known already.
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

    /// Charges for copying or creating `count` values.
    pub(super) fn elements(&mut self, count: usize) -> Result<(), FailureKind> {
        self.spend(count as u64 / 4)
    }

    /// Charges for copying `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Result<(), FailureKind> {
        self.spend(count as u64 / 256)
    }

    /// Charges for scanning `count` bytes.
    pub(super) fn scan(&mut self, count: usize) -> Result<(), FailureKind> {
        self.spend(count as u64 / 16)
    }

    /// Charges for comparing two values: at worst, to the end of the smaller one.
    pub(super) fn compare(&mut self, one: Weight, other: Weight) -> Result<(), FailureKind> {
        self.spend(u64::from(one.size.min(other.size)) / 64)
    }

    /// Charges for finding a key among `among` keys.
    pub(super) fn search(&mut self, among: usize, key: Weight) -> Result<(), FailureKind> {
        let comparisons = u64::from(among.checked_ilog2().unwrap_or(0)) + 1;
        self.spend(comparisons * (1 + u64::from(key.size) / 64) / 4)
    }

    /// Returns the weight of a register's value. Computing it costs fuel, once.
    pub(super) fn weigh(&mut self, slot: &mut Slot) -> Result<Weight, FailureKind> {
        if slot.weight.size == 0 {
            slot.weight = self.weigh_value(&slot.value)?;
        }
        Ok(slot.weight)
    }

    /// Returns the weight of a value outside the registers.
    pub(super) fn weigh_value(&mut self, value: &Value) -> Result<Weight, FailureKind> {
        let mut scale = Scale { size: 0, limit: self.limits.value_bytes.min(u64::from(u32::MAX)) };
        let depth = scale.add(value, 0).ok_or(FailureKind::TooDeep);
        self.spend(scale.size / 64)?;
        let weight = Weight { size: u32::try_from(scale.size).unwrap_or(u32::MAX), depth: depth? };
        self.check(weight)?;
        Ok(weight)
    }

    /// Adds the weight of new parts to a value.
    pub(super) fn grow(&mut self, slot: &mut Slot, by: Weight) -> Result<(), FailureKind> {
        let weight = self.weigh(slot)?;
        slot.weight = self.holding(weight, by)?;
        Ok(())
    }

    /// Returns the weight of a value that contains another one.
    pub(super) fn holding(&self, outer: Weight, inner: Weight) -> Result<Weight, FailureKind> {
        let weight = Weight {
            size: outer.size.saturating_add(inner.size),
            depth: outer.depth.max(inner.depth.saturating_add(1)),
        };
        self.check(weight)?;
        Ok(weight)
    }

    /// Checks that a text of `bytes` bytes is within the limit.
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

/// Measures a value, up to the maximum size.
struct Scale {
    size: u64,
    limit: u64,
}

impl Scale {
    /// Adds a value, and returns its depth; `None` if it is too deep or too large.
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
