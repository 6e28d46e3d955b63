//! Checks explanations as text, as pictures and as data.

use std::fs;
use std::path::Path;

use solera_language::compile::{Compiled, compile};
use solera_language::explain::{self, Transaction};

/// Programs without errors, by file name.
fn programs() -> Vec<(String, Vec<Transaction>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata");
    let mut programs = Vec::new();
    for part in ["split", "flows", "parse/good", "check"] {
        for entry in fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "mixt") {
                let source = fs::read_to_string(&path).unwrap();
                let compiled = compile(&source);
                if compiled.program.is_some() {
                    let transactions = explain::transactions(&compiled, &source);
                    programs.push((path.display().to_string(), transactions));
                }
            }
        }
    }
    assert!(programs.len() > 5);
    programs
}

fn explained(source: &str) -> Vec<Transaction> {
    let compiled: Compiled = compile(source);
    assert!(compiled.program.is_some(), "{:?}", compiled.diagnostics);
    explain::transactions(&compiled, source)
}

/// Returns why a text is not well-formed XML, as far as pictures use it: elements, attributes in
/// double quotes, text, and the five entities.
fn fault(xml: &str) -> Option<String> {
    let plain = |text: &str| {
        let entity = |rest: &str| {
            ["amp;", "lt;", "gt;", "quot;", "apos;"].iter().any(|name| rest.starts_with(name))
        };
        let control = |letter: char| letter.is_control() && letter != '\n';
        !text.contains('<') && !text.contains(control) && text.split('&').skip(1).all(entity)
    };
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    let mut roots = 0;
    while let Some((text, after)) = rest.split_once('<') {
        if !plain(text) || open.is_empty() && !text.trim().is_empty() {
            return Some(format!("text: {text}"));
        }
        let (tag, after) = after.split_once('>')?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("closes: {name}"));
            }
            continue;
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        // The parts alternate between name and value, and the last part is empty.
        let parts: Vec<_> = attributes.split('"').collect();
        let named =
            |part: &&str| part.trim().strip_suffix('=').is_some_and(|name| !name.contains(' '));
        let names = parts.iter().step_by(2);
        let fine = names.clone().take(parts.len() / 2).all(named)
            && parts.last().is_some_and(|last| last.trim().is_empty())
            && parts.iter().all(|part| plain(part));
        if !fine {
            return Some(format!("tag: {tag}"));
        }
        roots += usize::from(open.is_empty());
        if !empty {
            open.push(name);
        }
    }
    (!open.is_empty() || roots != 1 || !rest.trim().is_empty()).then(|| format!("end: {open:?}"))
}

#[test]
fn the_xml_check_detects_faults() {
    assert_eq!(fault("<a x=\"1\"><b/>text &amp; more</a>\n"), None);
    for wrong in [
        "<a>",
        "<a></b>",
        "<a x=1/>",
        "<a>&</a>",
        "<a>&nbsp;</a>",
        "<a/><b/>",
        "<a x=\"<\"/>",
        "<a>\u{1}</a>",
    ] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn pictures_are_well_formed() {
    for (name, transactions) in programs() {
        let svg = explain::svg(&transactions);
        assert_eq!(fault(&svg), None, "{name}");
        for line in transactions.iter().flat_map(|one| &one.phases).flat_map(|one| &one.code) {
            let shown: String =
                line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let shown: String = shown.replace('"', "&quot;").chars().take(40).collect();
            assert!(svg.contains(&shown), "{name} lacks {line}");
        }
    }
}

#[test]
fn texts_of_a_program_are_escaped_in_a_picture() {
    let source = "store s : causal;
        transaction t(log: handle<log<string>> in s) { log.append(\"</svg>&\\\"\\u{1}\\u{FFFF}<!--\"); }";
    assert_eq!(fault(&explain::svg(&explained(source))), None);
}

#[test]
fn witnesses_are_marked_where_two_atomic_stores_are_written() {
    let source = "store a : linearizable; store b : causal;
        transaction t(x: handle<counter> in a, y: handle<counter> in b) { x.add(1); y.add(1); }";
    let transactions = explained(source);
    assert_eq!(transactions[0].witnesses.stores, ["a", "b"]);
    assert_eq!(explain::svg(&transactions).matches("marked by witnesses").count(), 2);
    let one = source.replace("y.add(1);", "");
    assert!(!explain::svg(&explained(&one)).contains("marked by witnesses"));
}

/// Numbers of plain and dashed arrows of the drawings.
fn arrows(transactions: &[Transaction]) -> [(usize, usize); 2] {
    let svg = explain::svg(transactions);
    let count = |class: &str| svg.matches(&format!("<path class=\"{class}\"")).count();
    let mermaid = explain::mermaid(transactions);
    let drawn = |arrow: &str| mermaid.matches(arrow).count();
    [(count("arrow"), count("arrow order")), (drawn(" -->|"), drawn(" -.->|"))]
}

#[test]
fn an_arrow_leads_to_every_phase_but_the_first() {
    let source = "store a : causal; store b : eventual;
        transaction t(x: handle<counter> in a, y: handle<log<string>> in b) {
            x.add(1);
            y.append(\"x\");
        }";
    assert_eq!(arrows(&explained(source)), [(0, 1), (0, 1)]);
    let led = source
        .replace("x.add(1)", "if *x > 3 { y.append(\"y\"); }")
        .replace("counter", "register<int>");
    assert_eq!(arrows(&explained(&led)), [(1, 0), (1, 0)]);
    for (name, transactions) in programs() {
        let phases =
            transactions.iter().map(|one| one.phases.len().saturating_sub(1)).sum::<usize>();
        let [svg, mermaid] = arrows(&transactions);
        assert_eq!(svg, mermaid, "{name}");
        assert!(svg.0 + svg.1 >= phases, "{name}");
    }
}

#[test]
fn texts_of_a_program_cannot_break_out_of_a_flowchart() {
    let source = "store s : causal;
        transaction t(log: handle<log<string>> in s) { log.append(\"\\\"]<b>#quot;`**x**\\n\"); }";
    let chart = explain::mermaid(&explained(source));
    let code = chart.lines().find(|line| line.contains("append")).unwrap();
    let label = code.trim().strip_prefix("t0p1[\"").and_then(|rest| rest.strip_suffix("\"]"));
    let label = label.unwrap_or_else(|| panic!("{code}"));
    let label = label.replace("<br>", "").replace("<b>", "").replace("</b>", "");
    assert!(!label.contains(['"', '<', '>', ']', '`', '*', '[']), "{label}");
    assert!(label.contains("#60;b#62;"), "{label}");
}

#[test]
fn endorsements_and_handed_on_values_are_listed() {
    let source = "store a : linearizable; store b : causal;
        transaction t(x: handle<counter> in a, ys: handle<list<int>> in b) {
            for y in endorse(linearizable, *ys) { x.add(y); }
            x.add(endorse(linearizable, ys.size()));
        }";
    let transactions = explained(source);
    assert_eq!(transactions[0].endorsements, 2);
    let handed: Vec<_> =
        transactions[0].phases[0].hands.iter().flat_map(|one| &one.values).collect();
    let turns: Vec<_> =
        handed.iter().map(|value| (&*value.name, &*value.ty, value.each_turn)).collect();
    assert_eq!(turns, [("turn", "bool", true), ("y", "int", true), ("endorsed", "int", false)]);
}

#[test]
fn variables_with_the_same_name_get_different_names() {
    let source = "store a : linearizable; store b : causal;
        transaction t(x: handle<counter> in a, y: handle<counter> in b) {
            { var n = x.value(); y.add(n); }
            { var n = x.value(); y.add(n); }
        }";
    let transactions = explained(source);
    let names = transactions[0].phases[0].hands.iter().flat_map(|one| &one.values);
    let names: std::collections::BTreeSet<_> = names.map(|value| &value.name).collect();
    assert_eq!(names.len(), 2);
}

#[test]
fn loops_are_shown_as_in_the_source() {
    let source = "store b : causal;
        transaction t(y: handle<counter> in b, xs: list<int>) {
            var ys = xs;
            var n = ys.len();
            var i = 0;
            var one = 1;
            while i < n { i += one; y.add(i); }
            for x in ys { y.add(x); }
        }";
    let code = explained(source)[0].phases[0].code.join("\n");
    for line in ["ys = xs;", "i = 0;", "while i < n {", "i = i + one;", "for x in ys {"] {
        assert!(code.contains(line), "'{line}' is not in\n{code}");
    }
}
