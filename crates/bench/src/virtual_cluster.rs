//! A cluster in virtual time whose workers are as busy as real ones.
//!
//! The machines are those of the server; the cluster simulates the delays between regions and the
//! clients' closed loop. Each worker is a virtual core. A table of counted costs (`cost`)
//! determines how long each step of the machine, and each action of the host, keeps the core busy.
//! Inputs that arrive while the core is busy wait. A few real cores can thus show at which load
//! hundreds of virtual ones saturate, and one seed always gives the same results.
//!
//! | module | subject |
//! |---|---|
//! | `shape` | sites, workers, protocols, delays |
//! | `cost` | the table of the costs of steps |
//! | `step`, `meter` | classes of steps; running steps, and charging for them |
//! | `calibrate`, `counted` | creating the table: counting the instructions of each class |
//! | `host` | costs of servers besides their machines, and their time |
//! | `cluster` | time, queues, virtual cores |
//! | `network` | network cards |
//! | `arrivals` | updates that wait at the workers of a site, one of which is too slow |
//! | `client` | the closed loop, and the state of each client |
//! | `occult` | the same for Occult's machines alone |
//! | `flood` | clients that keep a space of `primary` busy |
//! | `source` | the interface of workloads |
//! | `three_items`, `replay` | the micro-benchmark; RUBiS, from a recording |
//! | `recording` | recording the commands of clients of the real workload |

pub(crate) mod arrivals;
pub(crate) mod calibrate;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod cost;
pub(crate) mod counted;
pub(crate) mod flood;
pub(crate) mod host;
pub(crate) mod meter;
pub(crate) mod network;
pub(crate) mod occult;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod shape;
pub(crate) mod source;
pub(crate) mod step;
pub(crate) mod three_items;
