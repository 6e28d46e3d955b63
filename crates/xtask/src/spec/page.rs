//! A page of `docs/spec`: one paper's algorithms, listings and figures, line by line.
//!
//! - ``Cited as: `UniStore` `` names the paper in citations.
//! - ``At home in: `crates/unistore`, …`` lists folders in which a citation need not name the
//!   paper.
//! - ``Sections: 1, 2, 2.1, …`` lists what `§` may cite, and ``Figures: 1, 2, …`` what `Fig.` may
//!   cite.
//! - Rows `| Alg. 1 | 18–25 | … |` fix the lines of an algorithm; `List.` and `Fig.` stand for
//!   listings and figures. A row `| §4.2 | … |` requires citations of a section. A text that begins
//!   with `departure:` describes lines that the implementation replaces, and one that begins with
//!   `later:` describes lines that are not implemented. The text of a blank line is `empty`. These
//!   need not be cited.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::finding::Finding;
use crate::tree::Text;

/// Part of a paper that has numbered lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Algorithm(u32),
    Listing(u32),
    Figure(u32),
}

impl Unit {
    /// Marks of units in citations and rows.
    pub(super) const MARKS: [&'static str; 3] = ["Alg. ", "List. ", "Fig. "];

    /// Returns the unit that a citation names with one of [`MARKS`](Self::MARKS).
    pub(super) fn marked(mark: &str, number: u32) -> Option<Unit> {
        Unit::in_name(&mark.strip_suffix(". ")?.to_lowercase(), number)
    }

    /// Returns the unit that a test's name cites as `alg_1`, `list_1` or `fig_1`.
    pub(super) fn in_name(word: &str, number: u32) -> Option<Unit> {
        match word {
            "alg" => Some(Unit::Algorithm(number)),
            "list" => Some(Unit::Listing(number)),
            "fig" => Some(Unit::Figure(number)),
            _ => None,
        }
    }

    /// Parses the first cell of a row.
    fn parse(cell: &str) -> Option<Unit> {
        Unit::MARKS.into_iter().find_map(|mark| {
            let number = cell.strip_prefix(mark)?.parse().ok()?;
            Unit::marked(mark, number)
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Algorithm(number) => write!(f, "Alg. {number}"),
            Unit::Listing(number) => write!(f, "List. {number}"),
            Unit::Figure(number) => write!(f, "Fig. {number}"),
        }
    }
}

/// Whether a line or section must be cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    /// The implementation differs from the paper.
    Departure,
    /// Not built yet.
    Later,
    /// A blank line.
    Empty,
}

/// Content of a page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) path: PathBuf,
    pub(super) paper: String,
    /// Folders in which a citation without a paper refers to this one.
    pub(super) homes: Vec<PathBuf>,
    pub(super) sections: BTreeSet<String>,
    /// Figures; empty if the page does not list them.
    figures: BTreeSet<u32>,
    /// Lines, by unit and number.
    pub(super) lines: BTreeMap<(Unit, u32), Due>,
    /// Sections with rows.
    pub(super) described: BTreeMap<String, Due>,
}

impl Page {
    /// Reads a page, with findings about its rows. Returns `None` for a page without `Cited as`.
    pub(super) fn read(text: &Text) -> (Option<Page>, Vec<Finding>) {
        let header = |name: &str| text.content.lines().find_map(|line| line.strip_prefix(name));
        let Some(paper) = header("Cited as: ").and_then(|rest| quoted(rest).next()) else {
            return (None, Vec::new());
        };
        let listed = |name: &str| {
            let entries = header(name).into_iter().flat_map(|rest| rest.split(','));
            entries.map(|entry| entry.trim().trim_end_matches('.').to_owned()).collect::<Vec<_>>()
        };
        let mut page = Page {
            path: text.path.clone(),
            paper: paper.to_owned(),
            homes: header("At home in: ").into_iter().flat_map(quoted).map(PathBuf::from).collect(),
            sections: listed("Sections: ").into_iter().collect(),
            figures: listed("Figures: ").iter().filter_map(|entry| entry.parse().ok()).collect(),
            lines: BTreeMap::new(),
            described: BTreeMap::new(),
        };
        let rows = (1..).zip(text.content.lines()).filter(|(_, line)| is_row(line));
        let mut faults: Vec<Finding> = rows
            .filter_map(|(number, row)| {
                let what = page.add(row).err()?;
                Some(Finding::new(&text.path, number, what, "write `| Alg. 1 | 18–25 | text |`"))
            })
            .collect();
        faults.extend(page.gaps());
        (Some(page), faults)
    }

    fn add(&mut self, row: &str) -> Result<(), String> {
        let mut cells = row.trim().trim_matches('|').split('|').map(str::trim);
        let first = cells.next().unwrap_or_default();
        if let Some(section) = first.strip_prefix('§') {
            return self.describe(section, cells.next().unwrap_or_default());
        }
        let lines = cells.next().and_then(range);
        let (Some(unit), Some(lines), Some(text)) = (Unit::parse(first), lines, cells.next())
        else {
            return Err("the row fixes no lines".to_owned());
        };
        for line in lines {
            if self.lines.insert((unit, line), due(text)).is_some() {
                return Err(format!("{unit} l. {line} stands twice"));
            }
        }
        Ok(())
    }

    /// Adds the row of a section.
    fn describe(&mut self, section: &str, text: &str) -> Result<(), String> {
        if !self.sections.contains(section) {
            return Err(format!("§{section} is not among the sections of the paper"));
        }
        match self.described.insert(section.to_owned(), due(text)) {
            None => Ok(()),
            Some(_) => Err(format!("§{section} stands twice")),
        }
    }

    /// Returns whether the paper has a section. A page without a list accepts all.
    pub(super) fn has_section(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.contains(section)
    }

    /// Returns whether the paper has a unit. A page without a list of figures accepts all figures.
    pub(super) fn has_unit(&self, unit: Unit) -> bool {
        let has_lines = self.lines.contains_key(&(unit, 1));
        match unit {
            Unit::Figure(number) => {
                has_lines || self.figures.is_empty() || self.figures.contains(&number)
            }
            Unit::Algorithm(_) | Unit::Listing(_) => has_lines,
        }
    }

    /// Reports units whose lines are not consecutive from 1.
    fn gaps(&self) -> Vec<Finding> {
        let missing = self
            .lines
            .keys()
            .filter(|(unit, line)| *line != 1 && !self.lines.contains_key(&(*unit, line - 1)));
        missing
            .map(|(unit, line)| {
                let what = format!("{unit} has no row for l. {}", line - 1);
                Finding::new(&self.path, 1, what, "give every line a row")
            })
            .collect()
    }
}

/// Returns whether a line is a row that fixes lines or describes a section. A row of a figure whose
/// second cell is text describes the whole figure, and fixes nothing.
fn is_row(line: &str) -> bool {
    let Some(cells) = line.strip_prefix("| ") else { return false };
    if cells.starts_with("Fig. ") {
        let second = cells.split('|').nth(1).unwrap_or_default();
        return second.trim().starts_with(|c: char| c.is_ascii_digit());
    }
    cells.starts_with("Alg. ") || cells.starts_with("List. ") || cells.starts_with('§')
}

/// Returns whether the text of a row requires citations.
fn due(text: &str) -> Due {
    match text {
        text if text.starts_with("departure:") => Due::Departure,
        text if text.starts_with("later:") => Due::Later,
        "empty" => Due::Empty,
        _ => Due::Now,
    }
}

/// Iterates over the texts between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Maximum length of a range; longer ones are typing errors.
const LONGEST: u32 = 1000;

/// Parses `18`, `18–25` or `18-25`.
pub(super) fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once(['–', '-']).unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (0 < first && first <= last && last - first < LONGEST).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> (Option<Page>, Vec<Finding>) {
        Page::read(&Text { path: "docs/spec/paper.md".into(), content: content.to_owned() })
    }

    #[test]
    fn a_page_fixes_lines_homes_and_sections() {
        let (page, faults) = read(
            "Cited as: `Paper`\nAt home in: `crates/a`, `crates/b`\nSections: 1, 2, 2.1\n\
             | Alg. 1 | 1–2 | begins |\n| Alg. 1 | 3 | departure: no |\n| Alg. 2 | 1 | later: yes |\n",
        );
        let page = page.unwrap();
        assert_eq!(faults, []);
        assert_eq!(page.paper, "Paper");
        assert_eq!(page.homes, [PathBuf::from("crates/a"), PathBuf::from("crates/b")]);
        assert!(page.sections.contains("2.1") && !page.sections.contains("2.2"));
        let lines: Vec<_> = page.lines.into_iter().collect();
        assert_eq!(
            lines,
            [
                ((Unit::Algorithm(1), 1), Due::Now),
                ((Unit::Algorithm(1), 2), Due::Now),
                ((Unit::Algorithm(1), 3), Due::Departure),
                ((Unit::Algorithm(2), 1), Due::Later)
            ]
        );
    }

    #[test]
    fn listings_figures_and_sections_have_rows() {
        let (page, faults) = read(
            "Cited as: `Paper`\nSections: 1, 2.1\nFigures: 2, 3\n| List. 1 | 1 | begins |\n\
             | List. 1 | 2 | empty | |\n| Fig. 3 | 1 | departure: no |\n| Fig. 4 | a whole figure |\n| §2.1 | later: yes |\n",
        );
        let page = page.unwrap();
        assert_eq!(faults, []);
        let lines: Vec<_> =
            page.lines.keys().map(|(unit, line)| format!("{unit}.{line}")).collect();
        assert_eq!(lines, ["List. 1.1", "List. 1.2", "Fig. 3.1"]);
        assert_eq!(page.lines[&(Unit::Listing(1), 2)], Due::Empty);
        assert_eq!(page.described, BTreeMap::from([("2.1".to_owned(), Due::Later)]));
        let known = [Unit::Listing(1), Unit::Figure(2), Unit::Figure(3)];
        assert!(known.into_iter().all(|unit| page.has_unit(unit)));
        let unknown = [Unit::Listing(2), Unit::Figure(4), Unit::Algorithm(1)];
        assert!(!unknown.into_iter().any(|unit| page.has_unit(unit)));
    }

    #[test]
    fn gaps_repetitions_and_bad_rows_are_found() {
        let faults = |rows: &str| read(&format!("Cited as: `P`\n{rows}")).1.len();
        assert_eq!(faults("| Alg. 1 | 1–2 | a |\n| Alg. 1 | 4 | b |\n"), 1);
        assert_eq!(faults("| Alg. 1 | 1–2 | a |\n| Alg. 1 | 2 | b |\n"), 1);
        assert_eq!(faults("| Alg. one | 1 | a |\n"), 1);
        assert_eq!(faults("| List. 1 | a |\n"), 1);
        assert_eq!(faults("| Fig. 1 | 1 | a |\n| Fig. 1 | 3 | a |\n"), 1);
        assert_eq!(faults("| §7 | a |\n"), 1);
        assert_eq!(faults("Sections: 7\n| §7 | a |\n| §7 | b |\n"), 1);
        assert_eq!(faults("| Alg. 1 | 2–1 | a |\n"), 1);
        assert!(read("# No paper\n").0.is_none());
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("18–25"), Some(18..=25));
        assert_eq!(range("18-25"), Some(18..=25));
        assert_eq!(range("7"), Some(7..=7));
        assert_eq!(range("0"), None);
        assert_eq!(range("1–4000000000"), None);
        assert_eq!(range("x"), None);
    }
}
