//! Experimental: operations of a speculative space, whose keys are registers of `creek`.
//!
//! A [`Procedure`] is executed as a whole, at its place in the one order of the space, and may be
//! executed several times. What it returns and writes depends on nothing but its content and the
//! registers that it reads: limits, names of new objects and the caller's rights are parts of a
//! call, and no procedure reads a clock.
//!
//! A transaction of a module whose stores are all the space is one procedure. The module is
//! installed in a register before, and a call names the module's digest, so that a call depends on
//! the installation like on any other write. The interpreter of crate `program` executes the phases
//! one after another on a copy of the values that they use. If all succeed, the changed values are
//! written; otherwise the call returns a [`CallError`] and changes nothing.
//!
//! | module | subject |
//! |---|---|
//! | `procedure` | operations and their results |
//! | `space` | [`SpaceProcedures`], which executes them |
//! | `keys` | operations on keys, as commands and `MULTI` of Redis are |
//! | `value` | values of registers; positions of elements in lists |
//! | `call` | calls of transactions, with the keys that they may use |
//! | `module`, `library` | modules as registers, and a cache of decoded ones |
//! | `transaction` | execution of a call |
//! | `objects` | operations on objects, on copies of the values of their keys |
//! | `failure` | failures of calls |
//! | `shown` | results of calls, as clients see them |

mod call;
mod failure;
mod keys;
mod library;
mod module;
mod objects;
mod procedure;
mod shown;
mod space;
mod transaction;
mod value;

pub use call::{Call, Right, Scope};
pub use failure::CallError;
pub use module::{InvalidModule, Module, is_key};
pub use procedure::{Procedure, Returned};
pub use shown::Shown;
pub use space::SpaceProcedures;
pub use value::{KeyResult, KeyValue, next_element};
