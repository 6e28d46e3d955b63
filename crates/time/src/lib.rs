//! Time as Solera sees it: physical readings, hybrid timestamps, and vectors of them.
//!
//! Nothing here reads a clock. Hosts read clocks and hand the readings to the machines.

mod clock;
mod origin;
mod site;
mod timestamp;
mod vector;

pub use clock::HybridClock;
pub use origin::Origin;
pub use site::{MAX_SITES, SiteId};
pub use timestamp::{Lane, Monotonic, Physical, Timestamp};
pub use vector::Vector;
