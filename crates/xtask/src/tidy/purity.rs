//! Vocabulary, protocols and checkers do no I/O and have no hidden inputs.

use crate::finding::Finding;
use crate::source::{Line, lines, mentions};
use crate::tree::Text;

/// What such crates must not mention, and why.
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

/// Findings in one source file. Tests may do as they like.
pub(crate) fn check(file: &Text) -> Vec<Finding> {
    if !file.has_extension("rs") || file.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let lines = lines(&file.content);
    let code: Vec<&Line> = lines.iter().filter(|line| !line.in_test).collect();
    let mut findings = Vec::new();
    for (number, text) in statements(&code) {
        for (word, mend) in WORLDLY.iter().filter(|(word, _)| mentions(&text, word)) {
            let what = format!("{word} in a crate without I/O and hidden inputs");
            findings.push(Finding::new(&file.path, number, what, *mend));
        }
    }
    findings
}

/// The code line by line, but each path of a `use` by itself: `use std::{fs, net::TcpStream};` hides
/// what it brings in from a search for words.
fn statements(code: &[&Line]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut import: Option<(usize, String)> = None;
    for line in code {
        let (number, text) = match (import.take(), imported(&line.code)) {
            (Some((number, begun)), _) => (number, begun + &line.code),
            (None, Some(tree)) => (line.number, tree.to_owned()),
            (None, None) => {
                found.push((line.number, line.code.clone()));
                continue;
            }
        };
        match text.split_once(';') {
            Some((tree, _)) => {
                found.extend(paths("", tree).into_iter().map(|path| (number, path)));
            }
            None => import = Some((number, text)),
        }
    }
    found
}

/// What follows `use` where a line begins with it, and perhaps with a visibility.
fn imported(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => code,
    };
    code.trim_start().strip_prefix("use ")
}

/// The full paths of a tree of imports.
fn paths(prefix: &str, tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![format!("{prefix}{}", tree.trim().trim_start_matches("::"))];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let prefix = format!("{prefix}{}", head.trim());
    let nonempty = branches(inside).into_iter().filter(|branch| !branch.trim().is_empty());
    nonempty.flat_map(|branch| paths(&prefix, branch)).collect()
}

/// Splits at the commas that are in no braces.
fn branches(inside: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let comma = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    inside.split(comma).collect()
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
