//! Experimental: weak and strong operations, of any deterministic semantics, on the same data, as
//! in Creek (Kobus et al., *Creek: Low-latency, Mixed-Consistency Transactional Replication
//! Scheme*).
//!
//! All sites execute all operations in one total order. A site executes an operation at once where
//! it is invoked, at a *tentative* place that its timestamp determines, and again if the order
//! before it changes. A strong operation gets its final place from the conditional atomic
//! broadcast. It takes the weak operations of its causal context with it: they are *committed*
//! before it. Weak operations are answered after their first execution, in a partition too. Strong
//! ones are answered twice: tentatively, and with the response at the final place.
//!
//! Two executors give the same responses. One follows Algorithms 1 and 2 literally, and is the
//! reference: it rolls an operation back whenever an operation before it changes (Alg. 1
//! l. 42–47). The other one keeps versions, and executes an operation again only if something that
//! it has read has changed (§4.4).
//!
//! | module | subject |
//! |---|---|
//! | `ids`, `request`, `context` | names of operations, operations with timestamps, causal contexts |
//! | `streams` | reliable broadcast: what a site has of the operations of each run, and requests |
//! | `order` | committed · tentative |
//! | `object`, `registers` | Alg. 2: registers, executions with undo logs; the interface of procedures |
//! | `execution` | the interface of the two executors |
//! | `execution::sequential` | Alg. 1: which operations are executed in order, and what is rolled back |
//! | `execution::versions` | §4.4: which operations read what has changed, jobs, and what they return |
//! | `execution::store`, `execution::job` | versions of registers and their snapshots; executions |
//! | `execution::attempts` | weak operations that have no place yet |
//! | `execution::classes` | operations that probably conflict |
//! | `finals`, `digest` | the last final operations, and the digest of all |
//! | `comparison` | comparison of the digests of sites |
//! | `past` | what a client has seen, as the last operation of each site |
//! | `frontier` | how far the operations of each site have come |
//! | `replica` | Alg. 1: invocation, delivery, commit |
//! | `replica::work` | bounded steps |
//! | `replica::replies` | responses to clients, with claims |
//! | `replica::waits` | requests that wait for an operation or a past |
//! | `replica::baselines` | other replication schemes, for comparisons |
//! | `replica::gossip` | exchange of streams; operations without effect that commit others |
//! | `replica::departures` | operations of sites that have left |
//! | `sites` | the list of sites |
//! | `machine` | the machine: a replica with the conditional atomic broadcast |
//! | `machine::joining` | transfer of data to a joining site |
//! | `record`, `checkpoint`, `machine::loading`, `recovery` | what survives a restart |
//! | `command`, `message`, `config`, `protocol` | commands, messages, configuration |
//!
//! # Departures from the paper
//! - An id contains the run of its site, because a replica that restarts must not repeat an event
//!   number (Alg. 1 l. 1, l. 16).
//! - Receiving an operation advances the clock, so an operation is after all that its site had
//!   received.
//! - Weak operations have causal contexts, too (Alg. 1 l. 18–19 gives them to strong ones only).
//!   Otherwise a weak operation could be committed before another one that its client had seen.
//! - An operation whose context is incomplete is not tentative yet (§4.1; Alg. 1 l. 31 adds it at
//!   once).
//! - Sites deliver the runs of a site in order, and strong operations keep their order across a
//!   restart.
//! - A weak operation gets its timestamp, and is broadcast, when it has been executed after all
//!   others, so that the replies to weak operations see each other in no circle (§4.3 mentions
//!   circular causality), and the final order agrees with them.
//! - Responses leave in a state that is that of a sequential execution.
//! - A client gets one tentative response and, if it requests them, those of later executions that
//!   differ. The pseudocode returns the response of each execution (Alg. 1 l. 71).
//!
//! # What is missing
//! A context has a range for each strong operation between weak ones that is undecided, and one for
//! each former run, so contexts grow in a long partition. If an operation has a forged timestamp
//! that is the greatest possible one, the tentative list never becomes empty.
//!
//! ```
//! use std::sync::Arc;
//!
//! use solera_creek::{Access, Command, Config, Creek, Level, Output, Procedures, Response};
//! use solera_machine::{Address, Input, Machine, Now, RequestId, Topology};
//! use solera_time::{Monotonic, Physical, SiteId};
//!
//! /// Adds a number to a counter, and returns the sum.
//! struct Add;
//!
//! impl Procedures for Add {
//!     type Operation = i64;
//!     type Value = i64;
//!     type Response = i64;
//!
//!     fn execute(&self, number: &i64, registers: &mut dyn Access<i64>) -> i64 {
//!         let sum = registers.read(b"sum").unwrap_or(0) + number;
//!         registers.write(b"sum", Some(sum));
//!         sum
//!     }
//!
//!     fn is_read_only(&self, number: &i64) -> bool {
//!         *number == 0
//!     }
//! }
//!
//! let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1, 1] });
//! let mut site = Creek::new(Config::new(Address { site: SiteId(0), worker: 0 }, topology), Add);
//! let now = Now { monotonic: Monotonic(0), physical: Physical(0) };
//! let command = Command::Invoke { operation: 5, level: Level::Weak, track: false };
//! site.handle(now, Input::Client { request: RequestId(1), command });
//! let replies = std::iter::from_fn(|| site.poll_output()).filter_map(|output| match output {
//!     Output::<Add>::Reply { response: Response::Tentative(tentative), .. } => Some(tentative),
//!     _ => None,
//! });
//! // No other site has received anything yet.
//! assert_eq!(replies.map(|tentative| tentative.response).collect::<Vec<_>>(), [5]);
//! ```

mod checkpoint;
mod command;
mod comparison;
mod config;
mod context;
mod digest;
mod execution;
mod finals;
mod frontier;
mod ids;
mod machine;
mod message;
mod object;
mod order;
mod past;
mod protocol;
mod rare;
mod record;
mod recovery;
mod registers;
mod replica;
mod request;
mod sites;
mod streams;

pub use checkpoint::Checkpoint;
pub use command::{Claim, Command, Level, Response, Tentative};
pub use comparison::Divergence;
pub use config::{Config, Executor, Limits, Replies, Rule, Scheme, Timing};
pub use context::Context;
pub use digest::Digest;
pub use execution::{Done, Job, Registers};
pub use finals::Final;
pub use ids::{OperationId, StreamId};
pub use machine::{Creek, Fetched, Status};
pub use message::{Event, Message, Output, Piece, Transfer};
pub use object::{Access, Add, Procedures, RegisterKey};
pub use past::Past;
pub use protocol::PROTOCOL;
pub use rare::ALL as RARE_PATHS;
pub use record::{Closed, Encoded, Part, Record, Rest};
pub use recovery::Recovery;
pub use request::Request;
