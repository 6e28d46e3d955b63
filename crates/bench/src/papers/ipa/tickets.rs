//! Figures 8 and 9: the ticket service.

use std::rc::Rc;
use std::time::Duration;

use solera::Error;

use super::conditions::Condition;
use super::load::{Measured, Pace, Step, Workload, run};
use super::store::Store;
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::papers::Row;
use crate::random::Random;
use crate::services::tickets::{EVENTS, KINDS, PURCHASE, TICKETS, Tickets};
use crate::services::{Bought, IpaStoreSession, Observed, Policy, load};

impl<S: IpaStoreSession> Workload<S> for Rc<Tickets> {
    async fn run(&self, session: &mut S, random: &mut Random) -> Result<Step, Error> {
        let action = self.draw(random);
        let (mut step, mut observed) = (Step::of(KINDS[action.kind()]), Observed::default());
        let bought = self.perform(session, &action, &mut observed).await?;
        step.observe(&observed);
        step.counts.extend((bought == Some(Bought::CannotTell)).then_some("cannot tell"));
        Ok(step)
    }
}

/// Adds half of the events at each of two replicas, and measures a policy.
fn measure<S: Store + 'static>(
    laboratory: &Laboratory<'_>,
    store: &S,
    policy: Policy,
    pace: Pace,
) -> Result<Measured, BenchError> {
    let tickets = Rc::new(Tickets::new(laboratory.next_run().to_string(), policy, TICKETS));
    let loaded = Rc::clone(&tickets);
    let connect = async |loader| store.connect_beside(loader).await;
    load(connect, EVENTS, async move |session: &mut S::Session, number| {
        loaded.load(session, number).await
    })?;
    run(store, &tickets, pace)
}

fn policies() -> [Policy; 4] {
    let bound = Policy::Within(Duration::from_millis(20));
    [Policy::Weak, Policy::Strong, bound, Policy::Tolerance(5)]
}

/// Figure 8: latencies.
pub(super) fn latency(
    laboratory: &Laboratory<'_>,
    condition: &Condition,
    store: &(impl Store + 'static),
) -> Result<Findings, BenchError> {
    let pace = laboratory.pace(50, 50);
    let mut rows = Vec::new();
    let mut weak = f64::NAN;
    for policy in policies() {
        let what = format!("{}: tickets, {}", condition.name, policy.name());
        (laboratory.report)(&what);
        let measured = measure(laboratory, store, policy, pace)?;
        let mean = measured.mean_ms(&KINDS);
        rows.push(Row::new("Fig. 8", format!("{what}, mean"), None, mean, "ms"));
        rows.push(measured.failed(laboratory, "Fig. 8", &what));
        let purchases = measured.mean_ms(&[PURCHASE]);
        rows.push(Row::new("Fig. 8", format!("{what}, purchase, mean"), None, purchases, "ms"));
        let unsure = measured.percent("cannot tell", measured.of(&[PURCHASE]).count());
        rows.push(Row::new("Fig. 8", format!("{what}, purchases, cannot tell"), None, unsure, "%"));
        let over = |ours| Row::new("Fig. 8", format!("{what} over weak"), None, ours, "ratio");
        match policy {
            Policy::Weak => weak = mean,
            Policy::Strong => rows.push(over(mean / weak)),
            Policy::Tolerance(_) => rows.push(over(mean / weak).at_most(1.1)),
            Policy::Within(_) => {
                let strong = measured.strong_percent();
                let row = Row::new("Fig. 8", format!("{what}, strong"), None, strong, "%");
                rows.push(match condition.name {
                    "uniform" => Row { paper: Some(92.0), ..row }.at_least(95.0),
                    "local" => row.at_least(95.0),
                    "slow replica" => Row { paper: Some(4.0), ..row },
                    "geo-distributed" | "cloud" => Row { paper: Some(0.0), ..row },
                    _ => row,
                });
            }
        }
    }
    Ok(Findings { rows, ..Findings::default() })
}

/// Figure 9: throughput.
pub(super) fn throughput(
    laboratory: &Laboratory<'_>,
    condition: &Condition,
    store: &(impl Store + 'static),
) -> Result<Findings, BenchError> {
    let pace =
        Pace { interval: Duration::ZERO, ..laboratory.pace(laboratory.effort.pick(64, 256), 0) };
    let mut rows = Vec::new();
    let mut weak = f64::NAN;
    for policy in policies() {
        let what = format!("{}: tickets, {}", condition.name, policy.name());
        (laboratory.report)(&format!("{what}, throughput"));
        let measured = measure(laboratory, store, policy, pace)?;
        let throughput = measured.per_second(&KINDS);
        rows.push(Row::new("Fig. 9", format!("{what}, throughput"), None, throughput, "/s"));
        rows.push(measured.failed(laboratory, "Fig. 9", &what));
        let over = |ours| Row::new("Fig. 9", format!("{what} over weak"), None, ours, "ratio");
        match policy {
            Policy::Weak => weak = throughput,
            Policy::Strong => rows.push(over(throughput / weak)),
            Policy::Tolerance(_) => rows.push(over(throughput / weak).at_least(0.95)),
            Policy::Within(_) => rows.push(over(throughput / weak).at_least(0.85)),
        }
    }
    Ok(Findings { rows, ..Findings::default() })
}
