//! Diagnostics of the compiler.

use solera_program::span::Span;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program can run, but may not do what its author intends.
    Warning,
    /// The program is rejected.
    Error,
}

/// A span of the source, with a text about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The span.
    pub span: Span,
    /// The text. May be empty.
    pub text: String,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity of a diagnostic.
    pub severity: Severity,
    /// Its code, such as `E0101`. `docs/reference/diagnostics.md` explains each.
    pub code: &'static str,
    /// Message, in one line.
    pub message: String,
    /// Location of the mistake.
    pub primary: Mark,
    /// Other locations that explain it, in reading order.
    pub others: Vec<Mark>,
    /// Facts that help to understand.
    pub notes: Vec<String>,
    /// Suggested fixes.
    pub helps: Vec<String>,
}

impl Diagnostic {
    /// Creates an error at a span.
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

    /// Creates a warning at a span.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Sets the text at the location of the mistake.
    #[must_use]
    pub fn here(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    /// Adds another location.
    #[must_use]
    pub fn mark(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.others.push(Mark { span, text: text.into() });
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// Adds a suggested fix.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.helps.push(text.into());
        self
    }
}
