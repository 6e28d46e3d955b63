//! An arbitrary compiled program from a peer causes no panic: it is rejected, or runs until it ends
//! or its fuel is used up.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use solera_program::ir::Program;
use solera_program::run::{Limits, Names, Refusal, Run, Step, Tapes};
use solera_program::value::Value;
use solera_program::verify::verify;

fuzz_target!(|bytes: &[u8]| {
    let Ok((program, rest)) = postcard::take_from_bytes::<Program>(bytes) else {
        return;
    };
    if verify(&program).is_err() {
        return;
    }
    // Arguments follow the program, and then the answers of stores.
    let (args, mut rest) = postcard::take_from_bytes::<Vec<Value>>(rest).unwrap_or_default();
    let program = Arc::new(program);
    for transaction in 0..program.transactions.len() {
        let mut tapes = Tapes::new();
        for phase in 0..program.transactions[transaction].phases.len() {
            let names = Names { prefix: "fuzz".into() };
            let limits = Limits { fuel: 10_000, ..Limits::default() };
            let (args, taken) = (args.clone(), tapes.clone());
            let run = Run::new(program.clone(), transaction, phase, args, taken, names, limits);
            let Ok(mut run) = run else {
                break;
            };
            let mut step = run.start();
            while let Step::Remote(_) | Step::Custom(_) = step {
                let answer = postcard::take_from_bytes::<Value>(rest);
                step = run.resume(answer.map_or(Err(Refusal::Missing), |(value, left)| {
                    rest = left;
                    Ok(value)
                }));
            }
            let Step::Finished(finished) = step else {
                break;
            };
            tapes.extend(finished.tapes);
        }
    }
});
