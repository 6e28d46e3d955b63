//! Checks single files: they contain no marks of unfinished work, end with a line break, introduce
//! their crate, and keep to the width of lines.

use crate::finding::Finding;
use crate::source::{lines, mentions};
use crate::tree::Text;

/// Marks of unfinished work, written so that the check does not report this file.
const MARKS: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
];

/// The widest line of prose, in columns (`docs/style.md`).
const WIDTH: usize = 100;

/// Phrases that `docs/style.md` forbids everywhere, written so that the check does not report this
/// file.
const PHRASES: [&str; 18] = [
    concat!("Of so", " many"),
    concat!("ordering", " about"),
    concat!("hat became", " of"),
    concat!("is", " told"),
    concat!("are", " told"),
    concat!("was", " told"),
    concat!("to be", " told"),
    concat!("goes", " first"),
    concat!("makes", " way"),
    concat!("has", " not the"),
    concat!("have", " not the"),
    concat!("go", " wrong"),
    concat!("goes", " wrong"),
    concat!("went", " wrong"),
    concat!("started", " anew"),
    concat!("It is", " as if"),
    concat!("knows", " better"),
    concat!("led by", " what"),
];

/// Returns the findings in one file.
pub(crate) fn check(file: &Text) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !is_prose(file) && !is_output(file) {
        findings.extend(unfinished(file));
    }
    if !file.content.is_empty() && !file.content.ends_with('\n') {
        let last = file.content.lines().count();
        let fix = "end the file with a line break";
        findings.push(Finding::new(&file.path, last, "the last line has no end", fix));
    }
    findings.extend(prose(file));
    findings.extend(phrases(file));
    if file.path.starts_with("crates") {
        findings.extend(unintroduced(file));
        findings.extend(unwraps(file));
    }
    findings
}

/// Returns whether a file is a document, which may mention the marks.
fn is_prose(file: &Text) -> bool {
    file.has_extension("md") || file.path.ends_with("LICENSE")
}

/// Returns whether a file is recorded output of the compiler, whose advice may contain the marks.
fn is_output(file: &Text) -> bool {
    file.has_extension("stderr")
}

fn unfinished(file: &Text) -> Vec<Finding> {
    let numbered = (1..).zip(file.content.lines());
    let found = numbered.flat_map(|(number, line)| {
        MARKS.into_iter().filter(|mark| mentions(line, mark)).map(move |mark| (number, mark))
    });
    let fix = "finish it, or document in docs/ what is missing";
    found
        .map(|(number, mark)| Finding::new(&file.path, number, format!("unfinished: {mark}"), fix))
        .collect()
}

/// Reports forbidden phrases in code, comments and documents, including examples and texts that
/// tests expect.
fn phrases(file: &Text) -> Vec<Finding> {
    let checked = ["rs", "md", "mixt", "txt", "toml"].iter().any(|end| file.has_extension(end));
    if !checked || file.path.ends_with("docs/style.md") {
        return Vec::new();
    }
    let numbered = (1..).zip(file.content.lines());
    let found = numbered.flat_map(|(number, line)| {
        let phrases = PHRASES.into_iter().filter(|phrase| line.contains(phrase));
        phrases.map(move |phrase| (number, format!("the phrase \"{phrase}\"")))
    });
    found
        .map(|(number, what)| Finding::new(&file.path, number, what, "see docs/style.md"))
        .collect()
}

/// Reports lines of comments and documents that are too wide. Tables, code, and lines without a
/// space may be wider.
fn prose(file: &Text) -> Vec<Finding> {
    let (is_source, is_document) = (file.has_extension("rs"), file.has_extension("md"));
    if !(is_source || is_document) || file.path.ends_with("docs/style.md") {
        return Vec::new();
    }
    let mut in_code = false;
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.content.lines()) {
        let comment =
            line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']));
        let Some(text) = (if is_source { comment } else { Some(line) }) else {
            in_code &= !is_source;
            continue;
        };
        let text = text.trim();
        if text.starts_with("```") {
            in_code = !in_code;
        }
        if in_code || text.starts_with("```") {
            continue;
        }
        if line.chars().count() > WIDTH && !text.starts_with('|') && text.contains(' ') {
            let what = format!("the line is wider than {WIDTH} columns");
            findings.push(Finding::new(&file.path, number, what, "break it"));
        }
    }
    findings
}

/// Reports a crate that does not begin with a description of its purpose.
fn unintroduced(file: &Text) -> Option<Finding> {
    let begins_crate = ["src/lib.rs", "src/main.rs"].iter().any(|end| file.path.ends_with(end));
    let first = file.content.lines().find(|line| !line.is_empty() && !line.starts_with("#!["));
    let introduced = first.is_some_and(|line| line.starts_with("//!"));
    let what = "the crate has no introduction";
    let fix = "begin the file with a `//!` comment";
    (begins_crate && !introduced).then(|| Finding::new(&file.path, 1, what, fix))
}

/// Reports `unwrap` outside of tests.
fn unwraps(file: &Text) -> Vec<Finding> {
    let source = file.has_extension("rs")
        && file.path.components().nth(2).is_some_and(|folder| folder.as_os_str() == "src")
        && !file.path.ends_with("tests.rs");
    if !source {
        return Vec::new();
    }
    let fix = "return an error, or `expect` with the invariant that makes it impossible";
    lines(&file.content)
        .iter()
        .filter(|line| !line.in_test && line.code.contains(".unwrap()"))
        .map(|line| Finding::new(&file.path, line.number, "unwrap outside of tests", fix))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, content: &str) -> Vec<usize> {
        let file = Text { path: path.into(), content: content.to_owned() };
        check(&file).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unfinished_work_is_found_but_for_documents() {
        for mark in MARKS {
            assert_eq!(found("test", &format!("a\n# {mark}\n")), [2], "{mark}");
            assert_eq!(found("docs/a.md", &format!("{mark}\n")), [0; 0], "{mark}");
            assert_eq!(found("crates/a/tests/b.stderr", &format!("{mark}\n")), [0; 0], "{mark}");
        }
        assert_eq!(found("a.rs", "fn mastodon() {}\n"), [0; 0]);
    }

    #[test]
    fn prose_keeps_to_the_width_and_tables_and_code_need_not() {
        let wide = format!("wide {}", "w".repeat(WIDTH));
        for (path, content, expected) in [
            ("docs/a.md", format!("a\n{wide}\n"), &[2][..]),
            ("docs/a.md", format!("| {wide} |\n```\n{wide}\n```\n{wide}\n"), &[5]),
            ("a.rs", format!("/// {wide}\nfn a() {{}} {wide}\n    // {wide}\n"), &[1, 3]),
            ("a.rs", format!("/// ```\n/// {wide}\n/// ```\n//! | {wide} |\n"), &[]),
            ("a.rs", format!("/// {}\n", "w".repeat(WIDTH)), &[]),
            ("a.toml", format!("# {wide}\n"), &[]),
        ] {
            assert_eq!(found(path, &content), expected, "{content}");
        }
    }

    #[test]
    fn phrases_that_are_never_right_are_found() {
        for phrase in PHRASES {
            assert_eq!(found("a.rs", &format!("/// {phrase} workers.\n")), [1]);
            assert_eq!(found("a.rs", &format!("let text = \"{phrase}\";\n")), [1]);
            assert_eq!(found("a.mixt", &format!("// {phrase}\n")), [1]);
            assert_eq!(found("docs/a.md", &format!("{phrase}\n")), [1]);
            assert_eq!(found("docs/style.md", &format!("{phrase}\n")), [0; 0]);
        }
    }

    #[test]
    fn files_end_their_last_line() {
        assert_eq!(found("a.toml", "a = 1\nb = 2"), [2]);
        assert_eq!(found("a.toml", ""), [0; 0]);
    }

    #[test]
    fn crates_say_what_they_are_for() {
        assert_eq!(found("crates/a/src/lib.rs", "fn a() {}\n"), [1]);
        assert_eq!(found("crates/a/src/main.rs", "\n"), [1]);
        assert_eq!(found("crates/a/src/lib.rs", "#![no_std]\n\n//! A.\n"), [0; 0]);
        assert_eq!(found("crates/a/src/b.rs", "fn a() {}\n"), [0; 0]);
    }

    #[test]
    fn unwrap_is_for_tests() {
        let tested = "fn a() { b.unwrap() }\n#[cfg(test)]\nmod tests { fn c() { d.unwrap() } }\n";
        assert_eq!(found("crates/a/src/b.rs", tested), [1]);
        assert_eq!(found("crates/a/tests/b.rs", tested), [0; 0]);
    }
}
