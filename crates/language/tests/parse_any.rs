//! Checks the parser, the printer and the renderer with arbitrary texts and arbitrary trees.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use solera_language::diagnostic::Diagnostic;
use solera_language::render::{render, short};
use solera_language::syntax::ast::*;
use solera_language::syntax::{parse, parse_bytes, print};
use solera_program::span::Span;

/// Parses a source, renders its errors and prints its tree. If there are no errors, the printed
/// text must parse to a tree that prints the same.
fn survive(source: &str) {
    let parsed = parse(source);
    for diagnostic in &parsed.diagnostics {
        let span = diagnostic.primary.span.range();
        assert!(source.get(span.clone()).is_some(), "{span:?} of {source:?}");
        short(diagnostic, "a.mixt", source);
    }
    render(&parsed.diagnostics, "a.mixt", source, true);
    let printed = print(&parsed.module);
    if parsed.diagnostics.is_empty() {
        let again = parse(&printed);
        assert!(again.diagnostics.is_empty(), "{printed}");
        assert_eq!(print(&again.module), printed);
    }
}

fn good_sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/parse/good");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "mixt"));
    files.sort();
    assert!(files.len() >= 6);
    files.into_iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Words of this language and of others; some are parts of words.
const WORDS: &[&str] = &[
    "transaction ",
    "fn ",
    "store ",
    "level ",
    "struct ",
    "t",
    "x",
    "int",
    "list<",
    "handle<",
    "set",
    "map",
    "> in ",
    ": ",
    ";",
    ",",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "if ",
    "else ",
    "while ",
    "for ",
    "in ",
    "match ",
    "=> ",
    "some(",
    "none",
    "_",
    "var ",
    "return ",
    "break",
    "abort ",
    "endorse(",
    "new ",
    "1",
    "-",
    "2.5",
    "0x",
    "9223372036854775808",
    "\"",
    "b\"",
    "'",
    "`",
    "\\",
    "\\u{",
    "=",
    "==",
    "===",
    "+=",
    "++",
    "--",
    "&",
    "&&",
    "|",
    "?",
    "..",
    "::",
    ".",
    "->",
    "*",
    "!",
    "<",
    ">=",
    "@ ",
    "/*",
    "*/",
    "//",
    "\n",
    "\r\n",
    "\t",
    "#",
    "ä",
    "😀",
    "\u{a0}",
    "\u{0}",
    "let ",
    "elif ",
    "null",
    "Some(",
    "and ",
    "not ",
    "loop ",
    "query ",
    "operation ",
    "below ",
    "above ",
    "switch (",
    "try {",
    "do {",
    "case ",
    "default ",
];

/// Generates a correct source in which a part is removed, doubled, or replaced by words.
fn damaged() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(select(WORDS), 0..4);
    (select(good_sources()), any::<prop::sample::Index>(), 0..40_usize, words, any::<bool>())
        .prop_map(|(source, at, length, words, doubled)| {
            let boundaries: Vec<_> =
                (0..=source.len()).filter(|at| source.is_char_boundary(*at)).collect();
            let from = at.index(boundaries.len());
            let to = (from + length).min(boundaries.len() - 1);
            let (from, to) = (boundaries[from], boundaries[to]);
            let kept = if doubled { to } else { from };
            format!(
                "{}{}{}",
                &source[..kept],
                words.concat(),
                &source[if doubled { from } else { to }..]
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(source in any::<String>()) {
        survive(&source);
    }

    #[test]
    fn invalid_utf_8_is_rejected_at_its_first_byte(source in any::<Vec<u8>>()) {
        match (parse_bytes(&source), std::str::from_utf8(&source)) {
            (Ok(_), Ok(_)) => {}
            (Err(error), Err(expected)) => prop_assert_eq!(error.byte, expected.valid_up_to()),
            _ => prop_assert!(false, "one says that it is a text, the other that it is not"),
        }
    }

    #[test]
    fn no_words_make_the_parser_panic(words in prop::collection::vec(select(WORDS), 0..60)) {
        survive(&words.concat());
        survive(&format!("transaction t() {{ {} }}", words.concat()));
    }

    #[test]
    fn no_damaged_source_makes_the_parser_panic(source in damaged()) {
        survive(&source);
    }

    #[test]
    fn a_printed_tree_parses_to_the_same_tree(module in module()) {
        let source = print(&module);
        let mut parsed = parse(&source);
        prop_assert!(parsed.diagnostics.is_empty(), "{}", render(&parsed.diagnostics, "a", &source, false));
        Unplaced.module(&mut parsed.module);
        prop_assert_eq!(parsed.module, module, "{}", source);
    }

    #[test]
    fn a_diagnostic_with_any_spans_can_be_rendered(
        source in "[ab\\t\\r\\n😀界é]{0,40}",
        spans in prop::collection::vec((0..60_u32, 0..60_u32), 1..4),
        color in any::<bool>(),
    ) {
        let mut spans = spans.into_iter().map(|(start, end)| Span { start, end });
        let mut diagnostic = Diagnostic::warning("E0000", spans.next().unwrap(), "odd").here("here");
        for span in spans {
            diagnostic = diagnostic.mark(span, "and here").note("a fact").help("a help");
        }
        let text = render(std::slice::from_ref(&diagnostic), "a.mixt", &source, color);
        prop_assert!(text.contains("odd"));
        prop_assert!(short(&diagnostic, "a.mixt", &source).ends_with("warning[E0000]: odd"));
    }
}

#[test]
fn no_prefix_of_a_good_source_makes_the_parser_panic() {
    for source in good_sources() {
        for (end, _) in source.char_indices() {
            parse(&source[..end]);
        }
    }
}

/// One missing character causes only a few errors. The source that covers the whole grammar is left
/// out: its lines contain ten constructs each, and one missing quote changes all of them.
#[test]
fn a_missing_character_causes_only_a_few_errors() {
    let signs = [';', ',', '(', ')', '{', '}', '[', ']', ':', '=', '.', '<', '>', '"'];
    for source in good_sources().into_iter().filter(|source| !source.contains("\nlevel fast")) {
        for (at, sign) in source.char_indices().filter(|(_, sign)| signs.contains(sign)) {
            let damaged = format!("{}{}", &source[..at], &source[at + 1..]);
            let errors = parse(&damaged).diagnostics;
            let rendered = || render(&errors, "a.mixt", &damaged, false);
            assert!(errors.len() <= 3, "without `{sign}` at {at}:\n{}", rendered());
        }
    }
}

/// Removes the positions from a tree.
struct Unplaced;

impl Unplaced {
    fn name(&self, name: &mut Name) {
        name.span = Span::default();
    }

    fn names<'n>(&self, names: impl IntoIterator<Item = &'n mut Name>) {
        names.into_iter().for_each(|name| self.name(name));
    }

    fn module(&self, module: &mut Module) {
        for item in &mut module.items {
            match item {
                Item::Level(level) => {
                    level.span = Span::default();
                    self.name(&mut level.name);
                    self.names(level.below.iter_mut().chain(&mut level.above));
                }
                Item::Store(store) => {
                    store.span = Span::default();
                    self.names([&mut store.name, &mut store.level]);
                    for operation in &mut store.operations {
                        operation.span = Span::default();
                        self.name(&mut operation.name);
                        for param in &mut operation.params {
                            self.name(&mut param.name);
                            self.ty(&mut param.ty);
                        }
                        operation.result.iter_mut().for_each(|ty| self.ty(ty));
                    }
                }
                Item::Struct(decl) => {
                    decl.span = Span::default();
                    self.name(&mut decl.name);
                    self.params(&mut decl.fields);
                }
                Item::Function(function) | Item::Transaction(function) => {
                    function.head = Span::default();
                    self.name(&mut function.name);
                    self.params(&mut function.params);
                    function.result.iter_mut().for_each(|ty| self.ty(ty));
                    self.block(&mut function.body);
                }
            }
        }
    }

    fn params(&self, params: &mut [Param]) {
        for param in params {
            self.name(&mut param.name);
            self.ty(&mut param.ty);
        }
    }

    fn ty(&self, ty: &mut TypeExpr) {
        ty.span = Span::default();
        self.names(&mut ty.level);
        match &mut ty.kind {
            TypeKind::Named(name, arguments) => {
                self.name(name);
                arguments.iter_mut().for_each(|ty| self.ty(ty));
            }
            TypeKind::Handle(inner, store) => {
                self.ty(inner);
                self.name(store);
            }
            TypeKind::Stored(_) | TypeKind::Error => {}
        }
    }

    fn block(&self, block: &mut Block) {
        block.span = Span::default();
        for statement in &mut block.statements {
            statement.span = Span::default();
            match &mut statement.kind {
                StmtKind::Var(name, ty, value) => {
                    self.name(name);
                    ty.iter_mut().for_each(|ty| self.ty(ty));
                    self.expr(value);
                }
                StmtKind::Assign(place, _, value) => {
                    self.expr(place);
                    self.expr(value);
                }
                StmtKind::Expr(expr) | StmtKind::Return(Some(expr)) | StmtKind::Abort(expr) => {
                    self.expr(expr);
                }
                StmtKind::If(condition, then, or) => {
                    self.expr(condition);
                    self.block(then);
                    or.iter_mut().for_each(|or| self.block(or));
                }
                StmtKind::While(condition, body) => {
                    self.expr(condition);
                    self.block(body);
                }
                StmtKind::For(name, over, body) => {
                    self.name(name);
                    self.expr(over);
                    self.block(body);
                }
                StmtKind::Match(value, arms) => {
                    self.expr(value);
                    for arm in arms {
                        arm.pattern.span = Span::default();
                        if let PatternKind::Some(name) = &mut arm.pattern.kind {
                            self.name(name);
                        }
                        self.block(&mut arm.body);
                    }
                }
                StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => {}
                StmtKind::Block(block) => self.block(block),
            }
        }
    }

    fn exprs<'e>(&self, exprs: impl IntoIterator<Item = &'e mut Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn fields(&self, name: &mut Name, fields: &mut [(Name, Expr)]) {
        self.name(name);
        for (name, value) in fields {
            self.name(name);
            self.expr(value);
        }
    }

    fn expr(&self, expr: &mut Expr) {
        expr.span = Span::default();
        match &mut expr.kind {
            ExprKind::Literal(_) | ExprKind::Name(_) | ExprKind::Error => {}
            ExprKind::Unary(_, inner) | ExprKind::Deref(inner) => self.expr(inner),
            ExprKind::Binary(_, left, right) | ExprKind::Index(left, right) => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Field(object, name) => {
                self.expr(object);
                self.name(name);
            }
            ExprKind::Call(name, arguments) => {
                self.name(name);
                self.exprs(arguments);
            }
            ExprKind::Method(object, name, arguments) => {
                self.expr(object);
                self.name(name);
                self.exprs(arguments);
            }
            ExprKind::List(elements) | ExprKind::Set(elements) => self.exprs(elements),
            ExprKind::Map(entries) => {
                entries.iter_mut().for_each(|(key, value)| self.exprs([key, value]));
            }
            ExprKind::Struct(name, fields) => self.fields(name, fields),
            ExprKind::New(object, store) => {
                match object {
                    NewObject::Empty(ty) => self.ty(ty),
                    NewObject::Struct(name, fields) => self.fields(name, fields),
                }
                self.name(store);
            }
            ExprKind::Handle(ty, key, store) => {
                self.ty(ty);
                self.expr(key);
                self.name(store);
            }
            ExprKind::Endorse(level, value) => {
                self.name(level);
                self.expr(value);
            }
        }
    }
}

fn word() -> impl Strategy<Value = String> {
    select(&["a", "b", "Abc", "x_1", "set", "map", "above", "below", "query", "none", "_x"][..])
        .prop_map(str::to_owned)
}

fn name() -> impl Strategy<Value = Name> {
    word().prop_map(|text| Name { text, span: Span::default() })
}

fn some<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(strategy, 0..3)
}

fn ty() -> impl Strategy<Value = TypeExpr> {
    let with_level = |kind: BoxedStrategy<TypeKind>| {
        (kind, prop::option::of(name())).prop_map(|(kind, level)| TypeExpr {
            kind,
            level,
            span: Span::default(),
        })
    };
    let leaf = with_level(name().prop_map(|name| TypeKind::Named(name, Vec::new())).boxed());
    leaf.prop_recursive(3, 8, 2, move |inner| {
        let named = (name(), some(inner.clone())).prop_map(|(n, args)| TypeKind::Named(n, args));
        let handle = (inner, name()).prop_map(|(ty, store)| TypeKind::Handle(ty.into(), store));
        with_level(prop_oneof![named, handle].boxed())
    })
}

fn float() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO
}

fn expr() -> impl Strategy<Value = Expr> {
    let placeless = |kind| Expr { kind, span: Span::default() };
    let literal = prop_oneof![
        prop_oneof![any::<i64>(), -9..9_i64].prop_map(Literal::Int),
        float().prop_map(Literal::Float),
        any::<String>().prop_map(Literal::String),
        any::<Vec<u8>>().prop_map(Literal::Bytes),
        any::<bool>().prop_map(Literal::Bool),
    ];
    let leaf = prop_oneof![
        literal.prop_map(ExprKind::Literal),
        word().prop_map(ExprKind::Name),
        Just(ExprKind::Name("handle".to_owned())),
        (ty(), name()).prop_map(|(ty, store)| ExprKind::New(NewObject::Empty(ty), store)),
    ];
    leaf.prop_map(placeless).prop_recursive(5, 24, 3, move |inner| {
        let one = || inner.clone().prop_map(Box::new);
        let many = || some(inner.clone());
        let fields = || some((name(), inner.clone()));
        use BinaryOp::*;
        let ops: &[BinaryOp] = &[
            Add,
            Subtract,
            Multiply,
            Divide,
            Remainder,
            Equal,
            Unequal,
            Less,
            LessEqual,
            Greater,
            GreaterEqual,
            And,
            Or,
        ];
        prop_oneof![
            3 => (select(ops), one(), one()).prop_map(|(op, a, b)| ExprKind::Binary(op, a, b)),
            2 => (select(&[UnaryOp::Negate, UnaryOp::Not][..]), one())
                .prop_map(|(op, e)| ExprKind::Unary(op, e)),
            1 => one().prop_map(ExprKind::Deref),
            1 => (one(), name()).prop_map(|(e, name)| ExprKind::Field(e, name)),
            1 => (name(), many()).prop_map(|(name, args)| ExprKind::Call(name, args)),
            1 => (one(), name(), many()).prop_map(|(e, n, args)| ExprKind::Method(e, n, args)),
            1 => (one(), one()).prop_map(|(e, index)| ExprKind::Index(e, index)),
            1 => many().prop_map(ExprKind::List),
            1 => many().prop_map(ExprKind::Set),
            1 => some((inner.clone(), inner.clone())).prop_map(ExprKind::Map),
            1 => (name(), fields()).prop_map(|(name, fields)| ExprKind::Struct(name, fields)),
            1 => (name(), fields(), name())
                .prop_map(|(n, fields, store)| ExprKind::New(NewObject::Struct(n, fields), store)),
            1 => (ty(), one(), name())
                .prop_map(|(ty, key, store)| ExprKind::Handle(ty, key, store)),
            1 => (name(), one()).prop_map(|(level, e)| ExprKind::Endorse(level, e)),
        ]
        .prop_map(placeless)
    })
}

/// Generates expressions that can be assigned to.
fn place() -> impl Strategy<Value = Expr> {
    let kind = prop_oneof![
        word().prop_map(ExprKind::Name),
        (expr(), name()).prop_map(|(e, name)| ExprKind::Field(e.into(), name)),
        expr().prop_map(|e| ExprKind::Deref(e.into())),
        (expr(), expr()).prop_map(|(e, index)| ExprKind::Index(e.into(), index.into())),
    ];
    kind.prop_map(|kind| Expr { kind, span: Span::default() })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let kind = prop_oneof![
        Just(PatternKind::Any),
        Just(PatternKind::None),
        name().prop_map(PatternKind::Some),
        any::<i64>().prop_map(|number| PatternKind::Literal(Literal::Int(number))),
        any::<String>().prop_map(|text| PatternKind::Literal(Literal::String(text))),
        any::<Vec<u8>>().prop_map(|bytes| PatternKind::Literal(Literal::Bytes(bytes))),
        any::<bool>().prop_map(|value| PatternKind::Literal(Literal::Bool(value))),
    ];
    kind.prop_map(|kind| Pattern { kind, span: Span::default() })
}

fn block() -> impl Strategy<Value = Block> {
    use BinaryOp::*;
    let ops = prop::option::of(select(&[Add, Subtract, Multiply, Divide, Remainder][..]));
    let leaf = prop_oneof![
        (name(), prop::option::of(ty()), expr()).prop_map(|(n, ty, e)| StmtKind::Var(n, ty, e)),
        (place(), ops, expr()).prop_map(|(place, op, e)| StmtKind::Assign(place, op, e)),
        expr().prop_map(StmtKind::Expr),
        prop::option::of(expr()).prop_map(StmtKind::Return),
        expr().prop_map(StmtKind::Abort),
        Just(StmtKind::Break),
        Just(StmtKind::Continue),
    ];
    let block = |kind: BoxedStrategy<StmtKind>| {
        some(kind.prop_map(|kind| Stmt { kind, span: Span::default() }))
            .prop_map(|statements| Block { statements, span: Span::default() })
    };
    block(leaf.boxed()).prop_recursive(3, 12, 3, move |inner| {
        let arm = (pattern(), inner.clone()).prop_map(|(pattern, body)| Arm { pattern, body });
        let kind = prop_oneof![
            (expr(), inner.clone(), prop::option::of(inner.clone()))
                .prop_map(|(e, then, or)| StmtKind::If(e, then, or)),
            (expr(), inner.clone()).prop_map(|(e, body)| StmtKind::While(e, body)),
            (name(), expr(), inner.clone()).prop_map(|(n, e, body)| StmtKind::For(n, e, body)),
            (expr(), some(arm)).prop_map(|(e, arms)| StmtKind::Match(e, arms)),
            inner.prop_map(StmtKind::Block),
        ];
        block(kind.boxed())
    })
}

fn params() -> impl Strategy<Value = Vec<Param>> {
    some((name(), ty()).prop_map(|(name, ty)| Param { name, ty }))
}

fn module() -> impl Strategy<Value = Module> {
    let span = Span::default();
    let levels =
        || {
            some(name().prop_filter("no relation", |name| {
                !["above", "below"].contains(&name.text.as_str())
            }))
        };
    let level = (name(), levels(), levels())
        .prop_filter("stands somewhere", |(_, below, above)| below.len() + above.len() > 0)
        .prop_map(move |(name, below, above)| Item::Level(LevelDecl { name, below, above, span }));
    let param = (name(), ty(), any::<bool>()).prop_map(|(name, ty, dereferenced)| OperationParam {
        name,
        ty,
        dereferenced,
    });
    let operation = (name(), some(param), prop::option::of(ty()), any::<bool>()).prop_map(
        move |(name, params, result, mutates)| OperationDecl {
            name,
            params,
            result,
            mutates,
            span,
        },
    );
    let store = (name(), name(), some(operation)).prop_map(move |(name, level, operations)| {
        Item::Store(StoreDecl { name, level, operations, span })
    });
    let decl = (name(), params())
        .prop_map(move |(name, fields)| Item::Struct(StructDecl { name, fields, span }));
    let function = (name(), params(), prop::option::of(ty()), block(), any::<bool>()).prop_map(
        move |(name, params, result, body, strong)| {
            let function = FunctionDecl { name, params, result, body, head: span };
            if strong { Item::Transaction(function) } else { Item::Function(function) }
        },
    );
    let items = vec![level.boxed(), store.boxed(), decl.boxed(), function.boxed()];
    subsequence(items, 1..=4).prop_flat_map(|items| items).prop_map(|items| Module { items })
}
