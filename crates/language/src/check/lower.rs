//! State of lowering a body: the variables in scope, the steps being emitted, and type comparisons.

use std::collections::BTreeMap;

use solera_levels::Label;
use solera_program::span::Span;
use solera_program::types::{StoreId, Type};
use solera_program::value::Value;

use super::declarations::Declarations;
use super::exits::Exits;
use super::{Checkable, Checked};
use crate::diagnostic::Diagnostic;
use crate::flat::{Body, Compute, Step, StepKind, Var, VarInfo};
use crate::nearest::nearest;
use crate::syntax::ast::{FunctionDecl, Item, Module, Name, TypeExpr};

/// Checks names and types of a module, and flattens its bodies.
pub fn lower(module: &Module, diagnostics: &mut Vec<Diagnostic>) -> Checked {
    let declarations = Declarations::of(module, diagnostics);
    let mut checked = Checked { declarations, functions: Vec::new(), transactions: Vec::new() };
    for item in &module.items {
        let (declared, is_function) = match item {
            Item::Function(declared) => (declared, true),
            Item::Transaction(declared) => (declared, false),
            _ => continue,
        };
        let lowered = Lower::new(&checked.declarations, diagnostics, is_function).body(declared);
        match is_function {
            true => checked.functions.push(lowered),
            false => checked.transactions.push(lowered),
        }
    }
    checked
}

/// Flattens one body.
pub(super) struct Lower<'a> {
    pub(super) known: &'a Declarations,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
    pub(super) is_function: bool,
    pub(super) body: Body,
    pub(super) result: Type,
    pub(super) exits: Exits,
    scopes: Vec<BTreeMap<String, Var>>,
    /// Steps of the open blocks, the innermost last.
    steps: Vec<Vec<Step>>,
}

impl<'a> Lower<'a> {
    fn new(
        known: &'a Declarations,
        diagnostics: &'a mut Vec<Diagnostic>,
        is_function: bool,
    ) -> Lower<'a> {
        Lower {
            known,
            diagnostics,
            is_function,
            body: Body::default(),
            result: Type::Unit,
            exits: Exits::default(),
            scopes: vec![BTreeMap::new()],
            steps: vec![Vec::new()],
        }
    }

    fn body(mut self, declared: &FunctionDecl) -> Checkable {
        let mut params = Vec::new();
        for param in &declared.params {
            let (ty, stated) = self.stated_type(&param.ty);
            if let Some(first) = self.scopes[0].get(&param.name.text) {
                let first = self.body.vars[first.0 as usize].span;
                let error = format!("the parameter '{}' is declared twice", param.name.text);
                self.diagnostics.push(
                    Diagnostic::error("E0302", param.name.span, error)
                        .here("again")
                        .mark(first, "first"),
                );
            }
            let var = self.var(Some(&param.name.text), ty.clone(), param.name.span);
            self.body.vars[var.0 as usize].stated = stated;
            self.scopes[0].insert(param.name.text.clone(), var);
            params.push((param.name.text.clone(), ty));
        }
        self.body.params = declared.params.len();
        let mut stated = None;
        if let Some(result) = &declared.result {
            (self.result, stated) = self.stated_type(result);
        }
        if !self.is_function {
            let result = self.result.clone();
            let span = declared.result.as_ref().map_or(declared.head, |result| result.span);
            let var = self.temp(result, span);
            self.body.vars[var.0 as usize].name = Some("the result".into());
            self.body.result = Some(var);
            self.exits.begin(&declared.body);
            self.make_exit_flag(declared.head);
        }
        if self.result != Type::Unit
            && self.result != Type::Unknown
            && !super::exits::always_returns(&declared.body)
        {
            let shown = self.known.show(&self.result);
            let error = format!("'{}' does not always return a value", declared.name.text);
            let end =
                Span { start: declared.body.span.end.saturating_sub(1), ..declared.body.span };
            self.diagnostics.push(
                Diagnostic::error("E0208", end, error)
                    .here("the end can be reached")
                    .mark(declared.head, format!("returns {shown}")),
            );
        }
        self.scopes.push(BTreeMap::new());
        self.statements(&declared.body.statements, true);
        self.body.steps = self.steps.pop().expect("the outermost block is open");
        let (name, head) = (declared.name.text.clone(), declared.head);
        Checkable { name, params, result: self.result, stated, head, body: self.body }
    }

    /// Resolves a type that may state a level.
    pub(super) fn stated_type(&mut self, written: &TypeExpr) -> (Type, Option<(Label, Span)>) {
        let ty = self.known.resolve_stated(written, self.diagnostics);
        let stated = written.level.as_ref().map(|level| {
            let label = self.known.level_of(level, self.diagnostics);
            (label, level.span)
        });
        if let (true, Some((_, span))) = (self.is_function, stated) {
            self.diagnostics.push(
                Diagnostic::error("E0402", span, "a function cannot state levels")
                    .note("its result has the level of its arguments"),
            );
        }
        (ty, stated)
    }

    /// Creates a variable.
    pub(super) fn var(&mut self, name: Option<&str>, ty: Type, span: Span) -> Var {
        let var = Var(self.body.vars.len() as u32);
        let name = name.map(str::to_owned);
        self.body.vars.push(VarInfo { name, ty, span, purpose: "", stated: None });
        var
    }

    /// Creates a variable without a name.
    pub(super) fn temp(&mut self, ty: Type, span: Span) -> Var {
        self.var(None, ty, span)
    }

    /// Sets the purpose of a variable without a name.
    pub(super) fn purpose(&mut self, var: Var, purpose: &'static str) -> Var {
        self.body.vars[var.0 as usize].purpose = purpose;
        var
    }

    /// Returns the type of a variable.
    pub(super) fn type_of(&self, var: Var) -> Type {
        self.body.vars[var.0 as usize].ty.clone()
    }

    /// Formats the type of a variable.
    pub(super) fn shown(&self, var: Var) -> String {
        self.known.show(&self.body.vars[var.0 as usize].ty)
    }

    /// Appends a step to the innermost block.
    pub(super) fn step(&mut self, span: Span, kind: StepKind) {
        self.steps.last_mut().expect("a block is open").push(Step { kind, span });
    }

    /// Appends a computation, and returns the variable of its value.
    pub(super) fn compute(&mut self, span: Span, ty: Type, compute: Compute) -> Var {
        let dst = self.temp(ty, span);
        self.step(span, StepKind::Set(dst, compute));
        dst
    }

    /// Appends a constant.
    pub(super) fn constant(&mut self, span: Span, ty: Type, value: Value) -> Var {
        self.compute(span, ty, Compute::Const(value))
    }

    /// Returns the steps that `write` appends, instead of adding them to the innermost block.
    pub(super) fn capture(&mut self, write: impl FnOnce(&mut Self)) -> Vec<Step> {
        self.steps.push(Vec::new());
        write(self);
        self.steps.pop().expect("it was just opened")
    }

    /// Appends steps that were [captured](Self::capture) to the innermost block.
    pub(super) fn append(&mut self, steps: Vec<Step>) {
        self.steps.last_mut().expect("a block is open").extend(steps);
    }

    /// Runs `write` in a new scope.
    pub(super) fn scoped<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(BTreeMap::new());
        let result = write(self);
        self.scopes.pop();
        result
    }

    /// Declares a variable in the innermost scope.
    pub(super) fn declare(&mut self, name: &Name, ty: Type) -> Var {
        let var = self.var(Some(&name.text), ty, name.span);
        let scope = self.scopes.last_mut().expect("a scope is open");
        if let Some(first) = scope.insert(name.text.clone(), var) {
            let first = self.body.vars[first.0 as usize].span;
            self.diagnostics.push(
                Diagnostic::error("E0302", name.span, format!("'{}' is declared twice", name.text))
                    .here("again")
                    .mark(first, "first")
                    .help(format!("assign to it: `{} = …;`", name.text)),
            );
        }
        var
    }

    /// Returns the variable of a name.
    pub(super) fn lookup(&self, name: &str) -> Option<Var> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    /// Resolves the name of a variable. Reports an unknown name with a suggestion.
    pub(super) fn variable(&mut self, name: &str, span: Span) -> Option<Var> {
        if let Some(var) = self.lookup(name) {
            return Some(var);
        }
        if !name.is_ascii() {
            // The parser has reported that this is not a name.
            return None;
        }
        let mut error = Diagnostic::error("E0304", span, format!("no variable '{name}'"));
        error = match self.known.kind_of(name) {
            Some("a store") => error.here("a store").help(format!(
                "objects of `{name}` are passed as parameters: `x: handle<…> in {name}`; its operations \
                 are called as `{name}.operation(…)`"
            )),
            Some(kind) => error.here(kind),
            None => {
                let known = self.scopes.iter().flat_map(|scope| scope.keys().map(String::as_str));
                match nearest(name, known) {
                    Some(near) => {
                        error.here("not declared").help(format!("did you mean `{near}`?"))
                    }
                    None => error.here("not declared"),
                }
            }
        };
        self.diagnostics.push(error);
        None
    }

    /// Reports an error at a span.
    pub(super) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(code, span, message));
    }

    /// Warns that a value is computed and dropped.
    pub(super) fn warn_of_unused(&mut self, span: Span) {
        self.diagnostics.push(
            Diagnostic::warning("W0102", span, "this value is not used")
                .help("keep it: `var name = …;`"),
        );
    }

    /// Reports a value that does not have the wanted type.
    pub(super) fn require_type(&mut self, var: Var, wanted: &Type, span: Span) -> bool {
        let found = self.type_of(var);
        if is_assignable(&found, wanted) {
            return true;
        }
        let (found_text, wanted_text) = (self.known.show(&found), self.known.show(wanted));
        let message = format!("{wanted_text} is expected, but this is {found_text}");
        let mut error =
            Diagnostic::error("E0206", span, message).here(format!("this is {found_text}"));
        match (&found, wanted) {
            (Type::Option(of), wanted) if is_assignable(of, wanted) => {
                error = error.help("give a value for `none`: `….or(…)`, or `….or_fail()`");
            }
            (found, Type::Option(of)) if is_assignable(found, of) => {
                error = error.help("write `some(…)`");
            }
            (Type::Int, Type::Float) => error = error.help("write `float(…)`"),
            (Type::Float, Type::Int) => error = error.help("write `int(…)`"),
            (Type::Int | Type::Float | Type::Bool | Type::Handle(..), Type::String) => {
                error = error.help("write `string(…)`");
            }
            (Type::String, Type::Int) => error = error.help("write `….parse_int().or_fail()`"),
            (Type::Handle(object, _), wanted) => {
                let leads = match &**object {
                    solera_program::types::Object::Register(of) => Some(of.clone()),
                    solera_program::types::Object::Counter => Some(Type::Int),
                    solera_program::types::Object::Struct(id) => Some(Type::Struct(*id)),
                    _ => None,
                };
                if leads.is_some_and(|leads| is_assignable(&leads, wanted)) {
                    error = error.help("read the object of the handle: `*…`");
                }
            }
            _ => {}
        }
        if let Some(levels) = self.levels_of_stores(&found, wanted) {
            error = error.note(levels);
        }
        self.diagnostics.push(error);
        false
    }

    /// Explains two types that differ only in the stores of their handles.
    pub(super) fn levels_of_stores(&self, one: &Type, other: &Type) -> Option<String> {
        let stores = differing_stores(one, other)?;
        let [one, other] = stores.map(|store| {
            let store = self.known.store_info(store);
            format!("`{}` is {}", store.name, self.known.level_name(store.level))
        });
        Some(format!("{one} and {other}: handles of different stores are of different types"))
    }
}

/// Returns the stores of the handles in which two types differ, if they differ in nothing else.
fn differing_stores(one: &Type, other: &Type) -> Option<[StoreId; 2]> {
    match (one, other) {
        (Type::Handle(object, a), Type::Handle(same, b)) if object == same && a != b => {
            Some([*a, *b])
        }
        (Type::Option(a), Type::Option(b))
        | (Type::List(a), Type::List(b))
        | (Type::Set(a), Type::Set(b)) => differing_stores(a, b),
        (Type::Map(key, a), Type::Map(same, b)) if key == same => differing_stores(a, b),
        (Type::Map(a, of), Type::Map(b, same)) if of == same => differing_stores(a, b),
        _ => None,
    }
}

/// Returns whether a value of one type can be used where another is wanted. A type with a reported
/// error is accepted everywhere.
pub(super) fn is_assignable(found: &Type, wanted: &Type) -> bool {
    match (found, wanted) {
        (Type::Unknown, _) | (_, Type::Unknown) => true,
        (Type::Option(a), Type::Option(b))
        | (Type::List(a), Type::List(b))
        | (Type::Set(a), Type::Set(b)) => is_assignable(a, b),
        (Type::Map(k, v), Type::Map(l, w)) => is_assignable(k, l) && is_assignable(v, w),
        _ => found == wanted,
    }
}

/// Returns whether all parts of a type are known.
pub(super) fn is_known(ty: &Type) -> bool {
    match ty {
        Type::Unknown => false,
        Type::Option(of) | Type::List(of) | Type::Set(of) => is_known(of),
        Type::Map(key, value) => is_known(key) && is_known(value),
        _ => true,
    }
}
