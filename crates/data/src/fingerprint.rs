use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Computes a hash of a sequence of byte strings: the XXH3-64 of each string, with the hash of the
/// strings before it as the seed (0 for the first). So the hash depends on
/// the boundaries between the strings.
///
/// The hash depends only on the strings: processes of other builds and platforms, and later
/// versions, compute the same.
#[derive(Clone, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Adds a byte string.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// Returns the hash of all strings so far; 0 if there were none.
    pub fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(strings: &[&[u8]]) -> u64 {
        let mut fingerprint = Fingerprint::default();
        strings.iter().for_each(|string| fingerprint.add(string));
        fingerprint.finish()
    }

    #[test]
    fn fingerprints_are_the_same_in_every_build() {
        assert_eq!(of(&[]), 0);
        // The value for an empty input in the test vectors of XXH3.
        assert_eq!(of(&[b""]), 0x2d06_8005_38d3_94c2);
        assert_eq!(of(&[b"a", b"key"]), 0x0fb9_792a_8a29_f960);
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    }
}
