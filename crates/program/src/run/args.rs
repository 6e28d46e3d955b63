//! Operands of an instruction.

use super::failure::FailureKind;
use super::slot::{Meter, Slot, Weight};
use crate::ir::Reg;
use crate::value::Value;

/// Registers of a frame, with those that an instruction reads and the one that it writes.
pub(super) struct Args<'a> {
    pub(super) registers: &'a mut [Slot],
    pub(super) dst: Reg,
    pub(super) args: &'a [Reg],
}

impl Args<'_> {
    pub(super) fn value(&self, index: usize) -> &Value {
        &self.registers[self.args[index] as usize].value
    }

    pub(super) fn weigh(&mut self, index: usize, meter: &mut Meter) -> Result<Weight, FailureKind> {
        meter.weigh(&mut self.registers[self.args[index] as usize])
    }

    /// Returns an operand that another value will share.
    pub(super) fn share(&mut self, index: usize) -> Slot {
        self.registers[self.args[index] as usize].share()
    }

    /// Returns an operand that will be changed. If the result goes to the same register, the
    /// operand is moved out of it, so that it can be changed in place.
    pub(super) fn take(&mut self, index: usize) -> Slot {
        let replaced = self.args[index] == self.dst;
        let once = self.args.iter().filter(|reg| **reg == self.dst).count() == 1;
        let slot = &mut self.registers[self.args[index] as usize];
        if replaced && once { std::mem::take(slot) } else { slot.share() }
    }
}
