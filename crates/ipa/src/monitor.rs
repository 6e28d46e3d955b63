//! Monitors of latency: which reads are likely to arrive in time (IPA §4.2.1).
//!
//! The paper keeps an exponentially decaying sample of latencies. Two histograms whose counts decay
//! take its place. They need no random numbers. They also count the reads that were given up: all
//! that is known of such a read is that it takes longer than its bound. Decision 0044.

use std::time::Duration;

/// Time in which a count loses half of its weight.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Upper end of the first bucket: 64 µs.
const SHORTEST: f64 = 64e-6;
/// Buckets per doubling of the latency.
const PER_DOUBLING: f64 = 4.0;
/// Number of buckets, up to 18 minutes.
const BUCKETS: usize = 96;
/// Number of reads that are attempted in any case, to learn.
const FEW: u32 = 4;
/// A read is attempted if at least this share of the known reads arrived within its bound.
const LIKELY: f64 = 0.75;
/// One of this many reads that are unlikely to arrive in time is attempted: 1.6%.
const PROBED: u32 = 64;

/// Monitor of one kind of read: of one client, one operation and one level.
///
/// The caller asks before each read whether to attempt it with its bound, and reports the result of
/// each attempt. All times are measured since a fixed moment, by a clock that does not go back.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// Weight of the reads that arrived, by latency.
    arrived: [f64; BUCKETS],
    /// Weight of the reads that were given up, by bound.
    given_up: [f64; BUCKETS],
    /// Number of reads that ever arrived, and that were ever given up, by bound.
    ever_arrived: u32,
    ever_given_up: [u32; BUCKETS],
    /// Time to which the weights have decayed.
    decayed: Duration,
    /// Latency of the last attempt; `None` if it was given up.
    last: Option<Duration>,
    /// Number of reads since the last attempt.
    passed_over: u32,
}

impl Monitor {
    /// Creates a monitor without observations. It attempts the first reads.
    pub fn new(now: Duration) -> Monitor {
        Monitor {
            arrived: [0.0; BUCKETS],
            given_up: [0.0; BUCKETS],
            ever_arrived: 0,
            ever_given_up: [0; BUCKETS],
            decayed: now,
            last: None,
            passed_over: 0,
        }
    }

    /// Returns whether to attempt a read that must arrive within `bound`: because it is likely to,
    /// or to learn. The caller reports the result if it is attempted.
    pub fn attempts(&mut self, now: Duration, bound: Duration) -> bool {
        self.decay(now);
        let attempts = self.is_unknown(bound)
            || self.likelihood(bound) >= LIKELY
            || self.last.is_some_and(|latency| latency <= bound)
            || self.passed_over + 1 >= PROBED;
        if attempts {
            self.passed_over = 0;
        } else {
            self.passed_over += 1;
        }
        attempts
    }

    /// Reports that an attempt arrived, in time or not.
    pub fn arrived(&mut self, now: Duration, latency: Duration) {
        self.decay(now);
        self.arrived[bucket(latency)] += 1.0;
        self.ever_arrived = self.ever_arrived.saturating_add(1);
        self.last = Some(latency);
    }

    /// Reports that an attempt failed or was given up after its bound.
    pub fn given_up(&mut self, now: Duration, bound: Duration) {
        self.decay(now);
        let at = bucket(bound);
        self.given_up[at] += 1.0;
        self.ever_given_up[at] = self.ever_given_up[at].saturating_add(1);
        self.last = None;
    }

    /// Returns the share of reads that arrive within a bound, by what is known: from 0 to 1. Reads
    /// that were given up sooner do not count, because they might have arrived within this bound.
    pub fn likelihood(&self, bound: Duration) -> f64 {
        let (met, of) = self.weights(bound);
        if of == 0.0 { 0.0 } else { met / of }
    }

    /// Returns whether fewer than [`FEW`] attempts so far show whether reads arrive within a bound.
    fn is_unknown(&self, bound: Duration) -> bool {
        let given_up = self.ever_given_up[bucket(bound)..].iter();
        given_up.fold(self.ever_arrived, |sum, more| sum.saturating_add(*more)) < FEW
    }

    /// Returns the weights of the reads that arrived within a bound, and of all reads that count
    /// for this bound: those that arrived, and those that were not given up sooner.
    fn weights(&self, bound: Duration) -> (f64, f64) {
        let at = bucket(bound);
        let met: f64 = self.arrived[..=at].iter().sum();
        let late: f64 = self.arrived[at + 1..].iter().sum();
        let given_up: f64 = self.given_up[at..].iter().sum();
        (met, met + late + given_up)
    }

    fn decay(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.decayed);
        // Small steps would cost more than they are worth.
        if passed < HALF_LIFE / 100 {
            return;
        }
        self.decayed = now;
        let factor = 0.5_f64.powf(passed.as_secs_f64() / HALF_LIFE.as_secs_f64());
        for weight in self.arrived.iter_mut().chain(&mut self.given_up) {
            *weight *= factor;
        }
    }
}

fn bucket(latency: Duration) -> usize {
    let doublings = (latency.as_secs_f64() / SHORTEST).log2().max(0.0);
    // The last of the used buckets also contains all longer latencies.
    ((doublings * PER_DOUBLING) as usize).min(BUCKETS - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs reads at a pace, each of which takes as long as `latency` returns. Returns how many
    /// were attempted, and how many attempts were in vain.
    fn run(
        monitor: &mut Monitor,
        now: &mut Duration,
        count: u32,
        bound: Duration,
        latency: impl Fn(u32) -> Duration,
    ) -> (u32, u32) {
        let (mut attempted, mut in_vain) = (0, 0);
        for number in 0..count {
            *now += 10 * MS;
            if !monitor.attempts(*now, bound) {
                continue;
            }
            attempted += 1;
            if latency(number) <= bound {
                monitor.arrived(*now, latency(number));
            } else {
                in_vain += 1;
                monitor.given_up(*now, bound);
            }
        }
        (attempted, in_vain)
    }

    #[test]
    fn reads_that_arrive_are_all_attempted_and_others_rarely() {
        let mut now = Duration::ZERO;
        let mut monitor = Monitor::new(now);
        assert_eq!(run(&mut monitor, &mut now, 1000, 50 * MS, |_| 5 * MS), (1000, 0));
        let mut monitor = Monitor::new(now);
        let (attempted, in_vain) = run(&mut monitor, &mut now, 10_000, 10 * MS, |_| 60 * MS);
        assert_eq!(attempted, in_vain);
        assert!(in_vain < 200, "2% may be in vain: {in_vain}");
    }

    #[test]
    fn a_few_late_reads_change_nothing() {
        let mut now = Duration::ZERO;
        let mut monitor = Monitor::new(now);
        let latency = |number: u32| if number % 5 == 4 { 70 * MS } else { 5 * MS };
        let (attempted, in_vain) = run(&mut monitor, &mut now, 1000, 50 * MS, latency);
        assert_eq!((attempted, in_vain), (1000, 200));
        // Two of five are too many.
        let mut monitor = Monitor::new(now);
        let latency = |number: u32| if number % 5 >= 3 { 70 * MS } else { 5 * MS };
        let (attempted, _) = run(&mut monitor, &mut now, 1000, 50 * MS, latency);
        assert!(attempted < 950, "{attempted}");
    }

    #[test]
    fn it_finds_its_way_down_and_up_again() {
        let mut now = Duration::ZERO;
        let mut monitor = Monitor::new(now);
        run(&mut monitor, &mut now, 3000, 20 * MS, |_| 5 * MS);
        // Load: reads become slow.
        let (attempted, _) = run(&mut monitor, &mut now, 3000, 20 * MS, |_| 80 * MS);
        assert!(attempted < 500, "{attempted}");
        let (last, _) = run(&mut monitor, &mut now, 1000, 20 * MS, |_| 80 * MS);
        assert!(last < 20, "{last}");
        // The load ends. The first attempt that arrives is enough.
        let (attempted, _) = run(&mut monitor, &mut now, 1000, 20 * MS, |_| 5 * MS);
        assert!(attempted > 930, "{attempted}");
    }

    #[test]
    fn bounds_are_judged_apart() {
        let mut now = Duration::ZERO;
        let mut monitor = Monitor::new(now);
        let (_, in_vain) = run(&mut monitor, &mut now, 1000, 10 * MS, |_| 60 * MS);
        assert!(in_vain < 25, "{in_vain}");
        // Reads that were given up after 10 ms show nothing about a bound of 100 ms.
        assert_eq!(run(&mut monitor, &mut now, 100, 100 * MS, |_| 60 * MS), (100, 0));
        // Reads that arrived after 60 ms show that a bound of 10 ms is too short.
        let (attempted, _) = run(&mut monitor, &mut now, 100, 10 * MS, |_| 60 * MS);
        assert!(attempted < 5, "{attempted}");
        assert!(monitor.likelihood(100 * MS) > 0.99 && monitor.likelihood(10 * MS) < 0.01);
    }

    /// At any pace of reads, the monitor keeps what it learned long ago.
    #[test]
    fn attempts_in_vain_are_few_also_for_clients_that_read_rarely() {
        for pace in [10 * MS, 200 * MS, 5_000 * MS] {
            let mut monitor = Monitor::new(Duration::ZERO);
            let mut in_vain = 0;
            for number in 0..1000 {
                if monitor.attempts(pace * number, 10 * MS) {
                    monitor.given_up(pace * number, 10 * MS);
                    in_vain += 1;
                }
            }
            assert!((15..=20).contains(&in_vain), "{in_vain} at {pace:?}");
        }
    }

    #[test]
    fn every_latency_has_a_bucket() {
        for latency in [Duration::ZERO, Duration::from_nanos(1), MS, Duration::MAX] {
            assert!(bucket(latency) < BUCKETS - 1, "{latency:?}");
        }
        assert!(bucket(10 * MS) < bucket(13 * MS));
    }
}
