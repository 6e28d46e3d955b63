//! Removes copies of temporary variables with one use: `t = a + b; x = t` becomes `x = a + b`.

use super::{Body, Step, StepKind, Var};
use crate::flat::Compute;

/// Removes copies of compiler variables that no other step reads or writes.
pub fn coalesce(body: &mut Body) {
    let mut uses = vec![0u32; body.vars.len()];
    let mut writes = vec![0u32; body.vars.len()];
    body.each_step(&mut |step| {
        step.inputs().iter().for_each(|var| uses[var.0 as usize] += 1);
        step.dst().iter().for_each(|var| writes[var.0 as usize] += 1);
    });
    let single = |var: Var| {
        let index = var.0 as usize;
        index >= body.params
            && body.vars[index].name.is_none()
            && uses[index] == 1
            && writes[index] == 1
    };
    merge(&mut body.steps, &single);
}

fn merge(steps: &mut Vec<Step>, single: &impl Fn(Var) -> bool) {
    let mut merged: Vec<Step> = Vec::with_capacity(steps.len());
    for mut step in std::mem::take(steps) {
        match &mut step.kind {
            StepKind::If(_, then, other) => {
                merge(then, single);
                merge(other, single);
            }
            StepKind::Loop { before, body, .. } => {
                merge(before, single);
                merge(body, single);
            }
            StepKind::Set(dst, Compute::Copy(src)) if single(*src) => {
                if let Some(last) = merged.last_mut()
                    && last.dst() == Some(*src)
                    && last.redirect(*dst)
                {
                    continue;
                }
            }
            _ => {}
        }
        merged.push(step);
    }
    *steps = merged;
}

impl Step {
    /// Redirects the step to another variable. Operations of stores keep their own variable, so
    /// that their result has the label of the store alone.
    fn redirect(&mut self, to: Var) -> bool {
        match &mut self.kind {
            StepKind::Set(dst, _) | StepKind::Endorse(dst, ..) => {
                *dst = to;
                true
            }
            _ => false,
        }
    }
}
