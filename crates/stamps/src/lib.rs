//! Stamps of this process' clock, which name the elements of lists and logs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use solera_data::Value;

/// Greatest time of a stamp in this process, in microseconds since 1970.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a unique stamp of the present time and a random number. It is greater than all that this
/// process has returned before.
pub fn next(random: u64) -> Value {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    // Elements that are appended one after another keep their order even if the clock stands still
    // or goes back.
    let last = LAST.fetch_max(time, Ordering::Relaxed);
    let time = if last >= time { LAST.fetch_add(1, Ordering::Relaxed) + 1 } else { time };
    solera_data::stamp(time, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_ascend_and_differ() {
        let stamps: Vec<_> = (0..10_000).map(|at| next(10_000 - at)).collect();
        assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
