//! A cluster in virtual time whose workers are as busy as real ones would be.
//!
//! The machines are those of the server, with the delays between regions and the clients' closed
//! loop around them. Each worker is a virtual core: it is busy for as long as the steps of its
//! machine, and what a host does beside, take by a table of counted costs (`cost`). Inputs that
//! come meanwhile wait. So a few real cores show where hundreds of them saturate, and one seed
//! gives one figure.
//!
//! | module | subject |
//! |---|---|
//! | `shape` | sites, workers, protocols, delays |
//! | `cost` | the table of what steps cost |
//! | `step`, `meter` | classes of steps; doing them, and charging for them |
//! | `calibrate`, `counted` | making the table: counting the instructions of each class |
//! | `host` | the same for what servers do beside their machines, and how long it takes |
//! | `cluster` | time, queues, virtual cores |
//! | `client` | the closed loop, and what each client is about |
//! | `flood` | clients that keep a space of `primary` busy |
//! | `source` | what clients do: the interface of workloads |
//! | `three_items`, `replay` | the micro-benchmark; RUBiS, from a recording |
//! | `recording` | what clients of the real workload send |

pub(crate) mod calibrate;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod cost;
pub(crate) mod counted;
pub(crate) mod flood;
pub(crate) mod host;
pub(crate) mod meter;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod shape;
pub(crate) mod source;
pub(crate) mod step;
pub(crate) mod three_items;
