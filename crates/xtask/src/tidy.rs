//! `cargo xtask tidy`: the house's rules, as ARCHITECTURE.md draws them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::finding::{Finding, files, read};

/// Which crates of ours each crate may use; dev-dependencies included.
const MAY_USE: &[(&str, &[&str])] = &[
    ("solera-time", &[]),
    ("solera-levels", &[]),
    ("solera-machine", &["solera-time"]),
    ("solera-data", &["solera-time"]),
    ("solera-unistore", &["solera-data", "solera-levels", "solera-machine", "solera-time"]),
    ("solera-checker", &[]),
    ("solera-resp", &[]),
    (
        "solera-sim",
        &[
            "solera-checker",
            "solera-data",
            "solera-levels",
            "solera-machine",
            "solera-time",
            "solera-unistore",
        ],
    ),
    (
        "solera-node",
        &[
            "solera-data",
            "solera-levels",
            "solera-machine",
            "solera-resp",
            "solera-time",
            "solera-unistore",
        ],
    ),
    ("solera", &["solera-node", "solera-resp"]),
    ("solera-cli", &["solera", "solera-node", "solera-sim", "solera-unistore"]),
    ("xtask", &[]),
];

/// Crates that hold vocabulary or protocols: no I/O, and nothing that differs from run to run.
const PURE: &[&str] = &["time", "levels", "machine", "data", "unistore", "checker"];

/// What such crates must not mention, and why.
const IMPURE: &[(&str, &str)] = &[
    ("std::net", "sockets belong to the host"),
    ("std::fs", "files belong to the host"),
    ("std::thread", "threads belong to the host"),
    ("std::env", "settings come in as configuration"),
    ("std::process", "processes belong to the host"),
    ("Instant::now", "time comes in as an input"),
    ("SystemTime", "time comes in as an input"),
    ("RandomState", "seeds come in as configuration"),
    ("std::collections::HashMap", "its order differs from run to run; use BTreeMap or hashbrown"),
    ("std::collections::HashSet", "its order differs from run to run; use BTreeSet or hashbrown"),
    ("tokio", "machines are not asynchronous"),
];

/// Checks everything; the workspace is the current directory.
pub(crate) fn check() -> Vec<Finding> {
    let root = Path::new(".");
    let mut findings = dependencies();
    for name in PURE {
        for file in files(&root.join("crates").join(name).join("src"), "rs") {
            findings.extend(impurities(&file, &read(&file)));
        }
    }
    for file in files(&root.join("crates"), "rs") {
        findings.extend(leftovers(&file, &read(&file)));
    }
    for file in files(root, "md") {
        findings.extend(dead_links(&file, &read(&file)));
    }
    findings
}

fn dependencies() -> Vec<Finding> {
    let output =
        Command::new("cargo").args(["metadata", "--no-deps", "--format-version=1"]).output();
    let metadata: Value = match output.map(|output| serde_json::from_slice(&output.stdout)) {
        Ok(Ok(metadata)) => metadata,
        _ => return vec![finding(Path::new("Cargo.toml"), 1, "cargo metadata failed")],
    };
    wrong_directions(&metadata)
}

fn wrong_directions(metadata: &Value) -> Vec<Finding> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut findings = Vec::new();
    for package in list(&metadata["packages"]) {
        let (name, manifest) = (text(&package["name"]), text(&package["manifest_path"]));
        let Some((_, may_use)) = MAY_USE.iter().find(|(crate_, _)| *crate_ == name) else {
            let what = format!("{name} has no place in the house; give it one in xtask's tidy.rs");
            findings.push(finding(Path::new(&manifest), 1, what));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let used = text(&dependency["name"]);
            let ours = MAY_USE.iter().any(|(crate_, _)| *crate_ == used);
            if ours && !may_use.contains(&used.as_str()) {
                let what = format!("{name} must not use {used}: arrows point down only");
                findings.push(finding(Path::new(&manifest), 1, what));
            }
        }
    }
    findings
}

/// Mentions of I/O outside of tests and comments.
fn impurities(file: &Path, text: &str) -> Vec<Finding> {
    let code = text.lines().enumerate().take_while(|(_, line)| !line.contains("#[cfg(test)]"));
    code.filter(|(_, line)| !line.trim_start().starts_with("//"))
        .flat_map(|(number, line)| {
            let banned = IMPURE.iter().filter(move |(word, _)| line.contains(word));
            banned.map(move |(word, why)| {
                finding(file, number + 1, format!("{word} in a crate without I/O: {why}"))
            })
        })
        .collect()
}

/// Unfinished work, and files without a last newline or a crate without a description.
fn leftovers(file: &Path, text: &str) -> Vec<Finding> {
    // Written so that this file does not find itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
    ];
    let mut findings: Vec<Finding> = text
        .lines()
        .enumerate()
        .flat_map(|(number, line)| {
            let found = marks.into_iter().filter(move |mark| line.contains(mark));
            found.map(move |mark| finding(file, number + 1, format!("unfinished: {mark}")))
        })
        .collect();
    if !text.ends_with('\n') {
        findings.push(finding(file, text.lines().count(), "the last line has no end"));
    }
    if file.ends_with("src/lib.rs") && !text.starts_with("//!") {
        findings.push(finding(file, 1, "a crate begins with what it is for"));
    }
    findings
}

/// Links to files that are not there.
fn dead_links(file: &Path, text: &str) -> Vec<Finding> {
    let folder = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    text.lines()
        .enumerate()
        .flat_map(|(number, line)| {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let local =
                targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
            let dead = local.filter(|target| {
                let path = target.split('#').next().unwrap_or_default();
                !folder.join(path).exists()
            });
            dead.map(|target| finding(file, number + 1, format!("the link to {target} is dead")))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn finding(file: &Path, line: usize, what: impl Into<String>) -> Finding {
    Finding { file: file.to_owned(), line, what: what.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arrows_that_point_up_are_found() {
        let uses = |name: &str, used: &str| {
            let package = json!({
                "name": name, "manifest_path": "x", "dependencies": [{ "name": used }]
            });
            wrong_directions(&json!({ "packages": [package] })).len()
        };
        assert_eq!(uses("solera-data", "solera-time"), 0);
        assert_eq!(uses("solera-unistore", "serde"), 0);
        assert_eq!(uses("solera-time", "solera-data"), 1);
        assert_eq!(uses("solera-checker", "solera-unistore"), 1);
        assert_eq!(uses("solera-attic", "serde"), 1);
    }

    #[test]
    fn io_in_protocols_is_found_outside_of_comments_and_tests() {
        let text = "use std::net::TcpStream;\n// std::fs\n#[cfg(test)]\nuse std::fs;\n";
        assert_eq!(impurities(Path::new("a.rs"), text).len(), 1);
    }

    #[test]
    fn leftovers_and_dead_links_are_found() {
        let mark = concat!("TO", "DO");
        assert_eq!(leftovers(Path::new("a.rs"), &format!("// {mark}\n")).len(), 1);
        assert_eq!(leftovers(Path::new("a.rs"), "fn a() {}").len(), 1);
        assert_eq!(leftovers(Path::new("src/lib.rs"), "fn a() {}\n").len(), 1);
        assert_eq!(dead_links(Path::new("README.md"), "[a](nowhere.md) [b](https://x)").len(), 1);
    }
}
