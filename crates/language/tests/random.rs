//! Random programs behave the same whether they are split or not, and weak values do not influence
//! strong stores.

#[path = "random/program.rs"]
mod program;
#[path = "random/stores.rs"]
mod stores;

use std::sync::Arc;

use program::{Random, STORES, source};
use solera_language::compile::{compile, compile_whole};
use solera_program::ir::Program;
use solera_program::run::{Limits, Names, RemoteCall, Run, Step, Tapes};
use solera_program::value::{Handle, Value};
use solera_program::verify::verify;
use stores::Stores;

/// Result of a transaction, or its failure.
type Ended = Result<Value, String>;

/// Runs all phases one after another, and records the calls of the stores.
fn run(program: &Arc<Program>, args: &[Value], stores: &mut Stores) -> (Ended, Vec<RemoteCall>) {
    let (mut tapes, mut result, mut calls) = (Tapes::default(), None, Vec::new());
    for phase in 0..program.transactions[0].phases.len() {
        let names = Names { prefix: "test".into() };
        let limits = Limits::default();
        let inputs = (args.to_vec(), tapes.clone());
        let run = Run::new(program.clone(), 0, phase, inputs.0, inputs.1, names, limits);
        let mut run = run.expect("the arguments fit");
        let mut step = run.start();
        loop {
            match step {
                Step::Remote(call) => {
                    let answer = stores.answer(&call);
                    calls.push(call);
                    step = run.resume(Ok(answer));
                }
                Step::Custom(call) => panic!("{call:?} is in no program"),
                Step::Finished(finished) => {
                    tapes.extend(finished.tapes);
                    result = finished.result.or(result);
                    break;
                }
                Step::Failed(failure) => return (Err(failure.kind.to_string()), calls),
            }
        }
    }
    (Ok(result.expect("some phase yields the result")), calls)
}

fn arguments(random: &mut Random) -> Vec<Value> {
    let handle = |kind: &str, store: usize| {
        let key = format!("{kind}{store}").as_str().into();
        Value::Handle(Handle { store: STORES[store].into(), key })
    };
    let mut args = Vec::new();
    for kind in ["c", "s", "r"] {
        args.extend((0..3).map(|store| handle(kind, store)));
    }
    args.extend((0..2).map(|_| Value::Int(random.below(8) as i64)));
    args
}

/// Fills the stores from a level on, so that several fillings differ only in weaker stores.
fn fill(random: &mut Random, stores: &mut Stores, weaker_than: usize) {
    for (level, store) in STORES.iter().enumerate().skip(weaker_than) {
        stores.put_number(store, &format!("c{level}"), random.below(6) as i64);
        let count = random.below(4);
        let elements: Vec<_> = (0..count).map(|_| random.below(8) as i64).collect();
        stores.put_set(store, &format!("s{level}"), elements);
        if random.below(3) > 0 {
            stores.put_register(store, &format!("r{level}"), random.below(8) as i64);
        }
    }
}

#[test]
fn split_programs_behave_like_whole_programs() {
    let (mut tried, mut accepted, mut phases) = (0, 0, 0);
    for seed in 1..=6_000 {
        let mut random = Random::new(seed);
        let text = source(&mut random, true);
        tried += 1;
        let split = compile(&text);
        let Some(program) = split.program.map(Arc::new) else { continue };
        accepted += 1;
        phases = phases.max(program.transactions[0].phases.len());
        let whole = Arc::new(compile_whole(&text).program.expect("it was accepted"));
        verify(&program).expect("what is compiled is well-formed");
        verify(&whole).expect("what is compiled is well-formed");
        for _ in 0..4 {
            let args = arguments(&mut random);
            let mut stores = Stores::default();
            fill(&mut random, &mut stores, 0);
            let mut other = stores.clone();
            let (one, _) = run(&whole, &args, &mut stores);
            let (two, _) = run(&program, &args, &mut other);
            // A program that fails at two places may fail at either first.
            let both_fail = one.is_err() && two.is_err();
            assert!(both_fail || one == two, "seed {seed}: {one:?}, {two:?}\n{text}");
            // The host undoes the phase in which a program fails; this test has no host.
            assert!(one.is_err() || stores == other, "seed {seed}\n{text}\n{stores:?}\n{other:?}");
        }
    }
    println!("{accepted} of {tried} accepted, with up to {phases} phases");
    assert!(accepted > 1_000 && phases > 3, "{accepted} accepted, up to {phases} phases");
}

/// MixT §4.2: with the same strong data, the calls of strong stores do not depend on weak data.
#[test]
fn weak_values_do_not_influence_strong_stores() {
    let mut accepted = 0;
    for seed in 1..=12_000 {
        let mut random = Random::new(seed);
        let text = source(&mut random, seed % 2 == 0);
        // Endorsed values may influence strong stores.
        if text.contains("endorse") {
            continue;
        }
        let Some(program) = compile(&text).program.map(Arc::new) else { continue };
        accepted += 1;
        let args = arguments(&mut random);
        for level in 0..2 {
            let mut same = Stores::default();
            fill(&mut random, &mut same, 0);
            let mut seen = None;
            for _ in 0..4 {
                let mut stores = same.clone();
                fill(&mut random, &mut stores, level + 1);
                let (ended, mut calls) = run(&program, &args, &mut stores);
                // A failure after a strong phase has committed does not undo that phase; before the
                // commit, the phase has no effect.
                let strong = |call: &RemoteCall| STORES[..=level].contains(&&*call.handle.store);
                calls.retain(strong);
                let seen = seen.get_or_insert_with(|| calls.clone());
                assert_eq!(*seen, calls, "seed {seed}, level {level}, {ended:?}\n{text}");
            }
        }
    }
    println!("{accepted} accepted");
    assert!(accepted > 500, "{accepted} accepted");
}
