//! Experimental: error bounds and hard bounds of counters, as in IPA (Holt et al., *Disciplined
//! Inconsistency with Consistency Types*, SoCC 2016, §4.3, §4.4).
//!
//! A site answers a read with an interval that contains the counter's value at some moment of the
//! read, and whose width stays within a tolerance. Sites update a counter with tokens that they
//! have got in advance, and wait for nobody.
//!
//! A counter with a hard bound does not become negative. A site decrements it with rights, which
//! increments create and which sites give each other.
//!
//! `docs/models/reservations` describes the protocol and checks it. Its letters of rules (R1, H1,
//! S1, B1, …) appear in this crate. `docs/decisions/0043-reservations-machine.md` and
//! `0046-hard-bounds.md` list what the machine adds.
//!
//! | module | subject |
//! |---|---|
//! | `agreed` | the record on which the sites agree: readers, grants, floors; its changes |
//! | `partition` | the rules: what a site has and may answer, take, promise and report |
//! | `partition::inputs` | streams, versions of the record, messages |
//! | `partition::requests` | clients' requests, and the guard |
//! | `partition::right` | renewals, exclusion, admission, removal; reports |
//! | `partition::filling` | sites without data get the state of another site |
//! | `partition::closing` | partitions without readers |
//! | `partition::grants` | ends of epochs, and changes of a key's record; floors |
//! | `partition::wishes` | how many tokens a site requests |
//! | `rights`, `partition::rights` | rights, gifts, and counts of the rights of all sites |
//! | `partition::expiries` | when other sites give up their tokens |
//! | `counter`, `waiter` | state of a key at a site, and those that wait for it |
//! | `counts`, `partition::holdings` | numbers for metrics |
//! | `machine` | the machine of a worker; the contract on time |
//! | `machine::members` | sites that leave and join |
//! | `machine::guard` | reservations and promises |
//! | `spent`, `machine::spend`, `partition::spending` | updates that use tokens without a promise |
//! | `partition::timer` | when the timer visits a key |
//! | `record`, `machine::checkpoint`, `partition::parts`, `recovery` | what must survive a restart |
//! | `command`, `message`, `config`, `numbers`, `protocol` | commands, messages, configuration |
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use solera_machine::{Address, Machine, Now, RequestId, Topology};
//! use solera_reservations::{Cannot, Command, Config, Input, Output, Reservations, Response};
//! use solera_time::{Monotonic, Physical, SiteId};
//!
//! let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
//! let mut worker =
//!     Reservations::new(Config::new(Address { site: SiteId(0), worker: 0 }, topology));
//! let now = Now { monotonic: Monotonic(0), physical: Physical(0) };
//! let command = Command::Take { key: b"views".to_vec(), amount: 1, within: Duration::ZERO };
//! worker.handle(now, Input::Client { request: RequestId(1), command });
//! let replies = std::iter::from_fn(|| worker.poll_output());
//! let reply = replies.filter(|output| matches!(output, Output::Reply { .. })).next();
//! // No prefix of this worker's configuration gives the key an error bound.
//! let response = Response::Cannot(Cannot::NoPolicy);
//! assert_eq!(reply, Some(Output::Reply { request: RequestId(1), response, last: true }));
//! ```

mod agreed;
mod command;
mod config;
mod counter;
mod counts;
mod machine;
mod message;
mod numbers;
mod outbox;
mod partition;
mod protocol;
mod rare;
mod record;
mod recovery;
mod rights;
mod spent;
mod waiter;

pub use agreed::{Agreed, Change, Changed, Grant, Key, KeyRecord, Reader, Removal};
pub use command::{
    Answer, Cannot, Claim, Command, Entry, Expiry, Holder, Placed, Question, Response, SOLD_OUT,
    TakeId,
};
pub use config::{Bound, BoundKind, Config, Policy, Rule, Timing};
pub use counts::{CHANGES, Counts, Holdings, REFUSALS};
pub use machine::{Checkpoint, Reservations};
pub use message::{Body, Event, Input, Message, Need, Output, StatePart};
pub use numbers::{Epoch, Kind, Nonce, Position, Term, Tokens, Version};
pub use protocol::PROTOCOL;
pub use rare::ALL as RARE_PATHS;
pub use record::{Held, KeyPart, Part, PartitionPart, Pin, Record, Sponsored};
pub use recovery::{Recovery, misfit_of_part, misfit_of_record};
pub use rights::{Counted, Gift, Owner, Pasts, Tally};
pub use spent::Spent;
