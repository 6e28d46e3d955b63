//! Seeds of simulated sites, and a trap for each rule.

#[path = "../../machine/testing/seeds.rs"]
mod seeds;
mod world;

use std::collections::BTreeMap;

use seeds::seeds;
use solera_creek::{RARE_PATHS, Rule};
use world::{Shape, World};

fn shape(seed: u64) -> Shape {
    let sites = 2 + (seed % 4) as usize;
    Shape {
        sites,
        dies: sites > 2 && seed % 3 == 1 && seed % 8 != 7,
        weak: seed % 5 == 3,
        tight: seed % 7 == 5,
        ambush: sites == 5 && seed % 8 == 7,
        observes: seed.is_multiple_of(2),
        changes: false,
        acyclic: false,
        without: None,
    }
}

/// Returns the shape of a world whose responses show no strong operation before it is committed.
/// In every third one, sites leave and join.
fn acyclic(seed: u64) -> Shape {
    let shape = if seed.is_multiple_of(3) { changing(seed) } else { shape(seed) };
    Shape { acyclic: true, ..shape }
}

/// Returns the shape of a world in which sites leave and join.
fn changing(seed: u64) -> Shape {
    Shape { changes: true, dies: false, ambush: false, ..shape(seed) }
}

/// Names a seed whose run panics.
struct Named(u64, Shape);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {} has panicked: {:?}", self.0, self.1);
        }
    }
}

#[test]
fn replies_are_those_of_the_claimed_orders_and_the_sites_converge() {
    let mut rare: BTreeMap<&'static str, usize> = BTreeMap::new();
    let (mut requests, mut stable, mut finals, mut executions) = (0, 0, 0, 0);
    let mut failed = Vec::new();
    let unchanged = seeds(0..80).into_iter().map(|seed| (seed, shape(seed)));
    let changed = seeds(0..80).into_iter().map(|seed| (seed, changing(seed)));
    let hiding = seeds(0..40).into_iter().map(|seed| (seed, acyclic(seed)));
    for (seed, shape) in unchanged.chain(changed).chain(hiding) {
        let _named = Named(seed, shape);
        let report = World::run(seed, shape);
        for (path, count) in &report.rare {
            *rare.entry(path).or_default() += count;
        }
        requests += report.requests;
        stable += report.stable;
        finals += report.finals;
        executions += report.executions;
        let found = report.violations.iter().chain(&report.unfinished);
        failed.extend(found.map(|found| format!("seed {seed}, {shape:?}: {found}")).take(4));
    }
    println!(
        "{requests} requests, {stable} stable replies, {finals} final, {executions} executions"
    );
    println!("{rare:#?}");
    failed.truncate(40);
    assert!(failed.is_empty(), "{failed:#?}");
    let paths = RARE_PATHS
        .iter()
        .map(|path| path.0)
        .chain(["world: a process was restarted", "world: a site failed after its promise"])
        .chain(["world: a site was removed alive", "world: a site joined"]);
    // Tests of the machine reach these.
    let rarer = ["its donor was restarted", "turned to another donor"];
    let is_rarer = |path: &str| rarer.iter().any(|words| path.contains(words));
    for path in paths.filter(|path| std::env::var("SEEDS").is_err() && !is_rarer(path)) {
        assert!(rare.contains_key(path), "no seed reaches {path:?}");
    }
}

/// A failed seed can be repeated.
#[test]
fn a_seed_determines_the_run() {
    let [first, second] = [17, 17].map(|seed| {
        let report = World::run(seed, shape(seed));
        (report.digest, report.requests, report.executions, report.rare)
    });
    assert!(first.0.is_some());
    assert_eq!(first, second);
}

/// Each rule without which a world breaks its promises: a phrase of what the judges then find, and
/// the first of the seeds in which the test searches for it.
#[test]
fn every_rule_is_needed() {
    let rules = [
        (Rule::WaitForContext, "is claimed without", 0),
        (Rule::CommitContext, "in the final order", 0),
        (Rule::ExcludeUndecided, "is committed twice", 0),
        (Rule::CheckContext, "and another site", 0),
        (Rule::OrderRuns, "precedes one of its session", 1350),
        (Rule::OrderByTimestamp, "and another site", 0),
        (Rule::AdvanceClock, "no more", 0),
        (Rule::RequestGaps, "is busy", 0),
        (Rule::Relay, "is busy", 1),
        (Rule::HandOverStreams, "is busy", 740),
        (Rule::DurableHeads, "is busy", 0),
        (Rule::DurableRun, "repeats", 4),
        (Rule::AnswerExact, "Response", 0),
        (Rule::ExecuteContext, "is claimed without", 0),
        (Rule::ValidateJobs, "Response", 0),
        (Rule::ValidPrefix, "stable", 0),
        (Rule::ValidateWrites, "Response", 0),
        (Rule::ValidateAbsence, "Response", 0),
        (Rule::ValidateMoves, "Response", 0),
        (Rule::AttachInOrder, "of its past", 0),
        (Rule::AttachExecuted, "of its past", 0),
        (Rule::BarrierDelivered, "has returned without", 0),
        (Rule::Settle, "is busy", 0),
    ];
    // Worlds in which sites leave and join. `AdmitFirst` has a test of the machine, because few
    // seeds need it.
    let of_changes = [(Rule::AgreeOnDepartures, "", 0)];
    let hiding = [(Rule::HideUndecided, "is not committed", 0)];
    let most = std::env::var("TRAPS").map_or(150, |most| most.parse().unwrap());
    let only = std::env::var("RULE").ok();
    let mut unneeded = Vec::new();
    let plain: fn(u64) -> Shape = shape;
    let rules = rules.into_iter().map(|it| (it, plain));
    let rules = rules.chain(of_changes.map(|it| (it, changing as _)));
    for ((rule, phrase, from), shape) in rules.chain(hiding.map(|it| (it, acyclic as _))) {
        if only.as_ref().is_some_and(|only| *only != format!("{rule:?}")) {
            continue;
        }
        let mut first = None;
        let found = (from..from + most).find(|seed| {
            let shape = shape(*seed);
            let report = World::run(*seed, Shape { without: Some(rule), ..shape });
            let mut reasons = report.violations.into_iter().chain(report.unfinished);
            first = reasons.find(|reason| reason.contains(phrase));
            first.is_some()
        });
        println!("{rule:?}: seed {found:?}: {}", first.unwrap_or_default());
        unneeded.extend(found.is_none().then_some(rule));
    }
    assert!(unneeded.is_empty(), "no seed needs {unneeded:?}");
}
