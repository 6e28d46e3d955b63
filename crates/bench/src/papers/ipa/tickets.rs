//! Figures 8 and 9: the ticket service.
//!
//! Clients look at events (70%), browse the events of a venue (19%), buy a ticket (10%) and add
//! events (1%). There are 50 venues, and 200 events with 2000 ± 500 tickets. Popular events are
//! chosen more often, by Zipf's law with exponent 0.6.

use std::rc::Rc;
use std::time::Duration;

use super::conditions::Condition;
use super::load::{Measured, Pace, Step, Workload, load, run};
use super::store::{Bought, Failure, IpaStoreSession, Policy, Read, Store};
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::papers::Row;
use crate::random::{Random, Zipf};

const VENUES: u64 = 50;
const EVENTS: usize = 200;
const TICKETS: f64 = 2000.0;
const DEVIATION: f64 = 500.0;
const POPULARITY: f64 = 0.6;
/// Number of events that a venue's page shows.
const SHOWN: u32 = 20;

const VIEW: &str = "view";
const BROWSE: &str = "browse";
const PURCHASE: &str = "purchase";
const ADD: &str = "add event";
const KINDS: [&str; 4] = [VIEW, BROWSE, PURCHASE, ADD];
/// Weights of the kinds.
const MIX: [u32; 4] = [70, 19, 10, 1];

/// A client of the ticket service.
#[derive(Clone)]
struct Tickets {
    /// Number of the run, which names events and venues.
    run: u32,
    policy: Policy,
    popular: Rc<Zipf>,
}

fn event(run: u32, number: usize) -> String {
    format!("{run}:event{number}")
}

fn venue(run: u32, number: u64) -> String {
    format!("{run}:venue{number}")
}

/// Returns a normally distributed number of tickets, by the sum of uniform numbers.
fn tickets(random: &mut Random) -> u32 {
    let uniform = |random: &mut Random| random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
    let normal = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
    (TICKETS + DEVIATION * normal).max(1.0) as u32
}

impl<S: IpaStoreSession> Workload<S> for Tickets {
    async fn run(&self, session: &mut S, random: &mut Random) -> Result<Step, Failure> {
        let kind = KINDS[random.weighted(&MIX)];
        let mut step = Step::of(kind);
        match kind {
            VIEW => {
                let event = event(self.run, self.popular.draw(random));
                session.text(&event).await?;
                if let Read::Value(_, level) = session.left(&event, self.policy).await? {
                    step.note_level(level);
                }
            }
            BROWSE => {
                let venue = venue(self.run, random.below(VENUES));
                let (_, level) = session.newest(&venue, SHOWN, self.policy).await?;
                step.note_level(level);
            }
            PURCHASE => {
                let event = event(self.run, self.popular.draw(random));
                let bought = session.take(&event, self.policy).await?;
                step.counts.extend((bought == Bought::CannotTell).then_some("cannot tell"));
            }
            _ => {
                let new = format!("{}:new{}", self.run, random.next());
                create(session, (self.run, &new), random, self.policy).await?;
            }
        }
        Ok(step)
    }
}

/// Adds an event with its tickets to a venue.
async fn create<S: IpaStoreSession>(
    session: &mut S,
    (run, event): (u32, &str),
    random: &mut Random,
    policy: Policy,
) -> Result<(), Failure> {
    session.write(event, &random.text(200)).await?;
    session.grow(event, tickets(random), policy).await?;
    session.push(&[venue(run, random.below(VENUES))], event, policy).await
}

/// Adds half of the events at each of two replicas, and measures a policy.
fn measure<S: Store + 'static>(
    laboratory: &Laboratory<'_>,
    store: &S,
    policy: Policy,
    pace: Pace,
) -> Result<Measured, BenchError> {
    let run_number = laboratory.next_run();
    load(store, EVENTS, async move |session: &mut S::Session, number| {
        let (event, mut random) = (event(run_number, number), Random::new(number as u64));
        create(session, (run_number, &event), &mut random, policy).await
    })?;
    let popular = Rc::new(Zipf::with_exponent(EVENTS, POPULARITY));
    run(store, &Tickets { run: run_number, policy, popular }, pace)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_papers_number_of_tickets() {
        let mut random = Random::new(4);
        let drawn: Vec<f64> = (0..10_000).map(|_| f64::from(tickets(&mut random))).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean - TICKETS).abs() < 20.0, "{mean}");
        assert!((variance.sqrt() - DEVIATION).abs() < 20.0, "{variance}");
    }
}
