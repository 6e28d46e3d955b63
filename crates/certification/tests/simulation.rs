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
        faulty: random.below(8) > 0,
        hurried: random.below(2) == 0,
        causal: random.below(2) == 0,
        changes: random.below(2) == 0,
        broken,
    }
}

#[test]
fn seeds_hold() {
    let count = std::env::var("SEEDS").map_or(64, |seeds| seeds.parse().unwrap());
    let from: u64 = std::env::var("FROM").map_or(0, |from| from.parse().unwrap());
    let mut committed = 0;
    let (mut decided, mut ahead) = (0, 0);
    let mut answered = (0, 0);
    for seed in from..from + count {
        let mut world = World::new(seed, shape(seed, None));
        if let Err(violation) = world.run() {
            panic!("seed {seed}: {violation}; faults {:?}", world.faults);
        }
        committed += world.committed();
        decided += world.outcomes.len();
        ahead += world.ahead;
        let (committed, aborted) = world.answered();
        answered = (answered.0 + committed, answered.1 + aborted);
    }
    assert!(
        answered.0.min(answered.1) > 5 * count as usize,
        "answers about named transactions: only {answered:?}"
    );
    assert!(committed > 30 * count as usize, "only {committed} of {decided} committed");
    assert!(ahead > 4 * count as usize, "only {ahead} of {committed} were delivered ahead");
}

/// Checks that the world's checks detect that a rule is taken out. For rules that are seldom
/// needed, the search begins near a seed that needed them before.
fn is_missed(rule: Rule, from: u64) {
    let mut seeds = from..from + 1500;
    let noticed = seeds.find(|seed| World::new(*seed, shape(*seed, Some(rule))).run().is_err());
    assert!(noticed.is_some(), "no check detects that {rule:?} is taken out");
}

/// Each rule is needed.
#[test]
fn a_rule_left_out_is_noticed() {
    use Rule::*;
    for rule in [PreparedConflicts, DeliverInOrder, NothingBetween, InTime] {
        is_missed(rule, 0);
    }
    for rule in [Quorum, Gather, CatchUp, Remember] {
        is_missed(rule, 0);
    }
    is_missed(Ceiling, 1100);
    is_missed(LearnOldest, 2960);
}

/// A transaction has seen updates that no other site has received; they are lost with their site.
#[test]
fn what_commits_depends_on_nothing_that_is_lost() {
    is_missed(Rule::UniformBeforeCommit, 50);
}

/// Majorities before and after a change of members need not intersect: some of the remaining
/// members may know nothing of what was decided.
#[test]
fn the_promises_of_all_are_needed_after_a_change_of_members() {
    is_missed(Rule::AllAfterChange, 70);
}

/// Members stored a vote whose transaction had seen updates that their sites never received. The
/// updates are lost with the site of the coordinator and leader, and count as stored when it is
/// gone.
#[test]
fn a_term_begins_without_what_nobody_has_acknowledged() {
    is_missed(Rule::DropUnacknowledged, 50);
}

/// The same, before a term of the new members begins.
#[test]
fn nothing_outdated_is_acknowledged_after_a_change_of_members() {
    is_missed(Rule::NothingOutdated, 50);
}

/// A leader has not voted yet, because its site did not store what the transaction had seen.
#[test]
fn requests_of_removed_sites_get_no_vote() {
    is_missed(Rule::ForgetFormer, 270);
}

/// The state that a member has handed over to a later term lacks the vote.
#[test]
fn no_member_acknowledges_for_the_first_time_in_a_former_term() {
    is_missed(Rule::LeaveTerm, 20);
}

/// Leaders waited for transactions that members had reported as stored and had forgotten when they
/// restarted.
#[test]
fn no_leader_waits_for_times_that_all_have_forgotten() {
    let shape = Shape { hurried: false, causal: false, changes: false, ..shape(1237, None) };
    World::new(1237, shape).run().unwrap();
}

/// A leader had forgotten an aborted transaction, and voted on it once more; a follower had not,
/// and repeated the earlier vote. The two votes were not counted together, so that later
/// transactions were never delivered.
#[test]
fn members_that_abort_for_different_reasons_agree() {
    World::new(2791, shape(2791, None)).run().unwrap();
}
