//! `cargo xtask spec`: citations of the papers.
//!
//! Comments cite `UniStore Alg. 1 l. 18–25` and `UniStore §5.3`. Names of tests may cite as well:
//! `alg_1_l_49_to_52_…`. Each page `docs/spec/*.md` lists the lines of one paper's algorithms. A
//! citation of a line that does not exist is an error; lines without citations or tests are
//! reported.

mod citation;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::finding::Finding;
use crate::tree::{self, Text};
use citation::{Citation, CitedPart};
use page::{Due, Page};

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

/// Citations of the lines of one paper.
#[derive(Debug, Default)]
struct Cited {
    by_code: BTreeSet<(u32, u32)>,
    by_tests: BTreeSet<(u32, u32)>,
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
        let place = format!("{}:{}", citation.file.display(), citation.line);
        match (meant(pages, citation), &citation.place) {
            (None, place_in_paper) => {
                let paper = citation.paper.as_deref().unwrap_or("no paper");
                // A cited section gives the source of an idea; only lines are checked against a
                // page.
                if matches!(place_in_paper, CitedPart::Lines { .. }) {
                    judged.notes.push(format!("{place}: cites {paper}, which has no page"));
                }
            }
            (Some(page), CitedPart::Section(section)) => {
                if !page.sections.is_empty() && !page.sections.contains(section) {
                    judged.notes.push(format!("{place}: {} has no §{section}", page.paper));
                }
            }
            (Some(page), CitedPart::Lines { algorithm, lines }) => {
                let cited = judged.cited.entry(&page.paper).or_default();
                for line in lines.clone() {
                    if !page.lines.contains_key(&(*algorithm, line)) {
                        let what = format!("{} has no Alg. {algorithm} l. {line}", page.paper);
                        let fix = format!("compare with {}", page.path.display());
                        judged.findings.push(Finding::new(
                            &citation.file,
                            citation.line,
                            what,
                            fix,
                        ));
                        // Reports one finding per citation, however long its range.
                        break;
                    }
                    let by =
                        if citation.in_test { &mut cited.by_tests } else { &mut cited.by_code };
                    by.insert((*algorithm, line));
                }
            }
        }
    }
    judged
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
    let of = |due: Due| page.lines.iter().filter(move |(_, d)| **d == due).map(|(line, _)| *line);
    let uncited: Vec<_> = of(Due::Now).filter(|line| !cited.by_code.contains(line)).collect();
    let untested: Vec<_> = of(Due::Now).filter(|line| !cited.by_tests.contains(line)).collect();
    let (departures, later): (Vec<_>, Vec<_>) =
        (of(Due::Departure).collect(), of(Due::Later).collect());
    let total = of(Due::Now).count();
    let mut text = format!(
        "{}: {} of {total} lines cited by code, {} by tests\n",
        page.paper,
        total - uncited.len(),
        total - untested.len()
    );
    let lists = [
        ("no code cites", uncited),
        ("no test cites", untested),
        ("departures", departures),
        ("not built yet", later),
    ];
    for (name, lines) in lists.iter().filter(|(_, lines)| !lines.is_empty()) {
        text.push_str(&format!("  {name}: {}\n", ranges(lines)));
    }
    text
}

/// Formats sorted lines as `Alg. 1 l. 2–3, 7; Alg. 2 l. 4`.
fn ranges(lines: &[(u32, u32)]) -> String {
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for &(algorithm, line) in lines {
        match runs.last_mut() {
            Some((same, _, last)) if *same == algorithm && *last + 1 == line => *last = line,
            _ => runs.push((algorithm, line, line)),
        }
    }
    let mut text = String::new();
    let mut current = None;
    for (algorithm, first, last) in runs {
        if current == Some(algorithm) {
            text.push_str(", ");
        } else {
            text.push_str(if text.is_empty() { "" } else { "; " });
            text.push_str(&format!("Alg. {algorithm} l. "));
            current = Some(algorithm);
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

    const PAGE: &str = "# A paper\n\nCited as: `Paper`\nAt home in: `crates/a`\n\n\
        | Alg. 1 | 1–3 | begins |\n| Alg. 1 | 4 | departure: not needed |\n| Alg. 2 | 1 | later: ends |\n";

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
    }

    #[test]
    fn what_nobody_cites_or_tests_is_reported() {
        let pages = pages();
        let mut cites = citation::citations(&text("crates/a/src/x.rs", "// Alg. 1 l. 1–2\n"));
        cites.extend(citation::citations(&text("crates/a/tests/x.rs", "// Alg. 1 l. 2\n")));
        let judged = judge(&pages, &cites);
        assert_eq!(
            report(&pages[0], judged.cited.get("Paper")),
            "Paper: 2 of 3 lines cited by code, 1 by tests\n  no code cites: Alg. 1 l. 3\n  \
             no test cites: Alg. 1 l. 1, 3\n  departures: Alg. 1 l. 4\n  \
             not built yet: Alg. 2 l. 1\n"
        );
    }

    #[test]
    fn the_pages_of_this_repository_are_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let texts = tree::texts(&root, "docs/spec");
        let (page, faults) =
            Page::read(texts.iter().find(|t| t.path.ends_with("unistore.md")).unwrap());
        assert_eq!(faults, []);
        let lines: Vec<(u32, u32)> = page.unwrap().lines.into_keys().collect();
        assert_eq!(ranges(&lines), "Alg. 1 l. 1–52; Alg. 2 l. 1–38; Alg. 3 l. 1–10");
    }

    #[test]
    fn every_page_of_this_repository_has_homes_and_sections() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let texts = tree::texts(&root, "docs/spec");
        let pages = texts.iter().filter(|text| text.has_extension("md"));
        let pages: Vec<Page> = pages.filter_map(|text| Page::read(text).0).collect();
        assert_eq!(pages.len(), 2);
        for page in pages {
            assert!(page.homes.iter().all(|home| root.join(home).is_dir()), "{:?}", page.homes);
            assert!(page.homes.len() > 1 && page.sections.len() > 1, "{page:?}");
        }
    }
}
