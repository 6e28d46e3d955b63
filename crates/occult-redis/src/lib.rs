//! Occult on an unmodified Redis Cluster: causal sessions and transactions under PC-PSI.
//!
//! The shards are the cluster's slots, and their homes are the slots' masters. Functions at the
//! masters assign stamps and decide transactions. Sessions read at nearby replicas, and check their
//! reads by the rules of `solera_occult`.
//!
//! `docs/formats/occult-redis.md` describes the records that are stored in Redis beside the values,
//! and `docs/decisions/0037-occult-on-redis-cluster.md` gives the reasons.
//!
//! | module | subject |
//! |---|---|
//! | `slot` | slots, and the keys of their records |
//! | `stored` | timestamps and slot records |
//! | `copies` | progress of replicas |
//! | `risk`, `lives` | writes that a promotion may lose, and sessions that depend on them |
//! | `commands` | commands of Redis that access one key |
//! | `functions` | requests to the functions of `functions.lua` |
//! | `routes`, `report` | reports of nodes about the cluster |
//! | `node`, `cluster` | connections, redirections, polls |
//! | `gateway` | sessions: reads, updates, transactions |
//! | `server` | the gateway as a server of the Redis protocol |
//! | `store` | the cluster as a store of mixed transactions |

mod cluster;
mod commands;
mod copies;
mod error;
mod functions;
mod gateway;
mod lives;
mod node;
mod report;
mod risk;
mod routes;
mod server;
mod slot;
mod store;
mod stored;

pub use commands::{Access, Call};
pub use error::Error;
pub use gateway::{Counters, Gateway, GatewaySession, Open, Options, Policy, Watches};
pub use server::Server;
pub use slot::{home_key, record_key, slot_of, timestamp_key};
pub use store::Store;
pub use stored::Layout;
