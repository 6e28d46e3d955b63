//! Names for the elements of lists and logs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::random::random;

/// Greatest time of an element in this process, in microseconds since 1970.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a unique field name, greater than all that this process has returned before: the time,
/// then a random number. Its order as text is the order of the times.
pub(crate) fn next() -> Vec<u8> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    // Elements that are appended one after another keep their order even if the clock stands still
    // or goes back.
    let last = LAST.fetch_max(time, Ordering::Relaxed);
    let time = if last >= time { LAST.fetch_add(1, Ordering::Relaxed) + 1 } else { time };
    format!("{time:016x}-{:016x}", random()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ascend_and_differ() {
        let names: Vec<_> = (0..10_000).map(|_| next()).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
