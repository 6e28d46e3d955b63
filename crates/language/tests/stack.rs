//! All later stages walk the parser's tree recursively. Every tree that the parser accepts must
//! therefore fit on the stack of a server's thread, 2 MiB, even without optimization.

use std::sync::Arc;

use solera_language::compile::{compile, compile_whole};
use solera_language::explain;
use solera_language::render::render;
use solera_language::syntax::MAX_CHAIN;
use solera_program::run::{Limits, Names, Run, Step, Tapes};
use solera_program::value::Value;
use solera_program::verify::verify;

/// Default stack size of a thread.
const STACK: usize = 2 << 20;

/// Compiles, explains and runs `transaction t(n: int, b: bool) -> int { … }` on such a stack, and
/// returns its result.
fn survives(statements: &str) -> i64 {
    let source = format!(
        "store s : causal;\nfn same(n: int) -> int {{ return n; }}\n\
         transaction t(n: int, b: bool) -> int {{\n{statements}\nreturn n;\n}}\n\
         transaction u(h: handle<counter> in s) -> int {{ var n = h.value(); var b = n == 0;\n{statements}\nreturn n;\n}}\n"
    );
    let run = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let compiled = compile(&source);
        let rendered = render(&compiled.diagnostics, "a.mixt", &source, false);
        let explained = explain::transactions(&compiled, &source);
        explain::text(&explained);
        explain::svg(&explained);
        explain::mermaid(&explained);
        compile_whole(&source);
        let program = Arc::new(compiled.program.expect(&rendered));
        verify(&program).unwrap();
        let args = vec![Value::Int(0), Value::Bool(true)];
        let names = Names { prefix: "test".into() };
        let run = Run::new(program, 0, 0, args, Tapes::default(), names, Limits::default());
        match run.unwrap().start() {
            Step::Finished(finished) => match finished.result {
                Some(Value::Int(number)) => number,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    });
    run.unwrap().join().unwrap()
}

fn numbered(count: usize, one: impl Fn(usize) -> String) -> String {
    (1..=count).map(one).collect()
}

/// Returns statements with the maximum number of arms or `else if` around a statement.
fn arms(count: usize, last: &str) -> String {
    format!("match n {{ {} _ => {{ {last} }} }}", numbered(count - 1, |k| format!("{k} => {{ }} ")))
}

fn else_ifs(count: usize, last: &str) -> String {
    let links = numbered(count, |k| format!(" else if n == {k} {{ }}"));
    format!("if n == 1000 {{ }}{links} else {{ {last} }}")
}

/// Returns statements that may return before a statement is reached.
fn exits(count: usize, last: &str) -> String {
    format!("{} {last}", numbered(count, |k| format!("if n == {k} {{ return {k}; }} ")))
}

#[test]
fn the_longest_chains_fit_on_the_stack() {
    let leave = |what: &str| format!("{what} return 7;");
    assert_eq!(survives(&arms(MAX_CHAIN, "return 7;")), 7);
    assert_eq!(survives(&else_ifs(MAX_CHAIN, "return 7;")), 7);
    assert_eq!(survives(&exits(90, &leave(""))), 7);
    let options =
        numbered(MAX_CHAIN / 2, |_| "match some(n) { some(m) => { } none => { } } ".into());
    assert_eq!(survives(&leave(&options)), 7);
    // All kinds nested within one another: each has its own limit.
    let expression = format!("return 7{};", " + n".repeat(MAX_CHAIN));
    assert_eq!(survives(&exits(90, &else_ifs(MAX_CHAIN - 100, &arms(100, &expression)))), 7);
    let returns = numbered(MAX_CHAIN, |k| format!(" else if n == {k} {{ return {k}; }}"));
    assert_eq!(survives(&exits(90, &format!("if b {{ }}{returns} return 7;"))), 7);
}

#[test]
fn the_deepest_nesting_fits_on_the_stack() {
    let shapes = [
        ("{", "}"),
        ("if b {", "}"),
        ("if !b { } else {", "}"),
        ("while b {", "}"),
        ("for x in [1] {", "}"),
        ("for x in [1] { if n == 1 { break; }", "}"),
        ("while b { if n == 1 { continue; }", "}"),
        ("match some(n) { some(m) => {", "} none => { } }"),
        ("match n { 1 => { } _ => {", "} }"),
    ];
    for (open, close) in shapes {
        let deep = if open.starts_with("match") { 30 } else { 60 };
        let (open, close) = (open.repeat(deep), close.repeat(deep));
        let inner = format!("return 7{};", " + n".repeat(MAX_CHAIN));
        assert_eq!(survives(&format!("{open} {inner} {close}")), 7, "{open}");
        let inner =
            exits(if open.contains("= 1") { 30 } else { 90 }, &arms(MAX_CHAIN - 100, &inner));
        assert_eq!(survives(&format!("{open} {inner} {close}")), 7, "{open}");
    }
}

#[test]
fn the_longest_and_deepest_expressions_fit_on_the_stack() {
    let chain = |link: &str| link.repeat(MAX_CHAIN - 1);
    let within = |open: &str, inner: &str, close: &str| {
        let times = 100 / open.matches(['(', '[', '-', '!']).count();
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let numbers = [
        format!("7{}", chain(" + n")),
        within("(7 - 7 + ", &format!("7{}", chain(" + n")), ")"),
        within("same(", &format!("7{}", chain(" + n")), ")"),
        within("(0 + ", "7", ")"),
        within("[", "7", "][0]"),
        within("- -(0 + ", "7", ")"),
        format!("[7]{}[0]", chain(".slice(0, 1)")),
        format!("min(7, {})", within("same(n + ", "9", ")")),
    ];
    for number in numbers {
        assert_eq!(survives(&format!("return {number};")), 7, "{number}");
    }
    let truths = [
        format!("b{}", chain(" && b")),
        format!("b{}", chain(" || b")),
        within("(b && ", "b", ")"),
        within("(!b || b && ", &format!("b{}", " && b || b".repeat(100)), ")"),
        within("!!", "b", ""),
        within("(false || ", &format!("b{}", chain(" && b")), ")"),
    ];
    for truth in truths {
        assert_eq!(survives(&format!("if {truth} {{ return 7; }}")), 7, "{truth}");
        assert_eq!(survives(&format!("while {truth} {{ return 7; }}")), 7, "{truth}");
        assert_eq!(
            survives(&arms(MAX_CHAIN, &format!("if {truth} {{ return 7; }}"))),
            7,
            "{truth}"
        );
    }
}
