//! Syntax tree of a program.

pub use solera_program::operator::{BinaryOp, UnaryOp};
use solera_program::span::Span;

/// A name with its span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Its span.
    pub span: Span,
}

/// A source file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// Its declarations, in the order of the text.
    pub items: Vec<Item>,
}

/// A declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `level NAME below L, … above L, …;`
    Level(LevelDecl),
    /// `store NAME : LEVEL;` or with operations in braces.
    Store(StoreDecl),
    /// `struct NAME { field: type, … }`
    Struct(StructDecl),
    /// `fn NAME(…) -> type { … }`: without effects.
    Function(FunctionDecl),
    /// `transaction NAME(…) -> type { … }`
    Transaction(FunctionDecl),
}

/// An addition to the lattice of levels.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDecl {
    /// Its name.
    pub name: Name,
    /// The levels that it is weaker than.
    pub below: Vec<Name>,
    /// The levels that it is stronger than.
    pub above: Vec<Name>,
    /// The whole declaration.
    pub span: Span,
}

/// A store that transactions use. Loading the module binds it to a space.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreDecl {
    /// Its name.
    pub name: Name,
    /// Level that it guarantees.
    pub level: Name,
    /// Its custom operations.
    pub operations: Vec<OperationDecl>,
    /// The whole declaration.
    pub span: Span,
}

/// A custom operation of a store: `operation NAME(…) -> type;` or, if it changes nothing,
/// `query …`.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationDecl {
    /// Its name.
    pub name: Name,
    /// Its arguments.
    pub params: Vec<OperationParam>,
    /// Type of its result; `None` without a result.
    pub result: Option<TypeExpr>,
    /// Whether it may change something (`operation`), or not (`query`).
    pub mutates: bool,
    /// The whole declaration.
    pub span: Span,
}

/// An argument of a custom operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationParam {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: TypeExpr,
    /// Whether the caller passes a handle of this store, and the operation receives the object's
    /// value: `name: *type`.
    pub dereferenced: bool,
}

/// A type with fields.
#[derive(Clone, Debug, PartialEq)]
pub struct StructDecl {
    /// Its name.
    pub name: Name,
    /// Its fields.
    pub fields: Vec<Param>,
    /// The whole declaration.
    pub span: Span,
}

/// A function or transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDecl {
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Type of its result; `None` without a result.
    pub result: Option<TypeExpr>,
    /// Its body.
    pub body: Block,
    /// Span from its keyword to the type of its result.
    pub head: Span,
}

/// A parameter or field: `name: type`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: TypeExpr,
}

/// A type in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// Kind of the type.
    pub kind: TypeKind,
    /// Level that it states: `int @ causal`.
    pub level: Option<Name>,
    /// Its span.
    pub span: Span,
}

/// The forms of types.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `int`, `User`, `list<string>`, `map<string, int>`, …
    Named(Name, Vec<TypeExpr>),
    /// `handle<T> in store`
    Handle(Box<TypeExpr>, Name),
    /// `set<T> in store`, which the parser has reported. The name of the store must still be
    /// checked.
    Stored(Name),
    /// Invalid source, which the parser has reported.
    Error,
}

/// `{ … }`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Its statements.
    pub statements: Vec<Stmt>,
    /// Span, including the braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Its kind.
    pub kind: StmtKind,
    /// Its span.
    pub span: Span,
}

/// The forms of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `var name: type = value;`
    Var(Name, Option<TypeExpr>, Expr),
    /// `place = value;`, or with an operator: `place += value;`
    Assign(Expr, Option<BinaryOp>, Expr),
    /// `expression;`
    Expr(Expr),
    /// `if condition { … } else { … }`; an `else if` is a block with one statement.
    If(Expr, Block, Option<Block>),
    /// `while condition { … }`
    While(Expr, Block),
    /// `for name in expression { … }`
    For(Name, Expr, Block),
    /// `match expression { pattern => { … } … }`
    Match(Expr, Vec<Arm>),
    /// `return expression;`
    Return(Option<Expr>),
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `abort expression;`: the transaction has no effect and fails with a text.
    Abort(Expr),
    /// `{ … }`
    Block(Block),
}

/// `pattern => { … }`
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Pattern of the values that it handles.
    pub pattern: Pattern,
    /// Its body.
    pub body: Block,
}

/// A pattern of a `match`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Its kind.
    pub kind: PatternKind,
    /// Its span.
    pub span: Span,
}

/// The forms of patterns.
#[derive(Clone, Debug, PartialEq)]
pub enum PatternKind {
    /// `_`
    Any,
    /// `some(name)`
    Some(Name),
    /// `none`
    None,
    /// An integer, possibly negative, a string or a `bool`.
    Literal(Literal),
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `42`
    Int(i64),
    /// `4.2`
    Float(f64),
    /// `"text"`
    String(String),
    /// `b"bytes"`
    Bytes(Vec<u8>),
    /// `true`
    Bool(bool),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Its span.
    pub span: Span,
}

/// The forms of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Literal(Literal),
    /// A variable, or `none`.
    Name(String),
    /// `-e`, `!e`
    Unary(UnaryOp, Box<Expr>),
    /// `e + e`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `e.name` or `e->name`
    Field(Box<Expr>, Name),
    /// `*e`: the object of a handle.
    Deref(Box<Expr>),
    /// `name(e, …)`: a function or a built-in one.
    Call(Name, Vec<Expr>),
    /// `e.name(e, …)` or `e->name(e, …)`: an operation of a handle, of a value, or of a store.
    Method(Box<Expr>, Name, Vec<Expr>),
    /// `e[e]`
    Index(Box<Expr>, Box<Expr>),
    /// `[e, …]`
    List(Vec<Expr>),
    /// `set[e, …]`
    Set(Vec<Expr>),
    /// `map[e: e, …]`
    Map(Vec<(Expr, Expr)>),
    /// `Name { field: e, … }`
    Struct(Name, Vec<(Name, Expr)>),
    /// `new type in store` or `new Name { … } in store`: a new object, and its handle.
    New(NewObject, Name),
    /// `handle<type>(key) in store`: the handle of the object with this key.
    Handle(TypeExpr, Box<Expr>, Name),
    /// `endorse(level, e)`
    Endorse(Name, Box<Expr>),
    /// Invalid source, which the parser has reported.
    Error,
}

/// Content of a new object.
#[derive(Clone, Debug, PartialEq)]
pub enum NewObject {
    /// An empty object of a type.
    Empty(TypeExpr),
    /// A struct with these fields.
    Struct(Name, Vec<(Name, Expr)>),
}
