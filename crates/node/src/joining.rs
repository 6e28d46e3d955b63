//! What the log tells of a worker whose site joins.

use std::fmt;
use std::time::{Duration, Instant};

use solera_unistore::Progress;

/// How often it tells how far it is.
const INTERVAL: Duration = Duration::from_secs(10);

/// How far a worker is on its way to serve, as it was last told.
#[derive(Debug)]
pub(crate) enum Joining {
    /// It waits to be let in.
    Waiting,
    /// It gets its partitions: since when, and when that was last told of, with how many bytes.
    Getting { began: Instant, told: Instant, bytes: u64 },
    /// It has them, and waits for the rest of its site.
    Filled,
    /// There is nothing more to tell.
    Serving,
}

/// Something to tell of a worker that joins.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// It begins to get its partitions; from a site, by its number.
    Begins { partitions: usize, donor: usize },
    /// So many are there, and so many bytes; and how many of these came in the time since the last
    /// word.
    Has { filled: usize, partitions: usize, bytes: u64, more: u64, since: Duration },
    /// All are there.
    HasAll { partitions: usize, bytes: u64, took: Duration },
    /// It serves clients.
    Serves,
}

impl Joining {
    /// Of a worker that is just started.
    pub(crate) fn new(progress: Progress) -> Joining {
        // One that has joined before it was started again has nothing to tell.
        if progress.filled == progress.partitions { Joining::Serving } else { Joining::Waiting }
    }

    /// What is to be told now, if there is something.
    pub(crate) fn news(&mut self, now: Instant, progress: Progress, serves: bool) -> Option<News> {
        let Progress { filled, partitions, bytes, donor, .. } = progress;
        match *self {
            Joining::Waiting => {
                let donor = donor?.index();
                *self = Joining::Getting { began: now, told: now, bytes: 0 };
                Some(News::Begins { partitions, donor })
            }
            Joining::Getting { began, .. } if filled == partitions => {
                *self = Joining::Filled;
                Some(News::HasAll { partitions, bytes, took: now - began })
            }
            Joining::Getting { began, told, bytes: before } => {
                let since = now - told;
                if since < INTERVAL {
                    return None;
                }
                *self = Joining::Getting { began, told: now, bytes };
                // It may have begun anew.
                let more = bytes.saturating_sub(before);
                Some(News::Has { filled, partitions, bytes, more, since })
            }
            Joining::Filled if filled < partitions => {
                *self = Joining::Waiting;
                None
            }
            Joining::Filled => {
                serves.then(|| *self = Joining::Serving)?;
                Some(News::Serves)
            }
            Joining::Serving => None,
        }
    }
}

impl News {
    /// In words, of a worker, with the sites' names.
    pub(crate) fn explain(&self, worker: &str, name: impl Fn(usize) -> String) -> String {
        match self {
            News::Begins { partitions, donor } => {
                format!("{worker} joins: it gets {partitions} partitions from {}", name(*donor))
            }
            News::Has { filled, partitions, bytes, more, since } => format!(
                "{worker} has {filled} of {partitions} partitions: {} so far, {}",
                Megabytes(*bytes),
                Rate(*more, *since)
            ),
            News::HasAll { partitions, bytes, took } => format!(
                "{worker} has all of its {partitions} partitions: {} in {:.1} s, {}",
                Megabytes(*bytes),
                took.as_secs_f64(),
                Rate(*bytes, *took)
            ),
            News::Serves => format!("{worker} has joined, and serves clients"),
        }
    }
}

struct Megabytes(u64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB", self.0 as f64 / 1e6)
    }
}

struct Rate(u64, Duration);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB/s", self.0 as f64 / 1e6 / self.1.as_secs_f64().max(0.001))
    }
}

#[cfg(test)]
mod tests {
    use solera_time::SiteId;

    use super::*;

    #[test]
    fn it_is_told_from_whom_how_much_and_how_long() {
        let at = Instant::now();
        let mut now = Progress { partitions: 4, ..Progress::default() };
        let mut joining = Joining::new(now);
        let mut told = Vec::new();
        let mut tell = |joining: &mut Joining, seconds, now, serves| {
            let news = joining.news(at + Duration::from_secs(seconds), now, serves);
            told.extend(news.map(|news| news.explain("us worker 0", |_| "eu".to_owned())));
        };
        tell(&mut joining, 0, now, false);
        now.donor = Some(SiteId(0));
        tell(&mut joining, 1, now, false);
        (now.bytes, now.filled) = (50_000_000, 1);
        tell(&mut joining, 6, now, false);
        tell(&mut joining, 11, now, false);
        (now.bytes, now.filled) = (200_000_000, 4);
        tell(&mut joining, 21, now, false);
        tell(&mut joining, 22, now, false);
        tell(&mut joining, 23, now, true);
        tell(&mut joining, 40, now, true);
        assert_eq!(
            told,
            [
                "us worker 0 joins: it gets 4 partitions from eu",
                "us worker 0 has 1 of 4 partitions: 50.0 MB so far, 5.0 MB/s",
                "us worker 0 has all of its 4 partitions: 200.0 MB in 20.0 s, 10.0 MB/s",
                "us worker 0 has joined, and serves clients",
            ]
        );
    }
}
