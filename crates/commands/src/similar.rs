//! Suggestions for misspelt names.

use strsim::osa_distance;

/// Length in letters above which names are not compared; no command is longer.
const LONGEST: usize = 32;

/// Returns the name that is most similar to `name`, ignoring case, if `name` may be a misspelling
/// of it: at most one letter in three is missing, added, wrong, or exchanged with the next.
pub fn similar<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let length = name.chars().count();
    if length > LONGEST {
        return None;
    }
    let near = names.into_iter();
    let near = near.map(|other| (osa_distance(&name, &other.to_ascii_lowercase()), other));
    near.filter(|(slips, _)| *slips <= length.div_ceil(3))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_no_far_one() {
        let names = ["set", "get", "decr", "decrby", "incrby", "sismember", "smembers"];
        for (name, meant) in [
            ("DECBY", Some("decrby")),
            ("gte", Some("get")),
            ("decrbyy", Some("decrby")),
            ("ismember", Some("sismember")),
            ("inkrby", Some("incrby")),
            ("lpush", None),
            ("", None),
            ("a name that is longer than any command's", None),
        ] {
            assert_eq!(similar(name, names), meant, "{name}");
        }
    }
}
