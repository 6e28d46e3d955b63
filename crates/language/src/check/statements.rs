//! Lowers statements.

use solera_program::builtin::Builtin;
use solera_program::span::Span;
use solera_program::types::{Object, Type};
use solera_program::value::Value;

use super::lower::{Lower, is_known};
use crate::diagnostic::{Diagnostic, Mark, Severity};
use crate::flat::{Compute, StepKind, Var};
use crate::syntax::ast::{
    Arm, BinaryOp, Block, Expr, ExprKind, Literal, Name, PatternKind, Stmt, StmtKind, TypeExpr,
};

/// Maximum number of statements with exits that may precede another statement in a block.
const MAX_EXITS: usize = 100;

impl Lower<'_> {
    /// Lowers a block in its own scope. `tail` is whether nothing follows the block.
    fn block(&mut self, block: &Block, tail: bool) {
        self.scoped(|this| this.statements(&block.statements, tail));
    }

    /// Lowers statements. Statements after one that may exit the block run only if it did not.
    pub(super) fn statements(&mut self, statements: &[Stmt], tail: bool) {
        for (index, statement) in statements.iter().enumerate() {
            let rest = &statements[index + 1..];
            self.statement(statement, tail && rest.is_empty());
            if rest.is_empty() {
                return;
            }
            let span = rest[0].span;
            if ends(statement) {
                let span = span.to(rest[rest.len() - 1].span);
                self.diagnostics.push(
                    Diagnostic::warning("W0101", span, "this is never executed")
                        .mark(statement.span, "nothing after this is executed"),
                );
                self.unreachable(|this| this.statements(rest, tail));
                return;
            }
            if let Some(go_on) = self.go_on_after(statement) {
                let rest = self.capture(|this| this.after_exit(rest, tail));
                self.step(span, StepKind::If(go_on, rest, Vec::new()));
                return;
            }
        }
    }

    /// Lowers unreachable code: reports its errors and discards its steps.
    fn unreachable(&mut self, lower: impl FnOnce(&mut Self)) {
        let (reported, vars) = (self.diagnostics.len(), self.body.vars.len());
        self.capture(lower);
        let found = self.diagnostics.split_off(reported);
        self.diagnostics.extend(found.into_iter().filter(|one| one.severity == Severity::Error));
        self.body.vars.truncate(vars);
    }

    /// Lowers the statements after one that may exit the block, one level deeper each time.
    fn after_exit(&mut self, rest: &[Stmt], tail: bool) {
        if self.exits.depth == MAX_EXITS {
            let error = format!(
                "more than {MAX_EXITS} statements before this may leave the function or loop"
            );
            let help = "move a part to a function";
            self.diagnostics.push(Diagnostic::error("E0310", rest[0].span, error).help(help));
            return;
        }
        self.exits.depth += 1;
        self.statements(rest, tail);
        self.exits.depth -= 1;
    }

    fn statement(&mut self, statement: &Stmt, tail: bool) {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Var(name, ty, value) => self.variable_declaration(name, ty.as_ref(), value),
            StmtKind::Assign(place, op, value) => self.assignment(place, *op, value, span),
            StmtKind::Expr(expr) => self.expression_statement(expr),
            StmtKind::If(condition, then, other) => {
                let condition = self.condition(condition);
                let then = self.capture(|this| this.block(then, tail));
                let other = self.capture(|this| {
                    if let Some(other) = other {
                        this.block(other, tail);
                    }
                });
                self.step(span, StepKind::If(condition, then, other));
            }
            StmtKind::While(condition, body) => self.while_loop(condition, body, span),
            StmtKind::For(name, over, body) => self.for_loop(name, over, body, span),
            StmtKind::Match(scrutinee, arms) => self.match_statement(scrutinee, arms, tail, span),
            StmtKind::Return(value) => self.return_statement(value.as_ref(), span),
            StmtKind::Break | StmtKind::Continue => {
                if !self.exits.in_loop() {
                    self.error("E0305", span, "this is not in a loop");
                }
                self.mark_left(matches!(statement.kind, StmtKind::Continue), span);
            }
            StmtKind::Abort(text) => {
                let var = self.expression(text, Some(&Type::String));
                self.require_type(var, &Type::String, text.span);
                if self.is_function {
                    self.error("E0306", span, "a function cannot abort a transaction");
                }
                self.step(span, StepKind::Abort(var));
            }
            StmtKind::Block(block) => self.block(block, tail),
        }
    }

    fn variable_declaration(&mut self, name: &Name, ty: Option<&TypeExpr>, value: &Expr) {
        let stated = ty.map(|ty| self.stated_type(ty));
        let wanted = stated.as_ref().map(|(ty, _)| ty);
        let found = self.expression(value, wanted);
        let ty = match wanted {
            Some(wanted) => {
                if let (false, Some(ty)) = (self.require_type(found, wanted, value.span), ty)
                    && let Some(error) = self.diagnostics.last_mut()
                {
                    error.others.push(Mark { span: ty.span, text: "as stated here".into() });
                }
                wanted.clone()
            }
            None => self.type_of(found),
        };
        if ty == Type::Unit {
            self.error("E0206", value.span, "this has no value");
        } else if wanted.is_none() && !is_known(&ty) && ty != Type::Unknown {
            let shown = self.known.show(&ty);
            self.diagnostics.push(
                Diagnostic::error(
                    "E0207",
                    value.span,
                    format!("the type {shown} is incomplete: `_` is not known"),
                )
                .help(format!("state the type: `var {}: … = …;`", name.text)),
            );
        }
        let var = self.declare(name, ty);
        self.body.vars[var.0 as usize].stated = stated.and_then(|(_, level)| level);
        self.step(name.span.to(value.span), StepKind::Set(var, Compute::Copy(found)));
    }

    fn assignment(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) {
        let could_be = matches!(
            place.kind,
            ExprKind::Name(_) | ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Deref(_)
        );
        // The parser has reported expressions whose form cannot be assigned to.
        let Some(place) = could_be.then(|| self.place(place)).flatten() else {
            self.expression(value, None);
            return;
        };
        let ty = self.place_type(&place);
        let mut new = self.expression(value, Some(&ty));
        if let Some(op) = op {
            let old = self.load(&place, span);
            new = self.binary(op, old, new, span);
        }
        if self.require_type(new, &ty, value.span) {
            self.store(&place, new, span);
        }
    }

    fn expression_statement(&mut self, expr: &Expr) {
        if let ExprKind::Method(receiver, name, args) = &expr.kind {
            self.method(receiver, name, args, expr.span, true);
            return;
        }
        let before = self.diagnostics.len();
        self.expression(expr, None);
        let useful = matches!(expr.kind, ExprKind::Call(..) | ExprKind::New(..) | ExprKind::Error);
        if !useful && self.diagnostics.len() == before {
            self.warn_of_unused(expr.span);
        }
    }

    /// Lowers a condition, which must be a `bool`.
    fn condition(&mut self, condition: &Expr) -> Var {
        let var = self.expression(condition, Some(&Type::Bool));
        self.require_type(var, &Type::Bool, condition.span);
        var
    }

    fn while_loop(&mut self, condition: &Expr, body: &Block, span: Span) {
        self.enter_loop(body, span);
        let mut holds = None;
        let before = self.capture(|this| {
            holds = Some(match this.may_iterate(body, condition.span) {
                None => this.condition(condition),
                Some(go_on) => {
                    let all = this.compute(condition.span, Type::Bool, Compute::Copy(go_on));
                    this.purpose(all, "turn");
                    let then = this.capture(|this| {
                        let holds = this.condition(condition);
                        this.step(condition.span, StepKind::Set(all, Compute::Copy(holds)));
                    });
                    this.step(condition.span, StepKind::If(all, then, Vec::new()));
                    all
                }
            });
        });
        let condition = holds.expect("the condition was just written");
        let body = self.capture(|this| {
            this.begin_iteration(span);
            this.block(body, false);
        });
        self.step(span, StepKind::Loop { before, condition, body });
        self.leave_loop();
    }

    /// Lowers `for name in over { body }`, which iterates over the elements of a list or set, the
    /// keys of a map, the content of an object of a store, or the values of a `RemoteList`.
    fn for_loop(&mut self, name: &Name, over: &Expr, body: &Block, span: Span) {
        let all = self.expression(over, None);
        if let Type::Handle(object, _) = self.type_of(all)
            && let Object::RemoteList(_) = &*object
        {
            return self.for_cells(name, all, body, over.span, span);
        }
        let all = match self.type_of(all) {
            Type::Handle(..) => self.dereference(all, over.span),
            _ => all,
        };
        let element = match self.type_of(all) {
            Type::List(of) | Type::Set(of) | Type::Map(of, _) => (*of).clone(),
            Type::Unknown => Type::Unknown,
            other => {
                let shown = self.known.show(&other);
                self.diagnostics.push(
                    Diagnostic::error("E0209", over.span, format!("{shown} has no elements")).note(
                        "`for` iterates over lists, sets, the keys of maps, and handles to those",
                    ),
                );
                Type::Unknown
            }
        };
        let list = Type::List(element.clone().into());
        let elements = Compute::Builtin(Builtin::Elements, vec![all]);
        let elements = self.compute(over.span, list, elements);
        self.purpose(elements, "all");
        let count =
            self.compute(over.span, Type::Int, Compute::Builtin(Builtin::Len, vec![elements]));
        let zero = self.constant(over.span, Type::Int, Value::Int(0));
        let next = self.compute(over.span, Type::Int, Compute::Copy(zero));
        self.purpose(next, "next");
        let one = self.constant(over.span, Type::Int, Value::Int(1));
        self.enter_loop(body, span);
        let more = self.temp(Type::Bool, over.span);
        self.purpose(more, "turn");
        let before = self.capture(|this| {
            let compare = |this: &mut Self| {
                let less = Compute::Binary(BinaryOp::Less, next, count);
                this.step(over.span, StepKind::Set(more, less));
            };
            match this.may_iterate(body, over.span) {
                None => compare(this),
                Some(go_on) => {
                    this.step(over.span, StepKind::Set(more, Compute::Copy(go_on)));
                    let then = this.capture(compare);
                    this.step(over.span, StepKind::If(more, then, Vec::new()));
                }
            }
        });
        let body = self.capture(|this| {
            this.begin_iteration(span);
            this.scoped(|this| {
                let var = this.declare(name, element);
                let at = Compute::Builtin(Builtin::Index, vec![elements, next]);
                this.step(name.span, StepKind::Set(var, at));
                let onward = Compute::Binary(BinaryOp::Add, next, one);
                this.step(name.span, StepKind::Set(next, onward));
                this.block(body, false);
            });
        });
        self.step(span, StepKind::Loop { before, condition: more, body });
        self.leave_loop();
    }

    /// Lowers a `for` over the cells of a `RemoteList`, as in the paper's Fig. 4.
    fn for_cells(&mut self, name: &Name, first: Var, body: &Block, over: Span, span: Span) {
        let ty = self.type_of(first);
        let cell = self.compute(over, ty, Compute::Copy(first));
        self.purpose(cell, "cell");
        self.enter_loop(body, span);
        let more = self.temp(Type::Bool, over);
        self.purpose(more, "turn");
        let before = self.capture(|this| {
            let valid = |this: &mut Self| {
                let valid = this.is_valid(cell, over);
                this.step(over, StepKind::Set(more, Compute::Copy(valid)));
            };
            match this.may_iterate(body, over) {
                None => valid(this),
                Some(go_on) => {
                    this.step(over, StepKind::Set(more, Compute::Copy(go_on)));
                    let then = this.capture(valid);
                    this.step(over, StepKind::If(more, then, Vec::new()));
                }
            }
        });
        let body = self.capture(|this| {
            this.begin_iteration(span);
            this.scoped(|this| {
                let value = this.cell_field(cell, 0, name.span);
                let var = this.declare(name, this.type_of(value));
                this.step(name.span, StepKind::Set(var, Compute::Copy(value)));
                let next = this.cell_field(cell, 1, over);
                this.step(over, StepKind::Set(cell, Compute::Copy(next)));
                this.block(body, false);
            });
        });
        self.step(span, StepKind::Loop { before, condition: more, body });
        self.leave_loop();
    }

    fn match_statement(&mut self, scrutinee: &Expr, arms: &[Arm], tail: bool, span: Span) {
        let value = self.expression(scrutinee, None);
        let ty = self.type_of(value);
        self.check_arms(&ty, scrutinee.span, arms, span);
        self.match_arms(value, &ty, arms, tail, span);
    }

    fn match_arms(&mut self, value: Var, ty: &Type, arms: &[Arm], tail: bool, span: Span) {
        let Some((arm, others)) = arms.split_first() else { return };
        let at = arm.pattern.span;
        let found = match &arm.pattern.kind {
            PatternKind::Any => None,
            // The last arm needs no test: the arms cover all values.
            PatternKind::Some(_) | PatternKind::None if others.is_empty() => None,
            PatternKind::Some(_) => {
                Some(self.compute(at, Type::Bool, Compute::Builtin(Builtin::IsSome, vec![value])))
            }
            PatternKind::None => {
                Some(self.compute(at, Type::Bool, Compute::Builtin(Builtin::IsNone, vec![value])))
            }
            PatternKind::Literal(literal) => {
                let literal = self.literal(literal, at);
                let equal = Compute::Binary(BinaryOp::Equal, value, literal);
                (!(others.is_empty() && *ty == Type::Bool))
                    .then(|| self.compute(at, Type::Bool, equal))
            }
        };
        let then = self.capture(|this| {
            this.scoped(|this| {
                if let (PatternKind::Some(name), Type::Option(of)) = (&arm.pattern.kind, ty) {
                    let var = this.declare(name, (**of).clone());
                    this.purpose(var, "matched");
                    let inner = Compute::Builtin(Builtin::OrFail, vec![value]);
                    this.step(name.span, StepKind::Set(var, inner));
                }
                this.block(&arm.body, tail);
            });
        });
        match found {
            None => {
                then.into_iter().for_each(|step| self.step(step.span, step.kind));
                self.unreachable(|this| this.match_arms(value, ty, others, tail, span));
            }
            Some(found) => {
                let other = self.capture(|this| this.match_arms(value, ty, others, tail, span));
                self.step(span, StepKind::If(found, then, other));
            }
        }
    }

    /// Checks the patterns of a `match`: each matches the type, none follows a catch-all, and
    /// together they cover all values.
    fn check_arms(&mut self, ty: &Type, scrutinee: Span, arms: &[Arm], span: Span) {
        let (mut all, mut some, mut none) = (false, false, false);
        let mut literals: Vec<&Literal> = Vec::new();
        for arm in arms {
            let at = arm.pattern.span;
            let again = match &arm.pattern.kind {
                PatternKind::Literal(literal) => literals.contains(&literal),
                PatternKind::Some(_) => some,
                PatternKind::None => none,
                PatternKind::Any => false,
            };
            if all || again {
                let warning = Diagnostic::warning("W0101", at, "this is never reached");
                self.diagnostics
                    .push(warning.note("the patterns before it match all of its values"));
            }
            let wanted = match &arm.pattern.kind {
                PatternKind::Any => {
                    all = true;
                    None
                }
                PatternKind::Some(_) => {
                    some = true;
                    (!matches!(ty, Type::Option(_))).then_some("an option")
                }
                PatternKind::None => {
                    none = true;
                    (!matches!(ty, Type::Option(_))).then_some("an option")
                }
                PatternKind::Literal(literal) => {
                    literals.push(literal);
                    let (wanted, text) = match literal {
                        Literal::Int(_) => (Type::Int, "an integer"),
                        Literal::Float(_) => (Type::Float, "a float"),
                        Literal::String(_) => (Type::String, "a string"),
                        Literal::Bytes(_) => (Type::Bytes, "bytes"),
                        Literal::Bool(_) => (Type::Bool, "a bool"),
                    };
                    (*ty != wanted).then_some(text)
                }
            };
            if let (Some(wanted), true) = (wanted, *ty != Type::Unknown) {
                let shown = self.known.show(ty);
                self.diagnostics.push(
                    Diagnostic::error("E0210", at, format!("this pattern matches {wanted}"))
                        .mark(scrutinee, format!("this is {shown}")),
                );
            }
            all |= some && none
                || [true, false].iter().all(|b| literals.contains(&&Literal::Bool(*b)));
        }
        if !all && *ty != Type::Unknown {
            let missing = match ty {
                Type::Option(_) if some => "none",
                Type::Option(_) if none => "some(…)",
                _ => "_",
            };
            self.diagnostics.push(
                Diagnostic::error("E0211", span, "not all values are covered")
                    .help(format!("add `{missing} => {{ … }}`")),
            );
        }
    }

    fn return_statement(&mut self, value: Option<&Expr>, span: Span) {
        let wanted = self.result.clone();
        let var = match value {
            None => self.constant(span, Type::Unit, Value::Unit),
            Some(value) => self.expression(value, Some(&wanted)),
        };
        let at = value.map_or(span, |value| value.span);
        if wanted == Type::Unit && value.is_some() && self.type_of(var) != Type::Unknown {
            let shown = self.shown(var);
            self.diagnostics.push(
                Diagnostic::error("E0206", at, "this returns a value, but no result is declared")
                    .help(format!("declare the result: `-> {shown}`")),
            );
        } else if !self.require_type(var, &wanted, at) {
            return;
        }
        match self.body.result {
            None => self.step(span, StepKind::Return(var)),
            Some(result) => {
                self.step(span, StepKind::Set(result, Compute::Copy(var)));
                self.mark_returned(span);
            }
        }
    }
}

/// Returns whether the code after a statement is unreachable.
fn ends(statement: &Stmt) -> bool {
    match &statement.kind {
        StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Abort(_) => true,
        StmtKind::Block(block) => block.statements.iter().any(ends),
        StmtKind::If(_, then, Some(other)) => {
            then.statements.iter().any(ends) && other.statements.iter().any(ends)
        }
        _ => false,
    }
}
