//! `creek` in every world that it may be in, beside UniStore: what its sessions try, the rare paths
//! that they reach, and rules whose absence the checks detect.

#[path = "../../machine/testing/seeds.rs"]
mod seeds;

use seeds::seeds;
use solera_creek::Rule;
use solera_sim::{Scenario, Tally, Trace, Violation, run};

/// Runs seeds, which must be clean, and returns their counts.
fn tally(scenario: impl Fn(u64) -> Scenario, usual: impl IntoIterator<Item = u64>) -> Tally {
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for seed in seeds(usual) {
        let report = run(&scenario(seed).with_speculation(), Trace::off());
        if let Some(violation) = report.violations.first() {
            println!("seed {seed}: {violation}");
            failed.push(seed);
        }
        tally.add(&report.tally);
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
    tally
}

fn tries_everything(tally: &Tally) {
    println!("{tally}");
    for what in [
        "creek: weak operations",
        "creek: strong operations",
        "creek: stable replies",
        "creek: revised replies",
        "creek: operations given up",
        "creek: barriers",
        "creek: sessions that moved with their past",
    ] {
        assert!(tally.counted(what) > 1, "{what}: {}", tally.counted(what));
    }
}

#[test]
fn plain_worlds_run_it() {
    tries_everything(&tally(Scenario::from_seed, 91_000..91_003));
}

#[test]
fn workers_that_crash_run_it() {
    tries_everything(&tally(Scenario::durable, 92_000..92_003));
}

// `crates/creek/tests` has traps for the other rules. Some of them matter only if a site is lost
// right after its promise, or if many operations wait for their first execution.

/// Finds a seed in which the checks notice, in these words, that a rule is taken out, and checks
/// that it is clean otherwise. The search begins with a seed that notices it, because other seeds
/// only cost time.
fn trap(rule: Rule, words: &str, first: u64, scenario: impl Fn(u64) -> Scenario) {
    let scenario = |seed| scenario(seed).with_speculation();
    let notices = |seed: &u64| {
        let report = run(&scenario(*seed).speculation_without(Some(rule)), Trace::off());
        let found = report.violations.iter().map(Violation::to_string);
        found.filter(|found| found.contains(words)).take(1).any(|found| {
            println!("{rule:?}: seed {seed}: {found}");
            true
        })
    };
    let most = std::env::var("TRAPS").map_or(60, |most| most.parse().unwrap());
    let seed = (first..first + most).find(notices);
    let seed = seed.unwrap_or_else(|| panic!("no seed needs {rule:?}"));
    let report = run(&scenario(seed), Trace::off());
    assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
}

#[test]
fn the_predicate_requires_the_context() {
    trap(Rule::CheckContext, "twice", 1, Scenario::from_seed);
}

#[test]
fn strong_operations_commit_their_contexts() {
    trap(Rule::CommitContext, "did not settle: creek", 0, Scenario::from_seed);
}

#[test]
fn contexts_lack_undecided_strong_operations() {
    trap(Rule::ExcludeUndecided, "again", 0, Scenario::from_seed);
}

#[test]
fn strong_operations_wait_for_their_contexts() {
    trap(Rule::WaitForContext, "incomplete context", 1, Scenario::from_seed);
}

#[test]
fn sites_relay_operations_of_others() {
    trap(Rule::Relay, "did not settle: creek", 0, Scenario::from_seed);
}

#[test]
fn stable_replies_need_a_valid_prefix() {
    trap(Rule::ValidPrefix, "wrong stable result", 0, Scenario::from_seed);
}

#[test]
fn sites_report_only_what_is_durable() {
    trap(Rule::DurableHeads, "did not settle: creek", 1, Scenario::durable);
}

#[test]
fn runs_are_durable_before_they_are_used() {
    trap(Rule::DurableRun, "did not settle: creek", 0, Scenario::durable);
}
