//! A pool and a counter with an error bound whose sites are processes: they are stopped for longer
//! than a lease, and killed and restarted, while clients of all sites use them.

mod common;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::nodes::{Plan, try_ask};
use common::{Inline, eventually, wait_until};

const LEASE: Duration = Duration::from_millis(300);
const SPACES: &str = "\
[[space]]
name = 'tickets'
prefix = 't:'
level = 'causal'
type = 'pool'
[[space]]
name = 'views'
prefix = 'v:'
level = 'causal'
type = 'counter'
error = '10%'
lease_ms = 300
";
/// Units of the pool, more than the clients take.
const UNITS: i64 = 1_000_000;

/// Fault of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Stops it until the others go on without it.
    Stop,
    /// Stops it for longer than a lease.
    Pause,
    /// Kills and restarts it.
    Kill,
}

/// What clients have observed.
#[derive(Default)]
struct Seen {
    ended: AtomicBool,
    /// Identifiers of units, in the order of the replies.
    sold: Mutex<Vec<String>>,
    /// Attempts to take a unit whose outcome nobody knows.
    open_sales: AtomicI64,
    /// Acknowledged increments.
    added: AtomicI64,
    /// Increments that have begun, without those that had certainly no effect.
    attempted: AtomicI64,
    /// Answers with an interval.
    intervals: AtomicI64,
}

impl Seen {
    /// Repeats a request at a site until the load ends. `use_reply` is called with the reply, or
    /// `None` if there is none.
    fn repeat(
        &self,
        at: SocketAddr,
        line: &str,
        begin: impl Fn(&Seen) -> i64,
        use_reply: impl Fn(&Seen, i64, Option<String>),
    ) {
        let mut client = None;
        while !self.ended.load(Ordering::SeqCst) {
            let begun = begin(self);
            let reply = try_ask(&mut client, at, line);
            let failed = reply.as_ref().is_none_or(|reply| reply.starts_with('-'));
            use_reply(self, begun, reply);
            // A site that is down refuses connections at once.
            thread::sleep(Duration::from_millis(if failed { 20 } else { 1 }));
        }
    }

    fn sell(&self, at: SocketAddr) {
        self.repeat(
            at,
            "SOLERA.TAKE t:show",
            |_| 0,
            |seen, _, reply| match reply {
                Some(reply) if !reply.starts_with('-') => seen.sold.lock().unwrap().push(reply),
                Some(reply) if reply.ends_with("nothing was changed") => {}
                _ => _ = seen.open_sales.fetch_add(1, Ordering::SeqCst),
            },
        );
    }

    fn increment(&self, at: SocketAddr) {
        self.repeat(
            at,
            "INCR v:home",
            |seen| seen.attempted.fetch_add(1, Ordering::SeqCst),
            |seen, _, reply| match reply {
                Some(reply) if reply.starts_with(':') => {
                    seen.added.fetch_add(1, Ordering::SeqCst);
                }
                Some(reply) if reply.ends_with("nothing was changed") => {
                    seen.attempted.fetch_sub(1, Ordering::SeqCst);
                }
                _ => {}
            },
        );
    }

    fn read(&self, at: SocketAddr) {
        self.repeat(
            at,
            "SOLERA.INTERVAL v:home",
            |seen| seen.added.load(Ordering::SeqCst),
            |seen, least, reply| {
                let Some((min, max)) = reply.as_deref().and_then(interval) else { return };
                let most = seen.attempted.load(Ordering::SeqCst);
                assert!(min <= most && max >= least, "{min} {max} is not in {least} {most}");
                seen.intervals.fetch_add(1, Ordering::SeqCst);
            },
        );
    }

    /// Returns the number of sales, increments and intervals.
    fn progress(&self) -> [i64; 3] {
        let sold = self.sold.lock().unwrap().len() as i64;
        [sold, self.added.load(Ordering::SeqCst), self.intervals.load(Ordering::SeqCst)]
    }
}

/// Returns the bounds of a reply of SOLERA.INTERVAL; `None` if it is another one.
fn interval(reply: &str) -> Option<(i64, i64)> {
    let (min, max) = reply.strip_prefix(':')?.split_once(" :")?;
    Some((min.parse().unwrap(), max.parse().unwrap()))
}

/// Returns the value of a key, once all sites answer with this value alone.
fn settled(clients: &mut [Inline], key: &str) -> i64 {
    let mut value = 0;
    wait_until(format_args!("exact intervals of {key}"), || {
        let line = format!("SOLERA.INTERVAL {key}");
        let replies: Vec<_> = clients.iter_mut().map(|it| interval(&it.ask(&line))).collect();
        value = replies[0].map_or(0, |(min, _)| min);
        replies.iter().all(|reply| *reply == Some((value, value)))
    });
    value
}

/// Waits until clients had some success of each kind since `before`.
fn goes_on(seen: &Seen, before: [i64; 3]) {
    wait_until("sales, increments and intervals", || {
        seen.progress().iter().zip(before).all(|(now, before)| *now > before + 5)
    });
}

#[tokio::test]
async fn bounds_hold_though_nodes_are_stopped_and_killed() {
    let (plan, mut nodes) = Plan::start(SPACES).await;
    assert_eq!(plan.client(0).ask(&format!("SOLERA.GROW t:show {UNITS}")), format!(":{UNITS}"));
    // Intervals are narrow around 0, where increments wait for them.
    let first = 10_000;
    wait_until("the first increment", || {
        plan.client(0).ask(&format!("INCRBY v:home {first}")) == format!(":{first}")
    });
    let seen = Arc::new(Seen::default());
    seen.added.store(first, Ordering::SeqCst);
    seen.attempted.store(first, Ordering::SeqCst);
    let clients: Vec<_> = (0..9)
        .map(|number| {
            let (seen, at) = (Arc::clone(&seen), plan.at(number / 3, 0));
            thread::spawn(move || [Seen::sell, Seen::increment, Seen::read][number % 3](&seen, at))
        })
        .collect();
    for (site, fault) in [(0, Fault::Stop), (1, Fault::Pause), (2, Fault::Kill)] {
        goes_on(&seen, seen.progress());
        match fault {
            Fault::Stop | Fault::Pause => {
                nodes[site].signal("-STOP");
                thread::sleep(3 * LEASE);
                if fault == Fault::Stop {
                    goes_on(&seen, seen.progress());
                }
                nodes[site].signal("-CONT");
            }
            Fault::Kill => {
                nodes[site].kill();
                nodes[site] = plan.run(site, &[]);
            }
        }
        for node in &nodes {
            eventually(node, async || node.is_ready()).await;
        }
    }
    goes_on(&seen, seen.progress());
    seen.ended.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());

    let mut clients = [0, 1, 2].map(|site| plan.client(site));
    let value = settled(&mut clients, "v:home");
    let [added, attempted] = [&seen.added, &seen.attempted].map(|it| it.load(Ordering::SeqCst));
    assert!((added..=attempted).contains(&value), "{value} is not in {added} {attempted}");

    let mut sold = std::mem::take(&mut *seen.sold.lock().unwrap());
    let left = settled(&mut clients, "t:show");
    let open = seen.open_sales.load(Ordering::SeqCst);
    let gone = UNITS - left - sold.len() as i64;
    assert!((0..=open).contains(&gone), "{gone} units are gone, with {open} open sales");
    // What is left can be sold, and no more.
    assert_eq!(clients[1].ask(&format!("DECRBY t:show {}", left - 5)), ":5");
    let rest = clients[2].ask("SOLERA.TAKE t:show 5");
    sold.extend(rest.split(' ').map(str::to_owned));
    let reply = clients[0].ask("SOLERA.TAKE t:show");
    assert!(reply.starts_with("-SOLDOUT"), "{reply}");
    let count = sold.len();
    assert_eq!(sold.into_iter().collect::<BTreeSet<_>>().len(), count, "an id was sold twice");
}
