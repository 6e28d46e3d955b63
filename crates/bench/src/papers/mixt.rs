//! MixT (PLDI 2018) §8: Figures 15 to 17, and the mix of Message Groups.
//!
//! | module | subject |
//! |---|---|
//! | `place` | the stores, and how far away they are |
//! | `shaped` | a store with witnesses, without them, or with late ones |
//! | `load` | clients |
//! | `counters` | the paper's counters |
//! | `speedup` | Figure 15: increasing shares of causal transactions, and the cost of witnesses |
//! | `latencies` | Figure 16: the cost of witnesses for each transaction |
//! | `groups` | Message Groups |
//! | `messages` | Figure 17, and the mix |

mod counters;
mod groups;
mod latencies;
mod load;
mod messages;
mod place;
mod shaped;
mod speedup;

use std::time::Duration;

use self::load::Pace;
use self::place::Deployment;
use super::{Effort, Findings, Page, Results};
use crate::error::BenchError;

/// Figures that can be reproduced. The mix of §8.4 belongs to the last one.
pub const FIGURES: std::ops::RangeInclusive<u8> = 15..=17;

/// Settings of the experiments.
struct Laboratory<'a> {
    effort: Effort,
    report: &'a (dyn Fn(&str) + Sync),
}

impl Laboratory<'_> {
    /// Returns the pace of a measurement with as many clients as the place supports, without
    /// pauses.
    fn pace(&self, place: &Deployment) -> Pace {
        Pace {
            clients: self.effort.pick(96, 256).min(place.most_clients),
            // The removal of witnesses is part of their cost.
            warm_up: self.effort.pick(Duration::from_millis(300), load::cleaning_from() + SETTLING),
            window: Duration::from_millis(self.effort.pick(500, 6000)),
            think: Duration::ZERO,
        }
    }
}

/// Time that clients run before the measurement, after the removal of witnesses has begun.
const SETTLING: Duration = Duration::from_secs(2);

/// Runs the experiments of all figures, or of one: on spaces and, if the URL of a PostgreSQL server
/// is given, also with this server as the linearizable store. Reports progress to `report`.
///
/// # Errors
/// Fails if a store cannot be started or does not answer. A number that is worse than the paper's
/// is not an error.
pub fn run(
    effort: Effort,
    figure: Option<u8>,
    postgres: Option<&str>,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Results, BenchError> {
    let laboratory = Laboratory { effort, report };
    let wanted = |number: u8| figure.is_none_or(|figure| figure == number);
    let mut found = Findings::default();
    let mut places = vec![Deployment::spaces()?];
    if let Some(url) = postgres {
        places.push(Deployment::postgres(url)?);
    }
    for place in &places {
        if wanted(15) {
            found.take(speedup::run(&laboratory, place)?);
        }
    }
    if wanted(16) {
        found.take(latencies::run(&laboratory, &places[0])?);
    }
    if wanted(17) {
        places.insert(1, Deployment::one_cluster()?);
        for place in &places {
            found.take(messages::run(&laboratory, place)?);
        }
    }
    let mut page = Page { title: "MixT, Figures 15 to 17".to_owned(), ..Page::default() };
    page.notes.push(SETUP.to_owned());
    page.notes.extend(found.notes);
    page.plots = found.plots;
    if postgres.is_none() {
        page.notes.push("PostgreSQL was not measured: no server was given.".to_owned());
    }
    let mut rows = found.rows;
    rows.sort_by_key(|row| row.figure);
    Ok(Results { paper: "mixt", rows, page, costs: None })
}

const SETUP: &str = "\
The linearizable store is 85 ± 10 ms away, and the causal one 1 ms, by proxies that delay what is sent (those of \
`solera wan`; timers are of one millisecond, so that the nearer one adds up to two). All of it runs on this \
computer: the clients in one thread, the proxies in another, each cluster in a process of its own, and so \
PostgreSQL. Clients are in a closed loop: each calls a transaction as soon as the one before is done, and all \
series have equally many clients. The paper has three computers, and clients enough to saturate its stores.";

#[cfg(test)]
mod tests {
    use solera_language::compile::compile;
    use solera_language::render::render;

    #[test]
    fn the_programs_compile() {
        for (name, source) in
            [("counters", super::counters::SOURCE), ("groups", super::groups::SOURCE)]
        {
            let compiled = compile(source);
            let rendered = render(&compiled.diagnostics, name, source, false);
            assert!(compiled.program.is_some() && compiled.diagnostics.is_empty(), "{rendered}");
        }
    }
}
