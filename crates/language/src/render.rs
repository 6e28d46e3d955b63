//! Formats diagnostics for users.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use solera_program::span::{Position, Span};

use crate::diagnostic::{Diagnostic, Severity};

/// Formats diagnostics with the source lines that they refer to, separated by empty lines.
pub fn render(diagnostics: &[Diagnostic], file_name: &str, source: &str, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let rendered: Vec<_> = diagnostics
        .iter()
        .map(|diagnostic| one(&renderer, diagnostic, file_name, source))
        .collect();
    let mut text = rendered.join("\n\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Formats a diagnostic as one line, without a line break: `file:line:column: error[E0001]:
/// message`.
pub fn short(diagnostic: &Diagnostic, file_name: &str, source: &str) -> String {
    let Diagnostic { severity, code, message, primary, .. } = diagnostic;
    let position = Position::of(source, primary.span.start);
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let message = message.replace(char::is_control, " ");
    format!("{file_name}:{position}: {severity}[{code}]: {message}")
}

fn one(renderer: &Renderer, diagnostic: &Diagnostic, file_name: &str, source: &str) -> String {
    let Diagnostic { severity, code, message, primary, others, notes, helps } = diagnostic;
    let level = match severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let annotation = |kind: AnnotationKind, span: Span, text: &str| {
        let label = (!text.is_empty()).then(|| text.to_owned());
        kind.span(within(span, source)).label(label)
    };
    let snippet = Snippet::source(source)
        .path(file_name)
        .annotation(annotation(AnnotationKind::Primary, primary.span, &primary.text))
        .annotations(
            others.iter().map(|mark| annotation(AnnotationKind::Context, mark.span, &mark.text)),
        );
    let group = level
        .primary_title(message.as_str())
        .id(*code)
        .element(snippet)
        .elements(notes.iter().map(|note| Level::NOTE.message(note.as_str())))
        .elements(helps.iter().map(|help| Level::HELP.message(help.as_str())));
    renderer.render(&[group])
}

/// Converts a span to a byte range of the source, clamped to the source and to character
/// boundaries.
fn within(span: Span, source: &str) -> Range<usize> {
    let boundary = |byte: u32| {
        let byte = (byte as usize).min(source.len());
        (0..=byte).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0)
    };
    let start = boundary(span.start);
    start..boundary(span.end).max(start)
}
