//! Occult (NSDI 2017) §2, §8 and appendix B: Figures 2 and 6 to 9 and §8.2.3, in virtual clusters,
//! and §8 on real servers.
//!
//! | module | subject |
//! |---|---|
//! | `queues` | Figure 2: writes that wait at replicas |
//! | `single` | Figures 6 and 9a: single operations, by scheme and size of timestamps; §8.2.3 |
//! | `transactions` | Figures 7 and 9c: transactions, and the causes of aborts |
//! | `slow` | Figure 8: slow replicas |
//! | `real` | §8 on a real Redis Cluster, which `redis_cluster` starts |

mod queues;
mod real;
mod redis_cluster;
mod single;
mod slow;
mod transactions;

use std::time::Duration;

use solera_occult::Scheme;

use super::{Effort, Findings, Page, Results, Row, side_by_side};
use crate::error::BenchError;
use crate::virtual_cluster::occult::clients::{Measured, Sessions, Workload};
use crate::virtual_cluster::occult::world::{Setting, World};
use crate::ycsb::Distribution;

/// Figures that can be reproduced.
pub const FIGURES: std::ops::RangeInclusive<u8> = 2..=9;

/// Bandwidth of the network cards, in bits per second.
const CARD: u64 = 1_000_000_000;
/// Number of keys.
const KEYS: u64 = 50_000;

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
    warm_up: Duration,
    window: Duration,
}

impl Laboratory<'_> {
    /// Returns YCSB's workload with single operations and the paper's distribution.
    fn workload(&self, reads: u8, sessions: Sessions) -> Workload {
        Workload {
            keys: KEYS,
            value: vec![b'v'; 1000].as_slice().into(),
            reads,
            distribution: Distribution::Zipfian,
            operations: 1,
            sessions,
            seed: 1,
        }
    }

    /// Returns a run with the paper's shape, with more clients than are needed to saturate the
    /// network card of the busiest computer. Goodput is then at its peak, even if some reads take
    /// longer.
    fn saturated(&self, name: impl Into<String>, scheme: Scheme, workload: Workload) -> Run {
        let ms = Duration::from_millis;
        let (warm_up, window) = self.effort.pick((ms(100), ms(100)), (ms(150), ms(300)));
        Run {
            name: name.into(),
            setting: Setting { card: Some(CARD), ..Setting::of(scheme) },
            // Updates at the other site take 39 ms, so more clients are needed.
            clients: if workload.reads >= 95 { 4_000 } else { 14_000 },
            workload,
            warm_up,
            window,
        }
    }

    /// Returns a run with just enough clients to saturate the network card. More clients would
    /// queue for the card, and this wait would dominate the latencies.
    fn just_saturated(&self, name: &str, scheme: Scheme, workload: Workload) -> Run {
        let clients = if workload.reads >= 95 { 2_300 } else { 10_000 };
        Run { clients, ..self.saturated(name, scheme, workload) }
    }

    /// Runs all clusters, as many at a time as there are cores, and reports progress.
    fn run_all(&self, what: &str, runs: Vec<Run>) -> Vec<Measured> {
        let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
        let task = |run: Run| -> Box<dyn FnOnce() -> Measured + Send + '_> {
            Box::new(move || {
                let mut world = World::new(run.setting, run.workload);
                world.add_clients(run.clients);
                world.measure(run.warm_up, run.window)
            })
        };
        side_by_side::run_reported(runs.into_iter().map(task).collect(), &|place, done| {
            let (count, name) = (names.len(), &names[place]);
            (self.report)(&format!("{what}: {done} of {count} runs are done ({name})"));
        })
    }

    fn describe(&self) -> String {
        let transactions = transactions::Scale::of(self.effort);
        format!(
            "Virtual clusters of two sites, 39 ms apart, with 40 server processes each on 10 computers, and {} shards, \
             of which every second one has its home at the first site. The clocks of the second site are 22 ms ahead. \
             Occult's machines run directly: computers of clients run one as the client library. A card of a server's \
             computer sends and receives 1 Gbit/s. A server process is busy for the steps of its machine, encoding, \
             decoding and system calls, by the table of costs of the virtual clusters. {KEYS} keys of 1000 bytes; clients \
             in a closed loop, for goodput more than are needed to use up the card of the busiest computer, and for \
             the latencies of single operations just enough. Transactions: cards of {} Mbit/s, {} \
             keys, {} clients. Stale reads are counted without cards, so that no queue delays writes. The eventual \
             baseline is the same machine with clients that keep no timestamp: every read is accepted, and neither the bytes \
             of stamps and timestamps count, nor messages that contain nothing else. Figure 2: all homes at one site with {} clients, {} keys, exact timestamps; one \
             replica of the other site takes 100 ms for each write. The replicas are Occult's; in the pessimistic baseline, \
             they show a write after its dependencies, as Eiger. UniStore has 32 workers at each of two sites, and as many \
             clients, whose operations take three messages each. Not reproduced: the use of memory of §8.2.3.",
            solera_occult::DEFAULT_SHARDS,
            transactions.card / 1_000_000,
            transactions.keys,
            transactions.clients,
            queues::CLIENTS,
            queues::KEYS,
        )
    }
}

/// Runs the experiments of all figures, or of one. Reports progress to `report`.
///
/// # Errors
/// Fails if the figure cannot be reproduced. A number that is worse than the paper's is not an
/// error.
pub fn run(
    effort: Effort,
    figure: Option<u8>,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Results, BenchError> {
    if let Some(number @ 3..=5) = figure {
        let reason = format!("Figure {number} of the Occult paper has no measurements");
        return Err(BenchError::Settings(reason));
    }
    let laboratory = Laboratory { effort, report };
    let is_wanted = |number: u8| figure.is_none_or(|wanted| wanted == number);
    let mut parts = Vec::new();
    if is_wanted(2) {
        parts.push(queues::run(&laboratory));
    }
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
    if figure.is_none() {
        parts.push(real::run(&laboratory)?);
    }
    let mut page = Page { title: "Occult, Figures 2 and 6 to 9".to_owned(), ..Page::default() };
    page.notes.push(laboratory.describe());
    let found: Findings = parts.into_iter().collect();
    page.plots = found.plots;
    page.notes.extend(found.notes);
    // One experiment measures rows of Figures 7 and 9.
    let rows = Row::of_figures(found.rows, is_wanted);
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
