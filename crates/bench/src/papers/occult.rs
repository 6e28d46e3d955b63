//! Occult (NSDI 2017) §8 and appendix B: Figures 6 to 9 and §8.2.3, in virtual clusters.
//!
//! | module | subject |
//! |---|---|
//! | `single` | Figures 6 and 9a: single operations, by scheme and size of timestamps; §8.2.3 |
//! | `transactions` | Figures 7 and 9c: transactions, and the causes of aborts |
//! | `slow` | Figure 8: slow replicas |

mod single;
mod slow;
mod transactions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use solera_occult::Scheme;

use super::plot::Plot;
use super::{Effort, Page, Results, Row, side_by_side};
use crate::error::BenchError;
use crate::virtual_cluster::occult::clients::{Measured, Sessions, Workload};
use crate::virtual_cluster::occult::world::{Setting, World};
use crate::ycsb::Distribution;

/// Figures that can be reproduced.
pub const FIGURES: std::ops::RangeInclusive<u8> = 6..=9;

/// Results of one part of the experiments.
#[derive(Default)]
struct Findings {
    rows: Vec<Row>,
    plots: Vec<Plot>,
}

/// Settings of the virtual clusters.
#[derive(Clone, Copy)]
struct Laboratory<'a> {
    effort: Effort,
    report: &'a (dyn Fn(&str) + Sync),
}

/// One run: a name, a cluster, and its clients.
#[derive(Clone)]
struct Run {
    name: String,
    setting: Setting,
    workload: Workload,
    clients: usize,
}

impl Laboratory<'_> {
    fn pick<T>(&self, quick: T, full: T) -> T {
        match self.effort {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }

    /// Returns the bandwidth of the cards, in bits per second. Fewer operations use up a slower
    /// card.
    fn card(&self) -> u64 {
        self.pick(20_000_000, 1_000_000_000)
    }

    /// Returns the number of clients that use up the card of the busiest computer.
    fn clients(&self) -> usize {
        self.pick(240, 4000)
    }

    /// Returns YCSB's workload with single operations and the paper's distribution.
    fn workload(&self, reads: u8, sessions: Sessions) -> Workload {
        Workload {
            keys: self.pick(2_000, 50_000),
            value: vec![b'v'; 1000].as_slice().into(),
            reads,
            distribution: Distribution::Zipfian,
            operations: 1,
            sessions,
            seed: 1,
        }
    }

    /// Returns a run that uses up the cards.
    fn saturated(&self, name: impl Into<String>, scheme: Scheme, workload: Workload) -> Run {
        let setting = Setting { card: Some(self.card()), ..Setting::of(scheme) };
        Run { name: name.into(), setting, workload, clients: self.clients() }
    }

    /// Runs all clusters, as many at a time as there are cores, and reports progress.
    fn run_all(&self, what: &str, runs: Vec<Run>) -> Vec<Measured> {
        let (count, done) = (runs.len(), AtomicUsize::new(0));
        let (warm_up, window) = self.pick((300, 700), (500, 1000));
        let task = |run: Run| -> Box<dyn FnOnce() -> Measured + Send + '_> {
            let done = &done;
            Box::new(move || {
                let mut world = World::new(run.setting, run.workload);
                world.add_clients(run.clients);
                let ms = Duration::from_millis;
                let measured = world.measure(ms(warm_up), ms(window));
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                (self.report)(&format!("{what}: {done} of {count} runs are done ({})", run.name));
                measured
            })
        };
        side_by_side::run_all(runs.into_iter().map(task).collect())
    }

    fn describe(&self) -> String {
        format!(
            "Virtual clusters of two sites, 39 ms apart, with 40 server processes each on 10 computers, and {} shards, \
             of which every second one has its home at the first site. The clocks of the second site are 22 ms ahead. \
             Occult's machines run directly: computers of clients run one as the client library. A card of a server's \
             computer sends and receives {} Mbit/s. Cores of servers are busy for encoding, decoding and system calls, \
             by the table of costs of the virtual clusters; the steps of Occult's machine are not in it yet, and take no \
             time. {} keys of 1000 bytes, {} clients in a closed loop. The eventual baseline is the same machine with \
             clients that keep no timestamp: every read is accepted, and the bytes of stamps and timestamps do not count. Not \
             reproduced yet: Figure 2, because no machine applies writes pessimistically; the use of processors and \
             memory of §8.2.3; and everything on Redis Clusters.",
            solera_occult::DEFAULT_SHARDS,
            self.card() / 1_000_000,
            self.pick(2_000, 50_000),
            self.clients(),
        )
    }
}

/// Runs the experiments of all figures, or of one. Reports progress to `report`.
///
/// # Errors
/// None today; experiments on real clusters can fail. A number that is worse than the paper's is
/// not an error.
pub fn run(
    effort: Effort,
    figure: Option<u8>,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Results, BenchError> {
    let laboratory = Laboratory { effort, report };
    let is_wanted = |number: u8| figure.is_none_or(|wanted| wanted == number);
    let mut parts = Vec::new();
    if is_wanted(6) {
        parts.extend([single::goodput(&laboratory, 95), single::staleness(&laboratory)]);
    }
    if is_wanted(7) || is_wanted(9) {
        parts.push(transactions::run(&laboratory));
    }
    if is_wanted(8) {
        parts.push(slow::run(&laboratory));
    }
    if is_wanted(9) {
        parts.push(single::goodput(&laboratory, 75));
    }
    let mut page = Page { title: "Occult, Figures 6 to 9".to_owned(), ..Page::default() };
    page.notes.push(laboratory.describe());
    let mut rows = Vec::new();
    for part in parts {
        rows.extend(part.rows);
        page.plots.extend(part.plots);
    }
    // One experiment measures rows of Figures 7 and 9.
    rows.retain(|row| {
        let number = row.figure.strip_prefix("Fig. ").and_then(|number| number.parse().ok());
        number.is_none_or(is_wanted)
    });
    // In the order of the paper.
    rows.sort_by_key(|row| row.figure);
    Ok(Results { paper: "occult", rows, page, costs: None })
}

/// Returns a scheme's name in the paper, with its number of stamps.
fn name_of(scheme: Scheme) -> String {
    match scheme {
        Scheme::Exact => "exact".to_owned(),
        Scheme::Structural(stamps) => format!("structural, {stamps} stamps"),
        Scheme::Temporal(stamps) => format!("temporal, {stamps} stamps"),
        Scheme::PerSite(stamps) => format!("per site, {} stamps", 2 * stamps),
        Scheme::None => "none".to_owned(),
    }
}

/// Returns a duration in milliseconds.
fn ms(time: Option<Duration>) -> f64 {
    time.unwrap_or_default().as_secs_f64() * 1000.0
}
