//! Histories in the text format, without its first line.

use solera_checker::speculative::{History, check};

pub(crate) fn history(lines: &str) -> History {
    let text = format!("solera-speculative-history 1\n{lines}");
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the texts of all violations.
pub(crate) fn violations(lines: &str) -> Vec<String> {
    check(&history(lines)).iter().map(ToString::to_string).collect()
}

#[track_caller]
pub(crate) fn good(lines: &str) {
    assert_eq!(violations(lines), Vec::<String>::new());
}

/// Requires exactly these violations.
#[track_caller]
pub(crate) fn bad(lines: &str, expected: &[&str]) {
    assert_eq!(violations(lines), expected);
}
