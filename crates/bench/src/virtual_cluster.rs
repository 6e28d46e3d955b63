//! A cluster in virtual time whose workers are as busy as real ones would be.
//!
//! The machines are those of the server, with the delays between regions and the clients' closed loop around
//! them. Each worker is a virtual core: it is busy for as long as its machine has really computed, by
//! the clock of the processor, and for what a host does beside (`cost`). Inputs that come meanwhile wait. So
//! a few real cores show where hundreds of them saturate; what they show is a ratio, not a speed.
//!
//! | module | subject |
//! |---|---|
//! | `shape` | sites, workers, protocols, delays |
//! | `cost` | what work takes, measured when a program begins |
//! | `cluster` | time, queues, virtual cores |
//! | `client` | the closed loop, and what each client is about |
//! | `source` | what clients do: the interface of workloads |
//! | `three_items`, `replay` | the micro-benchmark; RUBiS, from a recording |
//! | `recording` | what clients of the real workload send |

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod cost;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod shape;
pub(crate) mod source;
pub(crate) mod three_items;
