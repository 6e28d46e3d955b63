//! The thread that measures the memory of the process.

use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use solera_config::areas::RESOURCES;
use solera_unistore::Held;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use crate::control::Control;
use crate::network::Network;

/// Interval of measurements. Between two of them usage may exceed the limit.
const INTERVAL: Duration = Duration::from_millis(100);

/// Part of the size of data by which an allocator rounds it up: its size classes are at most a
/// quarter apart.
const ROUNDING: u64 = 4;

/// Estimate of the used part of the process' memory. Resident memory does not show it, because the
/// allocator keeps freed memory. The estimate assumes that all resident memory was in use at its
/// peak, and that only the size of the data has changed since then. If it is too low, resident
/// memory corrects it at the next peak.
#[derive(Debug, Default)]
struct Peak {
    taken: u64,
    /// Size of the data at the peak, in bytes, not rounded up.
    data: u64,
    /// Memory in use at the peak besides the data, in bytes.
    beside: u64,
}

impl Peak {
    /// Returns the estimate for `taken` resident bytes. `held` must have been requested after
    /// `taken` was read, and no other caller may request it. `held.most` is then at least the size
    /// of the data at the time when resident memory reached `taken`, even if data was freed
    /// afterwards.
    fn used(&mut self, taken: u64, held: Held) -> u64 {
        if taken > self.taken {
            let data = held.most as u64;
            let mut beside = taken.saturating_sub(data);
            if self.taken > 0 {
                // Memory that has grown in proportion to the data is freed with the data.
                // Otherwise, after a fast burst of writes, an empty process would count as full for
                // ever.
                let least = beside.min(self.beside);
                let most = beside.min(self.beside + (taken - self.taken));
                beside = most.saturating_sub(data / ROUNDING).max(least);
            }
            *self = Peak { taken, data, beside };
        }
        taken.min(self.beside + self.rounded(held.now as u64))
    }

    /// Returns the size of data of `size` bytes, rounded up like the data at the peak.
    fn rounded(&self, size: u64) -> u64 {
        let least = u128::from(size);
        let peak = u128::from(self.taken - self.beside);
        let rounded = least * peak / u128::from(self.data.max(1));
        let rounded = rounded.clamp(least, least + least / u128::from(ROUNDING));
        u64::try_from(rounded).unwrap_or(u64::MAX)
    }
}

/// The measuring thread. Dropping it ends it.
pub(crate) struct Gauge {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gauge {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn start(network: &Arc<Network>) -> Result<Gauge> {
        let (stop, stopped) = channel();
        let network = network.clone();
        let mut meter = Meter { network, stopped, peak: Peak::default(), warned: false };
        let name = "memory".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            meter.measure();
            while meter.pause() {
                meter.measure();
            }
        })?;
        Ok(Gauge { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

struct Meter {
    network: Arc<Network>,
    stopped: Receiver<()>,
    peak: Peak,
    warned: bool,
}

impl Meter {
    /// Waits for the interval. Returns whether to continue.
    fn pause(&self) -> bool {
        self.stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
    }

    fn measure(&mut self) {
        let limit = self.network.settings().max_memory;
        let taken = match resident() {
            Ok(taken) => taken,
            Err(error) => {
                if limit.is_some() && !self.warned {
                    let reason = format_args!("memory cannot be measured: {error}");
                    error!(target: RESOURCES, "max_memory has no effect: {reason}");
                    self.warned = true;
                }
                return;
            }
        };
        let is_above = limit.is_some_and(|limit| taken > limit);
        // Report at once if the result is certain, because a worker may take time to answer.
        if !is_above || taken > self.peak.taken {
            self.report(taken, limit);
        }
        if limit.is_some() {
            // Measure below the limit, too: the smaller the growth between two measurements, the
            // better the estimate of memory besides the data.
            let used = self.held().map(|held| self.peak.used(taken, held));
            if let Some(used) = used.filter(|_| is_above) {
                self.report(used, limit);
            }
        }
    }

    fn report(&self, used: u64, limit: Option<u64>) {
        let limit_bytes = limit.unwrap_or_default();
        match self.network.memory().measured(used, limit) {
            Some(true) => warn!(
                target: RESOURCES,
                "memory is full: {used} bytes of {limit_bytes}; commands that need more are refused"
            ),
            Some(false) => {
                info!(target: RESOURCES, "memory is no longer full: {used} bytes");
            }
            None => {}
        }
    }

    /// Returns the size of the data of all workers of this process; `None` if a worker ends first.
    fn held(&self) -> Option<Held> {
        let asked: Vec<_> = self
            .network
            .all_here()
            .map(|worker| {
                let (reply, answer) = oneshot::channel();
                self.network.control(worker, Control::Held(reply));
                answer
            })
            .collect();
        let mut answers = asked.into_iter().map(|answer| answer.blocking_recv().ok());
        answers.try_fold(Held::default(), |sum, held| Some(sum.and(held?)))
    }
}

/// Returns the resident memory that the system reports.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    in_status(&text).ok_or_else(|| Error::new(ErrorKind::InvalidData, "it has no line VmRSS"))
}

fn in_status(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_the_process_is_parsed() {
        assert_eq!(in_status("Name:\tx\nVmRSS:\t    1024 kB\nThreads:\t1\n"), Some(1 << 20));
        for text in ["", "VmRSS:\n", "VmRSS:\t1 MB\n", "VmRSS:\tx kB\n"] {
            assert_eq!(in_status(text), None, "{text}");
        }
        assert!(resident().unwrap() > 0);
    }

    fn held(now: usize, most: usize) -> Held {
        Held { now, most }
    }

    #[test]
    fn freed_memory_is_not_used() {
        let mut peak = Peak::default();
        let used = [(100, 80), (150, 120), (150, 20), (151, 20), (150, 90), (200, 110), (140, 200)]
            .map(|(taken, data)| peak.used(taken, held(data, data)));
        // At the third measurement, new data may have reused freed memory, so 200 is too much.
        assert_eq!(used, [100, 150, 41, 45, 132, 179, 140]);
    }

    #[test]
    fn an_allocator_that_rounds_values_up_does_not_leave_an_empty_process_full() {
        let mut peak = Peak::default();
        let used = [(20, 0), (824, 683), (824, 341), (824, 0), (700, 0), (824, 41)]
            .map(|(taken, data)| peak.used(taken, held(data, data)));
        assert_eq!(used, [20, 824, 421, 20, 20, 68]);
        // Growth that rounding does not explain is not data.
        assert_eq!(peak.used(1_000, held(80, 80)), 276);
        assert_eq!(peak.used(1_000, held(0, 80)), 176);
    }

    #[test]
    fn data_freed_during_a_measurement_is_not_used() {
        let mut peak = Peak::default();
        let used = [(100, held(10, 80)), (100, held(0, 10)), (150, held(60, 60))]
            .map(|(taken, held)| peak.used(taken, held));
        assert_eq!(used, [30, 20, 130]);
    }
}
