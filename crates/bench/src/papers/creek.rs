//! Creek §6: Figure 1 and the variations of §6.3, in virtual time.
//!
//! | module | subject |
//! |---|---|
//! | `setting` | settings of a run |
//! | `world`, `replica` | replicas in virtual time: messages, protocol threads, cores |
//! | `clients` | the load, and what clients observe |
//! | `measured` | results of a run |
//! | `search` | the highest load that a scheme sustains |
//! | `figure_1` | Figure 1, processor load and traffic, with the paper's execution times and ours |
//! | `variations` | §6.3: warehouses, strong operations, long executions, replicas, cores |
//! | `point` | a single run, for `examples/creek_point.rs` |

mod clients;
mod figure_1;
mod measured;
mod point;
mod replica;
mod search;
mod setting;
#[cfg(test)]
mod tests;
mod variations;
mod world;

use std::time::{Duration, Instant};

use solera_creek::Scheme;
use solera_tpcc::Costs;

use self::measured::Measured;
use self::search::Searched;
use self::setting::Setting;
use super::{Effort, Findings, Page, Results, side_by_side};
use crate::error::BenchError;

pub use self::point::point;

/// Figures that can be reproduced.
pub const FIGURES: std::ops::RangeInclusive<u8> = 1..=1;

/// Time after which quick experiments look no further for peaks.
const QUICK: Duration = Duration::from_secs(110);

/// Scale of the runs.
#[derive(Clone, Copy)]
struct Laboratory<'a> {
    effort: Effort,
    begin: Instant,
    report: &'a (dyn Fn(&str) + Sync),
}

impl Laboratory<'_> {
    /// Returns a setting with another load. All windows contain about the same number of
    /// operations.
    fn at(&self, setting: &Setting, load: f64) -> Setting {
        let operations = self.effort.pick(4_000.0, 20_000.0);
        let window = Duration::from_secs_f64(operations / load);
        Setting { load, warm_up: window / 4, window, ..setting.clone() }
    }

    /// Returns whether no more loads should be tried.
    fn is_late(&self) -> bool {
        self.effort == Effort::Quick && self.begin.elapsed() > QUICK
    }

    /// Runs all settings and returns their results in the same order.
    fn run_all(&self, what: &str, settings: Vec<Setting>) -> Result<Vec<Measured>, BenchError> {
        self.side_by_side(what, settings, world::run)
    }

    /// Finds the peaks of all settings, beginning at their loads.
    fn search_all(&self, what: &str, settings: Vec<Setting>) -> Result<Vec<Searched>, BenchError> {
        self.side_by_side(what, settings, |setting| self.search(setting))
    }

    /// Runs as many settings at a time as there are cores, and reports progress.
    fn side_by_side<T: Send>(
        &self,
        what: &str,
        settings: Vec<Setting>,
        run: impl Fn(&Setting) -> Result<T, BenchError> + Sync,
    ) -> Result<Vec<T>, BenchError> {
        let (count, run) = (settings.len(), &run);
        let task = |setting: Setting| -> Box<dyn FnOnce() -> Result<T, BenchError> + Send + '_> {
            Box::new(move || run(&setting))
        };
        let tasks = settings.into_iter().map(task).collect();
        let results = side_by_side::run_reported(tasks, &|_, done| {
            (self.report)(&format!("{what}: {done} of {count} are done"));
        });
        results.into_iter().collect()
    }
}

/// Returns the times of our executions, as `solera-tpcc`'s test `measure` prints them.
fn our_costs() -> Costs {
    let us = Duration::from_micros;
    Costs {
        new_order: us(11),
        payment: us(5),
        order_status: us(6),
        delivery: us(53),
        stock_level: us(73),
        ..Costs::default()
    }
}

/// Returns a scheme's name in the paper.
fn name_of(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Creek => "Creek",
        Scheme::Smr => "SMR",
        Scheme::Bayou => "Bayou",
        Scheme::Archie => "Archie",
    }
}

/// Runs the experiments of all sections, or of one figure. Reports progress to `report`.
///
/// # Errors
/// Fails if a run breaks a promise: if replicas disagree, if a stable reply is not the final
/// response, or if a consistency condition of TPC-C is violated. A number that misses its target is
/// not an error.
pub fn run(
    effort: Effort,
    figure: Option<u8>,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Results, BenchError> {
    let laboratory = Laboratory { effort, begin: Instant::now(), report };
    let peaks = figure_1::peaks(&laboratory)?;
    let mut parts = vec![figure_1::run(&laboratory, &peaks)?];
    if figure.is_none() {
        parts.push(variations::run(&laboratory, &peaks)?);
    }
    let mut page = Page { title: "Creek, Figure 1 and §6.3".to_owned(), ..Page::default() };
    page.notes.push(describe(&laboratory));
    let found: Findings = parts.into_iter().collect();
    page.plots = found.plots;
    Ok(Results { paper: "creek", rows: found.rows, page, costs: None })
}

fn describe(laboratory: &Laboratory<'_>) -> String {
    let setting = Setting::of(Scheme::Creek, 1.0);
    format!(
        "Virtual time: {} replicas with {} cores, delays of 0.2 to 0.3 ms, network cards of 1 Gbit/s, and a protocol \
         thread that needs {} µs for each input. All schemes run the machine of crate creek, and share its store, its \
         broadcast and its messages. Executions take the paper's times, 0.1 ms for Payment and 0.5 ms for others, up to {}% \
         more or less, or ours as measured. Clients invoke operations in an open loop, as a Poisson process at each replica. \
         Latencies are those at the replica. Only reads that are weak are executed at one replica alone. A load is sustained if \
         the backlog of operations that are not final at all replicas grows by at most 2% of the load; the peak is the \
         highest sustained load. About {} operations are measured in each run. After it, all replicas must have the same \
         digest, every stable reply must be the final response, and TPC-C's consistency conditions must hold. Archie's \
         tentative replies are those that the paper predicts for it. Replies leave as in the paper, when an operation \
         is executed; rows with exact replies show what servers do, which reply in a state that is that of a \
         sequential execution.",
        setting.replicas,
        setting.cores,
        setting.step.as_micros(),
        setting.costs.variation_percent,
        laboratory.effort.pick(4_000, 20_000),
    )
}
