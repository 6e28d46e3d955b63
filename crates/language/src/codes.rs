//! What the codes of diagnostics mean. There is one text for it, the page of the reference, which
//! people read in their browsers and `solera explain CODE` shows.

use std::fmt;

const PAGE: &str = include_str!("../../../docs/reference/diagnostics.md");

/// What a code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The code, such as `E0101`.
    pub code: &'static str,
    /// What is wrong, in some words.
    pub title: &'static str,
    /// What it means, with examples, in Markdown.
    pub text: &'static str,
}

/// The meanings of all codes, in the order of the page.
pub fn all() -> impl Iterator<Item = Meaning> {
    PAGE.split("\n### ").skip(1).filter_map(|section| {
        let (head, text) = section.split_once('\n')?;
        let (code, title) = head.split_once(": ")?;
        // The last section of a chapter ends where the next chapter begins.
        let text = text.split("\n## ").next().unwrap_or(text);
        Some(Meaning { code, title, text: text.trim() })
    })
}

/// The meaning of a code, in capital letters or not.
pub fn lookup(code: &str) -> Option<Meaning> {
    all().find(|meaning| meaning.code.eq_ignore_ascii_case(code))
}

/// For terminals: code is indented instead of fenced.
impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n", self.code, self.title)?;
        let mut in_code = false;
        for line in self.text.lines() {
            if line.starts_with("```") {
                in_code = !in_code;
                writeln!(f)?;
            } else if in_code && !line.is_empty() {
                writeln!(f, "    {line}")?;
            } else {
                writeln!(f, "{line}")?;
            }
        }
        Ok(())
    }
}
