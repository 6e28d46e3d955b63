//! Compares the documentation with the compiler: its examples, and the list of codes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use solera_language::codes;
use solera_language::compile::compile;
use solera_language::diagnostic::Severity;
use solera_language::render::render;
use solera_language::syntax::{MAX_NESTING, MAX_SOURCE};

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the sources in a Markdown text, each between two fences.
fn examples(text: &str) -> Vec<String> {
    let blocks = text.split("```mixt\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap().to_owned()).collect()
}

/// Returns the codes of the diagnostics of a source.
fn found(source: &str) -> Vec<&'static str> {
    compile(source).diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

/// Returns the codes that occur in the crate's sources in quotes.
fn emitted() -> BTreeSet<String> {
    let mut files: Vec<PathBuf> = vec![crate_folder().join("src")];
    let mut codes = BTreeSet::new();
    while let Some(file) = files.pop() {
        if file.is_dir() {
            files.extend(fs::read_dir(file).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(file).unwrap();
        let code = |word: &&str| {
            word.len() == 5
                && word.starts_with(['E', 'W'])
                && word[1..].bytes().all(|letter| letter.is_ascii_digit())
        };
        codes.extend(text.split('"').filter(code).map(str::to_owned));
    }
    codes
}

#[test]
fn every_code_has_one_explanation_and_every_explained_code_exists() {
    let explained: Vec<String> = codes::all().map(|meaning| meaning.code.to_owned()).collect();
    let once: BTreeSet<String> = explained.iter().cloned().collect();
    assert_eq!(explained.len(), once.len(), "a code is explained twice");
    assert_eq!(once, emitted());
}

/// Returns sources for codes whose examples would be too long for the page.
fn long_example(code: &str) -> Option<String> {
    match code {
        "E0019" => {
            let depth = MAX_NESTING + 1;
            let (open, close) = ("(".repeat(depth), ")".repeat(depth));
            Some(format!("transaction t() {{ var x = {open}1{close}; }}"))
        }
        "E0020" => Some(" ".repeat(MAX_SOURCE + 1)),
        "E0303" => Some((0..31).map(|number| format!("store s{number} : causal;")).collect()),
        _ => None,
    }
}

#[test]
fn examples_of_codes_cause_them_and_corrected_examples_are_legal() {
    for meaning in codes::all() {
        let code = meaning.code;
        if let Some(source) = long_example(code) {
            assert!(found(&source).contains(&code), "{code}");
            continue;
        }
        let examples = examples(meaning.text);
        assert!(examples.len() >= 2, "{code} has no example, or nothing that is legal");
        assert_eq!(found(&examples[0]).first(), Some(&code), "{code}: {}", examples[0]);
        for legal in &examples[1..] {
            let diagnostics = compile(legal).diagnostics;
            // An example may have unused values.
            let diagnostics: Vec<_> =
                diagnostics.into_iter().filter(|one| one.code != "W0102").collect();
            assert!(
                diagnostics.is_empty(),
                "{code}: {}",
                render(&diagnostics, "legal.mixt", legal, false)
            );
        }
    }
}

#[test]
fn examples_of_other_pages_have_no_errors() {
    let docs = crate_folder().join("../../docs");
    for page in ["reference/language.md", "papers/mixt.md"] {
        let text = fs::read_to_string(docs.join(page)).unwrap();
        let examples = examples(&text);
        assert!(!examples.is_empty() || page == "papers/mixt.md");
        for source in examples {
            let mut diagnostics = compile(&source).diagnostics;
            diagnostics.retain(|one| one.severity == Severity::Error);
            assert!(
                diagnostics.is_empty(),
                "{page}: {}",
                render(&diagnostics, "example.mixt", &source, false)
            );
        }
    }
}
