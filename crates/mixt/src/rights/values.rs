//! Possible values of registers.

use std::sync::Arc;

use solera_program::builtin::Builtin;
use solera_program::ir::{Code, Instr, Reg};
use solera_program::operator::BinaryOp;
use solera_program::types::StoreId;
use solera_program::value::{Handle, Value, is_usable_key};

use super::Analysis;

/// Maximum number of possible values of a register; with more, the register counts as unknown.
pub(super) const MOST: usize = 64;

/// Possible values of a register; `None` for any value.
pub(super) type Known = Option<Vec<Value>>;

fn held(registers: &[Known], reg: Reg) -> Known {
    registers[reg as usize].clone()
}

impl Analysis<'_> {
    /// Computes the register that an instruction sets.
    pub(super) fn set(&mut self, instr: &Instr, code: &Code, registers: &mut [Known]) {
        let (dst, value) = match instr {
            Instr::Const(dst, index) => {
                (*dst, code.constants.get(*index as usize).map(|value| vec![value.clone()]))
            }
            Instr::Move(dst, src) => (*dst, held(registers, *src)),
            Instr::Field(dst, src, field) => {
                let field = usize::from(*field);
                let values = held(registers, *src).map(|values| {
                    let fields = values.into_iter().map(|value| match value {
                        Value::Struct(fields) => fields.get(field).cloned(),
                        _ => None,
                    });
                    fields.collect::<Option<Vec<_>>>()
                });
                (*dst, values.flatten())
            }
            Instr::Builtin(builtin, dst, args) => {
                let first = args.first().and_then(|arg| held(registers, *arg));
                (*dst, first.and_then(|values| of_builtin(*builtin, values)))
            }
            Instr::Binary(op, dst, a, b) => {
                (*dst, of_operator(*op, held(registers, *a), held(registers, *b)))
            }
            Instr::Call(dst, function, args) => {
                let args = args.iter().map(|arg| held(registers, *arg)).collect();
                (*dst, self.call(*function, args))
            }
            Instr::Handle(dst, store, key) => (*dst, self.handles(*store, held(registers, *key))),
            Instr::Advance(tape, dst) => (*dst, self.of_tape(*tape)),
            Instr::Unary(_, dst, _)
            | Instr::List(dst, _)
            | Instr::Set(dst, _)
            | Instr::Map(dst, _)
            | Instr::Struct(dst, ..)
            | Instr::WithField(dst, ..)
            | Instr::Remote { dst, .. }
            | Instr::Custom { dst, .. }
            | Instr::Fresh(dst, _) => (*dst, None),
            Instr::Jump(_)
            | Instr::JumpUnless(..)
            | Instr::Return(_)
            | Instr::Result(_)
            | Instr::Abort(_)
            | Instr::Record(..) => return,
        };
        registers[dst as usize] = value.filter(|values| values.len() <= MOST);
    }

    /// Returns what an earlier phase has handed on; values that later phases will hand on are
    /// unknown.
    fn of_tape(&self, tape: u32) -> Known {
        let (state, _) = self.tapes.filter(|(_, unknown)| !unknown.contains(&tape))?;
        Some(state.tapes.get(tape).to_vec())
    }

    /// Returns the handles of possible keys. The program fails at keys that it may not use.
    fn handles(&self, store: StoreId, keys: Known) -> Known {
        let store = &self.program.stores.get(usize::from(store.0))?.name;
        let handle = |key: Value| match key {
            Value::String(key) => {
                let store = Arc::clone(store);
                is_usable_key(&key).then_some(Some(Value::Handle(Handle { store, key })))
            }
            _ => Some(None),
        };
        keys?.into_iter().filter_map(handle).collect()
    }
}

/// Returns the possible results of an operator: joined texts, and sums, which programs number
/// objects by.
fn of_operator(op: BinaryOp, one: Known, other: Known) -> Known {
    let (one, other) = (one?, other?);
    if op != BinaryOp::Add || one.len() * other.len() > MOST {
        return None;
    }
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let mut all = Vec::new();
    for pair in pairs {
        match pair {
            (Value::String(a), Value::String(b)) => all.push(Value::string(format!("{a}{b}"))),
            // The program fails if the sum overflows.
            (Value::Int(a), Value::Int(b)) => all.extend(a.checked_add(*b).map(Value::Int)),
            _ => return None,
        }
    }
    Some(all)
}

/// Returns the possible results of a function that returns a part of a collection, or a text.
fn of_builtin(builtin: Builtin, values: Vec<Value>) -> Known {
    match builtin {
        Builtin::Elements => {
            let lists = values.into_iter().map(|value| match value {
                Value::Map(of) => Value::list(of.keys().cloned()),
                other => other,
            });
            Some(lists.collect())
        }
        Builtin::Index => {
            let mut parts = Vec::new();
            for value in &values {
                match value {
                    Value::List(of) => parts.extend(of.iter().cloned()),
                    Value::Set(of) => parts.extend(of.iter().cloned()),
                    Value::Map(of) => parts.extend(of.values().cloned()),
                    _ => return None,
                }
                if parts.len() > MOST {
                    return None;
                }
            }
            Some(parts)
        }
        Builtin::OrFail => {
            let held = values.iter().map(|value| match value {
                Value::Option(Some(of)) => Some((**of).clone()),
                _ => None,
            });
            held.collect()
        }
        Builtin::ToString => {
            let texts = values.iter().map(|value| match value {
                Value::String(_) => Some(value.clone()),
                Value::Int(number) => Some(Value::string(number.to_string())),
                Value::Bool(truth) => Some(Value::string(truth.to_string())),
                Value::Handle(handle) => Some(Value::string(&handle.key)),
                _ => None,
            });
            texts.collect()
        }
        _ => None,
    }
}
