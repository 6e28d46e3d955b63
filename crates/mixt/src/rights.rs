//! Finds the accesses of a transaction to its stores that are known in advance, so that a
//! transaction whose user lacks a right is rejected before it has any effect (decision 0022).
//!
//! The analysis follows all branches in the code of the remaining phases. A handle is known if it
//! is a constant, an argument or a part of one, if a phase that has run handed it on, or if the
//! program makes it from known texts and numbers. If the handle of an operation is not known, only
//! the store and the command are.

mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::ir::{Code, Instr, Phase, Program};
use solera_program::types::StoreId;
use solera_program::value::Value;

use self::values::{Known, MOST};
pub use crate::access::{Access, Denial, StoreOperation, Users};
use crate::job::Job;
use crate::record::State;

/// Maximum number of instructions of functions that the analysis of a phase visits. After that, the
/// results of calls are unknown.
const VISITS: u32 = 100_000;

/// Returns the possible accesses of the remaining groups to each database.
pub(crate) fn accesses(job: &Job, state: &State) -> BTreeMap<Arc<str>, Vec<Access>> {
    let program = job.module.program();
    let groups = &job.plan.groups[state.next as usize..];
    let phases = &program.transactions[job.transaction].phases;
    let left: Vec<usize> = groups.iter().flat_map(|group| group.phases.clone()).collect();
    // Values that later phases will hand on are unknown.
    let unknown: BTreeSet<u32> =
        left.iter().flat_map(|phase| &phases[*phase].gives).copied().collect();
    let mut all: BTreeMap<Arc<str>, Vec<Access>> = BTreeMap::new();
    for phase in left {
        for (store, operation, key) in of_phase(program, &phases[phase], &job.args, state, &unknown)
        {
            let place = &job.bindings.of(store).place;
            let (program, space) = (Arc::clone(program), Arc::clone(&place.space));
            let access = Access { program, phase, store, space, operation, key };
            all.entry(Arc::clone(&place.database)).or_default().push(access);
        }
    }
    all
}

/// Returns the operations of a phase, each once.
fn of_phase(
    program: &Program,
    phase: &Phase,
    args: &[Value],
    state: &State,
    unknown: &BTreeSet<u32>,
) -> BTreeSet<(StoreId, StoreOperation, Option<Arc<str>>)> {
    let code = &phase.code;
    let args = args.iter().map(|arg| Some(vec![arg.clone()])).collect();
    let mut analysis = Analysis { program, tapes: Some((state, unknown)), visits: VISITS };
    let before = analysis.follow(code, args);
    let mut found = BTreeSet::new();
    for (instr, registers) in code.instructions.iter().zip(&before) {
        // This instruction is unreachable.
        let Some(registers) = registers else { continue };
        match instr {
            Instr::Remote { store, op, object, handle, .. } => {
                let operation = StoreOperation::Object { object: *object, op: *op };
                let keys = registers[*handle as usize].as_ref().map(|values| keys(values));
                match keys.filter(|keys| !keys.is_empty()) {
                    Some(keys) => {
                        found.extend(keys.into_iter().map(|key| (*store, operation, Some(key))));
                    }
                    None => {
                        found.insert((*store, operation, None));
                    }
                }
            }
            Instr::Custom { store, operation, .. } => {
                found.insert((*store, StoreOperation::Custom(*operation), None));
            }
            _ => {}
        }
    }
    found
}

fn keys(values: &[Value]) -> Vec<Arc<str>> {
    let keys = values.iter().filter_map(|value| match value {
        Value::Handle(handle) => Some(Arc::clone(&handle.key)),
        _ => None,
    });
    keys.collect()
}

/// Analysis of the code of a phase and of the functions that it calls.
struct Analysis<'a> {
    program: &'a Program,
    /// Values that earlier phases have handed on, and the tapes that are still to be written;
    /// `None` in functions.
    tapes: Option<(&'a State, &'a BTreeSet<u32>)>,
    /// Number of instructions of functions that may still be visited.
    visits: u32,
}

impl Analysis<'_> {
    /// Returns the possible values of registers before each instruction; `None` before unreachable
    /// ones. The arguments are in the first registers.
    fn follow(&mut self, code: &Code, args: Vec<Known>) -> Vec<Option<Vec<Known>>> {
        let mut start = args;
        start.resize(code.registers as usize, Some(vec![Value::Unit]));
        let mut before: Vec<Option<Vec<Known>>> = vec![None; code.instructions.len()];
        let mut due = Vec::new();
        arrive(&mut before, &mut due, 0, start);
        while let Some(at) = due.pop() {
            if self.tapes.is_none() {
                let Some(left) = self.visits.checked_sub(1) else { return Vec::new() };
                self.visits = left;
            }
            let mut registers =
                before[at].clone().expect("only reachable instructions are visited");
            match &code.instructions[at] {
                Instr::Jump(to) => {
                    arrive(&mut before, &mut due, *to as usize, registers);
                    continue;
                }
                Instr::JumpUnless(condition, to) => {
                    let holds = registers[*condition as usize].as_deref();
                    let sure = |truth| matches!(holds, Some([Value::Bool(one)]) if *one == truth);
                    if !sure(true) {
                        arrive(&mut before, &mut due, *to as usize, registers.clone());
                    }
                    if sure(false) {
                        continue;
                    }
                }
                Instr::Abort(_) | Instr::Return(_) => continue,
                instr => self.set(instr, code, &mut registers),
            }
            arrive(&mut before, &mut due, at + 1, registers);
        }
        before
    }

    /// Returns the possible results of a function; `None` also if the analysis would take too long,
    /// as it does for a function that calls itself without a known end.
    fn call(&mut self, function: u32, args: Vec<Known>) -> Known {
        let program = self.program;
        let code = &program.functions.get(function as usize)?.code;
        // Half of the visits for each nested call bounds the depth, too.
        let given = self.visits / 2;
        let mut inner = Analysis { program, tapes: None, visits: given };
        let before = inner.follow(code, args);
        self.visits -= given - inner.visits;
        if before.is_empty() {
            return None;
        }
        let mut all = Vec::new();
        for (instr, registers) in code.instructions.iter().zip(&before) {
            if let (Instr::Return(src), Some(registers)) = (instr, registers) {
                all.extend(registers[*src as usize].clone()?);
            }
        }
        Some(all)
    }
}

/// Merges the values of registers on a new path to an instruction into the known ones. If that
/// changes them, the instruction is analysed again.
fn arrive(
    before: &mut [Option<Vec<Known>>],
    due: &mut Vec<usize>,
    to: usize,
    registers: Vec<Known>,
) {
    let Some(there) = before.get_mut(to) else { return };
    let Some(known) = there else {
        *there = Some(registers);
        due.push(to);
        return;
    };
    let mut changed = false;
    for (known, new) in known.iter_mut().zip(registers) {
        let Some(values) = known else { continue };
        let Some(new) = new else {
            (*known, changed) = (None, true);
            continue;
        };
        let more: Vec<_> = new.into_iter().filter(|value| !values.contains(value)).collect();
        changed |= !more.is_empty();
        values.extend(more);
        if values.len() > MOST {
            *known = None;
        }
    }
    if changed {
        due.push(to);
    }
}

#[cfg(test)]
mod tests {
    use solera_language::compile::compile;
    use solera_levels::Level;
    use solera_program::value::Handle;

    use super::*;
    use crate::binding::Module;
    use crate::bound::Bindings;
    use crate::memory::Memory;
    use crate::outcome::Limits;
    use crate::plan::Plan;
    use crate::store::Database;
    use crate::witness::TransactionId;

    const SOURCE: &str = r#"
store directory : linearizable;
store mail : causal;
struct Pair { one: handle<counter> in mail, other: int }

transaction both(a: handle<counter> in directory, b: handle<counter> in mail, far: bool) {
    a.add(1);
    if far { b.add(1); } else { b.add(2); b.delete(); }
}

transaction all(lists: list<handle<counter> in mail>) {
    for one in lists { one.add(1); }
}

transaction part(pair: Pair) { pair.one.add(1); }

transaction read(next: handle<register<handle<counter> in mail>> in directory) {
    next.get().or_fail().add(1);
}

fn of(owner: string, number: int) -> handle<counter> in mail {
    return handle<counter>("n:" + owner + ":" + string(number)) in mail;
}

fn again(number: int) -> handle<counter> in mail {
    return again(number + 1);
}

transaction computed(owner: string, far: bool) {
    var part = "x";
    if far { part = "y"; }
    (handle<counter>(part + owner) in directory).add(1);
    of(owner, 2).add(1);
    (handle<counter>(owner) in mail).add(1);
}

transaction many(count: int) {
    var i = 0;
    while i < count { of("a", i).add(1); i += 1; }
}

transaction endless() { again(0).add(1); }

transaction made() -> handle<counter> in mail {
    var made = new counter in mail;
    made.add(1);
    return made;
}
"#;

    fn job(transaction: &str, args: Vec<Value>) -> Job {
        let compiled = compile(SOURCE);
        let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        let module = Module::new("m", Arc::new(program)).unwrap();
        let spaces = [("directory", Level::Linearizable), ("mail", Level::Causal)];
        let memory: Arc<dyn Database> = Arc::new(Memory::disjoint("one", &spaces));
        let bind = [("directory", 0, "directory"), ("mail", 0, "mail")];
        let bindings = Bindings::new(module.program(), &[memory], &bind).unwrap();
        let transaction = module.transaction(transaction).unwrap();
        let plan = Plan::new(&module.program().transactions[transaction], &bindings);
        let (id, limits) = (TransactionId::new(7), Limits::default());
        let (began_ms, users) = (0, Users::new());
        Job { module, transaction, args, id, bindings, plan, limits, began_ms, users }
    }

    fn handle(store: &str, key: &str) -> Value {
        Value::Handle(Handle { store: store.into(), key: key.into() })
    }

    /// Returns the spaces and operations, with the keys that are known.
    fn found(job: &Job, state: &State) -> Vec<String> {
        let found = accesses(job, state);
        let formatted = found.into_values().flatten().map(|access| {
            let StoreOperation::Object { op, .. } = access.operation else { panic!("{access:?}") };
            format!("{} {op:?} {}", access.space, access.key.as_deref().unwrap_or("?"))
        });
        formatted.collect()
    }

    #[test]
    fn what_is_known_beforehand_is_found_in_all_branches() {
        let begin = State::default();
        let pair = [handle("directory", "a"), handle("mail", "b")];
        let args = [&pair[..], &[Value::Bool(true)]].concat();
        assert_eq!(
            found(&job("both", args), &begin),
            ["directory Increment a", "mail Increment b"],
            "which branch is taken is known"
        );
        let lists = Value::list([handle("mail", "x"), handle("mail", "y")]);
        assert_eq!(
            found(&job("all", vec![lists]), &begin),
            ["mail Increment x", "mail Increment y"]
        );
        let pair = Value::Struct(Arc::new(vec![handle("mail", "p"), Value::Int(3)]));
        assert_eq!(found(&job("part", vec![pair]), &begin), ["mail Increment p"]);
        assert_eq!(found(&job("made", vec![]), &begin), ["mail Increment ?"]);
    }

    #[test]
    fn keys_that_the_program_computes_are_found() {
        let begin = State::default();
        let found = |transaction: &str, args: Vec<Value>| found(&job(transaction, args), &begin);
        let computed =
            |owner: &str| found("computed", vec![Value::string(owner), Value::Bool(true)]);
        assert_eq!(
            computed("ann"),
            ["directory Increment yann", "mail Increment ann", "mail Increment n:ann:2"]
        );
        assert_eq!(
            computed("solera:a"),
            ["directory Increment ysolera:a", "mail Increment ?", "mail Increment n:solera:a:2"],
            "there is no handle of a reserved key"
        );
        assert_eq!(found("many", vec![Value::Int(3)]), ["mail Increment ?"], "too many");
        assert_eq!(found("endless", vec![]), ["mail Increment ?"]);
    }

    #[test]
    fn what_a_phase_has_handed_on_is_known_once_it_is_over() {
        let job = job("read", vec![handle("directory", "next")]);
        let mut state = State::default();
        assert_eq!(found(&job, &state), ["directory Get next", "mail Increment ?"]);
        let phases = &job.module.program().transactions[job.transaction].phases;
        state.next = 1;
        state.tapes.insert(phases[0].gives[0], vec![handle("mail", "secret")]);
        assert_eq!(found(&job, &state), ["mail Increment secret"]);
    }
}
