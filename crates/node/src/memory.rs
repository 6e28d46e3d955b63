//! How much memory the process takes, and whether that is more than it may.

use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::log::Log;
use crate::network::Network;
use crate::worker::Control;

/// How often is measured. What comes in between may exceed the limit.
const INTERVAL: Duration = Duration::from_millis(100);

/// While the data is measured, so much longer than a step takes nothing is measured: a worker does nothing
/// else meanwhile.
const PAUSE_FACTOR: u32 = 20;

/// The process' memory, as it was measured last.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    used: AtomicU64,
    full: AtomicBool,
}

impl Memory {
    /// Bytes that the process uses; 0 where that is not known.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Whether it uses more than it may.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Returns whether it is full now, if it was not so before or is not any more.
    fn measured(&self, used: u64, limit: Option<u64>) -> Option<bool> {
        self.used.store(used, Relaxed);
        let full = limit.is_some_and(|limit| used > limit);
        (self.full.swap(full, Relaxed) != full).then_some(full)
    }
}

/// What is used of the memory that the process takes. The allocator keeps what is freed: what it took at
/// its highest is taken to have been used, and since then only the data has become more or less.
#[derive(Debug, Default)]
struct Peak {
    taken: u64,
    /// What was used then beside the data.
    beside: u64,
}

impl Peak {
    fn used(&mut self, taken: u64, data: u64) -> u64 {
        if taken > self.taken {
            // Beside the data at most all that came to it is used, and all that is no data.
            let more = self.beside + (taken - self.taken);
            *self = Peak { taken, beside: more.min(taken.saturating_sub(data)) };
        }
        taken.min(data + self.beside)
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
        let (network, peak) = (network.clone(), Peak::default());
        let mut meter = Meter { network, log, stopped, peak, warned: false };
        let name = "memory".to_owned();
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || while meter.measure().is_some() && meter.pause(INTERVAL).is_some() {})?;
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
    /// Nothing when the end has come.
    fn pause(&self, pause: Duration) -> Option<()> {
        (self.stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)).then_some(())
    }

    /// Nothing when the end has come.
    fn measure(&mut self) -> Option<()> {
        let limit = self.network.settings().max_memory;
        let taken = match resident() {
            Ok(taken) => taken,
            Err(error) => {
                if limit.is_some() && !self.warned {
                    let reason = format_args!("memory cannot be measured: {error}");
                    self.log.error(format_args!("max_memory has no effect: {reason}"));
                    self.warned = true;
                }
                return Some(());
            }
        };
        let used = match limit {
            Some(limit) if taken > limit => {
                // At once, if that is known already: measuring the data takes its time.
                if taken > self.peak.taken {
                    self.tell(taken, Some(limit));
                }
                let data = self.data()?;
                let is_peak = taken > self.peak.taken;
                let used = self.peak.used(taken, data);
                if is_peak {
                    let beside = self.peak.beside;
                    self.log.debug(format_args!("memory: {taken} bytes, {beside} beside the data"));
                }
                used
            }
            _ => taken,
        };
        self.tell(used, limit);
        Some(())
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

    /// What all workers of this process hold, in bytes, partition by partition. Nothing when the end
    /// has come.
    fn data(&self) -> Option<u64> {
        let mut sum = 0;
        for worker in self.network.all_here() {
            for place in 0.. {
                let (reply, answer) = oneshot::channel();
                self.network.control(worker, Control::PartitionBytes(place, reply));
                match answer.blocking_recv() {
                    Ok(Some((bytes, took))) => {
                        sum += bytes as u64;
                        self.pause(took * PAUSE_FACTOR)?;
                    }
                    Ok(None) => break,
                    // The worker has ended.
                    Err(_) => return None,
                }
            }
        }
        Some(sum)
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

    #[test]
    fn what_the_allocator_keeps_is_not_used() {
        let mut peak = Peak::default();
        let used = [(100, 80), (150, 120), (150, 20), (151, 20), (150, 90), (200, 110), (140, 200)]
            .map(|(taken, data)| peak.used(taken, data));
        assert_eq!(used, [100, 150, 50, 51, 121, 190, 140]);
    }

    #[test]
    fn only_changes_are_told() {
        let memory = Memory::default();
        let told = [(1, None), (9, Some(9)), (10, Some(9)), (11, Some(9)), (9, Some(9)), (9, None)]
            .map(|(used, limit)| memory.measured(used, limit));
        assert_eq!(told, [None, None, Some(true), None, Some(false), None]);
        assert_eq!((memory.used(), memory.is_full()), (9, false));
    }
}
