//! A ticket service, as in the IPA paper (§5.3.1), in four ways to choose how consistent its pages
//! and its sales are.
//!
//! ```sh
//! solera up --config examples/tickets.toml --wan aws
//! cargo run --release -p solera --example tickets -- --help
//! ```

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use solera::ipa::{
    Answer, Causal, Consistency, Consistent, CountPolicy, Counter, ErrorTolerance, Interval,
    LatencyBound, List, Policy, Pool, Rushed, Taken, level,
};
use solera::{Client, Error};
use solera_random::{Random, Zipf};

pub(crate) mod visitors;
use visitors::{Report, Tally, Trust, Until, Way};

// ------------------------------------------------------------------------------------------------
// The application

const STRONG: Consistency<level::Linearizable> = Consistency::new();
const CAUSAL: Consistency<level::Causal> = Consistency::new();
const SOON: LatencyBound = LatencyBound(Duration::from_millis(20));
const FIVE: ErrorTolerance = ErrorTolerance::percent(5);

/// The service in a session. `L` is the policy for the lists of events, and `T` determines how
/// tickets are stored and sold.
pub(crate) struct Service<L, T> {
    pub(crate) client: Client,
    pub(crate) listings: L,
    pub(crate) tickets: T,
}

impl<L: Policy, T: Tickets> Service<L, T>
where
    L::Read<Vec<String>>: Show,
{
    /// Returns the newest events at a venue.
    async fn browse(&mut self, venue: &str) -> Result<Shown, Error> {
        let listing = List::open(&mut self.client, T::key("venue", venue), self.listings).await?;
        Ok(listing.newest(&mut self.client, 3).await?.show())
    }

    /// Returns the description of an event, and how many tickets are left.
    async fn view_event(&mut self, event: &str) -> Result<(String, Shown), Error> {
        let description = self.client.get(&T::key("event", event)).await?;
        let left = self.tickets.left(&mut self.client, event).await?;
        Ok((description.unwrap_or_default(), left.show()))
    }

    /// Sells one ticket and returns its identifier.
    pub(crate) async fn purchase(&mut self, event: &str) -> Result<Taken<String>, Error> {
        self.tickets.sell(&mut self.client, event).await
    }

    /// Adds an event with its tickets. All of it is visible at once.
    pub(crate) async fn add_event(
        &mut self,
        venue: &str,
        event: &str,
        description: &str,
        tickets: u32,
    ) -> Result<(), Error> {
        let Service { client, tickets: store, .. } = self;
        let listing = List::open(client, T::key("venue", venue), self.listings).await?;
        let add = async |tx: &mut Client| {
            tx.set(&T::key("event", event), description).await?;
            store.supply(tx, event, tickets).await?;
            listing.push(tx, event).await
        };
        match T::STRONG {
            true => client.strong(add).await,
            false => client.transaction(add).await,
        }
    }
}

/// A way to store and to sell the tickets of events.
pub(crate) trait Tickets {
    /// Number of tickets left, as pages read it.
    type Left: Show;

    /// Whether all data is in the linearizable space.
    const STRONG: bool = false;

    /// Returns the key of an object. Its prefix determines the space.
    fn key(kind: &str, name: &str) -> String {
        if Self::STRONG { format!("strong:{kind}:{name}") } else { format!("{kind}:{name}") }
    }

    /// Adds tickets.
    async fn supply(&self, client: &mut Client, event: &str, number: u32) -> Result<(), Error>;

    /// Sells one ticket and returns its identifier.
    async fn sell(&self, client: &mut Client, event: &str) -> Result<Taken<String>, Error>;

    /// Reads how many tickets are left.
    async fn left(&self, client: &mut Client, event: &str) -> Result<Self::Left, Error>;
}

/// Tickets as a strong counter. Each sale is a strong transaction, which takes a round trip between
/// sites.
pub(crate) struct Counted;

impl Tickets for Counted {
    type Left = Consistent<i64>;
    const STRONG: bool = true;

    async fn supply(&self, client: &mut Client, event: &str, number: u32) -> Result<(), Error> {
        let left = Counter::open(client, Self::key("tickets", event), STRONG).await?;
        left.add(client, number.into()).await
    }

    async fn sell(&self, client: &mut Client, event: &str) -> Result<Taken<String>, Error> {
        let key = Self::key("tickets", event);
        let sale = client.strong(async |tx| {
            let left = tx.get(&key).await?.and_then(|left| left.parse().ok()).unwrap_or(0);
            if left < 1 {
                return Ok(Taken::SoldOut { reason: "none is left".to_owned() });
            }
            // No other transaction that commits has read this number.
            let number = tx.incr_by(&key, -1).await? + 1;
            Ok(Taken::Units(format!("{event}-{number}")))
        });
        match sale.await {
            // Too many others buy at this moment, or too few sites answer. Nothing was changed. For
            // a sale whose outcome is unknown, the error names the transaction.
            Err(error @ (Error::Aborted { .. } | Error::Unavailable { transaction: None, .. })) => {
                Ok(Taken::CannotTell { reason: error.to_string() })
            }
            other => other,
        }
    }

    async fn left(&self, client: &mut Client, event: &str) -> Result<Consistent<i64>, Error> {
        Counter::open(client, Self::key("tickets", event), STRONG).await?.read(client).await
    }
}

/// Tickets as a pool, whose sites sell what they have. `P` determines only what pages show: a pool
/// never sells more than it contains.
pub(crate) struct Pooled<P>(pub(crate) P);

impl<P: CountPolicy> Tickets for Pooled<P>
where
    P::Count: Show,
{
    type Left = P::Count;

    async fn supply(&self, client: &mut Client, event: &str, number: u32) -> Result<(), Error> {
        Pool::open(client, Self::key("tickets", event), self.0).await?.grow(client, number).await
    }

    async fn sell(&self, client: &mut Client, event: &str) -> Result<Taken<String>, Error> {
        let pool = Pool::open(client, Self::key("tickets", event), self.0).await?;
        Ok(one(pool.take(client, 1).await?))
    }

    async fn left(&self, client: &mut Client, event: &str) -> Result<P::Count, Error> {
        Pool::open(client, Self::key("tickets", event), self.0).await?.left(client).await
    }
}

/// Tickets as a pool, and a counter of them with an error bound, for pages. Both change in one
/// transaction.
pub(crate) struct Bounded;

impl Tickets for Bounded {
    type Left = Interval<i64>;

    async fn supply(&self, client: &mut Client, event: &str, number: u32) -> Result<(), Error> {
        let pool = Pool::open(client, Self::key("tickets", event), CAUSAL).await?;
        let left = Counter::open(client, Self::key("left", event), FIVE).await?;
        pool.grow(client, number).await?;
        left.add(client, number.into()).await
    }

    async fn sell(&self, client: &mut Client, event: &str) -> Result<Taken<String>, Error> {
        let pool = Pool::open(client, Self::key("tickets", event), CAUSAL).await?;
        let left = Counter::open(client, Self::key("left", event), FIVE).await?;
        let mut reason = String::new();
        for _ in 0..ATTEMPTS {
            let sale = client.transaction(async |tx| {
                let taken = one(pool.take(tx, 1).await?);
                if let Taken::Units(_) = taken {
                    left.add(tx, -1).await?;
                }
                Ok(taken)
            });
            // The transaction takes its ticket, and a token for the counter, when it commits.
            match sale.await {
                Err(Error::Server { code, message }) if code == "SOLDOUT" => {
                    return Ok(Taken::SoldOut { reason: message });
                }
                Err(Error::Server { code, message }) if code == "TRYAGAIN" => reason = message,
                other => return other,
            }
        }
        Ok(Taken::CannotTell { reason })
    }

    async fn left(&self, client: &mut Client, event: &str) -> Result<Interval<i64>, Error> {
        Counter::open(client, Self::key("left", event), FIVE).await?.read(client).await
    }
}

/// Attempts of a sale that fails with TRYAGAIN.
const ATTEMPTS: usize = 4;

/// Returns the only one of the tickets that were taken.
fn one(taken: Taken<Vec<String>>) -> Taken<String> {
    match taken {
        Taken::Units(ids) => Taken::Units(ids.concat()),
        Taken::SoldOut { reason } => Taken::SoldOut { reason },
        Taken::CannotTell { reason } => Taken::CannotTell { reason },
    }
}

// ------------------------------------------------------------------------------------------------
// What pages show for each type of value

/// Text of a page.
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) trust: Trust,
}

/// Values that a page can show. The type of the value decides how the page words it.
pub(crate) trait Show {
    fn show(self) -> Shown;
}

impl<T: Wording> Show for Consistent<T> {
    fn show(self) -> Shown {
        Shown { text: self.current(), trust: Trust::Strong }
    }
}

impl<T: Wording> Show for Causal<T> {
    fn show(self) -> Shown {
        Shown { text: self.endorse().earlier(), trust: Trust::Weak }
    }
}

impl<T: Wording> Show for Rushed<T> {
    fn show(self) -> Shown {
        match self {
            Rushed::Consistent(value) => value.show(),
            Rushed::Causal(value) => value.show(),
            // No space of the service offers other levels. The page trusts them least.
            rest => {
                let text = format!("perhaps {}", rest.weaken().endorse().current());
                Shown { text, trust: Trust::Weak }
            }
        }
    }
}

impl Show for Interval<i64> {
    fn show(self) -> Shown {
        let left = match self.value() {
            Some(left) => left.current(),
            None => format!("{} to {} left", self.min(), self.max()),
        };
        let hurry = match self.at_most(NEARLY_SOLD_OUT).and(self.at_least(1)) {
            Answer::Yes => ": hurry, nearly sold out!",
            Answer::Perhaps => ": perhaps nearly sold out",
            Answer::No => "",
        };
        Shown { text: left + hurry, trust: Trust::Within(self) }
    }
}

const NEARLY_SOLD_OUT: i64 = 10;

/// Contents of a page, in the words for a current value and for one of some moments ago.
trait Wording {
    fn current(&self) -> String;
    fn earlier(&self) -> String;
}

impl Wording for i64 {
    fn current(&self) -> String {
        if *self == 0 { "sold out".to_owned() } else { format!("{self} left") }
    }

    fn earlier(&self) -> String {
        if *self == 0 { "probably sold out".to_owned() } else { format!("about {self} left") }
    }
}

impl Wording for Vec<String> {
    fn current(&self) -> String {
        self.join(", ")
    }

    fn earlier(&self) -> String {
        format!("{} (reload the page for newer events)", self.join(", "))
    }
}

// ------------------------------------------------------------------------------------------------
// Simulated visitors

const VENUES: u64 = 50;
const KINDS: [&str; 4] = ["view_event", "browse", "purchase", "add_event"];
const MIX: [(u64, &str); 4] = [(70, KINDS[0]), (19, KINDS[1]), (10, KINDS[2]), (1, KINDS[3])];
const COUNTS: [&str; 3] = ["sold", "sold out", "cannot tell"];

/// The data before the visits.
struct World {
    /// Random identifier of the run, which is part of all names.
    run: String,
    /// Number of tickets of each event.
    events: Vec<u32>,
    popular: Zipf,
    visitors: usize,
}

impl World {
    fn event(&self, number: usize) -> String {
        format!("{}-{number}", self.run)
    }

    fn venue(&self, random: &mut Random) -> String {
        format!("{}-{}", self.run, random.below(VENUES))
    }
}

struct Visitor<'a, L, T> {
    number: usize,
    service: Service<L, T>,
    world: &'a World,
    random: Random,
    tally: Tally,
    /// Numbers of events and identifiers of the tickets bought.
    bought: Vec<(usize, String)>,
}

impl<L: Policy, T: Tickets> visitors::Visitor for Visitor<'_, L, T>
where
    L::Read<Vec<String>>: Show,
{
    async fn prepare(&mut self) -> Result<(), Error> {
        for number in (self.number..self.world.events.len()).step_by(self.world.visitors) {
            let (venue, event) = (self.world.venue(&mut self.random), self.world.event(number));
            let (text, tickets) = (format!("Event number {number}"), self.world.events[number]);
            self.service.add_event(&venue, &event, &text, tickets).await?;
        }
        Ok(())
    }

    async fn act(&mut self) -> Result<&'static str, Error> {
        let kind = self.random.weighted(&MIX);
        let number = self.world.popular.draw(&mut self.random);
        let (event, venue) = (self.world.event(number), self.world.venue(&mut self.random));
        match kind {
            "view_event" => {
                let (_, left) = self.service.view_event(&event).await?;
                self.tally.saw(left.trust);
            }
            "browse" => {
                let events = self.service.browse(&venue).await?;
                self.tally.saw(events.trust);
            }
            "purchase" => match self.service.purchase(&event).await? {
                Taken::Units(ticket) => {
                    self.tally.count("sold");
                    self.bought.push((number, ticket));
                }
                Taken::SoldOut { .. } => self.tally.count("sold out"),
                Taken::CannotTell { .. } => self.tally.count("cannot tell"),
            },
            _ => {
                let new = format!("{}-new{:x}", self.world.run, self.random.below(1 << 32));
                self.service.add_event(&venue, &new, "A new event", 2000).await?;
            }
        }
        Ok(kind)
    }

    fn client(&mut self) -> &mut Client {
        &mut self.service.client
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

/// Returns broken promises of sales: too many tickets, or the same one twice.
pub(crate) fn broken(events: &[u32], bought: &[(usize, String)]) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, tickets) in events.iter().enumerate() {
        let sold = bought.iter().filter(|(event, _)| *event == number).count();
        if sold > *tickets as usize {
            broken.push(format!("event {number} has sold {sold} of {tickets} tickets"));
        }
    }
    let mut seen = BTreeSet::new();
    let twice = bought.iter().filter(|(_, ticket)| !seen.insert(ticket));
    broken.extend(twice.map(|(_, ticket)| format!("ticket {ticket} was sold twice")));
    broken
}

/// Lets visitors use the service in a way, and checks its promises.
async fn visit<L: Policy, T: Tickets>(
    way: Way,
    settings: &Settings,
    mut clients: Vec<Client>,
    service: impl Fn(Client) -> Service<L, T>,
) -> Result<Report, Error>
where
    L::Read<Vec<String>>: Show,
{
    let mut random = Random::new(visitors::seed());
    let run = format!("{:08x}", random.below(1 << 32));
    let events = (0..settings.events).map(|_| tickets(&mut random, settings.tickets)).collect();
    let mut office = clients.pop().map(&service).expect("a client for each visitor and one more");
    let popular = Zipf::with_exponent(settings.events, 0.6);
    let world = World { run, events, popular, visitors: clients.len() };
    let visitors = clients.into_iter().enumerate().map(|(number, client)| {
        let (service, random) = (service(client), Random::new(random.draw()));
        let (world, tally, bought) = (&world, Tally::default(), Vec::new());
        Visitor { number, service, world, random, tally, bought }
    });
    let mut visitors: Vec<_> = visitors.collect();
    let tally = visitors::simulate(way, settings.until, &mut office.client, &mut visitors).await?;

    let bought: Vec<_> = visitors.into_iter().flat_map(|visitor| visitor.bought).collect();
    let mut broken = broken(&world.events, &bought);
    let (event, venue) = (world.event(0), format!("{}-0", world.run));
    let (description, left) = office.view_event(&event).await?;
    let sold = bought.iter().filter(|(event, _)| *event == 0).count() as i64;
    // A purchase that failed may have taken a ticket that nobody has got.
    if let (Trust::Within(interval), 0) = (left.trust, tally.failed)
        && !interval.contains(i64::from(world.events[0]) - sold)
    {
        broken.push(format!(
            "event 0 has sold {sold} of {}, and shows {interval} left",
            world.events[0]
        ));
    }
    let purchase = match office.purchase(&event).await? {
        Taken::Units(ticket) => format!("your ticket is {ticket}"),
        Taken::SoldOut { .. } => "sold out".to_owned(),
        Taken::CannotTell { .. } => "cannot tell now, please try again later".to_owned(),
    };
    let pages = vec![
        format!("events at venue 0: {}", office.browse(&venue).await?.text),
        format!("{description}: {}", left.text),
        format!("purchase: {purchase}"),
    ];
    Ok(Report { way, pages, tally, broken })
}

/// Draws a number of tickets, which is normally distributed with a quarter as the deviation.
fn tickets(random: &mut Random, mean: u32) -> u32 {
    let uniform = |random: &mut Random| random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
    let normal = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
    (f64::from(mean) * (1.0 + normal / 4.0)).max(1.0) as u32
}

// ------------------------------------------------------------------------------------------------
// The program

/// Prefixes of the spaces.
const SPACES: [&str; 5] = ["strong:", "event:", "venue:", "tickets:", "left:"];

/// Settings of a run.
pub(crate) struct Settings {
    pub(crate) events: usize,
    /// Mean number of tickets of an event.
    pub(crate) tickets: u32,
    pub(crate) until: Until,
}

/// Runs the service in a way, with a visitor for each of the clients but one.
pub(crate) async fn run(
    way: Way,
    settings: &Settings,
    clients: Vec<Client>,
) -> Result<Report, Error> {
    match way {
        Way::Strong => {
            let service = |client| Service { client, listings: STRONG, tickets: Counted };
            visit(way, settings, clients, service).await
        }
        Way::Weak => {
            let service = |client| Service { client, listings: CAUSAL, tickets: Pooled(CAUSAL) };
            visit(way, settings, clients, service).await
        }
        Way::LatencyBound => {
            let service = |client| Service { client, listings: SOON, tickets: Pooled(SOON) };
            visit(way, settings, clients, service).await
        }
        Way::ErrorBound => {
            let service = |client| Service { client, listings: CAUSAL, tickets: Bounded };
            visit(way, settings, clients, service).await
        }
    }
}

/// Sells tickets in four ways, one after another, and compares them.
#[derive(Parser)]
#[command(name = "tickets", after_help = EXAMPLES)]
struct Options {
    #[command(flatten)]
    common: visitors::Common,
    /// Mean number of tickets of an event. With few tickets, events sell out
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tickets: u32,
}

const EXAMPLES: &str = "\
Start a cluster first, for example three sites at the distances of data centres:
  solera up --config examples/tickets.toml --wan aws

Examples, each after `cargo run --release -p solera --example tickets --`:
  --seconds 5                          runs each way for 5 seconds
  --tickets 20                         events sell out
  --ways weak,error-bound              runs two ways
  --visitors 10 eu.example.com:7101    uses one site, of another cluster";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Options { common, tickets } = Options::parse();
    let settings = Settings { events: 200, tickets, until: common.until() };
    let run = async |way, clients| run(way, &settings, clients).await;
    common.compare([&KINDS, &COUNTS], &SPACES, run).await
}
