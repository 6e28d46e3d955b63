//! `solera bench`: runs workloads that measure a cluster and check its guarantees.

mod services;
mod ycsb;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use solera::Endpoint;
use solera_bench::{
    BenchError, Micro, Pace, Report, Scale, Strong, TargetCluster, Tpcc, Work, run,
};
use solera_config::{LogSpec, Overrides};
use solera_node::raise_descriptor_limit;

use crate::connect::LoginArgs;

const EXAMPLES: &str = "\
Examples:
  solera bench --up 3 --wan aws                      RUBiS on a cluster in this process
  solera bench --up 3 --wan aws --strong causal      the same, with strong transactions run causally
  solera bench --at 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103 --scale medium --clients 2000
  solera bench --up 3 --contended 8 --think-ms 0     many transactions contend for the same items
  solera bench --workload micro --up 3 --strong-percent 10 --hot-percent 20
  solera bench --workload tpcc --up 3 --wan aws --scale small
                                                     TPC-C in a speculative space, with small tables
  solera bench --workload tpcc --at 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103 --warehouses 5
  solera bench --workload tickets --up 3 --wan aws   sells tickets, in four variants one by one
  solera bench --workload retwis --up 3 --wan aws --variant weak,error-bound
                                                     a Twitter clone in two variants
  solera bench --workload tickets --at 127.0.0.1:7101,127.0.0.1:7102 --think-ms 0 --seconds 10
  solera bench --workload rubis --print-spaces       prints the spaces that --at requires
  solera bench ycsb --up 2 --wan aws                 reads and updates of single values, see
                                                     solera bench ycsb --help

A running cluster must have the spaces that --print-spaces prints; with --strong causal it must
not have them. Otherwise nothing runs. Exits with 1 in this case, if an invariant is broken, or if
no transaction succeeded. tickets and retwis take the time of a run once for each variant.";

/// Run a workload, measure it, and check the invariants of its data
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Workload to run
    #[arg(long, value_enum, default_value = "rubis")]
    workload: Workload,
    #[command(flatten)]
    place: PlaceArgs,
    /// How to run strong transactions: solera, or causal, which is faster and breaks invariants
    #[arg(long, default_value = "solera")]
    strong: Strong,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    rubis: RubisArgs,
    #[command(flatten)]
    micro: MicroArgs,
    #[command(flatten)]
    tpcc: TpccArgs,
    #[command(flatten)]
    services: services::ServiceArgs,
    /// Seed of the clients' random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Only print the spaces that the workload requires, for solera.toml
    #[arg(long)]
    print_spaces: bool,
}

/// A workload with options of its own.
#[derive(Debug, Subcommand)]
enum Other {
    Ycsb(Box<ycsb::YcsbArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// An auction house: the bidding mix, 15% updates, 10% strong
    Rubis,
    /// Transactions of three items
    Micro,
    /// TPC-C in a speculative space: Payment is strong, and the other transactions are weak
    Tpcc,
    /// A ticket service: 70% viewEvent, 19% browse, 10% purchase, 1% addEvent
    Tickets,
    /// A Twitter clone: 50% timeline, 14% tweet, 30% retweet, 5% follow, 1% newUser
    Retwis,
}

impl Workload {
    /// Returns its name on the command line.
    fn name(self) -> &'static str {
        match self {
            Workload::Rubis => "rubis",
            Workload::Micro => "micro",
            Workload::Tpcc => "tpcc",
            Workload::Tickets => "tickets",
            Workload::Retwis => "retwis",
        }
    }
}

#[derive(Debug, Args)]
struct PlaceArgs {
    /// Addresses of nodes of a running cluster. Clients are spread over sites, then over nodes
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    at: Vec<Endpoint>,
    #[command(flatten)]
    login: LoginArgs,
    /// Start a cluster with this number of sites in this process, in memory
    #[arg(long, value_name = "SITES", conflicts_with = "at")]
    up: Option<usize>,
    /// With --up: delays between sites, as for `solera up`
    #[arg(long, requires = "up")]
    wan: Option<String>,
    /// With --up: number of logical partitions (default 16)
    #[arg(long, requires = "up")]
    partitions: Option<u16>,
    /// With --up: number of workers (threads) per site (default 1)
    #[arg(long, requires = "up", value_parser = clap::value_parser!(u8).range(1..))]
    workers: Option<u8>,
}

#[derive(Debug, Args)]
struct PaceArgs {
    /// Number of clients; each runs one transaction at a time
    #[arg(long, default_value_t = 300)]
    clients: usize,
    /// Average pause of a client between transactions, in milliseconds (default 500 for rubis,
    /// tickets and retwis, 0 for the others)
    #[arg(long)]
    think_ms: Option<u64>,
    /// Time over which the clients start, in seconds
    #[arg(long, default_value_t = 5)]
    ramp_up: u64,
    /// Time between the ramp-up and the measurement, in seconds
    #[arg(long, default_value_t = 5)]
    warm_up: u64,
    /// Length of the measurement, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Number of threads that the clients share
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

#[derive(Debug, Args)]
struct RubisArgs {
    /// rubis: amount of data: tiny, small (330 items, 10,000 users; the default), medium, or full
    /// (33,000, 1,000,000). tpcc: amount of data of a warehouse: tiny (100 items, 30 customers of a
    /// district), small (1,000, 300), medium (10,000, 1,000), or full, which is that of the
    /// specification (100,000, 3,000; the default)
    #[arg(long)]
    scale: Option<Scale>,
    /// rubis: number of consecutive strong transactions that contend for the same name or item
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    contended: Option<u64>,
}

#[derive(Debug, Args)]
struct MicroArgs {
    /// micro: number of items that causal transactions choose from, and that strong ones choose
    /// from (default 100000)
    #[arg(long)]
    keys: Option<u64>,
    /// micro: percentage of transactions that update (default 100)
    #[arg(long)]
    update_percent: Option<u8>,
    /// micro: percentage of transactions that are strong (default 10)
    #[arg(long)]
    strong_percent: Option<u8>,
    /// micro: percentage of strong transactions that access one designated partition (default 0)
    #[arg(long)]
    hot_percent: Option<u8>,
    /// micro: size of an item in bytes (default 100)
    #[arg(long)]
    value_bytes: Option<u64>,
}

#[derive(Debug, Args)]
struct TpccArgs {
    /// tpcc: number of warehouses (default 1)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    warehouses: Option<u16>,
}

/// Runs the command to the end of the measurement.
pub(crate) fn main(args: &BenchArgs) -> ExitCode {
    if let Some(Other::Ycsb(args)) = &args.other {
        return ycsb::main(args);
    }
    if let Some((option, other)) = args.foreign_option() {
        let (own, other) = (args.workload.name(), other.name());
        print_error!(
            "solera bench: {option} belongs to the workload {other}, and this is {own}; use --workload {other}, or \
             omit the option"
        );
        return ExitCode::from(2);
    }
    let Some(work) = args.work() else { return services::main(args) };
    if args.print_spaces {
        output!("{}", work.spaces().trim_end());
        return ExitCode::SUCCESS;
    }
    let report = match args.measure(&work) {
        Ok(report) => report,
        Err(error) => return report_error(&error),
    };
    match args.json {
        true => output!("{:#}", report.json()),
        false => output!("{}", report.to_string().trim_end()),
    }
    conclude(report.holds(), report.total().latency.count() > 0)
}

fn report_error(error: &BenchError) -> ExitCode {
    print_error!("solera bench: {error}");
    match error {
        BenchError::Settings(_) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

/// Returns the exit code of a run, by whether its invariants hold and whether a transaction
/// succeeded.
fn conclude(holds: bool, has_run: bool) -> ExitCode {
    if !holds {
        print_error!("solera bench: an invariant is broken");
        return ExitCode::FAILURE;
    }
    if !has_run {
        print_error!("solera bench: no transaction succeeded within the measured time");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

impl BenchArgs {
    /// Returns an option that is given and does not apply to this workload, and one to which it
    /// applies.
    fn foreign_option(&self) -> Option<(&'static str, Workload)> {
        use Workload::{Micro, Retwis, Rubis, Tickets, Tpcc};
        let (RubisArgs { scale, contended }, micro) = (&self.rubis, &self.micro);
        let services = &self.services;
        let options: [(_, _, &[Workload]); 11] = [
            ("--scale", scale.is_some(), &[Rubis, Tpcc]),
            ("--contended", contended.is_some(), &[Rubis]),
            ("--keys", micro.keys.is_some(), &[Micro]),
            ("--update-percent", micro.update_percent.is_some(), &[Micro]),
            ("--strong-percent", micro.strong_percent.is_some(), &[Micro]),
            ("--hot-percent", micro.hot_percent.is_some(), &[Micro]),
            ("--value-bytes", micro.value_bytes.is_some(), &[Micro]),
            ("--warehouses", self.tpcc.warehouses.is_some(), &[Tpcc]),
            ("--variant", !services.variant.is_empty(), &[Tickets, Retwis]),
            ("--tickets", services.tickets.is_some(), &[Tickets]),
            ("--users", services.users.is_some(), &[Retwis]),
        ];
        let is_foreign =
            |(_, is_given, of): &(_, bool, &[Workload])| *is_given && !of.contains(&self.workload);
        options.into_iter().find(is_foreign).map(|(option, _, of)| (option, of[0]))
    }

    /// Returns the workload, unless it is a service in variants.
    fn work(&self) -> Option<Work> {
        let (RubisArgs { scale, contended }, micro) = (&self.rubis, &self.micro);
        let seed = self.seed;
        Some(match self.workload {
            Workload::Tickets | Workload::Retwis => return None,
            Workload::Rubis => {
                Work::Rubis { scale: scale.unwrap_or_default(), contended: *contended, seed }
            }
            Workload::Micro => Work::Micro(Micro {
                keys: micro.keys.unwrap_or(100_000),
                updates: micro.update_percent.unwrap_or(100),
                strong: micro.strong_percent.unwrap_or(10),
                hot: micro.hot_percent.unwrap_or(0),
                value_bytes: micro.value_bytes.unwrap_or(100),
                seed,
            }),
            Workload::Tpcc => Work::Tpcc(Tpcc {
                warehouses: self.tpcc.warehouses.unwrap_or(1),
                scale: scale.unwrap_or(Scale::FULL),
                seed,
                source: None,
            }),
        })
    }

    fn measure(&self, work: &Work) -> Result<Report, BenchError> {
        raise_descriptor_limit();
        // A cluster with these spaces would reject the strong transactions when they run causally.
        let place = self.place(match self.strong {
            Strong::Solera => work.spaces(),
            Strong::Causal => "",
        })?;
        let report_progress = |what: &str| print_error!("solera bench: {what}");
        run(work, &place, self.strong, &self.pace(), &report_progress)
    }

    fn pace(&self) -> Pace {
        let think = match self.workload {
            Workload::Rubis | Workload::Tickets | Workload::Retwis => 500,
            Workload::Micro | Workload::Tpcc => 0,
        };
        Pace {
            clients: self.pace.clients,
            threads: self.pace.threads,
            think: Duration::from_millis(self.pace.think_ms.unwrap_or(think)),
            ramp_up: Duration::from_secs(self.pace.ramp_up),
            warm_up: Duration::from_secs(self.pace.warm_up),
            window: Duration::from_secs(self.pace.seconds),
        }
    }

    fn place(&self, spaces: &str) -> Result<TargetCluster, BenchError> {
        if self.place.is_missing() {
            let missing = "choose a cluster: --at HOST:PORT,… or --up SITES";
            return Err(BenchError::Settings(missing.to_owned()));
        }
        self.place.target(spaces)
    }
}

impl PlaceArgs {
    /// Returns whether no cluster is chosen.
    fn is_missing(&self) -> bool {
        self.up.is_none() && self.at.is_empty()
    }

    /// Returns the running cluster, or starts one with these spaces.
    fn target(&self, spaces: &str) -> Result<TargetCluster, BenchError> {
        let PlaceArgs { at, login, up, wan, partitions, workers } = self;
        if up.is_some() {
            let over = Overrides {
                sites: *up,
                partitions: *partitions,
                workers: *workers,
                wan: wan.clone(),
                data: None,
                log: LogSpec::default(),
            };
            return TargetCluster::up(over, spaces);
        }
        let endpoints: Result<_, _> = at.iter().map(|at| login.apply(at)).collect();
        let endpoints = endpoints.map_err(BenchError::Settings)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(BenchError::Threads)?.block_on(TargetCluster::at(endpoints))
    }
}
