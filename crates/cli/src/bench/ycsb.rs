//! `solera bench ycsb`: reads and updates of single values, of Solera or of another server.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use solera::Endpoint;
use solera_bench::ycsb::{Distribution, Sending, Target, Ycsb, YcsbReport, prefix_of, run};
use solera_bench::{BenchError, Pace};
use solera_node::raise_descriptor_limit;
use solera_redis::Reads;

use super::PlaceArgs;
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  solera bench ycsb --up 2 --wan aws                 95% reads on a cluster in this process
  solera bench ycsb --at 127.0.0.1:7101,127.0.0.1:7102 --reads 75 --keys 1000000
  solera bench ycsb --up 2 --ops-per-transaction 10  transactions of 10 operations
  solera bench ycsb --up 2 --ops-per-transaction 10 --transactions multi
                                                     the same operations between MULTI and EXEC
  solera bench ycsb --at 127.0.0.1:7101 --space carts --no-load
  solera bench ycsb --redis redis://127.0.0.1:6379   any server with the Redis protocol
  solera bench ycsb --redis-cluster redis-cluster://127.0.0.1:7001 --near 127.0.0.1:7004
                                                     a Redis Cluster, with reads at near replicas

Goodput counts each successful operation once. Throughput also counts those of transactions that
aborted or failed. Exits with 1 if no operation succeeded.";

/// Read and update single values, alone or in transactions, as the Yahoo! Cloud Serving Benchmark
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct YcsbArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// URL of another server with the Redis protocol: `redis://HOST:PORT`, or with a user
    /// `redis://USER:PASSWORD@HOST:PORT`
    #[arg(long, value_name = "URL", conflicts_with_all = ["at", "up"])]
    redis: Option<String>,
    /// Nodes of a Redis Cluster: `redis-cluster://HOST:PORT,HOST:PORT`, or with a user
    /// `redis-cluster://USER:PASSWORD@HOST:PORT`
    #[arg(long, value_name = "URL", conflicts_with_all = ["at", "up", "redis"])]
    redis_cluster: Option<String>,
    /// With --redis-cluster: nodes that reads prefer, as the cluster announces them. A near replica
    /// answers with READONLY; if no near node has the key, any replica answers. Without it, the
    /// masters answer
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', requires = "redis_cluster", conflicts_with_all = ["at", "up", "redis"])]
    near: Vec<Endpoint>,
    /// Space of the keys, by its name
    #[arg(long, value_name = "NAME", requires = "at", conflicts_with = "prefix")]
    space: Option<String>,
    /// Prefix of the keys, which chooses their space
    #[arg(long, default_value = "ycsb:")]
    prefix: String,
    /// Number of keys
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// Size of a value in bytes
    #[arg(long, default_value_t = 1000)]
    value_bytes: u64,
    /// Percentage of operations that read; the others update
    #[arg(long, default_value_t = 95)]
    reads: u8,
    /// Distribution of the keys: zipfian (exponent 0.99, scrambled) or uniform
    #[arg(long, default_value = "zipfian")]
    distribution: Distribution,
    /// Number of operations of a transaction; 1 runs single operations
    #[arg(long, value_name = "T", default_value_t = 1)]
    ops_per_transaction: u64,
    /// How transactions are sent
    #[arg(long, value_enum, default_value = "interactive")]
    transactions: Transactions,
    /// Use the keys that are there, and write none before the run
    #[arg(long)]
    no_load: bool,
    /// Number of clients; each runs one operation or transaction at a time
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Average pause of a client between operations or transactions, in milliseconds
    #[arg(long, default_value_t = 0)]
    think_ms: u64,
    /// Time over which the clients start, in seconds
    #[arg(long, default_value_t = 1)]
    ramp_up: u64,
    /// Time between the ramp-up and the measurement, in seconds
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Length of the measurement, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Number of threads that the clients share
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seed of the clients' random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transactions {
    /// SOLERA.BEGIN, one operation after another, SOLERA.COMMIT
    Interactive,
    /// MULTI, all operations and EXEC at once
    Multi,
}

/// Runs the command to the end of the measurement.
pub(crate) fn main(args: &YcsbArgs) -> ExitCode {
    let report = match args.measure() {
        Ok(report) => report,
        Err(error) => {
            print_error!("solera bench ycsb: {error}");
            return match error {
                BenchError::Settings(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            };
        }
    };
    match args.json {
        true => output!("{:#}", report.json()),
        false => output!("{}", report.to_string().trim_end()),
    }
    if report.goodput() == 0.0 {
        print_error!("solera bench ycsb: no operation succeeded within the measured time");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

impl YcsbArgs {
    fn measure(&self) -> Result<YcsbReport, BenchError> {
        raise_descriptor_limit();
        let target = self.target()?;
        let ycsb = Ycsb {
            keys: self.keys,
            prefix: self.prefix(&target)?,
            value_bytes: self.value_bytes,
            reads: self.reads,
            distribution: self.distribution,
            operations: self.ops_per_transaction,
            sending: match self.transactions {
                Transactions::Interactive => Sending::Interactive,
                Transactions::Multi => Sending::Multi,
            },
            load: !self.no_load,
            seed: self.seed,
        };
        let doing = Arc::new(Mutex::new("connecting".to_owned()));
        let shown = Arc::clone(&doing);
        let text = move || {
            let doing = shown.lock().unwrap_or_else(PoisonError::into_inner);
            format!("solera bench ycsb: {doing}")
        };
        let _progress = Progress::begin(text);
        let report = |what: &str| {
            what.clone_into(&mut doing.lock().unwrap_or_else(PoisonError::into_inner));
        };
        run(&ycsb, &target, &self.pace(), &report)
    }

    fn pace(&self) -> Pace {
        Pace {
            clients: self.clients,
            threads: self.threads,
            think: Duration::from_millis(self.think_ms),
            ramp_up: Duration::from_secs(self.ramp_up),
            warm_up: Duration::from_secs(self.warm_up),
            window: Duration::from_secs(self.seconds),
        }
    }

    fn target(&self) -> Result<Target, BenchError> {
        let parse = |url: &str, option: &str, cluster: bool| {
            let target = solera_redis::Target::parse(url);
            let target = target.map_err(|error| BenchError::Settings(error.to_string()))?;
            match target.is_cluster() == cluster {
                true => Ok(target),
                false => Err(BenchError::Settings(format!(
                    "{option} needs a URL of {}",
                    if cluster { "redis-cluster://" } else { "redis://" }
                ))),
            }
        };
        if let Some(url) = &self.redis {
            return Ok(Target::Redis(parse(url, "--redis", false)?, Reads::Masters));
        }
        if let Some(url) = &self.redis_cluster {
            let near = self.near.iter().map(|node| (node.host().to_owned(), node.port()));
            let reads =
                if self.near.is_empty() { Reads::Masters } else { Reads::Near(near.collect()) };
            return Ok(Target::Redis(parse(url, "--redis-cluster", true)?, reads));
        }
        if self.place.is_missing() {
            let missing = "choose a server: --at HOST:PORT,…, --up SITES, --redis URL or \
                           --redis-cluster URL";
            return Err(BenchError::Settings(missing.to_owned()));
        }
        self.place.target("").map(Target::Solera)
    }

    /// Returns the prefix of the keys.
    fn prefix(&self, target: &Target) -> Result<String, BenchError> {
        match (&self.space, target) {
            (Some(space), Target::Solera(place)) => prefix_of(place, space),
            _ => Ok(self.prefix.clone()),
        }
    }
}
