//! `solera sim`: seeds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use solera_sim::{Kind, Report, Scenario, Tally, Trace, Violation, run};

const EXAMPLES: &str = "\
Examples:
  solera sim --seeds 300               judge seeds 0 to 299
  solera sim --seeds 20000 --from 300  a long run, with progress
  solera sim --seed 42                 one seed, with details
  solera sim --seed 42 --trace out.txt and everything that happened
  solera sim --seeds 300 --durable     with journals on simulated disks, crashes and restarts
  solera sim --seeds 300 --members     and lost sites that are removed and added again
  solera sim --seeds 300 --links       and connections that break and carry so much in their time
  solera sim --seeds 300 --promises    promises of durability are judged in every seed
  solera sim --seeds 300 --members --primary
                                       a second protocol beside UniStore
  solera sim --seeds 300 --durable --trial
                                       jobs, guards and lanes of the protocol interface, too
  solera sim --seeds 40 --outages      sites, or parts of one, are down for a minute

Ends with 1 if a seed fails, and prints how to run that one again.";

/// Run whole clusters in virtual time, with faults, and judge what their clients saw
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    /// Run this one seed, and tell more
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// How many seeds to run
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Write everything that happens to this file (with --seed)
    #[arg(long, requires = "seed")]
    trace: Option<PathBuf>,
    /// Give sites journals on simulated disks, and let sites and workers crash and start again
    ///
    /// Each worker has the journal that servers have. Power fails in the middle of writes and tears
    /// them; disks are slow or full, fail, let bits rot, and put writes into the wrong place; sites
    /// are away for long. The last line counts what took effect.
    #[arg(long)]
    durable: bool,
    /// The same, and remove lost sites and add them again
    #[arg(long, conflicts_with = "durable")]
    members: bool,
    /// The same, and let each worker be a process of its own, with links to the others
    ///
    /// What decides about queues, frames and handshakes is what servers run. Connections break for
    /// one side before the other; bytes take their time; queues are short.
    #[arg(long, conflicts_with_all = ["durable", "members"])]
    links: bool,
    /// Take sites, some workers of one site, or a link to the leading site down for a minute, and
    /// judge whether the others commit
    ///
    /// Each site with all of its workers must commit a strong transaction on every group, three
    /// times during the minute, within five seconds each time; otherwise the seed fails. One case
    /// is listed and does not fail the seed: a site waits for another one of which only some
    /// workers are down, most often the leading one.
    #[arg(long, conflicts_with_all = ["durable", "members", "links"])]
    outages: bool,
    /// Judge promises of durability in every seed, not only in every third
    ///
    /// Sessions ask for barriers, WAIT, AT-RISK and tokens; most sites are cut off before they are
    /// destroyed; and what survives must keep every promise.
    #[arg(long, conflicts_with = "outages")]
    promises: bool,
    /// Let workers also run the example protocol `primary`, and judge sessions that use it
    #[arg(long, conflicts_with = "outages")]
    primary: bool,
    /// Let workers also run the protocol `trial`, which exercises jobs, lanes and questions between
    /// protocols
    #[arg(long, conflicts_with = "outages")]
    trial: bool,
    /// Threads to use; 0 means one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

/// Runs the command; fails if any seed does.
pub(crate) fn main(args: &SimArgs) -> ExitCode {
    match (args.seed, &args.trace) {
        (Some(seed), _) => one(args, seed),
        // clap waives `requires` where the required argument conflicts with one that is given.
        (None, Some(_)) => {
            eprintln!(
                "solera sim: --trace shows one seed; give it with --seed instead of --seeds and --from"
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
    let scenario = if judges_promises(args, seed) { scenario.promising() } else { scenario };
    let scenario = if args.primary { scenario.with_primary() } else { scenario };
    if args.trial { scenario.with_trial() } else { scenario }
}

/// Outages are about progress alone.
fn judges_promises(args: &SimArgs, seed: u64) -> bool {
    args.promises || (seed.is_multiple_of(3) && !args.outages)
}

fn one(args: &SimArgs, seed: u64) -> ExitCode {
    let cannot_write = |file: &Path, error: io::Error| {
        eprintln!("solera sim: cannot write the trace to {}: {error}", file.display());
        ExitCode::FAILURE
    };
    // Before the run, which may take long.
    if let Some(file) = &args.trace
        && let Err(error) = fs::File::create(file)
    {
        return cannot_write(file, error);
    }
    let trace = if args.trace.is_some() { Trace::on() } else { Trace::off() };
    let report = run(&scenario(args, seed), trace);
    say!(
        "seed {seed}: {} transactions, {} steps, {:.1} s of virtual time",
        report.transactions,
        report.steps,
        report.virtual_ms as f64 / 1000.0
    );
    tell_faults(&report.tally);
    if let Some(file) = &args.trace {
        if let Err(error) = fs::write(file, report.trace.bytes()) {
            return cannot_write(file, error);
        }
        say!("the trace is in {}", file.display());
    }
    for known in &report.known_failures {
        say!("  known to fail: {known}");
    }
    if report.violations.is_empty() {
        say!("no violation");
        return ExitCode::SUCCESS;
    }
    tell(&report, 5);
    ExitCode::FAILURE
}

fn tell_faults(tally: &Tally) {
    if !tally.is_empty() {
        say!("faults that took effect: {tally}");
    }
}

/// Prints how often each rare path of the protocol was taken, the rarest first.
fn tell_paths(tally: &Tally) {
    let mut paths: Vec<_> = tally.paths().collect();
    paths.sort_by_key(|(_, count)| *count);
    say!("rare paths of the protocol, and how often they were taken:");
    for (path, count) in paths {
        match count {
            0 => say!("   never  {}", path.0),
            count => say!("{count:>8}  {}", path.0),
        }
    }
}

fn tell(report: &Report, limit: usize) {
    for violation in report.violations.iter().take(limit) {
        say!("  {violation}");
        if let Violation::Anomaly(anomaly) = violation {
            for t in anomaly.transactions() {
                say!("  transaction {t}: {}", report.history.transactions[t]);
            }
            if let Some(key) = anomaly.key() {
                say!("  writers of '{key}': {}", writers(report, key));
            }
        }
    }
    if report.violations.len() > limit {
        say!("  and {} more", report.violations.len() - limit);
    }
}

/// The transactions that changed a key, in the order of their commit times.
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
        ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {eta} left, {msg}")
            .expect("the template is well-formed"),
    );
    let Some(last) = args.from.checked_add(args.seeds - 1) else {
        eprintln!("solera sim: seeds end at {}; choose a smaller --from or --seeds", u64::MAX);
        return ExitCode::from(2);
    };
    let started = AtomicU64::new(0);
    let found: Mutex<Found> = Mutex::default();
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
                    let mut found = found.lock().expect("no thread panics with the lock");
                    found.add(seed, &report);
                    if !report.violations.is_empty() {
                        bar.suspend(|| {
                            say!("seed {seed} failed; replay: {}", replay(args, seed));
                            say!("  {}", report.violations[0]);
                        });
                        bar.set_message(format!("{} failed", found.failed));
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    tell_found(args, found.into_inner().expect("no thread panics with the lock"))
}

/// What many seeds came to.
#[derive(Default)]
struct Found {
    transactions: u64,
    steps: u64,
    failed: usize,
    /// The seeds whose failure is known.
    known: Vec<u64>,
    tally: Tally,
}

impl Found {
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

fn tell_found(args: &SimArgs, found: Found) -> ExitCode {
    let Found { transactions, steps, failed, mut known, tally } = found;
    let (seeds, from) = (args.seeds, args.from);
    say!("{seeds} seeds from {from}: {transactions} transactions, {steps} steps; {failed} failed");
    known.sort_unstable();
    if !known.is_empty() {
        let seeds: Vec<String> = known.iter().map(u64::to_string).collect();
        say!(
            "{} of them are known to fail, which does not count: while some workers of a site are down, other sites cannot commit \
             on groups that its remaining workers lead, or after a strong transaction that has seen what only one of them got from it. \
             With --seed they tell more: {}",
            known.len(),
            seeds.join(" ")
        );
    }
    tell_faults(&tally);
    tell_paths(&tally);
    let too_rare = tally.too_rare(kind(args), args.from, args.seeds);
    for (what, least) in &too_rare {
        say!("too rare to have been tried: {what}; there should be {least} at least");
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
    format!("solera sim --seed {seed}{kind}{promises}{primary}{trial}")
}
