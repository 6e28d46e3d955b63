//! A Twitter clone, as in the IPA paper (§5.3.2 and Figure 10), in four ways to choose how
//! consistent timelines and numbers of retweets are.
//!
//! ```sh
//! solera up --config examples/retwis.toml --wan aws
//! cargo run --release -p solera --example retwis -- --help
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures_util::future::try_join_all;
use solera::ipa::{
    Causal, Consistency, Consistent, CountPolicy, ErrorTolerance, Interval, LatencyBound, List,
    Policy, Rushed, Set, level,
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

/// The service in a session. `P` is the policy for followers and timelines, and `C` for numbers of
/// retweets.
struct Service<P, C> {
    client: Client,
    policy: P,
    count: C,
    /// Whether all data is in the linearizable space.
    strong: bool,
    /// Space of retweets.
    retweets: &'static str,
}

/// Timeline of a user.
struct Timeline {
    tweets: Vec<Tweet>,
    trust: Trust,
}

struct Tweet {
    id: String,
    text: String,
    /// Number of retweets; `None` if the site cannot tell now.
    retweets: Option<Shown>,
}

impl<P: Endorsed, C: CountPolicy> Service<P, C>
where
    C::Count: Show,
{
    /// Returns the key of an object. Its prefix determines the space.
    fn key(&self, space: &str, name: &str) -> String {
        if self.strong { format!("strong:{space}:{name}") } else { format!("{space}:{name}") }
    }

    /// Adds a user.
    async fn new_user(&mut self, user: &str, name: &str) -> Result<(), Error> {
        self.client.set(&self.key("user", user), name).await
    }

    /// Returns the newest tweets of those whom a user follows, each with its number of retweets.
    async fn timeline(&mut self, user: &str) -> Result<Timeline, Error> {
        let timeline = self.key("timeline", user);
        let timeline = List::open(&mut self.client, timeline, self.policy).await?;
        let newest = P::endorse(timeline.newest(&mut self.client, 5).await?);
        let mut tweets = Vec::new();
        for id in newest.value {
            let text = self.client.get(&self.key("tweet", &id)).await?.unwrap_or_default();
            let retweets = match self.retweets(&id).await {
                Ok(number) => Some(number),
                // The page is worth showing without the number.
                Err(error) if matches!(error.code(), Some("UNAVAILABLE" | "TRYAGAIN")) => None,
                Err(error) => return Err(error),
            };
            tweets.push(Tweet { id, text, retweets });
        }
        Ok(Timeline { tweets, trust: newest.trust })
    }

    /// Returns the number of retweets of a tweet.
    async fn retweets(&mut self, tweet: &str) -> Result<Shown, Error> {
        let retweets = self.key(self.retweets, tweet);
        let client = &mut self.client;
        let retweets = Set::open_with_size(client, retweets, self.policy, self.count).await?;
        Ok(retweets.size(client).await?.show())
    }

    /// Posts a tweet and appends it to the timelines of all followers, in one transaction. Returns
    /// how far the list of followers could be trusted.
    async fn tweet(&mut self, user: &str, tweet: &str, text: &str) -> Result<Trust, Error> {
        let name = self.client.get(&self.key("user", user)).await?.unwrap_or_default();
        let followers = self.key("people", &format!("{user}:followers"));
        let (text_key, timelines) = (self.key("tweet", tweet), self.key("timeline", ""));
        let (client, policy) = (&mut self.client, self.policy);
        let post = async |tx: &mut Client, followers: &BTreeSet<String>| {
            tx.set(&text_key, format!("{name}: {text}")).await?;
            for follower in followers {
                let timeline = List::open(tx, format!("{timelines}{follower}"), policy).await?;
                timeline.push(tx, tweet).await?;
            }
            Ok(())
        };
        let set = Set::open(client, followers.clone(), policy).await?;
        if self.strong {
            // Nobody follows the user between the read and the commit.
            let all = async |tx: &mut Client| {
                let followers = tx.smembers(&followers).await?;
                post(tx, &followers).await
            };
            client.strong(all).await?;
            return Ok(Trust::Strong);
        }
        let followers = P::endorse(set.elements(client).await?);
        client.transaction(async |tx| post(tx, &followers.value).await).await?;
        Ok(followers.trust)
    }

    /// Adds a user to those who have retweeted a tweet. Returns `false` if that is not possible
    /// now, and nothing was changed.
    async fn retweet(&mut self, user: &str, tweet: &str) -> Result<bool, Error> {
        let retweets = self.key(self.retweets, tweet);
        let client = &mut self.client;
        let retweets = Set::open_with_size(client, retweets, self.policy, self.count).await?;
        match retweets.add(client, user).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some("TRYAGAIN") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets some users follow another one.
    async fn follow(&mut self, users: &[String], followed: &str) -> Result<(), Error> {
        let followers = self.key("people", &format!("{followed}:followers"));
        let (people, policy) = (self.key("people", ""), self.policy);
        let followers = Set::open(&mut self.client, followers, policy).await?;
        self.transaction(async |tx| {
            for user in users {
                followers.add(tx, user).await?;
                let follows = Set::open(tx, format!("{people}{user}:follows"), policy).await?;
                follows.add(tx, followed).await?;
            }
            Ok(())
        })
        .await
    }

    /// Runs updates in a transaction of the level of the spaces.
    async fn transaction(
        &mut self,
        body: impl AsyncFnMut(&mut Client) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.strong {
            true => self.client.strong(body).await,
            false => self.client.transaction(body).await,
        }
    }
}

// ------------------------------------------------------------------------------------------------
// What the application does with each type of value

/// A value that the application uses, and how far it can be trusted.
struct Seen<T> {
    value: T,
    trust: Trust,
}

/// A policy whose values the application uses for timelines, whatever their level is.
trait Endorsed: Policy {
    fn endorse<T>(read: Self::Read<T>) -> Seen<T>;
}

impl Endorsed for Consistency<level::Linearizable> {
    fn endorse<T>(read: Consistent<T>) -> Seen<T> {
        Seen { value: read.into_inner(), trust: Trust::Strong }
    }
}

impl Endorsed for Consistency<level::Causal> {
    fn endorse<T>(read: Causal<T>) -> Seen<T> {
        Seen { value: read.endorse().into_inner(), trust: Trust::Weak }
    }
}

impl Endorsed for LatencyBound {
    fn endorse<T>(read: Rushed<T>) -> Seen<T> {
        match read {
            Rushed::Consistent(value) => Consistency::<level::Linearizable>::endorse(value),
            Rushed::Causal(value) => Consistency::<level::Causal>::endorse(value),
            // No space of the service offers other levels.
            rest => Seen { value: rest.weaken().endorse().into_inner(), trust: Trust::Weak },
        }
    }
}

/// Text of a page.
struct Shown {
    text: String,
    trust: Trust,
}

/// Numbers of retweets that a page can show.
trait Show {
    fn show(self) -> Shown;
}

fn retweets(number: i64) -> String {
    if number == 1 { "1 retweet".to_owned() } else { format!("{number} retweets") }
}

impl Show for Consistent<i64> {
    fn show(self) -> Shown {
        Shown { text: retweets(self.into_inner()), trust: Trust::Strong }
    }
}

impl Show for Causal<i64> {
    fn show(self) -> Shown {
        let text = format!("about {}", retweets(self.endorse().into_inner()));
        Shown { text, trust: Trust::Weak }
    }
}

impl Show for Rushed<i64> {
    fn show(self) -> Shown {
        match self {
            Rushed::Consistent(number) => number.show(),
            Rushed::Causal(number) => number.show(),
            // No space of the service offers other levels. The page trusts them least.
            rest => {
                let text = format!("perhaps {}", retweets(rest.weaken().endorse().into_inner()));
                Shown { text, trust: Trust::Weak }
            }
        }
    }
}

impl Show for Interval<i64> {
    fn show(self) -> Shown {
        let text = match self.value() {
            Some(number) => retweets(number.into_inner()),
            None => format!("{} to {} retweets", self.min(), self.max()),
        };
        Shown { text, trust: Trust::Within(self) }
    }
}

impl Timeline {
    /// Returns the page as lines of text.
    fn page(&self) -> Vec<String> {
        let note = match self.trust {
            Trust::Strong => "",
            Trust::Weak | Trust::Within(_) => " (reload the page for newer tweets)",
        };
        let tweets = self.tweets.iter().map(|Tweet { text, retweets, .. }| {
            let retweets = retweets.as_ref().map_or("retweets unknown now", |it| &it.text);
            format!("  {text} [{retweets}]")
        });
        std::iter::once(format!("timeline{note}")).chain(tweets).collect()
    }
}

// ------------------------------------------------------------------------------------------------
// Simulated visitors

const KINDS: [&str; 5] = ["timeline", "tweet", "retweet", "follow", "new user"];
const MIX: [(u64, &str); 5] =
    [(50, KINDS[0]), (14, KINDS[1]), (30, KINDS[2]), (5, KINDS[3]), (1, KINDS[4])];
const COUNTS: [&str; 3] = ["retweeted", "try again", "unknown"];
const TEXTS: [&str; 4] =
    ["Good morning!", "Is anybody there?", "The water boils.", "Who has the cups?"];
/// Number of users whom each user follows at first.
const FOLLOWS: usize = 5;

/// The data before the visits.
struct World {
    /// Random identifier of the run, which is part of all names.
    run: String,
    /// Followers of each user.
    followers: Vec<BTreeSet<usize>>,
    popular: Zipf,
    visitors: usize,
}

impl World {
    /// Lets each user follow others, who are drawn by Zipf's law. The numbers of followers then
    /// have this law, too.
    fn new(run: String, users: usize, visitors: usize, random: &mut Random) -> World {
        let popular = Zipf::new(users);
        let mut followers = vec![BTreeSet::new(); users];
        for user in 0..users {
            for _ in 0..FOLLOWS {
                followers[popular.draw(random)].insert(user);
            }
        }
        World { run, followers, popular, visitors }
    }

    fn user(&self, number: usize) -> String {
        format!("{}-{number}", self.run)
    }

    /// Returns the numbers of the users whom a visitor adds and checks.
    fn share(&self, visitor: usize) -> impl Iterator<Item = usize> + use<> {
        (visitor..self.followers.len()).step_by(self.visitors)
    }

    /// Returns the tweet that everybody retweets.
    fn famous(&self) -> String {
        format!("{}-famous", self.run)
    }
}

struct Visitor<'a, P, C> {
    number: usize,
    service: Service<P, C>,
    world: &'a World,
    settings: &'a Settings,
    random: Random,
    tally: Tally,
    /// Tweets of the last timeline.
    seen: Vec<String>,
    /// Numbers of authors, and tweets.
    posted: Vec<(usize, String)>,
    /// Tweets, and who has retweeted them.
    retweeted: Vec<(String, String)>,
}

impl<P: Endorsed, C: CountPolicy> Visitor<'_, P, C>
where
    C::Count: Show,
{
    async fn retweet(&mut self, user: String, tweet: String) -> Result<(), Error> {
        match self.service.retweet(&user, &tweet).await? {
            true => {
                self.tally.count("retweeted");
                self.retweeted.push((tweet, user));
            }
            false => self.tally.count("try again"),
        }
        Ok(())
    }

    async fn tweet(&mut self, author: usize) -> Result<(), Error> {
        let tweet = format!("{}-{}-{}", self.world.run, self.number, self.posted.len());
        let text = TEXTS[self.random.index(TEXTS.len())];
        let followers = self.service.tweet(&self.world.user(author), &tweet, text).await?;
        self.tally.saw(followers);
        self.posted.push((author, tweet));
        Ok(())
    }

    /// Returns tweets that are missing in timelines of followers.
    async fn missing(&mut self, posted: &[(usize, String)]) -> Result<Vec<String>, Error> {
        let mut missing = Vec::new();
        for user in self.world.share(self.number) {
            let key = self.service.key("timeline", &self.world.user(user));
            let Service { client, policy, .. } = &mut self.service;
            let timeline = List::open(client, key, *policy).await?;
            let tweets = P::endorse(timeline.newest(client, 1_000_000).await?).value;
            let tweets: BTreeSet<String> = tweets.into_iter().collect();
            for (author, tweet) in posted {
                if self.world.followers[*author].contains(&user) && !tweets.contains(tweet) {
                    missing.push(format!("tweet {tweet} is not in the timeline of user {user}"));
                }
            }
        }
        Ok(missing)
    }
}

impl<P: Endorsed, C: CountPolicy> visitors::Visitor for Visitor<'_, P, C>
where
    C::Count: Show,
{
    async fn prepare(&mut self) -> Result<(), Error> {
        let world = self.world;
        for user in world.share(self.number) {
            self.service.new_user(&world.user(user), &format!("user {user}")).await?;
            let followers = world.followers[user].iter().map(|number| world.user(*number));
            let (followers, user) = (followers.collect::<Vec<_>>(), world.user(user));
            // Strong transactions of visitors conflict if a user follows several others.
            while let Err(error) = self.service.follow(&followers, &user).await {
                let Error::Aborted { .. } = error else { return Err(error) };
            }
        }
        if self.number == 0 {
            let fans: Vec<String> =
                (0..self.settings.fans).map(|fan| format!("fan{fan}")).collect();
            let key = self.service.key(self.service.retweets, &world.famous());
            let Service { client, policy, count, .. } = &mut self.service;
            let famous = Set::open_with_size(client, key, *policy, *count).await?;
            let retweet = async |tx: &mut Client| {
                for fan in &fans {
                    famous.add(tx, fan).await?;
                }
                Ok(())
            };
            self.service.transaction(retweet).await?;
            self.retweeted.extend(fans.into_iter().map(|fan| (world.famous(), fan)));
        }
        Ok(())
    }

    async fn act(&mut self) -> Result<&'static str, Error> {
        let kind = self.random.weighted(&MIX);
        let number = self.random.index(self.world.followers.len());
        let user = self.world.user(number);
        match kind {
            "timeline" => {
                let timeline = self.service.timeline(&user).await?;
                self.tally.saw(timeline.trust);
                for tweet in &timeline.tweets {
                    match &tweet.retweets {
                        Some(number) => self.tally.saw(number.trust),
                        None => self.tally.count("unknown"),
                    }
                }
                self.seen = timeline.tweets.into_iter().map(|tweet| tweet.id).collect();
            }
            "tweet" => self.tweet(number).await?,
            "retweet" => {
                // Most tweets have few retweets, and one has very many.
                let seen = self.seen.get(self.random.index(self.seen.len()));
                match seen.filter(|_| self.random.chance(80)).cloned() {
                    Some(tweet) => self.retweet(user, tweet).await?,
                    None => {
                        let fan = format!("fan{:x}", self.random.draw());
                        self.retweet(fan, self.world.famous()).await?;
                    }
                }
            }
            "follow" => {
                let followed = self.world.popular.draw(&mut self.random);
                self.service.follow(&[user], &self.world.user(followed)).await?;
            }
            _ => {
                let new = format!("{}-new{:x}", self.world.run, self.random.draw());
                self.service.new_user(&new, "a new user").await?;
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

/// Lets visitors use the service in a way, and checks its promises.
async fn visit<P: Endorsed, C: CountPolicy>(
    way: Way,
    settings: &Settings,
    mut clients: Vec<Client>,
    service: impl Fn(Client) -> Service<P, C>,
) -> Result<Report, Error>
where
    C::Count: Show,
{
    let mut random = Random::new(visitors::seed());
    let run = format!("{:08x}", random.below(1 << 32));
    let mut office = clients.pop().map(&service).expect("a client for each visitor and one more");
    let world = World::new(run, settings.users, clients.len(), &mut random);
    let visitors = clients.into_iter().enumerate().map(|(number, client)| {
        let (service, random) = (service(client), Random::new(random.draw()));
        let (seen, posted, retweeted) = (Vec::new(), Vec::new(), Vec::new());
        let (world, tally) = (&world, Tally::default());
        Visitor { number, service, world, settings, random, tally, seen, posted, retweeted }
    });
    let mut visitors: Vec<_> = visitors.collect();
    let tally = visitors::simulate(way, settings.until, &mut office.client, &mut visitors).await?;

    let posted: Vec<_> = visitors.iter().flat_map(|it| it.posted.iter().cloned()).collect();
    let missing = try_join_all(visitors.iter_mut().map(|visitor| visitor.missing(&posted)));
    let missing = visitors::with_progress(format!("{way}: reading all timelines"), missing).await?;
    let mut broken = missing.concat();
    let mut retweets: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (tweet, user) in visitors.into_iter().flat_map(|visitor| visitor.retweeted) {
        retweets.entry(tweet).or_default().insert(user);
    }
    // A retweet that failed may count all the same.
    if tally.failed == 0 {
        broken.extend(wrong(&mut office, &retweets).await?);
    }
    let famous = office.retweets(&world.famous()).await?;
    let mut pages = vec![format!("the famous tweet: {}", famous.text)];
    pages.extend(office.timeline(&world.user(0)).await?.page());
    Ok(Report { way, pages, tally, broken })
}

/// Returns intervals that do not contain the number of those who have retweeted a tweet.
async fn wrong<P: Endorsed, C: CountPolicy>(
    office: &mut Service<P, C>,
    retweets: &BTreeMap<String, BTreeSet<String>>,
) -> Result<Vec<String>, Error>
where
    C::Count: Show,
{
    let mut wrong = Vec::new();
    for (tweet, users) in retweets {
        let number = users.len() as i64;
        match office.retweets(tweet).await?.trust {
            Trust::Within(interval) if !interval.contains(number) => {
                wrong.push(format!("tweet {tweet} has {number} retweets and shows {interval}"));
            }
            Trust::Within(_) => {}
            // Other ways do not promise an interval.
            Trust::Strong | Trust::Weak => break,
        }
    }
    Ok(wrong)
}

// ------------------------------------------------------------------------------------------------
// The program

/// Prefixes of the spaces.
const SPACES: [&str; 7] =
    ["strong:", "user:", "tweet:", "people:", "timeline:", "retweets:", "counted:"];

/// Settings of a run.
pub(crate) struct Settings {
    pub(crate) users: usize,
    /// Number of those who have retweeted the famous tweet at first.
    pub(crate) fans: usize,
    pub(crate) until: Until,
}

/// Runs the service in a way, with a visitor for each of the clients but one.
pub(crate) async fn run(
    way: Way,
    settings: &Settings,
    clients: Vec<Client>,
) -> Result<Report, Error> {
    let retweets = "retweets";
    match way {
        Way::Strong => {
            let (policy, count, strong) = (STRONG, STRONG, true);
            let service = |client| Service { client, policy, count, strong, retweets };
            visit(way, settings, clients, service).await
        }
        Way::Weak => {
            let (policy, count, strong) = (CAUSAL, CAUSAL, false);
            let service = |client| Service { client, policy, count, strong, retweets };
            visit(way, settings, clients, service).await
        }
        Way::LatencyBound => {
            let (policy, count, strong) = (SOON, SOON, false);
            let service = |client| Service { client, policy, count, strong, retweets };
            visit(way, settings, clients, service).await
        }
        // Figure 10: followers and timelines arrive in time.
        Way::ErrorBound => {
            let (policy, count, strong, retweets) = (SOON, FIVE, false, "counted");
            let service = |client| Service { client, policy, count, strong, retweets };
            visit(way, settings, clients, service).await
        }
    }
}

/// Runs a Twitter clone in four ways, one after another, and compares them.
#[derive(Parser)]
#[command(name = "retwis", after_help = EXAMPLES)]
struct Options {
    #[command(flatten)]
    common: visitors::Common,
    /// Number of users
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    users: u32,
    /// Number of users who have retweeted one famous tweet at first
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(..=100_000))]
    fans: u32,
}

const EXAMPLES: &str = "\
Start a cluster first, for example three sites at the distances of data centres:
  solera up --config examples/retwis.toml --wan aws

Examples, each after `cargo run --release -p solera --example retwis --`:
  --seconds 5                          runs each way for 5 seconds
  --ways weak,error-bound              runs two ways
  --visitors 10 eu.example.com:7101    uses one site, of another cluster";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Options { common, users, fans } = Options::parse();
    let (users, fans) = (users as usize, fans as usize);
    let settings = Settings { users, fans, until: common.until() };
    let run = async |way, clients| run(way, &settings, clients).await;
    common.compare([&KINDS, &COUNTS], &SPACES, run).await
}
