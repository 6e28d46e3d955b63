//! Tests `solera bench`.

mod common;

use common::{Folder, SOLERA, Up, solera, text};
use serde_json::Value;

/// Options of a short run without pauses.
const SHORT: [&str; 8] = ["--think-ms", "0", "--ramp-up", "0", "--warm-up", "0", "--seconds", "1"];

fn bench(arguments: &[&str]) -> std::process::Output {
    solera(&[&["bench"], arguments, &SHORT].concat())
}

#[test]
fn bench_measures_a_running_cluster_at_all_its_sites() {
    let up = Up::start(&["--sites", "2"]);
    let at = format!("{},{}", up.at(1), up.at(2));
    // One client, because causal transactions keep the invariants only without concurrency.
    let arguments =
        ["--at", &at, "--strong", "causal", "--scale", "tiny", "--clients", "1", "--json"];
    let output = bench(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["sites"], serde_json::json!(["virginia", "california"]));
    assert!(report["total"]["count"].as_u64() > Some(0), "{report}");
    assert_eq!(report["errors"], serde_json::json!({}));
    assert_eq!(report["transactions"].as_array().map(Vec::len), Some(17));
    assert_eq!(report["invariants"].as_array().map(Vec::len), Some(4));

    // The loaded data serves the next run, but not a run with another scale.
    assert!(text(&output.stderr).contains("loading"));
    let again = bench(&["--at", &at, "--strong", "causal", "--scale", "tiny", "--clients", "1"]);
    assert!(!text(&again.stderr).contains("loading"), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("the highest bid wins: holds"), "{}", text(&again.stdout));
    let other = bench(&["--at", &at, "--strong", "causal", "--scale", "small"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("holds the data of 'tiny'"), "{}", text(&other.stderr));
}

#[test]
fn missing_spaces_of_a_running_cluster_are_reported() {
    let folder = Folder::new();
    let printed = solera(&["bench", "--workload", "rubis", "--print-spaces"]);
    let spaces = text(&printed.stdout);
    let start = |name: &str, spaces: &str| {
        let config = folder.file(name, spaces);
        Up::start(&["--sites", "1", "--config", config.to_str().unwrap()])
    };
    let tiny = ["--scale", "tiny", "--clients", "1"];
    let run =
        |up: &Up, how: &str| bench(&[&["--at", &up.at(1), "--strong", how], &tiny[..]].concat());
    let refused = |output: std::process::Output, reason: &str| {
        let errors = text(&output.stderr);
        assert!(output.status.code() == Some(1) && errors.contains(reason), "{errors}");
        assert!(!errors.contains("loading"), "{errors}");
        errors
    };
    // Two of three spaces exist, but one of them declares other commands as strong.
    let (two, third) = spaces.split_at(spaces.rfind("[[space]]").unwrap());
    let other = start("other.toml", &two.replace("\"DECRBY\"", "\"INCRBY\""));
    let error = refused(run(&other, "solera"), "no space for keys beginning with 'rubis:auction:'");
    assert!(error.contains("in space 'rubis-stock' ('rubis:stock:') other commands"), "{error}");
    assert!(error.contains(third.trim()) && !error.contains("rubis:nick:"), "{error}");
    let up = start("same.toml", &spaces);
    assert_eq!(run(&up, "solera").status.code(), Some(0));
    refused(run(&up, "causal"), "the cluster has them in 'rubis-auctions', which is por");
}

#[test]
fn invalid_options_are_reported() {
    for (arguments, code, reason) in [
        (vec![], 2, "choose a cluster: --at HOST:PORT,… or --up SITES"),
        (vec!["--up", "0", "--strong", "causal"], 2, "a cluster has 1 to 7 sites"),
        (vec!["--up", "1", "--at", "localhost:1"], 2, "cannot be used with"),
        (
            vec!["--up", "1", "--keys", "5"],
            2,
            "--keys belongs to the workload micro, and this is rubis; use --workload micro, or omit the option",
        ),
        (
            vec!["--workload", "tpcc", "--up", "1", "--contended", "2"],
            2,
            "--contended belongs to the workload rubis, and this is tpcc",
        ),
        (vec!["--up", "1", "--warehouses", "2"], 2, "--warehouses belongs to the workload tpcc"),
        (vec!["--workload", "tpcc", "--up", "1", "--warehouses", "0"], 2, "0 is not in 1.."),
        (
            vec!["--workload", "tpcc", "--up", "1", "--strong", "causal"],
            2,
            "--strong causal does not apply to tpcc",
        ),
        (
            vec!["--workload", "micro", "--up", "1", "--value-bytes", "5", "--contended", "2"],
            2,
            "--contended belongs to the workload rubis, and this is micro",
        ),
        (vec!["--up", "1", "--variant", "weak"], 2, "--variant belongs to the workload tickets"),
        (
            vec!["--workload", "retwis", "--up", "1", "--tickets", "9"],
            2,
            "--tickets belongs to the workload tickets, and this is retwis",
        ),
        (
            vec!["--workload", "tickets", "--up", "1", "--users", "9"],
            2,
            "--users belongs to the workload retwis, and this is tickets",
        ),
        (vec!["--workload", "tickets", "--up", "1", "--tickets", "0"], 2, "0 is not in 1.."),
        (
            vec!["--workload", "tickets", "--up", "1", "--variant", "causal"],
            2,
            "the variants are strong, weak, latency-bound, error-bound",
        ),
        (
            vec!["--workload", "retwis", "--up", "1", "--strong", "causal"],
            2,
            "--strong causal does not apply to retwis, which has the variant weak",
        ),
        (vec!["--at", "localhost"], 2, "'localhost' does not have the form HOST:PORT"),
        (vec!["--at", "127.0.0.1:1"], 1, "127.0.0.1:1: the connection failed"),
        (vec!["--wan", "aws"], 2, "--up"),
        (vec!["--up", "1", "--scale", "huge"], 2, "the scales are tiny, small, medium, full"),
        (vec!["--up", "1", "--contended", "0"], 2, "0 is not in 1.."),
        (vec!["--up", "1", "--strong", "weak"], 2, "are run as 'solera' or 'causal'"),
        (
            vec!["--up", "1", "--strong", "causal", "--clients", "0"],
            2,
            "number of clients must be at least 1",
        ),
    ] {
        let output = bench(&arguments);
        let errors = text(&output.stderr);
        assert!(output.status.code() == Some(code) && errors.contains(reason), "{errors}");
    }
}

#[test]
fn spaces_are_printed_in_the_format_of_a_configuration() {
    for (workload, spaces) in [("rubis", 3), ("micro", 1)] {
        let output = std::process::Command::new(SOLERA)
            .args(["bench", "--workload", workload, "--print-spaces"])
            .output()
            .unwrap();
        let output = text(&output.stdout);
        assert_eq!(output.matches("[[space]]").count(), spaces, "{output}");
        assert_eq!(output.matches("level = \"por\"").count(), spaces, "{output}");
    }
    for (workload, last) in [("tickets", "counter"), ("retwis", "set")] {
        let output = text(&solera(&["bench", "--workload", workload, "--print-spaces"]).stdout);
        assert_eq!(output.matches("[[space]]").count(), 5, "{output}");
        let last = format!("type = \"{last}\"\nerror = \"5%\"\n");
        assert!(output.ends_with(&last), "{output}");
    }
    let output = text(&solera(&["bench", "--workload", "tpcc", "--print-spaces"]).stdout);
    assert!(output.contains("prefix = \"tpcc:\"\nlevel = \"speculative\""), "{output}");
}

#[test]
fn tpcc_runs_in_the_speculative_space_of_a_running_cluster() {
    // A space of another name than the one that --print-spaces prints.
    let spaces = "[[space]]\nname = 'orders'\nprefix = 'o:'\nlevel = 'speculative'\n";
    let up = Up::configured(spaces, "");
    let at = [1, 2, 3].map(|site| up.at(site)).join(",");
    let run = |scale: &str| {
        let options = ["--workload", "tpcc", "--at", &at, "--scale", scale, "--json"];
        bench(&[&options[..], &["--warehouses", "2", "--clients", "6"]].concat())
    };
    let output = run("tiny");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("loaded 5384 rows"), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    let count = |row: &str| {
        let rows = report["transactions"].as_array().unwrap();
        rows.iter().find(|it| it["name"] == row).unwrap()["count"].as_u64().unwrap()
    };
    assert!(count("New-Order") > 0 && count("Payment") > 0, "{report}");
    assert_eq!(count("Payment"), count("Payment, tentative"));
    let kinds = ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"];
    assert_eq!(report["total"]["count"], kinds.map(count).iter().sum::<u64>());
    let classes: Vec<_> =
        report["classes"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(classes, ["weak", "tentative", "stable"]);
    let invariants = report["invariants"].as_array().unwrap();
    assert_eq!(invariants.len(), 15);
    assert!(invariants.iter().all(|it| it["broken"] == 0 && it["checked"].as_u64() > Some(0)));

    // The tables serve the next run, and the conditions still hold.
    let again = run("tiny");
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(!text(&again.stderr).contains("loading"), "{}", text(&again.stderr));
    let other = run("small");
    assert_eq!(other.status.code(), Some(1));
    let why = "holds the data of 'tpcc, 2 warehouses, tiny'";
    assert!(text(&other.stderr).contains(why), "{}", text(&other.stderr));
}

#[test]
fn tpcc_needs_a_speculative_space() {
    let up = Up::start(&["--sites", "1"]);
    let output = bench(&["--workload", "tpcc", "--at", &up.at(1), "--scale", "tiny"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("there is no space of level speculative"), "{errors}");
    assert!(errors.contains("prefix = \"tpcc:\""), "{errors}");
}

/// Starts a cluster with the spaces of a workload.
fn up_for(workload: &str, change: impl Fn(String) -> String) -> Up {
    let spaces = text(&solera(&["bench", "--workload", workload, "--print-spaces"]).stdout);
    let folder = Folder::new();
    let config = folder.file("spaces.toml", &change(spaces));
    Up::start(&["--config", config.to_str().unwrap()])
}

/// Runs the variants of a service at all sites of a cluster; returns their reports.
fn compare(up: &Up, arguments: &[&str]) -> Vec<Value> {
    let at = [1, 2, 3].map(|site| up.at(site)).join(",");
    let options = ["--at", &at, "--clients", "6", "--threads", "2", "--json"];
    let output = bench(&[&options[..], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let variants = report["variants"].as_array().unwrap().clone();
    for variant in &variants {
        assert!(variant["total"]["count"].as_u64() > Some(0), "{variant}");
        let invariants = variant["invariants"].as_array().unwrap();
        assert!(invariants.iter().all(|invariant| invariant["broken"] == 0), "{variant}");
        assert!(invariants[1]["checked"].as_u64() > Some(0), "{variant}");
    }
    variants
}

fn names(variants: &[Value]) -> Vec<&str> {
    variants.iter().map(|variant| variant["variant"].as_str().unwrap()).collect()
}

/// Checks the levels and intervals of the variants of a service: strong, weak, latency-bound and
/// error-bound.
fn check_observations(variants: &[Value]) {
    assert_eq!(names(variants), ["strong", "weak", "latency-bound", "error-bound"]);
    let levels = |variant: usize| {
        let levels = variants[variant]["levels"].as_object().unwrap();
        levels.keys().map(String::as_str).collect::<Vec<_>>()
    };
    assert_eq!((levels(0), levels(1)), (vec!["linearizable"], vec!["causal"]));
    let permitted = ["causal", "linearizable"];
    assert!(levels(2).iter().all(|level| permitted.contains(level)) && !levels(2).is_empty());
    for (number, variant) in variants.iter().enumerate() {
        let intervals = variant["intervals"]["count"].as_u64();
        assert_eq!(intervals > Some(0), number == 3, "{variant}");
        assert!(variant["over_weak"]["operations/s"].as_f64() > Some(0.0), "{variant}");
    }
    assert_eq!(variants[1]["over_weak"]["operations/s"], 1.0);
}

#[test]
fn tickets_are_sold_in_all_variants_at_a_running_cluster() {
    let up = up_for("tickets", |spaces| spaces);
    let variants = compare(&up, &["--workload", "tickets"]);
    check_observations(&variants);
    for variant in &variants {
        assert!(variant["purchases"]["sold"].as_u64() > Some(0), "{variant}");
        assert_eq!(variant["invariants"][1]["checked"], 200, "{variant}");
    }
    // Events with one ticket each sell out. How many purchases there are depends on the machine.
    let few = ["--workload", "tickets", "--tickets", "1", "--variant", "weak"];
    let sold_out = |_| {
        let variants = compare(&up, &few);
        assert_eq!(names(&variants), ["weak"]);
        variants[0]["purchases"]["sold out"].as_u64() > Some(0)
    };
    assert!((0..10).any(sold_out), "no event has sold out");
}

#[test]
fn tweets_are_posted_in_all_variants_at_a_running_cluster() {
    let up = up_for("retwis", |spaces| spaces);
    let variants = compare(&up, &["--workload", "retwis", "--users", "120"]);
    check_observations(&variants);
    for variant in &variants {
        let kinds = variant["transactions"].as_array().unwrap();
        let names: Vec<_> = kinds.iter().map(|kind| kind["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["timeline", "tweet", "retweet", "follow", "new user"]);
    }
}

#[test]
fn services_need_their_spaces() {
    let changed = |spaces: String| spaces.replace("type = \"list\"\n", "").replace("5%", "4%");
    let up = up_for("tickets", changed);
    let output = bench(&["--workload", "tickets", "--at", &up.at(1)]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for reason in [
        "space 'tickets-list' ('tickets:list:') has no type, not type list",
        "space 'tickets-e5' ('tickets:e5:') has type counter and an error bound of 4%, not type \
         counter and an error bound of 5%",
        "[[space]]\nname = \"tickets-list\"\nprefix = \"tickets:list:\"\nlevel = \"causal\"\ntype",
    ] {
        assert!(errors.contains(reason), "{errors}");
    }
    assert!(!errors.contains("loading") && !errors.contains("tickets:pool:"), "{errors}");

    let output = bench(&["--workload", "retwis", "--at", &up.at(1)]);
    let errors = text(&output.stderr);
    assert!(errors.contains("no space for keys beginning with 'retwis:s5:'"), "{errors}");
}
