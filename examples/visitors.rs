//! What the programs `tickets` and `retwis` share and what is not about consistency: options,
//! simulated visitors, and tables.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use futures_util::future::{join_all, try_join_all};
use solera::ipa::Interval;
use solera::{Client, Endpoint, Error};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

/// Time between two actions of a visitor.
const PAUSE: Duration = Duration::from_millis(20);

/// A way to keep the data of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Everything is linearizable
    Strong,
    /// Everything is causal
    Weak,
    /// Pages show the strongest value that arrives within 20 ms
    LatencyBound,
    /// Pages show a number as an interval, with an error of at most 5%
    ErrorBound,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no way is hidden").get_name())
    }
}

/// Options of both programs.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Addresses of sites. Each visitor uses one of them
    #[arg(value_name = "HOST:PORT")]
    #[arg(default_values = ["127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"])]
    sites: Vec<Endpoint>,
    /// Ways to keep the data, separated by commas; all by default
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAY")]
    #[arg(default_values_t = Way::value_variants().to_vec(), hide_default_value = true)]
    ways: Vec<Way>,
    /// How long visitors use the service, for each way
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Number of actions of each visitor, instead of a time
    #[arg(long, value_name = "NUMBER", conflicts_with = "seconds")]
    actions: Option<usize>,
    /// Number of visitors
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1000))]
    visitors: u64,
}

impl Common {
    /// Returns when visits end.
    pub(crate) fn until(&self) -> Until {
        match self.actions {
            Some(actions) => Until::Acted(actions),
            None => Until::Passed(Duration::from_secs(self.seconds)),
        }
    }

    /// Runs the service in each way, with a session for each visitor and one more. Prints pages,
    /// tables and broken promises, and returns the exit code of the program.
    pub(crate) async fn compare(
        &self,
        columns: [&[&str]; 2],
        spaces: &[&str],
        run: impl AsyncFn(Way, Vec<Client>) -> Result<Report, Error>,
    ) -> ExitCode {
        let mut reports = Vec::new();
        for way in &self.ways {
            let done = match self.connect(spaces).await {
                Ok(clients) => run(*way, clients).await.map_err(|error| error.to_string()),
                Err(error) => Err(format!("{error}; --help shows how to start a cluster")),
            };
            match done {
                Ok(report) => {
                    println!("{way}");
                    report.pages.iter().for_each(|page| println!("  {page}"));
                    reports.push(report);
                }
                Err(error) => {
                    eprintln!("error: {way}: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        conclude(&reports, columns)
    }

    /// Opens the sessions, and checks that the cluster has spaces with some prefixes.
    async fn connect(&self, spaces: &[&str]) -> Result<Vec<Client>, String> {
        let sites = self.sites.iter().cycle().take(self.visitors as usize + 1);
        try_join_all(sites.map(async |site| {
            let wrong = |error| format!("cannot use the site at {site}: {error}");
            let mut client = Client::connect_to(site).await.map_err(wrong)?;
            for space in spaces {
                if client.declared(space).await.map_err(wrong)?.prefix != *space {
                    return Err(format!("the cluster has no space with the prefix '{space}'"));
                }
            }
            Ok(client)
        }))
        .await
    }
}

/// Consistency of a page, as its visitor sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trust {
    /// It is current.
    Strong,
    /// It may be old.
    Weak,
    /// The current number is in this interval.
    Within(Interval<i64>),
}

/// Actions and answers of visitors.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    times: BTreeMap<&'static str, Vec<Duration>>,
    /// Numbers of events of the application, such as `sold`.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) strong: u64,
    pub(crate) weak: u64,
    pub(crate) widths: Vec<u64>,
    /// Number of actions that failed, and the first error.
    pub(crate) failed: u64,
    failure: Option<String>,
}

impl Tally {
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn saw(&mut self, trust: Trust) {
        match trust {
            Trust::Strong => self.strong += 1,
            Trust::Weak => self.weak += 1,
            Trust::Within(interval) => self.widths.push(interval.width()),
        }
    }

    fn add(&mut self, other: Tally) {
        for (kind, times) in other.times {
            self.times.entry(kind).or_default().extend(times);
        }
        for (what, count) in other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        self.strong += other.strong;
        self.weak += other.weak;
        self.widths.extend(other.widths);
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
    }

    /// Returns the number of actions.
    pub(crate) fn actions(&self) -> usize {
        self.times.values().map(Vec::len).sum()
    }

    /// Returns the mean and the 95th percentile of a kind of action in milliseconds.
    fn times(&self, kind: &str) -> [String; 2] {
        let mut times = self.times.get(kind).cloned().unwrap_or_default();
        times.sort_unstable();
        let Some(percentile) = times.get(times.len() * 95 / 100) else {
            return ["-", "-"].map(str::to_owned);
        };
        let mean = times.iter().sum::<Duration>() / times.len() as u32;
        [mean, *percentile].map(|time| format!("{:.1}", time.as_secs_f64() * 1000.0))
    }

    /// Returns the share of strong answers, and the mean width of intervals.
    fn trust(&self) -> [String; 2] {
        let (answers, intervals) = (self.strong + self.weak, self.widths.len() as u64);
        let share = (answers > 0).then(|| format!("{}%", self.strong * 100 / answers));
        let width = || self.widths.iter().sum::<u64>() as f64 / intervals as f64;
        let width = (intervals > 0).then(|| format!("{:.1}", width()));
        [share, width].map(|it| it.unwrap_or_else(|| "-".to_owned()))
    }
}

/// End of the visits.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Passed(Duration),
    /// After this number of actions of each visitor.
    Acted(usize),
}

/// A simulated visitor.
pub(crate) trait Visitor {
    /// Adds this visitor's share of what all of them find at the beginning.
    async fn prepare(&mut self) -> Result<(), Error>;
    /// Performs an action that it draws at random, and returns its kind.
    async fn act(&mut self) -> Result<&'static str, Error>;
    fn client(&mut self) -> &mut Client;
    fn tally(&mut self) -> &mut Tally;
}

/// Lets visitors use a service. At the end, all sessions see what any of them has
/// written, also the one of the office.
pub(crate) async fn simulate<V: Visitor>(
    way: Way,
    until: Until,
    office: &mut Client,
    visitors: &mut [V],
) -> Result<Tally, Error> {
    let prepare = try_join_all(visitors.iter_mut().map(V::prepare));
    with_progress(format!("{way}: preparing"), prepare).await?;
    synchronise(office, visitors).await?;
    let visits = join_all(visitors.iter_mut().map(|visitor| visit(visitor, until)));
    with_progress(format!("{way}: visitors use the service"), visits).await;
    with_progress(format!("{way}: waiting for all updates"), synchronise(office, visitors)).await?;
    let mut total = Tally::default();
    visitors.iter_mut().for_each(|visitor| total.add(std::mem::take(visitor.tally())));
    Ok(total)
}

async fn visit<V: Visitor>(visitor: &mut V, until: Until) {
    let (first, mut actions) = (Instant::now(), 0);
    while match until {
        Until::Passed(time) => first.elapsed() < time,
        Until::Acted(number) => actions < number,
    } {
        actions += 1;
        let begin = Instant::now();
        match visitor.act().await {
            Ok(kind) => {
                visitor.tally().times.entry(kind).or_default().push(begin.elapsed());
            }
            Err(error) => {
                let tally = visitor.tally();
                tally.failed += 1;
                tally.failure.get_or_insert_with(|| error.to_string());
                if let Error::Connection(_) = error {
                    sleep(Duration::from_millis(500)).await;
                    // If this fails, so does the next action.
                    let _ = visitor.client().reconnect().await;
                }
            }
        }
        sleep(PAUSE).await;
    }
}

/// Lets each of the sessions see everything that any of them has written or seen.
async fn synchronise<V: Visitor>(office: &mut Client, visitors: &mut [V]) -> Result<(), Error> {
    for visitor in visitors.iter_mut() {
        let past = visitor.client().token().await?;
        office.attach(&past).await?;
    }
    let past = office.token().await?;
    try_join_all(visitors.iter_mut().map(async |visitor| visitor.client().attach(&past).await))
        .await
        .map(drop)
}

/// Waits for a future, and reports every two seconds that it is not ready.
pub(crate) async fn with_progress<T>(
    what: impl fmt::Display,
    future: impl Future<Output = T>,
) -> T {
    let every = Duration::from_secs(2);
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut future, begin) = (std::pin::pin!(future), Instant::now());
    let terminal = std::io::stderr().is_terminal();
    loop {
        tokio::select! {
            done = &mut future => {
                if terminal && begin.elapsed() > every {
                    eprint!("\r\x1b[K");
                }
                return done;
            }
            _ = ticks.tick() => {
                let seconds = begin.elapsed().as_secs();
                match terminal {
                    true => eprint!("\r\x1b[K{what}: {seconds} s"),
                    false => eprintln!("{what}: {seconds} s"),
                }
                let _ = std::io::stderr().flush();
            }
        }
    }
}

/// Result of a way.
pub(crate) struct Report {
    pub(crate) way: Way,
    /// Pages as a visitor sees them at the end.
    pub(crate) pages: Vec<String>,
    pub(crate) tally: Tally,
    /// Promises that were broken.
    pub(crate) broken: Vec<String>,
}

/// Prints tables with columns for kinds of actions and for counts, and broken promises. Returns the
/// exit code of the program.
fn conclude(reports: &[Report], [kinds, counts]: [&[&str]; 2]) -> ExitCode {
    let titles = kinds.iter().flat_map(|kind| [(*kind).to_owned(), "95%".to_owned()]);
    let titles = ["way", "actions"].map(str::to_owned).into_iter().chain(titles);
    let rows = reports.iter().map(|Report { way, tally, .. }| {
        let times = kinds.iter().flat_map(|kind| tally.times(kind));
        [way.to_string(), tally.actions().to_string()].into_iter().chain(times).collect()
    });
    println!("\nMilliseconds: mean of each kind of action, and 95th percentile");
    print_table(std::iter::once(titles.collect()).chain(rows).collect());

    let titles = ["way", "strong", "width"].iter().chain(counts).chain(&["failed"]);
    let rows = reports.iter().map(|Report { way, tally, .. }| {
        let counts = counts.iter().map(|what| tally.counts.get(what).copied().unwrap_or_default());
        let numbers = counts.chain([tally.failed]).map(|number| number.to_string());
        std::iter::once(way.to_string()).chain(tally.trust()).chain(numbers).collect()
    });
    println!("\nShare of strong answers, mean width of intervals, and numbers");
    let titles = titles.map(|title| (*title).to_owned()).collect();
    print_table(std::iter::once(titles).chain(rows).collect());

    println!();
    for Report { way, tally, broken, .. } in reports {
        if let Some(failure) = &tally.failure {
            println!("{way}: the first error was: {failure}");
        }
        broken.iter().for_each(|promise| println!("{way}: BROKEN: {promise}"));
    }
    match reports.iter().all(|report| report.broken.is_empty()) {
        true => {
            println!("all promises were kept");
            ExitCode::SUCCESS
        }
        false => ExitCode::FAILURE,
    }
}

fn print_table(rows: Vec<Vec<String>>) {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        println!("{}", cells.collect::<Vec<_>>().join("  "));
    }
}

/// Returns a seed that no other run has.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 48
}
