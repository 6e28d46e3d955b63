//! `cargo xtask spec`: citations of the papers.
//!
//! Code cites `UniStore Alg. 1 l. 18–25`. A page `docs/spec/NAME.md` fixes the lines of each algorithm
//! in rows `| Alg. 1 | 18–25 | … |`; a row whose text begins with `departure:` need not be cited.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::finding::{Finding, files, read};

/// Lines of each algorithm of one paper: whether somebody must cite them.
type Lines = BTreeMap<(u32, u32), bool>;

#[derive(Debug, PartialEq, Eq)]
struct Citation {
    file: PathBuf,
    line: usize,
    algorithm: u32,
    lines: RangeInclusive<u32>,
}

/// Checks that cited lines exist, and reports lines that nobody cites.
pub(crate) fn check() -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in files(Path::new("docs/spec"), "md") {
        let known = lines_of(&read(&page));
        let sources = files(Path::new("crates"), "rs");
        let citations: Vec<Citation> =
            sources.iter().flat_map(|file| citations(file, &read(file))).collect();
        for citation in &citations {
            for line in citation.lines.clone() {
                if !known.contains_key(&(citation.algorithm, line)) {
                    let what =
                        format!("{} has no Alg. {} l. {line}", page.display(), citation.algorithm);
                    let (file, line) = (citation.file.clone(), citation.line);
                    findings.push(Finding { file, line, what });
                }
            }
        }
        report(&page, &known, &citations);
    }
    findings
}

fn report(page: &Path, known: &Lines, citations: &[Citation]) {
    let cited = |algorithm: u32, line: u32| {
        citations.iter().any(|c| c.algorithm == algorithm && c.lines.contains(&line))
    };
    let uncited: Vec<String> = known
        .iter()
        .filter(|((algorithm, line), must)| **must && !cited(*algorithm, *line))
        .map(|((algorithm, line), _)| format!("Alg. {algorithm} l. {line}"))
        .collect();
    let total = known.values().filter(|must| **must).count();
    println!("{}: {} of {total} lines cited", page.display(), total - uncited.len());
    if !uncited.is_empty() {
        println!("  nobody cites {}", uncited.join(", "));
    }
}

fn lines_of(page: &str) -> Lines {
    let mut lines = Lines::new();
    for row in page.lines().filter(|line| line.starts_with("| Alg. ")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let algorithm = cells.next().and_then(|cell| cell.strip_prefix("Alg. ")?.parse().ok());
        let range = cells.next().and_then(range);
        let must = cells.next().is_some_and(|text| !text.starts_with("departure:"));
        if let (Some(algorithm), Some(range)) = (algorithm, range) {
            for line in range {
                lines.insert((algorithm, line), must);
            }
        }
    }
    lines
}

/// `Alg. 1 l. 2–3, 19–20` cites two ranges; so does `(l. 19–22)` after `Alg. 2` on the same line.
fn citations(file: &Path, text: &str) -> Vec<Citation> {
    let mut found = Vec::new();
    let mut algorithm = None;
    for (number, line) in text.lines().enumerate() {
        if !line.trim_start().starts_with("//") {
            algorithm = None;
            continue;
        }
        let mut rest = line;
        loop {
            let (next_alg, next_line) = (rest.find("Alg. "), rest.find("l. "));
            match (next_alg, next_line) {
                (Some(at), other) if other.is_none_or(|line| at < line) => {
                    rest = &rest[at + 5..];
                    algorithm = leading_number(rest);
                }
                (_, Some(at)) => {
                    rest = &rest[at + 3..];
                    let Some(algorithm) = algorithm else { continue };
                    let end = rest
                        .find(|c: char| !(c.is_ascii_digit() || "–, ".contains(c)))
                        .unwrap_or(rest.len());
                    for lines in rest[..end].split(',').filter_map(|part| range(part.trim())) {
                        let (file, line) = (file.to_owned(), number + 1);
                        found.push(Citation { file, line, algorithm, lines });
                    }
                }
                _ => break,
            }
        }
    }
    found
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn range(text: &str) -> Option<RangeInclusive<u32>> {
    match text.split_once('–') {
        Some((first, last)) => Some(first.parse().ok()?..=last.parse().ok()?),
        None => text.parse().ok().map(|line| line..=line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_read() {
        let text = "/// START_TX (UniStore Alg. 1 l. 2–3, 19; Alg. 2 l. 7).\nlet x = 1;\n// l. 9\n";
        let found = citations(Path::new("a.rs"), text);
        let lines: Vec<_> = found.into_iter().map(|c| (c.algorithm, c.lines)).collect();
        assert_eq!(lines, [(1, 2..=3), (1, 19..=19), (2, 7..=7)]);
    }

    #[test]
    fn a_page_fixes_the_lines() {
        let known = lines_of("| Alg. 1 | 1–2 | begins |\n| Alg. 1 | 3 | departure: not needed |\n");
        assert_eq!(known, BTreeMap::from([((1, 1), true), ((1, 2), true), ((1, 3), false)]));
    }
}
