//! Judges histories of speculative spaces, in which weak and strong operations on the same data
//! have one final order (Creek).
//!
//! With each reply, the recorder of a history notes the order of operations on which the reply is
//! based: a prefix of the final order, then tentative operations. The judge does not trust these
//! orders. It checks that they are possible together, and runs them with its own model of the
//! procedures.
//!
//! Weak and tentative replies are judged by fluctuating eventual consistency (Creek §4.3), stable
//! ones by linearizability with session order:
//!
//! | violation | meaning |
//! |---|---|
//! | [`WrongResult`](Violation::WrongResult) | a reply is not the result of a sequential run of its order |
//! | [`WrongStableResult`](Violation::WrongStableResult), [`StableOrder`](Violation::StableOrder) | a stable reply is not that of the final order |
//! | [`NeverInvoked`](Violation::NeverInvoked), [`FromTheFuture`](Violation::FromTheFuture), [`Twice`](Violation::Twice), [`SeesItself`](Violation::SeesItself), [`BeyondFinal`](Violation::BeyondFinal) | an order contains what it cannot contain |
//! | [`Lost`](Violation::Lost) | the final order lacks an operation that a client or a surviving replica knows |
//! | [`SessionForgets`](Violation::SessionForgets) | a reply misses what its session did or saw before |
//! | [`ReplicaForgets`](Violation::ReplicaForgets), [`ReplicaDrops`](Violation::ReplicaDrops), [`RevisionDrops`](Violation::RevisionDrops) | within one run, a replica forgot a part of the final order, or forgot operations |
//! | [`Incomplete`](Violation::Incomplete), [`Gap`](Violation::Gap) | an order has an operation without its causal context, or without the operations before it in its run |
//! | [`RealTime`](Violation::RealTime) | the final order contradicts real time |
//! | [`ProgramOrder`](Violation::ProgramOrder), [`ContextOrder`](Violation::ContextOrder) | the final order contradicts that of a session or of a run, or a causal context |
//! | [`Circle`](Violation::Circle) | operations saw one another in a circle |
//! | [`TentativeOrder`](Violation::TentativeOrder) | replies disagree on the order of tentative operations |
//! | [`NotAPrefix`](Violation::NotAPrefix), [`Shrank`](Violation::Shrank), [`DigestsDiffer`](Violation::DigestsDiffer), [`Ahead`](Violation::Ahead), [`Behind`](Violation::Behind) | replicas disagree on what is committed |
//! | [`Malformed`](Violation::Malformed), [`UnexpectedReply`](Violation::UnexpectedReply) | the record contradicts itself, or an operation has a reply of a kind that it cannot have |
//!
//! `docs/formats/speculative-history.md` defines each rule, and the text format that [`History`]'s
//! `Display` writes and its `FromStr` reads.
//!
//! # What is not found
//! A changed order is found only if it contradicts something else in the history. If a reply does
//! not depend on an operation, and neither its session nor its replica knew the operation before,
//! then the operation may as well have arrived later.
//!
//! # Cost
//! The final order runs once. Tentative operations run on the state of their prefix and are undone
//! afterwards; orders with the same beginning share its run. Time and memory are proportional to
//! the number of operations in all orders. A history of 100,000 operations with 100 tentative ones
//! in each order takes two seconds.
//!
//! ```
//! let history: solera_checker::speculative::History = "
//!     solera-speculative-history 1
//!     o 1@0.1.1 10 weak add n 1   | weak 11 [0] = 1
//!     o 2@1.1.1 20 strong add n 1 | tentative 21 [0 0.1.1] = 2 | stable 30 [1] = 1
//!     order 0.1.1 1.1.1
//! "
//! .parse()
//! .unwrap();
//! let violations = solera_checker::speculative::check(&history);
//! assert_eq!(
//!     violations[0].to_string(),
//!     "wrong stable result: the stable reply to operation 1.1.1 of session 2 is '1', but at position \
//!      1 of the final order it is '2'"
//! );
//! ```

mod circles;
mod finals;
mod history;
mod index;
mod knowledge;
mod model;
mod replicas;
mod results;
mod sessions;
mod text;
mod violation;

use index::{Found, Index};

pub use history::{
    Claim, Failure, History, KeyCommand, Operation, OperationId, Origin, Outcome, Procedure, Reply,
    ReplyKind, Report, Strength, Swap, Value,
};
pub use violation::{Evidence, HistoryOrder, Link, Malformation, Name, Replica, Violation};

/// Returns the violations of a history. Of each kind at most 64 are reported.
pub fn check(history: &History) -> Vec<Violation> {
    let mut found = Found::default();
    let index = Index::new(history, &mut found);
    replicas::check(&index, &mut found);
    finals::check_lost(&index, &mut found);
    finals::check_stable_orders(&index, &mut found);
    finals::check_future(&index, &mut found);
    finals::check_real_time(&index, &mut found);
    finals::check_programs(&index, &mut found);
    finals::check_contexts(&index, &mut found);
    sessions::check(&index, &mut found);
    knowledge::check(&index, &mut found);
    knowledge::check_revisions(&index, &mut found);
    results::check(&index, &mut found);
    circles::check_seen(&index, &mut found);
    circles::check_tentative(&index, &mut found);
    found.into_violations()
}
