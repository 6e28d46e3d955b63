//! A page of `docs/spec`: one paper's algorithms, line by line.
//!
//! - ``Cited as: `UniStore` `` names the paper in citations.
//! - ``At home in: `crates/unistore`, …`` lists folders in which a citation need not name the
//!   paper.
//! - ``Sections: 1, 2, 2.1, …`` lists what `§` may cite.
//! - Rows `| Alg. 1 | 18–25 | … |` fix the lines. A text that begins with `departure:` describes
//!   lines that the implementation replaces, and one that begins with `later:` describes lines that
//!   are not implemented. Such lines need not be cited.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::finding::Finding;
use crate::tree::Text;

/// Whether a line must be cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    /// The implementation differs from the paper.
    Departure,
    /// Not built yet.
    Later,
}

/// Content of a page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) path: PathBuf,
    pub(super) paper: String,
    /// Folders in which a citation without a paper refers to this one.
    pub(super) homes: Vec<PathBuf>,
    pub(super) sections: BTreeSet<String>,
    /// Lines, by algorithm and number.
    pub(super) lines: BTreeMap<(u32, u32), Due>,
}

impl Page {
    /// Reads a page, with findings about its rows. Returns `None` for a page without `Cited as`.
    pub(super) fn read(text: &Text) -> (Option<Page>, Vec<Finding>) {
        let header = |name: &str| text.content.lines().find_map(|line| line.strip_prefix(name));
        let Some(paper) = header("Cited as: ").and_then(|rest| quoted(rest).next()) else {
            return (None, Vec::new());
        };
        let mut page = Page {
            path: text.path.clone(),
            paper: paper.to_owned(),
            homes: header("At home in: ").into_iter().flat_map(quoted).map(PathBuf::from).collect(),
            sections: header("Sections: ")
                .into_iter()
                .flat_map(|rest| rest.split(','))
                .map(|section| section.trim().trim_end_matches('.').to_owned())
                .collect(),
            lines: BTreeMap::new(),
        };
        let rows = (1..).zip(text.content.lines()).filter(|(_, line)| line.starts_with("| Alg. "));
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
        let algorithm = cells.next().and_then(|cell| cell.strip_prefix("Alg. ")?.parse().ok());
        let lines = cells.next().and_then(range);
        let (Some(algorithm), Some(lines), Some(text)) = (algorithm, lines, cells.next()) else {
            return Err("the row fixes no lines".to_owned());
        };
        let due = match text {
            text if text.starts_with("departure:") => Due::Departure,
            text if text.starts_with("later:") => Due::Later,
            _ => Due::Now,
        };
        for line in lines {
            if self.lines.insert((algorithm, line), due).is_some() {
                return Err(format!("Alg. {algorithm} l. {line} stands twice"));
            }
        }
        Ok(())
    }

    /// Reports algorithms whose lines are not consecutive from 1.
    fn gaps(&self) -> Vec<Finding> {
        let missing = self.lines.keys().filter(|(algorithm, line)| {
            *line != 1 && !self.lines.contains_key(&(*algorithm, line - 1))
        });
        missing
            .map(|(algorithm, line)| {
                let what = format!("Alg. {algorithm} has no row for l. {}", line - 1);
                Finding::new(&self.path, 1, what, "give every line a row")
            })
            .collect()
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
                ((1, 1), Due::Now),
                ((1, 2), Due::Now),
                ((1, 3), Due::Departure),
                ((2, 1), Due::Later)
            ]
        );
    }

    #[test]
    fn gaps_repetitions_and_bad_rows_are_found() {
        let faults = |rows: &str| read(&format!("Cited as: `P`\n{rows}")).1.len();
        assert_eq!(faults("| Alg. 1 | 1–2 | a |\n| Alg. 1 | 4 | b |\n"), 1);
        assert_eq!(faults("| Alg. 1 | 1–2 | a |\n| Alg. 1 | 2 | b |\n"), 1);
        assert_eq!(faults("| Alg. one | 1 | a |\n"), 1);
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
