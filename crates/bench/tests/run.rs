//! Whole runs on clusters in this process.

use std::collections::BTreeSet;
use std::time::Duration;

use solera_bench::{
    BenchError, Class, Micro, Pace, Report, Strong, TargetCluster, Tpcc, Work, run,
};
use solera_config::Overrides;

fn place(sites: usize, wan: &str) -> TargetCluster {
    place_with(sites, wan, "")
}

fn place_with(sites: usize, wan: &str, spaces: &str) -> TargetCluster {
    let (sites, wan) = (Some(sites), Some(wan.to_owned()));
    TargetCluster::up(Overrides { sites, wan, ..Overrides::default() }, spaces).unwrap()
}

fn pace(clients: usize, seconds: u64) -> Pace {
    Pace {
        clients,
        threads: 2,
        think: Duration::ZERO,
        ramp_up: Duration::ZERO,
        warm_up: Duration::ZERO,
        window: Duration::from_secs(seconds),
    }
}

fn rubis(scale: &str) -> Work {
    Work::Rubis { scale: scale.parse().unwrap(), contended: None, seed: 1 }
}

fn causally(work: &Work, place: &TargetCluster, pace: &Pace) -> Report {
    run(work, place, Strong::Causal, pace, &|_| ()).unwrap()
}

/// RUBiS in which strong transactions of all sites contend for the same names and items.
fn contended(sites: usize, seed: u64) -> Work {
    let scale = "small".parse().unwrap();
    Work::Rubis { scale, contended: Some(4 * sites as u64), seed }
}

/// Runs until the closure returns `true`, on a new cluster each time, because the number of
/// transactions in a second depends on the machine.
fn until(mut enough: impl FnMut(u64) -> bool) {
    assert!((0..15).any(&mut enough), "too little has happened");
}

/// A single client has no concurrent clients, so the transactions themselves must preserve the
/// invariants.
#[test]
fn a_client_alone_breaks_no_invariant_and_runs_every_transaction() {
    let (mut run, mut refused) = (BTreeSet::new(), BTreeSet::new());
    until(|seed| {
        let report = causally(&contended(1, seed), &place(1, "none"), &pace(1, 1));
        assert!(report.holds() && report.errors.is_empty(), "{report}");
        let classes = Class::ALL.map(|class| report.class(class).latency.count());
        assert_eq!(classes.iter().sum::<u64>(), report.total().latency.count());
        for (kind, count) in &report.kinds {
            // The second client that requests a name, an item or an auction is refused.
            assert!(count.refused == 0 || kind.class == Class::Strong, "{report}");
            run.extend((count.latency.count() > 0).then_some(kind.name));
            refused.extend((count.refused > 0).then_some(kind.name));
        }
        let checked = report.invariants.iter().all(|invariant| invariant.checked > 0);
        checked && run.len() == report.kinds.len() && refused.len() == 4
    });
}

/// Three sites that receive each other's updates after tens of milliseconds, and run strong
/// transactions as causal ones.
#[test]
fn causal_transactions_break_the_invariants_that_strong_ones_are_for() {
    let mut broken = BTreeSet::new();
    until(|seed| {
        let report = causally(&contended(3, seed), &place(3, "aws"), &pace(30, 2));
        let of_report = report.invariants.iter().filter(|invariant| invariant.broken > 0);
        broken.extend(of_report.clone().map(|invariant| invariant.rule));
        assert_eq!(of_report.count() > 0, report.to_string().contains("BROKEN"), "{report}");
        let total: u64 =
            report.classes.iter().flat_map(|(_, at)| at).map(|count| count.latency.count()).sum();
        assert_eq!(report.json()["total"]["count"], total);
        broken.len() == 3
    });
    // No update is lost, which causal transactions guarantee as well.
    let rules = ["nicknames are unique", "no item is oversold", "the highest bid wins"];
    assert_eq!(broken, BTreeSet::from(rules));
}

/// The same transactions preserve all invariants when they run strongly.
#[test]

fn strong_transactions_keep_the_invariants() {
    let (mut aborts, mut checked) = (0, 0);
    until(|seed| {
        let work = contended(3, seed);
        let place = place_with(3, "aws", work.spaces());
        let report = run(&work, &place, Strong::Solera, &pace(30, 2), &|_| ()).unwrap();
        assert!(report.holds(), "{report}");
        aborts += report.class(Class::Strong).aborts;
        checked += report.invariants.iter().map(|invariant| invariant.checked).min().unwrap();
        aborts > 0 && checked > 10
    });
}

#[test]
fn data_is_loaded_once_and_that_of_another_scale_refused() {
    let place = place(1, "none");
    let (tiny, reported) = (rubis("tiny"), std::cell::RefCell::new(Vec::new()));
    for _ in 0..2 {
        let report_phase = |what: &str| reported.borrow_mut().push(what.to_owned());
        // There is one client, because several could conflict.
        let report = run(&tiny, &place, Strong::Causal, &pace(1, 1), &report_phase).unwrap();
        assert!(report.holds(), "{report}");
    }
    assert_eq!(*reported.borrow(), ["loading", "running", "checking", "running", "checking"]);
    let refused = run(&rubis("small"), &place, Strong::Causal, &pace(4, 1), &|_| ());
    let Err(BenchError::OtherData { found, wanted }) = refused else { panic!("{refused:?}") };
    assert_eq!((found.as_str(), wanted.as_str()), ("tiny", "small"));
}

fn micro() -> Micro {
    Micro { keys: 100, updates: 50, strong: 50, hot: 20, value_bytes: 10, seed: 1 }
}

#[test]
fn the_micro_benchmark_runs_without_failures_at_every_site() {
    let report = causally(&Work::Micro(micro()), &place(3, "none"), &pace(6, 1));
    assert!(report.errors.is_empty() && report.throughput() > 0.0, "{report}");
    assert!(report.classes.iter().all(|(_, at)| at.len() == 3), "{report}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let place = place(1, "none");
    let refused = |micro: Micro, pace: Pace| {
        run(&Work::Micro(micro), &place, Strong::Causal, &pace, &|_| ()).unwrap_err().to_string()
    };
    let fast = || pace(1, 1);
    for (refused, reason) in [
        (refused(micro(), Pace { clients: 0, ..fast() }), "number of clients"),
        (refused(micro(), Pace { threads: 0, ..fast() }), "number of threads"),
        (refused(micro(), Pace { window: Duration::ZERO, ..fast() }), "length of the measurement"),
        (refused(Micro { keys: 2, ..micro() }, fast()), "three items"),
        (refused(Micro { hot: 101, ..micro() }, fast()), "hot: 101%"),
    ] {
        assert!(refused.contains(reason), "{refused}");
    }
}

/// Runs TPC-C with a changed module on tiny tables, and returns the rules that are broken.
fn broken_by(changes: &[(&str, &str)]) -> BTreeSet<String> {
    let mut source = include_str!("../../../examples/tpcc.mixt").to_owned();
    for (text, other) in changes {
        assert_eq!(source.matches(text).count(), 1, "{text}");
        source = source.replace(text, other);
    }
    let (warehouses, scale) = (1, "tiny".parse().unwrap());
    let work = Work::Tpcc(Tpcc { warehouses, scale, seed: 1, source: Some(source) });
    let place = place_with(3, "none", work.spaces());
    let report = run(&work, &place, Strong::Solera, &pace(9, 1), &|_| ()).unwrap();
    assert!(!changes.is_empty() || report.errors.is_empty(), "{report}");
    let broken = report.invariants.iter().filter(|invariant| invariant.broken > 0);
    let number = |rule: &str| rule.split([':', ' ']).next().unwrap_or_default().to_owned();
    let broken: BTreeSet<String> = broken.map(|invariant| number(invariant.rule)).collect();
    assert_eq!(report.holds(), broken.is_empty());
    broken
}

/// Changes of the module, as texts with their replacements, and rules that they break.
type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);

/// A module that leaves out a part of a transaction is noticed, by the conditions about this part.
#[test]
fn conditions_of_tpcc_notice_a_broken_module() {
    const DISTRICT: (&str, &str) = ("    district_ytd(w, d).add(amount);\n", "");
    const WAREHOUSE: (&str, &str) = ("    warehouse_ytd(w).add(amount);\n", "");
    const NEXT: &str = "next_order(w, d).set(id + 1)";
    const CASES: [Case; 8] = [
        (&[DISTRICT], &["1", "9"]),
        (&[DISTRICT, WAREHOUSE], &["8", "9", "acknowledged"]),
        (&[("    of.balance -= amount;\n", "")], &["10", "12"]),
        (&[(NEXT, "next_order(w, d).set(id + lines.len() / 2)")], &["2", "3"]),
        (&[("count: lines.len(),", "count: 4,")], &["4", "6"]),
        (&[("            new_order_row(w, d, id).delete();\n", "")], &["5", "indexes"]),
        (&[("                left.sold += line.quantity;\n", "")], &["S_YTD"]),
        (&[("    last_order(w, d, c).set(id);\n", "")], &["indexes"]),
    ];
    assert_eq!(broken_by(&[]), BTreeSet::new());
    for (changes, rules) in CASES {
        let expected: BTreeSet<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        // A long run may break more: for example, Delivery stops at an order that does not exist.
        until(|_| broken_by(changes).is_superset(&expected));
    }
}
