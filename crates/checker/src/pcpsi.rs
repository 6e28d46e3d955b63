//! Judges histories by per-client parallel snapshot isolation (PC-PSI, Occult §6.1), without any
//! witness of the protocol.
//!
//! A history satisfies PC-PSI if its transactions can be drawn as a graph without certain cycles.
//! The nodes are the committed transactions. An edge leads from a transaction to one that must
//! follow:
//!
//! - wr: the second reads a version that the first wrote;
//! - ww: the second's version of a key follows the first's;
//! - sd: the session committed the first before the second;
//! - rw: the first reads a version, and the second wrote the version that directly follows it.
//!
//! # Verdicts
//! The first four are those of the paper. The others follow from them or from the input:
//!
//! | violation | meaning |
//! |---|---|
//! | [`AbortedRead`](Violation::AbortedRead) | Aborted Reads: a transaction reads a write of an aborted one |
//! | [`IntermediateRead`](Violation::IntermediateRead) | Intermediate Reads: a transaction reads a write that was not the last one of its transaction for the key |
//! | [`CircularInformationFlow`](Violation::CircularInformationFlow) | a cycle of wr, ww and sd edges |
//! | [`MissedEffects`](Violation::MissedEffects) | a cycle with exactly one rw edge: a transaction misses a write of one on which it depends. Such cycles also arise if only a part of a transaction is visible, or if a session moves to another site and reads older versions or misses its own writes |
//! | [`LostUpdate`](Violation::LostUpdate) | two transactions overwrote one version. In every order of their two versions, there is a cycle of the kinds above |
//! | [`NoVersionOrder`](Violation::NoVersionOrder) | every order of versions that nothing exhibits has a cycle of the kinds above |
//! | [`SameStamp`](Violation::SameStamp), [`StampsContradict`](Violation::StampsContradict) | the stamps of a key cannot be the order of its versions. The checker then ignores the stamps |
//! | [`NeverWritten`](Violation::NeverWritten), [`FromTheFuture`](Violation::FromTheFuture), [`MissesOwnWrite`](Violation::MissesOwnWrite) | an answer that no order of transactions explains |
//! | [`RepeatedWrite`](Violation::RepeatedWrite) | the recorder used a number twice |
//!
//! Cycles with two or more rw edges are legal: write skew, and the long fork, in which two readers
//! see two independent writes in opposite orders. In contrast to PSI, transactions that committed
//! at one site may become visible in any order if they depend on one another in no other way.
//!
//! Causal consistency of sessions is part of PC-PSI. If each transaction has one operation, cycles
//! are violations of monotonic reads, read-your-writes, writes-follow-reads or monotonic writes.
//!
//! # Transactions of unknown outcome
//! A transaction without an answer takes part if another transaction that takes part reads or
//! overwrites one of its versions. It follows the earlier transactions of its session. It precedes
//! none of the later ones, because it may have committed after them. A transaction that no other
//! one observed is ignored. Its version may be between two others, but ignoring it hides no cycle:
//! one rw edge replaces the rw and ww edges through it.
//!
//! # Stale reads
//! A read that its session accepted as stale has no rw edge, and overwrites nothing. Its wr edge
//! counts, because the session received the value: the protocol merges the causal timestamp of the
//! value into the session's (Occult §4.3), so the past of the value is part of the session's past.
//! A stale read must not be an aborted or intermediate read either, because a stale value is a
//! committed older version.
//!
//! # Orders of versions
//! The checker adds only edges that hold in every order of versions:
//!
//! - If all transactions that wrote a key exhibit stamps, the order is known.
//! - A version follows the one that its transaction overwrote directly. Overwritten versions are
//!   those that answers show, and those that the transaction read before it wrote the key: any
//!   version in between would be a lost update.
//! - The initial version precedes all others.
//! - If a writer of a key leads to a reader of another version, the writer's version is the earlier
//!   one: otherwise the reader would miss effects. Likewise, if a version's writer leads to another
//!   writer, the transaction that overwrote the version does as well. These edges are added until
//!   there are no new ones, at most 16 times.
//!
//! If all keys are stamped, verdicts are exact, except for reads of no value of keys that may have
//! been removed. Without stamps, every reported violation is a real one, but some histories without
//! a legal order are not detected: detecting all of them would need a search of exponentially many
//! orders.
//!
//! "No value" may be the initial version or any removal, so it has no wr edge. If the order of the
//! key is known, and no unobserved transaction may have removed the key, the rw edge of the read
//! leads to the version after the last removal that does not depend on the read. For other keys
//! that may have been removed, there is no such edge. Recorders that know the removal that an
//! answer shows should record its number.
//!
//! # Cost
//! Reachability is computed by vector clocks with one entry for each session and for each observed
//! transaction of unknown outcome, 64 sessions at a time. The time is proportional to edges ×
//! sessions, and the memory to edges. One cycle is reported for each reader that misses effects,
//! and one for each set of transactions on common cycles, at most 64 of each kind.
//!
//! ```
//! use solera_checker::pcpsi::{
//!     History, Operation, Outcome, Read, Transaction, Version, Write, check,
//! };
//!
//! let write = |key: &str, id| {
//!     let key = key.to_owned();
//!     Operation::Write(Write { key, id, removes: false, stamp: None, overwrote: None })
//! };
//! let read = |key: &str, version| {
//!     Operation::Read(Read { key: key.to_owned(), version, stale: false })
//! };
//! let transaction = |session, operations| {
//!     Transaction { session, order: 1, site: 0, outcome: Outcome::Committed, operations }
//! };
//! let history = History {
//!     transactions: vec![
//!         transaction(1, vec![write("x", 1), write("y", 2)]),
//!         transaction(2, vec![read("x", Version::Of(1)), read("y", Version::Absent)]),
//!     ],
//! };
//! assert_eq!(
//!     check(&history)[0].to_string(),
//!     "missed effects: transaction 1 of session 2 at site 0 reads no value of 'y' and misses write \
//!      2 by transaction 1 of session 1 at site 0 (rw); transaction 1 of session 1 at site 0 makes \
//!      write 1 of 'x', which transaction 1 of session 2 at site 0 reads (wr)"
//! );
//! ```

mod graph;
mod history;
mod index;
mod judge;
mod orders;
mod reach;
mod violation;

use index::Index;

pub use history::{History, Operation, Outcome, Read, Transaction, Version, Write};
pub use violation::{Dependency, Edge, TransactionName, Violation};

/// Returns the violations of a history: first those of single reads, then those of orders of
/// versions, then cycles. A history that satisfies PC-PSI has none.
pub fn check(history: &History) -> Vec<Violation> {
    let index = Index::new(history);
    let violations = judge::check(&index);
    [index.violations, violations].concat()
}
