//! Calls of a phase to its store, and checks of the answers.

use super::failure::{FailureKind, malformed};
use super::slot::{Meter, Slot};
use super::type_check::{TypeMismatch, check_type, found_instead, leads_to, spell, spell_object};
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
    /// The store of the handle.
    pub store: StoreId,
    /// The operation.
    pub op: ObjectOp,
    /// Type of the object, by its index in the program's objects.
    pub object: u32,
    /// The object.
    pub handle: Handle,
    /// The arguments. They have the types of the operation's parameters.
    pub args: Vec<Value>,
    /// Required type of the answer.
    pub result: Type,
    /// Span in the source text.
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
    /// Required type of the answer.
    pub result: Type,
    /// Span in the source text.
    pub span: Span,
}

/// A call that awaits its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Register for the answer.
    pub(super) dst: Reg,
    asked: Asked,
    result: Type,
}

#[derive(Debug)]
enum Asked {
    Remote { op: ObjectOp, object: u32, handle: Handle },
    Custom { store: StoreId, operation: u16 },
}

/// Context of an instruction that calls a store.
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

    /// Returns the handle in a register; fails if it belongs to another store.
    fn handle(&self, reg: Reg, store: StoreId) -> Result<Handle, FailureKind> {
        match &self.registers[reg as usize].value {
            Value::Handle(handle) => {
                leads_to(self.program, handle, store).map_err(of_program)?;
                Ok(handle.clone())
            }
            other => Err(malformed("following a handle", other)),
        }
    }

    /// Returns an argument after checking its type. Stores rely on the check: they keep handles
    /// without the names of their stores.
    fn argument(&mut self, reg: Reg, ty: &Type, meter: &mut Meter) -> Result<Value, FailureKind> {
        let slot = &mut self.registers[reg as usize];
        let weight = meter.weigh(slot)?;
        meter.spend(u64::from(weight.size) / 64)?;
        check_type(self.program, &slot.value, ty).map_err(of_program)?;
        Ok(slot.share().value)
    }
}

impl Waiting {
    /// Checks an answer, and returns it as the content of a register.
    pub(super) fn accept(
        &self,
        program: &Program,
        answer: Result<Value, Refusal>,
        meter: &mut Meter,
    ) -> Result<Slot, FailureKind> {
        let value = answer.map_err(|refusal| self.refused(program, refusal))?;
        check_type(program, &value, &self.result).map_err(|mismatch| match mismatch {
            TypeMismatch::Store { handle, expected } => {
                FailureKind::WrongStore { handle, expected }
            }
            TypeMismatch::TooDeep => FailureKind::TooDeep,
            TypeMismatch::Kind { expected, found } => {
                let whole = spell(program, &self.result);
                let found = found_instead(&whole, &expected, found);
                let operation = self.operation(program);
                FailureKind::WrongAnswer { operation, expected: whole, found }
            }
        })?;
        let mut slot = Slot::shared(value);
        // An answer counts toward the memory limits like a computed value.
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
                FailureKind::Refused { operation, reason: "the object does not exist".to_owned() }
            }
            (Refusal::Other(reason), _) => FailureKind::Refused { operation, reason },
        }
    }

    /// Describes the call, for error messages.
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

fn of_program(mismatch: TypeMismatch) -> FailureKind {
    match mismatch {
        TypeMismatch::Store { handle, expected } => FailureKind::WrongStore { handle, expected },
        TypeMismatch::TooDeep => FailureKind::TooDeep,
        TypeMismatch::Kind { .. } => FailureKind::Malformed(mismatch.to_string()),
    }
}
