//! Runs mixed transactions (MixT §4–§5): executes the phases into which the compiler has split a
//! transaction, each over its own store, so that together they are one transaction.
//!
//! A [`Coordinator`](coordinator::Coordinator) runs one transaction as a state machine without I/O:
//! it returns requests to databases, and continues with the answers. [`executor::run`] executes the
//! requests on real databases, which implement the traits of [`store`]. [`memory`] is one of them,
//! and `conformance`, with the feature `testing`, contains the checks for their tests. [`collect`]
//! removes the garbage of transactions, and [`recovery`] completes those whose coordinators died.
//!
//! Where a database has a [`worker`], the coordinator sends it whole groups of phases, each of
//! which costs one round trip.
//!
//! [`coordinator`] describes what is guaranteed, and what is not.

mod access;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod any_bytes;
pub mod binding;
mod bound;
pub mod collect;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod coordinator;
mod delegate;
mod encoding;
pub mod executor;
mod group;
mod job;
pub mod lazy;
mod location;
pub mod memory;
pub mod outcome;
pub mod plan;
pub mod record;
mod recovered;
pub mod recovery;
mod request;
pub mod rights;
pub mod store;
pub mod typed;
mod versioned;
mod visibility;
mod witness;
pub mod worker;

pub use request::remote_group;

/// Items that macros need besides the public ones.
#[doc(hidden)]
pub mod __macros {
    pub use solera_levels::Level;
    pub use solera_macros::{mixt, mixt_file, mixt_inline};
    pub use solera_program::ir;
    pub use solera_program::types::StoreId;
    pub use solera_program::value::Value;
}

/// Compiles a program of the MixT language between the braces, while Rust compiles. An error in the
/// program is an error of Rust at the word in question.
///
/// Put its items into a module of their own:
/// - each struct as a Rust struct, with values in the fields ([which
///   types](mod@crate::typed#values));
/// - `stores`, with a type for each store, so that a [`Handle`](crate::typed::Handle) refers to the
///   right store;
/// - `Stores`, which binds the stores to spaces, and whose `bind` creates a
///   [`TypedSession`](crate::typed::TypedSession);
/// - each transaction as an `async fn`, whose documentation states the level of its result.
///   Functions of the program generate nothing: only transactions call them;
/// - `Program`, which stands for the whole program and has its source;
/// - `transaction!`, for transactions among Rust code.
///
/// ```
/// mod bank {
///     solera_mixt::mixt! {
///         store accounts : linearizable;
///         store mail : causal;
///
///         transaction withdraw(from: handle<counter> in accounts, inbox: handle<set<string>> in mail, sum: int) -> int {
///             if from.value() < sum { abort "not enough"; }
///             from.add(-sum);
///             inbox.add("withdrawn: " + string(sum));
///             return from.value();
///         }
///     }
/// }
///
/// use bank::stores::{accounts, mail};
/// use solera_mixt::typed::{Counter, Error, Handle, Set, TypedSession};
///
/// async fn morning(
///     on: &mut TypedSession<bank::Program>,
///     from: &Handle<Counter, accounts>,
///     inbox: &Handle<Set<String>, mail>,
/// ) -> Result<i64, Error> {
///     match bank::withdraw(on, from, inbox, 10).await {
///         Err(Error::Aborted(why)) => println!("{why}"),
///         done => println!("{} are left", done?),
///     }
///     // An inline transaction. An expression of Rust follows `=`; without it, the argument is
///     // the variable of that name.
///     let most = 3;
///     bank::transaction!(on, |from: handle<counter> in accounts, sum: int = most + 1| -> int {
///         from.add(sum);
///         return from.value();
///     })
///     .await
/// }
/// ```
///
/// The tokens are those of Rust: texts are on one line, and bytes beyond ASCII are written with
/// escapes. In `transaction!` an expression after `=` needs parentheses if it contains `,`, `|` or
/// `<`. The macro `transaction!` can be used within the crate.
#[macro_export]
macro_rules! mixt {
    ($($program:tt)*) => { $crate::__macros::mixt! { [$crate] $($program)* } };
}

/// Generates the same items as [`mixt!`](crate::mixt) for a program in a file, whose path begins at
/// the folder of the crate's `Cargo.toml`. Errors refer to lines of the file. When it changes, the
/// crate is compiled again.
///
/// ```
/// mod groups {
///     solera_mixt::mixt_file!("../../examples/message_groups.mixt");
/// }
///
/// use solera_mixt::typed::{Error, TypedSession};
///
/// async fn found(
///     on: &mut TypedSession<groups::Program>,
///     title: &str,
///     name: &str,
/// ) -> Result<bool, Error> {
///     let group = groups::create_group(on, title).await?;
///     let user = groups::create_user(on, name).await?;
///     groups::join(on, &group, &user).await
/// }
/// ```
#[macro_export]
macro_rules! mixt_file {
    ($($path:tt)*) => { $crate::__macros::mixt_file! { [$crate] $($path)* } };
}
