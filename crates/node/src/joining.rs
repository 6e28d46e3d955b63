//! Log lines about a worker whose site joins.

use std::fmt;
use std::time::{Duration, Instant};

use solera_commands::counted;
use solera_creek::Fetched;
use solera_unistore::Progress;

/// Interval between progress lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Progress of a worker towards serving, as last logged.
#[derive(Debug)]
pub(crate) enum Joining {
    /// The worker waits to be accepted.
    Waiting,
    /// The worker copies its partitions: the start, and the time and bytes of the last log line.
    Getting { began: Instant, logged: Instant, bytes: u64 },
    /// The worker has its partitions, and waits for the rest of its site.
    Filled,
    /// The worker serves; nothing more is logged.
    Serving,
}

/// Progress of a worker that gets the speculative space, as last logged.
#[derive(Debug)]
pub(crate) enum Fetching {
    /// The worker waits for the space, or has it.
    Idle,
    /// The worker gets it: the start, and the time and bytes of the last log line.
    Getting { began: Instant, logged: Instant, bytes: u64 },
}

/// An event to log about a joining worker.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// The worker begins to copy its partitions from a site, given by its number.
    Begins { partitions: usize, donor: usize },
    /// Partitions and bytes copied so far, and bytes copied since the last log line.
    Has { filled: usize, partitions: usize, bytes: u64, more: u64, since: Duration },
    /// All partitions are copied.
    HasAll { partitions: usize, bytes: u64, took: Duration },
    /// The worker serves clients.
    Serves,
    /// The worker begins to get the speculative space from a site, given by its number.
    FetchBegins { donor: usize },
    /// Bytes of the speculative space so far, about all of them, and bytes since the last log line.
    FetchHas { bytes: u64, total: u64, more: u64, since: Duration },
    /// The worker has the speculative space.
    FetchHasAll { took: Duration },
}

impl Fetching {
    /// Returns the event to log now, if there is one. `fetched` is `None` if the worker has the
    /// space.
    pub(crate) fn news(&mut self, now: Instant, fetched: Option<Fetched>) -> Option<News> {
        match (&*self, fetched) {
            (Fetching::Idle, fetched) => {
                let donor = fetched?.donor?.index();
                *self = Fetching::Getting { began: now, logged: now, bytes: 0 };
                Some(News::FetchBegins { donor })
            }
            (Fetching::Getting { began, .. }, None) => {
                let took = now - *began;
                *self = Fetching::Idle;
                Some(News::FetchHasAll { took })
            }
            (Fetching::Getting { began, logged, bytes: before }, Some(fetched)) => {
                let since = now - *logged;
                if since < INTERVAL {
                    return None;
                }
                let Fetched { bytes, total, .. } = fetched;
                // Another donor begins anew.
                let more = bytes.saturating_sub(*before);
                *self = Fetching::Getting { began: *began, logged: now, bytes };
                Some(News::FetchHas { bytes, total, more, since })
            }
        }
    }
}

impl Joining {
    /// Creates the state of a worker that has just started.
    pub(crate) fn new(progress: Progress) -> Joining {
        // A worker that joined before it was restarted logs nothing.
        if progress.filled == progress.partitions { Joining::Serving } else { Joining::Waiting }
    }

    /// Returns the event to log now, if there is one.
    pub(crate) fn news(&mut self, now: Instant, progress: Progress, serves: bool) -> Option<News> {
        let Progress { filled, partitions, bytes, donor, .. } = progress;
        match *self {
            Joining::Waiting => {
                let donor = donor?.index();
                *self = Joining::Getting { began: now, logged: now, bytes: 0 };
                Some(News::Begins { partitions, donor })
            }
            Joining::Getting { began, .. } if filled == partitions => {
                *self = Joining::Filled;
                Some(News::HasAll { partitions, bytes, took: now - began })
            }
            Joining::Getting { began, logged, bytes: before } => {
                let since = now - logged;
                if since < INTERVAL {
                    return None;
                }
                *self = Joining::Getting { began, logged: now, bytes };
                // The copy may have begun again.
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
    /// Returns the log line of the event for a worker, with the sites' names.
    pub(crate) fn explain(&self, worker: &str, name: impl Fn(usize) -> String) -> String {
        match self {
            News::Begins { partitions, donor } => {
                let partitions = counted(*partitions, "partition");
                format!("{worker} joins: it gets {partitions} from {}", name(*donor))
            }
            News::Has { filled, partitions, bytes, more, since } => format!(
                "{worker} has {filled} of {}: {} so far, {}",
                counted(*partitions, "partition"),
                Megabytes(*bytes),
                Rate(*more, *since)
            ),
            News::HasAll { partitions, bytes, took } => format!(
                "{worker} has all of its partitions ({partitions}): {} in {:.1} s, {}",
                Megabytes(*bytes),
                took.as_secs_f64(),
                Rate(*bytes, *took)
            ),
            News::Serves => format!("{worker} has joined, and serves clients"),
            News::FetchBegins { donor } => {
                format!("{worker} joins: it gets the speculative space from {}", name(*donor))
            }
            News::FetchHas { bytes, total, more, since } => format!(
                "{worker} has {} of about {} of the speculative space, {}",
                Megabytes(*bytes),
                Megabytes(*total),
                Rate(*more, *since)
            ),
            News::FetchHasAll { took } => {
                format!("{worker} has the speculative space after {:.1} s", took.as_secs_f64())
            }
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
    fn the_speculative_space_has_lines_of_its_own() {
        let at = Instant::now();
        let mut fetching = Fetching::Idle;
        let waits = Fetched::default();
        let begins = Fetched { donor: Some(SiteId(0)), ..waits };
        let has = |bytes| Some(Fetched { bytes, total: 80_000_000, ..begins });
        let steps =
            [(0, Some(waits)), (1, Some(begins)), (5, has(9)), (11, has(50_000_000)), (14, None)];
        let news = steps.map(|(seconds, fetched)| {
            let news = fetching.news(at + Duration::from_secs(seconds), fetched);
            news.map(|news| news.explain("us worker 0", |_| "eu".to_owned()))
        });
        assert_eq!(
            news.into_iter().flatten().collect::<Vec<_>>(),
            [
                "us worker 0 joins: it gets the speculative space from eu",
                "us worker 0 has 50.0 MB of about 80.0 MB of the speculative space, 5.0 MB/s",
                "us worker 0 has the speculative space after 13.0 s",
            ]
        );
        assert_eq!(fetching.news(at, None), None, "a worker that has it logs nothing");
    }

    #[test]
    fn events_name_the_donor_the_amount_and_the_rate() {
        let at = Instant::now();
        let mut now = Progress { partitions: 4, ..Progress::default() };
        let mut joining = Joining::new(now);
        let mut lines = Vec::new();
        let mut step = |joining: &mut Joining, seconds, now, serves| {
            let news = joining.news(at + Duration::from_secs(seconds), now, serves);
            lines.extend(news.map(|news| news.explain("us worker 0", |_| "eu".to_owned())));
        };
        step(&mut joining, 0, now, false);
        now.donor = Some(SiteId(0));
        step(&mut joining, 1, now, false);
        (now.bytes, now.filled) = (50_000_000, 1);
        step(&mut joining, 6, now, false);
        step(&mut joining, 11, now, false);
        (now.bytes, now.filled) = (200_000_000, 4);
        step(&mut joining, 21, now, false);
        step(&mut joining, 22, now, false);
        step(&mut joining, 23, now, true);
        step(&mut joining, 40, now, true);
        assert_eq!(
            lines,
            [
                "us worker 0 joins: it gets 4 partitions from eu",
                "us worker 0 has 1 of 4 partitions: 50.0 MB so far, 5.0 MB/s",
                "us worker 0 has all of its partitions (4): 200.0 MB in 20.0 s, 10.0 MB/s",
                "us worker 0 has joined, and serves clients",
            ]
        );
    }
}
