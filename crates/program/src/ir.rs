//! The intermediate representation, which the compiler generates and the interpreter runs. It is
//! plain data, so that a phase can be sent to the site of its store.

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

/// Version of the representation. Changes increment it, so that a phase never runs under different
/// rules.
pub const VERSION: u16 = 2;

/// A compiled module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The version of the representation.
    pub version: u16,
    /// Stores, by [`StoreId`].
    pub stores: Vec<Store>,
    /// Structs, by [`StructId`].
    pub structs: Vec<Struct>,
    /// Types of the objects of handles, each once; instructions refer to them by index.
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
    /// Built-in levels that are at least as strong: the store may be bound to a space with one of
    /// them.
    pub accepts: Vec<solera_levels::Level>,
    /// Whether its transactions are atomic. Stores weaker than causal do not guarantee this.
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
    /// Type of its result.
    pub result: Type,
    /// Whether it may change something.
    pub mutates: bool,
}

/// An argument of a custom operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationParam {
    /// Its name.
    pub name: Arc<str>,
    /// Its type; the type of the handle if it is dereferenced.
    pub ty: Type,
    /// Whether the value is a handle of this store, and the operation receives the object's value
    /// (MixT §3.1, note 1).
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
    /// Its code. The arguments are in the first registers.
    pub code: Code,
    /// Number of its arguments.
    pub params: u32,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// Its name.
    pub name: Arc<str>,
    /// Its parameters. In every phase they are in the first registers.
    pub params: Vec<(Arc<str>, Type)>,
    /// Type of its result.
    pub result: Type,
    /// Its phases, in the order in which they run. At least one.
    pub phases: Vec<Phase>,
    /// Number of variables that phases pass on, each on its own tape.
    pub tapes: u32,
    /// Index of the phase that yields the result.
    pub result_phase: u32,
}

/// A part of a transaction that uses one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The store. `None` if the phase only computes, or if the transaction is not split and may use
    /// any store.
    pub store: Option<StoreId>,
    /// Whether it reads values for endorsement. Such phases run first and must not write (MixT
    /// §6.2).
    pub endorsing: bool,
    /// Whether it may change its store.
    pub mutates: bool,
    /// Whether it writes witnesses for its changes, because the transaction also writes other
    /// atomic stores (MixT §4.5).
    pub witnesses: bool,
    /// Tapes that it reads, in ascending order.
    pub takes: Vec<u32>,
    /// Tapes that it writes, in ascending order.
    pub gives: Vec<u32>,
    /// Its code.
    pub code: Code,
}

impl Phase {
    /// Returns whether every execution uses its store at most once.
    pub fn calls_once(&self) -> bool {
        let code = &self.code.instructions;
        let calls = code
            .iter()
            .enumerate()
            .filter(|(_, instr)| matches!(instr, Instr::Remote { .. } | Instr::Custom { .. }));
        let calls: Vec<_> = calls.map(|(at, _)| at).collect();
        let [only] = calls[..] else { return calls.is_empty() };
        // A loop jumps from behind the instruction to before it.
        !code[only..].iter().any(|instr| match instr {
            Instr::Jump(to) | Instr::JumpUnless(_, to) => *to as usize <= only,
            _ => false,
        })
    }
}

/// Instructions for one frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// The instructions. Running past the last one ends the code.
    pub instructions: Vec<Instr>,
    /// Source span of each instruction.
    pub spans: Vec<Span>,
    /// Constants of the instructions.
    pub constants: Vec<Value>,
    /// Number of its registers. They hold `Unit` at first.
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
    /// `dst = map[key: value, …]`, with keys and values alternating.
    Map(Reg, Vec<Reg>),
    /// `dst = struct { args }`
    Struct(Reg, StructId, Vec<Reg>),
    /// `dst = src.field`
    Field(Reg, Reg, u16),
    /// `dst = src` with another value in one field.
    WithField(Reg, Reg, u16, Reg),
    /// `dst = function(args)`
    Call(Reg, u32, Vec<Reg>),
    /// Jumps to an instruction.
    Jump(u32),
    /// Jumps to an instruction if the register holds `false`.
    JumpUnless(Reg, u32),
    /// Returns a value from the function. Occurs only in functions.
    Return(Reg),
    /// Sets the transaction's result. Occurs only in phases.
    Result(Reg),
    /// Fails with a text; the transaction has no effect. Occurs only in phases.
    Abort(Reg),
    /// `dst = handle.op(args)`, at the store.
    Remote {
        /// Register for the result.
        dst: Reg,
        /// The object's store.
        store: StoreId,
        /// The operation.
        op: ObjectOp,
        /// Type of the object, by its index.
        object: u32,
        /// The handle.
        handle: Reg,
        /// The arguments.
        args: Vec<Reg>,
    },
    /// `dst = store.operation(args)`
    Custom {
        /// Register for the result.
        dst: Reg,
        /// The store.
        store: StoreId,
        /// The operation, by its index.
        operation: u16,
        /// The arguments.
        args: Vec<Reg>,
    },
    /// `dst =` a handle of a new object, with a unique name.
    Fresh(Reg, StoreId),
    /// Appends a value to a tape, for later phases.
    Record(u32, Reg),
    /// Takes the next value from a tape: the paper's `advance(x)`, after which the register is
    /// `peek(x)`.
    Advance(u32, Reg),
    /// `dst =` the handle of the object of a store whose key is in `src`. Fails if the key is not
    /// one that programs may use.
    Handle(Reg, StoreId, Reg),
}
