//! Seeds of simulated members, and a trap for each rule.

#[path = "../../machine/testing/seeds.rs"]
mod seeds;
mod world;

use std::collections::BTreeMap;

use seeds::seeds;
use solera_consensus::{RARE_PATHS, Rule};
use solera_random::Random;
use world::{Report, Shape, World};

fn shape(seed: u64, without: Option<Rule>) -> Shape {
    let mut random = Random::new(seed ^ 0x5eed);
    Shape {
        sites: [2, 3, 3, 4, 5, 5, 5, 7][random.index(8)],
        length: 2_000 + random.below(6_000),
        pause: [5, 20, 60][random.index(3)],
        batch: [1, 2, 8][random.index(3)],
        pipeline: [1, 3, 16][random.index(3)],
        part_bytes: [100, 400, 64 << 10][random.index(3)],
        faulty: random.below(16) > 0,
        hurried: random.below(2) == 0,
        changes: random.below(2) == 0,
        without,
    }
}

#[test]
fn properties_hold() {
    let mut reached: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    let mut casts = 0;
    // In the last seed, two leaders propose an id in different slots.
    let seeds = seeds((0..150).chain([503]));
    for seed in seeds.iter().copied() {
        let report = World::run(seed, shape(seed, None));
        for (path, count) in report.reached {
            *reached.entry(path).or_default() += count;
        }
        casts += report.casts;
        let found = report.violation.into_iter().chain(report.unfinished);
        failed.extend(found.map(|found| format!("seed {seed}: {found}")));
    }
    println!("{casts} casts\n{reached:#?}");
    assert!(failed.is_empty(), "{failed:#?}");
    for path in RARE_PATHS.iter().filter(|_| std::env::var("SEEDS").is_err()) {
        assert!(reached.contains_key(path.0), "no seed reaches {:?}", path.0);
    }
    assert!(casts > 20 * seeds.len(), "only {casts} casts");
}

/// A seed determines the whole run.
#[test]
fn runs_can_be_repeated() {
    let [first, second] = [(); 2].map(|()| World::run(5, shape(5, None)));
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

/// How a world without a rule breaks its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    /// It violates a safety property.
    Wrong,
    /// Casts are not delivered.
    Stuck,
}

/// Each rule is needed: without it, a seed near the given one breaks a promise.
#[test]
fn every_rule_is_needed() {
    use Fails::{Stuck, Wrong};
    let rules = [
        (Rule::Quorum, Wrong, 0),
        (Rule::PredicateAtAcceptance, Stuck, 30),
        (Rule::PredicateAtDelivery, Wrong, 0),
        (Rule::BodiesWithPromises, Stuck, 935),
        (Rule::ReProposal, Wrong, 45),
        (Rule::HighestBallot, Wrong, 680),
        (Rule::FillGaps, Stuck, 25),
        (Rule::RecordPromise, Wrong, 220),
        (Rule::RecordAcceptance, Wrong, 215),
        (Rule::LeaveTerm, Wrong, 0),
        (Rule::Once, Wrong, 500),
        (Rule::RunOrder, Wrong, 100),
        (Rule::AllAfterChange, Wrong, 85),
        (Rule::FormerConfiguration, Wrong, 90),
        (Rule::EstablishDelivered, Wrong, 4128),
        (Rule::TruncateDelivered, Wrong, 0),
        (Rule::RepeatProposals, Stuck, 0),
        (Rule::AskForDecisions, Stuck, 0),
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
            let Report { violation, unfinished, .. } = World::run(*seed, shape(*seed, Some(rule)));
            first = if fails == Wrong { violation } else { unfinished };
            first.is_some()
        });
        println!("{rule:?}: seed {found:?}: {}", first.unwrap_or_default());
        unneeded.extend(found.is_none().then_some(rule));
    }
    assert!(unneeded.is_empty(), "no seed needs {unneeded:?}");
}
