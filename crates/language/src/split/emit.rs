//! Generates the instructions of phases and functions.

use std::collections::BTreeMap;

use solera_program::ir::{self, Code, Instr, Reg};
use solera_program::span::Span;
use solera_program::types::Object;

use crate::check::Checkable;
use crate::flat::{Body, Compute, Step, StepKind, Var};

use super::Split;
use super::plan::{PhasePlan, Planned, as_it_is};

/// Generates the intermediate representation of a transaction.
pub(super) fn transaction(
    split: &Split,
    checkable: &Checkable,
    objects: &mut Vec<Object>,
) -> ir::Transaction {
    let phase = |(index, plan): (usize, &PhasePlan)| {
        let mut emit = Emit::new(&checkable.body, objects);
        emit.steps(&plan.steps);
        if let (true, Some(result)) = (index == split.result_phase, checkable.body.result) {
            let result = emit.reg(result);
            emit.instr(Instr::Result(result), checkable.head);
        }
        ir::Phase {
            store: plan.store,
            endorsing: plan.endorsing,
            mutates: plan.mutates,
            witnesses: plan.witnesses,
            takes: plan.takes.clone(),
            gives: plan.gives.clone(),
            code: emit.code,
        }
    };
    let phases = split.phases.iter().enumerate().map(phase).collect();
    let params = checkable.params.iter();
    ir::Transaction {
        name: checkable.name.as_str().into(),
        params: params.map(|(name, ty)| (name.as_str().into(), ty.clone())).collect(),
        result: checkable.result.clone(),
        phases,
        tapes: split.tapes.len() as u32,
        result_phase: split.result_phase as u32,
    }
}

/// Generates the intermediate representation of a function.
pub fn function(checkable: &Checkable, objects: &mut Vec<Object>) -> ir::Function {
    let mut emit = Emit::new(&checkable.body, objects);
    emit.steps(&as_it_is(&checkable.body.steps));
    ir::Function {
        name: checkable.name.as_str().into(),
        code: emit.code,
        params: checkable.params.len() as u32,
    }
}

struct Emit<'a> {
    code: Code,
    registers: BTreeMap<Var, Reg>,
    objects: &'a mut Vec<Object>,
}

impl<'a> Emit<'a> {
    /// Starts a code block whose first registers are the parameters.
    fn new(body: &Body, objects: &'a mut Vec<Object>) -> Emit<'a> {
        let registers = (0..body.params as u32).map(|param| (Var(param), param)).collect();
        let code = Code { registers: body.params as u32, ..Code::default() };
        Emit { code, registers, objects }
    }

    fn reg(&mut self, var: Var) -> Reg {
        let next = self.code.registers;
        let reg = *self.registers.entry(var).or_insert(next);
        if reg == next {
            self.code.registers += 1;
        }
        reg
    }

    fn regs(&mut self, vars: &[Var]) -> Vec<Reg> {
        vars.iter().map(|var| self.reg(*var)).collect()
    }

    fn instr(&mut self, instr: Instr, span: Span) {
        self.code.instructions.push(instr);
        self.code.spans.push(span);
    }

    fn here(&self) -> u32 {
        self.code.instructions.len() as u32
    }

    /// Emits a jump whose target is set later; returns its index.
    fn jump(&mut self, jump: Instr, span: Span) -> usize {
        self.instr(jump, span);
        self.code.instructions.len() - 1
    }

    /// Sets the target of a jump to the next instruction.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.code.instructions[jump] {
            Instr::Jump(to) | Instr::JumpUnless(_, to) => *to = here,
            other => unreachable!("{other:?} is no jump"),
        }
    }

    fn steps(&mut self, steps: &[Planned]) {
        for step in steps {
            match step {
                Planned::Do(step, tape) => {
                    self.step(step);
                    if let (Some(tape), Some(dst)) = (tape, step.dst()) {
                        let dst = self.reg(dst);
                        self.instr(Instr::Record(*tape, dst), step.span);
                    }
                }
                Planned::Advance(var, tape, span) => {
                    let reg = self.reg(*var);
                    self.instr(Instr::Advance(*tape, reg), *span);
                }
                Planned::If(condition, then, other, span) => {
                    let condition = self.reg(*condition);
                    let skip = self.jump(Instr::JumpUnless(condition, 0), *span);
                    self.steps(then);
                    if other.is_empty() {
                        self.land(skip);
                        continue;
                    }
                    let end = self.jump(Instr::Jump(0), *span);
                    self.land(skip);
                    self.steps(other);
                    self.land(end);
                }
                Planned::Loop { before, condition, body, span } => {
                    let start = self.here();
                    self.steps(before);
                    let condition = self.reg(*condition);
                    let leave = self.jump(Instr::JumpUnless(condition, 0), *span);
                    self.steps(body);
                    self.instr(Instr::Jump(start), *span);
                    self.land(leave);
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let instr = match &step.kind {
            StepKind::Set(dst, compute) => return self.compute(*dst, compute, step.span),
            StepKind::Remote(remote) => {
                let known = self.objects.iter().position(|other| *other == remote.object);
                let object = known.unwrap_or_else(|| {
                    self.objects.push(remote.object.clone());
                    self.objects.len() - 1
                });
                Instr::Remote {
                    dst: self.reg(remote.dst),
                    store: remote.store,
                    op: remote.op,
                    object: object as u32,
                    handle: self.reg(remote.handle),
                    args: self.regs(&remote.args),
                }
            }
            StepKind::Custom(custom) => Instr::Custom {
                dst: self.reg(custom.dst),
                store: custom.store,
                operation: custom.operation,
                args: self.regs(&custom.args),
            },
            StepKind::Fresh(dst, store) => Instr::Fresh(self.reg(*dst), *store),
            StepKind::Endorse(dst, _, src) => Instr::Move(self.reg(*dst), self.reg(*src)),
            StepKind::Return(src) => Instr::Return(self.reg(*src)),
            StepKind::Abort(src) => Instr::Abort(self.reg(*src)),
            StepKind::If(..) | StepKind::Loop { .. } => {
                unreachable!("branches and loops are planned as such")
            }
        };
        self.instr(instr, step.span);
    }

    fn compute(&mut self, dst: Var, compute: &Compute, span: Span) {
        let dst = self.reg(dst);
        let instr = match compute {
            Compute::Const(value) => {
                let known = self.code.constants.iter().position(|other| other == value);
                let index = known.unwrap_or_else(|| {
                    self.code.constants.push(value.clone());
                    self.code.constants.len() - 1
                });
                Instr::Const(dst, index as u32)
            }
            Compute::Copy(src) => Instr::Move(dst, self.reg(*src)),
            Compute::Unary(op, a) => Instr::Unary(*op, dst, self.reg(*a)),
            Compute::Binary(op, a, b) => Instr::Binary(*op, dst, self.reg(*a), self.reg(*b)),
            Compute::Builtin(builtin, args) => Instr::Builtin(*builtin, dst, self.regs(args)),
            Compute::List(args) => Instr::List(dst, self.regs(args)),
            Compute::Set(args) => Instr::Set(dst, self.regs(args)),
            Compute::Map(args) => Instr::Map(dst, self.regs(args)),
            Compute::Struct(id, args) => Instr::Struct(dst, *id, self.regs(args)),
            Compute::Field(src, field) => Instr::Field(dst, self.reg(*src), *field),
            Compute::WithField(src, field, value) => {
                Instr::WithField(dst, self.reg(*src), *field, self.reg(*value))
            }
            Compute::Call(function, args) => Instr::Call(dst, *function, self.regs(args)),
            Compute::Handle(store, key) => Instr::Handle(dst, *store, self.reg(*key)),
        };
        self.instr(instr, span);
    }
}
