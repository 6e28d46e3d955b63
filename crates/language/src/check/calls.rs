//! Lowers calls of functions, of methods of values, and of operations of handles and stores.

use solera_program::builtin;
use solera_program::operation::{self, ObjectOp};
use solera_program::span::Span;
use solera_program::types::{Object, StoreId, Type};

use super::lower::Lower;
use crate::diagnostic::Diagnostic;
use crate::flat::{Compute, Custom, Remote, StepKind, Var};
use crate::nearest::nearest;
use crate::syntax::ast::{Expr, ExprKind, Name};

impl Lower<'_> {
    /// Lowers `name(args)`.
    pub(super) fn call(
        &mut self,
        name: &Name,
        args: &[Expr],
        wanted: Option<&Type>,
        span: Span,
    ) -> Var {
        if let Some(index) = self.known.function_named(&name.text) {
            let signature = self.known.functions[index].clone();
            let vars = self.arguments(&signature.params, args, &name.text, span);
            return self.compute(span, signature.result, Compute::Call(index as u32, vars));
        }
        let inner = match wanted {
            Some(Type::Option(of)) if name.text == "some" => Some((**of).clone()),
            _ => None,
        };
        let vars: Vec<Var> = args.iter().map(|arg| self.expression(arg, inner.as_ref())).collect();
        let types: Vec<Type> = vars.iter().map(|var| self.type_of(*var)).collect();
        if let Some((builtin, ty)) = builtin::function(&name.text, &types) {
            return self.compute(span, ty, Compute::Builtin(builtin, vars));
        }
        if !types.contains(&Type::Unknown) {
            self.no_function(name, &types);
        }
        self.temp(Type::Unknown, span)
    }

    fn no_function(&mut self, name: &Name, types: &[Type]) {
        let types: Vec<_> = types.iter().map(|ty| self.known.show(ty)).collect();
        if builtin::FUNCTIONS.contains(&name.text.as_str()) {
            let error = format!("{} does not take ({})", name.text, types.join(", "));
            let mut error = Diagnostic::error("E0217", name.span, error);
            if name.text == "string" && types == ["bytes"] {
                error = error.help("bytes need not be valid text: `….text()` returns an option");
            }
            self.diagnostics.push(error);
            return;
        }
        if !name.text.is_ascii() {
            return;
        }
        let error = format!("no function '{}'", name.text);
        let mut error = Diagnostic::error("E0309", name.span, error).here("not declared");
        let functions = self.known.functions.iter().map(|one| one.name.as_str());
        let kind = self.known.kind_of(&name.text);
        error = match (kind, nearest(&name.text, functions.chain(builtin::FUNCTIONS))) {
            (Some("a transaction"), _) => error
                .here("a transaction")
                .help("a transaction cannot call another; move what they share to a `fn`"),
            (Some("a struct"), _) => {
                error.here("a struct").help(format!("write `{} {{ … }}`", name.text))
            }
            (_, Some(near)) => error.help(format!("did you mean `{near}`?")),
            (_, None) => {
                error.note(format!("the built-in functions are {}", builtin::FUNCTIONS.join(", ")))
            }
        };
        self.diagnostics.push(error);
    }

    /// Lowers the arguments of a call. Returns one variable per parameter, even if the call has a
    /// wrong number of arguments.
    fn arguments(&mut self, params: &[Type], args: &[Expr], name: &str, span: Span) -> Vec<Var> {
        if params.len() != args.len() {
            let takes: Vec<_> = params.iter().map(|ty| self.known.show(ty)).collect();
            let values = if args.len() == 1 { "value" } else { "values" };
            let error = format!("{name} takes ({}), not {} {values}", takes.join(", "), args.len());
            self.error("E0217", span, error);
        }
        let mut vars = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let wanted = params.get(index);
            let var = self.expression(arg, wanted);
            if let Some(wanted) = wanted {
                self.require_type(var, wanted, arg.span);
                vars.push(var);
            }
        }
        for missing in params.iter().skip(args.len()) {
            vars.push(self.temp(missing.clone(), span));
        }
        vars
    }

    /// Lowers `receiver.name(args)`. Only a call statement may change its receiver.
    pub(super) fn method(
        &mut self,
        receiver: &Expr,
        name: &Name,
        args: &[Expr],
        span: Span,
        is_statement: bool,
    ) -> Var {
        if let ExprKind::Name(text) = &receiver.kind
            && self.lookup(text).is_none()
            && let Some(store) = self.known.store_named(text)
        {
            return self.custom(store, name, args, span);
        }
        let (vars, reported) = (self.body.vars.len(), self.diagnostics.len());
        let mut base = None;
        let steps = self.capture(|this| base = Some(this.expression(receiver, None)));
        let base = base.expect("the receiver was just lowered");
        let method = builtin::method(&self.type_of(base), &name.text);
        if is_statement && method.is_some_and(|method| method.changes) {
            // The receiver is a place that is changed, so its value is not read.
            drop(steps);
            self.body.vars.truncate(vars);
            self.diagnostics.truncate(reported);
            let Some(place) = self.place(receiver) else {
                return self.temp(Type::Unknown, span);
            };
            let ty = self.place_type(&place);
            let Some(signature) = builtin::method(&ty, &name.text) else {
                return self.temp(Type::Unknown, span);
            };
            let vars = self.arguments(&signature.params, args, &name.text, span);
            self.change(&place, signature.builtin, vars, span);
            return self.temp(Type::Unit, span);
        }
        self.append(steps);
        match self.type_of(base) {
            Type::Unknown => {
                args.iter().for_each(|arg| {
                    self.expression(arg, None);
                });
                self.temp(Type::Unknown, span)
            }
            Type::Handle(object, store) => {
                self.operation(base, &object, store, name, args, span, is_statement)
            }
            ty => match builtin::method(&ty, &name.text) {
                Some(signature) => {
                    let vars = self.arguments(&signature.params, args, &name.text, span);
                    if signature.changes {
                        let error = format!("`{}` changes its receiver", name.text);
                        self.diagnostics.push(
                            Diagnostic::error("E0218", span, error)
                                .here("it returns no value")
                                .help("make it a statement of its own"),
                        );
                    } else if is_statement {
                        self.warn_of_unused(span);
                    }
                    let vars = std::iter::once(base).chain(vars).collect();
                    let call = Compute::Builtin(signature.builtin, vars);
                    self.compute(span, signature.result, call)
                }
                None => {
                    self.no_method(&ty, name, builtin::method_names(&ty));
                    self.temp(Type::Unknown, span)
                }
            },
        }
    }

    fn no_method(&mut self, ty: &Type, name: &Name, known: &[&str]) {
        let shown = self.known.show(ty);
        let error = format!("{shown} has no method '{}'", name.text);
        let error = Diagnostic::error("E0219", name.span, error).here("not known");
        // A synonym has precedence over a name with a similar spelling: for maps, `set` means
        // `put`, not `get`.
        let near =
            synonym(&name.text, known).or_else(|| nearest(&name.text, known.iter().copied()));
        let error = match (near, known) {
            (Some(near), _) if near == name.text => {
                error.here("not for these elements").help(match near {
                    "sorted" => "elements that contain floats cannot be sorted",
                    _ => "only strings can be joined: convert the elements by `string(…)`",
                })
            }
            (Some(near), _) => error.help(format!("did you mean `{near}`?")),
            (None, []) => error,
            (None, known) => error.help(format!("it has {}", known.join(", "))),
        };
        self.diagnostics.push(error);
    }

    /// Lowers `handle.name(args)`.
    #[expect(clippy::too_many_arguments, reason = "one per part of the call")]
    fn operation(
        &mut self,
        handle: Var,
        object: &Object,
        store: StoreId,
        name: &Name,
        args: &[Expr],
        span: Span,
        is_statement: bool,
    ) -> Var {
        if let (Object::RemoteList(of), "push") = (object, name.text.as_str()) {
            let vars = self.arguments(std::slice::from_ref(of), args, "push", span);
            self.push_cell(handle, of, store, vars[0], span);
            return self.temp(Type::Unit, span);
        }
        if let Some(signature) = operation::lookup(object, &name.text) {
            let vars = self.arguments(&signature.params, args, &name.text, span);
            if is_statement && !signature.op.mutates() {
                self.warn_of_unused(span);
            }
            return self.remote(handle, signature.op, vars, signature.result, span);
        }
        // A method of the value that is read: `group.members.len()` reads the list, then takes its
        // length.
        let ty = self.type_of(handle);
        let mut known = operation::names(object).to_vec();
        if let Some(custom) =
            self.known.store_info(store).operations.iter().find(|one| *one.name == *name.text)
        {
            let store = &self.known.store_info(store).name;
            let error = format!("'{}' is an operation of the store", custom.name);
            self.diagnostics.push(
                Diagnostic::error("E0219", name.span, error)
                    .help(format!("write `{store}.{}(…)`", name.text)),
            );
            return self.temp(Type::Unknown, span);
        }
        let value = match object {
            Object::Register(of) => builtin::method_names(of),
            _ => &[],
        };
        if value.contains(&name.text.as_str()) {
            let error = format!("{} has no method '{}'", self.known.show(&ty), name.text);
            self.diagnostics.push(
                Diagnostic::error("E0219", name.span, error)
                    .help(format!("read it first: `(*…).{}(…)`", name.text)),
            );
        } else {
            if let Some(fields) = self.known.object_fields(object, store)
                && fields.iter().any(|(field, _)| *field == name.text)
            {
                known.clear();
            }
            self.no_method(&ty, name, &known);
        }
        self.temp(Type::Unknown, span)
    }

    /// Lowers `store.name(args)`.
    fn custom(&mut self, store: StoreId, name: &Name, args: &[Expr], span: Span) -> Var {
        let info = self.known.store_info(store).clone();
        let Some(index) = info.operations.iter().position(|one| *one.name == *name.text) else {
            let names: Vec<_> = info.operations.iter().map(|one| &*one.name).collect();
            let error = format!("the store '{}' has no operation '{}'", info.name, name.text);
            let error = Diagnostic::error("E0219", name.span, error).here("not declared");
            let help = match (nearest(&name.text, names.iter().copied()), names.as_slice()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, []) => {
                    let [store, name] = [&info.name, &name.text];
                    format!("declare it: `store {store} : … {{ operation {name}(…); }}`")
                }
                (None, names) => format!("it has {}", names.join(", ")),
            };
            self.diagnostics.push(error.help(help));
            return self.temp(Type::Unknown, span);
        };
        if self.is_function {
            self.no_effects(span);
        }
        let operation = &info.operations[index];
        let params: Vec<_> = operation.params.iter().map(|param| param.ty.clone()).collect();
        let args = self.arguments(&params, args, &name.text, span);
        let dst = self.temp(operation.result.clone(), span);
        let mutates = operation.mutates;
        let custom = Custom { dst, store, operation: index as u16, mutates, args };
        self.step(span, StepKind::Custom(custom));
        dst
    }

    /// Appends an operation on the object that a handle refers to.
    pub(super) fn remote(
        &mut self,
        handle: Var,
        op: ObjectOp,
        args: Vec<Var>,
        result: Type,
        span: Span,
    ) -> Var {
        if self.is_function {
            self.no_effects(span);
        }
        let dst = self.temp(result, span);
        if let Type::Handle(object, store) = self.type_of(handle) {
            let object = (*object).clone();
            self.step(span, StepKind::Remote(Remote { dst, store, object, op, handle, args }));
        }
        dst
    }

    fn no_effects(&mut self, span: Span) {
        self.diagnostics.push(
            Diagnostic::error("E0306", span, "a function cannot use a store")
                .help("pass the values that it needs as parameters, or make it a transaction"),
        );
    }

    /// Appends a test whether a handle's object exists.
    pub(super) fn is_valid(&mut self, handle: Var, span: Span) -> Var {
        self.remote(handle, ObjectOp::Exists, Vec::new(), Type::Bool, span)
    }

    /// Appends a read of a field of a `RemoteList` cell: 0 is its value, 1 the handle of the next
    /// cell.
    pub(super) fn cell_field(&mut self, cell: Var, field: u16, span: Span) -> Var {
        let fields = match self.type_of(cell) {
            Type::Handle(object, store) => self.known.object_fields(&object, store),
            _ => None,
        };
        let ty = fields.and_then(|fields| fields.get(field as usize).map(|(_, ty)| ty.clone()));
        let ty = ty.unwrap_or(Type::Unknown);
        self.remote(cell, ObjectOp::Field(field), Vec::new(), ty, span)
    }

    /// Prepends a value to a `RemoteList`. The content of the first cell moves to a new cell behind
    /// it, so that the list's handle stays valid.
    fn push_cell(&mut self, list: Var, of: &Type, store: StoreId, value: Var, span: Span) {
        let ty = Type::Handle(Object::RemoteList(of.clone()).into(), store);
        let cell = self.temp(ty, span);
        self.step(span, StepKind::Fresh(cell, store));
        let valid = self.is_valid(list, span);
        let then = self.capture(|this| {
            let first = this.cell_field(list, 0, span);
            let next = this.cell_field(list, 1, span);
            this.remote(cell, ObjectOp::Create, vec![first, next], Type::Unit, span);
        });
        self.step(span, StepKind::If(valid, then, Vec::new()));
        self.remote(list, ObjectOp::Create, vec![value, cell], Type::Unit, span);
    }
}

/// Returns the method with the meaning that `name` has in other languages.
fn synonym<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    const SYNONYMS: [(&[&str], &[&str]); 8] = [
        (&["append", "push", "put", "insert"], &["add", "push", "append", "put", "set"]),
        (&["add"], &["append", "push", "put"]),
        (&["set"], &["put"]),
        (&["incr", "incrby", "increment", "inc", "increase"], &["add"]),
        (&["len", "length", "count", "card"], &["size"]),
        (&["has", "includes", "exists", "member"], &["contains"]),
        (&["erase", "discard", "del", "pop"], &["remove", "delete"]),
        (&["get", "read", "load"], &["value"]),
    ];
    let (_, meant) = SYNONYMS.into_iter().find(|(names, _)| names.contains(&name))?;
    meant.iter().find_map(|meant| known.iter().copied().find(|known| known == meant))
}
