//! Phases that hand on values: the message delivery transaction after splitting (MixT Fig. 10).

use solera_program::ir::{Instr, Program};
use solera_program::operation::ObjectOp;
use solera_program::run::{CustomCall, RemoteCall, Run, Step, Tapes};
use solera_program::span::Span;
use solera_program::types::{Object, Type};
use solera_program::value::{Handle, Value};

use crate::support::*;

const LIST: u32 = 4;
const INBOX: u32 = 2;

fn remote(dst: u32, op: ObjectOp, object: u32, handle: u32, args: Vec<u32>) -> Instr {
    let store = if object == INBOX { MAIL } else { DIRECTORY };
    Instr::Remote { dst, store, op, object, handle, args }
}

/// Registers: 0 `users`, 1 `post`; 2 `iterator`, 3 `loopindex`, 4 `temporary0`.
/// Tape 0 is `loopindex`, tape 1 `temporary0`.
fn delivery() -> Program {
    let strong = vec![
        Instr::Move(2, 0),
        remote(3, ObjectOp::Exists, LIST, 2, vec![]),
        Instr::Record(0, 3),
        Instr::JumpUnless(3, 10),
        remote(4, ObjectOp::Field(0), LIST, 2, vec![]),
        Instr::Record(1, 4),
        remote(2, ObjectOp::Field(1), LIST, 2, vec![]),
        remote(3, ObjectOp::Exists, LIST, 2, vec![]),
        Instr::Record(0, 3),
        Instr::Jump(3),
    ];
    let causal = vec![
        Instr::Advance(0, 3),
        Instr::JumpUnless(3, 6),
        Instr::Advance(1, 4),
        remote(5, ObjectOp::Insert, INBOX, 4, vec![1]),
        Instr::Advance(0, 3),
        Instr::Jump(1),
    ];
    let inbox = handle_type(Object::Set(Type::String), MAIL);
    let users = handle_type(Object::RemoteList(inbox), DIRECTORY);
    let first = phase(Some(DIRECTORY), &[], &[0, 1], code(5, vec![], strong));
    let second = phase(Some(MAIL), &[0, 1], &[], code(6, vec![], causal));
    program(vec![users, Type::String], Type::Unit, vec![first, second])
}

fn args() -> Vec<Value> {
    vec![handle("directory", "users"), text("hello")]
}

/// Acts as the linearizable store, with two users. Returns the calls as texts, and the resulting
/// tapes.
fn read_members(run: &mut Run) -> (Vec<String>, Tapes) {
    let mut calls = Vec::new();
    let mut step = run.start();
    loop {
        step = match step {
            Step::Remote(RemoteCall { op, handle, args, .. }) => {
                assert_eq!(args, []);
                calls.push(format!("{op:?} {handle}"));
                run.resume(Ok(match (op, &*handle.key) {
                    (ObjectOp::Exists, key) => Value::Bool(key != "end"),
                    (ObjectOp::Field(0), "users") => super::support::handle("mail", "ada"),
                    (ObjectOp::Field(0), _) => super::support::handle("mail", "bob"),
                    (_, "users") => super::support::handle("directory", "cell"),
                    _ => super::support::handle("directory", "end"),
                }))
            }
            other => return (calls, finished(other).tapes),
        };
    }
}

#[test]
fn message_delivery_makes_the_calls_of_figure_10() {
    let mut strong = prepare(delivery(), 0, args(), Tapes::new());
    let (calls, tapes) = read_members(&mut strong);
    assert_eq!(
        calls,
        [
            "Exists directory:users",
            "Field(0) directory:users",
            "Field(1) directory:users",
            "Exists directory:cell",
            "Field(0) directory:cell",
            "Field(1) directory:cell",
            "Exists directory:end",
        ]
    );
    let turns = [true, true, false].map(Value::Bool);
    assert_eq!(tapes.get(0), turns);
    assert_eq!(tapes.get(1), [handle("mail", "ada"), handle("mail", "bob")]);

    let mut causal = prepare(delivery(), 1, args(), tapes);
    let mut step = causal.start();
    for user in ["ada", "bob"] {
        let expected = RemoteCall {
            store: MAIL,
            op: ObjectOp::Insert,
            object: INBOX,
            handle: Handle { store: "mail".into(), key: user.into() },
            args: vec![text("hello")],
            result: Type::Unit,
            span: Span::new(3, 4),
        };
        assert_eq!(step, Step::Remote(expected));
        step = causal.resume(Ok(Value::Unit));
    }
    assert_eq!(finished(step).result, None, "the first phase yields the result");
}

#[test]
fn a_repeated_phase_makes_the_same_calls() {
    let mut run = prepare(delivery(), 0, args(), Tapes::new());
    let first = read_members(&mut run);
    // A run can also be restarted in the middle of a call.
    run.start();
    assert_eq!(read_members(&mut run), first);
}

#[test]
fn tapes_can_be_serialized_and_filtered() {
    let (_, tapes) = read_members(&mut prepare(delivery(), 0, args(), Tapes::new()));
    let bytes = postcard::to_stdvec(&tapes).unwrap();
    assert_eq!(postcard::from_bytes::<Tapes>(&bytes).unwrap(), tapes);
    assert_eq!(tapes.only(&[1]).get(0), []);
    assert_eq!(tapes.only(&[1]).get(1), tapes.get(1));
}

#[test]
fn new_names_are_the_same_each_time_and_differ_within_a_transaction() {
    let body = || {
        code(
            2,
            vec![],
            vec![
                Instr::Fresh(0, MAIL),
                Instr::Fresh(1, LOGS),
                Instr::Record(0, 0),
                Instr::Record(0, 1),
            ],
        )
    };
    let phases = vec![phase(None, &[], &[0], body()), phase(None, &[], &[0], body())];
    let program = program(vec![], Type::Unit, phases);
    let mut run = prepare(program.clone(), 0, vec![], Tapes::new());
    let names = |run: &mut Run| finished(run.start()).tapes.get(0).to_vec();
    let first = names(&mut run);
    assert_eq!(first, [handle("mail", "tx7.0.0"), handle("logs", "tx7.0.1")]);
    assert_eq!(names(&mut run), first);
    let mut second = prepare(program, 1, vec![], Tapes::new());
    assert_eq!(names(&mut second)[0], handle("mail", "tx7.1.0"));
}

#[test]
fn handles_are_made_of_keys_that_programs_may_use() {
    let run = |key: Value| {
        let body = vec![Instr::Const(0, 0), Instr::Handle(1, MAIL, 0), Instr::Result(1)];
        let main = phase(None, &[], &[], code(2, vec![key], body));
        let result = handle_type(Object::Counter, MAIL);
        prepare(program(vec![], result, vec![main]), 0, vec![], Tapes::new()).start()
    };
    for key in ["k", "stock:1:2", "a:solera:b", "solera", "Solera:x", " "] {
        assert_eq!(finished(run(text(key))).result, Some(handle("mail", key)), "{key:?}");
    }
    let why = |key: Value| failed(run(key)).kind.to_string();
    assert_eq!(why(text("")), "a handle's key must not be empty");
    assert_eq!(why(text("solera:x")), "keys beginning with `solera:` are reserved: `solera:x`");
    let long = format!("solera:{}", "ä".repeat(100));
    assert!(why(text(&long)).len() < 200, "{}", why(text(&long)));
    assert_eq!(
        why(Value::Int(1)),
        "the compiled program is invalid: making a handle cannot be done with an integer"
    );
}

#[test]
fn custom_operations_receive_handles_for_objects_that_they_dereference() {
    let body = vec![
        Instr::Const(1, 0),
        Instr::Custom { dst: 2, store: MAIL, operation: 0, args: vec![0, 1] },
        Instr::Result(2),
    ];
    let set = handle_type(Object::Set(Type::Int), MAIL);
    let main = phase(Some(MAIL), &[], &[], code(3, vec![Value::Int(4)], body));
    let program = program(vec![set], Type::Bool, vec![main]);
    let mut run = prepare(program, 0, vec![handle("mail", "s")], Tapes::new());
    let expected = CustomCall {
        store: MAIL,
        operation: 0,
        args: vec![handle("mail", "s"), Value::Int(4)],
        result: Type::Bool,
        span: Span::new(1, 2),
    };
    assert_eq!(run.start(), Step::Custom(expected));
    let failure = failed(run.resume(Ok(Value::Int(1))));
    assert_eq!(failure.kind.to_string(), "the store returned an integer for `mail.find`, not bool");
    run.start();
    assert_eq!(finished(run.resume(Ok(Value::Bool(true)))).result, Some(Value::Bool(true)));
}
