//! Small histories in the text notation, one anomaly each: the checkers report it under its name.

use solera_checker::{History, Violation, blackbox, check};

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

fn stale(reader: usize, writer: usize, key: &str) -> Violation {
    Violation::StaleRead { reader, writer, key: key.to_owned() }
}

#[test]
fn sessions_are_remembered_however_long_they_are() {
    bad(
        "t 0@0 committed [0 0] 1@0 | a SADD x = 1
         t 0@0 committed [1 0]     | b GET = (nil)
         t 0@0 committed [1 0]     | b GET = (nil)
         t 0@0 committed [1 0]     | b GET = (nil)
         t 0@0 committed [1 0]     | b GET = (nil)
         t 0@1 committed [0 0]     | b GET = (nil)",
        Violation::SessionOrder { earlier: 0, later: 5 },
    );
    bad(
        "t 0@0 committed [0 0] 1@0 | a SADD x = 1
         t 1@0 committed [1 0]     | a SMEMBERS = {x}
         t 1@0 committed [1 0]     | b GET = (nil)
         t 1@0 committed [1 0]     | b GET = (nil)
         t 1@0 committed [1 0]     | b GET = (nil)
         t 1@0 committed [1 0]     | b GET = (nil)
         t 1@1 committed [0 0]     | b GET = (nil)",
        Violation::NonMonotonicRead { earlier: 1, later: 6, write: 0, key: "a".into() },
    );
}

#[test]
fn a_session_may_forget_what_it_never_read() {
    good(
        "t 0@0 committed [0 0] 1@0 | a SADD x = 1
         t 1@0 committed [1 0]     | b GET = (nil)
         t 1@1 committed [0 0]     | b GET = (nil)",
    );
}

#[test]
fn a_change_needs_a_place_where_others_have_one() {
    let lines = "t 0@0 committed       | a SADD x = 1
                 t 1@0 committed [0 0] | a SMEMBERS = {}";
    bad(lines, Violation::NoPlace { transaction: 0 });
    bad("t 0@0 committed [0 0] | a SET x = ok", Violation::NoPlace { transaction: 0 });
    good("t 0@0 committed | a SADD x = 1");
}

#[test]
fn what_is_unknown_counts_if_it_has_a_place() {
    good(
        "t 0@0 unknown         | a SET x = ok
         t 1@0 committed [0 0] | a GET = (nil)",
    );
    good(
        "t 0@0 unknown [0 0] 1@0 | a SET x = ?
         t 1@0 committed [1 0]   | a GET = (x)",
    );
    let missed = history(
        "t 0@0 unknown [0 0] 1@0 | a SET x = ?
         t 1@0 committed [1 0]   | a GET = (nil)",
    );
    assert!(matches!(check(&missed)[..], [Violation::WrongAnswer { transaction: 1, .. }]));
}

#[test]
fn an_unknown_answer_may_have_been_a_refusal() {
    good(
        "t 0@0 committed [0 0] 1@0 | a SADD x = 1
         t 0@0 unknown   [1 0] 2@0 | a INCRBY 1 = ?
         t 1@0 committed [2 0] 3@0 | a GET = error | a SREM x = 1 | a GET = (nil)",
    );
}

#[test]
fn many_unknown_answers_are_judged_quickly() {
    // Each call reads the effects of all calls before it; a naive search takes 2^200 steps.
    let unknown =
        (0..200).map(|i| format!("t {i}@0 unknown [{i} 0] {}@0 | n INCRBY 1 = ?\n", i + 1));
    good(&(unknown.collect::<String>() + "t 200@0 committed [200 0] | n GET = (200)"));
}

#[test]
fn a_transaction_that_observes_itself_is_reported() {
    bad(
        "t 0@0 unknown [5 0] 3@0 | a INCRBY 1 = ?",
        Violation::TimeAgainstCausality { first: 0, second: 0 },
    );
    bad(
        "t 0@0 unknown [5 9] 3@0 | a INCRBY 1 = ?
         t 1@1 unknown [9 9] 4@1 | a INCRBY 1 = ?",
        Violation::TimeAgainstCausality { first: 1, second: 1 },
    );
}

#[test]
fn registers_and_counters_merge_as_declared() {
    good(
        "t 0@0 committed [0 0] 1@0 | r SET 5 = ok
         t 1@1 committed [0 0] 1@1 | r SET 7 = ok
         t 2@0 committed [1 0] 2@0 | r INCRBY 2 = 7
         t 3@0 committed [2 1]     | r GET = (9)",
    );
    let lines = "t 0@0 committed [0 0] 1@0 | h HSET f a = 1
                 t 1@1 committed [0 0] 2@1 | h HSET f b = 1
                 t 2@0 committed [1 2]     | h HGETALL = <f a>";
    let judged = check(&history(lines));
    assert!(matches!(judged[..], [Violation::WrongAnswer { transaction: 2, .. }]), "{judged:?}");
}

#[test]
fn eventual_operations_are_judged_for_convergence_only() {
    good(
        "t 1@0 committed [0 0] 1@0 | r SET x = ok
         t 0@0 committed | ~log SADD x = 1
         t 0@0 committed | ~log SMEMBERS = {}
         final 0 log = error {x} error
         final 1 log = error {x} error",
    );
    let diverged = check(&history(
        "t 0@0 committed | ~log SADD x = 1
         final 0 log = error {x} error
         final 1 log = (nil) {} <>",
    ));
    assert!(matches!(diverged[..], [Violation::Divergence { .. }]), "{diverged:?}");
}

#[test]
fn only_a_destroyed_site_may_lose_a_register() {
    let lines = "t 0@0 committed [0 0] 1@0 lost | r SET x = ok
                 t 1@1 committed [1 0] 2@1      | r GET = (x) | a SADD y = 1
                 final 1 r = (nil) {} <>";
    bad(lines, Violation::Lost { transaction: 0 });
    // The second transaction survives and depends on the first, so the first must not be lost.
    bad(&format!("destroyed 0\n{lines}"), Violation::Lost { transaction: 1 });
}

#[test]
fn what_a_surviving_site_showed_must_not_be_lost() {
    let seen = Violation::SeenThenLost { reader: 1, writer: 0, key: "r".into() };
    let lines = "destroyed 0
                 t 0@0 committed [0 0] 1@0 lost | r SET x = ok
                 t 1@1 committed [1 0]          | r GET = (x)
                 final 1 r = (nil) {} <>";
    assert_eq!(check(&history(lines)), [seen]);
    // Its own site may show it and lose it; so may a transaction that did not read the key.
    good(
        "destroyed 0
         t 0@0 committed [0 0] 1@0 lost | r SET x = ok
         t 1@0 committed [1 0]          | r GET = (x)
         t 2@1 committed [0 0]          | r GET = (nil)
         t 3@1 committed [1 0]          | q GET = (nil)
         final 1 r = (nil) {} <>",
    );
}

mod black_box {
    use super::*;

    #[track_caller]
    fn found(lines: &str, expected: &[Violation]) {
        assert_eq!(blackbox::check(&history(lines)), expected);
    }

    #[test]
    fn own_writes_survive_a_move_to_another_site() {
        found(
            "t 0@0 committed | a SADD x = 1
             t 0@1 committed | a SMEMBERS = {}",
            &[stale(1, 0, "a")],
        );
        found("t 0@0 committed | a SADD x = 1 | a SMEMBERS = {}", &[stale(0, 0, "a")]);
        found("t 0@0 committed | r SET x = ok | r GET = (nil)", &[stale(0, 0, "r")]);
    }

    #[test]
    fn reads_do_not_go_back() {
        found(
            "t 0@0 committed | a SADD x = 1
             t 1@0 committed | a SMEMBERS = {x}
             t 1@1 committed | a SMEMBERS = {}",
            &[stale(2, 0, "a")],
        );
    }

    #[test]
    fn a_part_of_a_transaction_is_fractured() {
        let fractured =
            |reader, key: &str| Violation::FracturedRead { reader, writer: 0, key: key.into() };
        found(
            "t 0@0 committed | a SADD x y = 2
             t 1@0 committed | a SMEMBERS = {x}",
            &[fractured(1, "a")],
        );
        // Two reads of one transaction disagree.
        found(
            "t 0@0 committed | a SADD x = 1
             t 1@0 committed | a SMEMBERS = {} | a SMEMBERS = {x}",
            &[stale(1, 0, "a"), fractured(1, "a")],
        );
    }

    #[test]
    fn an_overwritten_value_does_not_come_back() {
        // WriteCORead
        found(
            "t 0@0 committed | r SET one = ok
             t 1@1 committed | r GET = (one) | r SET two = ok
             t 2@0 committed | r GET = (two)
             t 2@0 committed | r GET = (one)",
            &[stale(3, 1, "r")],
        );
        // Without a read, the second write may be concurrent with the first, and lose against it.
        found(
            "t 0@0 committed | r SET one = ok
             t 1@1 committed | r SET two = ok
             t 2@0 committed | r GET = (two)
             t 2@0 committed | r GET = (one)",
            &[],
        );
    }

    #[test]
    fn a_register_is_not_empty_after_a_write_before_the_read() {
        // WriteCOInitRead
        found(
            "t 0@0 committed | r SET one = ok | a SADD x = 1
             t 1@1 committed | a SMEMBERS = {x} | r GET = (nil)",
            &[stale(1, 0, "r")],
        );
    }

    #[test]
    fn values_come_from_committed_final_writes() {
        found(
            "t 0@0 committed | r SET one = ok | r SET two = ok
             t 1@0 committed | r GET = (one)",
            &[Violation::IntermediateRead { reader: 1, writer: 0, key: "r".into() }],
        );
        let thin = |key: &str, element: &str| Violation::ThinAir {
            transaction: 1,
            key: key.into(),
            element: element.into(),
        };
        found(
            "t 0@0 aborted   | r SET one = ok | a SADD x = 1
             t 1@0 committed | r GET = (one) | a SMEMBERS = {x}",
            &[thin("a", "x"), thin("r", "one")],
        );
    }

    #[test]
    fn registers_can_make_a_cycle() {
        let cycle = history(
            "t 0@0 committed | q GET = (two) | r SET one = ok
             t 1@1 committed | r GET = (one) | q SET two = ok",
        );
        assert!(matches!(blackbox::check(&cycle)[..], [Violation::CyclicCausality { .. }]));
    }

    #[test]
    fn what_a_surviving_site_committed_is_there_in_the_end() {
        let lines = "t 0@0 committed | a SADD x = 1
                     t 1@1 committed | a SADD y = 1
                     final 0 a = error {y} error";
        found(lines, &[Violation::Lost { transaction: 0 }]);
        found(&format!("destroyed 0\n{lines}"), &[]);
    }
}
