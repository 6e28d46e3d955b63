//! Formats an explanation as text.

use std::fmt::Write;

use super::{Handed, Phase, Transaction, Witnesses};

/// Meaning of the keywords that occur in phases only (MixT §5.3).
const LEGEND: &str = "
advance(x): takes the next value of x that an earlier phase handed on; peek(x): the one taken last
";

/// Label of an arrow between phases that follow each other and pass no values.
pub(super) const THEN: &str = "then";

/// Formats explanations as text, with an empty line between them.
pub fn text(transactions: &[Transaction]) -> String {
    let mut out = String::new();
    for (index, transaction) in transactions.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        one(transaction, &mut out);
    }
    if transactions.iter().flat_map(|one| &one.phases).any(|phase| !phase.hands.is_empty()) {
        out.push_str(LEGEND);
    }
    out
}

/// Formats one transaction. Writing to a string cannot fail, so the results of `writeln!` are
/// ignored.
fn one(transaction: &Transaction, out: &mut String) {
    let _ = writeln!(out, "transaction {}", transaction.signature);
    levels(transaction, out);
    for phase in &transaction.phases {
        self::phase(phase, out);
    }
    let Witnesses { stores, reason } = &transaction.witnesses;
    let _ = match stores.as_slice() {
        [] => writeln!(out, "\n  no witnesses: {reason}"),
        stores => writeln!(out, "\n  witnesses in {}: {reason}", stores.join(" and ")),
    };
}

fn levels(transaction: &Transaction, out: &mut String) {
    let rows: Vec<(String, &str, &str, &str)> = transaction
        .levels
        .iter()
        .map(|row| {
            let endorsed = if row.endorsed { ", endorsed" } else { "" };
            (format!("{}:{}", row.line, row.column), &*row.text, &*row.level, endorsed)
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let at = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let text = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0);
    let _ = writeln!(out, "\n  levels");
    for row in &rows {
        let _ = writeln!(out, "    {:<at$}  {:<text$}  {}{}", row.0, row.1, row.2, row.3);
    }
}

fn phase(phase: &Phase, out: &mut String) {
    let _ = writeln!(out, "\n  phase {}: {}", phase.number, title(phase));
    let _ = writeln!(out, "    // {}", phase.summary);
    for line in &phase.code {
        let _ = writeln!(out, "    {line}");
    }
    for handed in &phase.hands {
        let _ = writeln!(out, "    hands to phase {}: {}", handed.to, values(handed));
    }
}

/// Formats the store of a phase and its level.
pub(super) fn title(phase: &Phase) -> String {
    match (&phase.store, &phase.level) {
        (Some(store), Some(level)) => format!("{store} ({level})"),
        _ => "no store".to_owned(),
    }
}

/// Formats the passed values: those passed once, and those passed in every iteration of a loop.
pub(super) fn values(handed: &Handed) -> String {
    let names = |each_turn: bool| {
        let values = handed.values.iter().filter(|value| value.each_turn == each_turn);
        values.map(|value| value.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    match (names(false), names(true)) {
        (once, turns) if turns.is_empty() => once,
        (once, turns) if once.is_empty() => format!("{turns} of each turn"),
        (once, turns) => format!("{once}; {turns} of each turn"),
    }
}

/// Returns the note in the head of a phase.
pub(super) fn note(phase: &Phase) -> &'static str {
    match (phase.endorsing, phase.witnesses, phase.writes) {
        (true, ..) => "reads endorsed values",
        (_, true, _) => "writes, marked by witnesses",
        (_, _, true) => "writes",
        _ => "reads only",
    }
}
