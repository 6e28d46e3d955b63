//! Legal histories, many of which are nearly violations.

use solera_checker::pcpsi::check;

use crate::notation::history;

fn assert_clean(text: &str) {
    let violations = check(&history(text));
    assert!(violations.is_empty(), "{text}\n{violations:#?}");
}

#[test]
fn nothing() {
    assert_clean("");
    assert_clean("1: r x -\n1: w x 1\n1: r x 1, r y -");
}

#[test]
fn write_skew() {
    assert_clean("1: r x -, r y -, w x 1\n2: r x -, r y -, w y 2");
    assert_clean("0: w x 8 #1, w y 9 #1\n1: r x 8, r y 9, w x 1 #2\n2: r x 8, r y 9, w y 2 #2");
}

#[test]
fn a_long_fork() {
    assert_clean("1@0: w x 1\n2@1: w y 2\n3@0: r x 1, r y -\n4@1: r x -, r y 2");
    assert_clean("1@0: w x 1 #1\n2@1: w y 2 #1\n3@0: r x 1, r y -\n4@1: r x -, r y 2");
}

#[test]
fn transactions_of_one_site_are_seen_in_either_order() {
    // The figure of the paper: PSI orders all four transactions, PC-PSI does not.
    assert_clean(
        "1@0: r x -, w y 10
         2@0: r y 10, w z 1
         3@0: r a -, w b 50
         4@0: r b 50, w c 1
         5@1: r c 1, r z -
         6@2: r z 1, r b -",
    );
}

#[test]
fn sessions_see_stale_data() {
    assert_clean("1: w x 1 #1\n1: w x 2 #2\n2: r x 1\n2: r x 1\n2: r x 2");
    assert_clean("1: w x 1\n1: w x 2\n2: r x -\n2: r x 1");
    assert_clean("1: w x 1\n1: w y 2\n2: r x 1, r y -");
}

#[test]
fn whole_transactions() {
    assert_clean("1: w x 1, w y 2\n2: r x -, r y -\n2: r x 1, r y 2");
    // One of the two writes was overwritten.
    assert_clean("1: w x 1 #1, w y 2 #1\n3: w y 3 #2\n2: r x 1, r y 3");
    assert_clean("1: w x 1, w y 2\n3: w y 3\n2: r x 1, r y 3");
}

#[test]
fn own_writes() {
    assert_clean(
        "1: w x 1, r x 1, w x 2, r x 2, del x 3, r x -, r x 3, w x 4 over -, r x 4\n2: r x 4",
    );
    assert_clean("1: w x 1\n2: r x 1, w x 2 over 1, w x 3 over 2");
}

#[test]
fn independent_writes_have_either_order() {
    assert_clean("1: w x 1\n2: w x 2\n3: r x 1\n3: r x 2\n4: r x 1\n4: r x 2");
    assert_clean("1: w x 1\n2: w x 2\n3: r x 1\n4: r x 2");
    assert_clean("1: w x 1 #2\n2: w x 2 #1\n3: r x 2\n3: r x 1");
}

#[test]
fn successive_updates() {
    assert_clean("1: r x -, w x 1\n2: r x 1, w x 2\n1: r x 2, w x 3");
    assert_clean("1: w x 1 over -\n2: w x 2 over 1\n1: w x 3 over 2\n3: r x 1\n3: r x 3");
    // The removal between them is the version that the second overwrote.
    assert_clean("1: r x -, w x 1\n2: del x 2\n3: r x -, w x 3");
    assert_clean("1: w x 1 #1\n2: del x 2 #2\n3: r x -, w x 3 #3\n4: r x -\n4: r x 3");
}

#[test]
fn aborted_transactions_are_not_judged() {
    assert_clean("1: w x 1, w y 2\n2 aborted: r x 1, r y -, w x 3\n3: r x 1");
    assert_clean("1 aborted: r x 9\n1: r x -");
    assert_clean("1: r x -, w x 1\n2 aborted: r x -, w x 2");
}

#[test]
fn unknown_transactions_commit_late_or_never() {
    assert_clean("1 unknown: w x 1\n1: r x -\n2: r x 1");
    assert_clean("1 unknown: w x 1\n1: w x 2 #1\n1: r x 2\n2: r x 1");
    assert_clean("1: r x -, w x 1\n2 unknown: r x -, w x 2");
    assert_clean("1 unknown: r x 9, w y 1\n2: r y -");
    assert_clean("1 unknown: w x 1\n1 unknown: w x 2\n2: r x 2\n2: r x 1");
}

#[test]
fn unknown_removals_explain_missing_values() {
    assert_clean("1: w x 1\n2 unknown: del x 2\n1: r x -");
    assert_clean("1: w x 1\n2: del x 2\n1: r x -");
    assert_clean("1: w x 1 #1\n2: del x 2 #2\n1: r x -\n1: r x 2");
    assert_clean("1: w x 1 #1\n2: del x 2 #2\n1: r x -\n1: del x 3 #3");
    assert_clean("1: r x -, del x 2 #2\n2: w x 3 #3, r x 3");
}

#[test]
fn accepted_stale_reads_miss_effects() {
    assert_clean("1: w x 1\n1: stale x -\n1: r x 1");
    assert_clean("1: w x 1 #1\n1: w x 2 #2\n2: r x 2\n2: stale x 1\n2: r x 2");
    assert_clean("1: w x 1, w y 2\n2: r x 1, stale y -");
    assert_clean("1: w x 1\n2: stale x -, w x 2\n3: stale x -, w x 3 over 1");
}

#[test]
fn order_of_input_does_not_matter() {
    let mut one = history("1: w x 1\n2: r x 1\n1: w x 2\n2: r x 2");
    one.transactions.reverse();
    assert!(check(&one).is_empty());
}
