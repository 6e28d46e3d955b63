//! The examples in `deploy/` say what this version understands.

use std::path::PathBuf;
use std::process::Command;

use solera_node::{ClusterSpec, Overrides};

fn read(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn parse(name: &str, text: &str) -> ClusterSpec {
    ClusterSpec::parse(name, text, Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The options after `solera serve`, in whatever is around it.
fn options(text: &str) -> Vec<&str> {
    let (_, after) = text.split_once("solera serve").unwrap();
    // The command ends with its paragraph in the manifest, and with its line in the unit.
    let end =
        ["\n          ports:", "\nStateDirectory"].iter().filter_map(|end| after.find(end)).min();
    let words = after[..end.unwrap()].split_whitespace();
    words.filter(|word| word.starts_with("--")).collect()
}

#[test]
fn the_configurations_can_be_used() {
    assert_eq!(parse("solera.toml", &read("solera.toml")).nodes().count(), 4);
    // What is a comment there works, too.
    let hash = "0".repeat(64);
    let all =
        read("solera.toml").replace("# [", "[").replace("what `solera user hash` prints", &hash);
    let settings = ["cert", "key", "ca", "name", "password_sha256", "commands", "keys"];
    let all = settings.iter().fold(all, |text, setting| {
        text.replace(&format!("# {setting} = "), &format!("{setting} = "))
    });
    let spec = parse("solera.toml", &all);
    assert!(spec.users.are_configured() && spec.peer_tls.is_some());

    let manifest = read("kubernetes.yaml");
    let (_, block) = manifest.split_once("  solera.toml: |\n").unwrap();
    let (block, _) = block.split_once("\n---").unwrap();
    let text: String = block.lines().map(|line| line.trim_start().to_owned() + "\n").collect();
    assert_eq!(parse("kubernetes.yaml", &text).nodes().count(), 2);
    assert!(manifest.contains("replicas: 2"));
}

#[test]
fn every_option_and_probe_exists() {
    let help = Command::new(env!("CARGO_BIN_EXE_solera")).args(["serve", "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    for name in ["solera@.service", "kubernetes.yaml"] {
        let text = read(name);
        let found = options(&text);
        assert!(["--config", "--site", "--node", "--data"].iter().all(|o| found.contains(o)));
        for option in found {
            assert!(help.contains(&format!("{option} <")), "{name}: {option}");
        }
    }
    let manifest = read("kubernetes.yaml");
    let paths: Vec<_> = manifest.split("path: /").skip(1).collect();
    assert_eq!(paths.len(), 3);
    assert!(paths.iter().all(|path| path.starts_with("health,") || path.starts_with("ready,")));
}
