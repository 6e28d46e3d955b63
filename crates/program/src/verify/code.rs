//! Verifies the instructions of a function or phase.

use super::{MAX_REGISTERS, check_store_id, check_struct};
use crate::ir::{Code, Instr, Phase, Program, Reg};
use crate::nesting::MAX_NESTING;
use crate::objects::signature;
use crate::operator::BinaryOp;
use crate::run::builtins::arity;
use crate::types::StoreId;
use crate::value::Value;

/// Context of instructions.
pub(super) enum Context<'a> {
    /// In a function.
    Function,
    /// In a phase.
    Phase {
        /// The phase.
        phase: &'a Phase,
        /// Whether it yields the transaction's result.
        yields: bool,
    },
}

pub(super) fn check(
    program: &Program,
    code: &Code,
    context: &Context<'_>,
    params: usize,
) -> Result<(), String> {
    if code.registers > MAX_REGISTERS {
        return Err(format!(
            "{} registers, but at most {MAX_REGISTERS} are allowed",
            code.registers
        ));
    }
    if params > code.registers as usize {
        return Err(format!("{params} parameters in {} registers", code.registers));
    }
    if code.spans.len() != code.instructions.len() {
        let (spans, instructions) = (code.spans.len(), code.instructions.len());
        return Err(format!("{spans} places for {instructions} instructions"));
    }
    code.constants.iter().try_for_each(|value| check_nesting(value, 0))?;
    let checker = Checker { program, code, context };
    for (index, instr) in code.instructions.iter().enumerate() {
        checker.instruction(instr).map_err(|what| format!("instruction {index}: {what}"))?;
    }
    Ok(())
}

fn check_nesting(value: &Value, level: u8) -> Result<(), String> {
    if level > MAX_NESTING {
        return Err(format!("a constant is nested more than {MAX_NESTING} deep"));
    }
    let inner = |value: &Value| check_nesting(value, level + 1);
    match value {
        Value::Option(value) => value.iter().try_for_each(|value| inner(value)),
        Value::List(values) | Value::Struct(values) => values.iter().try_for_each(inner),
        Value::Set(values) => values.iter().try_for_each(inner),
        Value::Map(entries) => {
            entries.iter().try_for_each(|(key, value)| inner(key).and_then(|()| inner(value)))
        }
        _ => Ok(()),
    }
}

struct Checker<'a> {
    program: &'a Program,
    code: &'a Code,
    context: &'a Context<'a>,
}

impl Checker<'_> {
    fn instruction(&self, instr: &Instr) -> Result<(), String> {
        match instr {
            Instr::Const(dst, index) => {
                self.registers(&[*dst])?;
                exists("constant", *index as usize, self.code.constants.len())
            }
            Instr::Move(dst, src) | Instr::Unary(_, dst, src) | Instr::Field(dst, src, _) => {
                self.registers(&[*dst, *src])
            }
            Instr::Binary(op, dst, a, b) => {
                if matches!(op, BinaryOp::And | BinaryOp::Or) {
                    return Err(format!("`{}` must be a jump", op.symbol()));
                }
                self.registers(&[*dst, *a, *b])
            }
            Instr::Builtin(builtin, dst, args) => {
                self.registers(&[*dst])?;
                self.operands(args, arity(*builtin))
            }
            Instr::List(dst, args) | Instr::Set(dst, args) => {
                self.registers(&[*dst])?;
                self.registers(args)
            }
            Instr::Map(dst, args) => {
                self.registers(&[*dst])?;
                self.operands(args, args.len() & !1)
            }
            Instr::Struct(dst, id, args) => {
                check_struct(self.program, *id)?;
                self.registers(&[*dst])?;
                self.operands(args, self.program.structs[usize::from(id.0)].fields.len())
            }
            Instr::WithField(dst, src, _, value) => self.registers(&[*dst, *src, *value]),
            Instr::Call(dst, function, args) => {
                let functions = &self.program.functions;
                exists("function", *function as usize, functions.len())?;
                self.registers(&[*dst])?;
                self.operands(args, functions[*function as usize].params as usize)
            }
            Instr::Handle(dst, store, key) => {
                check_store_id(self.program, *store)?;
                self.registers(&[*dst, *key])
            }
            Instr::Jump(to) => self.target(*to),
            Instr::JumpUnless(condition, to) => {
                self.registers(&[*condition])?;
                self.target(*to)
            }
            Instr::Return(src) => match self.context {
                Context::Function => self.registers(&[*src]),
                Context::Phase { .. } => Err("a phase does not return".to_owned()),
            },
            _ => match self.context {
                Context::Function => Err("a function has no effects".to_owned()),
                Context::Phase { phase, yields } => self.effect(instr, phase, *yields),
            },
        }
    }

    /// Checks that a phase uses only its own store, unless the transaction is not split.
    fn own_store(&self, store: StoreId, phase: &Phase) -> Result<(), String> {
        check_store_id(self.program, store)?;
        match phase.store {
            Some(own) if own != store => {
                Err("an operation of another store than the phase's".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks an instruction that is only allowed in phases.
    fn effect(&self, instr: &Instr, phase: &Phase, yields: bool) -> Result<(), String> {
        match instr {
            Instr::Remote { dst, store, op, object, handle, args } => {
                self.own_store(*store, phase)?;
                exists("object", *object as usize, self.program.objects.len())?;
                let object = &self.program.objects[*object as usize];
                let signature = signature(self.program, object, *store, *op)
                    .ok_or_else(|| format!("{op:?} is no operation of {object:?}"))?;
                check_mutates(op.mutates(), phase)?;
                self.registers(&[*dst, *handle])?;
                self.operands(args, signature.params.len())
            }
            Instr::Custom { dst, store, operation, args } => {
                self.own_store(*store, phase)?;
                let operations = &self.program.stores[usize::from(store.0)].operations;
                exists("operation", usize::from(*operation), operations.len())?;
                let operation = &operations[usize::from(*operation)];
                check_mutates(operation.mutates, phase)?;
                self.registers(&[*dst])?;
                self.operands(args, operation.params.len())
            }
            Instr::Fresh(dst, store) => {
                check_store_id(self.program, *store)?;
                self.registers(&[*dst])
            }
            Instr::Record(tape, src) => {
                phase.gives.binary_search(tape).map_err(|_| format!("tape {tape} is not given"))?;
                self.registers(&[*src])
            }
            Instr::Advance(tape, dst) => {
                phase.takes.binary_search(tape).map_err(|_| format!("tape {tape} is not taken"))?;
                self.registers(&[*dst])
            }
            Instr::Result(_) if !yields => Err("another phase yields the result".to_owned()),
            Instr::Result(src) | Instr::Abort(src) => self.registers(&[*src]),
            _ => Err("an instruction out of place".to_owned()),
        }
    }

    fn registers(&self, registers: &[Reg]) -> Result<(), String> {
        let count = self.code.registers;
        let missing = registers.iter().find(|reg| **reg >= count);
        missing.map_or(Ok(()), |reg| Err(format!("there is no register {reg} among {count}")))
    }

    fn operands(&self, args: &[Reg], count: usize) -> Result<(), String> {
        if args.len() != count {
            return Err(format!("{count} operands are needed, not {}", args.len()));
        }
        self.registers(args)
    }

    /// Checks a jump target. The index after the last instruction is the end of the code.
    fn target(&self, to: u32) -> Result<(), String> {
        exists("instruction", to as usize, self.code.instructions.len() + 1)
    }
}

fn exists(what: &str, index: usize, count: usize) -> Result<(), String> {
    if index < count { Ok(()) } else { Err(format!("there is no {what} {index}")) }
}

/// Checks that a phase writes only if it declares so. Hosts rely on this: phases that do not write
/// need no witnesses and may read for endorsement (MixT §6.2).
fn check_mutates(mutates: bool, phase: &Phase) -> Result<(), String> {
    if mutates && !phase.mutates {
        return Err("it writes, but the phase is declared as reading only".to_owned());
    }
    Ok(())
}
