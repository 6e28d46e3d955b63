//! Metrics of reads at a chosen level, of intervals, and of keys with bounds.

mod common;

use common::{Up, eventually, http, ok};
use solera::{Client, Error};

const HEAD: &str = "\
sites = 3
[[space]]
name = 'lock'
prefix = 'lock:'
level = 'linearizable'
[[space]]
name = 'tickets'
prefix = 'tickets:'
level = 'causal'
type = 'pool'
[[space]]
name = 'views'
prefix = 'views:'
level = 'causal'
type = 'counter'
error = '10%'
lease_ms = 500
";

const SITES: [&str; 3] = ["virginia", "california", "frankfurt"];

/// Returns the value of a metric at a site; `labels` are those besides the site, as in `,a=\"b\"`.
fn value(up: &Up, site: usize, metric: &str, labels: &str) -> f64 {
    let (_, text) = http(up.admin(), "/metrics", "").unwrap();
    let start = format!("{metric}{{site=\"{}\"{labels}}} ", SITES[site - 1]);
    let found = text.lines().find_map(|line| line.strip_prefix(&start));
    found.unwrap_or_else(|| panic!("there is no {start}")).parse().unwrap()
}

fn reads(up: &Up, site: usize, bound: &str) -> [f64; 4] {
    ["linearizable", "por", "causal", "eventual"].map(|level| {
        let labels = format!(",bound=\"{bound}\",level=\"{level}\"");
        value(up, site, "solera_reads_total", &labels)
    })
}

fn attempts(up: &Up, site: usize) -> [f64; 3] {
    ["answered", "cancelled", "failed"].map(|outcome| {
        let labels = format!(",outcome=\"{outcome}\"");
        value(up, site, "solera_read_attempts_total", &labels)
    })
}

async fn run(client: &mut Client, line: &str) -> Result<(), Error> {
    let words: Vec<&str> = line.split(' ').collect();
    client.command(&words).await.map(|_| ())
}

/// Runs a command until it succeeds. A site that has just started may refuse it.
async fn succeeds(client: &mut Client, line: &str) {
    eventually(line, async || run(client, line).await.is_ok()).await;
}

#[tokio::test]
async fn reads_count_by_bound_and_level_and_attempts_by_outcome() {
    let up = Up::configured(HEAD, "");
    let (mut one, mut three) = (up.client(1).await, up.client(3).await);
    succeeds(&mut one, "SET lock:a 1").await;
    eventually("it arrives", async || three.get("lock:a").await.unwrap().is_some()).await;
    for (line, times) in [
        ("SOLERA.READ lock:a AT linearizable", 2),
        ("SOLERA.READ lock:a AT causal", 3),
        ("SOLERA.READ k AT causal", 1),
        ("SOLERA.READ k AT eventual", 1),
    ] {
        for _ in 0..times {
            run(&mut one, line).await.unwrap();
        }
    }
    for refused in ["SOLERA.READ k AT linearizable", "SOLERA.READ k WITHIN 0"] {
        run(&mut one, refused).await.unwrap_err();
    }
    run(&mut one, "SOLERA.READ k WITHIN 20000").await.unwrap();
    assert_eq!(attempts(&up, 1), [0.0; 3], "a causal space has no strong reads");
    run(&mut one, "SOLERA.READ lock:a WITHIN 20000").await.unwrap();
    assert_eq!(reads(&up, 1, "at"), [2.0, 0.0, 4.0, 1.0]);
    assert_eq!(reads(&up, 1, "within"), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(attempts(&up, 1), [1.0, 0.0, 0.0]);

    ok(&up.fault(&["cut", "3", "1"]));
    ok(&up.fault(&["cut", "3", "2"]));
    run(&mut three, "SOLERA.READ lock:a WITHIN 20").await.unwrap();
    assert_eq!(reads(&up, 3, "within"), [0.0, 0.0, 1.0, 0.0]);
    let [answered, cancelled, failed] = attempts(&up, 3);
    assert_eq!((answered, cancelled + failed), (0.0, 1.0));
    assert_eq!(reads(&up, 3, "at"), [0.0; 4]);
}

#[tokio::test]
async fn updates_of_keys_with_bounds_count_with_what_they_needed() {
    let up = Up::configured(HEAD, "");
    let (mut one, mut two) = (up.client(1).await, up.client(2).await);
    let updates = |site| value(&up, site, "solera_bound_updates_total", "");
    let waits = |site| value(&up, site, "solera_bound_waits_total", "");
    let waited = |site| value(&up, site, "solera_bound_wait_seconds_total", "");
    let moved = |site, direction: &str| {
        let labels = format!(",direction=\"{direction}\"");
        value(&up, site, "solera_bound_moved_rights_total", &labels)
    };
    let held =
        |site, kind: &str| value(&up, site, "solera_bound_held", &format!(",kind=\"{kind}\""));
    let refused = |site, reason: &str| {
        value(&up, site, "solera_bound_refusals_total", &format!(",reason=\"{reason}\""))
    };
    let changes = |site, change: &str| {
        value(&up, site, "solera_bound_changes_total", &format!(",change=\"{change}\""))
    };
    run(&mut one, "SOLERA.GROW tickets:a 10").await.unwrap();
    eventually("site 1 has the rights", async || held(1, "rights") == 10.0).await;
    run(&mut one, "SOLERA.TAKE tickets:a 2").await.unwrap();
    run(&mut one, "DECRBY tickets:a 1").await.unwrap();
    assert_eq!((updates(1), waits(1), waited(1)), (3.0, 0.0, 0.0));
    eventually("site 1 has the rights", async || held(1, "rights") == 7.0).await;

    run(&mut two, "SOLERA.TAKE tickets:a").await.unwrap();
    assert_eq!((updates(2), waits(2)), (1.0, 1.0));
    assert!(waited(2) > 0.0);
    eventually("the rights have moved", async || {
        moved(2, "received") > 0.0 && held(1, "rights") + held(2, "rights") == 6.0
    })
    .await;
    assert_eq!(moved(1, "given") + moved(2, "given"), moved(1, "received") + moved(2, "received"));

    let error = run(&mut two, "SOLERA.TAKE tickets:a 7").await.unwrap_err();
    assert_eq!(error.code(), Some("SOLDOUT"), "{error}");
    assert_eq!((refused(2, "sold_out"), refused(1, "sold_out")), (1.0, 0.0));
    assert_eq!((updates(1), updates(2), waits(1)), (3.0, 1.0, 0.0));

    run(&mut two, "SOLERA.INTERVAL tickets:a").await.unwrap();
    run(&mut two, "SOLERA.INTERVAL cart").await.unwrap_err();
    assert_eq!(value(&up, 2, "solera_intervals_total", ""), 1.0);
    let failures = "solera_interval_failures_total";
    assert_eq!(value(&up, 2, failures, ",reason=\"no_bound\""), 1.0);
    assert_eq!(value(&up, 2, failures, ",reason=\"uncounted\""), 0.0);

    assert_eq!((changes(1, "grant"), held(1, "increments")), (0.0, 0.0));
    succeeds(&mut one, "INCRBY views:a 1000").await;
    assert_eq!(updates(1), 4.0);
    assert!(waits(1) >= 1.0 && changes(1, "grant") >= 1.0);
    eventually("the site gives the tokens up", async || {
        value(&up, 1, "solera_bound_ended_grants_total", "") >= 1.0
            && changes(2, "reclaim") >= 1.0
            && held(1, "increments") == 0.0
    })
    .await;
    assert_eq!(held(2, "increments") + held(3, "increments"), 0.0);
}
