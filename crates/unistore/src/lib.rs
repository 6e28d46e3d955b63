//! UniStore (Bravo, Gotsman, de Régil, Wei; USENIX ATC 2021): transactional causal consistency that
//! survives the loss of sites, as state machines without I/O.
//!
//! One [`Replica`] is what one worker of a site runs: the replicas `p_d^m` of the partitions it owns,
//! the coordinator of its clients' transactions, and its part in spreading vectors. Where the code
//! departs from the paper it says so; `docs/spec/unistore.md` lists every departure.
//!
//! | module | subject |
//! |---|---|
//! | `replica` | the machine: dispatch, direct calls, time |
//! | `worker` | what the parts of a replica share: partitions, clock, what the site knows, outputs |
//! | `coordinator` | interactive transactions and two-phase commit (Alg. 1) |
//! | `participant` | prepared transactions (Alg. 1 l. 36–48) |
//! | `coordinator::guarded`, `participant::guarding` | transactions that other protocols must agree to |
//! | `partition`, `op_log`, `pending` | one partition's store: versions, folding |
//! | `replication` | PROPAGATE, REPLICATE, forwarding (Alg. 2 l. 1–22) |
//! | `dissemination` | BROADCAST_VECS by a tree, floors, causal stability |
//! | `demand` | asking idle workers for the progress that somebody waits for |
//! | `uniformity` | `uniformVec` from `stableMatrix` (Alg. 2 l. 31–36) |
//! | `strong` | strong transactions: COMMIT_STRONG, DELIVER_UPDATES (Alg. 3) |
//! | `scan` | reading all keys in one snapshot |
//! | `status` | what a replica knows and holds, for reports |
//! | `barriers` | UNIFORM_BARRIER and ATTACH |
//! | `pasts` | the causal and the durability past of a session |
//! | `failure_detector` | who is suspected |
//! | `record`, `checkpoint`, `recovery` | what a journal keeps, and building a replica from it |
//! | `transfer`, `joining` | a partition's full state for a site that joins: its donor, its receiver |
//! | `protocol`, `encoding`, `fits` | its number; the bytes of messages and records; whether a message from a wire can be true |

mod barriers;
mod by_origin;
mod checkpoint;
mod command;
mod committed;
mod config;
mod coordinator;
mod demand;
mod dissemination;
mod encoding;
mod failure_detector;
mod fits;
mod heard;
mod joining;
mod keys;
mod lacking;
mod message;
mod op_log;
mod participant;
mod partition;
mod passing;
mod pasts;
mod pending;
mod protocol;
mod rare;
mod record;
mod recovery;
mod replica;
mod replication;
mod scan;
mod status;
mod strong;
mod transfer;
mod uniformity;
mod worker;

pub use checkpoint::Checkpoint;
pub use command::{Command, CommandError, ExecuteGuarded, Response, StrongLimit, TxId};
pub use config::{Config, Protocol, Rule, StrongLimits, Timing};
pub use heard::Heard;
pub use joining::Progress;
pub use keys::Held;
pub use message::{
    Begin, Cause, Chunk, Converged, Errand, Event, Executed, Fetch, Filling, Input, Message,
    Output, Place, PrepareGuarded, SiteView, Stretch, Subtree, Update, Write,
};
pub use pasts::Pasts;
pub use protocol::PROTOCOL;
pub use rare::ALL as RARE_PATHS;
pub use record::{Decision, Part, Prepared, Promise, Record, SavedKey};
pub use recovery::{ForeignPartition, Recovery};
pub use replica::Replica;
pub use solera_certification::{Access, Claim, Kind, MAX_WORKERS, TransactionId};
pub use status::{AtRisk, Status};
pub use strong::{LONGEST_RETRY_WAIT, RETRY_PAUSE, StrongCounts};
