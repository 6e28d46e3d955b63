//! Clients of the Twitter clone.

use std::collections::{BTreeMap, BTreeSet};

use solera::Error;

use super::check::{self, Found, Remembered};
use super::{Action, KINDS, Retwis, TWEETS, first};
use crate::closed_loop::Workload;
use crate::invariant::Invariant;
use crate::random::Random;
use crate::services::spaces::{SpacesSession, SpacesSites};
use crate::services::store::{IpaStoreSession, Observed, Read};
use crate::services::{Run, Visited, is_unknown, while_unsure};
use crate::tally::{Done, Kind};

/// A run of the Twitter clone.
pub(crate) struct Visits {
    retwis: Retwis,
    run: Run,
}

/// A client.
pub(crate) struct Visitor {
    random: Random,
    next: Option<Action>,
    remembered: Remembered,
}

impl Visits {
    pub(crate) fn new(run: Run, users: usize) -> Visits {
        Visits { retwis: Retwis::new(run.name.clone(), run.variant.of_retwis(), users), run }
    }

    /// Reads the retweets of a tweet.
    async fn find(&self, session: &mut SpacesSession, tweet: &str) -> Result<Found, Error> {
        let (set, policies) = (self.retwis.retweets(tweet), self.retwis.policies);
        let (users, _) = session.elements(&set, policies.retweets).await?;
        let shown = match session.size(&set, policies.retweets).await? {
            Read::Value(number, _) => (number, number),
            Read::Interval(min, max) => (min, max),
        };
        Ok(Found { users: users.into_iter().collect(), shown })
    }
}

impl Workload for Visits {
    type Sessions = SpacesSites;
    type Visitor = Visitor;

    fn kinds(&self) -> Vec<Kind> {
        self.run.kinds(&KINDS, 1)
    }

    fn visitor(&self, client: usize) -> Visitor {
        let random = Random::new(self.run.seed ^ ((client as u64) << 32));
        Visitor { random, next: None, remembered: Remembered::default() }
    }

    fn next(&self, visitor: &mut Visitor) -> usize {
        let action = self.retwis.draw(&mut visitor.random);
        visitor.next.insert(action).kind()
    }

    async fn run(
        &self,
        _kind: usize,
        visitor: &mut Visitor,
        session: &mut SpacesSession,
    ) -> Result<Done, Error> {
        let action = visitor.next.take().expect("an operation was drawn for each run");
        let (remembered, mut observed) = (&mut visitor.remembered, Observed::default());
        // The retweet may be cancelled when the run ends.
        if let Action::Retweet { tweet, user } = &action {
            remembered.unknown.push((tweet.clone(), user.clone()));
        }
        let result = self.retwis.perform(session, &action, &mut observed).await;
        session.observe(&observed);
        match action {
            Action::Retweet { .. } if !result.as_ref().is_err_and(is_unknown) => {
                let retweet = remembered.unknown.pop();
                remembered.retweets.extend(retweet.filter(|_| result.is_ok()));
            }
            Action::Tweet { author, tweet, .. } => {
                if let Ok(readers) = &result {
                    remembered.tweets.push((author, tweet, readers.clone()));
                }
            }
            _ => {}
        }
        result.map(|_| Done::Well)
    }
}

impl Visited for Visits {
    fn items(&self) -> usize {
        self.retwis.items()
    }

    async fn load(&self, session: &mut SpacesSession, number: usize) -> Result<(), Error> {
        self.retwis.load(session, number).await
    }

    async fn check(
        &self,
        session: &mut SpacesSession,
        visitors: Vec<Visitor>,
    ) -> Result<Vec<Invariant>, Error> {
        let mut remembered = Remembered::default();
        visitors.into_iter().for_each(|visitor| remembered.merge(visitor.remembered));
        for number in 0..TWEETS {
            let users = Retwis::first_retweets(number).into_iter();
            remembered.retweets.extend(users.map(|user| (first(number), user)));
        }
        let mut timelines = BTreeMap::new();
        for user in (0..self.retwis.users).map(|user| user.to_string()) {
            let list = self.retwis.timeline(&user);
            let (tweets, _) = session.newest(&list, check::ALL, self.retwis.policies.users).await?;
            timelines.insert(user, tweets.into_iter().collect::<BTreeSet<_>>());
        }
        let followers = |author| self.retwis.first_followers(author);
        let mut rules = vec![check::timelines(&timelines, &remembered, followers)];
        let mut found = BTreeMap::new();
        for tweet in remembered.retweeted() {
            let retweets = while_unsure(async || self.find(session, &tweet).await).await?;
            found.insert(tweet, retweets);
        }
        rules.extend(check::retweets(&found, &remembered));
        Ok(rules)
    }
}
