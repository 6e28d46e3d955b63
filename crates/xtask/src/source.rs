//! Scans Rust source line by line, and separates code, comments, and test code.
//!
//! A scanner for comments, strings and brackets is sufficient for rules about words, and unlike a
//! parser it does not fail on new syntax.

/// One line of a source file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Line number, from 1.
    pub(crate) number: usize,
    /// Code without comments and without the content of strings.
    pub(crate) code: String,
    /// Comment without its marker.
    pub(crate) comment: String,
    /// Whether the line is within an item under `#[cfg(test)]`.
    pub(crate) in_test: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(usize),
    Text,
    /// Ends with a quote and this number of hashes.
    RawText(usize),
}

/// Splits a file into lines.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut mode = Mode::Code;
    let mut lines: Vec<Line> = Vec::new();
    for (index, content) in text.lines().enumerate() {
        let mut line = Line { number: index + 1, ..Line::default() };
        mode = split(content, mode, &mut line);
        lines.push(line);
    }
    mark_tests(&mut lines);
    lines
}

/// Splits one line; returns the mode at the beginning of the next one.
fn split(content: &str, mut mode: Mode, line: &mut Line) -> Mode {
    let mut rest = content;
    while let Some(next) = rest.chars().next() {
        let taken = match mode {
            Mode::Code => code(rest, next, &mut mode, line),
            Mode::LineComment => {
                line.comment.push_str(rest);
                rest.len()
            }
            Mode::BlockComment(depth) => block_comment(rest, next, depth, &mut mode, line),
            Mode::Text => match next {
                '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                '"' => {
                    mode = Mode::Code;
                    1
                }
                _ => next.len_utf8(),
            },
            Mode::RawText(hashes) => {
                let end = format!("\"{}", "#".repeat(hashes));
                if rest.starts_with(&end) {
                    mode = Mode::Code;
                    end.len()
                } else {
                    next.len_utf8()
                }
            }
        };
        rest = &rest[taken..];
    }
    if mode == Mode::LineComment { Mode::Code } else { mode }
}

/// Scans one token of code; returns its length.
fn code(rest: &str, next: char, mode: &mut Mode, line: &mut Line) -> usize {
    if rest.starts_with("//") {
        *mode = Mode::LineComment;
        return rest.len() - rest.trim_start_matches(['/', '!']).len();
    }
    if rest.starts_with("/*") {
        *mode = Mode::BlockComment(1);
        return 2;
    }
    if next == '"' {
        *mode = Mode::Text;
        return 1;
    }
    let after_name = line.code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if !after_name && let Some((length, hashes)) = raw_text(rest) {
        *mode = Mode::RawText(hashes);
        return length;
    }
    if next == '\''
        && let Some(length) = character(rest)
    {
        return length;
    }
    line.code.push(next);
    next.len_utf8()
}

/// Returns the length of `r#"` or `br#"` at the beginning, and the number of its hashes.
fn raw_text(rest: &str) -> Option<(usize, usize)> {
    let after = rest.strip_prefix('r').or_else(|| rest.strip_prefix("br"))?;
    let quote = after.trim_start_matches('#');
    let hashes = after.len() - quote.len();
    quote.starts_with('"').then_some((rest.len() - quote.len() + 1, hashes))
}

/// Returns the length of a character literal at the beginning; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut inside = rest[1..].chars();
    match inside.next()? {
        '\\' => rest[3..].find('\'').map(|at| at + 4),
        other => (inside.next() == Some('\'')).then_some(2 + other.len_utf8()),
    }
}

fn block_comment(rest: &str, next: char, depth: usize, mode: &mut Mode, line: &mut Line) -> usize {
    if rest.starts_with("*/") {
        *mode = if depth == 1 { Mode::Code } else { Mode::BlockComment(depth - 1) };
        2
    } else if rest.starts_with("/*") {
        *mode = Mode::BlockComment(depth + 1);
        2
    } else {
        line.comment.push(next);
        next.len_utf8()
    }
}

/// Marks the lines of items under `#[cfg(test)]`, up to the end of their block or their semicolon.
fn mark_tests(lines: &mut [Line]) {
    let whole = lines.iter().any(|line| line.code.trim_start().starts_with("#![cfg(test)]"));
    let mut depth: Option<i32> = None;
    for line in lines {
        let begins = depth.is_none() && for_tests(&line.code);
        if begins {
            depth = Some(0);
        }
        line.in_test = whole || depth.is_some();
        for c in line.code.chars() {
            depth = match (depth, c) {
                (Some(depth), '(' | '[' | '{') => Some(depth + 1),
                (Some(depth), ')' | ']') => Some(depth - 1),
                (Some(depth), '}') if depth > 1 => Some(depth - 1),
                (Some(_), '}') | (Some(0), ';') => None,
                (other, _) => other,
            };
        }
    }
}

fn for_tests(code: &str) -> bool {
    let Some(condition) = code.split("#[cfg(").nth(1) else { return false };
    !condition.contains("not(test") && mentions(condition, "test")
}

/// Returns whether `code` contains `word` as a whole word, not within a longer name.
pub(crate) fn mentions(code: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let longer_before = before.ends_with(in_name) && word.starts_with(in_name);
        let longer_after = after.starts_with(in_name) && word.ends_with(in_name);
        !longer_before && !longer_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        assert_eq!(code_of("let a = 1; // std::fs"), ["let a = 1; "]);
        assert_eq!(code_of("f(\"std::fs // \\\" x\"); g()"), ["f(); g()"]);
        assert_eq!(code_of("f(r#\"a \" // b\"#); g()"), ["f(); g()"]);
        assert_eq!(code_of("a /* b /* c\n d */ e */ f"), ["a ", " f"]);
        assert_eq!(code_of("a(\"b\nc\nd\"); e"), ["a(", "", "); e"]);
    }

    #[test]
    fn characters_and_lifetimes_are_distinguished() {
        assert_eq!(code_of("if c == '\"' { x }"), ["if c ==  { x }"]);
        assert_eq!(code_of("if c == '\\'' { x }"), ["if c ==  { x }"]);
        assert_eq!(code_of("fn f<'a>(x: &'a str) {}"), ["fn f<'a>(x: &'a str) {}"]);
        assert_eq!(code_of("let r#type = '–';"), ["let r#type = ;"]);
    }

    #[test]
    fn comments_are_kept_apart() {
        let found = lines("//! Alg. 1\nx(); // why\n");
        assert_eq!(found[0].comment, " Alg. 1");
        assert_eq!(found[1].comment, " why");
    }

    #[test]
    fn test_items_end_where_their_block_ends() {
        let text =
            "a();\n#[cfg(test)]\nmod tests {\n fn x() {}\n}\nb();\n#[cfg(test)]\nmod t;\nc();\n";
        let tests: Vec<bool> = lines(text).iter().map(|line| line.in_test).collect();
        assert_eq!(tests, [false, true, true, true, true, false, true, true, false]);
        assert!(!lines("#[cfg(not(test))]\nmod a {}\n")[1].in_test);
        assert!(lines("#[cfg(all(test, unix))]\nuse a::b;\n")[1].in_test);
    }

    #[test]
    fn a_word_is_not_part_of_a_name() {
        assert!(mentions("x = Instant::now();", "Instant::now"));
        assert!(!mentions("x = MyInstant::now();", "Instant::now"));
        assert!(!mentions("std::netlike", "std::net"));
    }
}
