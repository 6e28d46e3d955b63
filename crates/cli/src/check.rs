//! `solera check`: runs the compiler's checks on MixT sources.

use solera_commands::counted;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use solera_language::compile::compile;
use solera_language::diagnostic::{Diagnostic, Mark, Severity};
use solera_language::explain::{self, Transaction};
use solera_program::span::{Position, Span};

use crate::source::{Source, count};

const EXAMPLES: &str = "\
Examples:
  solera check post.mixt              checks names, types and flows
  solera check --stats *.mixt         also prints phases, endorsements and witnesses per transaction
  solera check --json post.mixt       for editors and scripts
  solera explain E0101                explains the code of a diagnostic

`-` stands for standard input. Exit codes: 0 no errors; 1 errors; 2 a file that cannot be read.";

/// Check programs in the MixT language
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Source files; - for standard input
    #[arg(required = true)]
    files: Vec<String>,
    /// Print the phases, stores, endorsements, passed values and witnesses of each transaction
    #[arg(long)]
    stats: bool,
    /// Print everything as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Result of checking one file.
struct Checked {
    source: Source,
    diagnostics: Vec<Diagnostic>,
    transactions: Vec<Transaction>,
}

/// Checks all files; a file that cannot be read does not stop the others.
pub(crate) fn main(args: &CheckArgs) -> ExitCode {
    let (mut checked, mut unread) = (Vec::new(), Vec::new());
    for file in &args.files {
        match Source::read(file) {
            Ok(source) => {
                let compiled = compile(&source.text);
                let transactions = explain::transactions(&compiled, &source.text);
                let diagnostics = compiled.diagnostics;
                checked.push(Checked { source, diagnostics, transactions });
            }
            Err(reason) => unread.push(reason),
        }
    }
    let counts: Vec<_> = checked.iter().map(|one| count(&one.diagnostics)).collect();
    let errors = counts.iter().map(|(errors, _)| errors).sum();
    let warnings = counts.iter().map(|(_, warnings)| warnings).sum();
    if args.json {
        let files: Vec<_> = checked.iter().map(in_json).collect();
        let all = json!({
            "errors": errors, "warnings": warnings, "files": files, "unread": unread,
        });
        output!("{all:#}");
    } else {
        checked.iter().for_each(|one| one.source.report(&one.diagnostics));
        if args.stats {
            checked.iter().for_each(stats);
        }
        unread.iter().for_each(|reason| print_error!("solera check: {reason}"));
        summary(&checked, errors, warnings);
    }
    match (unread.is_empty(), errors) {
        (false, _) => ExitCode::from(2),
        (true, 0) => ExitCode::SUCCESS,
        (true, _) => ExitCode::FAILURE,
    }
}

/// Prints one line with the numbers of files, errors and warnings.
fn summary(checked: &[Checked], errors: usize, warnings: usize) {
    let files = counted(checked.len(), "file");
    let transactions: usize = checked.iter().map(|one| one.transactions.len()).sum();
    let warned = match warnings {
        0 => String::new(),
        _ => format!(", {}", counted(warnings, "warning")),
    };
    match errors {
        _ if checked.is_empty() => {}
        0 => {
            print_error!(
                "checked {files}, {}: no errors{warned}",
                counted(transactions, "transaction")
            )
        }
        _ => print_error!("checked {files}: {}{warned}", counted(errors, "error")),
    }
}

/// Returns the number of variables that a transaction passes from phase to phase.
fn handed(transaction: &Transaction) -> usize {
    let of_phase = |phase: &explain::Phase| {
        let names = phase.hands.iter().flat_map(|handed| &handed.values).map(|value| &value.name);
        names.collect::<std::collections::BTreeSet<_>>().len()
    };
    transaction.phases.iter().map(of_phase).sum()
}

/// Returns the stores of the phases, in order. A store that is also read for endorsements occurs
/// twice.
fn stores(transaction: &Transaction) -> Vec<&str> {
    transaction.phases.iter().filter_map(|phase| phase.store.as_deref()).collect()
}

fn stats(checked: &Checked) {
    if checked.transactions.is_empty() {
        return;
    }
    let mut rows = vec![
        ["transaction", "phases", "stores in order", "endorsements", "handed on", "witnesses"]
            .map(str::to_owned),
    ];
    rows.extend(checked.transactions.iter().map(|one| {
        let witnesses = match one.witnesses.stores.as_slice() {
            [] => "none".to_owned(),
            stores => stores.join(", "),
        };
        [
            one.name.clone(),
            one.phases.len().to_string(),
            stores(one).join(", "),
            one.endorsements.to_string(),
            handed(one).to_string(),
            witnesses,
        ]
    }));
    let widths: Vec<_> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    output!("{}", checked.source.name);
    for row in &rows {
        let cells: Vec<_> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        output!("  {}", cells.join("  ").trim_end());
    }
}

fn in_json(checked: &Checked) -> Value {
    let (errors, warnings) = count(&checked.diagnostics);
    let diagnostics: Vec<_> =
        checked.diagnostics.iter().map(|one| diagnostic(one, &checked.source)).collect();
    let stats: Vec<_> = checked
        .transactions
        .iter()
        .map(|one| {
            json!({
                "name": one.name,
                "phases": one.phases.len(),
                "stores": stores(one),
                "endorsements": one.endorsements,
                "handed_on": handed(one),
                "witnesses": one.witnesses.stores,
            })
        })
        .collect();
    json!({
        "file": checked.source.name,
        "errors": errors,
        "warnings": warnings,
        "diagnostics": diagnostics,
        "transactions": stats,
    })
}

fn diagnostic(one: &Diagnostic, source: &Source) -> Value {
    let Diagnostic { severity, code, message, primary, others, notes, helps } = one;
    let mut object = place(primary.span, source);
    object["severity"] = match severity {
        Severity::Error => "error".into(),
        Severity::Warning => "warning".into(),
    };
    object["code"] = (*code).into();
    object["message"] = message.as_str().into();
    object["file"] = source.name.as_str().into();
    object["text"] = primary.text.as_str().into();
    object["marks"] = others.iter().map(|mark| self::mark(mark, source)).collect();
    object["notes"] = notes.as_slice().into();
    object["helps"] = helps.as_slice().into();
    object
}

fn mark(mark: &Mark, source: &Source) -> Value {
    let mut object = place(mark.span, source);
    object["text"] = mark.text.as_str().into();
    object
}

/// Returns the position of a span as JSON. Lines and columns are counted from 1, and columns count
/// characters. The end is exclusive.
fn place(span: Span, source: &Source) -> Value {
    let [start, end] = [span.start, span.end].map(|byte| Position::of(&source.text, byte));
    json!({
        "line": start.line, "column": start.column,
        "end_line": end.line, "end_column": end.column,
    })
}
