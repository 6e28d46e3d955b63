//! The environment in which transactions of this process run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use solera_mixt::executor::Clock;
use solera_mixt::store::BoxFuture;
use solera_mixt::typed::Host;

use crate::digest::digest;
use crate::random::random;

/// The operating system's clock and random numbers. Waiting needs a tokio runtime with time
/// enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Clock for System {
    fn now_ms(&self) -> u64 {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

impl Host for System {
    fn random(&self) -> u64 {
        random()
    }

    /// Names a module as SOLERA.MODULE does. A cluster that has loaded the source can then complete
    /// what this process leaves incomplete.
    fn module_name(&self, source: &str) -> String {
        digest(source)
    }
}
