//! Occult (Mehdi et al., NSDI 2017): causal consistency that clients check when they read.
//!
//! | module | subject |
//! |---|---|
//! | `shard` | shards, their stamps and homes |
//! | `timestamp` | causal timestamps, their compression and encoding |

mod shard;
mod timestamp;

pub use shard::{DEFAULT_SHARDS, Homes, STAMP_END, ShardId, Stamp};
pub use timestamp::{CausalTimestamp, Scheme, Unreadable};
