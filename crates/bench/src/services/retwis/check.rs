//! Conditions that must hold of tweets and retweets when all sites have all updates.

use std::collections::{BTreeMap, BTreeSet};

use crate::invariant::Invariant;

/// Tweets and retweets that clients know of.
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    /// Authors, tweets, and the users to whose timelines the client has added them.
    pub(super) tweets: Vec<(usize, String, Vec<String>)>,
    /// Tweets, and users who have retweeted them.
    pub(super) retweets: Vec<(String, String)>,
    /// Retweets whose outcome is unknown.
    pub(super) unknown: Vec<(String, String)>,
}

impl Remembered {
    pub(super) fn merge(&mut self, other: Remembered) {
        self.tweets.extend(other.tweets);
        self.retweets.extend(other.retweets);
        self.unknown.extend(other.unknown);
    }

    /// Returns the tweets that have been retweeted, or perhaps.
    pub(super) fn retweeted(&self) -> BTreeSet<String> {
        self.retweets.iter().chain(&self.unknown).map(|(tweet, _)| tweet.clone()).collect()
    }
}

/// The retweets of a tweet at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) users: BTreeSet<String>,
    /// Their number as pages show it: minimum and maximum.
    pub(super) shown: (i64, i64),
}

/// Number of elements of a list that is read whole.
pub(super) const ALL: u32 = 1_000_000;

/// Checks that tweets are in the timelines of their authors, of those who followed the author at
/// the beginning, and of all to whose timelines the client has added them.
pub(super) fn timelines(
    timelines: &BTreeMap<String, BTreeSet<String>>,
    remembered: &Remembered,
    first_followers: impl Fn(usize) -> Vec<String>,
) -> Invariant {
    let mut rule = Invariant::new("each tweet is in the timelines of its author and followers");
    for (author, tweet, readers) in &remembered.tweets {
        let mut users: BTreeSet<String> = first_followers(*author).into_iter().collect();
        users.extend(readers.iter().cloned());
        users.insert(author.to_string());
        for user in users {
            let is_there = timelines.get(&user).is_some_and(|tweets| tweets.contains(tweet));
            let missing =
                || format!("tweet {tweet} of user {author} is not in the timeline of user {user}");
            rule.check((!is_there).then(missing));
        }
    }
    rule
}

/// Checks the retweets of each tweet.
pub(super) fn retweets(found: &BTreeMap<String, Found>, remembered: &Remembered) -> [Invariant; 2] {
    let mut kept = Invariant::new("each acknowledged retweet is there, and no other");
    let mut shown = Invariant::new("the shown number contains the number of retweets");
    let users = |retweets: &[(String, String)]| {
        let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (tweet, user) in retweets {
            users.entry(tweet.clone()).or_default().insert(user.clone());
        }
        users
    };
    let (acknowledged, unknown) = (users(&remembered.retweets), users(&remembered.unknown));
    let none = BTreeSet::new();
    for (tweet, Found { users, shown: (min, max) }) in found {
        let acknowledged = acknowledged.get(tweet).unwrap_or(&none);
        let unknown = unknown.get(tweet).unwrap_or(&none);
        let lost = acknowledged.difference(users).next();
        let lost = lost.map(|user| format!("tweet {tweet}: the retweet of {user} is not there"));
        let other =
            users.iter().find(|user| !acknowledged.contains(*user) && !unknown.contains(*user));
        let other = other.map(|user| format!("tweet {tweet}: {user} has not retweeted it"));
        kept.check(lost.or(other));
        let number = users.len() as i64;
        let wrong = || format!("tweet {tweet} has {number} retweets, and shows {min} to {max}");
        shown.check((!(*min..=*max).contains(&number)).then(wrong));
    }
    [kept, shown]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn pair(one: &str, other: &str) -> (String, String) {
        (one.to_owned(), other.to_owned())
    }

    fn remembered() -> Remembered {
        Remembered {
            tweets: vec![(1, "t".to_owned(), vec!["1".to_owned(), "3".to_owned()])],
            retweets: vec![pair("t", "ann"), pair("t", "bob")],
            unknown: vec![pair("t", "eve"), pair("u", "eve")],
        }
    }

    #[test]
    fn tweets_must_be_in_the_timelines_of_all_followers() {
        let first_followers = |author: usize| vec![(author + 1).to_string()];
        let every: BTreeMap<String, BTreeSet<String>> =
            ["0", "1", "2", "3"].map(|user| (user.to_owned(), set(&["s", "t"]))).into();
        let rule = timelines(&every, &remembered(), first_followers);
        assert_eq!((rule.checked, rule.broken), (3, 0));
        for user in ["0", "1", "2", "3"] {
            let mut some = every.clone();
            some.insert(user.to_owned(), set(&["s"]));
            let rule = timelines(&some, &remembered(), first_followers);
            assert_eq!(rule.broken, u64::from(user != "0"), "{rule:?}");
            let reason = format!("tweet t of user 1 is not in the timeline of user {user}");
            assert!(rule.examples.iter().all(|example| *example == reason), "{rule:?}");
        }
    }

    #[test]
    fn retweets_must_be_those_that_were_acknowledged() {
        assert_eq!(remembered().retweeted(), set(&["t", "u"]));
        for (users, shown, broken) in [
            (&["ann", "bob"][..], (2, 2), [None, None]),
            (&["ann", "bob", "eve"], (2, 3), [None, None]),
            (&["ann", "eve"], (2, 2), [Some("tweet t: the retweet of bob is not there"), None]),
            (&["ann", "bob", "joe"], (3, 3), [Some("tweet t: joe has not retweeted it"), None]),
            (&["ann", "bob"], (3, 4), [None, Some("tweet t has 2 retweets, and shows 3 to 4")]),
            (&["ann", "bob"], (0, 1), [None, Some("tweet t has 2 retweets, and shows 0 to 1")]),
        ] {
            let found = BTreeMap::from([("t".to_owned(), Found { users: set(users), shown })]);
            let rules = retweets(&found, &remembered());
            let examples = rules.map(|rule| rule.examples.first().cloned());
            assert_eq!(examples.each_ref().map(Option::as_deref), broken, "{users:?}");
        }
    }
}
