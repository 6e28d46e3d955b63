//! Finds the accesses of a transaction to its stores that are known in advance, so that a
//! transaction whose user lacks a right is rejected before it has any effect (decision 0022).
//!
//! The analysis follows all branches in the code of the remaining phases. A handle is known if it
//! is a constant, an argument or a part of one, or if a phase that has run handed it on. If the
//! handle of an operation is not known, only the store and the command are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::builtin::Builtin;
use solera_program::ir::{Code, Instr, Phase, Reg};
use solera_program::types::StoreId;
use solera_program::value::Value;

pub use crate::access::{Access, Denial, StoreOperation, Users};
use crate::job::Job;
use crate::record::State;

/// Maximum number of possible values of a register; with more, the register counts as unknown.
const MOST: usize = 64;

/// Possible values of a register; `None` for any value.
type Known = Option<Vec<Value>>;

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
        for (store, operation, key) in of_phase(&phases[phase], &job.args, state, &unknown) {
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
    phase: &Phase,
    args: &[Value],
    state: &State,
    unknown: &BTreeSet<u32>,
) -> BTreeSet<(StoreId, StoreOperation, Option<Arc<str>>)> {
    let code = &phase.code;
    let before = follow(code, args, state, unknown);
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

/// Returns the possible values of registers before each instruction; `None` before unreachable
/// ones.
fn follow(
    code: &Code,
    args: &[Value],
    state: &State,
    unknown: &BTreeSet<u32>,
) -> Vec<Option<Vec<Known>>> {
    let mut start = vec![Some(vec![Value::Unit]); code.registers as usize];
    for (register, arg) in start.iter_mut().zip(args) {
        *register = Some(vec![arg.clone()]);
    }
    let mut before: Vec<Option<Vec<Known>>> = vec![None; code.instructions.len()];
    let mut due = Vec::new();
    arrive(&mut before, &mut due, 0, start);
    while let Some(at) = due.pop() {
        let mut registers = before[at].clone().expect("only reachable instructions are visited");
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
            instr => set(instr, code, &mut registers, state, unknown),
        }
        arrive(&mut before, &mut due, at + 1, registers);
    }
    before
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

/// Computes the register that an instruction sets.
fn set(
    instr: &Instr,
    code: &Code,
    registers: &mut [Known],
    state: &State,
    unknown: &BTreeSet<u32>,
) {
    let held = |registers: &[Known], reg: Reg| registers[reg as usize].clone();
    let (dst, value) = match instr {
        Instr::Const(dst, index) => {
            (*dst, code.constants.get(*index as usize).map(|value| vec![value.clone()]))
        }
        Instr::Move(dst, src) => (*dst, held(registers, *src)),
        Instr::Field(dst, src, field) => {
            let field = usize::from(*field);
            let values = held(registers, *src).map(|values| {
                let fields = values.into_iter().map(|value| match value {
                    Value::Struct(fields) => fields.get(field).cloned(),
                    _ => None,
                });
                fields.collect::<Option<Vec<_>>>()
            });
            (*dst, values.flatten())
        }
        Instr::Builtin(builtin, dst, args) => {
            let first = args.first().and_then(|arg| held(registers, *arg));
            (*dst, first.and_then(|values| of_builtin(*builtin, values)))
        }
        Instr::Advance(tape, dst) if unknown.contains(tape) => (*dst, None),
        Instr::Advance(tape, dst) => (*dst, Some(state.tapes.get(*tape).to_vec())),
        Instr::Unary(_, dst, _)
        | Instr::Binary(_, dst, ..)
        | Instr::List(dst, _)
        | Instr::Set(dst, _)
        | Instr::Map(dst, _)
        | Instr::Struct(dst, ..)
        | Instr::WithField(dst, ..)
        | Instr::Call(dst, ..)
        | Instr::Remote { dst, .. }
        | Instr::Custom { dst, .. }
        | Instr::Fresh(dst, _) => (*dst, None),
        Instr::Jump(_)
        | Instr::JumpUnless(..)
        | Instr::Return(_)
        | Instr::Result(_)
        | Instr::Abort(_)
        | Instr::Record(..) => return,
    };
    registers[dst as usize] = value.filter(|values| values.len() <= MOST);
}

/// Returns the possible results of a function that returns a part of a collection.
fn of_builtin(builtin: Builtin, values: Vec<Value>) -> Known {
    match builtin {
        Builtin::Elements => {
            let lists = values.into_iter().map(|value| match value {
                Value::Map(of) => Value::list(of.keys().cloned()),
                other => other,
            });
            Some(lists.collect())
        }
        Builtin::Index => {
            let mut parts = Vec::new();
            for value in &values {
                match value {
                    Value::List(of) => parts.extend(of.iter().cloned()),
                    Value::Set(of) => parts.extend(of.iter().cloned()),
                    Value::Map(of) => parts.extend(of.values().cloned()),
                    _ => return None,
                }
                if parts.len() > MOST {
                    return None;
                }
            }
            Some(parts)
        }
        Builtin::OrFail => {
            let held = values.iter().map(|value| match value {
                Value::Option(Some(of)) => Some((**of).clone()),
                _ => None,
            });
            held.collect()
        }
        _ => None,
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

    const SOURCE: &str = "
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

transaction made() -> handle<counter> in mail {
    var made = new counter in mail;
    made.add(1);
    return made;
}
";

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
