//! Why a benchmark came to nothing.

use std::fmt;

/// Why a benchmark came to nothing.
#[derive(Debug)]
pub enum BenchError {
    /// Settings that contradict each other or are out of range.
    Settings(String),
    /// The cluster in this process could not be started.
    Start(String),
    /// Nobody answers as a site at this address.
    Site(String, solera::Error),
    /// A client could not connect.
    Connect(solera::Error),
    /// The data could not be written, or did not reach all sites.
    Load(solera::Error),
    /// The cluster holds data of another scale.
    OtherData {
        /// What it holds.
        found: String,
        /// What the run needs.
        wanted: String,
    },
    /// The cluster has not the spaces that the workload needs.
    SpacesMissing {
        /// How what it has differs, space by space.
        differences: Vec<String>,
        /// What its configuration should say.
        lines: String,
    },
    /// The workload is to be run causally, and the cluster refuses that.
    SpaceStrong {
        /// The space that does.
        space: String,
        /// Its level.
        level: String,
        /// The workload's keys in it.
        prefix: String,
    },
    /// A transaction of a program failed where it must not.
    Transaction(String),
    /// What the run left could not be read.
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
