//! Occult (Mehdi et al., NSDI 2017): causal consistency that clients check when they read, and
//! transactions under per-client parallel snapshot isolation (PC-PSI).
//!
//! Each shard has a home, which orders its writes. Replicas apply the writes as they arrive,
//! independently of other shards. A client keeps a causal timestamp: for each shard, the stamp of
//! the last write on which the client depends. Each value has a causal timestamp, too, and each
//! copy of a shard has a shardstamp. From these, the client determines whether a copy that it reads
//! is recent enough.
//!
//! `docs/models/occult-commit` describes how transactions commit, and checks it.
//!
//! | module | subject |
//! |---|---|
//! | `shard` | shards, their stamps and homes |
//! | `timestamp` | causal timestamps, their compression and encoding |
//! | `client` | a transaction at its client: checks of reads, validation, the commit timestamp |
//! | `gateway` | runs clients' transactions: messages, retries, timeouts |
//! | `home` | homes: stamps, locks, decisions, reads, the stream to replicas |
//! | `replica` | replicas: applying, reading |
//! | `store`, `version` | versions of keys, shown and hidden |
//! | `snapshot` | snapshots of all keys, from which backups are read |
//! | `passed` | dependencies that every replica has passed, so that they can be removed |
//! | `record`, `recovery` | what must survive a restart, and the machine rebuilt from it |
//! | `message`, `valid` | messages, and their validation |
//! | `command`, `config`, `protocol` | commands, configuration, the protocol's number |
//! | `machine` | the machine of a worker: dispatch, time, membership, checkpoints, barriers |

mod client;
mod command;
mod config;
mod gateway;
mod home;
mod machine;
mod message;
mod outbox;
mod passed;
mod protocol;
mod rare;
mod record;
mod recovery;
mod replica;
mod shard;
mod snapshot;
mod store;
mod timestamp;
mod valid;
mod version;

pub use client::{Freshness, PreparedAt, Transaction};
pub use command::{AbortCause, Command, Fate, OnStale, ReadCounts, Response, Unknown};
pub use config::{Config, LockScope, Rule, Shows, StaleReads, Timing};
pub use machine::moving::ranges;
pub use machine::{Checkpoint, Occult};
pub use message::{
    Answer, Batch, Body, ClientId, Commit, Copied, Copies, CopyRequest, DecidedCommit, DecidedOf,
    Decision, DependencyCheck, Entry, Event, Execute, Executed, Handover, HandoverRequest, Input,
    Message, Output, Prepare, Progress, Question, Read, ReadAnswer, Stored, StoredAt, Table, Taken,
    Takeover, TransactionId,
};
pub use passed::Passing;
pub use protocol::PROTOCOL;
pub use rare::ALL as RARE_PATHS;
pub use record::{Part, Record, Rest};
pub use recovery::Recovery;
pub use shard::{DEFAULT_SHARDS, FormerHome, Homes, Move, STAMP_END, ShardId, Stamp};
pub use snapshot::{Beginning, Peaks, SnapshotAnswer, SnapshotStep};
pub use timestamp::{CausalTimestamp, Scheme, Unreadable};
