//! Executes instructions that need neither another frame nor a store.

use std::sync::Arc;

use super::args::Args;
use super::arithmetic::{binary, integers, unary};
use super::builtins;
use super::failure::{FailureKind, malformed};
use super::inputs::{Limits, Names, Reader, Tapes};
use super::slot::{Meter, Slot, Weight};
use crate::ir::{Code, Instr, Phase, Program, Reg};
use crate::value::{Handle, Value, is_usable_key};

/// Reason why a frame stops running.
pub(super) enum Stop<'p> {
    /// The next instruction needs another frame or a store.
    At(&'p Instr),
    /// The memory of all frames must be counted before the next instruction.
    Count,
    /// There are no more instructions.
    End,
}

/// State that all frames of a phase share.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) meter: Meter,
    names: Names,
    phase: usize,
    /// Number of names generated so far.
    fresh: u32,
    /// Tapes that the phase takes, in the order of its list.
    taken: Vec<Reader>,
    /// Tapes that the phase writes, in the order of its list.
    given: Vec<Vec<Value>>,
    /// Size of the written tapes in bytes.
    given_bytes: u64,
    tape_bytes: u64,
    pub(super) result: Option<Slot>,
}

impl Machine {
    pub(super) fn new(
        (number, phase): (usize, &Phase),
        tapes: &Tapes,
        names: Names,
        limits: Limits,
    ) -> Machine {
        Machine {
            meter: Meter::new(limits),
            names,
            phase: number,
            fresh: 0,
            taken: phase.takes.iter().map(|tape| tapes.reader(*tape)).collect(),
            given: phase.gives.iter().map(|_| Vec::new()).collect(),
            given_bytes: 0,
            tape_bytes: limits.tape_bytes,
            result: None,
        }
    }

    /// Runs up to an instruction that the caller must handle, to the end of the code, or until the
    /// memory must be counted. `at` is the position reached, even on failure.
    pub(super) fn run<'p>(
        &mut self,
        program: &'p Program,
        phase: &Phase,
        code: &'p Code,
        at: &mut usize,
        registers: &mut [Slot],
    ) -> Result<Stop<'p>, FailureKind> {
        while let Some(instr) = code.instructions.get(*at) {
            self.meter.spend(1)?;
            match instr {
                Instr::Const(dst, index) => {
                    registers[*dst as usize] =
                        Slot::shared(code.constants[*index as usize].clone());
                }
                Instr::Move(dst, src) => {
                    if dst != src {
                        registers[*dst as usize] = registers[*src as usize].share();
                    }
                }
                Instr::Binary(op, dst, a, b) => {
                    let (x, y) = (&registers[*a as usize].value, &registers[*b as usize].value);
                    registers[*dst as usize] = match (x, y) {
                        (Value::Int(x), Value::Int(y)) => Slot::scalar(integers(*op, *x, *y)?),
                        _ => {
                            let args = Args { registers, dst: *dst, args: &[*a, *b] };
                            binary(*op, args, &mut self.meter)?
                        }
                    };
                }
                Instr::Jump(to) => {
                    *at = *to as usize;
                    continue;
                }
                Instr::JumpUnless(condition, to) => match &registers[*condition as usize].value {
                    Value::Bool(true) => {}
                    Value::Bool(false) => {
                        *at = *to as usize;
                        continue;
                    }
                    other => return Err(malformed("a decision", other)),
                },
                Instr::Builtin(builtin, dst, args) => {
                    let args = Args { registers, dst: *dst, args };
                    let made = builtins::evaluate(*builtin, args, &mut self.meter)?;
                    registers[*dst as usize] = made;
                }
                Instr::Call(..)
                | Instr::Return(_)
                | Instr::Remote { .. }
                | Instr::Custom { .. } => {
                    return Ok(Stop::At(instr));
                }
                other => self.less_often(program, phase, other, registers)?,
            }
            if self.meter.count_is_due() {
                return Ok(Stop::Count);
            }
            *at += 1;
        }
        Ok(Stop::End)
    }

    fn less_often(
        &mut self,
        program: &Program,
        phase: &Phase,
        instr: &Instr,
        registers: &mut [Slot],
    ) -> Result<(), FailureKind> {
        let (dst, made) = match instr {
            Instr::Unary(op, dst, a) => (*dst, unary(*op, &registers[*a as usize].value)?),
            Instr::List(dst, args) => (*dst, self.collect(registers, args, Value::list)?),
            Instr::Struct(dst, _, args) => {
                let fields = |values: Vec<Value>| Value::Struct(Arc::new(values));
                (*dst, self.collect(registers, args, fields)?)
            }
            Instr::Set(dst, args) => {
                let set = |values: Vec<Value>| Value::Set(Arc::new(values.into_iter().collect()));
                (*dst, self.collect(registers, args, set)?)
            }
            Instr::Map(dst, args) => (*dst, self.collect(registers, args, entries)?),
            Instr::Field(dst, src, field) => {
                let value = &registers[*src as usize].value;
                let Value::Struct(fields) = value else {
                    return Err(malformed("reading a field", value));
                };
                let field = fields.get(usize::from(*field)).ok_or_else(no_field)?;
                (*dst, Slot::shared(field.clone()))
            }
            Instr::WithField(dst, src, field, value) => {
                let args = Args { registers, dst: *dst, args: &[*src, *value] };
                (*dst, self.with_field(args, usize::from(*field))?)
            }
            Instr::Fresh(dst, store) => {
                let store = Arc::clone(&program.stores[usize::from(store.0)].name);
                let key = self.names.name(self.phase, self.fresh);
                self.fresh += 1;
                (*dst, Slot::shared(Value::Handle(Handle { store, key })))
            }
            Instr::Handle(dst, store, key) => {
                let key = match &registers[*key as usize].value {
                    Value::String(key) => Arc::clone(key),
                    other => return Err(malformed("making a handle", other)),
                };
                if !is_usable_key(&key) {
                    return Err(FailureKind::InvalidKey { key });
                }
                let store = Arc::clone(&program.stores[usize::from(store.0)].name);
                (*dst, Slot::shared(Value::Handle(Handle { store, key })))
            }
            Instr::Advance(tape, dst) => {
                // The verifier guarantees that the list contains it.
                let index = phase.takes.binary_search(tape).map_err(|_| no_tape())?;
                let value = self.taken[index].advance();
                let value = value.ok_or(FailureKind::NotHandedOn { tape: *tape })?;
                (*dst, Slot::shared(value))
            }
            Instr::Record(tape, src) => {
                let index = phase.gives.binary_search(tape).map_err(|_| no_tape())?;
                return self.record(index, &mut registers[*src as usize]);
            }
            Instr::Result(src) => {
                self.result = Some(registers[*src as usize].share());
                return Ok(());
            }
            Instr::Abort(src) => {
                return Err(match &registers[*src as usize].value {
                    Value::String(text) => FailureKind::Aborted(text.to_string()),
                    other => malformed("aborting", other),
                });
            }
            _ => return Err(FailureKind::Malformed("an instruction out of place".to_owned())),
        };
        registers[dst as usize] = made;
        Ok(())
    }

    /// Creates a collection of other values.
    fn collect(
        &mut self,
        registers: &mut [Slot],
        args: &[Reg],
        make: impl FnOnce(Vec<Value>) -> Value,
    ) -> Result<Slot, FailureKind> {
        self.meter.spend(args.len() as u64)?;
        let mut weight = Weight::EMPTY;
        let mut values = Vec::with_capacity(args.len());
        for reg in args {
            let slot = &mut registers[*reg as usize];
            let by = self.meter.weigh(slot)?;
            weight = self.meter.holding(weight, by)?;
            values.push(slot.share().value);
        }
        // Sets and maps compare their elements.
        self.meter.spend(u64::from(weight.size) / 64)?;
        let value = make(values);
        // Duplicates in a set or map count once.
        Ok(match value {
            Value::Set(_) | Value::Map(_) => Slot::made(value),
            _ => Slot::weighing(value, weight),
        })
    }

    fn with_field(&mut self, mut args: Args<'_>, field: usize) -> Result<Slot, FailureKind> {
        let by = args.weigh(1, &mut self.meter)?;
        let value = args.share(1).value;
        let mut made = args.take(0);
        self.meter.weigh(&mut made)?;
        let fields = match &mut made.value {
            Value::Struct(fields) => fields,
            other => return Err(malformed("writing a field", other)),
        };
        if !made.owned {
            self.meter.elements(fields.len())?;
            made.owned = true;
        }
        let place = Arc::make_mut(fields).get_mut(field).ok_or_else(no_field)?;
        let old = std::mem::replace(place, value);
        made.shrink(self.meter.weigh_value(&old)?.size);
        self.meter.grow(&mut made, by)?;
        Ok(made)
    }

    fn record(&mut self, index: usize, slot: &mut Slot) -> Result<(), FailureKind> {
        let weight = self.meter.weigh(slot)?;
        self.given_bytes += u64::from(weight.size);
        if self.given_bytes > self.tape_bytes {
            return Err(FailureKind::TapesTooLarge { limit: self.tape_bytes });
        }
        self.given[index].push(slot.share().value);
        Ok(())
    }

    /// Returns the tapes that the phase wrote.
    pub(super) fn tapes(&mut self, phase: &Phase) -> Tapes {
        let mut tapes = Tapes::new();
        for (tape, values) in phase.gives.iter().zip(std::mem::take(&mut self.given)) {
            tapes.insert(*tape, values);
        }
        tapes
    }
}

fn entries(values: Vec<Value>) -> Value {
    let mut entries = std::collections::BTreeMap::new();
    let mut values = values.into_iter();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        entries.insert(key, value);
    }
    Value::Map(Arc::new(entries))
}

fn no_field() -> FailureKind {
    FailureKind::Malformed("a struct has no such field".to_owned())
}

fn no_tape() -> FailureKind {
    FailureKind::Malformed("a tape that the phase does not name".to_owned())
}
