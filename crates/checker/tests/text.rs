//! The text format: every form once, and the texts that the parser rejects.

use solera_checker::History;
use solera_checker::text::{BadWord, ParseError, Reason};

/// Every form in `docs/formats/history.md`, in canonical notation.
const ALL: &str = r#"solera-history 1
sites 2
destroyed 1
conflict withdraw withdraw
conflict "a b" *
t 0@0 committed [0 0] 7@0 | a GET = (nil) | a SET "two words" = ok | a DEL = 1 | a EXISTS = 0
t 0@1 aborted [7 0] | n INCRBY -4 = error | "nil" SADD x "" = 2 | s SREM x "nil" = ?
t 1@0 unknown [0 9223372036854775808] 8@1 lost | s SMEMBERS = {x y} | s SISMEMBER x = 1 | s SCARD = 2
t 1@0 5..7 committed [7 0 !12] 15@strong | !a SETNX x = 0 | withdraw!n INCRBY -1 = 3 | "a b"!n GET = (3)
t 1@0 8.. unknown [7 0 !15] | !!lock GET = ?
t 2@0 committed | ~h HSET f "|=~" = 1
t 2@0 committed lost | h HINCRBY f 3 = 3 | h HDEL f g = 1 | h HMGET f g = ("a\"\\\n" nil "nil") | h HGETALL = <f "é"> | h NEWEST 2 = ("é")
final 0 a = (nil) {} <>
final 1 user:1 = error {x} error
"#;

fn reason(text: &str) -> (usize, Reason) {
    let ParseError { line, reason } = text.parse::<History>().unwrap_err();
    (line, reason)
}

#[test]
fn every_form_reads_back_as_it_was_written() {
    let history: History = ALL.parse().unwrap();
    assert_eq!(history.to_string(), ALL);
    assert_eq!(history.transactions.len(), 7);
    assert_eq!(history.destroyed, [1]);
    assert_eq!(history.conflicts.len(), 2);
}

#[test]
fn comments_and_blank_lines_are_skipped() {
    let text = "# what it was\n\nsolera-history 1 # the first\nsites 1\n  t 0@0 committed | \"#\" GET = (nil)";
    let history: History = text.parse().unwrap();
    assert_eq!(history.transactions[0].operations[0].key, "#");
}

#[test]
fn bad_text_is_refused_with_its_line() {
    let expected = |what, found: &str| Reason::Expected { what, found: found.to_owned() };
    let in_history = |line: &str| reason(&format!("solera-history 1\nsites 2\n{line}"));
    assert_eq!(reason(""), (1, Reason::UnknownFormat));
    assert_eq!(reason("solera-history 2"), (1, Reason::UnknownFormat));
    assert_eq!(reason("solera-history 1\n"), (1, Reason::Sites));
    assert_eq!(reason("solera-history 1\nt 0@0 committed"), (2, Reason::Sites));
    assert_eq!(in_history("sites 2"), (3, Reason::Sites));
    assert_eq!(in_history("t 0@2 committed"), (3, Reason::NoSuchSite(2)));
    assert_eq!(in_history("t 0@0 committed [1]"), (3, Reason::SnapshotLength(1)));
    assert_eq!(in_history("t 0@0 committed [1 2] 5@2"), (3, Reason::NoSuchSite(2)));
    assert_eq!(in_history("t 0@0 committed [1 !3]"), (3, Reason::SnapshotLength(1)));
    assert_eq!(in_history("t 0@0 committed [1 2 !3 4]").1, expected("']'", "4"));
    assert_eq!(in_history("t 0@0 committed [1 2 !x]").1, expected("a strong timestamp", "x"));
    let times = |found: &str| expected("two times such as 5..7, or 5..", found);
    assert_eq!(in_history("t 0@0 5..x committed").1, times("5..x"));
    assert_eq!(in_history("t 0@0 ..5 committed").1, times("..5"));
    let order = expected("an answer after its request", "5..4");
    assert_eq!(in_history("t 0@0 5..4 committed").1, order);
    assert_eq!(in_history("conflict withdraw").1, expected("a kind", ""));
    assert_eq!(in_history("t 0@0 committed | !!!a GET = ?").1, expected("a key", "!"));
    assert_eq!(in_history("t 0@0 committed | ~!a GET = ?").1, expected("a key", "!"));
    assert_eq!(in_history("t 0@0 done").1, expected("'committed', 'aborted' or 'unknown'", "done"));
    assert_eq!(in_history("t 0@0 committed | a POP = 1").1, expected("an operation", "POP"));
    assert_eq!(in_history("t 0@0 committed | a GET").1, expected("'='", ""));
    assert_eq!(
        in_history("t 0@0 committed | a SADD x = 1 2").1,
        expected("the end of the line", "2")
    );
    assert_eq!(in_history("t 0@0 committed | a INCRBY x = 1").1, expected("a number", "x"));
    assert_eq!(in_history("t 0@0 committed | \"a").1, Reason::Words(BadWord::OpenQuote));
    assert_eq!(in_history(r#"t 0@0 committed | "\a""#).1, Reason::Words(BadWord::Escape));
    assert_eq!(in_history("t 0@0 committed | a$").1, Reason::Words(BadWord::Unquoted('$')));
}

#[test]
fn the_documented_example_is_a_good_history() {
    let document = include_str!("../../../docs/formats/history.md");
    let example = document.split("```").nth(1).unwrap();
    let history: History = example.trim().parse().unwrap();
    assert_eq!(history.transactions.len(), 8);
    assert_eq!(solera_checker::check(&history), []);
}
