//! UniStore (Bravo, Gotsman, de Régil, Wei; USENIX ATC 2021): transactional causal consistency that
//! survives the loss of sites, as state machines without I/O.
//!
//! A [`Replica`] is the part of one worker of a site: the replicas `p_d^m` of the partitions that
//! the worker owns, the coordinator of its clients' transactions, and a node of the tree that
//! spreads vectors. Comments state where the code departs from the paper; `docs/spec/unistore.md`
//! lists every departure.
//!
//! | module | subject |
//! |---|---|
//! | `replica` | the machine: dispatch and timing |
//! | `replica::single` | single operations as direct calls |
//! | `replica::coordinator` | interactive transactions and two-phase commit (Alg. 1) |
//! | `replica::participant` | prepared transactions (Alg. 1 l. 36–48) |
//! | `coordinator::guarded`, `participant::guarding` | transactions that need the consent of other protocols |
//! | `replica::replication` | PROPAGATE, REPLICATE, forwarding (Alg. 2 l. 1–22) |
//! | `replica::demand` | requests to idle workers for progress that a client waits for |
//! | `replica::strong`, `strong::delivery` | COMMIT_STRONG; DELIVER_UPDATES (Alg. 3) |
//! | `replica::barriers` | UNIFORM_BARRIER and ATTACH |
//! | `replica::complete` | reads that ask every site |
//! | `replica::members`, `joining`, `hearing` | the list of sites; filling partitions at a site that joins; recording the times that siblings have sent |
//! | `replica::checkpoint`, `scan`, `status` | parts of a checkpoint; reading all keys in one snapshot; reports |
//! | `worker` | state that the parts of a replica share: partitions, clock, vectors of the site, outputs |
//! | `partition`, `keys`, `op_log`, `pending`, `committed` | one partition's store: versions, folding; its histories |
//! | `dissemination` | BROADCAST_VECS by a tree, floors, causal stability |
//! | `uniformity` | `uniformVec` from `stableMatrix` (Alg. 2 l. 31–36) |
//! | `accesses`, `groups` | accesses of a strong transaction; the groups that certify it |
//! | `pasts` | the causal and the durability past of a session |
//! | `failure_detector`, `heard`, `lacking` | suspected sites; times that siblings have sent of their own histories; siblings that have lost updates |
//! | `history` | histories of partitions for other protocols of the worker |
//! | `record`, `recovery` | records of a journal; rebuilding a replica from them |
//! | `transfer` | sending a partition's full state to a site that joins: the donor's side |
//! | `protocol`, `encoding`, `validate` | number of the protocol; bytes of messages and records; validation of received messages |

mod accesses;
mod by_origin;
mod command;
mod committed;
mod config;
mod dissemination;
mod encoding;
mod failure_detector;
mod groups;
mod heard;
mod history;
mod keys;
mod lacking;
mod message;
mod op_log;
mod partition;
mod passing;
mod pasts;
mod pending;
mod protocol;
mod rare;
mod record;
mod recovery;
mod replica;
mod transfer;
mod uniformity;
mod validate;
mod worker;

pub use command::{Command, CommandError, ExecuteGuarded, Response, StrongLimit, TxId};
pub use config::{Config, GuardedKeys, Protocol, Rule, StrongLimits, Timing};
pub use heard::Heard;
pub use history::History;
pub use keys::Held;
pub use message::{
    Begin, Cause, Chunk, Converged, Errand, Event, Executed, Fetch, Filling, Input, LogRange,
    Message, Output, PrepareGuarded, SiteGeneration, SiteView, Subtree, TransferPosition, Update,
    Write,
};
pub use pasts::Pasts;
pub use protocol::PROTOCOL;
pub use rare::ALL as RARE_PATHS;
pub use record::{Decision, Part, Prepared, Promise, Record, SavedKey};
pub use recovery::{ForeignPartition, Recovery};
pub use replica::Replica;
pub use replica::checkpoint::Checkpoint;
pub use replica::joining::Progress;
pub use replica::status::{AtRisk, Status};
pub use replica::strong::{LONGEST_RETRY_WAIT, RETRY_PAUSE, StrongCounts};
pub use solera_certification::{Access, Claim, Kind, MAX_WORKERS, TransactionId};
