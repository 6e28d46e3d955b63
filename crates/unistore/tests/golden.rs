//! The bytes of messages, records and parts do not change within a version.
//!
//! Samples are drawn as bytes and decoded, so that new variants and fields are drawn, too.
//! `tests/golden` contains them with their meaning, because bytes alone would not show that two
//! numbers were exchanged. A change of an encoding has to raise its version in `PROTOCOL`, or may
//! only add variants after the last one. Then accept the new files:
//! `SOLERA_ACCEPT_GOLDEN=1 cargo test -p solera-unistore --test golden`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use data_encoding::HEXLOWER;
use solera_machine::Wire;
use solera_unistore::{Message, PROTOCOL, Part, Record};

/// Largest length of a sample.
const LONGEST: usize = 2000;
/// Number of draws for each variant.
const DRAWS: u64 = 6000;
/// Number of samples that are kept of each variant.
const KEPT: usize = 2;

/// A decoded sample: the bytes that were read, the name of its variant, and its `Debug` text.
struct Sample {
    bytes: Vec<u8>,
    name: String,
    words: String,
}

/// Draws bytes that are mostly small numbers, because lengths and variants are numbers, too.
fn draw(seed: u64, variant: u8) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(variant) << 32);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let small = [0, 0, 1, 1, 1, 2, 3, 4][(word >> 61) as usize];
        if word.is_multiple_of(16) { (word >> 32) as u8 % 24 } else { small }
    };
    std::iter::once(variant).chain(std::iter::repeat_with(&mut next).take(LONGEST)).collect()
}

fn words(value: &impl Debug) -> (String, String) {
    let words = format!("{value:?}");
    let mut names = words.split(|letter: char| !letter.is_alphanumeric());
    let mut next = || names.next().unwrap_or_default().to_owned();
    let name = match next() {
        service if service == "Certification" => format!("{service} {}", next()),
        name => name,
    };
    (name, words)
}

fn message(bytes: &[u8]) -> Option<Sample> {
    let (message, _) = Message::decode(PROTOCOL, bytes)?;
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let (name, words) = (message.name().to_owned(), words(&message).1);
    Some(Sample { bytes, name, words })
}

fn with_header(bytes: &[u8]) -> Vec<u8> {
    [&PROTOCOL.record_header(), bytes].concat()
}

/// Searches for the right length, because a record has to use all bytes.
fn of_length<T: Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Option<T>,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> Option<Sample> {
    let value = (1..300).find_map(|length| decode(&with_header(&bytes[..length])))?;
    let mut bytes = Vec::new();
    encode(&value, &mut bytes);
    let (name, words) = words(&value);
    Some(Sample { bytes, name, words })
}

fn record(bytes: &[u8]) -> Option<Sample> {
    of_length(bytes, |bytes| Record::decode(bytes).ok(), Record::encode)
}

fn part(bytes: &[u8]) -> Option<Sample> {
    of_length(bytes, |bytes| Part::decode(bytes).ok(), Part::encode)
}

/// Returns the samples of all variants as text, and the number of variants, without and with those
/// of certification.
fn samples(decode: impl Fn(&[u8]) -> Option<Sample>) -> (String, u8, usize) {
    let (mut text, mut all) = (String::new(), 0);
    for variant in 0..=u8::MAX {
        let drawn: Vec<Sample> =
            (0..DRAWS).filter_map(|seed| decode(&draw(seed, variant))).collect();
        if drawn.is_empty() {
            return (text, variant, all);
        }
        let names: BTreeSet<&str> = drawn.iter().map(|sample| sample.name.as_str()).collect();
        all += names.len();
        for name in names {
            let mut of_name: Vec<&Sample> = drawn.iter().filter(|it| it.name == name).collect();
            // Prefers samples near 80 bytes: longer ones cover more, but are harder to read.
            of_name.sort_by_key(|sample| sample.bytes.len().abs_diff(80));
            for Sample { bytes, name, words } in of_name.into_iter().take(KEPT) {
                let hex = HEXLOWER.encode(bytes);
                text += &format!("{name} {hex}\n    {words}\n");
            }
        }
    }
    panic!("there are too many variants");
}

fn judge(name: &str, variants: (u8, usize), decode: impl Fn(&[u8]) -> Option<Sample>) {
    let (found, own, all) = samples(decode);
    assert_eq!((own, all), variants, "variants of {name}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("SOLERA_ACCEPT_GOLDEN").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let differ = kept.lines().zip(found.lines()).find(|(kept, found)| kept != found);
    assert!(
        kept == found,
        "the encoding of {name} has changed: raise its version\n{differ:#?}\n{} and {} lines",
        kept.lines().count(),
        found.lines().count()
    );
}

#[test]
fn messages_keep_their_encoding() {
    judge("messages-2", (29, 47), message);
}

#[test]
fn records_keep_their_encoding() {
    judge("records-1", (15, 19), record);
}

#[test]
fn parts_keep_their_encoding() {
    judge("parts-1", (7, 11), part);
}

/// Encodings outside the supported versions are rejected, and so is the variant after the last.
#[test]
fn the_variant_after_the_last_is_rejected() {
    assert!(message(&draw(0, 29)).is_none() && record(&draw(0, 15)).is_none());
}
