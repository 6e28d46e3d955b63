//! What the compiler has to say about a program.

use solera_program::span::Span;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program can be run, but may not do what is meant.
    Warning,
    /// The program is refused.
    Error,
}

/// A stretch of the source, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The stretch.
    pub span: Span,
    /// What is said. May be empty.
    pub text: String,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// Its number, such as `E0101`. `docs/reference/diagnostics.md` explains each.
    pub code: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// The place, and what is wrong there.
    pub primary: Mark,
    /// Other places that explain it, in the order in which they are to be read.
    pub others: Vec<Mark>,
    /// Facts that help to understand.
    pub notes: Vec<String>,
    /// What would make it legal.
    pub helps: Vec<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: Mark { span, text: String::new() },
            others: Vec::new(),
            notes: Vec::new(),
            helps: Vec::new(),
        }
    }

    /// A warning at a place.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Says what is wrong at the place itself.
    #[must_use]
    pub fn here(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    /// Points at another place.
    #[must_use]
    pub fn mark(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.others.push(Mark { span, text: text.into() });
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// Adds what would make it legal.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.helps.push(text.into());
        self
    }
}
