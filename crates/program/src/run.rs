//! Runs phases deterministically, metered, without I/O.
//!
//! A [`Run`] executes one phase of a transaction. When it needs its store, it returns a [`Step`],
//! and continues with the answer. The same inputs and answers give the same steps everywhere.

mod args;
pub(crate) mod arithmetic;
pub(crate) mod builtins;
mod calls;
mod failure;
mod inputs;
mod machine;
mod slot;
mod type_check;

use std::sync::Arc;

pub use self::calls::{CustomCall, RemoteCall};
pub use self::failure::{Failure, FailureKind, FailureScope};
pub use self::inputs::{Limits, Names, Tapes};
pub use self::type_check::{TypeMismatch, check_type, spell};

use self::calls::Waiting;
use self::machine::{Machine, Stop};
use self::slot::Slot;
use crate::ir::{Code, Instr, Phase, Program, Reg, Transaction};
use crate::span::Span;
use crate::value::Value;

/// Maximum number of registers of all frames together, which bounds memory at any depth.
const STACK: usize = 1 << 20;

/// One phase of a transaction.
///
/// # Panics
/// Its methods may panic if the program was not accepted by [`verify`](crate::verify::verify).
#[derive(Debug)]
pub struct Run {
    program: Arc<Program>,
    transaction: usize,
    phase: usize,
    args: Vec<Value>,
    tapes: Tapes,
    names: Names,
    limits: Limits,
    machine: Machine,
    /// Registers of all frames, contiguous.
    stack: Vec<Slot>,
    /// Call stack; not empty while the phase runs.
    frames: Vec<Frame>,
    waiting: Option<Waiting>,
}

/// Next call of a phase to its store, or the end of the phase.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An operation on an object.
    Remote(RemoteCall),
    /// A custom operation.
    Custom(CustomCall),
    /// The phase ended.
    Finished(Finished),
    /// The phase failed.
    Failed(Failure),
}

/// Output of a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Values for later phases.
    pub tapes: Tapes,
    /// Result of the transaction, if this phase yields it.
    pub result: Option<Value>,
    /// Fuel that it used, in the units of [`Limits::fuel`].
    pub fuel: u64,
}

/// Error of a store instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object of the handle does not exist.
    Missing,
    /// The store rejects the operation, for this reason.
    Other(String),
}

/// Call frame of a function or phase.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// The function; `None` for the phase itself.
    function: Option<u32>,
    /// Index of the current instruction.
    at: usize,
    /// Index of its first register on the stack.
    base: usize,
    /// Register of the caller for its result.
    dst: Reg,
}

impl Run {
    /// Creates a run of a phase of a verified program. [`start`](Self::start) begins it.
    ///
    /// `tapes` contains at least the tapes that the phase takes.
    ///
    /// # Errors
    /// Fails if there is no such transaction or phase, or if the arguments do not have the
    /// parameters' types.
    #[expect(clippy::too_many_arguments, reason = "all that a phase runs with")]
    pub fn new(
        program: Arc<Program>,
        transaction: usize,
        phase: usize,
        args: Vec<Value>,
        tapes: Tapes,
        names: Names,
        limits: Limits,
    ) -> Result<Run, Failure> {
        let found = program.transactions.get(transaction);
        let code = found.and_then(|found| found.phases.get(phase));
        let (Some(found), Some(code)) = (found, code) else {
            let what = format!("there is no phase {phase} of transaction {transaction}");
            let place =
                FailureScope::Transaction(found.map_or("?".into(), |found| found.name.clone()));
            let kind = FailureKind::Malformed(what);
            return Err(Failure { kind, span: Span::default(), place });
        };
        check_args(&program, found, &args).map_err(|kind| Failure {
            kind,
            span: Span::default(),
            place: FailureScope::Transaction(found.name.clone()),
        })?;
        let machine = Machine::new((phase, code), &tapes, names.clone(), limits);
        Ok(Run {
            program,
            transaction,
            phase,
            args,
            tapes,
            names,
            limits,
            machine,
            stack: Vec::new(),
            frames: Vec::new(),
            waiting: None,
        })
    }

    /// Runs the phase from its beginning. After an abort, the phase can be restarted with the same
    /// inputs.
    pub fn start(&mut self) -> Step {
        let program = Arc::clone(&self.program);
        let phase = &program.transactions[self.transaction].phases[self.phase];
        let names = self.names.clone();
        self.machine = Machine::new((self.phase, phase), &self.tapes, names, self.limits);
        self.waiting = None;
        self.stack.clear();
        self.stack.extend(self.args.iter().cloned().map(Slot::shared));
        self.stack.resize_with(phase.code.registers as usize, Slot::default);
        self.frames.clear();
        self.frames.push(Frame { function: None, at: 0, base: 0, dst: 0 });
        self.run(&program, phase)
    }

    /// Continues with the answer to the last [`Step::Remote`] or [`Step::Custom`].
    ///
    /// # Panics
    /// Panics if no answer is awaited.
    pub fn resume(&mut self, answer: Result<Value, Refusal>) -> Step {
        let waiting = self.waiting.take().expect("an answer follows a call");
        let program = Arc::clone(&self.program);
        let phase = &program.transactions[self.transaction].phases[self.phase];
        match waiting.accept(&program, answer, &mut self.machine.meter) {
            Ok(slot) => {
                let frame = self.frames.last_mut().expect("a call is made by a frame");
                self.stack[frame.base + waiting.dst as usize] = slot;
                frame.at += 1;
                self.run(&program, phase)
            }
            Err(kind) => self.fail(&program, kind),
        }
    }

    /// Returns a failure of this kind at the current position, for a host that stops the run while
    /// an answer is awaited.
    pub fn stopped(&self, kind: FailureKind) -> Failure {
        self.failure(&self.program, kind)
    }

    fn run(&mut self, program: &Program, phase: &Phase) -> Step {
        let stepped = loop {
            match self.step(program, phase) {
                Ok(None) => {}
                Ok(Some(step)) => break Ok(step),
                Err(kind) => break Err(kind),
            }
        };
        stepped.unwrap_or_else(|kind| self.fail(program, kind))
    }

    /// Runs the top frame until a call or return.
    fn step(&mut self, program: &Program, phase: &Phase) -> Result<Option<Step>, FailureKind> {
        let frame = self.frames.last_mut().expect("the phase's frame stays until it ends");
        let code = frame.code(program, phase);
        let registers = &mut self.stack[frame.base..];
        match self.machine.run(program, phase, code, &mut frame.at, registers)? {
            Stop::End if frame.function.is_none() => self.finish(program, phase).map(Some),
            Stop::End => {
                self.leave(Slot::default());
                Ok(None)
            }
            Stop::Count => {
                // Includes the registers of callers, which stay in use until the callers return.
                self.machine.meter.count(self.stack.iter_mut())?;
                frame.at += 1;
                Ok(None)
            }
            Stop::At(Instr::Call(dst, function, args)) => {
                self.enter(program, *dst, *function, args)?;
                Ok(None)
            }
            Stop::At(Instr::Return(reg)) => {
                let result = std::mem::take(&mut registers[*reg as usize]);
                self.leave(result);
                Ok(None)
            }
            Stop::At(call) => {
                let span = code.spans[frame.at];
                let caller = calls::Caller { program, registers, span };
                let (step, waiting) = caller.call(call, &mut self.machine.meter)?;
                self.waiting = Some(waiting);
                Ok(Some(step))
            }
        }
    }

    fn enter(
        &mut self,
        program: &Program,
        dst: Reg,
        function: u32,
        args: &[Reg],
    ) -> Result<(), FailureKind> {
        let code = &program.functions[function as usize].code;
        let base = self.stack.len();
        let size = base + code.registers as usize;
        // The first frame belongs to the phase itself.
        if self.frames.len() > self.limits.depth as usize || size > STACK {
            return Err(FailureKind::Depth { limit: self.limits.depth });
        }
        self.machine.meter.elements(code.registers as usize)?;
        let caller = self.frames.last().expect("a call is made by a frame").base;
        for reg in args {
            let slot = self.stack[caller + *reg as usize].share();
            self.stack.push(slot);
        }
        self.stack.resize_with(size, Slot::default);
        self.frames.push(Frame { function: Some(function), at: 0, base, dst });
        Ok(())
    }

    fn leave(&mut self, result: Slot) {
        let left = self.frames.pop().expect("a function has a frame");
        self.stack.truncate(left.base);
        let frame = self.frames.last_mut().expect("a function is called by a frame");
        self.stack[frame.base + left.dst as usize] = result;
        frame.at += 1;
    }

    fn finish(&mut self, program: &Program, phase: &Phase) -> Result<Step, FailureKind> {
        let transaction = &program.transactions[self.transaction];
        let result = if transaction.result_phase as usize == self.phase {
            let mut slot = self.machine.result.take().unwrap_or_default();
            self.machine.meter.weigh(&mut slot)?;
            check_type(program, &slot.value, &transaction.result)
                .map_err(|mismatch| FailureKind::Malformed(format!("the result: {mismatch}")))?;
            Some(slot.value)
        } else {
            None
        };
        let tapes = self.machine.tapes(phase);
        Ok(Step::Finished(Finished { tapes, result, fuel: self.machine.meter.used() }))
    }

    fn fail(&self, program: &Program, kind: FailureKind) -> Step {
        Step::Failed(self.failure(program, kind))
    }

    fn failure(&self, program: &Program, kind: FailureKind) -> Failure {
        let transaction = &program.transactions[self.transaction];
        let frame = self.frames.last().expect("a failing phase has a frame");
        let code = frame.code(program, &transaction.phases[self.phase]);
        // After the last instruction, only the check of the result can fail.
        let span = code.spans.get(frame.at).or(code.spans.last()).copied().unwrap_or_default();
        let place = match frame.function {
            Some(function) => {
                FailureScope::Function(program.functions[function as usize].name.clone())
            }
            None => FailureScope::Transaction(transaction.name.clone()),
        };
        Failure { kind, span, place }
    }
}

impl Frame {
    fn code<'p>(&self, program: &'p Program, phase: &'p Phase) -> &'p Code {
        match self.function {
            Some(function) => &program.functions[function as usize].code,
            None => &phase.code,
        }
    }
}

fn check_args(
    program: &Program,
    transaction: &Transaction,
    args: &[Value],
) -> Result<(), FailureKind> {
    let (expected, found) = (transaction.params.len(), args.len());
    if expected != found {
        return Err(FailureKind::ArgumentCount { expected, found });
    }
    for ((name, ty), value) in transaction.params.iter().zip(args) {
        check_type(program, value, ty).map_err(|mismatch| match mismatch {
            TypeMismatch::Kind { expected, found } => {
                let whole = spell(program, ty);
                let found = type_check::found_instead(&whole, &expected, found);
                FailureKind::WrongArgument { name: name.clone(), expected: whole, found }
            }
            TypeMismatch::Store { handle, expected } => {
                FailureKind::WrongStore { handle, expected }
            }
            TypeMismatch::TooDeep => FailureKind::TooDeep,
        })?;
    }
    Ok(())
}
