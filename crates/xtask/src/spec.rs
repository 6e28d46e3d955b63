//! `cargo xtask spec`: citations of the papers.
//!
//! Comments cite `UniStore Alg. 1 l. 18–25`, `Occult List. 1 l. 5–7`, `Occult Fig. 3 l. 9` and
//! `UniStore §5.3`. Names of tests may cite lines as well: `alg_1_l_49_to_52_…`. Each page
//! `docs/spec/*.md` lists the lines of one paper's algorithms, listings and figures, and may list
//! its sections. A citation of what does not exist is an error; lines and listed sections without
//! citations or tests are reported.

mod citation;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::finding::Finding;
use crate::tree::{self, Text};
use citation::{Citation, CitedPart};
use page::{Due, Page, Unit};

/// Checks that cited lines exist, and reports lines without citations or tests.
pub(crate) fn check(root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut pages = Vec::new();
    for text in tree::texts(root, "docs/spec").iter().filter(|text| text.has_extension("md")) {
        let (page, faults) = Page::read(text);
        pages.extend(page);
        findings.extend(faults);
    }
    let citations: Vec<Citation> = sources(root).iter().flat_map(citation::citations).collect();
    let judged = judge(&pages, &citations);
    for page in &pages {
        print!("{}", report(page, judged.cited.get(page.paper.as_str())));
    }
    for note in &judged.notes {
        println!("  note: {note}");
    }
    findings.extend(judged.findings);
    findings
}

/// Returns sources and tests, except those of this crate, whose examples and tests contain
/// arbitrary citations.
fn sources(root: &Path) -> Vec<Text> {
    let all = tree::texts(root, "crates").into_iter();
    all.filter(|text| text.has_extension("rs") && !text.path.starts_with("crates/xtask")).collect()
}

/// Lines and sections of one paper that code, or tests, cite.
#[derive(Debug, Default)]
struct CitedBy {
    lines: BTreeSet<(Unit, u32)>,
    sections: BTreeSet<String>,
}

/// Citations of one paper.
#[derive(Debug, Default)]
struct Cited {
    code: CitedBy,
    tests: CitedBy,
}

#[derive(Debug, Default)]
struct Judged<'a> {
    findings: Vec<Finding>,
    /// Notes that are not errors.
    notes: Vec<String>,
    cited: BTreeMap<&'a str, Cited>,
}

fn judge<'a>(pages: &'a [Page], citations: &[Citation]) -> Judged<'a> {
    let mut judged = Judged::default();
    for citation in citations {
        let Some(page) = meant(pages, citation) else {
            let paper = citation.paper.as_deref().unwrap_or("no paper");
            // A cited section gives the source of an idea; only lines are checked against a page.
            if matches!(citation.place, CitedPart::Lines { .. }) {
                let place = format!("{}:{}", citation.file.display(), citation.line);
                judged.notes.push(format!("{place}: cites {paper}, which has no page"));
            }
            continue;
        };
        let cited = judged.cited.entry(&page.paper).or_default();
        let by = if citation.in_test { &mut cited.tests } else { &mut cited.code };
        if let Err(missing) = take(page, &citation.place, by) {
            let what = format!("{} has no {missing}", page.paper);
            let fix = format!("compare with {}", page.path.display());
            judged.findings.push(Finding::new(&citation.file, citation.line, what, fix));
        }
    }
    judged
}

/// Adds what is cited to `by`.
///
/// # Errors
/// The first part of it that the paper does not have. A long range is one error.
fn take(page: &Page, place: &CitedPart, by: &mut CitedBy) -> Result<(), String> {
    match place {
        CitedPart::Section(section) => {
            if !page.has_section(section) {
                return Err(format!("§{section}"));
            }
            by.sections.insert(section.clone());
        }
        CitedPart::Whole(unit) => {
            if !page.has_unit(*unit) {
                return Err(unit.to_string());
            }
        }
        // The unit itself is reported as a whole.
        CitedPart::Lines { unit, .. } if !page.has_unit(*unit) => {}
        CitedPart::Lines { unit, lines } => {
            for line in lines.clone() {
                if !page.lines.contains_key(&(*unit, line)) {
                    return Err(format!("{unit} l. {line}"));
                }
                by.lines.insert((*unit, line));
            }
        }
    }
    Ok(())
}

/// Returns the page of a citation: that of the paper it names, else that of its crate's own paper.
fn meant<'a>(pages: &'a [Page], citation: &Citation) -> Option<&'a Page> {
    match &citation.paper {
        Some(paper) => pages.iter().find(|page| page.paper == *paper),
        None => pages.iter().find(|page| page.homes.iter().any(|h| citation.file.starts_with(h))),
    }
}

fn report(page: &Page, cited: Option<&Cited>) -> String {
    let nobody = Cited::default();
    let cited = cited.unwrap_or(&nobody);
    let lines = Coverage::of(&page.lines, &cited.code.lines, &cited.tests.lines);
    let sections = Coverage::of(&page.described, &cited.code.sections, &cited.tests.sections);
    let mut text = lines.text(&page.paper, "lines", &ranges);
    if !page.described.is_empty() {
        let listed = |sections: &[String]| format!("§{}", sections.join(", §"));
        text.push_str(&sections.text(&page.paper, "sections", &listed));
    }
    text
}

/// Lines or sections of a page, by their citations.
struct Coverage<T> {
    /// Number of those that must be cited.
    total: usize,
    uncited: Vec<T>,
    untested: Vec<T>,
    departures: Vec<T>,
    later: Vec<T>,
}

impl<T: Clone + Ord> Coverage<T> {
    fn of(all: &BTreeMap<T, Due>, code: &BTreeSet<T>, tests: &BTreeSet<T>) -> Coverage<T> {
        let of = |due: Due| all.iter().filter(move |(_, d)| **d == due).map(|(part, _)| part);
        let without =
            |by: &BTreeSet<T>| of(Due::Now).filter(|part| !by.contains(part)).cloned().collect();
        Coverage {
            total: of(Due::Now).count(),
            uncited: without(code),
            untested: without(tests),
            departures: of(Due::Departure).cloned().collect(),
            later: of(Due::Later).cloned().collect(),
        }
    }

    /// Formats the numbers, and the parts that are not cited.
    fn text(&self, paper: &str, parts: &str, format: &dyn Fn(&[T]) -> String) -> String {
        let total = self.total;
        let mut text = format!(
            "{paper}: {} of {total} {parts} cited by code, {} by tests\n",
            total - self.uncited.len(),
            total - self.untested.len()
        );
        let lists = [
            ("no code cites", &self.uncited),
            ("no test cites", &self.untested),
            ("departures", &self.departures),
            ("not built yet", &self.later),
        ];
        for (name, parts) in lists.into_iter().filter(|(_, parts)| !parts.is_empty()) {
            text.push_str(&format!("  {name}: {}\n", format(parts)));
        }
        text
    }
}

/// Formats sorted lines as `Alg. 1 l. 2–3, 7; Alg. 2 l. 4`.
fn ranges(lines: &[(Unit, u32)]) -> String {
    let mut runs: Vec<(Unit, u32, u32)> = Vec::new();
    for &(unit, line) in lines {
        match runs.last_mut() {
            Some((same, _, last)) if *same == unit && *last + 1 == line => *last = line,
            _ => runs.push((unit, line, line)),
        }
    }
    let mut text = String::new();
    let mut current = None;
    for (unit, first, last) in runs {
        if current == Some(unit) {
            text.push_str(", ");
        } else {
            text.push_str(if text.is_empty() { "" } else { "; " });
            text.push_str(&format!("{unit} l. "));
            current = Some(unit);
        }
        text.push_str(&first.to_string());
        if last > first {
            text.push_str(&format!("–{last}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A paper\n\nCited as: `Paper`\nAt home in: `crates/a`\n\
        Sections: 1, 2, 3\nFigures: 1\n\n\
        | Alg. 1 | 1–3 | begins |\n| Alg. 1 | 4 | departure: not needed |\n| Alg. 2 | 1 | later: ends |\n\
        | List. 1 | 1–2 | goes on |\n| §1 | says |\n| §2 | says more |\n";

    fn text(path: &str, content: &str) -> Text {
        Text { path: path.into(), content: content.to_owned() }
    }

    fn pages() -> Vec<Page> {
        let (page, faults) = Page::read(&text("docs/spec/paper.md", PAGE));
        assert_eq!(faults, []);
        page.into_iter().collect()
    }

    fn findings(path: &str, content: &str) -> usize {
        judge(&pages(), &citation::citations(&text(path, content))).findings.len()
    }

    #[test]
    fn cited_lines_must_exist() {
        assert_eq!(findings("crates/b/src/x.rs", "// Paper Alg. 1 l. 2–4, Alg. 2 l. 1\n"), 0);
        assert_eq!(findings("crates/b/src/x.rs", "// Paper Alg. 1 l. 3–9\n"), 1);
        assert_eq!(findings("crates/b/src/x.rs", "// Paper Alg. 3 l. 1\n"), 1);
        assert_eq!(findings("crates/b/tests/x.rs", "fn alg_1_l_5_x() {}\n"), 0, "not at home");
        assert_eq!(findings("crates/a/tests/x.rs", "fn alg_1_l_5_x() {}\n"), 1);
        assert_eq!(findings("crates/a/src/x.rs", "// Other Alg. 1 l. 99\n"), 0);
        assert_eq!(findings("crates/a/src/x.rs", "// List. 1 l. 1–2, Fig. 1, §3\n"), 0);
        assert_eq!(findings("crates/a/src/x.rs", "// List. 1 l. 3\n// Fig. 2, §4\n"), 3);
    }

    #[test]
    fn what_nobody_cites_or_tests_is_reported() {
        let pages = pages();
        let code = "// Alg. 1 l. 1–2, List. 1 l. 1 (§2)\n";
        let mut cites = citation::citations(&text("crates/a/src/x.rs", code));
        cites.extend(citation::citations(&text("crates/a/tests/x.rs", "// Alg. 1 l. 2\n")));
        let judged = judge(&pages, &cites);
        assert_eq!(
            report(&pages[0], judged.cited.get("Paper")),
            "Paper: 3 of 5 lines cited by code, 1 by tests\n  \
             no code cites: Alg. 1 l. 3; List. 1 l. 2\n  \
             no test cites: Alg. 1 l. 1, 3; List. 1 l. 1–2\n  departures: Alg. 1 l. 4\n  \
             not built yet: Alg. 2 l. 1\n\
             Paper: 1 of 2 sections cited by code, 0 by tests\n  no code cites: §1\n  \
             no test cites: §1, §2\n"
        );
    }

    #[test]
    fn the_pages_of_this_repository_are_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let texts = tree::texts(&root, "docs/spec");
        let lines = |name: &str| {
            let (page, faults) = Page::read(texts.iter().find(|t| t.path.ends_with(name)).unwrap());
            assert_eq!(faults, []);
            ranges(&page.unwrap().lines.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(lines("unistore.md"), "Alg. 1 l. 1–52; Alg. 2 l. 1–38; Alg. 3 l. 1–10");
        assert_eq!(
            lines("occult.md"),
            "List. 1 l. 1–20; List. 2 l. 1–37; List. 3 l. 1–62; Fig. 3 l. 1–17; Fig. 4 l. 1–17"
        );
    }

    #[test]
    fn every_page_of_this_repository_has_homes_and_sections() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let texts = tree::texts(&root, "docs/spec");
        let pages = texts.iter().filter(|text| text.has_extension("md"));
        let pages: Vec<Page> = pages.filter_map(|text| Page::read(text).0).collect();
        assert_eq!(pages.len(), 5);
        for page in pages {
            assert!(page.homes.iter().all(|home| root.join(home).is_dir()), "{:?}", page.homes);
            assert!(!page.homes.is_empty() && page.sections.len() > 1, "{page:?}");
        }
    }
}
