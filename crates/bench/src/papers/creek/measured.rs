//! Results of a run.

use std::fmt;
use std::time::Duration;

use solera_tpcc::{Operation, Transaction};

use super::setting::{Setting, nanos};
use crate::histogram::Histogram;

/// Class of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Weak operations that only read.
    ReadOnly,
    /// Weak operations that update.
    Update,
    /// Strong operations.
    Strong,
}

impl Class {
    pub(super) fn of(operation: &Operation) -> Class {
        match operation.transaction {
            Transaction::Payment(_) => Class::Strong,
            Transaction::OrderStatus(_) | Transaction::StockLevel(_) => Class::ReadOnly,
            Transaction::NewOrder(_) | Transaction::Delivery(_) => Class::Update,
        }
    }
}

/// Time for which the parts of a replica are busy, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// The cores together.
    pub(crate) cores: u64,
    /// The protocol thread.
    pub(crate) thread: u64,
    /// Most inputs that waited for the protocol thread.
    pub(crate) longest: usize,
}

/// Number of updates whose first response was the final one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Accuracy {
    pub(crate) all: u64,
    pub(crate) accurate: u64,
}

impl Accuracy {
    /// Returns the share in percent.
    pub(crate) fn percent(self) -> f64 {
        100.0 * self.accurate as f64 / self.all.max(1) as f64
    }
}

/// Results of the operations of one class that were invoked in the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfClass {
    pub(crate) count: u64,
    /// Latency of first replies.
    pub(crate) first: Histogram,
    /// Latency of stable replies; empty if the scheme gives none.
    pub(crate) stable: Histogram,
    /// Latency of first replies without the time of one execution.
    pub(crate) beyond: Histogram,
    pub(crate) accuracy: Accuracy,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The setting of the run.
    pub(crate) setting: Setting,
    pub(crate) read_only: OfClass,
    pub(crate) update: OfClass,
    pub(crate) strong: OfClass,
    /// Number of operations of the whole run.
    pub(crate) operations: u64,
    /// Those of them that all replicas execute: all but reads that a scheme does not order.
    pub(crate) ordered: u64,
    /// Number of executions of these in the whole run, at all replicas.
    pub(crate) executions: u64,
    /// Operations that are not done, at the beginning and at the end of the window.
    pub(crate) backlog: (u64, u64),
    /// Number of messages that were sent in the window.
    pub(crate) messages: u64,
    /// Bytes that each replica has sent in the window.
    pub(crate) bytes: Vec<u64>,
    /// Use of each replica in the window.
    pub(crate) used: Vec<Used>,
    /// Real time of the steps of all machines in the whole run. Differs between runs of one seed.
    pub(crate) machine: Duration,
}

/// Growth of the backlog, as a share of the operations that clients invoke, up to which a load is
/// sustained.
const SUSTAINED: f64 = 0.02;

impl Measured {
    pub(super) fn new(setting: &Setting, used: Vec<Used>) -> Measured {
        Measured {
            setting: setting.clone(),
            read_only: OfClass::default(),
            update: OfClass::default(),
            strong: OfClass::default(),
            operations: 0,
            ordered: 0,
            executions: 0,
            backlog: (0, 0),
            messages: 0,
            bytes: Vec::new(),
            used,
            machine: Duration::ZERO,
        }
    }

    pub(crate) fn of_mut(&mut self, class: Class) -> &mut OfClass {
        match class {
            Class::ReadOnly => &mut self.read_only,
            Class::Update => &mut self.update,
            Class::Strong => &mut self.strong,
        }
    }

    /// Returns the number of operations that were invoked in the window.
    pub(crate) fn submitted(&self) -> u64 {
        self.read_only.count + self.update.count + self.strong.count
    }

    /// Returns the operations that were invoked per second.
    pub(crate) fn offered(&self) -> f64 {
        self.submitted() as f64 / self.setting.window.as_secs_f64()
    }

    /// Returns the operations that were done per second: answered if they only read, and otherwise
    /// final at all replicas.
    pub(crate) fn throughput(&self) -> f64 {
        let growth = self.backlog.1 as f64 - self.backlog.0 as f64;
        (self.submitted() as f64 - growth) / self.setting.window.as_secs_f64()
    }

    /// Returns whether the backlog does not grow.
    pub(crate) fn is_sustained(&self) -> bool {
        self.throughput() >= (1.0 - SUSTAINED) * self.offered()
    }

    /// Returns the latencies of the first replies to weak operations.
    pub(crate) fn weak(&self) -> Histogram {
        let mut all = self.read_only.first.clone();
        all.merge(&self.update.first);
        all
    }

    /// Returns the latencies of the last replies to weak operations: stable ones, if the scheme
    /// gives them.
    pub(crate) fn weak_last(&self) -> Histogram {
        let last = |of: &OfClass| match of.stable.count() {
            0 => of.first.clone(),
            _ => of.stable.clone(),
        };
        let mut all = last(&self.read_only);
        all.merge(&last(&self.update));
        all
    }

    /// Returns the number of executions of an ordered operation, averaged over replicas.
    pub(crate) fn execution_ratio(&self) -> f64 {
        let all = self.setting.replicas as u64 * self.ordered;
        self.executions as f64 / all.max(1) as f64
    }

    /// Returns the load of the cores in percent, averaged over replicas.
    pub(crate) fn core_load(&self) -> f64 {
        let all: u64 = self.used.iter().map(|used| used.cores).sum();
        let cores = self.setting.cores * self.setting.replicas;
        100.0 * all as f64 / (nanos(self.setting.window) as f64 * cores as f64)
    }

    /// Returns the load of the busiest protocol thread in percent.
    pub(crate) fn thread_load(&self) -> f64 {
        let most = self.used.iter().map(|used| used.thread).max().unwrap_or_default();
        100.0 * most as f64 / nanos(self.setting.window) as f64
    }

    /// Returns the bytes that all replicas send for an operation.
    pub(crate) fn bytes_per_operation(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / self.submitted().max(1) as f64
    }

    /// Returns the load of the busiest network card in percent.
    pub(crate) fn card_load(&self) -> f64 {
        let most = self.bytes.iter().max().copied().unwrap_or_default();
        100.0 * most as f64 * 8.0 / (1e9 * self.setting.window.as_secs_f64())
    }

    /// Returns the real time of a replica's machine for an operation, in microseconds.
    pub(crate) fn machine_us(&self) -> f64 {
        let all = self.setting.replicas as u64 * self.operations;
        self.machine.as_secs_f64() * 1e6 / all.max(1) as f64
    }
}

/// Returns a quantile in milliseconds; 0 without durations.
pub(crate) fn quantile_ms(of: &Histogram, q: f64) -> f64 {
    of.quantile(q).unwrap_or_default().as_secs_f64() * 1e3
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { scheme, load, warehouses, .. } = &self.setting;
        let sustained = if self.is_sustained() { "sustained" } else { "NOT SUSTAINED" };
        writeln!(
            f,
            "{scheme:?}, {warehouses} warehouses, {load:.0}/s: offered {:.0}/s, done {:.0}/s, \
             {sustained}, backlog {} to {}",
            self.offered(),
            self.throughput(),
            self.backlog.0,
            self.backlog.1,
        )?;
        for (name, of) in [
            ("read-only", &self.read_only),
            ("weak update", &self.update),
            ("strong", &self.strong),
        ] {
            write!(f, "  {name:12} {:6} first {}", of.count, Latencies(&of.first))?;
            if of.stable.count() > 0 {
                write!(f, ", stable {}", Latencies(&of.stable))?;
            }
            if of.accuracy.all > 0 {
                write!(f, ", accurate {:.2}%", of.accuracy.percent())?;
            }
            writeln!(f, ", first beyond execution {:.3}", quantile_ms(&of.beyond, 0.5))?;
        }
        let longest = self.used.iter().map(|used| used.longest).max().unwrap_or_default();
        write!(
            f,
            "  execution ratio {:.3}, cores {:.1}%, protocol thread {:.1}% (longest queue \
             {longest}), {:.0} bytes and {:.1} messages per operation, card {:.1}%, machine \
             {:.2} µs per operation and replica",
            self.execution_ratio(),
            self.core_load(),
            self.thread_load(),
            self.bytes_per_operation(),
            self.messages as f64 / self.submitted().max(1) as f64,
            self.card_load(),
            self.machine_us(),
        )
    }
}

/// Median, 95th and 99th percentile and mean in milliseconds.
struct Latencies<'a>(&'a Histogram);

impl fmt::Display for Latencies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantile = |q| quantile_ms(self.0, q);
        let mean = self.0.mean().unwrap_or_default().as_secs_f64() * 1e3;
        let (p50, p95, p99) = (quantile(0.5), quantile(0.95), quantile(0.99));
        write!(f, "{p50:.3}/{p95:.3}/{p99:.3} mean {mean:.3} ms")
    }
}
