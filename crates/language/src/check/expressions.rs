//! Lowers expressions.

use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::span::Span;
use solera_program::types::{Object, StructId, Type};
use solera_program::value::Value;

use super::lower::Lower;
use crate::diagnostic::{Diagnostic, Mark};
use crate::flat::{Compute, StepKind, Var};
use crate::nearest::nearest;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Literal, Name, NewObject, TypeExpr, UnaryOp};

impl Lower<'_> {
    /// Lowers an expression and returns the variable of its value. `wanted` gives the type where
    /// the expression alone does not determine it, as for `[]`. The caller checks that the result
    /// has the wanted type.
    #[expect(clippy::too_many_lines, reason = "one arm per kind of expression")]
    pub(super) fn expression(&mut self, expr: &Expr, wanted: Option<&Type>) -> Var {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Literal(literal) => self.literal(literal, span),
            ExprKind::Name(name) if name == "none" && self.lookup(name).is_none() => {
                let ty = match wanted {
                    Some(Type::Option(_)) => wanted.cloned().expect("the wanted type is an option"),
                    _ => Type::Option(Type::Unknown.into()),
                };
                self.constant(span, ty, Value::NONE)
            }
            ExprKind::Name(name) => match self.variable(name, span) {
                Some(var) => var,
                None => self.temp(Type::Unknown, span),
            },
            ExprKind::Unary(op, operand) => self.unary(*op, operand, span),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                self.shortcut(*op, left, right, span)
            }
            ExprKind::Binary(op, left, right) => {
                let left = self.expression(left, None);
                let ty = self.type_of(left);
                let right = self.expression(right, Some(&ty));
                self.binary(*op, left, right, span)
            }
            ExprKind::Field(base, name) => {
                let base = self.expression(base, None);
                self.field(base, name, span)
            }
            ExprKind::Deref(handle) => {
                let handle = self.expression(handle, None);
                self.dereference(handle, span)
            }
            ExprKind::Call(name, args) => self.call(name, args, wanted, span),
            ExprKind::Method(receiver, name, args) => {
                self.method(receiver, name, args, span, false)
            }
            ExprKind::Index(base, index) => self.index(base, index, span),
            ExprKind::List(items) => {
                let of = match wanted {
                    Some(Type::List(of)) => Some((**of).clone()),
                    _ => None,
                };
                let (of, vars) = self.elements(items, of);
                self.compute(span, Type::List(of.into()), Compute::List(vars))
            }
            ExprKind::Set(items) => {
                let of = match wanted {
                    Some(Type::Set(of)) => Some((**of).clone()),
                    _ => None,
                };
                let (of, vars) = self.elements(items, of);
                self.known.must_be_key(&of, span, self.diagnostics);
                self.compute(span, Type::Set(of.into()), Compute::Set(vars))
            }
            ExprKind::Map(entries) => self.map(entries, wanted, span),
            ExprKind::Struct(name, fields) => match self.struct_literal(name, fields) {
                Some((id, vars)) => self.compute(span, Type::Struct(id), Compute::Struct(id, vars)),
                None => self.temp(Type::Unknown, span),
            },
            ExprKind::New(object, store) => self.new_object(object, store, span),
            ExprKind::Handle(object, key, store) => self.handle_of_key(object, key, store, span),
            ExprKind::Endorse(level, value) => {
                let value = self.expression(value, wanted);
                let label = self.known.level_of(level, self.diagnostics);
                if self.is_function {
                    self.error("E0306", span, "a function cannot endorse");
                }
                let dst = self.temp(self.type_of(value), span);
                self.step(span, StepKind::Endorse(dst, label, value));
                dst
            }
            ExprKind::Error => self.temp(Type::Unknown, span),
        }
    }

    /// Lowers a literal.
    pub(super) fn literal(&mut self, literal: &Literal, span: Span) -> Var {
        let (ty, value) = match literal {
            Literal::Int(number) => (Type::Int, Value::Int(*number)),
            Literal::Float(number) => (Type::Float, Value::Float(*number)),
            Literal::String(text) => (Type::String, Value::string(text)),
            Literal::Bytes(bytes) => (Type::Bytes, Value::Bytes(bytes.as_slice().into())),
            Literal::Bool(truth) => (Type::Bool, Value::Bool(*truth)),
        };
        self.constant(span, ty, value)
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr, span: Span) -> Var {
        let var = self.expression(operand, None);
        let ty = self.type_of(var);
        let fine = match op {
            UnaryOp::Negate => matches!(ty, Type::Int | Type::Float | Type::Unknown),
            UnaryOp::Not => matches!(ty, Type::Bool | Type::Unknown),
        };
        if !fine {
            let shown = self.known.show(&ty);
            let wanted = if op == UnaryOp::Not { "a bool" } else { "a number" };
            let error = format!("{wanted} is expected, but this is {shown}");
            self.error("E0206", operand.span, error);
        }
        self.compute(span, ty, Compute::Unary(op, var))
    }

    /// Lowers `base.name`, for a struct or for the object of a handle.
    pub(super) fn field(&mut self, base: Var, name: &Name, span: Span) -> Var {
        let ty = self.type_of(base);
        let fields = match &ty {
            Type::Unknown => return self.temp(Type::Unknown, span),
            Type::Struct(id) => Some(self.known.struct_info(*id).fields.clone()),
            Type::Handle(object, store) => self.known.object_fields(object, *store),
            _ => None,
        };
        let Some((index, field)) = self.find_field(fields, &ty, name) else {
            return self.temp(Type::Unknown, span);
        };
        match &ty {
            Type::Handle(..) => self.remote(base, ObjectOp::Field(index), Vec::new(), field, span),
            _ => self.compute(span, field, Compute::Field(base, index)),
        }
    }

    /// Returns the number and type of a field. Reports an unknown field with the list of fields.
    pub(super) fn find_field(
        &mut self,
        fields: Option<Vec<(String, Type)>>,
        of: &Type,
        name: &Name,
    ) -> Option<(u16, Type)> {
        let shown = self.known.show(of);
        let Some(fields) = fields else {
            let error = format!("{shown} has no fields");
            let mut error = Diagnostic::error("E0213", name.span, error).here("not a field");
            if solera_program::builtin::method(of, &name.text).is_some() {
                error = error.help(format!("call it: `.{}(…)`", name.text));
            }
            self.diagnostics.push(error);
            return None;
        };
        let found = fields.iter().position(|(field, _)| *field == name.text);
        if let Some(index) = found {
            let index_16 = u16::try_from(index).ok()?;
            return Some((index_16, fields[index].1.clone()));
        }
        let error = format!("{shown} has no field '{}'", name.text);
        let names: Vec<_> = fields.iter().map(|(field, _)| field.as_str()).collect();
        let error = Diagnostic::error("E0213", name.span, error).here("not a field");
        let help = match nearest(&name.text, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its fields are {}", names.join(", ")),
        };
        self.diagnostics.push(error.help(help));
        None
    }

    /// Lowers `*handle`: reads the whole object as a value.
    pub(super) fn dereference(&mut self, handle: Var, span: Span) -> Var {
        let ty = self.type_of(handle);
        let Type::Handle(object, store) = &ty else {
            if ty != Type::Unknown {
                let shown = self.known.show(&ty);
                self.error("E0214", span, format!("{shown} is not a handle"));
            }
            return self.temp(Type::Unknown, span);
        };
        let (op, value) = match &**object {
            Object::Register(of) => (ObjectOp::Load, of.clone()),
            Object::Counter => (ObjectOp::Value, Type::Int),
            Object::Set(of) => (ObjectOp::Elements, Type::Set(of.clone().into())),
            Object::Map(key, of) => {
                (ObjectOp::Entries, Type::Map(key.clone().into(), of.clone().into()))
            }
            Object::List(of) | Object::Log(of) => (ObjectOp::Values, Type::List(of.clone().into())),
            Object::Struct(id) => {
                let fields = self.known.object_fields(object, *store).unwrap_or_default();
                let read = |this: &mut Self, index: usize, ty: &Type| {
                    let op = ObjectOp::Field(index as u16);
                    this.remote(handle, op, Vec::new(), ty.clone(), span)
                };
                let values =
                    fields.iter().enumerate().map(|(i, (_, ty))| read(self, i, ty)).collect();
                return self.compute(span, Type::Struct(*id), Compute::Struct(*id, values));
            }
            Object::RemoteList(_) => {
                self.diagnostics.push(
                    Diagnostic::error("E0214", span, "a RemoteList is not read as a whole")
                        .help("iterate over it: `for x in list { … }`, or read `list->v`"),
                );
                return self.temp(Type::Unknown, span);
            }
        };
        self.remote(handle, op, Vec::new(), value, span)
    }

    fn index(&mut self, base: &Expr, index: &Expr, span: Span) -> Var {
        let base_var = self.expression(base, None);
        let (key, of) = match self.type_of(base_var) {
            Type::List(of) => (Type::Int, (*of).clone()),
            Type::Map(key, of) => ((*key).clone(), (*of).clone()),
            Type::Unknown => (Type::Unknown, Type::Unknown),
            other => {
                let shown = self.known.show(&other);
                let error = format!("{shown} cannot be indexed");
                let mut error = Diagnostic::error("E0215", base.span, error);
                if matches!(other, Type::Handle(..)) {
                    error = error.help("call an operation: `….at(i)` or `….get(key)`");
                } else if matches!(other, Type::String | Type::Bytes) {
                    error = error.help("take a part of it: `….slice(i, i + 1)`");
                }
                self.diagnostics.push(error);
                (Type::Unknown, Type::Unknown)
            }
        };
        let index_var = self.expression(index, Some(&key));
        self.require_type(index_var, &key, index.span);
        let at = Compute::Builtin(Builtin::Index, vec![base_var, index_var]);
        self.compute(span, of, at)
    }

    /// Lowers the elements of a list or set; returns their type too.
    fn elements(&mut self, items: &[Expr], wanted: Option<Type>) -> (Type, Vec<Var>) {
        // Without a wanted type, the first element determines the type.
        let first = items.first().filter(|_| wanted.is_none());
        let mut of = wanted;
        let mut vars = Vec::new();
        for item in items {
            let var = self.expression(item, of.as_ref());
            match &of {
                Some(of) => {
                    if !self.require_type(var, of, item.span)
                        && let (Some(first), Some(error)) = (first, self.diagnostics.last_mut())
                    {
                        let text = format!("the first is {}", self.known.show(of));
                        error.others.push(Mark { span: first.span, text });
                    }
                }
                None => of = Some(self.type_of(var)),
            }
            vars.push(var);
        }
        (of.unwrap_or(Type::Unknown), vars)
    }

    fn map(&mut self, entries: &[(Expr, Expr)], wanted: Option<&Type>, span: Span) -> Var {
        let (mut key, mut of) = match wanted {
            Some(Type::Map(key, of)) => (Some((**key).clone()), Some((**of).clone())),
            _ => (None, None),
        };
        let mut vars = Vec::new();
        for (one_key, one) in entries {
            for (expr, ty) in [(one_key, &mut key), (one, &mut of)] {
                let var = self.expression(expr, ty.as_ref());
                match ty {
                    Some(ty) => {
                        self.require_type(var, ty, expr.span);
                    }
                    None => *ty = Some(self.type_of(var)),
                }
                vars.push(var);
            }
        }
        let key = key.unwrap_or(Type::Unknown);
        self.known.must_be_key(&key, span, self.diagnostics);
        let ty = Type::Map(key.into(), of.unwrap_or(Type::Unknown).into());
        self.compute(span, ty, Compute::Map(vars))
    }

    /// Lowers the fields of a struct literal, in the order of the struct's declaration.
    fn struct_literal(
        &mut self,
        name: &Name,
        fields: &[(Name, Expr)],
    ) -> Option<(StructId, Vec<Var>)> {
        let Some(id) = self.known.struct_named(&name.text) else {
            let error = format!("no struct '{}'", name.text);
            self.diagnostics
                .push(Diagnostic::error("E0201", name.span, error).here("not a struct"));
            for (_, value) in fields {
                self.expression(value, None);
            }
            return None;
        };
        let declared = self.known.struct_info(id).fields.clone();
        let mut vars: Vec<Option<Var>> = vec![None; declared.len()];
        for (field, value) in fields {
            let found = self.find_field(Some(declared.clone()), &Type::Struct(id), field);
            let wanted = found.as_ref().map(|(_, ty)| ty);
            let var = self.expression(value, wanted);
            let Some((index, ty)) = found else { continue };
            self.require_type(var, &ty, value.span);
            if vars[index as usize].replace(var).is_some() {
                self.error("E0302", field.span, format!("'{}' is given twice", field.text));
            }
        }
        let missing: Vec<_> = declared.iter().zip(&vars).filter(|(_, var)| var.is_none()).collect();
        if !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|((name, _), _)| format!("`{name}`")).collect();
            let error = format!("{} lacks values for its fields: {}", name.text, names.join(", "));
            self.error("E0216", name.span, error);
            return None;
        }
        Some((id, vars.into_iter().flatten().collect()))
    }

    /// Lowers `handle<object>(key) in store`. It has no effect, so functions may contain it.
    fn handle_of_key(&mut self, object: &TypeExpr, key: &Expr, store: &Name, span: Span) -> Var {
        let object = self.known.object(object, store, self.diagnostics);
        let id = self.known.store_of(store, self.diagnostics);
        let key_var = self.expression(key, Some(&Type::String));
        self.require_type(key_var, &Type::String, key.span);
        let (Some(object), Some(store)) = (object, id) else {
            return self.temp(Type::Unknown, span);
        };
        let ty = Type::Handle(object.into(), store);
        self.compute(span, ty, Compute::Handle(store, key_var))
    }

    fn new_object(&mut self, object: &NewObject, store: &Name, span: Span) -> Var {
        let unknown = |this: &mut Self| this.temp(Type::Unknown, span);
        if self.is_function {
            self.error("E0306", span, "a function cannot create objects");
        }
        let (object, fields) = match object {
            NewObject::Empty(ty) => (self.known.object(ty, store, self.diagnostics), None),
            NewObject::Struct(name, fields) => match self.struct_literal(name, fields) {
                Some((id, vars)) => (Some(Object::Struct(id)), Some(vars)),
                None => (None, None),
            },
        };
        let id = self.known.store_of(store, self.diagnostics);
        let (Some(object), Some(store)) = (object, id) else { return unknown(self) };
        if let (Object::Struct(id), None) = (&object, &fields) {
            let name = self.known.struct_info(*id).name.clone();
            let error = format!("the fields of {name} need values");
            self.diagnostics.push(
                Diagnostic::error("E0216", span, error)
                    .help(format!("write `new {name} {{ … }} in …`")),
            );
            return unknown(self);
        }
        let handle = self.temp(Type::Handle(object.into(), store), span);
        self.step(span, StepKind::Fresh(handle, store));
        if let Some(fields) = fields {
            self.remote(handle, ObjectOp::Create, fields, Type::Unit, span);
        }
        handle
    }
}
