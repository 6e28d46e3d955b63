//! Keys and their contents.

use ring::digest::{Context, SHA256};
use serde::Serialize;

/// Content of a key, as clients see it.
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
    /// Returns the number of strings, elements or fields.
    pub fn len(&self) -> usize {
        match self {
            Content::String(_) => 1,
            Content::Set(elements) => elements.len(),
            Content::Hash(pairs) => pairs.len(),
        }
    }

    /// Returns whether the content is empty. No key of a backup has empty content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a number for the type, for files and digests.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Content::String(_) => 1,
            Content::Set(_) => 2,
            Content::Hash(_) => 3,
        }
    }
}

/// A key with its content or with a part of it. Several entries in sequence contain the parts of a
/// large set or hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Whether the previous entry has the same key.
    pub continued: bool,
    /// The content, or a part of it.
    pub content: Content,
}

/// Counts and a digest of entries, independent of their order and their division into parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Number of keys that hold strings.
    pub strings: u64,
    /// Number of keys that hold sets.
    pub sets: u64,
    /// Number of keys that hold hashes.
    pub hashes: u64,
    /// Number of elements of all sets.
    pub elements: u64,
    /// Number of fields of all hashes.
    pub fields: u64,
    /// Number of bytes of keys, values, elements and fields.
    pub bytes: u64,
    /// Sum, modulo 2^128, of the digests of all strings, elements and fields with their keys.
    #[serde(skip)]
    pub(crate) digest: u128,
}

impl Tally {
    /// Returns the number of keys.
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
