//! Compares the parser's errors for wrong sources, and the normal form of correct ones, with files.
//!
//! `tests/testdata/parse/bad/NAME.mixt` contains sources with errors, one after another; a line
//! `//# title` begins each of them. `NAME.txt` beside it contains their errors.
//! `tests/testdata/parse/good/*.mixt` are sources that the parser reads without errors. `NAME.txt`
//! beside one of them, if it exists, contains its normal form. `grammar.mixt` is only correct
//! syntax: its names and types have no meaning. With `REWRITE=1` in the environment, the tests
//! write these files instead; read the difference before committing it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use solera_language::render::{render, short};
use solera_language::syntax::{MAX_CHAIN, MAX_ERRORS, MAX_SOURCE, parse, parse_bytes, print};

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/parse").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mixt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).unwrap())).collect()
}

fn hold(path: &Path, found: &str) {
    if std::env::var_os("REWRITE").is_some() {
        return std::fs::write(path, found).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    let line = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{} differs from line {} on; it would be:\n{found}\n(REWRITE=1 writes it)",
        path.display(),
        line.unwrap_or_else(|| found.lines().count().min(expected.lines().count())) + 1,
    );
}

#[test]
fn good_sources_have_no_errors() {
    for (path, source) in sources("good") {
        let diagnostics = parse(&source).diagnostics;
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(diagnostics.is_empty(), "{}", render(&diagnostics, &name, &source, false));
    }
}

#[test]
fn good_sources_are_printed_in_their_normal_form() {
    for (path, source) in sources("good") {
        hold(&path.with_extension("txt"), &print(&parse(&source).module));
    }
}

#[test]
fn errors_match_the_files() {
    for (path, sources) in sources("bad") {
        let mut rendered = String::new();
        for case in sources.split("//# ").skip(1) {
            let (title, source) = case.split_once('\n').unwrap();
            let parsed = parse(source);
            assert!(!parsed.diagnostics.is_empty(), "no error: {title}");
            writeln!(rendered, "# {title}").unwrap();
            writeln!(rendered, "{}", render(&parsed.diagnostics, "bad.mixt", source, false))
                .unwrap();
        }
        hold(&path.with_extension("txt"), &rendered);
    }
}

/// Returns the codes of the errors in a source.
fn codes(source: &str) -> Vec<&'static str> {
    parse(source).diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

/// Returns a transaction with these statements.
fn doing(statements: &str) -> String {
    format!("transaction t() {{ {statements} }}")
}

/// Runs a function with a small stack, which a tree that is too deep would overflow.
fn with_little_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn deep_nesting_is_one_error() {
    with_little_stack(|| {
        let shapes = [
            ("(", "var x = "),
            ("-", "var x = "),
            ("!", "var x = "),
            ("*", "var x = "),
            ("[", "var x = "),
            ("f(", "var x = "),
            ("x[", "var x = "),
            ("set[", "var x = "),
            ("map[1:", "var x = "),
            ("A{a:", "var x = "),
            ("endorse(a,", "var x = "),
            ("a || b && c == d + e * (", "var x = "),
            ("new A{a:", "var x = "),
            ("handle<int>(", "var x = "),
            ("list<", "var x: "),
            ("{", ""),
            ("if a {", ""),
            ("while a {", ""),
            ("for a in b {", ""),
            ("match a { _ => {", ""),
            ("if a {} else {", ""),
        ];
        for (part, before) in shapes {
            let source = format!(
                "transaction t() {{ {before}{}",
                part.repeat(100_000.min(MAX_SOURCE / part.len() - 20))
            );
            let parsed = parse(&source);
            let deep = parsed.diagnostics.iter().filter(|error| error.code == "E0019").count();
            assert_eq!(deep, 1, "{part}");
            print(&parsed.module);
        }
        // Each of these is a separate error, so that the maximum number of errors is reported.
        for (part, before) in
            [("& ", "var x = "), ("not ", "var x = "), ("a ? b : ", "var x = "), ("if a ", "")]
        {
            let source = doing(&format!("{before}{}", part.repeat(20_000)));
            assert_eq!(parse(&source).diagnostics.len(), MAX_ERRORS, "{part}");
        }
    });
}

/// Whether a handle of a key begins is decided by the tokens after it, up to a limit.
#[test]
fn what_only_begins_like_a_handle_is_read_once() {
    let source =
        doing(&format!("var x = f({});", "[handle < x<a, 1], ".repeat(MAX_SOURCE / 19 - 20)));
    assert_eq!(parse(&source).diagnostics.len(), MAX_ERRORS);
}

#[test]
fn long_chains_are_one_error_and_shorter_ones_none() {
    with_little_stack(|| {
        let shapes = [
            ("var x = a", " + a", ";"),
            ("var x = a", ".b", ";"),
            ("var x = a", ".b()", ";"),
            ("var x = a", "[0]", ";"),
            ("var x = a", "->b", ";"),
            ("if a {}", " else if a {}", ""),
            ("if a {} else if b {", " if a {} else if a {", ""),
            ("match a { ", "1 => {} ", "}"),
            ("match a { 1 => {", " match a { 1 => {} 2 => {} 3 => {", ""),
        ];
        for (before, link, after) in shapes {
            let chain = |links: usize| doing(&format!("{before}{}{after}", link.repeat(links)));
            let parsed = parse(&chain(100_000 / link.len()));
            assert_eq!(
                parsed.diagnostics.iter().filter(|d| d.code == "E0019").count(),
                1,
                "{link}"
            );
            print(&parsed.module);
            if !link.ends_with('{') {
                let source = chain(MAX_CHAIN);
                assert_eq!(codes(&source), [""; 0], "{link}");
                assert_eq!(codes(&print(&parse(&source).module)), [""; 0], "{link}");
            }
        }
    });
}

#[test]
fn many_statements_are_no_deep_nesting() {
    let source = doing(&"if a { b = c + 1; } ".repeat(10_000));
    assert_eq!(codes(&source), [""; 0]);
    let source = doing(&format!("var x = [{}];", "f(a + 1, -b), ".repeat(10_000)));
    assert_eq!(codes(&source), [""; 0]);
}

#[test]
fn sources_that_are_too_large_are_rejected() {
    let large = " ".repeat(MAX_SOURCE);
    assert_eq!(codes(&large), [""; 0]);
    let too_large = large + " ";
    assert_eq!(codes(&too_large), ["E0020"]);
    let parsed = parse_bytes(&vec![0xff; MAX_SOURCE + 1]).unwrap();
    assert_eq!(parsed.diagnostics[0].code, "E0020");
}

#[test]
fn errors_beyond_a_limit_are_counted() {
    let parsed = parse(&doing(&"var 1;".repeat(2 * MAX_ERRORS)));
    assert_eq!(parsed.diagnostics.len(), MAX_ERRORS);
    assert_eq!(parsed.diagnostics[MAX_ERRORS - 1].notes.len(), 1);
}

#[test]
fn bytes_that_are_not_utf_8_are_rejected_with_their_position() {
    assert!(parse_bytes(b"store a : causal;").unwrap().diagnostics.is_empty());
    let error = parse_bytes(b"// \xc3\xa4\n// \xff").unwrap_err();
    assert_eq!(error.byte, 9);
    assert_eq!(
        error.to_string(),
        "the source is not UTF-8: byte 9, at 2:4, belongs to no character"
    );
}

#[test]
fn a_byte_order_mark_and_crlf_line_ends_are_accepted() {
    assert_eq!(codes("\u{feff}store a : causal;\r\nstore b : causal;\r\n"), [""; 0]);
}

#[test]
fn the_short_form_has_the_position_and_the_message() {
    let source = "store a : causal;\n\tstore b causal;";
    let parsed = parse(source);
    assert_eq!(
        short(&parsed.diagnostics[0], "a.mixt", source),
        "a.mixt:2:10: error[E0006]: expected `:` and a level after the name of the store, found `causal`"
    );
}

#[test]
fn every_code_is_documented_and_occurs_in_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let codes = std::fs::read_to_string(root.join("src/syntax/codes.rs")).unwrap();
    let grammar =
        std::fs::read_to_string(root.join("../../docs/reference/language-grammar.md")).unwrap();
    let mut seen = std::fs::read_to_string(file!().replace("crates/language/", "")).unwrap();
    for (path, _) in sources("bad") {
        seen += &std::fs::read_to_string(path.with_extension("txt")).unwrap();
    }
    let codes: Vec<_> = codes.split('"').filter(|part| part.starts_with("E00")).collect();
    assert!(!codes.is_empty());
    for code in codes {
        assert!(grammar.contains(&format!("| {code} |")), "{code} is not in the table");
        assert!(seen.contains(code), "{code} is in no test");
    }
}
