//! Transactions as functions of Rust: the code that [`mixt!`](crate::mixt) and
//! [`mixt_file!`](crate::mixt_file) generate uses this module.
//!
//! A program's stores are bound to [spaces](Space) and become a [`TypedSession`], which runs one
//! transaction at a time. Arguments and results are Rust values, converted by [`ToValue`] and
//! [`FromValue`]. The type of a [`Handle`] contains the kind of the object and its store. [`Error`]
//! describes how a transaction failed.
//!
//! # Values
//! | in the language | in Rust |
//! |---|---|
//! | `int`, `float`, `bool` | `i64`, `f64`, `bool` |
//! | `string`, `bytes` | `String`, `Vec<u8>` |
//! | `option<T>`, `list<T>` | `Option<T>`, `Vec<T>` |
//! | `set<T>`, `map<K, V>` | `BTreeSet<T>`, `BTreeMap<K, V>` |
//! | a struct | a struct; one that holds itself behind an option does so in a `Box` |
//! | `handle<counter> in mail` | `Handle<Counter, stores::mail>` |
//! | nothing | `()` |
//!
//! Arguments are borrowed, as `&str` or `&[T]`, except numbers and truth values.

mod convert;
mod error;
mod handle;
mod program;
mod session;

pub use convert::{FromValue, ToValue};
pub use error::{Error, Ticket};
pub use handle::{Counter, Handle, List, Log, Map, Register, RemoteList, Set, Store};
pub use program::Program;
#[doc(hidden)]
pub use program::{StoreAt, StructAt, compile, fields, structure};
pub use session::{Host, Space, TypedSession};
