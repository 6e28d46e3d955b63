//! Chooses names for variables: their own, or a descriptive name for variables of the compiler.

use std::collections::{BTreeMap, BTreeSet};

use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::types::Type;

use super::each_step;
use crate::check::Declarations;
use crate::flat::{Body, Compute, StepKind, Var};

/// Unique names of the variables of a transaction. Variables of the compiler get their name at
/// first use, so that their numbers have no gaps.
pub(super) struct Names {
    given: BTreeMap<Var, String>,
    taken: BTreeSet<String>,
    /// Preferred names of unnamed variables.
    wanted: BTreeMap<Var, String>,
}

impl Names {
    /// Chooses the names of the variables of a body.
    pub(super) fn of(body: &Body, known: &Declarations) -> Names {
        let mut names =
            Names { given: BTreeMap::new(), taken: BTreeSet::new(), wanted: BTreeMap::new() };
        for (index, info) in body.vars.iter().enumerate() {
            let var = Var(index as u32);
            match &info.name {
                // A name with a space cannot occur in a program.
                Some(name) => names.give(var, name.trim_start_matches("the ")),
                None if !info.purpose.is_empty() => {
                    names.wanted.insert(var, info.purpose.to_owned());
                }
                None => {}
            }
        }
        each_step(&body.steps, &mut |step| {
            if let Some(dst) = step.dst() {
                names.wanted.entry(dst).or_insert_with(|| describe(&step.kind, body, known));
            }
        });
        names
    }

    /// Returns the name of a variable.
    pub(super) fn of_var(&mut self, var: Var) -> String {
        if let Some(name) = self.given.get(&var) {
            return name.clone();
        }
        let wanted = self.wanted.get(&var).map_or("value", String::as_str).to_owned();
        self.give(var, &wanted);
        self.given[&var].clone()
    }

    fn give(&mut self, var: Var, wanted: &str) {
        let numbered = (2..).map(|number| format!("{wanted}_{number}"));
        let mut free =
            std::iter::once(wanted.to_owned()).chain(numbered).filter(|n| !self.taken.contains(n));
        let name = free.next().expect("there is always another number");
        self.taken.insert(name.clone());
        self.given.insert(var, name);
    }
}

/// Returns a word for the result of a step.
fn describe(step: &StepKind, body: &Body, known: &Declarations) -> String {
    let word = match step {
        StepKind::Remote(remote) => match remote.op {
            ObjectOp::Exists => "valid",
            ObjectOp::Size => "size",
            ObjectOp::Contains | ObjectOp::ContainsKey => "contained",
            ObjectOp::Elements | ObjectOp::Values | ObjectOp::Entries => "all",
            ObjectOp::Field(index) => {
                let fields = known.object_fields(&remote.object, remote.store).unwrap_or_default();
                return fields.get(index as usize).map_or("field", |(name, _)| name).to_owned();
            }
            _ => "read",
        },
        StepKind::Custom(custom) => {
            let store = known.store_info(custom.store);
            return store.operations[custom.operation as usize].name.to_string();
        }
        StepKind::Set(_, Compute::Field(of, index)) => {
            let Type::Struct(id) = body.vars[of.0 as usize].ty else { return "field".to_owned() };
            return known.struct_info(id).fields[*index as usize].0.clone();
        }
        StepKind::Fresh(..) => "object",
        StepKind::Set(_, Compute::Handle(..)) => "handle",
        StepKind::Endorse(..) => "endorsed",
        StepKind::Set(_, Compute::Binary(op, ..)) if op.compares() => "test",
        StepKind::Set(_, Compute::Builtin(Builtin::IsSome | Builtin::IsNone, _)) => "found",
        _ => "value",
    };
    word.to_owned()
}
