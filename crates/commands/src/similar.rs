//! Suggestions for misspelt names.

/// Length in letters above which names are not compared; no command is longer.
const LONGEST: usize = 32;

/// Returns the name that is most similar to `name`, ignoring case, if it is similar enough for a
/// slip: at most one letter in three is missing, added, wrong, or exchanged with the next.
pub fn similar<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |name: &str| name.to_ascii_lowercase().chars().collect::<Vec<_>>();
    let name = letters(name);
    if name.len() > LONGEST {
        return None;
    }
    let near = names.into_iter().map(|other| (slips(&name, &letters(other)), other));
    near.filter(|(slips, _)| *slips <= name.len().div_ceil(3))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, other)| other)
}

/// Returns how many letters must be inserted, removed, replaced, or exchanged with the next.
fn slips(one: &[char], other: &[char]) -> usize {
    // By row: the slips from the first letters of `one` to the first letters of `other`.
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
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
