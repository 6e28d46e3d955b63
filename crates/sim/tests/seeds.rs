//! Seeds that once failed, and the errors that they found. They must stay clean.

use solera_certification::Rule as Certification;
use solera_sim::{Scenario, Trace, Violation, run};
use solera_unistore::Rule;

fn stays_clean(scenario: &Scenario, seed: u64) {
    let report = run(scenario, Trace::off());
    assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
}

fn clean(seed: u64) {
    stays_clean(&Scenario::from_seed(seed), seed);
}

/// The same, with journals, crashes and restarts.
fn clean_durable(seed: u64) {
    stays_clean(&Scenario::durable(seed), seed);
}

/// The same, where sites are removed and added.
fn clean_members(seed: u64) {
    stays_clean(&Scenario::members(seed), seed);
}

/// A removal treated everything as old as its snapshot's entries as observed. Some of it was not
/// within the snapshot, because it depended on a newer transaction of another site.
#[test]
fn a_snapshot_holds_whole_commit_vectors_not_single_entries() {
    clean(27);
}

/// A forwarded range of updates was lost. Nothing follows such a range, so the loss went unnoticed.
#[test]
fn lost_forwards_are_repeated() {
    clean(7);
}

/// An eventual removal removed a transaction that its commit vector did not cover, and that another
/// site folded before it.
#[test]
fn eventual_reads_are_closed_too() {
    clean(1788);
}

/// An operation on a snapshot with a heartbeat of a lost site stayed invisible where the heartbeat
/// had been forgotten: a site must record a heartbeat before it reports it to others.
#[test]
fn a_heartbeat_survives_a_restart() {
    clean_durable(4);
}

/// An increment was settled while the journal was replayed, before a removal that had not observed
/// it.
#[test]
fn nothing_is_settled_while_a_journal_is_replayed() {
    clean_durable(7);
}

/// A member acknowledged a vote in a term that it had left for a later one.
#[test]
fn no_member_acknowledges_in_a_former_term() {
    clean_durable(116);
}

/// A site was removed with eventual writes of a session, and added again. The session's causal past
/// had a greater entry of that site, from its new generation, which hid the loss of the writes from
/// a barrier.
#[test]
fn a_new_generation_of_a_site_does_not_hide_writes_of_the_former() {
    stays_clean(&Scenario::members(26).promising(), 26);
}

/// Sessions receive promises of durability in every kind of world, and sites are destroyed.
#[test]
fn promises_of_durability_are_kept() {
    for seed in 0..6 {
        stays_clean(&Scenario::from_seed(seed).promising(), seed);
        stays_clean(&Scenario::durable(seed).promising(), seed);
        stays_clean(&Scenario::members(seed).promising(), seed);
    }
}

// The contents of journals and messages have changed since these seeds were found: they no longer
// fail without the rule that they test, nor did any of several hundred other seeds.

/// A causally stable increment was added to the sum while a removal that had not observed it was
/// still waiting to be folded; the removal then removed the sum.
#[test]
fn what_is_settled_must_not_meet_an_older_removal() {
    clean(1);
}

/// When a removed key was forgotten, the removal's commit time was lost with it. A session that had
/// found the key absent moved to another site and saw it again.
#[test]
fn an_absent_key_is_observed_too() {
    clean(92);
}

/// The same for a key that was created again in the meantime.
#[test]
fn a_key_made_anew_inherits_what_its_absence_depended_on() {
    clean(2796);
}

/// A clock had run ahead and stood still. Without heartbeats, the loss of a range of updates went
/// unnoticed.
#[test]
fn heartbeats_go_on_while_the_clock_stands_still() {
    clean(1015);
}

/// A local update that was stored after another was prepared made a restarted replica claim to know
/// its own history past the prepared one.
#[test]
fn a_prepared_transaction_holds_known_vec_back_after_a_restart() {
    clean_durable(384);
}

/// After a restart, the snapshot of an operation on an eventual space was treated as uniform.
#[test]
fn an_eventual_snapshot_is_not_uniform_after_a_restart() {
    clean_durable(14);
}

/// A checkpoint was complete before the next promise was made. The updates folded in it had been
/// executed on newer uniform snapshots than the last promise covered. After a restart they were
/// within snapshots that did not cover their dependencies.
#[test]
fn a_checkpoint_remembers_what_was_uniform() {
    clean_durable(686);
}

/// After a restart, an update that depended on a strong transaction was visible to snapshots
/// without that transaction.
#[test]
fn what_depends_on_strong_transactions_waits_for_them_after_a_restart() {
    clean_durable(151);
}

/// A strong transaction was counted neither as open nor as submitted when a journal's promise was
/// made. The site's floor passed its snapshot, and updates that it had not observed were settled
/// before it was folded.
#[test]
fn a_transaction_that_is_about_to_be_certified_holds_the_floor() {
    clean_members(937);
}

/// A group had delivered and forgotten a transaction that a site submitted in a former generation.
/// A member elsewhere still had its vote. The site's new generation voted to abort because it did
/// not know the transaction, and SOLERA.OUTCOME then answered that a committed transaction had
/// aborted. (Found before outcomes were remembered when transactions are forgotten.)
#[test]
fn no_group_claims_that_a_forgotten_transaction_of_a_former_generation_aborted() {
    for seed in [501103, 501176, 501194, 501695, 502055, 502409] {
        clean_members(seed);
    }
}

/// A member forgot a transaction because a leader of another group answered that it was over, and
/// did not learn that its coordinator submits only later ones. When a third group asked again, the
/// member voted to abort.
#[test]
fn a_member_that_forgets_a_transaction_knows_that_it_is_over() {
    clean_members(1_000_521);
}

/// Another such seed fails without the rule.
#[test]
fn an_ignorant_vote_would_be_taken_for_the_outcome() {
    let rule = Rule::Certification(Certification::AdmitForgotten);
    let report = run(&Scenario::members(501_319).without(Some(rule)), Trace::off());
    let contradicts = |violation: &Violation| matches!(violation, Violation::Contradiction(_));
    assert!(report.violations.iter().any(contradicts), "{:?}", report.violations);
}

/// The operator removed a site through a site that was lost before it informed another one, and did
/// not repeat the command: the lost site stayed a member, and no group got the promises of all
/// members. The operator now waits, as `solera site remove` does, until all other sites know of the
/// removal.
#[test]
fn an_operator_sees_to_it_that_a_removal_is_known() {
    clean_members(501263);
}

/// A site that had not joined yet was removed and added again before the other sites had durably
/// recorded the removal; one of them lost the record in a power failure. From then on they waited
/// for the site's former generation. The operator now adds a site once its removal is known.
#[test]
fn an_operator_adds_a_site_once_its_removal_is_known() {
    clean_members(30_000_497);
}

/// A leader had delivered and forgotten a transaction of a removed site, and received another
/// request for it before the other member had learned of that. The member kept its vote to commit,
/// and the leader voted that it had forgotten the transaction. So no quorum had the same vote, and
/// the transaction stayed undecided. The member now gives up its vote.
#[test]
fn a_member_gives_its_vote_up_when_the_leader_has_forgotten_the_transaction() {
    clean_members(70_001_900);
}

/// A site was added, and the site that took the command crashed before the addition was durable.
/// The joining site was destroyed before any other site had learned of it. The simulated operator
/// gave the next generation a number that the sites did not know.
#[test]
fn a_generation_that_no_site_learned_of_does_not_count() {
    clean_members(100_005_163);
}

/// The site that took the command to add another had not learned of that site's latest generation,
/// so the new generation had the number of an earlier one.
#[test]
fn a_site_is_added_by_one_that_knows_its_latest_generation() {
    clean_members(200_007_064);
}

/// A site that had been removed for good ran on until it was destroyed, and was judged as a member.
#[test]
fn a_removed_site_need_not_commit() {
    clean_members(200_009_897);
}

/// A site that had just joined was another joining site's donor. Its own snapshots did not yet
/// contain the data that it had been filled with. So it handed over keys with operations that it
/// handed over once more as updates, and counters counted twice.
/// `unistore/tests/replica/joining.rs` takes the rule out.
#[test]
fn a_site_that_has_just_joined_hands_nothing_over() {
    let seed = 300_002_067;
    stays_clean(&Scenario::members(seed).promising(), seed);
}

/// The end of a gap rose when the joining site became a member. Snapshots of another site held a
/// time between the two ends. The checker treated all times within the gap as equal, so it expected
/// transactions on these snapshots too early.
#[test]
fn the_end_of_a_gap_may_rise_while_others_commit() {
    clean_members(200_011_787);
}

/// On a network on which a commit takes 0.75 s, keys were reserved for a shorter time than the
/// retry of an aborted transaction needs, so one of five sites did not succeed.
#[test]
fn an_attempt_on_a_slow_network_finds_its_keys_free() {
    clean_members(375_880_189);
}

/// A site shows a change more than half a second after it was decided. A client retried an aborted
/// transaction before that, failed again, and lost its reservation. (Found after reservations were
/// introduced.)
#[test]
fn an_attempt_that_comes_too_early_may_come_once_more() {
    clean_members(700_002_875);
}

/// The clock of one worker of six was set back by 1.5 s, which delays everything at its site; each
/// announcement of a floor waits for it twice. Without journals the checker did not wait that long.
#[test]
fn what_is_settled_waits_for_the_slowest_clock() {
    clean(840_008_315);
}

/// A member named a candidate as leader that got no quorum and was destroyed. A site sent each
/// request to it first, so answers took more than a second, and its transactions always conflicted.
/// (Found after changes of leaders were introduced; requests that coordinators send since that
/// change hide it here. `certification/tests/phases.rs` takes the rule out.)
#[test]
fn no_coordinator_asks_a_candidate_first_for_ever() {
    let seed = 149_040_153;
    stays_clean(&Scenario::durable(seed).promising(), seed);
}

/// A worker crashed before anything of its run was durable, so the next run had its number and used
/// the name of a transaction that was submitted before and had not left the worker. The checker
/// confused the two.
#[test]
fn a_run_that_left_nothing_has_submitted_nothing() {
    clean_durable(880_000_364);
}

/// A peer treated a time that it had recovered, of another worker of the site, as sent by a
/// restarted worker, and rejected that worker as one that had forgotten it. (Found after such nodes
/// were rejected.)
#[test]
fn a_worker_that_remembers_all_that_it_has_sent_is_admitted() {
    for seed in [50, 214] {
        stays_clean(&Scenario::links(seed), seed);
    }
}

/// A third site forwarded an update with a later time than a copy's first one, which hid the
/// updates that the copy's site had sent itself. (Found after these times were recorded.)
#[test]
fn a_later_time_does_not_hide_times_sent_before() {
    let seed = 1_160_000_140;
    stays_clean(&Scenario::links(seed), seed);
}

/// A site was removed. A worker of another site had not learned of it when a snapshot of a sibling
/// brought a uniform vector beyond the cut. It answered ATTACH that a past was there which had been
/// lost with the site.
#[test]
fn a_lost_past_is_not_here_before_all_workers_know_of_the_loss() {
    let seed = 2_600_000_458;
    stays_clean(&Scenario::links(seed), seed);
}

/// A site was removed and added again, and removed once more before anything of its second
/// generation was kept. The checker treated reads of the second generation as older than the end of
/// the first generation, as other sites knew it.
#[test]
fn what_a_short_generation_has_read_is_not_older_than_the_end_of_the_generation_before() {
    clean_members(50_000_179);
    // All of a second generation was lost; the data that it had read is not the data that was lost
    // with the first.
    clean_members(640_000_043);
}

/// While a checkpoint was written, a site was removed and joined again. Its part of a partition had
/// updates of the new generation already. When the record of the removal was replayed over it, they
/// were dropped as updates of the former generation.
#[test]
fn a_removal_that_a_checkpoint_knows_of_drops_nothing_again() {
    let seed = 113_720_244;
    stays_clean(&Scenario::members(seed).promising(), seed);
}

/// A mark that was written when a journal was opened never reached the disk, because the next sync
/// failed. The next opening treated it as durable and did not write it again. A power failure then
/// left a hole before a later mark, which counts as damage, so the site never came back. (Found
/// after marks were written when a journal is opened.)
#[test]
fn the_last_mark_is_written_again_when_a_journal_is_opened() {
    clean_durable(500671);
    clean_durable(97_369_673);
}

/// A site's retry came in time, but waited at the leader for updates that the leader's site did not
/// store yet. Each time, its reservation ended meanwhile.
#[test]
fn a_reservation_lasts_while_the_attempt_waits_for_its_snapshot() {
    clean_durable(97_369_791);
}

/// The site that took the command to add another lost power while it executed it. The simulated
/// operator then requested the gap from a site that did not know of the removal.
#[test]
fn an_operator_adds_a_site_though_the_asked_one_is_struck() {
    clean_members(7_000_951);
}

/// Eventual writes were stored at every surviving site and visible at none: they had been executed
/// on updates that were lost with two sites. Barriers and AT-RISK considered the writes and not
/// their dependencies.
#[test]
fn a_promised_eventual_write_survives_with_its_snapshot() {
    for seed in [279_670_067, 279_670_345] {
        stays_clean(&Scenario::durable(seed).promising(), seed);
    }
}

/// The first of these seeds fails without the rule.
#[test]
fn an_eventual_write_without_its_snapshot_would_be_promised() {
    let scenario = Scenario::durable(279_670_067).promising();
    let report = run(&scenario.without(Some(Rule::EventualSnapshots)), Trace::off());
    let is_broken = |violation: &Violation| matches!(violation, Violation::Promise(_));
    assert!(report.violations.iter().any(is_broken), "{:?}", report.violations);
}

/// A site was gone although a worker without partitions had not completed its removal: only owners
/// of partitions reported that to other sites.
#[test]
fn a_removal_waits_for_workers_without_partitions() {
    for seed in [350, 700_004] {
        stays_clean(&Scenario::members(seed).with_trial(), seed);
    }
}

/// A read at level eventual prepared a version with updates that were not uniform for later reads.
/// They were lost with their site, and causal reads showed them.
#[test]
fn an_eventual_read_prepares_nothing_for_causal_reads() {
    stays_clean(&Scenario::links(7_500_028).with_weaker_reads(), 7_500_028);
}

/// Nothing was settled for five seconds after a client had cancelled a strong read, because the
/// transaction could have committed until then.
#[test]
fn a_cancelled_read_holds_nothing_back() {
    stays_clean(&Scenario::from_seed(7_500_213).promising().with_weaker_reads(), 7_500_213);
}
