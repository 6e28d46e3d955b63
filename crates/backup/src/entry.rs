//! Keys and what they hold.

use ring::digest::{Context, SHA256};
use serde::Serialize;

/// What a key holds, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A string, or a number.
    String(Vec<u8>),
    /// The elements of a set.
    Set(Vec<Vec<u8>>),
    /// The fields of a hash and their values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Content {
    /// How many strings, elements or fields.
    pub fn len(&self) -> usize {
        match self {
            Content::String(_) => 1,
            Content::Set(elements) => elements.len(),
            Content::Hash(pairs) => pairs.len(),
        }
    }

    /// Whether it holds nothing, as no key does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number for the type, for files and digests.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Content::String(_) => 1,
            Content::Set(_) => 2,
            Content::Hash(_) => 3,
        }
    }
}

/// A key, or a further part of the last one: large sets and hashes come in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Whether the last entry was of the same key.
    pub continued: bool,
    /// What it holds, or a part of that.
    pub content: Content,
}

/// How much there is, and what, whatever its order and its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Keys that hold strings.
    pub strings: u64,
    /// Keys that hold sets.
    pub sets: u64,
    /// Keys that hold hashes.
    pub hashes: u64,
    /// Elements of all sets.
    pub elements: u64,
    /// Fields of all hashes.
    pub fields: u64,
    /// Bytes of keys, values, elements and fields.
    pub bytes: u64,
    /// The sum, modulo 2^128, of the digests of all strings, elements and fields with their keys.
    #[serde(skip)]
    pub(crate) digest: u128,
}

impl Tally {
    /// All keys.
    pub fn keys(&self) -> u64 {
        self.strings + self.sets + self.hashes
    }

    pub(crate) fn add(&mut self, entry: &Entry) {
        let fresh = u64::from(!entry.continued);
        self.bytes += if entry.continued { 0 } else { entry.key.len() as u64 };
        let count = entry.content.len() as u64;
        match &entry.content {
            Content::String(value) => {
                self.strings += fresh;
                self.add_item(entry, &[value]);
            }
            Content::Set(elements) => {
                self.sets += fresh;
                self.elements += count;
                elements.iter().for_each(|element| self.add_item(entry, &[element]));
            }
            Content::Hash(pairs) => {
                self.hashes += fresh;
                self.fields += count;
                pairs.iter().for_each(|(field, value)| self.add_item(entry, &[field, value]));
            }
        }
    }

    fn add_item(&mut self, entry: &Entry, parts: &[&[u8]]) {
        let mut context = Context::new(&SHA256);
        context.update(&[entry.content.kind()]);
        for part in [entry.key.as_slice()].iter().chain(parts) {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        self.bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let digest = context.finish();
        let half = digest.as_ref().first_chunk::<16>().expect("it has 32 bytes");
        self.digest = self.digest.wrapping_add(u128::from_le_bytes(*half));
    }
}
