//! The clock that a cluster's workers read: the system's, or one that only its owner advances.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use solera_time::Physical;
use tokio::sync::Notify;

/// Wall clock of a new manual clock, in microseconds since 1970.
const EPOCH: u64 = 1_800_000_000_000_000;

/// A clock. Its clones share its state.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<Manual>>);

struct Manual {
    start: Instant,
    /// Nanoseconds since `start`.
    elapsed: AtomicU64,
    /// The earliest time for which a worker sleeps; `u64::MAX` if none does.
    wanted: AtomicU64,
    reached: Notify,
}

impl Clock {
    /// Returns the clock of the operating system.
    pub fn system() -> Clock {
        Clock(None)
    }

    /// Creates a clock that stands still between calls of [`Clock::advance`], so that ticks of the
    /// protocol follow the same requests in each run. Timeouts of requests and connections still
    /// follow the system's clock.
    pub fn manual() -> Clock {
        Clock(Some(Arc::new(Manual {
            start: Instant::now(),
            elapsed: AtomicU64::new(0),
            wanted: AtomicU64::new(u64::MAX),
            reached: Notify::new(),
        })))
    }

    /// Advances a manual clock, and wakes the workers whose deadlines it reaches. The system's
    /// clock ignores the call.
    pub fn advance(&self, by: Duration) {
        let Some(manual) = &self.0 else { return };
        let by = by.as_nanos() as u64;
        let elapsed = manual.elapsed.fetch_add(by, Ordering::SeqCst) + by;
        if elapsed >= manual.wanted.load(Ordering::SeqCst) {
            manual.wanted.store(u64::MAX, Ordering::SeqCst);
            manual.reached.notify_waiters();
        }
    }

    /// Returns the time for which the operating system has been suspended since it started.
    /// Instants do not advance meanwhile.
    pub(crate) fn suspended(&self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};

        if self.0.is_some() {
            return Duration::ZERO;
        }
        let [running, all] = [ClockId::Monotonic, ClockId::Boottime].map(|id| {
            let time = clock_gettime(id);
            Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
        });
        all.saturating_sub(running)
    }

    pub(crate) fn instant(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(manual) => manual.instant(),
        }
    }

    /// Returns the time of the wall clock.
    pub(crate) fn physical(&self) -> Physical {
        match &self.0 {
            None => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Physical(since_epoch.as_micros() as u64)
            }
            Some(manual) => Physical(EPOCH + manual.elapsed.load(Ordering::SeqCst) / 1000),
        }
    }

    pub(crate) async fn sleep_until(&self, until: Instant) {
        let Some(manual) = &self.0 else { return tokio::time::sleep_until(until.into()).await };
        loop {
            // Register before reading the time, so that no advance between the two is missed.
            let reached = manual.reached.notified();
            let wanted = until.saturating_duration_since(manual.start).as_nanos() as u64;
            manual.wanted.fetch_min(wanted, Ordering::SeqCst);
            if manual.instant() >= until {
                return;
            }
            reached.await;
        }
    }
}

impl Manual {
    fn instant(&self) -> Instant {
        self.start + Duration::from_nanos(self.elapsed.load(Ordering::SeqCst))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock::manual" } else { "Clock::system" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_a_sleeper_when_its_time_has_come_and_not_before() {
        let clock = Clock::manual();
        let begin = clock.instant();
        let ms = Duration::from_millis;
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep_until(begin + ms(10)).await;
                clock.instant()
            }
        });
        tokio::task::yield_now().await;
        clock.advance(ms(9));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(ms(1));
        assert_eq!(sleeper.await.unwrap(), begin + ms(10));
        assert_eq!(clock.physical(), Physical(EPOCH + 10_000));
    }

    #[tokio::test]
    async fn all_sleepers_of_a_manual_clock_wake_in_their_turn() {
        let clock = Clock::manual();
        let begin = clock.instant();
        let ms = Duration::from_millis;
        let sleep = |after| {
            let clock = clock.clone();
            tokio::spawn(async move { clock.sleep_until(begin + ms(after)).await })
        };
        let (first, second) = (sleep(5), sleep(8));
        tokio::task::yield_now().await;
        clock.advance(ms(6));
        first.await.unwrap();
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        clock.advance(ms(2));
        second.await.unwrap();
    }
}
