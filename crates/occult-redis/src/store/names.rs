//! Keys of named objects, which transactions store besides data.
//!
//! A key of the cluster ends up in the slot of its tag, the first `{…}` in it. The tag of a write
//! witness is the key of its object. The tag of a recovery record, commit witness or mark is the
//! transaction's number. A transaction thus locks fewer slots.

/// Start of these keys, after the prefix of the space.
pub(super) const RESERVED: &str = "solera:";
/// Prefix of the names that can be listed: those of recovery records.
pub(super) const LISTED: &str = "r:";
/// Number of sets that list the recovery records of a space. With several sets, few transactions
/// compete for one.
const INDEXES: usize = 16;

/// Returns the key of a named object.
pub(super) fn key(prefix: &str, name: &str) -> String {
    let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
    let (tag, rest) = match kind {
        "w" => (format!("{prefix}{rest}"), ""),
        _ => {
            let (number, rest) = rest.split_once(':').unwrap_or((rest, ""));
            (number.to_owned(), rest)
        }
    };
    // Braces in the prefix or in the object's key are a tag already.
    if tag.is_empty() || prefix.contains(['{', '}']) || tag.contains(['{', '}']) {
        return format!("{prefix}{RESERVED}mixt::{name}");
    }
    format!("{prefix}{RESERVED}mixt:{{{tag}}}{kind}:{rest}")
}

/// Returns the key of the set that lists a recovery record.
pub(super) fn index(prefix: &str, record: &str) -> String {
    let sum = record.bytes().fold(0_usize, |sum, byte| sum + usize::from(byte));
    numbered(prefix, sum % INDEXES)
}

/// Returns the keys of the sets that list the recovery records of a space.
pub(super) fn indexes(prefix: &str) -> impl Iterator<Item = String> {
    (0..INDEXES).map(move |number| numbered(prefix, number))
}

fn numbered(prefix: &str, number: usize) -> String {
    format!("{prefix}{RESERVED}mixt:records:{number}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::slot::slot_of;

    #[test]
    fn witnesses_lie_beside_their_objects() {
        let slot = |key: &str| slot_of(key.as_bytes());
        for (prefix, object) in [("p:", "k"), ("p:", "a{b}c"), ("{p}:", "k"), ("", "x:y")] {
            let witness = key(prefix, &format!("w:{object}"));
            assert_eq!(slot(&witness), slot(&format!("{prefix}{object}")), "{witness}");
        }
        let of_one = ["c:00ff", "r:00ff", "d:00ff:2"].map(|name| slot(&key("p:", name)));
        assert!(of_one.iter().all(|each| *each == of_one[0]));
    }

    #[test]
    fn no_two_names_have_one_key() {
        let names =
            ["w:k", "w:p:k", "w:{p:k}", "w:{p:k}w:", "w:", "a", "c:1", "r:1", "d:1:2", "d:1:"];
        let keys: BTreeSet<String> = names.iter().map(|name| key("p:", name)).collect();
        assert_eq!(keys.len(), names.len(), "{keys:?}");
        assert!(keys.is_disjoint(&indexes("p:").collect()));
    }
}
