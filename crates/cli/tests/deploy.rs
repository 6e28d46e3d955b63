//! This version accepts the examples in `deploy/`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Folder, Node, SOLERA, free_ports, text, wait_until};
use solera_config::{ClusterSpec, Overrides};

fn read(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn parse(name: &str, text: &str) -> ClusterSpec {
    ClusterSpec::parse(name, text, Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the options after `solera serve` in a file.
fn options(text: &str) -> Vec<&str> {
    let (_, after) = text.split_once("solera serve").unwrap();
    // The command ends with its block in the manifest, and with its line in the unit.
    let end =
        ["\n          ports:", "\nStateDirectory"].iter().filter_map(|end| after.find(end)).min();
    let words = after[..end.unwrap()].split_whitespace();
    words.filter(|word| word.starts_with("--")).collect()
}

#[test]
fn the_example_configurations_are_valid() {
    assert_eq!(parse("solera.toml", &read("solera.toml")).nodes().count(), 4);
    // The configuration is also valid without the comment signs.
    let hash = "0".repeat(64);
    let all =
        read("solera.toml").replace("# [", "[").replace("what `solera user hash` prints", &hash);
    let settings = [
        "cert",
        "key",
        "ca",
        "name",
        "password_sha256",
        "commands",
        "keys",
        "prefix",
        "level",
        "strong",
        "conflicts",
    ];
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
    let help = Command::new(SOLERA).args(["serve", "--help"]).output();
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

/// Returns the shell script that systemd runs for an instance of the unit.
fn unit_script(instance: &str) -> String {
    let unit = read("solera@.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '")).unwrap();
    let script = line.strip_suffix('\'').unwrap();
    script.replace("%i", instance).replace("%%", "%").replace("$$", "$")
}

/// Returns the script that the manifest's container runs: a folded block.
fn manifest_script() -> String {
    let manifest = read("kubernetes.yaml");
    let (_, block) =
        manifest.split_once("- /bin/sh\n            - -c\n            - >-\n").unwrap();
    let (block, _) = block.split_once("\n          ports:").unwrap();
    block.lines().map(|line| line.trim().to_owned() + " ").collect()
}

#[test]
fn the_scripts_start_the_nodes_that_they_name() {
    let hosts = ["127.0.0.1", "127.0.0.2"];
    let (folder, port) = (Folder::new(), free_ports(&hosts));
    // The name of a site may contain the character that separates it from a node's number.
    let mut config = String::new();
    for (site, host) in ["my-eu", "eu"].into_iter().zip(hosts) {
        config += &format!("[[site]]\nname = '{site}'\n");
        for first in [port, port + 3] {
            let [resp, peer, admin] =
                [0, 1, 2].map(|purpose| format!("'{host}:{}'", first + purpose));
            config += &format!("[[site.node]]\nresp = {resp}\npeer = {peer}\nadmin = {admin}\n");
        }
    }
    let config = folder.file("solera.toml", &config);
    let data = |name: &str| folder.at(name).to_str().unwrap().to_owned();
    let manifest =
        manifest_script().replace("/data/solera", &data("pod")).replace("0.0.0.0", hosts[1]);
    for (script, directory, host, name) in [
        (unit_script("my-eu-2"), data("unit"), hosts[0], "node 2 of site my-eu"),
        (manifest, data("pod"), hosts[1], "node 2 of site eu"),
    ] {
        let script = script
            .replace("/usr/local/bin/solera", SOLERA)
            .replace("/etc/solera/solera.toml", config.to_str().unwrap());
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &script])
            .env("STATE_DIRECTORY", &directory)
            .env("HOSTNAME", "solera-1");
        let at = |purpose| format!("{host}:{}", port + 3 + purpose).parse().unwrap();
        let mut node = Node::start(&mut command, at(0), at(2));
        node.says(&format!("starts as {name} of cluster"));
        for (path, code) in [("/health", 200), ("/ready", 503)] {
            wait_until(&*node, || node.http(path).is_some_and(|(found, _)| found == code));
        }
        assert!(Path::new(&directory).join("solera-data.toml").is_file(), "{name}");
        node.signal("-HUP");
        node.says("solera.toml again");
        node.signal("-TERM");
        assert!(node.wait().success(), "{node}");
    }
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = Folder::new();
    let unit = folder.file("solera@eu-1.service", &read("solera@.service"));
    let Ok(verified) =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output()
    else {
        common::skipped("systemd_accepts_the_unit", "no systemd-analyze here");
        return;
    };
    // systemd-analyze reports settings that it ignores, and still exits successfully.
    let complaints = text(&verified.stderr);
    let ours = complaints.lines().filter(|line| line.contains("solera@"));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&str>::new());
}
