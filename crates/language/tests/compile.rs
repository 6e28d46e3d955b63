//! Checks the diagnostics of whole programs, and how programs are split. Every
//! `testdata/{check,flows,split}/NAME.mixt` has an expected output `NAME.out` beside it;
//! `REWRITE=1 cargo test -p solera-language --test compile` rewrites these.

use std::fs;
use std::path::Path;

use solera_language::compile::compile;
use solera_language::explain;
use solera_language::render::render;

fn check(folder: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata").join(folder);
    let mut sources: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "mixt"));
    sources.sort();
    assert!(!sources.is_empty());
    for path in sources {
        let source = fs::read_to_string(&path).unwrap();
        let compiled = compile(&source);
        let name = path.file_name().unwrap().to_str().unwrap();
        let rendered = render(&compiled.diagnostics, name, &source, false);
        let out =
            format!("{rendered}{}", explain::text(&explain::transactions(&compiled, &source)));
        let expected = path.with_extension("out");
        if std::env::var_os("REWRITE").is_some() {
            fs::write(&expected, &out).unwrap();
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        assert!(
            out == wanted,
            "the output for {} differs from {}:\n{out}",
            path.display(),
            expected.display()
        );
    }
}

#[test]
fn names_and_types_are_checked() {
    check("check");
}

#[test]
fn flows_are_checked() {
    check("flows");
}

#[test]
fn programs_are_split_into_phases() {
    check("split");
}

/// Each level precedes the one that it refers to, so that sorting them would take long.
#[test]
fn too_many_levels_are_rejected_without_sorting_them() {
    let level = |number| format!("level l{number} below l{};", number + 1);
    let source: String = (0..20_000).map(level).collect();
    assert!(compile(&source).program.is_none());
}

/// The label of each variable is known only after the next one's, so that a pass over all variables
/// for each would take long.
#[test]
fn long_chains_of_copies_are_labelled() {
    let count = 20_000;
    let declared: String = (0..=count).map(|k| format!("var a{k} = 0;")).collect();
    let copied: String = (0..count).map(|k| format!("a{k} = a{};", k + 1)).collect();
    let source = format!(
        "store s : causal; transaction t(c: handle<counter> in s) -> int {{ {declared} \
         while a0 == 0 {{ {copied} a{count} = c.value(); }} return a0; }}"
    );
    let compiled = compile(&source);
    assert!(compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
    let level = compiled.declarations.lattice.lookup("causal").unwrap();
    let one = &compiled.transactions[0];
    let first = one.checkable.body.vars.iter().position(|var| var.name.as_deref() == Some("a0"));
    assert_eq!(one.flows.labels[first.unwrap()].level, level);
}
