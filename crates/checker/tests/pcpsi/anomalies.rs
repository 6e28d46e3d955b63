//! Each violation is found, and its text describes it.

use solera_checker::pcpsi::{Violation, check};

use crate::notation::history;

/// Requires that a history has one violation, with this text.
fn assert_one(text: &str, expected: &str) {
    let violations: Vec<String> = check(&history(text)).iter().map(Violation::to_string).collect();
    assert_eq!(violations, [expected]);
}

/// Requires that all violations of a history are of one kind, and that there is one.
fn assert_kind(text: &str, kind: &str) {
    let violations: Vec<String> = check(&history(text)).iter().map(Violation::to_string).collect();
    assert!(!violations.is_empty(), "{text}");
    assert!(violations.iter().all(|violation| violation.starts_with(kind)), "{violations:#?}");
}

#[test]
fn reads_of_aborted_transactions() {
    assert_one(
        "1@0 aborted: w x 1
         2@3: r x 1",
        "aborted read: transaction 1 of session 2 at site 3 reads write 1 of 'x' by transaction 1 \
         of session 1 at site 0, which aborted",
    );
    assert_kind("1 aborted: w x 1\n2: stale x 1", "aborted read");
    assert_kind("1 aborted: w x 1\n2: w x 2 over 1", "aborted read");
}

#[test]
fn reads_of_intermediate_versions() {
    assert_one(
        "1: w x 1, w x 2
         2: r x 1",
        "intermediate read: transaction 1 of session 2 at site 0 reads write 1 of 'x' by \
         transaction 1 of session 1 at site 0, which overwrote it with write 2",
    );
    assert_kind("1: w x 1, del x 2\n2: stale x 1", "intermediate read");
}

#[test]
fn reads_of_what_nobody_wrote() {
    assert_one(
        "1: r x 7",
        "never written: transaction 1 of session 1 at site 0 reads write 7 of 'x'",
    );
    assert_kind("1: w y 7\n1: r x 7", "never written");
    assert_one(
        "1: r x 1, w x 1",
        "from the future: transaction 1 of session 1 at site 0 reads its own write 1 of 'x' before \
         it writes it",
    );
}

#[test]
fn transactions_see_their_own_writes() {
    assert_one(
        "1: w x 1
         2: r x 1, w x 2, r x 1",
        "misses its own write: transaction 1 of session 2 at site 0 reads version 1 of 'x' after \
         its own write 2",
    );
    assert_kind("1: w x 1, r x -", "misses its own write");
    assert_kind("1: w x 1, w x 2, r x 1", "misses its own write");
    assert_kind("1: w x 1, w x 2 over -", "misses its own write");
}

#[test]
fn write_numbers_are_unique() {
    assert_kind("1: w x 1\n2: w x 1", "malformed history");
    assert_kind("1: w x 1, w x 1", "malformed history");
}

#[test]
fn cycles_of_reads() {
    assert_one(
        "1@0: w x 1, r y 2
         2@1: w y 2, r x 1",
        "circular information flow: \
         transaction 1 of session 1 at site 0 makes write 1 of 'x', which transaction 1 of session \
         2 at site 1 reads (wr); \
         transaction 1 of session 2 at site 1 makes write 2 of 'y', which transaction 1 of session \
         1 at site 0 reads (wr)",
    );
}

#[test]
fn cycles_through_sessions() {
    assert_kind(
        "1: r x 1
         1: w y 2
         2: r y 2
         2: w x 1",
        "circular information flow",
    );
    // A session reads a version that it writes only later.
    assert_kind("1: r x 1\n1: w x 1", "circular information flow");
}

#[test]
fn cycles_of_version_orders() {
    assert_kind(
        "1: w x 1 #1, w y 1 #2
         2: w x 2 #2, w y 2 #1",
        "circular information flow",
    );
    assert_kind(
        "1: w x 1 #2
         2: r x 1, w y 1
         3: r y 1, w x 2 #1",
        "circular information flow",
    );
}

#[test]
fn half_of_a_transaction_is_not_visible() {
    let expected = "missed effects: \
         transaction 1 of session 2 at site 1 reads no value of 'y' and misses write 2 by \
         transaction 1 of session 1 at site 0 (rw); \
         transaction 1 of session 1 at site 0 makes write 1 of 'x', which transaction 1 of session \
         2 at site 1 reads (wr)";
    assert_one("1@0: w x 1, w y 2\n2@1: r x 1, r y -", expected);
    assert_one("1@0: w x 1 #1, w y 2 #1\n2@1: r x 1, r y -", expected);
    assert_one("1@0: w x 1, w y 2\n2@1: r y -, r x 1", expected);
    // The halves are in two transactions of a session.
    assert_kind("1: w x 1, w y 2\n2: r x 1\n2: r y -", "missed effects");
    // The order of versions follows from a read.
    assert_kind("1: w y 1\n2: r y 1, w x 2, w y 2\n3: r x 2, r y 1", "missed effects");
    // The writer's client died, and one half was observed.
    assert_kind("1 unknown: w x 1, w y 2\n2: r x 1, r y -", "missed effects");
}

#[test]
fn the_order_of_versions_is_explained() {
    assert_one(
        "1: w x 1
         1: w x 2
         1: w y 3
         2: r y 3
         2: r x 1",
        "missed effects: \
         transaction 2 of session 2 at site 0 reads version 1 of 'x' and misses write 2 by \
         transaction 2 of session 1 at site 0 (rw); \
         transaction 2 of session 1 at site 0 precedes transaction 3 of session 1 at site 0 (sd); \
         transaction 3 of session 1 at site 0 makes write 3 of 'y', which transaction 1 of session \
         2 at site 0 reads (wr); \
         transaction 1 of session 2 at site 0 precedes transaction 2 of session 2 at site 0 (sd); \
         the order of the two versions follows from: \
         transaction 1 of session 1 at site 0 precedes transaction 2 of session 1 at site 0 (sd)",
    );
}

#[test]
fn sessions_read_their_writes_at_every_site() {
    assert_kind("1@0: w x 1\n1@1: r x -", "missed effects");
    assert_kind("1@0: w x 1 #5\n1@1: r x -", "missed effects");
    assert_kind("2: w x 1\n1@0: r x 1\n1@0: w x 2\n1@1: r x 1", "missed effects");
    assert_kind("2: w x 1 #1\n1@0: w x 2 #2\n1@1: r x 1", "missed effects");
    assert_kind("1: w x 1\n1: del x 2\n1: r x 1", "missed effects");
}

#[test]
fn reads_are_monotonic_at_every_site() {
    assert_kind("1: w x 1\n2@0: r x 1\n2@1: r x -", "missed effects");
    assert_kind("1: w x 1\n1: w x 2\n2@0: r x 2\n2@1: r x 1", "missed effects");
    assert_kind("1: w x 1 #1\n3: w x 2 #2\n2@0: r x 2\n2@1: r x 1", "missed effects");
    assert_kind("1: w x 1\n3: w x 2 over 1\n2@0: r x 2\n2@1: r x 1", "missed effects");
    // The same holds within a transaction.
    assert_kind("1: w x 1 #1\n3: w x 2 #2\n2: r x 1, r x 2", "missed effects");
}

#[test]
fn writes_follow_reads() {
    assert_kind("1: w x 1\n2: r x 1\n2: w y 2\n3: r y 2\n3: r x -", "missed effects");
    assert_kind("1: w x 1 #2\n2: r x 1\n2: w x 2 #1", "circular information flow");
}

#[test]
fn writes_of_a_session_are_monotonic() {
    assert_kind("1@0: w x 1 #2\n1@1: w x 2 #1", "circular information flow");
    assert_kind("1@0: w x 1\n1@1: w y 2\n2: r y 2\n2: r x -", "missed effects");
}

#[test]
fn lost_updates() {
    assert_one(
        "1@0: r x -, w x 1
         2@1: r x -, w x 2",
        "lost update: transaction 1 of session 1 at site 0 and transaction 1 of session 2 at site \
         1 both overwrote no value of 'x'",
    );
    assert_one(
        "3: w x 9
         1@0: w x 1 over 9
         2@1: w x 2 over 9",
        "lost update: transaction 1 of session 1 at site 0 and transaction 1 of session 2 at site \
         1 both overwrote version 9 of 'x'",
    );
    assert_kind("3: w x 9 #1\n1: r x 9, w x 1 #2\n2: r x 9, w x 2 #3", "lost update");
    assert_kind("1: r x -, w x 1\n2 unknown: r x -, w x 2\n3: r x 2", "lost update");
    // A write without a read is between the read and the write of another transaction.
    assert_kind("1: w x 1 #1\n2: r x 1, w x 3 #3\n3: w x 2 #2", "missed effects");
    // Both transactions overwrite a removal.
    assert_kind("1: del x 1 #1\n2: r x -, w x 2 #2\n3: r x -, w x 3 #3", "missed effects");
}

#[test]
fn stamps_are_an_order() {
    assert_one(
        "1@0: w x 1 #4
         2@1: w x 2 #4",
        "same stamp: write 1 of 'x' by transaction 1 of session 1 at site 0 and write 2 by \
         transaction 1 of session 2 at site 1 both have the stamp 4",
    );
    assert_one(
        "1@0: w x 1 #4
         2@1: w x 2 #3 over 1",
        "stamps contradict answers: write 2 of 'x' by transaction 1 of session 2 at site 1, with \
         the stamp 3, overwrote write 1 by transaction 1 of session 1 at site 0, with the stamp 4",
    );
}

#[test]
fn readers_agree_on_an_order_that_nothing_exhibits() {
    assert_kind(
        "1: w x 1
         2: w x 2
         3: r x 1
         3: r x 2
         4: r x 2
         4: r x 1",
        "no version order",
    );
}

#[test]
fn a_blind_write_is_not_within_an_update() {
    // Version 3 follows 1, and therefore 2, which overwrote 1. The last read misses it.
    assert_kind(
        "1: w x 1
         2: r x 1, w x 2
         3: r x 1, w y 1
         4: r y 1, w x 3
         5: r x 3
         5: r x 2",
        "no version order",
    );
}

#[test]
fn removals_are_versions() {
    // No value is the removal at best, and version 3 follows it.
    assert_kind("1: w x 1 #1\n2: del x 2 #2\n3: w x 3 #3\n4: r x 3\n4: r x -", "missed effects");
    assert_kind("1: w x 1 #1\n2: del x 2 #2\n3: r x 2\n3: r x 1", "missed effects");
    // The read cannot be a removal that depends on it.
    assert_kind("1: w x 1 #1\n1: r x -\n1: del x 2 #2", "missed effects");
    assert_kind(
        "1: w x 1 #1, del y 1 #1\n1: r x -, w y 2 #2\n2: r y 2, del x 2 #2",
        "missed effects",
    );
    assert_kind("1: w x 1 #1\n1: r x -, del x 2 #2", "missed effects");
}

#[test]
fn transactions_of_unknown_outcome_follow_their_session() {
    assert_kind("1: w x 1\n1 unknown: w y 2\n2: r y 2\n2: r x -", "missed effects");
    assert_kind("1: r y 2\n1 unknown: w y 2", "circular information flow");
    // One is known to have committed because another one is.
    assert_kind(
        "1 unknown: w x 1, w z 1
         2 unknown: r x 1, w y 2
         3: r y 2
         3: r z -",
        "missed effects",
    );
}

#[test]
fn stale_reads_have_causes() {
    // A read that was accepted as stale brings its past into the session.
    assert_kind("1: w y 1\n1: w x 2\n2: stale x 2\n2: r y -", "missed effects");
}
