//! The words of a line, with what reads them one after the other.

use std::iter::Peekable;
use std::str::FromStr;
use std::vec::IntoIter;

use super::Reason;
use super::words::Word;

/// The remaining words of a line.
pub(crate) struct Line {
    pub(crate) words: Peekable<IntoIter<Word>>,
    /// Number of sites, if an earlier line gave it.
    pub(super) sites: Option<usize>,
}

impl Line {
    pub(crate) fn new(words: Vec<Word>, sites: Option<usize>) -> Line {
        Line { words: words.into_iter().peekable(), sites }
    }

    pub(crate) fn number<N: FromStr>(&mut self, what: &'static str) -> Result<N, Reason> {
        let word = self.bare(what)?;
        word.parse().or_else(|_| expected(what, &word))
    }

    pub(crate) fn texts(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(Word::Bare(text) | Word::Quoted(text)) =
            self.words.next_if(|word| !matches!(word, Word::Sign(_)))
        {
            texts.push(text);
        }
        texts
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<String, Reason> {
        match self.words.next() {
            Some(Word::Bare(text) | Word::Quoted(text)) => Ok(text),
            other => unexpected(what, other),
        }
    }

    pub(crate) fn bare(&mut self, what: &'static str) -> Result<String, Reason> {
        match self.words.next() {
            Some(Word::Bare(text)) => Ok(text),
            other => unexpected(what, other),
        }
    }

    pub(crate) fn next_bare(&mut self) -> Option<String> {
        self.bare("").ok()
    }

    pub(crate) fn sign(&mut self, sign: char, what: &'static str) -> Result<(), Reason> {
        match self.words.next() {
            Some(Word::Sign(found)) if found == sign => Ok(()),
            other => unexpected(what, other),
        }
    }

    pub(crate) fn takes(&mut self, sign: char) -> bool {
        self.words.next_if_eq(&Word::Sign(sign)).is_some()
    }

    pub(crate) fn end(&mut self) -> Result<(), Reason> {
        self.words.next().map_or(Ok(()), |word| unexpected("the end of the line", Some(word)))
    }
}

pub(crate) fn expected<T>(what: &'static str, found: &str) -> Result<T, Reason> {
    Err(Reason::Expected { what, found: found.to_owned() })
}

pub(crate) fn unexpected<T>(what: &'static str, found: Option<Word>) -> Result<T, Reason> {
    match found {
        None => expected(what, ""),
        Some(Word::Sign(sign)) => expected(what, &sign.to_string()),
        Some(Word::Bare(text)) => expected(what, &text),
        Some(Word::Quoted(text)) => expected(what, &format!("\"{text}\"")),
    }
}
