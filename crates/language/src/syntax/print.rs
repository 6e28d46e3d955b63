//! Prints a tree as source text, in a normal form.

use super::ast::{
    Arm, Block, Expr, ExprKind, FunctionDecl, Item, LevelDecl, Literal, Module, Name, NewObject,
    OperationDecl, OperationParam, Param, Pattern, PatternKind, Stmt, StmtKind, StoreDecl,
    StructDecl, TypeExpr, TypeKind, UnaryOp,
};
use super::escape::{quoted_bytes, quoted_text};

/// Prints a tree as source text, which parses to the same tree apart from spans. Comments are not
/// part of a tree. Invalid parts are printed as comments.
pub fn print(module: &Module) -> String {
    let mut printer = Printer { text: String::new(), depth: 0 };
    for (index, item) in module.items.iter().enumerate() {
        // Short declarations of one kind are not separated by empty lines.
        let apart = index > 0 && !(short(item) && short(&module.items[index - 1]));
        if apart {
            printer.text.push('\n');
        }
        printer.item(item);
    }
    printer.text
}

const UNREADABLE: &str = "/* not readable */";

/// Binding power of unary operators: higher than that of all binary operators.
const PREFIX: u8 = 6;
/// Binding power of `.name` and other suffixes.
const POSTFIX: u8 = 7;

struct Printer {
    text: String,
    depth: usize,
}

fn short(item: &Item) -> bool {
    match item {
        Item::Level(_) => true,
        Item::Store(store) => store.operations.is_empty(),
        _ => false,
    }
}

impl Printer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn indent(&mut self) {
        for _ in 0..self.depth {
            self.push("    ");
        }
    }

    /// Writes items separated by `, `.
    fn list<T>(&mut self, things: &[T], mut write: impl FnMut(&mut Self, &T)) {
        for (index, thing) in things.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            write(self, thing);
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Level(level) => self.level(level),
            Item::Store(store) => self.store(store),
            Item::Struct(decl) => self.struct_decl(decl),
            Item::Function(function) => self.function("fn", function),
            Item::Transaction(function) => self.function("transaction", function),
        }
        self.push("\n");
    }

    fn level(&mut self, level: &LevelDecl) {
        self.push("level ");
        self.push(&level.name.text);
        for (relation, names) in [(" below ", &level.below), (" above ", &level.above)] {
            if !names.is_empty() {
                self.push(relation);
                self.list(names, |printer, name| printer.push(&name.text));
            }
        }
        self.push(";");
    }

    fn store(&mut self, store: &StoreDecl) {
        let StoreDecl { name, level, operations, .. } = store;
        self.push(&format!("store {} : {}", name.text, level.text));
        if operations.is_empty() {
            return self.push(";");
        }
        self.push(" {\n");
        for operation in operations {
            self.push("    ");
            self.operation(operation);
            self.push("\n");
        }
        self.push("}");
    }

    fn operation(&mut self, operation: &OperationDecl) {
        self.push(if operation.mutates { "operation " } else { "query " });
        self.push(&operation.name.text);
        self.push("(");
        self.list(&operation.params, |printer, param| {
            let OperationParam { name, ty, dereferenced } = param;
            printer.push(&name.text);
            printer.push(if *dereferenced { ": *" } else { ": " });
            printer.ty(ty);
        });
        self.push(")");
        self.result(operation.result.as_ref());
        self.push(";");
    }

    fn struct_decl(&mut self, decl: &StructDecl) {
        self.push(&format!("struct {} {{", decl.name.text));
        for field in &decl.fields {
            self.push("\n    ");
            self.param(field);
            self.push(",");
        }
        self.push(if decl.fields.is_empty() { "}" } else { "\n}" });
    }

    fn param(&mut self, param: &Param) {
        self.push(&param.name.text);
        self.push(": ");
        self.ty(&param.ty);
    }

    fn result(&mut self, result: Option<&TypeExpr>) {
        if let Some(ty) = result {
            self.push(" -> ");
            self.ty(ty);
        }
    }

    fn function(&mut self, keyword: &str, function: &FunctionDecl) {
        self.push(&format!("{keyword} {}(", function.name.text));
        self.list(&function.params, Self::param);
        self.push(")");
        self.result(function.result.as_ref());
        self.push(" ");
        self.block(&function.body);
    }

    fn ty(&mut self, ty: &TypeExpr) {
        match &ty.kind {
            TypeKind::Named(name, arguments) => {
                self.push(&name.text);
                if !arguments.is_empty() {
                    self.push("<");
                    self.list(arguments, Self::ty);
                    self.push(">");
                }
            }
            TypeKind::Handle(inner, store) => {
                self.push("handle<");
                self.ty(inner);
                self.push("> in ");
                self.push(&store.text);
            }
            TypeKind::Stored(_) | TypeKind::Error => self.push(UNREADABLE),
        }
        if let Some(level) = &ty.level {
            self.push(" @ ");
            self.push(&level.text);
        }
    }

    fn block(&mut self, block: &Block) {
        if block.statements.is_empty() {
            return self.push("{}");
        }
        self.push("{\n");
        self.depth += 1;
        for statement in &block.statements {
            self.indent();
            self.statement(statement);
            self.push("\n");
        }
        self.depth -= 1;
        self.indent();
        self.push("}");
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Var(name, ty, value) => {
                self.push("var ");
                self.push(&name.text);
                if let Some(ty) = ty {
                    self.push(": ");
                    self.ty(ty);
                }
                self.push(" = ");
                self.ended(value);
            }
            StmtKind::Assign(place, op, value) => {
                self.expr(place, 0);
                let sign = op.map_or("", |op| op.symbol());
                self.push(&format!(" {sign}= "));
                self.ended(value);
            }
            StmtKind::Expr(expr) => self.ended(expr),
            StmtKind::If(condition, then, or) => self.if_statement(condition, then, or.as_ref()),
            StmtKind::While(condition, body) => {
                self.push("while ");
                self.head(condition);
                self.block(body);
            }
            StmtKind::For(name, over, body) => {
                self.push(&format!("for {} in ", name.text));
                self.head(over);
                self.block(body);
            }
            StmtKind::Match(value, arms) => self.match_statement(value, arms),
            StmtKind::Return(None) => self.push("return;"),
            StmtKind::Return(Some(value)) => {
                self.push("return ");
                self.ended(value);
            }
            StmtKind::Break => self.push("break;"),
            StmtKind::Continue => self.push("continue;"),
            StmtKind::Abort(why) => {
                self.push("abort ");
                self.ended(why);
            }
            StmtKind::Block(block) => self.block(block),
        }
    }

    fn ended(&mut self, expr: &Expr) {
        self.expr(expr, 0);
        self.push(";");
    }

    /// Writes an expression before a block.
    fn head(&mut self, expr: &Expr) {
        if shows_struct(expr) {
            self.push("(");
            self.expr(expr, 0);
            self.push(") ");
        } else {
            self.expr(expr, 0);
            self.push(" ");
        }
    }

    fn if_statement(&mut self, condition: &Expr, then: &Block, or: Option<&Block>) {
        self.push("if ");
        self.head(condition);
        self.block(then);
        let Some(or) = or else { return };
        self.push(" else ");
        match &or.statements[..] {
            [Stmt { kind: StmtKind::If(condition, then, or), .. }] => {
                self.if_statement(condition, then, or.as_ref());
            }
            _ => self.block(or),
        }
    }

    fn match_statement(&mut self, value: &Expr, arms: &[Arm]) {
        self.push("match ");
        self.head(value);
        self.push("{\n");
        self.depth += 1;
        for Arm { pattern, body } in arms {
            self.indent();
            self.pattern(pattern);
            self.push(" => ");
            self.block(body);
            self.push("\n");
        }
        self.depth -= 1;
        self.indent();
        self.push("}");
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match &pattern.kind {
            PatternKind::Any => self.push("_"),
            PatternKind::Some(name) => self.push(&format!("some({})", name.text)),
            PatternKind::None => self.push("none"),
            PatternKind::Literal(literal) => self.literal(literal),
        }
    }

    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Int(number) => self.push(&number.to_string()),
            // `Debug` always writes a point or an exponent.
            Literal::Float(number) => self.push(&format!("{number:?}")),
            Literal::String(text) => self.push(&quoted_text(text)),
            Literal::Bytes(bytes) => self.push(&quoted_bytes(bytes)),
            Literal::Bool(value) => self.push(if *value { "true" } else { "false" }),
        }
    }

    /// Writes an expression, in parentheses if it binds less strongly than needed.
    fn expr(&mut self, expr: &Expr, needed: u8) {
        if power(expr) < needed {
            return self.parenthesized(expr);
        }
        match &expr.kind {
            ExprKind::Literal(literal) => self.literal(literal),
            ExprKind::Name(name) => self.push(name),
            ExprKind::Unary(UnaryOp::Not, operand) => self.prefixed("!", operand),
            ExprKind::Unary(UnaryOp::Negate, operand) => self.negated(operand),
            ExprKind::Deref(operand) => self.prefixed("*", operand),
            ExprKind::Binary(op, left, right) => {
                // Operators are left-associative; comparisons do not associate.
                self.expr(left, op.power() + u8::from(op.compares()));
                self.push(&format!(" {} ", op.symbol()));
                self.expr(right, op.power() + 1);
            }
            ExprKind::Field(object, name) => {
                self.expr(object, POSTFIX);
                self.push(&format!(".{}", name.text));
            }
            ExprKind::Call(name, arguments) => {
                self.push(&name.text);
                self.arguments(arguments);
            }
            ExprKind::Method(object, name, arguments) => {
                self.expr(object, POSTFIX);
                self.push(&format!(".{}", name.text));
                self.arguments(arguments);
            }
            ExprKind::Index(object, index) => self.index(object, index),
            ExprKind::List(elements) => self.elements("[", elements),
            ExprKind::Set(elements) => self.elements("set[", elements),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(name, fields) => self.fields(name, fields),
            ExprKind::New(object, store) => {
                self.push("new ");
                match object {
                    NewObject::Empty(ty) => self.ty(ty),
                    NewObject::Struct(name, fields) => self.fields(name, fields),
                }
                self.push(&format!(" in {}", store.text));
            }
            ExprKind::Handle(ty, key, store) => {
                self.push("handle<");
                self.ty(ty);
                self.push(">(");
                self.expr(key, 0);
                self.push(&format!(") in {}", store.text));
            }
            ExprKind::Endorse(level, value) => {
                self.push(&format!("endorse({}, ", level.text));
                self.expr(value, 0);
                self.push(")");
            }
            ExprKind::Error => self.push(UNREADABLE),
        }
    }

    fn parenthesized(&mut self, expr: &Expr) {
        self.push("(");
        self.expr(expr, 0);
        self.push(")");
    }

    fn prefixed(&mut self, sign: &str, operand: &Expr) {
        self.push(sign);
        self.expr(operand, PREFIX);
    }

    /// Writes a unary minus that is neither parsed as the sign of a number nor as half of a `--`.
    fn negated(&mut self, operand: &Expr) {
        self.push("-");
        let number = matches!(operand.kind, ExprKind::Literal(Literal::Int(_) | Literal::Float(_)));
        let negated = matches!(operand.kind, ExprKind::Unary(UnaryOp::Negate, _));
        if number || negated {
            self.parenthesized(operand);
        } else {
            self.expr(operand, PREFIX);
        }
    }

    fn index(&mut self, object: &Expr, index: &Expr) {
        // `set[…]` and `map[…]` would parse as a set or a map.
        let mistaken =
            matches!(&object.kind, ExprKind::Name(name) if name == "set" || name == "map");
        if mistaken {
            self.parenthesized(object);
        } else {
            self.expr(object, POSTFIX);
        }
        self.push("[");
        self.expr(index, 0);
        self.push("]");
    }

    fn arguments(&mut self, arguments: &[Expr]) {
        self.push("(");
        self.list(arguments, |printer, argument| printer.expr(argument, 0));
        self.push(")");
    }

    fn elements(&mut self, open: &str, elements: &[Expr]) {
        self.push(open);
        self.list(elements, |printer, element| printer.expr(element, 0));
        self.push("]");
    }

    fn map(&mut self, entries: &[(Expr, Expr)]) {
        self.push("map[");
        self.list(entries, |printer, (key, value)| {
            printer.expr(key, 0);
            printer.push(": ");
            printer.expr(value, 0);
        });
        self.push("]");
    }

    fn fields(&mut self, name: &Name, fields: &[(Name, Expr)]) {
        self.push(&name.text);
        if fields.is_empty() {
            return self.push(" {}");
        }
        self.push(" { ");
        self.list(fields, |printer, (name, value)| {
            printer.push(&name.text);
            if !matches!(&value.kind, ExprKind::Name(shorthand) if *shorthand == name.text) {
                printer.push(": ");
                printer.expr(value, 0);
            }
        });
        self.push(" }");
    }
}

/// Returns the binding power of a printed expression.
fn power(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Binary(op, ..) => op.power(),
        ExprKind::Unary(..) | ExprKind::Deref(_) | ExprKind::New(..) | ExprKind::Handle(..) => {
            PREFIX
        }
        ExprKind::Literal(Literal::Int(number)) if *number < 0 => PREFIX,
        ExprKind::Literal(Literal::Float(number)) if number.is_sign_negative() => PREFIX,
        _ => POSTFIX,
    }
}

/// Returns whether the expression has a struct literal outside parentheses and brackets.
fn shows_struct(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Struct(..) | ExprKind::New(NewObject::Struct(..), _) => true,
        ExprKind::Unary(_, inner)
        | ExprKind::Deref(inner)
        | ExprKind::Field(inner, _)
        | ExprKind::Method(inner, ..)
        | ExprKind::Index(inner, _) => shows_struct(inner),
        ExprKind::Binary(_, left, right) => shows_struct(left) || shows_struct(right),
        _ => false,
    }
}
