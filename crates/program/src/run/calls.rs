//! What a phase asks of its store, and what it accepts as an answer.

use super::failure::{FailureKind, malformed};
use super::fits::{Misfit, fits, found_instead, leads_to, spell, spell_object};
use super::slot::{Meter, Slot};
use super::{Refusal, Step};
use crate::ir::{Instr, Program, Reg};
use crate::objects::{name, signature};
use crate::operation::ObjectOp;
use crate::span::Span;
use crate::types::{StoreId, Type};
use crate::value::{Handle, Value};

/// An operation on an object.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteCall {
    /// The store, which is the handle's.
    pub store: StoreId,
    /// What is done.
    pub op: ObjectOp,
    /// What the handle leads to, by its index in the program's objects.
    pub object: u32,
    /// Which object.
    pub handle: Handle,
    /// The arguments. They have the types that the operation takes.
    pub args: Vec<Value>,
    /// The type that the answer must have.
    pub result: Type,
    /// Where it stands in the source text.
    pub span: Span,
}

/// A custom operation of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomCall {
    /// The store.
    pub store: StoreId,
    /// The operation, by its index in the store's operations.
    pub operation: u16,
    /// The arguments. Where the parameter is dereferenced, it is a handle of this store.
    pub args: Vec<Value>,
    /// The type that the answer must have.
    pub result: Type,
    /// Where it stands in the source text.
    pub span: Span,
}

/// A call that is to be answered.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The register that the answer goes to.
    pub(super) dst: Reg,
    asked: Asked,
    result: Type,
}

#[derive(Debug)]
enum Asked {
    Remote { op: ObjectOp, object: u32, handle: Handle },
    Custom { store: StoreId, operation: u16 },
}

/// What an instruction that calls a store is run with.
pub(super) struct Caller<'a> {
    pub(super) program: &'a Program,
    pub(super) registers: &'a mut [Slot],
    pub(super) span: Span,
}

impl Caller<'_> {
    pub(super) fn call(
        mut self,
        instr: &Instr,
        meter: &mut Meter,
    ) -> Result<(Step, Waiting), FailureKind> {
        match instr {
            Instr::Remote { dst, store, op, object, handle, args } => {
                self.remote(*dst, *store, (*op, *object), *handle, args, meter)
            }
            Instr::Custom { dst, store, operation, args } => {
                self.custom(*dst, *store, *operation, args, meter)
            }
            _ => Err(FailureKind::Malformed("an instruction out of place".to_owned())),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one per operand of the instruction")]
    fn remote(
        &mut self,
        dst: Reg,
        store: StoreId,
        (op, object): (ObjectOp, u32),
        handle: Reg,
        args: &[Reg],
        meter: &mut Meter,
    ) -> Result<(Step, Waiting), FailureKind> {
        let kind = &self.program.objects[object as usize];
        let signature = signature(self.program, kind, store, op).ok_or_else(|| {
            let kind = spell_object(self.program, kind);
            FailureKind::Malformed(format!("{op:?} of {kind}"))
        })?;
        let handle = self.handle(handle, store)?;
        let mut values = Vec::with_capacity(args.len());
        for (reg, ty) in args.iter().zip(&signature.params) {
            values.push(self.argument(*reg, ty, meter)?);
        }
        let result = signature.result;
        let asked = Asked::Remote { op, object, handle: handle.clone() };
        let waiting = Waiting { dst, asked, result: result.clone() };
        let span = self.span;
        let call = RemoteCall { store, op, object, handle, args: values, result, span };
        Ok((Step::Remote(call), waiting))
    }

    fn custom(
        &mut self,
        dst: Reg,
        store: StoreId,
        index: u16,
        args: &[Reg],
        meter: &mut Meter,
    ) -> Result<(Step, Waiting), FailureKind> {
        let program = self.program;
        let operation = &program.stores[usize::from(store.0)].operations[usize::from(index)];
        let mut values = Vec::with_capacity(args.len());
        for (reg, param) in args.iter().zip(&operation.params) {
            values.push(if param.dereferenced {
                Value::Handle(self.handle(*reg, store)?)
            } else {
                self.argument(*reg, &param.ty, meter)?
            });
        }
        let result = operation.result.clone();
        let asked = Asked::Custom { store, operation: index };
        let waiting = Waiting { dst, asked, result: result.clone() };
        let call = CustomCall { store, operation: index, args: values, result, span: self.span };
        Ok((Step::Custom(call), waiting))
    }

    /// A handle of a store.
    fn handle(&self, reg: Reg, store: StoreId) -> Result<Handle, FailureKind> {
        match &self.registers[reg as usize].value {
            Value::Handle(handle) => {
                leads_to(self.program, handle, store).map_err(of_program)?;
                Ok(handle.clone())
            }
            other => Err(malformed("following a handle", other)),
        }
    }

    /// An argument as its type says: stores rely on it, and keep handles without the names of their
    /// stores.
    fn argument(&mut self, reg: Reg, ty: &Type, meter: &mut Meter) -> Result<Value, FailureKind> {
        let slot = &mut self.registers[reg as usize];
        let weight = meter.weigh(slot)?;
        meter.spend(u64::from(weight.size) / 64)?;
        fits(self.program, &slot.value, ty).map_err(of_program)?;
        Ok(slot.share().value)
    }
}

impl Waiting {
    /// The answer as a register's content, if it is one that the call may have.
    pub(super) fn accept(
        &self,
        program: &Program,
        answer: Result<Value, Refusal>,
        meter: &mut Meter,
    ) -> Result<Slot, FailureKind> {
        let value = answer.map_err(|refusal| self.refused(program, refusal))?;
        fits(program, &value, &self.result).map_err(|misfit| match misfit {
            Misfit::Store { handle, expected } => FailureKind::WrongStore { handle, expected },
            Misfit::TooDeep => FailureKind::TooDeep,
            Misfit::Kind { expected, found } => {
                let whole = spell(program, &self.result);
                let found = found_instead(&whole, &expected, found);
                let operation = self.operation(program);
                FailureKind::WrongAnswer { operation, expected: whole, found }
            }
        })?;
        let mut slot = Slot::shared(value);
        // It takes memory as what is made here does.
        let weight = meter.weigh(&mut slot)?;
        meter.bytes(weight.size as usize)?;
        Ok(slot)
    }

    fn refused(&self, program: &Program, refusal: Refusal) -> FailureKind {
        let operation = self.operation(program);
        match (refusal, &self.asked) {
            (Refusal::Missing, Asked::Remote { handle, .. }) => {
                FailureKind::NothingStored { operation, handle: handle.clone() }
            }
            (Refusal::Missing, Asked::Custom { .. }) => {
                FailureKind::Refused { operation, reason: "there is nothing".to_owned() }
            }
            (Refusal::Other(reason), _) => FailureKind::Refused { operation, reason },
        }
    }

    /// What was asked, in words.
    fn operation(&self, program: &Program) -> String {
        match &self.asked {
            Asked::Remote { op, object, .. } => {
                let kind = &program.objects[*object as usize];
                format!("`{}` of {}", name(program, kind, *op), spell_object(program, kind))
            }
            Asked::Custom { store, operation } => {
                let store = &program.stores[usize::from(store.0)];
                format!("`{}.{}`", store.name, store.operations[usize::from(*operation)].name)
            }
        }
    }
}

fn of_program(misfit: Misfit) -> FailureKind {
    match misfit {
        Misfit::Store { handle, expected } => FailureKind::WrongStore { handle, expected },
        Misfit::TooDeep => FailureKind::TooDeep,
        Misfit::Kind { .. } => FailureKind::Malformed(misfit.to_string()),
    }
}
