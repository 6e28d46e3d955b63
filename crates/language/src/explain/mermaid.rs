//! Draws an explanation as a Mermaid flowchart, which Markdown viewers render: one box for each
//! phase in the colour of its level, arrows for passed values, and dashed arrows between phases
//! that follow each other and pass no values.

use std::fmt::Write;

use super::Transaction;
use super::text::{THEN, note, title, values};

/// Draws transactions as one flowchart, with a subgraph for each of them.
pub fn mermaid(transactions: &[Transaction]) -> String {
    let mut out = "flowchart LR\n".to_owned();
    for (index, transaction) in transactions.iter().enumerate() {
        one(index, transaction, &mut out);
    }
    out
}

/// Draws one transaction. Writing to a string cannot fail, so the results of `writeln!` are
/// ignored.
fn one(index: usize, transaction: &Transaction, out: &mut String) {
    let node = |phase: usize| format!("t{index}p{phase}");
    let _ = writeln!(out, "  subgraph t{index} [\"{}\"]", escape(&transaction.signature));
    for phase in &transaction.phases {
        let mut lines =
            vec![format!("<b>{} {}</b>", phase.number, escape(&title(phase))), note(phase).into()];
        lines.extend(phase.code.iter().map(|line| escape(line)));
        let _ = writeln!(out, "    {}[\"{}\"]", node(phase.number), lines.join("<br>"));
        let _ = writeln!(out, "    style {} fill:{}", node(phase.number), phase.colour());
    }
    for phase in &transaction.phases {
        let from = node(phase.number);
        if phase.number < transaction.phases.len() && !phase.passes_to_next() {
            let _ = writeln!(out, "    {from} -.->|\"{THEN}\"| {}", node(phase.number + 1));
        }
        for handed in &phase.hands {
            let label = escape(&values(handed));
            let _ = writeln!(out, "    {from} -->|\"{label}\"| {}", node(handed.to));
        }
    }
    out.push_str("  end\n");
}

/// Escapes text for a quoted label. Letters, digits and a few signs stay; a code replaces every
/// other character, because labels are Markdown and HTML. Leading spaces indent code.
fn escape(text: &str) -> String {
    let code = text.trim_start_matches(' ');
    let mut out = "&nbsp;".repeat(text.len() - code.len());
    for letter in code.chars() {
        match letter {
            ' ' | ',' | '.' | ':' | '(' | ')' | '=' | '+' => out.push(letter),
            letter if letter.is_alphanumeric() => out.push(letter),
            letter => {
                let _ = write!(out, "#{};", u32::from(letter));
            }
        }
    }
    out
}
