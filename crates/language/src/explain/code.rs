//! A phase as code, lifted back to the surface syntax (MixT Fig. 10).

use std::collections::BTreeMap;

use super::About;
use crate::flat::{Compute, Remote, Step, StepKind, Var};
use crate::operation::ObjectOp;
use crate::split::Planned;
use crate::syntax::ast::UnaryOp;
use crate::types::{Object, Type};
use crate::value::Value;

/// The lines of a phase.
pub(super) fn lines(about: &About, phase: usize) -> Vec<String> {
    let plan = &about.transaction.split.phases[phase];
    let mut code = Code {
        about,
        inline: BTreeMap::new(),
        uses: BTreeMap::new(),
        lines: Vec::new(),
        depth: 0,
        peeks: plan.takes.iter().map(|t| about.transaction.split.tapes[*t as usize]).collect(),
        witnesses: plan.witnesses,
        once: about.transaction.checkable.body.written_once(),
    };
    code.count(&plan.steps);
    code.steps(&plan.steps);
    if about.transaction.split.result_phase == phase
        && let Some(result) = about.transaction.checkable.body.result
        && about.transaction.checkable.result != Type::Unit
    {
        let result = code.expr(result);
        code.line(format!("return {result};"));
    }
    if plan.witnesses {
        code.line("release_all(witness);".into());
    }
    code.lines
}

struct Code<'a> {
    about: &'a About<'a>,
    /// What stands for variables that are used once, right away.
    inline: BTreeMap<Var, String>,
    uses: BTreeMap<Var, usize>,
    lines: Vec<String>,
    depth: usize,
    /// The variables that come from tapes.
    peeks: Vec<Var>,
    witnesses: bool,
    /// By variable, whether it is written at one place only.
    once: Vec<bool>,
}

impl Code<'_> {
    fn line(&mut self, text: String) {
        self.lines.push(format!("{}{text}", "    ".repeat(self.depth)));
    }

    fn count(&mut self, steps: &[Planned]) {
        for step in steps {
            match step {
                Planned::Do(step, _) => {
                    step.inputs().iter().for_each(|var| *self.uses.entry(*var).or_default() += 1);
                }
                Planned::Advance(..) => {}
                Planned::If(condition, then, other, _) => {
                    *self.uses.entry(*condition).or_default() += 1;
                    self.count(then);
                    self.count(other);
                }
                Planned::Loop { before, condition, body, .. } => {
                    // Never inline: it is computed at another place than where it is tested.
                    *self.uses.entry(*condition).or_default() += 2;
                    self.count(before);
                    self.count(body);
                }
            }
        }
    }

    fn steps(&mut self, steps: &[Planned]) {
        for step in steps {
            match step {
                Planned::Do(step, tape) => self.step(step, tape.is_some()),
                Planned::Advance(var, ..) => {
                    let name = self.about.name(*var);
                    let ty = &self.about.transaction.checkable.body.vars[var.0 as usize].ty;
                    let remote = if matches!(ty, Type::Handle(..)) { " remote" } else { "" };
                    self.line(format!("advance{remote}({name});"));
                }
                Planned::If(condition, then, other, _) => {
                    let condition = self.expr(*condition);
                    if then.is_empty() {
                        self.line(format!("if !{condition} {{"));
                        self.inside(other);
                    } else {
                        self.line(format!("if {condition} {{"));
                        self.inside(then);
                        if !other.is_empty() {
                            self.line("} else {".into());
                            self.inside(other);
                        }
                    }
                    self.line("}".into());
                }
                Planned::Loop { before, condition, body, .. } => {
                    self.line("loop {".into());
                    self.inside(before);
                    let condition = self.expr(*condition);
                    self.line(format!("    if !{condition} {{ break; }}"));
                    self.inside(body);
                    self.line("}".into());
                }
            }
        }
    }

    fn inside(&mut self, steps: &[Planned]) {
        self.depth += 1;
        self.steps(steps);
        self.depth -= 1;
    }

    fn step(&mut self, step: &Step, kept: bool) {
        let mutates = match &step.kind {
            StepKind::Remote(remote) => remote.op.mutates().then_some(remote.handle),
            _ => None,
        };
        if let (true, Some(handle)) = (self.witnesses, mutates) {
            let handle = self.expr(handle);
            self.line(format!("acquire({handle}, witness);"));
        }
        let text = match &step.kind {
            StepKind::Set(_, compute) => self.compute(compute),
            StepKind::Remote(remote) => self.remote(remote),
            StepKind::Custom(custom) => {
                let known = &self.about.compiled.declarations;
                let store = known.store_info(custom.store);
                let operation = &store.operations[custom.operation as usize].name;
                format!("{}.{operation}({})", store.name, self.list(&custom.args))
            }
            StepKind::Fresh(_, store) => {
                format!("new in {}", self.about.compiled.declarations.store_info(*store).name)
            }
            StepKind::Endorse(_, level, src) => {
                let level = self.about.compiled.declarations.level_name(*level).to_owned();
                format!("endorse({level}, {})", self.expr(*src))
            }
            StepKind::Abort(text) => {
                let text = self.expr(*text);
                return self.line(format!("abort {text};"));
            }
            StepKind::Return(value) => {
                let value = self.expr(*value);
                return self.line(format!("return {value};"));
            }
            StepKind::If(..) | StepKind::Loop { .. } => return,
        };
        let Some(dst) = step.dst() else { return self.line(format!("{text};")) };
        let info = &self.about.transaction.checkable.body.vars[dst.0 as usize];
        let uses = self.uses.get(&dst).copied().unwrap_or(0);
        if info.name.is_none() && !kept {
            let constant = matches!(step.kind, StepKind::Set(_, Compute::Const(_)));
            if (constant || uses == 1) && self.once[dst.0 as usize] {
                self.inline.insert(dst, text);
                return;
            }
            if uses == 0 {
                return self.line(format!("{text};"));
            }
        }
        let keep = if kept { "  // kept" } else { "" };
        self.line(format!("{} = {text};{keep}", self.about.name(dst)));
    }

    fn expr(&self, var: Var) -> String {
        match self.inline.get(&var) {
            Some(text) => text.clone(),
            None if self.peeks.contains(&var) => format!("peek({})", self.about.name(var)),
            None => self.about.name(var),
        }
    }

    fn list(&self, vars: &[Var]) -> String {
        vars.iter().map(|var| self.expr(*var)).collect::<Vec<_>>().join(", ")
    }

    fn remote(&self, remote: &Remote) -> String {
        let handle = self.expr(remote.handle);
        let known = &self.about.compiled.declarations;
        let field = |index: u16| match known.object_fields(&remote.object, remote.store) {
            Some(fields) => fields[index as usize].0.clone(),
            None => index.to_string(),
        };
        let args = self.list(&remote.args);
        match remote.op {
            ObjectOp::Field(index) => format!("{handle}->{}", field(index)),
            ObjectOp::PutField(index) => format!("{handle}->{} = {args}", field(index)),
            ObjectOp::Create => format!("*{handle} = {{ {args} }}"),
            ObjectOp::Load => format!("*{handle}"),
            op => format!("{handle}.{}({args})", operation_name(op, &remote.object)),
        }
    }

    fn compute(&self, compute: &Compute) -> String {
        let known = &self.about.compiled.declarations;
        match compute {
            Compute::Const(value) => literal(value),
            Compute::Copy(src) => self.expr(*src),
            Compute::Unary(UnaryOp::Negate, a) => format!("-{}", self.expr(*a)),
            Compute::Unary(UnaryOp::Not, a) => format!("!{}", self.expr(*a)),
            Compute::Binary(op, a, b) => {
                format!("({} {} {})", self.expr(*a), op.symbol(), self.expr(*b))
            }
            Compute::Builtin(builtin, args) => {
                format!("{}({})", snake(&format!("{builtin:?}")), self.list(args))
            }
            Compute::List(args) => format!("[{}]", self.list(args)),
            Compute::Set(args) => format!("set[{}]", self.list(args)),
            Compute::Map(args) => {
                let pairs = args.chunks(2).map(|pair| {
                    pair.iter().map(|var| self.expr(*var)).collect::<Vec<_>>().join(": ")
                });
                format!("map[{}]", pairs.collect::<Vec<_>>().join(", "))
            }
            Compute::Struct(id, args) => {
                format!("{} {{ {} }}", known.struct_info(*id).name, self.list(args))
            }
            Compute::Field(a, index) => format!("{}.{}", self.expr(*a), self.field(*a, *index)),
            Compute::WithField(a, index, value) => {
                let field = self.field(*a, *index);
                format!("{} with {field}: {}", self.expr(*a), self.expr(*value))
            }
            Compute::Call(function, args) => {
                format!("{}({})", known.functions[*function as usize].name, self.list(args))
            }
        }
    }

    fn field(&self, of: Var, index: u16) -> String {
        match &self.about.transaction.checkable.body.vars[of.0 as usize].ty {
            Type::Struct(id) => {
                let info = self.about.compiled.declarations.struct_info(*id);
                info.fields[index as usize].0.clone()
            }
            _ => index.to_string(),
        }
    }
}

fn operation_name(op: ObjectOp, object: &Object) -> &'static str {
    match op {
        ObjectOp::Exists => "is_valid",
        ObjectOp::Delete => "delete",
        ObjectOp::Get | ObjectOp::GetKey => "get",
        ObjectOp::Put => "set",
        ObjectOp::Increment | ObjectOp::Insert => "add",
        ObjectOp::Value => "value",
        ObjectOp::Remove | ObjectOp::RemoveKey => "remove",
        ObjectOp::Contains | ObjectOp::ContainsKey => "contains",
        ObjectOp::Elements => "elements",
        ObjectOp::PutKey => "put",
        ObjectOp::Entries => "entries",
        ObjectOp::Append if matches!(object, Object::List(_)) => "push",
        ObjectOp::Append => "append",
        ObjectOp::At => "at",
        ObjectOp::Values => "values",
        ObjectOp::Size => "size",
        ObjectOp::Load | ObjectOp::Field(_) | ObjectOp::PutField(_) | ObjectOp::Create => "",
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Unit => "()".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::String(text) => format!("{text:?}"),
        Value::Bytes(bytes) => format!("b\"{}\"", bytes.escape_ascii()),
        Value::Option(None) => "none".into(),
        other => format!("{other:?}"),
    }
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
