//! Rules that the data must satisfy after a run.

/// A rule for the data, and the number of violations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// The rule.
    pub rule: &'static str,
    /// Number of checked items or names.
    pub checked: u64,
    /// Number of violations.
    pub broken: u64,
    /// Descriptions of some violations.
    pub examples: Vec<String>,
}

/// Maximum number of examples.
const EXAMPLES: usize = 5;
impl Invariant {
    pub(crate) fn new(rule: &'static str) -> Invariant {
        Invariant { rule, checked: 0, broken: 0, examples: Vec::new() }
    }

    /// Counts a check; `wrong` describes a violation.
    pub(crate) fn check(&mut self, wrong: Option<String>) {
        self.checked += 1;
        self.broken += u64::from(wrong.is_some());
        self.examples.extend(wrong.filter(|_| self.examples.len() < EXAMPLES));
    }
}
