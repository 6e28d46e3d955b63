//! The thread that measures how much memory the process takes.

use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use solera_unistore::Held;
use tokio::sync::oneshot;

use crate::control::Control;
use crate::log::Log;
use crate::network::Network;

/// How often is measured. What comes in between may exceed the limit.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is used of the memory that the process takes. The allocator keeps what is freed: what it
/// took at its highest is taken to have been used, and since then only the data has become more or
/// less.
#[derive(Debug, Default)]
struct Peak {
    taken: u64,
    /// What was used then beside the data.
    beside: u64,
}

impl Peak {
    /// `held` must have been asked for after `taken` was read, and for nothing else: then the data
    /// was at most `held.most` when the process came to take so much, whatever has gone away since.
    fn used(&mut self, taken: u64, held: Held) -> u64 {
        if taken > self.taken {
            // Beside the data at most all that came to it is used, and all that is no data.
            let more = self.beside + (taken - self.taken);
            *self = Peak { taken, beside: more.min(taken.saturating_sub(held.most as u64)) };
        }
        taken.min(held.now as u64 + self.beside)
    }
}

/// The thread that measures. Dropping it ends it.
pub(crate) struct Gauge {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gauge {
    /// # Errors
    /// There can be no thread.
    pub(crate) fn start(network: &Arc<Network>, log: Log) -> Result<Gauge> {
        let (stop, stopped) = channel();
        let network = network.clone();
        let mut meter = Meter { network, log, stopped, peak: Peak::default(), warned: false };
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
            // If it panicked, it has already said so.
            let _ = thread.join();
        }
    }
}

struct Meter {
    network: Arc<Network>,
    log: Log,
    stopped: Receiver<()>,
    peak: Peak,
    warned: bool,
}

impl Meter {
    /// Whether the end has not come.
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
                    self.log.error(format_args!("max_memory has no effect: {reason}"));
                    self.warned = true;
                }
                return;
            }
        };
        let is_above = limit.is_some_and(|limit| taken > limit);
        // At once, if that is known already: a worker may take its time to answer.
        if !is_above || taken > self.peak.taken {
            self.tell(taken, limit);
        }
        if limit.is_some() {
            // Also below the limit: what is beside the data is known better the less came to it at
            // once.
            let used = self.held().map(|held| self.peak.used(taken, held));
            if let Some(used) = used.filter(|_| is_above) {
                self.tell(used, limit);
            }
        }
    }

    fn tell(&self, used: u64, limit: Option<u64>) {
        let limit_bytes = limit.unwrap_or_default();
        match self.network.memory().measured(used, limit) {
            Some(true) => self.log.warn(format_args!(
                "memory is full: {used} bytes of {limit_bytes}; commands that need more are refused"
            )),
            Some(false) => self.log.info(format_args!("memory is no longer full: {used} bytes")),
            None => {}
        }
    }

    /// What all workers of this process hold; nothing if one does not say so, because it ends.
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

/// What the system says that the process takes.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    in_status(&text).ok_or_else(|| Error::new(ErrorKind::InvalidData, "it does not say VmRSS"))
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
    fn what_the_system_says_is_read() {
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
    fn what_the_allocator_keeps_is_not_used() {
        let mut peak = Peak::default();
        let used = [(100, 80), (150, 120), (150, 20), (151, 20), (150, 90), (200, 110), (140, 200)]
            .map(|(taken, data)| peak.used(taken, held(data, data)));
        assert_eq!(used, [100, 150, 50, 51, 121, 190, 140]);
    }

    #[test]
    fn what_goes_away_while_it_is_measured_is_no_longer_used() {
        let mut peak = Peak::default();
        let used = [(100, held(10, 80)), (100, held(0, 10)), (150, held(60, 60))]
            .map(|(taken, held)| peak.used(taken, held));
        assert_eq!(used, [30, 20, 130]);
    }
}
