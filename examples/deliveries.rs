//! A type of one's own with bounds, made of the parts that `solera::ipa` has for it: the average of
//! delivery times, with an error bound, and the last delivery, with a bound of latency.
//!
//! ```sh
//! solera up --config examples/deliveries.toml --wan aws
//! cargo run --release -p solera --example deliveries
//! ```

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use solera::ipa::{Counter, ErrorTolerance, Holds, Interval, LatencyBound, Policy, Rushed, Taken};
use solera::{Client, Endpoint, Error, Value};
use solera_random::Random;
use tokio::time::sleep;

// ------------------------------------------------------------------------------------------------
// The type

const FIVE: ErrorTolerance = ErrorTolerance::percent(5);

/// Delivery times of a shop, in minutes. `P` is the policy for the last one. The average has an
/// error bound: it is the quotient of two counters, each of which is a pool of tokens.
pub(crate) struct Deliveries<P> {
    minutes: Counter<ErrorTolerance>,
    number: Counter<ErrorTolerance>,
    /// Key of the list of times.
    times: String,
    policy: P,
}

impl<P: Policy> Deliveries<P> {
    /// Opens the delivery times of a shop. Fails if a space has another type or tolerance, or does
    /// not permit the policy.
    pub(crate) async fn open(
        client: &mut Client,
        shop: &str,
        policy: P,
    ) -> Result<Deliveries<P>, Error> {
        let minutes = Counter::open(client, format!("minutes:{shop}"), FIVE).await?;
        let number = Counter::open(client, format!("number:{shop}"), FIVE).await?;
        let times = format!("times:{shop}");
        let space = client.declared(&times).await?;
        space.expect_type("list", false)?;
        Policy::check(&policy, space)?;
        Ok(Deliveries { minutes, number, times, policy })
    }

    /// Records deliveries. The transaction takes the tokens of both counters when it commits, or
    /// changes nothing.
    pub(crate) async fn record(
        &self,
        client: &mut Client,
        times: &[u32],
    ) -> Result<Taken<()>, Error> {
        let recorded = client.transaction(async |tx| {
            self.minutes.add(tx, times.iter().copied().map(i64::from).sum()).await?;
            self.number.add(tx, times.len() as i64).await?;
            let mut push = vec!["SOLERA.PUSH".to_owned(), self.times.clone()];
            push.extend(times.iter().map(u32::to_string));
            tx.command(&push).await.map(drop)
        });
        Taken::of(recorded.await)
    }

    /// Reads an interval that contains the average time in seconds: of every delivery that was
    /// recorded before the call, at any site, and perhaps of some that are recorded meanwhile.
    /// Returns `None` if there may be no deliveries.
    pub(crate) async fn average(
        &self,
        client: &mut Client,
    ) -> Result<Option<Interval<i64>>, Error> {
        // The number only grows. So the number at the moment of the sum is not less than before,
        // and not greater than after.
        let before = self.number.read(client).await?.min();
        let minutes = self.minutes.read(client).await?;
        let after = self.number.read(client).await?.max();
        Ok(quotient(minutes, before, after))
    }

    /// Reads how many minutes the last delivery took. `None` if there was none.
    pub(crate) async fn last(&self, client: &mut Client) -> Result<P::Read<Option<u32>>, Error> {
        client.read_under(&self.policy, &self.times, &[b"SOLERA.NEWEST", b"1"], newest).await
    }
}

/// Returns how many deliveries of a shop each site may have recorded, and not sent yet, as the
/// client's site knows.
pub(crate) async fn tokens(client: &mut Client, shop: &str) -> Result<Vec<(String, u64)>, Error> {
    let holders = client.holders(&format!("number:{shop}")).await?.into_iter();
    let tokens = holders.filter_map(|holder| match holder.holds {
        Holds::Tokens { increments, .. } => Some((holder.site, increments)),
        Holds::Rights { .. } => None,
    });
    Ok(tokens.collect())
}

/// Converts the reply of SOLERA.NEWEST for one element.
fn newest(reply: Value) -> Result<Option<u32>, Error> {
    let time = match &reply {
        Value::Array(times) => match &times[..] {
            [] => Some(None),
            [Value::Bulk(time)] => {
                std::str::from_utf8(time).ok().and_then(|it| it.parse().ok()).map(Some)
            }
            _ => None,
        },
        _ => None,
    };
    time.ok_or_else(|| Error::unexpected(&reply))
}

/// Returns the seconds per delivery, rounded outwards, if there is at least one delivery.
pub(crate) fn quotient(minutes: Interval<i64>, least: i64, most: i64) -> Option<Interval<i64>> {
    if least < 1 {
        return None;
    }
    let seconds = minutes.checked_mul(60).ok()?;
    let greatest = seconds.max() / least + i64::from(seconds.max() % least > 0);
    Interval::new(seconds.min() / most, greatest).ok()
}

// ------------------------------------------------------------------------------------------------
// The program

/// Time within which a page shows the last delivery.
const SOON: LatencyBound = LatencyBound(Duration::from_millis(50));

/// Number of deliveries before the program begins.
const FORMER: usize = 1000;

/// Deliveries of a run, and what each site shows of them.
pub(crate) struct Report {
    pub(crate) times: Vec<u32>,
    pub(crate) pages: Vec<Page>,
}

/// What a site shows.
pub(crate) struct Page {
    pub(crate) site: String,
    pub(crate) average: Option<Interval<i64>>,
    pub(crate) last: Rushed<Option<u32>>,
    pub(crate) tokens: Vec<(String, u64)>,
}

impl Page {
    /// Returns the page as text. The types of the values decide how it words them.
    pub(crate) fn text(self) -> String {
        let minutes = |seconds: i64| format!("{}:{:02}", seconds / 60, seconds % 60);
        let average = match self.average.map(Interval::bounds) {
            Some((min, max)) if min == max => format!("{} minutes", minutes(min)),
            Some((min, max)) => format!("{} to {} minutes", minutes(min), minutes(max)),
            None => "not known yet".to_owned(),
        };
        let words =
            |last: Option<u32>| last.map_or("none".to_owned(), |it| format!("{it} minutes"));
        let last = match self.last {
            Rushed::Consistent(last) => words(*last),
            earlier => format!("{}, or a later one", words(*earlier.weaken().endorse())),
        };
        let tokens = self.tokens.iter().map(|(site, tokens)| format!("{site} {tokens}"));
        let tokens = tokens.collect::<Vec<_>>().join(", ");
        format!("{}: average {average}; last: {last}; tokens: {tokens}", self.site)
    }
}

/// Records deliveries at all sites in turn, and shows them at each.
pub(crate) async fn run(
    mut clients: Vec<Client>,
    shop: &str,
    number: usize,
    mut random: Random,
) -> Result<Report, Error> {
    let former: Vec<u32> = (0..FORMER).map(|_| time(&mut random)).collect();
    let deliveries = Deliveries::open(&mut clients[0], shop, SOON).await?;
    patiently(async || deliveries.record(&mut clients[0], &former).await).await?;
    let mut times = former;
    for number in 0..number {
        let site = number % clients.len();
        let time = time(&mut random);
        patiently(async || deliveries.record(&mut clients[site], &[time]).await).await?;
        times.push(time);
    }
    let mut pages = Vec::new();
    for client in &mut clients {
        pages.push(Page {
            site: client.site().await?,
            average: patiently(async || Taken::of(deliveries.average(client).await)).await?,
            last: deliveries.last(client).await?,
            tokens: tokens(client, shop).await?,
        });
    }
    Ok(Report { times, pages })
}

/// Draws the minutes that a delivery takes.
fn time(random: &mut Random) -> u32 {
    10 + random.below(40) as u32
}

/// Repeats what fails only because tokens have not arrived, or were not given up, yet.
async fn patiently<T>(
    mut attempt: impl AsyncFnMut() -> Result<Taken<T>, Error>,
) -> Result<T, Error> {
    loop {
        match attempt().await? {
            Taken::Units(done) => return Ok(done),
            Taken::SoldOut { reason } | Taken::CannotTell { reason } => {
                eprintln!("waiting: {reason}");
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Records deliveries of a new shop at all sites, and shows their average and the last one.
#[derive(Parser)]
#[command(name = "deliveries", after_help = EXAMPLES)]
struct Options {
    /// Addresses of sites
    #[arg(value_name = "HOST:PORT")]
    #[arg(default_values = ["127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"])]
    sites: Vec<Endpoint>,
    /// Number of deliveries
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    deliveries: u32,
}

const EXAMPLES: &str = "\
Start a cluster first, for example three sites at the distances of data centres:
  solera up --config examples/deliveries.toml --wan aws";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    match show(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}; --help shows how to start a cluster");
            ExitCode::FAILURE
        }
    }
}

async fn show(options: &Options) -> Result<(), Error> {
    let mut clients = Vec::new();
    for site in &options.sites {
        clients.push(Client::connect_to(site).await?);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = Random::new(now.as_nanos() as u64 ^ u64::from(std::process::id()) << 48);
    let shop = format!("{:08x}", random.below(1 << 32));
    let report = run(clients, &shop, options.deliveries as usize, random).await?;
    println!("{} deliveries", report.times.len());
    report.pages.into_iter().for_each(|page| println!("{}", page.text()));
    Ok(())
}
