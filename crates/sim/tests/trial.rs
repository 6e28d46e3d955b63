//! The protocol `trial` in every world: jobs, questions to another protocol, cancellation, lanes.

use solera_sim::{Scenario, Tally, Trace, run};

/// Runs some seeds, which must be clean, and returns their counts.
fn tally(scenario: impl Fn(u64) -> Scenario, seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let report = run(&scenario(seed).with_trial(), Trace::off());
        assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
        tally.add(&report.tally);
    }
    tally
}

fn tries_everything(tally: &Tally) {
    for what in [
        "trial: jobs done",
        "trial: strong additions",
        "trial: bursts sent",
        "trial: computations cancelled",
        "guarded: committed",
        "guarded: refused",
        "guarded: singles cancelled",
    ] {
        assert!(tally.counted(what) > 10, "{what}: {}", tally.counted(what));
    }
    let paths = tally.paths().filter(|(path, _)| path.0.starts_with("trial: "));
    for (path, taken) in paths.collect::<Vec<_>>() {
        assert!(taken > 0, "{} was not reached", path.0);
    }
}

#[test]
fn plain_worlds_run_it() {
    tries_everything(&tally(Scenario::from_seed, 71_000..71_006));
}

#[test]
fn workers_that_crash_run_it() {
    tries_everything(&tally(Scenario::durable, 72_000..72_006));
}

#[test]
fn sites_that_leave_and_join_run_it() {
    let tally = tally(Scenario::members, 73_000..73_006);
    tries_everything(&tally);
    let judged = tally.counted("trial: removals judged");
    assert!(judged > 3, "{judged}");
}

#[test]
fn it_runs_beside_two_other_protocols() {
    tries_everything(&tally(|seed| Scenario::members(seed).with_primary(), 75_000..75_006));
}

/// Answers that came with a tick, or with a change of the list of sites, left the worker only when
/// a third protocol ran there.
#[test]
fn answers_arrive_beside_a_third_protocol() {
    let scenario = |seed| Scenario::members(seed).promising().with_primary();
    tally(scenario, 2_200_000_245..2_200_000_246);
}

#[test]
fn it_runs_over_links() {
    tries_everything(&tally(Scenario::links, 74_000..74_004));
}
