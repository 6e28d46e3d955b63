//! Checks that modules with the same parent do not import one another in cycles.
//!
//! Parent and child may use each other, so `lib.rs` is never part of a cycle; neither are tests. A
//! re-exported item counts as part of the module that defines it.

mod modules;

use std::collections::{BTreeMap, BTreeSet};

use self::modules::{Crate, Reference};
use crate::finding::Finding;
use crate::tree::Text;

/// Uses between modules with the same parent, each with one location.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Reference>>;

/// Checks the sources of one crate, whose folder below `crates` is `folder`.
pub(crate) fn check(folder: &str, sources: &[Text]) -> Vec<Finding> {
    let source = Crate::read(&format!("crates/{folder}/src"), sources);
    let references = source.references();
    let by_parent = uses(&references);
    let cycles = by_parent
        .values()
        .flat_map(|uses| cycles(uses).into_iter().map(move |cycle| finding(uses, &cycle)));
    cycles.collect()
}

/// Returns the uses between modules, by their common parent.
fn uses(references: &[Reference]) -> BTreeMap<String, Uses<'_>> {
    let mut found: BTreeMap<String, Uses<'_>> = BTreeMap::new();
    for reference in references {
        let (from, to) = (&reference.from, &reference.to);
        let common = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        // One module contains the other.
        let (Some(user), Some(used)) = (from.get(common), to.get(common)) else { continue };
        let uses = found.entry(from[..common].join("::")).or_default();
        uses.entry(user).or_default().entry(used).or_insert(reference);
    }
    found
}

/// Returns the largest groups of modules that use one another, directly or indirectly.
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

/// Returns the modules that a module uses, directly or indirectly.
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

/// Creates the finding for a cycle, with each use within it.
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
    let fix = "move what several need to a module that needs none of them";
    let (_, _, first) = within[0];
    Finding::new(&first.file, first.line, what, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let text = |(path, content): &(&str, &str)| Text {
            path: format!("crates/x/src/{path}").into(),
            content: (*content).to_owned(),
        };
        let sources: Vec<Text> = sources.iter().map(text).collect();
        check("x", &sources).iter().map(ToString::to_string).collect()
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::B;\n");

    #[test]
    fn a_cycle_between_top_level_modules_is_found() {
        let cycle = [
            LIB,
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "pub struct B;\nfn f() { crate::c::g() }\n"),
        ];
        assert_eq!(found(&[&cycle[..], &[("c.rs", "")]].concat()), [""; 0]);
        let c = ("c.rs", "use crate::{\n    a::A,\n    d,\n};\n");
        let findings = found(&[&cycle[..], &[c]].concat());
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
        // References directly, through an import of the parent, by the full path, and from a child
        // module.
        for (path, content) in [
            ("a/one.rs", "use super::two::Two;\n"),
            ("a/one.rs", "use super::Two;\n"),
            ("a/one.rs", "fn f() -> crate::a::two::Two {}\n"),
            ("a/one/below.rs", "use super::super::two::Two;\n"),
        ] {
            let one = ("a/one.rs", "mod below;\n");
            let findings = found(&[lib, a, one, two, (path, content)]);
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
        assert_eq!(found(&sources), [""; 0]);
    }

    #[test]
    fn what_is_re_exported_belongs_to_where_it_is() {
        let sources = [
            LIB,
            ("a.rs", "use crate::B;\n"),
            ("b.rs", "use crate::a::A;\npub struct B;\n"),
            ("c.rs", ""),
        ];
        assert_eq!(found(&sources).len(), 1);
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
            assert_eq!(found(&[LIB, ("a.rs", content), tests, b]), [""; 0], "{content}");
        }
    }
}
