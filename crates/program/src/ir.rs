//! The intermediate representation: what the compiler makes and the interpreter runs. Plain data,
//! so that a phase can be sent to where its store is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::builtin::Builtin;
use crate::operation::ObjectOp;
use crate::operator::{BinaryOp, UnaryOp};
use crate::span::Span;
use crate::types::{Object, StoreId, StructId, Type};
use crate::value::Value;

/// A register of a frame.
pub type Reg = u32;

/// Counts up when the representation changes, so that a phase is never run by another one's rules.
pub const VERSION: u16 = 1;

/// A compiled module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The version of the representation.
    pub version: u16,
    /// By [`StoreId`].
    pub stores: Vec<Store>,
    /// By [`StructId`].
    pub structs: Vec<Struct>,
    /// The objects that handles lead to, each once; instructions refer to them by index.
    pub objects: Vec<Object>,
    /// Functions without effects; instructions refer to them by index.
    pub functions: Vec<Function>,
    /// The transactions.
    pub transactions: Vec<Transaction>,
}

/// A store, as the module declares it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Store {
    /// Its name.
    pub name: Arc<str>,
    /// Its level's name.
    pub level: Arc<str>,
    /// The levels built into Solera that are at least as strong: what it may be bound to.
    pub accepts: Vec<solera_levels::Level>,
    /// Whether a transaction there takes effect as a whole. What is not at least causal does not
    /// promise it.
    pub atomic: bool,
    /// Its custom operations; instructions refer to them by index.
    pub operations: Vec<Operation>,
}

/// A custom operation of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name.
    pub name: Arc<str>,
    /// Its arguments.
    pub params: Vec<OperationParam>,
    /// What it answers.
    pub result: Type,
    /// Whether it may change something.
    pub mutates: bool,
}

/// An argument of a custom operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationParam {
    /// Its name.
    pub name: Arc<str>,
    /// Its type; of what is dereferenced, that of the handle.
    pub ty: Type,
    /// Whether the value is a handle of this store, and the operation gets what it holds (MixT
    /// §3.1, note 1).
    pub dereferenced: bool,
}

/// A struct.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Struct {
    /// Its name.
    pub name: Arc<str>,
    /// Its fields, in the order of their declaration.
    pub fields: Vec<(Arc<str>, Type)>,
}

/// A function without effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: Arc<str>,
    /// What it does. Its arguments are the first registers.
    pub code: Code,
    /// How many arguments it takes.
    pub params: u32,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// Its name.
    pub name: Arc<str>,
    /// Its parameters. In every phase they are the first registers.
    pub params: Vec<(Arc<str>, Type)>,
    /// What it returns.
    pub result: Type,
    /// Its phases, in the order in which they run. At least one.
    pub phases: Vec<Phase>,
    /// How many variables are handed from phase to phase, each by a tape of its own.
    pub tapes: u32,
    /// The phase that yields the result.
    pub result_phase: u32,
}

/// A part of a transaction that uses one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The store; none if it only computes, or if the transaction is not split, so that it uses
    /// any.
    pub store: Option<StoreId>,
    /// Whether it reads what is endorsed: it comes before all others, and must not write (MixT
    /// §6.2).
    pub endorsing: bool,
    /// Whether it may change its store.
    pub mutates: bool,
    /// Whether what it changes is marked by witnesses, as other atomic stores are written, too
    /// (MixT §4.5).
    pub witnesses: bool,
    /// The tapes it reads, in ascending order.
    pub takes: Vec<u32>,
    /// The tapes it writes, in ascending order.
    pub gives: Vec<u32>,
    /// What it does.
    pub code: Code,
}

impl Phase {
    /// Whether it uses its store once at most, whatever it reads.
    pub fn calls_once(&self) -> bool {
        let code = &self.code.instructions;
        let calls = code
            .iter()
            .enumerate()
            .filter(|(_, instr)| matches!(instr, Instr::Remote { .. } | Instr::Custom { .. }));
        let calls: Vec<_> = calls.map(|(at, _)| at).collect();
        let [only] = calls[..] else { return calls.is_empty() };
        // A loop goes back from behind it to where it comes again.
        !code[only..].iter().any(|instr| match instr {
            Instr::Jump(to) | Instr::JumpUnless(_, to) => *to as usize <= only,
            _ => false,
        })
    }
}

/// Instructions for one frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// The instructions; ends by running past the last.
    pub instructions: Vec<Instr>,
    /// Where each comes from; as many as there are instructions.
    pub spans: Vec<Span>,
    /// What instructions refer to as constants.
    pub constants: Vec<Value>,
    /// How many registers it needs. They hold `Unit` at first.
    pub registers: u32,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Instr {
    /// `dst = constants[index]`
    Const(Reg, u32),
    /// `dst = src`
    Move(Reg, Reg),
    /// `dst = op a`
    Unary(UnaryOp, Reg, Reg),
    /// `dst = a op b`; never `&&` or `||`, which are jumps.
    Binary(BinaryOp, Reg, Reg, Reg),
    /// `dst = builtin(args)`
    Builtin(Builtin, Reg, Vec<Reg>),
    /// `dst = [args]`
    List(Reg, Vec<Reg>),
    /// `dst = set[args]`
    Set(Reg, Vec<Reg>),
    /// `dst = map[key: value, …]`: keys and values by turns.
    Map(Reg, Vec<Reg>),
    /// `dst = struct { args }`
    Struct(Reg, StructId, Vec<Reg>),
    /// `dst = src.field`
    Field(Reg, Reg, u16),
    /// `dst = src` with another value in one field.
    WithField(Reg, Reg, u16, Reg),
    /// `dst = function(args)`
    Call(Reg, u32, Vec<Reg>),
    /// Goes to an instruction.
    Jump(u32),
    /// Goes to an instruction if the register holds `false`.
    JumpUnless(Reg, u32),
    /// Ends the function with a value. Only in functions.
    Return(Reg),
    /// Gives the transaction its result. Only in phases.
    Result(Reg),
    /// Fails with a text: the transaction has no effect. Only in phases.
    Abort(Reg),
    /// `dst = handle.op(args)`, at the store.
    Remote {
        /// Where the answer goes.
        dst: Reg,
        /// The object's store.
        store: StoreId,
        /// What is done.
        op: ObjectOp,
        /// What the handle leads to, by its index.
        object: u32,
        /// The handle.
        handle: Reg,
        /// The arguments.
        args: Vec<Reg>,
    },
    /// `dst = store.operation(args)`
    Custom {
        /// Where the answer goes.
        dst: Reg,
        /// The store.
        store: StoreId,
        /// The operation, by its index.
        operation: u16,
        /// The arguments.
        args: Vec<Reg>,
    },
    /// `dst =` a handle that leads to nothing yet, with a name that nobody else has.
    Fresh(Reg, StoreId),
    /// Keeps a value for later phases: appends it to a tape.
    Record(u32, Reg),
    /// Takes the next value from a tape: the paper's `advance(x)`, after which the register is
    /// `peek(x)`.
    Advance(u32, Reg),
}
