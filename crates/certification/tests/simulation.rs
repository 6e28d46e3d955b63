//! The certification service under crashes, partitions, losses, skew and changes of leaders.

mod world;

use solera_certification::Rule;
use world::{Random, Shape, World};

fn shape(seed: u64, broken: Option<Rule>) -> Shape {
    let mut random = Random::new(seed ^ 0x5eed);
    Shape {
        sites: [1, 3, 3, 3, 5][random.below(5) as usize],
        f: 1 + usize::from(seed % 8 == 7),
        workers: 1 + random.below(2) as u8,
        groups: 1 + random.below(4) as u16,
        keys: 2 + random.below(20),
        transactions: 150 + random.below(250),
        pause: [20, 50, 200][random.below(3) as usize],
        trouble: random.below(8) > 0,
        hurried: random.below(2) == 0,
        broken,
    }
}

#[test]
fn seeds_hold() {
    let count = std::env::var("SEEDS").map_or(120, |seeds| seeds.parse().unwrap());
    let from: u64 = std::env::var("FROM").map_or(0, |from| from.parse().unwrap());
    let mut committed = 0;
    let (mut decided, mut ahead) = (0, 0);
    let mut told = (0, 0);
    for seed in from..from + count {
        let mut world = World::new(seed, shape(seed, None));
        if let Err(violation) = world.run() {
            panic!("seed {seed}: {violation}; faults {:?}", world.faults);
        }
        committed += world.committed();
        decided += world.outcomes.len();
        ahead += world.ahead;
        let (committed, aborted) = world.told();
        told = (told.0 + committed, told.1 + aborted);
    }
    assert!(told.0.min(told.1) > 5 * count as usize, "of named ones, {told:?} were told");
    assert!(committed > 30 * count as usize, "only {committed} of {decided} committed");
    assert!(ahead > 8 * count as usize, "only {ahead} of {committed} were delivered ahead");
}

/// Each rule is needed: without it the judge finds something in some seed.
#[test]
fn a_rule_left_out_is_noticed() {
    use Rule::*;
    let of_order = [PreparedConflicts, DeliverInOrder, NothingBetween, InTime];
    let of_terms = [Quorum, Gather, Ceiling, CatchUp, Remember, TellOldest];
    for rule in of_order.into_iter().chain(of_terms) {
        // Where the seeds are that notice what is seldom needed.
        let from = match rule {
            Ceiling => 1140,
            TellOldest => 1690,
            _ => 0,
        };
        let mut seeds = from..from + 1500;
        let noticed = seeds.find(|seed| World::new(*seed, shape(*seed, Some(rule))).run().is_err());
        assert!(noticed.is_some(), "nobody misses {rule:?}");
    }
}

/// Leaders waited for what members had said to have stored and had forgotten when they restarted.
#[test]
fn nobody_waits_for_times_that_all_have_forgotten() {
    World::new(1237, Shape { hurried: false, ..shape(1237, None) }).run().unwrap();
}
