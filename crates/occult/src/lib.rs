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
//! | `store` | versions of keys, shown and hidden |
//! | `record` | what must survive a restart |
//! | `message`, `command`, `config` | what goes in and out |
//! | `machine` | the machine of a worker |

mod client;
mod command;
mod config;
mod gateway;
mod home;
mod machine;
mod message;
mod outbox;
mod record;
mod replica;
mod shard;
mod store;
mod timestamp;

pub use client::{Freshness, PreparedAt, Transaction};
pub use command::{AbortCause, Command, Response};
pub use config::{Config, Rule, Timing};
pub use machine::{Occult, Output};
pub use message::{
    Batch, Body, ClientId, Commit, Copied, Decision, Entry, Execute, Executed, Prepare, Read,
    ReadAnswer, TransactionId,
};
pub use record::Record;
pub use shard::{DEFAULT_SHARDS, Homes, STAMP_END, ShardId, Stamp};
pub use timestamp::{CausalTimestamp, Scheme, Unreadable};
