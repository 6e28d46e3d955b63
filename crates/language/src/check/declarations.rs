//! Declarations of a module: levels, stores, structs, and the signatures of functions and
//! transactions.

mod levels;

use std::collections::{BTreeMap, BTreeSet};

use solera_levels::{Label, Lattice, Level};
use solera_program::ir;
use solera_program::span::Span;
use solera_program::types::{Object, StoreId, StructId, Type};

use crate::diagnostic::Diagnostic;
use crate::nearest::nearest;
use crate::risk::Risk;
use crate::syntax::ast::{
    FunctionDecl, Item, Module, Name, OperationDecl, Param, StoreDecl, StructDecl, TypeExpr,
    TypeKind,
};

/// Maximum numbers of stores and structs in a module; their indices must fit their types.
const MAX_STORES: usize = 30;
const MAX_STRUCTS: usize = 1000;

/// Declarations of a module.
#[derive(Clone, Debug)]
pub struct Declarations {
    /// The levels.
    pub lattice: Lattice,
    /// Stores, by [`StoreId`].
    pub stores: Vec<StoreInfo>,
    /// Structs, by [`StructId`].
    pub structs: Vec<StructInfo>,
    /// The functions, in the order of their declaration.
    pub functions: Vec<Signature>,
    /// For each function, whether it may fail; empty until all functions are checked.
    pub failing: Vec<bool>,
    /// For each function, the step that is likely to fail, if any; empty until all functions are
    /// checked.
    pub risks: Vec<Option<Risk>>,
    names: BTreeMap<String, (Kind, Span)>,
    /// Names of levels that were rejected because they have no place in the lattice.
    rejected: BTreeSet<String>,
}

/// A store.
#[derive(Clone, Debug)]
pub struct StoreInfo {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Label,
    /// Whether the store's transactions are atomic.
    pub atomic: bool,
    /// Its custom operations.
    pub operations: Vec<ir::Operation>,
    /// Span of its name in the declaration.
    pub span: Span,
}

/// A struct.
#[derive(Clone, Debug)]
pub struct StructInfo {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<(String, Type)>,
    /// Span of its name in the declaration.
    pub span: Span,
}

/// Signature of a function, known before its body is checked.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// The types of its parameters.
    pub params: Vec<Type>,
    /// The type of its result.
    pub result: Type,
    /// Span from its keyword to the type of its result.
    pub head: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Level,
    Store(StoreId),
    Struct(StructId),
    Function(usize),
    Transaction,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Level => "a level",
            Kind::Store(_) => "a store",
            Kind::Struct(_) => "a struct",
            Kind::Function(_) => "a function",
            Kind::Transaction => "a transaction",
        }
    }
}

/// Names of the built-in types.
const TYPES: [&str; 14] = [
    "int", "float", "bool", "string", "bytes", "unit", "option", "list", "set", "map", "handle",
    "register", "counter", "log",
];

impl Declarations {
    /// Collects a module's declarations, in an order in which each finds the names that it refers
    /// to.
    pub fn of(module: &Module, diagnostics: &mut Vec<Diagnostic>) -> Declarations {
        let mut all = Declarations {
            lattice: Lattice::builtin(),
            stores: Vec::new(),
            structs: Vec::new(),
            functions: Vec::new(),
            failing: Vec::new(),
            rejected: BTreeSet::new(),
            risks: Vec::new(),
            names: BTreeMap::new(),
        };
        let levels = module.items.iter().filter_map(|item| match item {
            Item::Level(level) => Some(level),
            _ => None,
        });
        all.levels(levels.collect(), diagnostics);
        for item in &module.items {
            match item {
                Item::Store(store) => all.store(store, diagnostics),
                Item::Struct(declared) => all.name_struct(declared, diagnostics),
                _ => {}
            }
        }
        for item in &module.items {
            match item {
                Item::Store(store) => all.operations(store, diagnostics),
                Item::Struct(declared) => all.fields(declared, diagnostics),
                _ => {}
            }
        }
        all.reject_recursive_structs(diagnostics);
        for item in &module.items {
            match item {
                Item::Function(function) => all.function(function, diagnostics),
                Item::Transaction(transaction) => {
                    all.claim(&transaction.name, Kind::Transaction, diagnostics);
                }
                _ => {}
            }
        }
        all
    }

    /// Returns the store of a name.
    pub fn store_named(&self, name: &str) -> Option<StoreId> {
        match self.names.get(name)?.0 {
            Kind::Store(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the struct of a name.
    pub fn struct_named(&self, name: &str) -> Option<StructId> {
        match self.names.get(name)?.0 {
            Kind::Struct(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the index of the function of a name.
    pub fn function_named(&self, name: &str) -> Option<usize> {
        match self.names.get(name)?.0 {
            Kind::Function(index) => Some(index),
            _ => None,
        }
    }

    /// Describes, for error messages, what else a name refers to.
    pub fn kind_of(&self, name: &str) -> Option<&'static str> {
        self.names.get(name).map(|(kind, _)| kind.text())
    }

    /// Returns a store.
    pub fn store_info(&self, id: StoreId) -> &StoreInfo {
        &self.stores[id.0 as usize]
    }

    /// Returns a struct.
    pub fn struct_info(&self, id: StructId) -> &StructInfo {
        &self.structs[id.0 as usize]
    }

    /// Returns a level's name.
    pub fn level_name(&self, label: Label) -> &str {
        self.lattice.name(label)
    }

    /// Resolves the name of a level. Reports an unknown name with the list of known levels.
    pub fn level_of(&self, name: &Name, diagnostics: &mut Vec<Diagnostic>) -> Label {
        self.known_level(name, diagnostics).unwrap_or_else(|| self.lattice.top())
    }

    fn known_level(&self, name: &Name, diagnostics: &mut Vec<Diagnostic>) -> Option<Label> {
        let found = self.lattice.lookup(&name.text);
        // A rejected level is still declared, so the name is not unknown.
        if found.is_none() && !self.rejected.contains(&name.text) {
            let all: Vec<_> = self.lattice.labels().map(|label| self.lattice.name(label)).collect();
            let help = match nearest(&name.text, all.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the levels are {}", all.join(", ")),
            };
            let error = Diagnostic::error("E0401", name.span, format!("no level '{}'", name.text));
            diagnostics.push(error.here("not declared").help(help));
        }
        found
    }

    /// Formats a type as a program writes it.
    pub fn show(&self, ty: &Type) -> String {
        match ty {
            Type::Unit => "unit".into(),
            Type::Bool => "bool".into(),
            Type::Int => "int".into(),
            Type::Float => "float".into(),
            Type::String => "string".into(),
            Type::Bytes => "bytes".into(),
            Type::Option(of) => format!("option<{}>", self.show(of)),
            Type::List(of) => format!("list<{}>", self.show(of)),
            Type::Set(of) => format!("set<{}>", self.show(of)),
            Type::Map(key, value) => format!("map<{}, {}>", self.show(key), self.show(value)),
            Type::Struct(id) => self.struct_info(*id).name.clone(),
            Type::Handle(object, store) => {
                format!("handle<{}> in {}", self.show_object(object), self.store_info(*store).name)
            }
            Type::Unknown => "_".into(),
        }
    }

    /// Formats the object type of a handle as a program writes it.
    pub fn show_object(&self, object: &Object) -> String {
        match object {
            Object::Register(of) => format!("register<{}>", self.show(of)),
            Object::Counter => "counter".into(),
            Object::Set(of) => format!("set<{}>", self.show(of)),
            Object::Map(key, value) => format!("map<{}, {}>", self.show(key), self.show(value)),
            Object::List(of) => format!("list<{}>", self.show(of)),
            Object::Log(of) => format!("log<{}>", self.show(of)),
            Object::Struct(id) => self.struct_info(*id).name.clone(),
            Object::RemoteList(of) => format!("RemoteList<{}>", self.show(of)),
        }
    }

    /// Returns the fields of an object, if it has any.
    pub fn object_fields(&self, object: &Object, store: StoreId) -> Option<Vec<(String, Type)>> {
        match object {
            Object::Struct(id) => Some(self.struct_info(*id).fields.clone()),
            Object::RemoteList(of) => {
                let next = Type::Handle(Object::RemoteList(of.clone()).into(), store);
                Some(vec![("v".into(), of.clone()), ("next".into(), next)])
            }
            _ => None,
        }
    }

    /// Resolves a written type. Reports unknown names.
    pub fn resolve(&self, written: &TypeExpr, diagnostics: &mut Vec<Diagnostic>) -> Type {
        if let Some(level) = &written.level {
            let error = Diagnostic::error("E0402", level.span, "a level cannot be stated here")
                .help("state levels in the types of variables, parameters and results");
            diagnostics.push(error);
        }
        self.resolve_stated(written, diagnostics)
    }

    /// Resolves like [`resolve`](Self::resolve), where the type may state a level.
    pub fn resolve_stated(&self, written: &TypeExpr, diagnostics: &mut Vec<Diagnostic>) -> Type {
        let (name, args) = match &written.kind {
            TypeKind::Error => return Type::Unknown,
            TypeKind::Stored(store) => {
                self.store_of(store, diagnostics);
                return Type::Unknown;
            }
            TypeKind::Handle(object, store) => {
                let object = self.object(object, store, diagnostics);
                return match (object, self.store_of(store, diagnostics)) {
                    (Some(object), Some(store)) => Type::Handle(object.into(), store),
                    _ => Type::Unknown,
                };
            }
            TypeKind::Named(name, args) => (name, args),
        };
        let args: Vec<Type> = args.iter().map(|arg| self.resolve(arg, diagnostics)).collect();
        let ty = match (name.text.as_str(), args.as_slice()) {
            ("unit", []) => Type::Unit,
            ("int", []) => Type::Int,
            ("float", []) => Type::Float,
            ("bool", []) => Type::Bool,
            ("string", []) => Type::String,
            ("bytes", []) => Type::Bytes,
            ("option", [of]) => Type::Option(of.clone().into()),
            ("list", [of]) => Type::List(of.clone().into()),
            ("set", [of]) => {
                self.must_be_key(of, written.span, diagnostics);
                Type::Set(of.clone().into())
            }
            ("map", [key, value]) => {
                self.must_be_key(key, written.span, diagnostics);
                Type::Map(key.clone().into(), value.clone().into())
            }
            ("register" | "counter" | "log" | "RemoteList", _) => {
                let error = format!("{} can only be used in a handle", name.text);
                diagnostics.push(
                    Diagnostic::error("E0203", written.span, error)
                        .help(format!("write `handle<{}…> in STORE`", name.text)),
                );
                Type::Unknown
            }
            (other, _) => {
                if let (Some(id), []) = (self.struct_named(other), args.as_slice()) {
                    return Type::Struct(id);
                }
                diagnostics.push(self.unknown_type(name, args.len()));
                Type::Unknown
            }
        };
        // A type with an unknown part was reported. Its uses are not reported again.
        if args.contains(&Type::Unknown) { Type::Unknown } else { ty }
    }

    /// Resolves the object type of `handle<…>` or `new …`.
    pub fn object(
        &self,
        written: &TypeExpr,
        store: &Name,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Object> {
        let TypeKind::Named(name, args) = &written.kind else {
            let value = self.resolve(written, diagnostics);
            return (value != Type::Unknown).then_some(Object::Register(value));
        };
        if let Some(level) = &written.level {
            let store = &store.text;
            diagnostics.push(
                Diagnostic::error("E0402", level.span, "a level cannot be stated here")
                    .help(format!("data in `{store}` has the level of `{store}`")),
            );
        }
        let objects = ["register", "counter", "set", "map", "list", "log", "RemoteList"];
        if !objects.contains(&name.text.as_str()) {
            return Some(match self.resolve_stated(&unstated(written), diagnostics) {
                Type::Unknown => return None,
                Type::Struct(id) => Object::Struct(id),
                value => Object::Register(value),
            });
        }
        let args: Vec<Type> = args.iter().map(|arg| self.resolve(arg, diagnostics)).collect();
        let object = match (name.text.as_str(), args.as_slice()) {
            ("register", [of]) => Object::Register(of.clone()),
            ("counter", []) => Object::Counter,
            ("set", [of]) => Object::Set(of.clone()),
            ("map", [key, value]) => Object::Map(key.clone(), value.clone()),
            ("list", [of]) => Object::List(of.clone()),
            ("log", [of]) => Object::Log(of.clone()),
            ("RemoteList", [of]) => Object::RemoteList(of.clone()),
            _ => {
                diagnostics.push(self.unknown_type(name, args.len()));
                return None;
            }
        };
        if let Object::Set(key) | Object::Map(key, _) = &object {
            self.must_be_key(key, written.span, diagnostics);
        }
        (!args.contains(&Type::Unknown)).then_some(object)
    }

    /// Resolves the name of a store. Reports an unknown name with the list of stores.
    pub fn store_of(&self, name: &Name, diagnostics: &mut Vec<Diagnostic>) -> Option<StoreId> {
        let found = self.store_named(&name.text);
        if found.is_none() {
            let mut error =
                Diagnostic::error("E0301", name.span, format!("no store '{}'", name.text))
                    .here("not declared");
            let known: Vec<_> = self.stores.iter().map(|store| store.name.as_str()).collect();
            let near = nearest(&name.text, known.iter().copied());
            error = match (known.as_slice(), near) {
                ([], _) => error.help(format!("declare it: `store {} : causal;`", name.text)),
                (_, Some(near)) => error.help(format!("did you mean `{near}`?")),
                _ => error.help(format!("the stores are {}", known.join(", "))),
            };
            diagnostics.push(error);
        }
        found
    }

    /// Rejects element types of sets and key types of maps that are or contain floats.
    pub(super) fn must_be_key(&self, ty: &Type, span: Span, diagnostics: &mut Vec<Diagnostic>) {
        if !ty.is_key() {
            let error = format!("{} cannot be an element of a set or a key", self.show(ty));
            let note = "floats have no total order";
            diagnostics.push(Diagnostic::error("E0204", span, error).note(note));
        }
    }

    fn unknown_type(&self, name: &Name, args: usize) -> Diagnostic {
        let wanted = match name.text.as_str() {
            "option" | "list" | "set" | "log" | "register" | "RemoteList" => Some(1),
            "map" => Some(2),
            known if TYPES.contains(&known) || self.struct_named(known).is_some() => Some(0),
            _ => None,
        };
        if let Some(wanted) = wanted {
            let types = if wanted == 1 { "type" } else { "types" };
            let message = format!("{} takes {wanted} {types}, not {args}", name.text);
            return Diagnostic::error("E0202", name.span, message);
        }
        let error = match self.kind_of(&name.text) {
            Some(kind) => format!("'{}' is {kind}, not a type", name.text),
            None => format!("no type '{}'", name.text),
        };
        let error = Diagnostic::error("E0201", name.span, error).here("not a type");
        let near = match name.text.as_str() {
            "i64" | "i32" | "u64" | "u32" | "usize" | "Int" | "integer" | "long" => Some("int"),
            "f64" | "f32" | "double" | "number" | "Float" => Some("float"),
            "String" | "str" | "text" => Some("string"),
            "boolean" | "Bool" => Some("bool"),
            "Vec" | "List" | "array" | "vec" => Some("list"),
            "Option" | "optional" | "Optional" => Some("option"),
            "Map" | "HashMap" | "dict" => Some("map"),
            "Set" | "HashSet" => Some("set"),
            "Handle" => Some("handle"),
            "void" => Some("unit"),
            other => {
                let structs = self.structs.iter().map(|one| one.name.as_str());
                nearest(other, TYPES.into_iter().chain(structs))
            }
        };
        match near {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help(format!("declare it: `struct {} {{ … }}`", name.text)),
        }
    }

    fn claim(&mut self, name: &Name, kind: Kind, diagnostics: &mut Vec<Diagnostic>) -> bool {
        if let Some((_, first)) = self.names.get(&name.text) {
            let error = format!("'{}' is declared twice", name.text);
            let error =
                Diagnostic::error("E0302", name.span, error).here("again").mark(*first, "first");
            diagnostics.push(error);
            return false;
        }
        if TYPES.contains(&name.text.as_str()) || name.text == "RemoteList" {
            let error = format!("'{}' is a type of the language", name.text);
            diagnostics
                .push(Diagnostic::error("E0302", name.span, error).help(another_name(&name.text)));
            return false;
        }
        self.names.insert(name.text.clone(), (kind, name.span));
        true
    }

    fn store(&mut self, declared: &StoreDecl, diagnostics: &mut Vec<Diagnostic>) {
        if self.stores.len() == MAX_STORES {
            let error = format!("a module has {MAX_STORES} stores at most");
            diagnostics.push(Diagnostic::error("E0303", declared.name.span, error));
            return;
        }
        let id = StoreId(self.stores.len() as u8);
        let level = self.level_of(&declared.level, diagnostics);
        if self.claim(&declared.name, Kind::Store(id), diagnostics) {
            let causal = self.lattice.of(Level::Causal);
            self.stores.push(StoreInfo {
                name: declared.name.text.clone(),
                level,
                atomic: self.lattice.at_least(level, causal),
                operations: Vec::new(),
                span: declared.name.span,
            });
        }
    }

    fn name_struct(&mut self, declared: &StructDecl, diagnostics: &mut Vec<Diagnostic>) {
        if self.structs.len() == MAX_STRUCTS {
            let error = format!("a module has {MAX_STRUCTS} structs at most");
            diagnostics.push(Diagnostic::error("E0303", declared.name.span, error));
            return;
        }
        let id = StructId(self.structs.len() as u16);
        if self.claim(&declared.name, Kind::Struct(id), diagnostics) {
            self.structs.push(StructInfo {
                name: declared.name.text.clone(),
                fields: Vec::new(),
                span: declared.name.span,
            });
        }
    }

    fn fields(&mut self, declared: &StructDecl, diagnostics: &mut Vec<Diagnostic>) {
        let Some(id) = self.struct_named(&declared.name.text) else { return };
        if self.struct_info(id).span != declared.name.span {
            return; // Declared twice; reported.
        }
        let mut fields: Vec<(String, Type)> = Vec::new();
        for field in &declared.fields {
            if fields.iter().any(|(name, _)| *name == field.name.text) {
                let error = format!("the field '{}' is declared twice", field.name.text);
                let mut error = Diagnostic::error("E0302", field.name.span, error).here("again");
                let same = |other: &&Param| other.name.text == field.name.text;
                if let Some(first) = declared.fields.iter().find(same) {
                    error = error.mark(first.name.span, "first");
                }
                diagnostics.push(error);
                continue;
            }
            let ty = self.resolve(&field.ty, diagnostics);
            fields.push((field.name.text.clone(), ty));
        }
        self.structs[id.0 as usize].fields = fields;
    }

    /// Rejects structs that contain themselves other than through a handle, an option or a
    /// collection: they have no values.
    fn reject_recursive_structs(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        for index in 0..self.structs.len() {
            let start = StructId(index as u16);
            let (mut seen, mut next) = (vec![false; self.structs.len()], vec![start]);
            while let Some(id) = next.pop() {
                for (_, ty) in &self.struct_info(id).fields {
                    let Type::Struct(inner) = ty else { continue };
                    if *inner == start {
                        let info = &self.structs[index];
                        let error = format!("{} would contain itself without end", info.name);
                        diagnostics.push(
                            Diagnostic::error("E0205", info.span, error)
                                .help("use a handle or an option for the inner one"),
                        );
                        self.structs[index].fields.clear();
                        next.clear();
                        break;
                    }
                    if !std::mem::replace(&mut seen[inner.0 as usize], true) {
                        next.push(*inner);
                    }
                }
            }
        }
    }

    fn operations(&mut self, declared: &StoreDecl, diagnostics: &mut Vec<Diagnostic>) {
        let Some(id) = self.store_named(&declared.name.text) else { return };
        let mut operations: Vec<ir::Operation> = Vec::new();
        for operation in &declared.operations {
            if operations.iter().any(|other| *other.name == *operation.name.text) {
                let error = format!("'{}' is declared twice", operation.name.text);
                diagnostics.push(Diagnostic::error("E0302", operation.name.span, error));
                continue;
            }
            let operation = self.operation(operation, id, diagnostics);
            operations.push(operation);
        }
        if self.store_info(id).span == declared.name.span {
            self.stores[id.0 as usize].operations = operations;
        }
    }

    fn operation(
        &self,
        declared: &OperationDecl,
        store: StoreId,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> ir::Operation {
        let mut param = |param: &crate::syntax::ast::OperationParam| {
            let name = Name { text: self.store_info(store).name.clone(), span: param.ty.span };
            let ty = if param.dereferenced {
                let object = self.object(&param.ty, &name, diagnostics);
                object.map_or(Type::Unknown, |object| Type::Handle(object.into(), store))
            } else {
                self.resolve(&param.ty, diagnostics)
            };
            ir::OperationParam {
                name: param.name.text.as_str().into(),
                ty,
                dereferenced: param.dereferenced,
            }
        };
        let params = declared.params.iter().map(&mut param).collect();
        let result = declared.result.as_ref();
        ir::Operation {
            name: declared.name.text.as_str().into(),
            params,
            result: result.map_or(Type::Unit, |result| self.resolve(result, diagnostics)),
            mutates: declared.mutates,
        }
    }

    fn function(&mut self, declared: &FunctionDecl, diagnostics: &mut Vec<Diagnostic>) {
        if solera_program::builtin::FUNCTIONS.contains(&declared.name.text.as_str()) {
            let error = format!("'{}' is a function of the language", declared.name.text);
            diagnostics.push(
                Diagnostic::error("E0302", declared.name.span, error)
                    .help(another_name(&declared.name.text)),
            );
        }
        let index = self.functions.len();
        // A missing level is reported when the body is checked.
        let params = declared.params.iter();
        let params = params.map(|param| self.resolve_stated(&param.ty, diagnostics)).collect();
        let result = declared.result.as_ref();
        let result = result.map_or(Type::Unit, |result| self.resolve_stated(result, diagnostics));
        self.claim(&declared.name, Kind::Function(index), diagnostics);
        let name = declared.name.text.clone();
        self.functions.push(Signature { name, params, result, head: declared.head });
    }
}

/// Suggests how to avoid a name that the language reserves.
fn another_name(taken: &str) -> String {
    format!("choose another name, such as `my_{}`", taken.to_lowercase())
}

fn unstated(written: &TypeExpr) -> TypeExpr {
    TypeExpr { level: None, ..written.clone() }
}
