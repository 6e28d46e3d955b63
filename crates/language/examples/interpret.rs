//! Measures the cost of interpretation: `cargo run --release -p solera-language --example
//! interpret`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use solera_language::compile::compile;
use solera_language::syntax::ast::BinaryOp;
use solera_program::builtin::Builtin;
use solera_program::ir::{Code, Instr, Phase, Program, Store, Transaction, VERSION};
use solera_program::operation::ObjectOp;
use solera_program::run::{Limits, Names, Run, Step, Tapes};
use solera_program::span::Span;
use solera_program::types::{Object, StoreId, Type};
use solera_program::value::{Handle, Value};
use solera_program::verify::verify;

fn main() {
    let empty = program(vec![], vec![], 2);
    let one_read = program(
        vec![
            Instr::Remote {
                dst: 1,
                store: StoreId(0),
                op: ObjectOp::Value,
                object: 0,
                handle: 0,
                args: vec![],
            },
            Instr::Record(0, 1),
        ],
        vec![],
        2,
    );
    phases("a phase that does nothing", &empty);
    phases("a phase that reads once and records it", &one_read);

    // while i < n { sum = sum + i; i = i + 1; }
    let adding = [Instr::Binary(BinaryOp::Add, 3, 3, 2)];
    statements("sum = sum + i, with its loop", &looping(&adding, 1_000_000), 1_000_000);
    let pushing = [Instr::Builtin(Builtin::Push, 6, vec![6, 2])];
    statements("xs.push(i), with its loop", &looping(&pushing, 100_000), 100_000);
    let putting = [Instr::Builtin(Builtin::Put, 7, vec![7, 2, 2])];
    statements("m[i] = i, with its loop", &looping(&putting, 100_000), 100_000);
    let text = [Instr::Builtin(Builtin::ToString, 8, vec![2])];
    statements("s = string(i), with its loop", &looping(&text, 100_000), 100_000);
    let appending = [Instr::Binary(BinaryOp::Add, 9, 9, 10)];
    statements("s = s + \"x\", with its loop", &looping(&appending, 1_000), 1_000);
    statements("the same, up to 10,000 bytes", &looping(&appending, 10_000), 10_000);
    let reading = [
        Instr::Builtin(Builtin::Put, 7, vec![7, 2, 2]),
        Instr::Builtin(Builtin::Contains, 8, vec![7, 2]),
        Instr::Builtin(Builtin::Get, 8, vec![7, 2]),
        Instr::Builtin(Builtin::Len, 8, vec![7]),
    ];
    statements("m[i] = i, contains, get and len", &looping(&reading, 20_000), 20_000);
    compiling();
}

/// Returns a loop that runs `body`, and increments register 2 until it is `turns`.
fn looping(body: &[Instr], turns: i64) -> Arc<Program> {
    let mut instructions = vec![
        Instr::Const(1, 0),
        Instr::Const(2, 1),
        Instr::Const(3, 1),
        Instr::Const(5, 2),
        Instr::Const(6, 3),
        Instr::Const(7, 4),
        Instr::Const(9, 5),
        Instr::Const(10, 6),
    ];
    let top = instructions.len() as u32;
    instructions.push(Instr::Binary(BinaryOp::Less, 4, 2, 1));
    instructions.push(Instr::JumpUnless(4, top + body.len() as u32 + 4));
    instructions.extend_from_slice(body);
    instructions.push(Instr::Binary(BinaryOp::Add, 2, 2, 5));
    instructions.push(Instr::Jump(top));
    let constants = vec![
        Value::Int(turns),
        Value::Int(0),
        Value::Int(1),
        Value::list([]),
        Value::Map(Arc::default()),
        Value::string(""),
        Value::string("x"),
    ];
    program(instructions, constants, 11)
}

fn program(instructions: Vec<Instr>, constants: Vec<Value>, registers: u32) -> Arc<Program> {
    let counter = Type::Handle(Arc::new(Object::Counter), StoreId(0));
    let spans = vec![Span::default(); instructions.len()];
    let phase = Phase {
        store: Some(StoreId(0)),
        endorsing: false,
        mutates: false,
        witnesses: false,
        takes: vec![],
        gives: vec![0],
        code: Code { instructions, spans, constants, registers },
    };
    let program = Program {
        version: VERSION,
        stores: vec![Store {
            name: "store".into(),
            level: "causal".into(),
            accepts: vec![solera_levels::Level::Causal],
            atomic: true,
            operations: vec![],
        }],
        structs: vec![],
        objects: vec![Object::Counter],
        functions: vec![],
        transactions: vec![Transaction {
            name: "measured".into(),
            params: vec![("counter".into(), counter)],
            result: Type::Unit,
            phases: vec![phase],
            tapes: 1,
            result_phase: 0,
        }],
    };
    verify(&program).expect("the program is well formed");
    Arc::new(program)
}

fn run(program: &Arc<Program>, handle: &Value, names: &Names) -> u64 {
    let limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let args = vec![handle.clone()];
    let run = Run::new(program.clone(), 0, 0, args, Tapes::new(), names.clone(), limits);
    let mut run = run.expect("the argument fits");
    let mut step = run.start();
    loop {
        step = match step {
            Step::Remote(_) => run.resume(Ok(Value::Int(1))),
            Step::Finished(finished) => return finished.fuel,
            other => panic!("{other:?}"),
        };
    }
}

/// Number of rounds. The fastest counts, because other programs run at the same time.
const ROUNDS: usize = 25;

/// Returns the duration of the fastest round, in nanoseconds.
fn fastest(mut round: impl FnMut()) -> f64 {
    let one = |_| {
        let begun = Instant::now();
        round();
        begun.elapsed().as_nanos() as f64
    };
    (0..ROUNDS).map(one).fold(f64::INFINITY, f64::min)
}

fn phases(what: &str, program: &Arc<Program>) {
    const PHASES: u32 = 20_000;
    let (handle, names) = inputs();
    let ns = fastest(|| {
        for _ in 0..PHASES {
            black_box(run(program, &handle, &names));
        }
    });
    println!("{:8.1} ns  {what}", ns / f64::from(PHASES));
}

fn statements(what: &str, program: &Arc<Program>, turns: u32) {
    let (handle, names) = inputs();
    let fuel = run(program, &handle, &names);
    let ns = fastest(|| {
        black_box(run(program, &handle, &names));
    });
    let (turn, unit) = (ns / f64::from(turns), ns / fuel as f64);
    println!("{turn:8.1} ns  {what} ({unit:.1} ns for a unit of fuel)");
}

/// Compiles Message Groups with several copies of its transactions, under different names.
fn compiling() {
    let groups = include_str!("../../../examples/message_groups.mixt");
    let start = groups.find("\ntransaction ").expect("it has transactions");
    let (head, transactions) = groups.split_at(start);
    let mut source = head.to_owned();
    for copy in 0.. {
        if source.lines().count() >= 200 {
            break;
        }
        source += &transactions.replace("\ntransaction ", &format!("\ntransaction copy{copy}_"));
    }
    let ns = fastest(|| {
        assert!(black_box(compile(&source)).program.is_some());
    });
    println!("{:8.1} ms  compiling a module of {} lines", ns / 1e6, source.lines().count());
}

fn inputs() -> (Value, Names) {
    let handle = Handle { store: "store".into(), key: "counter".into() };
    (Value::Handle(handle), Names { prefix: "benchmark".into() })
}
