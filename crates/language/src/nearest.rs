//! Suggestions for misspelt names.

use strsim::osa_distance;

/// Returns the known name with the smallest edit distance, if it is close enough to be a
/// misspelling: the distance is at most a third of the longer name. An edit changes, inserts or
/// deletes a letter, or swaps two neighbours.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.get(..64).unwrap_or(name);
    let near = known.into_iter().map(|known| (osa_distance(name, known), known));
    let (distance, known) = near.min()?;
    (distance <= name.len().max(known.len()) / 3).then_some(known)
}
