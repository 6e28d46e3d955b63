//! The Twitter clone (IPA §5.3.2).
//!
//! Users read their timelines (50%), tweet (14%), retweet (30%), follow others (5%) and join (1%).
//! A tweet is appended to the timelines of all followers at once. A timeline is shown with the
//! number of retweets of each tweet. How many followers a user has follows Zipf's law.
//!
//! | module | subject |
//! |---|---|
//! | `visits` | clients of a run, and the tweets and retweets that they know of |
//! | `check` | conditions that must hold at the end |

mod check;
mod visits;

use std::sync::{Mutex, PoisonError};

use solera::Error;

use super::store::{IpaStoreSession, Observed, Policy};
use crate::random::{Random, Zipf};
pub(crate) use visits::Visits;

/// Tweets before the run, by different users, with retweets: 1000 of the first one, 500 of the
/// second, and so on.
const TWEETS: usize = 100;
const RETWEETS: usize = 1000;
/// Tweets of a run that may be retweeted.
const MOST_TWEETS: usize = 10_000;
/// Number of tweets that a timeline shows.
const SHOWN: u32 = 5;

pub(crate) const TIMELINE: &str = "timeline";
pub(crate) const TWEET: &str = "tweet";
pub(crate) const RETWEET: &str = "retweet";
pub(crate) const FOLLOW: &str = "follow";
/// Names of the kinds of operations, in the order of [`Action::kind`].
pub(crate) const KINDS: [&str; 5] = [TIMELINE, TWEET, RETWEET, FOLLOW, "new user"];
/// Weights of the kinds.
const MIX: [u32; 5] = [50, 14, 30, 5, 1];

/// Policies of the objects (IPA Fig. 10).
#[derive(Clone, Copy)]
pub(crate) struct Policies {
    /// Sets of followers, and lists of tweets.
    pub(crate) users: Policy,
    /// Sets of users who have retweeted a tweet.
    pub(crate) retweets: Policy,
}

/// The Twitter clone as one run uses it.
pub(crate) struct Retwis {
    /// Name of the run, which is part of the names of users and tweets.
    run: String,
    policies: Policies,
    users: usize,
    /// The first users have the most followers.
    popular: Zipf,
    /// The first tweets get the most retweets.
    retweeted: Zipf,
    /// The tweets, the oldest first.
    tweets: Mutex<Vec<String>>,
}

/// An operation of a client.
pub(crate) enum Action {
    /// Reads the newest tweets of a timeline, each with its number of retweets.
    Timeline { user: usize },
    /// Posts a tweet.
    Tweet { author: usize, tweet: String, text: String },
    /// Adds a user to those who have retweeted a tweet.
    Retweet { tweet: String, user: String },
    /// Adds a user to the followers of another one.
    Follow { user: usize, followed: usize },
    /// Adds a user.
    Join { name: String, text: String },
}

impl Action {
    /// Returns the index of its kind in [`KINDS`].
    pub(crate) fn kind(&self) -> usize {
        match self {
            Action::Timeline { .. } => 0,
            Action::Tweet { .. } => 1,
            Action::Retweet { .. } => 2,
            Action::Follow { .. } => 3,
            Action::Join { .. } => 4,
        }
    }
}

impl Retwis {
    pub(crate) fn new(run: String, policies: Policies, users: usize) -> Retwis {
        Retwis {
            run,
            policies,
            users,
            popular: Zipf::new(users),
            retweeted: Zipf::new(MOST_TWEETS),
            tweets: Mutex::new((0..TWEETS).map(first).collect()),
        }
    }

    fn followers(&self, user: usize) -> String {
        format!("{}:followers{user}", self.run)
    }

    fn timeline(&self, user: &str) -> String {
        format!("{}:timeline{user}", self.run)
    }

    fn retweets(&self, tweet: &str) -> String {
        format!("{}:retweets:{tweet}", self.run)
    }

    fn text(&self, name: &str) -> String {
        format!("{}:{name}", self.run)
    }

    /// Returns the followers that a user has at the beginning: the first user has one half of the
    /// users, the second a quarter, and so on.
    fn first_followers(&self, user: usize) -> Vec<String> {
        let mut random = Random::new(user as u64);
        let count = (self.users / (2 * (user + 1))).max(1);
        (0..count).map(|_| random.below(self.users as u64).to_string()).collect()
    }

    /// Returns the users who have retweeted one of the first tweets at the beginning.
    fn first_retweets(number: usize) -> Vec<String> {
        (0..RETWEETS / (number + 1)).map(|user| user.to_string()).collect()
    }

    /// Returns the number of items that exist at the beginning.
    pub(crate) fn items(&self) -> usize {
        self.users + TWEETS
    }

    /// Adds an item that exists at the beginning: the followers of a user, or a tweet.
    pub(crate) async fn load(
        &self,
        session: &mut impl IpaStoreSession,
        number: usize,
    ) -> Result<(), Error> {
        if number >= self.users {
            return self.load_tweet(session, number - self.users).await;
        }
        let followers = self.first_followers(number);
        session.insert(&self.followers(number), &followers, self.policies.users).await
    }

    /// Adds one of the first tweets, with its retweets.
    async fn load_tweet(
        &self,
        session: &mut impl IpaStoreSession,
        number: usize,
    ) -> Result<(), Error> {
        let (tweet, mut random) = (first(number), Random::new(number as u64));
        let users = Self::first_retweets(number);
        session.insert(&self.retweets(&tweet), &users, self.policies.retweets).await?;
        session.write(&self.text(&tweet), &random.text(100)).await?;
        let timelines = [number, number + TWEETS].map(|user| self.timeline(&user.to_string()));
        session.push(&timelines, &tweet, self.policies.users).await
    }

    /// Draws an operation.
    pub(crate) fn draw(&self, random: &mut Random) -> Action {
        let kind = random.weighted(&MIX);
        let user = random.below(self.users as u64) as usize;
        match kind {
            0 => Action::Timeline { user },
            1 => {
                let tweet = format!("t{}", random.next());
                Action::Tweet { author: user, tweet, text: random.text(100) }
            }
            2 => {
                let tweets = self.tweets.lock().unwrap_or_else(PoisonError::into_inner);
                let mut draws = std::iter::repeat_with(|| self.retweeted.draw(random));
                let drawn = draws.find(|it| *it < tweets.len()).unwrap_or_default();
                let tweet = tweets[drawn].clone();
                Action::Retweet { tweet, user: format!("r{}", random.next()) }
            }
            3 => Action::Follow { user, followed: self.popular.draw(random) },
            _ => Action::Join { name: format!("user{}", random.next()), text: random.text(50) },
        }
    }

    /// Runs an operation. Returns the users whose timelines have got a tweet.
    pub(crate) async fn perform(
        &self,
        session: &mut impl IpaStoreSession,
        action: &Action,
        observed: &mut Observed,
    ) -> Result<Vec<String>, Error> {
        let Policies { users, retweets } = self.policies;
        match action {
            Action::Timeline { user } => self.show(session, *user, observed).await?,
            Action::Tweet { author, tweet, text } => {
                session.write(&self.text(tweet), text).await?;
                let (mut readers, level) =
                    session.elements(&self.followers(*author), users).await?;
                observed.levels.push(level);
                readers.push(author.to_string());
                let timelines: Vec<String> =
                    readers.iter().map(|user| self.timeline(user)).collect();
                session.push(&timelines, tweet, users).await?;
                let mut tweets = self.tweets.lock().unwrap_or_else(PoisonError::into_inner);
                tweets.push(tweet.clone());
                return Ok(readers);
            }
            Action::Retweet { tweet, user } => {
                let user = std::slice::from_ref(user);
                session.insert(&self.retweets(tweet), user, retweets).await?;
            }
            Action::Follow { user, followed } => {
                session.insert(&self.followers(*followed), &[user.to_string()], users).await?;
            }
            Action::Join { name, text } => session.write(&self.text(name), text).await?,
        }
        Ok(Vec::new())
    }

    async fn show(
        &self,
        session: &mut impl IpaStoreSession,
        user: usize,
        observed: &mut Observed,
    ) -> Result<(), Error> {
        let timeline = self.timeline(&user.to_string());
        let (tweets, level) = session.newest(&timeline, SHOWN, self.policies.users).await?;
        observed.levels.push(level);
        for tweet in tweets {
            session.text(&self.text(&tweet)).await?;
            observed.note(session.size(&self.retweets(&tweet), self.policies.retweets).await?);
        }
        Ok(())
    }
}

/// Returns the name of one of the first tweets.
fn first(number: usize) -> String {
    format!("first{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_papers_shares_and_popular_users_more_followers() {
        let policies = Policies { users: Policy::Weak, retweets: Policy::Weak };
        let retwis = Retwis::new("run".to_owned(), policies, 200);
        let mut random = Random::new(6);
        let (mut kinds, mut tweets, mut followed) = ([0_u32; 5], [0_u32; TWEETS], [0_u32; 200]);
        for _ in 0..50_000 {
            let action = retwis.draw(&mut random);
            kinds[action.kind()] += 1;
            match action {
                Action::Retweet { tweet, .. } => {
                    tweets[(0..TWEETS).find(|number| first(*number) == tweet).unwrap()] += 1;
                }
                Action::Follow { followed: user, .. } => followed[user] += 1,
                _ => {}
            }
        }
        for (drawn, expected) in kinds.iter().zip([25_000_u32, 7000, 15_000, 2500, 500]) {
            assert!(drawn.abs_diff(expected) <= expected / 8, "{drawn} for {expected}");
        }
        assert!(tweets[0] > 5 * tweets[9] && tweets[9] > 0, "{tweets:?}");
        assert!(followed[0] > 5 * followed[9] && followed[9] > 0, "{followed:?}");
        let followers = |user| retwis.first_followers(user).len();
        assert_eq!((followers(0), followers(1), followers(199)), (100, 50, 1));
    }
}
