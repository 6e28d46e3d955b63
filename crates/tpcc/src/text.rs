//! Random texts (clause 4.3.2).

use std::sync::Arc;

use solera_random::Random;

/// 64 characters, so that 6 bits choose one. Two letters appear twice.
const CHARACTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ez";

/// Syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Returns a random alphanumeric text with `least` to `most` characters.
pub(crate) fn alphanumeric(random: &mut Random, least: usize, most: usize) -> Box<str> {
    let length = least + random.index(most - least + 1);
    let mut text = String::with_capacity(length);
    while text.len() < length {
        // One number has enough bits for ten characters.
        let number = random.draw();
        let count = (length - text.len()).min(10);
        let character = |at| CHARACTERS[(number >> (6 * at) & 63) as usize];
        text.extend((0..count).map(|at| char::from(character(at))));
    }
    text.into_boxed_str()
}

/// Returns a random text of `length` digits, at most 18.
pub(crate) fn digits(random: &mut Random, length: usize) -> String {
    let number = random.below(10_u64.pow(length as u32));
    format!("{number:0length$}")
}

/// Returns the last name that is made of a number below 1,000.
pub(crate) fn last_name(number: u16) -> Arc<str> {
    let syllable = |unit: u16| SYLLABLES[usize::from(number / unit % 10)];
    [syllable(100), syllable(10), syllable(1)].concat().into()
}
