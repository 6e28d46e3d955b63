//! Tests each way in which a program can fail.

use solera_program::builtin::Builtin;
use solera_program::ir::Instr;
use solera_program::operation::ObjectOp;
use solera_program::operator::BinaryOp;
use solera_program::run::{
    FailureKind, FailureScope, Finished, Limits, Names, Refusal, Run, Step, Tapes,
};
use solera_program::types::{Object, Type};
use solera_program::value::Value;

use crate::support::*;

fn kind(constants: Vec<Value>, body: Vec<Instr>) -> FailureKind {
    eval(constants, Type::Unit, body).unwrap_err()
}

fn of_ints(op: BinaryOp, a: i64, b: i64) -> FailureKind {
    kind(vec![Value::Int(a), Value::Int(b)], vec![Instr::Binary(op, 10, 0, 1)])
}

#[test]
fn integers_that_do_not_fit_fail() {
    let cases = [
        (BinaryOp::Add, i64::MAX, 1),
        (BinaryOp::Subtract, i64::MIN, 1),
        (BinaryOp::Multiply, i64::MAX, 2),
        (BinaryOp::Divide, i64::MIN, -1),
        (BinaryOp::Remainder, i64::MIN, -1),
    ];
    for (op, a, b) in cases {
        assert_eq!(of_ints(op, a, b), FailureKind::Overflow(format!("{a} {} {b}", op.symbol())));
    }
    assert_eq!(of_ints(BinaryOp::Divide, 1, 0), FailureKind::DivisionByZero);
    assert_eq!(of_ints(BinaryOp::Remainder, 1, 0), FailureKind::DivisionByZero);
}

#[test]
fn a_loop_without_end_runs_out_of_fuel() {
    let limit = Limits::default().fuel;
    assert_eq!(kind(vec![], vec![Instr::Jump(0)]), FailureKind::Fuel { limit });
}

#[test]
fn a_value_that_doubles_becomes_too_large() {
    let double = || vec![Instr::Binary(BinaryOp::Add, 0, 0, 0), Instr::Jump(0)];
    let limit = Limits::default().value_bytes;
    assert_eq!(kind(vec![text("x")], double()), FailureKind::TooLarge { limit });
    assert_eq!(kind(vec![ints([1])], double()), FailureKind::TooLarge { limit });
    // The contents of a value may be large although it takes little memory.
    let nest = vec![Instr::List(0, vec![0, 0]), Instr::Jump(0)];
    assert_eq!(kind(vec![ints([1])], nest), FailureKind::TooLarge { limit });
}

/// Runs the phase of a source within limits that make the test quick. An error is the failure with
/// its line.
fn run_source(source: &str) -> Result<Finished, String> {
    let program = solera_language::compile::compile(source).program.unwrap();
    let names = Names { prefix: "tx7".into() };
    let (value_bytes, held_bytes) = (100_000, 1 << 20);
    let limits = Limits { value_bytes, held_bytes, ..Limits::default() };
    let run = Run::new(program.into(), 0, 0, vec![], Tapes::new(), names, limits);
    match run.unwrap().start() {
        Step::Finished(finished) => Ok(finished),
        Step::Failed(failure) => Err(failure.describe(source)),
        other => panic!("{other:?}"),
    }
}

/// Source of a function that returns a string of 98304 characters.
const LARGE: &str = "fn large() -> string { \
        var text = \"abc\"; \
        for i in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] { text = text + text; } \
        return text; \
    }\n";

#[test]
fn the_total_size_of_live_values_is_limited() {
    let keep = |count: usize| {
        let lines: String = (0..count).map(|n| format!("var t{n} = base + \"{n}\";\n")).collect();
        let lengths: Vec<String> = (0..count).map(|n| format!("t{n}.len()")).collect();
        let sum = lengths.join(" + ");
        run_source(&format!(
            "{LARGE}transaction keep() -> int {{\nvar base = large();\n{lines}return {sum};\n}}"
        ))
    };
    assert_eq!(keep(5).unwrap().result, Some(Value::Int(5 * 98305)));
    let error = keep(40).unwrap_err();
    let limit = "variables and intermediate results hold more than 1048576 bytes together";
    assert!(error.contains(limit), "{error}");
    // The eleventh string exceeds the limit, which is checked soon afterwards.
    let (line, _) = error.split_once(':').unwrap();
    assert!((13..=16).contains(&line.parse::<u32>().unwrap()), "{error}");
    assert_eq!(keep(40).unwrap_err(), error);
}

#[test]
fn values_of_callers_count_towards_the_limit() {
    let source = format!(
        "{LARGE}fn deep(n: int) -> int {{ \
             var text = large(); \
             if n == 0 {{ return 0; }} \
             return deep(n - 1) + text.len(); \
         }} \
         transaction keep() -> int {{ return deep(39); }}"
    );
    let error = run_source(&source).unwrap_err();
    assert!(error.contains("hold more than 1048576 bytes together (in function"), "{error}");
}

#[test]
fn replaced_values_do_not_count_towards_the_limit() {
    let source = format!(
        "{LARGE}transaction replace() -> int {{ \
             var text = \"\"; \
             var n = 0; \
             while n < 400 {{ text = large(); n += 1; }} \
             return text.len(); \
         }}"
    );
    let finished = run_source(&source).unwrap();
    assert_eq!(finished.result, Some(Value::Int(98304)));
    // It has created many times as much as it may hold.
    assert!(finished.fuel > 40 * (1 << 20) / 256, "{}", finished.fuel);
}

#[test]
fn answers_of_stores_count_towards_the_limit() {
    let mut body = vec![];
    for dst in 1..40 {
        body.push(Instr::Remote {
            dst,
            store: MAIL,
            op: ObjectOp::Load,
            object: 6,
            handle: 0,
            args: vec![],
        });
        body.push(Instr::Move(40, 40));
    }
    let main = phase(Some(MAIL), &[], &[], code(41, vec![], body));
    let register = Object::Register(Type::String);
    let mut program = program(vec![handle_type(register.clone(), MAIL)], Type::Unit, vec![main]);
    program.objects.push(register);
    let mut run = prepare(program, 0, vec![handle("mail", "r")], Tapes::new());
    let mut step = run.start();
    let mut answers = 0;
    while let Step::Remote(_) = step {
        answers += 1;
        step = run.resume(Ok(text(&"x".repeat(4_000_000))));
    }
    assert_eq!(failed(step).kind, FailureKind::HeldTooLarge { limit: 64 << 20 });
    assert!(answers <= 18, "{answers}");
}

#[test]
fn work_on_large_values_costs_fuel() {
    let constants = || vec![ints(0..1000), ints(0..1000), Value::Int(0)];
    let fuel = |instr| {
        let body = vec![instr, Instr::Move(10, 2)];
        eval_within(constants(), Type::Int, body, Limits::default()).unwrap().1
    };
    let small = fuel(Instr::Move(5, 0));
    for instr in [
        Instr::Binary(BinaryOp::Add, 5, 0, 1),
        Instr::Binary(BinaryOp::Equal, 5, 0, 1),
        Instr::Builtin(Builtin::Sorted, 5, vec![0]),
        Instr::Builtin(Builtin::Reversed, 5, vec![0]),
        Instr::Builtin(Builtin::Push, 5, vec![0, 2]),
        Instr::Builtin(Builtin::Contains, 5, vec![0, 2]),
        Instr::Builtin(Builtin::Slice, 5, vec![0, 2, 2]),
    ] {
        let found = fuel(instr.clone());
        let slice_of_nothing = matches!(instr, Instr::Builtin(Builtin::Slice, ..));
        assert_eq!(found >= small + 200, !slice_of_nothing, "{instr:?}: {found}");
    }
}

#[test]
fn each_copy_of_a_shared_value_costs_fuel() {
    let fuel = |copies| {
        // The first change gives this register its own copy of the list; each move shares it again.
        let mut body = vec![Instr::Builtin(Builtin::Push, 0, vec![0, 1])];
        for _ in 0..copies {
            body.extend([Instr::Move(5, 0), Instr::Builtin(Builtin::Push, 0, vec![0, 1])]);
        }
        body.push(Instr::Move(10, 1));
        let constants = vec![ints(0..1000), Value::Int(0)];
        eval_within(constants, Type::Int, body, Limits::default()).unwrap().1
    };
    assert!(fuel(10) - fuel(9) > 200, "{} for 10, {} for 9", fuel(10), fuel(9));
}

#[test]
fn nesting_of_values_is_limited() {
    let nest = vec![Instr::Builtin(Builtin::Some, 0, vec![0]), Instr::Jump(0)];
    assert_eq!(kind(vec![Value::Int(1)], nest), FailureKind::TooDeep);
    let nest = vec![Instr::List(0, vec![0]), Instr::Jump(0)];
    assert_eq!(kind(vec![Value::Int(1)], nest), FailureKind::TooDeep);
}

#[test]
fn recursion_is_limited() {
    let main = phase(None, &[], &[], code(1, vec![], vec![Instr::Call(0, 0, vec![])]));
    let mut program = program(vec![], Type::Unit, vec![main]);
    let forever = code(1, vec![], vec![Instr::Move(0, 0), Instr::Call(0, 0, vec![])]);
    program.functions = vec![function("forever", 0, forever)];
    let failure = failed(prepare(program.clone(), 0, vec![], Tapes::new()).start());
    assert_eq!(failure.kind, FailureKind::Depth { limit: 200 });
    assert_eq!(failure.place, FailureScope::Function("forever".into()));
    assert_eq!(failure.span.start, 1);
    // The memory limit of all frames holds even for few frames.
    program.functions[0].code.registers = 1 << 16;
    let failure = failed(prepare(program, 0, vec![], Tapes::new()).start());
    assert_eq!(failure.kind, FailureKind::Depth { limit: 200 });
}

#[test]
fn a_program_aborts_with_its_text() {
    let body = vec![Instr::Abort(0)];
    assert_eq!(kind(vec![text("sold out")], body), FailureKind::Aborted("sold out".into()));
}

#[test]
fn instructions_on_the_wrong_kind_of_value_are_malformed() {
    for body in [
        Instr::Binary(BinaryOp::Less, 10, 0, 1),
        Instr::Binary(BinaryOp::Add, 10, 0, 1),
        Instr::Builtin(Builtin::Push, 10, vec![0, 1]),
        Instr::Builtin(Builtin::OrFail, 10, vec![0]),
        Instr::JumpUnless(0, 0),
        Instr::Field(10, 0, 0),
        Instr::Abort(0),
    ] {
        let found = kind(vec![Value::Int(1), text("x")], vec![body.clone()]);
        assert!(matches!(found, FailureKind::Malformed(_)), "{body:?}: {found:?}");
    }
    let result = kind(vec![Value::Int(1)], vec![Instr::Move(10, 0)]);
    assert!(matches!(result, FailureKind::Malformed(_)), "{result:?}");
}

#[test]
fn tapes_are_limited() {
    let body = vec![Instr::Const(0, 0), Instr::Record(0, 0), Instr::Jump(1)];
    let main = phase(None, &[], &[0], code(1, vec![text(&"x".repeat(1000))], body));
    let program = program(vec![], Type::Unit, vec![main]);
    let failure = failed(prepare(program, 0, vec![], Tapes::new()).start());
    assert_eq!(failure.kind, FailureKind::TapesTooLarge { limit: 16 << 20 });
}

#[test]
fn a_tape_that_ends_early_is_a_failure() {
    let nothing = phase(None, &[], &[3], code(0, vec![], vec![]));
    let second = phase(None, &[3], &[], code(1, vec![], vec![Instr::Advance(3, 0); 2]));
    let program = program(vec![], Type::Unit, vec![nothing, second]);
    let mut tapes = Tapes::new();
    tapes.insert(3, vec![Value::Int(1)]);
    let failure = failed(prepare(program, 1, vec![], tapes).start());
    assert_eq!(failure.kind, FailureKind::NotHandedOn { tape: 3 });
    assert_eq!(failure.span.start, 1);
}

#[test]
fn arguments_must_fit() {
    let counter = handle_type(Object::Counter, MAIL);
    let main = phase(None, &[], &[], code(2, vec![], vec![]));
    let params = vec![Type::List(Type::Int.into()), counter];
    let program = std::sync::Arc::new(program(params, Type::Unit, vec![main]));
    let new = |args| {
        let names = Names { prefix: "tx7".into() };
        let run = Run::new(program.clone(), 0, 0, args, Tapes::new(), names, Limits::default());
        run.map(|_| ()).map_err(|failure| failure.to_string())
    };
    let good = handle("mail", "c");
    assert_eq!(new(vec![ints([1]), good.clone()]), Ok(()));
    let error = |args| new(args).unwrap_err();
    assert_eq!(
        error(vec![]),
        "expected number of arguments: 2; found: 0 (in transaction `tested`)"
    );
    assert_eq!(
        error(vec![Value::Int(1), good.clone()]),
        "argument `p0` must be list<int>, not an integer (in transaction `tested`)"
    );
    assert_eq!(
        error(vec![Value::list([text("x")]), good]),
        "argument `p0` must be list<int>, not one with a string where int should be \
         (in transaction `tested`)"
    );
    assert_eq!(
        error(vec![ints([]), handle("logs", "c")]),
        "logs:c is used as a handle of `mail` (in transaction `tested`)"
    );
}

fn reading() -> Run {
    let body = vec![
        Instr::Remote {
            dst: 1,
            store: MAIL,
            op: ObjectOp::Load,
            object: 1,
            handle: 0,
            args: vec![],
        },
        Instr::Result(1),
    ];
    let main = phase(Some(MAIL), &[], &[], code(2, vec![], body));
    let register = handle_type(Object::Register(Type::Int), MAIL);
    let program = program(vec![register], Type::Int, vec![main]);
    prepare(program, 0, vec![handle("mail", "r")], Tapes::new())
}

#[test]
fn answers_must_fit() {
    let mut run = reading();
    assert!(matches!(run.start(), Step::Remote(_)));
    let failure = failed(run.resume(Ok(text("x"))));
    assert_eq!(
        failure.describe("first line\nsecond"),
        "1:1: the store returned a string for `*` of register<int>, not int \
         (in transaction `tested`)"
    );
}

#[test]
fn missing_objects_and_errors_of_stores_are_failures() {
    let mut run = reading();
    run.start();
    let failure = failed(run.resume(Err(Refusal::Missing)));
    assert_eq!(failure.kind.to_string(), "mail:r does not exist, so `*` of register<int> fails");
    run.start();
    let failure = failed(run.resume(Err(Refusal::Other("WRONGTYPE".into()))));
    assert_eq!(failure.kind.to_string(), "`*` of register<int> failed: WRONGTYPE");
    // The run can be started again after these failures.
    run.start();
    assert_eq!(finished(run.resume(Ok(Value::Int(4)))).result, Some(Value::Int(4)));
}

#[test]
fn handles_of_another_store_are_rejected() {
    let wrong = |body| {
        let nothing = phase(None, &[], &[0], code(0, vec![], vec![]));
        let second = phase(Some(MAIL), &[0], &[], code(3, vec![Value::Int(1)], body));
        let program = program(vec![], Type::Unit, vec![nothing, second]);
        let mut tapes = Tapes::new();
        tapes.insert(0, vec![handle("logs", "x")]);
        failed(prepare(program, 1, vec![], tapes).start()).kind
    };
    let expected = FailureKind::WrongStore {
        handle: solera_program::value::Handle { store: "logs".into(), key: "x".into() },
        expected: "mail".into(),
    };
    let remote = Instr::Remote {
        dst: 1,
        store: MAIL,
        op: ObjectOp::Value,
        object: 0,
        handle: 0,
        args: vec![],
    };
    assert_eq!(wrong(vec![Instr::Advance(0, 0), remote]), expected);
    let custom = Instr::Custom { dst: 1, store: MAIL, operation: 0, args: vec![0, 2] };
    assert_eq!(wrong(vec![Instr::Advance(0, 0), Instr::Const(2, 0), custom]), expected);
}
