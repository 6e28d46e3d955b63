//! Checks which crates each crate uses: dependencies lead to lower layers, and to listed crates of
//! the same layer.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::finding::Finding;

/// Layers of the architecture, from the bottom up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Vocabulary,
    Protocols,
    Composition,
    Hosting,
    Programming,
    Tools,
}

/// Position of a crate in the architecture.
#[derive(Debug)]
pub(crate) struct CrateRule {
    pub(crate) package: &'static str,
    /// Folder below `crates`.
    pub(crate) folder: &'static str,
    pub(crate) layer: Layer,
    /// Crates of the workspace that it may use.
    may_use: &'static [&'static str],
    /// Further crates of the workspace that its tests may use.
    tests_may_use: &'static [&'static str],
}

impl CrateRule {
    /// Returns whether the crate must do no I/O and have no input but its arguments.
    pub(crate) fn pure(&self) -> bool {
        self.layer <= Layer::Composition
    }
}

/// The architecture. Each crate has an entry here and in ARCHITECTURE.md.
pub(crate) const CRATES: &[CrateRule] = &[
    rule("solera-time", "time", Layer::Vocabulary, &[], &[]),
    rule("solera-levels", "levels", Layer::Vocabulary, &[], &[]),
    rule("solera-ipa", "ipa", Layer::Vocabulary, &["solera-levels"], &[]),
    rule("solera-random", "random", Layer::Vocabulary, &[], &[]),
    rule("solera-machine", "machine", Layer::Vocabulary, &["solera-time"], &[]),
    rule(
        "solera-membership",
        "membership",
        Layer::Protocols,
        &["solera-machine", "solera-time"],
        &[],
    ),
    rule("solera-data", "data", Layer::Vocabulary, &["solera-time"], &[]),
    rule(
        "solera-program",
        "program",
        Layer::Vocabulary,
        &["solera-data", "solera-levels"],
        // Some tests compile sources of the language, and some store objects in replicas.
        &["solera-language", "solera-time"],
    ),
    rule(
        "solera-language",
        "language",
        Layer::Protocols,
        &["solera-levels", "solera-program"],
        &["solera-random"],
    ),
    // Shared by the protocols that elect leaders.
    rule("solera-election", "election", Layer::Protocols, &["solera-time"], &[]),
    // Experimental.
    rule(
        "solera-consensus",
        "consensus",
        Layer::Protocols,
        &["solera-election", "solera-machine", "solera-time"],
        &["solera-random"],
    ),
    // Experimental.
    rule(
        "solera-creek",
        "creek",
        Layer::Protocols,
        &["solera-consensus", "solera-machine", "solera-membership", "solera-time"],
        &["solera-random"],
    ),
    // Experimental.
    rule(
        "solera-procedures",
        "procedures",
        Layer::Protocols,
        &["solera-creek", "solera-data", "solera-machine", "solera-program", "solera-time"],
        // The tests compile sources of the language.
        &["solera-language", "solera-levels", "solera-random"],
    ),
    // Experimental. A load for simulations and measurements.
    rule("solera-tpcc", "tpcc", Layer::Protocols, &["solera-creek", "solera-random"], &[]),
    rule(
        "solera-certification",
        "certification",
        Layer::Protocols,
        &["solera-data", "solera-election", "solera-machine", "solera-time"],
        &["solera-random"],
    ),
    rule(
        "solera-unistore",
        "unistore",
        Layer::Protocols,
        &[
            "solera-certification",
            "solera-data",
            "solera-levels",
            "solera-machine",
            "solera-membership",
            "solera-time",
        ],
        &["solera-random"],
    ),
    // The worked example of "Add a protocol" in CONTRIBUTING.md.
    rule(
        "solera-primary",
        "primary",
        Layer::Protocols,
        &["solera-data", "solera-machine", "solera-membership", "solera-time"],
        &["solera-random"],
    ),
    rule(
        "solera-occult",
        "occult",
        Layer::Protocols,
        &["solera-data", "solera-machine", "solera-membership", "solera-time"],
        &["solera-checker", "solera-random"],
    ),
    // Experimental.
    rule(
        "solera-reservations",
        "reservations",
        Layer::Protocols,
        &["solera-machine", "solera-membership", "solera-time"],
        &["solera-checker", "solera-random"],
    ),
    // Exercises the parts of the protocol interface that no other protocol uses yet.
    rule(
        "solera-trial",
        "trial",
        Layer::Protocols,
        &["solera-data", "solera-machine", "solera-membership", "solera-time"],
        &[],
    ),
    // Combines the protocols of one worker.
    rule(
        "solera-site",
        "site",
        Layer::Composition,
        &[
            "solera-creek",
            "solera-data",
            "solera-levels",
            "solera-machine",
            "solera-membership",
            "solera-occult",
            "solera-primary",
            "solera-procedures",
            "solera-reservations",
            "solera-time",
            "solera-trial",
            "solera-unistore",
        ],
        &[],
    ),
    // Checks the behaviour of the protocols, so it shares no code with them.
    rule("solera-checker", "checker", Layer::Protocols, &[], &[]),
    rule("solera-resp", "resp", Layer::Hosting, &[], &[]),
    // Contains the table of commands, which configurations name and sessions run.
    rule("solera-commands", "commands", Layer::Hosting, &[], &[]),
    // Generates unique names for the elements of lists, which ascend with the clock.
    rule("solera-stamps", "stamps", Layer::Hosting, &["solera-data"], &[]),
    // Stores opaque records on a disk.
    rule("solera-journal", "journal", Layer::Hosting, &["solera-random"], &[]),
    rule(
        "solera-host",
        "host",
        Layer::Hosting,
        &["solera-journal", "solera-machine", "solera-time"],
        &[],
    ),
    // Implements connections, queues and frames, generic over the messages.
    rule(
        "solera-links",
        "links",
        Layer::Hosting,
        &["solera-machine", "solera-membership", "solera-time"],
        &["solera-data", "solera-random", "solera-unistore"],
    ),
    // Forwards bytes between any client and any server.
    rule("solera-wan", "wan", Layer::Hosting, &["solera-random"], &[]),
    // Wraps one byte stream in another.
    rule("solera-tls", "tls", Layer::Hosting, &[], &[]),
    // Belongs to the hosting layer because it reads files.
    rule("solera-macros", "macros", Layer::Hosting, &["solera-language", "solera-program"], &[]),
    rule(
        "solera-mixt",
        "mixt",
        Layer::Hosting,
        &["solera-language", "solera-levels", "solera-macros", "solera-program", "solera-random"],
        &[],
    ),
    rule(
        "solera-sim",
        "sim",
        Layer::Hosting,
        &[
            "solera-certification",
            "solera-checker",
            "solera-consensus",
            "solera-creek",
            "solera-data",
            "solera-host",
            "solera-journal",
            "solera-levels",
            "solera-links",
            "solera-machine",
            "solera-membership",
            "solera-occult",
            "solera-primary",
            "solera-procedures",
            "solera-random",
            "solera-reservations",
            "solera-site",
            "solera-time",
            "solera-trial",
            "solera-unistore",
        ],
        &["solera-language", "solera-mixt", "solera-program"],
    ),
    rule(
        "solera-config",
        "config",
        Layer::Hosting,
        &[
            "solera-commands",
            "solera-data",
            "solera-levels",
            "solera-machine",
            "solera-time",
            "solera-tls",
            "solera-unistore",
        ],
        &[],
    ),
    // Implements sessions of clients. A worker's services are parameters.
    rule(
        "solera-session",
        "session",
        Layer::Hosting,
        &[
            "solera-commands",
            "solera-config",
            "solera-creek",
            "solera-data",
            "solera-ipa",
            "solera-levels",
            "solera-machine",
            "solera-membership",
            "solera-occult",
            "solera-primary",
            "solera-procedures",
            "solera-reservations",
            "solera-resp",
            "solera-stamps",
            "solera-time",
            "solera-unistore",
        ],
        &[],
    ),
    rule(
        "solera-node",
        "node",
        Layer::Hosting,
        &[
            "solera-commands",
            "solera-config",
            "solera-creek",
            "solera-data",
            "solera-host",
            "solera-journal",
            "solera-links",
            "solera-machine",
            "solera-membership",
            "solera-occult",
            "solera-primary",
            "solera-procedures",
            "solera-reservations",
            "solera-resp",
            "solera-session",
            "solera-site",
            "solera-time",
            "solera-unistore",
        ],
        &["solera-levels"],
    ),
    // Independent of the transport of its commands: clients send them over RESP, and modules pass
    // them within the process.
    rule(
        "solera-spaces",
        "spaces",
        Layer::Programming,
        &["solera-data", "solera-levels", "solera-mixt", "solera-program", "solera-stamps"],
        &[],
    ),
    // Connects to servers. `CLIENT_MAY_REACH` lists the crates that it may reach.
    rule(
        "solera",
        "client",
        Layer::Programming,
        &[
            "solera-data",
            "solera-ipa",
            "solera-levels",
            "solera-mixt",
            "solera-program",
            "solera-resp",
            "solera-spaces",
            "solera-tls",
        ],
        &["solera-embedded", "solera-language", "solera-random"],
    ),
    rule(
        "solera-modules",
        "modules",
        Layer::Programming,
        &[
            "solera-commands",
            "solera-config",
            "solera-data",
            "solera-language",
            "solera-levels",
            "solera-mixt",
            "solera-node",
            "solera-procedures",
            "solera-program",
            "solera-resp",
            "solera-session",
            "solera-spaces",
        ],
        &["solera", "solera-embedded"],
    ),
    rule(
        "solera-embedded",
        "embedded",
        Layer::Programming,
        &["solera", "solera-config", "solera-mixt", "solera-modules", "solera-node"],
        &[],
    ),
    // Other databases as stores. These crates use the store interface of mixed transactions, and no
    // code of Solera's own database.
    rule(
        "solera-postgres",
        "postgres",
        Layer::Programming,
        &["solera-levels", "solera-mixt", "solera-program", "solera-tls"],
        &["solera-language"],
    ),
    rule(
        "solera-redis",
        "redis",
        Layer::Programming,
        &["solera-levels", "solera-mixt", "solera-program", "solera-tls"],
        &["solera-language"],
    ),
    rule(
        "solera-occult-redis",
        "occult-redis",
        Layer::Programming,
        &[
            "solera-commands",
            "solera-levels",
            "solera-mixt",
            "solera-occult",
            "solera-program",
            "solera-redis",
            "solera-resp",
            "solera-time",
        ],
        &["solera-checker", "solera-language", "solera-random"],
    ),
    rule("solera-backup", "backup", Layer::Programming, &["solera"], &[]),
    rule(
        "solera-bench",
        "bench",
        Layer::Tools,
        &[
            "solera",
            "solera-commands",
            "solera-config",
            "solera-creek",
            "solera-data",
            "solera-embedded",
            "solera-host",
            "solera-language",
            "solera-levels",
            "solera-machine",
            "solera-mixt",
            "solera-modules",
            "solera-node",
            "solera-membership",
            "solera-occult",
            "solera-postgres",
            "solera-primary",
            "solera-program",
            "solera-random",
            "solera-redis",
            "solera-resp",
            "solera-site",
            "solera-time",
            "solera-tpcc",
            "solera-unistore",
            "solera-wan",
        ],
        &[],
    ),
    rule(
        "solera-cli",
        "cli",
        Layer::Tools,
        &[
            "solera",
            "solera-backup",
            "solera-bench",
            "solera-commands",
            "solera-config",
            "solera-creek",
            "solera-embedded",
            "solera-journal",
            "solera-language",
            "solera-levels",
            "solera-mixt",
            "solera-modules",
            "solera-node",
            "solera-occult-redis",
            "solera-postgres",
            "solera-occult",
            "solera-primary",
            "solera-program",
            "solera-random",
            "solera-redis",
            "solera-sim",
            "solera-tls",
            "solera-unistore",
            "solera-wan",
        ],
        &["solera-checker"],
    ),
    rule("xtask", "xtask", Layer::Tools, &[], &[]),
];

const fn rule(
    package: &'static str,
    folder: &'static str,
    layer: Layer,
    may_use: &'static [&'static str],
    tests_may_use: &'static [&'static str],
) -> CrateRule {
    CrateRule { package, folder, layer, may_use, tests_may_use }
}

/// The client library, which users compile into their programs.
const CLIENT: &str = "solera";

/// Crates of the workspace that [`CLIENT`] may reach, directly or through others. The list contains
/// no server, session, host, journal, configuration or protocol.
const CLIENT_MAY_REACH: &[&str] = &[
    "solera-data",
    "solera-ipa",
    "solera-language",
    "solera-levels",
    "solera-macros",
    "solera-mixt",
    "solera-program",
    "solera-random",
    "solera-resp",
    "solera-spaces",
    "solera-stamps",
    "solera-time",
    "solera-tls",
];

/// Foreign crates that do I/O, read clocks or draw random numbers.
const WORLDLY: &[&str] = &[
    "async-io",
    "async-std",
    "axum",
    "chrono",
    "fastrand",
    "getrandom",
    "hyper",
    "libc",
    "mio",
    "nix",
    "rand",
    "rayon",
    "reqwest",
    "rustix",
    "smol",
    "socket2",
    "time",
    "tokio",
    "uuid",
];

/// A dependency as a manifest declares it.
#[derive(Debug)]
struct Dependency {
    name: String,
    for_tests: bool,
}

/// A crate of the workspace as its manifest declares it.
#[derive(Debug)]
struct Package {
    name: String,
    manifest: PathBuf,
    dependencies: Vec<Dependency>,
}

/// Reads the workspace's crates from cargo, and checks them against the architecture.
pub(crate) fn check(root: &Path) -> Vec<Finding> {
    match metadata(root) {
        Ok(metadata) => {
            let packages = packages(&metadata, root);
            let judged = packages.iter().flat_map(|package| judge(package, root));
            judged.chain(reached_by_client(&packages)).collect()
        }
        Err(reason) => {
            let what = format!("cargo metadata does not answer: {reason}");
            vec![Finding::new(Path::new("Cargo.toml"), 1, what, "fix the manifests first")]
        }
    }
}

fn metadata(root: &Path) -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version=1"])
        .current_dir(root)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn packages(metadata: &Value, root: &Path) -> Vec<Package> {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        for_tests: value["kind"].as_str() == Some("dev"),
    };
    let package = |value: &Value| {
        let manifest = PathBuf::from(text(&value["manifest_path"]));
        Package {
            name: text(&value["name"]),
            manifest: manifest.strip_prefix(&root).unwrap_or(&manifest).to_owned(),
            dependencies: list(&value["dependencies"]).iter().map(dependency).collect(),
        }
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

fn judge(package: &Package, root: &Path) -> Vec<Finding> {
    let Some(rule) = CRATES.iter().find(|rule| rule.package == package.name) else {
        let what = format!("{} has no place in the layers", package.name);
        let fix = "give it one in crates/xtask/src/tidy/layers.rs and in ARCHITECTURE.md";
        return vec![Finding::new(&package.manifest, 1, what, fix)];
    };
    let manifest = fs::read_to_string(root.join(&package.manifest)).unwrap_or_default();
    let unwelcome = package.dependencies.iter().filter_map(|dependency| {
        let (what, fix) = objection(rule, dependency)?;
        let line = line_of(&manifest, &dependency.name);
        Some(Finding::new(&package.manifest, line, what, fix))
    });
    unwelcome.chain(unused(rule, package)).collect()
}

/// Reports permitted dependencies that the crate does not have. As [`CRATES`] permits only what is
/// used, each new dependency is a deliberate change of that table.
fn unused<'a>(rule: &'a CrateRule, package: &'a Package) -> impl Iterator<Item = Finding> + 'a {
    let permitted = rule.may_use.iter().map(|used| (*used, false));
    let permitted = permitted.chain(rule.tests_may_use.iter().map(|used| (*used, true)));
    let is_unused = |(used, for_tests): &(&str, bool)| {
        let mut dependencies = package.dependencies.iter();
        !dependencies.any(|it| it.name == *used && it.for_tests == *for_tests)
    };
    permitted.filter(is_unused).map(|(used, for_tests)| {
        let tests = if for_tests { " in its tests" } else { "" };
        let what = format!("{} may use {used}{tests}, and does not", rule.package);
        let fix = "take the permission out of crates/xtask/src/tidy/layers.rs";
        Finding::new(&package.manifest, 1, what, fix)
    })
}

/// Reports each crate that the client reaches and must not reach, with the path to it. Ignores
/// dependencies of tests.
fn reached_by_client(packages: &[Package]) -> Vec<Finding> {
    let package = |name: &str| packages.iter().find(|package| package.name == name);
    let mut ways = vec![vec![CLIENT]];
    let mut reached = BTreeSet::new();
    let mut findings = Vec::new();
    while let Some(way) = ways.pop() {
        let Some(last) = way.last().and_then(|name| package(name)) else { continue };
        for used in last.dependencies.iter().filter(|it| !it.for_tests) {
            let Some(next) = package(&used.name) else { continue };
            if !reached.insert(next.name.as_str()) {
                continue;
            }
            let way: Vec<&str> = way.iter().copied().chain([next.name.as_str()]).collect();
            if !CLIENT_MAY_REACH.contains(&next.name.as_str()) {
                let what = format!(
                    "{CLIENT} must not reach {}: {}; a client needs no server",
                    next.name,
                    way.join(" -> ")
                );
                let fix = "move what the client needs to a crate that stands in CLIENT_MAY_REACH";
                findings.push(Finding::new(&last.manifest, 1, what, fix));
            }
            ways.push(way);
        }
    }
    let unreached = CLIENT_MAY_REACH.iter().filter(|name| !reached.contains(**name));
    findings.extend(unreached.map(|name| {
        let what = format!("{CLIENT} may reach {name}, and does not");
        let fix = "take the permission out of crates/xtask/src/tidy/layers.rs";
        Finding::new(Path::new("crates/xtask/src/tidy/layers.rs"), 1, what, fix)
    }));
    findings
}

/// Returns the violation by a dependency, and its fix; `None` for a permitted dependency.
///
/// [`CRATES`] permits pure crates to use only pure crates, which a test checks. It is therefore
/// enough to check the direct dependencies of each pure crate for crates that do I/O.
fn objection(rule: &CrateRule, dependency: &Dependency) -> Option<(String, String)> {
    let used = dependency.name.as_str();
    if CRATES.iter().any(|other| other.package == used) {
        // A crate's tests name the crate itself to enable features for tests.
        let in_tests = rule.tests_may_use.contains(&used) || used == rule.package;
        let welcome = rule.may_use.contains(&used) || (dependency.for_tests && in_tests);
        let what = format!("{} must not use {used}: arrows point down only", rule.package);
        let fix = "move what both need to a lower layer, or turn the dependency round";
        return (!welcome).then(|| (what, fix.to_owned()));
    }
    let worldly = rule.pure() && !dependency.for_tests && WORLDLY.contains(&used);
    let user = &rule.package;
    let what =
        format!("{user} must not use {used}: {user} must do no I/O and have no hidden inputs");
    let fix = "let the host do it, and bring the result in as an input";
    worldly.then(|| (what, fix.to_owned()))
}

/// Returns the line on which a manifest names a dependency, or 1 if it does not name it.
fn line_of(manifest: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let line = line.trim_start().trim_start_matches('[');
        let rest = ["dependencies.", "dev-dependencies.", "build-dependencies.", ""]
            .iter()
            .find_map(|table| line.strip_prefix(table)?.strip_prefix(dependency));
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=', ']']))
    };
    manifest.lines().position(names).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, used: &str, kind: Option<&str>) -> Vec<Finding> {
        let metadata = json!({ "packages": [{
            "name": name, "manifest_path": "/nowhere/Cargo.toml",
            "dependencies": [{ "name": used, "kind": kind }],
        }] });
        let root = Path::new("/nowhere");
        let findings = packages(&metadata, root).into_iter().flat_map(|it| judge(&it, root));
        // The package uses none of the other permitted crates, which is reported, too.
        findings.filter(|it| !it.to_string().contains("and does not")).collect()
    }

    #[test]
    fn what_is_permitted_and_not_used_is_found() {
        let metadata = json!({ "packages": [{
            "name": "solera-host", "manifest_path": "/nowhere/Cargo.toml",
            "dependencies": [
                { "name": "solera-journal", "kind": null },
                { "name": "solera-machine", "kind": null },
                { "name": "solera-time", "kind": "dev" },
            ],
        }] });
        let root = Path::new("/nowhere");
        let found: Vec<String> = packages(&metadata, root)
            .iter()
            .flat_map(|package| judge(package, root))
            .map(|finding| finding.to_string())
            .collect();
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert!(finding.contains("solera-host may use solera-time, and does not"), "{finding}");
    }

    #[test]
    fn arrows_that_point_down_are_fine() {
        assert_eq!(found("solera-data", "solera-time", None), []);
        assert_eq!(found("solera-unistore", "smallvec", None), []);
        assert_eq!(found("solera-node", "tokio", None), []);
    }

    #[test]
    fn arrows_that_point_up_or_aside_are_found() {
        assert_eq!(found("solera-time", "solera-data", None).len(), 1);
        assert_eq!(found("solera-checker", "solera-unistore", None).len(), 1);
        assert_eq!(found("solera-resp", "solera-node", None).len(), 1);
        assert_eq!(found("solera-cli", "xtask", None).len(), 1);
    }

    #[test]
    fn tests_may_use_more_but_not_everything() {
        assert_eq!(found("solera-links", "solera-data", None).len(), 1);
        assert_eq!(found("solera-links", "solera-data", Some("dev")), []);
        assert_eq!(found("solera-links", "solera-links", Some("dev")), []);
        assert_eq!(found("solera-links", "solera-node", Some("dev")).len(), 1);
    }

    #[test]
    fn worldly_crates_stay_out_of_machines() {
        assert_eq!(found("solera-unistore", "tokio", None).len(), 1);
        assert_eq!(found("solera-unistore", "rand", Some("build")).len(), 1);
        assert_eq!(found("solera-unistore", "rand", Some("dev")), []);
    }

    /// Returns the findings about the client's dependencies for these dependencies between crates.
    fn reached(arrows: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let names: BTreeSet<&str> = arrows.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        let package = |name: &&str| {
            let used = arrows.iter().filter(|(from, ..)| from == name);
            let used = used.map(|(_, to, kind)| json!({ "name": to, "kind": kind }));
            json!({
                "name": name, "manifest_path": format!("/nowhere/{name}/Cargo.toml"),
                "dependencies": used.collect::<Vec<_>>(),
            })
        };
        let metadata = json!({ "packages": names.iter().map(package).collect::<Vec<_>>() });
        let findings = reached_by_client(&packages(&metadata, Path::new("/nowhere")));
        let findings = findings.iter().map(ToString::to_string);
        findings.filter(|it| !it.contains("and does not")).collect()
    }

    #[test]
    fn what_a_client_must_not_reach_is_found_with_the_way_there() {
        let fine = ("solera", "solera-mixt", None);
        assert_eq!(reached(&[fine, ("solera", "solera-embedded", Some("dev"))]), [""; 0]);
        let found = reached(&[fine, ("solera-mixt", "solera-unistore", None)]);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert!(finding.contains("solera -> solera-mixt -> solera-unistore"), "{finding}");
        assert!(finding.starts_with("solera-mixt/Cargo.toml"), "{finding}");
        // A new crate is forbidden for clients until `CLIENT_MAY_REACH` lists it.
        assert_eq!(reached(&[("solera", "solera-attic", Some("build"))]).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(found("solera-attic", "serde", None).len(), 1);
    }

    #[test]
    fn pure_crates_reach_pure_crates_alone_and_nothing_points_up() {
        let place = |name: &str| CRATES.iter().find(|rule| rule.package == name).unwrap();
        for rule in CRATES {
            for used in rule.may_use {
                assert!(place(used).layer <= rule.layer, "{} -> {used}", rule.package);
            }
            let mut reached = BTreeSet::new();
            let mut next = vec![rule.package];
            while let Some(name) = next.pop() {
                assert!(!rule.pure() || place(name).pure(), "{} reaches {name}", rule.package);
                let news = place(name).may_use.iter().filter(|used| reached.insert(**used));
                next.extend(news);
            }
            assert!(!reached.contains(rule.package), "{} reaches itself", rule.package);
        }
    }

    #[test]
    fn a_dependency_is_found_where_the_manifest_names_it() {
        let manifest =
            "[dependencies]\ntime = \"1\"\nsolera-time-x = \"1\"\nsolera-time.workspace = true\n";
        assert_eq!(line_of(manifest, "solera-time"), 4);
        assert_eq!(line_of("[a]\n\n[dev-dependencies.rand]\n", "rand"), 3);
        assert_eq!(line_of("", "rand"), 1);
    }
}
