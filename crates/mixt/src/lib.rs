//! Runs mixed transactions (MixT §4–§5): the phases that the compiler has split a transaction into,
//! each over its own store, so that together they are one transaction.
//!
//! A [`Coordinator`](coordinator::Coordinator) is one transaction as a state machine without I/O:
//! it says what is to be asked of which database, and goes on with the answer. [`drive::run`] asks
//! real databases, which implement the traits of [`store`]; [`memory`] is one of them, and
//! [`conformance`] what their tests check. [`collect`] removes what transactions leave behind, and
//! [`recovery`] completes those whose coordinators died.
//!
//! Where a database has a [`worker`], a group of phases is shipped to it and costs one round trip.
//!
//! What is guaranteed, and what is not, is said at [`coordinator`].

mod access;
#[doc(hidden)]
pub mod any_bytes;
pub mod binding;
mod bound;
pub mod collect;
pub mod conformance;
pub mod coordinator;
pub mod drive;
mod encoding;
mod form;
mod group;
mod job;
pub mod memory;
pub mod outcome;
mod place;
pub mod plan;
pub mod record;
mod recovered;
pub mod recovery;
mod request;
pub mod rights;
mod sight;
pub mod store;
pub mod typed;
mod witness;
pub mod worker;

pub use request::shipment;

/// What macros need besides what is public.
#[doc(hidden)]
pub mod __macros {
    pub use solera_macros::{mixt, mixt_file, mixt_inline};
    pub use solera_program::ir;
    pub use solera_program::value::Value;
}

/// Compiles a program of the MixT language that stands between the braces, while Rust compiles.
/// What it may not do is an error of Rust at the word that does it.
///
/// Its items belong in a module of their own:
/// - each struct as a Rust struct, with values in the fields ([which
///   types](mod@crate::typed#values));
/// - `stores`, with a type for each store, so that a [`Handle`](crate::typed::Handle) leads where
///   it should;
/// - `Stores`, which says which spaces they are, and whose `bind` makes a
///   [`Session`](crate::typed::Session);
/// - each transaction as an `async fn`, whose documentation says of which level its result is.
///   Functions of the program become nothing: only transactions call them;
/// - `Program`, which stands for all of it and has its source;
/// - `transaction!`, for transactions that stand among Rust code.
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
/// use solera_mixt::typed::{Counter, Error, Handle, Session, Set};
///
/// async fn morning(
///     on: &mut Session<bank::Program>,
///     from: &Handle<Counter, accounts>,
///     inbox: &Handle<Set<String>, mail>,
/// ) -> Result<i64, Error> {
///     match bank::withdraw(on, from, inbox, 10).await {
///         Err(Error::Aborted(why)) => println!("{why}"),
///         done => println!("{} are left", done?),
///     }
///     // A transaction of its own. What is behind `=` is Rust; without, it is the variable of that name.
///     let most = 3;
///     bank::transaction!(on, |from: handle<counter> in accounts, sum: int = most + 1| -> int {
///         from.add(sum);
///         return from.value();
///     })
///     .await
/// }
/// ```
///
/// Tokens are those of Rust: texts stand on one line, and bytes beyond ASCII are written with
/// escapes. In `transaction!` what follows `=` needs parentheses if it has a `,`, `|` or `<` of its
/// own. The macro `transaction!` can be used within the crate.
#[macro_export]
macro_rules! mixt {
    ($($program:tt)*) => { $crate::__macros::mixt! { [$crate] $($program)* } };
}

/// The same items as [`mixt!`](crate::mixt) for a program in a file, whose path begins at the
/// folder of the crate's `Cargo.toml`. Errors tell lines of the file. When it changes, the crate is
/// compiled again.
///
/// ```
/// mod groups {
///     solera_mixt::mixt_file!("../../examples/message_groups.mixt");
/// }
///
/// use solera_mixt::typed::{Error, Session};
///
/// async fn found(on: &mut Session<groups::Program>, title: &str, name: &str) -> Result<bool, Error> {
///     let group = groups::create_group(on, title).await?;
///     let user = groups::create_user(on, name).await?;
///     groups::join(on, &group, &user).await
/// }
/// ```
#[macro_export]
macro_rules! mixt_file {
    ($($path:tt)*) => { $crate::__macros::mixt_file! { [$crate] $($path)* } };
}
