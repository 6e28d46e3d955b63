//! Amounts of bytes in configurations.

use serde::Deserialize;

use crate::malformed::AMOUNTS;

const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// A number of bytes, or a text such as `"4 GiB"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Amount {
    Bytes(i64),
    Text(String),
}

impl Amount {
    /// Returns the number of bytes. `setting` is the name of the setting, for the error.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) fn bytes(&self, setting: &str) -> Result<u64, String> {
        let (found, shown) = match self {
            Amount::Bytes(bytes) => (u64::try_from(*bytes).ok(), bytes.to_string()),
            Amount::Text(text) => (in_words(text), format!("'{text}'")),
        };
        found.ok_or_else(|| format!("{setting}: {shown} is not an amount of bytes; {AMOUNTS}"))
    }
}

fn in_words(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_as_people_write_them() {
        for (text, bytes) in [
            ("7", Some(7)),
            ("7B", Some(7)),
            ("4GiB", Some(4 << 30)),
            ("4 gib", Some(4 << 30)),
            ("512 MB", Some(512_000_000)),
            ("", None),
            ("GiB", None),
            ("-1", None),
            ("1.5 GiB", None),
            ("4 GiBs", None),
            ("99999999999 GiB", None),
        ] {
            assert_eq!(Amount::Text(text.to_owned()).bytes("x").ok(), bytes, "{text}");
        }
        assert_eq!(Amount::Bytes(9).bytes("x"), Ok(9));
        assert!(Amount::Bytes(-9).bytes("x").unwrap_err().contains("x: -9 is not an amount"));
    }
}
