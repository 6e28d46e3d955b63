//! Representation of time: physical clock readings, hybrid timestamps, vectors of timestamps, and
//! queues of events in virtual time.
//!
//! Nothing here reads a clock. Hosts read clocks and pass the readings to the machines.

mod clock;
mod origin;
mod queue;
mod site;
mod timestamp;
mod vector;

pub use clock::HybridClock;
pub use origin::Origin;
pub use queue::Queue;
pub use site::{MAX_SITES, SiteId};
pub use timestamp::{Lane, Monotonic, Physical, Timestamp};
pub use vector::Vector;
