//! Small histories: a good one, and a bad one for each rule.

use crate::notation::{bad, good};

#[test]
fn a_reply_stands_for_its_own_order() {
    // Both sites see their own operation first; the final order is another one.
    good(
        "o 1@0.1.1 10 weak append l a   | weak 11 [0] = 1
         o 2@1.1.1 10 weak append l b   | weak 11 [0] = 1 | revised 20 [0 0.1.1] = 2
         o 3@1.1   21 weak read l       | weak 22 [0 0.1.1 1.1.1] = (a b)
         o 2@1.1.2 30 strong read l     | tentative 31 [0 0.1.1 1.1.1] = (a b) | stable 40 [2] = (a b)
         c 0.1 45 [0 0.1.1 1.1.1 1.1.2] = 7
         c 1.1 45 [0 0.1.1 1.1.1 1.1.2] = 7
         order 0.1.1 1.1.1 1.1.2",
    );
}

#[test]
fn a_reply_equals_a_run_of_its_order() {
    bad(
        "o 1@0.1.1 10 weak add n 1 | weak 11 [0] = 1
         o 2@1.1.1 20 weak add n 2 | weak 21 [0 0.1.1] = 2
         o 3@1.1.2 30 weak add n 4 | weak 31 [1 1.1.1] = 6
         order 0.1.1 1.1.1 1.1.2",
        &[
            "wrong result: the weak reply to operation 1.1.1 of session 2 is '2', but after 0 \
             committed operations and then 0.1.1 it is '3'",
            "wrong result: the weak reply to operation 1.1.2 of session 3 is '6', but after 1 \
             committed operations and then 1.1.1 it is '7'",
        ],
    );
}

#[test]
fn the_order_of_a_revision_counts() {
    bad(
        "o 1@0.1.1 10 weak append l a | weak 11 [0] = 1
         o 2@1.1.1 10 weak append l b | weak 11 [0] = 1 | revised 20 [0 0.1.1] = 1
         order 0.1.1 1.1.1",
        &["wrong result: the revised reply to operation 1.1.1 of session 2 is '1', but after 0 \
           committed operations and then 0.1.1 it is '2'"],
    );
}

#[test]
fn replies_have_their_kinds() {
    bad(
        "o 1@0.1.1 10 weak nothing | tentative 11 [0] = done
         o 1@0.1.2 12 weak nothing | weak 13 [0 0.1.1] = done | stable 14 [1] = done | revised 15 [1] = done
         order 0.1.1 0.1.2",
        &[
            "unexpected reply: operation 0.1.1 of session 1 has a tentative reply at first",
            "unexpected reply: operation 0.1.2 of session 1 has a revised reply after a stable one",
        ],
    );
}

#[test]
fn records_are_checked() {
    bad(
        "o 1@0.1.1 10 weak nothing
         o 2@0.1.1 10 weak nothing
         o 3@0.1   10 weak add n 1
         o 4@1.1.1 10 weak nothing | weak 9 [0] = done
         o 4@2.1.1 9 weak nothing
         order 0.1.1 1.1.1 2.1.1",
        &[
            "malformed history: operation 0.1.1 of session 2 has the identifier of another \
             operation",
            "malformed history: the read at site 0 at 10 of session 3 was not broadcast, but is no \
             weak read",
            "malformed history: operation 1.1.1 of session 4 has a reply before its invocation or \
             earlier reply",
            "malformed history: operation 2.1.1 of session 4 was invoked before an earlier one of \
             its session",
        ],
    );
}

#[test]
fn nothing_is_twice_in_an_order() {
    bad(
        "o 1@0.1.1 10 weak add n 1
         o 2@1.1   20 weak read n | weak 21 [0 0.1.1 0.1.1] = 2
         o 2@1.1   30 weak read n | weak 31 [1 0.1.1] = 2
         order 0.1.1 0.1.1",
        &[
            "twice: the final order contains operation 0.1.1 of session 1 twice",
            "twice: the order of the weak reply to the read at site 1 at 20 of session 2 contains \
             operation 0.1.1 of session 1 twice",
            "twice: the order of the weak reply to the read at site 1 at 30 of session 2 contains \
             operation 0.1.1 of session 1 twice",
        ],
    );
}

#[test]
fn orders_hold_what_was_invoked() {
    bad(
        "o 1@0.1.1 10 weak nothing | weak 11 [0 0.1.9] = done
         c 0.1 20 [0 0.1.1 0.1.7]
         order 0.1.1 0.1.8",
        &[
            "never invoked: the final order contains 0.1.8",
            "never invoked: the order of the weak reply to operation 0.1.1 of session 1 contains \
             0.1.9",
            "no prefix: site 0 in run 1 at 20 has 0.1.7 at position 1, but the final order has \
             0.1.8",
            "never invoked: the committed list of site 0 in run 1 at 20 contains 0.1.7",
        ],
    );
}

#[test]
fn an_operation_does_not_precede_itself() {
    bad(
        "o 1@0.1.1 10 weak nothing | weak 11 [0 0.1.1] = done
         o 2@1.1.1 10 weak nothing | weak 11 [2] = done
         order 0.1.1 1.1.1",
        &[
            "sees itself: the weak reply to operation 0.1.1 of session 1 stands for an order in \
             which the operation precedes itself",
            "sees itself: the weak reply to operation 1.1.1 of session 2 stands for an order in \
             which the operation precedes itself",
        ],
    );
}

#[test]
fn nothing_is_committed_beyond_the_final_order() {
    bad(
        "o 1@0.1 10 weak read n | weak 11 [3] = nil",
        &[
            "beyond the final order: the weak reply to the read at site 0 at 10 of session 1 stands \
           for 3 committed operations, but the final order has 0",
        ],
    );
}

#[test]
fn orders_hold_nothing_from_the_future() {
    bad(
        "o 1@0.1.1 20 weak nothing
         o 2@1.1   10 weak read n | weak 11 [0 0.1.1] = nil
         o 2@1.1   12 weak read n | weak 13 [1] = nil
         c 0.1 15 [0 0.1.1]
         order 0.1.1",
        &[
            "from the future: at 11, the order of the weak reply to the read at site 1 at 10 of \
             session 2 contains operation 0.1.1 of session 1, invoked at 20",
            "from the future: at 13, the order of the weak reply to the read at site 1 at 12 of \
             session 2 contains operation 0.1.1 of session 1, invoked at 20",
            "from the future: at 15, the committed list of site 0 in run 1 at 15 contains \
             operation 0.1.1 of session 1, invoked at 20",
        ],
    );
}

#[test]
fn a_session_knows_what_was_answered() {
    let forgets = "session forgets: the order of the read at site 1 at 12 of session 1 lacks \
                   operation 0.1.1 of session 1, which had been answered before";
    let lines = "o 1@0.1.1 10 weak add n 1 | weak 11 [0] = 1
                 o 1@1.1   12 weak read n  | weak 13 [0] = nil
                 order 0.1.1";
    bad(lines, &[forgets]);
    // The reply is received after the invocation.
    good(&lines.replace("weak 11", "weak 13"));
    good(&lines.replace("o 1@1.1   12", "o 2@1.1 12"));
    good(&lines.replace("[0] = nil", "[1] = 1"));
}

#[test]
fn a_session_knows_what_replies_saw() {
    let lines = "o 1@0.1.1 10 weak add n 1    | weak 11 [0] = 1
                 o 2@0.1.2 12 strong add n 1  | tentative 13 [0 0.1.1] = 2 | stable 20 [1] = 2
                 o 3@1.1   14 weak read n     | weak 15 [0 0.1.1 0.1.2] = 2
                 o 3@2.1   16 weak read n     | weak 17 [0] = nil
                 o 4@0.1   21 weak read n     | weak 22 [2] = 2
                 o 4@2.1   23 weak read n     | weak 24 [0 0.1.1] = 1
                 order 0.1.1 0.1.2";
    bad(
        lines,
        &[
            "session forgets: the order of the read at site 2 at 16 of session 3 lacks operation \
             0.1.1 of session 1, which the read at site 1 at 14 of session 3 had seen",
            "session forgets: the order of the read at site 2 at 23 of session 4 lacks operation \
             0.1.2 of session 2, which the read at site 0 at 21 of session 4 had seen",
        ],
    );
    // Another replica may have tentative what the first one has committed.
    good(&lines.replace("[0] = nil", "[1 0.1.2] = 2").replace("[0 0.1.1] = 1", "[1 0.1.2] = 2"));
}

#[test]
fn a_stable_reply_is_known_to_the_session() {
    let lines = "o 1@0.1.1 10 strong add n 1 | tentative 11 [0] = 1 | stable 20 [0] = 1
                 o 1@0.2   12 weak read n    | weak 13 [0] = nil
                 o 1@0.2   21 weak read n    | weak 22 [0] = nil
                 order 0.1.1";
    let forgets = |at: u64| {
        format!(
            "session forgets: the order of the read at site 0 at {at} of session 1 lacks operation \
             0.1.1 of session 1, which had been answered before"
        )
    };
    bad(lines, &[&forgets(12), &forgets(21)]);
    // Weak replies may hide it until it is committed.
    bad(&format!("acyclic\n{lines}"), &[&forgets(21)]);
    // The session may have moved before it received the stable reply.
    let moved = lines.replace("o 1@0.2   12 weak read n    | weak 13 [0] = nil\n", "");
    good(&format!("acyclic\n{}", moved.replace("o 1@0.2", "o 1@1.2")));
}

#[test]
fn acknowledged_operations_are_in_the_final_order() {
    let lost = |id: &str, session: u64, reason: &str| {
        format!("lost: the final order lacks operation {id} of session {session}, which {reason}")
    };
    let survives = lost("0.1.1", 1, "has a reply of a surviving site");
    let lines = "o 1@0.1.1 10 weak add n 1 | weak 11 [0] = 1\n";
    bad(lines, &[&survives]);
    good(&format!("{lines}destroyed 0"));
    good(&format!("{lines}unsettled"));
    good("o 1@0.1 10 weak read n | weak 11 [0] = nil");
    good("o 1@0.1.1 10 weak add n 1");
    bad(
        &format!("{lines}destroyed 0\no 2@1.1 12 weak read n | weak 13 [0 0.1.1] = 1"),
        &[&lost("0.1.1", 1, "the read at site 1 at 12 of session 2 saw at a surviving site")],
    );
    bad(
        "unsettled\no 1@0.1.1 10 strong add n 1 | stable 11 [0] = 1",
        &[&lost("0.1.1", 1, "has a stable reply")],
    );
}

#[test]
fn a_replica_forgets_nothing_committed() {
    let lines = "o 1@0.1.1 10 strong add n 1
                 c 1.1 20 [0 0.1.1]
                 o 2@1.1 21 weak read n | weak 22 [0 0.1.1] = 1
                 order 0.1.1";
    bad(
        lines,
        &["replica forgets: the order of the read at site 1 at 21 of session 2 has 0 committed \
           operations, but its replica had committed 1 before"],
    );
    good(&lines.replace("o 2@1.1 21", "o 2@1.1 20"));
    good(&lines.replace("o 2@1.1 21", "o 2@1.2 21"));
    good(&lines.replace("o 2@1.1 21", "o 2@0.1 21"));
    bad(
        "o 1@0.1.1 10 strong add n 1
         o 2@1.1 11 weak read n | weak 12 [1] = 1
         o 3@1.1 21 weak read n | weak 22 [0] = nil
         order 0.1.1",
        &["replica forgets: the order of the read at site 1 at 21 of session 3 has 0 committed \
           operations, but its replica had committed 1 before"],
    );
}

#[test]
fn a_replica_forgets_nothing_tentative() {
    let forgets = |by: &str| {
        format!(
            "replica forgets: the order of the read at site 1 at 21 of session 3 lacks operation \
             0.1.1 of session 1, which {by}"
        )
    };
    let lines = "o 1@0.1.1 10 weak add n 1
                 o 2@1.1 11 weak read n | weak 12 [0 0.1.1] = 1
                 o 3@1.1 21 weak read n | weak 22 [0] = nil
                 order 0.1.1";
    let by = "the read at site 1 at 11 of session 2 had seen at the same replica";
    bad(lines, &[&forgets(by)]);
    good(&lines.replace("weak 12", "weak 21"));
    good(&lines.replace("o 3@1.1", "o 3@1.2"));
    let lines = "o 1@1.1.1 10 weak add n 1 | weak 12 [0] = 1
                 o 3@1.1 21 weak read n | weak 22 [0] = nil
                 order 1.1.1";
    let own = forgets("the same replica had answered before").replace("0.1.1", "1.1.1");
    bad(lines, &[&own]);
    good(&lines.replace("weak 12", "weak 21"));
    // Weak replies may hide strong operations.
    let strong = lines.replace("10 weak", "10 strong").replace("weak 12", "tentative 12");
    bad(&strong, &[&own]);
    good(&format!("acyclic\n{strong}"));
}

#[test]
fn orders_have_no_gaps_in_runs() {
    let gap = |operation: &str, next: &str| {
        format!(
            "gap: the order of {operation} lacks operation 0.1.1, which precedes {next} in their run"
        )
    };
    let lines = "o -@0.1.1 10 weak add n 1
                 o 1@0.1.2 11 strong add n 1 | tentative 12 [0] = 1
                 o 2@1.1 11 weak read n | weak 12 [0 0.1.2] = 1
                 order 0.1.1 0.1.2";
    let own = "operation 0.1.2 of session 1";
    bad(lines, &[&gap(own, own), &gap("the read at site 1 at 11 of session 2", own)]);
    let strong = lines.replace("10 weak", "10 strong").replace("11 strong", "11 weak");
    good(&format!("acyclic\n{}", strong.replace("tentative", "weak")));
}

#[test]
fn orders_include_contexts() {
    let lines = "o 1@0.1.1 10 weak add n 1   | weak 11 [0] = 1
                 o 2@1.1.1 12 weak add n 2   | weak 13 [0 0.1.1] = 3
                 o 3@2.1   14 weak read n    | weak 15 [0 1.1.1] = 2
                 o 3@2.1   16 weak read n    | weak 17 [0 0.1.1 1.1.1] = 3
                 order 0.1.1 1.1.1";
    let incomplete = "incomplete context: the order of the read at site 2 at 14 of session 3 has \
                      operation 1.1.1 of session 2, but lacks operation 0.1.1 of session 1, which \
                      that one saw";
    bad(lines, &[incomplete]);
    bad(&lines.replace("[0 0.1.1] = 3", "[1] = 3"), &[incomplete]);
    // Undecided strong operations are in no context.
    good(&lines.replace("10 weak", "10 strong").replace("weak 11", "tentative 11"));
    // Weak operations may have none.
    good(&format!("strong-contexts\n{lines}"));
    // A tentative reply may know operations that have arrived since the invocation.
    let strong = lines.replace("12 weak", "12 strong").replace("weak 13", "tentative 13");
    good(&strong);
    let read = "o 2@1.1 11 weak read n | weak 12 [0 0.1.1] = 1\n";
    bad(&strong.replace("o 2@1.1.1", &format!("{read} o 2@1.1.1")), &[incomplete]);
    let contexts = format!("strong-contexts\n{strong}");
    bad(&contexts.replace("o 2@1.1.1", &format!("{read} o 2@1.1.1")), &[incomplete]);
}

#[test]
fn revisions_keep_what_replies_saw() {
    let lines = "o 1@0.1.1 10 weak append l a  | weak 11 [0] = 1
                 o 2@1.1.1 12 weak append l b  | weak 13 [0 0.1.1] = 2 | revised 14 [0] = 1
                 order 0.1.1 1.1.1";
    bad(
        lines,
        &["revision forgets: the order of a revised reply to operation 1.1.1 of session 2 lacks \
           operation 0.1.1 of session 1, which the reply before it saw"],
    );
    // Another strong operation may have stabilised the revised one, but not the strong one.
    good(
        &lines
            .replace("10 weak", "10 strong")
            .replace("weak 11", "tentative 11")
            .replace("0.1.1 1.1.1", "1.1.1 0.1.1"),
    );
}

#[test]
fn stable_replies_stand_for_the_final_order() {
    let lines = "o 1@0.1.1 10 strong add n 1 | tentative 11 [0] = 1 | stable 20 [1] = 3
                 o 2@1.1.1 10 strong add n 2 | tentative 11 [0] = 2 | stable 20 [0] = 2
                 order 1.1.1 0.1.1";
    good(lines);
    bad(
        &lines.replace("[1] = 3", "[1] = 1"),
        &["wrong stable result: the stable reply to operation 0.1.1 of session 1 is '1', but at \
           position 1 of the final order it is '3'"],
    );
    bad(
        &lines.replace("[1] = 3", "[0 1.1.1] = 3"),
        &[
            "order of a stable reply: the stable reply to operation 0.1.1 of session 1 stands for 0 \
           committed operations and then 1.1.1, but its position in the final order is 1",
        ],
    );
}

#[test]
fn stable_replies_follow_real_time() {
    let lines = "o 1@0.1.1 10 strong add n 1 | stable 20 [1] = 3
                 o 2@1.1.1 20 strong add n 2 | stable 30 [0] = 2
                 order 1.1.1 0.1.1";
    good(lines);
    bad(
        &lines.replace("20 strong", "21 strong"),
        &[
            "from the future: at 20, the order of the stable reply to operation 0.1.1 of session 1 \
             contains operation 1.1.1 of session 2, invoked at 21",
            "real time: operation 0.1.1 of session 1 had its stable reply before operation 1.1.1 \
             of session 2 was invoked, but follows it in the final order",
        ],
    );
}

#[test]
fn the_final_order_keeps_the_order_of_a_run() {
    let lines = "o -@0.1.1 10 weak add n 1
                 o -@0.1.2 11 strong add n 1
                 o -@0.1.3 12 strong add n 1
                 o -@0.1.4 13 weak add n 1
                 order 0.1.4 0.1.1 0.1.2 0.1.3";
    let order = |lines: &str, order: &str| {
        format!("{}order {order}", &lines[..lines.find("order").unwrap()])
    };
    let exchanges = |earlier: u64, later: u64| {
        format!(
            "order of a run: operation 0.1.{earlier} was invoked before operation 0.1.{later}, but \
             the final order exchanges them"
        )
    };
    bad(lines, &[&exchanges(1, 4)]);
    good(&order(lines, "0.1.1 0.1.4 0.1.2 0.1.3"));
    good(&order(lines, "0.1.1"));
    bad(&order(lines, "0.1.2 0.1.1 0.1.3 0.1.4"), &[&exchanges(1, 2)]);
    bad(&order(lines, "0.1.1 0.1.3 0.1.2 0.1.4"), &[&exchanges(2, 3)]);
    bad(
        &order(lines, "0.1.1 0.1.3"),
        &[
            "order of a run: operation 0.1.2 was invoked before operation 0.1.3, but the final order \
           lacks the former and has the latter",
        ],
    );
}

#[test]
fn the_final_order_keeps_session_order() {
    let lines = "o 1@0.1.1 10 strong add n 1 | tentative 11 [0] = 1
                 o 1@1.1.1 11 strong add n 2 | tentative 12 [0 0.1.1] = 3 | stable 20 [0] = 2
                 order 1.1.1 0.1.1";
    bad(
        lines,
        &["session order: operation 0.1.1 of session 1 was invoked before operation 1.1.1 of \
           session 1, but the final order exchanges them"],
    );
    // Without a reply, the session does not know its first operation.
    good(&lines.replace(" | tentative 11 [0] = 1", ""));
    // A weak operation may overtake a strong one.
    good(&lines.replace("11 strong", "11 weak").replace("tentative 12", "weak 12"));
}

#[test]
fn contexts_precede_in_the_final_order() {
    let lines = "o 1@0.1.1 10 weak add n 1   | weak 11 [0] = 1
                 o 2@1.1.1 12 weak add n 2   | weak 13 [0 0.1.1] = 3
                 order 1.1.1 0.1.1";
    let exchanged = "context: operation 1.1.1 of session 2 saw operation 0.1.1 of session 1, but \
                     the final order exchanges them";
    bad(lines, &[exchanged]);
    bad(
        &format!("unsettled\n{}", lines.replace("1.1.1 0.1.1", "1.1.1")),
        &["context: operation 1.1.1 of session 2 saw operation 0.1.1 of session 1, but the final \
           order lacks the former and has the latter"],
    );
    // Undecided strong operations are in no context.
    good(&lines.replace("10 weak", "10 strong").replace("weak 11", "tentative 11"));
    // Weak operations may have none.
    good(&format!("strong-contexts\n{lines}"));
    // A tentative reply may know operations that have arrived since the invocation.
    let strong = lines.replace("12 weak", "12 strong").replace("weak 13", "tentative 13");
    let strong = strong.replace("= 3", "= 3 | stable 20 [0] = 2");
    good(&strong);
    let read = "o 2@1.1 11 weak read n | weak 12 [0 0.1.1] = 1\n";
    bad(&strong.replace("o 2@1.1.1", &format!("{read} o 2@1.1.1")), &[exchanged]);
}

#[test]
fn weak_operations_see_one_another_in_no_circle() {
    bad(
        "o 1@0.1.1 10 weak add n 1 | weak 30 [0 1.1.1] = 3
         o 2@1.1.1 11 weak add n 2 | weak 30 [0 0.1.1] = 3
         order 0.1.1 1.1.1",
        &[
            "context: operation 0.1.1 of session 1 saw operation 1.1.1 of session 2, but the final \
             order exchanges them",
            "circle: operation 0.1.1 of session 1 saw operation 1.1.1 of session 2; operation \
             1.1.1 of session 2 saw operation 0.1.1 of session 1",
            "tentative order: each precedes the next in some order: operation 0.1.1 of session 1; \
             operation 1.1.1 of session 2; and the last precedes the first",
        ],
    );
}

#[test]
fn circles_pass_through_sessions_and_prefixes() {
    // The read sees 1.1.1 by its place in the final order, and 0.1.1 follows the read.
    bad(
        "o 1@0.1   10 weak read n  | weak 30 [1] = 2
         o 1@0.1.1 20 weak add n 1 | weak 31 [0] = 1
         o 2@1.1.1 25 weak add n 2 | weak 26 [0 0.1.1] = 3
         order 1.1.1 0.1.1",
        &[
            "context: operation 1.1.1 of session 2 saw operation 0.1.1 of session 1, but the final \
             order exchanges them",
            "circle: the read at site 0 at 10 of session 1 saw operation 1.1.1 of session 2; \
             operation 1.1.1 of session 2 saw operation 0.1.1 of session 1; operation 0.1.1 of \
             session 1 follows the read at site 0 at 10 of session 1",
        ],
    );
}

#[test]
fn replies_agree_on_the_order_of_tentative_operations() {
    let lines = "o 1@0.1.1 10 weak add n 1
                 o 2@1.1.1 10 weak add n 2
                 o 3@0.1   20 weak read n | weak 21 [0 0.1.1 1.1.1] = 3
                 o 4@1.1   20 weak read n | weak 21 [0 1.1.1 0.1.1] = 3
                 order 0.1.1 1.1.1";
    bad(
        lines,
        &["tentative order: each precedes the next in some order: operation 0.1.1 of session 1; \
           operation 1.1.1 of session 2; and the last precedes the first"],
    );
    // The final order need not agree.
    good(
        &lines
            .replace("[0 1.1.1 0.1.1]", "[0 0.1.1 1.1.1]")
            .replace("order 0.1.1 1.1.1", "order 1.1.1 0.1.1"),
    );
}

#[test]
fn acyclic_spaces_have_no_circles_through_strong_operations() {
    let lines = "o 1@0.1.1 10 strong add n 1 | tentative 11 [0] = 1 | stable 50 [1] = 3
                 o 2@1.1.1 20 weak add n 2   | weak 21 [0 0.1.1] = 3 | stable 50 [0] = 2
                 order 1.1.1 0.1.1";
    good(lines);
    bad(
        &format!("acyclic\n{lines}"),
        &[
            "circle: operation 0.1.1 of session 1 saw operation 1.1.1 of session 2; operation 1.1.1 \
           of session 2 saw operation 0.1.1 of session 1",
        ],
    );
}

#[test]
fn acyclic_spaces_promise_nothing_to_sessions_that_do_not_await_stable_replies() {
    let lines = "acyclic
                 o 1@0.1.1 10 strong add n 1 | tentative 11 [0] = 1 | stable 50 [1] = 3
                 o 1@0.1.2 20 weak add n 2   | weak 21 [0] = 2 | stable 50 [0] = 2
                 order 0.1.2 0.1.1";
    good(lines);
}

#[test]
fn committed_lists_are_prefixes() {
    let lines = "o -@0.1.1 10 weak nothing
                 o -@0.1.2 11 weak nothing
                 c 0.1 20 [0 0.1.1] = 5
                 c 0.1 21 [1 0.1.2] = 6
                 c 1.1 20 [0 0.1.1 0.1.2] = 6
                 order 0.1.1 0.1.2";
    good(lines);
    bad(
        &lines.replace("[0 0.1.1 0.1.2]", "[0 0.1.1 0.1.2 0.1.2]"),
        &["no prefix: site 1 in run 1 at 20 has 0.1.2 at position 2, where the final order ends"],
    );
    bad(
        &lines.replace("[1 0.1.2] = 6", "[0] = 6"),
        &[
            "shrank: site 0 in run 1 at 21 has 0 committed operations after 1",
            "behind: site 0 in run 1 at 21 has 0 of 2 committed operations in its last report",
        ],
    );
    bad(
        &lines.replace("0.1.2] = 6", "0.1.2] = 7").replacen("= 7", "= 6", 1),
        &["digests differ: site 0 in run 1 at 21 and site 1 in run 1 at 20 have different states \
           after 2 operations"],
    );
    bad(
        &lines.replace("[0 0.1.1 0.1.2] = 6", "[18446744073709551615] = 6"),
        &["ahead: site 1 in run 1 at 20 has 18446744073709551615 committed operations, but the \
           final order has 2"],
    );
    // A machine that starts again may have to commit again.
    good(&lines.replace("c 0.1 21 [1 0.1.2]", "c 0.2 21 [0 0.1.1 0.1.2]"));
}

#[test]
fn all_replicas_commit_everything_at_the_end() {
    let lines = "o -@0.1.1 10 weak nothing
                 c 0.1 20 [0 0.1.1]
                 c 1.1 20 [0]
                 order 0.1.1";
    bad(
        lines,
        &["behind: site 1 in run 1 at 20 has 0 of 1 committed operations in its last report"],
    );
    good(&format!("{lines}\ndestroyed 1"));
    good(&format!("{lines}\nunsettled"));
}
