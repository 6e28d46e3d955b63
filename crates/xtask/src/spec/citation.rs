//! Citations in Rust sources.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::page::{Unit, range};
use crate::source::{Line, lines};
use crate::tree::Text;

/// Cited part of a paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CitedPart {
    Lines {
        unit: Unit,
        lines: RangeInclusive<u32>,
    },
    /// An algorithm, listing or figure. Lines of it may follow.
    Whole(Unit),
    Section(String),
}

/// A citation with its location.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Citation {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// Paper, if the comment names it.
    pub(super) paper: Option<String>,
    pub(super) place: CitedPart,
    pub(super) in_test: bool,
}

/// Words that may begin a sentence before a citation and are not names of papers.
const NO_PAPERS: &[&str] = &["As", "By", "From", "In", "See", "The", "Unlike", "With"];

/// Papers whose names are in capitals.
const IN_CAPITALS: &[&str] = &["IPA"];

/// Returns all citations in the comments and test names of a file.
pub(super) fn citations(file: &Text) -> Vec<Citation> {
    let in_tests = file.path.components().nth(2).is_some_and(|part| part.as_os_str() == "tests");
    let lines = lines(&file.content);
    let mut found = Vec::new();
    for block in blocks(&lines) {
        found.extend(block.citations());
    }
    for line in lines.iter().filter(|line| in_tests || line.in_test) {
        found.extend(in_name(&line.code).map(|place| (line.number, None, place)));
    }
    let citation = |(line, paper, place): (usize, Option<String>, CitedPart)| Citation {
        file: file.path.clone(),
        line,
        paper,
        place,
        in_test: in_tests || lines[line - 1].in_test,
    };
    found.into_iter().map(citation).collect()
}

/// A paragraph of comment as one text, because a citation may continue in the next line.
#[derive(Debug, Default)]
struct Block {
    text: String,
    /// Offset of each line in the text, and its number.
    begins: Vec<(usize, usize)>,
}

fn blocks(lines: &[Line]) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    for line in lines {
        let alone = line.code.trim().is_empty();
        if line.comment.trim().is_empty() || !alone {
            blocks.push(Block::default());
        }
        if let Some(block) = blocks.last_mut() {
            block.begins.push((block.text.len(), line.number));
            block.text.push_str(line.comment.trim());
            block.text.push(' ');
        }
        if !alone {
            blocks.push(Block::default());
        }
    }
    blocks
}

impl Block {
    /// Finds the citations. `Alg. 1 l. 2–3, 19–20` cites two ranges; a later `l. 19–22` in the same
    /// paragraph refers to the same algorithm, listing or figure, and a named paper applies until
    /// another one is named.
    fn citations(&self) -> Vec<(usize, Option<String>, CitedPart)> {
        let mut found = Vec::new();
        let (mut paper, mut unit) = (None, None);
        let mut at = 0;
        while let Some((start, mark)) = next_mark(&self.text, at) {
            at = start + mark.len();
            let rest = &self.text[at..];
            if mark != "l. "
                && let Some(named) = paper_before(&self.text[..start])
            {
                paper = Some(named.to_owned());
            }
            let places: Vec<CitedPart> = match (mark, unit) {
                ("§", _) => section(rest).into_iter().collect(),
                ("l. ", Some(unit)) => {
                    let ranges = ranges(rest).into_iter();
                    ranges.map(|lines| CitedPart::Lines { unit, lines }).collect()
                }
                ("l. ", None) => Vec::new(),
                _ => {
                    unit = leading_number(rest).and_then(|number| Unit::marked(mark, number));
                    unit.map(CitedPart::Whole).into_iter().collect()
                }
            };
            let line = self.line_at(start);
            found.extend(places.into_iter().map(|place| (line, paper.clone(), place)));
        }
        found
    }

    fn line_at(&self, offset: usize) -> usize {
        let line = self.begins.iter().rev().find(|(begin, _)| *begin <= offset);
        line.map_or(1, |(_, number)| *number)
    }
}

/// Finds the next mark of a citation from `from` on that is not the end of a longer word.
fn next_mark(text: &str, from: usize) -> Option<(usize, &'static str)> {
    let first = |mark: &'static str| {
        let mut places = text[from..].match_indices(mark).map(|(at, _)| from + at);
        places.find(|at| !text[..*at].ends_with(char::is_alphanumeric)).map(|at| (at, mark))
    };
    Unit::MARKS.into_iter().chain(["l. ", "§"]).filter_map(first).min()
}

/// Returns the paper named just before a citation: a capitalised word, except other names in
/// capitals, which are those of message handlers.
fn paper_before(text: &str) -> Option<&str> {
    let word = text.strip_suffix(' ')?.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let name = word.starts_with(char::is_uppercase)
        && word.contains(char::is_lowercase)
        && !NO_PAPERS.contains(&word);
    (name || IN_CAPITALS.contains(&word)).then_some(word)
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn section(text: &str) -> Option<CitedPart> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].trim_end_matches('.');
    (!number.is_empty()).then(|| CitedPart::Section(number.to_owned()))
}

/// Parses `2–3, 19–20 and 37`.
fn ranges(mut text: &str) -> Vec<RangeInclusive<u32>> {
    let mut found = Vec::new();
    loop {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '–' && c != '-');
        let (number, rest) = text.split_at(end.unwrap_or(text.len()));
        let Some(lines) = range(number.trim_end_matches(['–', '-'])) else { return found };
        found.push(lines);
        let Some(next) = rest.strip_prefix(", ").or_else(|| rest.strip_prefix(" and ")) else {
            return found;
        };
        text = next;
    }
}

/// Parses the citation in the name of a test: `alg_1_l_49_to_52_barriers_wait`, or with `list` or
/// `fig`.
fn in_name(code: &str) -> Option<CitedPart> {
    let name = code.split("fn ").nth(1)?.split('(').next()?;
    let words: Vec<&str> = name.split('_').collect();
    (0..words.len()).find_map(|at| lines_in_name(&words[at..]))
}

/// Parses words that begin with a citation: `alg`, `1`, `l`, `49`, `to`, `52`.
fn lines_in_name(words: &[&str]) -> Option<CitedPart> {
    let mut words = words.iter().copied();
    let unit = Unit::in_name(words.next()?, words.next()?.parse().ok()?)?;
    words.next().filter(|word| *word == "l")?;
    let first = words.next()?;
    let last = words.next().filter(|word| *word == "to").and_then(|_| words.next());
    let lines = range(&format!("{first}-{}", last.unwrap_or(first)))?;
    Some(CitedPart::Lines { unit, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, content: &str) -> Vec<(usize, Option<String>, CitedPart)> {
        let file = Text { path: path.into(), content: content.to_owned() };
        citations(&file).into_iter().map(|c| (c.line, c.paper, c.place)).collect()
    }

    fn cited(content: &str) -> Vec<(u32, RangeInclusive<u32>)> {
        let places = found("crates/a/src/b.rs", content).into_iter();
        places
            .filter_map(|(_, _, place)| match place {
                CitedPart::Lines { unit: Unit::Algorithm(number), lines } => Some((number, lines)),
                _ => None,
            })
            .collect()
    }

    fn places(content: &str) -> Vec<CitedPart> {
        found("crates/a/src/b.rs", content).into_iter().map(|(_, _, place)| place).collect()
    }

    /// Returns the papers of the citations of lines and sections.
    fn papers(content: &str) -> Vec<Option<String>> {
        let found = found("crates/a/src/b.rs", content).into_iter();
        let parts = found.filter(|(_, _, place)| !matches!(place, CitedPart::Whole(_)));
        parts.map(|(_, paper, _)| paper).collect()
    }

    #[test]
    fn lines_are_read() {
        assert_eq!(
            cited("/// START_TX (Alg. 1 l. 2–3, 19; Alg. 2 l. 7).\n"),
            [(1, 2..=3), (1, 19..=19), (2, 7..=7)]
        );
        assert_eq!(cited("// Alg. 2 l. 1–26 and 37–38).\n"), [(2, 1..=26), (2, 37..=38)]);
        assert_eq!(cited("// Alg. 2 l. 4, and so on (l. 19).\n"), [(2, 4..=4), (2, 19..=19)]);
        assert_eq!(cited("x(); // Alg. 1 l. 9\n"), [(1, 9..=9)]);
    }

    #[test]
    fn listings_and_figures_are_read() {
        let (listing, figure) = (Unit::Listing(2), Unit::Figure(4));
        assert_eq!(
            places("// Occult List. 2 l. 3–8, as in Fig. 4 (l. 11).\n"),
            [
                CitedPart::Whole(listing),
                CitedPart::Lines { unit: listing, lines: 3..=8 },
                CitedPart::Whole(figure),
                CitedPart::Lines { unit: figure, lines: 11..=11 },
            ]
        );
        assert_eq!(places("// MixT Fig. 8, §4\n")[0], CitedPart::Whole(Unit::Figure(8)));
        assert_eq!(places("// Sends the List. It ends.\n"), []);
    }

    #[test]
    fn a_citation_may_go_on_in_the_next_line_but_not_beyond_the_paragraph() {
        assert_eq!(cited("/// Alg. 1 l. 2–3,\n/// 37–38\n"), [(1, 2..=3), (1, 37..=38)]);
        assert_eq!(cited("/// Alg. 2 sends\n/// (l. 6)\n"), [(2, 6..=6)]);
        assert_eq!(cited("/// Alg. 2 sends\nfn a() {}\n// l. 6\n"), []);
        assert_eq!(cited("/// Alg. 2 sends\n///\n/// l. 6\n"), []);
        assert_eq!(cited("// Alg. 2 sends\nx(); // l. 6\n"), []);
        assert_eq!(cited("// et al. 9\n"), []);
    }

    #[test]
    fn code_cites_nothing() {
        assert_eq!(cited("let a = \"Alg. 1 l. 9\";\n"), []);
        assert_eq!(cited("fn alg_1_l_9_x() {}\n"), []);
    }

    #[test]
    fn papers_are_named_before() {
        let unistore = Some("UniStore".to_owned());
        assert_eq!(papers("// UniStore Alg. 1 l. 5, §4\n"), [unistore.clone(), unistore]);
        assert_eq!(papers("// START_TX Alg. 1 l. 5 (§4)\n"), [None, None]);
        assert_eq!(papers("// See Alg. 1 l. 5\n"), [None]);
        assert_eq!(papers("// Occult §5.1.\n"), [Some("Occult".to_owned())]);
        assert_eq!(papers("// (IPA §3.4)\n"), [Some("IPA".to_owned())]);
    }

    #[test]
    fn tests_cite_by_their_names() {
        let lines = |content: &str| found("crates/a/tests/b.rs", content).pop().map(|(_, _, p)| p);
        let place = |unit, lines| Some(CitedPart::Lines { unit, lines });
        let (first, second) = (Unit::Algorithm(1), Unit::Algorithm(2));
        assert_eq!(lines("fn alg_1_l_49_to_52_barriers() {\n"), place(first, 49..=52));
        assert_eq!(lines("    fn alg_2_l_3_known_vec() {\n"), place(second, 3..=3));
        assert_eq!(lines("fn list_2_l_24_locked() {\n"), place(Unit::Listing(2), 24..=24));
        assert_eq!(lines("fn in_fig_3_l_9_to_17() {\n"), place(Unit::Figure(3), 9..=17));
        assert_eq!(lines("fn algebra() {\n"), None);
        assert_eq!(lines("fn a_list_of_1_l() {\n"), None);
    }
}
