//! Explanations of the codes of diagnostics. The reference page is their only source; `solera
//! explain CODE` prints its sections.

use std::fmt;

const PAGE: &str = include_str!("../../../docs/reference/diagnostics.md");

/// Explanation of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The code, such as `E0101`.
    pub code: &'static str,
    /// Short description of the mistake.
    pub title: &'static str,
    /// Explanation with examples, in Markdown.
    pub text: &'static str,
}

/// Returns the explanations of all codes, in the order of the page.
pub fn all() -> impl Iterator<Item = Meaning> {
    PAGE.split("\n### ").skip(1).filter_map(|section| {
        let (head, text) = section.split_once('\n')?;
        let (code, title) = head.split_once(": ")?;
        // The last section of a chapter ends where the next chapter begins.
        let text = text.split("\n## ").next().unwrap_or(text);
        Some(Meaning { code, title, text: text.trim() })
    })
}

/// Returns the explanation of a code; ignores case.
pub fn lookup(code: &str) -> Option<Meaning> {
    all().find(|meaning| meaning.code.eq_ignore_ascii_case(code))
}

/// Formats for terminals: indents code instead of fencing it.
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
