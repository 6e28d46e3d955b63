//! Keys, values and the replicated types, without anything of a protocol.
//!
//! A client issues an [`Op`] on one key. Where it executes, [`execute`] reads a [`View`] of the key
//! and yields an [`Outcome`] and, for an update, an [`Effect`]: what is replicated. Every replica
//! folds effects into its [`State`] in some order consistent with causality; all arrive at the same
//! state, whatever that order was. [`State::settle`] merges what is causally stable.

mod blob;
mod effect;
mod execute;
mod op;
mod operation;
mod part;
mod state;
mod view;

pub use blob::{Key, RESERVED, Value};
pub use effect::{CellChange, Context, Dot, Effect, HashChange, SetChange};
pub use execute::execute;
pub use op::{Op, OpError, Outcome, Type};
pub use operation::Operation;
pub use part::Part;
pub use state::State;
pub use view::View;
