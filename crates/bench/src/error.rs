//! Errors of benchmarks.

use std::fmt;

/// Error of a benchmark.
#[derive(Debug)]
pub enum BenchError {
    /// Settings that contradict each other or are out of range.
    Settings(String),
    /// The cluster in this process could not start.
    Start(String),
    /// No site answers at this address.
    Site(String, solera::Error),
    /// A client could not connect.
    Connect(solera::Error),
    /// The data could not be written, or did not reach all sites.
    Load(solera::Error),
    /// The cluster holds data of another scale.
    OtherData {
        /// Scale of its data.
        found: String,
        /// Scale that the run requires.
        wanted: String,
    },
    /// The cluster lacks spaces that the workload requires.
    SpacesMissing {
        /// Differences, space by space.
        differences: Vec<String>,
        /// Required lines of its configuration.
        lines: String,
    },
    /// The workload should run causally, and a space of the cluster rejects that.
    SpaceStrong {
        /// The space.
        space: String,
        /// Its level.
        level: String,
        /// Prefix of the workload's keys in it.
        prefix: String,
    },
    /// A transaction of a program failed unexpectedly.
    Transaction(String),
    /// The data could not be read after the run.
    Check(solera::Error),
    /// No thread could be started.
    Threads(std::io::Error),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Settings(reason) | BenchError::Start(reason) => f.write_str(reason),
            BenchError::Site(address, error) => write!(f, "{address}: {error}"),
            BenchError::Connect(error) => write!(f, "a client cannot connect: {error}"),
            BenchError::Load(error) => write!(f, "the data cannot be loaded: {error}"),
            BenchError::OtherData { found, wanted } => write!(
                f,
                "the cluster holds the data of '{found}', and this run needs '{wanted}': take another \
                 cluster, or run it at the scale that is there"
            ),
            BenchError::SpacesMissing { differences, lines } => write!(
                f,
                "the cluster has not the spaces that the workload needs: {}.\nIts solera.toml should have \
                 these lines, and its nodes must be started anew with them:\n{}",
                differences.join("; "),
                lines.trim_end()
            ),
            BenchError::SpaceStrong { space, level, prefix } => write!(
                f,
                "with --strong causal the keys '{prefix}…' must be in no strong space, and the cluster has \
                 them in '{space}', which is {level}: take another cluster, or leave --strong causal out"
            ),
            BenchError::Transaction(error) => write!(f, "a transaction failed: {error}"),
            BenchError::Check(error) => {
                write!(f, "what the run left cannot be read to be checked: {error}")
            }
            BenchError::Threads(error) => write!(f, "threads cannot be started: {error}"),
        }
    }
}

impl std::error::Error for BenchError {}
