//! Small histories with strong transactions in the text notation: valid ones, and an invalid one
//! per anomaly.

use solera_checker::{Before, History, Violation, check};

fn history(lines: &str) -> History {
    let text = format!("solera-history 1\nsites 2\n{lines}");
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[track_caller]
fn good(lines: &str) {
    assert_eq!(check(&history(lines)), []);
}

/// Checks that the checkers report this violation, among others that follow from it.
#[track_caller]
fn bad(lines: &str, expected: Violation) {
    let violations = check(&history(lines));
    assert!(violations.contains(&expected), "{violations:#?}");
}

/// Checks that the checkers report this violation only.
#[track_caller]
fn only(lines: &str, expected: Violation) {
    assert_eq!(check(&history(lines)), [expected]);
}

fn conflict_order(first: usize, second: usize, key: &str) -> Violation {
    Violation::ConflictOrder { first, second, key: key.into() }
}

fn not_linearizable(key: &str, transaction: usize) -> Violation {
    Violation::NotLinearizable { key: key.into(), transaction }
}

mod partial_order_restrictions {
    use super::*;

    #[test]
    fn conflicting_withdrawals_that_observe_one_another_are_good() {
        good(
            "conflict withdraw withdraw
             t 0@0 committed [0 0]    1@0      | balance INCRBY 100 = 100
             t 0@0 committed [1 0]    5@strong | withdraw!balance INCRBY -100 = 0
             t 1@1 aborted   [1 0]             | withdraw!balance INCRBY -100 = 0
             t 1@1 committed [1 0 !5]          | balance GET = (0)
             t 1@1 committed [1 0 !5] 1@1      | balance INCRBY 50 = 50
             t 0@0 committed [1 1 !5] 9@strong | withdraw!balance INCRBY -50 = 0
             final 0 balance = (0) error error
             final 1 balance = (0) error error",
        );
    }

    #[test]
    fn an_overdraft_is_caught() {
        only(
            "conflict withdraw withdraw
             t 0@0 committed [0 0] 1@0      | balance INCRBY 100 = 100
             t 0@0 committed [1 0] 5@strong | withdraw!balance INCRBY -100 = 0
             t 1@1 committed [1 0] 6@strong | withdraw!balance INCRBY -100 = 0",
            conflict_order(1, 2, "balance"),
        );
    }

    #[test]
    fn what_does_not_conflict_needs_no_order() {
        let lines = "t 0@0 committed [0 0] 5@strong | deposit!balance INCRBY 1 = 1
                     t 1@1 committed [0 0] 6@strong | withdraw!balance INCRBY -1 = -1
                     t 2@1 committed [0 0] 7@strong | withdraw!other INCRBY -1 = -1
                     t 3@1 committed [0 0] 2@1      | balance INCRBY 1 = 1";
        good(lines);
        good(&format!("conflict withdraw withdraw\n{lines}"));
        only(&format!("conflict deposit withdraw\n{lines}"), conflict_order(0, 1, "balance"));
        only(&format!("conflict withdraw deposit\n{lines}"), conflict_order(0, 1, "balance"));
        only(&format!("conflict deposit *\n{lines}"), conflict_order(0, 1, "balance"));
    }

    #[test]
    fn without_kinds_updates_conflict_with_everything_and_reads_with_updates() {
        let updates = "t 0@0 committed [0 0] 5@strong | !a SADD x = 1
                       t 1@1 committed [0 0] 6@strong | !a SADD y = 1";
        only(updates, conflict_order(0, 1, "a"));
        let late_read = "t 0@0 committed [0 0] 5@strong | !a SADD x = 1
                         t 1@1 committed [0 0] 6@strong | !a SCARD = 0 | b SADD z = 1";
        only(late_read, conflict_order(0, 1, "a"));
        let with_kind = "t 0@0 committed [0 0] 5@strong | add!a SADD x = 1
                         t 1@1 committed [0 0] 6@strong | !a SCARD = 0";
        only(with_kind, conflict_order(0, 1, "a"));
        good(
            "t 0@0 committed [0 0] 5@strong | !a SCARD = 0
             t 1@1 committed [0 0] 6@strong | !a SCARD = 0
             t 1@1 committed [0 0] 7@strong | !a SADD x = 1",
        );
    }

    #[test]
    fn what_changed_nothing_need_not_be_observed() {
        good(
            "t 0@0 committed [0 0] 5@strong | !a SREM x = 0
             t 1@1 committed [0 0] 6@strong | !a SADD x = 1",
        );
        good(
            "t 0@0 committed [0 0] 3@strong    | !a SETNX x = 1
             t 0@0 committed [0 0 !3] 5@strong | !a SETNX y = 0
             t 1@1 committed [0 0 !3] 6@strong | !a GET = (x) | !a SETNX z = 0
             t 1@1 committed [0 0 !6]          | a GET = (x)",
        );
    }

    #[test]
    fn a_write_skew_is_caught() {
        only(
            "t 0@0 committed [0 0] 5@strong | !a SCARD = 0 | !b SADD x = 1
             t 1@1 committed [0 0] 6@strong | !b SCARD = 0 | !a SADD y = 1",
            conflict_order(0, 1, "b"),
        );
    }

    #[test]
    fn a_missing_predecessor_is_caught_whoever_else_is_observed() {
        only(
            "t 0@0 committed [0 0]    5@strong | !a SADD x = 1
             t 1@1 committed [0 0 !5] 6@strong | !a SADD y = 1
             t 2@1 committed [0 0 !5] 7@strong | !a SADD z = 1",
            conflict_order(1, 2, "a"),
        );
        // Its strong entry is high enough, but its snapshot lacks a causal transaction on which the
        // first depends.
        only(
            "t 0@0 committed [0 0]    1@0      | b SADD x = 1
             t 0@0 committed [1 0]    5@strong | !a SADD x = 1
             t 1@1 committed [0 0 !5] 6@strong | !a SADD y = 1",
            conflict_order(1, 2, "a"),
        );
    }

    #[test]
    fn strong_timestamps_are_unique() {
        bad(
            "t 0@0 committed [0 0] 5@strong | !a SADD x = 1
             t 1@1 committed [0 0] 5@strong | !b SADD x = 1",
            Violation::SameDot { first: 0, second: 1 },
        );
        // The commit time of a site may be the same.
        good(
            "t 0@0 committed [0 0] 5@strong | !a SADD x = 1
             t 1@1 committed [0 0] 5@1      | b SADD x = 1",
        );
    }

    #[test]
    fn strong_timestamps_follow_the_order_and_clocks_of_sites_are_others() {
        good(
            "t 0@0 committed [0 0]       90@0      | a SADD x = 1
             t 0@0 committed [90 0]       5@strong | !a SADD y = 1
             t 0@0 committed [90 0 !5]  700@strong | !a SREM y = 1
             t 1@1 committed [90 0 !700] 92@1      | a SMEMBERS = {x} | a SREM x = 1
             t 1@1 committed [90 92 !700]          | a SMEMBERS = {}",
        );
        bad(
            "t 0@0 committed [0 0]    5@strong | !a SADD x = 1
             t 0@0 committed [0 0 !5] 4@strong | !a SADD y = 1",
            Violation::TimeAgainstCausality { first: 1, second: 1 },
        );
    }

    #[test]
    fn sessions_and_answers_include_strong_transactions() {
        bad(
            "t 0@0 committed [0 0] 5@strong | !a SADD x = 1
             t 0@0 committed [0 0]          | a SMEMBERS = {}",
            Violation::SessionOrder { earlier: 0, later: 1 },
        );
        let unseen = history(
            "t 0@0 committed [0 0]    5@strong | !a SADD x = 1
             t 1@1 committed [0 0 !4]          | a SMEMBERS = {x}",
        );
        assert!(matches!(check(&unseen)[..], [Violation::WrongAnswer { transaction: 1, .. }]));
        good("t 0@0 committed [0 0] 5@strong | !a SCARD = 0\nt 0@0 committed [0 0] | a SCARD = 0");
    }

    #[test]
    fn a_strong_operation_must_be_certified() {
        let not_certified = Violation::NotCertified { transaction: 0, key: "a".into() };
        only("t 0@0 committed [0 0] 5@0 | !a SADD x = 1", not_certified);
        good("t 0@0 committed [0 0] 5@0 | b SADD x = 1 | !a SREM x = 0 | !a SCARD = 0");
    }

    #[test]
    fn a_strong_transaction_is_never_lost() {
        let lost = Violation::StrongLost { transaction: 0 };
        let seen = "final 1 a = (nil) {} <>";
        only(
            &format!("destroyed 0\nt 0@0 committed [0 0] 5@strong lost | !a SADD x = 1\n{seen}"),
            lost.clone(),
        );
        // No transaction is reported lost, but its effect is missing.
        bad(
            &format!("destroyed 0\nt 0@0 committed [0 0] 5@strong | !a SADD x = 1\n{seen}"),
            lost.clone(),
        );
        only(&format!("destroyed 0\nt 0@0 committed | !a SADD x = 1\n{seen}"), lost);
        // A causal transaction may be lost.
        good(&format!("destroyed 0\nt 0@0 committed | a SADD x = 1\n{seen}"));
    }

    /// UniStore Figure 2: the dependencies of a strong transaction must be uniform before it
    /// commits.
    #[test]
    fn a_strong_transaction_is_not_lost_with_what_it_depends_on() {
        only(
            "destroyed 0
             t 0@0 committed [0 0] 1@0 lost | a SADD x = 1
             t 0@0 committed [1 0] 5@strong | !b SADD y = 1
             final 1 b = (nil) {} <>",
            Violation::StrongLost { transaction: 1 },
        );
    }

    #[test]
    fn an_unknown_outcome_counts_if_it_has_a_timestamp() {
        good(
            "t 0@0 unknown [0 0]           | !a SADD x = 1
             t 1@1 committed [0 0] 6@strong | !a SADD y = 1",
        );
        only(
            "t 0@0 unknown [0 0]   5@strong | !a SADD x = 1
             t 1@1 committed [0 0] 6@strong | !a SADD y = 1",
            conflict_order(0, 1, "a"),
        );
    }

    #[test]
    fn a_lost_update_is_caught_by_what_was_read_alone() {
        let misses = |t| (t, Before::Misses("a".into()));
        only(
            "t 0@0 committed | !a SET one = ok
             t 1@1 committed | a GET = (one) | !a SET two = ok
             t 2@0 committed | a GET = (one) | !a SET three = ok",
            Violation::NoOrder { cycle: vec![misses(1), misses(2)] },
        );
        only(
            "t 1@1 committed | a GET = (nil) | !a SET two = ok
             t 2@0 committed | a GET = (nil) | !a SET three = ok",
            Violation::NoOrder { cycle: vec![misses(0), misses(1)] },
        );
        // Causal transactions may do that, and transactions that commit one after the other.
        good(
            "t 1@1 committed | a GET = (nil) | a SET two = ok
             t 2@0 committed | a GET = (nil) | a SET three = ok",
        );
        good(
            "t 1@1 committed | a GET = (nil) | !a SET two = ok
             t 2@0 aborted   | a GET = (nil) | !a SET three = ok
             t 2@0 committed | a GET = (two) | !a SET four = ok
             t 3@0 committed | a GET = (nil)",
        );
    }
}

mod linearizable {
    use super::*;

    #[test]
    fn operations_in_an_order_that_time_allows_are_good() {
        good(
            "t 0@0  0..10 committed | !!n INCRBY 1 = 2
             t 1@1  5..15 committed | !!n INCRBY 1 = 1
             t 2@0  1..30 committed | !!n GET = (nil)
             t 1@1 16..20 committed | !!n GET = (2)
             t 0@0 16..20 committed | !!n SADD x = error",
        );
    }

    #[test]
    fn a_stale_read_is_caught() {
        bad(
            "t 0@0  0..10 committed | !!r SET one = ok
             t 0@0 11..20 committed | !!r SET two = ok
             t 1@1 21..30 committed | !!r GET = (one)
             t 2@1 31..40 committed | !!r GET = (two)",
            not_linearizable("r", 2),
        );
        let real_time = Violation::RealTime { earlier: 0, later: 1, key: "r".into() };
        bad(
            "t 0@0  0..10 committed [0 0] 5@strong | !!r SET one = ok
             t 1@1 11..20 committed [0 0] 4@strong | !!r GET = (nil)",
            real_time,
        );
        // The other operations have no such guarantee.
        good(
            "t 0@0  0..10 committed [0 0] 5@strong | !r SET one = ok
             t 1@1 11..20 committed [0 0] 4@strong | !r GET = (nil)",
        );
        good(
            "t 0@0  0..11 committed [0 0] 5@strong | !!r SET one = ok
             t 1@1 11..20 committed [0 0] 4@strong | !!r GET = (nil)",
        );
    }

    #[test]
    fn a_read_does_not_go_back_even_beside_the_write() {
        bad(
            "t 0@0  0..99 committed | !!r SET one = ok
             t 1@1  1..10 committed | !!r GET = (one)
             t 2@0 11..20 committed | !!r GET = (nil)",
            not_linearizable("r", 2),
        );
    }

    #[test]
    fn two_holders_of_a_lock_are_caught() {
        only(
            "t 0@0 0..10 committed | !!lock SETNX ana = 1
             t 1@1 5..15 committed | !!lock SETNX ben = 1",
            not_linearizable("lock", 1),
        );
        bad(
            "t 0@0 committed [0 0] 5@strong | !!lock SETNX ana = 1
             t 1@1 committed [0 0] 6@strong | !!lock SETNX ben = 1",
            conflict_order(0, 1, "lock"),
        );
        good(
            "t 0@0  0..10 committed | !!lock SETNX ana = 1
             t 1@1  5..15 committed | !!lock SETNX ben = 0
             t 0@0 11..20 committed | !!lock DEL = 1
             t 1@1 16..30 committed | !!lock SETNX ben = 1",
        );
    }

    #[test]
    fn what_a_transaction_does_at_a_key_is_one_step() {
        let other = "t 1@1 0..10 committed | !!n INCRBY 1 = 1";
        good(&format!("t 0@0 0..10 committed | !!n INCRBY 1 = 2 | !!n INCRBY 1 = 3\n{other}"));
        only(
            &format!("t 0@0 0..10 committed | !!n INCRBY 1 = 2 | !!n INCRBY 1 = 4\n{other}"),
            not_linearizable("n", 0),
        );
    }

    #[test]
    fn an_unknown_outcome_takes_effect_late_or_never() {
        good(
            "t 0@0  0..9  unknown   | !!r SET one = ?
             t 1@1 10..20 committed | !!r GET = (nil)
             t 1@1 21..30 committed | !!r GET = (one)
             t 2@1 40..   unknown   | !!r SET two = ?
             t 1@1 41..50 committed | !!r GET = (one)",
        );
        bad(
            "t 0@0  0..9  unknown   | !!r SET one = ?
             t 1@1 10..20 committed | !!r GET = (one)
             t 1@1 21..30 committed | !!r SET two = ok
             t 1@1 31..40 committed | !!r GET = (one)",
            not_linearizable("r", 3),
        );
        bad(
            "t 1@1 10..20 committed | !!r GET = (one)
             t 0@0 21..   unknown   | !!r SET one = ?",
            not_linearizable("r", 0),
        );
    }

    #[test]
    fn an_aborted_transaction_has_no_effect() {
        good(
            "t 0@0  0..10 aborted   | !!r SET one = ok
             t 1@1 11..20 committed | !!r GET = (nil)",
        );
        bad(
            "t 0@0  0..10 aborted   | !!n INCRBY 1 = 1
             t 1@1 11..20 committed | !!n GET = (1)",
            not_linearizable("n", 1),
        );
    }

    #[test]
    fn what_has_no_times_or_another_level_somewhere_is_not_searched() {
        good("t 0@0 committed | !!n INCRBY 1 = 1\nt 1@1 0..9 committed | !!n INCRBY 1 = 1");
        good("t 0@0 0..9 committed | !n INCRBY 1 = 1\nt 1@1 0..9 committed | !!n INCRBY 1 = 1");
    }

    #[test]
    fn a_write_skew_is_caught() {
        let misses = |t, key: &str| (t, Before::Misses(key.into()));
        let cycle = vec![misses(0, "a"), misses(1, "b")];
        only(
            "t 0@0 0..10 committed | !!a GET = (nil) | !!b SET x = ok
             t 1@1 0..10 committed | !!b GET = (nil) | !!a SET y = ok",
            Violation::NoOrder { cycle },
        );
    }

    #[test]
    fn a_transaction_seen_without_one_that_was_over_before_it_is_caught() {
        // Each key alone is in order.
        let cycle = vec![
            (0, Before::RealTime),
            (1, Before::Read("b".into())),
            (2, Before::Misses("a".into())),
        ];
        let lines = "t 0@0  0..10 committed | !!a SET x = ok
                     t 1@1 11..20 committed | !!b SET y = ok
                     t 2@1  0..30 committed | !!a GET = (nil) | !!b GET = (y)";
        only(lines, Violation::NoOrder { cycle: cycle.clone() });
        good(&lines.replace("11..20", "10..20"));
        // Timestamps do not order transactions on different keys either.
        bad(
            "t 0@0  0..10 committed [0 0]    9@strong | !!a SET x = ok
             t 1@1 11..20 committed [0 0]    5@strong | !!b SET y = ok
             t 2@1  0..30 committed [0 0 !5] 7@strong | !!a GET = (nil) | !!b GET = (y)",
            Violation::NoOrder { cycle },
        );
    }

    #[test]
    fn writers_in_a_known_order_are_followed_by_readers() {
        // Only strong timestamps show this: the second replaced the first, which the third read.
        let lines = "t 0@0 committed [0 0]    1@strong | !!a SET x = ok
                     t 1@1 committed [0 0 !1] 2@strong | !!a SET y = ok | !!b SET z = ok
                     t 2@1 committed [0 0 !1] 9@strong | !!a GET = (x) | !!b GET = (z)";
        let misses = (2, Before::Misses("a".into()));
        let cycle = vec![(1, Before::Read("b".into())), misses];
        bad(lines, Violation::NoOrder { cycle });
    }
}

#[test]
fn violations_are_described_in_words() {
    let text = |violation: Violation| violation.to_string();
    let cycle = vec![(3, Before::RealTime), (5, Before::Read("a".into())), (8, Before::Session)];
    assert_eq!(
        text(Violation::NoOrder { cycle }),
        "no order: 3 was answered before 5 began, 8 read what 5 wrote to 'a', 3 came after 8 in their \
         session"
    );
    assert_eq!(
        text(conflict_order(1, 2, "a")),
        "conflict order: 1 and 2 conflict on 'a', and 2, which has the later strong timestamp, does not \
         observe 1"
    );
    assert_eq!(
        text(not_linearizable("a", 4)),
        "not linearizable: no order of what clients did on 'a' explains all answers up to that of 4"
    );
}
