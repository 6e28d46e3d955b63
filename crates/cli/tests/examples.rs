//! Checks that `examples/README.md` lists every example, and that its commands behave as described.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("examples/README.md")).unwrap()
}

#[test]
fn the_readme_lists_every_example() {
    let there = std::fs::read_dir(root().join("examples")).unwrap();
    let there = there.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.filter(|name| name != "README.md").collect();
    let readme = readme();
    let named = readme.lines().filter_map(|line| line.strip_prefix("| [")?.split_once(']'));
    let named: BTreeSet<String> = named.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(there, named);
}

/// Commands of demos need servers and time; `./test` runs them.
#[test]
fn commands_without_servers_end_as_described() {
    let readme = readme();
    let commands = readme.split('`').skip(1).step_by(2);
    let mut run = 0;
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let ["solera", what @ ("check" | "run"), ..] = words[..] else { continue };
        let mut solera = Command::new(env!("CARGO_BIN_EXE_solera"));
        let done = solera.args(&words[1..]).current_dir(root()).output().unwrap();
        let refused = what == "check";
        assert_eq!(done.status.success(), !refused, "{command}: {done:?}");
        run += 1;
    }
    assert_eq!(run, 5, "the commands are read from the table");
}
