//! The flattened language (MixT §5.1, Fig. 7): every step computes one value from variables. Types
//! are checked. Loops and branches remain, because transactions are split along them.
//!
//! The paper binds remote variables (`remote x = e`). Here, each use of remote data is a separate
//! step, with the handle in a variable.

mod coalesce;
mod failing;

pub use coalesce::coalesce;
pub use failing::{Failing, functions, or_calls};
use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::span::Span;
use solera_program::types::{Object, StoreId, StructId, Type};
use solera_program::value::Value;

use solera_levels::Label;

use crate::syntax::ast::{BinaryOp, UnaryOp};

/// Index of a variable in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub u32);

/// Properties of a variable.
#[derive(Clone, Debug)]
pub struct VarInfo {
    /// Its name in the source; `None` for a variable of the compiler.
    pub name: Option<String>,
    /// Its type.
    pub ty: Type,
    /// Span of its declaration, or of the expression whose value it holds.
    pub span: Span,
    /// Purpose of a variable without a name, for explanations. Empty for the value of an
    /// expression.
    pub purpose: &'static str,
    /// Level that its type states, with the span of the statement.
    pub stated: Option<(Label, Span)>,
}

/// The body of a function or transaction.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Its variables. Parameters come first.
    pub vars: Vec<VarInfo>,
    /// Number of parameters.
    pub params: usize,
    /// Steps of the body.
    pub steps: Vec<Step>,
    /// Variable that holds a transaction's result at the end.
    pub result: Option<Var>,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Kind of the step.
    pub kind: StepKind,
    /// Span of the source.
    pub span: Span,
}

/// Kinds of steps.
#[derive(Clone, Debug)]
pub enum StepKind {
    /// `dst = compute`
    Set(Var, Compute),
    /// `dst = handle.op(args)`
    Remote(Remote),
    /// `dst = store.operation(args)`
    Custom(Custom),
    /// `dst =` the handle of a new object.
    Fresh(Var, StoreId),
    /// `dst = endorse(level, src)`
    Endorse(Var, Label, Var),
    /// `if condition { … } else { … }`
    If(Var, Vec<Step>, Vec<Step>),
    /// `loop { before; if !condition { leave } body }`
    Loop {
        /// Steps that compute the condition.
        before: Vec<Step>,
        /// Variable that decides about another iteration.
        condition: Var,
        /// Steps of an iteration.
        body: Vec<Step>,
    },
    /// Ends a function. Transactions have no such steps: a `return` in a transaction is lowered to
    /// branches.
    Return(Var),
    /// The transaction fails with a text, and has no effect.
    Abort(Var),
}

/// An operation on an object.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Variable for the result.
    pub dst: Var,
    /// The object's store.
    pub store: StoreId,
    /// Type of the object.
    pub object: Object,
    /// The operation.
    pub op: ObjectOp,
    /// The handle.
    pub handle: Var,
    /// The arguments.
    pub args: Vec<Var>,
}

/// A custom operation of a store.
#[derive(Clone, Debug)]
pub struct Custom {
    /// Variable for the result.
    pub dst: Var,
    /// The store.
    pub store: StoreId,
    /// The operation, by its index.
    pub operation: u16,
    /// Whether it may change something.
    pub mutates: bool,
    /// The arguments.
    pub args: Vec<Var>,
}

/// A computation without effects.
#[derive(Clone, Debug)]
pub enum Compute {
    /// A literal.
    Const(Value),
    /// A copy of a variable.
    Copy(Var),
    /// `op a`
    Unary(UnaryOp, Var),
    /// `a op b`; never `&&` or `||`, which are branches.
    Binary(BinaryOp, Var, Var),
    /// `builtin(args)`
    Builtin(Builtin, Vec<Var>),
    /// `[args]`
    List(Vec<Var>),
    /// `set[args]`
    Set(Vec<Var>),
    /// `map[key: value, …]`, with keys and values alternating.
    Map(Vec<Var>),
    /// `struct { args }`
    Struct(StructId, Vec<Var>),
    /// `a.field`
    Field(Var, u16),
    /// `a` with another value in one field.
    WithField(Var, u16, Var),
    /// `function(args)`
    Call(u32, Vec<Var>),
    /// The handle of the object of a store with a key.
    Handle(StoreId, Var),
}

impl Compute {
    /// Returns the variables that it is computed from.
    pub fn inputs(&self) -> Vec<Var> {
        match self {
            Compute::Const(_) => Vec::new(),
            Compute::Copy(a)
            | Compute::Unary(_, a)
            | Compute::Field(a, _)
            | Compute::Handle(_, a) => vec![*a],
            Compute::Binary(_, a, b) | Compute::WithField(a, _, b) => vec![*a, *b],
            Compute::Builtin(_, args)
            | Compute::List(args)
            | Compute::Set(args)
            | Compute::Map(args)
            | Compute::Struct(_, args)
            | Compute::Call(_, args) => args.clone(),
        }
    }

    /// Returns whether it costs no more than reading its value from a tape, and cannot fail.
    pub fn is_cheap(&self) -> bool {
        match self {
            Compute::Const(_) | Compute::Copy(_) | Compute::Field(..) => true,
            Compute::Unary(op, _) => *op == UnaryOp::Not,
            _ => false,
        }
    }
}

/// Visits steps and their nested steps, like [`Body::each_step`].
fn each<'a>(steps: &'a [Step], visit: &mut impl FnMut(&'a Step)) {
    for step in steps {
        visit(step);
        match &step.kind {
            StepKind::If(_, then, other) => {
                each(then, visit);
                each(other, visit);
            }
            StepKind::Loop { before, body, .. } => {
                each(before, visit);
                each(body, visit);
            }
            _ => {}
        }
    }
}

impl Body {
    /// Visits all steps in the order of the text, branches and loops before their nested steps.
    pub fn each_step<'a>(&'a self, visit: &mut impl FnMut(&'a Step)) {
        each(&self.steps, visit);
    }

    /// Returns, for each variable, whether its only write precedes all its uses in the block that
    /// it belongs to. Then the conditions of the write also apply to each use.
    pub fn written_once(&self) -> Vec<bool> {
        let mut writes = vec![0u32; self.vars.len()];
        self.each_step(&mut |step| {
            step.dst().iter().for_each(|var| writes[var.0 as usize] += 1);
        });
        // The result is used at the end, wherever it was assigned.
        self.result.iter().for_each(|result| writes[result.0 as usize] += 1);
        writes.into_iter().map(|writes| writes == 1).collect()
    }
}

impl Step {
    /// Returns the store that it uses, if any.
    pub fn store(&self) -> Option<StoreId> {
        match &self.kind {
            StepKind::Remote(remote) => Some(remote.store),
            StepKind::Custom(custom) => Some(custom.store),
            _ => None,
        }
    }

    /// Returns whether it may change its store.
    pub fn mutates(&self) -> bool {
        match &self.kind {
            StepKind::Remote(remote) => remote.op.mutates(),
            StepKind::Custom(custom) => custom.mutates,
            _ => false,
        }
    }

    /// Returns the variable that it assigns, if any; ignores nested steps.
    pub fn dst(&self) -> Option<Var> {
        match &self.kind {
            StepKind::Set(dst, _) | StepKind::Fresh(dst, _) | StepKind::Endorse(dst, ..) => {
                Some(*dst)
            }
            StepKind::Remote(remote) => Some(remote.dst),
            StepKind::Custom(custom) => Some(custom.dst),
            StepKind::If(..) | StepKind::Loop { .. } | StepKind::Return(_) | StepKind::Abort(_) => {
                None
            }
        }
    }

    /// Returns the variables that it reads; ignores nested steps.
    pub fn inputs(&self) -> Vec<Var> {
        match &self.kind {
            StepKind::Set(_, compute) => compute.inputs(),
            StepKind::Remote(remote) => {
                let args = remote.args.iter().copied();
                std::iter::once(remote.handle).chain(args).collect()
            }
            StepKind::Custom(custom) => custom.args.clone(),
            StepKind::Fresh(..) => Vec::new(),
            StepKind::Endorse(_, _, src) | StepKind::Return(src) | StepKind::Abort(src) => {
                vec![*src]
            }
            StepKind::If(condition, ..) | StepKind::Loop { condition, .. } => vec![*condition],
        }
    }
}
