//! Modules import one another in one direction only: between modules with the same parent there is no
//! cycle.
//!
//! Parent and child may use each other, so `lib.rs` is never part of a cycle; neither are tests. What a
//! module re-exports counts as what it is re-exported from.

mod known;
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use self::known::KNOWN;
use self::modules::{Crate, Reference};
use crate::finding::Finding;
use crate::tree::Text;

/// What modules with the same parent use of one another, with one place for each.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Reference>>;

/// Findings in the sources of one crate, whose folder below `crates` is `folder`.
pub(crate) fn check(folder: &str, sources: &[Text]) -> Vec<Finding> {
    let known: Vec<(&str, &[&str])> = KNOWN
        .iter()
        .filter(|(crate_folder, ..)| *crate_folder == folder)
        .map(|(_, parent, members)| (*parent, *members))
        .collect();
    judge(folder, sources, &known)
}

fn judge(folder: &str, sources: &[Text], known: &[(&str, &[&str])]) -> Vec<Finding> {
    let source = Crate::read(&format!("crates/{folder}/src"), sources);
    let references = source.references();
    let by_parent = uses(&references);
    let mut findings = Vec::new();
    let mut in_cycles: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (parent, uses) in &by_parent {
        for cycle in cycles(uses) {
            in_cycles.extend(cycle.iter().map(|member| (parent.as_str(), *member)));
            let is_known = |(of, members): &(&str, &[&str])| {
                of == parent && cycle.iter().all(|member| members.contains(member))
            };
            if !known.iter().any(is_known) {
                findings.push(finding(uses, &cycle));
            }
        }
    }
    let listed = known.iter().flat_map(|(of, members)| members.iter().map(|it| (*of, *it)));
    findings.extend(listed.filter(|it| !in_cycles.contains(it)).map(|(parent, member)| {
        let separator = if parent.is_empty() { "" } else { "::" };
        let what =
            format!("module {parent}{separator}{member} of {folder} is in no cycle any more");
        let mend = "take it out of crates/xtask/src/tidy/cycles/known.rs";
        Finding::new(Path::new(&format!("crates/{folder}/src")), 1, what, mend)
    }));
    findings
}

/// By the parent of modules that use one another, what they use.
fn uses(references: &[Reference]) -> BTreeMap<String, Uses<'_>> {
    let mut found: BTreeMap<String, Uses<'_>> = BTreeMap::new();
    for reference in references {
        let (from, to) = (&reference.from, &reference.to);
        let common = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        // One contains the other.
        let (Some(user), Some(used)) = (from.get(common), to.get(common)) else { continue };
        let uses = found.entry(from[..common].join("::")).or_default();
        uses.entry(user).or_default().entry(used).or_insert(reference);
    }
    found
}

/// The largest groups of modules of which each uses each other one, if not at once.
fn cycles<'a>(uses: &Uses<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|from| (*from, reachable(uses, from))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (module, all) in &reached {
        if all.contains(module) && !found.iter().any(|cycle| cycle.contains(module)) {
            found.push(all.iter().copied().filter(|other| reaches(other, module)).collect());
        }
    }
    found
}

/// What a module uses, at once or through others.
fn reachable<'a>(uses: &Uses<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(module) = next.pop() {
        for used in uses.get(module).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(*used) {
                next.push(used);
            }
        }
    }
    found
}

/// Tells of a cycle, with each use within it.
fn finding(uses: &Uses<'_>, cycle: &BTreeSet<&str>) -> Finding {
    let within: Vec<(&str, &str, &Reference)> = cycle
        .iter()
        .filter_map(|user| Some((user, uses.get(user)?)))
        .flat_map(|(user, used)| used.iter().map(move |(used, at)| (*user, *used, *at)))
        .filter(|(_, used, _)| cycle.contains(used))
        .collect();
    let place = |(user, used, at): &(&str, &str, &Reference)| {
        format!("{user} uses {used} ({}:{})", at.file.display(), at.line)
    };
    let members = cycle.iter().copied().collect::<Vec<_>>().join(", ");
    let places = within.iter().map(place).collect::<Vec<_>>().join(", ");
    let what = format!("modules use one another in a cycle: {members}: {places}");
    let mend = "move what several need to a module that needs none of them";
    let (_, _, first) = within[0];
    Finding::new(&first.file, first.line, what, mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)], known: &[(&str, &[&str])]) -> Vec<String> {
        let text = |(path, content): &(&str, &str)| Text {
            path: format!("crates/x/src/{path}").into(),
            content: (*content).to_owned(),
        };
        let sources: Vec<Text> = sources.iter().map(text).collect();
        judge("x", &sources, known).iter().map(ToString::to_string).collect()
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::B;\n");

    #[test]
    fn a_cycle_between_top_level_modules_is_found() {
        let cycle = [
            LIB,
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "pub struct B;\nfn f() { crate::c::g() }\n"),
        ];
        assert_eq!(found(&[&cycle[..], &[("c.rs", "")]].concat(), &[]), [""; 0]);
        let c = ("c.rs", "use crate::{\n    a::A,\n    d,\n};\n");
        let findings = found(&[&cycle[..], &[c]].concat(), &[]);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(finding.starts_with(
            "crates/x/src/a.rs:1: modules use one another in a cycle: a, b, c: \
             a uses b (crates/x/src/a.rs:1), b uses c (crates/x/src/b.rs:2), c uses a (crates/x/src/c.rs:1); "
        ), "{finding}");
    }

    #[test]
    fn a_cycle_between_siblings_further_down_is_found() {
        let lib = ("lib.rs", "mod a;\n");
        let a = ("a.rs", "mod one;\nmod two;\nuse self::two::Two;\n");
        let two = ("a/two.rs", "use super::one::One;\npub struct Two;\n");
        // Directly, through what the parent imports, by the full path, and from below.
        for (path, content) in [
            ("a/one.rs", "use super::two::Two;\n"),
            ("a/one.rs", "use super::Two;\n"),
            ("a/one.rs", "fn f() -> crate::a::two::Two {}\n"),
            ("a/one/below.rs", "use super::super::two::Two;\n"),
        ] {
            let one = ("a/one.rs", "mod below;\n");
            let findings = found(&[lib, a, one, two, (path, content)], &[]);
            assert_eq!(findings.len(), 1, "{content}: {findings:?}");
            assert!(findings[0].contains("cycle: one, two:"), "{findings:?}");
        }
    }

    #[test]
    fn parents_and_their_children_may_use_each_other() {
        let sources = [
            ("lib.rs", "mod a;\nmod b;\nuse a::A;\nfn f(b: b::B) {}\n"),
            ("a.rs", "mod below;\nuse below::Below;\nuse crate::f;\n"),
            ("a/below.rs", "use super::A;\nuse crate::a;\nuse crate::f;\n"),
            ("b.rs", "use crate::f;\nuse crate::a::A;\n"),
        ];
        assert_eq!(found(&sources, &[]), [""; 0]);
    }

    #[test]
    fn what_is_re_exported_belongs_to_where_it_is() {
        let sources = [
            LIB,
            ("a.rs", "use crate::B;\n"),
            ("b.rs", "use crate::a::A;\npub struct B;\n"),
            ("c.rs", ""),
        ];
        assert_eq!(found(&sources, &[]).len(), 1);
    }

    #[test]
    fn tests_comments_and_texts_use_nothing() {
        let b = ("b.rs", "use crate::a::A;\n");
        for (content, tests) in [
            ("#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n", ""),
            ("#[cfg(test)]\nmod tests;\n", "use crate::b::B;\n"),
            ("/// See [`crate::b::B`].\nfn f() { g(\"crate::b::B\") }\n", ""),
        ] {
            let tests = ("a/tests.rs", tests);
            assert_eq!(found(&[LIB, ("a.rs", content), tests, b], &[]), [""; 0], "{content}");
        }
    }

    #[test]
    fn known_cycles_are_passed_over_and_must_shrink() {
        let sources = [LIB, ("a.rs", "use crate::b::B;\n"), ("b.rs", "use crate::a::A;\n")];
        assert_eq!(found(&sources, &[("", &["a", "b"])]), [""; 0]);
        assert_eq!(found(&sources, &[("a", &["a", "b"])]).len(), 3, "of another parent");
        let findings = found(&sources, &[("", &["a", "b", "c"])]);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(finding.contains("module c of x is in no cycle any more"), "{finding}");
    }
}
