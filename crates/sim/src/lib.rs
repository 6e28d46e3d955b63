//! Simulation of whole sites in virtual time, from one seed.
//!
//! A seed determines everything: the shape of the cluster, delays, clock skew, faults and load. The
//! machines are those of the server, and so are the journals, on simulated disks. While the world
//! runs, UniStore's Properties 1–4 are checked as assertions. When it has healed and settled,
//! `solera-checker` judges the recorded history, and every client and every transaction must have
//! finished. The same seed gives the same trace, byte for byte.

mod bounds;
mod by_worker;
mod client;
mod complete;
mod faults;
mod guarded;
mod history;
mod last_round;
#[cfg(test)]
mod latency;
#[cfg(test)]
mod mixed;
mod occult;
mod outage;
mod outcomes;
mod primary;
mod promises;
mod queue;
mod random;
mod recorded;
mod run;
mod scenario;
mod sessions;
mod spaces;
mod speculative;
mod storage;
mod tally;
mod trace;
mod trial;
mod weaker;
mod weakness;
mod world;

pub use run::{Report, Violation, run};
pub use scenario::Scenario;
pub use tally::{Kind, Tally};
pub use trace::Trace;
pub use weakness::Weakness;
