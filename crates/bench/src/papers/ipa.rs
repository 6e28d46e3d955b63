//! IPA (SoCC 2016) §5: Figures 5 to 9 and 11, on clusters of processes with emulated delays.
//!
//! | module | subject |
//! |---|---|
//! | `conditions` | Table 1: delays between clients and sites, and between sites |
//! | `store` | replicas to which clients connect |
//! | `load` | clients |
//! | `counters` | Figures 5 to 7: bounds of latency and of error |
//! | `tickets` | Figures 8 and 9: the ticket service |
//! | `retwis` | Figure 11: the Twitter clone |
//!
//! The data types of the store and the two services are those of the module `services`, whose
//! workloads `solera bench` runs.

mod conditions;
mod counters;
mod load;
mod retwis;
mod store;
mod tickets;

use std::cell::Cell;
use std::time::Duration;

use self::conditions::{CLOUD, Condition, GEO, LOCAL, SLOW, UNIFORM};
use self::load::Pace;
use super::{Effort, Findings, Page, Results, Row};
use crate::error::BenchError;

/// Figures that can be reproduced.
pub const FIGURES: std::ops::RangeInclusive<u8> = 5..=11;

/// Settings of the experiments.
struct Laboratory<'a> {
    effort: Effort,
    report: &'a (dyn Fn(&str) + Sync),
    runs: Cell<u32>,
}

impl Laboratory<'_> {
    /// Returns the number of the next run.
    fn next_run(&self) -> u32 {
        self.runs.update(|run| run + 1);
        self.runs.get()
    }

    /// Returns the pace of clients that each begin an operation every `interval` milliseconds.
    fn pace(&self, clients: usize, interval: u64) -> Pace {
        let seconds = Duration::from_secs;
        Pace {
            clients,
            interval: Duration::from_millis(interval),
            // Sites get their first tokens and rights, and monitors learn.
            warm_up: self.effort.pick(seconds(4), seconds(10)),
            window: self.effort.pick(seconds(3), seconds(20)),
        }
    }
}

/// Runs the experiments of all figures, or of one. Reports progress to `report`.
///
/// # Errors
/// Fails if a cluster cannot be started or does not answer. A number that is worse than the
/// paper's is not an error.
pub fn run(
    effort: Effort,
    figure: Option<u8>,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Results, BenchError> {
    let laboratory = Laboratory { effort, report, runs: Cell::new(0) };
    // Figure 10 is the data model of Figure 11.
    let figure = figure.map(|wanted| if wanted == 10 { 11 } else { wanted });
    let is_wanted = |number: u8| figure.is_none_or(|wanted| wanted == number);
    let mut found = Findings::default();
    let conditions: [(&Condition, &[u8]); 5] = [
        (&UNIFORM, &[5, 6, 7, 8, 11]),
        (&SLOW, &[5, 6, 7, 8, 11]),
        (&GEO, &[5, 6, 7, 8, 11]),
        (&LOCAL, &[5, 6, 7, 8, 11]),
        (&CLOUD, &[8, 9]),
    ];
    for (condition, figures) in conditions {
        if !figures.iter().any(|number| is_wanted(*number)) {
            continue;
        }
        let place = condition.start_cluster()?;
        let store = &place.spaces;
        let wants = |number| figures.contains(&number) && is_wanted(number);
        if wants(5) || wants(6) {
            found.take(counters::latency(&laboratory, condition, store)?);
        }
        if wants(7) {
            found.take(counters::error(&laboratory, condition, store)?);
            if condition.name == GEO.name {
                found.take(counters::observed(&laboratory, condition, store)?);
            }
        }
        if wants(8) {
            found.take(tickets::latency(&laboratory, condition, store)?);
        }
        if wants(9) {
            found.take(tickets::throughput(&laboratory, condition, store)?);
        }
        if wants(11) {
            found.take(retwis::latency(&laboratory, condition, store)?);
        }
    }
    // One experiment measures rows of Figures 5 and 6.
    let rows = Row::of_figures(found.rows, is_wanted);
    let mut page = Page { title: "IPA, Figures 5 to 9 and 11".to_owned(), ..Page::default() };
    page.plots = found.plots;
    page.notes.push(SETUP.to_owned());
    Ok(Results { paper: "ipa", rows, page, costs: None })
}

const SETUP: &str = "\
One cluster of three sites for each condition, in a process of its own. Delays between sites are the sum of what the \
paper's network emulation adds to each of the two replicas: uniform 10 ms; slow replica 20, 110 and 110 ms; \
geo-distributed 81, 201 and 280 ms; local none. Clients reach their site through proxies: in 5, 10, 1 to 1.6 and 0 \
ms. The cloud is emulated: clients at 30 ms, sites at 100, 150 and 250 ms, which the paper does not state. Half of \
the clients are near the first site and half near the second one; the paper has one client. All of it runs on this \
computer, clients in one thread. 100 counters with values of 500 on average. Figures 5 and 6: at most 400 operations a \
second, half of them increments, which are strong where reads are strong or have a bound. Figure 7: 2000 increments \
and as many reads a second. Figure 7b: the error of a weak read is its distance to the values that a linearizable \
read could have returned. Tickets: 1000 operations a second, and for the throughput a closed loop. \
\
A strong purchase is a strong transaction; a weak one and one with a latency bound take a unit from a pool; with an \
error bound, it also decrements a counter with a tolerance of 5%, in the same transaction. With a latency bound, \
updates of pools, sets and lists are weak, and strong reads ask every site; updates of counters (Figures 5 and 6) are \
strong. Runs are too short for events to sell out. Twitter clone: 500 actions a second, 200 users, 100 tweets with up \
to 1000 retweets, timelines of 5 tweets; a retweet prefers popular tweets, by Zipf's law. Its texts are weak. \
Not reproduced: jitter between sites, high load, tolerances of 0%, all conditions but one of Figure 7b.";
