//! Every procedure, with every way in which it fails.

use crate::notation::{good, violations};

/// Judges procedures that run one after the other at one site, each with its result.
fn sequence(steps: &[(&str, &str)]) -> String {
    let mut lines = String::new();
    let mut order = String::new();
    for (at, (procedure, result)) in steps.iter().enumerate() {
        lines += &format!(
            "o 1@0.1.{} {at} weak {procedure} | weak {at} [0{order}] = {result}\n",
            at + 1
        );
        order += &format!(" 0.1.{}", at + 1);
    }
    lines + "order" + &order
}

const STEPS: &[(&str, &str)] = &[
    ("nothing", "done"),
    ("read a", "nil"),
    ("add a 5", "5"),
    ("read a", "5"),
    ("append a x", "failed wrong-type"),
    ("append l x", "1"),
    ("append l y", "2"),
    ("read l", "(x y)"),
    ("add l 1", "failed wrong-type"),
    ("transfer a b 6", "failed too-little"),
    ("transfer a b 2", "<3 2>"),
    ("transfer a a 3", "<3 3>"),
    ("transfer a l 1", "failed wrong-type"),
    ("read-many a b c l", "<3 2 nil (x y)>"),
    ("write c \"text\"", "done"),
    ("put-if-absent c 7", "\"text\""),
    ("put-if-absent d 7", "nil"),
    ("read-many c d", "<\"text\" 7>"),
    ("write c nil", "done"),
    ("read c", "nil"),
    ("compare-and-set a 3 4 b 1 0", "failed differs b"),
    ("compare-and-set c 3 4 b 1 0", "failed differs c"),
    ("compare-and-set a 3 4 c nil (z)", "done"),
    ("compare-and-set a 4 nil a 4 5", "done"),
    ("read-many a c", "<5 (z)>"),
    ("write m 9223372036854775807", "done"),
    ("add m 1", "failed overflow"),
    ("transfer a m 1", "failed overflow"),
    ("add m -1", "9223372036854775806"),
    ("read a", "5"),
    ("commands", "{}"),
    ("commands get r", "{nil}"),
    ("commands set r 7 get r incr-by r -2 get r", "{done \"7\" 5 \"5\"}"),
    ("commands set r x incr-by r 1 set r y get r", "{done failed not-a-number done \"y\"}"),
    ("commands incr-by n 3 get n incr-by m 5", "{3 \"3\" failed overflow}"),
    ("commands set-members s set-add s (b a) set-add s (b c)", "{() 2 1}"),
    ("commands set-members s set-remove s (a q) get s", "{(a b c) 1 failed wrong-type}"),
    ("commands incr-by s 1 set-add r (a)", "{failed wrong-type failed wrong-type}"),
    ("commands set-remove r (a) set-members r", "{failed wrong-type failed wrong-type}"),
    ("commands set-remove s (b c) set-members s get s delete s", "{2 () nil 0}"),
    ("commands delete r delete n get n", "{1 1 nil}"),
];

#[test]
fn results_are_those_of_the_specification() {
    good(&sequence(STEPS));
}

#[test]
fn every_other_result_is_found() {
    for at in 0..STEPS.len() {
        for other in
            ["done", "nil", "77", "\"7\"", "(q)", "<>", "failed overflow", "failed differs q"]
        {
            let mut steps = STEPS.to_vec();
            if steps[at].1 != other {
                steps[at].1 = other;
                let violations = violations(&sequence(&steps));
                assert_eq!(violations.len(), 1, "{:?} {violations:#?}", steps[at]);
                assert!(violations[0].starts_with("wrong result"), "{violations:#?}");
            }
        }
    }
}

#[test]
fn what_was_undone_leaves_no_trace() {
    // The second read's order begins like the first one's, then differs; the third is committed.
    good(
        "o -@0.1.1 1 weak append l a
         o -@0.1.2 1 weak append l b
         o -@1.1.1 1 weak write l nil
         o -@1.1.2 1 weak append l c
         o 1@0.1 5 weak read l | weak 6 [1 0.1.2 1.1.1] = nil
         o 2@0.1 5 weak read l | weak 6 [1 0.1.2 1.1.1 1.1.2] = (c)
         o 3@0.1 5 weak read l | weak 6 [1 0.1.2] = (a b)
         o 4@0.1 5 weak read l | weak 6 [1] = (a)
         o 5@0.1 5 weak read l | weak 6 [2] = (a b)
         order 0.1.1 0.1.2 1.1.1 1.1.2",
    );
}
