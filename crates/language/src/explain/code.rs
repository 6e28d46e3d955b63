//! Formats a phase as code in the surface syntax (MixT Fig. 10).

use std::collections::BTreeMap;

use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, Type};

use super::names::Names;
use super::surface::{self, Call};
use super::term::{Binds, Term};
use super::walks::{Walk, Walks};
use super::{About, each_planned};
use crate::flat::{Compute, Remote, Step, StepKind, Var};
use crate::split::Planned;
use crate::syntax::ast::{BinaryOp, UnaryOp};

/// Returns the lines of a phase.
pub(super) fn lines(about: &About, phase: usize, names: &mut Names) -> Vec<String> {
    let plan = &about.transaction.split.phases[phase];
    let mut code = Code {
        about,
        names,
        inline: BTreeMap::new(),
        uses: BTreeMap::new(),
        peeks: plan.takes.iter().map(|t| about.transaction.split.tapes[*t as usize]).collect(),
        witnesses: plan.witnesses,
        once: about.transaction.checkable.body.written_once(),
        walks: Walks::of(&plan.steps, &about.transaction.checkable.body),
    };
    code.count(&plan.steps);
    let mut lines = code.steps(&plan.steps);
    let result = about.transaction.checkable.body.result.filter(|_| {
        about.transaction.split.result_phase == phase
            && about.transaction.checkable.result != Type::Unit
    });
    let result = result.map(|result| match lines.pop_if(|line| line.sets(result)) {
        Some(Line::Set(_, value, _)) => value,
        _ => code.expr(result),
    });
    if plan.witnesses {
        lines.push(Line::Plain("release_all(witness);".into()));
    }
    if let Some(result) = result {
        lines.push(Line::Plain(format!("return {};", result.text)));
    }
    let mut printed = Vec::new();
    code.print(&lines, 0, &mut printed);
    printed
}

/// A line, or a block with its lines.
enum Line {
    Plain(String),
    /// Assigns a value to a variable. The `bool` is whether the value is kept for later phases.
    Set(Var, Term, bool),
    /// Assigns the next of the passed values to a variable.
    Advance(Var, Term),
    /// A block: the text before its brace, a remark after it, and its lines.
    Block(String, String, Vec<Line>),
    Else(Vec<Line>),
}

impl Line {
    /// Returns whether it assigns a value that no later phase needs to this variable.
    fn sets(&self, var: Var) -> bool {
        matches!(self, Line::Set(dst, _, false) if *dst == var)
    }
}

struct Code<'a> {
    about: &'a About<'a>,
    names: &'a mut Names,
    /// Expressions that replace variables used exactly once, immediately after their assignment.
    inline: BTreeMap<Var, Term>,
    uses: BTreeMap<Var, usize>,
    /// The variables that come from tapes.
    peeks: Vec<Var>,
    witnesses: bool,
    /// For each variable, whether it is assigned at one place only.
    once: Vec<bool>,
    walks: Walks,
}

impl Code<'_> {
    fn print(&mut self, lines: &[Line], depth: usize, out: &mut Vec<String>) {
        let indent = "    ".repeat(depth);
        for (index, line) in lines.iter().enumerate() {
            match line {
                Line::Plain(text) => out.push(format!("{indent}{text}")),
                Line::Set(var, term, kept) => {
                    let remark = if *kept { "  // handed on" } else { "" };
                    out.push(format!(
                        "{indent}{} = {};{remark}",
                        self.names.of_var(*var),
                        term.text
                    ));
                }
                Line::Advance(_, term) => out.push(format!("{indent}{};", term.text)),
                Line::Block(head, remark, inside) => {
                    out.push(format!("{indent}{head} {{{remark}"));
                    self.print(inside, depth + 1, out);
                    if !matches!(lines.get(index + 1), Some(Line::Else(_))) {
                        out.push(format!("{indent}}}"));
                    }
                }
                Line::Else(inside) => {
                    out.push(format!("{indent}}} else {{"));
                    self.print(inside, depth + 1, out);
                    out.push(format!("{indent}}}"));
                }
            }
        }
    }

    fn count(&mut self, steps: &[Planned]) {
        let uses = &mut self.uses;
        each_planned(steps, &mut |planned| match planned {
            Planned::Do(step, _) => {
                step.inputs().iter().for_each(|var| *uses.entry(*var).or_default() += 1);
            }
            Planned::Advance(..) => {}
            Planned::If(condition, ..) => *uses.entry(*condition).or_default() += 1,
            // The condition is never inlined, because the loop computes it at one place and tests
            // it at another.
            Planned::Loop { condition, .. } => *uses.entry(*condition).or_default() += 2,
        });
    }

    fn steps(&mut self, steps: &[Planned]) -> Vec<Line> {
        let mut lines = Vec::new();
        for step in steps {
            match step {
                Planned::Do(step, tape) => self.step(step, tape.is_some(), &mut lines),
                Planned::Advance(var, ..) => {
                    let ty = &self.about.transaction.checkable.body.vars[var.0 as usize].ty;
                    let remote = if matches!(ty, Type::Handle(..)) { " remote" } else { "" };
                    let term = Term::atom(format!("advance{remote}({})", self.names.of_var(*var)));
                    lines.push(Line::Advance(*var, term));
                }
                Planned::If(condition, then, other, _) => {
                    self.branch(*condition, then, other, &mut lines);
                }
                Planned::Loop { before, condition, body, .. } => {
                    let line = self.turns(before, *condition, body);
                    lines.push(line);
                }
            }
        }
        lines
    }

    fn branch(
        &mut self,
        condition: Var,
        then: &[Planned],
        other: &[Planned],
        lines: &mut Vec<Line>,
    ) {
        let then = self.steps(then);
        let other = self.steps(other);
        // `x = a; if x { x = b; }` is how `x = a && b` is flattened, and `||` likewise.
        if let Some(joined) = shortcut(condition, lines.last(), &then, &other) {
            lines.pop();
            return self.keep_joined(joined, lines);
        }
        let condition = self.expr(condition);
        if then.is_empty() {
            lines.push(Line::Block(
                format!("if !{}", condition.within(Binds::Prefix)),
                String::new(),
                other,
            ));
            return;
        }
        lines.push(Line::Block(format!("if {}", condition.text), String::new(), then));
        if !other.is_empty() {
            lines.push(Line::Else(other));
        }
    }

    /// Adds a line that replaces an assignment and the branch after it. The condition of that
    /// branch no longer counts as a use of the variable.
    fn keep_joined(&mut self, joined: Line, lines: &mut Vec<Line>) {
        if let Line::Set(var, term, false) = &joined {
            let uses = self.uses.entry(*var).or_default();
            *uses -= 1;
            let named = self.about.transaction.checkable.body.vars[var.0 as usize].name.is_some();
            if *uses == 1 && !named {
                self.inline.insert(*var, term.clone());
                return;
            }
        }
        lines.push(joined);
    }

    /// Formats a loop as `for`, `while` or `loop`.
    fn turns(&mut self, before: &[Planned], condition: Var, body: &[Planned]) -> Line {
        if let Some(walk) = self.walks.walk(before, body) {
            return self.walk(&walk, before, condition, body);
        }
        let mut before = self.steps(before);
        let head = match before.as_slice() {
            [] => Some((self.expr(condition), false)),
            [Line::Set(var, term, kept)] if *var == condition => Some((term.clone(), *kept)),
            [Line::Advance(var, term)] if *var == condition => Some((term.clone(), false)),
            _ => None,
        };
        let inside = self.steps(body);
        match head {
            Some((term, kept)) => {
                let kept = if kept { vec![condition] } else { Vec::new() };
                Line::Block(format!("while {}", term.text), self.remark(&kept), inside)
            }
            None => {
                let condition = self.expr(condition);
                before.push(Line::Plain(format!(
                    "if !{} {{ break; }}",
                    condition.within(Binds::Prefix)
                )));
                before.extend(inside);
                Line::Block("loop".into(), String::new(), before)
            }
        }
    }

    fn walk(&mut self, walk: &Walk, before: &[Planned], condition: Var, body: &[Planned]) -> Line {
        let all = self.expr(walk.all);
        let name = walk.element.map_or_else(|| "_".to_owned(), |(var, _)| self.names.of_var(var));
        let mut kept = Vec::new();
        if matches!(before, [Planned::Do(_, Some(_))]) {
            kept.push(condition);
        }
        kept.extend(walk.element.filter(|(_, kept)| *kept).map(|(var, _)| var));
        let remark = self.remark(&kept);
        let inside = self.steps(&body[walk.skip..]);
        Line::Block(format!("for {name} in {}", all.text), remark, inside)
    }

    /// Returns a remark on the variables of a loop's head that are kept for later phases.
    fn remark(&mut self, kept: &[Var]) -> String {
        if kept.is_empty() {
            return String::new();
        }
        let names: Vec<_> = kept.iter().map(|var| self.names.of_var(*var)).collect();
        format!("  // hands on: {}", names.join(", "))
    }

    fn step(&mut self, step: &Step, kept: bool, lines: &mut Vec<Line>) {
        if let (true, StepKind::Remote(remote)) = (self.witnesses, &step.kind)
            && remote.op.mutates()
        {
            let handle = self.expr(remote.handle);
            lines.push(Line::Plain(format!("acquire({}, witness);", handle.text)));
        }
        let term = match &step.kind {
            StepKind::Set(dst, compute) => {
                if self.walks.hidden.contains(dst) {
                    if let Compute::Builtin(Builtin::Elements, of) = compute {
                        let of = self.expr(of[0]);
                        self.inline.insert(*dst, of);
                    }
                    return;
                }
                if let Compute::Builtin(builtin, args) = compute
                    && args.first() == Some(dst)
                    && surface::changes(*builtin)
                {
                    let text = self.builtin(*builtin, args).text;
                    let remark = if kept { "  // handed on" } else { "" };
                    return lines.push(Line::Plain(format!("{text};{remark}")));
                }
                self.compute(*dst, compute)
            }
            StepKind::Remote(remote) => self.remote(remote),
            StepKind::Custom(custom) => {
                let store = self.about.compiled.declarations.store_info(custom.store);
                let operation = &store.operations[custom.operation as usize].name;
                Term::atom(format!("{}.{operation}({})", store.name, self.list(&custom.args)))
            }
            StepKind::Fresh(_, store) => {
                let store = &self.about.compiled.declarations.store_info(*store).name;
                Term { text: format!("new in {store}"), binds: Binds::Whole }
            }
            StepKind::Endorse(_, level, src) => {
                let level = self.about.compiled.declarations.level_name(*level).to_owned();
                Term::atom(format!("endorse({level}, {})", self.expr(*src).text))
            }
            StepKind::Abort(text) => {
                let text = self.expr(*text).text;
                return lines.push(Line::Plain(format!("abort {text};")));
            }
            // The plan has its own kinds for branches and loops, and a transaction's `return` was
            // lowered to a branch.
            StepKind::If(..) | StepKind::Loop { .. } | StepKind::Return(_) => return,
        };
        let dst = step.dst().expect("every other step writes a variable");
        let info = &self.about.transaction.checkable.body.vars[dst.0 as usize];
        let uses = self.uses.get(&dst).copied().unwrap_or(0);
        if info.name.is_none() && !kept {
            let constant = matches!(step.kind, StepKind::Set(_, Compute::Const(_)));
            if (constant || uses == 1) && self.once[dst.0 as usize] {
                self.inline.insert(dst, term);
                return;
            }
            if uses == 0 {
                // The value is unused, but the transaction fails if the computation does.
                let computes = matches!(step.kind, StepKind::Set(..));
                let remark = if computes { "  // may fail" } else { "" };
                return lines.push(Line::Plain(format!("{};{remark}", term.text)));
            }
        }
        lines.push(Line::Set(dst, term, kept));
    }

    fn expr(&mut self, var: Var) -> Term {
        match self.inline.get(&var) {
            Some(term) => term.clone(),
            None if self.peeks.contains(&var) => {
                Term::atom(format!("peek({})", self.names.of_var(var)))
            }
            None => Term::atom(self.names.of_var(var)),
        }
    }

    fn list(&mut self, vars: &[Var]) -> String {
        vars.iter().map(|var| self.expr(*var).text).collect::<Vec<_>>().join(", ")
    }

    fn remote(&mut self, remote: &Remote) -> Term {
        let handle = self.expr(remote.handle);
        let args = self.list(&remote.args);
        let fields = self.about.compiled.declarations.object_fields(&remote.object, remote.store);
        let fields = fields.unwrap_or_default();
        let arrow = |index: u16| format!("{}->{}", handle.receiver(), fields[index as usize].0);
        match remote.op {
            ObjectOp::Field(index) => Term::atom(arrow(index)),
            ObjectOp::PutField(index) => Term::atom(format!("{} = {args}", arrow(index))),
            ObjectOp::Create => {
                let values: Vec<_> = fields
                    .iter()
                    .zip(&remote.args)
                    .map(|((name, _), var)| format!("{name}: {}", self.expr(*var).text))
                    .collect();
                let name = match &remote.object {
                    Object::Struct(id) => &self.about.compiled.declarations.struct_info(*id).name,
                    _ => "RemoteList",
                };
                let handle = handle.within(Binds::Prefix);
                Term::atom(format!("*{handle} = {name} {{ {} }}", values.join(", ")))
            }
            ObjectOp::Load => {
                Term { text: format!("*{}", handle.within(Binds::Prefix)), binds: Binds::Prefix }
            }
            op => {
                let name = surface::operation(op, &remote.object);
                Term::atom(format!("{}.{name}({args})", handle.receiver()))
            }
        }
    }

    fn compute(&mut self, dst: Var, compute: &Compute) -> Term {
        let known = &self.about.compiled.declarations;
        match compute {
            Compute::Const(value) => Term::atom(surface::literal(value)),
            Compute::Copy(src) => self.expr(*src),
            Compute::Unary(op, a) => {
                let sign = if *op == UnaryOp::Negate { "-" } else { "!" };
                let text = format!("{sign}{}", self.expr(*a).within(Binds::Prefix));
                Term { text, binds: Binds::Prefix }
            }
            Compute::Binary(op, a, b) => {
                let (a, b) = (self.expr(*a), self.expr(*b));
                a.binary(*op, &b)
            }
            Compute::Builtin(builtin, args) => self.builtin(*builtin, args),
            Compute::List(args) => Term::atom(format!("[{}]", self.list(args))),
            Compute::Set(args) => Term::atom(format!("set[{}]", self.list(args))),
            Compute::Map(args) => {
                let pair = |pair: &[Var]| {
                    let pair: Vec<_> = pair.iter().map(|var| self.expr(*var).text).collect();
                    pair.join(": ")
                };
                let pairs: Vec<_> = args.chunks(2).map(pair).collect();
                Term::atom(format!("map[{}]", pairs.join(", ")))
            }
            Compute::Struct(id, args) => {
                let info = known.struct_info(*id);
                let field = |((name, _), var): (&(String, Type), &Var)| {
                    format!("{name}: {}", self.expr(*var).text)
                };
                let fields: Vec<_> = info.fields.iter().zip(args).map(field).collect();
                Term::atom(format!("{} {{ {} }}", info.name, fields.join(", ")))
            }
            Compute::Field(a, index) => {
                let field = self.field(*a, *index);
                Term::atom(format!("{}.{field}", self.expr(*a).receiver()))
            }
            Compute::WithField(a, index, value) => {
                let field = self.field(*a, *index);
                let (a, value) = (self.expr(*a).within(Binds::Prefix), self.expr(*value).text);
                Term { text: format!("{a} with {field}: {value}"), binds: Binds::Whole }
            }
            Compute::Call(function, args) => {
                let name = &known.functions[*function as usize].name;
                Term::atom(format!("{name}({})", self.list(args)))
            }
            Compute::Handle(store, key) => {
                let object = match &self.about.transaction.checkable.body.vars[dst.0 as usize].ty {
                    Type::Handle(object, _) => known.show_object(object),
                    other => known.show(other),
                };
                let store = &known.store_info(*store).name;
                let text = format!("handle<{object}>({}) in {store}", self.expr(*key).text);
                Term { text, binds: Binds::Whole }
            }
        }
    }

    fn builtin(&mut self, builtin: Builtin, args: &[Var]) -> Term {
        let text = match (surface::call(builtin), args) {
            (Call::Index, [list, at]) => {
                format!("{}[{}]", self.expr(*list).receiver(), self.expr(*at).text)
            }
            (Call::Method(name), [receiver, others @ ..]) => {
                format!("{}.{name}({})", self.expr(*receiver).receiver(), self.list(others))
            }
            (Call::Function(name) | Call::Method(name), args) => {
                format!("{name}({})", self.list(args))
            }
            (Call::Index, args) => format!("[{}]", self.list(args)),
        };
        Term::atom(text)
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

/// Converts `x = a; if x { x = b; }` to `x = a && b`, and `x = a; if !x { x = b; }` to `x = a ||
/// b`.
fn shortcut(condition: Var, last: Option<&Line>, then: &[Line], other: &[Line]) -> Option<Line> {
    let (operator, second) = match (then, other) {
        ([second], []) => (BinaryOp::And, second),
        ([], [second]) => (BinaryOp::Or, second),
        _ => return None,
    };
    match (last?, second) {
        (Line::Set(first, a, kept), Line::Set(again, b, _))
            if [first, again] == [&condition; 2] =>
        {
            Some(Line::Set(condition, a.binary(operator, b), *kept))
        }
        (Line::Advance(first, a), Line::Advance(again, b)) if [first, again] == [&condition; 2] => {
            Some(Line::Advance(condition, a.binary(operator, b)))
        }
        _ => None,
    }
}
