//! `solera explain`: shows how the compiler splits MixT programs, and explains the codes of
//! diagnostics.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use solera_language::codes;
use solera_language::compile::compile;
use solera_language::explain::{self, Transaction};
use solera_language::nearest::nearest;

use crate::source::Source;

const EXAMPLES: &str = "\
Examples:
  solera explain post.mixt                   prints levels, phases, and values passed between them
  solera explain post.mixt deliver           one transaction only
  solera explain post.mixt --svg post.svg    draws it
  solera explain post.mixt --mermaid FILE    draws it as a Mermaid flowchart, for Markdown
  solera explain post.mixt --json            prints it as JSON
  solera explain E0101                       explains a code, with examples

`-` stands for standard input. Exit codes: 0 explained; 1 the program has errors; 2 there is
nothing to explain.";

/// Explain how a program in the MixT language is split into phases, or what a diagnostic means
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Source file, - for standard input, or the code of a diagnostic
    what: String,
    /// Transaction to explain (default: all)
    transaction: Option<String>,
    /// Write an SVG drawing to this file; excludes --mermaid and --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "mermaid"])]
    svg: Option<PathBuf>,
    /// Write a Mermaid flowchart to this file; excludes --svg and --json
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    mermaid: Option<PathBuf>,
    /// Print the explanation as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &ExplainArgs) -> ExitCode {
    if is_code(&args.what) && !Path::new(&args.what).exists() {
        return code(&args.what);
    }
    let source = match Source::read(&args.what) {
        Ok(source) => source,
        Err(reason) => return nothing(&reason),
    };
    let compiled = compile(&source.text);
    source.report(&compiled.diagnostics);
    if compiled.program.is_none() {
        return ExitCode::FAILURE;
    }
    let mut transactions = explain::transactions(&compiled, &source.text);
    if let Some(name) = &args.transaction {
        let names: Vec<_> = transactions.iter().map(|one| one.name.clone()).collect();
        transactions.retain(|one| one.name == *name);
        if transactions.is_empty() {
            let near = nearest(name, names.iter().map(String::as_str));
            let known = match (near, names.as_slice()) {
                (Some(near), _) => format!("did you mean '{near}'?"),
                (None, []) => "it has none".to_owned(),
                (None, names) => format!("it has {}", names.join(", ")),
            };
            return nothing(&format!("{} has no transaction '{name}'; {known}", source.name));
        }
    }
    print(args, &source, &transactions)
}

fn print(args: &ExplainArgs, source: &Source, transactions: &[Transaction]) -> ExitCode {
    // With --json, an empty list is a valid answer.
    if transactions.is_empty() && !args.json {
        return nothing(&format!("{} has no transactions", source.name));
    }
    let svg = args.svg.as_ref().map(|file| (file, explain::svg(transactions)));
    let mermaid = args.mermaid.as_ref().map(|file| (file, explain::mermaid(transactions)));
    if let Some((file, drawing)) = svg.or(mermaid) {
        if file.as_os_str() == "-" {
            output!("{}", drawing.trim_end());
            return ExitCode::SUCCESS;
        }
        if let Err(error) = fs::write(file, drawing) {
            print_error!("solera explain: cannot write {}: {error}", file.display());
            return ExitCode::FAILURE;
        }
        output!("the drawing is in {}", file.display());
    } else if args.json {
        output!("{:#}", json!({ "file": source.name, "transactions": transactions }));
    } else {
        output!("{}", explain::text(transactions).trim_end());
    }
    ExitCode::SUCCESS
}

/// Returns whether the text has the form of a diagnostic's code.
fn is_code(what: &str) -> bool {
    let mut letters = what.chars();
    letters.next().is_some_and(|first| "EWew".contains(first))
        && what.len() == 5
        && letters.all(|letter| letter.is_ascii_digit())
}

fn code(code: &str) -> ExitCode {
    match codes::lookup(code) {
        Some(meaning) => {
            output!("{}", meaning.to_string().trim_end());
            ExitCode::SUCCESS
        }
        None => nothing(&format!("there is no diagnostic with the code {code}")),
    }
}

fn nothing(reason: &str) -> ExitCode {
    print_error!("solera explain: {reason}");
    ExitCode::from(2)
}
