//! Prints how the compiler explains a source file:
//! `cargo run -p solera-language --example explain FILE`.

use std::process::ExitCode;

use solera_language::compile::compile;
use solera_language::explain;
use solera_language::render::render;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: explain FILE");
        return ExitCode::FAILURE;
    };
    let source = match std::fs::read_to_string(&path) {
        Ok(source) => source,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let compiled = compile(&source);
    eprint!("{}", render(&compiled.diagnostics, &path, &source, false));
    print!("{}", explain::text(&explain::transactions(&compiled, &source)));
    if compiled.program.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
