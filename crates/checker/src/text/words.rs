//! Splits a line into words: bare, quoted, or a single sign.

use std::fmt;

/// Signs that are words by themselves.
const SIGNS: &str = "|@=~!?[](){}<>";

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// One of the signs.
    Sign(char),
    /// Letters, digits and a few more characters.
    Bare(String),
    /// Any text, between quotes in the line.
    Quoted(String),
}

/// Error of splitting a line into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadWord {
    /// A character that must be quoted.
    Unquoted(char),
    /// A quote that does not end on the line.
    OpenQuote,
    /// A backslash before a character other than `\`, `"`, `n`, `r` or `t`.
    Escape,
}

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadWord::Unquoted(character) => write!(f, "{character:?} must be quoted"),
            BadWord::OpenQuote => write!(f, "a quote does not end"),
            BadWord::Escape => write!(f, "unknown escape; there are \\\\ \\\" \\n \\r \\t"),
        }
    }
}

fn is_bare(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-.:+/*".contains(character)
}

/// Formats a string as a word: bare if possible. The bare word `nil` means no value, so the string
/// "nil" is quoted.
pub(crate) fn word(text: &str) -> String {
    if !text.is_empty() && text != "nil" && text.chars().all(is_bare) {
        return text.to_owned();
    }
    quote(text)
}

/// Formats a string between quotes.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Splits a line into words. `#` outside quotes begins a comment.
pub(crate) fn split(line: &str) -> Result<Vec<Word>, BadWord> {
    let mut words = Vec::new();
    let mut rest = line.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '#' => break,
            '"' => words.push(Word::Quoted(quoted(&mut rest)?)),
            _ if character.is_whitespace() => {}
            _ if SIGNS.contains(character) => words.push(Word::Sign(character)),
            _ if is_bare(character) => {
                let mut bare = String::from(character);
                while let Some(more) = rest.next_if(|next| is_bare(*next)) {
                    bare.push(more);
                }
                words.push(Word::Bare(bare));
            }
            other => return Err(BadWord::Unquoted(other)),
        }
    }
    Ok(words)
}

fn quoted(rest: &mut impl Iterator<Item = char>) -> Result<String, BadWord> {
    let mut text = String::new();
    loop {
        match rest.next().ok_or(BadWord::OpenQuote)? {
            '"' => return Ok(text),
            '\\' => text.push(match rest.next().ok_or(BadWord::OpenQuote)? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                same @ ('\\' | '"') => same,
                _ => return Err(BadWord::Escape),
            }),
            other => text.push(other),
        }
    }
}
