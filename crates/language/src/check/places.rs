//! Lowers places, the expressions that can be assigned to. The parts of a place are evaluated once.

use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::span::Span;
use solera_program::types::{Object, Type};

use super::lower::Lower;
use crate::diagnostic::Diagnostic;
use crate::flat::{Compute, StepKind, Var};
use crate::syntax::ast::{Expr, ExprKind};

/// An expression that can be assigned to.
pub(super) enum PlaceExpr {
    /// A variable.
    Var(Var),
    /// A field of a struct in a place.
    Field(Box<PlaceExpr>, u16, Type),
    /// An element of a list or map in a place.
    Element(Box<PlaceExpr>, Var, Type),
    /// A field of the object of a handle.
    RemoteField(Var, u16, Type),
    /// The whole object of a handle.
    Remote(Var, Type),
}

impl Lower<'_> {
    /// Lowers an expression to a place. Reports expressions that are not places.
    #[expect(clippy::too_many_lines, reason = "one arm per kind of expression")]
    pub(super) fn place(&mut self, expr: &Expr) -> Option<PlaceExpr> {
        match &expr.kind {
            ExprKind::Name(name) => {
                let var = self.variable(name, expr.span)?;
                if (var.0 as usize) < self.body.params {
                    let info = &self.body.vars[var.0 as usize];
                    let error = format!("the parameter '{name}' cannot be changed");
                    self.diagnostics.push(
                        Diagnostic::error("E0307", expr.span, error)
                            .mark(info.span, "the parameter")
                            .help(format!("copy it: `var my_{name} = {name};`")),
                    );
                    return None;
                }
                Some(PlaceExpr::Var(var))
            }
            ExprKind::Field(base, name) => {
                let ty = self.place_or_value_type(base)?;
                match ty {
                    (Type::Handle(object, store), handle) => {
                        let fields = self.known.object_fields(&object, store);
                        let ty = Type::Handle(object, store);
                        let (index, field) = self.find_field(fields, &ty, name)?;
                        let handle = self.load(&handle, base.span);
                        Some(PlaceExpr::RemoteField(handle, index, field))
                    }
                    (Type::Struct(id), place) => {
                        let fields = self.known.struct_info(id).fields.clone();
                        let (index, field) =
                            self.find_field(Some(fields), &Type::Struct(id), name)?;
                        Some(PlaceExpr::Field(Box::new(place), index, field))
                    }
                    (Type::Unknown, _) => None,
                    (other, _) => {
                        self.find_field(None, &other, name);
                        None
                    }
                }
            }
            ExprKind::Index(base, index) => {
                let (ty, place) = self.place_or_value_type(base)?;
                let (key, of) = match &ty {
                    Type::List(of) => (Type::Int, (**of).clone()),
                    Type::Map(key, of) => ((**key).clone(), (**of).clone()),
                    Type::Unknown => return None,
                    other => {
                        let shown = self.known.show(other);
                        self.error("E0215", base.span, format!("{shown} cannot be indexed"));
                        return None;
                    }
                };
                let index_var = self.expression(index, Some(&key));
                self.require_type(index_var, &key, index.span);
                Some(PlaceExpr::Element(Box::new(place), index_var, of))
            }
            ExprKind::Deref(handle) => {
                let handle_var = self.expression(handle, None);
                let ty = match self.type_of(handle_var) {
                    Type::Handle(object, _) => match &*object {
                        Object::Register(of) => of.clone(),
                        Object::Struct(id) => Type::Struct(*id),
                        other => {
                            let shown = self.known.show_object(other);
                            self.diagnostics.push(
                                Diagnostic::error(
                                    "E0308",
                                    expr.span,
                                    format!("a {shown} cannot be assigned as a whole"),
                                )
                                .help("use its operations"),
                            );
                            return None;
                        }
                    },
                    Type::Unknown => return None,
                    other => {
                        let shown = self.known.show(&other);
                        let error = format!("{shown} is not a handle");
                        self.error("E0214", handle.span, error);
                        return None;
                    }
                };
                Some(PlaceExpr::Remote(handle_var, ty))
            }
            ExprKind::Error => None,
            _ => {
                self.diagnostics
                    .push(Diagnostic::error("E0308", expr.span, "this cannot be assigned to").help(
                    "only variables, fields, elements and objects of handles can be assigned to",
                ));
                None
            }
        }
    }

    /// Lowers the expression before a dot or bracket; returns its type and place. An expression
    /// that is not a place, such as a call, is accepted only if it is a handle.
    fn place_or_value_type(&mut self, base: &Expr) -> Option<(Type, PlaceExpr)> {
        if let ExprKind::Name(name) = &base.kind
            && let Some(var) = self.lookup(name)
            && matches!(self.type_of(var), Type::Handle(..))
        {
            // This includes parameters: the object of a handle can be changed.
            return Some((self.type_of(var), PlaceExpr::Var(var)));
        }
        match &base.kind {
            ExprKind::Name(_) | ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Deref(_) => {
                let place = self.place(base)?;
                Some((self.place_type(&place), place))
            }
            _ => {
                let var = self.expression(base, None);
                let ty = self.type_of(var);
                if !matches!(ty, Type::Handle(..) | Type::Unknown) {
                    self.error("E0308", base.span, "an assignment to this would be lost");
                    return None;
                }
                Some((ty, PlaceExpr::Var(var)))
            }
        }
    }

    /// Returns the type of a place.
    pub(super) fn place_type(&self, place: &PlaceExpr) -> Type {
        match place {
            PlaceExpr::Var(var) => self.type_of(*var),
            PlaceExpr::Field(_, _, ty)
            | PlaceExpr::Element(_, _, ty)
            | PlaceExpr::RemoteField(_, _, ty)
            | PlaceExpr::Remote(_, ty) => ty.clone(),
        }
    }

    /// Appends the read of a place.
    pub(super) fn load(&mut self, place: &PlaceExpr, span: Span) -> Var {
        match place {
            PlaceExpr::Var(var) => *var,
            PlaceExpr::Field(base, index, ty) => {
                let base = self.load(base, span);
                self.compute(span, ty.clone(), Compute::Field(base, *index))
            }
            PlaceExpr::Element(base, key, ty) => {
                let base = self.load(base, span);
                let at = Compute::Builtin(Builtin::Index, vec![base, *key]);
                self.compute(span, ty.clone(), at)
            }
            PlaceExpr::RemoteField(handle, index, ty) => {
                self.remote(*handle, ObjectOp::Field(*index), Vec::new(), ty.clone(), span)
            }
            PlaceExpr::Remote(handle, _) => self.dereference(*handle, span),
        }
    }

    /// Appends the write of a place.
    pub(super) fn store(&mut self, place: &PlaceExpr, value: Var, span: Span) {
        match place {
            PlaceExpr::Var(var) => self.step(span, StepKind::Set(*var, Compute::Copy(value))),
            PlaceExpr::Field(base, index, _) => {
                let old = self.load(base, span);
                let ty = self.type_of(old);
                let new = self.compute(span, ty, Compute::WithField(old, *index, value));
                self.store(base, new, span);
            }
            PlaceExpr::Element(base, key, _) => {
                let old = self.load(base, span);
                let ty = self.type_of(old);
                let builtin =
                    if matches!(ty, Type::Map(..)) { Builtin::Put } else { Builtin::SetAt };
                let new = Compute::Builtin(builtin, vec![old, *key, value]);
                let new = self.compute(span, ty, new);
                self.store(base, new, span);
            }
            PlaceExpr::RemoteField(handle, index, _) => {
                self.remote(*handle, ObjectOp::PutField(*index), vec![value], Type::Unit, span);
            }
            PlaceExpr::Remote(handle, Type::Struct(id)) if self.leads_to_struct(*handle) => {
                let fields = self.known.struct_info(*id).fields.clone();
                let part = |this: &mut Self, index: usize, ty: &Type| {
                    this.compute(span, ty.clone(), Compute::Field(value, index as u16))
                };
                let parts =
                    fields.iter().enumerate().map(|(i, (_, ty))| part(self, i, ty)).collect();
                self.remote(*handle, ObjectOp::Create, parts, Type::Unit, span);
            }
            PlaceExpr::Remote(handle, _) => {
                self.remote(*handle, ObjectOp::Put, vec![value], Type::Unit, span);
            }
        }
    }

    fn leads_to_struct(&self, handle: Var) -> bool {
        match self.type_of(handle) {
            Type::Handle(object, _) => matches!(*object, Object::Struct(_)),
            _ => false,
        }
    }

    /// Changes the value in a place by a builtin that returns the changed value. If the place is a
    /// variable, the interpreter changes it without a copy.
    pub(super) fn change(
        &mut self,
        place: &PlaceExpr,
        builtin: Builtin,
        args: Vec<Var>,
        span: Span,
    ) {
        if let PlaceExpr::Var(var) = place {
            let args = std::iter::once(*var).chain(args).collect();
            return self.step(span, StepKind::Set(*var, Compute::Builtin(builtin, args)));
        }
        let old = self.load(place, span);
        let ty = self.type_of(old);
        let args = std::iter::once(old).chain(args).collect();
        let new = self.compute(span, ty, Compute::Builtin(builtin, args));
        self.store(place, new, span);
    }
}
