//! The checks detect that a rule of the protocol is taken out, and the same seeds are clean with
//! it.

use solera_certification::Rule as Certification;
use solera_checker::Origin;
use solera_checker::properties::Broken;
use solera_host::Rule as Driver;
use solera_sim::{Scenario, Trace, Violation, Weakness, run};
use solera_unistore::Rule;

/// Finds a seed of some scenario that fails as expected once a rule is taken out, and checks that
/// it is clean otherwise.
fn trap(
    scenario: impl Fn(u64) -> Scenario,
    broken: impl Fn(Scenario) -> Scenario,
    expected: impl Fn(&Violation) -> bool,
) {
    let caught = (0..400).find(|seed| {
        let report = run(&broken(scenario(*seed)), Trace::off());
        report.violations.iter().any(&expected)
    });
    let seed = caught.expect("no seed notices what is broken");
    println!("noticed in seed {seed}");
    let report = run(&scenario(seed), Trace::off());
    assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
}

/// Returns the same scenarios from a seed on. A trap begins with a seed that notices the broken
/// rule, because other seeds only cost time. After a change of the simulator, another seed may be
/// the first that notices it. The test prints its number, counted from the first.
fn near(first: u64, scenario: impl Fn(u64) -> Scenario) -> impl Fn(u64) -> Scenario {
    move |seed| scenario(first + seed)
}

/// Takes out a rule of the protocol.
fn without(rule: Rule, expected: impl Fn(&Violation) -> bool) {
    without_near(0, rule, expected);
}

fn without_near(first: u64, rule: Rule, expected: impl Fn(&Violation) -> bool) {
    let broken = |scenario: Scenario| scenario.without(Some(rule));
    trap(near(first, Scenario::from_seed), broken, expected);
}

/// Takes out a rule of the driver.
fn without_of_driver(rule: Driver) -> Weakness {
    Weakness::Driver(Some(rule).into())
}

/// Takes out a precaution of the journals' hosts.
fn weakened(first: u64, weakness: Weakness, expected: impl Fn(&Violation) -> bool) {
    trap(near(first, Scenario::durable), |scenario| scenario.weakened(weakness), expected);
}

/// Takes out a precaution of the links, between workers that are processes of their own.
fn over_links(weakness: Weakness, expected: &str) {
    let broken = |scenario: Scenario| scenario.weakened(weakness);
    let is_expected = |violation: &Violation| match violation {
        Violation::Lost(what) => what.contains(expected),
        _ => false,
    };
    trap(Scenario::links, broken, is_expected);
}

/// Takes out a rule of the protocol, where lost sites are removed and added again.
fn without_among_members(first: u64, rule: Rule) {
    trap(near(first, Scenario::members), |scenario| scenario.without(Some(rule)), |_| true);
}

/// UniStore §5.5, Figure 1: a transaction reaches one surviving site and never the other, so
/// everything that depends on it stays invisible there.
#[test]
fn forwarding() {
    without(Rule::Forwarding, |violation| {
        matches!(
            violation,
            Violation::Stuck(_) | Violation::Anomaly(solera_checker::Violation::Divergence { .. })
        )
    });
}

/// UniStore Alg. 1 l. 21: a read that does not wait misses a transaction of its own snapshot.
#[test]
fn wait_on_known_vec() {
    without_near(14, Rule::WaitOnKnownVec, |violation| {
        matches!(violation, Violation::Anomaly(solera_checker::Violation::WrongAnswer { .. }))
    });
}

/// UniStore Alg. 2 l. 3: a `known_vec` above a prepare time covers transactions that may still be
/// missing.
#[test]
fn known_vec_just_below_the_smallest_prepare_time() {
    without(Rule::KnownVecBelowPrepared, |violation| {
        matches!(violation, Violation::Property(_, Broken::Known { .. }))
    });
}

/// UniStore Alg. 1 l. 5, §4: a transaction that is visible before it is uniform can be lost with
/// its site.
#[test]
fn remote_transactions_are_invisible_before_uniform() {
    without(Rule::UniformBeforeVisible, |violation| {
        matches!(
            violation,
            Violation::Property(_, Broken::Uniform { .. } | Broken::NotUniform { .. })
        )
    });
}

/// `docs/decisions/0016-fair-certification.md`: a client far from the leader is always too late
/// while others change the same key.
#[test]
fn retries_have_priority() {
    without(Rule::Certification(Certification::AbortedFirst), |violation| {
        matches!(violation, Violation::Starved(_))
    });
}

/// `docs/decisions/0007-durability.md`: a commit that is acknowledged before it is durable may be
/// undone.
#[test]
fn records_before_words() {
    weakened(4, without_of_driver(Driver::SyncFirst), |violation| {
        matches!(violation, Violation::Anomaly(solera_checker::Violation::Lost { .. }))
    });
}

/// The same for clients whose operations are executed by a direct call of the machine.
#[test]
fn records_before_answers_to_direct_calls() {
    weakened(206, without_of_driver(Driver::HoldClients), |violation| {
        matches!(violation, Violation::Anomaly(solera_checker::Violation::Lost { .. }))
    });
}

/// The same for checkpoints: if a power failure undoes a transaction, some parts may hold its
/// updates and others not.
#[test]
fn records_before_checkpoints() {
    let weakness = without_of_driver(Driver::PublishDurable);
    // Only one in several hundred seeds fails, because a transaction must change keys of two parts
    // meanwhile.
    let scenario = |seed| Scenario::durable(seed).with_power_failures_at_checkpoints();
    let broken = |scenario: Scenario| scenario.weakened(weakness);
    trap(near(192, scenario), broken, |violation| matches!(violation, Violation::Anomaly(_)));
}

/// `docs/decisions/0008-links.md`: a frame that is sent again over another connection is delivered
/// once.
#[test]
fn frames_are_delivered_once() {
    over_links(Weakness::DeliversAllFrames, "delivered again");
}

/// Within a site all frames arrive, including those that were under way when a connection broke.
#[test]
fn frames_that_were_under_way_are_sent_again() {
    over_links(Weakness::LosesFrames, "is not the next of its protocol and lane");
}

/// Workers reject a copy of a disk that lacks data that its worker had sent to them.
#[test]
fn older_copies_of_disks_are_refused() {
    over_links(Weakness::LetsCopiesIn, "admits a copy");
}

/// A worker must not start from a damaged journal: the part that is cut off was acknowledged.
#[test]
fn damage_refuses_to_start() {
    weakened(13, Weakness::StartsFromDamage, |violation| {
        matches!(violation, Violation::Anomaly(_))
    });
}

/// Clients must not read data that is in memory and in no journal: it is gone after a restart.
#[test]
fn a_worker_without_journal_does_not_answer() {
    weakened(91, without_of_driver(Driver::LogToAnswer), |violation| {
        matches!(violation, Violation::Anomaly(_))
    });
}

/// A site that leaves is gone too early: one member keeps updates that another never gets.
#[test]
fn a_site_is_gone_when_all_have_the_same_of_it() {
    without_among_members(1, Rule::GoneWhenConverged);
}

/// Data that is present only in part must not be visible.
#[test]
fn what_is_after_the_cut_is_dropped() {
    without_among_members(4, Rule::DropAfterCut);
}

/// A donor continues to fold: it hands over some keys in a later state, and they are changed again.
#[test]
fn a_donor_holds_its_snapshot() {
    without_among_members(3, Rule::DonorHoldsSnapshot);
}

/// UniStore Alg. 1 l. 21: a read that does not wait misses a strong transaction of its own
/// snapshot.
#[test]
fn strong_reads_wait() {
    without(Rule::WaitOnStrong, |violation| {
        matches!(violation, Violation::Anomaly(solera_checker::Violation::WrongAnswer { .. }))
    });
}

/// UniStore §6.3: of two conflicting transactions that are certified at once, one does not observe
/// the other.
#[test]
fn a_vote_looks_at_what_is_prepared() {
    without(Rule::Certification(Certification::PreparedConflicts), |violation| {
        matches!(violation, Violation::Property(_, Broken::Conflict { .. }))
    });
}

/// Without the rule, a later leader may have to add to the history that a leader has reported as
/// complete.
#[test]
fn decisions_need_a_quorum() {
    without_near(6, Rule::Certification(Certification::Quorum), |violation| {
        let broken =
            |broken: &Broken| matches!(broken, Broken::Known { origin: Origin::Strong, .. });
        matches!(violation, Violation::Property(_, it) if broken(it))
            || matches!(violation, Violation::Contradiction(_))
    });
}

/// UniStore Figure 1 as a scenario: an update that reached only one site is forwarded.
#[test]
fn figure_1_what_reached_one_site_is_forwarded_to_all() {
    let without = |scenario: Scenario| scenario.without(Some(Rule::Forwarding));
    trap(Scenario::figure_1, without, |violation| {
        !matches!(violation, Violation::Contradiction(_) | Violation::Lost(_))
    });
}

/// UniStore Figure 2 as a scenario: a strong transaction does not depend on updates that may be
/// lost. If it did, transactions that conflict with it could never commit.
#[test]
fn figure_2_a_strong_transaction_does_not_depend_on_what_may_be_lost() {
    let rule = Rule::Certification(Certification::UniformBeforeCommit);
    trap(
        Scenario::figure_2,
        |scenario| scenario.without(Some(rule)),
        |violation| {
            matches!(violation, Violation::Unrest(_) | Violation::Stuck(_) | Violation::Anomaly(_))
        },
    );
}

/// Returns whether strong history that counts as complete is missing.
fn lacks_strong(violation: &Violation) -> bool {
    let strong = |broken: &Broken| matches!(broken, Broken::Known { origin: Origin::Strong, .. });
    matches!(violation, Violation::Property(_, broken) if strong(broken))
}

fn without_certification(rule: Certification, expected: impl Fn(&Violation) -> bool) {
    without(Rule::Certification(rule), expected);
}

/// A leader that begins without the state of others adds to the history that the previous one had
/// reported as complete.
#[test]
fn a_new_leader_takes_over_what_a_quorum_has_kept() {
    without_near(17, Rule::Certification(Certification::Gather), lacks_strong);
}

/// A leader reports history as complete to which its successor may add.
#[test]
fn nothing_is_complete_beyond_the_ceiling() {
    without_near(21, Rule::Certification(Certification::Ceiling), lacks_strong);
}

/// A transaction that is delivered before an earlier one is decided hides the earlier one.
#[test]
fn strong_transactions_are_delivered_in_order() {
    without_certification(Certification::DeliverInOrder, lacks_strong);
}

/// A follower that delivers before its leader must leave nothing out.
#[test]
fn nothing_precedes_an_early_delivery() {
    without_certification(Certification::NothingBetween, lacks_strong);
}

/// A leader that lacks updates that others have stored reports the rest as complete.
#[test]
fn a_new_leader_catches_up() {
    without_near(97, Rule::Certification(Certification::CatchUp), lacks_strong);
}

/// A process that asks for a transaction that was forgotten too early is answered that it aborted.
#[test]
fn decisions_are_remembered_for_later_requests() {
    without_near(16, Rule::Certification(Certification::Remember), |violation| {
        matches!(violation, Violation::Contradiction(_))
    });
}

fn is_broken_promise(violation: &Violation) -> bool {
    matches!(violation, Violation::Promise(_))
}

/// `docs/decisions/0023-durability-past.md`: a barrier on the causal past alone promises data that
/// may be lost with its site.
#[test]
fn barriers_wait_for_eventual_writes() {
    let without = |scenario: Scenario| scenario.without(Some(Rule::DurabilityPast));
    trap(Scenario::lost_promises, without, |violation| match violation {
        Violation::Promise(what) => what.starts_with("BARRIER") || what.starts_with("WAIT"),
        _ => false,
    });
}

/// A commit that is answered before another worker has executed its eventual writes covers none of
/// them.
#[test]
fn commits_are_answered_when_their_eventual_writes_are_executed() {
    let without = |scenario: Scenario| scenario.without(Some(Rule::EventualConfirmed));
    trap(near(10, Scenario::lost_promises), without, is_broken_promise);
}

/// An AT-RISK that ignores eventual writes reports them as safe.
#[test]
fn eventual_writes_are_at_risk() {
    let without = |scenario: Scenario| scenario.without(Some(Rule::EventualAtRisk));
    trap(
        Scenario::lost_promises,
        without,
        |violation| matches!(violation, Violation::Promise(what) if what.starts_with("AT-RISK")),
    );
}

/// A client may know that a transaction committed that another worker has only prepared.
#[test]
fn prepared_transactions_are_at_risk() {
    let without = |scenario: Scenario| scenario.without(Some(Rule::PreparedAtRisk));
    trap(
        near(79, Scenario::lost_promises),
        without,
        |violation| matches!(violation, Violation::Promise(what) if what.starts_with("AT-RISK")),
    );
}

/// With a token that carries only the causal past, barriers at other sites promise nothing about
/// earlier eventual writes.
#[test]
fn tokens_carry_the_durability_past() {
    let weakened = |scenario: Scenario| scenario.weakened(Weakness::TokensOfCausalPasts);
    trap(
        near(5, Scenario::lost_promises),
        weakened,
        |violation| matches!(violation, Violation::Promise(what) if !what.starts_with("ATTACH")),
    );
}

/// An ATTACH that does not wait lets the session continue with data that is lost with its site.
#[test]
fn attach_waits_for_the_causal_past() {
    let without = |scenario: Scenario| scenario.without(Some(Rule::AttachWaits));
    trap(
        Scenario::lost_promises,
        without,
        |violation| matches!(violation, Violation::Promise(what) if what.starts_with("ATTACH")),
    );
}

/// Takes out a rule of `primary`, where lost sites are removed and added again.
fn without_of_primary(rule: solera_primary::Rule, scenario: impl Fn(u64) -> Scenario) {
    let of_primary = |seed| scenario(seed).with_primary();
    let broken = |scenario: Scenario| scenario.primary_without(Some(rule));
    trap(of_primary, broken, |violation| matches!(violation, Violation::Primary(_)));
}

/// A new home that does not ask the others loses updates of the former home that they have.
#[test]
fn a_new_home_takes_the_longest_history() {
    without_of_primary(solera_primary::Rule::Gather, near(4, Scenario::members));
}

/// A barrier that waits for the home alone promises updates that are lost with it.
#[test]
fn a_barrier_of_primary_waits_for_enough_sites() {
    without_of_primary(solera_primary::Rule::Quorum, near(28, Scenario::members));
}

/// An update whose answer was lost is sent again.
#[test]
fn an_update_that_comes_again_is_ordered_once() {
    without_of_primary(solera_primary::Rule::Once, near(6, Scenario::from_seed));
}

/// Without the rule, entries that were sent while a link was cut are missing.
#[test]
fn a_replica_of_primary_leaves_no_gap() {
    without_of_primary(solera_primary::Rule::InOrder, Scenario::from_seed);
}

/// Takes out a rule of guards, where sessions name some.
fn without_of_guards(rule: Rule, scenario: impl Fn(u64) -> Scenario, expected: &[&str]) {
    let guarded = |seed| scenario(seed).with_trial();
    let broken = |scenario: Scenario| scenario.without(Some(rule));
    trap(guarded, broken, |violation| match violation {
        Violation::Guarded(what) => expected.iter().any(|words| what.contains(words)),
        _ => false,
    });
}

/// `docs/decisions/0031-prepare-guards.md`: units are spent although no guard was asked for
/// them.
#[test]
fn guards_are_asked_before_a_transaction_prepares() {
    without_of_guards(Rule::AskGuards, Scenario::from_seed, &["is there against a refusal"]);
}

/// A transaction commits although a guard rejected it.
#[test]
fn a_refusal_of_a_guard_aborts() {
    without_of_guards(Rule::RefusalsAbort, Scenario::from_seed, &["is there against a refusal"]);
}

/// A guard keeps a promise for ever if the participant failed between the end of the transaction
/// and its report to the guard.
#[test]
fn guards_receive_the_end_again_after_a_restart() {
    let expected = ["keeps promises open", "has spent"];
    without_of_guards(Rule::ResendGuardOutcomes, near(6, Scenario::durable), &expected);
}

/// `docs/decisions/0011-membership.md`: a site is gone although a protocol of some member has not
/// completed its removal.
#[test]
fn removals_wait_for_all_protocols() {
    trap(
        near(2, |seed| Scenario::members(seed).with_trial()),
        |scenario| scenario.without(Some(Rule::GoneWhenCompleted)),
        |violation| matches!(violation, Violation::Trial(what) if what.contains("has not completed")),
    );
}

fn with_occult(seed: u64) -> Scenario {
    Scenario::from_seed(seed).with_occult()
}

/// Takes out a rule of `reservations` or of its host.
fn without_of_bounds(rule: solera_reservations::Rule, scenario: impl Fn(u64) -> Scenario) {
    let scenario = |seed| scenario(seed).with_bounds();
    let broken = |scenario: Scenario| scenario.bounds_without(Some(rule));
    trap(scenario, broken, |violation| matches!(violation, Violation::Bounds(_)));
}

/// Takes out a rule of complete reads.
fn without_of_complete_reads(rule: Rule) {
    let broken = |scenario: Scenario| scenario.without(Some(rule));
    let expected = |violation: &Violation| matches!(violation, Violation::CompleteRead(_));
    trap(|seed| Scenario::from_seed(seed).with_complete_reads(), broken, expected);
}

/// A read misses an update that another site has acknowledged.
#[test]
fn complete_reads_ask_every_site() {
    without_of_complete_reads(Rule::AskEverySite);
}

/// A site does not know that a transaction has committed whose client has the answer.
#[test]
fn complete_reads_wait_for_decisions() {
    without_of_complete_reads(Rule::DecideBeforeAnswer);
}

/// `docs/models/reservations` R2: an update that is promised may be decided.
#[test]
fn intervals_count_promises() {
    without_of_bounds(solera_reservations::Rule::CountPromises, near(12, Scenario::from_seed));
}

/// H4: a token is used again before a reader has seen its update.
#[test]
fn tokens_of_bounds_are_recycled_when_readers_have_seen_them() {
    without_of_bounds(solera_reservations::Rule::Recycling, near(75, Scenario::from_seed));
}

/// A promise counts until the stream contains the updates of its transaction.
#[test]
fn promises_of_bounds_end_after_the_stream() {
    without_of_bounds(solera_reservations::Rule::EndAfterStream, near(15, Scenario::from_seed));
}

/// A single site forgets an update in the step in which it settles.
#[test]
fn histories_are_kept_until_they_are_read() {
    without_of_bounds(solera_reservations::Rule::KeepUnread, near(102, Scenario::from_seed));
}

/// Takes out a rule of Occult.
fn without_of_occult(rule: solera_occult::Rule, scenario: impl Fn(u64) -> Scenario) {
    let broken = |scenario: Scenario| scenario.occult_without(Some(rule));
    trap(scenario, broken, |violation| matches!(violation, Violation::Occult(_)));
}

/// Occult §4.3: a client that does not check a replica misses writes on which it depends.
#[test]
fn clients_of_occult_check_replicas() {
    without_of_occult(solera_occult::Rule::CheckReplicas, with_occult);
}

/// `docs/models/occult-commit`: a client misses its own write at a home that does not know the
/// decision yet.
#[test]
fn clients_of_occult_check_homes() {
    without_of_occult(solera_occult::Rule::CheckHomes, near(18, with_occult));
}

/// Occult §6.2: the versions that a transaction has read must belong to one snapshot.
#[test]
fn read_sets_are_validated() {
    without_of_occult(solera_occult::Rule::ValidateReadSet, near(13, with_occult));
}

/// Occult §6.2: a transaction must not overwrite a version that depends on a write that it has
/// missed.
#[test]
fn overwrite_sets_are_validated() {
    without_of_occult(solera_occult::Rule::ValidateOverwriteSet, with_occult);
}

/// Occult §6.3, case ii: a reader of a blind write misses another write of the overwritten
/// transaction.
#[test]
fn commit_timestamps_contain_those_of_overwritten_versions() {
    without_of_occult(solera_occult::Rule::OverwrittenTimestamps, near(2, with_occult));
}

/// Undecided writes get stamps below one that a home has reported as shown.
#[test]
fn stamps_are_shown_in_order() {
    without_of_occult(solera_occult::Rule::ShowInOrder, with_occult);
}

/// Two transactions that write the same key at once have overwritten the same version.
#[test]
fn prepares_lock_keys() {
    without_of_occult(solera_occult::Rule::Locks, with_occult);
}

/// A decision home that does not record an abort commits the transaction later.
#[test]
fn decision_homes_record_aborts() {
    without_of_occult(solera_occult::Rule::AbortRecord, near(11, with_occult));
}

/// A participant that ends its own prepare aborts a part of a committed transaction.
#[test]
fn only_decision_homes_end_prepares() {
    without_of_occult(solera_occult::Rule::DecisionHomeDecides, with_occult);
}

/// A replica that leaves a gap reports writes as shown that it lacks.
#[test]
fn replicas_of_occult_leave_no_gap() {
    without_of_occult(solera_occult::Rule::InOrder, near(3, with_occult));
}

/// A session that forgets its own writes misses them.
#[test]
fn sessions_of_occult_keep_their_past() {
    without_of_occult(solera_occult::Rule::SessionOrder, with_occult);
}

/// A transaction pauses after it has read an old version. Meanwhile, another one writes that key
/// and a second one, all replicas show both, and the dependency of the second on the first is
/// forgotten. The transaction then reads the second.
#[test]
fn dependencies_are_forgotten_when_no_transaction_has_read_an_older_copy() {
    without_of_occult(solera_occult::Rule::UnreadBeforeForgotten, near(12, with_occult));
}

/// A barrier that counts its own site only promises writes that are lost with it.
#[test]
fn barriers_of_occult_wait_for_other_sites() {
    without_of_occult(solera_occult::Rule::StoredElsewhere, near(234, with_occult));
}

/// A transaction uses a right that another one has (B2).
#[test]
fn promised_rights_are_not_available() {
    without_of_bounds(solera_reservations::Rule::KeepPromised, Scenario::from_seed);
}

/// Two sites have the same right (B3).
#[test]
fn a_site_that_gives_rights_loses_them() {
    without_of_bounds(solera_reservations::Rule::SubtractGiven, Scenario::from_seed);
}

/// A count misses rights that move from a site that it counts later to one that it has counted
/// (B6).
#[test]
fn sites_are_counted_twice() {
    without_of_bounds(solera_reservations::Rule::CountTwice, near(35, Scenario::from_seed));
}

/// A count misses updates that have committed (B6).
#[test]
fn counts_include_open_updates() {
    without_of_bounds(solera_reservations::Rule::CountOpen, near(39, Scenario::from_seed));
}

/// Two sites add an element concurrently, and an interval counts it twice.
#[test]
fn the_size_of_a_set_is_not_the_sum_of_its_changes() {
    without_of_bounds(solera_reservations::Rule::ReadSizes, Scenario::from_seed);
}

/// A site shows a decrement without the increment on which it depends.
#[test]
fn snapshots_contain_what_rights_depend_on() {
    without_of_bounds(solera_reservations::Rule::RightsInSnapshot, Scenario::from_seed);
}
