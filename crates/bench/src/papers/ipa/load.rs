//! Clients that run operations at a rate, or as fast as they can. A slow operation delays the next
//! one of its client, so that the rate may not be reached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use solera::Error;
use solera_levels::Level;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep_until};

use super::Laboratory;
use super::store::Store;
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::papers::Row;
use crate::random::Random;
use crate::services::{IpaStoreSession, Observed};

/// Number of clients, and what they do.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) clients: usize,
    /// Time between the starts of two operations of a client; zero if it does not wait.
    pub(super) interval: Duration,
    pub(super) warm_up: Duration,
    pub(super) window: Duration,
}

/// Operations that clients run.
pub(super) trait Workload<S: IpaStoreSession>: Clone + 'static {
    /// Runs the next operation of a client.
    async fn run(&self, session: &mut S, random: &mut Random) -> Result<Step, Error>;
}

/// An operation that has ended.
pub(super) struct Step {
    pub(super) kind: &'static str,
    /// Further counts to which it contributes.
    pub(super) counts: Vec<&'static str>,
    /// Numbers of which the mean and maximum are kept.
    pub(super) numbers: Vec<(&'static str, f64)>,
}

impl Step {
    pub(super) fn of(kind: &'static str) -> Step {
        Step { kind, counts: Vec::new(), numbers: Vec::new() }
    }

    /// Counts the levels of reads, and the widths of intervals.
    pub(super) fn observe(&mut self, observed: &Observed) {
        let strong = |level: &Level| *level == Level::Linearizable;
        let counted = |level| if strong(level) { "strong" } else { "weaker" };
        self.counts.extend(observed.levels.iter().map(counted));
        let width = |&(min, max): &(i64, i64)| 100.0 * (max - min) as f64 / min.max(1) as f64;
        self.numbers.extend(observed.intervals.iter().map(|interval| ("width", width(interval))));
    }
}

/// Results of a run.
#[derive(Default)]
pub(super) struct Measured {
    latencies: BTreeMap<&'static str, Histogram>,
    counts: BTreeMap<&'static str, u64>,
    numbers: BTreeMap<&'static str, Numbers>,
    /// Number of failures, and the text of one.
    failures: (u64, String),
    seconds: f64,
}

#[derive(Clone, Copy, Default)]
struct Numbers {
    sum: f64,
    count: f64,
    most: f64,
}

impl Measured {
    fn add(&mut self, result: Result<Step, Error>, took: Duration) {
        let step = match result {
            Ok(step) => step,
            Err(error) => {
                self.failures = (self.failures.0 + 1, error.to_string());
                return;
            }
        };
        self.latencies.entry(step.kind).or_default().record(took);
        for name in step.counts {
            *self.counts.entry(name).or_default() += 1;
        }
        for (name, number) in step.numbers {
            let known = self.numbers.entry(name).or_default();
            known.sum += number;
            known.count += 1.0;
            known.most = known.most.max(number);
        }
    }

    /// Returns the latencies of operations of these kinds.
    pub(super) fn of(&self, kinds: &[&str]) -> Histogram {
        let mut all = Histogram::default();
        for kind in kinds {
            if let Some(histogram) = self.latencies.get(kind) {
                all.merge(histogram);
            }
        }
        all
    }

    /// Returns the mean latency of operations of these kinds, in milliseconds.
    pub(super) fn mean_ms(&self, kinds: &[&str]) -> f64 {
        ms(self.of(kinds).mean())
    }

    /// Returns the 95th percentile of operations of these kinds, in milliseconds.
    pub(super) fn p95_ms(&self, kinds: &[&str]) -> f64 {
        ms(self.of(kinds).quantile(0.95))
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns a row with the share of operations that failed, which latencies do not contain.
    /// Reports the text of one.
    pub(super) fn failed(
        &self,
        laboratory: &Laboratory<'_>,
        figure: &'static str,
        what: &str,
    ) -> Row {
        let (failures, text) = &self.failures;
        if *failures > 0 {
            (laboratory.report)(&format!("{what}: {failures} operations failed, such as: {text}"));
        }
        let succeeded: u64 = self.latencies.values().map(Histogram::count).sum();
        let share = 100.0 * *failures as f64 / (succeeded + failures) as f64;
        Row::new(figure, format!("{what}, failed"), None, share, "%")
    }

    /// Returns the share of strong reads among those whose levels were noted, in percent.
    pub(super) fn strong_percent(&self) -> f64 {
        self.percent("strong", self.count("strong") + self.count("weaker"))
    }

    /// Returns a count in percent of another one.
    pub(super) fn percent(&self, name: &str, of: u64) -> f64 {
        100.0 * self.count(name) as f64 / of as f64
    }

    pub(super) fn mean(&self, name: &str) -> f64 {
        self.numbers.get(name).map_or(f64::NAN, |numbers| numbers.sum / numbers.count)
    }

    pub(super) fn most(&self, name: &str) -> f64 {
        self.numbers.get(name).map_or(f64::NAN, |numbers| numbers.most)
    }

    pub(super) fn per_second(&self, kinds: &[&str]) -> f64 {
        self.of(kinds).count() as f64 / self.seconds
    }
}

fn ms(time: Option<Duration>) -> f64 {
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
}

/// Runs a workload to its end, in this thread. The operations that begin within the window count.
///
/// # Errors
/// Fails if a client cannot connect.
pub(super) fn run<S: Store + 'static>(
    store: &S,
    workload: &impl Workload<S::Session>,
    pace: Pace,
) -> Result<Measured, BenchError> {
    let measured = Rc::new(RefCell::new(Measured::default()));
    let tasks = LocalSet::new();
    let running = async {
        let mut clients = JoinSet::new();
        let mut sessions = Vec::new();
        for client in 0..pace.clients {
            sessions.push(store.connect(client).await?);
        }
        let began = Instant::now();
        let (from, to) = (began + pace.warm_up, began + pace.warm_up + pace.window);
        for (client, mut session) in sessions.into_iter().enumerate() {
            let (workload, measured) = (workload.clone(), Rc::clone(&measured));
            clients.spawn_local(async move {
                let mut random = Random::new(client as u64);
                let share = client as f64 / pace.clients as f64;
                let mut next = began + pace.interval.mul_f64(share);
                while next < to {
                    sleep_until(next).await;
                    let start = Instant::now();
                    let result = workload.run(&mut session, &mut random).await;
                    let end = Instant::now();
                    if (from..to).contains(&start) {
                        measured.borrow_mut().add(result, end - start);
                    }
                    next = (next + pace.interval).max(end);
                }
            });
        }
        while clients.join_next().await.is_some() {}
        Ok::<_, BenchError>(())
    };
    crate::runtime()?.block_on(tasks.run_until(running))?;
    let mut measured = measured.take();
    measured.seconds = pace.window.as_secs_f64();
    Ok(measured)
}
