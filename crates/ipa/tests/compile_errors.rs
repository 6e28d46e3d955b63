//! Compares the compiler's messages for programs that misuse the types with the recorded ones.
//! `TRYBUILD=overwrite` records them again. Each rejected program has an accepted twin in
//! `accepted/`, which differs in the misuse alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns the programs of a folder by their names.
fn programs(folder: &str) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let programs = paths.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    programs
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

#[test]
fn messages_are_as_recorded() {
    trybuild::TestCases::new().compile_fail("tests/rejected/*.rs");
}

#[test]
fn each_rejected_program_differs_from_an_accepted_one_in_few_lines() {
    let (rejected, mut accepted) = (programs("rejected"), programs("accepted"));
    accepted.remove("main");
    assert!(!rejected.is_empty() && rejected.keys().eq(accepted.keys()));
    for (name, source) in rejected {
        let (wrong, right) = (source.lines(), accepted[&name].lines());
        assert_eq!(wrong.clone().count(), right.clone().count(), "{name}");
        let differences = wrong.zip(right).filter(|(wrong, right)| wrong != right).count();
        let most = if name == "unused" { 7 } else { 2 };
        assert!((1..=most).contains(&differences), "{name}: {differences} lines differ");
    }
}
