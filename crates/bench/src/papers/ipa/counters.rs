//! Figures 5 to 7: increments and reads of counters.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use solera::Error;
use solera_levels::Level;

use super::conditions::Condition;
use super::load::{Measured, Pace, Step, Workload, run};
use super::store::Store;
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::random::Random;
use crate::services::{IpaStoreSession, Policy, Read, load};

/// Number of counters in the paper.
const COUNTERS: usize = 100;
/// Values at the start: 500 on average.
const MOST: u64 = 1000;
/// Value from which increments of counters with 5% tolerance should wait for nobody.
const LARGE: i64 = 500;

const READ: &str = "read";
const INCREMENT: &str = "increment";
/// The same, of counters over [`LARGE`].
const LARGE_READ: &str = "large read";
const LARGE_INCREMENT: &str = "large increment";
const READS: [&str; 2] = [READ, LARGE_READ];
const INCREMENTS: [&str; 2] = [INCREMENT, LARGE_INCREMENT];
const ALL: [&str; 4] = [READ, LARGE_READ, INCREMENT, LARGE_INCREMENT];

/// Increments and reads of counters, chosen uniformly.
#[derive(Clone)]
struct Counting {
    /// Number of the run, which names the counters.
    run: u32,
    policy: Policy,
    /// Percentage of increments.
    increments: u8,
    /// An increment that takes longer has waited for another site.
    waits: Duration,
    /// Least and greatest values that the counters may have.
    truth: Rc<RefCell<Vec<Truth>>>,
}

/// Knowledge about a counter, all updates of which come from here.
#[derive(Clone, Copy, Default)]
struct Truth {
    /// The value with all acknowledged increments.
    acknowledged: i64,
    /// The value with all increments that have been sent.
    sent: i64,
}

fn name(run: u32, counter: usize) -> String {
    format!("{run}:{counter}")
}

impl<S: IpaStoreSession> Workload<S> for Counting {
    async fn run(&self, session: &mut S, random: &mut Random) -> Result<Step, Error> {
        let counter = random.below(COUNTERS as u64) as usize;
        let known = || self.truth.borrow()[counter];
        let before = known();
        let large = usize::from(before.acknowledged > LARGE);
        if random.chance(self.increments) {
            self.truth.borrow_mut()[counter].sent += 1;
            let began = Instant::now();
            session.add(&name(self.run, counter), 1, self.policy).await?;
            let waited = began.elapsed() > self.waits;
            self.truth.borrow_mut()[counter].acknowledged += 1;
            let mut step = Step::of(INCREMENTS[large]);
            step.counts.extend((large == 1 && waited).then_some("large waited"));
            return Ok(step);
        }
        let read = session.read(&name(self.run, counter), self.policy).await?;
        let (least, most) = (before.acknowledged, known().sent);
        let mut step = Step::of(READS[large]);
        let percent = |part: i64| 100.0 * part as f64 / least.max(1) as f64;
        match read {
            Read::Value(value, level) => {
                // Distance to the values that a linearizable read could have returned.
                let error = (least - value).max(value - most).max(0);
                if level == Level::Linearizable {
                    step.counts.push("strong");
                    step.counts.extend((error > 0).then_some("wrong"));
                }
                step.numbers.push(("error", percent(error)));
            }
            Read::Interval(min, max) => {
                step.numbers.push(("width", percent(max - min)));
                let Policy::Tolerance(tolerance) = self.policy else { return Ok(step) };
                let permitted = i128::from(tolerance) * i128::from(min.abs().min(max.abs()));
                let too_wide = i128::from(max - min) * 100 > permitted;
                step.counts.extend((max < least || min > most || too_wide).then_some("wrong"));
            }
        }
        Ok(step)
    }
}

/// Loads the counters and measures a policy.
fn measure<S: Store + 'static>(
    laboratory: &Laboratory<'_>,
    store: &S,
    condition: &Condition,
    (policy, increments): (Policy, u8),
    pace: Pace,
) -> Result<Measured, BenchError> {
    // Each run has counters of its own, because tokens and intervals outlast a run.
    let run_number = laboratory.next_run();
    let truth = Rc::new(RefCell::new(vec![Truth::default(); COUNTERS]));
    let loaded = Rc::clone(&truth);
    let connect = async |loader| store.connect_beside(loader).await;
    load(connect, COUNTERS, async move |session: &mut S::Session, counter| {
        let value = Random::new(counter as u64).below(MOST) as i64;
        session.add(&name(run_number, counter), value, policy).await?;
        loaded.borrow_mut()[counter] = Truth { acknowledged: value, sent: value };
        Ok(())
    })?;
    let waits = condition.client.0 + condition.client.1 + condition.shortest / 2.0;
    let waits = Duration::from_secs_f64(waits / 1000.0);
    run(store, &Counting { run: run_number, policy, increments, waits, truth }, pace)
}

/// Figures 5 and 6: reads with bounds of latency.
pub(super) fn latency(
    laboratory: &Laboratory<'_>,
    condition: &Condition,
    store: &(impl Store + 'static),
) -> Result<Findings, BenchError> {
    let bound = |ms| Policy::Within(Duration::from_millis(ms));
    let pace = laboratory.pace(20, 50);
    let (mut rows, mut percentiles) = (Vec::new(), Vec::new());
    let mut weak = (f64::NAN, f64::NAN);
    for policy in [Policy::Weak, Policy::Strong, bound(50), bound(10)] {
        (laboratory.report)(&format!("{}: reads, {}", condition.name, policy.name()));
        let measured = measure(laboratory, store, condition, (policy, 50), pace)?;
        let what = format!("{}: reads, {}", condition.name, policy.name());
        let (mean, p95) = (measured.mean_ms(&READS), measured.p95_ms(&READS));
        rows.push(Row::new("Fig. 5", format!("{what}, mean"), None, mean, "ms"));
        percentiles.push(Row::new("Fig. 6", format!("{what}, p95"), None, p95, "ms"));
        if policy == Policy::Weak {
            weak = (mean, p95);
        }
        let Policy::Within(_) = policy else { continue };
        let wrong = measured.count("wrong") as f64;
        rows.push(Row::new("Fig. 5", format!("{what}, wrong"), None, wrong, "reads").at_most(0.0));
        let strong = measured.percent("strong", measured.of(&READS).count());
        let row = Row::new("Fig. 5", format!("{what}, strong"), None, strong, "%");
        let loose = policy == bound(50);
        rows.push(match condition.name {
            "uniform" | "local" if loose => row.at_least(99.0),
            "slow replica" if loose => Row { paper: Some(70.0), ..row }.at_least(95.0),
            _ => row,
        });
        // Where strong reads take less than 10 ms, they are preferred to weak ones.
        if !loose && condition.shortest > 0.0 {
            let ratio = |what: &str| format!("{}: 10 ms bound over weak, {what}", condition.name);
            rows.push(Row::new("Fig. 5", ratio("mean"), 1.0, mean / weak.0, "ratio").at_most(1.1));
            let row = Row::new("Fig. 6", ratio("p95"), None, p95 / weak.1, "ratio");
            percentiles.push(row.at_most(1.1));
        }
    }
    rows.extend(percentiles);
    Ok(Findings { rows, ..Findings::default() })
}

/// Figure 7: error bounds.
pub(super) fn error(
    laboratory: &Laboratory<'_>,
    condition: &Condition,
    store: &(impl Store + 'static),
) -> Result<Findings, BenchError> {
    // Every counter is incremented 20 times a second.
    let pace = laboratory.pace(200, 50);
    let mut rows = Vec::new();
    let mut weak = (f64::NAN, f64::NAN);
    let mut policies = vec![Policy::Weak, Policy::Strong];
    policies.extend(
        laboratory.effort.pick(vec![5, 1], vec![10, 5, 3, 1]).into_iter().map(Policy::Tolerance),
    );
    let mut points = Vec::new();
    for policy in policies {
        (laboratory.report)(&format!("{}: counters, {}", condition.name, policy.name()));
        let measured = measure(laboratory, store, condition, (policy, 50), pace)?;
        let what = format!("{}: counters, {}", condition.name, policy.name());
        let mean = measured.mean_ms(&ALL);
        let large = measured.mean_ms(&[LARGE_READ, LARGE_INCREMENT]);
        rows.push(Row::new("Fig. 7", format!("{what}, mean"), None, mean, "ms"));
        let rate = measured.per_second(&INCREMENTS) / COUNTERS as f64;
        rows.push(Row::new("Fig. 7", format!("{what}, increments"), None, rate, "/s"));
        rows.push(measured.failed(laboratory, "Fig. 7", &what));
        let Policy::Tolerance(percents) = policy else {
            if policy == Policy::Weak {
                weak = (mean, large);
            }
            continue;
        };
        points.push((f64::from(percents), mean));
        let wrong = measured.count("wrong") as f64;
        rows.push(Row::new("Fig. 7", format!("{what}, wrong"), None, wrong, "reads").at_most(0.0));
        let width = measured.mean("width");
        let row = Row::new("Fig. 7", format!("{what}, width"), None, width, "%");
        rows.push(row.at_most(percents.into()));
        if percents == 5 {
            let most = if condition.name == "geo-distributed" { 1.3 } else { 1.1 };
            let over =
                |what: String, ratio| Row::new("Fig. 7", what, None, ratio, "ratio").at_most(most);
            rows.push(over(format!("{what} over weak"), mean / weak.0));
            rows.push(over(format!("{what} over weak, values over {LARGE}"), large / weak.1));
            if condition.shortest > 0.0 {
                let increments = measured.of(&[LARGE_INCREMENT]).count();
                let waited = 100.0 - measured.percent("large waited", increments);
                let row = format!("{what}, increments without waiting, values over {LARGE}");
                rows.push(Row::new("Fig. 7", row, None, waited, "%").at_least(95.0));
            }
        }
    }
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let plot = Plot {
        title: format!("Counters, {}", condition.name),
        x: "tolerance, %",
        y: "mean, ms",
        series: vec![
            Series { name: "error bound".to_owned(), points },
            Series { name: "weak".to_owned(), points: vec![(0.0, weak.0), (10.0, weak.0)] },
        ],
    };
    Ok(Findings { rows, plots: vec![plot], ..Findings::default() })
}

/// Figure 7b: how wrong weak values are, beside the width of intervals.
pub(super) fn observed(
    laboratory: &Laboratory<'_>,
    condition: &Condition,
    store: &(impl Store + 'static),
) -> Result<Findings, BenchError> {
    let pace = laboratory.pace(100, 50);
    let mut rows = Vec::new();
    for increments in laboratory.effort.pick(vec![1, 90], vec![1, 10, 50, 90]) {
        for policy in [Policy::Weak, Policy::Tolerance(1)] {
            (laboratory.report)(&format!(
                "{}: {increments}% increments, {}",
                condition.name,
                policy.name()
            ));
            let measured = measure(laboratory, store, condition, (policy, increments), pace)?;
            let what = format!("{}: {increments}% increments", condition.name);
            if policy == Policy::Weak {
                let (mean, most) = (measured.mean("error"), measured.most("error"));
                let row = |what, ours| Row::new("Fig. 7", what, None, ours, "%");
                rows.push(row(format!("{what}, weak, error, mean"), mean));
                let most = row(format!("{what}, weak, error, maximum"), most);
                rows.push(Row { paper: (increments == 90).then_some(60.0), ..most });
            } else {
                let width = measured.mean("width");
                let row = format!("{what}, 1% error, width, mean");
                rows.push(Row::new("Fig. 7", row, None, width, "%").at_most(1.0));
                let wrong = measured.count("wrong") as f64;
                let row = format!("{what}, 1% error, wrong");
                rows.push(Row::new("Fig. 7", row, None, wrong, "reads").at_most(0.0));
            }
        }
    }
    Ok(Findings { rows, ..Findings::default() })
}
