//! The text format: every form once, and the texts that the parser rejects.

use solera_checker::speculative::{History, check};
use solera_checker::text::{BadWord, ParseError, Reason};

/// Every form in `docs/formats/speculative-history.md`, in canonical notation.
const ALL: &str = r#"solera-speculative-history 1
acyclic
strong-contexts
unsettled
destroyed 2
o 3@0.1.5 120 weak add "a b" -2 | weak 125 [4 0.1.3 1.1.2] = 7 | revised 150 [6] = failed overflow | stable 180 [6] = 9
o 4@1.1.9 130 strong transfer a b 5 | tentative 133 [4] = failed too-little | stable 190 [8] = <1 nil>
o 5@2.1 140 weak read "nil" | weak 141 [6] = nil
o 5@2.1 142 weak read-many a b | weak 143 [6] = <"x" (y "nil" "")>
o -@0.1.6 150 strong nothing
o 6@0.1.7 151 weak write a "7" | weak 152 [0] = done
o 6@0.1.8 151 weak write a nil
o 6@0.1.9 151 weak append a "\"" | weak 152 [0] = failed wrong-type
o 6@0.1.10 151 weak put-if-absent a (x y) | weak 152 [0] = "x"
o 6@0.1.11 151 weak compare-and-set a 1 nil b nil () | weak 152 [0] = failed differs a
o 6@0.1.12 151 strong commands get "a b" set c "x y" incr-by n -5 set-add s (a b) set-remove s () set-members s delete c | tentative 152 [0] = {nil done failed not-a-number 2 0 (a b) "x"}
c 0.1 160 [0 0.1.1 0.1.2] = 18446744073709551615
c 1.1 160 [7]
order 0.1.1 0.1.2 1.1.2
"#;

fn reason(text: &str) -> (usize, Reason) {
    let ParseError { line, reason } = text.parse::<History>().unwrap_err();
    (line, reason)
}

#[test]
fn every_form_reads_back_as_it_was_written() {
    let history: History = ALL.parse().unwrap();
    assert_eq!(history.to_string(), ALL);
    assert_eq!(history.operations.len(), 11);
}

#[test]
fn long_orders_take_several_lines() {
    let ids: Vec<String> = (1..=40).map(|event| format!("0.1.{event}")).collect();
    let text = format!("solera-speculative-history 1\norder {}\n", ids.join(" "));
    let history: History = text.parse().unwrap();
    let again: History = history.to_string().parse().unwrap();
    assert_eq!(again.order.len(), 40);
    assert_eq!(again, history);
}

#[test]
fn bad_text_is_refused_with_its_line() {
    let expected = |what, found: &str| Reason::Expected { what, found: found.to_owned() };
    let format = "'solera-speculative-history 1'";
    assert_eq!(reason(""), (1, expected(format, "")));
    assert_eq!(reason("solera-speculative-history 2"), (1, expected(format, "2")));
    assert_eq!(reason("\nsolera-history 1"), (2, expected(format, "solera-history")));
    let bad = |line: &str, what, found| {
        let result = reason(&format!("solera-speculative-history 1\n{line}"));
        assert_eq!(result, (2, expected(what, found)), "{line}");
    };
    bad("acyclic 1", "the end of the line", "1");
    bad("t", "'acyclic', 'strong-contexts', 'unsettled', 'destroyed', 'o', 'c' or 'order'", "t");
    bad("o x@0.1.1", "a session or '-'", "x");
    bad("o 1 0.1.1", "'@'", "0.1.1");
    bad("o 1@0", "an identifier such as 0.1.5", "0");
    bad("o 1@0.1.2.3", "an identifier such as 0.1.5", "0.1.2.3");
    bad("o 1@0.1.-2", "an identifier such as 0.1.5", "0.1.-2");
    bad("o 1@0.1.2 x", "an instant", "x");
    bad("o 1@0.1.2 3 causal", "'weak' or 'strong'", "causal");
    bad("o 1@0.1.2 3 weak drop", "a procedure", "drop");
    bad("o 1@0.1.2 3 weak add a", "a number", "");
    bad("o 1@0.1.2 3 weak transfer a b -1", "an amount", "-1");
    bad("o 1@0.1.2 3 weak put-if-absent a nil", "a value", "nil");
    bad("o 1@0.1.2 3 weak write a x", "a value", "x");
    bad("o 1@0.1.2 3 weak nothing | late 4", "'weak', 'tentative', 'revised' or 'stable'", "late");
    bad("o 1@0.1.2 3 weak nothing | weak 4 = done", "'['", "=");
    bad("o 1@0.1.2 3 weak nothing | weak 4 [] = done", "a number of operations", "]");
    bad("o 1@0.1.2 3 weak nothing | weak 4 [0 1] = done", "an identifier such as 0.1.5", "1");
    bad("o 1@0.1.2 3 weak nothing | weak 4 [0]", "'='", "");
    bad("o 1@0.1.2 3 weak nothing | weak 4 [0] = failed x", "a failure", "x");
    bad("o 1@0.1.2 3 weak nothing | weak 4 [0] = <1", "a value", "");
    bad("o 1@0.1.2 3 weak nothing | weak 4 [0] = (x", "a text or ')'", "");
    bad("o 1@0.1.2 3 weak commands drop a", "a command", "drop");
    bad("o 1@0.1.2 3 weak commands set-add a b", "'('", "b");
    bad("o 1@0.1.2 3 weak commands | weak 4 [0] = {done", "a value", "");
    bad("c 0.1.1", "a site and a run such as 0.1", "0.1.1");
    bad("c 0.1 5 [0] = x", "a digest", "x");
    bad("order 5", "an identifier such as 0.1.5", "5");
    let quoted = reason("solera-speculative-history 1\no 1@0.1.1 2 weak read \"a");
    assert_eq!(quoted, (2, Reason::Words(BadWord::OpenQuote)));
}

#[test]
fn the_documented_example_is_a_good_history() {
    let document = include_str!("../../../../docs/formats/speculative-history.md");
    let example = document.split("```").nth(1).unwrap();
    let history: History = example.trim().parse().unwrap();
    assert_eq!(history.operations.len(), 7);
    assert_eq!(check(&history), []);
}
