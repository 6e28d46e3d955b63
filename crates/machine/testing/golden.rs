//! Compares the encodings of a protocol with the bytes that earlier builds wrote. Protocols include
//! this module in their tests.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::path::Path;

use data_encoding::HEXLOWER;

/// Compares samples with a file of the crate that includes this module, and checks that each of the
/// variants has a sample. `place` returns the number and the name of a sample's variant.
pub(crate) fn judge<T: Debug>(
    (name, variants): (&str, u8),
    samples: &[T],
    place: impl Fn(&T) -> (u8, &'static str),
    encode: impl Fn(&T, &mut Vec<u8>),
    decode: impl Fn(&[u8]) -> Option<T>,
) {
    let places: BTreeSet<u8> = samples.iter().map(|sample| place(sample).0).collect();
    assert!(places.into_iter().eq(0..variants), "variants of {name} without a sample");
    let mut found = String::new();
    for sample in samples {
        let mut bytes = Vec::new();
        encode(sample, &mut bytes);
        let hex = HEXLOWER.encode(&bytes);
        writeln!(found, "{}: {hex}\n    {sample:?}", place(sample).1).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let differ = kept.lines().zip(found.lines()).find(|(kept, found)| kept != found);
    assert!(kept == found, "the encoding of {name} has changed: raise its version\n{differ:#?}");
    // Earlier bytes must decode to the same values.
    for lines in kept.lines().collect::<Vec<_>>().chunks(2) {
        let (_, hex) = lines[0].split_once(": ").unwrap();
        let bytes = HEXLOWER.decode(hex.as_bytes()).unwrap();
        let decoded = decode(&bytes).map(|value| format!("    {value:?}"));
        assert_eq!(decoded.as_deref(), Some(lines[1]));
    }
}
