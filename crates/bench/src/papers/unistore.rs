//! UniStore (USENIX ATC 2021) §8: Figures 3 to 6.
//!
//! | module | subject |
//! |---|---|
//! | `saturation` | increases the number of clients until throughput stops growing |
//! | `mixed` | Figure 3: RUBiS, compared with STRONG, REDBLUE and CAUSAL |
//! | `scaling` | Figure 4: more partitions, more strong transactions, contention |
//! | `uniformity` | Figure 5: the cost of tracking uniformity |
//! | `visibility` | Figure 6: the delay of remote visibility |
//! | `latencies` | Figure 3 and our own targets, on real processes |

mod latencies;
mod mixed;
mod saturation;
mod scaling;
mod uniformity;
mod visibility;

use std::time::Duration;

use self::saturation::Load;
use super::{Effort, Findings, Page, Results, side_by_side};
use crate::error::BenchError;
use solera_config::Baseline;

use crate::virtual_cluster::cost::Costs;
use crate::virtual_cluster::meter::Meter;

/// Settings of the virtual clusters.
#[derive(Clone, Copy)]
struct Laboratory<'a> {
    effort: Effort,
    costs: &'a Costs,
    report: &'a (dyn Fn(&str) + Sync),
}

/// Factor by which a virtual core is slower than a core of this machine, so that a few real cores
/// can simulate hundreds of virtual ones.
const SLOWNESS: f64 = 25.0;

impl Laboratory<'_> {
    /// Returns the costs of a protocol's steps.
    fn meter(&self, variant: Baseline) -> Meter {
        Meter::Table(self.costs.of(variant))
    }

    /// Returns the virtual time before the measurement.
    fn warm_up(&self) -> Duration {
        Duration::from_millis(self.effort.pick(400, 500))
    }

    /// Returns the length of a measuring window.
    fn window(&self) -> Duration {
        Duration::from_millis(self.effort.pick(300, 700))
    }

    /// Returns a load of increasing numbers of clients without pauses, beginning with `first`, with
    /// a share of strong transactions.
    fn load(&self, first: usize, strong: f64) -> Load {
        let (steps, window) = (self.effort.pick(4, 7), self.window());
        Load { think: Duration::ZERO, first, steps, strong, window }
    }

    /// Runs the experiments of a figure, and reports progress.
    fn run_all<'a, T: Send>(
        &self,
        figure: u8,
        tasks: Vec<Box<dyn FnOnce() -> T + Send + 'a>>,
    ) -> Vec<T> {
        let count = tasks.len();
        side_by_side::run_reported(tasks, &|_, done| {
            (self.report)(&format!("Figure {figure}: {done} of {count} experiments are done"));
        })
    }
}

/// Figures that can be reproduced.
pub const FIGURES: std::ops::RangeInclusive<u8> = 3..=6;

/// Runs the experiments of all figures, or of one. Reports progress to `report`.
///
/// # Errors
/// Fails if clusters cannot be started, or do not answer. A number that is worse than the paper's
/// is not an error.
pub fn run(
    effort: Effort,
    figure: Option<u8>,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Results, BenchError> {
    let costs = Costs::shipped();
    let laboratory = Laboratory { effort, costs: &costs, report };
    let mut parts = Vec::new();
    for figure in FIGURES.filter(|number| figure.is_none_or(|wanted| wanted == *number)) {
        match figure {
            3 => parts.extend([latencies::run(&laboratory)?, mixed::run(&laboratory)?]),
            4 => parts.push(scaling::run(&laboratory)),
            5 => parts.push(uniformity::run(&laboratory)),
            _ => parts.push(visibility::run(&laboratory)),
        }
    }
    let mut page = Page { title: "UniStore, Figures 3 to 6".to_owned(), ..Page::default() };
    page.notes.push(laboratory.describe());
    let found: Findings = parts.into_iter().collect();
    page.plots = found.plots;
    page.notes.extend(found.notes);
    // Rows are in the order of the paper.
    let mut rows = found.rows;
    rows.sort_by_key(|row| row.figure);
    Ok(Results { paper: "unistore", rows, page, costs: Some(costs.to_string()) })
}

impl Laboratory<'_> {
    fn describe(&self) -> String {
        format!(
            "Virtual clusters run the server's machines on a virtual clock. A virtual core is busy {} times as \
             long as a core of the machine on which costs were measured: the table of costs determines the cost of \
             each step of a machine by its kind and size, and that of the work of its host. Messages between processes of {} cores \
             are encoded and decoded. Delays between \
             regions are those of --wan aws, clocks agree, replicas propagate every 5 ms as the paper's. \
             Clients are in a closed loop; there are more and more of them until throughput grows by less \
             than 4%. They are watched for {} ms of virtual time and more ({} ms before do not count, nor the time that \
             clients think at first), until each has had two turns on average and strong transactions end as often as \
             they begin; each number is of the second half of that. One seed gives one figure, on any machine. {}",
            SLOWNESS,
            crate::virtual_cluster::shape::CORES_PER_NODE,
            self.window().as_millis(),
            self.warm_up().as_millis(),
            self.costs,
        )
    }
}
