//! Tests `solera check` and `solera explain`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const GOOD: &str = "store a : linearizable; store b : causal;
transaction post(x: handle<counter> in a, ys: handle<list<int>> in b) {
    x.add(endorse(linearizable, ys.size()));
    ys.push(x.value());
}
transaction read(x: handle<counter> in a) -> int { return x.value(); }
";

const BAD: &str = "store a : linearizable; store b : causal;
transaction ü(x: handle<counter> in a) { }
transaction t(x: handle<counter> in a, ys: handle<list<int>> in b) { x.add(ys.size()); }
";

fn solera(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_solera")).args(args).output().unwrap()
}

fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_solera"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Writes a file with this content.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn check_reports_errors_and_exit_codes() {
    let good = fed(&["check", "-"], GOOD.as_bytes());
    assert_eq!(good.status.code(), Some(0));
    assert_eq!(text(&good.stderr), "checked 1 file, 2 transactions: no errors\n");
    assert!(good.stdout.is_empty());
    let path = file("bad.mixt", BAD.as_bytes());
    let bad = solera(&["check", path.to_str().unwrap()]);
    assert_eq!(bad.status.code(), Some(1));
    let errors = text(&bad.stderr);
    assert!(
        errors.contains("error[E0001]") && errors.ends_with("checked 1 file: 1 error\n"),
        "{errors}"
    );
    assert!(!errors.contains('\u{1b}'), "no colours where no terminal is");
}

#[test]
fn check_continues_after_unreadable_files() {
    let good = file("good.mixt", GOOD.as_bytes());
    let not_text = file("bytes.mixt", b"store a : causal;\n\xff");
    let large = file("large.mixt", &vec![b' '; (1 << 20) + 1]);
    let folder = env!("CARGO_TARGET_TMPDIR");
    let [good, not_text, large] = [&good, &not_text, &large].map(|path| path.to_str().unwrap());
    let out = solera(&["check", "no/such.mixt", folder, not_text, large, good]);
    assert_eq!(out.status.code(), Some(2));
    let errors = text(&out.stderr);
    for part in [
        "cannot read no/such.mixt: ",
        "is a directory; name the files in it",
        "is not UTF-8: byte 18, at 2:1,",
        "is longer than 1048576 bytes",
        "checked 1 file, 2 transactions: no errors",
    ] {
        assert!(errors.contains(part), "'{part}' is not in {errors}");
    }
}

#[test]
fn check_prints_statistics_as_text_and_json() {
    let out = fed(&["check", "--stats", "-"], GOOD.as_bytes());
    assert_eq!(
        text(&out.stdout),
        "<stdin>\n  \
         transaction  phases  stores in order  endorsements  handed on  witnesses\n  \
         post         3       b, a, b          1             2          a, b\n  \
         read         1       a                0             0          none\n"
    );
    let out = fed(&["check", "--json", "-"], GOOD.as_bytes());
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let post = &report["files"][0]["transactions"][0];
    assert_eq!((&post["phases"], &post["endorsements"]), (&3.into(), &1.into()));
    assert_eq!(post["stores"], serde_json::json!(["b", "a", "b"]));
}

#[test]
fn check_prints_positions_as_json() {
    let source = BAD.replace('ü', "u");
    let out = fed(&["check", "--json", "-"], source.as_bytes());
    assert_eq!(out.status.code(), Some(1));
    assert!(out.stderr.is_empty());
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let error = &report["files"][0]["diagnostics"][0];
    assert_eq!((&error["code"], &error["severity"]), (&"E0101".into(), &"error".into()));
    let place =
        ["line", "column", "end_line", "end_column"].map(|key| error[key].as_u64().unwrap());
    assert_eq!(place, [3, 70, 3, 86]);
    assert!(error["marks"][0]["text"].as_str().unwrap().contains("its size is causal"));
    assert!(!error["helps"].as_array().unwrap().is_empty());
    assert_eq!(report["files"][0]["transactions"], serde_json::json!([]));
}

#[test]
fn explain_shows_all_transactions_or_one_as_text_json_and_picture() {
    let path = file("explained.mixt", GOOD.as_bytes());
    let path = path.to_str().unwrap();
    let all = solera(&["explain", path]);
    assert!(
        text(&all.stdout).contains("transaction post")
            && text(&all.stdout).contains("transaction read")
    );
    let one = solera(&["explain", path, "read"]);
    assert!(!text(&one.stdout).contains("transaction post"));
    assert!(text(&one.stdout).contains("phase 1: a (linearizable)"));
    let data = solera(&["explain", path, "post", "--json"]);
    let report: Value = serde_json::from_slice(&data.stdout).unwrap();
    let phases = report["transactions"][0]["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 3);
    assert_eq!(phases[0]["endorsing"], true);
    assert_eq!(phases[0]["hands"][0]["values"][0]["type"], "int");
    let picture = file("explained.svg", b"");
    let drawn = solera(&["explain", path, "--svg", picture.to_str().unwrap()]);
    assert!(drawn.status.success());
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    let chart = file("explained.mmd", b"");
    let drawn = solera(&["explain", path, "--mermaid", chart.to_str().unwrap()]);
    assert!(drawn.status.success());
    assert!(std::fs::read_to_string(&chart).unwrap().starts_with("flowchart LR\n"));
    let both = ["explain", path, "--mermaid", "a.mmd", "--svg", "a.svg"];
    assert_eq!(solera(&both).status.code(), Some(2));
}

#[test]
fn explain_reports_unknown_names_and_missing_transactions() {
    let path = file("there.mixt", GOOD.as_bytes());
    let none = solera(&["explain", path.to_str().unwrap(), "pst"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("did you mean 'post'?"));
    let none = solera(&["explain", path.to_str().unwrap(), "delete"]);
    assert!(text(&none.stderr).contains("it has post, read"));
    let code = solera(&["explain", "e0101"]);
    assert!(text(&code.stdout).starts_with("E0101: ") && !text(&code.stdout).contains("```"));
    assert_eq!(solera(&["explain", "E9999"]).status.code(), Some(2));
    let bad = fed(&["explain", "-"], BAD.as_bytes());
    assert_eq!(bad.status.code(), Some(1));
    assert!(bad.stdout.is_empty() && text(&bad.stderr).contains("E0001"));
    let empty = fed(&["explain", "-"], b"store a : causal;");
    assert_eq!(empty.status.code(), Some(2));
    assert!(text(&empty.stderr).contains("<stdin> has no transactions"));
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nothing.svg");
    let drawn = fed(&["explain", "-", "--svg", picture.to_str().unwrap()], b"store a : causal;");
    assert_eq!(drawn.status.code(), Some(2));
    assert!(text(&drawn.stderr).contains("<stdin> has no transactions"));
    assert!(!picture.exists(), "a picture of nothing was written");
    let data = fed(&["explain", "-", "--json"], b"store a : causal;");
    let report: Value = serde_json::from_slice(&data.stdout).unwrap();
    assert_eq!(report["transactions"], serde_json::json!([]), "programs find an empty list");
}
