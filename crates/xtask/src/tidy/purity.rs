//! Checks that crates of the vocabulary, protocols and checkers do no I/O and have no hidden
//! inputs.

use crate::finding::Finding;
use crate::imports::{Statement, statements};
use crate::source::{Line, lines, mentions};
use crate::tree::Text;

/// Words that such crates must not contain, with the alternative.
const WORLDLY: &[(&str, &str)] = &[
    ("std::net", "let the host hold the sockets"),
    ("std::fs", "let the host hold the files"),
    ("std::thread", "let the host hold the threads"),
    ("std::env", "take settings as configuration"),
    ("std::process", "let the host decide about processes"),
    ("std::io::stdin", "let the host talk to people"),
    ("std::io::stdout", "let the host talk to people"),
    ("std::io::stderr", "let the host talk to people"),
    ("print!", "let the host talk to people"),
    ("println!", "let the host talk to people"),
    ("eprint!", "let the host talk to people"),
    ("eprintln!", "let the host talk to people"),
    ("dbg!", "let the host talk to people"),
    ("Instant::now", "take the time as an input"),
    ("SystemTime::now", "take the time as an input"),
    ("RandomState", "take a seed as configuration"),
    ("std::collections::HashMap", "its order differs from run to run; use BTreeMap or hashbrown"),
    ("std::collections::HashSet", "its order differs from run to run; use BTreeSet or hashbrown"),
    ("std::collections::hash_map", "its order differs from run to run; use BTreeMap or hashbrown"),
    ("std::collections::hash_set", "its order differs from run to run; use BTreeSet or hashbrown"),
    ("std::collections::*", "name what you take, so that it can be checked"),
    ("std::*", "name what you take, so that it can be checked"),
    ("tokio", "machines are not asynchronous; park the request instead"),
    ("async fn", "machines are not asynchronous; park the request instead"),
];

/// Reports the forbidden words in one source file. The rule does not apply to tests.
pub(crate) fn check(file: &Text) -> Vec<Finding> {
    if !file.has_extension("rs") || file.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let lines = lines(&file.content);
    let code: Vec<&Line> = lines.iter().filter(|line| !line.in_test).collect();
    let mut findings = Vec::new();
    for Statement { number, text, .. } in statements(&code) {
        for (word, fix) in WORLDLY.iter().filter(|(word, _)| mentions(&text, word)) {
            let what = format!("{word} in a crate without I/O and hidden inputs");
            findings.push(Finding::new(&file.path, number, what, *fix));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let file = Text { path: "crates/x/src/a.rs".into(), content: text.to_owned() };
        check(&file).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn io_and_hidden_inputs_are_found() {
        assert_eq!(found("use std::net::TcpStream;\n"), [1]);
        assert_eq!(found("fn a() {\n    let t = std::time::Instant::now();\n}\n"), [2]);
        assert_eq!(found("pub(crate) use std::fs;\n"), [1]);
        assert_eq!(found("fn a() { println!(); }\n"), [1]);
        assert_eq!(found("type M = std::collections::HashMap<u8, u8>;\n"), [1]);
    }

    #[test]
    fn imports_are_taken_apart() {
        assert_eq!(
            found("use std::{\n    fmt,\n    fs, net::{TcpStream, UdpSocket},\n};\n"),
            [1, 1, 1]
        );
        assert_eq!(found("use std::collections::{BTreeMap, HashMap};\n"), [1]);
        assert_eq!(found("use std::collections::BTreeMap;\nuse hashbrown::HashMap;\n"), [0; 0]);
        assert_eq!(found("use std::collections::*;\n"), [1]);
    }

    #[test]
    fn comments_texts_and_tests_may_say_it() {
        assert_eq!(found("// std::fs\nlet a = \"std::fs\";\n"), [0; 0]);
        assert_eq!(found("#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"), [0; 0]);
        assert_eq!(found("#[cfg(test)]\nmod tests {\n}\nuse std::fs;\n"), [4]);
    }
}
