//! While sites, or a part of one, are down, the other sites commit.

use solera_sim::{Report, Scenario, Trace, Violation, run};

/// Returns the first seeds whose outage is of a kind, with their reports. The scenario's
/// description names the outage.
fn reports(of: impl Fn(&str) -> bool, count: usize) -> Vec<Report> {
    let described = (0..).map(|seed| (seed, Scenario::outage(seed).describe_outage()));
    let seeds = described.filter(|(_, what)| of(what)).map(|(seed, _)| seed);
    seeds.take(count).map(|seed| run(&Scenario::outage(seed), Trace::off())).collect()
}

fn assert_clean(reports: &[Report]) {
    for report in reports {
        let seed = report.seed;
        assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
        assert!(report.known_failures.is_empty(), "seed {seed}: {}", report.known_failures[0]);
    }
}

/// UniStore §4, §6: strong transactions keep committing with f sites down, including the leading
/// one.
#[test]
fn with_f_sites_down_the_others_commit_on_every_group() {
    assert_clean(&reports(|what| what.starts_with("sites"), 4));
}

/// This holds in two of three such outages; `Outage::is_known_to_fail` gives the reason for the
/// others.
#[test]
fn with_workers_of_a_following_site_down_the_others_commit_as_a_rule() {
    let reports = reports(|what| what.contains("a following site"), 5);
    assert!(reports.iter().all(|report| report.violations.is_empty()));
    assert!(reports.iter().any(|report| report.known_failures.is_empty()));
}

/// A site that receives from both ends of a broken link takes over from the leader, which is at one
/// of these ends.
#[test]
fn with_a_link_to_the_leading_site_down_all_sites_commit_on_every_group() {
    let reports = reports(|what| what.starts_with("the link"), 3);
    assert_clean(&reports);
    let takes_over = "a member takes over for one that does not hear the leader";
    let times = |report: &Report| {
        let paths = report.tally.paths();
        paths.filter(|(path, _)| path.0 == takes_over).map(|(_, times)| times).sum::<u64>()
    };
    assert!(reports.iter().all(|report| times(report) > 0));
}

/// A known failure: the remaining workers at the leading site keep its groups and wait for the
/// whole site, so other sites cannot commit there. When this test fails, the failure has been
/// repaired: remove the exception in `Outage::is_known_to_fail`.
#[test]
fn with_workers_of_the_leading_site_down_the_others_wait_for_them() {
    let reports = reports(|what| what.contains("the leading site"), 3);
    assert!(reports.iter().all(|report| report.violations.is_empty()));
    let is_timeout = |violation: &Violation| matches!(violation, Violation::TimedOut(_));
    let fails = |report: &Report| report.known_failures.iter().any(is_timeout);
    assert!(reports.iter().any(fails), "it is repaired");
}
