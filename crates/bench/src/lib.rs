//! Workloads that measure a cluster and check its guarantees, for `solera bench` and `solera
//! papers`.
//!
//! | module | subject |
//! |---|---|
//! | `rubis` | an auction house with the transactions of UniStore §8.1, and its invariants |
//! | `micro` | transactions of three items, as in UniStore §8.2 |
//! | `tpcc` | TPC-C in a speculative space, by transactions of a module |
//! | `ycsb` | reads and updates of single values, as in Occult §8, also against Redis |
//! | `services` | the ticket service and the Twitter clone of IPA §5.3, in variants |
//! | `closed_loop` | the closed loop of clients with pauses |
//! | `place`, `session` | addresses of the sites, and how transactions run |
//! | `load` | filling a cluster before a run |
//! | `spaces` | checks that a cluster has the spaces that a workload needs |
//! | `tally`, `histogram`, `invariant`, `report` | counts and checks, and their output |
//! | `batch`, `random` | commands that are sent together; random numbers |
//! | `pairs` | comparisons in wall-clock time |
//! | `requests` | instructions and system calls per request |
//! | `papers` | experiments of papers, reproduced |
//! | `virtual_cluster` | clusters in virtual time that are as busy as real ones |

mod batch;
mod closed_loop;
mod error;
mod histogram;
mod invariant;
mod load;
mod micro;
mod pairs;
pub mod papers;
mod place;
mod ports;
mod random;
mod report;
pub mod requests;
mod rubis;
pub mod services;
mod session;
mod spaces;
mod tally;
mod tpcc;
mod virtual_cluster;
pub mod ycsb;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use solera::{Client, Error, Token};

pub use closed_loop::Pace;
pub use error::BenchError;
pub use histogram::Histogram;
pub use invariant::Invariant;
pub use micro::Micro;
pub use place::TargetCluster;
pub use report::Report;
pub use rubis::Scale;
pub use session::Strong;
pub use tally::{Class, Count, Failures, Kind};
pub use tpcc::Tpcc;

use closed_loop::{Ran, Workload, run_workload};
use rubis::Rubis;
use session::BenchSessions;

/// A workload with its settings.
#[derive(Clone, Debug)]
pub enum Work {
    /// RUBiS' bidding mix.
    Rubis {
        /// Amount of data.
        scale: Scale,
        /// Number of consecutive strong transactions that contend for the same name or item; `None`
        /// for RUBiS' own distribution, in which they rarely conflict.
        contended: Option<u64>,
        /// Seed of the random numbers.
        seed: u64,
    },
    /// Transactions of three items.
    Micro(Micro),
    /// TPC-C.
    Tpcc(Tpcc),
}

impl Work {
    /// Returns the spaces of a cluster on which its transactions are strong, in the format of
    /// `solera.toml`.
    pub fn spaces(&self) -> &'static str {
        match self {
            Work::Rubis { .. } => rubis::schema::SPACES,
            Work::Micro(_) => micro::SPACES,
            Work::Tpcc(_) => tpcc::SPACES,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Rubis { scale, contended: None, .. } => write!(f, "rubis, {scale}"),
            Work::Rubis { scale, contended: Some(together), .. } => {
                write!(f, "rubis, {scale}, contended by {together}")
            }
            Work::Micro(micro) => write!(
                f,
                "micro, {} keys, {}% updates, {}% strong, {}% of them hot",
                micro.keys, micro.updates, micro.strong, micro.hot
            ),
            Work::Tpcc(tpcc) => tpcc.fmt(f),
        }
    }
}

/// Creates a runtime on the caller's thread.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(BenchError::Threads)
}

/// Loads the data, runs the workload, and checks its invariants. Reports progress to `report`.
///
/// # Errors
/// See [`BenchError`]. Transactions that fail are counted and are no error.
pub fn run(
    work: &Work,
    place: &TargetCluster,
    strong: Strong,
    pace: &Pace,
    report: &dyn Fn(&str),
) -> Result<Report, BenchError> {
    check_pace(pace)?;
    let runtime = runtime()?;
    // TPC-C uses a speculative space of any name.
    if !matches!(work, Work::Tpcc(_)) {
        runtime.block_on(spaces::check(place, strong, work.spaces()))?;
    }
    let (kinds, tally, invariants) = match work {
        Work::Tpcc(tpcc) => tpcc::run(tpcc, place, strong, pace, report)?,
        Work::Micro(micro) => {
            check_micro(micro)?;
            report("loading");
            let filled = load::fill(place, strong, micro.parts());
            runtime.block_on(filled).map_err(BenchError::Load)?;
            report("running");
            let micro = Arc::new(micro.clone());
            let ran = run_workload(&micro, &BenchSessions::new(place, strong), pace)?;
            (micro.kinds(), ran.tally, Vec::new())
        }
        Work::Rubis { scale, contended, seed } => {
            let rubis = Arc::new(Rubis::new(*scale, *seed, run_name(), *contended));
            if runtime.block_on(rubis::load::is_needed(&rubis, place))? {
                report("loading");
                runtime.block_on(rubis::load::load(&rubis, place, strong))?;
            }
            report("running");
            let sessions = BenchSessions::new(place, strong);
            let Ran { tally, visitors, tokens } = run_workload(&rubis, &sessions, pace)?;
            report("checking");
            let remembered = visitors.into_iter().map(|visitor| visitor.remembered).collect();
            let checked = runtime.block_on(async {
                let mut client = settled(place, &tokens).await?;
                rubis::invariants::check(&mut client, remembered).await
            });
            (rubis.kinds(), tally, checked.map_err(BenchError::Check)?)
        }
    };
    Ok(Report::new(work.to_string(), strong, pace, place.sites(), &kinds, tally, invariants))
}

fn check_pace(pace: &Pace) -> Result<(), BenchError> {
    let wrong = if pace.clients == 0 {
        "the number of clients must be at least 1"
    } else if pace.threads == 0 {
        "the number of threads must be at least 1"
    } else if pace.window.is_zero() {
        "the length of the measurement must not be 0"
    } else {
        return Ok(());
    };
    Err(BenchError::Settings(wrong.to_owned()))
}

fn check_micro(micro: &Micro) -> Result<(), BenchError> {
    let percents = [("updates", micro.updates), ("strong", micro.strong), ("hot", micro.hot)];
    if let Some((name, share)) = percents.into_iter().find(|(_, share)| *share > 100) {
        return Err(BenchError::Settings(format!("{name}: {share}% is more than 100%")));
    }
    if micro.keys < 3 {
        let reason =
            "the number of keys must be at least 3, because a transaction uses three items";
        return Err(BenchError::Settings(reason.to_owned()));
    }
    Ok(())
}

/// Returns a client whose site has the writes of all other clients.
async fn settled(place: &TargetCluster, tokens: &[Token]) -> Result<Client, Error> {
    let mut client = place.connect(0).await?;
    load::attach(&mut client, tokens).await?;
    Ok(client)
}

/// Returns a unique name: runs on the same data must not share identifiers.
fn run_name() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("r{:x}", since_epoch.as_micros())
}
