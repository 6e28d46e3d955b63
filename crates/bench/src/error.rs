//! Errors of benchmarks.

/// Error of a benchmark.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Settings that contradict each other or are out of range.
    #[error("{0}")]
    Settings(String),
    /// The cluster in this process could not start.
    #[error("{0}")]
    Start(String),
    /// No site answers at this address.
    #[error("{0}: {1}")]
    Site(String, solera::Error),
    /// A client could not connect.
    #[error("a client cannot connect: {0}")]
    Connect(solera::Error),
    /// The data could not be written, or did not reach all sites.
    #[error("the data cannot be loaded: {0}")]
    Load(solera::Error),
    /// The cluster holds data of another scale.
    #[error(
        "the cluster holds the data of '{found}', and this run needs '{wanted}': take another \
         cluster, or run it at the scale that is there"
    )]
    OtherData {
        /// Scale of its data.
        found: String,
        /// Scale that the run requires.
        wanted: String,
    },
    /// The cluster lacks spaces that the workload requires.
    #[error(
        "the cluster does not have the spaces that the workload needs: {}.\nIts solera.toml should \
         have these lines, and its nodes must be restarted with them:\n{}",
        .differences.join("; "),
        .lines.trim_end()
    )]
    SpacesMissing {
        /// Differences, space by space.
        differences: Vec<String>,
        /// Required lines of its configuration.
        lines: String,
    },
    /// The workload should run causally, but a space of the cluster rejects that.
    #[error(
        "with --strong causal the keys '{prefix}…' must be in no strong space, and the cluster \
         has them in '{space}', which is {level}: take another cluster, or leave --strong causal \
         out"
    )]
    SpaceStrong {
        /// The space.
        space: String,
        /// Its level.
        level: String,
        /// Prefix of the workload's keys in it.
        prefix: String,
    },
    /// A transaction of a program failed unexpectedly.
    #[error("a transaction failed: {0}")]
    Transaction(String),
    /// The data could not be read after the run.
    #[error("what the run left cannot be read to be checked: {0}")]
    Check(solera::Error),
    /// No thread could be started.
    #[error("threads cannot be started: {0}")]
    Threads(std::io::Error),
}
