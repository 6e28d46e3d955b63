//! Keys, values and the replicated types, independent of any protocol.
//!
//! A client issues an [`Op`] on one key. [`execute`] reads a [`View`] of the key and returns an
//! [`Outcome`] and, for an update, an [`Effect`], which is replicated. Every replica folds effects
//! into its [`State`] in some order consistent with causality. All replicas reach the same state,
//! whatever the order. [`State::settle`] merges effects that are causally stable.

mod blob;
mod effect;
mod execute;
mod fingerprint;
mod measure;
mod op;
mod operation;
mod part;
pub mod pattern;
mod stamp;
mod state;
mod view;

pub use blob::{BOUNDS, Key, RESERVED, Value};
pub use effect::{CellChange, Context, Dot, Effect, HashChange, SetChange};
pub use execute::execute;
pub use fingerprint::Fingerprint;
pub use measure::{Measure, Span};
pub use op::{Op, OpError, Outcome, Type};
pub use operation::Operation;
pub use part::Part;
pub use stamp::{is_stamp, stamp, time_of_stamp};
pub use state::State;
pub use view::View;
