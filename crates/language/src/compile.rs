//! Compiles a source text to a program.

use solera_program::ir;

use crate::check::{self, Checkable, Checked, Declarations};
use crate::diagnostic::{Diagnostic, Severity};
use crate::flat::{coalesce, functions};
use crate::flow::{self, Flows};
use crate::split::{self, Split};
use crate::syntax;

/// Result of compiling a source text.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Diagnostics, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The program, unless there are errors.
    pub program: Option<ir::Program>,
    /// Intermediate results for `explain`. Empty if there are errors.
    pub transactions: Vec<Explained>,
    /// Declarations of the source.
    pub declarations: Declarations,
}

/// A transaction with the results of each stage.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The flattened transaction.
    pub checkable: Checkable,
    /// Its labels, and the order of its stores.
    pub flows: Flows,
    /// Its phases.
    pub split: Split,
}

/// Compiles a source text.
pub fn compile(source: &str) -> Compiled {
    compile_as(source, Form::Split)
}

/// Compiles a source text without splitting: each transaction runs in one phase. Tests and
/// benchmarks compare split programs with this form.
pub fn compile_whole(source: &str) -> Compiled {
    compile_as(source, Form::Whole)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Split,
    Whole,
}

fn compile_as(source: &str, form: Form) -> Compiled {
    let parsed = syntax::parse(source);
    let mut diagnostics = parsed.diagnostics;
    let mut checked = check::lower(&parsed.module, &mut diagnostics);
    let refused = |found: &[Diagnostic]| found.iter().any(|d| d.severity == Severity::Error);
    let mut transactions = Vec::new();
    let unchecked = refused(&diagnostics) && !checked.transactions.is_empty();
    // Flow errors of ill-typed code would only repeat the type errors.
    if !refused(&diagnostics) {
        for checkable in checked.functions.iter_mut().chain(&mut checked.transactions) {
            coalesce(&mut checkable.body);
        }
        let bodies: Vec<_> = checked.functions.iter().map(|one| &one.body).collect();
        checked.declarations.failing = functions(&bodies);
        checked.declarations.risks = flow::risks(&bodies, &checked.declarations.failing);
        for checkable in &checked.transactions {
            let known = &checked.declarations;
            let Some(flows) = Flows::of(checkable, known, &mut diagnostics) else { continue };
            let split = match form {
                Form::Split => Split::of(checkable, &flows, known),
                Form::Whole => Split::not_at_all(checkable),
            };
            transactions.push(Explained { checkable: checkable.clone(), flows, split });
        }
    }
    let program = (!refused(&diagnostics)).then(|| program(&checked, &transactions));
    let mut diagnostics = in_order(diagnostics);
    let last = diagnostics.iter_mut().rfind(|one| one.severity == Severity::Error);
    if let (true, Some(last)) = (unchecked, last) {
        last.notes.push("level checking was skipped because of earlier errors".to_owned());
    }
    if program.is_none() {
        transactions.clear();
    }
    Compiled { diagnostics, program, transactions, declarations: checked.declarations }
}

/// Sorts diagnostics in the order of the text, removes duplicates, and limits their number.
fn in_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|one| (one.primary.span.start, one.code));
    diagnostics.dedup();
    let more = diagnostics.len().saturating_sub(syntax::MAX_ERRORS);
    diagnostics.truncate(syntax::MAX_ERRORS);
    if let (Some(last), 1..) = (diagnostics.last_mut(), more) {
        last.notes.push(format!("{more} more errors and warnings are not shown"));
    }
    diagnostics
}

fn program(checked: &Checked, transactions: &[Explained]) -> ir::Program {
    let known = &checked.declarations;
    let stores = known.stores.iter().map(|store| ir::Store {
        name: store.name.as_str().into(),
        level: known.level_name(store.level).into(),
        accepts: known.lattice.accepts(store.level),
        atomic: store.atomic,
        operations: store.operations.clone(),
    });
    let structs = known.structs.iter().map(|info| ir::Struct {
        name: info.name.as_str().into(),
        fields: info.fields.iter().map(|(name, ty)| (name.as_str().into(), ty.clone())).collect(),
    });
    let mut objects = Vec::new();
    let functions =
        checked.functions.iter().map(|one| split::function(one, &mut objects)).collect();
    let transactions =
        transactions.iter().map(|one| one.split.emit(&one.checkable, &mut objects)).collect();
    ir::Program {
        version: ir::VERSION,
        stores: stores.collect(),
        structs: structs.collect(),
        objects,
        functions,
        transactions,
    }
}
