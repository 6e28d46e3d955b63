//! Figure 11: the Twitter clone.
//!
//! Users read their timelines (50%), tweet (14%), retweet (30%), follow others (5%) and join (1%).
//! A tweet is appended to the timelines of all followers at once. A timeline is shown with the
//! number of retweets of each tweet. How many followers a user has follows Zipf's law.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::conditions::Condition;
use super::load::{Measured, Pace, Step, Workload, load, run};
use super::store::{Failure, IpaStoreSession, Policy, Read, Store};
use super::{Findings, Laboratory};
use crate::error::BenchError;
use crate::papers::Row;
use crate::random::{Random, Zipf};

const USERS: usize = 200;
/// Tweets before the run, by different users, with retweets: 1000 of the first one, 500 of the
/// second, and so on.
const TWEETS: usize = 100;
const RETWEETS: usize = 1000;
/// Tweets of a run that may be retweeted.
const MOST_TWEETS: usize = 10_000;
/// Number of tweets that a timeline shows.
const SHOWN: u32 = 5;

const TIMELINE: &str = "timeline";
const TWEET: &str = "tweet";
const RETWEET: &str = "retweet";
const FOLLOW: &str = "follow";
const JOIN: &str = "new user";
const KINDS: [&str; 5] = [TIMELINE, TWEET, RETWEET, FOLLOW, JOIN];
/// Weights of the kinds.
const MIX: [u32; 5] = [50, 14, 30, 5, 1];

/// Policies of the objects (IPA Fig. 10).
#[derive(Clone, Copy)]
struct Policies {
    name: &'static str,
    /// Sets of followers, and lists of tweets.
    users: Policy,
    /// Sets of users who have retweeted a tweet.
    retweets: Policy,
}

const SOON: Policy = Policy::Within(Duration::from_millis(20));

const POLICIES: [Policies; 5] = [
    Policies { name: "weak", users: Policy::Weak, retweets: Policy::Weak },
    Policies { name: "strong", users: Policy::Strong, retweets: Policy::Strong },
    Policies { name: "20 ms bound", users: SOON, retweets: SOON },
    Policies { name: "5% error", users: Policy::Weak, retweets: Policy::Tolerance(5) },
    Policies { name: "both bounds", users: SOON, retweets: Policy::Tolerance(5) },
];

/// A client of the Twitter clone.
#[derive(Clone)]
struct Retwis {
    /// Number of the run, which names users and tweets.
    run: u32,
    policies: Policies,
    /// The first users have the most followers.
    popular: Rc<Zipf>,
    /// The first tweets get the most retweets.
    retweeted: Rc<Zipf>,
    /// The tweets, the oldest first.
    tweets: Rc<RefCell<Vec<String>>>,
}

fn followers(run: u32, user: usize) -> String {
    format!("{run}:followers{user}")
}

fn timeline(run: u32, user: &str) -> String {
    format!("{run}:timeline{user}")
}

fn retweets(run: u32, tweet: &str) -> String {
    format!("{run}:retweets:{tweet}")
}

impl Retwis {
    async fn show<S: IpaStoreSession>(
        &self,
        session: &mut S,
        user: usize,
    ) -> Result<Step, Failure> {
        let mut step = Step::of(TIMELINE);
        let timeline = timeline(self.run, &user.to_string());
        let (tweets, level) = session.newest(&timeline, SHOWN, self.policies.users).await?;
        step.note_level(level);
        for tweet in tweets {
            session.text(&format!("{}:{tweet}", self.run)).await?;
            let size = session.size(&retweets(self.run, &tweet), self.policies.retweets).await?;
            match size {
                Read::Interval(min, max) => {
                    let width = 100.0 * (max - min) as f64 / min.max(1) as f64;
                    step.numbers.push(("width", width));
                }
                Read::Value(_, level) => step.note_level(level),
            }
        }
        Ok(step)
    }

    async fn tweet<S: IpaStoreSession>(
        &self,
        session: &mut S,
        random: &mut Random,
        user: usize,
    ) -> Result<Step, Failure> {
        let tweet = format!("t{}", random.next());
        session.write(&format!("{}:{tweet}", self.run), &random.text(100)).await?;
        let of_user = followers(self.run, user);
        let (followers, level) = session.elements(&of_user, self.policies.users).await?;
        let own = [user.to_string()];
        let timelines: Vec<String> =
            followers.iter().chain(&own).map(|user| timeline(self.run, user)).collect();
        session.push(&timelines, &tweet, self.policies.users).await?;
        self.tweets.borrow_mut().push(tweet);
        let mut step = Step::of(TWEET);
        step.note_level(level);
        Ok(step)
    }
}

impl<S: IpaStoreSession> Workload<S> for Retwis {
    async fn run(&self, session: &mut S, random: &mut Random) -> Result<Step, Failure> {
        let kind = KINDS[random.weighted(&MIX)];
        let user = random.below(USERS as u64) as usize;
        match kind {
            TIMELINE => return self.show(session, user).await,
            TWEET => return self.tweet(session, random, user).await,
            RETWEET => {
                let tweet = {
                    let tweets = self.tweets.borrow();
                    let mut draws = std::iter::repeat_with(|| self.retweeted.draw(random));
                    let drawn = draws.find(|it| *it < tweets.len()).unwrap_or_default();
                    tweets[drawn].clone()
                };
                let (set, who) = (retweets(self.run, &tweet), format!("r{}", random.next()));
                session.insert(&set, &[who], self.policies.retweets).await?;
            }
            FOLLOW => {
                let followed = followers(self.run, self.popular.draw(random));
                session.insert(&followed, &[user.to_string()], self.policies.users).await?;
            }
            _ => {
                let name = format!("{}:user{}", self.run, random.next());
                session.write(&name, &random.text(50)).await?;
            }
        }
        Ok(Step::of(kind))
    }
}

/// Adds users, followers and tweets, half of them at each of two replicas, and measures policies.
fn measure<S: Store + 'static>(
    laboratory: &Laboratory<'_>,
    store: &S,
    policies: Policies,
    pace: Pace,
) -> Result<Measured, BenchError> {
    let run_number = laboratory.next_run();
    load(store, USERS, async move |session: &mut S::Session, number| {
        let mut random = Random::new(number as u64);
        // The first user has one half of the users as followers, the second a quarter, and so on.
        let of_user = followers(run_number, number);
        let count = (USERS / (2 * (number + 1))).max(1);
        let fans: Vec<String> =
            (0..count).map(|_| random.below(USERS as u64).to_string()).collect();
        session.insert(&of_user, &fans, policies.users).await
    })?;
    load(store, TWEETS, async move |session: &mut S::Session, number| {
        let (tweet, mut random) = (format!("first{number}"), Random::new(number as u64));
        session.write(&format!("{run_number}:{tweet}"), &random.text(100)).await?;
        let timelines =
            [number, number + TWEETS].map(|user| timeline(run_number, &user.to_string()));
        session.push(&timelines, &tweet, policies.users).await?;
        let set = retweets(run_number, &tweet);
        let users: Vec<String> =
            (0..RETWEETS / (number + 1)).map(|user| user.to_string()).collect();
        session.insert(&set, &users, policies.retweets).await
    })?;
    let tweets = (0..TWEETS).map(|number| format!("first{number}")).collect();
    let popular = Rc::new(Zipf::new(USERS));
    let retweeted = Rc::new(Zipf::new(MOST_TWEETS));
    let tweets = Rc::new(RefCell::new(tweets));
    run(store, &Retwis { run: run_number, policies, popular, retweeted, tweets }, pace)
}

/// Figure 11: latencies.
pub(super) fn latency(
    laboratory: &Laboratory<'_>,
    condition: &Condition,
    store: &(impl Store + 'static),
) -> Result<Findings, BenchError> {
    let pace = laboratory.pace(50, 100);
    let (mut rows, mut weak) = (Vec::new(), f64::NAN);
    for policies in POLICIES {
        let what = format!("{}: retwis, {}", condition.name, policies.name);
        (laboratory.report)(&what);
        let measured = measure(laboratory, store, policies, pace)?;
        let mean = measured.mean_ms(&KINDS);
        let mut row = |what: String, ours, unit| {
            rows.push(Row::new("Fig. 11", what, None, ours, unit));
        };
        row(format!("{what}, mean"), mean, "ms");
        for kind in [TIMELINE, TWEET, RETWEET, FOLLOW] {
            row(format!("{what}, {kind}, mean"), measured.mean_ms(&[kind]), "ms");
        }
        if policies.users == SOON {
            row(format!("{what}, strong"), measured.strong_percent(), "%");
        }
        if policies.retweets == Policy::Tolerance(5) {
            row(format!("{what}, width, mean"), measured.mean("width"), "%");
        }
        rows.push(measured.failed(laboratory, "Fig. 11", &what));
        let over = Row::new("Fig. 11", format!("{what} over weak"), None, mean / weak, "ratio");
        match policies.name {
            "weak" => weak = mean,
            "both bounds" => {
                let geo = condition.name == "geo-distributed";
                rows.push(over.at_most(if geo { 1.3 } else { 1.1 }));
            }
            _ => rows.push(over),
        }
    }
    Ok(Findings { rows, ..Findings::default() })
}
