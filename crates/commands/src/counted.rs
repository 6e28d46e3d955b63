//! Numbers with the nouns that they count.

use std::fmt::Display;

/// Returns a number with its noun, such as `1 site` or `2 sites`. `one` is the singular; its plural
/// must be regular.
pub fn counted(count: impl TryInto<u64> + Display + Copy, one: &str) -> String {
    let ending = match count.try_into() {
        Ok(1) => "",
        _ if one.ends_with(['h', 's']) => "es",
        _ => "s",
    };
    format!("{count} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!(counted(1, "site"), "1 site");
        assert_eq!(counted(0_u64, "key"), "0 keys");
        assert_eq!(counted(2_usize, "hash"), "2 hashes");
        assert_eq!(counted(1_u8, "hash"), "1 hash");
    }
}
