//! The checks notice when a rule of the protocol is taken out, and the same seeds are clean with it.

use solera_checker::properties::Broken;
use solera_sim::{Scenario, Trace, Violation, Weakness, run};
use solera_unistore::Rule;

/// Finds a seed that fails without `rule` in the expected way, and shows that the rule mends it.
fn trap(rule: Rule, expected: impl Fn(&Violation) -> bool) {
    let caught = (0..400).find(|seed| {
        let report = run(&Scenario::from_seed(*seed).without(Some(rule)), Trace::off());
        report.violations.iter().any(&expected)
    });
    let seed = caught.expect("no seed notices that the rule is gone");
    let report = run(&Scenario::from_seed(seed), Trace::off());
    assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
}

/// UniStore §5.5, Figure 1: a transaction reaches one surviving site and never the other, so what
/// depends on it stays invisible there.
#[test]
fn forwarding() {
    trap(Rule::Forwarding, |violation| {
        matches!(
            violation,
            Violation::Stuck(_) | Violation::Anomaly(solera_checker::Violation::Divergence { .. })
        )
    });
}

/// UniStore Alg. 1 l. 21: a read that does not wait misses a transaction of its own snapshot.
#[test]
fn wait_on_known_vec() {
    trap(Rule::WaitOnKnownVec, |violation| {
        matches!(violation, Violation::Anomaly(solera_checker::Violation::WrongAnswer { .. }))
    });
}

/// UniStore Alg. 2 l. 3: `known_vec` above a prepare time promises what may still be missing.
#[test]
fn known_vec_just_below_the_smallest_prepare_time() {
    trap(Rule::KnownVecBelowPrepared, |violation| {
        matches!(violation, Violation::Property(_, Broken::Known { .. }))
    });
}

/// UniStore Alg. 1 l. 5, §4: what is visible before it is uniform can be lost with its site.
#[test]
fn remote_transactions_are_invisible_before_uniform() {
    trap(Rule::UniformBeforeVisible, |violation| {
        matches!(
            violation,
            Violation::Property(_, Broken::Uniform { .. } | Broken::NotUniform { .. })
        )
    });
}

/// Finds a seed that fails without a precaution of the journals' hosts, and shows that it mends it.
fn weakened(weakness: Weakness, expected: impl Fn(&Violation) -> bool) {
    let caught = (0..400).find(|seed| {
        let report = run(&Scenario::durable(*seed).weakened(weakness), Trace::off());
        report.violations.iter().any(&expected)
    });
    let seed = caught.expect("no seed notices that the precaution is gone");
    let report = run(&Scenario::durable(seed), Trace::off());
    assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
}

/// `docs/decisions/0007-durability.md`: what is acknowledged before it is durable may be undone.
#[test]
fn records_before_words() {
    weakened(Weakness::AcknowledgesBeforeSync, |violation| {
        matches!(violation, Violation::Anomaly(solera_checker::Violation::Lost { .. }))
    });
}

/// A journal that is damaged must not be started from: what is cut off was acknowledged.
#[test]
fn damage_refuses_to_start() {
    weakened(Weakness::StartsFromDamage, |violation| matches!(violation, Violation::Anomaly(_)));
}

/// What is in memory and in no journal must not be read: it is gone when the worker starts again.
#[test]
fn a_worker_without_journal_answers_nobody() {
    weakened(Weakness::AnswersWithoutJournal, |violation| {
        matches!(violation, Violation::Anomaly(_))
    });
}

/// The same as [`trap`], where lost sites are removed and added again.
fn trap_members(rule: Rule) {
    let caught = (0..400).find(|seed| {
        let report = run(&Scenario::members(*seed).without(Some(rule)), Trace::off());
        !report.violations.is_empty()
    });
    let seed = caught.expect("no seed notices that the rule is gone");
    let report = run(&Scenario::members(seed), Trace::off());
    assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
}

/// A site that leaves is gone too early: one member keeps what another never gets.
#[test]
fn a_site_is_gone_when_all_have_the_same_of_it() {
    trap_members(Rule::GoneWhenConverged);
}

/// What is there in part must not be shown.
#[test]
fn what_is_after_the_cut_is_dropped() {
    trap_members(Rule::DropAfterCut);
}

/// A donor folds on: some keys are handed over as they were later, and are changed again.
#[test]
fn a_donor_holds_its_snapshot() {
    trap_members(Rule::DonorHoldsSnapshot);
}
