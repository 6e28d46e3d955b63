//! Seeds of simulated clusters, and a trap for each rule.

#[path = "../../machine/testing/seeds.rs"]
mod seeds;
mod world;

use std::collections::BTreeMap;

use seeds::seeds;
use solera_reservations::{RARE_PATHS, Rule};
use world::{LOWER_PREFIX, Report, SPENT, Shape, World};

fn shape(seed: u64) -> Shape {
    Shape {
        sites: 2 + (seed % 3) as usize,
        faults: true,
        stops: seed % 5 == 4 && !seed.is_multiple_of(3) && seed % 7 != 6 && !removes(seed),
        joins: seed % 13 == 12,
        removes: removes(seed),
        returns: !seed.is_multiple_of(4),
        reads_clock_early: false,
        planned: seed % 2 == 1,
        long_leases: seed % 7 == 6,
        without: None,
    }
}

fn removes(seed: u64) -> bool {
    seed % 5 == 3 && !seed.is_multiple_of(3)
}

/// Findings of the seeds of a test.
#[derive(Default)]
struct Summary {
    rare: BTreeMap<&'static str, usize>,
    cannot: BTreeMap<String, usize>,
    committed: usize,
    refused: usize,
    reads: usize,
    exact: usize,
    undecided: usize,
    failed: Vec<String>,
}

impl Summary {
    fn add(&mut self, seed: u64, report: Report) {
        for (path, count) in report.rare {
            *self.rare.entry(path).or_default() += count;
        }
        for (reason, count) in report.cannot {
            *self.cannot.entry(reason).or_default() += count;
        }
        self.committed += report.committed;
        self.refused += report.refused;
        self.reads += report.reads;
        self.exact += report.exact;
        self.undecided += report.undecided;
        let found = report.violations.iter().chain(&report.unfinished);
        self.failed.extend(found.map(|found| format!("seed {seed}: {found}")));
    }
}

#[test]
fn an_update_that_takes_a_large_part_of_a_value_ends() {
    let mut summary = Summary::default();
    for seed in seeds(0..100) {
        let shape = Shape { faults: false, planned: false, ..shape(0) };
        let shape = Shape { sites: 2 + (seed % 3) as usize, ..shape };
        summary.add(seed, World::run_large_decrements(seed, shape));
    }
    assert!(summary.committed > 0);
    assert!(summary.failed.is_empty(), "{:#?}", summary.failed);
}

#[test]
fn intervals_contain_the_value() {
    let mut summary = Summary::default();
    for seed in seeds(0..90) {
        summary.add(seed, World::run(seed, shape(seed)));
    }
    let Summary { committed, refused, reads, exact, undecided, .. } = summary;
    println!("{committed} commits, {refused} refused, {reads} reads, {exact} exact");
    println!("{undecided} histories undecided");
    println!("{:#?}\n{:#?}", summary.cannot, summary.rare);
    assert!(summary.failed.is_empty(), "{:#?}", summary.failed);
    // No key of this world has rights. The tests of the machine reach these paths.
    let of_rights = ["gave rights", "what rights depend on", "too few rights"];
    let is_other = |path: &&str| !of_rights.iter().any(|words| path.contains(words));
    let paths = RARE_PATHS.iter().map(|path| path.0).filter(is_other);
    let paths = paths.chain([LOWER_PREFIX, SPENT]);
    for path in paths.filter(|_| std::env::var("SEEDS").is_err()) {
        assert!(summary.rare.contains_key(path), "no seed reaches {path:?}");
    }
}

/// How a world without a rule breaks its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    /// It answers with wrong or wide intervals.
    Wrong,
    /// Requests fail that must succeed, or intervals stay wide.
    Stuck,
}

/// Each rule without which a world breaks its promises, with the range of seeds in which one shows
/// it. `machine.rs` has tests of the remaining ones, which need a rare sequence of steps.
#[test]
fn every_rule_is_needed() {
    use Fails::{Stuck, Wrong};
    let rules = [
        (Rule::Confirm, Wrong, 0),
        (Rule::Recycling, Wrong, 0),
        (Rule::SeparatePools, Wrong, 60),
        (Rule::Width, Wrong, 0),
        (Rule::Floor, Wrong, 0),
        (Rule::ConfirmFloor, Wrong, 1080),
        (Rule::RespectRaise, Wrong, 110),
        (Rule::RaiseBelowValue, Wrong, 2290),
        (Rule::CheckAtCommit, Wrong, 0),
        (Rule::EndAfterPromises, Wrong, 0),
        (Rule::ReclaimAfterEnd, Wrong, 0),
        (Rule::CountPromises, Wrong, 0),
        (Rule::CountSpent, Wrong, 0),
        (Rule::RestoreCommits, Wrong, 2040),
        (Rule::ReaderLease, Wrong, 0),
        (Rule::WaitForLease, Wrong, 0),
        (Rule::LeaseIsVolatile, Wrong, 0),
        (Rule::LeaseFromSending, Wrong, 0),
        (Rule::DurablePromises, Wrong, 0),
        (Rule::SeeSponsorsVector, Wrong, 0),
        (Rule::PinReports, Wrong, 1550),
        (Rule::FoundAfterEnds, Wrong, 110),
        (Rule::Capacity, Stuck, 0),
        (Rule::TakeBack, Stuck, 0),
        (Rule::EndOffers, Stuck, 0),
        (Rule::Exclude, Stuck, 0),
        (Rule::EndWhenIdle, Stuck, 0),
        (Rule::EndForReader, Stuck, 0),
    ];
    let most = std::env::var("TRAPS").map_or(100, |most| most.parse().unwrap());
    let only = std::env::var("RULE").ok();
    let mut unneeded = Vec::new();
    for (rule, fails, from) in rules {
        if only.as_ref().is_some_and(|only| *only != format!("{rule:?}")) {
            continue;
        }
        let mut first = None;
        let found = (from..from + most).find(|seed| {
            let shape = Shape { without: Some(rule), ..shape(*seed) };
            let report = World::run(*seed, shape);
            let reasons = if fails == Wrong { report.violations } else { report.unfinished };
            first = reasons.first().cloned();
            first.is_some()
        });
        println!("{rule:?}: seed {found:?}: {}", first.unwrap_or_default());
        unneeded.extend(found.is_none().then_some(rule));
    }
    assert!(unneeded.is_empty(), "no seed needs {unneeded:?}");
}

/// A host that reads the clock before it receives the input breaks the contract on time
/// (`CheckAfter` of R4).
#[test]
fn hosts_read_the_clock_after_the_input() {
    let found = (0..60).find(|seed| {
        let shape = Shape { reads_clock_early: true, ..shape(*seed) };
        !World::run(*seed, shape).violations.is_empty()
    });
    println!("early readings: seed {found:?}");
    assert!(found.is_some());
}
