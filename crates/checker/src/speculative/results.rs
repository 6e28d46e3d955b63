//! Compares results with sequential runs of the orders for which they stand.
//!
//! The final order runs once. Tentative operations run on the state of their committed prefix and
//! are undone afterwards; claims with the same beginning share its run.

use super::history::ReplyKind;
use super::index::{Claim, Found, Index, NOWHERE};
use super::model::State;
use super::violation::Violation;

pub(super) fn check(index: &Index<'_>, found: &mut Found) {
    let mut runs: Vec<Run<'_, '_>> = index.claims.iter().filter_map(|it| run(index, it)).collect();
    runs.sort_unstable_by_key(|run| (run.committed, run.tentative, run.claim.operation));
    let mut runs = runs.into_iter().peekable();
    let mut executor = Executor { index, state: State::default(), executed: Vec::new() };
    for committed in 0..=index.order.len() {
        while let Some(run) = runs.next_if(|run| run.committed == committed) {
            executor.judge(&run, found);
        }
        executor.commit(index.order.get(committed).copied().flatten());
    }
}

/// A sequential run that a reply needs.
struct Run<'i, 'h> {
    claim: &'i Claim<'h>,
    committed: usize,
    tentative: &'i [u32],
}

/// Returns the run for a reply; that of a stable reply is the final order before the operation.
fn run<'i, 'h>(index: &Index<'_>, claim: &'i Claim<'h>) -> Option<Run<'i, 'h>> {
    if claim.kind() != ReplyKind::Stable {
        return Some(Run { claim, committed: claim.committed(), tentative: &claim.tentative });
    }
    let position = index.positions[claim.operation];
    (position != NOWHERE).then_some(Run { claim, committed: position, tentative: &[] })
}

struct Executor<'i, 'h> {
    index: &'i Index<'h>,
    state: State<'h>,
    /// Tentative operations that have run, each with the mark before it.
    executed: Vec<(u32, usize)>,
}

impl<'h> Executor<'_, 'h> {
    /// Runs the next operation of the final order.
    fn commit(&mut self, operation: Option<usize>) {
        self.undo(0);
        if let Some(operation) = operation {
            self.execute(operation);
        }
        self.state.keep();
    }

    fn judge(&mut self, run: &Run<'_, '_>, found: &mut Found) {
        let both = self.executed.iter().zip(run.tentative);
        let shared = both.take_while(|((executed, _), next)| executed == *next).count();
        self.undo(shared);
        for operation in &run.tentative[shared..] {
            self.executed.push((*operation, self.state.mark()));
            self.execute(*operation as usize);
        }
        let mark = self.state.mark();
        let expected = self.state.run(&self.index.operation(run.claim.operation).procedure);
        self.state.undo(mark);
        let reply = run.claim.reply;
        if expected == reply.result {
            return;
        }
        let (operation, found_result) =
            (self.index.name(run.claim.operation), reply.result.clone());
        found.push(match reply.kind {
            ReplyKind::Stable => Violation::WrongStableResult {
                operation,
                position: run.committed,
                expected,
                found: found_result,
            },
            kind => Violation::WrongResult {
                operation,
                kind,
                order: reply.order.clone(),
                expected,
                found: found_result,
            },
        });
    }

    fn execute(&mut self, operation: usize) {
        let procedure = &self.index.operation(operation).procedure;
        if !procedure.only_reads() {
            self.state.run(procedure);
        }
    }

    /// Undoes all tentative operations but the first ones.
    fn undo(&mut self, most: usize) {
        if let Some((_, mark)) = self.executed.get(most) {
            self.state.undo(*mark);
            self.executed.truncate(most);
        }
    }
}
