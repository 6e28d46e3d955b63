//! `solera sim`: runs seeds of the simulator.

use solera_commands::counted;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use solera_sim::{Kind, Report, Scenario, Tally, Trace, Violation, run};

use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  solera sim --seeds 300               runs and checks seeds 0 to 299
  solera sim --seeds 20000 --from 300  a long run, with progress
  solera sim --seed 42                 one seed, with details
  solera sim --seed 42 --trace out.txt the same, with a trace of all events
  solera sim --seeds 300 --durable     with journals on simulated disks, crashes and restarts
  solera sim --seeds 300 --members     also removes lost sites and adds them again
  solera sim --seeds 300 --links       also simulates connections with limited bandwidth that break
  solera sim --seeds 300 --promises    checks durability guarantees in every seed
  solera sim --seeds 300 --members --primary
                                       also runs a second protocol beside UniStore
  solera sim --seeds 300 --members --occult
                                       also runs Occult beside UniStore
  solera sim --seeds 300 --durable --speculative
                                       also runs weak and strong operations in one order
  solera sim --seeds 300 --durable --trial
                                       also exercises jobs, guards and lanes of protocols
  solera sim --seeds 40 --outages      takes sites, or parts of one, down for a minute

Exits with 1 if a seed fails, and prints the command that replays it.";

/// Simulate whole clusters in virtual time, with faults, and check what their clients observe
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    /// Run this one seed, and print details
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Number of seeds to run
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Write a trace of all events to this file (with --seed)
    #[arg(long, requires = "seed")]
    trace: Option<PathBuf>,
    /// Give sites journals on simulated disks, and crash and restart sites and workers
    ///
    /// Each worker uses the same journal as a server. Power failures tear writes. Disks are slow or
    /// full, fail, flip bits, and misdirect writes. Sites are down for long periods. The output
    /// counts the faults that took effect.
    #[arg(long)]
    durable: bool,
    /// Like --durable, and also remove lost sites and add them again
    #[arg(long, conflicts_with = "durable")]
    members: bool,
    /// Like --members, and run each worker as its own process, with links to the others
    ///
    /// Queues, frames and handshakes use the same code as servers. Connections break for one side
    /// before the other, bandwidth is limited, and queues are short.
    #[arg(long, conflicts_with_all = ["durable", "members"])]
    links: bool,
    /// Take sites, some workers of one site, or a link to the leading site down for a minute, and
    /// check that the others commit
    ///
    /// Each site whose workers all run must commit a strong transaction on every group, three times
    /// during the minute, within five seconds each time; otherwise the seed fails. One known case
    /// is listed and does not fail the seed: a site waits for a site of which only some workers are
    /// down, most often for the leading site.
    #[arg(long, conflicts_with_all = ["durable", "members", "links"])]
    outages: bool,
    /// Check durability guarantees in every seed, not only in every third
    ///
    /// Sessions use barriers, WAIT, AT-RISK and tokens. Most sites are cut off before they are
    /// destroyed. The surviving data must satisfy every guarantee that a session received.
    #[arg(long, conflicts_with = "outages")]
    promises: bool,
    /// Also run the example protocol `primary` on each worker, and check sessions that use it
    #[arg(long, conflicts_with = "outages")]
    primary: bool,
    /// Also run Occult on each worker, and check sessions of level `pcpsi`
    ///
    /// Homes move; no site that is the home of some keys is removed.
    #[arg(long, conflicts_with = "outages")]
    occult: bool,
    /// Have clients also read at weaker levels than that of a key's space, and cancel strong reads
    #[arg(long, conflicts_with = "outages")]
    weaker_reads: bool,
    /// Add sessions that change counters, and read everything that any site has acknowledged
    #[arg(long, conflicts_with = "outages")]
    complete_reads: bool,
    /// Also run `reservations` on each worker, and check sessions that use counters with error
    /// bounds
    #[arg(long, conflicts_with = "outages")]
    bounds: bool,
    /// Also run `creek` on a worker of each site, and check sessions that invoke weak and strong
    /// operations
    #[arg(long, conflicts_with = "outages")]
    speculative: bool,
    /// Also run the protocol `trial` on each worker, which exercises jobs, lanes and questions
    /// between protocols
    #[arg(long, conflicts_with = "outages")]
    trial: bool,
    /// Number of threads; 0 means one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

/// Runs the command; fails if any seed fails.
pub(crate) fn main(args: &SimArgs) -> ExitCode {
    match (args.seed, &args.trace) {
        (Some(seed), _) => one(args, seed),
        // clap waives `requires` where the required argument conflicts with one that is given.
        (None, Some(_)) => {
            print_error!(
                "solera sim: --trace writes the trace of one seed; use --seed instead of --seeds and --from"
            );
            ExitCode::from(2)
        }
        (None, None) => many(args),
    }
}

fn kind(args: &SimArgs) -> Kind {
    match args {
        SimArgs { outages: true, .. } => Kind::Outages,
        SimArgs { links: true, .. } => Kind::Links,
        SimArgs { members: true, .. } => Kind::Members,
        SimArgs { durable: true, .. } => Kind::Durable,
        _ => Kind::Plain,
    }
}

fn scenario(args: &SimArgs, seed: u64) -> Scenario {
    let scenario = match kind(args) {
        Kind::Plain => Scenario::from_seed(seed),
        Kind::Durable => Scenario::durable(seed),
        Kind::Members => Scenario::members(seed),
        Kind::Links => Scenario::links(seed),
        Kind::Outages => Scenario::outage(seed),
    };
    let scenario = if checks_promises(args, seed) { scenario.promising() } else { scenario };
    let scenario = if args.primary { scenario.with_primary() } else { scenario };
    let scenario = if args.occult { scenario.with_occult() } else { scenario };
    let scenario = if args.weaker_reads { scenario.with_weaker_reads() } else { scenario };
    let scenario = if args.complete_reads { scenario.with_complete_reads() } else { scenario };
    let scenario = if args.bounds { scenario.with_bounds() } else { scenario };
    let scenario = if args.speculative { scenario.with_speculation() } else { scenario };
    if args.trial { scenario.with_trial() } else { scenario }
}

/// Returns whether durability guarantees are checked in this seed. Seeds with outages check
/// progress only.
fn checks_promises(args: &SimArgs, seed: u64) -> bool {
    args.promises || (seed.is_multiple_of(3) && !args.outages)
}

fn one(args: &SimArgs, seed: u64) -> ExitCode {
    let cannot_write = |file: &Path, error: io::Error| {
        print_error!("solera sim: cannot write the trace to {}: {error}", file.display());
        ExitCode::FAILURE
    };
    // Created first, so that an error is reported before a long run.
    if let Some(file) = &args.trace
        && let Err(error) = fs::File::create(file)
    {
        return cannot_write(file, error);
    }
    let trace = if args.trace.is_some() { Trace::on() } else { Trace::off() };
    let progress = Progress::begin(move || format!("seed {seed}"));
    let report = run(&scenario(args, seed), trace);
    drop(progress);
    output!(
        "seed {seed}: {}, {}, {:.1} s of virtual time",
        counted(report.transactions, "transaction"),
        counted(report.steps, "step"),
        report.virtual_ms as f64 / 1000.0
    );
    print_faults(&report.tally);
    if let Some(file) = &args.trace {
        if let Err(error) = fs::write(file, report.trace.bytes()) {
            return cannot_write(file, error);
        }
        output!("the trace is in {}", file.display());
    }
    for known in &report.known_failures {
        output!("  known failure: {known}");
    }
    if report.violations.is_empty() {
        output!("no violation");
        return ExitCode::SUCCESS;
    }
    print_violations(&report, 5);
    ExitCode::FAILURE
}

fn print_faults(tally: &Tally) {
    if !tally.is_empty() {
        output!("faults that took effect: {tally}");
    }
}

/// Prints how often each rare path of the protocol was taken, the rarest first.
fn print_paths(tally: &Tally) {
    let mut paths: Vec<_> = tally.paths().collect();
    paths.sort_by_key(|(_, count)| *count);
    output!("rare paths of the protocol, and how often they were taken:");
    for (path, count) in paths {
        match count {
            0 => output!("   never  {}", path.0),
            count => output!("{count:>8}  {}", path.0),
        }
    }
}

fn print_violations(report: &Report, limit: usize) {
    for violation in report.violations.iter().take(limit) {
        output!("  {violation}");
        if let Violation::Anomaly(anomaly) = violation {
            for t in anomaly.transactions() {
                output!("  transaction {t}: {}", report.history.transactions[t]);
            }
            if let Some(key) = anomaly.key() {
                output!("  writers of '{key}': {}", writers(report, key));
            }
        }
    }
    if report.violations.len() > limit {
        output!("  and {} more", report.violations.len() - limit);
    }
}

/// Lists the transactions that changed a key, in the order of their commit times.
fn writers(report: &Report, key: &str) -> String {
    let transactions = &report.history.transactions;
    let mut writers: Vec<usize> = (0..transactions.len())
        .filter(|t| transactions[*t].took_effect() && transactions[*t].changes(key))
        .collect();
    writers.sort_by_key(|t| transactions[*t].dot());
    let lines = writers.iter().map(|t| format!("\n  transaction {t}: {}", transactions[*t]));
    lines.collect()
}

fn many(args: &SimArgs) -> ExitCode {
    let threads = match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let bar = ProgressBar::new(args.seeds).with_style(
        ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {eta} left{msg}")
            .expect("the template is well-formed"),
    );
    let Some(last) = args.from.checked_add(args.seeds - 1) else {
        print_error!("solera sim: seeds end at {}; choose a smaller --from or --seeds", u64::MAX);
        return ExitCode::from(2);
    };
    // Standard output may go to a file while the bar is on a terminal.
    let progress = Progress::unless_on_terminal({
        let (bar, seeds) = (bar.clone(), args.seeds);
        move || format!("{} of {}{}", bar.position(), counted(seeds, "seed"), bar.message())
    });
    let started = AtomicU64::new(0);
    let total: Mutex<Total> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let offset = started.fetch_add(1, Ordering::Relaxed);
                    if offset > last - args.from {
                        return;
                    }
                    let seed = args.from + offset;
                    let report = run(&scenario(args, seed), Trace::off());
                    let mut total = total.lock().expect("no thread panics with the lock");
                    total.add(seed, &report);
                    if !report.violations.is_empty() {
                        bar.suspend(|| {
                            output!("seed {seed} failed; replay: {}", replay(args, seed));
                            output!("  {}", report.violations[0]);
                        });
                        bar.set_message(format!(", {} failed", total.failed));
                    }
                    bar.inc(1);
                }
            });
        }
    });
    drop(progress);
    bar.finish_and_clear();
    print_total(args, total.into_inner().expect("no thread panics with the lock"))
}

/// Results of many seeds.
#[derive(Default)]
struct Total {
    transactions: u64,
    steps: u64,
    failed: usize,
    /// Seeds with known failures.
    known: Vec<u64>,
    tally: Tally,
}

impl Total {
    fn add(&mut self, seed: u64, report: &Report) {
        self.transactions += report.transactions as u64;
        self.steps += report.steps;
        self.failed += usize::from(!report.violations.is_empty());
        self.tally.add(&report.tally);
        if !report.known_failures.is_empty() {
            self.known.push(seed);
        }
    }
}

/// Explanation of failures that do not count.
const KNOWN: &str = "\
Some seeds have known failures, which are not counted. In them, only some workers of a site are down.
Then other sites cannot commit strong transactions on groups that the site's remaining workers lead.
They also cannot commit after a strong transaction that depends on certain updates of this site: those
that only one other site has received. To see the details of a seed, run it alone with --seed.";

fn print_total(args: &SimArgs, total: Total) -> ExitCode {
    let Total { transactions, steps, failed, mut known, tally } = total;
    let (seeds, from) = (args.seeds, args.from);
    output!(
        "{} from {from}: {}, {}; {failed} failed",
        counted(seeds, "seed"),
        counted(transactions, "transaction"),
        counted(steps, "step")
    );
    known.sort_unstable();
    if !known.is_empty() {
        let seeds: Vec<String> = known.iter().map(u64::to_string).collect();
        output!("{KNOWN}\nSeeds with known failures: {}", seeds.join(" "));
    }
    print_faults(&tally);
    print_paths(&tally);
    let too_rare = tally.too_rare(kind(args), args.from, args.seeds);
    for (what, least) in &too_rare {
        output!("too rare to be tested: {what}; expected at least {least}");
    }
    if failed == 0 && too_rare.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(args: &SimArgs, seed: u64) -> String {
    let kind = match kind(args) {
        Kind::Plain => "",
        Kind::Durable => " --durable",
        Kind::Members => " --members",
        Kind::Links => " --links",
        Kind::Outages => " --outages",
    };
    let promises = if args.promises { " --promises" } else { "" };
    let primary = if args.primary { " --primary" } else { "" };
    let trial = if args.trial { " --trial" } else { "" };
    let occult = if args.occult { " --occult" } else { "" };
    let weaker = if args.weaker_reads { " --weaker-reads" } else { "" };
    let complete = if args.complete_reads { " --complete-reads" } else { "" };
    let bounds = if args.bounds { " --bounds" } else { "" };
    let speculative = if args.speculative { " --speculative" } else { "" };
    let beside = format!("{primary}{occult}{weaker}{complete}{bounds}{speculative}{trial}");
    format!("solera sim --seed {seed}{kind}{promises}{beside}")
}
