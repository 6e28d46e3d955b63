//! The two applications of IPA §5.3, a ticket service and a Twitter clone, in variants that differ
//! in the policies of their data.
//!
//! | module | subject |
//! |---|---|
//! | `variant` | the variants |
//! | `tickets` | the ticket service |
//! | `retwis` | the Twitter clone |
//! | `store`, `spaces` | the store of the services, and spaces as that store |
//! | `load` | loading data |
//! | `observations` | levels of reads and widths of intervals |
//! | `report` | variants side by side |

mod load;
mod observations;
mod report;
pub(crate) mod retwis;
mod spaces;
mod store;
pub(crate) mod tickets;
mod variant;

use std::fmt;
use std::sync::Arc;

use solera::Error;
use solera_commands::counted;

use crate::closed_loop::{Pace, Ran, Sessions, Workload, run_workload};
use crate::error::BenchError;
use crate::invariant::Invariant;
use crate::place::TargetCluster;
use crate::report::Report;
use crate::session::Strong;
use crate::tally::{Class, Kind};
pub(crate) use load::{load, while_unsure};
pub use report::{Comparison, VariantReport};
pub(crate) use spaces::{Needed, SpacesSession, tables};
pub(crate) use store::{Bought, IpaStoreSession, Observed, Policy, Read};
pub use variant::Variant;

use spaces::SpacesSites;

/// Error tolerance, in percent (IPA §5.3).
const TOLERANCE: u32 = 5;

/// A service with its settings.
#[derive(Clone, Debug)]
pub enum Service {
    /// The ticket service.
    Tickets {
        /// Mean number of tickets of an event.
        tickets: u32,
    },
    /// The Twitter clone.
    Retwis {
        /// Number of users.
        users: u32,
    },
}

impl Service {
    /// Mean number of tickets of an event, in the paper.
    pub const TICKETS: u32 = tickets::TICKETS;

    /// Returns the spaces that a cluster needs, in the format of `solera.toml`.
    pub fn spaces(&self) -> String {
        let strong = [Needed::Strong, Needed::Weak];
        let more = match self {
            Service::Tickets { .. } => {
                [Needed::Typed("pool"), Needed::Typed("list"), Needed::Counters(TOLERANCE)]
            }
            Service::Retwis { .. } => {
                [Needed::Typed("set"), Needed::Typed("list"), Needed::Sets(TOLERANCE)]
            }
        };
        tables(self.prefix(), &[&strong[..], &more].concat())
    }

    /// Returns the beginning of all keys.
    fn prefix(&self) -> &'static str {
        match self {
            Service::Tickets { .. } => "tickets:",
            Service::Retwis { .. } => "retwis:",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Service::Tickets { tickets: mean } => {
                let (events, mean) = (counted(tickets::EVENTS, "event"), counted(*mean, "ticket"));
                write!(f, "tickets, {events} with {mean} on average")
            }
            Service::Retwis { users } => write!(f, "retwis, {}", counted(*users, "user")),
        }
    }
}

/// Runs variants of a service one after another, and checks the data of each. Reports progress to
/// `report`.
///
/// # Errors
/// See [`BenchError`]. Operations that fail are counted and are no error.
pub fn run(
    service: &Service,
    (variants, seed): (&[Variant], u64),
    place: &TargetCluster,
    pace: &Pace,
    report: &dyn Fn(&str),
) -> Result<Comparison, BenchError> {
    crate::check_pace(pace)?;
    let needed = service.spaces();
    crate::runtime()?.block_on(crate::spaces::check(place, Strong::Solera, &needed))?;
    let mut reports = Vec::new();
    for variant in variants {
        let sites = SpacesSites { place: place.clone(), prefix: service.prefix() };
        let report = |what: &str| report(&format!("{variant}: {what}"));
        let run = Run { name: crate::run_name(), variant: *variant, seed };
        reports.push(match *service {
            Service::Tickets { tickets } => {
                measure(tickets::Visits::new(run, tickets), *variant, (&sites, pace), &report)?
            }
            Service::Retwis { users } => measure(
                retwis::Visits::new(run, users as usize),
                *variant,
                (&sites, pace),
                &report,
            )?,
        });
    }
    Ok(Comparison { workload: service.to_string(), reports })
}

/// A run of a service.
pub(crate) struct Run {
    /// Name, which is part of all names of objects.
    name: String,
    variant: Variant,
    /// Seed of the clients' random numbers.
    seed: u64,
}

impl Run {
    /// Returns kinds of operations, of which the first `reads` only read.
    fn kinds(&self, names: &[&'static str], reads: usize) -> Vec<Kind> {
        let updates = if self.variant == Variant::Strong { Class::Strong } else { Class::Causal };
        let class = |kind| if kind < reads { Class::Read } else { updates };
        names.iter().enumerate().map(|(kind, name)| Kind { name, class: class(kind) }).collect()
    }
}

/// A service as its clients use it.
pub(crate) trait Visited: Workload<Sessions = SpacesSites> {
    /// Returns the number of items that exist at the beginning.
    fn items(&self) -> usize;

    /// Adds one of these items.
    async fn load(&self, session: &mut SpacesSession, number: usize) -> Result<(), Error>;

    /// Checks the data at the end, by what the clients know. The session's site has everything.
    async fn check(
        &self,
        session: &mut SpacesSession,
        visitors: Vec<Self::Visitor>,
    ) -> Result<Vec<Invariant>, Error>;
}

/// Loads the data of a variant, runs it, and checks the data.
fn measure<V: Visited>(
    visited: V,
    variant: Variant,
    (sites, pace): (&SpacesSites, &Pace),
    report: &dyn Fn(&str),
) -> Result<VariantReport, BenchError> {
    let (visited, place) = (Arc::new(visited), &sites.place);
    report("loading");
    let connect = async |loader| sites.connect(loader).await.map_err(BenchError::Connect);
    let loaded = visited.clone();
    let tokens = load(connect, visited.items(), async move |session: &mut _, number| {
        loaded.load(session, number).await
    })?;
    let everywhere = async {
        for site in 0..place.sites().len() {
            crate::load::attach(&mut place.connect(site).await?, &tokens).await?;
        }
        Ok(())
    };
    crate::runtime()?.block_on(everywhere).map_err(BenchError::Load)?;
    report("running");
    let Ran { mut tally, visitors, tokens } = run_workload(&visited, sites, pace)?;
    report("checking");
    let checked = crate::runtime()?.block_on(async {
        let client = crate::settled(place, &tokens).await?;
        let mut session = SpacesSession::settled(client, sites.prefix);
        visited.check(&mut session, visitors).await
    });
    let mut invariants = checked.map_err(BenchError::Check)?;
    let counters = std::mem::take(&mut tally.counters);
    invariants.extend(observations::widths(&counters));
    let (name, kinds) = (variant.to_string(), visited.kinds());
    let report = Report::new(name, Strong::Solera, pace, place.sites(), &kinds, tally, invariants);
    Ok(VariantReport { variant, report, counters })
}

/// Returns whether an operation that failed may have taken effect.
fn is_unknown(error: &Error) -> bool {
    match error {
        Error::Aborted { .. } | Error::Unavailable { transaction: None, .. } => false,
        Error::Server { code, .. } => !["ABORTED", "TRYAGAIN", "SOLDOUT"].contains(&code.as_str()),
        _ => true,
    }
}
